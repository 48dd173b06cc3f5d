/* What every kernel needs to know of the compiler and the processor. */
#ifndef HASHSTREAM_CPU_H
#define HASHSTREAM_CPU_H

#if defined(_WIN32)
#define HS_API __declspec(dllexport)
#else
#define HS_API __attribute__((visibility("default")))
#endif

/* AVX2 paths are compiled in addition to the portable ones and chosen at run time. */
#if (defined(__GNUC__) || defined(__clang__)) && (defined(__x86_64__) || defined(__i386__))
#define HS_X86 1
#define HS_AVX2 __attribute__((target("avx2,fma,popcnt,bmi,bmi2")))
static inline int hs_has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("popcnt");
}
#endif

#endif
