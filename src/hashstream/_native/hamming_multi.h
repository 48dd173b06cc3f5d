/* The tables of a multi-index: filled by hamming_multi_build.c, searched by hamming_multi.c. */
#ifndef HASHSTREAM_HAMMING_MULTI_H
#define HASHSTREAM_HAMMING_MULTI_H

#include <stdint.h>
#include <string.h>

#include "cpu.h"

enum { WORDS_MAX = 4, AHEAD = 8 };

#if defined(__GNUC__) || defined(__clang__)
#define PREFETCH(address) __builtin_prefetch(address)
#else
#define PREFETCH(address) ((void)(address))
#endif

/* One substring. Known to _multi_kernel.py. */
typedef struct {
    int64_t n_bits;
    uint32_t *parts;    /* (width, 256): what each value of each byte adds to the value of the substring */
    uint32_t *starts;   /* (2^n_bits + 1): where the codes of a value begin in `entries` */
    uint32_t *entries;  /* (n_entries) rows of codes */
    uint64_t mask[WORDS_MAX]; /* the bits of the substring in the code's words */
} table;

/* Known to _multi_kernel.py. */
typedef struct {
    const uint8_t *codes; /* (n_codes, width); used while building */
    uint32_t *next;       /* (n_codes) the next row with an equal code, 0 for none; NULL: each row is an entry */
    uint32_t *first;      /* (n_entries) rows of distinct codes; used while building */
    int64_t n_codes, n_entries, width, n_tables;
    table *tables;
} multi;

static inline uint32_t value_of(const table *t, const uint8_t *code, int64_t width)
{
    uint32_t value = 0;
    for (int64_t j = 0; j < width; j++)
        value |= t->parts[256 * j + code[j]];
    return value;
}

/* A code as words; the bytes beyond its width are zero. */
static inline void load_code(const uint8_t *code, int64_t width, int64_t words, uint64_t *to)
{
    if (width == 8 * words) {
        memcpy(to, code, (size_t)width);
        return;
    }
    to[words - 1] = 0;
    memcpy(to, code, (size_t)width);
}

#endif
