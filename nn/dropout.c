/* dropout: in training zero with probability p, else x / (1 - p); in evaluation x itself. */
#include "module.h"

static ct_tensor *dropout_module_forward(void *self, ct_tensor *x) {
    ct_module *module = self;
    const double *p = cti_nn_data(module);
    return ct_dropout(x, *p, module->training);
}

static void dropout_describe(const void *self, FILE *file) {
    const double *p = cti_nn_data(self);
    fprintf(file, "p=%g", *p);
}

static const ct_module_type dropout_type = {
    .name = "Dropout", .forward = dropout_module_forward, .describe = dropout_describe};

ct_module *ct_dropout_new(ct_context *context, double p) {
    if (!cti_nn_check_chance(context, &dropout_type, "p", p)) return NULL;
    return cti_nn_new(context, &dropout_type, &p, sizeof p);
}
