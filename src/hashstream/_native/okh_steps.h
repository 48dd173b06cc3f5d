/* The pairs of OKH for one number type and one instruction set.
 *
 * Included several times by okh.c with REAL (float or double), NAME(x) (adds the suffix) and TARGET (a function
 * attribute) defined. The steps have the numbers that they have in hashers/okh.py.
 */

#include "product.h"

/* See hs_okh_* in okh.c for what the arguments mean. */
static TARGET int64_t NAME(okh_pairs)(const hs_okh_settings *settings, REAL *W, const REAL *X, const uint8_t *similar, int64_t pairs, REAL *work, int64_t *order)
{
    const int64_t d = settings->d, r = settings->r;
    REAL *P = work, *change = P + 2 * r, *nearest = change + 2 * r;
    int64_t moved = 0;

    for (int64_t t = 0; t < pairs; t++) {
        const REAL *x = X + 2 * t * d, *u = P, *v = P + r;
        memset(P, 0, (size_t)(2 * r) * sizeof *P);
        NAME(add_product)(P, x, d, 1, W, 2, d, r);

        /* 1. The similarity loss. */
        const int alike = similar[t] != 0;
        int64_t distance = 0;
        for (int64_t k = 0; k < r; k++) distance += (u[k] > 0) != (v[k] > 0);
        const double R = alike ? (double)distance - settings->allowed : settings->wanted - (double)distance;
        if (!(R > 0)) continue;

        /* 2. The bits of the zero-loss codes: the nearest to zero first; where two are equal, the first. */
        const int64_t most = (int64_t)ceil(R);
        int64_t count = 0;
        for (int64_t k = 0; k < r; k++) {
            if (((u[k] > 0) != (v[k] > 0)) != alike) continue;
            const REAL one = u[k] < 0 ? -u[k] : u[k], other = v[k] < 0 ? -v[k] : v[k];
            nearest[k] = one < other ? one : other;
            if (count == most && !(nearest[order[count - 1]] > nearest[k])) continue;
            int64_t at = count < most ? count++ : count - 1;
            for (; at > 0 && nearest[order[at - 1]] > nearest[k]; at--) order[at] = order[at - 1];
            order[at] = k;
        }

        /* 3. The prediction loss: a flipped bit changes sgn(p) p = |p| into -|p|. */
        double loss = sqrt(R), square[2] = {0, 0};
        int64_t flips[2] = {0, 0};
        memset(change, 0, (size_t)(2 * r) * sizeof *change);
        for (int64_t i = 0; i < count; i++) {
            const int64_t k = order[i];
            const REAL one = u[k] < 0 ? -u[k] : u[k], other = v[k] < 0 ? -v[k] : v[k];
            const int which = other < one;
            change[which * r + k] = P[which * r + k] > 0 ? (REAL)-2 : (REAL)2;
            flips[which]++;
            loss += 2 * (double)nearest[k];
        }

        /* 4. The step. No bit is flipped in both, so the columns of Q are multiples of x_i or of x_j. */
        for (int which = 0; which < 2; which++)
            for (int64_t j = 0; j < d; j++) square[which] += (double)x[which * d + j] * (double)x[which * d + j];
        const double squared = 4 * ((double)flips[0] * square[0] + (double)flips[1] * square[1]);
        if (squared == 0) continue;
        const double step = loss / squared;
        const REAL tau = (REAL)(step < settings->C ? step : settings->C);
        for (int64_t k = 0; k < 2 * r; k++) change[k] *= tau;
        NAME(add_product)(W, x, 1, d, change, d, 2, r);
        moved++;
    }
    return moved;
}
