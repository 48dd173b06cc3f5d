/* Multi-index hashing: exact search in Hamming space that does not read every code.
 *
 * Norouzi, Punjani and Fleet, "Fast exact search in Hamming space with multi-index hashing", TPAMI 2014. The bits of a
 * code are divided into m substrings, and each substring has a table: the codes by its value. Two codes that differ in
 * r bits differ in at most floor(r / m) bits of one of the substrings at least. So the search goes from step to step,
 * 0, 1, 2, ...: step r looks up all values of substring r % m that differ from the query's in r / m bits. After it,
 * every code that is at most r away has been met.
 *
 * Equal codes are entered once, and linked to one another in the order of their rows. A code is met by several tables;
 * it is taken where it is met first, which is told from the code itself, so nothing has to be remembered. What a step
 * costs is known before it is paid: the values to look up are counted, then the codes that they lead to. A query that
 * would go over its budget is given up, and the caller scans.
 */
#include <stdlib.h>

#include "hamming_multi.h"
#include "hamming_nearest.h"
#include "hamming_work.h"

enum { CODES_AHEAD = 16 };

#if defined(__GNUC__) || defined(__clang__)
#define POPCOUNT(x) ((unsigned)__builtin_popcountll(x))
#else
#define POPCOUNT(x) popcount_portable(x)
#endif

/* The rows that may be found. Known to _multi_kernel.py. */
typedef struct {
    const uint8_t *marks;  /* (n_marks) by slot: not 0 where it may be found; NULL: all. A slot beyond is not marked */
    const uint32_t *slots; /* (n_codes) by row; NULL: a row is its own slot */
    const int64_t *dead;   /* (n_dead) ascending rows that may not be found */
    int64_t n_marks, n_dead;
    int64_t begin; /* rows before this one may not be found */
} filter;

static int may_be_found(const filter *f, int64_t row)
{
    if (row < f->begin)
        return 0;
    if (f->marks) {
        const int64_t slot = f->slots ? (int64_t)f->slots[row] : row;
        if (slot >= f->n_marks || !f->marks[slot])
            return 0;
    }
    int64_t low = 0, high = f->n_dead;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (f->dead[middle] < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low == f->n_dead || f->dead[low] != row;
}

/* Costs in nanoseconds, about: what counts is how they compare with those of a scan, which the caller gives. Known to
 * _substrings.py. */
static const double PROBE = 10, ENTRY = 10;

/* A range of entries. */
typedef struct {
    uint32_t begin, end;
} range;

/* What the search of one query needs; reused from query to query. */
typedef struct {
    const multi *index;
    const uint8_t *codes;
    const filter *filter;
    int64_t words;
    uint64_t query[WORDS_MAX];
    range *ranges;
    int64_t n_ranges, ranges_room;
    int64_t k;        /* 0: all within the radius */
    unsigned radius;  /* nothing further away is wanted */
    uint64_t *found;  /* distances and rows, CANDIDATE */
    int64_t n_found, room;
    uint64_t worst;   /* only a candidate below this can still enter */
    int64_t *count;   /* (bins) found at each distance */
    double left;      /* of the budget */
    int failed;
} search;

static int by_word(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Keep the k best. */
static void sweep(search *s)
{
    qsort(s->found, (size_t)s->n_found, sizeof *s->found, by_word);
    if (s->n_found < s->k)
        return;
    for (int64_t i = s->k; i < s->n_found; i++)
        s->count[DISTANCE(s->found[i])]--;
    s->n_found = s->k;
    s->worst = s->found[s->k - 1];
}

static void add(search *s, unsigned distance, uint32_t row)
{
    const uint64_t candidate = CANDIDATE(distance, row);
    if (candidate >= s->worst)
        return;
    if (s->n_found == s->room) {
        if (s->k)
            sweep(s);
        if (s->n_found == s->room) {
            uint64_t *more = realloc(s->found, (size_t)(2 * s->room) * sizeof *more);
            if (!more) {
                s->failed = 1;
                s->left = -1;
                return;
            }
            s->found = more;
            s->room *= 2;
        }
        if (candidate >= s->worst)
            return;
    }
    s->found[s->n_found++] = candidate;
    s->count[distance]++;
}

/* All rows with the code of an entry, as far as they can enter. */
static void add_rows(search *s, unsigned distance, uint32_t row)
{
    const uint32_t *next = s->index->next;
    int64_t taken = 0;
    do {
        if (CANDIDATE(distance, row) >= s->worst || s->left < 0)
            return;
        if (may_be_found(s->filter, row)) {
            add(s, distance, row);
            if (++taken == s->k)
                return;
        }
        s->left -= ENTRY;
        row = next ? next[row] : 0;
    } while (row);
}

/* Step r: values of substring `which` with `flips` bits flipped lead to these ranges. Returns how many entries there
 * are; -1 where memory runs out. */
static int64_t look_up(search *s, int64_t which, int64_t flips, const uint8_t *query)
{
    const table *t = s->index->tables + which;
    const uint32_t value = value_of(t, query, s->index->width);
    int64_t entries = 0;
    uint64_t pattern = ((uint64_t)1 << flips) - 1;
    const uint64_t end = (uint64_t)1 << t->n_bits;
    uint32_t ring[AHEAD];
    int64_t n = 0, taken = 0;
    int more = 1;
    s->n_ranges = 0;
    while (more || taken < n) {
        if (more) {
            ring[n % AHEAD] = value ^ (uint32_t)pattern;
            PREFETCH(t->starts + ring[n % AHEAD]);
            n++;
            if (pattern == 0)
                more = 0;
            else { /* the next larger number with as many ones */
                const uint64_t low = pattern & (~pattern + 1), up = pattern + low;
                pattern = (((up ^ pattern) >> 2) / low) | up;
                more = pattern < end;
            }
        }
        if (n - taken < AHEAD && more)
            continue;
        const uint32_t v = ring[taken++ % AHEAD];
        const range found = {t->starts[v], t->starts[v + 1]};
        if (found.begin == found.end)
            continue;
        if (s->n_ranges == s->ranges_room) {
            range *bigger = realloc(s->ranges, (size_t)(2 * s->ranges_room) * sizeof *bigger);
            if (!bigger)
                return -1;
            s->ranges = bigger;
            s->ranges_room *= 2;
        }
        PREFETCH(t->entries + found.begin);
        s->ranges[s->n_ranges++] = found;
        entries += found.end - found.begin;
    }
    return entries;
}

/* Whether a code that differs in `x` from the query is met at substring `which` with `flips` flipped bits first. */
HS_INLINE int met_first(const search *s, const uint64_t *x, int64_t words, int64_t which, int64_t flips)
{
    const table *t = s->index->tables;
    for (int64_t i = 0; i < s->index->n_tables; i++) {
        if (i == which)
            continue;
        int64_t bits = 0;
        for (int64_t w = 0; w < words; w++)
            bits += POPCOUNT(x[w] & t[i].mask[w]);
        if (bits < flips || (bits == flips && i < which))
            return 0;
    }
    return 1;
}

HS_INLINE void visit_code(search *s, uint32_t row, int64_t which, int64_t flips, int64_t words)
{
    const int64_t width = s->index->width;
    uint64_t x[WORDS_MAX];
    unsigned distance = 0;
    load_code(s->codes + row * width, width, words, x);
    for (int64_t w = 0; w < words; w++) {
        x[w] ^= s->query[w];
        distance += POPCOUNT(x[w]);
    }
    if (distance > s->radius || CANDIDATE(distance, row) >= s->worst)
        return;
    if (met_first(s, x, words, which, flips))
        add_rows(s, distance, row);
}

/* Codes lie anywhere in memory, so each is asked for some time before it is looked at. */
HS_INLINE void visit_entries(search *s, int64_t which, int64_t flips, int64_t words)
{
    const multi *index = s->index;
    const uint32_t *entries = index->tables[which].entries;
    const int64_t width = index->width;
    uint32_t ring[CODES_AHEAD] = {0};
    uint64_t n = 0;
    for (int64_t i = 0; i < s->n_ranges && s->left >= 0; i++)
        for (uint32_t e = s->ranges[i].begin; e < s->ranges[i].end; e++, n++) {
            const uint32_t row = entries[e], before = ring[n % CODES_AHEAD];
            ring[n % CODES_AHEAD] = row;
            PREFETCH(s->codes + row * width);
            if (n >= CODES_AHEAD)
                visit_code(s, before, which, flips, words);
        }
    for (uint64_t i = n < CODES_AHEAD ? 0 : n - CODES_AHEAD; i < n && s->left >= 0; i++)
        visit_code(s, ring[i % CODES_AHEAD], which, flips, words);
}

#define VISIT(name, attribute)                                                                                       \
    attribute static void name(search *s, int64_t which, int64_t flips)                                             \
    {                                                                                                               \
        if (s->words == 1)                                                                                          \
            visit_entries(s, which, flips, 1);                                                                      \
        else if (s->words == 2)                                                                                     \
            visit_entries(s, which, flips, 2);                                                                      \
        else                                                                                                        \
            visit_entries(s, which, flips, s->words);                                                               \
    }

VISIT(visit_portable, )
#ifdef HS_X86
VISIT(visit_popcnt, HS_AVX2)
#endif

/* How many of n things can be chosen, as a double. */
static double choose(int64_t n, int64_t k)
{
    double c = 1;
    for (int64_t i = 0; i < k; i++)
        c = c * (double)(n - i) / (double)(i + 1);
    return c;
}

/* Search for one query. Returns whether it was finished within its budget. */
static int run_search(search *s, const uint8_t *query, int portable)
{
    const multi *index = s->index;
    const int64_t m = index->n_tables;
    load_code(query, index->width, s->words, s->query);
    int64_t within = 0; /* found at most r - 1 away */
    for (int64_t r = 0; r <= (int64_t)s->radius; r++) {
        const int64_t which = r % m, flips = r / m;
        if (flips <= index->tables[which].n_bits) {
            const double probes = PROBE * choose(index->tables[which].n_bits, flips);
            if ((s->left -= probes) < 0)
                return 0;
            const int64_t entries = look_up(s, which, flips, query);
            if (entries < 0) {
                s->failed = 1;
                return 0;
            }
            if ((s->left -= ENTRY * (double)entries) < 0)
                return 0;
#ifdef HS_X86
            if (!portable && hs_has_avx2())
                visit_popcnt(s, which, flips);
            else
#endif
                visit_portable(s, which, flips);
            if (s->left < 0)
                return 0;
        }
        within += s->count[r];
        if (s->k && within >= s->k)
            break;
    }
    (void)portable;
    if (s->k)
        sweep(s);
    else
        qsort(s->found, (size_t)s->n_found, sizeof *s->found, by_word);
    return 1;
}

typedef struct {
    const multi *index;
    const filter *filter;
    int64_t k, radius;
    double budget;
    uint16_t *distances; /* (n_queries, k), for k > 0 */
    int64_t *rows;
    uint8_t *done; /* (n_queries) */
    uint64_t **found; /* (n_queries) for a radius */
    int64_t *counts;  /* (n_queries) how many were found */
} multi_work;

static int work_multi(const plan *w, int64_t q0, int64_t q1, int64_t c0, int64_t c1, int64_t job)
{
    const multi_work *m = w->context;
    const problem *p = w->problem;
    const int64_t bins = 8 * p->width + 1;
    (void)c0, (void)c1, (void)job;
    search s = {.index = m->index, .codes = p->codes, .filter = m->filter, .words = (p->width + 7) / 8, .k = m->k};
    s.radius = (unsigned)(m->k ? bins - 1 : m->radius);
    s.ranges_room = 64;
    s.ranges = malloc((size_t)s.ranges_room * sizeof *s.ranges);
    s.room = 2 * m->k + 256;
    s.found = malloc((size_t)s.room * sizeof *s.found);
    s.count = malloc((size_t)bins * sizeof *s.count);
    s.failed = !s.ranges || !s.found || !s.count;
    for (int64_t q = q0; !s.failed && q < q1; q++) {
        memset(s.count, 0, (size_t)bins * sizeof *s.count);
        s.n_found = 0;
        s.worst = ~(uint64_t)0;
        s.left = m->budget;
        m->done[q] = (uint8_t)run_search(&s, p->queries + q * p->width, p->portable != 0);
        if (!m->done[q])
            continue;
        m->counts[q] = s.n_found;
        if (m->k) {
            for (int64_t i = 0; i < s.n_found; i++) {
                m->distances[q * m->k + i] = (uint16_t)DISTANCE(s.found[i]);
                m->rows[q * m->k + i] = INDEX(s.found[i]);
            }
        } else if (s.n_found) {
            m->found[q] = malloc((size_t)s.n_found * sizeof **m->found);
            if (!m->found[q])
                s.failed = 1;
            else
                memcpy(m->found[q], s.found, (size_t)s.n_found * sizeof **m->found);
        }
    }
    free(s.ranges);
    free(s.found);
    free(s.count);
    return s.failed ? -1 : 0;
}

/* The k nearest rows of each query, (n_queries, k) by distance and row, of which counts (n_queries) were found; k is at
 * least 1. done: (n_queries) whether the query was finished within its budget, in nanoseconds; what it found is
 * undefined otherwise. Returns 0, or -1 without memory. */
HS_API int hs_multi_topk(problem *p, const multi *index, const filter *filter, int64_t k, double budget,
                         uint16_t *distances, int64_t *rows, int64_t *counts, uint8_t *done)
{
    multi_work m = {.index = index, .filter = filter, .k = k, .budget = budget, .distances = distances, .rows = rows,
                    .counts = counts, .done = done};
    return run(&(plan){.problem = p, .work = work_multi, .context = &m});
}

/* All rows within a radius: counts (n_queries), and what was found by query, which hs_multi_take frees. */
HS_API int hs_multi_radius(problem *p, const multi *index, const filter *filter, int64_t radius, double budget,
                           uint64_t **found, int64_t *counts, uint8_t *done)
{
    multi_work m = {.index = index, .filter = filter, .radius = radius, .budget = budget, .found = found,
                    .counts = counts, .done = done};
    return run(&(plan){.problem = p, .work = work_multi, .context = &m});
}

/* Move what a radius search has found to distances and rows, query after query, and free it. */
HS_API void hs_multi_take(uint64_t **found, const int64_t *counts, int64_t n_queries, uint16_t *distances,
                          int64_t *rows)
{
    int64_t to = 0;
    for (int64_t q = 0; q < n_queries; q++) {
        for (int64_t i = 0; distances && i < counts[q]; i++, to++) {
            distances[to] = (uint16_t)DISTANCE(found[q][i]);
            rows[to] = INDEX(found[q][i]);
        }
        free(found[q]);
    }
}
