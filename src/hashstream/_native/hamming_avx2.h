/* The AVX2 paths of hamming_tile.h, which includes this file and says what each of them is for. */
#ifndef HASHSTREAM_HAMMING_AVX2_H
#define HASHSTREAM_HAMMING_AVX2_H

HS_AVX2 HS_INLINE __m128i load_pair(const uint8_t *codes, int64_t stride)
{
    return _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i *)codes),
                              _mm_loadl_epi64((const __m128i *)(codes + stride)));
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
 * some codes in the lowest 16 bits of each lane, 16 or 32 bits wide for codes of 2 or 4 bytes, 64 otherwise. Where
 * masked, only the bits of the mask count. */
HS_AVX2 HS_INLINE __m256i least_avx2(__m256i query, __m256i mask, int masked, const uint8_t *codes, int64_t width,
                                     __m256i limit)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i least = limit, c[4];
    for (int64_t at = 0; at < SKIP_BYTES; at += 128) {
        for (int j = 0; j < 4; j++) {
            const __m256i x = _mm256_xor_si256(query, _mm256_loadu_si256((const __m256i *)(codes + at + 32 * j)));
            c[j] = ones_avx2(masked ? _mm256_and_si256(x, mask) : x);
        }
        /* Add the eighths of a code until each code has one; which lane a code ends up in does not matter. */
        int left = 4;
        if (width >= 16) {
            for (int j = 0; j < 4; j += 2)
                c[j / 2] = _mm256_add_epi8(_mm256_unpacklo_epi64(c[j], c[j + 1]),
                                           _mm256_unpackhi_epi64(c[j], c[j + 1]));
            left = 2;
        }
        if (width >= 32) {
            c[0] = _mm256_add_epi8(_mm256_permute2x128_si256(c[0], c[1], 0x20),
                                   _mm256_permute2x128_si256(c[0], c[1], 0x31));
            left = 1;
        }
        for (int j = 0; j < left; j++) {
            const __m256i pairs = _mm256_maddubs_epi16(c[j], _mm256_set1_epi8(1));
            least = _mm256_min_epu16(least, width == 2   ? pairs
                                            : width == 4 ? _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))
                                                         : _mm256_sad_epu8(c[j], zero));
        }
    }
    return least;
}

HS_AVX2 HS_INLINE __m256i repeated_avx2(const uint8_t *code, int64_t width)
{
    uint8_t repeated[32];
    for (int64_t byte = 0; byte < 32; byte++)
        repeated[byte] = code[byte % width];
    return _mm256_loadu_si256((const __m256i *)repeated);
}

HS_AVX2 HS_INLINE int64_t skip_width_avx2(const uint8_t *query, const uint8_t *mask, const uint8_t *codes, int64_t i,
                                          int64_t n, int64_t width, unsigned limit)
{
    const int64_t step = SKIP_BYTES / width;
    const int masked = mask != NULL;
    const __m256i q = repeated_avx2(query, width), bits = repeated_avx2(masked ? mask : query, width);
    const __m256i bound = width == 2   ? _mm256_set1_epi16((short)limit)
                          : width == 4 ? _mm256_set1_epi32((int)limit)
                                       : _mm256_set1_epi64x((long long)limit);
    for (; i + step <= n; i += step) {
        const __m256i least = masked ? least_avx2(q, bits, 1, codes + i * width, width, bound)
                                     : least_avx2(q, bits, 0, codes + i * width, width, bound);
        if (_mm256_movemask_epi8(_mm256_cmpeq_epi16(least, bound)) != -1)
            break;
    }
    return i;
}

/* Past codes that are all at least `limit` away, in the bits of the mask where there is one: the first of SKIP_BYTES of
 * codes one of which is nearer, or of the last, incomplete ones. Reads codes at the speed of memory. Widths 2, 4, 8, 16
 * and 32. */
HS_AVX2 static int64_t skip_avx2(const uint8_t *query, const uint8_t *mask, const uint8_t *codes, int64_t i, int64_t n,
                                 int64_t width, unsigned limit)
{
    switch (width) {
    case 2: return skip_width_avx2(query, mask, codes, i, n, 2, limit);
    case 4: return skip_width_avx2(query, mask, codes, i, n, 4, limit);
    case 8: return skip_width_avx2(query, mask, codes, i, n, 8, limit);
    case 16: return skip_width_avx2(query, mask, codes, i, n, 16, limit);
    case 32: return skip_width_avx2(query, mask, codes, i, n, 32, limit);
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
