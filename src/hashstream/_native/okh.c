/* The pairs of OKH; hashers/okh.py has the steps, hashers/kernels/okh.py the NumPy twin. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"

#if defined(__GNUC__) || defined(__clang__) /* for vectors as a type; elsewhere the NumPy twin serves */

typedef struct {
    int64_t d, r;
    double allowed; /* t_s: the Hamming distance that a similar pair may have */
    double wanted;  /* t_d: the Hamming distance that a dissimilar pair must have */
    double C;       /* the longest step */
} hs_okh_settings;

#define TEMPLATE "okh_steps.h"
#include "every_real.h"

/* W (d, r): in, and out after all pairs; X (2 pairs, d), similar (pairs).
 * Returns how many pairs moved W, or -1 where memory ran out. */
HS_API int64_t hs_okh_f32(const hs_okh_settings *settings, float *W, const float *X, const uint8_t *similar, int64_t pairs)
{
    float *work = malloc(5 * (size_t)settings->r * sizeof *work);
    int64_t *order = malloc((size_t)settings->r * sizeof *order);
    const int64_t moved = work && order ? DISPATCH(okh_pairs_f32)(settings, W, X, similar, pairs, work, order) : -1;
    free(order);
    free(work);
    return moved;
}

HS_API int64_t hs_okh_f64(const hs_okh_settings *settings, double *W, const double *X, const uint8_t *similar, int64_t pairs)
{
    double *work = malloc(5 * (size_t)settings->r * sizeof *work);
    int64_t *order = malloc((size_t)settings->r * sizeof *order);
    const int64_t moved = work && order ? DISPATCH(okh_pairs_f64)(settings, W, X, similar, pairs, work, order) : -1;
    free(order);
    free(work);
    return moved;
}

#endif
