/* AMX's tiles in plain C, as Intel's manual defines tdpbf16ps. In front of src/kernels/amx.c, which
 * then has no intrinsics. What a program must not do (tiles that are not configured, or not
 * released) ends it. */
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

static float model_flushed(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }
static float model_f32(const uint32_t *element) {
    float x;
    memcpy(&x, element, sizeof x);
    return model_flushed(x); /* subnormal numbers are zeros */
}
static float model_bf16(const uint32_t *element, int of_pair) {
    uint16_t pair[2];
    memcpy(pair, element, sizeof pair);
    const uint32_t bits = (uint32_t)pair[of_pair] << 16;
    return model_f32(&bits);
}

/* c += a b: even and odd elements are summed apart, then added, and that is added to c. */
static void tile_multiply(int c, int a, int b) {
    model_check(model_configured, "not configured");
    for (int m = 0; m < 16; m++)
        for (int n = 0; n < 16; n++) {
            float sum[2] = {0, 0};
            for (int k = 0; k < 16; k++) {
                const uint32_t *x = &model_tiles[a].element[m][k];
                const uint32_t *y = &model_tiles[b].element[k][n];
                for (int i = 0; i < 2; i++)
                    sum[i] = model_flushed(fmaf(model_bf16(x, i), model_bf16(y, i), sum[i]));
            }
            const float both = model_flushed(sum[0] + sum[1]);
            const float y = model_flushed(model_f32(&model_tiles[c].element[m][n]) + both);
            memcpy(&model_tiles[c].element[m][n], &y, sizeof y);
        }
}

#endif
