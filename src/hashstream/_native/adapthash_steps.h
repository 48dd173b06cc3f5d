/* The pairs of AdaptHash for one number type and one instruction set.
 *
 * Included several times by adapthash.c with REAL (float or double), NAME(x) (adds the suffix) and TARGET (a function
 * attribute) defined.
 */

#include "product.h"

/* x . z and y . z, in one reading of z. */
static TARGET void NAME(two_dots)(REAL *xz, REAL *yz, const REAL *x, const REAL *y, const REAL *z, int64_t d)
{
    const int64_t lanes = 32 / (int64_t)sizeof(REAL);
    NAME(vector) p = {0}, q = {0}, s = {0}, t = {0};
    int64_t j = 0;
    for (; j + 2 * lanes <= d; j += 2 * lanes) {
        const NAME(vector) z0 = *(const NAME(vector) *)(z + j), z1 = *(const NAME(vector) *)(z + j + lanes);
        p += z0 * *(const NAME(vector) *)(x + j), s += z1 * *(const NAME(vector) *)(x + j + lanes);
        q += z0 * *(const NAME(vector) *)(y + j), t += z1 * *(const NAME(vector) *)(y + j + lanes);
    }
    p += s, q += t;
    REAL a = 0, b = 0;
    for (int64_t k = 0; k < lanes; k++) a += p[k], b += q[k];
    for (; j < d; j++) a += x[j] * z[j], b += y[j] * z[j];
    *xz = a, *yz = b;
}

/* A <- A T for `rows` rows of A, with T = (1 + lambda) I - lambda G. */
static TARGET void NAME(times_T)(REAL *A, const REAL *G, int64_t rows, int64_t r, REAL lambda, REAL *scaled)
{
    for (int64_t k = 0; k < rows * r; k++) scaled[k] = -lambda * A[k], A[k] *= 1 + lambda;
    NAME(add_product)(A, scaled, r, 1, G, rows, r, r);
}

/* The bits to correct, in `order`: of those that differ (or agree), the `most` with the largest max(|v|, |u|); where two
 * are equal the first comes first. Returns how many there are. */
static TARGET int64_t NAME(choose)(int64_t *order, const REAL *v, const REAL *u, int64_t r, int differing, int64_t most, REAL *size)
{
    int64_t count = 0;
    for (int64_t k = 0; k < r; k++) {
        if (((v[k] > 0) != (u[k] > 0)) != differing) continue;
        const REAL one = v[k] < 0 ? -v[k] : v[k], other = u[k] < 0 ? -u[k] : u[k];
        size[k] = one > other ? one : other;
        if (count == most && !(size[order[count - 1]] < size[k])) continue;
        int64_t at = count < most ? count++ : count - 1;
        for (; at > 0 && size[order[at - 1]] < size[k]; at--) order[at] = order[at - 1];
        order[at] = k;
    }
    return count;
}

/* How far the Hamming distance of a pair is from where it may be. */
static TARGET double NAME(loss)(const REAL *v, const REAL *u, int alike, const hs_adapthash_block *block)
{
    int64_t distance = 0;
    for (int64_t k = 0; k < block->r; k++) distance += (v[k] > 0) != (u[k] > 0);
    return alike ? (double)distance - block->allowed : block->wanted - (double)distance;
}

/* a, followed by b: W loses eta g = x_i a^T + x_j b^T. */
static TARGET void NAME(weights)(REAL *a, const REAL *v, const REAL *u, int64_t r, int alike, double loss, double eta, REAL *size, int64_t *order)
{
    double inner = 0;
    for (int64_t k = 0; k < r; k++) inner += (2 / (1 + exp(-(double)v[k])) - 1) * (2 / (1 + exp(-(double)u[k])) - 1);
    const double step = 2 * eta * (inner - (alike ? (double)r : -(double)r));
    const int64_t chosen = NAME(choose)(order, v, u, r, alike, (int64_t)ceil(loss), size);
    memset(a, 0, (size_t)(2 * r) * sizeof *a);
    for (int64_t i = 0; i < chosen; i++) {
        const int64_t k = order[i];
        const double p = 1 / (1 + exp(-(double)v[k])), q = 1 / (1 + exp(-(double)u[k]));
        a[k] = (REAL)(step * 2 * (2 * q - 1) * p * (1 - p));
        a[r + k] = (REAL)(step * 2 * (2 * p - 1) * q * (1 - q));
    }
}

/* The pairs as they are written, on W itself. work: 6 r + r^2 + d r. */
static TARGET void NAME(dense)(hs_adapthash_block *block, REAL *W, const REAL *X, const uint8_t *similar, int64_t pairs, REAL *work, int64_t *order)
{
    const int64_t d = block->d, r = block->r;
    REAL *P = work, *a = P + 2 * r, *size = a + 2 * r, *G = size + 2 * r, *scaled = G + r * r;
    for (int64_t t = 0; t < pairs; t++) {
        const REAL *x = X + 2 * t * d;
        memset(P, 0, (size_t)(2 * r) * sizeof *P);
        NAME(add_product)(P, x, d, 1, W, 2, d, r);
        const int alike = similar[t] != 0;
        const double loss = NAME(loss)(P, P + r, alike, block);
        if (!(loss > 0)) continue;
        NAME(weights)(a, P, P + r, r, alike, loss, block->eta, size, order);
        if (block->lambda > 0) {
            memset(G, 0, (size_t)(r * r) * sizeof *G);
            NAME(add_product)(G, W, 1, r, W, r, d, r);
            NAME(times_T)(W, G, d, r, (REAL)block->lambda, scaled);
        }
        for (int64_t k = 0; k < 2 * r; k++) a[k] = -a[k];
        NAME(add_product)(W, x, 1, d, a, d, 2, r);
        for (int64_t k = 0; k < r; k++) size[k] = 0;
        for (int64_t j = 0; j < d; j++)
            for (int64_t k = 0; k < r; k++) size[k] += W[j * r + k] * W[j * r + k];
        for (int64_t k = 0; k < r; k++) size[k] = (REAL)(1 / sqrt((double)size[k]));
        for (int64_t j = 0; j < d; j++)
            for (int64_t k = 0; k < r; k++) W[j * r + k] *= size[k];
        block->moved += 1;
    }
}

/* W = base S + Z^T C. */
static TARGET void NAME(put_together)(const hs_adapthash_block *block, REAL *W, const REAL *base, const REAL *S, const REAL *Z)
{
    const int64_t d = block->d, r = block->r;
    memset(W, 0, (size_t)(d * r) * sizeof *W);
    NAME(add_product)(W, base, r, 1, S, d, r, r);
    NAME(add_product)(W, Z, 1, d, S + r * r, d, block->filled, r);
}

/* Begin a block at `base`: G = base^T base, S = I, C = 0. */
static TARGET void NAME(begin)(hs_adapthash_block *block, const REAL *base, REAL *G, REAL *S)
{
    const int64_t d = block->d, r = block->r, step = 64; /* rows of W that stay in the cache meanwhile */
    memset(G, 0, (size_t)(r * r) * sizeof *G);
    for (int64_t j = 0; j < d; j += step)
        NAME(add_product)(G, base + j * r, 1, r, base + j * r, r, d - j < step ? d - j : step, r);
    memset(S, 0, (size_t)((r + block->capacity) * r) * sizeof *S);
    for (int64_t k = 0; k < r; k++) S[k * r + k] = 1;
    block->filled = 0;
}

/* See hs_adapthash_* in adapthash.c for what the arguments mean. */
static TARGET void NAME(pairs)(hs_adapthash_block *block, REAL *base, REAL *G, REAL *S, REAL *Z, const REAL *X, const uint8_t *similar, int64_t pairs, REAL *work, int64_t *order)
{
    const int64_t d = block->d, r = block->r, capacity = block->capacity;
    const REAL lambda = (REAL)block->lambda;
    REAL *Q = work, *scaled = Q + capacity * r, *Y = scaled + (r + capacity) * r, *K = Y + r * r;
    REAL *P = K + 2 * capacity, *left = P + 2 * r, *right = left + 4 * r, *C = S + r * r;
    REAL *fresh = right + 4 * r;
    int64_t first = 0, projected = 0; /* Q holds x^T base of the pairs from `first` to `projected` */

    for (int64_t done = 0; done < pairs; done++) {
        if (block->filled == capacity) {
            NAME(put_together)(block, fresh, base, S, Z);
            memcpy(base, fresh, (size_t)(d * r) * sizeof *base);
            NAME(begin)(block, base, G, S);
        }
        const REAL *x = X + 2 * done * d, *y = x + d;
        const int64_t filled = block->filled;
        if (done == projected) {
            const int64_t ahead = pairs - done < (capacity - filled) / 2 ? pairs - done : (capacity - filled) / 2;
            memset(Q, 0, (size_t)(2 * ahead * r) * sizeof *Q);
            NAME(add_product)(Q, x, d, 1, base, 2 * ahead, d, r);
            first = done, projected = done + ahead;
        }

        /* v = W^T x_i and u = W^T x_j. */
        REAL *v = P, *u = P + r;
        for (int64_t j = 0; j < filled; j++) NAME(two_dots)(K + j, K + capacity + j, x, y, Z + j * d, d);
        memset(P, 0, (size_t)(2 * r) * sizeof *P);
        NAME(add_product)(P, Q + 2 * (done - first) * r, r, 1, S, 2, r, r);
        NAME(add_product)(P, K, capacity, 1, C, 2, filled, r);

        const int alike = similar[done] != 0;
        const double loss = NAME(loss)(v, u, alike, block);
        if (!(loss > 0)) continue;

        REAL *a = right + 2 * r, *b = a + r;
        NAME(weights)(a, v, u, r, alike, loss, block->eta, left, order);

        /* S, C, v and u times T, and T G T. */
        if (lambda > 0) {
            NAME(times_T)(S, G, r + filled, r, lambda, scaled);
            NAME(times_T)(P, G, 2, r, lambda, scaled);
            memcpy(Y, G, (size_t)(r * r) * sizeof *Y);
            NAME(times_T)(Y, G, r, r, lambda, scaled);
            NAME(times_T)(Y, G, r, r, lambda, scaled);
            memcpy(G, Y, (size_t)(r * r) * sizeof *Y);
        }

        /* What the samples add to G, as four outer products. */
        REAL xx, xy, yy;
        NAME(two_dots)(&xx, &xy, x, y, x, d);
        NAME(two_dots)(&xy, &yy, x, y, y, d);
        for (int64_t k = 0; k < r; k++) {
            left[k] = a[k], left[r + k] = b[k], left[2 * r + k] = -v[k], left[3 * r + k] = -u[k];
            right[k] = xx * a[k] + xy * b[k] - v[k], right[r + k] = xy * a[k] + yy * b[k] - u[k];
        }
        NAME(add_product)(G, left, 1, r, right, r, 4, r);

        /* N: unit columns. */
        REAL *scale = left, *c = C + filled * r;
        for (int64_t k = 0; k < r; k++) scale[k] = (REAL)(1 / sqrt((double)G[k * r + k]));
        for (int64_t k = 0; k < r; k++) c[k] = -a[k], c[r + k] = -b[k];
        for (int64_t i = 0; i < r + filled + 2; i++)
            for (int64_t k = 0; k < r; k++) S[i * r + k] *= scale[k];
        for (int64_t i = 0; i < r; i++) {
            for (int64_t k = 0; k < r; k++) G[i * r + k] *= scale[i] * scale[k];
            G[i * r + i] = 1;
        }
        memcpy(Z + filled * d, x, (size_t)(2 * d) * sizeof *Z);
        block->filled += 2;
        block->moved += 1;
    }
}
