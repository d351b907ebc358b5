/* IEEE binary16 (f16) and bfloat16 (bf16), from and to wider floats, on their bits. */
#ifndef CTI_KERNELS_HALF_H
#define CTI_KERNELS_HALF_H

#include <stdint.h>
#include <string.h>

/* The amalgamation has these once for each file that includes them, and no such file uses all. */
#define HALF_INLINE static inline __attribute__((unused))

/* The bits of the binary32 of the same value; a NaN keeps its payload. */
HALF_INLINE uint32_t cti_f16_widen(uint32_t half) {
    uint32_t sign = (half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 0x3FF;
    if (exponent == 31) return sign | 0x7F800000 | fraction << 13;
    if (exponent == 0) {
        if (fraction == 0) return sign;
        /* subnormal; normal in binary32 */
        for (exponent = 1; !(fraction & 0x400); exponent--) fraction <<= 1;
    }
    return sign | (exponent + 112) << 23 | (fraction & 0x3FF) << 13;
}
HALF_INLINE uint32_t cti_bf16_widen(uint32_t brain) { return brain << 16; }

/* The nearest number with so many bits of fraction and an exponent of that bias, in 16 bits;
 * between two the even one. What rounds beyond the largest is an infinity; a NaN is quiet and keeps
 * the first bits of its payload. From f64, so that nothing is rounded twice. */
HALF_INLINE uint16_t cti_narrow(double value, int fraction, int bias) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint64_t sign = bits >> 63 << 15, magnitude = bits & INT64_MAX;
    const uint64_t infinity = ((uint64_t)0x7FFF >> fraction) << fraction;
    if (magnitude > (uint64_t)0x7FF << 52) {
        const uint64_t payload = (magnitude & ((UINT64_C(1) << 52) - 1)) >> (52 - fraction);
        return (uint16_t)(sign | infinity | UINT64_C(1) << (fraction - 1) | payload);
    }
    const int exponent = (int)(magnitude >> 52) - 1023 + bias;
    const uint64_t whole = (magnitude & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1) << 52;
    const int drop = 52 - fraction + (exponent < 1 ? 1 - exponent : 0);
    if (drop > 53) return (uint16_t)sign; /* less than half of the smallest */
    const uint64_t half = UINT64_C(1) << (drop - 1), rest = whole & (2 * half - 1);
    uint64_t kept = whole >> drop;
    kept += rest > half || (rest == half && (kept & 1));
    /* the leading bit of kept counts one into the exponent, and none if the result is subnormal */
    if (exponent > 1) kept += (uint64_t)(exponent - 1) << fraction;
    return (uint16_t)(sign | (kept < infinity ? kept : infinity));
}
HALF_INLINE uint16_t cti_f16_narrow(double value) { return cti_narrow(value, 10, 15); }
HALF_INLINE uint16_t cti_bf16_narrow(double value) { return cti_narrow(value, 7, 127); }

/* The same from f32, by its upper half, which compilers make vectors of. */
HALF_INLINE uint16_t cti_bf16_of_f32(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16, quiet = bits >> 16 | 0x40;
    return (uint16_t)((bits & INT32_MAX) > 0x7F800000 ? quiet : rounded);
}

#endif
