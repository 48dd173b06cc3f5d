/* Steps towards codewords, for one number type and one instruction set.
 *
 * Included several times by codewords.c with REAL (float or double), NAME(x) (adds the suffix) and TARGET (a function
 * attribute) defined. The NumPy twin, hashers/kernels/codewords.py, is the readable form.
 */

#define LANES ((int64_t)(32 / sizeof(REAL)))
typedef REAL NAME(vector) __attribute__((vector_size(32), aligned(sizeof(REAL)), may_alias));
typedef __typeof__((NAME(vector)){0} > (NAME(vector)){0}) NAME(whole); /* integers of the same width */
/* Lane by lane, `yes` where `where` holds, otherwise `no`. */
#define CHOOSE(where, yes, no) ((NAME(vector))(((where) & (NAME(whole))(yes)) | (~(where) & (NAME(whole))(no))))

/* A strip of W: d vectors, one below the other, with the same columns of what belongs to W. */
typedef struct {
    NAME(vector) *w, *total;
    int64_t first, width; /* columns [first, first + width) of W; the lanes after them are zero */
} NAME(strip);

/* What one sample of the block under work has and brings about. */
typedef struct {
    const REAL *x;
    REAL squared; /* |x|^2 */
    REAL before;  /* boosting: sum of y_i w_i^T x over the bits before this strip, each after its own update */
    NAME(vector) y, g; /* its codeword; W moves by x g^T */
} NAME(sample);

static TARGET REAL NAME(squared_length)(const REAL *x, int64_t d)
{
    NAME(vector) sums = {0};
    REAL sum = 0;
    int64_t i = 0;
    for (; i + LANES <= d; i += LANES) {
        const NAME(vector) part = *(const NAME(vector) *)(x + i);
        sums += part * part;
    }
    for (; i < d; i++) sum += x[i] * x[i];
    for (int64_t k = 0; k < LANES; k++) sum += sums[k];
    return sum;
}

/* p = x^T w. Four sums, so that one addition need not wait for the other. */
static inline TARGET NAME(vector) NAME(strip_project)(const NAME(vector) *w, const REAL *x, int64_t d)
{
    NAME(vector) p0 = {0}, p1 = {0}, p2 = {0}, p3 = {0};
    int64_t i = 0;
    for (; i + 4 <= d; i += 4)
        p0 += x[i] * w[i], p1 += x[i + 1] * w[i + 1], p2 += x[i + 2] * w[i + 2], p3 += x[i + 3] * w[i + 3];
    for (; i < d; i++) p0 += x[i] * w[i];
    return (p0 + p1) + (p2 + p3);
}

/* w += x g^T. */
static inline TARGET void NAME(strip_move)(NAME(vector) *w, const REAL *x, NAME(vector) g, int64_t d)
{
    for (int64_t i = 0; i < d; i++) w[i] += x[i] * g;
}

/* w += x g^T, then z^T w, in one pass; to the last bit what the two functions above do. */
static inline TARGET NAME(vector) NAME(strip_move_project)(NAME(vector) *w, const REAL *x, NAME(vector) g, const REAL *z, int64_t d)
{
    NAME(vector) p0 = {0}, p1 = {0}, p2 = {0}, p3 = {0};
    int64_t i = 0;
    for (; i + 4 <= d; i += 4) {
        const NAME(vector) w0 = w[i] + x[i] * g, w1 = w[i + 1] + x[i + 1] * g;
        const NAME(vector) w2 = w[i + 2] + x[i + 2] * g, w3 = w[i + 3] + x[i + 3] * g;
        w[i] = w0, w[i + 1] = w1, w[i + 2] = w2, w[i + 3] = w3;
        p0 += z[i] * w0, p1 += z[i + 1] * w1, p2 += z[i + 2] * w2, p3 += z[i + 3] * w3;
    }
    for (; i < d; i++) w[i] += x[i] * g, p0 += z[i] * w[i];
    return (p0 + p1) + (p2 + p3);
}

/* e^v for v in [-80, 0]: 2^n e^u with |u| <= log(2) / 2, and the series of e^u. */
static inline TARGET NAME(vector) NAME(strip_exp)(NAME(vector) v)
{
    static const double inverse[14] = {0, 1, 1.0 / 2, 1.0 / 3, 1.0 / 4, 1.0 / 5, 1.0 / 6, 1.0 / 7, 1.0 / 8, 1.0 / 9, 1.0 / 10, 1.0 / 11, 1.0 / 12, 1.0 / 13};
    const int single = sizeof(REAL) == 4, mantissa = single ? 23 : 52, degree = single ? 7 : 13;
    const REAL round = (REAL)(single ? 0x1.8p23 : 0x1.8p52); /* added to a number it leaves the nearest integer */
    const REAL high = (REAL)(single ? 0x1.62ep-1 : 0x1.62e42fee00000p-1);
    const REAL low = (REAL)(single ? 0.6931471805599453 - 0x1.62ep-1 : 1.90821492927058770002e-10);
    const NAME(vector) shifted = v * (REAL)1.4426950408889634 + round, n = shifted - round;
    const NAME(vector) u = (v - n * high) - n * low;
    NAME(vector) series = u * 0 + 1;
    for (int k = degree; k > 0; k--) series = 1 + u * (REAL)inverse[k] * series;
    return (NAME(vector))((NAME(whole))series + ((NAME(whole))shifted << mantissa));
}

/* HCOH: -rate (F - y)(1 - F^2) with F = tanh(p); by e = exp(-2 |p|), F = (1 - e) / (1 + e) with the sign of p. */
static inline TARGET NAME(vector) NAME(hcoh)(NAME(vector) p, NAME(vector) y, REAL rate)
{
    const NAME(vector) zero = {0}, size = CHOOSE(p < zero, -p, p);
    const NAME(vector) e = NAME(strip_exp)(CHOOSE(size < zero + 20, size, zero + 20) * -2);
    const NAME(vector) F = (1 - e) / (1 + e), slope = 4 * e / ((1 + e) * (1 + e));
    return rate * (y - CHOOSE(p < zero, -F, F)) * slope;
}

/* OSH with boosting: bit after bit, c = exp(- sum of y_i w_i^T x over the bits before), w_j moves by
 * rate c exp(-y_j w_j^T x) y_j x, which adds that times |x|^2 to its own y_j w_j^T x. */
static inline TARGET NAME(vector) NAME(boost)(NAME(vector) p, NAME(sample) *s, REAL rate, int64_t width)
{
    const NAME(vector) margin = s->y * p;
    const REAL grows = rate * s->squared;
    REAL sum = s->before, e[32 / sizeof(REAL)] = {0};
    for (int64_t k = 0; k < width; k++) {
        sum += margin[k];
        e[k] = sizeof(REAL) == 4 ? (REAL)expf((float)-sum) : (REAL)exp((double)-sum);
        sum += grows * e[k];
    }
    s->before = sum;
    return rate * *(const NAME(vector) *)e * s->y;
}

/* The move that one sample asks of a strip, from its projection. */
static inline TARGET void NAME(ask)(const hs_codewords *job, NAME(sample) *s, NAME(vector) p, REAL rate, const NAME(strip) *strip)
{
    const NAME(vector) zero = {0};
    switch (job->rule) {
    case HS_HCOH: s->g = NAME(hcoh)(p, s->y, rate); break;
    case HS_HMOH: /* a projection of 0 counts as -1 */
        s->g = CHOOSE(CHOOSE(p > zero, zero + 1, zero - 1) != s->y, rate * s->y, zero);
        for (int64_t k = 0; k < strip->width; k++) job->mistakes[strip->first + k] += s->g[k] != 0;
        break;
    case HS_OSH_BOOST: s->g = NAME(boost)(p, s, rate, strip->width); break;
    default: s->g = CHOOSE(s->y * p < zero + 1, rate * s->y, zero);
    }
}

static inline TARGET int NAME(any)(NAME(vector) g)
{
    int any = 0;
    for (int64_t k = 0; k < LANES; k++) any |= g[k] != 0;
    return any;
}

/* HMOH: where a column of the strip is about to move, first add it to the sum of iterates as often as it has stood. */
static inline TARGET void NAME(keep)(const hs_codewords *job, const NAME(strip) *strip, const NAME(sample) *samples, int64_t count)
{
    NAME(vector) held = {0};
    int64_t *steps = job->held + strip->first;
    int any = 0;
    for (int64_t k = 0; k < strip->width; k++) {
        int moves = 0;
        for (int64_t j = 0; j < count; j++) moves |= samples[j].g[k] != 0;
        if (moves) held[k] = (REAL)steps[k], steps[k] = 1, any = 1;
        else steps[k]++;
    }
    if (any)
        for (int64_t i = 0; i < job->d; i++) strip->total[i] += held * strip->w[i];
}

/* One strip learns a block of samples. */
static TARGET void NAME(strip_learn)(const hs_codewords *job, const NAME(strip) *strip, NAME(sample) *samples, int64_t count)
{
    const int64_t d = job->d;
    if (job->batch == 1) {
        NAME(vector) p = NAME(strip_project)(strip->w, samples[0].x, d);
        for (int64_t j = 0; j < count; j++) {
            NAME(sample) *s = samples + j;
            NAME(ask)(job, s, p, (REAL)job->rate, strip);
            if (job->rule == HS_HMOH) NAME(keep)(job, strip, s, 1);
            const int moves = job->rule == HS_HCOH || NAME(any)(s->g);
            if (j + 1 == count) {
                if (moves) NAME(strip_move)(strip->w, s->x, s->g, d);
            } else if (moves)
                p = NAME(strip_move_project)(strip->w, s->x, s->g, s[1].x, d);
            else
                p = NAME(strip_project)(strip->w, s[1].x, d);
        }
        return;
    }
    for (int64_t start = 0; start < count; start += job->batch) {
        const int64_t size = count - start < job->batch ? count - start : job->batch;
        NAME(sample) *s = samples + start;
        for (int64_t j = 0; j < size; j++)
            NAME(ask)(job, s + j, NAME(strip_project)(strip->w, s[j].x, d), (REAL)(job->rate / (double)size), strip);
        if (job->rule == HS_HMOH) NAME(keep)(job, strip, s, size);
        for (int64_t j = 0; j < size; j++) NAME(strip_move)(strip->w, s[j].x, s[j].g, d);
    }
}

/* Strips from the columns of A (d, r), or back into them. */
static TARGET void NAME(take_apart)(NAME(vector) *strips, const REAL *A, int64_t d, int64_t r)
{
    memset(strips, 0, (size_t)(d * ((r + LANES - 1) / LANES)) * sizeof *strips);
    for (int64_t first = 0; first < r; first += LANES, strips += d)
        for (int64_t i = 0; i < d; i++)
            memcpy(strips + i, A + i * r + first, sizeof(REAL) * (size_t)(r - first < LANES ? r - first : LANES));
}

static TARGET void NAME(put_together)(REAL *A, const NAME(vector) *strips, int64_t d, int64_t r)
{
    for (int64_t first = 0; first < r; first += LANES, strips += d)
        for (int64_t i = 0; i < d; i++)
            memcpy(A + i * r + first, strips + i, sizeof(REAL) * (size_t)(r - first < LANES ? r - first : LANES));
}

/* See hs_codewords_* in codewords.c for what the arguments mean. */
static TARGET int NAME(learn)(const hs_codewords *job, const REAL *X, REAL *W, REAL *total)
{
    const int64_t n = job->n, d = job->d, r = job->r, strips = (r + LANES - 1) / LANES;
    int64_t block = HS_BLOCK_BYTES / ((int64_t)sizeof(REAL) * d) / job->batch * job->batch;
    if (block < job->batch) block = job->batch;
    if (block < 8 && job->batch == 1) block = 8;
    if (block > n) block = n;
    NAME(vector) *w = malloc((size_t)(d * strips) * sizeof *w);
    NAME(vector) *t = total ? malloc((size_t)(d * strips) * sizeof *t) : NULL;
    NAME(sample) *samples = malloc((size_t)block * sizeof *samples);
    const int short_of_memory = !w || (total && !t) || !samples;
    if (!short_of_memory) {
        NAME(take_apart)(w, W, d, r);
        if (total) NAME(take_apart)(t, total, d, r);
        for (int64_t start = 0; start < n; start += block) {
            const int64_t count = n - start < block ? n - start : block;
            for (int64_t j = 0; j < count; j++) {
                NAME(sample) *s = samples + j;
                s->x = X + (start + j) * d, s->before = 0;
                s->squared = job->rule == HS_OSH_BOOST ? NAME(squared_length)(s->x, d) : 0;
            }
            for (int64_t k = 0; k < strips; k++) {
                const int64_t first = k * LANES;
                NAME(strip) strip = {w + k * d, total ? t + k * d : NULL, first, r - first < LANES ? r - first : LANES};
                for (int64_t j = 0; j < count; j++) {
                    const int8_t *codeword = job->codebook + job->rows[start + j] * r + first;
                    samples[j].y = (NAME(vector)){0};
                    for (int64_t l = 0; l < strip.width; l++) samples[j].y[l] = codeword[l];
                }
                NAME(strip_learn)(job, &strip, samples, count);
            }
        }
        NAME(put_together)(W, w, d, r);
        if (total) NAME(put_together)(total, t, d, r);
    }
    free(w), free(t), free(samples);
    return short_of_memory ? -1 : 0;
}

#undef LANES
#undef CHOOSE
