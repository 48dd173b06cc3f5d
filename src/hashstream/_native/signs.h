/* The signs of real values as packed codes: signs.c. */
#ifndef HASHSTREAM_SIGNS_H
#define HASHSTREAM_SIGNS_H

#include <stdint.h>

#include "cpu.h"

/* values: (n, r) without gaps, of 4 or 8 bytes each. codes: (n, ceil(r / 8)), the first bit highest.
 * Returns 0, or 1 where a value is infinite or not a number; the codes are of no use then. */
HS_API int hs_signs_pack(const uint8_t *values, int64_t n, int64_t r, int64_t bytes, uint8_t *codes);

#endif
