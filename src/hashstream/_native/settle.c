/* Signs of a matrix product, settled where they are nearer to 0 than rounding can move them; hashers/kernels/settle.py
 * has the reason and the NumPy twin. */
#include <float.h>
#include <math.h>
#include <stdint.h>

#include "cpu.h"

#if defined(__GNUC__) || defined(__clang__) /* elsewhere the NumPy twin serves */

/* x . w in eight sums, number i into sum i mod 8. Products of floats are exact in double, so that it makes no difference
 * whether multiplication and addition are fused. The sign survives where the sum is too small for float. */
static inline float dot_single(const float *x, const float *w, int64_t d)
{
    double s[8] = {0};
    int64_t i = 0;
    for (; i + 8 <= d; i += 8)
        for (int j = 0; j < 8; j++) s[j] += (double)x[i + j] * (double)w[i + j];
    for (int j = 0; i < d; i++, j++) s[j] += (double)x[i] * (double)w[i];
    const double sum = ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
    return (float)sum != 0 || sum == 0 ? (float)sum : sum > 0 ? FLT_MIN : -FLT_MIN;
}

static int exponent_of(const double *x, int64_t d)
{
    double most = 0;
    int exponent = 0;
    for (int64_t i = 0; i < d; i++) most = fabs(x[i]) > most ? fabs(x[i]) : most;
    frexp(most, &exponent);
    return isfinite(most) ? exponent : 0;
}

/* x . w as precise as with twice the digits: Dot2 of Ogita, Rump and Oishi, "Accurate sum and dot product", 2005. Both
 * are scaled by powers of 2, so that nothing overflows. */
static double dot_double(const double *x, const double *w, int64_t d)
{
    const int ex = exponent_of(x, d), ew = exponent_of(w, d);
    double sum = 0, rest = 0;
    for (int64_t i = 0; i < d; i++) {
        const double a = ldexp(x[i], -ex), b = ldexp(w[i], -ew);
        const double product = a * b;
        const double lost = fma(a, b, -product);
        const double total = sum + product;
        const double part = total - sum;
        const double off = sum - (total - part);
        rest += (off + (product - part)) + lost;
        sum = total;
    }
    sum += rest;
    const double result = ldexp(sum, ex + ew);
    return result != 0 || sum == 0 ? result : sum > 0 ? DBL_MIN : -DBL_MIN;
}

static float dot_f32(const float *x, const float *w, int64_t d) { return dot_single(x, w, d); }
static double dot_f64(const double *x, const double *w, int64_t d) { return dot_double(x, w, d); }
#ifdef HS_X86
HS_AVX2 static float dot_f32_avx2(const float *x, const float *w, int64_t d) { return dot_single(x, w, d); }
HS_AVX2 static double dot_f64_avx2(const double *x, const double *w, int64_t d) { return dot_double(x, w, d); }
#endif

#define TEMPLATE "settle_steps.h"
#include "every_real.h"

#ifdef HS_X86
#include <immintrin.h>

/* As settle_f32_avx2, which is called for the few rows with a value in doubt; r is a multiple of 8. */
HS_AVX2 static void settle_eights(const float *X, int64_t n, int64_t d, const float *W, int64_t r, const float *scale,
                                  float base, float *values)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    for (int64_t i = 0; i < n; i++, X += d, values += r) {
        __m256 a = _mm256_setzero_ps(), b = a, c = a, e = a, least = _mm256_set1_ps(INFINITY);
        float rest = (float)d * FLT_MIN; /* squares that are too small for float */
        int64_t j = 0;
        for (; j + 32 <= d; j += 32) {
            const __m256 p = _mm256_loadu_ps(X + j), q = _mm256_loadu_ps(X + j + 8);
            const __m256 s = _mm256_loadu_ps(X + j + 16), t = _mm256_loadu_ps(X + j + 24);
            a = _mm256_fmadd_ps(p, p, a), b = _mm256_fmadd_ps(q, q, b);
            c = _mm256_fmadd_ps(s, s, c), e = _mm256_fmadd_ps(t, t, e);
        }
        for (; j < d; j++) rest += X[j] * X[j];
        a = _mm256_add_ps(_mm256_add_ps(a, b), _mm256_add_ps(c, e));
        __m128 sum = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
        sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
        sum = _mm_add_ss(_mm_add_ss(sum, _mm_movehdup_ps(sum)), _mm_set_ss(rest));
        const __m256 limit = _mm256_broadcastss_ps(_mm_add_ss(_mm_sqrt_ss(sum), _mm_set_ss(base)));
        for (int64_t k = 0; k < r; k += 8) {
            const __m256 size = _mm256_andnot_ps(sign, _mm256_loadu_ps(values + k));
            least = _mm256_min_ps(_mm256_mul_ps(size, _mm256_loadu_ps(scale + k)), least); /* NaN is passed over */
        }
        if (_mm256_movemask_ps(_mm256_cmp_ps(least, limit, _CMP_GT_OQ)) != 0xff)
            settle_f32_avx2(X, 1, d, W, r, scale, base, values);
    }
}
#endif

/* X (n, d), W (r, d), values (n, r): X W^T, rounded in some way. A value v is sure where |v| scale[k] > |x| + base;
 * others are computed again in a fixed order, but for some that are not numbers. */
HS_API void hs_settle_f32(const float *X, int64_t n, int64_t d, const float *W, int64_t r, const float *scale,
                          double base, float *values)
{
#ifdef HS_X86
    if (r % 8 == 0 && hs_has_avx2()) {
        settle_eights(X, n, d, W, r, scale, (float)base, values);
        return;
    }
#endif
    DISPATCH(settle_f32)(X, n, d, W, r, scale, (float)base, values);
}

HS_API void hs_settle_f64(const double *X, int64_t n, int64_t d, const double *W, int64_t r, const double *scale,
                          double base, double *values)
{
    DISPATCH(settle_f64)(X, n, d, W, r, scale, base, values);
}

/* marks (n): 1 where a value of the row, values (n, r), is nearer to 0 than rows[i] columns[k] + base[k], or not
 * finite. base does not count where rows[i] is 0. */
HS_API void hs_unsure_f32(const float *values, int64_t n, int64_t r, const float *rows, const float *columns,
                          const float *base, uint8_t *marks)
{
    DISPATCH(unsure_f32)(values, n, r, rows, columns, base, marks);
}

HS_API void hs_unsure_f64(const double *values, int64_t n, int64_t r, const double *rows, const double *columns,
                          const double *base, uint8_t *marks)
{
    DISPATCH(unsure_f64)(values, n, r, rows, columns, base, marks);
}

#endif
