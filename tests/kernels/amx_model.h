/* AMX's tiles in plain C, as Intel's manual defines tdpbf16ps. A test includes this file before
 * src/kernels/amx.c, which then has no intrinsics. A forbidden use of tiles (they are not
 * configured, or not released) ends the program. */
#ifndef AMX_MODEL_H
#define AMX_MODEL_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TILE_MODEL

typedef struct {
    uint32_t element[16][16]; /* rows of 64 bytes: f32, or pairs of bf16 */
} model_tile;

static _Thread_local bool model_configured;
static _Thread_local model_tile model_tiles[8];

static void model_check(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "tiles: %s\n", what);
    abort();
}

static void tile_configure(const void *config) {
    const uint8_t *byte = config;
    bool full = byte[0] == 1 && byte[1] == 0;
    for (int t = 0; t < 8; t++) {
        uint16_t row_bytes;
        memcpy(&row_bytes, byte + 16 + 2 * t, 2);
        full = full && row_bytes == 64 && byte[48 + t] == 16;
    }
    for (int i = 2; i < 16; i++) full = full && byte[i] == 0;
    model_check(full, "not a configuration of 8 full tiles");
    model_check(!model_configured, "configured twice");
    memset(model_tiles, 0, sizeof model_tiles);
    model_configured = true;
}

static void tile_release(void) {
    model_check(model_configured, "released without configuration");
    model_configured = false;
}

static void tile_zero(int t) {
    model_check(model_configured, "not configured");
    memset(&model_tiles[t], 0, sizeof model_tiles[t]);
}

static void tile_load(int t, const void *from, int64_t stride) {
    model_check(model_configured, "not configured");
    for (int i = 0; i < 16; i++)
        memcpy(model_tiles[t].element[i], (const char *)from + i * stride, 64);
}

static void tile_store(int t, void *to, int64_t stride) {
    model_check(model_configured, "not configured");
    for (int i = 0; i < 16; i++) memcpy((char *)to + i * stride, model_tiles[t].element[i], 64);
}

static inline float model_flushed(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }
static inline float model_f32(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return model_flushed(x); /* subnormal numbers are zeros */
}

/* The elements of a tile of pairs of bf16: element[0] has the 16 even elements of each row,
 * element[1] the odd ones. */
typedef struct {
    float element[2][16][16];
} model_pairs;

static void model_decode(model_pairs *to, const model_tile *from) {
    for (int row = 0; row < 16; row++)
        for (int col = 0; col < 16; col++) {
            uint16_t pair[2];
            memcpy(pair, &from->element[row][col], sizeof pair);
            for (int i = 0; i < 2; i++)
                to->element[i][row][col] = model_f32((uint32_t)pair[i] << 16);
        }
}

/* With FMA instructions fmaf is an instruction instead of a call, and the loops over n are
 * vectorised. */
#if defined __x86_64__ && defined __GLIBC__ && !defined __clang__
#define MODEL_CLONES __attribute__((target_clones("default", "avx512f", "avx2,fma")))
#else
#define MODEL_CLONES
#endif

/* c += a b: the products of even and of odd elements are summed separately, the two sums are added,
 * and the result is added to c. */
MODEL_CLONES static void model_multiply(model_tile *c, const model_pairs *a, const model_pairs *b) {
    for (int m = 0; m < 16; m++) {
        float sum[2][16] = {{0}};
        for (int k = 0; k < 16; k++)
            for (int i = 0; i < 2; i++)
                for (int n = 0; n < 16; n++)
                    sum[i][n] =
                        model_flushed(fmaf(a->element[i][m][k], b->element[i][k][n], sum[i][n]));
        for (int n = 0; n < 16; n++) {
            const float both = model_flushed(sum[0][n] + sum[1][n]);
            const float y = model_flushed(model_f32(c->element[m][n]) + both);
            memcpy(&c->element[m][n], &y, sizeof y);
        }
    }
}

static void tile_multiply(int c, int a, int b) {
    model_check(model_configured, "not configured");
    model_pairs x, y;
    model_decode(&x, &model_tiles[a]);
    model_decode(&y, &model_tiles[b]);
    model_multiply(&model_tiles[c], &x, &y);
}

#endif
