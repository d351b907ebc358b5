/* sin and cos. An angle is reduced to a number of quarter turns and a rest of at most pi/4, in f64
 * for both dtypes. The rest is a sum of two doubles, so that it keeps all its digits also next to a
 * multiple of pi/2. A Taylor series follows, with an error of 1e-19. This is plain C without
 * branches or calls, so that the compiler vectorises it; angles beyond 2^20 are reduced one by one,
 * in integers. The results of f32 are the results of f64 rounded: their error is at most 0.500 ulp
 * for every float (`make bench ROW=vmath`). The error of f64 is at most 0.78 ulp for five million
 * angles, which have all exponents or lie next to multiples of pi/2. */
#ifndef CTI_KERNELS_TRIG_TMPL_H
#define CTI_KERNELS_TRIG_TMPL_H

#include "double_tmpl.h"
#include "simd.h"

/* x = quarter pi/2 + high + low. |low| is at most half an ulp of high, and only quarter modulo 4
 * matters. */
typedef struct {
    double high, low;
    uint64_t quarter;
} angle;

/* The sum of two doubles, and its rounding error (Knuth): sum + lost is exact. */
typedef struct {
    double sum, lost;
} two_sum;
static inline two_sum add_exactly(double a, double b) {
    const double sum = a + b, of_b = sum - a;
    return (two_sum){sum, (a - (sum - of_b)) + (b - of_b)};
}

/* The reduction for |x| <= 2^20, by Cody and Waite: pi/2 is the sum of three constants of 33 bits,
 * whose products with n < 2^20 are exact, and one of 53 bits. */
static const double TURN_NEAR = 0x1p20;
static inline angle reduce_near(double x) {
    const double shifted = x * 0.63661977236758134308 + 0x1.8p52, n = shifted - 0x1.8p52;
    const two_sum a = add_exactly(x - n * 0x1.921fb544p+0, -(n * 0x1.0b4611a6p-34)),
                  b = add_exactly(a.sum, -(n * 0x1.3198a2ep-69));
    const double rest = (a.lost + b.lost) - n * 0x1.b839a252049c1p-104, high = b.sum + rest;
    /* if n is 0 the result is x itself, also -0 */
    return (angle){n == 0 ? x : high, n == 0 ? 0 : (b.sum - high) + rest, bits_of(shifted)};
}

/* An integer of 128 bits: the product of two integers of 64 bits, or a sum below 2^128. */
typedef struct {
    uint64_t high, low;
} two_words;
static inline two_words wide_product(uint64_t a, uint64_t b) {
    const uint64_t half = 0xffffffff, a1 = a >> 32, a0 = a & half, b1 = b >> 32, b0 = b & half;
    const uint64_t low = a0 * b0, mid = a1 * b0 + (low >> 32), cross = a0 * b1 + (mid & half);
    return (two_words){a1 * b1 + (mid >> 32) + (cross >> 32), cross << 32 | (low & half)};
}
static inline two_words wide_sum(two_words a, uint64_t b) {
    const uint64_t low = a.low + b;
    return (two_words){a.high + (low < b), low};
}

/* The reduction for any other x, by Payne and Hanek 1983: x = m 2^e, m < 2^53. m is multiplied by
 * 192 bits of 2/pi. The bits before these would only add multiples of 4 quarter turns. */
static angle reduce_far(double x) {
    /* 64 zero bits, then 2/pi */
    static const uint64_t bits[21] = {0,
                                      0xa2f9836e4e441529u,
                                      0xfc2757d1f534ddc0u,
                                      0xdb6295993c439041u,
                                      0xfe5163abdebbc561u,
                                      0xb7246e3a424dd2e0u,
                                      0x06492eea09d1921cu,
                                      0xfe1deb1cb129a73eu,
                                      0xe88235f52ebb4484u,
                                      0xe99c7026b45f7e41u,
                                      0x3991d639835339f4u,
                                      0x9c845f8bbdf9283bu,
                                      0x1ff897ffde05980fu,
                                      0xef2f118b5a0a6d1fu,
                                      0x6d367ecf27cb09b7u,
                                      0x4f463f669e5fea2du,
                                      0x7527bac7ebe5f17bu,
                                      0x3d0739f78a5292eau,
                                      0x6bfb5fb11f8d5d08u,
                                      0x56033046fc7b6babu,
                                      0xf0cfbc209af4361du};
    if (!(x >= -DBL_MAX && x <= DBL_MAX)) return (angle){NAN, 0, 0};
    const uint64_t of_x = bits_of(x), m = (of_x & 0xfffffffffffff) | 0x10000000000000;
    const int exponent = (int)(of_x >> 52 & 0x7ff) - 1075, skip = exponent - 2 + 64;
    const uint64_t *from = bits + skip / 64;
    uint64_t window[3];
    for (int i = 0; i < 3; i++)
        window[i] = skip % 64 ? from[i] << skip % 64 | from[i + 1] >> (64 - skip % 64) : from[i];

    /* m window modulo 2^192: two bits count quarter turns, 190 bits are a fraction of one */
    const two_words low = wide_product(m, window[2]),
                    mid = wide_sum(wide_product(m, window[1]), low.high);
    const uint64_t w0 = m * window[0] + mid.high, w1 = mid.low, w2 = low.low;
    uint64_t f0 = w0 << 2 | w1 >> 62, f1 = w1 << 2 | w2 >> 62, f2 = w2 << 2;
    const bool over =
        f0 >> 63; /* the fraction is 1/2 or more: round up, the rest is fraction - 1 */
    uint64_t quarter = (w0 >> 62) + over;
    if (over) {
        f2 = -f2;
        f1 = ~f1 + (f2 == 0);
        f0 = ~f0 + (f1 == 0 && f2 == 0);
    }
    /* The zero bits before the fraction's first one. They are about 62 at most, so f0 and f1 are
     * not both zero. */
    int zeros = 0;
    if (f0 == 0) f0 = f1, f1 = f2, f2 = 0, zeros = 64;
    const int shift = f0 ? __builtin_clzll(f0) : 0;
    if (shift) f0 = f0 << shift | f1 >> (64 - shift), f1 = f1 << shift | f2 >> (64 - shift);
    zeros += shift;

    /* The upper 128 bits of the product of the fraction and pi/2, whose first 128 bits, in units of
     * 2^-127, are half_pi and more. */
    const uint64_t half_pi = 0xc90fdaa22168c234u, more = 0xc4c6628b80dc1cd1u;
    const two_words product =
        wide_sum(wide_sum(wide_product(f0, half_pi), wide_product(f0, more).high),
                 wide_product(f1, half_pi).high);
    const uint64_t upper = product.high, rest = product.low;
    const double unit =
        double_of((uint64_t)(1023 - 63 - zeros) << 52); /* the value of upper's last bit */
    const double a = (double)(upper >> 11) * 0x1p11,
                 b = (double)(upper & 0x7ff) + (double)(rest >> 11) * 0x1p-53;
    const double high = a + b, rounded = (a - high) + b, sign = over != (x < 0) ? -unit : unit;
    if (x < 0) quarter = -quarter;
    return (angle){high * sign, rounded * sign, quarter};
}

/* sin (x + quarters pi/2) */
static inline double sine_of(angle x, uint64_t quarters) {
    const double h = x.high, z = h * h, v = z * h;
    /* the first term of each series is added below, where its rounding error is kept small */
    const double s = series_at(7, sine_series + 1, z), c = series_at(7, cosine_series + 1, z);
    const double sine = h - ((z * (0.5 * x.low - v * s) - x.low) + v * (1.0 / 6));
    const double half = 0.5 * z, near = 1 - half;
    const double cosine = near + (((1 - near) - half) + (z * (z * c) - h * x.low));
    const uint64_t quarter = x.quarter + quarters, swap = -(quarter & 1);
    return double_of(((bits_of(cosine) & swap) | (bits_of(sine) & ~swap)) ^ (quarter & 2) << 62);
}

/* y = sin (x + quarters pi/2), times g if g is not NULL */
INLINE void sines(int64_t n, const stored *x, uint64_t quarters, const stored *g, stored *y) {
    enum { CHUNK = 32 };
    for (int64_t at = 0; at < n; at += CHUNK) {
        const int count = n - at < CHUNK ? (int)(n - at) : CHUNK;
        double of[CHUNK], value[CHUNK];
        int far = 0;
        for (int i = 0; i < CHUNK; i++) of[i] = i < count ? (double)get_one(x + at + i) : 0;
        for (int i = 0; i < CHUNK; i++) far |= !(of[i] >= -TURN_NEAR && of[i] <= TURN_NEAR);
        for (int i = 0; i < CHUNK; i++) value[i] = sine_of(reduce_near(of[i]), quarters);
        for (int i = 0; far && i < CHUNK; i++)
            if (!(of[i] >= -TURN_NEAR && of[i] <= TURN_NEAR))
                value[i] = sine_of(reduce_far(of[i]), quarters);
        if (g) {
            for (int i = 0; i < count; i++)
                put_one(y + at + i, get_one(g + at + i) * (real)value[i]);
        } else {
            for (int i = 0; i < count; i++) put_one(y + at + i, (real)value[i]);
        }
    }
}

static void map_sin(int64_t n, const void *x, void *y) { sines(n, x, 0, NULL, y); }
static void map_cos(int64_t n, const void *x, void *y) { sines(n, x, 1, NULL, y); }
static void map_sin_backward(int64_t n, const void *x, const void *g, void *dx) {
    sines(n, x, 1, g, dx);
}
static void map_cos_backward(int64_t n, const void *x, const void *g, void *dx) {
    sines(n, x, 2, g, dx);
}

#endif
