/* Signs of a matrix product, settled where they are nearer to 0 than rounding can move them; hashers/kernels/settle.py
 * has the reason and the NumPy twin. */
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "cpu.h"
#include "signs.h"

#if defined(__GNUC__) || defined(__clang__) /* elsewhere the NumPy twin serves */

/* The columns of a matrix (d, r), and when the sign of a product with x is sure: |x . w| scale[k] > |x| + base, where
 * scale allows for `terms` roundings. No product is infinite where |x|^2 < most. */
struct columns {
    int64_t d, r;
    const void *W, *scale; /* (r, d) and (r), of the type of X */
    double base, terms, most;
};

/* x . w in eight sums, number i into sum i mod 8. Products of floats are exact in double, so it makes no difference
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

/* 1 where a number is below 0 (or -0), the first of each eight in the highest bit of a byte. Whole numbers are made
 * smaller with their sign; the lanes of 16 bytes stay apart meanwhile. */
HS_AVX2 static inline uint32_t signs_f32_avx2(__m256 a, __m256 b, __m256 c, __m256 d)
{
    const __m256i first = _mm256_packs_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b));
    const __m256i last = _mm256_packs_epi32(_mm256_castps_si256(c), _mm256_castps_si256(d));
    const __m256i order = _mm256_setr_epi32(4, 0, 5, 1, 6, 2, 7, 3);
    const __m256i backwards = _mm256_set_epi32(0x0c0d0e0f, 0x08090a0b, 0x04050607, 0x00010203, 0x0c0d0e0f, 0x08090a0b,
                                               0x04050607, 0x00010203);
    const __m256i all = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(first, last), order);
    return (uint32_t)_mm256_movemask_epi8(_mm256_shuffle_epi8(all, backwards));
}

HS_AVX2 static inline uint32_t signs_f64_avx2(__m256d a, __m256d b, __m256d c, __m256d d)
{
    const __m256 first = _mm256_shuffle_ps(_mm256_castpd_ps(a), _mm256_castpd_ps(b), 0xdd); /* the upper halves */
    const __m256 last = _mm256_shuffle_ps(_mm256_castpd_ps(c), _mm256_castpd_ps(d), 0xdd);
    const __m256i all = _mm256_packs_epi32(_mm256_castps_si256(first), _mm256_castps_si256(last));
    const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
    const __m128i order = _mm_setr_epi8(11, 10, 3, 2, 9, 8, 1, 0, 15, 14, 7, 6, 13, 12, 5, 4);
    return (uint32_t)_mm_movemask_epi8(_mm_shuffle_epi8(bytes, order));
}

#define REAL float
#define NAME(x) x##_f32_avx2
#define VECTOR __m256
#define V(op) _mm256_##op##_ps
#define WORD uint32_t
#include "settle_avx2.h"
#undef REAL
#undef NAME
#undef VECTOR
#undef V
#undef WORD
#define REAL double
#define NAME(x) x##_f64_avx2
#define VECTOR __m256d
#define V(op) _mm256_##op##_pd
#define WORD uint16_t
#include "settle_avx2.h"
#define SETTLE(kind)                                                                                                   \
    (codes && c->r % 8 == 0 && c->r >= 32 && hs_has_avx2() ? settle_eights_##kind##_avx2                    \
                                                                      : DISPATCH(settle_##kind))
#else
#define SETTLE(kind) DISPATCH(settle_##kind)
#endif

/* squares (n): |x|^2 of every row of X (n, d). */
HS_API void hs_squares_f32(const float *X, int64_t n, int64_t d, float *squares)
{
    DISPATCH(row_squares_f32)(X, n, d, squares);
}

HS_API void hs_squares_f64(const double *X, int64_t n, int64_t d, double *squares)
{
    DISPATCH(row_squares_f64)(X, n, d, squares);
}

/* X (n, d), values (n, r): X times the columns, rounded in some way. Values whose sign may be wrong are computed again
 * in a fixed order, but for some that are not numbers. squares (n): those of hs_squares_*, or NULL. codes
 * (n, ceil(r / 8)): the signs, the first bit highest; or NULL. Returns 0, or 1 where there are codes and a value is
 * infinite or not a number; the codes are of no use then. */
HS_API int hs_settle_f32(const struct columns *c, const float *X, int64_t n, const float *squares,
        float *values, uint8_t *codes)
{
    return SETTLE(f32)(c, X, n, squares, values, codes);
}

HS_API int hs_settle_f64(const struct columns *c, const double *X, int64_t n, const double *squares,
        double *values, uint8_t *codes)
{
    return SETTLE(f64)(c, X, n, squares, values, codes);
}

/* marks (n): 1 where a value of the row, values (n, r), is nearer to 0 than rows[i] columns[k], or not finite. Where
 * neither is 0, there is room for numbers that are too small. */
HS_API void hs_unsure_f32(const float *values, int64_t n, int64_t r, const float *rows, const float *columns,
        uint8_t *marks)
{
    DISPATCH(unsure_f32)(values, n, r, rows, columns, marks);
}

HS_API void hs_unsure_f64(const double *values, int64_t n, int64_t r, const double *rows,
        const double *columns, uint8_t *marks)
{
    DISPATCH(unsure_f64)(values, n, r, rows, columns, marks);
}

#endif
