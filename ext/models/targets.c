/* The targets of classifiers of sequences: ids of labels, or floats. */
#include <cotangent/autograd.h>
#include <cotangent/tensor.h>

#include <inttypes.h>

#include "lm.h"

/* Whether the targets have the dtype that problem_type asks for. If it is not said, each dtype has
 * its own loss. */
static bool targets_fit_problem(const cti_lm *lm, const char *op, bool ids) {
    const cti_lm_problem problem = lm->config.problem;
    if (problem == CTI_LM_NO_PROBLEM || ids == (problem == CTI_LM_ONE_LABEL)) return true;
    return ct_fail(lm->context, CT_ERR_DTYPE,
                   "%s: targets must be %s: the model's problem_type is %s", op,
                   ids ? "f32 (B, labels)" : "i64 (B)", cti_lm_problem_name(problem));
}

bool cti_lm_sequence_targets_check(const cti_lm *lm, const char *op, const ct_tensor *targets,
                                   int64_t B) {
    const ct_dtype dtype = ct_dtype_of(targets);
    const ct_shape shape = ct_shape_of(targets);
    const bool ids = dtype == CT_I64;
    if (!ids && dtype != CT_F32 && dtype != CT_F64)
        return ct_fail(lm->context, CT_ERR_DTYPE, "%s: targets must be i64 (B), or f32 (B, labels)",
                       op);
    if (!targets_fit_problem(lm, op, ids)) return false;
    if (shape.ndim == (ids ? 1 : 2) && shape.dim[0] == B) return true;
    return ct_fail(lm->context, CT_ERR_SHAPE,
                   ids ? "%s: targets i64 must be (%" PRId64
                         "), one for each text; they have %d dims"
                       : "%s: targets must be (%" PRId64 ", labels); they have %d dims",
                   op, B, shape.ndim);
}

/* mean, sum or each of (x - target)^2. */
static ct_tensor *squares(ct_tensor *x, ct_tensor *target, ct_reduction reduction) {
    if (reduction == CT_MEAN) return ct_mse_loss(x, target);
    ct_tensor *d = ct_sub(x, target);
    ct_tensor *square = ct_mul(d, d);
    return reduction == CT_SUM ? ct_sum(square, CT_ALL, false) : square;
}

ct_tensor *cti_lm_float_loss(const cti_lm *lm, const char *op, ct_tensor *logits,
                             ct_tensor *targets, const ct_cross_entropy_opts *opts) {
    const ct_shape got = ct_shape_of(targets), want = ct_shape_of(logits);
    if (!logits) return NULL;
    if (opts->label_smoothing != 0 || opts->weight || opts->z_loss != 0 ||
        opts->reduction == CT_BATCH_MEAN)
        return ct_fail(lm->context, CT_ERR_ARGUMENT,
                       "%s: with targets that are floats, .reduction alone counts, and is CT_MEAN, "
                       "CT_SUM or CT_NONE",
                       op);
    if (want.ndim != 2 || got.dim[0] != want.dim[0] || got.dim[1] != want.dim[1])
        return ct_fail(lm->context, CT_ERR_SHAPE,
                       "%s: targets are (%" PRId64 ", %" PRId64 "), and logits (%" PRId64
                       ", %" PRId64 ")",
                       op, got.dim[0], got.dim[1], want.dim[0], want.dim[1]);
    if (ct_dtype_of(targets) != ct_dtype_of(logits))
        targets = ct_cast(targets, ct_dtype_of(logits));
    return lm->config.problem == CTI_LM_MANY_LABELS
               ? ct_bce_with_logits(logits, targets, (ct_bce_opts){.reduction = opts->reduction})
               : squares(logits, targets, opts->reduction);
}
