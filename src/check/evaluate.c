/* The two matrices of an input: differences of the forward, and gradients from backward.
 * cti_check_run (check.c) and ct_jacobian (jacobian.c) are made of these functions. */
#include "phases.h"
#include "../core/isa.h"
#include "../kernels/random.h"

#include "../core/message.h"
#include "../autograd/tape.h"

#include <math.h>
#include <string.h>

double *cti_check_matrix(cti_check *check, int64_t rows, int64_t columns, ct_tensor **matrix) {
    const ct_shape shape = CT_SHAPE(rows, columns);
    *matrix = cti_shape_check(check->context, check->name, shape, sizeof(double))
                  ? cti_tensor_new(check->context, CT_F64, shape)
                  : NULL;
    return *matrix ? (double *)(void *)(*matrix)->data : NULL;
}

double *cti_check_numbers(cti_check *check, int64_t rows, int64_t columns) {
    ct_tensor *matrix;
    return cti_check_matrix(check, rows, columns, &matrix);
}

bool *cti_check_flags(cti_check *check, int64_t count) {
    ct_tensor *t = cti_tensor_new(check->context, CT_BOOL, CT_SHAPE(count));
    return t ? memset(t->data, 0, (size_t)count) : NULL;
}

void cti_check_normal(const cti_check *check, uint64_t stream, int64_t count, double *out) {
    check->context->isa->of[CT_F64]->random->normal(
        count, 0, (cti_random){check->opts.seed, stream}, 0, 1, out);
}

/* max(1, |x|), or 1 if x is not finite. */
static double scale_of(double x) { return isfinite(x) ? fmax(1, fabs(x)) : 1; }

double *cti_check_directions(cti_check *check, const cti_checked *c, int64_t count,
                             uint64_t stream) {
    double *direction = cti_check_numbers(check, count, c->x->numel);
    if (!direction) return NULL;
    cti_check_normal(check, stream, count * c->x->numel, direction);
    for (int64_t e = 0; e < count * c->x->numel; e++)
        direction[e] *= scale_of(cti_check_get(c->x, e % c->x->numel));
    return direction;
}

double cti_check_get(const ct_tensor *x, int64_t i) { return cti_real_get(x->dtype, x->data, i); }

void cti_check_set(ct_tensor *x, int64_t i, double value) {
    cti_real_set(x->dtype, x->data, i, value);
}

const char *cti_check_position(ct_shape shape, int64_t index, char text[CTI_SHAPE_TEXT]) {
    ct_shape at = shape;
    int64_t stride[CT_MAX_DIMS];
    cti_shape_strides(shape, stride);
    for (int d = 0; d < shape.ndim; d++) at.dim[d] = index / stride[d] % shape.dim[d];
    return cti_shape_text(at, text);
}

cti_held_errors cti_check_hold_errors(cti_check *check) {
    const cti_held_errors held = {check->context->held};
    check->context->held = true;
    return held;
}

bool cti_check_drop_errors(cti_check *check, cti_held_errors held) {
    const ct_status status = check->context->status;
    check->context->held = held.before;
    if (status == CT_ERR_MEMORY) { /* stays pending, and is reported now */
        cti_error_report(check->context);
        return false;
    }
    ct_error_clear(check->context);
    return status == CT_OK;
}

ct_tensor *cti_check_call(cti_check *check) {
    ct_context *context = check->context;
    const cti_running running = {
        .outer = context->running, .given = check->in, .n = check->n, .frame = check->frame};
    ct_rng_set(context, check->rng);
    context->running = &running;
    ct_tensor *y = check->fn(check->in, check->n, check->arg);
    context->running = running.outer;
    if (!y) ct_fail(context, CT_ERR_ARGUMENT, "%s: the function returned nothing", check->name);
    else if (cti_tensor_in(y, context, check->name)) cti_tensor_has_values(y, check->name);
    return cti_ready(context) ? y : NULL;
}

bool cti_check_is_alike(cti_check *check, const ct_tensor *y) {
    if (!cti_shape_same(&y->shape, &check->shape))
        return ct_fail(check->context, CT_ERR_SHAPE,
                       "%s: the function returned %s, and before that %s", check->name,
                       SHAPE(y->shape), SHAPE(check->shape));
    if (y->dtype != check->dtype)
        return ct_fail(check->context, CT_ERR_DTYPE,
                       "%s: the function returned %s, and before that %s", check->name,
                       cti_dtype_name(y->dtype), cti_dtype_name(check->dtype));
    return true;
}

/* ---- before the evaluations ---- */

bool cti_check_open(cti_check *check, cti_frame *frame) {
    check->context = cti_tensors_context(check->given, check->n);
    if (!check->context || !cti_tensors_in(check->given, check->n, check->context, check->name) ||
        !cti_ready(check->context))
        return false;
    if (!check->fn) return ct_fail(check->context, CT_ERR_ARGUMENT, "%s: no function", check->name);
    check->rng = check->before = check->context->rng;
    cti_frame_open(check->context, frame, false);
    frame->no_grad = false;
    check->frame = frame;
    check->in = cti_take(check->context, cti_bytes(check->n, sizeof *check->in));
    check->checked = cti_take(check->context, cti_bytes(check->n, sizeof *check->checked));
    return true;
}

void cti_check_close(cti_check *check) {
    cti_give(check->context, check->in, cti_bytes(check->n, sizeof *check->in));
    cti_give(check->context, check->checked, cti_bytes(check->n, sizeof *check->checked));
    cti_frame_close(check->context, check->frame);
    check->context->rng = check->before;
}

bool cti_check_copy_inputs(cti_check *check) {
    if (!check->in || !check->checked) return false;
    for (int i = 0; i < check->n; i++) {
        ct_tensor *given = check->given[i];
        check->in[i] = given;
        if (given && !cti_tensor_has_values(given, check->name)) return false;
        if (!given || !cti_is_real(given->dtype)) continue;
        check->in[i] = cti_tensor_new(check->context, given->dtype, given->shape);
        if (!check->in[i]) return false;
        cti_tensor_copy(check->in[i], given, false);
        if (!ct_set_requires_grad(check->in[i], true)) return false;
        check->coarse |= given->dtype == CT_F32;
        check->checked[check->count++] =
            (cti_checked){.input = i,
                          .x = check->in[i],
                          .shape = given->shape,
                          .dtype = given->dtype,
                          .numel = given->numel,
                          .n = check->opts.fast ? CTI_DIRECTIONS : given->numel};
    }
    return true;
}

bool cti_check_first_call(cti_check *check) {
    ct_scope scope = ct_scope_open_no_grad(check->context);
    const ct_tensor *y = cti_check_call(check);
    if (y) check->shape = y->shape, check->dtype = y->dtype, check->m = y->numel;
    ct_scope_close(scope);
    if (!y) return false;
    if (!cti_is_real(check->dtype))
        return ct_fail(check->context, CT_ERR_DTYPE, "%s: the function returns %s", check->name,
                       cti_dtype_name(check->dtype));
    check->coarse |= check->dtype == CT_F32;
    return true;
}

bool cti_check_choose_eps(cti_check *check) {
    check->opts.eps = cti_option(check->opts.eps, check->coarse ? 1e-2 : 1e-6);
    return check->opts.eps > 0 ||
           ct_fail(check->context, CT_ERR_ARGUMENT, "%s: eps is %g, must be greater than 0",
                   check->name, check->opts.eps);
}

/* ---- differences ---- */

bool cti_check_value(cti_check *check, double *y) {
    ct_scope scope = ct_scope_open_no_grad(check->context);
    ct_tensor *t = cti_check_call(check);
    bool ok = t && cti_check_is_alike(check, t) && ct_to_f64(t, y, check->m);
    ct_scope_close(scope);
    return ok;
}

/* Sets y to y(x + a v) for column i; v is e_i, or in fast mode direction i. *moved is the step
 * after rounding, (x + a) - x. */
static bool value_beside(cti_check *check, const cti_checked *c, int64_t i, double a, double *y,
                         double *moved) {
    ct_tensor *x = c->x;
    const double *v = c->direction ? c->direction + i * x->numel : NULL;
    int64_t first = v ? 0 : i, count = v ? x->numel : 1;
    cti_frame frame;
    cti_frame_open(check->context, &frame, true);
    double one, *before = v ? cti_check_numbers(check, 1, count) : &one;
    bool ok = before != NULL;
    if (ok) {
        for (int64_t e = 0; e < count; e++) {
            before[e] = cti_check_get(x, first + e);
            cti_check_set(x, first + e, before[e] + (v ? a * v[e] : a));
        }
        *moved = v ? a : cti_check_get(x, first) - before[0];
        ok = cti_check_value(check, y);
        for (int64_t e = 0; e < count; e++) cti_check_set(x, first + e, before[e]);
    }
    cti_frame_close(check->context, &frame);
    return ok;
}

static int64_t first_summed(const cti_check *check) { return check->rows - check->summed; }

/* The difference of two equal infinities is 0 here, not NaN. So is 0 times an infinite slope. */
void cti_check_weigh(const cti_check *check, const double *plus, const double *minus, double step,
                     double *row, int64_t stride) {
    double *sum = row + first_summed(check) * stride;
    for (int64_t s = 0; s < check->summed; s++) sum[s * stride] = 0;
    for (int64_t j = 0; j < check->m; j++) {
        const double slope = plus[j] == minus[j] ? 0 : (plus[j] - minus[j]) / step;
        if (check->whole) row[j * stride] = slope;
        for (int64_t s = 0; s < check->summed && slope != 0; s++) {
            const double g = check->cotangent[s * check->m + j];
            if (g != 0) sum[s * stride] += g * slope;
        }
    }
}

double cti_check_step(const cti_check *check, const cti_checked *c, int64_t i) {
    return check->opts.eps * (c->direction ? 1 : scale_of(cti_check_get(c->x, i)));
}

bool cti_check_beside(cti_check *check, const cti_checked *c, int64_t i, double h, double *step) {
    double up, down;
    if (!value_beside(check, c, i, h, check->plus, &up) ||
        !value_beside(check, c, i, -h, check->minus, &down))
        return false;
    *step = up - down;
    return true;
}

static bool central(cti_check *check, const cti_checked *c, int64_t i, double h, double *row) {
    double step;
    if (!cti_check_beside(check, c, i, h, &step)) return false;
    cti_check_weigh(check, check->plus, check->minus, step, row, c->n);
    return true;
}

bool cti_check_column(cti_check *check, cti_checked *c, int64_t i) {
    const double h = cti_check_step(check, c, i);
    double *value = c->numeric + i, *noise = c->noise + i;
    if (!central(check, c, i, h, value) || !central(check, c, i, 2 * h, noise)) return false;
    for (int64_t r = 0; r < check->rows * c->n; r += c->n) noise[r] = fabs(noise[r] - value[r]);
    return true;
}

bool cti_check_differences(cti_check *check, cti_checked *c) {
    bool ok = true;
    for (int64_t i = 0; ok && i < c->n; i++) ok = cti_check_column(check, c, i);
    return ok;
}

/* ---- backward ---- */

/* A backward that fails is a result, and check->refused is set; only its errors of memory are
 * errors of the context. */
bool cti_check_backward_once(cti_check *check, ct_tensor *y, ct_tensor *cotangent, bool retain) {
    if (!y->slot) return true;
    const int64_t ended_uses = check->context->ended_uses;
    cti_held_errors held = cti_check_hold_errors(check);
    ct_backward_with(&y, &cotangent, 1, (ct_backward_opts){.retain_graph = retain});
    check->used_ended = check->context->status && check->context->ended_uses > ended_uses;
    if (check->context->status && check->context->status != CT_ERR_MEMORY)
        cti_text_shorten(check->refused, sizeof check->refused - 1, check->context->message,
                         strlen(check->context->message));
    return cti_check_drop_errors(check, held);
}

/* Sets row r of `analytic` of all `count` inputs from their gradients, and zeroes the gradients. */
static bool inputs_collect(cti_checked *c, int count, int64_t r) {
    for (int q = 0; q < count; q++) {
        double *row = c[q].analytic + r * c[q].n;
        ct_tensor *grad = ct_grad(c[q].x);
        for (int64_t i = 0; i < c[q].n; i++) {
            row[i] = 0;
            if (grad && !c[q].direction) row[i] = cti_check_get(grad, i);
            for (int64_t e = 0; grad && c[q].direction && e < grad->numel; e++)
                row[i] += c[q].direction[i * grad->numel + e] * cti_check_get(grad, e);
        }
        if (!ct_zero_grad(c[q].x)) return false;
    }
    return true;
}

/* Element j of the cotangent of row r. */
static double cotangent_at(const cti_check *check, int64_t r, int64_t j) {
    const int64_t first = first_summed(check);
    return r < first ? j == r : check->cotangent[(r - first) * check->m + j];
}

static void cotangent_set(const cti_check *check, ct_tensor *cotangent, int64_t r) {
    for (int64_t j = 0; j < check->m; j++) cti_check_set(cotangent, j, cotangent_at(check, r, j));
}

/* The backward for row r failed, after backwards of the same graph for other rows. Does it succeed
 * as the first one of a new graph? check->refused is left as it was. */
static bool succeeds_alone(cti_check *check, int64_t r) {
    char refused[sizeof check->refused];
    memcpy(refused, check->refused, sizeof refused);
    check->refused[0] = 0;
    ct_tensor *y = cti_check_call(check),
              *cotangent = y ? cti_tensor_new(check->context, check->dtype, check->shape) : NULL;
    if (cotangent) cotangent_set(check, cotangent, r);
    const bool succeeds =
        cotangent && cti_check_backward_once(check, y, cotangent, false) && !*check->refused;
    memcpy(check->refused, refused, sizeof refused);
    return succeeds;
}

int64_t cti_check_rows(cti_check *check, cti_checked *c, int count, ct_tensor *y, bool retain) {
    ct_tensor *cotangent = cti_tensor_new(check->context, check->dtype, check->shape);
    int64_t r = 0;
    for (; cotangent && r < check->rows; r++) {
        cotangent_set(check, cotangent, r);
        if (!cti_check_backward_once(check, y, cotangent, retain || r + 1 < check->rows) ||
            !inputs_collect(c, count, r))
            break;
        for (int64_t j = 0; j < check->m; j++)
            check->wrote_cotangent |= cti_check_get(cotangent, j) != cotangent_at(check, r, j);
    }
    return r;
}

static bool backwards(cti_check *check, cti_checked *c, int count) {
    ct_tensor *y = cti_check_call(check);
    if (!y) return false;
    const int64_t r = cti_check_rows(check, c, count, y, false);
    check->failed_again = r > 0 && r < check->rows && !check->used_ended && *check->refused &&
                          succeeds_alone(check, r);
    return r == check->rows && cti_ready(check->context);
}

bool cti_check_backwards(cti_check *check, cti_checked *c, int count) {
    cti_frame frame;
    cti_frame_open(check->context, &frame, false);
    bool ok = backwards(check, c, count);
    cti_frame_close(check->context, &frame);
    return ok;
}

/* ---- another point ---- */

/* Exchanges the elements of a checked input with these values. */
static void exchange(const cti_checked *c, double *values) {
    for (int64_t i = 0; i < c->numel; i++) {
        const double value = values[i];
        values[i] = cti_check_get(c->x, i);
        cti_check_set(c->x, i, value);
    }
}

static bool point_measure(cti_check *check, cti_checked *c, double *y) {
    const cti_held_errors held = cti_check_hold_errors(check);
    const bool ok = cti_check_backwards(check, c, 1) && cti_check_differences(check, c) &&
                    (!y || cti_check_value(check, y));
    const bool clean = cti_check_drop_errors(check, held);
    check->refused[0] = 0;
    for (int q = 0; q < check->count; q++) ct_zero_grad(check->checked[q].x);
    return clean && ok;
}

bool cti_check_at(cti_check *check, const cti_checked *c, double *const *values, cti_checked *other,
                  double *y) {
    double **there = cti_take(check->context, cti_bytes(check->count, sizeof *there));
    *other = *c;
    other->analytic = cti_check_numbers(check, check->rows, c->n);
    other->numeric = cti_check_numbers(check, check->rows, c->n);
    other->noise = cti_check_numbers(check, check->rows, c->n);
    bool ok = there && other->analytic && other->numeric && other->noise;
    for (int q = 0; ok && q < check->count; q++) {
        const int64_t numel = check->checked[q].numel;
        there[q] = values[q] ? cti_check_numbers(check, 1, numel) : NULL;
        if (there[q]) memcpy(there[q], values[q], (size_t)numel * sizeof **there);
        ok = there[q] || !values[q];
    }
    for (int q = 0; ok && q < check->count; q++)
        if (there[q]) exchange(&check->checked[q], there[q]);
    const bool measured = ok && point_measure(check, other, y);
    for (int q = 0; ok && q < check->count; q++)
        if (there[q]) exchange(&check->checked[q], there[q]);
    if (there) cti_give(check->context, there, cti_bytes(check->count, sizeof *there));
    return measured;
}
