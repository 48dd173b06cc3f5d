/* The signs of real values as packed codes: bit k of a row is 1 where its value k is above 0.
 *
 * Read as whole numbers, floats above 0 are those above 0, and one that is infinite or not a number has all bits of its
 * exponent set: both questions are answered without arithmetic.
 */
#include <stdint.h>
#include <string.h>

#include "signs.h"

#ifdef HS_X86
#include <immintrin.h>
#endif

/* A row of r values; `largest` becomes the largest magnitude seen, as a whole number. */
#define DEFINE_ROW(NAME, WHOLE)                                                                                        \
    static void NAME(const uint8_t *values, int64_t r, uint8_t *code, WHOLE *largest)                                 \
    {                                                                                                                  \
        for (int64_t first = 0; first < r; first += 8) {                                                               \
            const int64_t n = r - first < 8 ? r - first : 8;                                                           \
            WHOLE x[8] = {0};                                                                                          \
            unsigned byte = 0;                                                                                         \
            memcpy(x, values + first * (int64_t)sizeof(WHOLE), (size_t)n * sizeof(WHOLE));                             \
            for (int k = 0; k < 8; k++) {                                                                              \
                const WHOLE magnitude = x[k] & (WHOLE)(((uint64_t)1 << (8 * sizeof(WHOLE) - 1)) - 1);                  \
                *largest = magnitude > *largest ? magnitude : *largest;                                                \
                byte = byte << 1 | (x[k] > 0);                                                                         \
            }                                                                                                          \
            code[first / 8] = (uint8_t)byte;                                                                           \
        }                                                                                                              \
    }

DEFINE_ROW(row_f32, int32_t)
DEFINE_ROW(row_f64, int64_t)

#ifdef HS_X86
/* 8 n values of 4 bytes to n bytes. */
HS_AVX2 static int32_t line_f32_avx2(const uint8_t *values, int64_t n, uint8_t *codes)
{
    const __m256i backwards = _mm256_setr_epi32(7, 6, 5, 4, 3, 2, 1, 0), magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256i largest = _mm256_setzero_si256();
    for (int64_t i = 0; i < n; i++) {
        const __m256i x = _mm256_loadu_si256((const __m256i *)(values + 32 * i));
        const __m256i above = _mm256_cmpgt_epi32(_mm256_permutevar8x32_epi32(x, backwards), _mm256_setzero_si256());
        largest = _mm256_max_epi32(largest, _mm256_and_si256(x, magnitude));
        codes[i] = (uint8_t)_mm256_movemask_ps(_mm256_castsi256_ps(above));
    }
    int32_t lanes[8], most = 0;
    _mm256_storeu_si256((__m256i *)lanes, largest);
    for (int k = 0; k < 8; k++)
        most = lanes[k] > most ? lanes[k] : most;
    return most;
}

/* 8 n values of 8 bytes to n bytes. */
HS_AVX2 static int line_f64_avx2(const uint8_t *values, int64_t n, uint8_t *codes)
{
    const __m256d zero = _mm256_setzero_pd();
    __m256d wrong = zero; /* v - v is not 0 where v is infinite or not a number */
    for (int64_t i = 0; i < n; i++) {
        const __m256d v = _mm256_loadu_pd((const double *)(values + 64 * i));
        const __m256d w = _mm256_loadu_pd((const double *)(values + 64 * i + 32));
        const __m256d first = _mm256_cmp_pd(_mm256_permute4x64_pd(v, 0x1b), zero, _CMP_GT_OQ);
        const __m256d last = _mm256_cmp_pd(_mm256_permute4x64_pd(w, 0x1b), zero, _CMP_GT_OQ);
        wrong = _mm256_or_pd(wrong, _mm256_or_pd(_mm256_sub_pd(v, v), _mm256_sub_pd(w, w)));
        codes[i] = (uint8_t)(_mm256_movemask_pd(first) << 4 | _mm256_movemask_pd(last));
    }
    return _mm256_movemask_pd(_mm256_cmp_pd(wrong, zero, _CMP_NEQ_UQ)) != 0;
}
#endif

int hs_signs_pack(const uint8_t *values, int64_t n, int64_t r, int64_t bytes, uint8_t *codes)
{
    const int64_t width = (r + 7) / 8;
    int32_t single = 0;
    int64_t real = 0;
#ifdef HS_X86
    if (bytes == 4 && r % 8 == 0 && hs_has_avx2())
        return line_f32_avx2(values, n * width, codes) >= 0x7f800000;
    if (bytes == 8 && r % 8 == 0 && hs_has_avx2())
        return line_f64_avx2(values, n * width, codes);
#endif
    for (int64_t i = 0; i < n; i++)
        if (bytes == 4)
            row_f32(values + i * r * 4, r, codes + i * width, &single);
        else
            row_f64(values + i * r * 8, r, codes + i * width, &real);
    return single >= 0x7f800000 || real >= 0x7ff0000000000000;
}
