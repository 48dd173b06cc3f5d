/* The marked places of a mask by slot, for masks that mark few: their codes are gathered before the search. */
#include <stdint.h>
#include <string.h>

#include "cpu.h"

#ifdef HS_X86
#include <immintrin.h>
#endif

/* Places n0 to n - 1, in steps of a word. `found` were marked before n0. */
static int64_t marked_portable(const uint8_t *marks, int64_t n0, int64_t n, int64_t found, int64_t most,
                               uint32_t *slots)
{
    for (int64_t i = n0; i < n; i += 8) {
        const int64_t end = i + 8 < n ? i + 8 : n;
        uint64_t word = 1;
        if (end - i == 8)
            memcpy(&word, marks + i, 8);
        if (!word)
            continue;
        for (int64_t slot = i; slot < end; slot++)
            if (marks[slot]) {
                if (++found > most)
                    return found;
                if (slots)
                    slots[found - 1] = (uint32_t)slot;
            }
    }
    return found;
}

#ifdef HS_X86
HS_AVX2 static inline uint32_t unmarked_avx2(const uint8_t *marks)
{
    const __m256i zero = _mm256_setzero_si256();
    return (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_loadu_si256((const __m256i *)marks), zero));
}

HS_AVX2 static int64_t marked_avx2(const uint8_t *marks, int64_t n, int64_t most, uint32_t *slots)
{
    int64_t found = 0, i = 0;
    for (; i + 64 <= n; i += 64) {
        uint64_t bits = ~((uint64_t)unmarked_avx2(marks + i + 32) << 32 | unmarked_avx2(marks + i));
        const int64_t here = __builtin_popcountll(bits);
        if (found + here > most)
            return most + 1;
        if (slots)
            for (uint32_t *to = slots + found; bits; bits &= bits - 1)
                *to++ = (uint32_t)(i + __builtin_ctzll(bits));
        found += here;
    }
    return marked_portable(marks, i, n, found, most, slots);
}
#endif

/* How many of n places are marked, or more than `most` as soon as that is known; at most so many, ascending, are written
 * to `slots`, unless it is NULL. */
HS_API int64_t hs_hamming_marked(const uint8_t *marks, int64_t n, int64_t most, int64_t portable, uint32_t *slots)
{
#ifdef HS_X86
    if (!portable && hs_has_avx2())
        return marked_avx2(marks, n, most, slots);
#endif
    (void)portable;
    return marked_portable(marks, 0, n, 0, most, slots);
}
