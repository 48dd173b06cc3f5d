/* What the bits of a code cost a query with real values: a bit that differs from the sign of a value costs its
 * magnitude. Shared by hamming_weighted.c and hamming_multi_weighted.c. */
#ifndef HASHSTREAM_HAMMING_COSTS_H
#define HASHSTREAM_HAMMING_COSTS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* values: (r). code: (width) its signs. costs: (width, 256) what a byte of a code costs; padding costs nothing. The
 * sums are added in the order of the bits, as the NumPy twin adds them. */
static inline void make_costs(const double *values, int64_t r, int64_t width, uint8_t *code, double *costs)
{
    for (int64_t byte = 0; byte < width; byte++) {
        double *table = costs + 256 * byte;
        table[0] = 0;
        code[byte] = 0;
        for (int64_t bit = 0; bit < 8; bit++) {
            const int64_t at = 8 * byte + bit;
            const double value = at < r ? values[at] : 0;
            const double zero = value > 0 ? value : 0, one = value < 0 ? -value : 0;
            code[byte] |= (uint8_t)((value > 0) << (7 - bit));
            if (bit == 0) {
                table[0] = zero;
                table[1] = one;
                continue;
            }
            for (int64_t v = ((int64_t)1 << bit) - 1; v >= 0; v--) {
                const double before = table[v];
                table[2 * v] = before + zero;
                table[2 * v + 1] = before + one;
            }
        }
    }
}

static inline double cost_of(const double *costs, const uint8_t *code, int64_t width)
{
    double sum = costs[code[0]];
    for (int64_t byte = 1; byte < width; byte++)
        sum += costs[256 * byte + code[byte]];
    return sum;
}

#endif
