/* Multi-index hashing: exact search in Hamming space that does not read every code.
 *
 * Norouzi, Punjani and Fleet, "Fast exact search in Hamming space with multi-index hashing", TPAMI 2014. The bits of a
 * code are divided into m substrings, and each substring has a table: the codes by its value. Once substring j has been
 * searched up to r_j flipped bits, a code that was not met differs in more than r_j bits of each j, so it is at least
 * sum (r_j + 1) away. A step looks up the values of one substring with one more flipped bit; it is the substring for
 * which that costs least (Qin et al., "GPH", ICDE 2018), which on skewed codes is not the next in turn.
 *
 * A substring may be longer than the number of places of a table can be. Then its first bits number the place, and the
 * next ones are kept with each entry as a tag: at f flipped bits, i of them in the place, the tag may differ in at most
 * f - i. So a long place is read one byte per code, in a row, and few codes are compared. Of short codes, all bits that
 * are not of the substring are kept, which tells the distance.
 *
 * Where codes repeat, equal ones are entered once. A code is met by several tables; it is taken where it is met first,
 * which is told from the code itself, so nothing has to be remembered. The places of a step are counted before it is
 * begun, then their entries. A query that would go over its budget is given up, and the caller scans. A step after which
 * it is surely finished may cost more: as much as the scan that it saves.
 */
#include "hamming_multi.h"
#include "hamming_multi_visit.h"
#include "hamming_work.h"

#if defined(__GNUC__) || defined(__clang__)
#define DIVIDED(x, power) ((x) >> __builtin_ctzll(power))
#else
#define DIVIDED(x, power) ((x) / (power))
#endif

/* A step costs about so many times as much as the one before it in the same substring, apart from its places. */
static const double GROWTH = 3;

/* The places of a substring whose numbers differ from the query's in exactly `flips` bits, as far as they have entries.
 * Returns how many entries there are; -1 where memory runs out. */
static int64_t look_up(search *s, const table *t, uint32_t place, int64_t flips)
{
    int64_t entries = 0;
    uint64_t pattern = ((uint64_t)1 << flips) - 1;
    const uint64_t end = (uint64_t)1 << t->n_bits;
    uint32_t ring[AHEAD];
    int64_t n = 0, taken = 0;
    int more = 1;
    while (more || taken < n) {
        if (more) {
            ring[n % AHEAD] = place ^ (uint32_t)pattern;
            PREFETCH(t->starts + ring[n % AHEAD]);
            n++;
            if (pattern == 0)
                more = 0;
            else { /* the next larger number with as many ones */
                const uint64_t low = pattern & (~pattern + 1), up = pattern + low;
                pattern = (DIVIDED(up ^ pattern, low) >> 2) | up;
                more = pattern < end;
            }
        }
        if (n - taken < AHEAD && more)
            continue;
        const uint32_t v = ring[taken++ % AHEAD];
        const range found = {t->starts[v], t->starts[v + 1], (uint32_t)flips};
        if (found.begin == found.end)
            continue;
        if (s->n_ranges == s->ranges_room) {
            range *more_room = grown(s->ranges, &s->ranges_room, sizeof *s->ranges);
            if (!more_room)
                return -1;
            s->ranges = more_room;
        }
        if (t->tags)
            PREFETCH(t->tags + found.begin);
        else if (t->others)
            PREFETCH(t->others + found.begin);
        else
            PREFETCH(t->entries + found.begin);
        s->ranges[s->n_ranges++] = found;
        entries += found.end - found.begin;
    }
    return entries;
}

/* How many of n things can be chosen, as a double. */
static double choose(int64_t n, int64_t k)
{
    double c = 1;
    for (int64_t i = 0; i < k; i++)
        c = c * (double)(n - i) / (double)(i + 1);
    return c;
}

/* Places whose numbers differ in f - (bits of the rest) to f bits: those that step f looks up. */
static int64_t first_flips(const table *t, int64_t f)
{
    const int64_t rest = t->length - t->n_bits;
    return f > rest ? f - rest : 0;
}

/* The most that comparing so many entries can cost; negative where that is not known. */
static double most_cost(const search *s, const table *t, double entries)
{
    const int kept = t->tags || t->others, linked = s->index->members != NULL;
    if (linked && !s->k)
        return -1; /* of each entry, all rows */
    return entries * (CODE + (kept ? TAG : 0) + TAKEN * (double)(linked ? s->k : 1));
}

/* One step. last: whether the search is finished after it. Returns 0 where the budget, or memory, does not suffice. */
static int step(search *s, int64_t which, const uint8_t *query, int last)
{
    const table *t = s->index->tables + which;
    const uint32_t value = value_of(t, query, s->index->width);
    const int64_t flips = s->searched[which] + 1;
    double places = 0, entries = 0;
    for (int64_t i = first_flips(t, flips); i <= flips && i <= t->n_bits; i++)
        places += choose(t->n_bits, i);
    if ((s->left -= place_cost(t) * places) < 0)
        return 0;
    s->n_ranges = 0;
    for (int64_t i = first_flips(t, flips); i <= flips && i <= t->n_bits; i++) {
        const int64_t more = look_up(s, t, place_of(t, value), i);
        if (more < 0) {
            s->failed = 1;
            return 0;
        }
        entries += (double)more;
    }
    const double read = t->tags || t->others ? TAG * entries : 0, most = most_cost(s, t, entries);
    if (last && most > s->left && most <= s->left + s->more)
        s->left = most;
    if ((s->left -= read) < 0 || (read == 0 && CODE * entries > s->left))
        return 0;
    const double before = s->left;
    s->visit(s, value >> t->shift, which, flips);
    s->searched[which] = flips;
    const int64_t flipped = flips + 1 <= t->n_bits ? flips + 1 : t->n_bits;
    s->next[which] = place_cost(t) * choose(t->n_bits, flipped) + GROWTH * (before - s->left + read);
    return s->left >= 0;
}

/* Search for one query. Returns whether it was finished within its budget. */
static int run_search(search *s, const uint8_t *query)
{
    const multi *index = s->index;
    load_code(query, index->width, s->words, s->query);
    for (int64_t i = 0; i < index->n_tables; i++) {
        s->searched[i] = -1;
        s->next[i] = 0;
    }
    int64_t met = 0; /* all codes nearer than this have been met */
    int64_t nearer = 0; /* found among these */
    const int64_t last = s->k ? 8 * index->width : (int64_t)s->far;
    while (met <= last && (!s->k || nearer < s->k)) {
        int64_t which = -1;
        for (int64_t i = 0; i < index->n_tables; i++)
            if (s->searched[i] < index->tables[i].length && (which < 0 || s->next[i] < s->next[which]))
                which = i;
        if (which < 0)
            break;
        if (!step(s, which, query, met >= (int64_t)s->far))
            return 0;
        nearer += s->count[met++];
    }
    if (s->k)
        sweep(s);
    qsort(s->found, (size_t)s->n_found, sizeof *s->found, by_word);
    if (s->k && s->n_found > s->k)
        s->n_found = s->k;
    return 1;
}

typedef struct {
    const multi *index;
    const filter *filter;
    int64_t k, radius;
    double budget, more;
    uint16_t *distances; /* (n_queries, k), for k > 0 */
    int64_t *rows;
    uint64_t **found; /* (n_queries) for a radius */
    int64_t *counts;  /* (n_queries) how many were found, or GIVEN_UP */
} multi_work;

static int work_multi(const plan *w, int64_t q0, int64_t q1, int64_t c0, int64_t c1, int64_t job)
{
    const multi_work *m = w->context;
    const problem *p = w->problem;
    const int64_t bins = 8 * p->width + 1;
    (void)c0, (void)c1, (void)job;
    search s = {.index = m->index, .codes = p->codes, .filter = m->filter, .words = (p->width + 7) / 8, .k = m->k,
                .more = m->more};
    search_choose(&s, p->portable != 0);
    s.ranges_room = 64;
    s.ranges = malloc((size_t)s.ranges_room * sizeof *s.ranges);
    s.room = 2 * m->k + 256;
    s.found = malloc((size_t)s.room * sizeof *s.found);
    s.count = malloc((size_t)bins * sizeof *s.count);
    s.failed = !s.ranges || !s.found || !s.count;
    for (int64_t q = q0; !s.failed && q < q1; q++) {
        memset(s.count, 0, (size_t)bins * sizeof *s.count);
        s.n_found = s.kept = s.n_batch = 0;
        s.far = (unsigned)(m->k ? bins - 1 : m->radius);
        s.worst = ~(uint64_t)0;
        s.left = m->budget;
        if (!run_search(&s, p->queries + q * p->width))
            continue;
        m->counts[q] = s.n_found;
        if (m->k) {
            for (int64_t i = 0; i < s.n_found; i++) {
                m->distances[q * m->k + i] = (uint16_t)DISTANCE(s.found[i]);
                m->rows[q * m->k + i] = INDEX(s.found[i]);
            }
        } else if (s.n_found) {
            m->found[q] = malloc((size_t)s.n_found * sizeof **m->found);
            if (!m->found[q])
                s.failed = 1;
            else
                memcpy(m->found[q], s.found, (size_t)s.n_found * sizeof **m->found);
        }
    }
    free(s.ranges);
    free(s.found);
    free(s.count);
    return s.failed ? -1 : 0;
}

/* The k nearest rows of each query, (n_queries, k) by distance and row, of which counts (n_queries) were found, or
 * GIVEN_UP where the budget, in nanoseconds, did not suffice; what follows is undefined then. more: what a step that
 * surely finishes may cost in addition. k is at least 1 and at most n_codes. Returns 0, or -1 without memory. */
HS_API int hs_multi_topk(const multi *index, const asked *a, int64_t k, double budget, double more,
                         uint16_t *distances, int64_t *rows, int64_t *counts)
{
    multi_work m = {.index = index, .filter = a->filter, .k = k, .budget = budget, .more = more,
                    .distances = distances, .rows = rows, .counts = counts};
    problem p = problem_of(index, a, counts);
    int failed = run(&(plan){.problem = &p, .work = work_multi, .context = &m});
    if (!failed && scan_at_once(a, counts)) {
        failed = hs_hamming_topk(&p, k, distances, rows);
        counts[0] = k;
    }
    return failed;
}

/* All rows within a radius: counts (n_queries) as above, and what was found by query, which hs_multi_take frees: found
 * (n_queries) must be NULLs. */
HS_API int hs_multi_radius(const multi *index, const asked *a, int64_t radius, double budget, double more,
                           uint64_t **found, int64_t *counts)
{
    multi_work m = {.index = index, .filter = a->filter, .radius = radius, .budget = budget, .more = more,
                    .found = found, .counts = counts};
    problem p = problem_of(index, a, counts);
    return run(&(plan){.problem = &p, .work = work_multi, .context = &m});
}

/* Move what a radius search has found to distances and rows, query after query, and free it. */
HS_API void hs_multi_take(uint64_t **found, const int64_t *counts, int64_t n_queries, uint16_t *distances,
                          int64_t *rows)
{
    int64_t to = 0;
    for (int64_t q = 0; q < n_queries; q++) {
        for (int64_t i = 0; distances && i < counts[q]; i++, to++) {
            distances[to] = (uint16_t)DISTANCE(found[q][i]);
            rows[to] = INDEX(found[q][i]);
        }
        free(found[q]);
    }
}
