/* ct_jacobian: the matrices of each input, made by the functions with which a check measures them
 * (evaluate.c). The differences have the usual step and are not improved by other steps. */
#include "../autograd/fingerprint.h"
#include "phases.h"

#include <math.h>
#include <string.h>

/* Reads the cotangents, and chooses the rows of the matrices. Sets size [rows] to the norms of the
 * cotangents. */
static bool jacobian_rows(cti_check *check, ct_tensor *given, double **size) {
    check->whole = !given;
    if (given && (given->shape.ndim != 2 || given->shape.dim[1] != check->m))
        return ct_fail(check->context, CT_ERR_SHAPE,
                       "jacobian: the cotangents have shape %s, must be (R, %lld), because the "
                       "function returns %s",
                       SHAPE(given->shape), (long long)check->m, SHAPE(check->shape));
    check->summed = given ? given->shape.dim[0] : 0;
    check->rows = given ? check->summed : check->m;
    check->cotangent = cti_check_numbers(check, check->summed, check->m);
    *size = cti_check_numbers(check, 1, check->rows);
    if (!check->cotangent || !*size || (given && !ct_to_f64(given, check->cotangent, given->numel)))
        return false;
    for (int64_t r = 0; r < check->rows; r++) (*size)[r] = check->whole;
    for (int64_t e = 0; e < check->summed * check->m; e++) {
        double *g = &check->cotangent[e];
        if (check->dtype == CT_F32) *g = (float)*g; /* the value that backward is given */
        (*size)[e / check->m] = hypot((*size)[e / check->m], *g);
    }
    return true;
}

/* Makes the matrices of every input. They belong to check->frame. */
static bool jacobian_matrices(cti_check *check, ct_jacobian_out *out) {
    bool ok = true;
    for (int q = 0; ok && q < check->count; q++) {
        cti_checked *c = &check->checked[q];
        ct_jacobian_out *of = &out[c->input];
        c->numeric = cti_check_matrix(check, check->rows, c->n, &of->numeric);
        c->noise = cti_check_matrix(check, check->rows, c->n, &of->noise);
        c->analytic = cti_check_matrix(check, check->rows, c->n, &of->analytic);
        ok = c->numeric && c->noise && c->analytic;
    }
    return ok;
}

/* Fills `analytic`, or sets check->refused. */
static bool jacobian_backwards(cti_check *check) {
    cti_frame frame;
    cti_frame_open(check->context, &frame, false);
    ct_tensor *y = cti_check_call(check);
    cti_hidden_gradients *hidden =
        y && cti_check_is_alike(check, y) ? cti_check_hide(check, y) : NULL;
    if (hidden) { /* the graph of tensors from outside is kept */
        cti_check_rows(check, check->checked, check->count, y, true);
        cti_check_show(check, hidden);
    }
    cti_frame_close(check->context, &frame);
    return hidden && cti_ready(check->context);
}

/* The rounding error of column i, if y has errors of up to 8 units in the last place of its largest
 * element, as the sum of some terms has. check->plus and check->minus are values of y beside x. */
static void rounding_add(const cti_check *check, const cti_checked *c, int64_t i,
                         const double *size) {
    double most = 0;
    for (int64_t j = 0; j < check->m; j++) {
        const double here = fmax(fabs(check->plus[j]), fabs(check->minus[j]));
        if (isfinite(here)) most = fmax(most, here);
    }
    const double error =
        8 * (check->coarse ? 0x1p-24 : 0x1p-53) * most / cti_check_step(check, c, i);
    for (int64_t r = 0; r < check->rows; r++) c->noise[r * c->n + i] += size[r] * error;
}

/* Reports that fn failed beside x. The held error does not say where, so the report adds the place.
 * If the error is ct_jacobian's own, its message begins with the name already, which the report
 * does not repeat. */
static bool fail_beside(cti_check *check, const cti_checked *c, int64_t i, cti_held_errors held) {
    const ct_status status = check->context->status;
    char message[CTI_MESSAGE_SIZE];
    memcpy(message, check->context->message, sizeof message);
    cti_check_drop_errors(check, held);
    static const char name[] = "jacobian: ";
    const size_t own = strncmp(message, name, sizeof name - 1) ? 0 : sizeof name - 1;
    return ct_fail(
        check->context, status, "%swith element %s of input %d changed by at most %g: %s", name,
        CTI_POSITION(c->x->shape, i), c->input, 2 * cti_check_step(check, c, i), message + own);
}

/* Fills `numeric` and `noise`. */
static bool jacobian_differences(cti_check *check, const double *size) {
    for (int q = 0; q < check->count; q++) {
        cti_checked *c = &check->checked[q];
        for (int64_t i = 0; i < c->n; i++) {
            const cti_held_errors held = cti_check_hold_errors(check);
            if (!cti_check_column(check, c, i)) return fail_beside(check, c, i, held);
            cti_check_drop_errors(check, held);
            rounding_add(check, c, i, size);
        }
    }
    return true;
}

static uint64_t fingerprint_of_inputs(const cti_check *check) {
    uint64_t print = CTI_FINGERPRINT;
    for (int i = 0; i < check->n; i++)
        if (check->in[i]) print = cti_fingerprint_values(print, check->in[i]);
    return print;
}

static bool jacobian_run(cti_check *check, ct_tensor *cotangents, ct_jacobian_out *out) {
    if (!out) return ct_fail(check->context, CT_ERR_ARGUMENT, "jacobian: out is NULL");
    if (cotangents && (!cti_tensor_in(cotangents, check->context, check->name) ||
                       !cti_tensor_has_values(cotangents, check->name)))
        return false;
    if (cotangents && cotangents->dtype != CT_F64)
        return ct_fail(check->context, CT_ERR_DTYPE,
                       "jacobian: the cotangents are %s %s, must be f64", SHAPE(cotangents->shape),
                       cti_dtype_name(cotangents->dtype));
    double *size = NULL;
    if (!cti_check_copy_inputs(check)) return false;
    const uint64_t print = fingerprint_of_inputs(check);
    if (!cti_check_first_call(check) || !cti_check_choose_eps(check) ||
        !jacobian_rows(check, cotangents, &size) || !jacobian_matrices(check, out))
        return false;
    check->plus = cti_check_numbers(check, 1, check->m);
    check->minus = cti_check_numbers(check, 1, check->m);
    if (!check->plus || !check->minus || !jacobian_backwards(check) ||
        !jacobian_differences(check, size))
        return false;
    return fingerprint_of_inputs(check) == print ||
           ct_fail(check->context, CT_ERR_ARGUMENT,
                   "jacobian: the function has written to an input");
}

bool ct_jacobian(ct_fn fn, void *arg, ct_tensor *const *in, int n, ct_jacobian_opts opts,
                 ct_jacobian_out *out) {
    cti_check check = {
        .name = "jacobian", .fn = fn, .arg = arg, .given = in, .n = n, .opts.eps = opts.eps};
    cti_frame frame;
    for (int i = 0; out && i < n; i++) out[i] = (ct_jacobian_out){0};
    if (opts.cotangents && !cti_tensors_context(in, n))
        ct_fail(cti_handle_context(opts.cotangents), CT_ERR_ARGUMENT, "jacobian: no input");
    if (!cti_check_open(&check, &frame)) return false;
    if (opts.seed) check.rng = (ct_rng){.seed = opts.seed};
    const bool done = jacobian_run(&check, opts.cotangents, out);
    for (int i = 0; i < n && out; i++) {
        if (!done) out[i] = (ct_jacobian_out){0};
        if (*check.refused) out[i].analytic = NULL;
        if (done) memcpy(out[i].refused, check.refused, sizeof check.refused);
        cti_tensor_lift(out[i].numeric, frame.outer);
        cti_tensor_lift(out[i].analytic, frame.outer);
        cti_tensor_lift(out[i].noise, frame.outer);
    }
    cti_check_close(&check);
    return done;
}
