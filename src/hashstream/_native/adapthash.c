/* The pairs of AdaptHash: with W = base S + Z^T C, and as they are written. hashers/kernels/adapthash.py says when and
 * why, and what the parts mean. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"

#if defined(__GNUC__) || defined(__clang__) /* for vectors as a type; elsewhere the NumPy twin serves */

typedef struct {
    int64_t d, r;
    int64_t capacity; /* rows of Z and C */
    int64_t filled;   /* rows of them in use; counts on */
    int64_t moved;    /* out: pairs that moved W */
    double allowed;   /* the Hamming distance that a similar pair may have */
    double wanted;    /* the Hamming distance that a dissimilar pair must have */
    double eta, lambda;
} hs_adapthash_block;

#define TEMPLATE "adapthash_steps.h"
#include "every_real.h"

static size_t hs_adapthash_work(const hs_adapthash_block *block)
{
    const size_t d = (size_t)block->d, r = (size_t)block->r, rows = (size_t)block->capacity;
    return rows * r + (r + rows) * r + r * r + 2 * rows + 10 * r + d * r;
}

/* base (d, r), gram (r, r), mixing (r + capacity, r), samples (capacity, d): in, and out after all pairs.
 * X (2 pairs, d), similar (pairs). A full block is put together when the next pair comes.
 * Returns 0, or -1 where memory ran out. */
HS_API int64_t hs_adapthash_f32(hs_adapthash_block *block, float *base, float *gram, float *mixing, float *samples, const float *X, const uint8_t *similar, int64_t pairs)
{
    float *work = malloc(hs_adapthash_work(block) * sizeof *work);
    int64_t *order = malloc((size_t)block->r * sizeof *order);
    const int enough = work && order;
    if (enough) DISPATCH(pairs_f32)(block, base, gram, mixing, samples, X, similar, pairs, work, order);
    free(order);
    free(work);
    return enough ? 0 : -1;
}

HS_API int64_t hs_adapthash_f64(hs_adapthash_block *block, double *base, double *gram, double *mixing, double *samples, const double *X, const uint8_t *similar, int64_t pairs)
{
    double *work = malloc(hs_adapthash_work(block) * sizeof *work);
    int64_t *order = malloc((size_t)block->r * sizeof *order);
    const int enough = work && order;
    if (enough) DISPATCH(pairs_f64)(block, base, gram, mixing, samples, X, similar, pairs, work, order);
    free(order);
    free(work);
    return enough ? 0 : -1;
}

/* W (d, r) of a block: out. */
HS_API void hs_adapthash_projection_f32(const hs_adapthash_block *block, float *W, const float *base, const float *mixing, const float *samples)
{
    DISPATCH(put_together_f32)(block, W, base, mixing, samples);
}

HS_API void hs_adapthash_projection_f64(const hs_adapthash_block *block, double *W, const double *base, const double *mixing, const double *samples)
{
    DISPATCH(put_together_f64)(block, W, base, mixing, samples);
}

/* The pairs as they are written: W (d, r), in and out. Returns 0, or -1 where memory ran out. */
HS_API int64_t hs_adapthash_dense_f32(hs_adapthash_block *block, float *W, const float *X, const uint8_t *similar, int64_t pairs)
{
    const size_t d = (size_t)block->d, r = (size_t)block->r;
    float *work = malloc((6 * r + r * r + d * r) * sizeof *work);
    int64_t *order = malloc(r * sizeof *order);
    const int enough = work && order;
    if (enough) DISPATCH(dense_f32)(block, W, X, similar, pairs, work, order);
    free(order);
    free(work);
    return enough ? 0 : -1;
}

HS_API int64_t hs_adapthash_dense_f64(hs_adapthash_block *block, double *W, const double *X, const uint8_t *similar, int64_t pairs)
{
    const size_t d = (size_t)block->d, r = (size_t)block->r;
    double *work = malloc((6 * r + r * r + d * r) * sizeof *work);
    int64_t *order = malloc(r * sizeof *order);
    const int enough = work && order;
    if (enough) DISPATCH(dense_f64)(block, W, X, similar, pairs, work, order);
    free(order);
    free(work);
    return enough ? 0 : -1;
}

#endif
