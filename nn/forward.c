/* Running a module: by the forward of its type. */
#include "module.h"

bool cti_nn_is(const ct_module *module, const ct_module_type *type, const char *function,
               const ct_tensor *beside) {
    if (!cti_nn_ready(module, function, beside)) return false;
    if (module->type == type) return true;
    ct_fail(module->context, CT_ERR_ARGUMENT, "%s: expected a %s, got a %s", function, type->name,
            cti_nn_kind_name(module));
    return false;
}

ct_tensor *ct_forward(ct_module *module, ct_tensor *x) {
    if (!cti_nn_ready(module, "ct_forward", x)) return NULL;
    ct_context *context = module->context;
    const char *name = cti_nn_kind_name(module);
    cti_nn_scope scope;
    cti_nn_enter(module, &scope);
    ct_tensor *y = NULL;
    if (!x) ct_fail(context, CT_ERR_ARGUMENT, "%s: the input is NULL", name);
    else if (!module->type->forward)
        ct_fail(context, CT_ERR_ARGUMENT, "%s has no forward of one input", name);
    else if (cti_tensor_in(x, context, name)) {
        y = module->type->forward(module->self, x);
        if (!y) ct_fail(context, CT_ERR_ARGUMENT, "%s: its forward returned nothing", name);
        else cti_tensor_in(y, context, name);
    }
    return cti_nn_leave(context, &scope, cti_ready(context) ? y : NULL);
}

ct_tensor *cti_nn_forward(ct_module *module, const char *child, ct_tensor *x, int64_t width) {
    ct_tensor *y = ct_forward(ct_module_child(module, child), x);
    if (!y) return NULL;
    const int last = x->shape.ndim - 1;
    bool fits = y->shape.ndim == last + 1 && (!width || y->shape.dim[last] == width);
    for (int d = 0; fits && d < last; d++) fits = y->shape.dim[d] == x->shape.dim[d];
    if (fits) return y;
    char expected[24] = "any";
    if (width) snprintf(expected, sizeof expected, "%" PRId64, width);
    return ct_fail(module->context, CT_ERR_SHAPE, "%s: %s made %s of %s; its last dim must be %s",
                   cti_nn_kind_name(module), child, SHAPE(y->shape), SHAPE(x->shape), expected);
}

ct_tensor *cti_nn_dropout(const ct_module *module, ct_tensor *x, double p) {
    return p > 0 && module->training ? ct_dropout(x, p, true) : x;
}
