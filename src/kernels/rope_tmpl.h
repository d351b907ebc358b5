/* Rotary position embedding: each pair (p, q) is turned by its angle,
 *     p' = p cos - q sin,  q' = q cos + p sin.
 * Su et al. 2021, arXiv:2104.09864 */
#ifndef CTI_KERNELS_ROPE_TMPL_H
#define CTI_KERNELS_ROPE_TMPL_H

#include "simd.h"

static void rope_halves(int64_t half, const stored *x, const real *cosine, const real *sine,
                        real sign, stored *y) {
    for (int64_t j = 0; j < half; j += LANES) {
        const int64_t left = half - j;
        const vec p = load_part(x + j, left), q = load_part(x + half + j, left);
        const vec c = load_part(cosine + j, left), s = sign * load_part(sine + j, left);
        store_part(y + j, p * c - q * s, left);
        store_part(y + half + j, q * c + p * s, left);
    }
}

static void rope_pairs(int64_t half, const stored *x, const real *cosine, const real *sine,
                       real sign, stored *y) {
    for (int64_t j = 0; j < half; j += LANES) {
        const int left = half - j < LANES ? (int)(half - j) : LANES;
        vec p = {0}, q = {0};
        for (int l = 0; l < left; l++)
            p[l] = get_one(x + 2 * (j + l)), q[l] = get_one(x + 2 * (j + l) + 1);
        const vec c = load_part(cosine + j, left), s = sign * load_part(sine + j, left);
        const vec turned_p = p * c - q * s, turned_q = q * c + p * s;
        for (int l = 0; l < left; l++)
            put_one(y + 2 * (j + l), turned_p[l]), put_one(y + 2 * (j + l) + 1, turned_q[l]);
    }
}

static void row_rope(int64_t n, const void *x, const void *cosine, const void *sine,
                     bool interleaved, double sign, void *y) {
    (interleaved ? rope_pairs : rope_halves)(n / 2, x, cosine, sine, (real)sign, y);
}

#endif
