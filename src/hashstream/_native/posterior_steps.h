/* The bits of PosteriorHash for one number type and one instruction set.
 *
 * Included several times by posterior.c with REAL (float or double), NAME(x) (adds the suffix) and TARGET (a function
 * attribute) defined. ROWS rows are computed at once, one in each lane of four vectors.
 */

typedef REAL NAME(lanes) __attribute__((vector_size(32), aligned(sizeof(REAL)), may_alias));
#define LANES ((int64_t)(32 / sizeof(REAL)))
#define ROWS (4 * LANES)
#define LANE(p, i) (*(NAME(lanes) *)((p) + (i) * LANES))

/* See hs_posterior_* in posterior.c for what the arguments mean; work holds r rows of ROWS numbers. */
static TARGET void NAME(diffuse)(REAL *values, const REAL *M, const REAL *K, int64_t n, int64_t r, REAL *work)
{
    for (int64_t first = 0; first < n; first += ROWS) {
        const int64_t rows = n - first < ROWS ? n - first : ROWS;
        for (int64_t k = 0; k < r; k++) {
            const REAL *share = K + k * r; /* K is symmetric */
            REAL *errors = work + k * ROWS;
            for (int64_t i = 0; i < ROWS; i++) errors[i] = values[(first + (i < rows ? i : 0)) * r + k];
            NAME(lanes) a = LANE(errors, 0), b = LANE(errors, 1), c = LANE(errors, 2), d = LANE(errors, 3);
            const REAL *error = work;
            for (int64_t j = 0; j < k; j++, error += ROWS) {
                const REAL s = share[j];
                a -= s * LANE(error, 0), b -= s * LANE(error, 1), c -= s * LANE(error, 2), d -= s * LANE(error, 3);
            }
            LANE(errors, 0) = a, LANE(errors, 1) = b, LANE(errors, 2) = c, LANE(errors, 3) = d;
            for (int64_t i = 0; i < rows; i++) {
                const int64_t at = (first + i) * r + k;
                values[at] = errors[i];
                errors[i] = (errors[i] > 0 ? (REAL)1 : (REAL)-1) - M[at];
            }
        }
    }
}

#undef LANE
#undef ROWS
#undef LANES
