/* A problem, its division into jobs for threads, and the walk of one job over its tiles. Shared by hamming*.c. */
#ifndef HASHSTREAM_HAMMING_WORK_H
#define HASHSTREAM_HAMMING_WORK_H

#include <stdlib.h>

#include "hamming_tile.h"

#if !defined(_WIN32) && (defined(__GNUC__) || defined(__clang__))
#define HS_THREADS 1
#include <pthread.h>
#endif

enum { FEW_QUERIES = 3, BLOCK_MAX = 512, BLOCK_BYTES = 4 << 20, THREADS_MAX = 256 };

/* What is compared with what. The order of the fields is known to _kernel.py. */
typedef struct {
    const uint8_t *queries;    /* (n_queries, width) */
    const uint8_t *codes;      /* (n_codes, width), or any number of rows where `rows` picks n_codes of them */
    const int64_t *rows;       /* (n_codes) ascending row numbers, or NULL: every row */
    const void *query_labels;  /* (n_queries) classes, or (n_queries, label_words) uint64; NULL: no labels */
    const void *code_labels;   /* (n_codes) likewise */
    int64_t n_queries, n_codes, width;
    int64_t label_words;       /* 0: classes, relevant if equal; else indicator bits, relevant if one is shared */
    int64_t label_bytes;       /* of a class: 1 (unsigned) or 4 */
    int64_t n_threads;
    int64_t portable;          /* not 0: leave the vector paths alone */
    kernel kernel;             /* filled in by plan_jobs */
} problem;

static inline int is_wide(const problem *p) { return p->width > BYTE_WIDTH; }

/* Called for each tile and query of a scan, tiles in ascending order: d holds the distances of codes first ... first
 * + n - 1 to the query, which is counted from the scan's first. Tells which codes it has to see from now on: those
 * whose distance is below the value returned. */
typedef unsigned (*visitor)(void *state, const problem *p, int64_t query, int64_t first, const void *d, int64_t n);

#define ALL_DISTANCES (~0u)

static inline void *aligned(void *p) { return (void *)(((uintptr_t)p + 63) & ~(uintptr_t)63); }

static inline int can_skip(const problem *p)
{
    const int64_t width = p->width;
    return p->kernel.skip && (width == 2 || width == 4 || width == 8 || width == 16 || width == 32);
}

/* One query and one tile, codes as they lie in memory. What need not be seen, given `limit`, is passed over. */
static inline unsigned scan_rows(const problem *p, int64_t q0, int64_t q, const uint8_t *codes, int64_t first, int64_t n,
                          unsigned limit, void *d, visitor visit, void *state)
{
    const int64_t width = p->width, step = SKIP_BYTES / width;
    const uint8_t *query = p->queries + (q0 + q) * width;
    const int may_skip = can_skip(p);
    for (int64_t i = 0; i < n;) {
        int64_t end = n;
        if (may_skip && limit <= 8 * width) {
            i = p->kernel.skip(query, NULL, codes, i, n, width, limit);
            end = i + step < n ? i + step : n;
        }
        if (i < end) {
            p->kernel.rows(query, codes + i * width, end - i, width, d);
            limit = visit(state, p, q, first + i, d, end - i);
        }
        i = end;
    }
    return limit;
}

/* Visit codes [c0, c1) with queries [q0, q1), tile by tile. */
static inline int scan(const problem *p, int64_t q0, int64_t q1, int64_t c0, int64_t c1, visitor visit, void *state)
{
    const int64_t width = p->width, tile = tile_codes(width), queries = q1 - q0;
    const int64_t quads = (queries + QUAD - 1) / QUAD, table = 32 * width; /* bytes */
    const int by_planes = p->kernel.planes && queries > FEW_QUERIES;
    int failed = 0;
    unsigned *limits = malloc((size_t)queries * sizeof *limits);
    void *d_memory = malloc((size_t)(QUAD * tile * 2 + 64));
    void *gathered = p->rows ? malloc((size_t)(tile * width)) : NULL;
    void *planes_memory = by_planes ? malloc((size_t)(tile * 2 * width + 64)) : NULL;
    void *tables_memory = by_planes ? malloc((size_t)(quads * QUAD * table + 64)) : NULL;
    if (!limits || !d_memory || (p->rows && !gathered) || (by_planes && (!planes_memory || !tables_memory))) {
        failed = -1;
        goto end;
    }
    for (int64_t q = 0; q < queries; q++)
        limits[q] = ALL_DISTANCES;
    uint8_t *d = aligned(d_memory);
#ifdef HS_PLANES
    uint8_t *planes = aligned(planes_memory), *tables = aligned(tables_memory);
    for (int64_t q = 0; by_planes && q < quads * QUAD; q++) /* the last quad is filled up with its last query */
        make_tables(p->queries + (q0 + (q < queries ? q : queries - 1)) * width, width, tables + q * table);
#endif
    for (int64_t first = c0; first < c1; first += tile) {
        const int64_t n = c1 - first < tile ? c1 - first : tile;
        const uint8_t *codes = p->codes + first * width;
        if (p->rows) {
            for (int64_t i = 0; i < n; i++)
                memcpy((uint8_t *)gathered + i * width, p->codes + p->rows[first + i] * width, (size_t)width);
            codes = gathered;
        }
        if (!by_planes) {
            for (int64_t q = 0; q < queries; q++)
                limits[q] = scan_rows(p, q0, q, codes, first, n, limits[q], d, visit, state);
            continue;
        }
#ifdef HS_PLANES
        const int64_t padded = (n + TILE_STEP - 1) / TILE_STEP * TILE_STEP;
        p->kernel.make_planes(codes, n, padded, width, planes);
        for (int64_t quad = 0; quad < quads; quad++) {
            p->kernel.planes(planes, padded, tables + quad * QUAD * table, width, d, tile);
            for (int64_t q = QUAD * quad; q < QUAD * (quad + 1) && q < queries; q++)
                visit(state, p, q, first, d + (q % QUAD) * tile * (is_wide(p) ? 2 : 1), n);
        }
#endif
    }
end:
    free(limits);
    free(d_memory);
    free(gathered);
    free(planes_memory);
    free(tables_memory);
    return failed;
}

/* Jobs are blocks of queries, each with all codes; where queries are too few to keep the threads busy and the entry
 * point knows how to put ranges of codes together again (divide_codes), ranges of codes as well. */
typedef struct plan {
    problem *problem;
    int (*work)(const struct plan *w, int64_t q0, int64_t q1, int64_t c0, int64_t c1, int64_t job);
    void *context;
    int divide_codes; /* 0, or into how many ranges for each thread */
    int64_t bytes_per_query; /* what `work` keeps for a query */
    double alongside;        /* work of the other plans that the same threads do */
    struct plan *then;       /* the next of them, or NULL */
    int64_t n_threads, block, n_blocks, range, n_ranges, n_jobs;
    int64_t next; /* the next job to be taken */
    int failed;
} plan;

static inline double work_of(const problem *p)
{
    return (double)p->n_queries * (double)p->n_codes * (double)p->width;
}

static void plan_jobs(plan *w)
{
    problem *p = w->problem;
    p->kernel = p->portable ? portable_kernel : choose_kernel();
    /* Below about a tenth of a millisecond of work, starting a thread costs more than it brings. */
    const double work = work_of(p) + w->alongside;
    w->n_threads = p->n_threads < 1 ? 1 : p->n_threads > THREADS_MAX ? THREADS_MAX : p->n_threads;
    if (work < 2e6)
        w->n_threads = 1;
    int64_t most = BLOCK_BYTES / (w->bytes_per_query + 1);
    most = most > BLOCK_MAX ? BLOCK_MAX : most < QUAD ? QUAD : most / QUAD * QUAD;
    w->n_ranges = w->divide_codes && w->n_threads > 1 && p->n_queries < 4 * w->n_threads
                      ? w->divide_codes * w->n_threads
                      : 1;
    /* Two blocks for a thread, so that one that was held up does not hold up the rest. */
    int64_t shares = w->n_threads > 1 && w->n_ranges == 1 ? 2 * w->n_threads : 1;
    int64_t even = (p->n_queries + shares - 1) / shares;
    even = (even + QUAD - 1) / QUAD * QUAD;
    w->block = even < most ? even : most;
    if (w->block < 1)
        w->block = 1;
    w->n_blocks = (p->n_queries + w->block - 1) / w->block;
    int64_t tile = tile_codes(p->width);
    w->range = ((p->n_codes + w->n_ranges - 1) / w->n_ranges + tile - 1) / tile * tile;
    w->n_jobs = w->n_blocks * w->n_ranges;
}

static void take_jobs(plan *w)
{
    const problem *p = w->problem;
    for (;;) {
#ifdef HS_THREADS
        int64_t job = __atomic_fetch_add(&w->next, 1, __ATOMIC_RELAXED);
#else
        int64_t job = w->next++;
#endif
        if (job >= w->n_jobs)
            return;
        int64_t q0 = job / w->n_ranges * w->block, c0 = job % w->n_ranges * w->range;
        int64_t q1 = q0 + w->block < p->n_queries ? q0 + w->block : p->n_queries;
        int64_t c1 = c0 + w->range < p->n_codes ? c0 + w->range : p->n_codes;
        if (c0 > c1)
            c0 = c1;
        if (w->work(w, q0, q1, c0, c1, job))
            w->failed = -1; /* every writer writes the same value */
    }
}

static void take_all_jobs(plan *w)
{
    for (; w; w = w->then)
        take_jobs(w);
}

#ifdef HS_THREADS
/* Those who work on a plan. A thread that the system has not let run by the time that all is done is not waited for:
 * it finds the plan closed and goes. On a busy machine that is most of what a call would wait for. */
typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t idle;
    plan *work;         /* NULL: closed */
    int64_t at_work;    /* threads that have seen the plan and are not yet done */
    int64_t references; /* threads that may still look at this */
} team;

static void leave(team *t)
{
    pthread_mutex_lock(&t->lock);
    const int last = --t->references == 0;
    pthread_mutex_unlock(&t->lock);
    if (last) {
        pthread_mutex_destroy(&t->lock);
        pthread_cond_destroy(&t->idle);
        free(t);
    }
}

static void *help(void *team_)
{
    team *t = team_;
    pthread_mutex_lock(&t->lock);
    plan *w = t->work;
    t->at_work += w != NULL;
    pthread_mutex_unlock(&t->lock);
    if (w) {
        take_all_jobs(w);
        pthread_mutex_lock(&t->lock);
        if (--t->at_work == 0)
            pthread_cond_signal(&t->idle);
        pthread_mutex_unlock(&t->lock);
    }
    leave(t);
    return NULL;
}

/* Starts up to n threads that take jobs; NULL where there is none. One that cannot be had is done without. */
static team *call_helpers(plan *w, int64_t n)
{
    team *t = n > 0 ? malloc(sizeof *t) : NULL;
    pthread_attr_t detached;
    if (!t || pthread_attr_init(&detached)) {
        free(t);
        return NULL;
    }
    *t = (team){.work = w, .references = 1};
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->idle, NULL);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    for (int64_t i = 0; i < n; i++) {
        pthread_t thread;
        pthread_mutex_lock(&t->lock);
        t->references++;
        pthread_mutex_unlock(&t->lock);
        if (pthread_create(&thread, &detached, help, t)) {
            leave(t);
            break;
        }
    }
    pthread_attr_destroy(&detached);
    return t;
}

static void send_home(team *t)
{
    pthread_mutex_lock(&t->lock);
    t->work = NULL;
    while (t->at_work > 0)
        pthread_cond_wait(&t->idle, &t->lock);
    pthread_mutex_unlock(&t->lock);
    leave(t);
}
#endif

/* The jobs of a plan, and of those that are chained to it. */
static int run_jobs(plan *w)
{
    int failed = 0;
#ifdef HS_THREADS
    int64_t wanted = 0, jobs = 0;
    for (plan *each = w; each; each = each->then) {
        jobs += each->n_jobs;
        wanted = each->n_threads > wanted ? each->n_threads : wanted;
    }
    team *helpers = call_helpers(w, (wanted < jobs ? wanted : jobs) - 1);
    take_all_jobs(w);
    if (helpers)
        send_home(helpers);
#else
    take_all_jobs(w);
#endif
    for (plan *each = w; each; each = each->then)
        failed = each->failed ? -1 : failed;
    return failed;
}

static inline int run(plan *w)
{
    plan_jobs(w);
    return run_jobs(w);
}

#endif
