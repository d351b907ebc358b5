/* Stacks of layers: torch's names, equality with the layers run one by one, caches, gated
 * feed-forwards. */
#include "tests/support/nn_check.h"

static const ct_layer_opts plain = {.embed_dim = 8, .num_heads = 2, .hidden = 12, .dtype = CT_F64};
static const ct_layer_opts gpt2 = {.embed_dim = 8,
                                   .num_heads = 2,
                                   .activation = CT_GELU_TANH,
                                   .norm_first = true,
                                   .dtype = CT_F64};
static const ct_layer_opts llama = {
    .embed_dim = 16,
    .num_heads = 4,
    .hidden = 20,
    .activation = CT_SILU,
    .gated = true,
    .rms_norm = true,
    .norm_first = true,
    .no_bias = true,
    .dtype = CT_F64,
    .attn = {.num_kv_heads = 2, .rope = true, .rotary = {.base = 1000}, .qk_norm = true}};

static ct_module *shake(ct_module *module) { /* no bias is zero, no norm one */
    no_error();
    for (ct_param p = {0}; ct_module_next(module, &p);)
        if (ct_ndim(p.tensor) == 1) ct_init_normal(p.tensor, 0.5, 0.5);
    return module;
}

static bool has(ct_module *module, const char *name) {
    for (ct_param p = {0}; ct_module_next(module, &p);)
        if (!strcmp(p.name, name)) return true;
    return false;
}

static ct_tensor *run(ct_module *module, const char *child, ct_tensor *x) {
    return ct_forward(ct_module_child(module, child), x);
}

static ct_module *layer_of(ct_module *stack, int i) {
    char name[24];
    snprintf(name, sizeof name, "layers.%d", i);
    return ct_module_child(stack, name);
}

static void all_have_gradients(ct_module *module, ct_tensor *out) {
    ck_assert(ct_backward(ct_sum(ct_mul(out, randn(ct_shape_of(out))), CT_ALL, false)));
    for (ct_param p = {0}; ct_module_next(module, &p);)
        ck_assert_msg(ct_grad(p.tensor) && largest(ct_grad(p.tensor)) > 0, "%s", p.name);
}

/* ---- structure ---- */

START_TEST(names_are_torchs) {
    ct_module *t = ct_transformer_new(
        context,
        (ct_transformer_opts){.layer = plain, .num_encoder_layers = 2, .num_decoder_layers = 3});
    const char *const names[] = {"encoder.layers.0.self_attn.in_proj_weight",
                                 "encoder.layers.1.linear2.bias",
                                 "encoder.norm.weight",
                                 "decoder.layers.0.multihead_attn.out_proj.bias",
                                 "decoder.layers.2.norm3.bias",
                                 "decoder.norm.bias"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        ck_assert_msg(has(t, names[i]), "%s", names[i]);
    ck_assert(!has(t, "encoder.layers.2.norm1.weight") && !has(t, "decoder.layers.3.norm1.weight"));
    ck_assert(!has(ct_encoder_new(context, plain, 1, false), "norm.weight"));
    ct_module *of_rms = ct_encoder_new(context, llama, 1, true);
    ck_assert(has(of_rms, "norm.weight") && !has(of_rms, "norm.bias") &&
              has(of_rms, "layers.0.gate.weight"));
    ck_assert(has(of_rms, "layers.0.self_attn.q_norm.weight"));
    int64_t own = ct_module_count(ct_encoder_layer_new(context, plain)), norm = 2 * 8;
    ck_assert_int_eq(ct_module_count(ct_encoder_new(context, plain, 3, true)), 3 * own + norm);
    ct_module *six = ct_transformer_new(context, (ct_transformer_opts){.layer = plain});
    ck_assert(has(six, "encoder.layers.5.norm1.bias") && has(six, "decoder.layers.5.norm1.bias") &&
              !has(six, "decoder.layers.6.norm1.bias"));
    for (ct_param p = {0}; ct_module_next(t, &p);) { /* xavier_uniform, each matrix */
        if (ct_ndim(p.tensor) != 2) continue;
        double bound = sqrt(6.0 / (double)(ct_dim(p.tensor, 0) + ct_dim(p.tensor, 1))),
               most = largest(p.tensor);
        ck_assert_msg(most <= bound && most > bound * 0.8, "%s: %g of %g", p.name, most, bound);
    }
}
END_TEST

START_TEST(a_stack_is_its_layers) {
    ct_tensor *x = randn(CT_SHAPE(2, 5, 8)), *memory = randn(CT_SHAPE(2, 3, 8)),
              *mask = randn(CT_SHAPE(5, 5));
    bool real[] = {true, true, false, true, true, true};
    ct_mha_call self = {.mask = mask, .causal = true, .per_head = true},
                cross = {.key_mask = ct_from_bool(context, CT_SHAPE(2, 3), real)};
    for (int which = 0; which < 4; which++) {
        bool decoder = which & 1, norm = which & 2;
        ct_layer_opts opts = norm ? gpt2 : plain;
        ct_module *stack = shake(decoder ? ct_decoder_new(context, opts, 3, norm)
                                         : ct_encoder_new(context, opts, 3, norm));
        ct_tensor *self_weights[3], *cross_weights[3], *h = x;
        ct_stack_call call = {.self = self, .self_weights = self_weights};
        if (decoder) call.cross = cross, call.cross_weights = cross_weights;
        ct_tensor *y = decoder ? ct_decoder_forward(stack, x, memory, call)
                               : ct_encoder_forward(stack, x, call);
        for (int i = 0; i < 3; i++) {
            ct_mha_call s = self, c = cross;
            s.need_weights = c.need_weights = true;
            ct_layer_out out = decoder
                                   ? ct_decoder_layer_forward(layer_of(stack, i), h, memory, s, c)
                                   : ct_encoder_layer_forward(layer_of(stack, i), h, s);
            ck_assert_double_lt(distance(self_weights[i], out.self_weights), 1e-13);
            if (decoder) ck_assert_double_lt(distance(cross_weights[i], out.cross_weights), 1e-13);
            h = out.out;
        }
        if (norm) h = run(stack, "norm", h);
        ck_assert_double_lt(distance(y, h), 1e-12);
        call.self_weights = call.cross_weights = NULL; /* without weights the same */
        y = decoder ? ct_decoder_forward(stack, x, memory, call)
                    : ct_encoder_forward(stack, x, call);
        ck_assert_double_lt(distance(y, h), 1e-12);
        all_have_gradients(stack, y);
        if (!decoder)
            ck_assert_double_eq(
                distance(ct_forward(stack, x), ct_encoder_forward(stack, x, (ct_stack_call){0})),
                0);
    }
}
END_TEST

START_TEST(a_transformer_is_both) {
    ct_module *t = shake(ct_transformer_new(
        context,
        (ct_transformer_opts){.layer = plain, .num_encoder_layers = 2, .num_decoder_layers = 1}));
    ct_tensor *src = randn(CT_SHAPE(2, 4, 8)), *tgt = randn(CT_SHAPE(2, 5, 8));
    bool real[] = {true, true, false, true, true, true, true, false};
    ct_tensor *key_mask = ct_from_bool(context, CT_SHAPE(2, 4), real), *weights[3];
    ct_stack_call encoder = {.self.key_mask = key_mask, .self_weights = weights},
                  decoder = {.self.causal = true, .cross.key_mask = key_mask};
    decoder.cross_weights = weights + 2;
    ct_tensor *y = ct_transformer_forward(t, src, tgt, encoder, decoder);
    ct_tensor *memory = ct_encoder_forward(ct_module_child(t, "encoder"), src, encoder);
    ck_assert_double_eq(
        distance(y, ct_decoder_forward(ct_module_child(t, "decoder"), tgt, memory, decoder)), 0);
    ck_assert_int_eq(ct_dim(weights[1], 2), 4);
    ck_assert_int_eq(ct_dim(weights[2], 1), 5);
    all_have_gradients(t, y);
}
END_TEST

/* A layer with gate and rms_norm against its formula. */
START_TEST(gated_layers) {
    ct_module *layer = shake(ct_encoder_layer_new(context, llama));
    ct_tensor *x = randn(CT_SHAPE(2, 5, 16));
    ct_tensor *n1 = ct_rms_norm(x, ct_module_get(layer, "norm1.weight"), 1e-5);
    ct_tensor *h = ct_add(x, ct_mha_forward(ct_module_child(layer, "self_attn"), n1, NULL, NULL,
                                            (ct_mha_call){.causal = true})
                                 .out);
    ct_tensor *n2 = ct_rms_norm(h, ct_module_get(layer, "norm2.weight"), 1e-5);
    ct_tensor *inner = ct_mul(ct_silu(run(layer, "gate", n2)), run(layer, "linear1", n2));
    ct_tensor *y = ct_encoder_layer_forward(layer, x, (ct_mha_call){.causal = true}).out;
    ck_assert_double_lt(distance(y, ct_add(h, run(layer, "linear2", inner))), 1e-13);
    all_have_gradients(layer, y);
    ck_assert(!has(layer, "linear1.bias") && !has(layer, "gate.bias") && !has(layer, "norm1.bias"));
    /* with rope the order of tokens matters */
    ct_tensor *reversed[5], *straight = ct_encoder_layer_forward(layer, x, (ct_mha_call){0}).out;
    for (int i = 0; i < 5; i++) reversed[i] = ct_select(x, 1, 4 - i);
    ct_tensor *last = ct_select(
        ct_encoder_layer_forward(layer, ct_stack(reversed, 5, 1), (ct_mha_call){0}).out, 1, 4);
    ck_assert_double_gt(distance(last, ct_select(straight, 1, 0)), 1e-6);
    ck_assert_int_eq(ct_dim(ct_module_get(layer, "self_attn.k_proj_weight"), 0), 8);

    /* cross-attention has no positions */
    ct_module *cross = ct_decoder_layer_new(context, llama);
    ct_tensor *memory = randn(CT_SHAPE(2, 3, 16)), *back[3];
    for (int i = 0; i < 3; i++) back[i] = ct_select(memory, 1, 2 - i);
    ct_mha_call none = {0};
    ck_assert_double_lt(
        distance(ct_decoder_layer_forward(cross, x, memory, none, none).out,
                 ct_decoder_layer_forward(cross, x, ct_stack(back, 3, 1), none, none).out),
        1e-12);

    for (int i = 0; i < CT_QUICK_GELU + 1; i++) {
        const ct_activation a = (ct_activation)i;
        ct_module *m = ct_mlp_new(
            context,
            (ct_mlp_opts){.dim = 3, .hidden = 7, .activation = a, .gated = true, .dtype = CT_F64});
        ct_tensor *z = randn(CT_SHAPE(2, 3)), *g = run(m, "gate", z);
        ck_assert_double_eq(
            distance(ct_forward(m, z), run(m, "proj", ct_mul(ct_activate(g, a), run(m, "fc", z)))),
            0);
    }
}
END_TEST

/* ---- with caches ---- */

static void free_all(ct_kv_cache **caches, int n) {
    for (int i = 0; i < n; i++) ct_kv_cache_free(caches[i]);
}

START_TEST(caches_change_nothing) {
    enum { N = 7, LAYERS = 3 };
    const ct_layer_opts all[] = {plain, gpt2, llama};
    for (size_t which = 0; which < 2 * sizeof all / sizeof *all; which++)
        for (int64_t first = 1; first <= 5; first += 4) { /* a prefill, then tokens */
            const bool decoder = which & 1;
            ct_layer_opts opts = all[which / 2];
            ct_module *stack = shake(decoder ? ct_decoder_new(context, opts, LAYERS, true)
                                             : ct_encoder_new(context, opts, LAYERS, true));
            ct_tensor *x = randn(CT_SHAPE(2, N, opts.embed_dim)),
                      *memory = randn(CT_SHAPE(2, opts.embed_dim + 3, opts.embed_dim));
            ct_kv_cache *caches[LAYERS];
            ck_assert(ct_kv_caches_new(stack, 2, N, caches, LAYERS));
            ct_stack_call call = {.self.causal = true};
            ct_tensor *whole = decoder ? ct_decoder_forward(stack, x, memory, call)
                                       : ct_encoder_forward(stack, x, call);
            call.caches = caches;
            ct_scope scope = ct_scope_open_no_grad(context);
            for (int64_t at = 0, t = first; at < N; at += t, t = 1) {
                ct_tensor *part = ct_narrow(x, 1, at, t);
                ct_tensor *y = decoder ? ct_decoder_forward(stack, part, memory, call)
                                       : ct_encoder_forward(stack, part, call);
                ck_assert_double_lt(distance(y, ct_narrow(whole, 1, at, t)), 1e-12);
                for (int i = 0; i < LAYERS; i++)
                    ck_assert_int_eq(ct_kv_cache_length(caches[i]), at + t);
            }
            ct_scope_close(scope);
            free_all(caches, LAYERS);
        }
}
END_TEST

/* Modules and tensors for the tests below: stacks of two layers, a transformer, an input that fits,
 * and a mask that does not. */
static struct {
    ct_module *encoder, *decoder, *transformer;
    ct_tensor *x, *mask;
} two;

static void make_two(void) {
    two.encoder = ct_encoder_new(context, plain, 2, true);
    two.decoder = ct_decoder_new(context, plain, 2, true);
    two.transformer = ct_transformer_new(
        context,
        (ct_transformer_opts){.layer = plain, .num_encoder_layers = 1, .num_decoder_layers = 1});
    two.x = randn(CT_SHAPE(2, 3, 8));
    two.mask = ct_ones(context, CT_BOOL, CT_SHAPE(3, 3));
    no_error();
}

START_TEST(caches_are_checked) {
    make_two();
    ct_module *e = two.encoder;
    ct_kv_cache *caches[2];
    ck_refused(ct_kv_caches_new(e, 2, 4, caches, 3), CT_ERR_ARGUMENT, "3 caches", "2 layers");
    ck_refused(ct_kv_caches_new(layer_of(e, 0), 2, 4, caches, 1), CT_ERR_ARGUMENT,
               "TransformerEncoderLayer", "TransformerDecoder");
    ck_refused(ct_kv_caches_new(e, 2, 4, NULL, 2), CT_ERR_ARGUMENT, "0 caches", "2 layers");
    ck_assert(!ct_kv_caches_new(NULL, 2, 4, caches, 2));
    const int64_t live = ct_memory(context).live;
    caches[0] = caches[1] = (ct_kv_cache *)&two; /* anything */
    ck_refused(ct_kv_caches_new(e, 2, -4, caches, 2), CT_ERR_ARGUMENT, "-4", "");
    ck_assert(!caches[0] && !caches[1]);
    ck_assert_int_eq(ct_memory(context).live, live);
    ck_assert(ct_kv_caches_new(e, 2, 4, caches, 2));
    free_all(caches, 2);
}
END_TEST

START_TEST(calls_with_caches_are_checked) {
    make_two();
    ct_module *e = two.encoder;
    ct_tensor *x = two.x, *weights[2];
    ct_kv_cache *caches[2];
    ck_assert(ct_kv_caches_new(e, 2, 4, caches, 2));
    ct_kv_cache *const one = caches[1];
    caches[1] = NULL;
    ck_refused(ct_encoder_forward(e, x, (ct_stack_call){.caches = caches}), CT_ERR_ARGUMENT,
               "layer 1 is NULL", "");
    caches[1] = caches[0]; /* an error only when layer 1 runs */
    ck_refused(ct_encoder_forward(e, x, (ct_stack_call){.caches = caches, .self_weights = weights}),
               CT_ERR_ARGUMENT, "another module", "");
    ck_assert_int_eq(ct_kv_cache_length(caches[0]), 0);
    ck_assert(!weights[0] && !weights[1]);
    caches[1] = one;
    ck_assert_ptr_nonnull(ct_encoder_forward(e, x, (ct_stack_call){.caches = caches}));
    ck_assert(ct_kv_cache_truncate(caches[1], 1));
    ck_refused(ct_encoder_forward(e, ct_narrow(x, 1, 0, 1), (ct_stack_call){.caches = caches}),
               CT_ERR_ARGUMENT, "layers 0 and 1", "3 and 1");
    ck_assert(ct_kv_cache_truncate(caches[0], 1));
    ck_refused(ct_encoder_forward(e, x, (ct_stack_call){.caches = caches, .self.mask = two.mask}),
               CT_ERR_SHAPE, "the mask is (3, 3)", "(3, 4)");
    ck_refused(ct_encoder_forward(e, x, (ct_stack_call){.self.cache = caches[0]}), CT_ERR_ARGUMENT,
               "TransformerEncoder", "caches");
    ck_refused(ct_transformer_forward(two.transformer, x, x, (ct_stack_call){.caches = caches},
                                      (ct_stack_call){0}),
               CT_ERR_ARGUMENT, "without caches", "");
    free_all(caches, 2);
}
END_TEST

START_TEST(calls_are_checked) {
    make_two();
    ct_module *e = two.encoder, *d = two.decoder, *t = two.transformer;
    ct_tensor *x = two.x, *weights[2];
    ck_refused(ct_encoder_forward(e, x, (ct_stack_call){.self.need_weights = true}),
               CT_ERR_ARGUMENT, "need_weights", "self_weights");
    ck_refused(ct_encoder_forward(e, x, (ct_stack_call){.cross_weights = weights}), CT_ERR_ARGUMENT,
               "cross_weights", "");
    ck_refused(ct_encoder_forward(d, x, (ct_stack_call){0}), CT_ERR_ARGUMENT, "ct_encoder_forward",
               "TransformerDecoder");
    ck_refused(ct_decoder_forward(d, x, NULL, (ct_stack_call){0}), CT_ERR_ARGUMENT,
               "TransformerDecoder", "memory is NULL");
    ck_refused(ct_encoder_forward(e, randn(CT_SHAPE(2, 3, 7)), (ct_stack_call){0}), CT_ERR_SHAPE,
               "TransformerEncoder:", "(2, 3, 7)");
    ck_refused(
        ct_transformer_forward(t, x, randn(CT_SHAPE(2, 8)), (ct_stack_call){0}, (ct_stack_call){0}),
        CT_ERR_SHAPE, "Transformer: expected tgt", "(2, 8)");
    ck_refused(
        ct_transformer_forward(t, randn(CT_SHAPE(2, 8)), x, (ct_stack_call){0}, (ct_stack_call){0}),
        CT_ERR_SHAPE, "Transformer: expected src", "(2, 8)");
    ck_refused(ct_decoder_forward(d, x, randn(CT_SHAPE(2, 3, 8, 1)), (ct_stack_call){0}),
               CT_ERR_SHAPE, "TransformerDecoder: expected memory", "(2, 3, 8, 1)");
    ck_refused(ct_decoder_forward(d, randn(CT_SHAPE(2, 3)), x, (ct_stack_call){0}), CT_ERR_SHAPE,
               "TransformerDecoder: expected x", "(2, 3)");
    ck_refused(ct_decoder_layer_forward(layer_of(d, 0), randn(CT_SHAPE(2, 3)), x, (ct_mha_call){0},
                                        (ct_mha_call){0})
                   .out,
               CT_ERR_SHAPE, "TransformerDecoderLayer: expected x", "(2, 3)");
    ck_refused(ct_decoder_layer_forward(layer_of(d, 0), x, randn(CT_SHAPE(2, 3)), (ct_mha_call){0},
                                        (ct_mha_call){0})
                   .out,
               CT_ERR_SHAPE, "TransformerDecoderLayer: expected memory", "(2, 3)");
    ck_refused(
        ct_encoder_layer_forward(layer_of(e, 0), randn(CT_SHAPE(2, 3)), (ct_mha_call){0}).out,
        CT_ERR_SHAPE, "TransformerEncoderLayer: expected x", "(2, 3)");
}
END_TEST

/* A call that fails in its middle gives back what it had made. */
START_TEST(a_call_that_fails_leaves_nothing) {
    make_two();
    ct_module *t = two.transformer;
    ct_tensor *x = two.x, *mask = two.mask, *weights[2];
    const ct_layer_out none = ct_decoder_layer_forward(
        layer_of(two.decoder, 0), x, x, (ct_mha_call){.need_weights = true},
        (ct_mha_call){.need_weights = true, .key_mask = mask});
    ck_assert(!none.out && !none.self_weights && !none.cross_weights);
    expect(CT_ERR_SHAPE, "the key mask is (3, 3)", "(2, 3)");
    ct_scope scope = ct_scope_open(context);
    const int64_t live =
        ct_memory(context).live; /* if the decoder fails, the encoder's result is freed */
    ck_refused(ct_transformer_forward(t, x, x, (ct_stack_call){.self_weights = weights},
                                      (ct_stack_call){.cross.mask = mask, .self.key_mask = mask}),
               CT_ERR_SHAPE, "the key mask is (3, 3)", "(2, 3)");
    ck_assert_ptr_null(weights[0]);
    ck_assert_int_eq(ct_memory(context).live, live);
    ck_refused(
        ct_transformer_forward(t, x, x, (ct_stack_call){0}, (ct_stack_call){.self.key_mask = mask}),
        CT_ERR_SHAPE, "the key mask is (3, 3)", "(2, 3)");
    ct_scope_close(scope);
}
END_TEST

START_TEST(constructors_are_checked) {
    const int64_t live = ct_memory(context).live;
    ck_refused(ct_encoder_new(context, plain, 0, true), CT_ERR_ARGUMENT, "num_layers is 0",
               "at least 1");
    ck_refused(ct_decoder_new(context,
                              (ct_layer_opts){.embed_dim = 6, .num_heads = 2, .attn.rope = true}, 2,
                              true),
               CT_ERR_ARGUMENT, "head_dim", "odd");
    ck_refused(ct_encoder_new(
                   context, (ct_layer_opts){.embed_dim = 8, .num_heads = 4, .attn.num_kv_heads = 3},
                   2, true),
               CT_ERR_ARGUMENT, "num_heads 4", "num_kv_heads 3");
    ck_refused(ct_transformer_new(context, (ct_transformer_opts){.layer = plain,
                                                                 .num_encoder_layers = -1,
                                                                 .num_decoder_layers = 2}),
               CT_ERR_ARGUMENT, "num_encoder_layers", "-1");
    ck_assert_int_eq(ct_memory(context).live, live);
}
END_TEST

/* ---- memory ---- */

START_TEST(tokens_allocate_nothing) {
    enum { LAYERS = 2, LENGTH = 200 };
    ct_layer_opts opts = llama;
    opts.dtype = CT_F32;
    ct_module *stack = ct_encoder_new(context, opts, LAYERS, true);
    ct_kv_cache *caches[LAYERS];
    ck_assert(ct_kv_caches_new(stack, 2, LENGTH, caches, LAYERS));
    ct_tensor *x = ct_randn(context, CT_F32, CT_SHAPE(2, LENGTH, 16));
    int64_t calls = 0;
    for (int64_t at = 0; at < LENGTH; at++) {
        ct_scope scope = ct_scope_open_no_grad(context);
        ck_assert_ptr_nonnull(ct_encoder_forward(
            stack, ct_narrow(x, 1, at, 1), (ct_stack_call){.self.causal = true, .caches = caches}));
        ct_scope_close(scope);
        if (at == 0) calls = ct_memory(context).allocator_calls;
        ck_assert_int_eq(ct_memory(context).allocator_calls, calls);
    }
    free_all(caches, LAYERS);
}
END_TEST

/* Without recording a stack needs no more memory than one layer. */
START_TEST(layers_give_their_inputs_back) {
    int64_t peak[2];
    for (int deep = 0; deep < 2; deep++) {
        ct_module *stack = ct_encoder_new(context, plain, deep ? 12 : 3, true);
        ct_scope scope = ct_scope_open_no_grad(context);
        ct_tensor *x = randn(CT_SHAPE(2, 64, 8));
        int64_t live = ct_memory(context).live;
        ct_memory_reset_peak(context);
        ck_assert_ptr_nonnull(ct_encoder_forward(stack, x, (ct_stack_call){0}));
        peak[deep] = ct_memory(context).peak - live;
        ct_scope_close(scope);
    }
    ck_assert_int_eq(peak[0], peak[1]);
}
END_TEST

static ct_module *make_any(ct_context *c, int which) {
    ct_layer_opts opts = which == 1 ? llama : (ct_layer_opts){.embed_dim = 64, .num_heads = 4};
    if (which == 1) opts.embed_dim = 64;
    return which == 2 ? ct_transformer_new(c, (ct_transformer_opts){.layer = opts,
                                                                    .num_encoder_layers = 1,
                                                                    .num_decoder_layers = 1})
                      : ct_encoder_new(c, opts, 2, true);
}

START_TEST(a_failed_constructor_leaves_nothing) { constructors_leave_nothing(make_any, 3, 5); }
END_TEST

typedef struct {
    ct_module *stack;
    ct_kv_cache *caches[2];
} stack_caches;

static bool make_caches(void *arg) {
    stack_caches *s = arg;
    s->caches[0] = s->caches[1] = arg; /* anything */
    return ct_kv_caches_new(s->stack, 2, 100, s->caches, 2);
}
static void check_caches(const fault_end *end, void *arg) {
    const stack_caches *s = arg;
    FAULT_CK(end, end->done || (!s->caches[0] && !s->caches[1]));
}

START_TEST(caches_that_cannot_be_leave_none) {
    ct_context *c = refusing_context();
    stack_caches s = {.stack = ct_encoder_new(c, plain, 2, false)};
    memory_sweep((fault_case){.name = "caches",
                              .context = &c,
                              .arg = &s,
                              .run = make_caches,
                              .end = check_caches,
                              .least = 4,
                              .most = 100});
    free_all(s.caches, 2);
    ct_context_free(c);
}
END_TEST

int main(void) {
    return run_tests(
        "transformer", setup, teardown,
        TESTS(TEST(names_are_torchs), TEST(a_stack_is_its_layers), TEST(a_transformer_is_both),
              TEST(gated_layers), TEST(caches_change_nothing), TEST(caches_are_checked),
              TEST(calls_with_caches_are_checked), TEST(calls_are_checked),
              TEST(a_call_that_fails_leaves_nothing), TEST(constructors_are_checked),
              TEST(tokens_allocate_nothing), TEST(layers_give_their_inputs_back),
              TEST(a_failed_constructor_leaves_nothing), TEST(caches_that_cannot_be_leave_none)));
}
