/* Widens GGML's blocks and rounds to them; blocks.h has their bytes. */
#include "blocks.h"

#include <math.h>

#include "../kernels/half.h"
#include "assert.h"

static float half_read(const unsigned char *at) {
    const uint32_t bits = cti_f16_widen((uint32_t)at[0] | (uint32_t)at[1] << 8);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void half_write(unsigned char *at, float value) {
    const uint16_t bits = cti_f16_narrow((double)value);
    at[0] = (unsigned char)(bits & 0xFF);
    at[1] = (unsigned char)(bits >> 8);
}

/* ---- blocks of 32: the low halves of the code's bytes are elements 0 to 15 ---- */

static void q4_0_widen(const unsigned char *at, float *out) {
    const float d = half_read(at);
    const unsigned char *code = at + 2;
    for (int j = 0; j < 16; j++) {
        out[j] = (float)((code[j] & 15) - 8) * d;
        out[j + 16] = (float)((code[j] >> 4) - 8) * d;
    }
}

static void q4_1_widen(const unsigned char *at, float *out) {
    const float d = half_read(at), m = half_read(at + 2);
    const unsigned char *code = at + 4;
    for (int j = 0; j < 16; j++) {
        out[j] = (float)(code[j] & 15) * d + m;
        out[j + 16] = (float)(code[j] >> 4) * d + m;
    }
}

/* Bit j of `high` is bit 4 of element j. */
static int five_bits(const unsigned char *high, const unsigned char *code, int j) {
    const int low = j < 16 ? code[j] & 15 : code[j - 16] >> 4;
    return low | (high[j / 8] >> j % 8 & 1) << 4;
}

static void q5_0_widen(const unsigned char *at, float *out) {
    const float d = half_read(at);
    for (int j = 0; j < 32; j++) out[j] = (float)(five_bits(at + 2, at + 6, j) - 16) * d;
}

static void q5_1_widen(const unsigned char *at, float *out) {
    const float d = half_read(at), m = half_read(at + 2);
    for (int j = 0; j < 32; j++) out[j] = (float)five_bits(at + 4, at + 8, j) * d + m;
}

static void q8_0_widen(const unsigned char *at, float *out) {
    const float d = half_read(at);
    for (int j = 0; j < 32; j++) out[j] = (float)(signed char)at[2 + j] * d;
}

/* ---- blocks of 256 ---- */

/* The 6 bits of scale and minimum of group g. Of groups 4 to 7 the upper two bits lie in the bytes
 * of groups 0 to 3. */
static void six_bits(const unsigned char *scale, int g, int *s, int *m) {
    if (g < 4) {
        *s = scale[g] & 63;
        *m = scale[g + 4] & 63;
    } else {
        *s = (scale[g + 4] & 15) | scale[g - 4] >> 6 << 4;
        *m = scale[g + 4] >> 4 | scale[g] >> 6 << 4;
    }
}

/* Q4_K, and Q5_K if `high` is not NULL: bit g of high[l] is bit 4 of element l of group g. Two
 * groups of 32 share 32 bytes of codes. */
static void q45_k_widen(const unsigned char *at, const unsigned char *high,
                        const unsigned char *code, float *out) {
    const float d = half_read(at), dmin = half_read(at + 2);
    for (int g = 0; g < 8; g++) {
        int s, m;
        six_bits(at + 4, g, &s, &m);
        const float scale = d * (float)s, least = dmin * (float)m;
        for (int l = 0; l < 32; l++) {
            int q = code[32 * (g / 2) + l] >> 4 * (g % 2) & 15;
            if (high) q |= (high[l] >> g & 1) << 4;
            out[32 * g + l] = scale * (float)q - least;
        }
    }
}

static void q4_k_widen(const unsigned char *at, float *out) { q45_k_widen(at, NULL, at + 16, out); }
static void q5_k_widen(const unsigned char *at, float *out) {
    q45_k_widen(at, at + 16, at + 48, out);
}

static void q6_k_widen(const unsigned char *at, float *out) {
    const float d = half_read(at + 208);
    for (int h = 0; h < 2; h++) {
        const unsigned char *low = at + 64 * h, *high = at + 128 + 32 * h,
                            *scale = at + 192 + 8 * h;
        for (int r = 0; r < 128; r++) {
            const int g = r / 32, l = r % 32;
            const int q = (low[32 * (g % 2) + l] >> 4 * (g / 2) & 15) | (high[l] >> 2 * g & 3) << 4;
            out[128 * h + r] = d * (float)(signed char)scale[r / 16] * (float)(q - 32);
        }
    }
}

/* ---- rounding ---- */

static void q8_0_round(const float *in, unsigned char *at) {
    float most = 0;
    for (int j = 0; j < 32; j++)
        if (fabsf(in[j]) > most || isnan(in[j])) most = fabsf(in[j]);
    const float d = most / 127, inverse = d != 0 ? 1 / d : 0;
    half_write(at, isfinite(d) ? d : (float)NAN);
    for (int j = 0; j < 32; j++) {
        const float q = roundf(in[j] * inverse);
        at[2 + j] = (unsigned char)(isfinite(q) ? (int)q & 0xFF : 0);
    }
}

/* The code of x: x inverse + 8.5, rounded twice, without its fraction. */
static int four_bits(float x, float inverse) {
    const float q = x * inverse + 8.5F;
    return !isfinite(q) ? 0 : q < 15 ? (int)q : 15;
}

static void q4_0_round(const float *in, unsigned char *at) {
    float most = 0;
    for (int j = 0; j < 32; j++)
        if (fabsf(in[j]) > fabsf(most) || isnan(in[j])) most = in[j];
    const float d = most / -8, inverse = d != 0 ? 1 / d : 0;
    half_write(at, isfinite(d) ? d : (float)NAN);
    for (int j = 0; j < 16; j++)
        at[2 + j] =
            (unsigned char)(four_bits(in[j], inverse) | four_bits(in[j + 16], inverse) << 4);
}

/* ---- the table ---- */

typedef struct {
    int elements, bytes;
    void (*widen)(const unsigned char *at, float *out);
    void (*round)(const float *in, unsigned char *at);
} block_type;

static const block_type block_types[CTI_BLOCKS] = {
    [CTI_BLOCK_Q4_0] = {32, 18, q4_0_widen, q4_0_round},
    [CTI_BLOCK_Q4_1] = {32, 20, q4_1_widen, NULL},
    [CTI_BLOCK_Q5_0] = {32, 22, q5_0_widen, NULL},
    [CTI_BLOCK_Q5_1] = {32, 24, q5_1_widen, NULL},
    [CTI_BLOCK_Q8_0] = {32, 34, q8_0_widen, q8_0_round},
    [CTI_BLOCK_Q4_K] = {256, 144, q4_k_widen, NULL},
    [CTI_BLOCK_Q5_K] = {256, 176, q5_k_widen, NULL},
    [CTI_BLOCK_Q6_K] = {256, 210, q6_k_widen, NULL},
};

int cti_block_elements(cti_block type) { return block_types[type].elements; }
int cti_block_bytes(cti_block type) { return block_types[type].bytes; }

void cti_blocks_widen(cti_block type, const unsigned char *blocks, float *out, int64_t n) {
    const block_type *row = &block_types[type];
    for (int64_t i = 0; i < n; i++) row->widen(blocks + i * row->bytes, out + i * row->elements);
}

void cti_blocks_round(cti_block type, const float *in, unsigned char *blocks, int64_t n) {
    const block_type *row = &block_types[type];
    CTI_ASSERT(row->round);
    for (int64_t i = 0; i < n; i++) row->round(in + i * row->elements, blocks + i * row->bytes);
}
