/* The steps of MIHash for one piece of the stream: one instance after the other, each against the whole reservoir.
 *
 * Written down as published, a step projects the reservoir again, R d r multiplications. But a step moves W by x g^T
 * only, and so the projection of a reservoir item z by (z^T x) g^T: with the inner products of the instances with the
 * reservoir, R d multiplications each and computed for many instances in one reading of the reservoir, the projections
 * follow at R r. They are recomputed from W every `refresh` rows of the stream, before rounding errors accumulate.
 *
 * Every sum runs in an order that depends on the stream alone and not on how it is cut into calls: the same W to the
 * last bit, whether rows come one by one or all at once.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "cpu.h"

#if defined(__GNUC__) || defined(__clang__) /* for vectors as a type; elsewhere the NumPy twin serves */

#define HS_MIHASH_CHUNK 32 /* instances for which the reservoir is read once */

typedef struct {
    int64_t n;       /* instances of this piece */
    int64_t d, r;    /* features, bits */
    int64_t bins;    /* K */
    int64_t size;    /* items of the reservoir before the piece */
    int64_t most;    /* and after it */
    int64_t seen;    /* instances before the piece */
    int64_t refresh; /* projections are recomputed where the number of instances before is a multiple of it */
    double scale;    /* A, the slope of the sigmoid */
    double clip;     /* its argument is held within +-clip */
    const int64_t *slot;    /* (n) the place in the reservoir that the instance takes after its step; -1: none */
    const double *rate;     /* (n) the length of its step; 0: it takes none */
    const uint8_t *related; /* (n, size + n) whether it shares a label with each old item and each instance */
} hs_mihash_piece;

/* Of one step, for each of the K + 1 bins: how many related and unrelated items, and what it is worth to one of either. */
typedef struct {
    double *related, *unrelated, *worth, *worth_not;
} hs_mihash_bins;

/* From counts to worths: 1 + log2 P - (1 + log2 P+) for related items, likewise for unrelated ones. The brackets are 1
 * where the probability is 0. */
static void hs_mihash_weigh(const hs_mihash_bins *b, int64_t bins, double count, double count_not)
{
    for (int64_t l = 0; l <= bins; l++) {
        const double related = b->related[l], unrelated = b->unrelated[l], both = related + unrelated;
        const double bracket = both > 0 ? log2(both / (count + count_not)) : 0;
        b->worth[l] = bracket - (related > 0 ? log2(related / count) : 0);
        b->worth_not[l] = bracket - (unrelated > 0 ? log2(unrelated / count_not) : 0);
    }
}

#define TEMPLATE "mihash_steps.h"
#include "every_real.h"

/* Numbers of work space: projections, relaxed codes, inner products, one row each of p, code and g. */
static size_t hs_mihash_work(const hs_mihash_piece *piece, size_t lanes)
{
    const size_t wide = ((size_t)piece->r + lanes - 1) / lanes * lanes, most = (size_t)piece->most;
    return 2 * most * wide + (most + HS_MIHASH_CHUNK) * HS_MIHASH_CHUNK + 3 * wide;
}

/* reservoir (size, d): the items before the piece. X (n, d). W (d, r): in and out. P (most, r): the projections of the
 * items, `size` rows in and `most` rows out. Returns 0, or -1 where memory ran out. */
HS_API int hs_mihash_f32(const hs_mihash_piece *piece, const float *reservoir, const float *X, float *W, float *P)
{
    float *work = malloc(hs_mihash_work(piece, 32 / sizeof *work) * sizeof *work);
    double *counts = malloc(4 * (size_t)(piece->bins + 1) * sizeof *counts);
    int64_t *places = malloc((3 * (size_t)piece->most + 1) * sizeof *places);
    const int enough = work && counts && places;
    if (enough) DISPATCH(steps_f32)(piece, reservoir, X, W, P, work, counts, places);
    free(work), free(counts), free(places);
    return enough ? 0 : -1;
}

HS_API int hs_mihash_f64(const hs_mihash_piece *piece, const double *reservoir, const double *X, double *W, double *P)
{
    double *work = malloc(hs_mihash_work(piece, 32 / sizeof *work) * sizeof *work);
    double *counts = malloc(4 * (size_t)(piece->bins + 1) * sizeof *counts);
    int64_t *places = malloc((3 * (size_t)piece->most + 1) * sizeof *places);
    const int enough = work && counts && places;
    if (enough) DISPATCH(steps_f64)(piece, reservoir, X, W, P, work, counts, places);
    free(work), free(counts), free(places);
    return enough ? 0 : -1;
}

#endif
