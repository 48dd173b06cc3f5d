/* The k codes that cost a query least, where every bit that differs has a cost of its own, looked up in a multi-index.
 *
 * Places of a substring are visited whose differing bits cost at most t, and entries whose tags cost no more than what
 * is left of it. A code that was met in no substring then costs more than t in each of the m, so more than m t in all.
 * So t is raised, round by round, until m t is the k-th cost found. A round passes over what an earlier one has seen.
 */
#include "hamming_costs.h"
#include "hamming_multi.h"
#include "hamming_work.h"

enum { BATCH = 64, PLACES_AHEAD = 16 };

/* The threshold of the next round over that of this one, while fewer than k codes are known. */
static const double RAISE = 1.7;

typedef struct {
    double cost;
    uint32_t begin, end;
} range;

typedef struct {
    double cost;
    int64_t row;
} item;

/* What the search of one query needs. */
typedef struct {
    const multi *index;
    const uint8_t *codes;
    const filter *filter;
    double *costs; /* (width, 256) of the whole code */
    range *ranges;
    int64_t n_ranges, ranges_room;
    uint32_t batch[BATCH];
    int64_t n_batch;
    item *items; /* (k) by cost and row */
    int64_t n_items, k;
    double left; /* of the budget */
    int failed;
} search;

static int before(item a, item b) { return a.cost < b.cost || (a.cost == b.cost && a.row < b.row); }

/* Enter an item, unless k are better or it is there already, as where it was met in another substring. */
static void add(search *s, item one)
{
    if (s->n_items == s->k && !before(one, s->items[s->k - 1]))
        return;
    int64_t low = 0, high = s->n_items;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (before(s->items[middle], one))
            low = middle + 1;
        else
            high = middle;
    }
    if (low < s->n_items && s->items[low].row == one.row && s->items[low].cost == one.cost)
        return;
    const int64_t last = s->n_items < s->k ? s->n_items++ : s->k - 1;
    memmove(s->items + low + 1, s->items + low, (size_t)(last - low) * sizeof *s->items);
    s->items[low] = one;
    s->left -= TAKEN + 0.1 * (double)(last - low);
}

static void compare_batch(search *s)
{
    const multi *index = s->index;
    const int64_t width = index->width, n = s->n_batch;
    uint32_t rows[BATCH];
    for (int64_t i = 0; i < n; i++) {
        rows[i] = index->members ? ROW(index->members[s->batch[i]]) : s->batch[i];
        PREFETCH(s->codes + rows[i] * width);
    }
    for (int64_t i = 0; i < n; i++) {
        const double cost = cost_of(s->costs, s->codes + rows[i] * width, width);
        if (s->n_items == s->k && cost > s->items[s->k - 1].cost)
            continue;
        int64_t taken = 0;
        for (uint32_t entry = s->batch[i]; s->left >= 0; entry++) {
            const uint32_t member = index->members ? index->members[entry] : entry | LAST;
            s->left -= TAKEN;
            if (may_be_found(s->filter, ROW(member))) {
                add(s, (item){cost, ROW(member)});
                taken++;
            }
            if ((member & LAST) || taken == s->k)
                break;
        }
    }
    s->left -= (CODE + 2 * (double)width) * (double)n;
    s->n_batch = 0;
}

/* The bits of a place, the cheapest first. */
typedef struct {
    double costs[24];
    uint32_t flips[24];
    int64_t n;
} choices;

static choices choices_of(const table *t, const double *weights)
{
    choices c = {.n = t->n_bits};
    for (int64_t i = 0; i < c.n; i++) {
        const double cost = weights[t->bits[i]];
        int64_t at = i;
        for (; at > 0 && c.costs[at - 1] > cost; at--) {
            c.costs[at] = c.costs[at - 1];
            c.flips[at] = c.flips[at - 1];
        }
        c.costs[at] = cost;
        c.flips[at] = (uint32_t)1 << i;
    }
    return c;
}

static void take_range(search *s, const table *t, uint32_t place, double cost)
{
    const range found = {cost, t->starts[place], t->starts[place + 1]};
    if (found.begin == found.end)
        return;
    if (s->n_ranges == s->ranges_room) {
        range *more = grown(s->ranges, &s->ranges_room, sizeof *s->ranges);
        if (!more) {
            s->failed = 1;
            s->left = -1;
            return;
        }
        s->ranges = more;
    }
    if (t->tags)
        PREFETCH(t->tags + found.begin);
    s->ranges[s->n_ranges++] = found;
    s->left -= TAG * (double)(found.end - found.begin);
}

/* The places whose differing bits cost at most `most`. Sets of bits are walked in the order of a depth-first search: the
 * next one has the next dearer bit in addition, or in place of the last. */
static void look_up(search *s, const table *t, const choices *c, uint32_t place, double most)
{
    int64_t stack[24], depth = 0, n = 1, taken = 0;
    double sums[25] = {0};
    uint32_t places[25] = {place}, ring[PLACES_AHEAD];
    double ring_costs[PLACES_AHEAD];
    s->n_ranges = 0;
    int64_t next = 0; /* the bit to try on top of the stack */
    int more = 1;
    ring[0] = place;
    ring_costs[0] = 0;
    while (more && s->left >= 0) {
        if (next < c->n && sums[depth] + c->costs[next] <= most) {
            sums[depth + 1] = sums[depth] + c->costs[next];
            places[depth + 1] = places[depth] ^ c->flips[next];
            stack[depth++] = next++;
            if (n - taken == PLACES_AHEAD) {
                take_range(s, t, ring[taken % PLACES_AHEAD], ring_costs[taken % PLACES_AHEAD]);
                taken++;
            }
            PREFETCH(t->starts + places[depth]);
            ring[n % PLACES_AHEAD] = places[depth];
            ring_costs[n++ % PLACES_AHEAD] = sums[depth];
            s->left -= place_cost(t);
        } else if (depth == 0) {
            more = 0;
        } else {
            next = stack[--depth] + 1;
        }
    }
    for (; taken < n && s->left >= 0; taken++)
        take_range(s, t, ring[taken % PLACES_AHEAD], ring_costs[taken % PLACES_AHEAD]);
}

/* One substring: codes of which it costs more than `seen`, and at most `most`. */
static void visit(search *s, const table *t, const double *weights, const uint8_t *query, double seen,
                  double most)
{
    const choices c = choices_of(t, weights);
    const uint32_t value = value_of(t, query, s->index->width);
    const uint8_t tag = (uint8_t)(value >> t->shift);
    double of_tag[256] = {0};
    for (int64_t v = 1; v < (int64_t)1 << t->n_tag_bits; v++) { /* by the bits in which the tag differs */
        int64_t low = 0;
        while (!(v >> low & 1))
            low++;
        of_tag[v] = of_tag[v & (v - 1)] + weights[t->bits[t->n_bits + low]];
    }
    look_up(s, t, &c, place_of(t, value), most);
    for (int64_t i = 0; i < s->n_ranges && s->left >= 0; i++) {
        const range r = s->ranges[i];
        if (!t->tags && r.cost <= seen)
            continue;
        for (uint32_t e = r.begin; e < r.end && s->left >= 0; e++) {
            if (t->tags) {
                const double cost = r.cost + of_tag[t->tags[e] ^ tag];
                if (cost > most || cost <= seen)
                    continue;
            }
            const uint32_t entry = t->entries[e];
            if (s->index->members)
                PREFETCH(s->index->members + entry);
            else
                PREFETCH(s->codes + entry * s->index->width);
            s->batch[s->n_batch++] = entry;
            if (s->n_batch == BATCH)
                compare_batch(s);
        }
    }
    if (s->left >= 0)
        compare_batch(s);
    s->n_batch = 0;
}

/* Search for one query. Returns whether it was finished within its budget. */
static int run_search(search *s, const double *values, int64_t r, const uint8_t *query)
{
    const double m = (double)s->index->n_tables;
    double weights[64 * WORDS_MAX] = {0}, all = 0, seen = -1, most = 0;
    for (int64_t i = 0; i < r; i++)
        all += weights[i] = fabs(values[i]);
    const double slack = 1e-10 * all; /* sums are added in different orders */
    most = 0.03 * all / m;
    for (;;) {
        for (int64_t i = 0; i < s->index->n_tables; i++) {
            visit(s, s->index->tables + i, weights, query, seen, most);
            if (s->left < 0)
                return 0;
        }
        const double worst = s->n_items == s->k ? s->items[s->k - 1].cost : INFINITY;
        if (m * most > worst + slack || most > all)
            return 1;
        seen = most;
        most = worst < 2 * RAISE * m * most ? (worst + 2 * slack) / m : RAISE * most;
        if (most > all || !(most > seen))
            most = all + slack;
    }
}

typedef struct {
    const multi *index;
    const filter *filter;
    const double *values;
    int64_t k, r;
    double budget;
    double *distances; /* (n_queries, k) */
    int64_t *rows;
    int64_t *counts; /* (n_queries) how many were found, or GIVEN_UP */
} weighted_work;

static int work_weighted(const plan *w, int64_t q0, int64_t q1, int64_t c0, int64_t c1, int64_t job)
{
    const weighted_work *m = w->context;
    const problem *p = w->problem;
    (void)c0, (void)c1, (void)job;
    search s = {.index = m->index, .codes = p->codes, .filter = m->filter, .k = m->k, .ranges_room = 256};
    uint8_t code[8 * WORDS_MAX];
    s.ranges = malloc((size_t)s.ranges_room * sizeof *s.ranges);
    s.costs = malloc((size_t)(256 * p->width) * sizeof *s.costs);
    s.items = malloc((size_t)(m->k + 1) * sizeof *s.items);
    s.failed = !s.ranges || !s.costs || !s.items;
    for (int64_t q = q0; !s.failed && q < q1; q++) {
        const double *values = m->values + q * m->r;
        s.n_items = s.n_batch = 0;
        s.left = m->budget;
        make_costs(values, m->r, p->width, code, s.costs);
        if (!run_search(&s, values, m->r, code))
            continue;
        m->counts[q] = s.n_items;
        for (int64_t i = 0; i < s.n_items; i++) {
            m->distances[q * m->k + i] = s.items[i].cost;
            m->rows[q * m->k + i] = s.items[i].row;
        }
    }
    free(s.ranges);
    free(s.costs);
    free(s.items);
    return s.failed ? -1 : 0;
}

/* As hs_multi_topk, where a bit that differs from the sign of one of the values (n_queries, r) costs its magnitude. */
HS_API int hs_multi_weighted(const multi *index, const asked *a, int64_t r, int64_t k, double budget, double *distances,
                             int64_t *rows, int64_t *counts)
{
    weighted_work m = {.index = index, .filter = a->filter, .values = a->queries, .k = k, .r = r, .budget = budget,
                       .distances = distances, .rows = rows, .counts = counts};
    problem p = problem_of(index, a, counts);
    int failed = run(&(plan){.problem = &p, .work = work_weighted, .context = &m});
    if (!failed && scan_at_once(a, counts)) {
        failed = hs_hamming_weighted(&p, r, a->queries, k, distances, rows);
        counts[0] = k;
    }
    return failed;
}
