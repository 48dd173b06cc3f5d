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
                if (first + r >= n)
                    words[r] = 0;
                else
                    words[r] = bytes == 8 ? load_word(from + r * width) : load_few(from + r * width, bytes);
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
#include "hamming_avx2.h"
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
    int64_t (*skip)(const uint8_t *query, const uint8_t *mask, const uint8_t *codes, int64_t i, int64_t n,
                    int64_t width, unsigned limit); /* NULL: there is no such short cut */
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
