/* The k nearest items among several sets of codes, each compared with queries of its own.
 *
 * An item is known by its slot, a number that no other item has; slots ascend within a part, but not from one part to
 * the next. What all jobs of a query have found so far bounds what the others still have to look at.
 */
#include <stdlib.h>

#include "hamming_nearest.h"
#include "hamming_tile.h"
#include "hamming_work.h"

/* Known to _kernel.py. */
typedef struct {
    const uint8_t *codes;  /* (n_codes, width) */
    const uint32_t *slots; /* (n_codes) ascending */
    const int64_t *dead;   /* (n_dead) ascending rows that may not be found */
    int64_t n_codes, n_dead;
    int64_t which; /* of the sets of queries */
} part;

/* The items that may be found; NULL: all. A slot beyond the mask is not marked. */
typedef struct {
    const uint8_t *marks; /* (n), by slot: 0, or anything else where the item may be found */
    int64_t n;
} mask;

typedef struct {
    const part *part;
    mask mask;
    int64_t k;
    unsigned *bounds;  /* (n_queries), shared by all parts: k items are known that are at most so far away */
    nearest **nearest; /* for each job, its queries' candidates */
} parts_state;

/* Of one job. */
typedef struct {
    const part *part;
    mask mask;
    nearest *nearest;
    unsigned *bounds;
} job_state;

#if defined(__GNUC__) || defined(__clang__)
static inline unsigned get_bound(const unsigned *bound) { return __atomic_load_n(bound, __ATOMIC_RELAXED); }
static inline void lower_bound(unsigned *bound, unsigned value)
{
    unsigned now = get_bound(bound);
    while (value < now && !__atomic_compare_exchange_n(bound, &now, value, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}
#else /* one thread */
static inline unsigned get_bound(const unsigned *bound) { return *bound; }
static inline void lower_bound(unsigned *bound, unsigned value) { *bound = value < *bound ? value : *bound; }
#endif

static int is_dead(const part *p, int64_t row)
{
    int64_t low = 0, high = p->n_dead;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (p->dead[middle] < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low < p->n_dead && p->dead[low] == row;
}

static inline int is_marked(const mask *m, uint32_t slot) { return (int64_t)slot < m->n && m->marks[slot]; }

/* Whether an item may be found is asked only of those that are near enough: most are not. */
static unsigned visit_part(void *state, const problem *p, int64_t query, int64_t first, const void *d, int64_t n)
{
    job_state *s = state;
    nearest *b = s->nearest + query;
    unsigned *bound = s->bounds + query;
    const int wide = is_wide(p);
    for (int64_t i = 0;; i++) {
        /* An item as far away as the bound may still win by its slot. */
        const unsigned shared = get_bound(bound) + 1, limit = b->limit < shared ? b->limit : shared;
        if ((i = p->kernel.next_below(d, i, n, limit, wide)) >= n)
            return limit;
        if (s->mask.marks && !is_marked(&s->mask, s->part->slots[first + i]))
            continue;
        if (s->part->n_dead && is_dead(s->part, first + i))
            continue;
        nearest_add(b, distance_at(d, i, wide), first + i);
        if (b->kept >= b->k)
            lower_bound(bound, b->worst);
    }
}

static int work_part(const plan *w, int64_t q0, int64_t q1, int64_t c0, int64_t c1, int64_t job)
{
    const problem *p = w->problem;
    parts_state *t = w->context;
    nearest *b = calloc((size_t)(q1 - q0), sizeof *b);
    int failed = b == NULL;
    for (int64_t q = 0; !failed && q < q1 - q0; q++)
        failed = nearest_begin(b + q, t->k, c1 - c0, 8 * p->width + 1);
    job_state s = {.part = t->part, .mask = t->mask, .nearest = b, .bounds = t->bounds + q0};
    failed = failed || scan(p, q0, q1, c0, c1, visit_part, &s);
    t->nearest[job] = b;
    return failed ? -1 : 0;
}

static int by_word(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static const nearest *found_by(const plan *w, int64_t query, int64_t range)
{
    const parts_state *t = w->context;
    return t->nearest[query / w->block * w->n_ranges + range] + query % w->block;
}

/* Words of a distance (upper half) and a slot; by both, unless the slots ascend already, which makes it a matter of
 * counting. Returns the array that holds them then, `words` or `room`. */
static uint64_t *in_order(uint64_t *words, uint64_t *room, int64_t n, unsigned bound, int ascending, int64_t *start)
{
    if (!ascending) {
        qsort(words, (size_t)n, sizeof *words, by_word);
        return words;
    }
    memset(start, 0, (size_t)(bound + 2) * sizeof *start);
    for (int64_t i = 0; i < n; i++)
        start[(words[i] >> 32) + 1]++;
    for (unsigned d = 0; d < bound; d++)
        start[d + 1] += start[d];
    for (int64_t i = 0; i < n; i++)
        room[start[words[i] >> 32]++] = words[i];
    return room;
}

/* The k nearest of a query, from all jobs of all parts that were about it, within the bound. Returns how many there
 * are; -1 without memory. */
static int64_t put_together(const plan *w, int64_t n, int64_t query, int64_t k, unsigned bound, uint16_t *distances,
                        int64_t *slots)
{
    int64_t most = 0, size = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t range = 0; range < w[i].n_ranges; range++)
            most += found_by(w + i, query, range)->size;
    uint64_t *words = malloc((size_t)(2 * most + 1) * sizeof *words);
    int64_t *start = malloc((size_t)(bound + 2) * sizeof *start);
    if (!words || !start) {
        free(words);
        free(start);
        return -1;
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t range = 0; range < w[i].n_ranges; range++) {
            const nearest *b = found_by(w + i, query, range);
            const uint32_t *own = ((const parts_state *)w[i].context)->part->slots;
            for (int64_t c = 0; c < b->size; c++)
                if (DISTANCE(b->candidates[c]) <= bound)
                    words[size++] = (uint64_t)DISTANCE(b->candidates[c]) << 32 | own[INDEX(b->candidates[c])];
        }
    const uint64_t *best = in_order(words, words + most, size, bound, n == 1, start);
    const int64_t found = size < k ? size : k;
    for (int64_t i = 0; i < found; i++) {
        distances[i] = (uint16_t)(best[i] >> 32);
        slots[i] = (int64_t)(best[i] & 0xffffffff);
    }
    free(words);
    free(start);
    return found;
}

enum { NO_MEMORY = -1, NOT_FINITE = -2 };

/* queries: (sets, n_queries, width), at least one. marks: (n_marks) by slot, or NULL. distances, slots: (n_queries, k),
 * by distance, then by slot. Returns how many of the k items each query has found, the same number for all: fewer than
 * k where fewer are marked and not dead, since the bound stays where it was then and lets all of them through. */
HS_API int64_t hs_hamming_topk_parts(const part *parts, int64_t n, const uint8_t *queries, int64_t n_queries,
                                     int64_t width, int64_t n_threads, int64_t portable, const uint8_t *marks,
                                     int64_t n_marks, int64_t k, uint16_t *distances, int64_t *slots)
{
    int64_t found = 0;
    problem *p = calloc((size_t)n, sizeof *p);
    parts_state *t = calloc((size_t)n, sizeof *t);
    plan *w = calloc((size_t)n, sizeof *w);
    unsigned *bounds = malloc((size_t)n_queries * sizeof *bounds);
    int failed = !p || !t || !w || !bounds;
    double all = 0;
    for (int64_t i = 0; !failed && i < n; i++) {
        p[i] = (problem){.queries = queries + parts[i].which * n_queries * width,
                         .codes = parts[i].codes,
                         .n_queries = n_queries,
                         .n_codes = parts[i].n_codes,
                         .width = width,
                         .n_threads = n_threads,
                         .portable = portable};
        all += work_of(p + i);
    }
    for (int64_t q = 0; !failed && q < n_queries; q++)
        bounds[q] = 8 * (unsigned)width;
    for (int64_t i = 0; !failed && i < n; i++) {
        t[i] = (parts_state){.part = parts + i, .mask = {marks, n_marks}, .k = k, .bounds = bounds};
        w[i] = (plan){.problem = p + i, .work = work_part, .context = t + i, .divide_codes = 2};
        w[i].alongside = all - work_of(p + i);
        w[i].bytes_per_query = 2 * k * (int64_t)sizeof(uint64_t) + 8 * (8 * width + 1);
        w[i].then = i + 1 < n ? w + i + 1 : NULL;
        plan_jobs(w + i);
        t[i].nearest = calloc((size_t)w[i].n_jobs, sizeof *t[i].nearest);
        failed = t[i].nearest == NULL;
    }
    failed = failed || run_jobs(w);
    for (int64_t q = 0; !failed && q < n_queries; q++)
        failed = (found = put_together(w, n, q, k, bounds[q], distances + q * k, slots + q * k)) < 0;
    for (int64_t i = 0; t && w && i < n; i++) {
        for (int64_t job = 0; t[i].nearest && job < w[i].n_jobs; job++) {
            const int64_t first = job / w[i].n_ranges * w[i].block;
            for (int64_t q = 0; t[i].nearest[job] && q < w[i].block && first + q < n_queries; q++)
                nearest_free(t[i].nearest[job] + q);
            free(t[i].nearest[job]);
        }
        free(t[i].nearest);
    }
    free(p);
    free(t);
    free(w);
    free(bounds);
    return failed ? NO_MEMORY : found;
}

HS_API int hs_signs_pack(const uint8_t *values, int64_t n, int64_t r, int64_t bytes, uint8_t *codes); /* signs.c */

/* The same for the signs of values (sets, n_queries, r) of 4 or 8 bytes each; NOT_FINITE where a value is infinite or
 * not a number. */
HS_API int64_t hs_hamming_topk_signs(const part *parts, int64_t n, const uint8_t *values, int64_t sets,
                                     int64_t n_queries, int64_t r, int64_t bytes, int64_t n_threads, int64_t portable,
                                     const uint8_t *marks, int64_t n_marks, int64_t k, uint16_t *distances,
                                     int64_t *slots)
{
    const int64_t width = (r + 7) / 8;
    uint8_t *queries = malloc((size_t)(sets * n_queries * width));
    if (!queries)
        return NO_MEMORY;
    int64_t found = NOT_FINITE;
    if (!hs_signs_pack(values, sets * n_queries, r, bytes, queries))
        found = hs_hamming_topk_parts(parts, n, queries, n_queries, width, n_threads, portable, marks, n_marks, k,
                                      distances, slots);
    free(queries);
    return found;
}
