/* Distances of a few queries to one tile of codes: the innermost loops of hamming.c.
 *
 * Two ways to the same numbers, and a tile's distances always land in a small buffer that the caller reads next:
 *
 * rows    One query, codes as they lie in memory: exclusive or, population count. Portable, and the best that can be
 *         done when a tile is read for one or two queries only.
 * planes  Many queries: the tile is first transposed so that nibble j of 32 codes lies in 32 neighbouring bytes. The
 *         distance of a query to those 32 codes is then a sum of 16-entry table look-ups, one byte shuffle and one
 *         addition for a nibble of 32 codes: no exclusive or, no population count, no horizontal sum. The transpose
 *         is paid once for a tile and shared by all queries of a block.
 *
 * Distances are bytes while a code has at most 31 bytes (248 fits), 16-bit words above; `wide` tells which.
 */
#ifndef HASHSTREAM_HAMMING_TILE_H
#define HASHSTREAM_HAMMING_TILE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cpu.h"

#if defined(__aarch64__) && defined(__ARM_NEON) && !defined(__ARM_BIG_ENDIAN)
#define HS_NEON 1
#include <arm_neon.h>
#endif
#ifdef HS_X86
#include <immintrin.h>
#endif
#if defined(__GNUC__) || defined(__clang__)
#define HS_INLINE static inline __attribute__((always_inline))
#else
#define HS_INLINE static inline
#endif

enum {
    GROUP = 32,        /* codes whose nibbles share one vector */
    QUAD = 4,          /* queries that share the loads of a tile */
    TILE_STEP = 128,   /* tiles, and what is computed of one, are multiples of this many codes */
    TILE_MAX = 4096,   /* codes in a tile, at most; counts inside a tile fit 16 bits */
    PLANE_BYTES = 32768,
    SKIP_BYTES = 256,  /* of codes that are passed over, or looked into, together */
    BYTE_WIDTH = 31    /* widest code in bytes whose distances fit a byte */
};

/* Codes in a tile: what keeps its planes in the first two caches. */
static inline int64_t tile_codes(int64_t width)
{
    int64_t codes = PLANE_BYTES / (2 * width) / TILE_STEP * TILE_STEP;
    return codes < TILE_STEP ? TILE_STEP : codes > TILE_MAX ? TILE_MAX : codes;
}

HS_INLINE unsigned distance_at(const void *distances, int64_t i, int wide)
{
    return wide ? ((const uint16_t *)distances)[i] : ((const uint8_t *)distances)[i];
}

/* The first `bytes` (below 8) bytes at p, the rest zero; never reads beyond them. */
HS_INLINE uint64_t load_few(const uint8_t *p, int64_t bytes)
{
    uint64_t value = 0;
    uint32_t four;
    uint16_t two;
    if (bytes & 1)
        value = p[bytes - 1];
    if (bytes & 2) {
        memcpy(&two, p + (bytes & 4), 2);
        value = value << 16 | two;
    }
    if (bytes & 4) {
        memcpy(&four, p, 4);
        value = value << 32 | four;
    }
    return value;
}

HS_INLINE uint64_t load_word(const uint8_t *p)
{
    uint64_t value;
    memcpy(&value, p, 8);
    return value;
}

HS_INLINE unsigned popcount_portable(uint64_t x)
{
    x -= (x >> 1) & 0x5555555555555555u;
    x = (x & 0x3333333333333333u) + ((x >> 2) & 0x3333333333333333u);
    x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    return (unsigned)((x * 0x0101010101010101u) >> 56);
}

/* ------------------------------------------------------------------------------------------------ rows */

#define DEFINE_ROWS(NAME, ATTRIBUTES, POPCOUNT)                                                              \
    ATTRIBUTES HS_INLINE unsigned NAME##_one(const uint8_t *query, const uint8_t *code, int64_t width)       \
    {                                                                                                        \
        unsigned sum = 0;                                                                                    \
        int64_t byte = 0;                                                                                    \
        for (; byte + 8 <= width; byte += 8)                                                                 \
            sum += POPCOUNT(load_word(query + byte) ^ load_word(code + byte));                               \
        if (byte < width)                                                                                    \
            sum += POPCOUNT(load_few(query + byte, width - byte) ^ load_few(code + byte, width - byte));     \
        return sum;                                                                                          \
    }                                                                                                        \
    ATTRIBUTES HS_INLINE void NAME##_width(const uint8_t *query, const uint8_t *codes, int64_t n,            \
                                           int64_t width, void *out)                                         \
    {                                                                                                        \
        if (width > BYTE_WIDTH)                                                                              \
            for (int64_t i = 0; i < n; i++)                                                                  \
                ((uint16_t *)out)[i] = (uint16_t)NAME##_one(query, codes + i * width, width);                \
        else                                                                                                 \
            for (int64_t i = 0; i < n; i++)                                                                  \
                ((uint8_t *)out)[i] = (uint8_t)NAME##_one(query, codes + i * width, width);                  \
    }                                                                                                        \
    ATTRIBUTES static void NAME(const uint8_t *query, const uint8_t *codes, int64_t n, int64_t width, void *out) \
    {                                                                                                        \
        switch (width) { /* the usual widths as constants, so that their loops unroll */                     \
        case 2: NAME##_width(query, codes, n, 2, out); break;                                                \
        case 4: NAME##_width(query, codes, n, 4, out); break;                                                \
        case 8: NAME##_width(query, codes, n, 8, out); break;                                                \
        case 16: NAME##_width(query, codes, n, 16, out); break;                                              \
        case 32: NAME##_width(query, codes, n, 32, out); break;                                              \
        default: NAME##_width(query, codes, n, width, out);                                                  \
        }                                                                                                    \
    }

#if defined(HS_NEON)
DEFINE_ROWS(rows_portable, , (unsigned)__builtin_popcountll)
#else
DEFINE_ROWS(rows_portable, , popcount_portable)
#endif
#ifdef HS_X86
DEFINE_ROWS(rows_avx2, HS_AVX2, (unsigned)__builtin_popcountll)
#endif

/* The first i of [i, n) whose distance is below `limit`, or n. */
static int64_t next_below_portable(const void *distances, int64_t i, int64_t n, unsigned limit, int wide)
{
    while (i < n && distance_at(distances, i, wide) >= limit)
        i++;
    return i;
}

/* ---------------------------------------------------------------------------------------------- planes */

#if defined(HS_X86) || defined(HS_NEON)
#define HS_PLANES 1
#define NIBBLES 0x0f0f0f0f0f0f0f0fu

/* 8 x 8 bytes: byte c of word r becomes byte r of word c. Little-endian. */
HS_INLINE void transpose_bytes(uint64_t *w)
{
    static const uint64_t masks[3] = {0x00000000ffffffffu, 0x0000ffff0000ffffu, 0x00ff00ff00ff00ffu};
    for (int step = 0; step < 3; step++) {
        int apart = 4 >> step, shift = 8 * apart;
        uint64_t mask = masks[step];
        for (int r = 0; r < 8; r++) {
            if (r & apart)
                continue;
            uint64_t a = w[r], b = w[r + apart];
            w[r] = (a & mask) | ((b & mask) << shift);
            w[r + apart] = ((a >> shift) & mask) | (b & ~mask);
        }
    }
}

/* Up to 8 bytes of each of 32 codes that are `stride` bytes apart, 8 readable from each, into planes[nibble][32]. */
static void make_group(const uint8_t *codes, int64_t stride, int64_t bytes, uint8_t *planes)
{
    for (int64_t first = 0; first < GROUP; first += 8) {
        uint64_t w[8];
        for (int r = 0; r < 8; r++)
            w[r] = load_word(codes + (first + r) * stride);
        transpose_bytes(w);
        for (int64_t j = 0; j < bytes; j++) {
            uint64_t low = w[j] & NIBBLES, high = (w[j] >> 4) & NIBBLES;
            memcpy(planes + 2 * GROUP * j + first, &low, 8);
            memcpy(planes + 2 * GROUP * j + GROUP + first, &high, 8);
        }
    }
}

/* n codes, as they lie in memory, into planes[group][nibble][32]; codes beyond n, up to whole groups, are zero. */
HS_INLINE void make_planes(const uint8_t *codes, int64_t n, int64_t padded, int64_t width, uint8_t *planes,
                           void (*group)(const uint8_t *codes, int64_t stride, int64_t bytes, uint8_t *planes))
{
    for (int64_t first = 0; first < padded; first += GROUP)
        for (int64_t byte = 0; byte < width; byte += 8) {
            const uint8_t *from = codes + first * width + byte;
            uint8_t *to = planes + (first * width + byte * GROUP) * 2;
            const int64_t bytes = width - byte < 8 ? width - byte : 8;
            if (bytes == 8 && first + GROUP <= n) {
                group(from, width, 8, to);
                continue;
            }
            uint64_t words[GROUP]; /* the ends of the codes, or the end of the tile: nothing beyond may be read */
            for (int64_t r = 0; r < GROUP; r++)
                words[r] = first + r >= n ? 0 : bytes == 8 ? load_word(from + r * width) : load_few(from + r * width, bytes);
            group((const uint8_t *)words, 8, bytes, to);
        }
}

static inline void make_planes_portable(const uint8_t *codes, int64_t n, int64_t padded, int64_t width, uint8_t *planes)
{
    make_planes(codes, n, padded, width, planes, make_group);
}

/* tables[nibble][value]: how many bits of the query's nibble differ from `value`. */
static void make_tables(const uint8_t *query, int64_t width, uint8_t *tables)
{
    for (int64_t nibble = 0; nibble < 2 * width; nibble++) {
        unsigned bits = (query[nibble / 2] >> (nibble % 2 * 4)) & 15;
        for (unsigned value = 0; value < 16; value++)
            tables[16 * nibble + value] = (uint8_t)popcount_portable(bits ^ value);
    }
}

/* Nibbles that are summed in bytes before they are widened: an even share, of at most 62 nibbles (sum 248). */
static inline int64_t nibbles_at_once(int64_t width)
{
    int64_t parts = (width + BYTE_WIDTH - 1) / BYTE_WIDTH;
    return 2 * ((width + parts - 1) / parts);
}
#endif

#ifdef HS_X86
HS_AVX2 HS_INLINE __m128i load_pair(const uint8_t *codes, int64_t stride)
{
    return _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i *)codes), _mm_loadl_epi64((const __m128i *)(codes + stride)));
}

/* As make_group. The lower lanes take codes 0 to 15, the upper ones 16 to 31, so that no lane is ever crossed. */
HS_AVX2 HS_INLINE void make_group_avx2(const uint8_t *codes, int64_t stride, int64_t bytes, uint8_t *planes)
{
    const __m256i zip = _mm256_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15, /* twice */
                                         0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
    const __m256i nibble = _mm256_set1_epi8(15);
    __m256i two[8], four[8], eight[8]; /* codes whose bytes are neighbours */
    for (int k = 0; k < 8; k++) {
        const __m128i low = load_pair(codes + 2 * k * stride, stride);
        const __m128i high = load_pair(codes + (16 + 2 * k) * stride, stride);
        two[k] = _mm256_shuffle_epi8(_mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1), zip);
    }
    for (int k = 0; k < 4; k++) {
        four[k] = _mm256_unpacklo_epi16(two[2 * k], two[2 * k + 1]);     /* bytes 0 to 3 */
        four[4 + k] = _mm256_unpackhi_epi16(two[2 * k], two[2 * k + 1]); /* bytes 4 to 7 */
    }
    for (int k = 0; k < 4; k++) { /* k: bytes 0 to 3 of both halves of the codes, then 4 to 7 */
        eight[2 * k] = _mm256_unpacklo_epi32(four[2 * k], four[2 * k + 1]);
        eight[2 * k + 1] = _mm256_unpackhi_epi32(four[2 * k], four[2 * k + 1]);
    }
    for (int64_t j = 0; j < bytes; j++) {
        const __m256i *e = eight + j / 4 * 4 + j / 2 % 2;
        const __m256i all = j % 2 ? _mm256_unpackhi_epi64(e[0], e[2]) : _mm256_unpacklo_epi64(e[0], e[2]);
        _mm256_store_si256((__m256i *)(planes + 2 * GROUP * j), _mm256_and_si256(all, nibble));
        _mm256_store_si256((__m256i *)(planes + 2 * GROUP * j + GROUP),
                           _mm256_and_si256(_mm256_srli_epi16(all, 4), nibble));
    }
}

HS_AVX2 static void make_planes_avx2(const uint8_t *codes, int64_t n, int64_t padded, int64_t width, uint8_t *planes)
{
    make_planes(codes, n, padded, width, planes, make_group_avx2);
}

/* Distances of QUAD queries to `padded` codes, out[query][stride]. Four queries by two groups: six loads for eight
 * shuffles, which leaves the shuffle units, two a cycle, as the only limit. */
HS_AVX2 static void planes_avx2(const uint8_t *planes, int64_t padded, const uint8_t *tables, int64_t width,
                                void *out, int64_t stride)
{
    const int64_t nibbles = 2 * width, share = nibbles_at_once(width);
    const int wide = width > BYTE_WIDTH;
    for (int64_t code = 0; code < padded; code += 2 * GROUP) {
        const uint8_t *p = planes + code * nibbles;
        for (int64_t begin = 0; begin < nibbles; begin += share) {
            int64_t end = begin + share < nibbles ? begin + share : nibbles;
            __m256i sum[QUAD][2];
            for (int q = 0; q < QUAD; q++)
                sum[q][0] = sum[q][1] = _mm256_setzero_si256();
            for (int64_t j = begin; j < end; j++) {
                const __m256i a = _mm256_load_si256((const __m256i *)(p + j * GROUP));
                const __m256i b = _mm256_load_si256((const __m256i *)(p + (nibbles + j) * GROUP));
                for (int q = 0; q < QUAD; q++) {
                    const __m256i table = _mm256_broadcastsi128_si256(
                        _mm_load_si128((const __m128i *)(tables + (q * nibbles + j) * 16)));
                    sum[q][0] = _mm256_add_epi8(sum[q][0], _mm256_shuffle_epi8(table, a));
                    sum[q][1] = _mm256_add_epi8(sum[q][1], _mm256_shuffle_epi8(table, b));
                }
            }
            for (int q = 0; q < QUAD; q++)
                for (int g = 0; g < 2; g++) {
                    int64_t at = q * stride + code + g * GROUP;
                    if (!wide) {
                        _mm256_store_si256((__m256i *)((uint8_t *)out + at), sum[q][g]);
                        continue;
                    }
                    __m256i *to = (__m256i *)((uint16_t *)out + at);
                    __m256i low = _mm256_cvtepu8_epi16(_mm256_castsi256_si128(sum[q][g]));
                    __m256i high = _mm256_cvtepu8_epi16(_mm256_extracti128_si256(sum[q][g], 1));
                    if (begin > 0) {
                        low = _mm256_add_epi16(low, _mm256_load_si256(to));
                        high = _mm256_add_epi16(high, _mm256_load_si256(to + 1));
                    }
                    _mm256_store_si256(to, low);
                    _mm256_store_si256(to + 1, high);
                }
        }
    }
}

/* How many ones each byte of 32 has. */
HS_AVX2 HS_INLINE __m256i ones_avx2(__m256i x)
{
    const __m256i table = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, /* twice */
                                           0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4);
    const __m256i low = _mm256_and_si256(x, _mm256_set1_epi8(15));
    const __m256i high = _mm256_and_si256(_mm256_srli_epi16(x, 4), _mm256_set1_epi8(15));
    return _mm256_add_epi8(_mm256_shuffle_epi8(table, low), _mm256_shuffle_epi8(table, high));
}

/* Distances of all codes in SKIP_BYTES, at least those below `limit`, folded into one vector of minima: the least of
 * some codes in the lowest 16 bits of each lane, 32 bits wide for codes of 4 bytes, 64 otherwise. */
HS_AVX2 HS_INLINE __m256i least_avx2(__m256i query, const uint8_t *codes, int64_t width, __m256i limit)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i least = limit, c[4];
    for (int64_t at = 0; at < SKIP_BYTES; at += 128) {
        for (int j = 0; j < 4; j++)
            c[j] = ones_avx2(_mm256_xor_si256(query, _mm256_loadu_si256((const __m256i *)(codes + at + 32 * j))));
        /* Add the eighths of a code until each code has one; which lane a code ends up in does not matter. */
        int left = 4;
        if (width >= 16) {
            for (int j = 0; j < 4; j += 2)
                c[j / 2] = _mm256_add_epi8(_mm256_unpacklo_epi64(c[j], c[j + 1]), _mm256_unpackhi_epi64(c[j], c[j + 1]));
            left = 2;
        }
        if (width >= 32) {
            c[0] = _mm256_add_epi8(_mm256_permute2x128_si256(c[0], c[1], 0x20),
                                   _mm256_permute2x128_si256(c[0], c[1], 0x31));
            left = 1;
        }
        for (int j = 0; j < left; j++) {
            const __m256i sum = width == 4 ? _mm256_madd_epi16(_mm256_maddubs_epi16(c[j], _mm256_set1_epi8(1)),
                                                               _mm256_set1_epi16(1))
                                           : _mm256_sad_epu8(c[j], zero);
            least = _mm256_min_epu16(least, sum);
        }
    }
    return least;
}

HS_AVX2 HS_INLINE int64_t skip_width_avx2(const uint8_t *query, const uint8_t *codes, int64_t i, int64_t n,
                                          int64_t width, unsigned limit)
{
    const int64_t step = SKIP_BYTES / width;
    uint8_t repeated[32];
    for (int64_t byte = 0; byte < 32; byte++)
        repeated[byte] = query[byte % width];
    const __m256i q = _mm256_loadu_si256((const __m256i *)repeated);
    const __m256i bound = width == 4 ? _mm256_set1_epi32((int)limit) : _mm256_set1_epi64x((long long)limit);
    for (; i + step <= n; i += step) {
        const __m256i least = least_avx2(q, codes + i * width, width, bound);
        if (_mm256_movemask_epi8(_mm256_cmpeq_epi16(least, bound)) != -1)
            break;
    }
    return i;
}

/* Past codes that are all at least `limit` away: the first of SKIP_BYTES of codes one of which is nearer, or of the
 * last, incomplete ones. Reads codes at the speed of memory. Widths 4, 8, 16 and 32. */
HS_AVX2 static int64_t skip_avx2(const uint8_t *query, const uint8_t *codes, int64_t i, int64_t n, int64_t width,
                                 unsigned limit)
{
    switch (width) {
    case 4: return skip_width_avx2(query, codes, i, n, 4, limit);
    case 8: return skip_width_avx2(query, codes, i, n, 8, limit);
    case 16: return skip_width_avx2(query, codes, i, n, 16, limit);
    case 32: return skip_width_avx2(query, codes, i, n, 32, limit);
    default: return i;
    }
}

HS_AVX2 HS_INLINE __m256i load_distances(const void *distances, int64_t i, int wide)
{
    return _mm256_load_si256((const __m256i *)((const char *)distances + (wide ? 2 * i : i)));
}

/* As next_below_portable; reads whole vectors, up to the next multiple of TILE_STEP. */
HS_AVX2 HS_INLINE int64_t next_below_wide_avx2(const void *distances, int64_t i, int64_t n, unsigned limit, int wide)
{
    const int64_t step = wide ? 16 : 32;
    const __m256i most = wide ? _mm256_set1_epi16((short)(limit - 1)) : _mm256_set1_epi8((char)(limit - 1));
    int64_t skip = i % step;
    for (i -= skip; i < n; i += step) {
        for (; i % (4 * step) == 0 && i + 4 * step <= n && skip == 0; i += 4 * step) { /* the usual case: nothing */
            const __m256i a = load_distances(distances, i, wide), b = load_distances(distances, i + step, wide);
            const __m256i c = load_distances(distances, i + 2 * step, wide);
            const __m256i d = load_distances(distances, i + 3 * step, wide);
            const __m256i least = wide ? _mm256_min_epu16(_mm256_min_epu16(a, b), _mm256_min_epu16(c, d))
                                       : _mm256_min_epu8(_mm256_min_epu8(a, b), _mm256_min_epu8(c, d));
            const __m256i hit = wide ? _mm256_cmpeq_epi16(_mm256_min_epu16(least, most), least)
                                     : _mm256_cmpeq_epi8(_mm256_min_epu8(least, most), least);
            if (!_mm256_testz_si256(hit, hit))
                break;
        }
        if (i >= n)
            break;
        const __m256i d = load_distances(distances, i, wide);
        const __m256i hit = wide ? _mm256_cmpeq_epi16(_mm256_min_epu16(d, most), d)
                                 : _mm256_cmpeq_epi8(_mm256_min_epu8(d, most), d);
        const int shift = (int)(wide ? 2 * skip : skip);
        const uint32_t mask = (uint32_t)_mm256_movemask_epi8(hit) >> shift << shift;
        skip = 0;
        if (mask) {
            i += __builtin_ctz(mask) >> wide;
            return i < n ? i : n;
        }
    }
    return n;
}

HS_AVX2 static int64_t next_below_avx2(const void *distances, int64_t i, int64_t n, unsigned limit, int wide)
{
    if (limit == 0)
        return n;
    return wide ? next_below_wide_avx2(distances, i, n, limit, 1) : next_below_wide_avx2(distances, i, n, limit, 0);
}
#endif

#ifdef HS_NEON
static void planes_neon(const uint8_t *planes, int64_t padded, const uint8_t *tables, int64_t width, void *out,
                        int64_t stride)
{
    const int64_t nibbles = 2 * width, share = nibbles_at_once(width);
    for (int64_t code = 0; code < padded; code += GROUP) {
        const uint8_t *p = planes + code * nibbles;
        for (int64_t begin = 0; begin < nibbles; begin += share) {
            int64_t end = begin + share < nibbles ? begin + share : nibbles;
            uint8x16_t sum[QUAD][2];
            for (int q = 0; q < QUAD; q++)
                sum[q][0] = sum[q][1] = vdupq_n_u8(0);
            for (int64_t j = begin; j < end; j++) {
                const uint8x16_t a = vld1q_u8(p + j * GROUP), b = vld1q_u8(p + j * GROUP + 16);
                for (int q = 0; q < QUAD; q++) {
                    const uint8x16_t table = vld1q_u8(tables + (q * nibbles + j) * 16);
                    sum[q][0] = vaddq_u8(sum[q][0], vqtbl1q_u8(table, a));
                    sum[q][1] = vaddq_u8(sum[q][1], vqtbl1q_u8(table, b));
                }
            }
            for (int q = 0; q < QUAD; q++)
                for (int g = 0; g < 2; g++) {
                    int64_t at = q * stride + code + 16 * g;
                    if (width <= BYTE_WIDTH) {
                        vst1q_u8((uint8_t *)out + at, sum[q][g]);
                        continue;
                    }
                    uint16_t *to = (uint16_t *)out + at;
                    uint16x8_t low = vmovl_u8(vget_low_u8(sum[q][g])), high = vmovl_u8(vget_high_u8(sum[q][g]));
                    if (begin > 0) {
                        low = vaddq_u16(low, vld1q_u16(to));
                        high = vaddq_u16(high, vld1q_u16(to + 8));
                    }
                    vst1q_u16(to, low);
                    vst1q_u16(to + 8, high);
                }
        }
    }
}
#endif

/* ---------------------------------------------------------------------------------- chosen at run time */

typedef struct {
    void (*rows)(const uint8_t *query, const uint8_t *codes, int64_t n, int64_t width, void *out);
    void (*make_planes)(const uint8_t *codes, int64_t n, int64_t padded, int64_t width, uint8_t *planes);
    void (*planes)(const uint8_t *planes, int64_t padded, const uint8_t *tables, int64_t width, void *out,
                   int64_t stride); /* NULL: rows only */
    int64_t (*next_below)(const void *distances, int64_t i, int64_t n, unsigned limit, int wide);
    int64_t (*skip)(const uint8_t *query, const uint8_t *codes, int64_t i, int64_t n, int64_t width,
                    unsigned limit); /* NULL: there is no such short cut */
} kernel;

static const kernel portable_kernel = {rows_portable, NULL, NULL, next_below_portable, NULL};

static inline kernel choose_kernel(void)
{
#ifdef HS_X86
    if (hs_has_avx2())
        return (kernel){rows_avx2, make_planes_avx2, planes_avx2, next_below_avx2, skip_avx2};
#endif
#ifdef HS_NEON
    return (kernel){rows_portable, make_planes_portable, planes_neon, next_below_portable, NULL};
#else
    return portable_kernel;
#endif
}

#endif
