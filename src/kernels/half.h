/* Conversions of IEEE binary16 (f16) and bfloat16 (bf16) from and to wider floats, computed on
 * their bits. */
#ifndef CTI_KERNELS_HALF_H
#define CTI_KERNELS_HALF_H

#include <stdint.h>
#include <string.h>

/* The attribute is for the amalgamation, which has these functions once for each file that includes
 * them: no such file uses all of them. */
#define HALF_INLINE static inline __attribute__((unused))

/* Returns the bits of the binary32 with the same value. A NaN keeps its payload. */
HALF_INLINE uint32_t cti_f16_widen(uint32_t half) {
    uint32_t sign = (half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 0x3FF;
    if (exponent == 31) return sign | 0x7F800000 | fraction << 13;
    if (exponent == 0) {
        if (fraction == 0) return sign;
        /* a subnormal number of f16 is normal in binary32 */
        for (exponent = 1; !(fraction & 0x400); exponent--) fraction <<= 1;
    }
    return sign | (exponent + 112) << 23 | (fraction & 0x3FF) << 13;
}
HALF_INLINE uint32_t cti_bf16_widen(uint32_t brain) { return brain << 16; }

/* Returns the bits of the nearest 16-bit number that has this many bits of fraction and this bias
 * of the exponent; if two are equally near, the even one. A number that rounds beyond the largest
 * becomes an infinity; a NaN becomes quiet and keeps the first bits of its payload. value is f64,
 * so that nothing is rounded twice. */
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
    if (drop > 53) return (uint16_t)sign; /* less than half of the smallest number */
    const uint64_t half = UINT64_C(1) << (drop - 1), rest = whole & (2 * half - 1);
    uint64_t kept = whole >> drop;
    kept += rest > half || (rest == half && (kept & 1));
    /* the leading bit of kept adds one to the exponent; a subnormal result has no such bit */
    if (exponent > 1) kept += (uint64_t)(exponent - 1) << fraction;
    return (uint16_t)(sign | (kept < infinity ? kept : infinity));
}
HALF_INLINE uint16_t cti_f16_narrow(double value) { return cti_narrow(value, 10, 15); }
HALF_INLINE uint16_t cti_bf16_narrow(double value) { return cti_narrow(value, 7, 127); }

/* Does the same from f32, on its upper half; compilers vectorize this. */
HALF_INLINE uint16_t cti_bf16_of_f32(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16, quiet = bits >> 16 | 0x40;
    return (uint16_t)((bits & INT32_MAX) > 0x7F800000 ? quiet : rounded);
}

#endif
