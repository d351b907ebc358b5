/* Random numbers. Element i of a stream is a function of (seed, stream, i) only. The compiler makes
 * no FMA of a b + c in this file, so the numbers have the same bits on every ISA.
 *
 * Elements come in groups. A group is the elements that 16 blocks of Philox give: first come the
 * first words of all blocks, then their second words, and so on. */
#include "random.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "double_tmpl.h"
#include "philox.h"
#include "simd.h"

/* The elements of a group if each takes one word (GROUP32) or two (GROUP64). uniform has groups of
 * GROUP elements. */
enum {
    GROUP32 = PHILOX_WORDS,
    GROUP64 = PHILOX_WORDS / 2,
    GROUP = sizeof(real) == 4 ? GROUP32 : GROUP64
};

/* The wanted elements of a group: [from, to) of it go to y + at. */
typedef struct {
    uint64_t group;
    int64_t from, to, at;
} group_range;

static bool next_group_range(group_range *p, int64_t n, int64_t start, int64_t size) {
    p->at += p->to - p->from;
    if (p->at >= n) return false;
    const uint64_t i = (uint64_t)start + (uint64_t)p->at;
    p->group = i / (uint64_t)size;
    p->from = (int64_t)(i % (uint64_t)size);
    p->to = n - p->at < size - p->from ? p->from + n - p->at : size;
    return true;
}

static void group_words(cti_random r, uint64_t group, uint32_t word[4][PHILOX_BLOCKS]) {
    philox(r.seed, r.stream, group * PHILOX_BLOCKS, word);
}

/* Returns the number in [0, 1) whose 53 bits are the upper ones of two words. They are converted as
 * 31 bits and 22 bits, because vectors convert signed 32-bit integers. Every step is exact. */
static inline double unit64(uint32_t high, uint32_t low) {
    return ((double)(int32_t)(high >> 1) * 0x1p22 +
            (double)(int32_t)((high & 1) << 21 | low >> 11)) *
           0x1p-53;
}

/* Computes the numbers of a group in [0, 1), of 24 bits in f32 and of 53 bits in f64. */
static void random_units(const uint32_t word[4][PHILOX_BLOCKS], real unit[GROUP]) {
#ifdef CTI_F64_KERNELS
    for (int b = 0; b < PHILOX_BLOCKS; b++) {
        unit[b] = unit64(word[0][b], word[1][b]);
        unit[b + PHILOX_BLOCKS] = unit64(word[2][b], word[3][b]);
    }
#else
    for (int w = 0; w < 4; w++)
        for (int b = 0; b < PHILOX_BLOCKS; b++)
            unit[w * PHILOX_BLOCKS + b] = (float)(int32_t)(word[w][b] >> 8) * 0x1p-24f;
#endif
}

/* Maps u in [0, 1) to [low, high); `last` is the largest number below high. No product overflows,
 * however large low and high are. */
static inline real between(real u, real low, real high, real last) {
    const real y = low * (1 - u) + high * u, most = y > last ? last : y;
    return most < low ? low : most;
}

static void random_uniform(int64_t n, int64_t start, cti_random r, double from, double to,
                           void *out) {
    const real low = (real)from, high = (real)to,
               last = high > low ? LIBM(nextafter)(high, low) : low;
    stored *y = out;
    uint32_t word[4][PHILOX_BLOCKS];
    real value[GROUP];
    for (group_range p = {0}; next_group_range(&p, n, start, GROUP);) {
        group_words(r, p.group, word);
        random_units(word, value);
        for (int k = 0; k < GROUP; k++) value[k] = between(value[k], low, high, last);
        for (int64_t k = p.from; k < p.to; k++) put_one(y + p.at + k - p.from, value[k]);
    }
}

/* Box and Muller 1958: sqrt(-2 log u) times cos and sin of 2 pi v, with u in (0, 1]. Both dtypes
 * are computed in f64. */
static void random_normal(int64_t n, int64_t start, cti_random r, double mean, double std,
                          void *out) {
    stored *y = out;
    uint32_t word[4][PHILOX_BLOCKS];
    double value[GROUP64];
    for (group_range p = {0}; next_group_range(&p, n, start, GROUP64);) {
        group_words(r, p.group, word);
        for (int b = 0; b < PHILOX_BLOCKS; b++) {
            const double radius = std * sqrt(-2 * double_log_e(1 - unit64(word[0][b], word[1][b])));
            double cosine, sine;
            double_turn(unit64(word[2][b], word[3][b]), &cosine, &sine);
            value[b] = mean + radius * cosine;
            value[b + PHILOX_BLOCKS] = mean + radius * sine;
        }
        if (p.to - p.from == GROUP64)
            for (int k = 0; k < GROUP64; k++) put_one(y + p.at + k, (real)value[k]);
        else
            for (int64_t k = p.from; k < p.to; k++) put_one(y + p.at + k - p.from, (real)value[k]);
    }
}

/* An element is dropped if its word is below p 2^32, so both dtypes have the same mask. */
static void random_dropout(int64_t n, int64_t start, cti_random r, double p, const void *in,
                           void *out) {
    const stored *x = in;
    const real scale = (real)(1 / (1 - p));
    stored *y = out;
    const double threshold = ceil(p * 0x1p32);
    if (threshold >= 0x1p32) {
        memset(y, 0, (size_t)n * sizeof *y);
        return;
    }
    const uint32_t below = threshold > 0 ? (uint32_t)threshold : 0;
    uint32_t word[4][PHILOX_BLOCKS];
    for (group_range q = {0}; next_group_range(&q, n, start, GROUP32);) {
        group_words(r, q.group, word);
        const uint32_t *w = &word[0][0];
        if (q.to - q.from == GROUP32) {
            for (int k = 0; k < GROUP32; k++) {
                const real scaled = get_one(x + q.at + k) * scale;
                put_one(y + q.at + k, w[k] < below ? 0 : scaled);
            }
        } else {
            for (int64_t k = q.from; k < q.to; k++) {
                const real scaled = get_one(x + q.at + k - q.from) * scale;
                put_one(y + q.at + k - q.from, w[k] < below ? 0 : scaled);
            }
        }
    }
}

void CTI_PUT(random)(cti_kernels *table);
void CTI_PUT(random)(cti_kernels *table) {
    static const cti_random_kernels kernels = {
        .uniform = random_uniform,
        .normal = random_normal,
        .dropout = random_dropout,
    };
    table->random = &kernels;
}
