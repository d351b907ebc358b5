/* linear: y = x W^T + b. weight (out, in), bias (out), both U(-1/sqrt in, 1/sqrt in). */
#include "module.h"
#include "bare.h"

#include <math.h>

static ct_tensor *linear_module_forward(void *self, ct_tensor *x) {
    ct_module *module = self;
    return ct_linear(x, ct_module_get(module, "weight"), cti_nn_param(module, "bias"));
}

static void linear_describe(const void *self, FILE *file) {
    const ct_linear_opts *o = cti_nn_data(self);
    fprintf(file, "in_features=%" PRId64 ", out_features=%" PRId64 ", bias=%s", o->in_features,
            o->out_features, cti_nn_bool(!o->no_bias));
}

static const ct_module_type linear_type = {
    .name = "Linear", .forward = linear_module_forward, .describe = linear_describe};

bool cti_nn_is_linear(const ct_module *module) { return module && module->type == &linear_type; }

ct_module *cti_nn_linear_bare(ct_context *context, ct_linear_opts o) {
    if (!cti_nn_check_size(context, &linear_type, "in_features", o.in_features, 1) ||
        !cti_nn_check_size(context, &linear_type, "out_features", o.out_features, 1))
        return NULL;
    return cti_nn_new(context, &linear_type, &o, sizeof o);
}

ct_module *cti_nn_linear_empty(ct_context *context, ct_linear_opts o) {
    ct_module *module = cti_nn_linear_bare(context, o);
    if (!module) return NULL;
    cti_nn_param_new(module, "weight", o.dtype, CT_SHAPE(o.out_features, o.in_features));
    if (!o.no_bias)
        cti_nn_param_new(module, "bias", cti_dtype_computed(o.dtype), CT_SHAPE(o.out_features));
    return cti_nn_made(module);
}

ct_module *ct_linear_new(ct_context *context, ct_linear_opts o) {
    ct_module *module = cti_nn_linear_empty(context, o);
    if (!module) return NULL;
    double bound = o.in_features ? 1 / sqrt((double)o.in_features) : 0;
    ct_init_uniform(cti_nn_param(module, "weight"), -bound, bound);
    if (!o.no_bias) ct_init_uniform(cti_nn_param(module, "bias"), -bound, bound);
    return cti_nn_made(module);
}
