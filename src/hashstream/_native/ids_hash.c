/* SipHash-1-3 of a table's ids (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012), keyed with a secret of
 * the process: without knowing it, nobody can choose ids that collide. table/state/ids_hash.py has the twin. */
#include <stdint.h>
#include <string.h>

#include "cpu.h"

#define ROTATE(x, b) (((x) << (b)) | ((x) >> (64 - (b))))
#define ROUND(v0, v1, v2, v3)                                                                                          \
    do {                                                                                                               \
        v0 += v1, v1 = ROTATE(v1, 13), v1 ^= v0, v0 = ROTATE(v0, 32);                                                  \
        v2 += v3, v3 = ROTATE(v3, 16), v3 ^= v2;                                                                       \
        v0 += v3, v3 = ROTATE(v3, 21), v3 ^= v0;                                                                       \
        v2 += v1, v1 = ROTATE(v1, 17), v1 ^= v2, v2 = ROTATE(v2, 32);                                                  \
    } while (0)

/* Eight bytes as a little-endian number, whatever the machine's order. */
static inline uint64_t word(const uint8_t *bytes, int n)
{
    uint64_t value = 0;
    for (int i = 0; i < n; i++)
        value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}

static uint64_t siphash(uint64_t k0, uint64_t k1, const uint8_t *bytes, int64_t n)
{
    uint64_t v0 = 0x736f6d6570736575u ^ k0, v1 = 0x646f72616e646f6du ^ k1;
    uint64_t v2 = 0x6c7967656e657261u ^ k0, v3 = 0x7465646279746573u ^ k1;
    for (int64_t at = 0; at + 8 <= n; at += 8) {
        uint64_t m = word(bytes + at, 8);
        v3 ^= m;
        ROUND(v0, v1, v2, v3);
        v0 ^= m;
    }
    uint64_t last = (uint64_t)n << 56 | word(bytes + (n & ~(int64_t)7), (int)(n & 7));
    v3 ^= last;
    ROUND(v0, v1, v2, v3);
    v0 ^= last;
    v2 ^= 0xff;
    for (int i = 0; i < 3; i++)
        ROUND(v0, v1, v2, v3);
    return v0 ^ v1 ^ v2 ^ v3;
}

/* Of n numbers, each as its eight bytes in little-endian order. */
HS_API void hs_ids_hash_numbers(const uint64_t *key, const uint64_t *ids, int64_t n, uint64_t *out)
{
    for (int64_t i = 0; i < n; i++) {
        uint8_t bytes[8];
        for (int b = 0; b < 8; b++)
            bytes[b] = (uint8_t)(ids[i] >> (8 * b));
        out[i] = siphash(key[0], key[1], bytes, 8);
    }
}

/* Of n texts that follow one another; ends: where each ends, counted from the beginning of the first. */
HS_API void hs_ids_hash_texts(const uint64_t *key, const uint8_t *text, const int64_t *ends, int64_t n, uint64_t *out)
{
    for (int64_t i = 0, start = 0; i < n; start = ends[i++])
        out[i] = siphash(key[0], key[1], text + start, ends[i] - start);
}
