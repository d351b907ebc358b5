/* The feed-forward shared by MLP and the transformer layers, plain or gated, and the table of
 * activations it may use. */
#include "module.h"
#include "bare.h"

/* The ops of two arguments, with the number that nn.ELU and nn.LeakyReLU have. */
static ct_tensor *activation_elu(ct_tensor *x) { return ct_elu(x, 1); }
static ct_tensor *activation_leaky_relu(ct_tensor *x) { return ct_leaky_relu(x, 0.01); }

static const struct {
    const char *name;
    ct_tensor *(*apply)(ct_tensor *x);
} activations[] = {
    [CT_RELU] = {"relu", ct_relu},
    [CT_GELU] = {"gelu", ct_gelu},
    [CT_GELU_TANH] = {"gelu_tanh", ct_gelu_tanh},
    [CT_SILU] = {"silu", ct_silu},
    [CT_ELU] = {"elu", activation_elu},
    [CT_SOFTPLUS] = {"softplus", ct_softplus},
    [CT_LEAKY_RELU] = {"leaky_relu", activation_leaky_relu},
    [CT_RELU_SQUARED] = {"relu_squared", ct_relu_squared},
    [CT_QUICK_GELU] = {"quick_gelu", ct_quick_gelu},
};

bool cti_nn_activation_check(ct_context *context, const cti_nn_kind *kind,
                             ct_activation activation) {
    if ((unsigned)activation < sizeof activations / sizeof *activations) return true;
    ct_fail(context, CT_ERR_ARGUMENT, "%s: no activation %d", kind->name, (int)activation);
    return false;
}

const char *cti_nn_activation_name(ct_activation activation) {
    return activations[activation].name;
}

ct_tensor *cti_nn_feed(ct_module *module, cti_nn_feed_forward f, ct_tensor *x,
                       ct_tensor *residual) {
    ct_tensor *h = cti_nn_forward(module, f.gate ? f.gate : f.in, x, 0);
    if (!h) return NULL;
    const ct_module *out = ct_module_child(module, f.out);
    if (!out) return NULL;
    const bool drops = f.dropout > 0 && module->training;
    if (!f.gate && !drops && cti_nn_is_linear(out)) {
        return ct_activated_linear(h, f.activation, cti_nn_param(out, "weight"),
                                   cti_nn_param(out, "bias"), residual);
    }
    h = f.gate ? ct_activated_mul(h, f.activation, cti_nn_forward(module, f.in, x, ct_dim(h, -1)))
               : activations[f.activation].apply(h);
    if (h && drops) h = ct_dropout(h, f.dropout, true);
    h = h ? cti_nn_forward(module, f.out, h, f.width) : NULL;
    return h && residual ? ct_add(residual, h) : h;
}
