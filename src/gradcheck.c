/* Gradient checking by central differences. Every element of the output is differenced before it is weighted with the cotangent, so
 * that what does not depend on the input cancels to the bit. */
#include "context.h"
#include "tape.h"

#include <cotangent/gradcheck.h>

#include <math.h>

typedef struct {
    ct_context *context;
    ct_fn fn;
    void *arg;
    ct_tensor *const *given;
    int n;
    ct_rng rng;              /* the generator before every call of fn */
    ct_tensor **in;          /* the caller's, and copies of those that are checked */
    ct_gradcheck_opts opts;
    ct_gradcheck_result result;
} check;

/* y = fn(in) as f64 into `out`, without recording. */
static bool evaluate(check *k, double *out, int64_t count) {
    ct_rng_set(k->context, k->rng);
    ct_scope scope = ct_scope_open_no_grad(k->context);
    ct_tensor *y = k->fn(k->in, k->n, k->arg);
    bool ok = y && ct_to_f64(y, out, count);
    ct_scope_close(scope);
    return ok;
}

static double *numbers(ct_context *context, int64_t count) {
    ct_tensor *t = ct_tensor_new(context, CT_F64, CT_SHAPE(count));
    return t ? (double *)(void *)t->data : NULL;
}

/* Adds a (in units of h) times the direction v to x; v NULL: to element i alone. */
static void move(ct_tensor *x, int64_t i, const double *v, double h) {
    for (int64_t j = v ? 0 : i; j < (v ? x->numel : i + 1); j++) {
        double step = v ? h * v[j] : h;
        if (x->dtype == CT_F64) ((double *)(void *)x->data)[j] += step;
        else ((float *)(void *)x->data)[j] += (float)step;
    }
}

/* <g, (y(x + eps v) - y(x - eps v)) / (2 eps)> */
static bool difference(check *k, ct_tensor *x, int64_t i, const double *v, const double *g, double *plus, double *minus, int64_t count, double *slope) {
    ct_frame frame;
    ct_frame_open(k->context, &frame, true);
    ct_tensor *before = ct_tensor_new(k->context, x->dtype, x->shape);
    double eps = k->opts.eps, from, to;
    bool ok = before != NULL;
    if (ok) {
        ct_tensor_copy(before, x, false);
        move(x, i, v, eps);
        from = to = 0;
        if (!v) ct_to_f64(ct_tensor_view(x, x->data + i * (int64_t)ct_dtype_size(x->dtype), CT_SCALAR, NULL), &to, 1);
        ok = evaluate(k, plus, count);
        ct_tensor_copy(x, before, false);
        move(x, i, v, -eps);
        if (!v) ct_to_f64(ct_tensor_view(x, x->data + i * (int64_t)ct_dtype_size(x->dtype), CT_SCALAR, NULL), &from, 1);
        ok = ok && evaluate(k, minus, count);
        ct_tensor_copy(x, before, false);
        double sum = 0;
        for (int64_t j = 0; j < count; j++) sum += g[j] * (plus[j] - minus[j]);
        *slope = sum / (v ? 2 * eps : to - from);   /* by the step that rounding left of it */
    }
    ct_frame_close(k->context, &frame);
    return ok;
}

static void compare(check *k, int input, int64_t index, double analytic, double numeric, double *worst) {
    double error = fabs(analytic - numeric), allowed = k->opts.atol + k->opts.rtol * fabs(numeric);
    if (!(error <= allowed)) k->result.ok = false;
    double excess = isnan(error) ? INFINITY : error / allowed;
    if (excess <= *worst) return;
    *worst = excess;
    k->result.input = input;
    k->result.index = index;
    k->result.analytic = analytic;
    k->result.numeric = numeric;
}

static bool check_input(check *k, int input, const double *g, double *plus, double *minus, int64_t count, double *worst) {
    ct_context *context = k->context;
    ct_tensor *x = k->in[input], *grad = ct_grad(x);
    double *analytic = numbers(context, x->numel), numeric;
    if (!analytic) return false;
    if (grad) ct_to_f64(grad, analytic, x->numel);
    else
        for (int64_t i = 0; i < x->numel; i++) analytic[i] = 0;
    if (!k->opts.fast) {
        for (int64_t i = 0; i < x->numel; i++) {
            if (!difference(k, x, i, NULL, g, plus, minus, count, &numeric)) return false;
            compare(k, input, i, analytic[i], numeric, worst);
        }
        return true;
    }
    double *v = numbers(context, x->numel), projected = 0;
    if (!v) return false;
    context->isa->of[CT_F64]->normal(x->numel, 0, (ct_random){k->opts.seed, 1 + (uint64_t)input}, 0, 1, v);
    for (int64_t i = 0; i < x->numel; i++) projected += v[i] * analytic[i];
    if (!difference(k, x, 0, v, g, plus, minus, count, &numeric)) return false;
    compare(k, input, -1, projected, numeric, worst);
    return true;
}

static bool run(check *k) {
    ct_context *context = k->context;
    for (int i = 0; i < k->n; i++) {
        ct_tensor *given = k->given[i];
        k->in[i] = given;
        if (!given || !ct_is_real(given->dtype)) continue;
        if (!(k->in[i] = ct_tensor_new(context, given->dtype, given->shape))) return false;
        ct_tensor_copy(k->in[i], given, false);
        if (!ct_set_requires_grad(k->in[i], true)) return false;
        if (k->opts.eps == 0) k->opts.eps = given->dtype == CT_F64 ? 1e-6 : 1e-2;
        if (k->opts.atol == 0) k->opts.atol = given->dtype == CT_F64 ? 1e-8 : 1e-3;
        if (k->opts.rtol == 0) k->opts.rtol = given->dtype == CT_F64 ? 1e-6 : 1e-2;
    }
    ct_rng_set(context, k->rng);
    ct_tensor *y = k->fn(k->in, k->n, k->arg);
    if (!y) return false;
    if (!ct_is_real(y->dtype)) return ct_fail(context, CT_ERR_DTYPE, "gradcheck: the function returns %s", ct_dtype_name(y->dtype));
    ct_tensor *cotangent = ct_tensor_new(context, y->dtype, y->shape);
    double *g = numbers(context, y->numel), *plus = numbers(context, y->numel), *minus = numbers(context, y->numel);
    if (!cotangent || !g || !plus || !minus) return false;
    context->isa->of[y->dtype]->normal(y->numel, 0, (ct_random){k->opts.seed, 0}, 0, 1, cotangent->data);
    ct_to_f64(cotangent, g, y->numel);
    if (y->node && !ct_backward_with(&y, &cotangent, 1, (ct_backward_opts){0})) return false;
    double worst = -1;
    for (int i = 0; i < k->n; i++)
        if (k->in[i] && ct_is_real(k->in[i]->dtype) && !check_input(k, i, g, plus, minus, y->numel, &worst)) return false;
    return true;
}

ct_gradcheck_result ct_gradcheck(ct_fn fn, void *arg, ct_tensor *const *in, int n, ct_gradcheck_opts opts) {
    check k = {.fn = fn, .arg = arg, .given = in, .n = n, .opts = opts, .result = {.ok = true, .index = -1, .input = -1}};
    for (int i = 0; in && i < n && !k.context; i++) k.context = ct_context_of(in[i]);
    if (!ct_ready(k.context) || !fn) {
        if (k.context) ct_fail(k.context, CT_ERR_ARGUMENT, "gradcheck: no function");
        k.result.ok = false;
        return k.result;
    }
    k.rng = k.context->rng;
    size_t bytes = (size_t)n * sizeof *k.in;
    ct_frame frame;
    ct_frame_open(k.context, &frame, false);
    frame.no_grad = false;
    k.in = ct_take(k.context, bytes);
    k.result.ran = k.in && run(&k);
    if (!k.result.ran) k.result.ok = false;
    ct_give(k.context, k.in, bytes);
    ct_frame_close(k.context, &frame);
    k.context->rng = k.rng;
    if (k.result.ran && !k.result.ok)
        snprintf(k.result.diagnosis, sizeof k.result.diagnosis, "input %d, element %lld: analytic %.9g, numeric %.9g", k.result.input,
                 (long long)k.result.index, k.result.analytic, k.result.numeric);
    if (opts.report && k.result.ran) fprintf(opts.report, "gradcheck: %s%s\n", k.result.ok ? "ok" : "wrong: ", k.result.diagnosis);
    return k.result;
}
