/* ct_layer_opts.recompute: every kind of layer, single and in stacks, gives the same bits as
 * without it, and keeps less. */
#include "src/autograd/recompute.h"

#include "tests/support/recompute_check.h"

enum { B = 2, T = 5, S = 7, E = 12 };

static int nodes_of(const ct_op *op) {
    int n = 0;
    for (const cti_node *node = context->tape_first; node; node = node->next)
        n += node->call.op == op;
    return n;
}
static int recomputed(void) { return nodes_of(&cti_op_recompute); }

static ct_layer_opts opts_of(bool recompute) {
    return (ct_layer_opts){.embed_dim = E, .num_heads = 3, .hidden = 10, .recompute = recompute};
}

static ct_tensor *input(int64_t length) {
    return ct_set_requires_grad(ct_randn(context, CT_F32, CT_SHAPE(B, length, E)), true);
}
static ct_tensor *key_mask(int64_t keys) {
    ct_tensor *mask = ct_ones(context, CT_BOOL, CT_SHAPE(B, keys));
    ct_data_bool(mask)[1] = false;
    return mask;
}

/* Backward of y from a random cotangent; the result is y and all gradients. */
static void finish(result *out, const ct_module *module, ct_tensor *y, ct_tensor *const *in,
                   int n) {
    no_error();
    ct_tensor *cotangent = ct_randn(context, CT_F32, ct_shape_of(y));
    ck_assert_msg(ct_backward_with(&y, &cotangent, 1, (ct_backward_opts){0}), "%s",
                  ct_error_message(context));
    result_clear(out);
    result_add(out, y);
    for (int i = 0; i < n; i++) result_add(out, ct_grad(in[i]));
    result_add_grads(out, module);
    result_add_rng(out, context);
}

/* ---- layers ---- */

/* Options and masks by the bits of `which`. A float mask has a gradient. */
static ct_layer_opts options(int which, bool recompute) {
    ct_layer_opts o = opts_of(recompute);
    o.dropout = which & 1 ? 0.2 : 0;
    o.norm_first = which & 2;
    o.activation = which & 4 ? CT_SILU : CT_GELU;
    o.gated = which & 4;
    o.attn.rope = which & 8, o.attn.qk_norm = which & 8, o.rms_norm = which & 8;
    o.attn.separate = which & 16, o.no_bias = which & 16;
    o.sandwich = o.norm_first && which & 4;
    o.parallel = o.norm_first && which & 16;
    if (which & 8) o.num_heads = 2, o.attn.num_kv_heads = 1;
    return o;
}

static void layer(int which, bool decoder, bool recompute, result *out) {
    ct_seed(context, 11);
    ct_scope scope = ct_scope_open(context);
    const ct_layer_opts o = options(which, recompute);
    ct_module *m = decoder ? ct_decoder_layer_new(context, o) : ct_encoder_layer_new(context, o);
    ct_tensor *x = input(T), *memory = input(S), *mask = NULL;
    ct_mha_call self = {.causal = which % 3 == 0}, cross = {0};
    if (which % 5 == 1)
        self.mask = mask = input(1), self.mask = ct_select(ct_select(mask, 0, 0), 0, 0);
    if (self.mask) self.mask = ct_narrow(self.mask, 0, 0, T); /* (T), for every query */
    if (which % 4 == 2) self.key_mask = key_mask(T), cross.key_mask = key_mask(S);
    ct_tensor *in[] = {x, mask ? mask : x, memory}, *tanh = ct_tanh(x);
    ct_layer_out y = decoder ? ct_decoder_layer_forward(m, tanh, memory, self, cross)
                             : ct_encoder_layer_forward(m, tanh, self);
    no_error();
    ck_assert_int_eq(recomputed(), recompute);
    ct_release(self.mask), ct_release(self.key_mask), ct_release(cross.key_mask);
    finish(out, m, ct_add(y.out, tanh), in, decoder ? 3 : 2);
    ct_module_free(m);
    ct_scope_close(scope);
}

START_TEST(layers) {
    static result want, got;
    for (int which = 0; which < 32; which++)
        for (int decoder = 0; decoder < 2; decoder++) {
            layer(which, decoder, false, &want);
            layer(which, decoder, true, &got);
            result_same(&want, &got);
        }
}
END_TEST

/* ---- stacks ---- */

typedef enum { ENCODER, DECODER, TRANSFORMER, CLONE, SAME_TWICE, KINDS } kind;

static void stack(kind which, bool recompute, result *out) {
    ct_seed(context, 3);
    ct_scope scope = ct_scope_open(context);
    ct_layer_opts o = options(3, recompute);
    ct_module *m, *first = NULL;
    if (which == DECODER) m = ct_decoder_new(context, o, 3, true);
    else if (which == TRANSFORMER) m = ct_transformer_new(context, (ct_transformer_opts){o, 2, 2});
    else m = ct_encoder_new(context, o, 3, true);
    if (which == CLONE) first = m, m = ct_module_clone(m);
    ct_tensor *x = input(T), *in[] = {x, input(S)}, *y = NULL;
    ct_stack_call call = {.self.causal = true};
    if (which == DECODER) y = ct_decoder_forward(m, x, in[1], call);
    else if (which == TRANSFORMER)
        y = ct_transformer_forward(m, in[1], x, (ct_stack_call){0}, call);
    else y = ct_encoder_forward(m, x, call);
    if (which == SAME_TWICE) y = ct_encoder_forward(m, y, call);
    no_error();
    ck_assert_int_eq(recomputed(), !recompute             ? 0
                                   : which == SAME_TWICE  ? 6
                                   : which == TRANSFORMER ? 4
                                                          : 3);
    finish(out, m, y, in, 2);
    ct_module_free(m);
    ct_module_free(first);
    ct_scope_close(scope);
}

START_TEST(stacks) {
    static result want, got;
    for (int threads = 1; threads <= 2; threads++)
        for (kind which = 0; which < KINDS; which++) {
            ct_set_threads(context, threads);
            stack(which, false, &want);
            stack(which, true, &got);
            result_same(&want, &got);
        }
}
END_TEST

/* Only inputs of layers are kept, and the peak of a step of many is much lower. */
START_TEST(memory) {
    enum { LAYERS = 8 };
    int64_t kept[2], peak[2];
    for (int recompute = 0; recompute < 2; recompute++) {
        ct_context *plain = context;
        context = ct_context_new((ct_context_opts){.threads = 1});
        const ct_layer_opts o = {.embed_dim = 64, .num_heads = 2, .recompute = recompute};
        ct_module *m = ct_encoder_new(context, o, LAYERS, false);
        ct_tensor *x = ct_randn(context, CT_F32, CT_SHAPE(4, 64, 64));
        const int64_t before = live();
        ct_tensor *y = ct_encoder_forward(m, x, (ct_stack_call){0});
        kept[recompute] = live() - before;
        ck_assert(ct_backward(ct_sum(y, CT_ALL, false)));
        peak[recompute] = ct_memory(context).peak - before;
        ct_context_free(context);
        context = plain;
    }
    const int64_t input = 4 * 64 * 64 * sizeof(float);
    ck_assert_msg(kept[1] < LAYERS * (input * 9 / 8 + 8192) + input, "%lld", (long long)kept[1]);
    ck_assert_msg(peak[1] < peak[0] / 2, "%lld of %lld", (long long)peak[1], (long long)peak[0]);
}
END_TEST

/* ---- runs that record nothing ---- */

START_TEST(evaluation_caches_and_weights) {
    ct_module *m = ct_encoder_new(context, opts_of(true), 2, false);
    ct_tensor *x = input(T), *weights[2];
    ct_kv_cache *caches[2];
    ct_encoder_forward(m, x, (ct_stack_call){.self_weights = weights});
    ck_assert(recomputed() == 0 && weights[0] && ct_requires_grad(weights[1]));
    ck_assert(ct_kv_caches_new(m, B, T, caches, 2));
    ct_tensor *whole = ct_encoder_forward(m, x, (ct_stack_call){.self.causal = true}), *last = NULL;
    ck_assert_int_eq(recomputed(), 2);
    for (int t = 0; t < T; t++)
        last = ct_encoder_forward(m, ct_narrow(x, 1, t, 1),
                                  (ct_stack_call){.self.causal = true, .caches = caches});
    ck_assert_int_eq(recomputed(), 2);
    ck_assert(distance(last, ct_narrow(whole, 1, T - 1, 1)) < 1e-5);
    ct_module_train(m, false);
    ck_assert_ptr_nonnull(ct_encoder_forward(m, x, (ct_stack_call){0}));
    ck_assert_int_eq(recomputed(), 2);
    for (int i = 0; i < 2; i++) ct_kv_cache_free(caches[i]);
}
END_TEST

/* ---- children of one's own, ids, what changes in between ---- */

static ct_tensor *scaled(void *self, ct_tensor *x) {
    return ct_mul(ct_forward(ct_module_child(self, "was"), x), ct_module_get(self, "scale"));
}

static void own_child(bool recompute, result *out) {
    ct_seed(context, 8);
    ct_scope scope = ct_scope_open(context);
    ct_module *m = ct_encoder_new(context, options(1, recompute), 2, true);
    ct_module *own = ct_module_new(context, "Scaled");
    ct_module *was = ct_module_set_child(m, "layers.1.linear1", own);
    ct_module_add_child(own, "was", was);
    ct_module_add_param(own, "scale", ct_rand(context, CT_F32, CT_SHAPE(10)));
    ct_module_set_forward(own, scaled, own);
    for (ct_param p = {0}; ct_module_next(m, &p);) /* frozen but for it, and for layer 1's norms */
        if (!strstr(p.name, "scale") && !strstr(p.name, "1.norm"))
            ct_set_requires_grad(p.tensor, false);
    ct_tensor *x = ct_randn(context, CT_F32, CT_SHAPE(B, T, E)), /* has no gradient */
        *y = ct_encoder_forward(m, x, (ct_stack_call){0});
    ck_assert_int_eq(recomputed(), recompute); /* nothing of layer 0 has a gradient */
    finish(out, m, y, NULL, 0);
    ct_module_free(m);
    ct_scope_close(scope);
}
START_TEST(children_of_ones_own) {
    static result want, got;
    own_child(false, &want);
    own_child(true, &got);
    result_same(&want, &got);
    ck_assert_int_gt(got.lacking, 0);
}
END_TEST

START_TEST(a_layer_that_cannot_do_it_again) {
    ct_module *m = ct_encoder_layer_new(context, opts_of(true));
    ct_tensor *x = input(T), *y = ct_encoder_layer_forward(m, x, (ct_mha_call){0}).out;
    ct_module_train(m, false);
    ck_refused(ct_backward(ct_sum(y, CT_ALL, false)), CT_ERR_GRAD,
               "second run: TransformerEncoderLayer: ", "in training");
    ct_module_train(m, true);
    ck_assert_msg(ct_backward(ct_sum(y, CT_ALL, false)), "%s", ct_error_message(context));
    y = ct_encoder_layer_forward(m, x, (ct_mha_call){0}).out;
    ct_module_free(m);
    ck_refused(ct_backward(ct_sum(y, CT_ALL, false)), CT_ERR_ARGUMENT,
               "second run: TransformerEncoderLayer: ", "freed");
}
END_TEST

START_TEST(errors_name_the_layer) {
    ct_module *m = ct_decoder_new(context, opts_of(true), 2, false);
    ct_tensor *x = input(T);
    ck_refused(ct_decoder_layer_forward(ct_module_child(m, "layers.1"), x, NULL, (ct_mha_call){0},
                                        (ct_mha_call){0})
                   .out,
               CT_ERR_ARGUMENT, "layers.1: TransformerDecoderLayer: ", "memory is NULL");
    ck_refused(ct_decoder_layer_forward(ct_module_child(m, "layers.1"), NULL, x, (ct_mha_call){0},
                                        (ct_mha_call){0})
                   .out,
               CT_ERR_ARGUMENT, "layers.1: TransformerDecoderLayer: ", "x is NULL");
    ct_tensor *wide = ct_ones(context, CT_F32, CT_SHAPE(B, T, E + 1));
    ck_refused(ct_decoder_forward(m, x, wide, (ct_stack_call){0}), CT_ERR_SHAPE, "memory",
               "(2, 5, 13)");
    ck_refused(ct_decoder_layer_forward(ct_module_child(m, "layers.1"), wide, x, (ct_mha_call){0},
                                        (ct_mha_call){0})
                   .out,
               CT_ERR_SHAPE, "layers.1: TransformerDecoderLayer: ", "(2, 5, 13)");
}
END_TEST

int main(void) {
    return run_tests("recompute, layers", setup, teardown,
                     TESTS(TEST(layers), TEST(stacks), TEST(memory),
                           TEST(evaluation_caches_and_weights), TEST(children_of_ones_own),
                           TEST(a_layer_that_cannot_do_it_again), TEST(errors_name_the_layer)));
}
