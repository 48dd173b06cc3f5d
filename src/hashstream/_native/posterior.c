/* The bits of PosteriorHash; hashers/posterior_steps.py has the method, hashers/kernels/posterior.py the NumPy twin. */
#include <stdint.h>
#include <stdlib.h>

#include "cpu.h"

#if defined(__GNUC__) || defined(__clang__) /* for vectors as a type; elsewhere the NumPy twin serves */

#define MOST_ROWS 32
#define TEMPLATE "posterior_steps.h"
#include "every_real.h"

/* values (n, r): in, M + u; out, with the error of each bit taken from those after it. M (n, r), K (r, r) symmetric.
 * Returns 0, or -1 where memory ran out. */
HS_API int hs_posterior_f32(float *values, const float *M, const float *K, int64_t n, int64_t r)
{
    float *work = malloc(MOST_ROWS * (size_t)r * sizeof *work);
    if (!work) return -1;
    DISPATCH(diffuse_f32)(values, M, K, n, r, work);
    free(work);
    return 0;
}

HS_API int hs_posterior_f64(double *values, const double *M, const double *K, int64_t n, int64_t r)
{
    double *work = malloc(MOST_ROWS * (size_t)r * sizeof *work);
    if (!work) return -1;
    DISPATCH(diffuse_f64)(values, M, K, n, r, work);
    free(work);
    return 0;
}

#endif
