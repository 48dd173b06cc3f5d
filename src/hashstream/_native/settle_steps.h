/* Signs of X W that do not depend on how the product was rounded, for one number type and one instruction set.
 *
 * Included several times by settle.c with REAL (float or double), NAME(x) (adds the suffix) and TARGET (a function
 * attribute) defined; NAME(dot) is the precise product.
 */

typedef REAL NAME(vector) __attribute__((vector_size(32), aligned(sizeof(REAL)), may_alias));
typedef int64_t NAME(words) __attribute__((vector_size(32)));
#define LANES ((int64_t)(32 / sizeof(REAL)))
#define AT(p, i) (*(const NAME(vector) *)((p) + (i)))

/* |x|^2, in any order. */
static inline TARGET REAL NAME(squares)(const REAL *x, int64_t d)
{
    NAME(vector) a = {0}, b = {0}, c = {0}, e = {0};
    REAL sum = 0;
    int64_t i = 0;
    for (; i + 4 * LANES <= d; i += 4 * LANES) {
        a += AT(x, i) * AT(x, i), b += AT(x, i + LANES) * AT(x, i + LANES);
        c += AT(x, i + 2 * LANES) * AT(x, i + 2 * LANES), e += AT(x, i + 3 * LANES) * AT(x, i + 3 * LANES);
    }
    for (; i < d; i++) sum += x[i] * x[i];
    a = (a + b) + (c + e);
    for (int64_t j = 0; j < LANES / 2; j++) sum += a[j] + a[j + LANES / 2];
    return sum;
}

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

/* See hs_settle_* in settle.c for what the arguments mean. */
static TARGET void NAME(settle)(const REAL *X, int64_t n, int64_t d, const REAL *W, int64_t r, const REAL *scale, REAL base, REAL *values)
{
    const REAL lost = (REAL)d * (sizeof(REAL) == 4 ? (REAL)FLT_MIN : (REAL)DBL_MIN); /* squares too small for REAL */
    for (int64_t i = 0; i < n; i++, X += d, values += r) {
        const REAL squares = NAME(squares)(X, d) + lost;
        const REAL limit = (sizeof(REAL) == 4 ? (REAL)sqrtf((float)squares) : (REAL)sqrt((double)squares)) + base;
        if (NAME(all_sure)(values, scale, r, limit)) continue;
        for (int64_t k = 0; k < r; k++)
            if (!NAME(sure)(values[k], scale[k], limit)) values[k] = NAME(dot)(X, W + k * d, d);
    }
}

/* See hs_unsure_* in settle.c for what the arguments mean. */
static TARGET void NAME(unsure)(const REAL *values, int64_t n, int64_t r, const REAL *rows, const REAL *columns, const REAL *base, uint8_t *marks)
{
    for (int64_t i = 0; i < n; i++, values += r) {
        const REAL on = rows[i] == 0 ? 0 : 1;
        const NAME(vector) row = rows[i] - (NAME(vector)){0};
        NAME(words) all = {-1, -1, -1, -1};
        int64_t k = 0;
        for (; k + LANES <= r; k += LANES) {
            const NAME(vector) v = AT(values, k), limit = row * AT(columns, k) + on * AT(base, k);
            all &= (NAME(words))(((v >= limit) | (v <= -limit)) & (v - v == 0)); /* v - v is NaN for infinity, too */
        }
        int sure = (all[0] & all[1] & all[2] & all[3]) == -1;
        for (; k < r; k++) {
            const REAL v = values[k], limit = rows[i] * columns[k] + on * base[k];
            sure &= (v >= limit || v <= -limit) && v - v == 0;
        }
        marks[i] = (uint8_t)!sure;
    }
}

#undef LANES
#undef AT
