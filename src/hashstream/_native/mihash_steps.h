/* The steps of MIHash, for one number type and one instruction set.
 *
 * Included several times by mihash.c with REAL (float or double), NAME(x) (adds the suffix) and TARGET (a function
 * attribute) defined. The NumPy twin, hashers/kernels/mihash.py, has the equations.
 */

#include "product.h"

typedef REAL NAME(lanes) __attribute__((vector_size(32), aligned(sizeof(REAL)), may_alias));
typedef __typeof__((NAME(lanes)){0} < (NAME(lanes)){0}) NAME(mask);
#define LANES ((int64_t)(32 / sizeof(REAL)))
#define AT(p, k) (*(NAME(lanes) *)((p) + (k)))
#define SINGLE (sizeof(REAL) == 4)

/* The sum of the lanes, always in the same order. */
static inline TARGET REAL NAME(lane_sum)(const NAME(lanes) *v)
{
    REAL sum = 0;
    for (int64_t k = 0; k < LANES; k++) sum += (*v)[k];
    return sum;
}

/* phi = 1 / (1 + e^-x), a vector of x = A p, brought to within +-clip first. e^y = 2^n e^f with y = n ln 2 + f, |f| <= ln 2 / 2, and e^f
 * by its series as far as the number type can tell. */
static inline TARGET void NAME(sigmoid)(REAL *phi, const REAL *p, REAL scale, REAL clip)
{
    static const double over_factorial[] = {1.0, 1.0, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040,
        1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800};
    const REAL to_integer = SINGLE ? (REAL)12582912.0 : (REAL)6755399441055744.0; /* 1.5 * 2^(mantissa bits) */
    const REAL ln2_high = SINGLE ? (REAL)0.693359375 : (REAL)6.93145751953125e-1;
    const REAL ln2_low = SINGLE ? (REAL)-2.12194440054690583e-4 : (REAL)1.42860682030941723212e-6;
    const NAME(lanes) zero = {0}, high = zero + clip, low = zero - clip;
    const NAME(lanes) x = AT(p, 0) * scale;
    const NAME(mask) above = x > high, below = x < low;
    NAME(lanes) y = (NAME(lanes))(((NAME(mask))x & ~above & ~below) | ((NAME(mask))high & above) | ((NAME(mask))low & below));
    y = -y;
    const NAME(lanes) shifted = y * (REAL)1.4426950408889634 + to_integer;
    const NAME(lanes) n = shifted - to_integer;
    const NAME(lanes) f = (y - n * ln2_high) - n * ln2_low;
    NAME(lanes) e = zero + (REAL)over_factorial[SINGLE ? 7 : 13];
    for (int k = SINGLE ? 6 : 12; k >= 0; k--) e = e * f + (REAL)over_factorial[k];
    e = (NAME(lanes))((NAME(mask))e + ((NAME(mask))shifted << (SINGLE ? 23 : 52)));
    AT(phi, 0) = (REAL)1 / ((REAL)1 + e);
}

/* An item of the reservoir: rows `old` and up are instances of the piece. */
static inline TARGET const REAL *NAME(features)(const hs_mihash_piece *piece, const REAL *reservoir, const REAL *X, int64_t item)
{
    return item < piece->size ? reservoir + item * piece->d : X + (item - piece->size) * piece->d;
}

/* k[i, j] = z_i^T x_j for at most 3 items and `count` instances, rows of k HS_MIHASH_CHUNK apart. Every inner product is
 * summed in the same order, whatever its neighbours are. */
static TARGET void NAME(inner)(REAL *k, const REAL *const z[3], int64_t items, const REAL *x, int64_t count, int64_t d)
{
    const int64_t whole = d / LANES * LANES;
    for (int64_t j = 0; j < count; j += 4) {
        const int64_t rows = count - j < 4 ? count - j : 4;
        const REAL *x0 = x + j * d, *x1 = rows > 1 ? x0 + d : x0, *x2 = rows > 2 ? x1 + d : x0, *x3 = rows > 3 ? x2 + d : x0;
        const REAL *z0 = z[0], *z1 = z[1], *z2 = z[2];
        NAME(lanes) a[3][4] = {{{0}}};
        for (int64_t c = 0; c < whole; c += LANES) {
            const NAME(lanes) u0 = AT(z0, c), u1 = AT(z1, c), u2 = AT(z2, c);
            const NAME(lanes) v0 = AT(x0, c), v1 = AT(x1, c), v2 = AT(x2, c), v3 = AT(x3, c);
            a[0][0] += u0 * v0, a[1][0] += u1 * v0, a[2][0] += u2 * v0;
            a[0][1] += u0 * v1, a[1][1] += u1 * v1, a[2][1] += u2 * v1;
            a[0][2] += u0 * v2, a[1][2] += u1 * v2, a[2][2] += u2 * v2;
            a[0][3] += u0 * v3, a[1][3] += u1 * v3, a[2][3] += u2 * v3;
        }
        for (int64_t i = 0; i < items; i++)
            for (int64_t row = 0; row < rows; row++) {
                REAL sum = NAME(lane_sum)(&a[i][row]);
                for (int64_t c = whole; c < d; c++) sum += z[i][c] * x[(j + row) * d + c];
                k[i * HS_MIHASH_CHUNK + j + row] = sum;
            }
    }
}

/* K: the inner products of the chunk's instances, from `first` on, with the items (rows 0 to size - 1) and with one
 * another (rows size and up). */
static TARGET void NAME(gram)(const hs_mihash_piece *piece, REAL *K, const REAL *reservoir, const REAL *X, const int64_t *item,
                              int64_t size, int64_t first)
{
    const int64_t d = piece->d, left = piece->n - first, count = left < HS_MIHASH_CHUNK ? left : HS_MIHASH_CHUNK;
    for (int64_t s = 0; s < size + count; s += 3) {
        const REAL *z[3];
        for (int64_t i = 0; i < 3; i++) {
            const int64_t t = s + i < size + count ? s + i : s;
            z[i] = t < size ? NAME(features)(piece, reservoir, X, item[t]) : X + (first + t - size) * d;
        }
        const int64_t items = size + count - s < 3 ? size + count - s : 3;
        NAME(inner)(K + s * HS_MIHASH_CHUNK, z, items, X + first * d, count, d);
    }
}

/* The gradient of -I with respect to W is x g^T; g comes out. code: 2 phi(x) - 1. P: the items' projections. phi: their
 * relaxed codes (out). bin: scratch. */
static TARGET void NAME(gradient)(const hs_mihash_piece *piece, REAL *g, const REAL *code, const REAL *P, REAL *phi, int64_t size,
                                  int64_t wide, const int64_t *item, const uint8_t *related, const hs_mihash_bins *b, int64_t *bin)
{
    const REAL clip = (REAL)piece->clip, scale = (REAL)piece->scale;
    const int64_t bins = piece->bins, r = piece->r;
    double count = 0;

    for (int64_t l = 0; l <= bins; l++) b->related[l] = b->unrelated[l] = 0;
    for (int64_t s = 0; s < size; s++) {
        NAME(lanes) dot = {0};
        for (int64_t k = 0; k < wide; k += LANES) {
            NAME(sigmoid)(phi + s * wide + k, P + s * wide + k, scale, clip);
            const NAME(lanes) relaxed = AT(phi + s * wide, k);
            dot += AT(code, k) * (relaxed + relaxed - (REAL)1);
        }
        /* h = (r - code . code_s) / 2, in widths of a bin: it lies in (l - 1, l], between two centres. */
        const double h = ((double)r - (double)NAME(lane_sum)(&dot)) / 2 * (double)bins / (double)r;
        const int64_t l = h > 0 ? (h < (double)bins ? (int64_t)ceil(h) : bins) : 0;
        const double part = h - (double)(l - 1);
        const int is_related = related[item[s]];
        double *counts = is_related ? b->related : b->unrelated;
        counts[l] += part;
        if (l > 0) counts[l - 1] += 1 - part;
        count += is_related;
        bin[s] = l;
    }
    hs_mihash_weigh(b, bins, count, (double)size - count);

    /* d h / d phi = -phi_s / 2; the weight in bin l rises with h, that in bin l - 1 falls. */
    for (int64_t k = 0; k < wide; k++) g[k] = 0;
    const double slope = -0.5 * (double)bins / (double)r / (double)size;
    for (int64_t s = 0; s < size; s++) {
        const double *worth = related[item[s]] ? b->worth : b->worth_not;
        const int64_t l = bin[s];
        const REAL weight = (REAL)(slope * (worth[l] - (l > 0 ? worth[l - 1] : 0)));
        for (int64_t k = 0; k < wide; k += LANES) AT(g, k) += weight * AT(phi + s * wide, k);
    }
    /* d phi / d w_k = A phi_k (1 - phi_k) x */
    for (int64_t k = 0; k < r; k++) g[k] *= scale * (1 - code[k]) * (1 + code[k]) / 4;
    for (int64_t k = r; k < wide; k++) g[k] = 0;
}

/* See hs_mihash_* in mihash.c for what the arguments mean. Rows of P and phi are padded to whole vectors with zeros, which
 * are half a bit, and so count for nothing. */
static TARGET void NAME(steps)(const hs_mihash_piece *piece, const REAL *reservoir, const REAL *X, REAL *W, REAL *P_out,
                               REAL *work, double *counts, int64_t *places)
{
    const int64_t d = piece->d, r = piece->r, old = piece->size, most = piece->most;
    const int64_t wide = (r + LANES - 1) / LANES * LANES;
    REAL *P = work, *phi = P + most * wide, *K = phi + most * wide, *p = K + (most + HS_MIHASH_CHUNK) * HS_MIHASH_CHUNK;
    REAL *code = p + wide, *g = code + wide;
    int64_t *item = places, *row = item + most, *bin = row + most; /* for each slot: who sits there, its row of K, its bin */
    const int64_t across = piece->bins + 1;
    const hs_mihash_bins b = {counts, counts + across, counts + 2 * across, counts + 3 * across};
    int64_t size = old, first = 0, instances = 0; /* the chunk's first instance, and its row of K */

    for (int64_t k = 0; k < most * wide; k++) P[k] = 0;
    for (int64_t k = 0; k < wide; k++) p[k] = 0;
    for (int64_t s = 0; s < old; s++) {
        item[s] = s;
        for (int64_t k = 0; k < r; k++) P[s * wide + k] = P_out[s * r + k];
    }

    for (int64_t i = 0; i < piece->n; i++) {
        const REAL *x = X + i * d;
        if (i % HS_MIHASH_CHUNK == 0) {
            first = i, instances = size;
            for (int64_t s = 0; s < size; s++) row[s] = s;
            NAME(gram)(piece, K, reservoir, X, item, size, first);
        }
        if ((piece->seen + i) % piece->refresh == 0)
            for (int64_t s = 0; s < size; s++)
                NAME(project)(P + s * wide, NAME(features)(piece, reservoir, X, item[s]), W, d, r);

        NAME(project)(p, x, W, d, r);
        if (size && piece->rate[i] > 0) {
            for (int64_t k = 0; k < wide; k += LANES) {
                NAME(sigmoid)(code + k, p + k, (REAL)piece->scale, (REAL)piece->clip);
                AT(code, k) = AT(code, k) + AT(code, k) - (REAL)1;
            }
            NAME(gradient)(piece, g, code, P, phi, size, wide, item, piece->related + i * (old + piece->n), &b, bin);
            for (int64_t k = 0; k < r; k++) g[k] *= (REAL)-piece->rate[i];
            /* W moves by x g^T, and with it every projection. */
            const REAL *own = K + i - first;
            NAME(add_outer)(W, x, g, d, r);
            for (int64_t s = 0; s < size; s++) {
                const REAL inner = own[row[s] * HS_MIHASH_CHUNK];
                for (int64_t k = 0; k < wide; k += LANES) AT(P + s * wide, k) += inner * AT(g, k);
            }
            const REAL length = own[(instances + i - first) * HS_MIHASH_CHUNK];
            for (int64_t k = 0; k < wide; k++) p[k] += length * g[k];
        }
        if (piece->slot[i] >= 0) {
            const int64_t s = piece->slot[i];
            for (int64_t k = 0; k < wide; k++) P[s * wide + k] = p[k];
            item[s] = old + i;
            row[s] = instances + i - first;
            size = s == size ? size + 1 : size;
        }
    }
    for (int64_t s = 0; s < size; s++)
        for (int64_t k = 0; k < r; k++) P_out[s * r + k] = P[s * wide + k];
}

#undef LANES
#undef AT
#undef SINGLE
