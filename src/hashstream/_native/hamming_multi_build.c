/* Fills the tables of a multi-index; see hamming_multi.c.
 *
 * Codes are sorted by hash, and then by place, by counting. With millions of places a count or a code in its place is a
 * miss of the cache each, so codes are divided by the first bits of their key before: what is left then fits.
 */
#include <stdlib.h>

#include "hamming_multi.h"

enum { DIVISION_BITS = 8, DIVISIONS = 1 << DIVISION_BITS, FETCH = 16 };

/* A value, whose lower bits are the key, and what it belongs to. */
typedef struct {
    uint32_t value, entry;
} pair;

/* What is sorted: the entries of a table by place, or, where there is none, rows by hash. */
typedef struct {
    const multi *index;
    const table *table;
    uint64_t seed;
    int64_t n;
    int bits; /* of a key */
} sorting;

static inline uint32_t key_of(const sorting *s, uint32_t value)
{
    return value & (((uint32_t)1 << s->bits) - 1);
}

static inline uint64_t hash_code(const uint8_t *code, int64_t width, uint64_t seed)
{
    uint64_t words[WORDS_MAX], hash = seed;
    const int64_t n = (width + 7) / 8;
    load_code(code, width, n, words);
    for (int64_t i = 0; i < n; i++) {
        hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return hash * 0xbf58476d1ce4e5b9u;
}

/* Go through all pairs: count them by division, or put each where its division goes on. */
static void divide(const sorting *s, int64_t *at, pair *to)
{
    const multi *index = s->index;
    const int64_t width = index->width, n = index->n_codes;
    const uint32_t *members = s->table ? index->members : NULL;
    const int shift = s->bits > DIVISION_BITS ? s->bits - DIVISION_BITS : 0;
    for (int64_t i = 0; i < n; i++) {
        if (members) {
            if (i + FETCH < n)
                PREFETCH(index->codes + ROW(members[i + FETCH]) * width);
            if (i && !(members[i - 1] & LAST))
                continue;
        }
        const uint8_t *code = index->codes + (members ? ROW(members[i]) : (uint32_t)i) * width;
        const uint32_t value = s->table ? value_of(s->table, code, width)
                                        : (uint32_t)(hash_code(code, width, s->seed) >> (64 - s->bits));
        const int64_t place = at[key_of(s, value) >> shift]++;
        if (to)
            to[place] = (pair){value, (uint32_t)i};
    }
}

/* All pairs, division by division, those of each in their order; ends: (DIVISIONS) where each ends. NULL without
 * memory. */
static pair *divided(const sorting *s, int64_t *ends)
{
    pair *pairs = malloc((size_t)(s->n + 1) * sizeof *pairs);
    if (!pairs)
        return NULL;
    memset(ends, 0, DIVISIONS * sizeof *ends);
    divide(s, ends, NULL);
    for (int64_t d = 0, begin = 0; d < DIVISIONS; d++) {
        const int64_t count = ends[d];
        ends[d] = begin;
        begin += count;
    }
    divide(s, ends, pairs);
    return pairs;
}

/* Rows whose codes have the same hash, ascending: put those with equal codes together. groups: room for n. Returns the
 * number of distinct codes. */
static int64_t group_rows(const multi *index, const uint32_t *rows, int64_t n, uint32_t *groups, uint32_t *to)
{
    const size_t width = (size_t)index->width;
    int64_t distinct = 0, at = 0;
    for (int64_t i = 0; i < n; i++) { /* `to` holds the first row of each group for now */
        const uint8_t *code = index->codes + rows[i] * width;
        int64_t g = 0;
        while (g < distinct && memcmp(index->codes + to[g] * width, code, width))
            g++;
        if (g == distinct)
            to[distinct++] = rows[i];
        groups[i] = (uint32_t)g;
    }
    for (int64_t g = 0; g < distinct; g++) {
        if (distinct == n)
            at++;
        else
            for (int64_t i = 0; i < n; i++)
                if (groups[i] == (uint32_t)g)
                    to[at++] = rows[i];
        to[at - 1] |= LAST;
    }
    return distinct;
}

/* Fill index->members: (n_codes). seed: of the hash by which codes are divided, so that nobody can know which ones
 * share a hash. Returns the number of distinct codes, or -1 without memory. */
HS_API int64_t hs_multi_group(multi *index, uint64_t seed)
{
    sorting s = {.index = index, .seed = seed, .n = index->n_codes, .bits = 1};
    while (s.bits < 24 && ((int64_t)2 << s.bits) < s.n)
        s.bits++;
    const int64_t keys = s.bits > DIVISION_BITS ? (int64_t)1 << (s.bits - DIVISION_BITS) : 1;
    int64_t ends[DIVISIONS], distinct = -1, most = 0;
    pair *pairs = divided(&s, ends);
    for (int64_t d = 0, begin = 0; d < DIVISIONS && pairs; begin = ends[d++])
        most = ends[d] - begin > most ? ends[d] - begin : most;
    uint32_t *starts = malloc((size_t)(keys + 2) * sizeof *starts), *rows = malloc((size_t)(most + 1) * sizeof *rows);
    uint32_t *groups = malloc((size_t)(most + 1) * sizeof *groups);
    if (!pairs || !starts || !rows || !groups)
        goto end;
    distinct = 0;
    for (int64_t d = 0, begin = 0; d < DIVISIONS; begin = ends[d++]) {
        const int64_t n = ends[d] - begin;
        memset(starts, 0, (size_t)(keys + 2) * sizeof *starts);
        for (int64_t i = 0; i < n; i++)
            starts[key_of(&s, pairs[begin + i].value) % (uint32_t)keys + 2]++;
        for (int64_t v = 0; v < keys; v++)
            starts[v + 2] += starts[v + 1];
        for (int64_t i = 0; i < n; i++)
            rows[starts[key_of(&s, pairs[begin + i].value) % (uint32_t)keys + 1]++] = pairs[begin + i].entry;
        for (int64_t v = 0, ahead = 0; v < keys; v++) {
            for (const int64_t until = starts[v + 1] + FETCH < n ? starts[v + 1] + FETCH : n; ahead < until; ahead++)
                PREFETCH(index->codes + rows[ahead] * index->width);
            distinct += group_rows(index, rows + starts[v], starts[v + 1] - starts[v], groups,
                                   index->members + begin + starts[v]);
        }
    }
end:
    free(pairs);
    free(starts);
    free(rows);
    free(groups);
    return distinct;
}

/* Fill the table of one substring: `starts` must be zeros. Returns 0, or -1 without memory. */
HS_API int hs_multi_fill(multi *index, int64_t which)
{
    table *t = index->tables + which;
    const sorting s = {.index = index, .table = t, .n = index->n_entries, .bits = (int)t->n_bits};
    const int64_t places = (int64_t)1 << t->n_bits, of_division = places > DIVISIONS ? places / DIVISIONS : 1;
    int64_t ends[DIVISIONS];
    pair *pairs = divided(&s, ends);
    if (!pairs)
        return -1;
    for (int64_t d = 0, begin = 0; d * of_division < places; begin = ends[d++]) {
        uint32_t *starts = t->starts + d * of_division, sum = (uint32_t)begin;
        for (int64_t i = begin; i < ends[d]; i++)
            t->starts[key_of(&s, pairs[i].value)]++;
        for (int64_t v = 0; v < of_division; v++) {
            const uint32_t count = starts[v];
            starts[v] = sum;
            sum += count;
        }
        for (int64_t i = begin; i < ends[d]; i++) { /* where a place begins goes up to where it ends */
            const uint32_t to = t->starts[key_of(&s, pairs[i].value)]++;
            t->entries[to] = pairs[i].entry;
            if (t->tags)
                t->tags[to] = (uint8_t)(pairs[i].value >> t->shift);
            if (t->others)
                t->others[to] = (uint16_t)(pairs[i].value >> t->shift);
        }
    }
    memmove(t->starts + 1, t->starts, (size_t)places * sizeof *t->starts);
    t->starts[0] = 0;
    free(pairs);
    return 0;
}
