/* Rows of attention alone, forward and backward from a given cotangent. mha_*: the module, with its
 * projections; attention_*: the op, causal, B 1 H 8 d 64. _weights: the attention weights are
 * wanted (the module averages them over heads). _window: a sliding window of 256 tokens. */
#include "row.h"

#include <math.h>

static ct_module *mha;
static ct_tensor *x, *k, *v, *cotangent;
static ct_mha_call call;
static ct_window window;

typedef struct {
    int64_t batch, length, width, heads; /* length 0: the number in the row's name */
    bool causal, weights;
    int64_t window; /* queries see this many tokens to the left; 0: all */
} size;

static bool make_mha(const row *r, ct_context *c, int64_t number, const char *names) {
    (void)names;
    const size *s = r->arg;
    ct_shape shape = CT_SHAPE(s->batch, s->length ? s->length : number, s->width);
    mha = ct_mha_new(
        c,
        (ct_mha_opts){.embed_dim = s->width, .num_heads = s->heads, .window = {.left = s->window}});
    fill_module(mha, 1 / sqrt((double)s->width), 1 / sqrt((double)s->width));
    fill(x = ct_empty(c, CT_F32, shape), "x", 1);
    fill(cotangent = ct_empty(c, CT_F32, shape), "cotangent", 1);
    call = (ct_mha_call){.causal = s->causal, .need_weights = s->weights};
    return ct_set_requires_grad(x, true);
}

static void step_mha(ct_context *c) {
    for (ct_param p = {0}; ct_module_next(mha, &p);) ct_zero_grad(p.tensor);
    ct_zero_grad(x);
    ct_scope scope = ct_scope_open(c);
    ct_mha_out y = ct_mha_forward(mha, x, NULL, NULL, call);
    ct_backward_with(&y.out, &cotangent, 1, (ct_backward_opts){0});
    ct_scope_close(scope);
}

static double value_mha(void) {
    return sum_of_sizes(ct_grad(x)) + sum_of_sizes(ct_grad(ct_module_get(mha, "in_proj_weight")));
}

static bool make_op(const row *r, ct_context *c, int64_t t, const char *names) {
    (void)names;
    const size *s = r->arg;
    const char *name[] = {"q", "k", "v", "cotangent"};
    ct_tensor **tensor[] = {&x, &k, &v, &cotangent};
    for (int i = 0; i < 4; i++)
        fill(*tensor[i] = ct_empty(c, CT_F32, CT_SHAPE(s->batch, s->heads, t, s->width / s->heads)),
             name[i], 1);
    for (int i = 0; i < 3; i++) ct_set_requires_grad(*tensor[i], true);
    call = (ct_mha_call){.causal = s->causal, .need_weights = s->weights};
    window = (ct_window){.left = s->window};
    return true;
}

static void step_op(ct_context *c) {
    ct_zero_grad(x), ct_zero_grad(k), ct_zero_grad(v);
    ct_scope scope = ct_scope_open(c);
    ct_attention_out y = ct_attention(x, k, v,
                                      (ct_attention_opts){.causal = call.causal,
                                                          .need_weights = call.need_weights,
                                                          .window = window});
    ct_backward_with(&y.out, &cotangent, 1, (ct_backward_opts){0});
    ct_scope_close(scope);
}

static double value_op(void) {
    return sum_of_sizes(ct_grad(x)) + sum_of_sizes(ct_grad(k)) + sum_of_sizes(ct_grad(v));
}

const row attention_rows[] = {
    {"mha_tiny", make_mha, step_mha, value_mha, &(size){3, 4, 8, 2, false, false, 0}},
    {"mha_tiny_weights", make_mha, step_mha, value_mha, &(size){3, 4, 8, 2, false, true, 0}},
    {"mha_seed", make_mha, step_mha, value_mha, &(size){2, 10, 512, 8, false, false, 0}},
    {"mha_seed_weights", make_mha, step_mha, value_mha, &(size){2, 10, 512, 8, false, true, 0}},
    {"mha_long_", make_mha, step_mha, value_mha, &(size){1, 0, 512, 8, true, false, 0}},
    {"mha_long_weights_", make_mha, step_mha, value_mha, &(size){1, 0, 512, 8, true, true, 0}},
    {"mha_long_window_", make_mha, step_mha, value_mha, &(size){1, 0, 512, 8, true, false, 256}},
    {"attention_", make_op, step_op, value_op, &(size){1, 0, 512, 8, true, false, 0}},
    {"attention_weights_", make_op, step_op, value_op, &(size){1, 0, 512, 8, true, true, 0}},
    {"attention_window_", make_op, step_op, value_op, &(size){1, 0, 512, 8, true, false, 256}},
    {NULL, NULL, NULL, NULL, NULL},
};
