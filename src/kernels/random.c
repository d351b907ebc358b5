/* Random numbers, which are compiled with no a b + c made one instruction, so that they are the
 * same bits on every ISA: element i of a stream is a function of (seed, stream, i) alone. Elements
 * come in groups of as many as 16 blocks of Philox give; within a group the blocks' first words
 * come first, then their second words, and so on. */
#include "kernels.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "double_tmpl.h"
#include "philox.h"
#include "simd.h"

/* How many elements a group has: an element takes one word, or two. GROUP is what uniform takes. */
enum {
    GROUP32 = PHILOX_WORDS,
    GROUP64 = PHILOX_WORDS / 2,
    GROUP = sizeof(real) == 4 ? GROUP32 : GROUP64
};

/* What of a group's elements is asked for: [from, to) of it go to y + at. */
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

/* The upper 53 of the 64 bits of two words, in [0, 1): 31 bits and 22, for which there are vectors;
 * every step is exact. */
static inline double unit64(uint32_t high, uint32_t low) {
    return ((double)(int32_t)(high >> 1) * 0x1p22 +
            (double)(int32_t)((high & 1) << 21 | low >> 11)) *
           0x1p-53;
}

/* As many numbers in [0, 1) as a group has, of 24 or of 53 bits. */
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

/* u in [0, 1) to [low, high), last being the number before high. No product overflows, whatever the
 * ends are. */
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

/* Box and Muller 1958: sqrt(-2 log u) cos and sin of 2 pi v, u in (0, 1], in f64 for both
 * dtypes. */
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

/* The same mask for both dtypes: dropped where the element's word is below p 2^32. */
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
    table->uniform = random_uniform;
    table->normal = random_normal;
    table->dropout = random_dropout;
}
