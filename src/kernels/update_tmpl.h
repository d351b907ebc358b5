/* One step of an optimiser on one parameter, in place. */
#ifndef CTI_KERNELS_UPDATE_TMPL_H
#define CTI_KERNELS_UPDATE_TMPL_H

#include "elementwise.h"
#include "simd.h"

/* Returns x, with 0 in place of numbers smaller than any normal one. The moments of a gradient that
 * has become zero fade into that range, and arithmetic on denormals takes a hundred times as
 * long. */
INLINE vec zero_if_tiny(vec x) {
    const real least = sizeof(real) == 4 ? (real)FLT_MIN : (real)DBL_MIN;
    return keep(~(v_abs(x) < least), x);
}

/* Rounds the states of a step to bf16. The upper 16 bits of an f32 are bf16's, and a number from 0
 * to 65535 that is added to the lower 16 decides whether they carry. A state that is 30 % of the
 * way between two numbers of bf16 so becomes the upper one in 30 % of the steps. Rounding to
 * nearest would never add what one step changes: with beta2 = 0.999 that is a thousandth of v, and
 * neighbours in bf16 are 4 to 8 thousandths apart.
 *
 * The number is (a1 element + a2 step) mod 1, a sequence that fills the square evenly, so the
 * errors of consecutive steps, and of neighbouring elements, cancel faster than those of a random
 * number would. a1 = 1 / g and a2 = 1 / g^2 with g^3 = g + 1. Roberts 2018, The unreasonable
 * effectiveness of quasirandom sequences. */
static void update_round(int64_t n, const void *x, int64_t at, int64_t step, void *y) {
    const real *from = x;
    uint16_t *to = y;
    const uint32_t by_element = 3242174889u, by_step = 2447445414u, /* a1 2^32, a2 2^32 */
        first = (uint32_t)at * by_element + (uint32_t)step * by_step;
    for (int64_t i = 0; i < n; i++) {
        const float value = (float)from[i];
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        const uint32_t dither = (first + (uint32_t)i * by_element) >> 16;
        /* an infinity stays one, and a NaN becomes quiet */
        const uint32_t magnitude = bits & INT32_MAX,
                       special = bits >> 16 | (magnitude > 0x7F800000 ? 0x40 : 0);
        to[i] = (uint16_t)(magnitude < 0x7F800000 ? (bits + dither) >> 16 : special);
    }
}

/* The factors of a step of adam, which all elements share. */
typedef struct {
    real shrink, decay, scale, keep1, beta2, keep2, step, root, eps;
} adam_factors;

/* Does the step for one vector, or for its first `left` elements if fewer are left. */
INLINE void adam_vec(const adam_factors *f, int64_t left, stored *param, const stored *grad,
                     stored *moment1, stored *moment2) {
    vec p = load_part(param, left), g = rounded(load_part(grad, left) * f->scale);
    vec m = load_part(moment1, left), v = load_part(moment2, left);
    if (f->decay != 0) g += f->decay * p;
    p *= f->shrink;
    m = zero_if_tiny(m + f->keep1 * (g - m));
    v = zero_if_tiny(f->beta2 * v + rounded(f->keep2 * g * g));
    p -= rounded(f->step * (m / (v_sqrt(v) * f->root + f->eps)));
    store_part(moment1, m, left);
    store_part(moment2, v, left);
    store_part(param, p, left);
}

/* adam: g += wd p; adamw: p *= 1 - lr wd. Then m += (1 - b1)(g - m), v = b2 v + (1 - b2) g^2, p -=
 * lr / bias1 m / (sqrt v / sqrt bias2 + eps). Kingma & Ba 2014, arXiv:1412.6980; Loshchilov &
 * Hutter 2017, arXiv:1711.05101
 *
 * Whole vectors have a loop without masks, and small arrays have one without prefetches: 4,192
 * parameters take .56 of the instructions (AVX2). */
static void update_adam(int64_t n, void *parameter, const void *gradient, void *first, void *second,
                        const cti_adam_numbers *a) {
    stored *param = parameter, *moment1 = first, *moment2 = second;
    const stored *grad = gradient;
    const adam_factors f = {.shrink = (real)(a->decoupled ? 1 - a->lr * a->weight_decay : 1),
                            .decay = (real)(a->decoupled ? 0 : a->weight_decay),
                            .scale = (real)a->grad_scale,
                            .keep1 = (real)(1 - a->beta1),
                            .beta2 = (real)a->beta2,
                            .keep2 = (real)(1 - a->beta2),
                            .step = (real)(a->lr / a->bias1),
                            .root = (real)(1 / sqrt(a->bias2)),
                            .eps = (real)a->eps};
    const bool far = n * (int64_t)sizeof(stored) > 4 * FETCH;
    int64_t i = 0;
    for (; far && i + LANES <= n; i += LANES) {
        fetch_to_write(param + i), fetch(grad + i), fetch_to_write(moment1 + i),
            fetch_to_write(moment2 + i);
        adam_vec(&f, LANES, param + i, grad + i, moment1 + i, moment2 + i);
    }
    for (; i + LANES <= n; i += LANES)
        adam_vec(&f, LANES, param + i, grad + i, moment1 + i, moment2 + i);
    if (i < n) adam_vec(&f, n - i, param + i, grad + i, moment1 + i, moment2 + i);
}

/* g += wd p; b = momentum b + (1 - dampening) g, at the first step b = g; p -= lr (nesterov ? g +
 * momentum b : b) */
static void update_sgd(int64_t n, void *parameter, const void *gradient, void *velocity,
                       const cti_sgd_numbers *a) {
    stored *param = parameter, *buffer = a->momentum != 0 ? velocity : NULL;
    const stored *grad = gradient;
    const real momentum = (real)a->momentum, fresh = (real)(1 - a->dampening),
               decay = (real)a->weight_decay;
    const real lr = (real)a->lr, scale = (real)a->grad_scale;
    for (int64_t i = 0; i < n; i += LANES) {
        const int64_t left = n - i;
        fetch_to_write(param + i), fetch(grad + i);
        vec p = load_part(param + i, left), g = rounded(load_part(grad + i, left) * scale);
        if (decay != 0) g += decay * p;
        if (buffer) {
            fetch_to_write(buffer + i);
            vec b = a->first ? g : momentum * load_part(buffer + i, left) + rounded(fresh * g);
            store_part(buffer + i, b, left);
            g = a->nesterov ? g + momentum * b : b;
        }
        store_part(param + i, p - lr * g, left);
    }
}

#endif
