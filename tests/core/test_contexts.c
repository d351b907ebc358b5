/* Tensors of two contexts in one call: an error in both, also if one of them has an error
 * pending, and nothing is computed. */
#include "tests/support/suite.h"
#include <cotangent/cotangent.h>
#include <string.h>

static ct_context *a, *b;

static void setup(void) {
    a = ct_context_new((ct_context_opts){.seed = 1, .threads = 1});
    b = ct_context_new((ct_context_opts){.seed = 1, .threads = 1});
}
static void teardown(void) {
    ct_context_free(a);
    ct_context_free(b);
}

static ct_tensor *ones(ct_context *context, ct_shape shape) {
    return ct_ones(context, CT_F32, shape);
}

/* The inputs: tensors of context a, and one of context b. Each row of the table computes something
 * from them. */
typedef struct {
    ct_tensor *q, *k, *v, *mask, *keys, *matrix, *row, *square, *three;
    ct_module *linear, *mha, *encoder, *decoder;
} given;

static given made_in(ct_context *c) {
    const ct_layer_opts layer = {.embed_dim = 6, .num_heads = 2};
    return (given){.q = ones(c, CT_SHAPE(1, 2, 3, 3)),
                   .k = ones(c, CT_SHAPE(1, 2, 3, 3)),
                   .v = ones(c, CT_SHAPE(1, 2, 3, 3)),
                   .mask = ct_ones(c, CT_BOOL, CT_SHAPE(3, 3)),
                   .keys = ct_ones(c, CT_BOOL, CT_SHAPE(1, 3)),
                   .matrix = ones(c, CT_SHAPE(3, 3)),
                   .row = ones(c, CT_SHAPE(3)),
                   .square = ct_set_requires_grad(ones(c, CT_SHAPE(3, 3)), true),
                   .three = ones(c, CT_SHAPE(1, 3, 6)),
                   .linear =
                       ct_linear_new(c, (ct_linear_opts){.in_features = 3, .out_features = 3}),
                   .mha = ct_mha_new(c, (ct_mha_opts){.embed_dim = 6, .num_heads = 2}),
                   .encoder = ct_encoder_layer_new(c, layer),
                   .decoder = ct_decoder_layer_new(c, layer)};
}

static ct_tensor *with_mask(const given *x, ct_tensor *mask, ct_tensor *keys, bool weights) {
    ct_attention_out y =
        ct_attention(x->q, x->k, x->v,
                     (ct_attention_opts){.mask = mask, .key_mask = keys, .need_weights = weights});
    ck_assert(!weights || !y.out == !y.weights);
    return y.out;
}

static ct_tensor *masked_attention(const given *x, const given *y) {
    return with_mask(x, y->mask, NULL, false);
}
static ct_tensor *masked_weights(const given *x, const given *y) {
    return with_mask(x, y->mask, NULL, true);
}
static ct_tensor *hidden_keys(const given *x, const given *y) {
    return with_mask(x, NULL, y->keys, false);
}
static ct_tensor *hidden_weights(const given *x, const given *y) {
    return with_mask(x, NULL, y->keys, true);
}
static ct_tensor *keys_of(const given *x, const given *y) {
    return ct_attention(x->q, y->k, x->v, (ct_attention_opts){0}).out;
}
static ct_tensor *values_of(const given *x, const given *y) {
    return ct_attention(x->q, x->k, y->v, (ct_attention_opts){0}).out;
}
static ct_tensor *packed(const given *x, const given *y) {
    return ct_packed_attention(x->three, 2,
                               (ct_attention_opts){.mask = y->mask, .need_weights = true})
        .out;
}
static ct_tensor *softmax_last(const given *x, const given *y) {
    return ct_masked_softmax(x->matrix, y->mask, -1);
}
static ct_tensor *softmax_first(const given *x, const given *y) {
    return ct_masked_softmax(x->matrix, y->mask, 0);
}
static ct_tensor *linear_bias(const given *x, const given *y) {
    return ct_linear(x->matrix, x->square, y->row);
}
static ct_tensor *residual(const given *x, const given *y) {
    return ct_activated_linear(x->matrix, CT_RELU, x->square, NULL, y->matrix);
}
static ct_tensor *norm_bias(const given *x, const given *y) {
    return ct_layer_norm(x->matrix, x->row, y->row, 1e-5);
}
static ct_tensor *sum_of(const given *x, const given *y) { return ct_add(x->matrix, y->matrix); }
static ct_tensor *joined(const given *x, const given *y) {
    return ct_cat((ct_tensor *[]){x->matrix, y->matrix}, 2, 0);
}
static ct_tensor *stacked(const given *x, const given *y) {
    return ct_stack((ct_tensor *[]){x->matrix, y->matrix}, 2, 0);
}
static ct_tensor *chosen(const given *x, const given *y) {
    return ct_where(x->mask, x->matrix, y->matrix);
}
static ct_tensor *forwarded(const given *x, const given *y) {
    return ct_forward(x->linear, y->matrix);
}
static ct_tensor *mha_mask(const given *x, const given *y) {
    return ct_mha_forward(x->mha, x->three, NULL, NULL, (ct_mha_call){.mask = y->mask}).out;
}
static ct_tensor *layer_input(const given *x, const given *y) {
    return ct_encoder_layer_forward(x->encoder, y->three, (ct_mha_call){0}).out;
}
static ct_tensor *memory(const given *x, const given *y) {
    return ct_decoder_layer_forward(x->decoder, x->three, y->three, (ct_mha_call){0},
                                    (ct_mha_call){0})
        .out;
}

static ct_tensor *kept(const given *x, const given *y) {
    ct_scope scope = ct_scope_open(ct_context_of(x->matrix));
    ct_tensor *result = ct_scope_keep(scope, y->matrix);
    ct_scope_close(scope);
    return result;
}
static ct_tensor *returned(const given *x, const given *y) {
    return ct_scope_return(ct_scope_open(ct_context_of(x->matrix)), y->matrix);
}

static ct_tensor *theirs(void *self, ct_tensor *x) { return (void)x, self; }
static ct_tensor *users_forward(const given *x, const given *y) {
    ct_module *module =
        ct_module_set_forward(ct_module_new(ct_context_of(x->matrix), "mine"), theirs, y->matrix);
    return ct_forward(module, x->matrix);
}

static ct_tensor *first(ct_tensor *const *in, int n, void *arg) {
    return (void)n, (void)arg, in[0];
}
static ct_tensor *outside(ct_tensor *const *in, int n, void *arg) { return (void)n, (void)in, arg; }
static ct_tensor *checked(const given *x, const given *y) {
    ct_gradcheck_result r =
        ct_gradcheck(first, NULL, (ct_tensor *[]){x->matrix, y->matrix}, 2, (ct_gradcheck_opts){0});
    ck_assert(!r.ok && !r.ran);
    return NULL;
}
static ct_tensor *checked_result(const given *x, const given *y) {
    ct_gradcheck_result r =
        ct_gradcheck(outside, y->matrix, (ct_tensor *[]){x->matrix}, 1, (ct_gradcheck_opts){0});
    ck_assert(!r.ok && !r.ran);
    return NULL;
}
static ct_tensor *cotangent(const given *x, const given *y) {
    ct_tensor *out = ct_scale(x->square, 2), *g = y->matrix;
    return ct_backward_with(&out, &g, 1, (ct_backward_opts){0}) ? out : NULL;
}

#define ROW(name) {#name, name}
static const struct {
    const char *name;
    ct_tensor *(*compute)(const given *, const given *);
} rows[] = {ROW(masked_attention), ROW(masked_weights), ROW(hidden_keys),
            ROW(hidden_weights),   ROW(keys_of),        ROW(values_of),
            ROW(packed),           ROW(softmax_last),   ROW(softmax_first),
            ROW(linear_bias),      ROW(residual),       ROW(norm_bias),
            ROW(sum_of),           ROW(joined),         ROW(stacked),
            ROW(chosen),           ROW(forwarded),      ROW(mha_mask),
            ROW(layer_input),      ROW(memory),         ROW(kept),
            ROW(returned),         ROW(users_forward),  ROW(checked),
            ROW(checked_result),   ROW(cotangent)};
enum { ROWS = sizeof rows / sizeof *rows };

START_TEST(two_contexts_do_not_mix) {
    given of_a = made_in(a), of_b = made_in(b);
    ck_assert_int_eq(ct_error(a), CT_OK);
    for (int i = 0; i < ROWS; i++)
        for (int pending = 0; pending < 2;
             pending++) { /* an error pending in b, the context of the single tensor */
            if (pending) ct_fail(b, CT_ERR_IO, "an earlier fault");
            ck_assert_msg(!rows[i].compute(&of_a, &of_b), "%s: computed", rows[i].name);
            ck_assert_msg(ct_error(a) == CT_ERR_ARGUMENT && strstr(ct_error_message(a), "context"),
                          "%s, %d: \"%s\"", rows[i].name, pending, ct_error_message(a));
            ck_assert_msg(ct_error(b) == (pending ? CT_ERR_IO : ct_error(b)), "%s: \"%s\"",
                          rows[i].name, ct_error_message(b));
            ct_error_clear(a), ct_error_clear(b);
        }
}
END_TEST

/* With one context every row succeeds. */
START_TEST(one_context_is_right) {
    given x = made_in(a);
    for (int i = 0; i < ROWS; i++) {
        /* they are to fail */
        if (rows[i].compute == checked || rows[i].compute == checked_result) continue;
        ck_assert_msg(rows[i].compute(&x, &x), "%s: %s", rows[i].name, ct_error_message(a));
    }
}
END_TEST

int main(void) {
    return run_tests("contexts", setup, teardown,
                     TESTS(TEST(two_contexts_do_not_mix), TEST(one_context_is_right)));
}
