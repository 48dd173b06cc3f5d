/* Exact search, histograms and rankings over packed binary codes.
 *
 * Every entry point walks the codes in tiles that stay in the cache, computes the distances of a block of queries to
 * a tile (hamming_tile.h) and hands them, in the order of the codes, to what the entry point keeps for each query.
 * No query x code matrix exists at any time, except where it is the result. All state belongs to the call, so calls
 * may run at the same time. An entry point returns 0, or -1 where memory ran out.
 */
#include <stdlib.h>

#include "hamming_nearest.h"
#include "hamming_tile.h"
#include "hamming_work.h"

/* ------------------------------------------------------------------------------------------- distances */

static unsigned visit_distances(void *state, const problem *p, int64_t query, int64_t first, const void *d, int64_t n)
{
    uint16_t *out = (uint16_t *)state + query * p->n_codes + first;
    if (is_wide(p))
        memcpy(out, d, 2 * (size_t)n);
    else
        for (int64_t i = 0; i < n; i++)
            out[i] = ((const uint8_t *)d)[i];
    return ALL_DISTANCES;
}

static int work_distances(const plan *w, int64_t q0, int64_t q1, int64_t c0, int64_t c1, int64_t job)
{
    (void)job;
    return scan(w->problem, q0, q1, c0, c1, visit_distances, (uint16_t *)w->context + q0 * w->problem->n_codes);
}

/* out: (n_queries, n_codes). */
HS_API int hs_hamming_distances(problem *p, uint16_t *out)
{
    return run(&(plan){.problem = p, .work = work_distances, .context = out});
}

/* ------------------------------------------------------------------------------------------------ topk */

/* Candidates in the order of their index to the order (distance, index), by counting. */
static void sort_candidates(const problem *p, const uint64_t *candidates, int64_t n, int64_t *start,
                            uint16_t *distances, int64_t *indices)
{
    int64_t bins = 8 * p->width + 1, sum = 0;
    memset(start, 0, (size_t)bins * sizeof *start);
    for (int64_t i = 0; i < n; i++)
        start[DISTANCE(candidates[i])]++;
    for (int64_t d = 0; d < bins; d++) {
        int64_t here = start[d];
        start[d] = sum;
        sum += here;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t to = start[DISTANCE(candidates[i])]++, index = INDEX(candidates[i]);
        distances[to] = (uint16_t)DISTANCE(candidates[i]);
        indices[to] = p->rows ? p->rows[index] : index;
    }
}

static unsigned visit_topk(void *state, const problem *p, int64_t query, int64_t first, const void *d, int64_t n)
{
    nearest *b = (nearest *)state + query;
    const int wide = is_wide(p);
    int64_t i = 0;
    for (; i < n && b->kept < b->k; i++) /* whatever comes is among the k nearest so far */
        nearest_add(b, distance_at(d, i, wide), first + i);
    while ((i = p->kernel.next_below(d, i, n, b->limit, wide)) < n) {
        nearest_add(b, distance_at(d, i, wide), first + i);
        i++;
    }
    return b->limit;
}

typedef struct {
    int64_t k;
    uint16_t *distances;
    int64_t *indices;
    nearest **parts; /* for each job its queries' candidates, where a query's codes are divided between jobs */
} topk;

static void topk_result(const problem *p, const topk *t, int64_t query, nearest *b)
{
    nearest_sweep(b);
    sort_candidates(p, b->candidates, b->size, b->count, t->distances + query * t->k, t->indices + query * t->k);
}

static int work_topk(const plan *w, int64_t q0, int64_t q1, int64_t c0, int64_t c1, int64_t job)
{
    const problem *p = w->problem;
    topk *t = w->context;
    nearest *b = calloc((size_t)(q1 - q0), sizeof *b);
    int failed = b == NULL;
    for (int64_t q = 0; !failed && q < q1 - q0; q++)
        failed = nearest_begin(b + q, t->k, c1 - c0, 8 * p->width + 1);
    failed = failed || scan(p, q0, q1, c0, c1, visit_topk, b);
    if (t->parts) {
        t->parts[job] = b;
        return failed ? -1 : 0;
    }
    for (int64_t q = 0; b && q < q1 - q0; q++) {
        if (!failed)
            topk_result(p, t, q0 + q, b + q);
        nearest_free(b + q);
    }
    free(b);
    return failed ? -1 : 0;
}

/* distances, indices: (n_queries, k), k at most n_codes. */
HS_API int hs_hamming_topk(problem *p, int64_t k, uint16_t *distances, int64_t *indices)
{
    topk t = {.k = k, .distances = distances, .indices = indices};
    plan w = {.problem = p, .work = work_topk, .context = &t, .divide_codes = 1};
    w.bytes_per_query = 2 * k * (int64_t)sizeof(uint64_t) + 8 * (8 * p->width + 1);
    plan_jobs(&w);
    if (w.n_ranges == 1)
        return run_jobs(&w);
    t.parts = calloc((size_t)w.n_jobs, sizeof *t.parts);
    int failed = t.parts == NULL || run_jobs(&w);
    for (int64_t block = 0; t.parts && block < w.n_blocks; block++) {
        int64_t q0 = block * w.block, queries = p->n_queries - q0 < w.block ? p->n_queries - q0 : w.block;
        nearest **parts = t.parts + block * w.n_ranges;
        for (int64_t q = 0; !failed && q < queries; q++) {
            /* The ranges' candidates, range after range: the codes again come in the order of their index. */
            nearest all;
            failed = nearest_begin(&all, k, p->n_codes, 8 * p->width + 1);
            for (int64_t r = 0; !failed && r < w.n_ranges; r++)
                for (int64_t i = 0; i < parts[r][q].size; i++) {
                    uint64_t c = parts[r][q].candidates[i];
                    if (DISTANCE(c) < all.limit)
                        nearest_add(&all, DISTANCE(c), INDEX(c));
                }
            if (!failed)
                topk_result(p, &t, q0 + q, &all);
            nearest_free(&all);
        }
        for (int64_t r = 0; r < w.n_ranges; r++) {
            for (int64_t q = 0; parts[r] && q < queries; q++)
                nearest_free(parts[r] + q);
            free(parts[r]);
        }
    }
    free(t.parts);
    return failed ? -1 : 0;
}

/* ---------------------------------------------------------------------------------------------- radius */

typedef struct {
    int64_t size, room;
    uint64_t *candidates; /* in the order of their index */
} ball;

/* The balls of all queries; a query's codes may be divided into ranges, balls[range][query]. */
typedef struct {
    problem problem;
    int64_t n_ranges;
    unsigned limit;
    int failed;
    ball *balls;
} radius_result;

typedef struct {
    radius_result *result;
    ball *balls;
} radius_state;

static int ball_add(ball *b, uint64_t candidate)
{
    if (b->size == b->room) {
        int64_t room = b->room ? 2 * b->room : 16;
        uint64_t *more = realloc(b->candidates, (size_t)room * sizeof *more);
        if (!more)
            return -1;
        b->candidates = more;
        b->room = room;
    }
    b->candidates[b->size++] = candidate;
    return 0;
}

static unsigned visit_radius(void *state, const problem *p, int64_t query, int64_t first, const void *d, int64_t n)
{
    radius_state *s = state;
    const int wide = is_wide(p);
    for (int64_t i = 0; (i = p->kernel.next_below(d, i, n, s->result->limit, wide)) < n; i++)
        if (ball_add(s->balls + query, CANDIDATE(distance_at(d, i, wide), first + i))) {
            s->result->failed = 1;
            break;
        }
    return s->result->limit;
}

static int work_radius(const plan *w, int64_t q0, int64_t q1, int64_t c0, int64_t c1, int64_t job)
{
    radius_result *r = w->context;
    radius_state s = {.result = r, .balls = r->balls + job % r->n_ranges * w->problem->n_queries + q0};
    return scan(w->problem, q0, q1, c0, c1, visit_radius, &s);
}

HS_API void hs_hamming_radius_free(radius_result *r)
{
    for (int64_t i = 0; r->balls && i < r->n_ranges * r->problem.n_queries; i++)
        free(r->balls[i].candidates);
    free(r->balls);
    free(r);
}

/* Finds what lies within `radius`: counts (n_queries), and a handle that take and free understand; NULL: no memory. */
HS_API radius_result *hs_hamming_radius(problem *p, int64_t radius, int64_t *counts)
{
    radius_result *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    plan w = {.problem = p, .work = work_radius, .context = r, .divide_codes = 1};
    plan_jobs(&w);
    *r = (radius_result){.problem = *p, .n_ranges = w.n_ranges};
    r->limit = (unsigned)(radius < 8 * p->width ? radius : 8 * p->width) + 1;
    r->balls = calloc((size_t)(w.n_ranges * p->n_queries + 1), sizeof *r->balls);
    if (!r->balls || run_jobs(&w) || r->failed) {
        hs_hamming_radius_free(r);
        return NULL;
    }
    for (int64_t q = 0; q < p->n_queries; q++) {
        counts[q] = 0;
        for (int64_t range = 0; range < w.n_ranges; range++)
            counts[q] += r->balls[range * p->n_queries + q].size;
    }
    return r;
}

/* distances, indices: what was found, query after query, in the order (distance, index). Does not free the handle. */
HS_API int hs_hamming_radius_take(radius_result *r, uint16_t *distances, int64_t *indices)
{
    int64_t *start = malloc((size_t)(8 * r->problem.width + 1) * sizeof *start), to = 0;
    int failed = start == NULL;
    for (int64_t q = 0; !failed && q < r->problem.n_queries; q++) {
        ball *all = r->balls + q;
        for (int64_t range = 1; range < r->n_ranges; range++) {
            ball *more = r->balls + range * r->problem.n_queries + q;
            for (int64_t i = 0; !failed && i < more->size; i++)
                failed = ball_add(all, more->candidates[i]);
            more->size = 0;
        }
        if (!failed)
            sort_candidates(&r->problem, all->candidates, all->size, start, distances + to, indices + to);
        to += all->size;
    }
    free(start);
    return failed ? -1 : 0;
}

/* ------------------------------------------------------------------------------------------------ read */

/* The sum of n words, in sixteen parts so that no addition waits for the one before. */
HS_INLINE uint64_t sum_words(const uint8_t *bytes, int64_t n)
{
    uint64_t sum[16] = {0}, total = 0;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int j = 0; j < 16; j++)
            sum[j] += load_word(bytes + 8 * (i + j));
    for (; i < n; i++)
        sum[0] += load_word(bytes + 8 * i);
    for (int j = 0; j < 16; j++)
        total += sum[j];
    return total;
}

static uint64_t sum_portable(const uint8_t *bytes, int64_t n) { return sum_words(bytes, n); }
#ifdef HS_X86
HS_AVX2 static uint64_t sum_avx2(const uint8_t *bytes, int64_t n) { return sum_words(bytes, n); }
#endif

static int work_read(const plan *w, int64_t q0, int64_t q1, int64_t c0, int64_t c1, int64_t job)
{
    const problem *p = w->problem;
    const uint8_t *bytes = p->codes + c0 * p->width;
    (void)q0, (void)q1;
#ifdef HS_X86
    if (p->kernel.planes) {
        ((uint64_t *)w->context)[job] = sum_avx2(bytes, (c1 - c0) * p->width / 8);
        return 0;
    }
#endif
    ((uint64_t *)w->context)[job] = sum_portable(bytes, (c1 - c0) * p->width / 8);
    return 0;
}

/* The yardstick of the benchmark: reads the codes as one query would, with the same threads, and does nothing with
 * them but add. sum: (n_threads), the parts of the sum. */
HS_API int hs_hamming_read(problem *p, uint64_t *sum)
{
    return run(&(plan){.problem = p, .work = work_read, .context = sum, .divide_codes = 1});
}
