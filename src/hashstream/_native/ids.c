/* The index of a table's ids: cells of an open-addressing table that hold slots (table/state/index.py says more). */
#include <stdint.h>

#include "cpu.h"

static const uint32_t EMPTY = 0xFFFFFFFFu, GONE = 0xFFFFFFFEu;

/* The cell where the search for a hash begins: its upper half, scaled to the number of cells. */
static inline int64_t home(uint64_t hash, int64_t n_cells) { return (int64_t)((hash >> 32) * (uint64_t)n_cells >> 32); }

static inline int64_t after(int64_t cell, int64_t n_cells) { return cell + 1 < n_cells ? cell + 1 : 0; }

/* Enter slots (n) with their hashes, none of whose ids is there; some cell must stay empty. */
HS_API void hs_ids_insert(uint32_t *cells, int64_t n_cells, const uint64_t *hashes, const int64_t *slots, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t at = home(hashes[i], n_cells);
        while (cells[at] != EMPTY)
            at = after(at, n_cells);
        cells[at] = (uint32_t)slots[i];
    }
}

/* For each of n ids its slot and its cell, -1 where it is not there. column: the ids by slot. */
HS_API void hs_ids_find(const uint32_t *cells, int64_t n_cells, const uint64_t *hashes, const int64_t *ids, int64_t n,
                        const int64_t *column, int64_t *slots, int64_t *where)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t at = home(hashes[i], n_cells);
        slots[i] = where[i] = -1;
        for (; cells[at] != EMPTY; at = after(at, n_cells))
            if (cells[at] != GONE && column[cells[at]] == ids[i]) {
                slots[i] = cells[at];
                where[i] = at;
                break;
            }
    }
}
