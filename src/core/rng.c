/* The generator's state: a seed and the number of the next stream. The kernels compute the numbers
 * of a stream by Philox 4x32-10. */
#include "context.h"
#include "isa.h"
#include "../kernels/random.h"

void ct_seed(ct_context *context, uint64_t seed) {
    if (cti_ready(context)) context->rng = (ct_rng){.seed = seed};
}

ct_rng ct_rng_get(const ct_context *context) { return context ? context->rng : (ct_rng){0}; }

void ct_rng_set(ct_context *context, ct_rng rng) {
    if (context) context->rng = rng;
}

ct_rng cti_rng_next(ct_context *context) {
    ct_rng rng = context->rng;
    context->rng.stream++;
    return rng;
}

/* Rejection sampling, because scaling would be biased: random bits are masked to the next power of
 * two, and drawn again while the result is n or more. The average is less than two draws. */
int64_t ct_random_below(ct_context *context, int64_t n) {
    if (!cti_ready(context)) return -1;
    if (n < 1) {
        ct_fail(context, CT_ERR_ARGUMENT, "random_below: nothing is below %lld", (long long)n);
        return -1;
    }
    ct_rng rng = cti_rng_next(context);
    uint64_t mask = n == 1 ? 0 : UINT64_MAX >> __builtin_clzll((uint64_t)n - 1);
    for (int64_t i = 0;; i += 2) {
        double half[2]; /* multiples of 2^-53, of which the upper 32 bits are used */
        context->isa->of[CT_F64]->random->uniform(2, i, (cti_random){rng.seed, rng.stream}, 0, 1,
                                                  half);
        uint64_t bits = (uint64_t)(half[0] * 0x1p32) << 32 | (uint64_t)(half[1] * 0x1p32);
        if ((bits & mask) < (uint64_t)n) return (int64_t)(bits & mask);
    }
}
