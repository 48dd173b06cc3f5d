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
    problem *problem;
    const uint32_t *slots; /* (n_codes) ascending */
    const int64_t *dead;   /* (n_dead) ascending rows that may not be found */
    int64_t n_dead;
} part;

typedef struct {
    const part *part;
    int64_t k;
    unsigned *bounds;  /* (n_queries), shared by all parts: k items are known that are at most so far away */
    nearest **nearest; /* for each job, its queries' candidates */
} parts_state;

/* Of one job. */
typedef struct {
    const part *part;
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
    job_state s = {.part = t->part, .nearest = b, .bounds = t->bounds + q0};
    failed = failed || scan(p, q0, q1, c0, c1, visit_part, &s);
    t->nearest[job] = b;
    return failed ? -1 : 0;
}

static int by_word(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Distance and slot in one word, of what a job has found for a query and is within the bound. */
static int64_t collect(const parts_state *t, const nearest *b, unsigned bound, uint64_t *words)
{
    int64_t n = 0;
    for (int64_t i = 0; i < b->size; i++)
        if (DISTANCE(b->candidates[i]) <= bound)
            words[n++] = (uint64_t)DISTANCE(b->candidates[i]) << 32 | t->part->slots[INDEX(b->candidates[i])];
    return n;
}

/* The k nearest of a query, from all jobs of all parts that were about it. */
static int put_together(const plan *w, int64_t n, int64_t query, int64_t k, unsigned bound, uint16_t *distances,
                        int64_t *slots)
{
    int64_t room = 0, size = 0;
    for (int pass = 0; pass < 2; pass++) {
        uint64_t *words = pass ? malloc((size_t)(room + 1) * sizeof *words) : NULL;
        if (pass && !words)
            return -1;
        for (int64_t i = 0; i < n; i++) {
            const parts_state *t = w[i].context;
            for (int64_t range = 0; range < w[i].n_ranges; range++) {
                const nearest *b = t->nearest[query / w[i].block * w[i].n_ranges + range] + query % w[i].block;
                if (pass)
                    size += collect(t, b, bound, words + size);
                else
                    room += b->size;
            }
        }
        if (!pass)
            continue;
        qsort(words, (size_t)size, sizeof *words, by_word);
        for (int64_t i = 0; i < k; i++) {
            distances[i] = (uint16_t)(words[i] >> 32);
            slots[i] = (int64_t)(words[i] & 0xffffffff);
        }
        free(words);
    }
    return 0;
}

/* All problems have the same number of queries and the same width. distances, slots: (n_queries, k), by distance, then
 * by slot; k at most the number of codes that are not dead. */
HS_API int hs_hamming_topk_parts(const part *parts, int64_t n, int64_t k, uint16_t *distances, int64_t *slots)
{
    const int64_t n_queries = parts[0].problem->n_queries;
    parts_state *t = calloc((size_t)n, sizeof *t);
    plan *w = calloc((size_t)n, sizeof *w);
    unsigned *bounds = malloc((size_t)n_queries * sizeof *bounds);
    int failed = !t || !w || !bounds;
    double all = 0;
    for (int64_t i = 0; i < n; i++)
        all += work_of(parts[i].problem);
    for (int64_t q = 0; !failed && q < n_queries; q++)
        bounds[q] = 8 * (unsigned)parts[0].problem->width;
    for (int64_t i = 0; !failed && i < n; i++) {
        t[i] = (parts_state){.part = parts + i, .k = k, .bounds = bounds};
        w[i] = (plan){.problem = parts[i].problem, .work = work_part, .context = t + i, .divide_codes = 1};
        w[i].alongside = all - work_of(parts[i].problem);
        w[i].bytes_per_query = 2 * k * (int64_t)sizeof(uint64_t) + 8 * (8 * w[i].problem->width + 1);
        w[i].then = i + 1 < n ? w + i + 1 : NULL;
        plan_jobs(w + i);
        t[i].nearest = calloc((size_t)w[i].n_jobs, sizeof *t[i].nearest);
        failed = t[i].nearest == NULL;
    }
    failed = failed || run_jobs(w);
    for (int64_t q = 0; !failed && q < n_queries; q++)
        failed = put_together(w, n, q, k, bounds[q], distances + q * k, slots + q * k);
    for (int64_t i = 0; t && w && i < n; i++) {
        for (int64_t job = 0; t[i].nearest && job < w[i].n_jobs; job++) {
            const int64_t first = job / w[i].n_ranges * w[i].block;
            for (int64_t q = 0; t[i].nearest[job] && q < w[i].block && first + q < n_queries; q++)
                nearest_free(t[i].nearest[job] + q);
            free(t[i].nearest[job]);
        }
        free(t[i].nearest);
    }
    free(t);
    free(w);
    free(bounds);
    return failed ? -1 : 0;
}
