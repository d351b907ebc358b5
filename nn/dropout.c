/* dropout: in training zero with probability p, else x / (1 - p); in evaluation x itself. */
#include "module.h"

typedef struct {
    double p;
} dropout_data;

static ct_tensor *forward(ct_module *module, ct_tensor *x) {
    const dropout_data *data = nn_data(module);
    return ct_dropout(x, data->p, module->training);
}

static void describe(const ct_module *module, FILE *file) { fprintf(file, "p=%g", ((dropout_data *)nn_data(module))->p); }

static const nn_kind dropout_kind = {"Dropout", forward, describe, sizeof(dropout_data), NULL};

ct_module *ct_dropout_new(ct_context *context, double p) {
    if (!nn_check_chance(context, &dropout_kind, "p", p)) return NULL;
    ct_module *module = nn_new(context, &dropout_kind);
    if (module) ((dropout_data *)nn_data(module))->p = p;
    return module;
}
