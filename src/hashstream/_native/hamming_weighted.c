/* The k codes that cost a query least, where every bit that differs has a cost of its own.
 *
 * A cost is a sum of one table entry for each byte of the code, in the order of the bytes, as the NumPy twin adds them:
 * the sums are the same to the last bit. Most codes are never summed. Of the m dearest bits, h that differ cost at least
 * what the h cheapest of those m do, so a code is passed over when too many of them differ: exclusive or, mask,
 * population count. Which m keeps the most codes out is chosen again as the k-th cost so far falls.
 */
#include <math.h>
#include <stdlib.h>

#include "hamming_tile.h"
#include "hamming_work.h"

enum { CHOICES = 8, WORDS_MAX = 16 };

typedef struct {
    double cost;
    int64_t index;
} item;

/* What a query asks for. */
typedef struct {
    const uint8_t *code;
    const double *costs;  /* (width, 256) */
    const double *sums;   /* (r + 1): of the costs of its bits in ascending order */
    const int32_t *order; /* (r): the bits in that order */
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
    const double *costs, *sums;
    const int32_t *order;
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
        mask[b->wish.order[i] / 8] |= (uint8_t)(128 >> b->wish.order[i] % 8);
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

HS_INLINE double cost_of(const double *costs, const uint8_t *code, int64_t width)
{
    double sum = costs[code[0]];
    for (int64_t byte = 1; byte < width; byte++)
        sum += costs[256 * byte + code[byte]];
    return sum;
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

static int cheapest_begin(cheapest *b, const problem *p, const weighted *t, int64_t query, int64_t n_codes)
{
    *b = (cheapest){.k = t->k, .chosen = INFINITY, .limit = 8 * (unsigned)p->width + 1};
    b->wish = (wish){.code = p->queries + query * p->width,
                     .costs = t->costs + query * 256 * p->width,
                     .sums = t->sums + query * (t->r + 1),
                     .order = t->order + query * t->r};
    b->items = malloc((size_t)((t->k < n_codes ? t->k : n_codes) + 1) * sizeof *b->items);
    return b->items ? 0 : -1;
}

static void walk(const problem *p, cheapest *b, const uint8_t *codes, int64_t first, int64_t n, int64_t r)
{
#ifdef HS_X86
    if (!p->portable && hs_has_avx2()) {
        walk_avx2(b, codes, first, n, p->width, r);
        return;
    }
#endif
    walk_portable(b, codes, first, n, p->width, r);
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
        free(b[q].items);
    }
    free(b);
    return failed ? -1 : 0;
}

/* costs: (n_queries, width, 256), what a byte of a code costs the query. order: (n_queries, r), the query's bits by
 * ascending cost; sums: (n_queries, r + 1), the sums of the first 0, 1, 2, ... of these costs.
 * distances, indices: (n_queries, k), k at most n_codes. */
HS_API int hs_hamming_weighted(problem *p, int64_t r, const double *costs, const double *sums, const int32_t *order,
                               int64_t k, double *distances, int64_t *indices)
{
    weighted t = {.k = k, .r = r, .costs = costs, .sums = sums, .order = order};
    t.distances = distances, t.indices = indices;
    plan w = {.problem = p, .work = work_weighted, .context = &t, .divide_codes = 1};
    w.bytes_per_query = k * (int64_t)sizeof(item) + 256 * 8 * p->width;
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
            free(all.items);
        }
        for (int64_t part = 0; part < w.n_ranges; part++) {
            for (int64_t q = 0; parts[part] && q < queries; q++)
                free(parts[part][q].items);
            free(parts[part]);
        }
    }
    free(t.parts);
    return failed ? -1 : 0;
}
