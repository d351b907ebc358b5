/* randperm: 0 ... n - 1 in a random order, all orders equally likely, i64 (n); takes one stream.
 * Each element in turn is exchanged with a random one up to itself (Fisher and Yates, Durstenfeld
 * 1964): the result is the same for any number of threads and any instruction set. */
#include "support/op.h"
#include "../src/core/isa.h"
#include "../src/kernels/random.h"

/* Numbers below 2^53 of one stream, in order. */
typedef struct {
    const cti_kernels *k;
    cti_random random;
    int64_t at; /* the index of the stream's next element */
    double next[256];
} stream;

/* A random number below n. Scaling would favour some values, so the bits are masked, and a number
 * that is too large is drawn again: under two draws on average. */
static int64_t below(stream *s, int64_t n) {
    const uint64_t mask = n == 1 ? 0 : UINT64_MAX >> __builtin_clzll((uint64_t)n - 1);
    for (;;) {
        if (s->at % 256 == 0) s->k->random->uniform(256, s->at, s->random, 0, 1, s->next);
        const uint64_t bits = (uint64_t)(s->next[s->at % 256] * 0x1p53) & mask;
        s->at++;
        if (bits < (uint64_t)n) return (int64_t)bits;
    }
}

ct_tensor *ct_randperm(ct_context *context, int64_t n) {
    const ct_shape shape = CT_SHAPE(n);
    if (!cti_ready(context) || !cti_shape_check(context, "randperm", shape, sizeof(int64_t)))
        return NULL;
    ct_tensor *y = ct_empty(context, CT_I64, shape);
    if (!y) return NULL;
    const ct_rng next = cti_rng_next(context);
    stream s = {.k = context->isa->of[CT_F64], .random = {next.seed, next.stream}};
    int64_t *at = (int64_t *)y->data;
    for (int64_t i = 0; i < n; i++) at[i] = i;
    for (int64_t i = n - 1; i > 0; i--) {
        const int64_t other = below(&s, i + 1), moved = at[i];
        at[i] = at[other];
        at[other] = moved;
    }
    return y;
}
