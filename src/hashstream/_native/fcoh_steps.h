/* The class steps of FCOH in batch space, for one number type and one instruction set.
 *
 * Included several times by fcoh.c with REAL (float or double), NAME(x) (adds the suffix) and TARGET (a function
 * attribute) defined. The NumPy twin, hashers/fcoh_steps.py, has the same names and says what they mean.
 */

#include "product.h"

/* Z (n, d) = the rows of X in `order`, and sums (classes, d) of each class's rows, which are first[c] and on. */
static TARGET void NAME(gather)(const REAL *X, const int64_t *order, const int64_t *first, int64_t classes, int64_t d, REAL *Z, REAL *sums)
{
    for (int64_t c = 0; c < classes; c++) {
        REAL *sum = sums + c * d;
        for (int64_t j = 0; j < d; j++) sum[j] = 0;
        for (int64_t i = first[c]; i < first[c + 1]; i++) {
            const REAL *x = X + order[i] * d;
            REAL *z = Z + i * d;
            for (int64_t j = 0; j < d; j++) sum[j] += z[j] = x[j];
        }
    }
}

/* S += outer * B^T B and total += plain * (sum of B's rows), over `rows` rows of codes. */
static TARGET void NAME(add_codes)(REAL *S, REAL *total, const REAL *B, int64_t rows, int64_t r, REAL outer, REAL plain, REAL *scaled)
{
    for (int64_t k = 0; k < rows * r; k++) scaled[k] = outer * B[k];
    NAME(add_product)(S, scaled, 1, r, B, r, rows, r);
    for (int64_t j = 0; j < rows; j++)
        for (int64_t k = 0; k < r; k++) total[k] += plain * B[j * r + k];
}

/* Bring the code of one row up to its projection; S and total follow the bits that flip. */
static TARGET void NAME(follow_flips)(REAL *S, REAL *total, REAL *b, const REAL *p, int64_t r, REAL weight)
{
    int flipped = 0;
    for (int64_t k = 0; k < r; k++) flipped |= (p[k] > 0) != (b[k] > 0);
    if (!flipped) return;
    for (int64_t k = 0; k < r; k++) {
        if ((p[k] > 0) == (b[k] > 0)) continue;
        b[k] = -b[k];
        REAL change = 2 * weight * b[k], *s = S + k * r;
        REAL diagonal = s[k]; /* weight * b_k^2 does not change */
        for (int64_t l = 0; l < r; l++) s[l] += change * b[l];
        for (int64_t l = 0; l < r; l++) S[l * r + k] = s[l];
        s[k] = diagonal;
        total[k] += change;
    }
}

/* The largest eigenvalue of a symmetric positive semi-definite matrix, by power iteration from v (kept for a warm start). */
static TARGET double NAME(largest_eigenvalue)(const REAL *A, int64_t lda, int64_t size, REAL *v, REAL *next)
{
    double value = 0;
    for (int round = 0; round < HS_POWER_ROUNDS; round++) {
        /* A is symmetric: its rows serve as its columns, so that the inner loop adds vectors. */
        for (int64_t i = 0; i < size; i++) next[i] = 0;
        for (int64_t j = 0; j < size; j++) {
            const REAL *a = A + j * lda, vj = v[j];
            for (int64_t i = 0; i < size; i++) next[i] += vj * a[i];
        }
        double squared = 0;
        for (int64_t i = 0; i < size; i++) squared += (double)next[i] * (double)next[i];
        value = sqrt(squared);
        if (!(value > 0)) return value;
        for (int64_t i = 0; i < size; i++) v[i] = (REAL)(next[i] / value);
    }
    return value * HS_POWER_MARGIN;
}

/* Bring all codes up to their projections. */
static TARGET void NAME(follow)(REAL *S, REAL *total, REAL *B, const REAL *P, const hs_fcoh_batch *batch)
{
    const REAL weight = (REAL)batch->center_weight;
    const int64_t r = batch->r, coded = weight > 0 ? batch->m : batch->n; /* rows whose codes take part */
    for (int64_t i = 0; i < coded; i++)
        NAME(follow_flips)(S, total, B + i * r, P + i * r, r, i < batch->n ? (REAL)1 : weight);
}

/* See hs_fcoh_* in fcoh.c for what the arguments mean. */
static TARGET void NAME(steps)(const hs_fcoh_batch *batch, const REAL *K, REAL *P, REAL *C, REAL *work, hs_fcoh_rate *rate)
{
    const int64_t m = batch->m, n = batch->n, r = batch->r, moved = n + batch->classes;
    const REAL weight = (REAL)batch->center_weight;
    REAL *B = work, *scaled = B + m * r, *D = scaled + m * r, *S = D + moved * r, *H = S + r * r;
    REAL *total = H + r * r, *own = total + r, *v = own + r, *u = v + r, *next = u + n;

    for (int64_t i = 0; i < m * r; i++) B[i] = P[i] > 0 ? (REAL)1 : (REAL)-1;
    for (int64_t i = 0; i < r * r; i++) S[i] = 0;
    for (int64_t k = 0; k < r; k++) total[k] = 0;
    for (int64_t k = 0; k < r; k++) v[k] = (REAL)(1 + 0.01 * (double)k);
    NAME(add_codes)(S, total, B, n, r, 1, 1, scaled);
    if (weight > 0) NAME(add_codes)(S, total, B + n * r, m - n, r, weight, weight, scaled);

    for (int64_t turn = 0; turn < batch->passes * batch->classes; turn++) {
        const int64_t c = turn % batch->classes, mean = n + c;
        const int64_t start = batch->first[c], count = batch->first[c + 1] - start;
        const double similar = batch->similar[c], dissimilar = batch->dissimilar[c];
        const REAL excess = (REAL)(2 * (similar - dissimilar));
        REAL *G = D + start * r, *sigma = D + mean * r;

        /* H = 2 l1 Bc Bc^T + 2 l2 Bn Bn^T, with Bn Bn^T = S - Bc Bc^T. */
        for (int64_t k = 0; k < r * r; k++) H[k] = (REAL)(2 * dissimilar) * S[k];
        for (int64_t k = 0; k < r; k++) own[k] = 0;
        NAME(add_codes)(H, own, B + start * r, count, r, excess, 1, scaled);
        if (weight > 0) NAME(add_codes)(H, own, B + mean * r, 1, r, excess * weight, weight, scaled);

        /* G = Pc H - 2 r (l1 Bc 1 - l2 Bn 1), the gradient of both inner-product terms in sample space. */
        for (int64_t k = 0; k < r; k++)
            own[k] = (REAL)(2.0 * (double)r) * ((REAL)dissimilar * total[k] - (REAL)(similar + dissimilar) * own[k]);
        for (int64_t j = 0; j < count; j++)
            for (int64_t k = 0; k < r; k++) G[j * r + k] = own[k];
        NAME(add_product)(G, P + start * r, r, 1, H, count, r, r);
        for (int64_t k = 0; k < r; k++) {
            const REAL p = P[mean * r + k];
            sigma[k] = p > 1 || (p > -1 && p < 0) ? (REAL)1 : (REAL)-1;
        }

        double curvature = 0;
        if (rate->automatic) {
            curvature = NAME(largest_eigenvalue)(H, r, r, v, next);
            if (batch->class_wise) {
                for (int64_t j = 0; j < count; j++) u[j] = (REAL)(1 + 0.01 * (double)j);
                curvature *= NAME(largest_eigenvalue)(K + start * m + start, m, count, u, next);
            }
        }
        const double length = (double)K[mean * m + mean];
        double quantise;
        if (batch->class_wise) {
            const REAL step = (REAL)hs_fcoh_step(rate, curvature, length, &quantise);
            for (int64_t k = 0; k < count * r; k++) C[start * r + k] += G[k] *= -step;
            for (int64_t k = 0; k < r; k++) C[mean * r + k] += sigma[k] *= -(REAL)quantise;
            /* K is symmetric: its rows are read where the formula says columns, since they lie side by side. */
            NAME(add_product)(P, K + start * m, 1, m, G, m, count, r);
            NAME(add_product)(P, K + mean * m, 1, m, sigma, m, 1, r);
            NAME(follow)(S, total, B, P, batch);
            continue;
        }

        /* One step for all classes, when the last of them has had its say; each mean still has a length of its own. */
        if (rate->automatic)
            for (int64_t k = 0; k < r; k++) sigma[k] = length > 0 ? sigma[k] / (REAL)length : (REAL)0;
        rate->steepest = c == 0 || curvature > rate->steepest ? curvature : rate->steepest;
        if (c + 1 < batch->classes) continue;
        for (int64_t j = 0; j < n; j++) u[j] = (REAL)(1 + 0.01 * (double)j);
        const double spread = rate->automatic ? NAME(largest_eigenvalue)(K, m, n, u, next) : 0;
        const REAL step = (REAL)hs_fcoh_step(rate, rate->steepest * spread, 1, &quantise);
        for (int64_t k = 0; k < n * r; k++) C[k] += D[k] *= -step;
        for (int64_t k = n * r; k < moved * r; k++) C[k] += D[k] *= -(REAL)quantise;
        NAME(add_product)(P, K, 1, m, D, m, moved, r);
        NAME(follow)(S, total, B, P, batch);
    }
}
