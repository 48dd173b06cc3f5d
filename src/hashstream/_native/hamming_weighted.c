/* The k codes that cost a query least, where every bit that differs has a cost of its own.
 *
 * A cost is a sum of one table entry for each byte of the code, in the order of the bytes, as the NumPy twin adds them:
 * the sums are the same to the last bit. Most codes are never summed. Of the m dearest bits, h that differ cost at least
 * what the h cheapest of those m do, so a code is passed over when too many of them differ: exclusive or, mask,
 * population count. Which m keeps the most codes out is chosen again as the k-th cost so far falls.
 */
#include <stdlib.h>

#include "hamming_costs.h"
#include "hamming_tile.h"
#include "hamming_work.h"

enum { CHOICES = 8, WORDS_MAX = 16 };

typedef struct {
    double cost;
    int64_t index;
} item;

/* What a query asks for. */
typedef struct {
    double *costs; /* (width, 256); allocated, and what follows lies in it */
    double *sums;  /* (r + 1): of the costs of its bits in ascending order */
    item *order;   /* (r): these costs, and the bits */
    uint8_t *code; /* (width) */
} wish;

/* The k cheapest so far, the dearest on top: a heap by (cost, index). */
typedef struct {
    int64_t k, size;
    item *items;
    wish wish;
    double chosen;            /* the k-th cost when mask and limit were chosen */
    uint64_t mask[WORDS_MAX]; /* a code is summed where fewer than `limit` of these bits differ */
    unsigned limit;
} cheapest;

typedef struct {
    int64_t k, r;
    const double *values;
    double *distances;
    int64_t *indices;
    cheapest **parts; /* for each job its queries' heaps, where a query's codes are divided between jobs */
} weighted;

static inline int dearer(item a, item b) { return a.cost > b.cost || (a.cost == b.cost && a.index > b.index); }

/* Mask and limit for the current k-th cost: those that random codes pass most seldom. */
static void choose(cheapest *b, int64_t r)
{
    const double *sums = b->wish.sums;
    /* `sums` are added in another order than costs: some room for the rounding of both. */
    const double worst = b->items[0].cost + 1e-11 * sums[r];
    double best = INFINITY;
    int64_t bits = r;
    b->chosen = b->items[0].cost;
    b->limit = (unsigned)r + 1;
    if (!(sums[r] < INFINITY)) /* differences of sums mean nothing: nothing is passed over */
        return;
    for (int64_t choice = 1; choice <= CHOICES; choice++) {
        const int64_t m = (choice * r + CHOICES - 1) / CHOICES;
        int64_t h = 0;
        while (h <= m && sums[r - m + h] - sums[r - m] <= worst)
            h++;
        const double off = ((double)h - 0.5 - 0.5 * (double)m) / sqrt((double)m);
        if (h <= m && off < best) {
            best = off;
            bits = m;
            b->limit = (unsigned)h;
        }
    }
    uint8_t mask[8 * WORDS_MAX] = {0};
    for (int64_t i = r - bits; i < r; i++)
        mask[b->wish.order[i].index / 8] |= (uint8_t)(128 >> b->wish.order[i].index % 8);
    memcpy(b->mask, mask, sizeof mask);
}

static void cheapest_add(cheapest *b, item one, int64_t r)
{
    int64_t at = 0;
    if (b->size < b->k) {
        for (at = b->size++; at > 0 && dearer(one, b->items[(at - 1) / 2]); at = (at - 1) / 2)
            b->items[at] = b->items[(at - 1) / 2];
    } else {
        if (!dearer(b->items[0], one))
            return;
        for (int64_t child; (child = 2 * at + 1) < b->size; at = child) {
            if (child + 1 < b->size && dearer(b->items[child + 1], b->items[child]))
                child++;
            if (!dearer(b->items[child], one))
                break;
            b->items[at] = b->items[child];
        }
    }
    b->items[at] = one;
    if (b->size == b->k && !(b->items[0].cost > 0.97 * b->chosen))
        choose(b, r);
}

/* Codes first ... first + n - 1, which lie at `codes`. */
#define DEFINE_WALK(NAME, ATTRIBUTES, POPCOUNT)                                                                        \
    ATTRIBUTES HS_INLINE void NAME##_width(cheapest *b, const uint8_t *codes, int64_t first, int64_t n, int64_t width, \
                                           int64_t r)                                                                  \
    {                                                                                                                  \
        uint64_t query[WORDS_MAX], mask[WORDS_MAX];                                                                    \
        const int64_t words = (width + 7) / 8, rest = width % 8;                                                       \
        for (int64_t w = 0; w < words; w++) {                                                                          \
            query[w] = rest && w == words - 1 ? load_few(b->wish.code + 8 * w, rest) : load_word(b->wish.code + 8 * w);\
            mask[w] = b->mask[w];                                                                                      \
        }                                                                                                              \
        unsigned limit = b->limit;                                                                                     \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const uint8_t *code = codes + i * width;                                                                   \
            unsigned differ = 0;                                                                                       \
            for (int64_t w = 0; w < width / 8; w++)                                                                    \
                differ += POPCOUNT((query[w] ^ load_word(code + 8 * w)) & mask[w]);                                    \
            if (rest)                                                                                                  \
                differ += POPCOUNT((query[words - 1] ^ load_few(code + width - rest, rest)) & mask[words - 1]);        \
            if (differ >= limit)                                                                                       \
                continue;                                                                                              \
            cheapest_add(b, (item){cost_of(b->wish.costs, code, width), first + i}, r);                                \
            limit = b->limit;                                                                                          \
            for (int64_t w = 0; w < words; w++)                                                                        \
                mask[w] = b->mask[w];                                                                                  \
        }                                                                                                              \
    }                                                                                                                  \
    ATTRIBUTES static void NAME(cheapest *b, const uint8_t *codes, int64_t first, int64_t n, int64_t width, int64_t r) \
    {                                                                                                                  \
        switch (width) { /* the usual widths as constants, so that their loops unroll */                               \
        case 4: NAME##_width(b, codes, first, n, 4, r); break;                                                         \
        case 8: NAME##_width(b, codes, first, n, 8, r); break;                                                         \
        case 16: NAME##_width(b, codes, first, n, 16, r); break;                                                       \
        default: NAME##_width(b, codes, first, n, width, r);                                                           \
        }                                                                                                              \
    }

#if defined(HS_NEON)
DEFINE_WALK(walk_portable, , (unsigned)__builtin_popcountll)
#else
DEFINE_WALK(walk_portable, , popcount_portable)
#endif
#ifdef HS_X86
DEFINE_WALK(walk_avx2, HS_AVX2, (unsigned)__builtin_popcountll)
#endif

static int by_cost(const void *a, const void *b) { return dearer(*(const item *)a, *(const item *)b) ? 1 : -1; }

static void weighted_result(const problem *p, const weighted *t, int64_t query, cheapest *b)
{
    qsort(b->items, (size_t)b->size, sizeof *b->items, by_cost);
    for (int64_t i = 0; i < b->size; i++) {
        t->distances[query * t->k + i] = b->items[i].cost;
        t->indices[query * t->k + i] = p->rows ? p->rows[b->items[i].index] : b->items[i].index;
    }
}

static size_t bytes_of_wish(int64_t width, int64_t r)
{
    return (size_t)(256 * width + r + 1) * sizeof(double) + (size_t)r * sizeof(item) + (size_t)width;
}

static void make_wish(wish *w, const double *values, int64_t r, int64_t width)
{
    w->sums = w->costs + 256 * width;
    w->order = (item *)(w->sums + r + 1);
    w->code = (uint8_t *)(w->order + r);
    make_costs(values, r, width, w->code, w->costs);
    for (int64_t i = 0; i < r; i++)
        w->order[i] = (item){fabs(values[i]), i};
    qsort(w->order, (size_t)r, sizeof *w->order, by_cost);
    w->sums[0] = 0;
    for (int64_t i = 0; i < r; i++)
        w->sums[i + 1] = w->sums[i] + w->order[i].cost;
}

static void cheapest_free(cheapest *b)
{
    free(b->items);
    free(b->wish.costs);
}

static int cheapest_begin(cheapest *b, const problem *p, const weighted *t, int64_t query, int64_t n_codes)
{
    *b = (cheapest){.k = t->k, .chosen = INFINITY, .limit = 8 * (unsigned)p->width + 1};
    b->items = malloc((size_t)((t->k < n_codes ? t->k : n_codes) + 1) * sizeof *b->items);
    b->wish.costs = malloc(bytes_of_wish(p->width, t->r));
    if (!b->items || !b->wish.costs)
        return -1;
    make_wish(&b->wish, t->values + query * t->r, t->r, p->width);
    return 0;
}

static void walk(const problem *p, cheapest *b, const uint8_t *codes, int64_t first, int64_t n, int64_t r)
{
    const int64_t width = p->width, step = SKIP_BYTES / width;
    const int may_skip = can_skip(p);
    for (int64_t i = 0, end = n; i < n; i = end) {
        if (may_skip && b->limit <= 8 * width) { /* most codes are passed over, many at a time */
            i = p->kernel.skip(b->wish.code, (const uint8_t *)b->mask, codes, i, n, width, b->limit);
            end = i + step < n ? i + step : n;
        } else if (may_skip)
            end = i + step < n ? i + step : n;
#ifdef HS_X86
        if (!p->portable && hs_has_avx2()) {
            walk_avx2(b, codes + i * width, first + i, end - i, width, r);
            continue;
        }
#endif
        walk_portable(b, codes + i * width, first + i, end - i, width, r);
    }
}

static int work_weighted(const plan *w, int64_t q0, int64_t q1, int64_t c0, int64_t c1, int64_t job)
{
    const problem *p = w->problem;
    weighted *t = w->context;
    const int64_t width = p->width, tile = tile_codes(width), queries = q1 - q0;
    cheapest *b = calloc((size_t)queries, sizeof *b);
    uint8_t *gathered = p->rows ? malloc((size_t)(tile * width)) : NULL;
    int failed = !b || (p->rows && !gathered);
    for (int64_t q = 0; !failed && q < queries; q++)
        failed = cheapest_begin(b + q, p, t, q0 + q, c1 - c0);
    for (int64_t first = c0; !failed && first < c1; first += tile) {
        const int64_t n = c1 - first < tile ? c1 - first : tile;
        for (int64_t i = 0; p->rows && i < n; i++)
            memcpy(gathered + i * width, p->codes + p->rows[first + i] * width, (size_t)width);
        for (int64_t q = 0; q < queries; q++)
            walk(p, b + q, p->rows ? gathered : p->codes + first * width, first, n, t->r);
    }
    free(gathered);
    if (t->parts) {
        t->parts[job] = b;
        return failed ? -1 : 0;
    }
    for (int64_t q = 0; b && q < queries; q++) {
        if (!failed)
            weighted_result(p, t, q0 + q, b + q);
        cheapest_free(b + q);
    }
    free(b);
    return failed ? -1 : 0;
}

/* values: (n_queries, r). distances, indices: (n_queries, k), k at most n_codes. */
HS_API int hs_hamming_weighted(problem *p, int64_t r, const double *values, int64_t k, double *distances,
                               int64_t *indices)
{
    weighted t = {.k = k, .r = r, .values = values};
    t.distances = distances, t.indices = indices;
    plan w = {.problem = p, .work = work_weighted, .context = &t, .divide_codes = 1};
    w.bytes_per_query = k * (int64_t)sizeof(item) + (int64_t)bytes_of_wish(p->width, r);
    plan_jobs(&w);
    if (w.n_ranges == 1)
        return run_jobs(&w);
    t.parts = calloc((size_t)w.n_jobs, sizeof *t.parts);
    int failed = t.parts == NULL || run_jobs(&w);
    for (int64_t block = 0; t.parts && block < w.n_blocks; block++) {
        int64_t q0 = block * w.block, queries = p->n_queries - q0 < w.block ? p->n_queries - q0 : w.block;
        cheapest **parts = t.parts + block * w.n_ranges;
        for (int64_t q = 0; !failed && q < queries; q++) {
            cheapest all;
            failed = cheapest_begin(&all, p, &t, q0 + q, p->n_codes);
            for (int64_t part = 0; !failed && part < w.n_ranges; part++)
                for (int64_t i = 0; i < parts[part][q].size; i++)
                    cheapest_add(&all, parts[part][q].items[i], r);
            if (!failed)
                weighted_result(p, &t, q0 + q, &all);
            cheapest_free(&all);
        }
        for (int64_t part = 0; part < w.n_ranges; part++) {
            for (int64_t q = 0; parts[part] && q < queries; q++)
                cheapest_free(parts[part] + q);
            free(parts[part]);
        }
    }
    free(t.parts);
    return failed ? -1 : 0;
}
