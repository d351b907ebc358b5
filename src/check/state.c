/* State that an op keeps between forward and backward outside of its call: in a static variable, or
 * in memory to which attrs or a module's data point. Two forwards at different inputs, with
 * different random numbers, come before the backward of the first. It must give the same gradient
 * as if it had followed its forward at once. The gradient must be right at the other inputs too;
 * if not, backward uses values that the very first call has left. */
#include "phases.h"

#include <math.h>
#include <string.h>

/* The other inputs are the given ones with their elements in reverse order; checked inputs are also
 * multiplied by 3/4. The function may fail at these inputs, so two milder choices follow. */
typedef enum { REVERSED, REVERSED_CHECKED, SCALED, CHOICES } other_choice;

static const double shrunk = 0.75;

static void bytes_reverse(char *data, int64_t count, size_t size) {
    char one[sizeof(double)];
    for (int64_t i = 0; i < count / 2; i++) {
        char *low = data + (size_t)i * size, *high = data + (size_t)(count - 1 - i) * size;
        memcpy(one, low, size);
        memcpy(low, high, size);
        memcpy(high, one, size);
    }
}

static bool is_checked(const cti_check *check, int input) {
    for (int q = 0; q < check->count; q++)
        if (check->checked[q].input == input) return true;
    return false;
}

/* The input in that choice; the given one if the choice leaves it as it is. NULL: out of memory, or
 * the input is NULL. */
static ct_tensor *other_input(cti_check *check, int input, other_choice how) {
    ct_tensor *given = check->in[input];
    const bool checked = is_checked(check, input);
    if (!given || (!checked && how != REVERSED)) return given;
    ct_tensor *x = cti_tensor_new(check->context, given->dtype, given->shape);
    if (!x) return NULL;
    cti_tensor_copy(x, given, false);
    if (how != SCALED) bytes_reverse((char *)x->data, x->numel, cti_dtype_size(x->dtype));
    for (int64_t i = 0; checked && i < x->numel; i++)
        cti_check_set(x, i, shrunk * cti_check_get(x, i));
    return checked ? ct_set_requires_grad(x, true) : x;
}

static ct_rng other_rng(const cti_check *check) {
    return (ct_rng){check->rng.seed ^ 0x9e3779b97f4a7c15, check->rng.stream};
}

/* Calls the function at the inputs `other`, with other random numbers. */
static ct_tensor *call_at(cti_check *check, ct_tensor **other) {
    ct_tensor **const in = check->in;
    const ct_rng rng = check->rng;
    check->in = other;
    check->rng = other_rng(check);
    ct_tensor *y = cti_check_call(check);
    check->in = in;
    check->rng = rng;
    return y;
}

/* Runs the backward of y for the first random cotangent. */
static bool backward_run(cti_check *check, ct_tensor *y) {
    ct_tensor *cotangent = cti_tensor_new(check->context, y->dtype, y->shape);
    if (!cotangent) return false;
    for (int64_t j = 0; j < y->numel; j++) cti_check_set(cotangent, j, check->cotangent[j]);
    return cti_check_backward_once(check, y, cotangent, false) && !*check->refused;
}

/* Writes the gradients of the checked inputs to out, and clears them. */
static void gradients_take(cti_check *check, double *out) {
    for (int q = 0; q < check->count; q++) {
        ct_tensor *x = check->checked[q].x, *grad = ct_grad(x);
        for (int64_t i = 0; i < x->numel; i++) *out++ = grad ? cti_check_get(grad, i) : 0;
        ct_zero_grad(x);
    }
}

/* The second call, which runs between the first call's forward and its backward. */
typedef enum { NOTHING, FORWARD, FORWARD_AND_BACKWARD } run_between;

/* DID_RUN: the gradients are in `out`. DID_FAIL: the first call's backward failed. IS_NOT_THERE: a
 * forward failed or gave another shape, or the second call's backward failed. */
typedef enum { DID_RUN, DID_FAIL, IS_NOT_THERE } run_outcome;

static run_outcome pair_run(cti_check *check, ct_tensor **other, run_between what, double *out) {
    cti_frame frame;
    run_outcome outcome = IS_NOT_THERE;
    cti_held_errors held = cti_check_hold_errors(check);
    cti_frame_open(check->context, &frame, false);
    ct_tensor *y = cti_check_call(check), *z = y && what != NOTHING ? call_at(check, other) : NULL;
    const bool there = y && cti_shape_same(&y->shape, &check->shape) &&
                       (what == NOTHING || (z && cti_shape_same(&z->shape, &check->shape))) &&
                       (what != FORWARD_AND_BACKWARD || backward_run(check, z));
    if (there) outcome = backward_run(check, y) ? DID_RUN : DID_FAIL;
    if (outcome == DID_RUN) gradients_take(check, out);
    else
        for (int q = 0; q < check->count; q++) ct_zero_grad(check->checked[q].x);
    cti_frame_close(check->context, &frame);
    check->refused[0] = 0;
    return cti_check_drop_errors(check, held) || outcome != DID_RUN ? outcome : DID_FAIL;
}

static bool same_gradients(const double *a, const double *b, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (a[i] != b[i] && !(isnan(a[i]) && isnan(b[i]))) return false;
    return true;
}

/* Compares the gradients after each kind of second call. *decided is false if the function's
 * forward failed at these inputs, so that the caller tries the next choice. */
static void calls_interleave(cti_check *check, ct_tensor **other, int64_t n, double *usual,
                             double *now, bool *decided) {
    *decided = pair_run(check, other, NOTHING, usual) != DID_RUN;
    for (run_between what = FORWARD; !*decided && what <= FORWARD_AND_BACKWARD; what++) {
        const run_outcome outcome = pair_run(check, other, what, now);
        if (outcome == IS_NOT_THERE) {
            *decided = what == FORWARD_AND_BACKWARD;
            return;
        }
        *decided = !cti_ready(check->context);
        if (*decided || (outcome == DID_RUN && same_gradients(usual, now, n))) continue;
        cti_check_found(
            check, CT_MISTAKE_STATE,
            what == FORWARD
                ? "after another forward this call's backward gives another gradient: "
                  "it uses values that the last forward left outside of the call, as in a "
                  "static variable; keep it in call->saved"
                : "after another call's backward this call's gives another gradient: "
                  "it uses values that are kept outside of the call, as in a static variable; "
                  "keep it in call->saved");
        *decided = true;
    }
    *decided = true;
}

/* Checks the gradient at the other inputs, along directions. */
static void gradient_at_check(cti_check *check, ct_tensor **other) {
    const ct_gradcheck_opts *o = &check->opts;
    const ct_rng rng = check->context->rng;
    cti_held_errors held = cti_check_hold_errors(check);
    check->context->rng = other_rng(check);
    const ct_gradcheck_result there =
        cti_check_run(check->fn, check->arg, other, check->n,
                      (ct_gradcheck_opts){.eps = o->eps,
                                          .atol = o->atol > 0 ? o->atol : CT_ZERO,
                                          .rtol = o->rtol > 0 ? o->rtol : CT_ZERO,
                                          .seed = o->seed,
                                          .fast = true,
                                          .gradient_only = true},
                      NULL);
    check->context->rng = rng;
    if (!cti_check_drop_errors(check, held) || !there.ran) return;
    if (there.verdict == CT_VERDICT_WRONG)
        cti_check_found(
            check, CT_MISTAKE_STATE,
            "the gradient is right here and wrong at other inputs (reversed, times "
            "3/4): backward uses values that an earlier call left outside of this one, as in "
            "a static variable, or has a part that these inputs do not reach");
}

bool cti_check_elsewhere(cti_check *check) {
    const size_t bytes = cti_bytes(check->n, sizeof *check->in);
    ct_tensor **other = cti_take(check->context, bytes);
    if (!other) return false;
    cti_frame frame;
    const cti_held_errors held = cti_check_hold_errors(check);
    cti_frame_open(check->context, &frame, false);
    bool ok = true;
    for (int i = 0; ok && i < check->n; i++) {
        other[i] = other_input(check, i, REVERSED_CHECKED);
        ok = other[i] || !check->in[i];
    }
    ct_tensor *y = ok ? call_at(check, other) : NULL;
    if (y && cti_shape_same(&y->shape, &check->shape)) backward_run(check, y);
    check->refused[0] = 0;
    cti_frame_close(check->context, &frame);
    cti_give(check->context, other, bytes);
    cti_check_drop_errors(check, held);
    return cti_ready(check->context);
}

bool cti_check_state(cti_check *check) {
    int64_t n = 0;
    bool wrong = false, decided = false;
    for (int q = 0; q < check->count; q++) n += check->checked[q].x->numel;
    for (int q = 0; q < check->count; q++) wrong |= check->checked[q].wrong > 0;
    if (n == 0) return true;
    cti_frame frame;
    cti_frame_open(check->context, &frame, false);
    double *usual = cti_check_numbers(check, 1, n), *now = cti_check_numbers(check, 1, n);
    const size_t bytes = cti_bytes(check->n, sizeof *check->in);
    ct_tensor **other = usual && now ? cti_take(check->context, bytes) : NULL;
    bool ok = other != NULL;
    for (other_choice how = 0; ok && how < CHOICES && !decided; how++) {
        for (int i = 0; ok && i < check->n; i++) {
            other[i] = other_input(check, i, how);
            ok = other[i] || !check->in[i];
        }
        if (!ok) break;
        calls_interleave(check, other, n, usual, now, &decided);
        if (decided && !wrong && check->result.mistake == CT_MISTAKE_NONE)
            gradient_at_check(check, other);
        ok = cti_ready(check->context);
    }
    if (other) cti_give(check->context, other, bytes);
    cti_frame_close(check->context, &frame);
    return ok;
}
