/* Fills the tables of a multi-index; see hamming_multi.c. */
#include <stdlib.h>

#include "hamming_multi.h"

static inline uint64_t hash_code(const uint8_t *code, int64_t width)
{
    uint64_t words[WORDS_MAX], hash = 0;
    const int64_t n = (width + 7) / 8;
    load_code(code, width, n, words);
    for (int64_t i = 0; i < n; i++) {
        hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return hash * 0xbf58476d1ce4e5b9u;
}

/* Link rows with equal codes. index->next: (n_codes) zeros; index->first: (n_codes), filled with the rows of distinct
 * codes, ascending. Returns their number, or -1 without memory. Row 0 is never the next one of another, so 0 is "none".
 * In the hash table each place holds the last row of a chain, plus one. */
HS_API int64_t hs_multi_link(multi *index)
{
    const int64_t n = index->n_codes, width = index->width;
    int bits = 4;
    while (((int64_t)1 << bits) < 2 * n)
        bits++;
    const uint64_t size = (uint64_t)1 << bits;
    uint32_t *places = calloc((size_t)size, sizeof *places);
    if (!places)
        return -1;
    int64_t distinct = 0;
    uint64_t ahead[AHEAD];
    for (int64_t row = -AHEAD; row < n; row++) {
        const uint64_t begin = row >= 0 ? ahead[row % AHEAD] : 0;
        if (row + AHEAD < n) {
            const uint64_t at = hash_code(index->codes + (row + AHEAD) * width, width) >> (64 - bits);
            ahead[(row + AHEAD) % AHEAD] = at;
            PREFETCH(places + at);
        }
        if (row < 0)
            continue;
        for (uint64_t at = begin;; at = (at + 1) & (size - 1)) {
            const uint32_t held = places[at];
            if (!held) {
                index->first[distinct++] = (uint32_t)row;
                places[at] = (uint32_t)row + 1;
                break;
            }
            if (!memcmp(index->codes + (held - 1) * (uint64_t)width, index->codes + row * width, (size_t)width)) {
                index->next[held - 1] = (uint32_t)row;
                places[at] = (uint32_t)row + 1;
                break;
            }
        }
    }
    free(places);
    return distinct;
}

/* Fill the table of one substring: `starts` must be zeros. Rows of a value stay in their order. */
HS_API void hs_multi_fill(multi *index, int64_t which)
{
    table *t = index->tables + which;
    const int64_t n = index->n_entries, width = index->width, values = (int64_t)1 << t->n_bits;
    const uint8_t *codes = index->codes;
    for (int64_t i = 0; i < n; i++) {
        const int64_t row = index->first ? index->first[i] : i;
        t->starts[value_of(t, codes + row * width, width) + 1]++;
    }
    for (int64_t v = 0; v < values; v++)
        t->starts[v + 1] += t->starts[v];
    for (int64_t i = n - 1; i >= 0; i--) { /* from the end: starts[v + 1] goes down to where v begins */
        const int64_t row = index->first ? index->first[i] : i;
        t->entries[--t->starts[value_of(t, codes + row * width, width) + 1]] = (uint32_t)row;
    }
    /* starts[v + 1] is now where v begins: shift by one. */
    memmove(t->starts, t->starts + 1, (size_t)values * sizeof *t->starts);
    t->starts[values] = (uint32_t)n;
}
