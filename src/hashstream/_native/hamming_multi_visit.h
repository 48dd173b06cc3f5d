/* The search of one query in a multi-index: what it has found, and how entries are compared. See hamming_multi.c. */
#ifndef HASHSTREAM_HAMMING_MULTI_VISIT_H
#define HASHSTREAM_HAMMING_MULTI_VISIT_H

#include "hamming_multi.h"
#include "hamming_nearest.h"

enum { BATCH = 64 };

#if defined(__GNUC__) || defined(__clang__)
#define POPCOUNT(x) ((unsigned)__builtin_popcountll(x))
#else
#define POPCOUNT(x) popcount_portable(x)
#endif

/* The entries of one place, whose number differs from the query's in `flips` bits. */
typedef struct {
    uint32_t begin, end, flips;
} range;

/* What the search of one query needs; reused from query to query. */
typedef struct search search;
struct search {
    void (*visit)(search *s, uint32_t kept, int64_t which, int64_t flips);
    void (*compare)(search *s, int64_t which, int64_t flips);
    const multi *index;
    const uint8_t *codes;
    const filter *filter;
    int64_t words;
    uint64_t query[WORDS_MAX];
    int64_t searched[SUBSTRINGS_MAX]; /* bits flipped in each substring so far; -1: it was not searched */
    double next[SUBSTRINGS_MAX];      /* what its next step will cost, about */
    range *ranges;
    int64_t n_ranges, ranges_room;
    uint32_t batch[BATCH]; /* entries whose tags agree */
    int64_t n_batch;
    int64_t k;        /* 0: all within the radius */
    unsigned far;     /* nothing further away is wanted */
    int64_t kept;     /* found at most `far` away */
    uint64_t *found;  /* distances and rows, CANDIDATE */
    int64_t n_found, room;
    uint64_t worst;   /* only a candidate below this can still enter */
    int64_t *count;   /* (bins) found at each distance */
    double left;      /* of the budget */
    double more;      /* what the last step may cost in addition */
    int failed;
};

static int by_word(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Make room: keep what is at most `far` away, and no more than the k best of it. */
static void sweep(search *s)
{
    int64_t to = 0;
    for (int64_t i = 0; i < s->n_found; i++)
        if (DISTANCE(s->found[i]) <= s->far)
            s->found[to++] = s->found[i];
    s->n_found = to;
    if (s->n_found < s->k + s->k / 2 + 64)
        return;
    qsort(s->found, (size_t)s->n_found, sizeof *s->found, by_word);
    s->count[s->far] -= s->n_found - s->k; /* fewer than k are nearer than `far` */
    s->n_found = s->kept = s->k;
    s->worst = s->found[s->k - 1];
}

static void add(search *s, unsigned distance, uint32_t row)
{
    const uint64_t candidate = CANDIDATE(distance, row);
    if (distance > s->far || candidate >= s->worst)
        return;
    if (s->n_found == s->room) {
        if (s->k)
            sweep(s);
        if (s->n_found == s->room) {
            uint64_t *more = grown(s->found, &s->room, sizeof *s->found);
            if (!more) {
                s->failed = 1;
                s->left = -1;
                return;
            }
            s->found = more;
        }
        if (candidate >= s->worst)
            return;
    }
    s->found[s->n_found++] = candidate;
    s->count[distance]++;
    s->kept++;
    while (s->k && s->kept - s->count[s->far] >= s->k)
        s->kept -= s->count[s->far--];
}

/* All rows with the code of an entry, as far as they can enter. */
static void add_rows(search *s, unsigned distance, uint32_t entry)
{
    const uint32_t *members = s->index->members;
    int64_t taken = 0;
    for (;; entry++) {
        const uint32_t member = members ? members[entry] : entry | LAST, row = ROW(member);
        if (CANDIDATE(distance, row) >= s->worst)
            return;
        if ((s->left -= TAKEN) < 0)
            return;
        if (may_be_found(s->filter, row)) {
            add(s, distance, row);
            taken++;
        }
        if ((member & LAST) || (s->k && taken == s->k))
            return;
    }
}

/* Whether a code that differs in `x` from the query, and in `flips` bits of substring `which`, was not met before. */
HS_INLINE int met_first(const search *s, const uint64_t *x, int64_t words, int64_t which, int64_t flips)
{
    const table *t = s->index->tables;
    for (int64_t i = 0; i < s->index->n_tables; i++) {
        int64_t bits = 0;
        for (int64_t w = 0; w < words; w++)
            bits += POPCOUNT(x[w] & t[i].mask[w]);
        if (i == which ? bits != flips : bits <= s->searched[i])
            return 0;
    }
    return 1;
}

/* Compare the codes of the batch. Each lies anywhere in memory, so all have been asked for before one is looked at. */
HS_INLINE void compare_batch(search *s, int64_t which, int64_t flips, int64_t width)
{
    const multi *index = s->index;
    const int64_t words = (width + 7) / 8, n = s->n_batch;
    uint32_t rows[BATCH];
    for (int64_t i = 0; index->members && i < n; i++) {
        rows[i] = ROW(index->members[s->batch[i]]);
        PREFETCH(s->codes + rows[i] * width);
    }
    for (int64_t i = 0; i < n; i++) {
        const uint32_t row = index->members ? rows[i] : s->batch[i];
        uint64_t x[WORDS_MAX];
        unsigned distance = 0;
        load_code(s->codes + row * width, width, words, x);
        for (int64_t w = 0; w < words; w++) {
            x[w] ^= s->query[w];
            distance += POPCOUNT(x[w]);
        }
        if (distance <= s->far && CANDIDATE(distance, row) < s->worst && met_first(s, x, words, which, flips))
            add_rows(s, distance, s->batch[i]);
    }
    s->left -= CODE * (double)n;
    s->n_batch = 0;
}

#define DEFINE_COMPARE(NAME, ATTRIBUTES)                                                                               \
    ATTRIBUTES static void NAME(search *s, int64_t which, int64_t flips)                                               \
    {                                                                                                                  \
        switch (s->index->width) { /* the usual widths as constants */                                                 \
        case 4: compare_batch(s, which, flips, 4); break;                                                              \
        case 8: compare_batch(s, which, flips, 8); break;                                                              \
        case 16: compare_batch(s, which, flips, 16); break;                                                            \
        default: compare_batch(s, which, flips, s->index->width);                                                      \
        }                                                                                                              \
    }

DEFINE_COMPARE(compare_portable, )
#ifdef HS_X86
DEFINE_COMPARE(compare_popcnt, HS_AVX2)
#endif

HS_INLINE void into_batch(search *s, uint32_t entry, int64_t which, int64_t flips)
{
    if (s->index->members)
        PREFETCH(s->index->members + entry);
    else
        PREFETCH(s->codes + entry * s->index->width);
    s->batch[s->n_batch++] = entry;
    if (s->n_batch == BATCH)
        s->compare(s, which, flips);
}

/* The entries of a range whose tags differ from the query's in `least` to `most` bits. */
HS_INLINE void compare_tags(search *s, const table *t, range r, uint8_t tag, unsigned least, unsigned most,
                            int64_t which, int64_t flips)
{
    for (uint32_t e = r.begin; e < r.end && s->left >= 0; e++) {
        const unsigned differ = POPCOUNT((unsigned)(t->tags[e] ^ tag));
        if (differ >= least && differ <= most)
            into_batch(s, t->entries[e], which, flips);
    }
}

#ifdef HS_X86
HS_AVX2 HS_INLINE void compare_tags_avx2(search *s, const table *t, range r, uint8_t tag, unsigned least,
                                         unsigned most, int64_t which, int64_t flips)
{
    const __m256i wanted = _mm256_set1_epi8((char)tag);
    const __m256i above = _mm256_set1_epi8((char)(least - 1)), below = _mm256_set1_epi8((char)(most + 1));
    for (; r.begin + 32 <= r.end && s->left >= 0; r.begin += 32) {
        const __m256i x = _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)(t->tags + r.begin)), wanted);
        const __m256i ones = ones_avx2(x);
        uint32_t good = (uint32_t)_mm256_movemask_epi8(
            _mm256_and_si256(_mm256_cmpgt_epi8(ones, above), _mm256_cmpgt_epi8(below, ones)));
        for (; good; good &= good - 1)
            into_batch(s, t->entries[r.begin + (uint32_t)__builtin_ctz(good)], which, flips);
    }
    compare_tags(s, t, r, tag, least, most, which, flips);
}
#endif

/* The entries of a range that differ in so few other bits that they can still enter. */
HS_INLINE void compare_others(search *s, const table *t, range r, uint16_t others, int64_t which, int64_t flips)
{
    for (uint32_t e = r.begin; e < r.end && s->left >= 0; e++)
        if (flips + POPCOUNT((unsigned)(t->others[e] ^ others)) <= s->far)
            into_batch(s, t->entries[e], which, flips);
}

#ifdef HS_X86
HS_AVX2 HS_INLINE void compare_others_avx2(search *s, const table *t, range r, uint16_t others, int64_t which,
                                           int64_t flips)
{
    const __m256i wanted = _mm256_set1_epi16((short)others), one = _mm256_set1_epi8(1);
    for (; r.begin + 16 <= r.end && s->left >= 0; r.begin += 16) {
        const __m256i x = _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)(t->others + r.begin)), wanted);
        const __m256i far = _mm256_set1_epi16((short)((int64_t)s->far - flips));
        const __m256i beyond = _mm256_cmpgt_epi16(_mm256_maddubs_epi16(ones_avx2(x), one), far);
        uint32_t good = ~(uint32_t)_mm256_movemask_epi8(beyond) & 0x55555555u;
        for (; good; good &= good - 1)
            into_batch(s, t->entries[r.begin + (uint32_t)__builtin_ctz(good) / 2], which, flips);
    }
    compare_others(s, t, r, others, which, flips);
}
#endif

/* Step `flips` of a substring: the ranges are known. kept: what is kept with the entries, of the query. */
#define DEFINE_VISIT(NAME, ATTRIBUTES, COMPARE_TAGS, COMPARE_OTHERS)                                                   \
    ATTRIBUTES static void NAME(search *s, uint32_t kept, int64_t which, int64_t flips)                                \
    {                                                                                                                  \
        const table *t = s->index->tables + which;                                                                     \
        const int64_t unseen = t->length - t->n_bits - t->n_tag_bits; /* bits that may differ, too */                  \
        for (int64_t i = 0; i < s->n_ranges && s->left >= 0; i++) {                                                    \
            const range r = s->ranges[i];                                                                              \
            const int64_t most = flips - r.flips, least = most > unseen ? most - unseen : 0;                           \
            if (t->tags)                                                                                               \
                COMPARE_TAGS(s, t, r, (uint8_t)kept, (unsigned)least, (unsigned)(most > 8 ? 8 : most), which, flips);  \
            else if (t->others)                                                                                        \
                COMPARE_OTHERS(s, t, r, (uint16_t)kept, which, flips);                                                 \
            else if (least == 0)                                                                                       \
                for (uint32_t e = r.begin; e < r.end && s->left >= 0; e++)                                             \
                    into_batch(s, t->entries[e], which, flips);                                                        \
        }                                                                                                              \
        if (s->left >= 0)                                                                                              \
            s->compare(s, which, flips);                                                                               \
        s->n_batch = 0;                                                                                                \
    }

DEFINE_VISIT(visit_portable, , compare_tags, compare_others)
#ifdef HS_X86
DEFINE_VISIT(visit_avx2, HS_AVX2, compare_tags_avx2, compare_others_avx2)
#endif

/* Choose the functions for this processor. */
static void search_choose(search *s, int portable)
{
    s->visit = visit_portable;
    s->compare = compare_portable;
#ifdef HS_X86
    if (!portable && hs_has_avx2()) {
        s->visit = visit_avx2;
        s->compare = compare_popcnt;
    }
#endif
    (void)portable;
}

#endif
