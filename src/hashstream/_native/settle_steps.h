/* Signs of X W that do not depend on how the product was rounded, for one number type and one instruction set.
 *
 * Included several times by settle.c with REAL (float or double), NAME(x) (adds the suffix) and TARGET (a function
 * attribute) defined; NAME(dot) is the precise product.
 */

typedef REAL NAME(vector) __attribute__((vector_size(32), aligned(sizeof(REAL)), may_alias));
typedef int64_t NAME(words) __attribute__((vector_size(32)));
#define LANES ((int64_t)(32 / sizeof(REAL)))
#define AT(p, i) (*(const NAME(vector) *)((p) + (i)))

/* x . w in 4 LANES sums, so that no term goes through more than QUICK(d) roundings: up to d / (4 LANES) + 4 in its sum,
 * the others where sums are added up. */
#define QUICK(d) ((REAL)((d) / (4 * LANES) + 2 * LANES + 8))
static inline TARGET REAL NAME(quick_dot)(const REAL *x, const REAL *w, int64_t d)
{
    NAME(vector) a = {0}, b = {0}, c = {0}, e = {0};
    REAL sum = 0;
    int64_t i = 0;
    for (; i + 4 * LANES <= d; i += 4 * LANES) {
        a += AT(x, i) * AT(w, i), b += AT(x, i + LANES) * AT(w, i + LANES);
        c += AT(x, i + 2 * LANES) * AT(w, i + 2 * LANES), e += AT(x, i + 3 * LANES) * AT(w, i + 3 * LANES);
    }
    for (; i + LANES <= d; i += LANES) a += AT(x, i) * AT(w, i);
    for (; i < d; i++) sum += x[i] * w[i];
    a = (a + b) + (c + e);
    for (int64_t j = 0; j < LANES / 2; j++) sum += a[j] + a[j + LANES / 2];
    return sum;
}

/* |x|^2. */
static inline TARGET REAL NAME(squares)(const REAL *x, int64_t d) { return NAME(quick_dot)(x, x, d); }

static inline TARGET int NAME(sure)(REAL value, REAL scale, REAL limit)
{
    return value * scale > limit || value * scale < -limit; /* not for NaN */
}

static inline TARGET int NAME(all_sure)(const REAL *values, const REAL *scale, int64_t r, REAL limit)
{
    const NAME(vector) high = limit - (NAME(vector)){0}, low = -high;
    NAME(words) all = {-1, -1, -1, -1};
    int64_t k = 0;
    for (; k + LANES <= r; k += LANES) {
        const NAME(vector) v = AT(values, k) * AT(scale, k);
        all &= (NAME(words))((v > high) | (v < low));
    }
    int sure = (all[0] & all[1] & all[2] & all[3]) == -1;
    for (; k < r; k++) sure &= NAME(sure)(values[k], scale[k], limit);
    return sure;
}

/* |x|, with what squares have lost that are too small for REAL. */
static inline TARGET REAL NAME(length)(REAL squares, int64_t d)
{
    squares += (REAL)d * (sizeof(REAL) == 4 ? (REAL)FLT_MIN : (REAL)DBL_MIN);
    return sizeof(REAL) == 4 ? (REAL)sqrtf((float)squares) : (REAL)sqrt((double)squares);
}

/* Settle one row of values (r); returns whether one of them was not sure. */
static TARGET int NAME(settle_row)(const struct columns *c, const REAL *x, REAL squares, REAL *values)
{
    const REAL *W = c->W, *scale = c->scale, base = (REAL)c->base;
    const REAL length = NAME(length)(squares, c->d), limit = length + base;
    if (NAME(all_sure)(values, scale, c->r, limit)) return 0;
    /* Most are sure after a sum with fewer roundings, which takes a quarter of the time of the precise one. */
    const int finite = squares < (REAL)c->most;
    const REAL nearer = length * (QUICK(c->d) / (REAL)c->terms) + base;
    for (int64_t k = 0; k < c->r; k++) {
        if (k % LANES == 0 && k + LANES <= c->r && NAME(all_sure)(values + k, scale + k, LANES, limit)) {
            k += LANES - 1;
            continue;
        }
        if (NAME(sure)(values[k], scale[k], limit)) continue;
        const REAL quick = NAME(quick_dot)(x, W + k * c->d, c->d);
        if (!finite || !NAME(sure)(quick, scale[k], nearer) || (quick > 0) != (values[k] > 0))
            values[k] = NAME(dot)(x, W + k * c->d, c->d);
    }
    return 1;
}

static TARGET void NAME(row_squares)(const REAL *X, int64_t n, int64_t d, REAL *squares)
{
    for (int64_t i = 0; i < n; i++) squares[i] = NAME(squares)(X + i * d, d);
}

/* See hs_settle_* in settle.c for what the arguments mean. */
static TARGET int NAME(settle)(const struct columns *c, const REAL *X, int64_t n, const REAL *squares,
        REAL *values, uint8_t *codes)
{
    int wrong = 0;
    for (int64_t i = 0; i < n; i++, X += c->d, values += c->r) {
        NAME(settle_row)(c, X, squares ? squares[i] : NAME(squares)(X, c->d), values);
        if (codes) wrong |= hs_signs_pack((const uint8_t *)values, 1, c->r, sizeof(REAL), codes + i * ((c->r + 7) / 8));
    }
    return wrong;
}

/* See hs_unsure_* in settle.c for what the arguments mean. */
static TARGET void NAME(unsure)(const REAL *values, int64_t n, int64_t r, const REAL *rows,
        const REAL *columns, uint8_t *marks)
{
    const REAL tiny = 4096 * (sizeof(REAL) == 4 ? (REAL)FLT_MIN : (REAL)DBL_MIN);
    for (int64_t i = 0; i < n; i++, values += r) {
        const REAL base = rows[i] == 0 ? 0 : tiny;
        const NAME(vector) row = rows[i] - (NAME(vector)){0}, bases = base - (NAME(vector)){0};
        NAME(words) all = {-1, -1, -1, -1};
        int64_t k = 0;
        for (; k + LANES <= r; k += LANES) {
            const NAME(vector) v = AT(values, k), column = AT(columns, k);
            const NAME(vector) limit = row * column + (NAME(vector))((NAME(words))(column > 0) & (NAME(words))bases);
            all &= (NAME(words))(((v >= limit) | (v <= -limit)) & (v - v == 0)); /* v - v is NaN for infinity, too */
        }
        int sure = (all[0] & all[1] & all[2] & all[3]) == -1;
        for (; k < r; k++) {
            const REAL v = values[k], limit = rows[i] * columns[k] + (columns[k] > 0 ? base : 0);
            sure &= (v >= limit || v <= -limit) && v - v == 0;
        }
        marks[i] = (uint8_t)!sure;
    }
}

#undef LANES
#undef AT
#undef QUICK
