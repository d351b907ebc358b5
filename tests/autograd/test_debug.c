/* Debug mode: freed memory is NaN, and errors name the op that made an ended handle or the first
 * NaN. */
#include "src/autograd/tape.h"

#define ONE_CONTEXT_DEBUG true
#include "tests/support/cases.h"
#include "tests/core/ended_uses.h"
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

static ct_context *context_of(bool debug) {
    return ct_context_new((ct_context_opts){.seed = 1, .threads = 1, .debug = debug});
}

static ct_tensor *vector(ct_dtype dtype, int64_t n, const double *value) {
    return ct_cast(ct_from_f64(context, CT_SHAPE(n), value), dtype);
}
#define VECTOR(dtype, ...)                                                                         \
    vector(dtype, sizeof((double[]){__VA_ARGS__}) / sizeof(double), (double[]){__VA_ARGS__})
#define LEAF(dtype, ...) ct_set_requires_grad(VECTOR(dtype, __VA_ARGS__), true)

static ct_tensor *sum(ct_tensor *x) { return ct_sum(x, CT_ALL, false); }

/* ---- memory ---- */

START_TEST(what_is_freed_is_all_ones) {
    /* a block of a slab, and a large one */
    ct_tensor *f32 = ct_ones(context, CT_F32, CT_SHAPE(3)),
              *f64 = ct_ones(context, CT_F64, CT_SHAPE(1000));
    ct_tensor *i64 = ct_ones(context, CT_I64, CT_SHAPE(3)),
              *flag = ct_ones(context, CT_BOOL, CT_SHAPE(3));
    const float *f = ct_data_f32(f32);
    const double *d = ct_data_f64(f64);
    const int64_t *i = ct_data_i64(i64);
    const unsigned char *b = (const unsigned char *)ct_data_bool(flag);
    ct_tensor *view = ct_transpose(ct_view(f64, CT_SHAPE(10, 100)), 0, 1);
    ct_release(f32), ct_release(f64), ct_release(i64), ct_release(flag);
    ck_assert(isnan(f[0]) && isnan(f[2]));
    ck_assert(i[0] == -1 && i[2] == -1 && b[0] == 255 && b[2] == 255);
    ck_assert(d[0] == 1 && d[999] == 1); /* the view's */
    ct_scope scope = ct_scope_open(context);
    ct_scope_keep(scope, ct_neg(view));
    ct_scope_close(scope);
    ct_release(view);
    ck_assert(ct_error(context) == CT_OK);
}
END_TEST

START_TEST(what_is_new_is_all_ones) {
    const int64_t sizes[] = {1, 2, 7, 100, 5000, 100000};
    for (int round = 0; round < 2; round++) /* fresh, then used before */
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            ct_scope scope = ct_scope_open(context);
            ct_tensor *x = ct_empty(context, CT_F64, CT_SHAPE(sizes[k]));
            for (int64_t i = 0; i < sizes[k]; i++) ck_assert(isnan(ct_data_f64(x)[i]));
            memset(ct_data_f64(x), 0, (size_t)sizes[k] * 8);
            ct_scope_close(scope);
        }
}
END_TEST

START_TEST(what_the_tape_saved_stays) {
    for (ct_dtype dtype = CT_F32; dtype <= CT_F64; dtype++) {
        ct_tensor *x = LEAF(dtype, 1, 2);
        ct_scope outer = ct_scope_open(context), scope = ct_scope_open(context);
        ct_tensor *y = ct_exp(ct_mul(x, VECTOR(dtype, 3, 4)));
        ct_tensor *loss =
            ct_scope_return(scope, sum(ct_mul(ct_transpose(ct_view(y, CT_SHAPE(1, 2)), 0, 1),
                                              ct_view(x, CT_SHAPE(2, 1)))));
        ck_assert(ct_backward(loss)); /* sum x e^(c x) */
        double g[2];
        ck_assert(ct_to_f64(ct_grad(x), g, 2));
        ck_assert_double_eq_tol(g[1], exp(8) * (1 + 2 * 4), dtype == CT_F32 ? 1e-2 : 1e-8);
        ct_scope_close(outer);
        no_error();
    }
}
END_TEST

/* Ended handles that are remembered do not count as live, are bounded in number, and stay when
 * memory is trimmed; a memory limit leaves room for fewer. */
START_TEST(memory_of_ended_handles) {
    ct_tensor *x = ct_ones(context, CT_F32, CT_SHAPE(4));
    const int64_t live = ct_memory(context).live;
    for (int i = 0; i < 200000; i++) ct_release(ct_neg(x));
    ck_assert_int_eq(ct_memory(context).live, live);
    ck_assert_int_lt(ct_memory(context).pooled, 1 << 20);
    ct_tensor *last = ct_neg(x);
    ct_release(last);
    ck_refused(ct_exp(last), CT_ERR_ARGUMENT, "exp", "neg");
    ct_memory_trim(context);
    ck_assert_int_eq(ct_memory(context).live, live);
    ct_error_clear(context);
    ck_refused(ct_exp(last), CT_ERR_ARGUMENT, "exp", "neg");

    ct_context *small =
        ct_context_new((ct_context_opts){.threads = 1, .debug = true, .memory_limit = 1 << 20});
    ct_tensor *y = ct_ones(small, CT_F32, CT_SHAPE(4));
    for (int i = 0; i < 20000; i++) {
        ct_scope scope = ct_scope_open(small);
        y = ct_scope_keep(scope, ct_neg(y));
        ct_scope_close(scope);
        if (i % 100 == 99) y = ct_keep(ct_detach(y));
    }
    /* y's are all alive: some 5 MiB */
    ck_assert_msg(ct_error(small) == CT_ERR_MEMORY, "%s", ct_error_message(small));
    ct_context_free(small);
    small = ct_context_new((ct_context_opts){.threads = 1, .debug = true, .memory_limit = 1 << 20});
    y = ct_ones(small, CT_F32, CT_SHAPE(4));
    for (int i = 0; i < 20000; i++) ct_release(ct_neg(y));
    ck_assert_msg(ct_error(small) == CT_OK, "%s", ct_error_message(small));
    ct_context_free(small);
}
END_TEST

/* ---- handles that have ended ---- */

static ct_tensor *ended(ct_tensor *(*op)(ct_tensor *)) {
    ct_scope scope = ct_scope_open(context);
    ct_tensor *y = op(ct_set_requires_grad(ct_ones(context, CT_F32, CT_SHAPE(2, 3)), true));
    ck_assert_ptr_nonnull(y);
    ct_scope_close(scope);
    return y;
}

/* The call's error has the function, and the op that made the tensor with its shape. */
static void names_the_maker(const char *call, const char *function) {
    char words[64];
    snprintf(words, sizeof words, "%s: a tensor (2, 3) made by silu has ended", function);
    ck_assert_msg(ct_error(context) != CT_OK, "%s: no error", call);
    expect(CT_ERR_ARGUMENT, words, "");
}

START_TEST(every_use_of_an_ended_handle) {
    ct_tensor *y = ended(ct_silu);
    each_use_of(y, names_the_maker);
    ck_assert_ptr_eq(ct_context_of(y), context); /* to ask it for the error */
    no_error();
}
END_TEST

static ct_tensor *wrapped(ct_tensor *x) {
    static float three[3];
    return (void)x, ct_wrap(context, CT_F32, CT_SHAPE(3), NULL, three);
}
static ct_tensor *transposed(ct_tensor *x) { return ct_transpose(x, 0, 1); }
static ct_tensor *made(ct_tensor *x) { return (void)x, ct_zeros(context, CT_BOOL, CT_SCALAR); }
static ct_tensor *copied(ct_tensor *x) { return ct_contiguous(ct_transpose(x, 0, 1)); }

START_TEST(the_maker_is_named) {
    struct {
        ct_tensor *(*make)(ct_tensor *);
        const char *name;
    } makers[] = {{ct_exp, "exp"},   {transposed, "transpose"}, {made, "zeros"},
                  {wrapped, "wrap"}, {ct_detach, "detach"},     {copied, "contiguous"}};
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        char words[64];
        snprintf(words, sizeof words, "made by %s has ended", makers[i].name);
        ck_refused(ct_neg(ended(makers[i].make)), CT_ERR_ARGUMENT, "neg: ", words);
    }
    ct_tensor *x = LEAF(CT_F64, 1, 2);
    ct_backward(sum(ct_mul(x, x)));
    ct_tensor *g = ct_grad(x);
    ct_zero_grad(x);
    ck_refused(ct_data_f64(g), CT_ERR_ARGUMENT, "data: ", "made by mul has ended");
    ct_module *module =
        ct_linear_new(context, (ct_linear_opts){.in_features = 2, .out_features = 2});
    ct_tensor *weight = ct_module_get(module, "weight");
    ct_module_free(module);
    ck_refused(ct_linear(ct_ones(context, CT_F32, CT_SHAPE(1, 2)), weight, NULL), CT_ERR_ARGUMENT,
               "linear: ", "has ended");
}
END_TEST

/* ---- the first NaN ---- */

START_TEST(a_nan_that_forward_makes) {
    for (ct_dtype dtype = CT_F32; dtype <= CT_F64; dtype++) {
        ct_tensor *x = ct_view(VECTOR(dtype, 1, 2, 3, 4, 5, -6), CT_SHAPE(2, 3));
        ck_refused(ct_sqrt(x), CT_ERR_ARGUMENT,
                   "sqrt: forward made the first NaN: element (1, 2) of a result (2, 3)", "");
        ck_refused(ct_sqrt(ct_transpose(x, 0, 1)), CT_ERR_ARGUMENT,
                   "element (2, 1) of a result (3, 2)", "sqrt");
        /* a tensor without elements, and a scalar */
        ck_refused(ct_mean(ct_narrow(x, 0, 0, 0), CT_ALL, false), CT_ERR_ARGUMENT,
                   "element () of a result ()", "first NaN");
        ct_tensor *inf = VECTOR(dtype, INFINITY, 0, 1);
        ck_assert_ptr_nonnull(ct_log(ct_scale(inf, 2)));
        ck_refused(ct_sub(inf, inf), CT_ERR_ARGUMENT, "sub: ", "element (0)");
        ck_refused(ct_softmax(VECTOR(dtype, -INFINITY, -INFINITY), -1), CT_ERR_ARGUMENT,
                   "softmax: ", "element (0)");
        ct_tensor *mask = ct_zeros(
            context, CT_BOOL, CT_SHAPE(2)); /* does not read hidden elements, and gives zeros */
        ck_assert_ptr_nonnull(ct_masked_softmax(VECTOR(dtype, NAN, -INFINITY), mask, -1));
        no_error();
    }
}
END_TEST

START_TEST(a_nan_that_was_given) {
    for (ct_dtype dtype = CT_F32; dtype <= CT_F64; dtype++) {
        /* the input has a NaN already; sqrt makes a second */
        ct_tensor *x = LEAF(dtype, 1, NAN, 3),
                  *y = ct_sqrt(ct_neg(ct_mul(x, VECTOR(dtype, 1, 1, 1))));
        ck_assert(ct_backward(sum(ct_add(y, x))));
        ck_assert(isnan(ct_item(sum(ct_grad(x)))));
        ct_tensor *z = LEAF(dtype, 1, 2), *out = ct_scale(z, 2), *g = VECTOR(dtype, 1, NAN);
        ck_assert(ct_backward_with(&out, &g, 1, (ct_backward_opts){0}));
        ck_assert(ct_backward(sum(ct_scale(z, 2)))); /* adds to a gradient that is NaN */
        ct_tensor *rows =
            ct_transpose(ct_view(VECTOR(dtype, 1, 2, 3, 4, NAN, 6), CT_SHAPE(2, 3)), 0, 1);
        ck_assert_ptr_nonnull(ct_matmul(rows, ct_ones(context, dtype, CT_SHAPE(2, 2))));
        no_error();
    }
}
END_TEST

START_TEST(a_nan_that_backward_makes) {
    for (ct_dtype dtype = CT_F32; dtype <= CT_F64; dtype++) {
        ct_tensor *x = LEAF(dtype, 4, 9, 0, 1); /* 0 / (2 sqrt(0)) */
        ct_tensor *y = ct_mul(ct_sqrt(ct_view(x, CT_SHAPE(2, 2))),
                              ct_view(VECTOR(dtype, 1, 1, 0, 1), CT_SHAPE(2, 2)));
        ck_refused(
            ct_backward(sum(y)), CT_ERR_GRAD,
            "sqrt: backward made the first NaN: element (1, 0) of the gradient of input 0 (2, 2)",
            "");
        ck_assert_ptr_null(ct_grad(x));
        x = LEAF(dtype, 4, 9, 0, 1); /* a leaf's slot */
        y = ct_mul(ct_sqrt(x), VECTOR(dtype, 1, 1, 0, 1));
        ck_refused(ct_backward(sum(y)), CT_ERR_GRAD, "sqrt: backward", "element (2)");
        x = LEAF(dtype, 1, 2); /* two gradients whose sum is NaN */
        ct_tensor *outs[] = {ct_scale(x, 1), ct_neg(x)},
                  *g[] = {VECTOR(dtype, 0, INFINITY), VECTOR(dtype, 0, INFINITY)};
        ck_refused(ct_backward_with(outs, g, 2, (ct_backward_opts){0}), CT_ERR_GRAD,
                   "backward made the first NaN", "element (1)");
        x = LEAF(dtype, 1, 2); /* accumulated in place onto another gradient */
        ct_tensor *weight = ct_view(VECTOR(dtype, INFINITY, 1), CT_SHAPE(1, 2)),
                  *row = ct_view(ct_scale(x, 1), CT_SHAPE(1, 2));
        ct_tensor *two[] = {sum(row), ct_linear(row, weight, NULL)},
                  *zero[] = {NULL, ct_zeros(context, dtype, CT_SHAPE(1, 1))};
        ck_refused(ct_backward_with(two, zero, 2, (ct_backward_opts){0}), CT_ERR_GRAD,
                   "linear: backward", "element (0, 0)");
    }
}
END_TEST

static ct_tensor *slice_forward(ct_call *c) { return ct_narrow(c->in[0], 0, 4, 2); }
static bool slice_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    (void)g[0];
    return cti_grad_accumulate_slice(
        c, 0, 0, 4, 2, ct_from_f32(c->context, CT_SHAPE(2), (float[]){0, NAN}), &grad[0]);
}
static const ct_op nan_slice = {
    .name = "nan_slice", .forward = slice_forward, .backward = slice_backward};

/* Slices accumulate in a grad slot that is not yet full. */
START_TEST(partial_grad_slots_hold_no_nan) {
    for (int dim = 0; dim < 2; dim++) {
        ct_tensor *x = ct_set_requires_grad(ct_ones(context, CT_F32, CT_SHAPE(6, 6)), true),
                  *y = ct_scale(x, 1);
        ct_tensor *a = sum(ct_sqrt(ct_narrow(y, dim, 4, 2))),
                  *b = sum(ct_exp(ct_narrow(y, dim, 0, 2)));
        ck_assert(ct_backward(ct_add(a, b)));
        no_error();
        ck_assert_double_eq_tol(ct_item(sum(ct_grad(x))), 12 * (0.5 + exp(1)), 1e-4);
        y = ct_scale(x, 0); /* the same in the last slice to arrive: 0 / 0 */
        a = sum(ct_scale(ct_sqrt(ct_narrow(y, dim, 4, 2)), 0)),
        b = sum(ct_exp(ct_narrow(y, dim, 0, 2)));
        ck_refused(ct_backward(ct_add(b, a)), CT_ERR_GRAD, "sqrt: backward", "element (0, 0)");
    }
    ct_tensor *x = ct_set_requires_grad(ct_ones(context, CT_F32, CT_SHAPE(6)), true),
              *y = ct_scale(x, 1);
    ck_refused(ct_backward(sum(ct_apply(&nan_slice, &y, 1, NULL))), CT_ERR_GRAD,
               "nan_slice: backward", "element (5) of the gradient of input 0 (6)");
    y = ct_scale(x, 1);
    ct_tensor *part = ct_narrow(y, 0, 4, 2),
              *g = ct_from_f32(context, CT_SHAPE(2), (float[]){1, INFINITY}),
              *outs[] = {part, part, part};
    ck_assert(ct_backward_with(outs, (ct_tensor *[]){g, g, g}, 3, (ct_backward_opts){0}));
    part = ct_narrow(y = ct_scale(x, 1), 0, 4, 2);
    ct_tensor *other = ct_narrow(y, 0, 4, 2), *minus = ct_neg(g);
    ck_assert(ct_zero_grad(x));
    ck_refused(ct_backward_with((ct_tensor *[]){part, other}, (ct_tensor *[]){g, minus}, 2,
                                (ct_backward_opts){0}),
               CT_ERR_GRAD, "narrow: backward", "element (5) of the gradient of input 0 (6)");
}
END_TEST

/* The part of a grad slot that slices have not written does not count as a NaN in the cotangent, so
 * the node's own NaN is still found. */
START_TEST(a_nan_behind_a_slice) {
    for (int dim = 0; dim < 2; dim++)
        for (int end = 0; end < 2; end++) {
            ct_tensor *x = ct_set_requires_grad(ct_full(context, CT_F64, CT_SHAPE(2, 2), 0), true);
            ck_assert(ct_to_f64(x, (double[4]){0}, 4));
            ct_data_f64(x)[end ? 3 : 0] = 4;
            ck_refused(ct_backward(sum(ct_narrow(ct_sqrt(x), dim, end, 1))), CT_ERR_GRAD,
                       "sqrt: backward made the first NaN", "of the gradient of input 0 (2, 2)");
        }
    ct_tensor *x = LEAF(CT_F64, 4, 0);
    ck_refused(ct_backward(sum(ct_narrow(ct_sqrt(x), 0, 0, 1))), CT_ERR_GRAD,
               "sqrt: backward made the first NaN", "element (1)");
    x = LEAF(CT_F64, 4, 1);
    ck_assert(ct_backward(sum(ct_narrow(ct_sqrt(x), 0, 0, 1))));
    ck_assert(ct_data_f64(ct_grad(x))[0] == 0.25 && ct_data_f64(ct_grad(x))[1] == 0);
}
END_TEST

static ct_tensor *releases(ct_tensor *const *in, int n, void *arg) {
    ct_tensor *y = ct_mul(in[0], ct_cast(in[1], CT_F64));
    for (int i = 0; i < n; i++) ct_release(in[i]);
    return (void)arg, y;
}

/* A function may release its inputs; they end when the check does. */
START_TEST(gradcheck_and_handles_that_end) {
    ct_tensor *x = VECTOR(CT_F64, 1, 2), *ids = ct_ones(context, CT_I64, CT_SHAPE(2)),
              *gone = VECTOR(CT_F64, 1);
    ct_gradcheck_result r =
        ct_gradcheck(releases, NULL, (ct_tensor *[]){x, ids}, 2, (ct_gradcheck_opts){0});
    ck_assert_msg(r.ran && r.ok, "%s %s", r.diagnosis, ct_error_message(context));
    ck_assert_double_eq(ct_item(sum(x)), 3);
    ck_refused(ct_neg(ids), CT_ERR_ARGUMENT, "neg: a tensor (2) made by ones has ended", "");
    ct_release(gone);
    for (int i = 0; i < 2; i++) {
        r = ct_gradcheck(releases, NULL, (ct_tensor *[]){i ? x : gone, i ? gone : x}, 2,
                         (ct_gradcheck_opts){0});
        ck_assert(!r.ran && !r.ok);
        expect(CT_ERR_ARGUMENT, "gradcheck: a tensor (1) made by cast has ended", "");
    }
}
END_TEST

/* A failing node holds the last reference to the node below it, and a further node has a pending
 * gradient: backward must not read freed memory on the way to it. */
START_TEST(a_failure_ends_nodes_on_the_way) {
    ct_tensor *x = LEAF(CT_F64, 0, 0);
    const int64_t live = ct_memory(context).live;
    for (int round = 0; round < 3; round++) {
        ct_scope outer = ct_scope_open(context), scope = ct_scope_open(context);
        ct_tensor *early = ct_exp(x), *below = ct_scale(ct_scale(x, 2), 2),
                  *fails = ct_scale(ct_sqrt(below), 0);
        ct_tensor *loss = ct_scope_return(scope, sum(ct_add(early, fails)));
        ck_refused(ct_backward(loss), CT_ERR_GRAD, "sqrt: backward", "element (0)");
        ct_scope_close(outer);
        ck_assert_ptr_null(ct_grad(x));
        ck_assert_int_eq(ct_memory(context).live, live);
    }
}
END_TEST

START_TEST(without_debug_nan_is_a_number) {
    ct_context *plain = context_of(false);
    ct_tensor *x = ct_set_requires_grad(ct_full(plain, CT_F32, CT_SHAPE(2), -1), true),
              *y = ct_sqrt(x);
    ck_assert(y && isnan(ct_item(ct_select(y, 0, 0))) && ct_backward(ct_sum(y, CT_ALL, false)));
    ct_context_free(plain);
    setenv("CT_DEBUG", "1", 1);
    plain = context_of(false);
    unsetenv("CT_DEBUG");
    ck_assert_ptr_null(ct_sqrt(ct_full(plain, CT_F32, CT_SHAPE(2), -1)));
    ck_assert_int_eq(ct_error(plain), CT_ERR_ARGUMENT);
    ct_context_free(plain);
}
END_TEST

/* ---- all of it, in debug mode ---- */

typedef struct {
    double *value;
    int64_t count;
} bits;

static void add(bits *b, ct_context *c, ct_tensor *t) {
    const int64_t n = ct_numel(t);
    b->value = realloc(b->value, (size_t)(b->count + n + 1) * sizeof *b->value);
    ck_assert(b->value && ct_to_f64(t, b->value + b->count, n));
    ck_assert_int_eq(ct_error(c), CT_OK);
    b->count += n;
}

/* Value and gradients of a line of ops.def. */
static bits run_line(ct_context *c, const case_line *line, int variant, case_build_opts opts) {
    bits b = {0};
    case_input input[CASE_INPUTS];
    ct_tensor *in[CASE_INPUTS] = {0};
    ct_scope scope = ct_scope_open(c);
    const int n = case_inputs(line, variant, 1, input);
    case_build(c, input, n, opts, in);
    ct_tensor *y = case_run(c, line, in);
    ck_assert_msg(y, "%s: %s", line->call, ct_error_message(c));
    add(&b, c, y);
    if (ct_requires_grad(y)) {
        ct_tensor *g = case_cotangent(y, 3, false);
        ck_assert_msg(ct_backward_with(&y, &g, 1, (ct_backward_opts){0}), "%s: %s", line->call,
                      ct_error_message(c));
        for (int i = 0; i < n; i++)
            if (in[i] && ct_grad(in[i])) add(&b, c, ct_grad(in[i]));
    }
    ct_scope_close(scope);
    return b;
}

START_TEST(every_op_gives_the_same_bits) {
    const case_line *line = case_at(_i);
    ct_context *plain = context_of(false);
    for (int v = 0; v < case_variants(line); v++)
        for (int k = 0; k < 2 * CASE_LAYOUTS; k++) {
            const case_build_opts opts = {
                .dtype = k % 2 ? CT_F64 : CT_F32, .layout = (case_layout)(k / 2), .seed = 5};
            bits a = run_line(plain, line, v, opts), b = run_line(context, line, v, opts);
            ck_assert_msg(a.count == b.count && !memcmp(a.value, b.value, (size_t)a.count * 8),
                          "%s: other bits", line->call);
            free(a.value), free(b.value);
        }
    ct_context_free(plain);
}
END_TEST

START_TEST(no_op_takes_an_ended_handle) {
    const case_line *line = case_at(_i);
    for (int v = 0; v < case_variants(line); v++) {
        case_input input[CASE_INPUTS];
        const int n = case_inputs(line, v, 1, input);
        for (int i = 0; i < n; i++) {
            ct_tensor *in[CASE_INPUTS] = {0};
            ct_scope scope = ct_scope_open(context);
            case_build(context, input, n,
                       (case_build_opts){.dtype = CT_F32, .seed = 5, .layout = CASE_STEPPED}, in);
            if (in[i]) {
                ct_release(in[i]);
                ck_assert_msg(!case_run(context, line, in), "%s: takes input %d", line->call, i);
                ck_assert_msg(ct_error(context) == CT_ERR_ARGUMENT &&
                                  strstr(ct_error_message(context), "has ended"),
                              "%s, input %d: %s", line->call, i, ct_error_message(context));
                ct_error_clear(context);
            }
            ct_scope_close(scope);
        }
    }
}
END_TEST

static bits train(ct_context *c) {
    ct_module *model = ct_module_new(c, "model");
    ct_module_add_child(
        model, "embed",
        ct_embedding_new(c, (ct_embedding_opts){.num_embeddings = 7, .embedding_dim = 8}));
    ct_module_add_child(
        model, "layer",
        ct_encoder_layer_new(
            c, (ct_layer_opts){.embed_dim = 8, .num_heads = 2, .hidden = 12, .dropout = 0.1}));
    ct_module_add_child(model, "head",
                        ct_linear_new(c, (ct_linear_opts){.in_features = 8, .out_features = 7}));
    ct_optim *optim = ct_adamw_new(model, (ct_adamw_opts){.lr = 0.01});
    const int64_t ids[] = {1, 2, 3, 4, 5, 6, 0, 1, 2, 3};
    ct_tensor *x = ct_from_i64(c, CT_SHAPE(2, 5), ids), *target = ct_from_i64(c, CT_SHAPE(10), ids);
    for (int step = 0; step < 5; step++) {
        ct_scope scope = ct_scope_open(c);
        ct_tensor *h = ct_forward(ct_module_child(model, "embed"), x);
        h = ct_encoder_layer_forward(ct_module_child(model, "layer"), h,
                                     (ct_mha_call){.causal = true})
                .out;
        h = ct_forward(ct_module_child(model, "head"), h);
        ct_tensor *loss =
            ct_cross_entropy(ct_reshape(h, CT_SHAPE(10, 7)), target, (ct_cross_entropy_opts){0});
        ck_assert_msg(ct_backward(loss), "%s", ct_error_message(c));
        ck_assert(ct_optim_step(optim));
        ct_optim_zero_grad(optim);
        ct_scope_close(scope);
    }
    bits b = {0};
    for (ct_param p = {0}; ct_module_next(model, &p);) add(&b, c, p.tensor);
    return b;
}

START_TEST(training_gives_the_same_bits) {
    ct_context *plain = context_of(false);
    bits a = train(plain), b = train(context);
    ck_assert_int_eq(a.count, b.count);
    ck_assert(!memcmp(a.value, b.value, (size_t)a.count * 8));
    free(a.value), free(b.value);
    ct_context_free(plain);
}
END_TEST

/* ---- two threads in one context ---- */

/* Returns what a call from another thread made, which must be nothing. Check's assertions are for
 * the test's own thread. */
static void *call_from_outside(void *tensor) {
    ct_tensor *sum = ct_add(tensor, tensor), *ones = ct_ones(context, CT_F32, CT_SCALAR);
    return sum ? sum : ones;
}

/* A forward during which another thread calls. */
static ct_tensor *meanwhile_forward(ct_call *c) {
    pthread_t other;
    void *made;
    ck_assert(!pthread_create(&other, NULL, call_from_outside, c->in[0]));
    ck_assert(!pthread_join(other, &made));
    ck_assert_ptr_null(made);
    ck_assert_int_eq(ct_error(context), CT_OK);
    return ct_neg(c->in[0]); /* a call of this thread goes on */
}

START_TEST(two_threads_at_once) {
    static const ct_op meanwhile = {.name = "meanwhile", .forward = meanwhile_forward};
    ct_tensor *x = ct_ones(context, CT_F32, CT_SHAPE(2));
    ct_apply(&meanwhile, &x, 1, NULL);
    expect(CT_ERR_ARGUMENT, "context: two threads called at the same time", "");
    ck_assert_ptr_nonnull(ct_neg(x)); /* and then all is as before */
    no_error();
}
END_TEST

int main(void) {
    unsetenv("CT_DEBUG"); /* plain contexts must be plain */
    Suite *suite = suite_create("debug");
    TCase *tcase = tcase_create("debug");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, what_is_freed_is_all_ones);
    tcase_add_test(tcase, what_is_new_is_all_ones);
    tcase_add_test(tcase, what_the_tape_saved_stays);
    tcase_add_test(tcase, memory_of_ended_handles);
    tcase_add_test(tcase, every_use_of_an_ended_handle);
    tcase_add_test(tcase, the_maker_is_named);
    tcase_add_test(tcase, a_nan_that_forward_makes);
    tcase_add_test(tcase, a_nan_that_was_given);
    tcase_add_test(tcase, a_nan_that_backward_makes);
    tcase_add_test(tcase, partial_grad_slots_hold_no_nan);
    tcase_add_test(tcase, a_nan_behind_a_slice);
    tcase_add_test(tcase, gradcheck_and_handles_that_end);
    tcase_add_test(tcase, a_failure_ends_nodes_on_the_way);
    tcase_add_test(tcase, without_debug_nan_is_a_number);
    tcase_add_loop_test(tcase, every_op_gives_the_same_bits, 0, case_count());
    tcase_add_loop_test(tcase, no_op_takes_an_ended_handle, 0, case_count());
    tcase_add_test(tcase, training_gives_the_same_bits);
    suite_add_tcase(suite, tcase);
    TCase *threads = tcase_create("threads");
    tcase_set_tags(threads, "threads");
    tcase_add_checked_fixture(threads, setup, teardown);
    tcase_add_test(threads, two_threads_at_once);
    suite_add_tcase(suite, threads);
    return run_suite(suite);
}
