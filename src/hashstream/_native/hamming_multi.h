/* The tables of a multi-index: filled by hamming_multi_build.c, searched by hamming_multi.c and, where bits have costs,
 * by hamming_multi_weighted.c. */
#ifndef HASHSTREAM_HAMMING_MULTI_H
#define HASHSTREAM_HAMMING_MULTI_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "hamming_work.h"

enum { WORDS_MAX = 4, AHEAD = 8, SUBSTRINGS_MAX = 16 };

#if defined(__GNUC__) || defined(__clang__)
#define PREFETCH(address) __builtin_prefetch(address)
#else
#define PREFETCH(address) ((void)(address))
#endif

/* One substring: `length` bits of the code. The first n_bits of them number a place, the next n_tag_bits are kept with
 * each entry, and the rest is in the codes only. Of short codes, all bits that are not of the substring are kept
 * instead. Known to _multi_kernel.py. */
typedef struct {
    int64_t length, n_bits, n_tag_bits; /* at most 64, 24, 8 */
    int64_t shift;            /* what is kept is above so many bits of a value, and the place below */
    const int32_t *bits;      /* (length) the bits of the code */
    const uint32_t *parts;    /* (width, 256): what each value of each byte adds to a value */
    uint32_t *starts;         /* (2^n_bits + 1): where the entries of a place begin */
    uint32_t *entries;        /* (n_entries) rows, or where in `members` the rows with a code begin */
    uint8_t *tags;            /* (n_entries); NULL where n_tag_bits is 0 */
    uint16_t *others;         /* (n_entries) all other bits of the code; NULL where these are more than 16 */
    uint64_t mask[WORDS_MAX]; /* the bits of the substring in the code's words */
} table;

/* Known to _multi_kernel.py. */
typedef struct {
    const uint8_t *codes; /* (n_codes, width); used while building */
    uint32_t *members;    /* (n_codes) rows, those with equal codes together and ascending, with LAST in the last one;
                           * NULL: each row is an entry */
    int64_t n_codes, n_entries, width, n_tables;
    table *tables;
} multi;

#define LAST ((uint32_t)1 << 31)
#define ROW(member) ((member) & ~LAST)

/* The rows that may be found. Known to _multi_kernel.py. */
typedef struct {
    const uint8_t *marks;  /* (n_marks) by slot: not 0 where it may be found; NULL: all. A slot beyond is not marked */
    const uint32_t *slots; /* (n_codes) by row; NULL: a row is its own slot */
    const int64_t *dead;   /* (n_dead) ascending rows that may not be found */
    int64_t n_marks, n_dead;
    int64_t begin; /* rows before this one may not be found */
} filter;

static inline int may_be_found(const filter *f, int64_t row)
{
    if (row < f->begin)
        return 0;
    if (f->marks) {
        const int64_t slot = f->slots ? (int64_t)f->slots[row] : row;
        if (slot >= f->n_marks || !f->marks[slot])
            return 0;
    }
    int64_t low = 0, high = f->n_dead;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (f->dead[middle] < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low == f->n_dead || f->dead[low] != row;
}

/* What is searched for, and where. Known to _multi_kernel.py. */
typedef struct {
    const filter *filter;
    const uint8_t *codes; /* (n_codes, width), wherever they lie by now */
    const void *queries;  /* (n_queries, width) codes, or real values */
    int64_t n_queries, n_threads, portable;
} asked;

/* In place of how many rows a query has found. Known to _multi_kernel.py. */
#define GIVEN_UP (-1)

/* The problem of a search; all queries count as given up until they are finished. */
static inline problem problem_of(const multi *index, const asked *a, int64_t *counts)
{
    for (int64_t q = 0; q < a->n_queries; q++)
        counts[q] = GIVEN_UP;
    return (problem){.queries = a->queries, .codes = a->codes, .n_queries = a->n_queries, .n_codes = index->n_codes,
                     .width = index->width, .n_threads = a->n_threads, .portable = a->portable};
}

/* The scans (hamming.c, hamming_weighted.c). A single query that was given up is scanned at once, where every row may be
 * found: to come back for it takes some microseconds more. */
HS_API int hs_hamming_topk(problem *p, int64_t k, uint16_t *distances, int64_t *indices);
HS_API int hs_hamming_weighted(problem *p, int64_t r, const double *values, int64_t k, double *distances,
                               int64_t *indices);

static inline int scan_at_once(const asked *a, const int64_t *counts)
{
    const filter *f = a->filter;
    return a->n_queries == 1 && counts[0] == GIVEN_UP && !f->marks && !f->slots && !f->n_dead && !f->begin;
}

/* Costs in nanoseconds, about: what counts is how they compare with those of a scan, which the caller gives. Of looking
 * a place up, in a table of at most 2^NEAR_BITS places and in a larger one, of comparing the tag of an entry, of
 * comparing a code, and of taking a row. Known to _substrings.py. */
enum { NEAR_BITS = 18 };
static const double NEAR_PLACE = 12, PLACE = 30, TAG = 2, CODE = 16, TAKEN = 3;

static inline double place_cost(const table *t) { return t->n_bits <= NEAR_BITS ? NEAR_PLACE : PLACE; }

/* The place of a code, and above `shift` bits what is kept with its entry. */
static inline uint32_t value_of(const table *t, const uint8_t *code, int64_t width)
{
    uint32_t value = 0;
    for (int64_t j = 0; j < width; j++)
        value |= t->parts[256 * j + code[j]];
    return value;
}

static inline uint32_t place_of(const table *t, uint32_t value) { return value & (((uint32_t)1 << t->n_bits) - 1); }

/* Double the room of an array. Returns it, or NULL without memory: the old one is still there then. */
static inline void *grown(void *array, int64_t *room, size_t item)
{
    void *more = realloc(array, (size_t)(2 * *room) * item);
    if (more)
        *room *= 2;
    return more;
}

/* A code as words; the bytes beyond its width are zero. */
static inline void load_code(const uint8_t *code, int64_t width, int64_t words, uint64_t *to)
{
    if (width == 8 * words) {
        memcpy(to, code, (size_t)width);
        return;
    }
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (width == 4) { /* through a register: what is stored as 4 bytes is slow to load as 8 */
        uint32_t word;
        memcpy(&word, code, 4);
        to[0] = word;
        return;
    }
#endif
    to[words - 1] = 0;
    memcpy(to, code, (size_t)width);
}

#endif
