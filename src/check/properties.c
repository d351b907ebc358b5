/* Properties of a correct op besides its gradient: every run gives the same bits, for any number of
 * threads and any content of new memory; inputs and cotangents are not written to; strided inputs
 * give the same result as dense ones; a tensor that is passed twice gets the sum of two gradients.
 * state.c and wants.c have two more. */
#include "phases.h"

#include "../autograd/tape.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* The result of one run: the output, then the gradient of every checked input for the first random
 * cotangent. */
typedef struct {
    int64_t count;
    double *value, *again; /* again: the same with the gradients of a second backward */
} outcome;

static bool new_outcome(cti_check *check, outcome *o) {
    o->count = check->m;
    for (int q = 0; q < check->count; q++) o->count += check->checked[q].x->numel;
    o->value = cti_check_numbers(check, 1, o->count);
    o->again = cti_check_numbers(check, 1, o->count);
    return o->value && o->again;
}

static void gradients(cti_check *check, double *out) {
    for (int q = 0; q < check->count; q++) {
        ct_tensor *x = check->in[check->checked[q].input], *grad = ct_grad(x);
        for (int64_t i = 0; i < x->numel; i++) *out++ = grad ? cti_check_get(grad, i) : 0;
    }
    for (int q = 0; q < check->count; q++) ct_zero_grad(check->in[check->checked[q].input]);
}

static bool property_run(cti_check *check, outcome *o) {
    ct_tensor *y = cti_check_call(check);
    if (!y || !cti_shape_same(&y->shape, &check->shape) || !cti_is_real(y->dtype)) return false;
    ct_tensor *cotangent = cti_tensor_new(check->context, y->dtype, y->shape);
    if (!cotangent || !ct_to_f64(y, o->value, check->m)) return false;
    /* the rounding to f32 gives runs in f32 and f64 the same cotangent */
    for (int64_t j = 0; j < check->m; j++) cti_check_set(cotangent, j, (float)check->cotangent[j]);
    if (!cti_check_backward_once(check, y, cotangent, true)) return false;
    gradients(check, o->value + check->m);
    if (!cti_check_backward_once(check, y, cotangent, false)) return false;
    gradients(check, o->again + check->m);
    memcpy(o->again, o->value, (size_t)check->m * sizeof *o->again);
    return true;
}

/* Runs the function on check->in. False: it fails for these inputs, which is not a mistake. */
static bool outcome_of(cti_check *check, outcome *o) {
    cti_frame frame;
    cti_held_errors held = cti_check_hold_errors(check);
    cti_frame_open(check->context, &frame, false);
    bool ok = property_run(check, o);
    cti_frame_close(check->context, &frame);
    check->refused[0] = 0;
    return cti_check_drop_errors(check, held) && ok;
}

/* Are the bits the same? NaN equals any NaN; 0 does not equal -0. */
static bool same_bits(const double *a, const double *b, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) && !(isnan(a[i]) && isnan(b[i]))) return false;
    return true;
}

static double largest_difference(const double *a, int64_t n) {
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(a[i])) most = fmax(most, fabs(a[i]));
    return most;
}

bool cti_check_near(const double *a, const double *b, int64_t n, double part) {
    double allowed = part * fmax(largest_difference(a, n), 1e-2);
    for (int64_t i = 0; i < n; i++)
        if (a[i] != b[i] && !(isnan(a[i]) && isnan(b[i])) && !(fabs(a[i] - b[i]) <= allowed))
            return false;
    return true;
}

/* Compares the value and each gradient by cti_check_near. Returns -1 if the value differs;
 * otherwise the first input whose gradient differs, or -2 if there is none. */
static int differs(const cti_check *check, const double *a, const double *b, double part) {
    if (!cti_check_near(a, b, check->m, part)) return -1;
    int64_t at = check->m;
    for (int q = 0; q < check->count; at += check->checked[q++].x->numel)
        if (!cti_check_near(a + at, b + at, check->checked[q].x->numel, part))
            return check->checked[q].input;
    return -2;
}

static void found_part(cti_check *check, ct_mistake mistake, const char *what, int part) {
    char text[256];
    if (part == -1) snprintf(text, sizeof text, "%s, the value differs", what);
    else snprintf(text, sizeof text, "%s, the gradient of input %d differs", what, part);
    cti_check_found(check, mistake, text);
}

/* ---- the same values in another layout ---- */

/* A new leaf with the values of `of`, stored with its dims in reverse order and a gap after each
 * element. */
static ct_tensor *strided(cti_check *check, const ct_tensor *of, ct_dtype dtype) {
    ct_shape shape = {.ndim = of->shape.ndim + 1};
    int64_t stride[CT_MAX_DIMS + 1], reversed[CT_MAX_DIMS] = {0};
    const int ndim = of->shape.ndim;
    if (ndim == CT_MAX_DIMS || ndim == 0) return NULL;
    for (int d = 0; d < ndim; d++) shape.dim[d] = of->shape.dim[ndim - 1 - d];
    shape.dim[ndim] = 2;
    ct_tensor *base = cti_shape_check(check->context, "gradcheck", shape, 8)
                          ? cti_tensor_new(check->context, dtype, shape)
                          : NULL;
    if (!base) return NULL;
    cti_shape_strides(shape, stride);
    for (int d = 0; d < ndim; d++) reversed[d] = stride[ndim - 1 - d];
    for (int64_t i = 0; i < base->numel; i++) cti_check_set(base, i, 1e3); /* fills the gaps */
    ct_tensor *x = cti_tensor_view(base, base->data, of->shape, reversed);
    if (x) cti_tensor_copy(x, of, false);
    return x && ct_set_requires_grad(x, true) ? x : NULL;
}

static ct_tensor *dense(cti_check *check, const ct_tensor *of) {
    ct_tensor *x = cti_tensor_new(check->context, of->dtype, of->shape);
    if (!x) return NULL;
    cti_tensor_copy(x, of, false);
    return ct_set_requires_grad(x, true);
}

/* A leaf that repeats the first slice along the first dim that is longer than 1, by stride 0. */
static ct_tensor *expanded(ct_tensor *of) {
    int64_t stride[CT_MAX_DIMS];
    int d = 0;
    cti_shape_strides(of->shape, stride);
    while (d < of->shape.ndim && of->shape.dim[d] <= 1) d++;
    if (d < of->shape.ndim) stride[d] = 0;
    ct_tensor *x = cti_tensor_view(of, of->data, of->shape, stride);
    return x ? ct_set_requires_grad(x, true) : NULL;
}

static ct_tensor *in_dtype(cti_check *check, const ct_tensor *of, ct_dtype dtype) {
    ct_tensor *x = cti_tensor_new(check->context, dtype, of->shape);
    /* the rounding to f32 gives both dtypes the same values */
    for (int64_t i = 0; x && i < x->numel; i++) cti_check_set(x, i, (float)cti_check_get(of, i));
    return x ? ct_set_requires_grad(x, true) : NULL;
}

typedef enum { STRIDED, EXPANDED, REPEATED, IN_F32, IN_F64 } input_layout;

/* Runs the function with every checked input in that layout. False: it fails, or an input has no
 * such layout. refused[] is the first refusal of ct_data_* meanwhile, or "". */
static bool outcome_in(cti_check *check, input_layout as, outcome *o, char refused[256]) {
    cti_frame frame;
    cti_held_errors held = cti_check_hold_errors(check);
    cti_frame_open(check->context, &frame, false);
    cti_data_copies copies = {.frame = &frame}, *outer = check->context->data_copies;
    bool ok = true;
    for (int q = 0; q < check->count; q++) {
        const ct_tensor *x = check->checked[q].x;
        ct_tensor **in = &check->in[check->checked[q].input];
        if (as == STRIDED && x->shape.ndim > 0 && x->shape.ndim < CT_MAX_DIMS)
            ok &= (*in = strided(check, x, x->dtype)) != NULL;
        if (as == EXPANDED) ok &= (*in = expanded(*in)) != NULL;
        if (as == REPEATED)
            ok &= (*in = expanded(*in)) != NULL && (*in = dense(check, *in)) != NULL;
        if (as == IN_F32 || as == IN_F64)
            ok &= (*in = in_dtype(check, x, as == IN_F32 ? CT_F32 : CT_F64)) != NULL;
    }
    check->context->data_copies = &copies;
    ok = ok && outcome_of(check, o);
    check->context->data_copies = outer;
    memcpy(refused, copies.message, sizeof copies.message);
    for (int q = 0; q < check->count; q++) check->in[check->checked[q].input] = check->checked[q].x;
    cti_frame_close(check->context, &frame);
    return cti_check_drop_errors(check, held) && ok;
}

/* Reports a refusal of ct_data_*, or the difference `which` (as differs returns it). An op that
 * calls ct_data_* on a tensor that ct_data_* refuses has a mistake. Its numbers may be right
 * nevertheless, because it got a copy here. */
static void layout_compare(cti_check *check, ct_mistake mistake, const char *what,
                           const char *refused, int which) {
    char text[512];
    snprintf(text, sizeof text, "%s: %s", what, refused);
    if (*refused) cti_check_found(check, mistake, text);
    else if (which > -2) found_part(check, mistake, what, which);
}

static void layouts_check(cti_check *check, const outcome *usual, outcome *a, outcome *b) {
    const double part = check->coarse ? 1e-4 : 1e-9;
    char refused[256], of_f64[256];
    bool ran = outcome_in(check, STRIDED, a, refused);
    if (ran || *refused)
        layout_compare(check, CT_MISTAKE_LAYOUT, "with strided inputs of the same values", refused,
                       ran ? differs(check, usual->value, a->value, part) : -2);
    ran = outcome_in(check, REPEATED, a, refused) && outcome_in(check, EXPANDED, b, refused);
    if (ran || *refused)
        layout_compare(check, CT_MISTAKE_LAYOUT,
                       "with an expanded input (stride 0) of the same values", refused,
                       ran ? differs(check, a->value, b->value, part) : -2);
    if (!check->opts.both_dtypes) return;
    *refused = 0;
    ran = outcome_in(check, IN_F64, a, of_f64) && outcome_in(check, IN_F32, b, refused);
    for (int64_t e = 0; ran && e < a->count; e++) /* numbers beyond f32's range do not count */
        if (!(fabs(a->value[e]) < FLT_MAX / 16)) b->value[e] = a->value[e];
    if (ran || *refused || *of_f64)
        layout_compare(check, CT_MISTAKE_DTYPE,
                       *of_f64    ? "in f64"
                       : *refused ? "in f32"
                                  : "in f32, by more than a thousandth of what f64 gives",
                       *of_f64 ? of_f64 : refused,
                       ran ? differs(check, a->value, b->value, 1e-3) : -2);
}

/* The gradient of f(x, x) is the sum of the two gradients of f(x, copy of x). */
static void shared_check(cti_check *check, outcome *apart, outcome *shared) {
    int64_t at = check->m, where = 0;
    for (int p = 0; p < check->count; at += check->checked[p++].x->numel)
        for (int q = p + 1; q < check->count; q++) {
            ct_tensor *x = check->checked[p].x, *other = check->checked[q].x,
                      **second = &check->in[check->checked[q].input];
            if (x->dtype != other->dtype || !cti_shape_same(&x->shape, &other->shape)) continue;
            cti_frame frame;
            cti_frame_open(check->context, &frame, false);
            bool ok = (*second = dense(check, x)) != NULL && outcome_of(check, apart);
            *second = x;
            ok = ok && outcome_of(check, shared);
            *second = other;
            cti_frame_close(check->context, &frame);
            if (!ok) continue;
            where = check->m;
            for (int s = 0; s < q; s++) where += check->checked[s].x->numel;
            double *sum = apart->value + at;
            for (int64_t i = 0; i < x->numel; i++) sum[i] += apart->value[where + i];
            if (cti_check_near(sum, shared->value + at, x->numel, check->coarse ? 1e-4 : 1e-9))
                continue;
            char text[256];
            snprintf(text, sizeof text,
                     "when inputs %d and %d are one tensor, its gradient is not the sum of the two",
                     check->checked[p].input, check->checked[q].input);
            cti_check_found(check, CT_MISTAKE_SHARED, text);
        }
}

/* ---- the same run again ---- */

/* A hash of a tensor's values. */
static bool fingerprint(cti_check *check, ct_tensor *t, uint64_t *print) {
    *print = 0;
    if (!t) return true;
    cti_frame frame;
    cti_frame_open(check->context, &frame, true);
    double *value = cti_check_numbers(check, 1, t->numel);
    bool ok = value && ct_to_f64(t, value, t->numel);
    for (int64_t i = 0; ok && i < t->numel; i++) {
        uint64_t bits;
        memcpy(&bits, &value[i], sizeof bits);
        *print = (*print ^ bits) * 0x9e3779b97f4a7c15 + 1;
    }
    cti_frame_close(check->context, &frame);
    return ok;
}

static bool inputs_check(cti_check *check) {
    for (int i = 0; i < check->n; i++) {
        uint64_t before = check->prints[i], now;
        if (!fingerprint(check, check->in[i], &now)) return false;
        if (before == now) continue;
        char text[64];
        snprintf(text, sizeof text, "input %d is written to", i);
        cti_check_found(check, CT_MISTAKE_WRITES, text);
    }
    if (check->wrote_cotangent)
        cti_check_found(check, CT_MISTAKE_WRITES, "backward writes to the cotangent");
    return true;
}

bool cti_check_fingerprints(cti_check *check) {
    for (int i = 0; i < check->n; i++)
        if (!fingerprint(check, check->in[i], &check->prints[i])) return false;
    return true;
}

static void second_run_check(cti_check *check, const outcome *usual, outcome *other) {
    if (!same_bits(usual->value, usual->again, usual->count))
        cti_check_found(check, CT_MISTAKE_NONDETERMINISTIC,
                        "a second backward of the same graph gives other bits: backward is not "
                        "deterministic, or changes what it saved");
    if (!outcome_of(check, other)) return;
    if (!same_bits(usual->value, other->value, check->m))
        cti_check_found(check, CT_MISTAKE_NONDETERMINISTIC,
                        "the function is not deterministic: with the same inputs and generator it "
                        "gives another value");
    else if (!same_bits(usual->value, other->value, usual->count))
        cti_check_found(check, CT_MISTAKE_NONDETERMINISTIC,
                        "backward is not deterministic: with the same inputs and generator it "
                        "gives another gradient");
}

static void threads_check(cti_check *check, const outcome *usual, outcome *other) {
    const int threads = check->context->threads, tried[] = {1, 3};
    for (int t = 0; t < 2; t++) {
        if (tried[t] == threads || !ct_set_threads(check->context, tried[t])) continue;
        if (outcome_of(check, other) && !same_bits(usual->value, other->value, usual->count))
            cti_check_found(check, CT_MISTAKE_THREADS,
                            "the result depends on the number of threads");
    }
    ct_set_threads(check->context, threads);
}

/* Fills free memory with NaN, so that the next runs allocate memory that holds NaN. */
static void memory_check(cti_check *check, const outcome *usual, outcome *other) {
    cti_pool *pool = &check->context->pool, before = *pool;
    pool->poison = true;
    pool->plain = false;
    for (int t = 0; t < 2; t++)
        if (outcome_of(check, other) && !same_bits(usual->value, other->value, usual->count))
            cti_check_found(check, CT_MISTAKE_MEMORY,
                            "the result depends on the content of new memory: something is "
                            "read before it is written");
    pool->poison = before.poison;
    pool->plain = before.plain;
}

bool cti_check_properties(cti_check *check) {
    if (!inputs_check(check)) return false;
    if (check->opts.gradient_only) return true;
    cti_frame frame;
    cti_frame_open(check->context, &frame, false);
    outcome usual, a, b;
    bool wrong = false;
    for (int q = 0; q < check->count; q++) wrong |= check->checked[q].wrong > 0;
    bool ok = new_outcome(check, &usual) && new_outcome(check, &a) && new_outcome(check, &b);
    if (ok && outcome_of(check, &usual)) {
        second_run_check(check, &usual, &a);
        if (check->result.mistake == CT_MISTAKE_NONE) ok = cti_check_state(check);
        if (check->result.mistake == CT_MISTAKE_NONE) memory_check(check, &usual, &a);
        if (check->result.mistake == CT_MISTAKE_NONE) threads_check(check, &usual, &a);
        if (check->result.mistake == CT_MISTAKE_NONE && !wrong) ok = ok && cti_check_wants(check);
        if (check->result.mistake == CT_MISTAKE_NONE) layouts_check(check, &usual, &a, &b);
        if (check->result.mistake == CT_MISTAKE_NONE) shared_check(check, &a, &b);
    }
    cti_frame_close(check->context, &frame);
    return ok && cti_ready(check->context);
}
