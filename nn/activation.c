/* The activations that a feed-forward may have, plain and gated. */
#include "module.h"

static const struct {
    const char *name;
    ct_tensor *(*apply)(ct_tensor *x);
} activations[] = {
    [CT_RELU] = {"relu", ct_relu},
    [CT_GELU] = {"gelu", ct_gelu},
    [CT_GELU_TANH] = {"gelu_tanh", ct_gelu_tanh},
    [CT_SILU] = {"silu", ct_silu},
};

bool nn_activation_check(ct_context *context, const nn_kind *kind, ct_activation activation) {
    if (!ct_ready(context)) return false;
    if ((unsigned)activation < sizeof activations / sizeof *activations) return true;
    ct_fail(context, CT_ERR_ARGUMENT, "%s: no activation %d", kind->name, (int)activation);
    return false;
}

const char *nn_activation_name(ct_activation activation) { return activations[activation].name; }

ct_tensor *nn_feed(ct_module *module, const char *in, const char *gate, ct_activation activation, ct_tensor *x) {
    ct_tensor *h = nn_forward(module, gate ? gate : in, x);
    h = h ? activations[activation].apply(h) : NULL;
    return gate && h ? ct_mul(h, nn_forward(module, in, x)) : h;
}
