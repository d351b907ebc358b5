/* mlp: proj(dropout(activation(fc(x)))), gated: proj(dropout(activation(gate(x)) fc(x))). */
#include "module.h"

static ct_tensor *forward_mlp(ct_module *module, ct_tensor *x) {
    const ct_mlp_opts *o = cti_nn_data(module);
    return cti_nn_feed(module,
                       (cti_nn_feed_forward){.in = "fc",
                                             .gate = o->gated ? "gate" : NULL,
                                             .out = "proj",
                                             .activation = o->activation,
                                             .dropout = o->dropout},
                       x, NULL);
}

static void describe_mlp(const ct_module *module, FILE *file) {
    const ct_mlp_opts *o = cti_nn_data(module);
    fprintf(file, "activation=%s, dropout=%g%s", cti_nn_activation_name(o->activation), o->dropout,
            o->gated ? ", gated=True" : "");
}

static const cti_nn_kind mlp_kind = {
    .name = "MLP", .forward = forward_mlp, .describe = describe_mlp, .size = sizeof(ct_mlp_opts)};

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
    *(ct_mlp_opts *)cti_nn_data(module) = o;
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
