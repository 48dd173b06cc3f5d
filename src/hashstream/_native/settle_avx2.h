/* The signs of eight rows at once, for one number type. Included by settle.c with REAL, NAME(x), VECTOR, V(op), which
 * is the intrinsic of this name, and WORD defined; NAME(signs) packs the signs of four vectors into a WORD. */
#define CHUNK ((int64_t)(8 * sizeof(WORD)))

/* Packs values (8, r) into codes (8, r / 8); returns whether all are sure, |v| scale[k] > limit. The codes are right
 * where they are sure: only the sign is looked at, and 0 is not sure. r is a multiple of 8 and at least CHUNK. */
HS_AVX2 static int NAME(pack_eight)(const REAL *values, int64_t r, const REAL *scale, REAL limit, uint8_t *codes)
{
    const VECTOR sign = V(set1)((REAL)-0.0), limits = V(set1)(limit);
    VECTOR unsure = V(setzero)();
    for (int64_t next = 0; next < r; next += CHUNK) {
        const int64_t k = next + CHUNK > r ? r - CHUNK : next; /* the last two may overlap */
        VECTOR least[4];
        for (int j = 0; j < 4; j++) least[j] = V(set1)((REAL)INFINITY);
        for (int i = 0; i < 8; i++) {
            VECTOR v[4];
            for (int j = 0; j < 4; j++) {
                v[j] = V(loadu)(values + i * r + k + j * CHUNK / 4);
                least[j] = V(min)(least[j], V(andnot)(sign, v[j]));
            }
            const WORD word = (WORD)~NAME(signs)(v[0], v[1], v[2], v[3]);
            memcpy(codes + (i * r + k) / 8, &word, sizeof word);
        }
        for (int j = 0; j < 4; j++) {
            const VECTOR scaled = V(mul)(least[j], V(loadu)(scale + k + j * CHUNK / 4));
            unsure = V(or)(unsure, V(cmp)(scaled, limits, _CMP_NGT_UQ));
        }
    }
    return V(movemask)(unsure) == 0;
}

/* As settle, for r as above: rows are looked at one by one only where one of eight may not be sure. */
HS_AVX2 static int NAME(settle_eights)(const struct columns *c, const REAL *X, int64_t n, const REAL *squares,
        REAL *values, uint8_t *codes)
{
    const int64_t d = c->d, r = c->r;
    const REAL most = (REAL)c->most;
    int wrong = 0;
    for (; n >= 8; n -= 8, X += 8 * d, squares += squares ? 8 : 0, values += 8 * r, codes += r) {
        REAL largest = squares ? 0 : NAME(squares)(X, 8 * d); /* of all eight together: faster where d is small */
        int finite = squares || largest < most; /* not for NaN */
        for (int i = 0; squares && i < 8; i++) {
            finite &= squares[i] < most;
            largest = squares[i] > largest ? squares[i] : largest;
        }
        if (NAME(pack_eight)(values, r, c->scale, NAME(length)(largest, d) + (REAL)c->base, codes) && finite) continue;
        for (int i = 0; i < 8; i++) {
            const REAL own = squares ? squares[i] : NAME(squares)(X + i * d, d);
            if (NAME(settle_row)(c, X + i * d, own, values + i * r) || !(own < most))
                wrong |= hs_signs_pack((const uint8_t *)(values + i * r), 1, r, sizeof(REAL), codes + i * (r / 8));
        }
    }
    return wrong | NAME(settle)(c, X, n, squares, values, codes);
}

#undef CHUNK
