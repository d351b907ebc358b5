/* Every line of ops.def, on every list of its inputs: gradients equal differences, and value and
 * gradients do not depend on strides, dtype, instruction set, number of threads, or which gradients
 * are wanted. The lists include zero sizes and scalars.
 * CASES_REPORT=1 prints the worst error of each line. */
#include "tests/support/suite.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/cases.h"

typedef struct {
    ct_dtype dtype;
    case_layout layout;
    int64_t scale;
    bool single;
    unsigned hide; /* bits of inputs whose gradient is not wanted */
} setup;

/* The results of a run, as f64, which represents f32 exactly. */
typedef struct {
    bool ran;
    ct_dtype dtype;
    ct_shape shape;
    int64_t count, grad_count[CASE_INPUTS];
    double *value, *grad[CASE_INPUTS];
    double terms; /* of a single value y: the Euclidean norm of x dy/dx, over all elements of the
                     inputs */
} outcome;

static const char *what; /* the current case, for messages */

static void name_case(int line, int variant) {
    static char text[512];
    const case_line *l = case_at(line);
    const char *s = l->inputs;
    for (int i = 0; i < variant; i++) s = strchr(s, '|') + 1;
    snprintf(text, sizeof text, "%s: %s on %.*s", l->name, l->call, (int)strcspn(s, "|"), s);
    what = text;
}

static ct_context *context_of(const char *isa, int threads) {
    return ct_context_new((ct_context_opts){.seed = 1, .isa = isa, .threads = threads});
}

static void no_error(ct_context *context) {
    ck_assert_msg(ct_error(context) == CT_OK, "%s: %s", what, ct_error_message(context));
}

static double *copy(ct_context *context, ct_tensor *t, int64_t *count) {
    *count = ct_numel(t);
    double *out = malloc((size_t)(*count + 1) * sizeof *out);
    ck_assert_ptr_nonnull(out);
    ct_to_f64(t, out, *count);
    no_error(context);
    return out;
}

static bool real(ct_dtype dtype) { return dtype == CT_F32 || dtype == CT_F64; }
static bool collects(const case_input *input) { return input->kind == 'R' || input->kind == 'D'; }

/* The Euclidean norm of x g. If x's op is a sum of products, these are its terms, and the errors of
 * the sum grow as their norm does. */
static double norm_of_terms(ct_context *context, ct_tensor *x, const double *grad) {
    int64_t n;
    double squares = 0, *value = copy(context, x, &n);
    for (int64_t i = 0; i < n; i++)
        if (isfinite(value[i] * grad[i])) squares += pow(value[i] * grad[i], 2);
    free(value);
    return sqrt(squares);
}

/* Returns the value, and the gradients for a random cotangent. ran is false if the call fails on
 * multiplied sizes, which may happen if its text has sizes in it. */
static outcome run(ct_context *context, int index, int variant, setup s) {
    outcome o = {0};
    const case_line *line = case_at(index);
    case_input input[CASE_INPUTS];
    ct_tensor *in[CASE_INPUTS] = {0};
    ct_scope scope = ct_scope_open(context);
    int n = case_inputs(line, variant, s.scale, input);
    ck_assert_msg(n >= 0, "%s: inputs that cannot be read", what);
    bool built = case_build(
        context, input, n,
        (case_build_opts){.dtype = s.dtype, .layout = s.layout, .seed = 5, .single = s.single}, in);
    for (int i = 0; i < n && built; i++)
        if (s.hide >> i & 1 && in[i] && collects(&input[i])) ct_set_requires_grad(in[i], false);
    no_error(context);

    ct_tensor *y = case_run(context, line, in);
    if (!y && s.scale > 1) {
        ct_error_clear(context);
        ct_scope_close(scope);
        return o;
    }
    no_error(context);
    ck_assert_msg(y != NULL, "%s: NULL without an error", what);
    o.ran = true, o.dtype = ct_dtype_of(y), o.shape = ct_shape_of(y);
    o.value = copy(context, y, &o.count);

    if (real(o.dtype) && ct_requires_grad(y)) {
        ct_tensor *g = case_cotangent(y, 3, s.single);
        double unit = 0;
        if (o.count == 1) ct_to_f64(g, &unit, 1);
        ck_assert_msg(ct_backward_with(&y, &g, 1, (ct_backward_opts){0}), "%s: backward: %s", what,
                      ct_error_message(context));
        for (int i = 0; i < n; i++) {
            ct_tensor *grad = in[i] ? ct_grad(in[i]) : NULL;
            bool wanted = collects(&input[i]) && !(s.hide >> i & 1);
            ck_assert_msg((grad != NULL) == wanted, "%s: input %d %s", what, i,
                          wanted ? "got no gradient" : "got a gradient nobody wants");
            if (!grad) continue;
            ct_shape a = ct_shape_of(grad), b = ct_shape_of(in[i]);
            ck_assert_msg(a.ndim == b.ndim &&
                              !memcmp(a.dim, b.dim, (size_t)a.ndim * sizeof *a.dim) &&
                              ct_dtype_of(grad) == ct_dtype_of(in[i]),
                          "%s: the gradient of input %d has another shape or dtype", what, i);
            o.grad[i] = copy(context, grad, &o.grad_count[i]);
            if (unit != 0)
                o.terms = hypot(o.terms, norm_of_terms(context, in[i], o.grad[i]) / unit);
        }
    } else if (real(o.dtype)) {
        for (int i = 0; i < n; i++)
            ck_assert_msg(!collects(&input[i]) || (s.hide >> i & 1),
                          "%s: input %d has a gradient, its output has none", what, i);
    }
    ct_scope_close(scope);
    no_error(context);
    return o;
}

static void drop(outcome *o) {
    free(o->value);
    for (int i = 0; i < CASE_INPUTS; i++) free(o->grad[i]);
}

/* The largest difference divided by the largest value; infinite if only one of two is NaN. A single
 * value may be the result of cancellation, so it is compared relative to its terms, or to 1 if
 * these are not known. */
static double distance(const double *a, const double *b, int64_t n, double terms) {
    double worst = 0, largest = n > 1 ? 1e-2 : terms > 0 ? terms : 1;
    for (int64_t i = 0; i < n; i++) {
        if (isfinite(b[i])) largest = fmax(largest, fabs(b[i]));
        if (a[i] == b[i] || (isnan(a[i]) && isnan(b[i]))) continue;
        double d = fabs(a[i] - b[i]);
        worst = isfinite(d) ? fmax(worst, d) : INFINITY;
    }
    return worst / largest;
}

/* Compares b with the reference a. */
static double compare(const outcome *a, const outcome *b, double tolerance, const char *how) {
    ck_assert_msg(
        a->ran && b->ran && a->shape.ndim == b->shape.ndim &&
            !memcmp(a->shape.dim, b->shape.dim, (size_t)a->shape.ndim * sizeof *a->shape.dim),
        "%s: %s: the shape differs", what, how);
    double worst = distance(b->value, a->value, a->count, a->terms);
    ck_assert_msg(worst <= tolerance, "%s: %s: the value is off by %g of the largest", what, how,
                  worst);
    if (tolerance == 0)
        ck_assert_msg(!memcmp(a->value, b->value, (size_t)a->count * 8), "%s: %s: other bits", what,
                      how);
    for (int i = 0; i < CASE_INPUTS; i++) {
        ck_assert_msg(!a->grad[i] == !b->grad[i],
                      "%s: %s: input %d: one run has a gradient, one has none", what, how, i);
        if (!a->grad[i]) continue;
        double d = distance(b->grad[i], a->grad[i], a->grad_count[i], 0);
        ck_assert_msg(d <= tolerance,
                      "%s: %s: the gradient of input %d is off by %g of the largest", what, how, i,
                      d);
        if (tolerance == 0)
            ck_assert_msg(!memcmp(a->grad[i], b->grad[i], (size_t)a->grad_count[i] * 8),
                          "%s: %s: gradient %d: other bits", what, how, i);
        worst = fmax(worst, d);
    }
    return worst;
}

static void report(int index, const char *how, double worst) {
    if (getenv("CASES_REPORT"))
        fprintf(stderr, "%-22s %-28s %.2e\n", case_at(index)->name, how, worst);
}

/* The list of inputs with the most elements. */
static int largest_variant(const case_line *line) {
    int best = 0;
    int64_t most = -1;
    for (int v = 0; v < case_variants(line); v++) {
        case_input input[CASE_INPUTS];
        int64_t sum = 0;
        for (int i = 0, n = case_inputs(line, v, 1, input); i < n; i++) {
            int64_t size = 1;
            for (int d = 0; d < input[i].shape.ndim; d++) size *= input[i].shape.dim[d];
            sum += input[i].kind == 'N' ? 0 : size;
        }
        if (sum > most) most = sum, best = v;
    }
    return best;
}

/* The largest input's elements, if sizes are multiplied. */
static int64_t largest_input(const case_line *line, int variant, int64_t scale) {
    case_input input[CASE_INPUTS];
    int64_t most = 0;
    for (int i = 0, n = case_inputs(line, variant, scale, input); i < n; i++) {
        int64_t size = 1;
        for (int d = 0; d < input[i].shape.ndim; d++) size *= input[i].shape.dim[d];
        if (input[i].kind != 'N' && size > most) most = size;
    }
    return most;
}

/* Returns the factor for sizes with which an elementwise loop over the largest input has three
 * chunks of 16384 (cti_op_grain). Other loops have smaller chunks, so they have at least three.
 * Inputs without a size above 1 cannot grow. */
static int64_t large_scale(const case_line *line, int variant) {
    const int64_t small = largest_input(line, variant, 1);
    int64_t scale = 1;
    if (small == 0 || largest_input(line, variant, 2) == small) return 1;
    while (largest_input(line, variant, scale) < 37000) scale++;
    return scale;
}

/* Builds a list of inputs; returns how many there are. */
static int build(ct_context *context, const case_line *line, int variant, int64_t scale,
                 case_build_opts opts, case_input input[CASE_INPUTS], ct_tensor *in[CASE_INPUTS]) {
    const int n = case_inputs(line, variant, scale, input);
    ck_assert_msg(n >= 0, "%s: inputs that cannot be read", what);
    case_build(context, input, n, opts, in);
    no_error(context);
    return n;
}

/* ---- the tests ---- */

typedef struct {
    ct_context *context;
    const case_line *line;
    ct_tensor *all[CASE_INPUTS];
    int place[CASE_INPUTS]; /* where the k-th checked input belongs */
} closure;

static ct_tensor *checked(ct_tensor *const *in, int n, void *arg) {
    closure *c = arg;
    ct_tensor *all[CASE_INPUTS];
    memcpy(all, c->all, sizeof all);
    for (int k = 0; k < n; k++) all[c->place[k]] = in[k];
    return case_run(c->context, c->line, all);
}

START_TEST(gradients_are_those_of_differences) {
    const case_line *line = case_at(_i);
    ct_context *context = context_of(NULL, 1);
    double worst = 0;
    for (int v = 0; v < case_variants(line); v++) {
        name_case(_i, v);
        case_input input[CASE_INPUTS];
        ct_scope scope = ct_scope_open(context);
        closure c = {.context = context, .line = line};
        ct_tensor *in[CASE_INPUTS];
        int n = build(context, line, v, 1, (case_build_opts){.dtype = CT_F64, .seed = 11}, input,
                      c.all),
            k = 0;
        for (int i = 0; i < n; i++)
            if (collects(&input[i])) in[k] = c.all[i], c.place[k++] = i;
        ct_tensor *y = case_run(context, line, c.all);
        no_error(context);
        if (k && real(ct_dtype_of(y))) {
            ct_gradcheck_result r =
                ct_gradcheck(checked, &c, in, k, (ct_gradcheck_opts){.seed = (uint64_t)v});
            no_error(context);
            ck_assert_msg(r.ran && r.ok, "%s: %s", what, r.diagnosis);
            worst = fmax(worst, fabs(r.analytic - r.numeric));
        }
        ct_scope_close(scope);
    }
    report(_i, "gradient - difference", worst);
    ct_context_free(context);
}
END_TEST

/* Checks three random directions of each input, at sizes that are divided into several chunks. One
 * thread computes them, as threads change no bit. */
START_TEST(large_gradients_are_those_of_differences) {
    const case_line *line = case_at(_i);
    const int v = largest_variant(line);
    ct_context *context = context_of(NULL, 1);
    name_case(_i, v);
    case_input input[CASE_INPUTS];
    ct_scope scope = ct_scope_open(context);
    closure c = {.context = context, .line = line};
    ct_tensor *in[CASE_INPUTS];
    int n = build(context, line, v, large_scale(line, v),
                  (case_build_opts){.dtype = CT_F64, .seed = 11}, input, c.all),
        k = 0;
    for (int i = 0; i < n; i++)
        if (collects(&input[i])) in[k] = c.all[i], c.place[k++] = i;
    ct_tensor *y = case_run(context, line, c.all);
    if (!y) ct_error_clear(context); /* the call fixes its sizes */
    if (y && k && real(ct_dtype_of(y))) {
        ct_gradcheck_result r = ct_gradcheck(
            checked, &c, in, k, (ct_gradcheck_opts){.fast = true, .gradient_only = true});
        no_error(context);
        ck_assert_msg(r.ran && r.ok, "%s: %s", what, r.diagnosis);
    }
    ct_scope_close(scope);
    ct_context_free(context);
}
END_TEST

START_TEST(strides_change_nothing) {
    const case_line *line = case_at(_i);
    ct_context *context = context_of(NULL, 1);
    double worst = 0;
    for (int v = 0; v < case_variants(line); v++) {
        name_case(_i, v);
        outcome dense = run(context, _i, v, (setup){.dtype = CT_F64, .scale = 1});
        for (int layout = CASE_TRANSPOSED; layout < CASE_LAYOUTS; layout++) {
            outcome o = run(context, _i, v,
                            (setup){.dtype = CT_F64, .scale = 1, .layout = (case_layout)layout});
            const char *name[] = {"dense", "transposed", "stepped", "reversed"};
            worst = fmax(worst, compare(&dense, &o, 1e-13, name[layout]));
            drop(&o);
        }
        drop(&dense);
    }
    report(_i, "strided - dense", worst);
    ct_context_free(context);
}
END_TEST

START_TEST(f32_is_f64_rounded) {
    const case_line *line = case_at(_i);
    ct_context *context = context_of(NULL, 1);
    double worst = 0;
    /* finally the largest list, multiplied */
    for (int v = 0, variants = case_variants(line), big = largest_variant(line); v <= variants;
         v++) {
        int variant = v < variants ? v : big;
        int64_t scale = v < variants ? 1 : large_scale(line, big);
        name_case(_i, variant);
        outcome f64 =
            run(context, _i, variant, (setup){.dtype = CT_F64, .scale = scale, .single = true});
        outcome f32 =
            run(context, _i, variant, (setup){.dtype = CT_F32, .scale = scale, .single = true});
        ck_assert_msg(f64.ran == f32.ran, "%s: one dtype fails", what);
        if (f64.ran)
            worst = fmax(worst, compare(&f64, &f32, 4e-6, scale > 1 ? "f32, large" : "f32"));
        drop(&f64), drop(&f32);
    }
    report(_i, "f32 - f64", worst);
    ct_context_free(context);
}
END_TEST

START_TEST(instruction_sets_agree) {
    static const char *const isa[] = {"scalar", "avx2", "avx512", "neon", "simd128"};
    enum { SETS = sizeof isa / sizeof *isa };
    const case_line *line = case_at(_i);
    ct_context *context[SETS];
    double worst[SETS][2] = {0};
    for (int k = 0; k < SETS; k++) context[k] = context_of(isa[k], 1);
    name_case(_i, 0);
    no_error(context[0]);
    for (int v = 0, variants = case_variants(line), big = largest_variant(line); v <= variants;
         v++) {
        int variant = v < variants ? v : big;
        int64_t scale = v < variants ? 1 : large_scale(line, big) / 2 + 1;
        name_case(_i, variant);
        for (int d = 0; d < 2; d++) {
            setup s = {.dtype = d ? CT_F64 : CT_F32, .scale = scale};
            outcome a = run(context[0], _i, variant, s);
            for (int k = 1; k < SETS; k++) {
                if (ct_error(context[k]) != CT_OK) continue; /* another machine's */
                outcome b = run(context[k], _i, variant, s);
                ck_assert_msg(a.ran == b.ran, "%s: %s: one of the two fails", what, isa[k]);
                double off = a.ran ? compare(&a, &b, d ? 1e-12 : 4e-6, isa[k]) : 0;
                worst[k][d] = fmax(worst[k][d], off);
                drop(&b);
            }
            drop(&a);
        }
    }
    for (int k = 0; k < SETS; k++) {
        for (int d = 0; d < 2 && k && ct_error(context[k]) == CT_OK; d++) {
            char how[64];
            snprintf(how, sizeof how, "%s - scalar, %s", isa[k], d ? "f64" : "f32");
            report(_i, how, worst[k][d]);
        }
        ct_context_free(context[k]);
    }
}
END_TEST

START_TEST(threads_change_no_bit) {
    const case_line *line = case_at(_i);
    ct_context *context = context_of(NULL, 1);
    int variant = largest_variant(line);
    name_case(_i, variant);
    for (int d = 0; d < 2; d++) {
        static const int threads[2][2] = {{2, 7}, {3, 1}};
        setup s = {.dtype = d ? CT_F64 : CT_F32, .scale = large_scale(line, variant)};
        ct_set_threads(context, 1);
        outcome one = run(context, _i, variant, s);
        if (!one.ran) { /* the call fixes its sizes */
            s.scale = 1;
            one = run(context, _i, variant, s);
        }
        for (int k = 0; k < 2 && threads[d][k] > 1; k++) {
            ck_assert(ct_set_threads(context, threads[d][k]));
            outcome many = run(context, _i, variant, s);
            compare(&one, &many, 0, "threads");
            drop(&many);
        }
        drop(&one);
    }
    ct_context_free(context);
}
END_TEST

START_TEST(gradients_only_where_wanted) {
    const case_line *line = case_at(_i);
    ct_context *context = context_of(NULL, 1);
    for (int v = 0; v < case_variants(line); v++) {
        name_case(_i, v);
        case_input input[CASE_INPUTS];
        int n = case_inputs(line, v, 1, input);
        outcome all = run(context, _i, v, (setup){.dtype = CT_F64, .scale = 1});
        for (int i = 0; i <= n; i++) { /* only input i wanted, then none */
            outcome one =
                run(context, _i, v,
                    (setup){.dtype = CT_F64, .scale = 1, .hide = ~(i < n ? 1u << i : 0u)});
            ck_assert_msg(distance(one.value, all.value, all.count, all.terms) <= 1e-14,
                          "%s: the value depends on what is wanted", what);
            if (i < n && one.grad[i]) {
                double d = distance(one.grad[i], all.grad[i], all.grad_count[i], 0);
                ck_assert_msg(d <= 1e-13, "%s: the gradient of input %d alone is off by %g", what,
                              i, d);
            }
            drop(&one);
        }
        drop(&all);
    }
    ct_context_free(context);
}
END_TEST

/* A wrong call must give either a result or an error. */
static bool refused(ct_context *context, const case_line *line, ct_tensor *const *in,
                    const char *how, int i) {
    ct_tensor *y = case_run(context, line, in);
    ck_assert_msg((y == NULL) == (ct_error(context) != CT_OK), "%s: input %d %s: %s", what, i, how,
                  y ? "an error and a result" : "NULL without an error");
    if (!y) ck_assert_msg(*ct_error_message(context), "%s: input %d %s: no message", what, i, how);
    ct_error_clear(context);
    return y == NULL;
}

/* Calls `check` with each list of inputs of a line, in f32. */
static void each_list(int index, void (*check)(ct_context *context, const case_line *line,
                                               const case_input *input, ct_tensor **in, int n)) {
    const case_line *line = case_at(index);
    ct_context *context = context_of(NULL, 1);
    for (int v = 0; v < case_variants(line); v++) {
        name_case(index, v);
        case_input input[CASE_INPUTS];
        ct_tensor *in[CASE_INPUTS] = {0};
        ct_scope scope = ct_scope_open(context);
        const int n =
            build(context, line, v, 1, (case_build_opts){.dtype = CT_F32, .seed = 2}, input, in);
        check(context, line, input, in, n);
        ct_scope_close(scope);
        no_error(context);
    }
    ct_context_free(context);
}

static void refuse_null(ct_context *context, const case_line *line, const case_input *input,
                        ct_tensor **in, int n) {
    (void)input;
    for (int i = 0; i < n; i++) {
        ct_tensor *was = in[i];
        int others = 0; /* without any there is no context to record the error in */
        for (int j = 0; j < n; j++) others += j != i && in[j];
        if (others) in[i] = NULL;
        if (others && was && refused(context, line, in, "NULL", i) == false)
            ck_assert_msg(i > 0, "%s: the first input may not be NULL", what);
        in[i] = was;
    }
    ct_fail(context, CT_ERR_IO, "an earlier fault");
    ck_assert_msg(case_run(context, line, in) == NULL, "%s: computes while an error is pending",
                  what);
    ck_assert_str_eq(ct_error_message(context), "an earlier fault");
    ck_assert_int_eq(ct_error(context), CT_ERR_IO);
    ct_error_clear(context);
    /* no context: NULL and no crash; only for calls with tensor inputs */
    if (n) {
        ct_tensor *none[CASE_INPUTS] = {0};
        ck_assert_msg(line->run(NULL, none) == NULL, "%s: a result of nothing", what);
    }
}
START_TEST(null_inputs_are_errors) { each_list(_i, refuse_null); }
END_TEST

static void refuse_dtypes(ct_context *context, const case_line *line, const case_input *input,
                          ct_tensor **in, int n) {
    int reals = 0;
    for (int i = 0; i < n; i++) reals += in[i] && real(ct_dtype_of(in[i])) && collects(&input[i]);
    for (int i = 0; i < n; i++) {
        ct_tensor *was = in[i];
        if (!was) continue;
        for (ct_dtype dtype = CT_F32; dtype <= CT_BOOL; dtype++) {
            if (dtype == ct_dtype_of(was)) continue;
            in[i] = ct_ones(context, dtype, input[i].shape);
            bool no = refused(context, line, in, "of another dtype", i);
            if (reals > 1 && collects(&input[i]))
                ck_assert_msg(no, "%s: mixes dtypes: input %d", what, i);
        }
        in[i] = was;
    }
    for (ct_dtype dtype = CT_I64; dtype <= CT_BOOL; dtype++) { /* all real inputs together */
        ct_tensor *other[CASE_INPUTS] = {0};
        for (int i = 0; i < n; i++)
            other[i] =
                in[i] && real(ct_dtype_of(in[i])) ? ct_ones(context, dtype, input[i].shape) : in[i];
        refused(context, line, other, "and all real ones of another dtype", 0);
    }
}
START_TEST(other_dtypes_are_errors) { each_list(_i, refuse_dtypes); }
END_TEST

START_TEST(large_lists_are_used) {
    int large = 0, lines = case_count();
    ct_context *context = context_of(NULL, 1);
    ct_scope scope = ct_scope_open_no_grad(context);
    for (int i = 0; i < lines; i++) {
        const case_line *line = case_at(i);
        case_input input[CASE_INPUTS];
        ct_tensor *in[CASE_INPUTS] = {0};
        int variant = largest_variant(line), n = case_inputs(line, variant, 3, input);
        case_build(context, input, n, (case_build_opts){.dtype = CT_F32, .seed = 2}, in);
        large += case_run(context, line, in) != NULL;
        ct_error_clear(context);
    }
    ct_scope_close(scope);
    ct_context_free(context);
    ck_assert_msg(
        large * 4 >= lines * 3,
        "only %d of %d lines run on multiplied sizes: the tests of threads would test little",
        large, lines);
}
END_TEST

int main(void) {
    int n = case_count();
    return run_cases(
        "ops",
        CASES({.name = "lines of ops.def, several threads",
               .tags = "several-threads",
               .tests = TESTS(LOOP(threads_change_no_bit, n))},
              {.name = "lines of ops.def",
               .tags = "one-thread",
               .tests = TESTS(LOOP(gradients_are_those_of_differences, n),
                              LOOP(large_gradients_are_those_of_differences, n),
                              LOOP(strides_change_nothing, n), LOOP(f32_is_f64_rounded, n),
                              LOOP(instruction_sets_agree, n), LOOP(gradients_only_where_wanted, n),
                              LOOP(null_inputs_are_errors, n), LOOP(other_dtypes_are_errors, n),
                              TEST(large_lists_are_used))}));
}
