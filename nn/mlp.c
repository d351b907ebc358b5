/* mlp: proj(dropout(activation(fc(x)))), gated: proj(dropout(activation(gate(x)) fc(x))). */
#include "module.h"

#include "../ops/support/activation.h"

typedef struct {
    ct_mlp_opts opts;
    const cti_nn_feed_names *names;
} mlp_data;

static ct_tensor *forward_mlp(ct_module *module, ct_tensor *x) {
    const mlp_data *data = cti_nn_data(module);
    return cti_nn_feed(module,
                       (cti_nn_feed_forward){.names = data->names,
                                             .activation = data->opts.activation,
                                             .gated = data->opts.gated,
                                             .dropout = data->opts.dropout},
                       x, NULL);
}

static void describe_mlp(const ct_module *module, FILE *file) {
    const ct_mlp_opts *o = &((const mlp_data *)cti_nn_data(module))->opts;
    fprintf(file, "activation=%s, dropout=%g%s", cti_activation_name(o->activation), o->dropout,
            o->gated ? ", gated=True" : "");
}

static const cti_nn_kind mlp_kind = {.name = "MLP",
                                     .forward = forward_mlp,
                                     .describe = describe_mlp,
                                     .size = sizeof(mlp_data)},
                         mlp_of_family = {
                             .name = "Group", .forward = forward_mlp, .size = sizeof(mlp_data)};

ct_module *cti_nn_mlp_named(ct_context *context, ct_mlp_opts o, const cti_nn_feed_names *names) {
    ct_module *module = cti_nn_new(context, &mlp_of_family);
    if (module) *(mlp_data *)cti_nn_data(module) = (mlp_data){o, names};
    return module;
}

ct_module *ct_mlp_new(ct_context *context, ct_mlp_opts o) {
    if (!cti_nn_check_size(context, &mlp_kind, "dim", o.dim, 1) ||
        !cti_nn_check_size(context, &mlp_kind, "hidden", o.hidden, 0) ||
        !cti_nn_check_chance(context, &mlp_kind, "dropout", o.dropout) ||
        !cti_nn_activation_check(context, &mlp_kind, o.activation))
        return NULL;
    if (!o.hidden && o.dim > INT64_MAX / 4)
        return ct_fail(context, CT_ERR_MEMORY, "MLP: 4 dim overflows");
    if (!o.hidden) o.hidden = 4 * o.dim;
    ct_module *module = cti_nn_new(context, &mlp_kind);
    if (!module) return NULL;
    static const cti_nn_feed_names names = {.in = "fc", .gate = "gate", .out = "proj"};
    *(mlp_data *)cti_nn_data(module) = (mlp_data){o, &names};
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
