/* layer_norm and rms_norm over the last dim; weight starts as ones, bias as zeros. With an offset
 * rms_norm's factor is offset + weight, and weight starts as 1 - offset. */
#include "module.h"
#include "bare.h"

static bool norm_check(ct_context *context, const cti_nn_kind *kind, int64_t dim, double *eps) {
    *eps = cti_option(*eps, 1e-5);
    return cti_nn_check_size(context, kind, "dim", dim, 1) &&
           cti_nn_check_number(context, kind->name, "eps", *eps);
}

static bool norm_fits(const ct_module *module, const ct_tensor *x, int64_t dim) {
    if (x->shape.ndim > 0 && x->shape.dim[x->shape.ndim - 1] == dim) return true;
    ct_fail(module->context, CT_ERR_SHAPE, "%s: expected (..., %" PRId64 "), got %s",
            module->kind->name, dim, SHAPE(x->shape));
    return false;
}

static ct_tensor *forward_layer_norm(ct_module *module, ct_tensor *x) {
    const ct_layer_norm_opts *o = cti_nn_data(module);
    return norm_fits(module, x, o->dim) ? ct_layer_norm(x, cti_nn_param(module, "weight"),
                                                        cti_nn_param(module, "bias"), o->eps)
                                        : NULL;
}

static void describe_layer_norm(const ct_module *module, FILE *file) {
    const ct_layer_norm_opts *o = cti_nn_data(module);
    fprintf(file, "(%" PRId64 ",), eps=%g, elementwise_affine=True, bias=%s", o->dim, o->eps,
            cti_nn_bool(!o->no_bias));
}

static const cti_nn_kind layer_norm_kind = {.name = "LayerNorm",
                                            .forward = forward_layer_norm,
                                            .describe = describe_layer_norm,
                                            .size = sizeof(ct_layer_norm_opts)};

const ct_layer_norm_opts *cti_nn_layer_norm_of(const ct_module *module) {
    return module && module->kind == &layer_norm_kind ? cti_nn_data(module) : NULL;
}

ct_module *cti_nn_layer_norm_empty(ct_context *context, ct_layer_norm_opts o) {
    if (!norm_check(context, &layer_norm_kind, o.dim, &o.eps)) return NULL;
    ct_module *module = cti_nn_new(context, &layer_norm_kind);
    if (!module) return NULL;
    *(ct_layer_norm_opts *)cti_nn_data(module) = o;
    cti_nn_param_new(module, "weight", o.dtype, CT_SHAPE(o.dim));
    if (!o.no_bias) cti_nn_param_new(module, "bias", o.dtype, CT_SHAPE(o.dim));
    return cti_nn_made(module);
}

ct_module *ct_layer_norm_new(ct_context *context, ct_layer_norm_opts o) {
    ct_module *module = cti_nn_layer_norm_empty(context, o);
    if (!module) return NULL;
    ct_init_constant(cti_nn_param(module, "weight"), 1);
    if (!o.no_bias) ct_init_constant(cti_nn_param(module, "bias"), 0);
    return cti_nn_made(module);
}

static ct_tensor *forward_rms_norm(ct_module *module, ct_tensor *x) {
    const ct_rms_norm_opts *o = cti_nn_data(module);
    return norm_fits(module, x, o->dim)
               ? ct_rms_norm_offset(x, cti_nn_param(module, "weight"), o->eps, o->offset)
               : NULL;
}

static void describe_rms_norm(const ct_module *module, FILE *file) {
    const ct_rms_norm_opts *o = cti_nn_data(module);
    fprintf(file, "(%" PRId64 ",), eps=%g, elementwise_affine=True", o->dim, o->eps);
    if (o->offset != 0) fprintf(file, ", offset=%g", o->offset);
}

static const cti_nn_kind rms_norm_kind = {.name = "RMSNorm",
                                          .forward = forward_rms_norm,
                                          .describe = describe_rms_norm,
                                          .size = sizeof(ct_rms_norm_opts)};

const ct_rms_norm_opts *cti_nn_rms_norm_of(const ct_module *module) {
    return module && module->kind == &rms_norm_kind ? cti_nn_data(module) : NULL;
}

ct_module *cti_nn_rms_norm_empty(ct_context *context, ct_rms_norm_opts o) {
    if (!norm_check(context, &rms_norm_kind, o.dim, &o.eps) ||
        !cti_nn_check_number(context, rms_norm_kind.name, "offset", o.offset))
        return NULL;
    ct_module *module = cti_nn_new(context, &rms_norm_kind);
    if (!module) return NULL;
    *(ct_rms_norm_opts *)cti_nn_data(module) = o;
    cti_nn_param_new(module, "weight", o.dtype, CT_SHAPE(o.dim));
    return cti_nn_made(module);
}

ct_module *ct_rms_norm_new(ct_context *context, ct_rms_norm_opts o) {
    ct_module *module = cti_nn_rms_norm_empty(context, o);
    if (!module) return NULL;
    ct_init_constant(cti_nn_param(module, "weight"), 1 - o.offset);
    return cti_nn_made(module);
}
