/* The gradient checker: its result, what it leaves unchanged, and mistakes other than wrong
 * gradients. The diagnoses are tested in test_gradcheck_mistakes.c. */
#include "tests/support/suite.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cotangent/cotangent.h>

#include "src/core/context.h"

static ct_context *context;

static void no_error(void) {
    ck_assert_msg(ct_error(context) == CT_OK, "%s", ct_error_message(context));
}

/* ---- an op with mistakes that its values do not show ---- */

typedef enum {
    RIGHT,
    HALF, /* x^2 with half its gradient */
    FORWARD_DRIFTS,
    BACKWARD_DRIFTS, /* the gradient differs from run to run */
    SPENDS_SAVED,    /* backward changes a saved tensor, so a second one gives something else */
    WRITES_INPUT,
    WRITES_COTANGENT,
    READS_NEW_MEMORY,
    COUNTS_THREADS,
    IGNORES_STRIDES,
    IGNORES_REPEATS,
    FOLDS_SHARED,
    WRONG_IN_F32,
    OTHER_SHAPE,
    OTHER_DTYPE,
    NO_GRADIENT,
    FAILS,
    RUNS_OUT
} fault;

typedef struct {
    fault fault;
} attrs;

static int drift;

static ct_tensor *square_forward(ct_call *c) {
    const fault f = ((const attrs *)c->attrs)->fault;
    ct_tensor *x = c->in[0];
    if ((f == IGNORES_STRIDES && !x->contiguous) || (f == IGNORES_REPEATS && x->stride[0] == 0))
        /* as if it were dense */
        return ct_mul(x, ct_wrap(c->context, CT_F64, x->shape, NULL, x->data));
    if (f == FORWARD_DRIFTS) return ct_mul(x, ct_add_scalar(x, 1e-12 * ++drift));
    if (f == WRITES_INPUT) ct_data_f64(x)[1] += 1;
    return ct_mul(x, c->n > 1 ? c->in[1] : x);
}

static bool square_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    const fault f = ((const attrs *)c->attrs)->fault;
    ct_tensor *x = c->in[0], *other = c->n > 1 ? c->in[1] : x;
    if (f == WRITES_COTANGENT) ct_data_f64(g[0])[0] *= 2;
    grad[0] = ct_scale(ct_mul(g[0], other), c->n > 1 || f == HALF ? 1 : 2);
    if (c->n > 1)
        grad[1] = f == FOLDS_SHARED && x->data == other->data
                      ? ct_zeros(c->context, CT_F64, x->shape)
                      : ct_mul(g[0], x);
    ct_tensor *fresh = ct_empty(c->context, CT_F64, CT_SHAPE(50));
    switch (f) {
    case BACKWARD_DRIFTS: grad[0] = ct_scale(grad[0], 1 + 1e-13 * (++drift % 7)); break;
    case SPENDS_SAVED: ct_data_f64(x)[0] *= 1 + 1e-15; break;
    case READS_NEW_MEMORY:
        if (isnan(ct_data_f64(fresh)[40])) ct_data_f64(grad[0])[0] += 1;
        break;
    case COUNTS_THREADS:
        if (c->context->threads == 3) grad[0] = ct_scale(grad[0], 1 + 1e-15);
        break;
    case WRONG_IN_F32:
        if (x->dtype == CT_F32) grad[0] = ct_scale(grad[0], 1.01);
        break;
    case OTHER_SHAPE: grad[0] = ct_sum(grad[0], CT_DIMS(0), false); break;
    case OTHER_DTYPE: grad[0] = ct_cast(grad[0], CT_F32); break;
    case NO_GRADIENT: grad[0] = NULL; break;
    case FAILS: return ct_matmul(g[0], ct_zeros(c->context, CT_F64, CT_SHAPE(9, 9))) != NULL;
    case RUNS_OUT: return ct_zeros(c->context, CT_F64, CT_SHAPE((int64_t)1 << 50)) != NULL;
    default: break;
    }
    return true;
}

static const ct_op op = {.name = "square",
                         .attrs_size = sizeof(attrs),
                         .forward = square_forward,
                         .backward = square_backward};
static const ct_op strided_op = {.name = "square",
                                 .attrs_size = sizeof(attrs),
                                 .forward = square_forward,
                                 .backward = square_backward,
                                 .flags = CT_OP_STRIDED};

static ct_tensor *square(ct_tensor *const *in, int n, void *arg) {
    const attrs *a = arg;
    return ct_apply(a->fault == IGNORES_STRIDES || a->fault == IGNORES_REPEATS ? &strided_op : &op,
                    in, n, a);
}

static ct_gradcheck_result check_fault(fault f, int inputs, ct_gradcheck_opts opts) {
    ct_tensor *in[] = {ct_randn(context, CT_F64, CT_SHAPE(2, 3)),
                       ct_randn(context, CT_F64, CT_SHAPE(2, 3))};
    drift = 0;
    return ct_gradcheck(square, &(attrs){f}, in, inputs, opts);
}

START_TEST(what_else_is_wrong_is_found) {
    static const struct {
        fault fault;
        int inputs;
        ct_mistake mistake;
        const char *words;
    } cases[] = {
        {RIGHT, 1, CT_MISTAKE_NONE, ""},
        {RIGHT, 2, CT_MISTAKE_NONE, ""},
        {FORWARD_DRIFTS, 1, CT_MISTAKE_NONDETERMINISTIC, "another value"},
        {BACKWARD_DRIFTS, 1, CT_MISTAKE_NONDETERMINISTIC, "second backward"},
        {SPENDS_SAVED, 1, CT_MISTAKE_WRITES, "input 0 is written to"},
        {WRITES_INPUT, 1, CT_MISTAKE_WRITES, "input 0 is written to"},
        {WRITES_COTANGENT, 1, CT_MISTAKE_WRITES, "cotangent"},
        {READS_NEW_MEMORY, 1, CT_MISTAKE_MEMORY, "new memory"},
        {COUNTS_THREADS, 1, CT_MISTAKE_THREADS, "threads"},
        {IGNORES_STRIDES, 1, CT_MISTAKE_LAYOUT, "strided inputs of the same values, the value"},
        {IGNORES_REPEATS, 1, CT_MISTAKE_LAYOUT,
         "with an expanded input (stride 0) of the same values, the value"},
        {FOLDS_SHARED, 2, CT_MISTAKE_SHARED, "inputs 0 and 1 are one tensor"},
        {WRONG_IN_F32, 1, CT_MISTAKE_DTYPE, "gradient of input 0"},
        {OTHER_SHAPE, 1, CT_MISTAKE_REFUSED, "(3), the input (2, 3)"},
        {OTHER_DTYPE, 1, CT_MISTAKE_REFUSED, "f32"},
        {NO_GRADIENT, 1, CT_MISTAKE_REFUSED, "no gradient for input 0"},
        {FAILS, 1, CT_MISTAKE_REFUSED, "(2, 3) @ (9, 9)"},
    };
    const fault f = cases[_i].fault;
    ct_gradcheck_result r = check_fault(
        f, cases[_i].inputs, (ct_gradcheck_opts){.both_dtypes = f == WRONG_IN_F32 || f == RIGHT});
    no_error();
    ck_assert_msg(r.ran && r.ok == (f == RIGHT), "%s", r.diagnosis);
    ck_assert_msg(r.mistake == cases[_i].mistake && strstr(r.diagnosis, cases[_i].words), "%s: %s",
                  ct_mistake_name(r.mistake), r.diagnosis);
    ck_assert_int_eq(context->threads, 2);
    /* gradient_only skips these checks */
    const bool left_out =
        f == COUNTS_THREADS || f == IGNORES_STRIDES || f == IGNORES_REPEATS || f == FOLDS_SHARED;
    r = check_fault(f, cases[_i].inputs, (ct_gradcheck_opts){.gradient_only = true});
    if (left_out) ck_assert_msg(r.ran && r.ok, "%s", r.diagnosis);
}
END_TEST

/* ---- ops that do not look at what they get ---- */

static ct_tensor *unchecked_forward(ct_call *c) {
    ct_tensor *y = ct_zeros(c->context, CT_F64, ct_shape_of(c->in[0]));
    for (int64_t i = 0; i < ct_numel(y); i++)
        ct_data_f64(y)[i] = ct_data_f64(c->in[0])[i] * ct_data_f64(c->in[0])[i];
    return y;
}
static bool unchecked_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    grad[0] = ct_zeros(c->context, CT_F64, ct_shape_of(c->in[0]));
    for (int64_t i = 0; i < ct_numel(grad[0]); i++)
        ct_data_f64(grad[0])[i] = 2 * ct_data_f64(c->in[0])[i] * ct_data_f64(g[0])[i];
    return true;
}
static ct_tensor *unchecked(ct_tensor *const *in, int n, void *arg) {
    const ct_op careless = {.name = "careless",
                            .forward = unchecked_forward,
                            .backward = unchecked_backward,
                            .flags = arg ? CT_OP_STRIDED : 0};
    static ct_op kept[2];
    kept[arg != NULL] = careless;
    return ct_apply(&kept[arg != NULL], in, n, NULL);
}

/* Outside of the check ct_data_* gives NULL for them; during it they get copies and a diagnosis. */
START_TEST(unchecked_reads_are_named) {
    ct_tensor *x = ct_randn(context, CT_F64, CT_SHAPE(2, 3));
    int strided = 1;
    const ct_gradcheck_opts both = {.both_dtypes = true};
    ck_assert(ct_gradcheck(unchecked, NULL, &x, 1, (ct_gradcheck_opts){0}).ok);
    ct_gradcheck_result r = ct_gradcheck(unchecked, &strided, &x, 1, (ct_gradcheck_opts){0});
    ck_assert_msg(r.ran && r.mistake == CT_MISTAKE_LAYOUT && r.verdict == CT_VERDICT_WRONG &&
                      strstr(r.diagnosis, "data_f64: (2, 3) is not contiguous"),
                  "%s", r.diagnosis);
    r = ct_gradcheck(unchecked, NULL, &x, 1, both);
    ck_assert_msg(r.ran && r.mistake == CT_MISTAKE_DTYPE &&
                      strstr(r.diagnosis, "in f32: data_f64: the tensor is f32"),
                  "%s", r.diagnosis);
    no_error();
    ck_assert_ptr_null(ct_data_f64(ct_transpose(x, 0, 1)));
    ck_assert_int_eq(ct_error(context), CT_ERR_ARGUMENT);
    ct_error_clear(context);
}
END_TEST

static int told;
static void tell(void *data, ct_status status, const char *message) {
    (void)data, (void)status, (void)message, told++;
}

START_TEST(an_error_is_the_functions_or_none) {
    context->on_error = tell;
    told = 0;
    check_fault(HALF, 1, (ct_gradcheck_opts){0});
    check_fault(FAILS, 1, (ct_gradcheck_opts){0});
    ck_assert_int_eq(told, 0); /* a wrong gradient is a result */
    ct_gradcheck_result r = check_fault(RUNS_OUT, 1, (ct_gradcheck_opts){0});
    ck_assert(!r.ran && !r.ok && told == 1);
    ck_assert_int_eq(ct_error(context), CT_ERR_MEMORY);
    ck_assert(context->on_error == tell);
    r = check_fault(RIGHT, 1, (ct_gradcheck_opts){0}); /* with an error pending nothing runs */
    ck_assert(!r.ran && !r.ok);
    ct_error_clear(context);
    r = ct_gradcheck(NULL, NULL, (ct_tensor *[]){ct_ones(context, CT_F64, CT_SHAPE(2))}, 1,
                     (ct_gradcheck_opts){0});
    ck_assert(!r.ran && ct_error(context) == CT_ERR_ARGUMENT);
    ct_error_clear(context);
    r = ct_gradcheck(square, NULL, NULL, 0, (ct_gradcheck_opts){0});
    ck_assert(!r.ran && !r.ok);
}
END_TEST

/* ---- functions of the library's ops ---- */

static ct_tensor *first_relu(ct_tensor *const *in, int n, void *arg) {
    return (void)n, (void)arg, ct_relu(in[0]);
}
static ct_tensor *offset_square(ct_tensor *const *in, int n, void *arg) {
    return (void)n, ct_add_scalar(ct_mul(in[0], in[0]), *(double *)arg);
}
static ct_tensor *logarithm(ct_tensor *const *in, int n, void *arg) {
    return (void)n, (void)arg, ct_log(in[0]);
}
static ct_tensor *drop(ct_tensor *const *in, int n, void *arg) {
    return (void)n, (void)arg,
           ct_mul(ct_dropout(in[0], 0.4, true), ct_rand(context, CT_F64, CT_SHAPE(3, 5)));
}
static ct_tensor *gathered(ct_tensor *const *in, int n, void *arg) {
    return (void)n, (void)arg, ct_where(in[2], ct_gather(in[0], 1, in[1]), in[3]);
}
static ct_tensor *hidden(ct_tensor *const *in, int n, void *arg) {
    return (void)n, (void)arg, ct_masked_fill(in[0], in[1], -(double)INFINITY);
}
static ct_tensor *product(ct_tensor *const *in, int n, void *arg) {
    return (void)n, (void)arg, ct_matmul(in[0], in[1]);
}
static ct_tensor *wrong_square(ct_tensor *const *in, int n, void *arg) {
    return (void)n, (void)arg, ct_mul(in[0], ct_detach(in[0]));
}
static ct_tensor *same(ct_tensor *const *in, int n, void *arg) { return (void)n, (void)arg, in[0]; }
static ct_tensor *cut_off(ct_tensor *const *in, int n, void *arg) {
    return (void)n, (void)arg, ct_detach(in[0]);
}
static ct_tensor *by_a_parameter(ct_tensor *const *in, int n, void *arg) {
    return (void)n, ct_mul(in[0], arg);
}

START_TEST(a_kink_is_named) {
    ct_tensor *x = ct_from_f64(context, CT_SHAPE(4), (double[]){1, 0, -2, 3});
    ct_gradcheck_result r = ct_gradcheck(first_relu, NULL, &x, 1, (ct_gradcheck_opts){0});
    ck_assert_msg(!r.ok && r.mistake == CT_MISTAKE_KINK && r.index == 1 && r.wrong == 1 &&
                      r.undecided == 1 && r.verdict == CT_VERDICT_CANNOT_TELL,
                  "%s", r.diagnosis);
    ck_assert(strstr(r.diagnosis, "at 1 element "));
    ct_data_f64(x)[1] = 3e-7; /* within eps of a kink: smaller steps do not meet it */
    r = ct_gradcheck(first_relu, NULL, &x, 1, (ct_gradcheck_opts){0});
    ck_assert_msg(r.ok && r.verdict == CT_VERDICT_OK, "%s", r.diagnosis);
    ct_data_f64(x)[1] = 0.1;
    ck_assert(ct_gradcheck(first_relu, NULL, &x, 1, (ct_gradcheck_opts){0}).ok);
    r = ct_gradcheck(wrong_square, NULL, &x, 1, (ct_gradcheck_opts){0});
    ck_assert_msg(r.mistake == CT_MISTAKE_FACTOR, "a wrong gradient is no kink: %s", r.diagnosis);
}
END_TEST

typedef struct {
    double at_zero; /* the derivative that a relu's backward gives at zero */
} kinked;
static ct_tensor *kinked_forward(ct_call *c) { return ct_relu(c->in[0]); }
static bool kinked_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    grad[0] =
        ct_mul(g[0], ct_cast(ct_gt(c->in[0], ct_zeros(c->context, CT_F64, CT_SCALAR)), CT_F64));
    for (int64_t i = 0; i < ct_numel(grad[0]); i++)
        if (ct_data_f64(c->in[0])[i] == 0)
            ct_data_f64(grad[0])[i] = ct_data_f64(g[0])[i] * ((const kinked *)c->attrs)->at_zero;
    return true;
}
static const ct_op kinked_op = {.name = "kinked",
                                .attrs_size = sizeof(kinked),
                                .forward = kinked_forward,
                                .backward = kinked_backward};
static ct_tensor *relu_with(ct_tensor *const *in, int n, void *arg) {
    return ct_apply(&kinked_op, in, n, arg);
}

/* Between the slopes of a kink nothing can be told, outside of them a gradient is wrong. */
START_TEST(a_kink_has_bounds) {
    ct_tensor *x = ct_from_f64(context, CT_SHAPE(4), (double[]){1, 0, -2, 3});
    const double inside[] = {0, 0.3, 1}, outside[] = {-0.2, 1.2, 5};
    for (int i = 0; i < 3; i++) {
        ct_gradcheck_result r =
            ct_gradcheck(relu_with, &(kinked){inside[i]}, &x, 1, (ct_gradcheck_opts){0});
        ck_assert_msg(r.verdict == CT_VERDICT_CANNOT_TELL && r.undecided == 1, "%g: %s", inside[i],
                      r.diagnosis);
        r = ct_gradcheck(relu_with, &(kinked){outside[i]}, &x, 1, (ct_gradcheck_opts){0});
        ck_assert_msg(r.verdict == CT_VERDICT_WRONG && r.index == 1, "%g: %s", outside[i],
                      r.diagnosis);
    }
}
END_TEST

START_TEST(noise_is_named) {
    double offset = 3e4;
    ct_tensor *x = ct_randn(context, CT_F32, CT_SHAPE(3, 2)), *wide = ct_cast(x, CT_F64);
    ct_gradcheck_result r = ct_gradcheck(offset_square, &offset, &x, 1, (ct_gradcheck_opts){0});
    ck_assert_msg(!r.ok && r.mistake == CT_MISTAKE_PRECISION && strstr(r.diagnosis, "check in f64"),
                  "%s", r.diagnosis);
    r = ct_gradcheck(offset_square, &offset, &wide, 1, (ct_gradcheck_opts){.atol = 1e-4});
    ck_assert_msg(r.ok && r.noise > 1e-9, "%s", r.diagnosis);
    offset = 1e9;
    r = ct_gradcheck(offset_square, &offset, &wide, 1, (ct_gradcheck_opts){0});
    ck_assert_msg(r.mistake == CT_MISTAKE_PRECISION && strstr(r.diagnosis, "another eps"), "%s",
                  r.diagnosis);
    offset = 1;
    ck_assert(
        ct_gradcheck(offset_square, &offset, &x, 1, (ct_gradcheck_opts){.both_dtypes = true}).ok);
    r = ct_gradcheck(wrong_square, NULL, &x, 1, (ct_gradcheck_opts){0});
    ck_assert_msg(r.mistake == CT_MISTAKE_FACTOR && fabs(r.factor - 0.5) < 1e-2, "in f32 too: %s",
                  r.diagnosis);
}
END_TEST

START_TEST(a_function_that_is_not_finite_is_named) {
    ct_tensor *x = ct_from_f64(context, CT_SHAPE(2), (double[]){1e-7, 1});
    ct_gradcheck_result r = ct_gradcheck(logarithm, NULL, &x, 1, (ct_gradcheck_opts){0});
    ck_assert_msg(r.ok, "%s", r.diagnosis); /* steps that stay in the domain are found */
    ct_data_f64(x)[0] = 0;
    r = ct_gradcheck(logarithm, NULL, &x, 1, (ct_gradcheck_opts){0});
    ck_assert_msg(r.verdict == CT_VERDICT_CANNOT_TELL && r.mistake == CT_MISTAKE_NOT_FINITE &&
                      strstr(r.diagnosis, "move the point"),
                  "%s", r.diagnosis);
    ck_assert_ptr_nonnull(strchr(r.map, 'x'));
    ct_tensor *in[] = {ct_randn(context, CT_F64, CT_SHAPE(3)),
                       ct_from_bool(context, CT_SHAPE(3), (bool[]){0, 1, 0})};
    /* an infinity that does not depend on the input has slope 0 */
    r = ct_gradcheck(hidden, NULL, in, 2, (ct_gradcheck_opts){0});
    ck_assert_msg(r.ran && r.ok, "%s", r.diagnosis);
}
END_TEST

/* Every evaluation has the same random numbers, and the generator's state is restored afterwards.
 */
START_TEST(the_generator_is_restored) {
    ct_tensor *x = ct_randn(context, CT_F64, CT_SHAPE(3, 5));
    ct_rng before = ct_rng_get(context);
    for (int fast = 0; fast < 2; fast++) {
        ct_gradcheck_result r = ct_gradcheck(drop, NULL, &x, 1, (ct_gradcheck_opts){.fast = fast});
        ck_assert_msg(r.ran && r.ok, "%s", r.diagnosis);
        ck_assert(ct_rng_get(context).stream == before.stream &&
                  ct_rng_get(context).seed == before.seed);
    }
}
END_TEST

START_TEST(inputs_without_a_gradient_are_left_alone) {
    ct_tensor *index = ct_from_i64(context, CT_SHAPE(2, 2), (int64_t[]){2, 0, 1, 1}),
              *keep = ct_from_bool(context, CT_SHAPE(2, 2), (bool[]){1, 1, 1, 0});
    ct_tensor *in[] = {ct_randn(context, CT_F64, CT_SHAPE(2, 3)), index, keep,
                       ct_randn(context, CT_F64, CT_SCALAR)};
    ct_gradcheck_result r = ct_gradcheck(gathered, NULL, in, 4, (ct_gradcheck_opts){0});
    no_error();
    ck_assert_msg(r.ran && r.ok, "%s", r.diagnosis);
    ck_assert_int_eq(r.checked, 7);
    ck_assert(!ct_requires_grad(in[0]) && !ct_grad(in[0]) && ct_data_i64(index)[0] == 2);
}
END_TEST

START_TEST(what_the_caller_has_stays) {
    ct_tensor *x = ct_randn(context, CT_F64, CT_SHAPE(4, 3)),
              *y = ct_randn(context, CT_F64, CT_SHAPE(4, 3));
    ct_set_requires_grad(x, true);
    ct_backward(ct_sum(ct_mul(x, y), CT_ALL, false));
    double grad = ct_data_f64(ct_grad(x))[2], value = ct_data_f64(x)[2];
    ct_memory_stats before = ct_memory(context);
    ct_scope scope =
        ct_scope_open_no_grad(context); /* a check records even inside a no_grad scope */
    ct_tensor *in[] = {ct_transpose(x, 0, 1), ct_expand(ct_narrow(y, 0, 1, 1), CT_SHAPE(4, 3))};
    ck_assert(ct_gradcheck(product, NULL, in, 2, (ct_gradcheck_opts){0}).ok);
    check_fault(HALF, 1, (ct_gradcheck_opts){0});
    check_fault(FAILS, 1, (ct_gradcheck_opts){0});
    ct_scope_close(scope);
    no_error();
    ck_assert(ct_data_f64(ct_grad(x))[2] == grad && ct_data_f64(x)[2] == value &&
              ct_requires_grad(x));
    ck_assert_int_eq(ct_memory(context).live, before.live);
    ct_tensor *weight = ct_set_requires_grad(ct_randn(context, CT_F64, CT_SHAPE(3)), true);
    ck_assert(ct_gradcheck(by_a_parameter, weight, &x, 1, (ct_gradcheck_opts){0}).ok);
}
END_TEST

/* No elements, one element, the input itself as the result, and a result without a gradient. */
START_TEST(small_and_strange) {
    for (int fast = 0; fast < 2; fast++) {
        const ct_gradcheck_opts opts = {.fast = fast};
        ct_tensor *none = ct_ones(context, CT_F64, CT_SHAPE(0, 3)),
                  *one = ct_ones(context, CT_F64, CT_SCALAR);
        ck_assert(ct_gradcheck(first_relu, NULL, &none, 1, opts).ok);
        ck_assert(ct_gradcheck(first_relu, NULL, &one, 1, opts).ok);
        ck_assert(ct_gradcheck(same, NULL, &one, 1, opts).ok);
        ct_gradcheck_result r = ct_gradcheck(cut_off, NULL, &one, 1, opts);
        ck_assert_msg(r.ran && r.mistake == CT_MISTAKE_ZERO, "%s", r.diagnosis);
        no_error();
    }
}
END_TEST

/* Too large for a row for each output element: only the summed cotangents, for every element. */
START_TEST(a_large_output_is_checked_by_random_cotangents) {
    ct_tensor *in[] = {ct_randn(context, CT_F64, CT_SHAPE(40, 8)),
                       ct_randn(context, CT_F64, CT_SHAPE(8, 40))};
    ct_gradcheck_result r = ct_gradcheck(product, NULL, in, 2, (ct_gradcheck_opts){0});
    ck_assert_msg(r.ran && r.ok && r.checked == 640, "%s", r.diagnosis);
    ct_tensor *x = ct_randn(context, CT_F64, CT_SHAPE(30, 20));
    r = ct_gradcheck(wrong_square, NULL, &x, 1, (ct_gradcheck_opts){.gradient_only = true});
    ck_assert_msg(r.mistake == CT_MISTAKE_FACTOR && r.worst[0].output < 0, "%s", r.diagnosis);
}
END_TEST

/* The gradient of a layer norm under a cotangent of ones is zero: its differences are only the
 * noise of 24,000 outputs. */
static ct_tensor *norm(ct_tensor *const *in, int n, void *arg) {
    return (void)n, (void)arg, ct_layer_norm(in[0], NULL, NULL, 1e-5);
}
START_TEST(the_noise_of_a_sum_is_allowed_for) {
    for (int wide = 0; wide < 2; wide++) {
        ct_tensor *x = ct_randn(context, wide ? CT_F64 : CT_F32, CT_SHAPE(300, 80));
        for (int seed = 0; seed < 4; seed++) {
            ct_gradcheck_result r = ct_gradcheck(
                norm, NULL, &x, 1, (ct_gradcheck_opts){.fast = true, .seed = (uint64_t)seed});
            ck_assert_msg(r.ran && r.ok, "%s", r.diagnosis);
        }
    }
}
END_TEST

START_TEST(the_result_says_where) {
    ct_tensor *x = ct_randn(context, CT_F64, CT_SHAPE(20, 40));
    /* the error is x */
    for (int64_t i = 0; i < 800; i++)
        ct_data_f64(x)[i] = i / 40 >= 10 && i % 40 >= 20 ? 1e-3 * (double)(i + 1) : 0;
    ct_gradcheck_result r =
        ct_gradcheck(wrong_square, NULL, &x, 1, (ct_gradcheck_opts){.rtol = 1e-12});
    ck_assert(r.ran && !r.ok && r.checked == 800 && r.wrong == 200);
    ck_assert_int_eq(r.worst_count, CT_GRADCHECK_WORST);
    ck_assert_int_eq(r.worst[0].index, r.index);
    ck_assert_int_eq(r.worst[0].input, 0);
    for (int w = 0; w < r.worst_count; w++) {
        const ct_gradcheck_element *e = &r.worst[w];
        ck_assert(e->index / 40 >= 10 && e->index % 40 >= 20);
        ck_assert(fabs(e->error - fabs(e->analytic - e->numeric)) < 1e-15 &&
                  fabs(e->relative - 0.5) < 1e-6 && e->noise < 1e-6);
        for (int v = 0; v < w; v++) ck_assert(r.worst[v].index != e->index);
        /* without the tolerance for |g| */
        ck_assert(!w || e->error <= 1.1 * r.worst[w - 1].error);
    }
    ck_assert_int_eq(strlen(r.map), 8 * 33);
    for (int row = 0; row < 8; row++)
        for (int column = 0; column < 32; column++)
            ck_assert_int_eq(r.map[row * 33 + column] != '.', row >= 4 && column >= 16);
    ck_assert(r.error > 0.1 && r.noise < 1e-6);
}
END_TEST

static void report_of(fault f, bool fast, char *text, size_t size) {
    FILE *file = tmpfile();
    ck_assert_ptr_nonnull(file);
    check_fault(f, 1, (ct_gradcheck_opts){.report = file, .fast = fast});
    rewind(file);
    text[fread(text, 1, size - 1, file)] = 0;
    fclose(file);
}

START_TEST(the_report_is_for_people) {
    char text[8192];
    report_of(RIGHT, false, text, sizeof text);
    ck_assert_msg(strstr(text, "gradcheck: ok: 6 elements") &&
                      strchr(text, '\n') == text + strlen(text) - 1,
                  "%s", text);
    report_of(HALF, false, text, sizeof text);
    const char *words[] = {
        "gradcheck: wrong: input 0 (2, 3): it is 1/2 of what it must be: a factor of 2 is ",
        "is missing\n",
        "6 of 6 elements are wrong",
        "analytic",
        "0 (1, 1)  ",
        "1 at (1, 1)  ",
        "where in input 0 (2, 3)"};
    for (int w = 0; w < 6; w++)
        ck_assert_msg(strstr(text, words[w]) != NULL, "no \"%s\" in\n%s", words[w], text);
    report_of(HALF, true, text, sizeof text);
    ck_assert_msg(strstr(text, "3 of 3 directions") && strstr(text, "a direction") &&
                      !strstr(text, "where in"),
                  "%s", text);
    report_of(FAILS, false, text, sizeof text);
    ck_assert_msg(strstr(text, "wrong: ") && strstr(text, "(9, 9)"), "%s", text);
}
END_TEST

START_TEST(every_mistake_has_a_name) {
    for (int m = CT_MISTAKE_NONE; m <= CT_MISTAKE_WANTS; m++)
        for (int other = 0; other < m; other++)
            ck_assert_str_ne(ct_mistake_name((ct_mistake)m), ct_mistake_name((ct_mistake)other));
    ck_assert_str_eq(ct_mistake_name((ct_mistake)99), "unknown");
}
END_TEST

/* Every allocation of a check may fail: an error and no leak. */
START_TEST(out_of_memory_at_any_point) {
    ct_tensor *x = ct_ones(context, CT_F64, CT_SHAPE(40));
    ct_gradcheck_result r = {0};
    int failures = 0;
    const ct_memory_stats start = ct_memory(context);
    for (int64_t room = 4 << 10; !r.ran && room < 64 << 20; room += room / 8) {
        ct_memory_trim(context);
        context->pool.limit = context->pool.held + room;
        r = ct_gradcheck(wrong_square, NULL, &x, 1, (ct_gradcheck_opts){0});
        context->pool.limit = 0;
        if (!r.ran) ck_assert_int_eq(ct_error(context), CT_ERR_MEMORY);
        failures += !r.ran;
        ct_error_clear(context);
        ck_assert_int_eq(ct_memory(context).live, start.live);
    }
    ck_assert_msg(r.ran && r.mistake == CT_MISTAKE_FACTOR, "%s", r.diagnosis);
    ck_assert_int_gt(failures, 5);
}
END_TEST

static void setup(void) { context = ct_context_new((ct_context_opts){.seed = 12, .threads = 2}); }
static void teardown(void) { ct_context_free(context); }

int main(void) {
    return run_tests(
        "gradcheck", setup, teardown,
        TESTS(LOOP(what_else_is_wrong_is_found, 17), TEST(an_error_is_the_functions_or_none),
              TEST(unchecked_reads_are_named), TEST(a_kink_is_named), TEST(a_kink_has_bounds),
              TEST(noise_is_named), TEST(a_function_that_is_not_finite_is_named),
              TEST(the_generator_is_restored), TEST(inputs_without_a_gradient_are_left_alone),
              TEST(what_the_caller_has_stays), TEST(small_and_strange),
              TEST(a_large_output_is_checked_by_random_cotangents),
              TEST(the_noise_of_a_sum_is_allowed_for), TEST(the_result_says_where),
              TEST(the_report_is_for_people), TEST(every_mistake_has_a_name),
              TEST(out_of_memory_at_any_point)));
}
