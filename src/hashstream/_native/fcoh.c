/* The class steps of FCOH for one batch, in batch space.
 *
 * W moves only within the span of the batch's samples and class means, the m rows of Z. So the steps need W no more
 * once K = Z Z^T and P = Z W are known: a step that adds Z^T C to W adds K C to P. The caller does the three large
 * matrix products (K, P, and Z^T C at the end) with BLAS; here is what lies between them, which no BLAS does well:
 * one small step after the other, each with the codes that the step before it has left.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "cpu.h"

#if defined(__GNUC__) || defined(__clang__) /* for vectors as a type; elsewhere the NumPy twin serves */

#define HS_POWER_ROUNDS 6
#define HS_POWER_MARGIN 1.05

typedef struct {
    int64_t m;       /* rows of Z: n samples, then a mean for each class of the batch, then means of other classes */
    int64_t n;       /* samples, those of a class side by side */
    int64_t classes; /* classes of the batch; the mean of class c is row n + c */
    int64_t r;       /* bits */
    const int64_t *first;     /* (classes + 1) first sample of each class, and n */
    const double *similar;    /* (classes) lambda1, already scaled */
    const double *dissimilar; /* (classes) lambda2, already scaled */
    double center_weight;     /* how many samples a class mean counts for; 0: the equations of the paper */
    int64_t class_wise;       /* 0: one step for the whole batch */
    int64_t passes;           /* how often every class has its turn */
} hs_fcoh_batch;

typedef struct {
    int64_t automatic; /* 0: every step has length `rate` */
    double rate;       /* mu, or eta where automatic */
    double pull;       /* how far the quantisation term moves a mean's projection, in units of eta */
    double slowing;    /* after this many steps eta has fallen by a factor of sqrt(2) */
    double horizon;    /* after this many it falls no further */
    double taken;      /* steps taken so far; counts on */
    double curvature;  /* running mean of the class curvatures; 0 before the first */
    double steepest;   /* scratch: the largest curvature of a batch that takes one step */
} hs_fcoh_rate;

/* The length of the next step, and of the quantisation term's share in it. The NumPy twin explains the rule. */
static double hs_fcoh_step(hs_fcoh_rate *rate, double curvature, double length, double *quantise)
{
    if (!rate->automatic) return *quantise = rate->rate;
    const double eta = rate->rate / sqrt(1 + fmin(rate->taken, rate->horizon) / rate->slowing);
    rate->taken += 1;
    *quantise = length > 0 ? rate->pull * eta / length : 0;
    if (!(curvature > 0)) return 0;
    rate->curvature = rate->curvature > 0 ? 0.95 * rate->curvature + 0.05 * curvature : curvature;
    return fmin(eta / rate->curvature, 1.8 / curvature);
}

#define TEMPLATE "fcoh_steps.h"
#include "every_real.h"

static size_t hs_fcoh_work(const hs_fcoh_batch *batch)
{
    const size_t m = (size_t)batch->m, r = (size_t)batch->r, n = (size_t)batch->n;
    return 2 * m * r + (n + (size_t)batch->classes) * r + 2 * r * r + 3 * r + n + (n > r ? n : r);
}

/* K (m, m), P (m, r): in, and out after all steps. C (m, r): out, W grows by Z^T C; zero where no row moved W.
 * Returns 0, or -1 where memory ran out. */
HS_API int hs_fcoh_f32(const hs_fcoh_batch *batch, const float *K, float *P, float *C, hs_fcoh_rate *rate)
{
    float *work = malloc(hs_fcoh_work(batch) * sizeof *work);
    if (!work) return -1;
    DISPATCH(steps_f32)(batch, K, P, C, work, rate);
    free(work);
    return 0;
}

HS_API int hs_fcoh_f64(const hs_fcoh_batch *batch, const double *K, double *P, double *C, hs_fcoh_rate *rate)
{
    double *work = malloc(hs_fcoh_work(batch) * sizeof *work);
    if (!work) return -1;
    DISPATCH(steps_f64)(batch, K, P, C, work, rate);
    free(work);
    return 0;
}

/* See gather in fcoh_steps.h. */
HS_API void hs_fcoh_gather_f32(const float *X, const int64_t *order, const int64_t *first, int64_t classes, int64_t d, float *Z, float *sums)
{
    DISPATCH(gather_f32)(X, order, first, classes, d, Z, sums);
}

HS_API void hs_fcoh_gather_f64(const double *X, const int64_t *order, const int64_t *first, int64_t classes, int64_t d, double *Z, double *sums)
{
    DISPATCH(gather_f64)(X, order, first, classes, d, Z, sums);
}

#endif
