/* layer_norm and rms_norm over the last dim; weight starts as ones, bias as zeros. With an offset
 * rms_norm's factor is offset + weight, and weight starts as 1 - offset. */
#include "module.h"
#include "bare.h"

static bool norm_check(ct_context *context, const ct_module_type *type, int64_t dim, double *eps) {
    *eps = cti_option(*eps, 1e-5);
    return cti_nn_check_size(context, type, "dim", dim, 1) &&
           cti_nn_check_number(context, type->name, "eps", *eps);
}

static bool norm_fits(const ct_module *module, const ct_tensor *x, int64_t dim) {
    if (x->shape.ndim > 0 && x->shape.dim[x->shape.ndim - 1] == dim) return true;
    ct_fail(module->context, CT_ERR_SHAPE, "%s: expected (..., %" PRId64 "), got %s",
            module->type->name, dim, SHAPE(x->shape));
    return false;
}

static ct_tensor *layer_norm_module_forward(void *self, ct_tensor *x) {
    ct_module *module = self;
    const ct_layer_norm_opts *o = cti_nn_data(module);
    return norm_fits(module, x, o->dim) ? ct_layer_norm(x, cti_nn_param(module, "weight"),
                                                        cti_nn_param(module, "bias"), o->eps)
                                        : NULL;
}

static void layer_norm_describe(const void *self, FILE *file) {
    const ct_layer_norm_opts *o = cti_nn_data(self);
    fprintf(file, "(%" PRId64 ",), eps=%g, elementwise_affine=True, bias=%s", o->dim, o->eps,
            cti_nn_bool(!o->no_bias));
}

static const ct_module_type layer_norm_type = {
    .name = "LayerNorm", .forward = layer_norm_module_forward, .describe = layer_norm_describe};

const ct_layer_norm_opts *cti_nn_layer_norm_of(const ct_module *module) {
    return module && module->type == &layer_norm_type ? cti_nn_data(module) : NULL;
}

ct_module *cti_nn_layer_norm_empty(ct_context *context, ct_layer_norm_opts o) {
    if (!norm_check(context, &layer_norm_type, o.dim, &o.eps)) return NULL;
    ct_module *module = cti_nn_new(context, &layer_norm_type, &o, sizeof o);
    if (!module) return NULL;
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

static ct_tensor *rms_norm_module_forward(void *self, ct_tensor *x) {
    ct_module *module = self;
    const ct_rms_norm_opts *o = cti_nn_data(module);
    return norm_fits(module, x, o->dim)
               ? ct_rms_norm_offset(x, cti_nn_param(module, "weight"), o->eps, o->offset)
               : NULL;
}

static void rms_norm_describe(const void *self, FILE *file) {
    const ct_rms_norm_opts *o = cti_nn_data(self);
    fprintf(file, "(%" PRId64 ",), eps=%g, elementwise_affine=True", o->dim, o->eps);
    if (o->offset != 0) fprintf(file, ", offset=%g", o->offset);
}

static const ct_module_type rms_norm_type = {
    .name = "RMSNorm", .forward = rms_norm_module_forward, .describe = rms_norm_describe};

const ct_rms_norm_opts *cti_nn_rms_norm_of(const ct_module *module) {
    return module && module->type == &rms_norm_type ? cti_nn_data(module) : NULL;
}

ct_module *cti_nn_rms_norm_empty(ct_context *context, ct_rms_norm_opts o) {
    if (!norm_check(context, &rms_norm_type, o.dim, &o.eps) ||
        !cti_nn_check_number(context, rms_norm_type.name, "offset", o.offset))
        return NULL;
    ct_module *module = cti_nn_new(context, &rms_norm_type, &o, sizeof o);
    if (!module) return NULL;
    cti_nn_param_new(module, "weight", o.dtype, CT_SHAPE(o.dim));
    return cti_nn_made(module);
}

ct_module *ct_rms_norm_new(ct_context *context, ct_rms_norm_opts o) {
    ct_module *module = cti_nn_rms_norm_empty(context, o);
    if (!module) return NULL;
    ct_init_constant(cti_nn_param(module, "weight"), 1 - o.offset);
    return cti_nn_made(module);
}
