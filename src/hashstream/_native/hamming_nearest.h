/* The k nearest codes so far, for codes that arrive in the order of their index. Shared by hamming*.c. */
#ifndef HASHSTREAM_HAMMING_NEAREST_H
#define HASHSTREAM_HAMMING_NEAREST_H

#include <stdint.h>
#include <stdlib.h>

/* A candidate is its distance and its code's index in one word: their order is the order of the words. */
#define INDEX_BITS 48
#define CANDIDATE(d, i) ((uint64_t)(d) << INDEX_BITS | (uint64_t)(i))
#define DISTANCE(c) ((unsigned)((c) >> INDEX_BITS))
#define INDEX(c) ((int64_t)((c) & (((uint64_t)1 << INDEX_BITS) - 1)))

/* The k nearest codes so far. Codes arrive in the order of their index, so one that is no nearer than the k-th of
 * those before it can be passed over for good, and the rest is a count for each distance: no heap, no comparison.
 * `kept` candidates are at most `worst` away, and k of them are in the result; the others wait to be swept out. */
typedef struct {
    int64_t k, kept, size, room;
    unsigned worst, limit; /* only a code whose distance is below `limit` can still enter */
    uint64_t *candidates;  /* in the order of their index */
    int64_t *count;        /* candidates at each distance; stale above `worst` */
} nearest;

static inline int nearest_begin(nearest *b, int64_t k, int64_t n_codes, int64_t bins)
{
    *b = (nearest){.k = k, .worst = (unsigned)bins - 1, .limit = (unsigned)bins};
    b->room = 2 * k + 64 < n_codes ? 2 * k + 64 : n_codes;
    b->candidates = malloc((size_t)(b->room + 1) * sizeof *b->candidates);
    b->count = calloc((size_t)bins, sizeof *b->count);
    return b->candidates && b->count ? 0 : -1;
}

static inline void nearest_free(nearest *b)
{
    free(b->candidates);
    free(b->count);
}

/* Keep only the k candidates of the result. */
static inline void nearest_sweep(nearest *b)
{
    int64_t surplus = b->kept - b->k, to = 0;
    int64_t last = surplus > 0 ? b->count[b->worst] - surplus : b->size; /* how many at `worst` may stay */
    for (int64_t i = 0; i < b->size; i++) {
        uint64_t c = b->candidates[i];
        if (DISTANCE(c) > b->worst || (DISTANCE(c) == b->worst && last-- <= 0))
            continue;
        b->candidates[to++] = c;
    }
    b->size = to;
    if (surplus > 0) {
        b->kept = b->k;
        b->count[b->worst] -= surplus;
    }
}

static inline void nearest_add(nearest *b, unsigned distance, int64_t index)
{
    if (b->size == b->room)
        nearest_sweep(b);
    b->candidates[b->size++] = CANDIDATE(distance, index);
    b->count[distance]++;
    if (++b->kept < b->k)
        return;
    while (b->kept - b->count[b->worst] >= b->k)
        b->kept -= b->count[b->worst--];
    b->limit = b->worst;
}

#endif
