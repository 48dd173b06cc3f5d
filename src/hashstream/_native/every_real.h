/* Includes the template that TEMPLATE names for float and double, portable and, on x86, with AVX2.
 *
 * The functions of the template end up with the suffixes _f32, _f64, _f32_avx2 and _f64_avx2; DISPATCH(f) is the fastest
 * form of f that this processor runs, f named with _f32 or _f64.
 */
#include "cpu.h"

#define TARGET
#define REAL float
#define NAME(x) x##_f32
#include TEMPLATE
#undef REAL
#undef NAME
#define REAL double
#define NAME(x) x##_f64
#include TEMPLATE
#undef REAL
#undef NAME
#undef TARGET

#ifdef HS_X86
#define TARGET HS_AVX2
#define REAL float
#define NAME(x) x##_f32_avx2
#include TEMPLATE
#undef REAL
#undef NAME
#define REAL double
#define NAME(x) x##_f64_avx2
#include TEMPLATE
#undef REAL
#undef NAME
#undef TARGET
#define DISPATCH(x) (hs_has_avx2() ? x##_avx2 : x)
#else
#define DISPATCH(x) x
#endif
