/* Small matrix products for one number type and one instruction set.
 *
 * A template: included with REAL (float or double), NAME(x) (adds the suffix) and TARGET (a function attribute) defined,
 * once for each (`every_real.h` does that). Matrices are row-major. GCC and Clang only, for vectors as a type.
 */

#define LANES ((int64_t)(32 / sizeof(REAL)))
typedef REAL NAME(vector) __attribute__((vector_size(32), aligned(sizeof(REAL)), may_alias));
#define AT(p, k) (*(NAME(vector) *)((p) + (k) * LANES))

/* Y[i, :] += sum over j < count of A(i, j) X[j, :] for `rows` rows, where A(i, j) = A[i * down + j * right]; X and Y are
 * r wide. Two rows of Y at a time, four vectors of each, stay in registers while j runs. */
static TARGET void NAME(add_product)(REAL *Y, const REAL *A, int64_t down, int64_t right, const REAL *X, int64_t rows, int64_t count, int64_t r)
{
    int64_t k = 0;
    for (; k + 4 * LANES <= r; k += 4 * LANES) {
        int64_t i = 0;
        for (; i + 2 <= rows; i += 2) {
            REAL *y = Y + i * r + k, *z = y + r;
            NAME(vector) y0 = AT(y, 0), y1 = AT(y, 1), y2 = AT(y, 2), y3 = AT(y, 3);
            NAME(vector) z0 = AT(z, 0), z1 = AT(z, 1), z2 = AT(z, 2), z3 = AT(z, 3);
            const REAL *a = A + i * down, *x = X + k;
            for (int64_t j = 0; j < count; j++, a += right, x += r) {
                const REAL b = a[0], c = a[down];
                y0 += b * AT(x, 0), y1 += b * AT(x, 1), y2 += b * AT(x, 2), y3 += b * AT(x, 3);
                z0 += c * AT(x, 0), z1 += c * AT(x, 1), z2 += c * AT(x, 2), z3 += c * AT(x, 3);
            }
            AT(y, 0) = y0, AT(y, 1) = y1, AT(y, 2) = y2, AT(y, 3) = y3;
            AT(z, 0) = z0, AT(z, 1) = z1, AT(z, 2) = z2, AT(z, 3) = z3;
        }
        for (; i < rows; i++) {
            REAL *y = Y + i * r + k;
            NAME(vector) y0 = AT(y, 0), y1 = AT(y, 1), y2 = AT(y, 2), y3 = AT(y, 3);
            const REAL *a = A + i * down, *x = X + k;
            for (int64_t j = 0; j < count; j++, a += right, x += r)
                y0 += *a * AT(x, 0), y1 += *a * AT(x, 1), y2 += *a * AT(x, 2), y3 += *a * AT(x, 3);
            AT(y, 0) = y0, AT(y, 1) = y1, AT(y, 2) = y2, AT(y, 3) = y3;
        }
    }
    for (; k + LANES <= r; k += LANES)
        for (int64_t i = 0; i < rows; i++) {
            NAME(vector) y0 = AT(Y + i * r + k, 0);
            const REAL *a = A + i * down, *x = X + k;
            for (int64_t j = 0; j < count; j++, a += right, x += r) y0 += *a * AT(x, 0);
            AT(Y + i * r + k, 0) = y0;
        }
    for (; k < r; k++)
        for (int64_t i = 0; i < rows; i++) {
            REAL sum = Y[i * r + k];
            for (int64_t j = 0; j < count; j++) sum += A[i * down + j * right] * X[j * r + k];
            Y[i * r + k] = sum;
        }
}

/* Y[j, :] += x[j] g for `rows` rows: the update of a projection by one sample. */
static inline TARGET void NAME(add_outer)(REAL *Y, const REAL *x, const REAL *g, int64_t rows, int64_t r)
{
    NAME(add_product)(Y, x, 1, 1, g, rows, 1, r);
}

/* p[:] = x^T W for one sample: the projection of x. */
static inline TARGET void NAME(project)(REAL *p, const REAL *x, const REAL *W, int64_t d, int64_t r)
{
    for (int64_t k = 0; k < r; k++) p[k] = 0;
    NAME(add_product)(p, x, 0, 1, W, 1, d, r);
}

#undef LANES
#undef AT
