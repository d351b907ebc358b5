/* mlp: proj(dropout(activation(fc(x)))), gated: proj(dropout(activation(gate(x)) fc(x))). */
#include "module.h"

#include "../ops/support/activation.h"

typedef struct {
    ct_mlp_opts opts;
    const cti_nn_feed_names *names;
} mlp_data;

static ct_tensor *mlp_forward(void *self, ct_tensor *x) {
    ct_module *module = self;
    const mlp_data *data = cti_nn_data(module);
    return cti_nn_feed(module,
                       (cti_nn_feed_forward){.names = data->names,
                                             .activation = data->opts.activation,
                                             .gated = data->opts.gated,
                                             .dropout = data->opts.dropout},
                       x, NULL);
}

static void mlp_describe(const void *self, FILE *file) {
    const ct_mlp_opts *o = &((const mlp_data *)cti_nn_data(self))->opts;
    fprintf(file, "activation=%s, dropout=%g%s", cti_activation_name(o->activation), o->dropout,
            o->gated ? ", gated=True" : "");
}

static const ct_module_type mlp_type = {.name = "MLP",
                                        .forward = mlp_forward,
                                        .describe = mlp_describe},
                            mlp_of_family = {.name = "Group", .forward = mlp_forward};

ct_module *cti_nn_mlp_named(ct_context *context, ct_mlp_opts o, const cti_nn_feed_names *names) {
    const mlp_data data = {o, names};
    return cti_nn_new(context, &mlp_of_family, &data, sizeof data);
}

ct_module *ct_mlp_new(ct_context *context, ct_mlp_opts o) {
    if (!cti_nn_check_size(context, &mlp_type, "dim", o.dim, 1) ||
        !cti_nn_check_size(context, &mlp_type, "hidden", o.hidden, 0) ||
        !cti_nn_check_chance(context, &mlp_type, "dropout", o.dropout) ||
        !cti_nn_activation_check(context, &mlp_type, o.activation))
        return NULL;
    if (!o.hidden && o.dim > INT64_MAX / 4)
        return ct_fail(context, CT_ERR_MEMORY, "MLP: 4 dim overflows");
    if (!o.hidden) o.hidden = 4 * o.dim;
    static const cti_nn_feed_names names = {.in = "fc", .gate = "gate", .out = "proj"};
    const mlp_data data = {o, &names};
    ct_module *module = cti_nn_new(context, &mlp_type, &data, sizeof data);
    if (!module) return NULL;
    ct_linear_opts in = {
        .in_features = o.dim, .out_features = o.hidden, .no_bias = o.no_bias, .dtype = o.dtype};
    cti_nn_child_add(module, "fc", ct_linear_new(context, in));
    if (o.gated) cti_nn_child_add(module, "gate", ct_linear_new(context, in));
    cti_nn_child_add(module, "proj",
                     ct_linear_new(context, (ct_linear_opts){.in_features = o.hidden,
                                                             .out_features = o.dim,
                                                             .no_bias = o.no_bias,
                                                             .dtype = o.dtype}));
    return cti_nn_made(module);
}
