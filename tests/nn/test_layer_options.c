/* Layers of later models: options of their attention, norms after the sublayers, parallel
 * sublayers; and stacks whose layers differ. Values and gradients are compared with a composition
 * of elementary ops. */
#include "tests/attention/layer_model.h"

#include <unistd.h>

enum { B = 2, T = 5, S = 3, E = 8, LAYERS = 3 };

static const ct_layer_opts all[] = {
    {.num_heads = 2},
    {.num_heads = 2, .activation = CT_GELU_TANH, .norm_first = true}, /* GPT-2 */
    /* Llama, Qwen2, Qwen3 */
    {.num_heads = 4,
     .hidden = 10,
     .activation = CT_SILU,
     .norm_first = true,
     .no_bias = true,
     .rms_norm = true,
     .gated = true,
     .attn = {.num_kv_heads = 2, .rope = true}},
    {.num_heads = 2,
     .hidden = 6,
     .activation = CT_SILU,
     .norm_first = true,
     .eps = 1e-6,
     .no_bias = true,
     .rms_norm = true,
     .gated = true,
     .attn = {.num_kv_heads = 1, .rope = true, .separate = true, .bias = CT_BIAS_QKV}},
    {.num_heads = 4,
     .hidden = 6,
     .activation = CT_SILU,
     .norm_first = true,
     .eps = 0.3,
     .no_bias = true,
     .rms_norm = true,
     .gated = true,
     .attn = {.num_kv_heads = 2, .head_dim = 6, .rope = true, .qk_norm = true, .separate = true}},
    /* Gemma 3 */
    {.num_heads = 2,
     .hidden = 9,
     .activation = CT_GELU_TANH,
     .norm_first = true,
     .no_bias = true,
     .rms_norm = true,
     .gated = true,
     .norm_offset = 1,
     .sandwich = true,
     .attn = {.num_kv_heads = 1,
              .head_dim = 6,
              .scale = 0.2,
              .rope = true,
              .qk_norm = true,
              .qk_norm_offset = 1}},
    /* Pythia */
    {.num_heads = 2,
     .activation = CT_GELU,
     .norm_first = true,
     .parallel = true,
     .attn = {.rope = true}},
    /* both, and options that no model has */
    {.num_heads = 2, .norm_first = true, .parallel = true, .sandwich = true, .eps = 0.1},
    {.num_heads = 2, .attn = {.add_bias_kv = true, .qk_norm = true, .qk_norm_eps = 0.5}},
    {.num_heads = 2,
     .norm_first = true,
     .sandwich = true,
     .gated = true,
     .attn = {.add_zero_attn = true, .head_dim = 3, .bias = CT_BIAS_NONE, .kdim = E, .vdim = E}},
};
enum { ALL = sizeof all / sizeof *all };

static ct_layer_opts opts_at(int i) {
    ct_layer_opts o = all[i];
    o.embed_dim = E, o.dtype = CT_F64;
    return o;
}

/* ---- layers ---- */

static void compare_layer(int which, bool decoder, bool causal, bool recompute) {
    char what[64];
    snprintf(what, sizeof what, "options %d%s", which, decoder ? ", decoder" : "");
    ct_layer_opts o = opts_at(which);
    o.recompute = recompute;
    ct_module *m =
        shaken(decoder ? ct_decoder_layer_new(context, o) : ct_encoder_layer_new(context, o));
    ct_tensor *in[] = {leaf(CT_SHAPE(B, T, E)), leaf(CT_SHAPE(B, S, E))}, *memory = in[1];
    const ct_mha_call call = {.causal = causal};
    ct_tensor *y = decoder ? ct_decoder_layer_forward(m, in[0], memory, call, (ct_mha_call){0}).out
                           : ct_encoder_layer_forward(m, in[0], call).out;
    const results got = results_of(m, &y, 1, in, 1 + decoder);
    ct_tensor *z = model_layer(m, &o, in[0], decoder ? memory : NULL,
                               causal ? ct_causal_mask(context, T, T) : NULL);
    const results want = results_of(m, &z, 1, in, 1 + decoder);
    results_same(what, &got, &want, 1e-12);
    ct_module_free(m);
}

START_TEST(layers_equal_their_formula) {
    setup();
    for (int flags = 0; flags < 8; flags++) {
        ct_scope scope = ct_scope_open(context);
        compare_layer(_i, flags & 1, flags & 2, flags & 4);
        ct_scope_close(scope);
    }
    teardown();
}
END_TEST

/* ---- stacks ---- */

/* Layer i of a stack whose layers differ: SmolLM3's, in which some have no rotary positions, with
 * other heads, widths, norms and orders. */
static void differing(ct_layer_opts o[LAYERS]) {
    o[0] = opts_at(4), o[1] = opts_at(5), o[2] = opts_at(6);
    o[1].attn.rope = false;
    o[2].recompute = true;
}

static void compare_stack(int which, bool decoder, bool norm) {
    char what[64];
    snprintf(what, sizeof what, "stack of options %d, decoder %d, norm %d", which, decoder, norm);
    ct_layer_opts o[LAYERS];
    differing(o);
    for (int i = 0; i < LAYERS && which < ALL; i++) o[i] = opts_at(which);
    ct_module *m = shaken(which == ALL ? ct_encoder_new_of(context, o, LAYERS, norm)
                          : decoder    ? ct_decoder_new(context, o[0], LAYERS, norm)
                                       : ct_encoder_new(context, o[0], LAYERS, norm));
    ct_tensor *in[] = {leaf(CT_SHAPE(B, T, E)), leaf(CT_SHAPE(B, S, E))};
    const ct_stack_call call = {.self.causal = true};
    ct_tensor *y = decoder ? ct_decoder_forward(m, in[0], in[1], call)
                           : ct_encoder_forward(m, in[0], call),
              *seen = ct_causal_mask(context, T, T);
    const results got = results_of(m, &y, 1, in, 1 + decoder);
    ct_tensor *z = model_stack(m, o, LAYERS, in[0], decoder ? in[1] : NULL, seen);
    const results want = results_of(m, &z, 1, in, 1 + decoder);
    results_same(what, &got, &want, 1e-11);
    ct_module_free(m);
}

START_TEST(stacks_equal_their_formula) {
    setup();
    for (int norm = 0; norm < 2; norm++)
        for (int decoder = 0; decoder < 1 + (_i < ALL); decoder++) {
            ct_scope scope = ct_scope_open(context);
            compare_stack(_i, decoder, norm);
            ct_scope_close(scope);
        }
    teardown();
}
END_TEST

/* Steps of 1, 2, 1, 1 tokens through caches give the values of the whole. */
START_TEST(decoding_equals_the_whole) {
    setup();
    ct_layer_opts o[LAYERS];
    differing(o);
    for (int decoder = 0; decoder < 1 + (_i < ALL); decoder++) {
        ct_module *m = shaken(_i == ALL ? ct_encoder_new_of(context, o, LAYERS, true)
                              : decoder ? ct_decoder_new(context, opts_at(_i), LAYERS, true)
                                        : ct_encoder_new(context, opts_at(_i), LAYERS, true));
        ct_tensor *x = randn(CT_SHAPE(B, T, E)), *memory = randn(CT_SHAPE(B, S, E)), *y;
        ct_kv_cache *caches[LAYERS];
        ck_assert(ct_kv_caches_new(m, B, T, caches, LAYERS));
        ct_stack_call call = {.self.causal = true};
        ct_tensor *whole =
            decoder ? ct_decoder_forward(m, x, memory, call) : ct_encoder_forward(m, x, call);
        call.caches = caches;
        for (int64_t at = 0, n; at < T; at += n) {
            n = at == 1 ? 2 : 1;
            ct_tensor *some = ct_narrow(x, 1, at, n);
            y = decoder ? ct_decoder_forward(m, some, memory, call)
                        : ct_encoder_forward(m, some, call);
            ck_assert_double_lt(distance(y, ct_narrow(whole, 1, at, n)), 1e-12);
        }
        for (int i = 0; i < LAYERS; i++) ct_kv_cache_free(caches[i]);
    }
    teardown();
}
END_TEST

/* ---- names and printed lines ---- */

static const char *printed(ct_module *m) {
    static char text[8192];
    no_error();
    FILE *file = tmpfile();
    ct_module_print(m, file);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    return text;
}

START_TEST(names_and_lines) {
    static const char *const names[] = {"norm1.weight",     "norm2.weight",     "norm3.weight",
                                        "norm1_out.weight", "norm2_out.weight", "norm3_out.weight"};
    for (int i = 0; i < 4; i++) {
        const bool decoder = i & 1, sandwich = i & 2;
        const ct_layer_opts o = opts_at(sandwich ? 5 : 2);
        ct_module *m =
            decoder ? ct_decoder_layer_new(context, o) : ct_encoder_layer_new(context, o);
        for (int j = 0; j < 6; j++)
            ck_assert_int_eq(param_of(m, names[j]) != NULL,
                             (j < 3 || sandwich) && (decoder || j % 3 < 2));
    }
    ct_layer_opts o = opts_at(7);
    ck_assert_ptr_nonnull(strstr(printed(ct_encoder_layer_new(context, o)),
                                 "norm_first=True, sandwich=True, parallel=True\n"));
    ck_assert_ptr_nonnull(
        strstr(printed(ct_encoder_layer_new(context, opts_at(1))), "norm_first=True\n"));
    ct_layer_opts each[LAYERS];
    differing(each);
    const char *text = printed(ct_encoder_new_of(context, each, LAYERS, true));
    ck_assert_ptr_nonnull(strstr(text, "num_kv_heads=1, head_dim=6"));
    ck_assert_ptr_nonnull(strstr(text, "parallel=True"));
    ck_assert_ptr_nonnull(strstr(text, "(norm): RMSNorm"));
    each[0] = opts_at(1);
    text = printed(ct_encoder_new_of(context, each, LAYERS, true));
    ck_assert_ptr_nonnull(strstr(text, "(norm): LayerNorm")); /* as in layers[0] */
}
END_TEST

/* Weights begin at 1 - offset: a new module is the one without an offset. */
START_TEST(offsets_begin_as_ones) {
    ct_layer_opts o = opts_at(5), none = o;
    none.norm_offset = none.attn.qk_norm_offset = 0;
    ct_seed(context, 3);
    ct_module *m = ct_encoder_new(context, o, 2, true);
    ct_seed(context, 3);
    ct_module *plain = ct_encoder_new(context, none, 2, true);
    for (ct_param p = {0}; ct_module_next(m, &p);)
        if (strstr(p.name, "norm")) ck_assert_double_eq(largest(p.tensor), 0);
    ct_tensor *x = randn(CT_SHAPE(B, T, E));
    ck_assert_double_lt(distance(ct_forward(m, x), ct_forward(plain, x)), 1e-14);
    ck_assert_ptr_nonnull(strstr(printed(m), "elementwise_affine=True, offset=1)"));
    ck_assert_ptr_null(strstr(printed(plain), "offset"));
}
END_TEST

/* ---- uses ---- */

START_TEST(copies_files_and_bf16) {
    char path[] = "/tmp/cotangent-layer-XXXXXX";
    const int file = mkstemp(path);
    ck_assert_int_ge(file, 0);
    close(file); /* on Windows an open file cannot be replaced */
    for (int single = 0; single < 2; single++) {
        ct_layer_opts o[LAYERS];
        differing(o);
        for (int i = 0; i < LAYERS; i++) o[i].dtype = single ? CT_F32 : CT_F64;
        ct_module *m = shaken(ct_encoder_new_of(context, o, LAYERS, true)),
                  *copy = ct_module_clone(m), *other = ct_encoder_new_of(context, o, LAYERS, true);
        ck_assert(ct_save(m, path, (ct_save_opts){0}) &&
                  ct_load(other, path, (ct_load_opts){.report = NULL}));
        ct_tensor *x = ct_randn(context, o[0].dtype, CT_SHAPE(B, T, E)), *y = ct_forward(m, x);
        ck_assert_double_eq(distance(ct_forward(copy, x), y), 0);
        ck_assert_double_eq(distance(ct_forward(other, x), y), 0);
        if (!single) continue;
        ck_assert(ct_module_to(m, CT_BF16));
        ck_assert(ct_module_to(copy, CT_BF16) && ct_module_to(copy, CT_F32));
        ct_module_train(m, false); /* a recomputed layer would want its parameters unchanged */
        ct_module_train(copy, false);
        ck_assert_double_eq(distance(ct_forward(m, x), ct_forward(copy, x)), 0);
    }
    remove(path);
}
END_TEST

/* Dropout is applied to the result of a sublayer, after its second norm. */
START_TEST(dropout_of_sublayers) {
    for (int i = 5; i < 8; i++) {
        ct_layer_opts o = opts_at(i);
        ct_module *whole = shaken(ct_encoder_layer_new(context, o)), *m = ct_module_clone(whole);
        o.dropout = 1; /* all of every sublayer is dropped */
        ct_module *none = ct_encoder_layer_new(context, o);
        ct_tensor *x = randn(CT_SHAPE(B, T, E));
        ck_assert_double_eq(distance(ct_forward(none, x), x), 0);
        ct_module_train(none, false);
        ck_assert_double_gt(distance(ct_forward(none, x), x), 0.1);
        ck_assert_double_eq(distance(ct_forward(whole, x), ct_forward(m, x)), 0);
    }
}
END_TEST

static ct_tensor *twice(void *self, ct_tensor *x) {
    return ct_scale(ct_forward(ct_module_child(self, "was"), x), 2);
}
static ct_tensor *narrow(void *self, ct_tensor *x) {
    (void)self;
    return ct_narrow(x, 2, 0, 1);
}

START_TEST(norms_of_ones_own) {
    ct_module *m = shaken(ct_encoder_layer_new(context, opts_at(5))), *same = ct_module_clone(m),
              *own = ct_module_new(context, "Twice"),
              *was = ct_module_set_child(m, "norm1_out", own);
    ct_module_add_child(own, "was", was);
    ct_module_set_forward(own, twice, own);
    ct_tensor *x = randn(CT_SHAPE(B, T, E)), *w = param_of(same, "norm1_out.weight");
    ct_scope scope = ct_scope_open_no_grad(context);
    ct_copy_into(w, ct_add_scalar(ct_scale(w, 2), 1)); /* 2 (1 + w) = 1 + (2 w + 1) */
    ct_scope_close(scope);
    ck_assert_double_lt(distance(ct_forward(m, x), ct_forward(same, x)), 1e-13);
    ct_module_set_forward(own, narrow, NULL);
    ck_refused(ct_forward(m, x), CT_ERR_SHAPE, "norm1_out made", "its last dim must be 8");
}
END_TEST

/* ---- errors ---- */

#define REFUSED(status, word1, word2, ...)                                                         \
    do {                                                                                           \
        const ct_layer_opts o_ = {.embed_dim = E, .num_heads = 2, __VA_ARGS__};                    \
        const int64_t before = live();                                                             \
        ck_refused(ct_encoder_layer_new(context, o_), status, word1, word2);                       \
        ck_refused(ct_decoder_layer_new(context, o_), status, word1, word2);                       \
        ck_refused(ct_encoder_new(context, o_, 2, true), status, word1, word2);                    \
        ck_refused(ct_encoder_new_of(context, &o_, 1, true), status, word1, word2);                \
        ck_assert_int_eq(live(), before);                                                          \
    } while (0)

START_TEST(options_are_checked) {
    REFUSED(CT_ERR_ARGUMENT, "attn.embed_dim is set", "must be 0", .attn.embed_dim = E);
    REFUSED(CT_ERR_ARGUMENT, "attn.num_heads is set", "must be 0", .attn.num_heads = 2);
    REFUSED(CT_ERR_ARGUMENT, "attn.dropout is set", "must be 0", .attn.dropout = 0.5);
    REFUSED(CT_ERR_ARGUMENT, "attn.no_bias is set", "must be 0", .attn.no_bias = true);
    REFUSED(CT_ERR_ARGUMENT, "attn.dtype is set", "must be 0", .attn.dtype = CT_F64);
    REFUSED(CT_ERR_ARGUMENT, "attn.kdim is 5", "embed_dim 8", .attn.kdim = 5);
    REFUSED(CT_ERR_ARGUMENT, "attn.vdim is 9", "embed_dim 8", .attn.vdim = 9);
    REFUSED(CT_ERR_ARGUMENT, "sandwich", "norm_first", .sandwich = true);
    REFUSED(CT_ERR_ARGUMENT, "parallel", "norm_first", .parallel = true);
    REFUSED(CT_ERR_ARGUMENT, "norm_offset 1", "needs rms_norm", .norm_offset = 1);
    REFUSED(CT_ERR_ARGUMENT, "offset is inf", "RMSNorm", .rms_norm = true, .norm_offset = INFINITY);
    REFUSED(CT_ERR_ARGUMENT, "qk_norm_offset is nan", "", .attn.qk_norm_offset = NAN);
    REFUSED(CT_ERR_ARGUMENT, "head_dim is -3", "MultiheadAttention", .attn.head_dim = -3);
    REFUSED(CT_ERR_ARGUMENT, "scale is nan", "MultiheadAttention", .attn.scale = NAN);
    REFUSED(CT_ERR_ARGUMENT, "bias is 7", "ct_bias", .attn.bias = (ct_bias)7);
    REFUSED(CT_ERR_ARGUMENT, "eps is -1", "", .eps = -1);
    REFUSED(CT_ERR_ARGUMENT, "num_heads 2", "num_kv_heads 3", .attn.num_kv_heads = 3);
}
END_TEST

START_TEST(lists_of_layers_are_checked) {
    ct_layer_opts o[LAYERS];
    const int64_t before = live();
    differing(o);
    ck_refused(ct_encoder_new_of(context, o, 0, true), CT_ERR_ARGUMENT, "num_layers is 0",
               "TransformerEncoder");
    ck_refused(ct_encoder_new_of(context, NULL, 2, true), CT_ERR_ARGUMENT, "options of the layers",
               "NULL");
    o[2].embed_dim = 16;
    ck_refused(ct_encoder_new_of(context, o, LAYERS, true), CT_ERR_ARGUMENT, "layers 0 and 2",
               "embed_dim 8 and 16");
    differing(o);
    o[1].dtype = CT_F32;
    ck_refused(ct_encoder_new_of(context, o, LAYERS, true), CT_ERR_DTYPE, "layers 0 and 1",
               "f64 and f32");
    differing(o);
    o[1].num_heads = 3; /* Gemma's layer has a head_dim, and one head of keys */
    ct_module *m = ct_encoder_new_of(context, o, LAYERS, true);
    ck_assert_ptr_nonnull(m);
    ct_module_free(m);
    o[1].attn.num_kv_heads = 2;
    ck_refused(ct_encoder_new_of(context, o, LAYERS, true), CT_ERR_ARGUMENT, "num_heads 3",
               "num_kv_heads 2");
    ck_assert_int_eq(live(), before);
}
END_TEST

static ct_module *make_any(ct_context *c, int which) {
    ct_layer_opts o[LAYERS];
    differing(o);
    for (int i = 0; i < LAYERS; i++) o[i].embed_dim = 256;
    if (which == 0) return ct_encoder_new_of(c, o, LAYERS, true);
    return which == 1 ? ct_encoder_layer_new(c, o[1]) : ct_decoder_layer_new(c, o[1]);
}
START_TEST(a_failed_constructor_leaves_nothing) { constructors_leave_nothing(make_any, 3, 5); }
END_TEST

int main(void) {
    return run_cases("layer options",
                     CASES({.name = "formula",
                            .tests = TESTS(LOOP(layers_equal_their_formula, ALL),
                                           LOOP(stacks_equal_their_formula, ALL + 1),
                                           LOOP(decoding_equals_the_whole, ALL + 1))},
                           {.name = "uses",
                            .before = setup,
                            .after = teardown,
                            .tests = TESTS(TEST(names_and_lines), TEST(offsets_begin_as_ones),
                                           TEST(copies_files_and_bf16), TEST(dropout_of_sublayers),
                                           TEST(norms_of_ones_own), TEST(options_are_checked),
                                           TEST(lists_of_layers_are_checked),
                                           TEST(a_failed_constructor_leaves_nothing))}));
}
