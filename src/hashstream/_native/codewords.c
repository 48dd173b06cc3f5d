/* Methods that learn towards a codeword for each class, one sample after the other: HCOH, HMOH and OSH.
 *
 * Each sample is projected by W and then moves W: two passes over a W that is larger than the nearest cache. What makes it
 * fast here is that no bit needs the other bits' columns of W (boosting needs one number of each sample from the bits
 * before it). So W is taken apart into strips, one vector of bits wide, and a strip learns a block of samples before the
 * next strip does: strip and block stay in the cache. Within a strip the move by one sample and the projection of the
 * next are one pass. Every column sees the same operations in the same order however a stream is cut into calls.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"

#if defined(__GNUC__) || defined(__clang__) /* for vectors as a type; elsewhere the NumPy twin serves */

#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi" /* vectors are passed between functions of this file only */
#endif

#define HS_BLOCK_BYTES (1 << 18) /* of samples */

enum { HS_HCOH, HS_HMOH, HS_OSH_BOOST, HS_OSH_HINGE };

typedef struct {
    int64_t rule;        /* one of the above */
    int64_t n, d, r;     /* samples, features, bits */
    int64_t batch;       /* samples of one step; 1 for OSH */
    double rate;         /* eta */
    const int64_t *rows; /* (n) which row of the codebook each sample is to have */
    const int8_t *codebook; /* (m, r) of -1 and +1 */
    int64_t *held;       /* (r) HMOH: for how many steps a column has been what it is */
    int64_t *mistakes;   /* (r) HMOH: wrong bits so far */
} hs_codewords;

#define TEMPLATE "codewords_steps.h"
#include "every_real.h"

/* X (n, d); W (d, r): in, and out after all samples; total (d, r): HMOH's sum of former iterates, otherwise NULL.
 * Returns 0, or -1 where memory ran out. */
HS_API int hs_codewords_f32(const hs_codewords *job, const float *X, float *W, float *total)
{
    return DISPATCH(learn_f32)(job, X, W, total);
}

HS_API int hs_codewords_f64(const hs_codewords *job, const double *X, double *W, double *total)
{
    return DISPATCH(learn_f64)(job, X, W, total);
}

#endif
