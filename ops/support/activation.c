#include "activation.h"
#include "../../src/kernels/unary.h"

/* The switches of this file have no default, so the compiler names an activation without a row in
 * CTI_ACTIVATIONS. */

const char *cti_activation_name(ct_activation f) {
#define ROW_NAME(value, op)                                                                        \
    case value: return #op;
#define ROW_NAME_AND(value, op, a) ROW_NAME(value, op)
    switch (f) { CTI_ACTIVATIONS(ROW_NAME, ROW_NAME_AND) }
    return NULL;
}

ct_tensor *ct_activate(ct_tensor *x, ct_activation f) {
#define ROW_RUN(value, op)                                                                         \
    case value: return ct_##op(x);
#define ROW_RUN_AND(value, op, a)                                                                  \
    case value: return ct_##op(x, a);
    switch (f) { CTI_ACTIVATIONS(ROW_RUN, ROW_RUN_AND) }
    ct_context *context = ct_context_of(x);
    return context ? ct_fail(context, CT_ERR_ARGUMENT, "activate: no activation %d", (int)f) : NULL;
}

static cti_activation kernels_of_activation(const cti_kernels *k, ct_activation f) {
#define ROW_KERNELS(value, op)                                                                     \
    case value:                                                                                    \
        return (cti_activation){                                                                   \
            .f = k->unary->op, .backward = k->unary->op##_backward, .both = k->unary->op##_both};
#define ROW_KERNELS_AND(value, op, a)                                                              \
    case value:                                                                                    \
        return (cti_activation){.scalar = k->unary->op,                                            \
                                .scalar_backward = k->unary->op##_backward,                        \
                                .scalar_both = k->unary->op##_both,                                \
                                .number = (a)};
    switch (f) { CTI_ACTIVATIONS(ROW_KERNELS, ROW_KERNELS_AND) }
    return (cti_activation){0};
}

bool cti_op_activation(const ct_call *c, ct_activation f, cti_activation *out) {
    if (!cti_op_is_real(c, 0)) return false; /* other dtypes have no activations */
    *out = kernels_of_activation(kernels(c), f);
    return out->f || out->scalar ||
           ct_fail(c->context, CT_ERR_ARGUMENT, "%s: no activation %d", c->op->name, (int)f);
}
