/* Histograms, full rankings and the scores of a ranking, over packed binary codes. See hamming.c. */
#include "hamming_work.h"

/* Does each code of the tile share the query's label? relevant[i] = 0 or 1. */
static void find_relevant(const problem *p, int64_t query, int64_t first, int64_t n, uint8_t *relevant)
{
    if (p->label_words == 0 && p->label_bytes == 1) {
        const uint8_t label = ((const uint8_t *)p->query_labels)[query];
        const uint8_t *labels = (const uint8_t *)p->code_labels + first;
        for (int64_t i = 0; i < n; i++)
            relevant[i] = labels[i] == label;
        return;
    }
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

/* The relevant codes of a query in the order of their index: distance << 32 | how many codes at that distance there
 * are up to it, itself included. */
typedef struct {
    int64_t relevant; /* how many there will be */
    int64_t size;
    uint64_t *codes;
} hits;

typedef struct {
    int64_t first_query;
    int64_t *total, *relevant;       /* from the scan's first query on, (queries, bins): codes at each distance */
    const int64_t *cutoffs;          /* (n_cutoffs) ranks */
    int64_t n_cutoffs, last_cutoff;
    double *precision;               /* (n_queries) */
    double *cut_precision;           /* (n_queries, n_cutoffs) */
    int64_t *cut_hits;               /* (n_queries, n_cutoffs) */
    int32_t *order;                  /* (n_queries, n_codes) */
    int64_t *place;                  /* from the scan's first query on, (queries, bins): where the next code goes */
    hits *found;                     /* from the scan's first query on */
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

#ifdef HS_X86
enum { SPREAD_MAX = 80 };

typedef struct {
    int nearest, farthest;
} range;

/* Between which distances those of whole sets of 64 codes lie. */
HS_AVX2 HS_INLINE range distances_met_avx2(const uint8_t *d, int64_t n)
{
    __m256i least = _mm256_set1_epi8(-1), most = _mm256_setzero_si256();
    uint8_t low[32], high[32];
    for (int64_t i = 0; i < n / 64 * 64; i += 32) {
        const __m256i a = _mm256_load_si256((const __m256i *)(d + i));
        least = _mm256_min_epu8(least, a);
        most = _mm256_max_epu8(most, a);
    }
    _mm256_storeu_si256((__m256i *)low, least);
    _mm256_storeu_si256((__m256i *)high, most);
    range met = {255, 0};
    for (int i = 0; i < 32; i++) {
        met.nearest = low[i] < met.nearest ? low[i] : met.nearest;
        met.farthest = high[i] > met.farthest ? high[i] : met.farthest;
    }
    return met;
}

/* Which of 64 bytes equal those of `same`. */
HS_AVX2 HS_INLINE uint64_t equal_avx2(const uint8_t *bytes, __m256i same)
{
    const __m256i a = _mm256_cmpeq_epi8(_mm256_loadu_si256((const __m256i *)bytes), same);
    const __m256i b = _mm256_cmpeq_epi8(_mm256_loadu_si256((const __m256i *)(bytes + 32)), same);
    return (uint32_t)_mm256_movemask_epi8(a) | (uint64_t)(uint32_t)_mm256_movemask_epi8(b) << 32;
}

/* As count_tile for whole sets of 64 codes whose distances are bytes; returns how many codes that are, 0 where their
 * distances differ so much that the plain way is faster. Distances are few and codes many: instead of looking up a
 * counter for each code, each distance is compared with 64 codes at once. */
HS_AVX2 static int64_t count_sets_avx2(const uint8_t *d, const uint8_t *relevant, int64_t n, int64_t *total,
                                       int64_t *hits)
{
    const range met = distances_met_avx2(d, n);
    if (met.farthest - met.nearest > SPREAD_MAX)
        return 0;
    const __m256i one = _mm256_set1_epi8(1);
    for (int64_t i = 0; i + 64 <= n; i += 64) {
        const uint64_t wanted = relevant ? equal_avx2(relevant + i, one) : 0;
        __m256i distance = _mm256_set1_epi8((char)met.nearest);
        for (int x = met.nearest; x <= met.farthest; x++, distance = _mm256_add_epi8(distance, one)) {
            const uint64_t equal = equal_avx2(d + i, distance);
            total[x] += __builtin_popcountll(equal);
            if (relevant)
                hits[x] += __builtin_popcountll(equal & wanted);
        }
    }
    return n / 64 * 64;
}
#endif

static unsigned visit_histogram(void *state, const problem *p, int64_t query, int64_t first, const void *d, int64_t n)
{
    const ranking *r = state;
    const int64_t bins = 8 * p->width + 1;
    int64_t *total = r->total + query * bins, *hits = r->relevant ? r->relevant + query * bins : NULL;
    uint8_t memory[TILE_MAX], *relevant = r->relevant ? memory : NULL;
    if (relevant)
        find_relevant(p, r->first_query + query, first, n, relevant);
    if (is_wide(p)) {
        count_tile(d, relevant, n, bins, 1, total, hits);
        return ALL_DISTANCES;
    }
    int64_t done = 0;
#ifdef HS_X86
    if (p->kernel.planes && n >= 64)
        done = count_sets_avx2(d, relevant, n, total, hits);
#endif
    if (done < n)
        count_tile((const uint8_t *)d + done, relevant ? relevant + done : NULL, n - done, bins, 0, total, hits);
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
 * twice than to keep. */
static unsigned visit_rank(void *state, const problem *p, int64_t query, int64_t first, const void *d, int64_t n)
{
    const ranking *r = state;
    const int wide = is_wide(p);
    int64_t *place = r->place + query * (8 * p->width + 1);
    int32_t *order = r->order + (r->first_query + query) * p->n_codes;
    for (int64_t i = 0; i < n; i++)
        order[place[distance_at(d, i, wide)]++] = (int32_t)(first + i);
    return ALL_DISTANCES;
}

/* What lies before each of the counts. */
static void sum_before(const int64_t *count, int64_t bins, int64_t *before)
{
    int64_t sum = 0;
    for (int64_t b = 0; b < bins; b++) {
        before[b] = sum;
        sum += count[b];
    }
}

static int work_rank(const plan *w, int64_t q0, int64_t q1, int64_t c0, int64_t c1, int64_t job)
{
    (void)job;
    const int64_t bins = 8 * w->problem->width + 1, cells = (q1 - q0) * bins;
    ranking r = ranking_from(w, q0);
    r.total = calloc((size_t)cells, sizeof *r.total);
    r.place = malloc((size_t)cells * sizeof *r.place);
    int failed = !r.total || !r.place || scan(w->problem, q0, q1, c0, c1, visit_histogram, &r);
    for (int64_t q = 0; !failed && q < q1 - q0; q++)
        sum_before(r.total + q * bins, bins, r.place + q * bins);
    failed = failed || scan(w->problem, q0, q1, c0, c1, visit_rank, &r);
    free(r.total);
    free(r.place);
    return failed ? -1 : 0;
}

/* order: (n_queries, n_codes), codes by (distance, index). n_codes below 2**31. */
HS_API int hs_hamming_rank(problem *p, int32_t *order)
{
    ranking r = {.order = order};
    plan w = {.problem = p, .work = work_rank, .context = &r, .bytes_per_query = 16 * (8 * p->width + 1)};
    return run(&w);
}

/* -------------------------------------------------------------------------------------- stable scores */

/* One scan is enough: how many codes of the same distance there are up to a relevant code is known when it is met,
 * and how many are nearer is known when all codes have been counted. */

#define HIT(d, n) ((uint64_t)(d) << 32 | (uint32_t)(n))

/* Count the codes of a tile by distance and write down the relevant ones; returns how many those are. Written without
 * a branch: `to` needs room for one more than that. */
HS_INLINE int64_t meet_portable(const void *d, const uint8_t *relevant, int64_t n, int wide, uint32_t *count,
                                uint64_t *to)
{
    int64_t size = 0;
    for (int64_t i = 0; i < n; i++) {
        const unsigned distance = distance_at(d, i, wide);
        to[size] = HIT(distance, ++count[distance]);
        size += relevant[i];
    }
    return size;
}

#ifdef HS_X86
/* The same for whole sets of 64 codes whose distances are bytes, or nothing, and -1, where these differ so much that
 * the plain way is faster. For each distance that occurs in the tile, one comparison tells which codes of a set are
 * that far: their number is what is to be counted, and a relevant code only has to leave out those after it. */
HS_AVX2 static int64_t meet_avx2(const uint8_t *d, const uint8_t *relevant, int64_t n, uint32_t *count, uint64_t *to)
{
    const range met = distances_met_avx2(d, n);
    if (met.farthest - met.nearest > SPREAD_MAX)
        return -1;
    int64_t size = 0;
    uint64_t at_distance[256]; /* which codes of the set */
    const __m256i one = _mm256_set1_epi8(1);
    for (int64_t i = 0; i + 64 <= n; i += 64) {
        __m256i distance = _mm256_set1_epi8((char)met.nearest);
        for (int x = met.nearest; x <= met.farthest; x++, distance = _mm256_add_epi8(distance, one)) {
            at_distance[x] = equal_avx2(d + i, distance);
            count[x] += (uint32_t)__builtin_popcountll(at_distance[x]);
        }
        uint64_t left = equal_avx2(relevant + i, one);
        for (; left; left &= left - 1) {
            const int at = __builtin_ctzll(left);
            const unsigned x = d[i + at];
            to[size++] = HIT(x, count[x] - (uint32_t)__builtin_popcountll(at_distance[x] >> at >> 1));
        }
    }
    return size;
}
#endif

static unsigned visit_scores(void *state, const problem *p, int64_t query, int64_t first, const void *d, int64_t n)
{
    const ranking *r = state;
    const int64_t bins = 8 * p->width + 1;
    int64_t *total = r->total + query * bins, done = 0;
    hits *found = r->found + query;
    uint8_t relevant[TILE_MAX];
    uint32_t count[8 * 128 + 1];
    find_relevant(p, r->first_query + query, first, n, relevant);
    for (int64_t b = 0; b < bins; b++)
        count[b] = (uint32_t)total[b];
#ifdef HS_X86
    if (p->kernel.planes && !is_wide(p) && n >= 64) {
        const int64_t met = meet_avx2(d, relevant, n, count, found->codes + found->size);
        if (met >= 0) {
            found->size += met;
            done = n / 64 * 64;
        }
    }
#endif
    uint64_t *to = found->codes + found->size;
    if (is_wide(p))
        found->size += meet_portable(d, relevant, n, 1, count, to);
    else
        found->size += meet_portable((const uint8_t *)d + done, relevant + done, n - done, 0, count, to);
    for (int64_t b = 0; b < bins; b++)
        total[b] = count[b];
    return ALL_DISTANCES;
}

enum { CHUNK = 256, SUMS = 8 };

/* precision = hits / rank for n codes, n a multiple of SUMS; returns the sum, and the least rank in `first`. */
HS_INLINE double divide_chunk(const int32_t *hit, const int32_t *rank, int64_t n, double *precision, int32_t *first)
{
    double sum[SUMS] = {0}, total = 0;
    int32_t least = INT32_MAX;
    for (int64_t i = 0; i < n; i += SUMS)
        for (int j = 0; j < SUMS; j++) { /* so many sums, that no addition waits for the one before */
            precision[i + j] = (double)hit[i + j] / (double)rank[i + j];
            sum[j] += precision[i + j];
        }
    for (int64_t i = 0; i < n; i++)
        least = rank[i] < least ? rank[i] : least;
    for (int j = 0; j < SUMS; j++)
        total += sum[j];
    *first = least;
    return total;
}

static double divide_portable(const int32_t *hit, const int32_t *rank, int64_t n, double *precision, int32_t *first)
{
    return divide_chunk(hit, rank, n, precision, first);
}
#ifdef HS_X86
HS_AVX2 static double divide_avx2(const int32_t *hit, const int32_t *rank, int64_t n, double *precision, int32_t *first)
{
    return divide_chunk(hit, rank, n, precision, first);
}
#endif

/* The sums of a query, once all its codes have been counted and its relevant ones found. */
static void add_scores(const problem *p, const ranking *r, int64_t query)
{
    const int64_t bins = 8 * p->width + 1;
    const hits *found = r->found + query;
    int64_t *total = r->total + query * bins, *relevant = r->relevant + query * bins;
    uint64_t before[8 * 128 + 1], sum = 0; /* hits << 32 | codes that come before the next at a distance */
    double (*divide)(const int32_t *, const int32_t *, int64_t, double *, int32_t *) = divide_portable;
#ifdef HS_X86
    if (p->kernel.planes)
        divide = divide_avx2;
#endif
    for (int64_t i = 0; i < found->size; i++)
        relevant[found->codes[i] >> 32]++;
    for (int64_t b = 0; b < bins; b++) {
        before[b] = sum;
        sum += (uint64_t)relevant[b] << 32 | (uint64_t)total[b];
    }
    query += r->first_query;
    for (int64_t begin = 0; begin < found->size; begin += CHUNK) {
        int64_t n = found->size - begin < CHUNK ? found->size - begin : CHUNK;
        int32_t hit[CHUNK], rank[CHUNK], first;
        double precision[CHUNK];
        for (int64_t i = 0; i < n; i++) {
            const uint64_t code = found->codes[begin + i];
            const uint64_t place = before[code >> 32] += (uint64_t)1 << 32;
            rank[i] = (int32_t)((uint32_t)place + (uint32_t)code);
            hit[i] = (int32_t)(place >> 32);
        }
        for (; n % SUMS; n++)
            rank[n] = INT32_MAX, hit[n] = 0;
        r->precision[query] += divide(hit, rank, n, precision, &first);
        for (int64_t i = 0; i < n && first <= r->last_cutoff; i++)
            for (int64_t c = 0; rank[i] <= r->last_cutoff && c < r->n_cutoffs; c++)
                if (rank[i] <= r->cutoffs[c]) {
                    r->cut_precision[query * r->n_cutoffs + c] += precision[i];
                    r->cut_hits[query * r->n_cutoffs + c]++;
                }
    }
}

/* How many codes are relevant to the query. */
static int64_t count_relevant(const problem *p, int64_t query)
{
    enum { WORDS = 128, STEP = 8 * WORDS }; /* so many that the count in a byte stays below 255 */
    uint8_t relevant[STEP];
    int64_t count = 0;
    for (int64_t first = 0; first < p->n_codes; first += STEP) {
        const int64_t n = p->n_codes - first < STEP ? p->n_codes - first : STEP;
        uint64_t bytes = 0;
        find_relevant(p, query, first, n, relevant);
        memset(relevant + n, 0, (size_t)(STEP - n));
        for (int w = 0; w < WORDS; w++)
            bytes += load_word(relevant + 8 * w);
        bytes = (bytes & 0x00ff00ff00ff00ffu) + ((bytes >> 8) & 0x00ff00ff00ff00ffu);
        count += (int64_t)((bytes * 0x0001000100010001u) >> 48);
    }
    return count;
}

static int work_scores(const plan *w, int64_t q0, int64_t q1, int64_t c0, int64_t c1, int64_t job)
{
    (void)job;
    const problem *p = w->problem;
    ranking r = ranking_from(w, q0);
    r.found = calloc((size_t)(q1 - q0), sizeof *r.found);
    if (!r.found)
        return -1;
    int64_t room = 0;
    for (int64_t q = 0; q < q1 - q0; q++) {
        r.found[q].relevant = count_relevant(p, q0 + q);
        room += r.found[q].relevant + 1;
    }
    uint64_t *codes = malloc((size_t)room * sizeof *codes), *next = codes;
    for (int64_t q = 0; codes && q < q1 - q0; q++) {
        r.found[q].codes = next;
        next += r.found[q].relevant + 1;
    }
    int failed = !codes || scan(p, q0, q1, c0, c1, visit_scores, &r);
    for (int64_t q = 0; !failed && q < q1 - q0; q++)
        add_scores(p, &r, q);
    free(codes);
    free(r.found);
    return failed ? -1 : 0;
}

/* What a walk along each query's full order meets. total, relevant: as in histogram. precision (n_queries): the sum
 * over relevant codes of the precision at their rank. cut_precision, cut_hits (n_queries, n_cutoffs): the same sum,
 * and the number of relevant codes, within the first `cutoffs[c]` ranks. All zero on entry; n_codes below 2**31. */
HS_API int hs_hamming_ap(problem *p, const int64_t *cutoffs, int64_t n_cutoffs, int64_t *total,
                         int64_t *relevant, double *precision, double *cut_precision, int64_t *cut_hits)
{
    ranking r = {.total = total, .relevant = relevant, .cutoffs = cutoffs, .n_cutoffs = n_cutoffs,
                 .precision = precision, .cut_precision = cut_precision, .cut_hits = cut_hits};
    for (int64_t c = 0; c < n_cutoffs; c++)
        r.last_cutoff = cutoffs[c] > r.last_cutoff ? cutoffs[c] : r.last_cutoff;
    plan w = {.problem = p, .work = work_scores, .context = &r, .bytes_per_query = 2 * p->n_codes};
    return run(&w);
}
