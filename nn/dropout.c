/* dropout: in training zero with probability p, else x / (1 - p); in evaluation x itself. */
#include "module.h"

typedef struct {
    double p;
} dropout_data;

static ct_tensor *forward_dropout(ct_module *module, ct_tensor *x) {
    const dropout_data *data = cti_nn_data(module);
    return ct_dropout(x, data->p, module->training);
}

static void describe_dropout(const ct_module *module, FILE *file) {
    fprintf(file, "p=%g", ((dropout_data *)cti_nn_data(module))->p);
}

static const cti_nn_kind dropout_kind = {.name = "Dropout",
                                         .forward = forward_dropout,
                                         .describe = describe_dropout,
                                         .size = sizeof(dropout_data)};

ct_module *ct_dropout_new(ct_context *context, double p) {
    if (!cti_nn_check_chance(context, &dropout_kind, "p", p)) return NULL;
    ct_module *module = cti_nn_new(context, &dropout_kind);
    if (module) ((dropout_data *)cti_nn_data(module))->p = p;
    return module;
}
