/* Histograms, full rankings and the scores of a ranking, over packed binary codes. See hamming.c. */
#include "hamming_work.h"

/* Does each code of the tile share the query's label? relevant[i] = 0 or 1. */
static void find_relevant(const problem *p, int64_t query, int64_t first, int64_t n, uint8_t *relevant)
{
    if (p->label_words == 0) {
        const int32_t label = ((const int32_t *)p->query_labels)[query];
        const int32_t *labels = (const int32_t *)p->code_labels + first;
        for (int64_t i = 0; i < n; i++)
            relevant[i] = labels[i] == label;
        return;
    }
    const int64_t words = p->label_words;
    const uint64_t *wanted = (const uint64_t *)p->query_labels + query * words;
    const uint64_t *labels = (const uint64_t *)p->code_labels + first * words;
    for (int64_t i = 0; i < n; i++) {
        uint64_t shared = 0;
        for (int64_t word = 0; word < words; word++)
            shared |= wanted[word] & labels[i * words + word];
        relevant[i] = shared != 0;
    }
}

typedef struct {
    int64_t first_query;
    int64_t *total, *relevant;       /* from the scan's first query on, (queries, bins): codes at each distance */
    const int64_t *cutoffs;          /* (n_cutoffs) ranks */
    int64_t n_cutoffs, last_cutoff;
    double *precision;               /* (n_queries) */
    double *cut_precision;           /* (n_queries, n_cutoffs) */
    int64_t *cut_hits;               /* (n_queries, n_cutoffs) */
    int32_t *order;                  /* (n_queries, n_codes) */
    uint64_t *place;                 /* of the scan's queries, (queries, bins): where the next code goes */
} ranking;

/* ------------------------------------------------------------------------------------------- histogram */

/* Four sets of counters in turn, since neighbouring codes are often equally far and an addition to the same counter
 * would wait for the one before. A counter has the codes in its lower and the relevant codes in its upper half. */
HS_INLINE void count_tile(const void *d, const uint8_t *relevant, int64_t n, int64_t bins, int wide, int64_t *total,
                          int64_t *hits)
{
    uint32_t count[4][8 * 128 + 1];
    for (int s = 0; s < 4; s++)
        memset(count[s], 0, (size_t)bins * sizeof **count);
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int s = 0; s < 4; s++)
            count[s][distance_at(d, i + s, wide)] += 1 + (relevant ? (uint32_t)relevant[i + s] << 16 : 0);
    for (; i < n; i++)
        count[0][distance_at(d, i, wide)] += 1 + (relevant ? (uint32_t)relevant[i] << 16 : 0);
    for (int64_t b = 0; b < bins; b++) {
        uint32_t sum = count[0][b] + count[1][b] + count[2][b] + count[3][b];
        total[b] += sum & 0xffff;
        if (relevant)
            hits[b] += sum >> 16;
    }
}

static unsigned visit_histogram(void *state, const problem *p, int64_t query, int64_t first, const void *d, int64_t n)
{
    const ranking *r = state;
    const int64_t bins = 8 * p->width + 1;
    uint8_t relevant[TILE_MAX];
    int64_t *total = r->total + query * bins;
    if (!r->relevant) {
        if (is_wide(p))
            count_tile(d, NULL, n, bins, 1, total, NULL);
        else
            count_tile(d, NULL, n, bins, 0, total, NULL);
        return ALL_DISTANCES;
    }
    find_relevant(p, r->first_query + query, first, n, relevant);
    if (is_wide(p))
        count_tile(d, relevant, n, bins, 1, total, r->relevant + query * bins);
    else
        count_tile(d, relevant, n, bins, 0, total, r->relevant + query * bins);
    return ALL_DISTANCES;
}

/* The call's arrays as a job sees them. */
static ranking ranking_from(const plan *w, int64_t first_query)
{
    const int64_t bins = 8 * w->problem->width + 1;
    ranking r = *(const ranking *)w->context;
    r.first_query = first_query;
    if (r.total)
        r.total += first_query * bins;
    if (r.relevant)
        r.relevant += first_query * bins;
    return r;
}

static int work_histogram(const plan *w, int64_t q0, int64_t q1, int64_t c0, int64_t c1, int64_t job)
{
    (void)job;
    ranking r = ranking_from(w, q0);
    return scan(w->problem, q0, q1, c0, c1, visit_histogram, &r);
}

/* total, relevant: (n_queries, 8 * width + 1), zero on entry; relevant is NULL where there are no labels. */
HS_API int hs_hamming_histogram(problem *p, int64_t *total, int64_t *relevant)
{
    ranking r = {.total = total, .relevant = relevant};
    return run(&(plan){.problem = p, .work = work_histogram, .context = &r});
}

/* ------------------------------------------------------------------------------------------------ rank */

/* The full order takes two scans: the first counts the codes at each distance, which tells the rank of the first
 * code at each distance; the second deals out ranks in the order of the codes. Distances are cheaper to compute
 * twice than to keep. A place has the rank in its lower half and the hits so far in its upper. */
static int begin_places(const problem *p, ranking *r, int64_t q0, int64_t q1)
{
    const int64_t bins = 8 * p->width + 1;
    r->place = malloc((size_t)((q1 - q0) * bins) * sizeof *r->place);
    for (int64_t q = 0; r->place && q < q1 - q0; q++) {
        uint64_t sum = 0;
        for (int64_t b = 0; b < bins; b++) {
            r->place[q * bins + b] = sum;
            sum += (uint64_t)r->total[q * bins + b];
            sum += r->relevant ? (uint64_t)r->relevant[q * bins + b] << 32 : 0;
        }
    }
    return r->place ? 0 : -1;
}

static unsigned visit_rank(void *state, const problem *p, int64_t query, int64_t first, const void *d, int64_t n)
{
    const ranking *r = state;
    const int wide = is_wide(p);
    uint64_t *place = r->place + query * (8 * p->width + 1);
    int32_t *order = r->order + (r->first_query + query) * p->n_codes;
    for (int64_t i = 0; i < n; i++)
        order[place[distance_at(d, i, wide)]++] = (int32_t)(first + i);
    return ALL_DISTANCES;
}

static int work_two_scans(const plan *w, ranking *r, int64_t q0, int64_t q1, int64_t c0, int64_t c1, visitor second)
{
    int failed = scan(w->problem, q0, q1, c0, c1, visit_histogram, r) || begin_places(w->problem, r, q0, q1) ||
                 scan(w->problem, q0, q1, c0, c1, second, r);
    free(r->place);
    return failed ? -1 : 0;
}

static int work_rank(const plan *w, int64_t q0, int64_t q1, int64_t c0, int64_t c1, int64_t job)
{
    (void)job;
    const int64_t bins = 8 * w->problem->width + 1;
    ranking r = ranking_from(w, q0);
    r.total = calloc((size_t)((q1 - q0) * bins), sizeof *r.total);
    int failed = r.total ? work_two_scans(w, &r, q0, q1, c0, c1, visit_rank) : -1;
    free(r.total);
    return failed;
}

/* order: (n_queries, n_codes), codes by (distance, index). n_codes below 2**31. */
HS_API int hs_hamming_rank(problem *p, int32_t *order)
{
    ranking r = {.order = order};
    plan w = {.problem = p, .work = work_rank, .context = &r, .bytes_per_query = 16 * (8 * p->width + 1)};
    return run(&w);
}

/* -------------------------------------------------------------------------------------- stable scores */

enum { CHUNK = 256 };

HS_INLINE void score_tile(const ranking *r, uint64_t *place, const uint8_t *relevant, const void *d, int64_t n,
                          int wide, int64_t query)
{
    double *cut_precision = r->cut_precision + query * r->n_cutoffs;
    int64_t *cut_hits = r->cut_hits + query * r->n_cutoffs;
    for (int64_t begin = 0; begin < n; begin += CHUNK) {
        const int64_t end = begin + CHUNK < n ? begin + CHUNK : n;
        uint64_t found[CHUNK + 1]; /* rank and hits of the relevant codes; filled without a branch */
        int64_t size = 0;
        for (int64_t i = begin; i < end; i++) {
            const uint64_t hit = relevant[i];
            found[size] = place[distance_at(d, i, wide)] += 1 + (hit << 32);
            size += (int64_t)hit;
        }
        double sum = 0;
        uint32_t nearest = UINT32_MAX;
        for (int64_t i = 0; i < size; i++) {
            const uint32_t rank = (uint32_t)found[i];
            sum += (double)(found[i] >> 32) / (double)rank;
            nearest = rank < nearest ? rank : nearest;
        }
        r->precision[query] += sum;
        if (nearest > r->last_cutoff)
            continue;
        for (int64_t i = 0; i < size; i++) {
            const int64_t rank = (uint32_t)found[i];
            if (rank > r->last_cutoff)
                continue;
            for (int64_t c = 0; c < r->n_cutoffs; c++)
                if (rank <= r->cutoffs[c]) {
                    cut_precision[c] += (double)(found[i] >> 32) / (double)rank;
                    cut_hits[c]++;
                }
        }
    }
}

static unsigned visit_scores(void *state, const problem *p, int64_t query, int64_t first, const void *d, int64_t n)
{
    const ranking *r = state;
    uint64_t *place = r->place + query * (8 * p->width + 1);
    uint8_t relevant[TILE_MAX];
    query += r->first_query;
    find_relevant(p, query, first, n, relevant);
    if (is_wide(p))
        score_tile(r, place, relevant, d, n, 1, query);
    else
        score_tile(r, place, relevant, d, n, 0, query);
    return ALL_DISTANCES;
}

static int work_scores(const plan *w, int64_t q0, int64_t q1, int64_t c0, int64_t c1, int64_t job)
{
    (void)job;
    ranking r = ranking_from(w, q0);
    return work_two_scans(w, &r, q0, q1, c0, c1, visit_scores);
}

/* What a walk along each query's full order meets. total, relevant: as in histogram. precision (n_queries): the sum
 * over relevant codes of the precision at their rank. cut_precision, cut_hits (n_queries, n_cutoffs): the same sum,
 * and the number of relevant codes, within the first `cutoffs[c]` ranks. All zero on entry; n_codes below 2**32. */
HS_API int hs_hamming_ap(problem *p, const int64_t *cutoffs, int64_t n_cutoffs, int64_t *total,
                         int64_t *relevant, double *precision, double *cut_precision, int64_t *cut_hits)
{
    ranking r = {.total = total, .relevant = relevant, .cutoffs = cutoffs, .n_cutoffs = n_cutoffs,
                 .precision = precision, .cut_precision = cut_precision, .cut_hits = cut_hits};
    for (int64_t c = 0; c < n_cutoffs; c++)
        r.last_cutoff = cutoffs[c] > r.last_cutoff ? cutoffs[c] : r.last_cutoff;
    plan w = {.problem = p, .work = work_scores, .context = &r, .bytes_per_query = 8 * (8 * p->width + 1)};
    return run(&w);
}
