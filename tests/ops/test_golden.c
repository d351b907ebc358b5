/* Every op and module against the golden files, which have PyTorch's results in float64 for the
 * same inputs. tests/golden/make.py describes them. f32 must be within 3e-6 of the largest value,
 * f64 within 1e-12. */
#include "tests/support/suite.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/cases.h"
#include "src/io/safetensors.h"

static const double gate[] = {[CT_F32] = 3e-6, [CT_F64] = 1e-12};

static ct_context *context;
static cti_safetensors golden;
static const char *what; /* the current case: its number and its text */
static int64_t compared;

static void no_error(void) {
    ck_assert_msg(ct_error(context) == CT_OK, "%s: %s", what, ct_error_message(context));
}

static void open_golden(const char *path) {
    context = ct_context_new((ct_context_opts){.threads = 2});
    what = path;
    memset(&golden, 0, sizeof golden);
    ck_assert_msg(cti_safetensors_open(context, "golden", path, &golden), "%s",
                  ct_error_message(context));
    compared = 0;
}

static void close_golden(void) {
    cti_safetensors_close(&golden);
    ct_context_free(context);
}

/* "N.part" of the file as a tensor; real numbers in `dtype`. NULL if there is none. */
static ct_tensor *stored(cti_text number, const char *part, ct_dtype dtype) {
    char name[200];
    snprintf(name, sizeof name, "%.*s.%s", (int)number.size, number.at, part);
    const cti_file_tensor *from = cti_safetensors_find(&golden, cti_text_of(name));
    if (!from) return NULL;
    if (from->dtype == CTI_FILE_BOOL) dtype = CT_BOOL;
    if (from->dtype == CTI_FILE_I64) dtype = CT_I64;
    ct_tensor *t = ct_empty(context, dtype, from->shape);
    ck_assert_msg(t && cti_file_tensor_read(from, 0, from->numel, t, 0), "%s: %s: %s", what, part,
                  ct_error_message(context));
    return t;
}

static double *values(ct_tensor *t) {
    double *v = malloc((size_t)(ct_numel(t) + 1) * sizeof *v);
    ck_assert(v && ct_to_f64(t, v, ct_numel(t)));
    return v;
}

static double largest(ct_tensor *t) {
    double *v = values(t), most = 0;
    for (int64_t i = 0; i < ct_numel(t); i++)
        if (isfinite(v[i])) most = fmax(most, fabs(v[i]));
    free(v);
    return most;
}

/* Compares with "N.part"; the error is relative to the largest value, at least `least`. */
static void compare(ct_tensor *got, cti_text number, const char *part, ct_dtype dtype,
                    double least) {
    ct_tensor *want = stored(number, part, CT_F64);
    ck_assert_msg(want != NULL, "%s: %s is not in the file", what, part);
    ck_assert_msg(got != NULL, "%s: %s: there is none", what, part);
    ct_shape a = ct_shape_of(got), b = ct_shape_of(want);
    ck_assert_msg(a.ndim == b.ndim && !memcmp(a.dim, b.dim, (size_t)a.ndim * sizeof *a.dim),
                  "%s: %s: another shape", what, part);
    bool exact = ct_dtype_of(want) == CT_I64 || ct_dtype_of(want) == CT_BOOL;
    ck_assert_msg(!exact || ct_dtype_of(got) == ct_dtype_of(want), "%s: %s: another dtype", what,
                  part);
    double *x = values(got), *y = values(want),
           tolerance = exact ? 0 : gate[dtype] * fmax(largest(want), least);
    for (int64_t i = 0; i < ct_numel(got); i++) {
        if (x[i] == y[i] || (isnan(x[i]) && isnan(y[i]))) continue;
        ck_assert_msg(fabs(x[i] - y[i]) <= tolerance, "%s: %s[%d]: %.9g, not %.9g (tolerance %.2g)",
                      what, part, (int)i, x[i], y[i], tolerance);
    }
    free(x), free(y);
    compared++;
}

static void name_case(const cti_file_pair *pair) {
    static char text[600];
    snprintf(text, sizeof text, "%.*s: %.*s", (int)pair->key.size, pair->key.at,
             (int)pair->value.size, pair->value.at);
    what = text;
}

/* ---- ops ---- */

/* "call | inputs": the line of ops.def with that call, but with these inputs. */
static case_line find_line(cti_text text, char inputs[200], bool *seen) {
    const char *bar = text.at;
    for (const char *s = text.at; (s = strstr(s, " | ")); s++) bar = s;
    case_line found = {0};
    for (int i = 0; i < case_count(); i++) {
        const case_line *line = case_at(i);
        if (strlen(line->call) != (size_t)(bar - text.at) ||
            strncmp(line->call, text.at, strlen(line->call)))
            continue;
        found = *line;
        seen[i] = true;
    }
    ck_assert_msg(found.call != NULL, "%s: no such call in ops.def; run `make golden`", what);
    snprintf(inputs, 200, "%.*s", (int)(text.at + text.size - bar - 3), bar + 3);
    found.inputs = inputs;
    return found;
}

static void check_op(const cti_file_pair *pair, ct_dtype dtype, bool *seen) {
    char inputs[200], part[16];
    case_line line = find_line(pair->value, inputs, seen);
    case_input input[CASE_INPUTS];
    ct_tensor *in[CASE_INPUTS] = {0};
    int n = case_inputs(&line, 0, 1, input);
    ck_assert_msg(n >= 0, "%s: inputs that cannot be read", what);
    for (int i = 0; i < n; i++) {
        snprintf(part, sizeof part, "x%d", i);
        in[i] = stored(pair->key, part, dtype);
        ck_assert_msg(!in[i] == (input[i].kind == 'N'), "%s: input %d is not as its spec says",
                      what, i);
        if (input[i].kind == 'R' || input[i].kind == 'D') ct_set_requires_grad(in[i], true);
    }
    ct_tensor *y = case_run(context, &line, in), *g = stored(pair->key, "g", dtype);
    no_error();
    /* a single value may be the result of cancellation */
    compare(y, pair->key, "y", dtype, ct_numel(y) == 1 ? 1 : 1e-2);
    ck_assert_msg(!g == !ct_requires_grad(y), "%s: %s", what,
                  g ? "the result has no gradient" : "the result has a gradient");
    if (!g) return;
    if (ct_dtype_of(y) != dtype) g = ct_cast(g, ct_dtype_of(y));
    ct_backward_with(&y, &g, 1, (ct_backward_opts){0});
    no_error();
    for (int i = 0; i < n; i++) {
        if (!in[i] || (input[i].kind != 'R' && input[i].kind != 'D')) continue;
        snprintf(part, sizeof part, "d%d", i);
        compare(ct_grad(in[i]), pair->key, part, dtype, ct_numel(in[i]) == 1 ? 1 : 1e-2);
    }
}

START_TEST(ops) {
    bool seen[1000] = {false};
    ck_assert_int_lt(case_count(), 1000);
    open_golden("tests/golden/ops.safetensors");
    for (int64_t i = 0; i < golden.pairs; i++) {
        ct_scope scope = ct_scope_open(context);
        name_case(&golden.pair[i]);
        check_op(&golden.pair[i], (ct_dtype)_i, seen);
        ct_scope_close(scope);
    }
    for (int i = 0; i < case_count(); i++)
        ck_assert_msg(seen[i] || !strcmp(case_at(i)->torch, "NONE"),
                      "%s: not in the golden file; run `make golden`", case_at(i)->call);
    ck_assert_int_gt(compared, 800);
    close_golden();
}
END_TEST

/* ---- modules ---- */

/* The value of " key=" in the text of a case; "" without one. */
static const char *word(const char *key, char out[32]) {
    char pattern[64];
    snprintf(pattern, sizeof pattern, " %s=", key);
    const char *at = strstr(what, pattern);
    snprintf(out, 32, "%.*s", at ? (int)strcspn(at + strlen(pattern), " ") : 0,
             at ? at + strlen(pattern) : "");
    return out;
}
#define WORD(key) word(key, (char[32]){0})
static double number(const char *key) { return atof(WORD(key)); }
static int64_t size(const char *key) { return (int64_t)number(key); }
static bool flag(const char *key) { return number(key) != 0; }

static ct_module *module_new(const char *kind, ct_dtype dtype) {
#define IS(name) (!strcmp(kind, name))
    if (IS("linear"))
        return ct_linear_new(context, (ct_linear_opts){.in_features = size("in_features"),
                                                       .out_features = size("out_features"),
                                                       .no_bias = flag("no_bias"),
                                                       .dtype = dtype});
    if (IS("embedding"))
        return ct_embedding_new(context,
                                (ct_embedding_opts){.num_embeddings = size("num_embeddings"),
                                                    .embedding_dim = size("embedding_dim"),
                                                    .dtype = dtype});
    if (IS("layer_norm"))
        return ct_layer_norm_new(context, (ct_layer_norm_opts){.dim = size("dim"),
                                                               .eps = number("eps"),
                                                               .no_bias = flag("no_bias"),
                                                               .dtype = dtype});
    if (IS("rms_norm"))
        return ct_rms_norm_new(context, (ct_rms_norm_opts){.dim = size("dim"),
                                                           .eps = number("eps"),
                                                           .dtype = dtype,
                                                           .offset = number("offset")});
    if (IS("positions"))
        return ct_positions_new(context, (ct_positions_opts){.max_length = size("max_length"),
                                                             .embed_dim = size("embed_dim"),
                                                             .learned = flag("learned"),
                                                             .dtype = dtype});
    if (IS("mlp"))
        return ct_mlp_new(context, (ct_mlp_opts){.dim = size("dim"),
                                                 .hidden = size("hidden"),
                                                 .activation = (ct_activation)size("activation"),
                                                 .no_bias = flag("no_bias"),
                                                 .dtype = dtype});
    if (IS("mha"))
        return ct_mha_new(context,
                          (ct_mha_opts){.embed_dim = size("embed_dim"),
                                        .num_heads = size("num_heads"),
                                        .num_kv_heads = size("num_kv_heads"),
                                        .kdim = size("kdim"),
                                        .vdim = size("vdim"),
                                        .no_bias = flag("no_bias"),
                                        .add_bias_kv = flag("add_bias_kv"),
                                        .add_zero_attn = flag("add_zero_attn"),
                                        .dropout = number("dropout"),
                                        .out_dropout = number("out_dropout"),
                                        .rope = flag("rope"),
                                        .rotary = {.base = number("rope_base"),
                                                   .interleaved = flag("rope_interleaved")},
                                        .qk_norm = flag("qk_norm"),
                                        .qk_norm_eps = number("qk_norm_eps"),
                                        .dtype = dtype});
    ct_layer_opts layer = {.embed_dim = size("embed_dim"),
                           .num_heads = size("num_heads"),
                           .hidden = size("hidden"),
                           .eps = number("eps"),
                           .activation = (ct_activation)size("activation"),
                           .norm_first = flag("norm_first"),
                           .no_bias = flag("no_bias"),
                           .dtype = dtype};
    if (IS("encoder_layer")) return ct_encoder_layer_new(context, layer);
    if (IS("decoder_layer")) return ct_decoder_layer_new(context, layer);
    if (IS("encoder"))
        return ct_encoder_new(context, layer, size("num_layers"), flag("final_norm"));
    if (IS("decoder"))
        return ct_decoder_new(context, layer, size("num_layers"), flag("final_norm"));
    if (IS("transformer"))
        return ct_transformer_new(
            context, (ct_transformer_opts){.layer = layer,
                                           .num_encoder_layers = size("num_encoder_layers"),
                                           .num_decoder_layers = size("num_decoder_layers")});
    ck_abort_msg("%s: a kind of module that this test does not know", what);
#undef IS
}

/* Names of the inputs that a file may have, and of the outputs. */
enum {
    Q,
    K,
    V,
    X,
    MEMORY,
    SRC,
    TGT,
    MASK,
    KEY_MASK,
    CROSS_MASK,
    CROSS_KEY_MASK,
    SRC_MASK,
    SRC_KEY_MASK,
    INPUTS
};
static const char *const input_name[INPUTS] = {
    "q",           "k",    "v",        "x",          "memory",         "src",
    "tgt",         "mask", "key_mask", "cross_mask", "cross_key_mask", "src_mask",
    "src_key_mask"};
enum { OUT, WEIGHTS, SELF_WEIGHTS, CROSS_WEIGHTS, OUTPUTS };
static const char *const output_name[OUTPUTS] = {"out", "weights", "self_weights", "cross_weights"};

/* The call of one attention: its masks are inputs `mask` and `mask` + 1. */
static ct_mha_call call_of(const char *prefix, ct_tensor **mask) {
    char key[32];
#define KEY(name) (snprintf(key, sizeof key, "%s" name, prefix), key)
    return (ct_mha_call){.mask = mask[0],
                         .key_mask = mask[1],
                         .causal = flag(KEY("causal")),
                         .need_weights = flag(KEY("need_weights")),
                         .per_head = flag(KEY("per_head")),
                         .rope_offset = size(KEY("rope_offset"))};
#undef KEY
}

static void module_forward(ct_module *module, const char *kind, ct_tensor **in, ct_tensor **out) {
    ct_mha_call self = call_of("", in + MASK), cross = call_of("cross_", in + CROSS_MASK),
                src = call_of("src_", in + SRC_MASK);
    ct_stack_call stack = {.self = self, .cross = cross};
    if (!strcmp(kind, "mha")) {
        ct_mha_out y = ct_mha_forward(module, in[Q], in[K], in[V] ? in[V] : in[K], self);
        out[OUT] = y.out, out[WEIGHTS] = y.weights;
    } else if (strstr(kind, "_layer")) {
        ct_layer_out y = in[MEMORY]
                             ? ct_decoder_layer_forward(module, in[X], in[MEMORY], self, cross)
                             : ct_encoder_layer_forward(module, in[X], self);
        out[OUT] = y.out, out[SELF_WEIGHTS] = y.self_weights, out[CROSS_WEIGHTS] = y.cross_weights;
    } else if (!strcmp(kind, "transformer")) {
        out[OUT] =
            ct_transformer_forward(module, in[SRC], in[TGT], (ct_stack_call){.self = src}, stack);
    } else if (!strcmp(kind, "encoder") || !strcmp(kind, "decoder")) {
        out[OUT] = in[MEMORY] ? ct_decoder_forward(module, in[X], in[MEMORY], stack)
                              : ct_encoder_forward(module, in[X], stack);
    } else {
        out[OUT] = ct_forward(module, in[X]);
    }
}

static const char *part(const char *letter, const char *name, char out[200]) {
    snprintf(out, 200, "%s.%s", letter, name);
    return out;
}
#define PART(letter, name) part(letter, name, (char[200]){0})

/* The error of some gradients is relative to the largest gradient of the case: those that are
 * mathematically zero, as of the scores of a single key; of a mask that shifts all scores of a
 * query; and in f32 those that pass many layers, or norms of few values. */
static void compare_gradient(ct_tensor *of, cti_text key, const char *name, ct_dtype dtype,
                             double all) {
    const bool zero = largest(stored(key, PART("d", name), CT_F64)) < 1e-9 * all;
    const bool shift =
        !strcmp(name, "mask") && (!strcmp(WORD("mask"), "t1") || !strcmp(WORD("mask"), "h11"));
    const bool deep =
        dtype == CT_F32 && (size("num_layers") || size("num_decoder_layers") || flag("qk_norm"));
    compare(ct_grad(of), key, PART("d", name), dtype, zero || shift || deep ? all : 1e-2);
}

static void check_module(const cti_file_pair *pair, ct_dtype dtype) {
    cti_text key = pair->key;
    const char *kind = WORD("kind");
    ct_module *module = module_new(kind, dtype);
    no_error();
    ct_module_train(module, !flag("evaluate"));
    for (ct_param p = {0}; ct_module_next(module, &p);) {
        ct_tensor *value = stored(key, PART("p", p.name), dtype);
        ck_assert_msg(value && ct_numel(value) == ct_numel(p.tensor),
                      "%s: %s is not in the file, or of another size", what, p.name);
        if (dtype == CT_F32)
            memcpy(ct_data_f32(p.tensor), ct_data_f32(value), (size_t)ct_numel(value) * 4);
        else memcpy(ct_data_f64(p.tensor), ct_data_f64(value), (size_t)ct_numel(value) * 8);
    }
    ct_tensor *in[INPUTS], *out[OUTPUTS] = {0}, *outs[OUTPUTS], *cotangents[OUTPUTS];
    for (int i = 0; i < INPUTS; i++) {
        in[i] = stored(key, PART("x", input_name[i]), dtype);
        if (in[i] && ct_dtype_of(in[i]) == dtype) ct_set_requires_grad(in[i], true);
    }
    module_forward(module, kind, in, out);
    no_error();
    int n = 0;
    for (int i = 0; i < OUTPUTS; i++) {
        if (out[i]) compare(out[i], key, PART("y", output_name[i]), dtype, 1e-2);
        else
            ck_assert_msg(!stored(key, PART("y", output_name[i]), dtype), "%s: no %s", what,
                          output_name[i]);
        if (out[i] && (cotangents[n] = stored(key, PART("g", output_name[i]), dtype)))
            outs[n++] = out[i];
    }
    ck_assert_msg(n && ct_backward_with(outs, cotangents, n, (ct_backward_opts){0}), "%s: %s", what,
                  ct_error_message(context));

    double all = 0;
    for (ct_param p = {0}; ct_module_next(module, &p);)
        all = fmax(all, largest(stored(key, PART("d", p.name), CT_F64)));
    for (int i = 0; i < INPUTS; i++)
        if (in[i] && ct_requires_grad(in[i]))
            compare_gradient(in[i], key, input_name[i], dtype, all);
    for (ct_param p = {0}; ct_module_next(module, &p);)
        compare_gradient(p.tensor, key, p.name, dtype, all);
    ct_module_free(module);
}

START_TEST(modules) {
    open_golden("tests/golden/modules.safetensors");
    for (int64_t i = 0; i < golden.pairs; i++) {
        ct_scope scope = ct_scope_open(context);
        name_case(&golden.pair[i]);
        check_module(&golden.pair[i], (ct_dtype)_i);
        ct_scope_close(scope);
    }
    ck_assert_int_gt(golden.pairs, 70);
    ck_assert_int_gt(compared, 900);
    close_golden();
}
END_TEST

int main(void) {
    Suite *suite = suite_create("golden");
    TCase *tcase = tcase_create("golden");
    tcase_add_loop_test(tcase, ops, CT_F32, CT_F64 + 1);
    tcase_add_loop_test(tcase, modules, CT_F32, CT_F64 + 1);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
