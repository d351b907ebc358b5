/* The feed-forward shared by MLP and the transformer layers, plain or gated. */
#include "module.h"

#include "../ops/support/activation.h"
#include "bare.h"

bool cti_nn_activation_check(ct_context *context, const ct_module_type *type,
                             ct_activation activation) {
    if (cti_activation_name(activation)) return true;
    ct_fail(context, CT_ERR_ARGUMENT, "%s: no activation %d", type->name, (int)activation);
    return false;
}

/* activation(gate(x)) in(x), where one Linear may make both. */
static ct_tensor *feed_gated(ct_module *module, const cti_nn_feed_forward *f, ct_tensor *x) {
    const cti_nn_feed_names *names = f->names;
    ct_tensor *h = cti_nn_forward(module, names->gate_in ? names->gate_in : names->gate, x, 0);
    if (!h) return NULL;
    const int64_t n = names->gate_in ? ct_dim(h, -1) / 2 : ct_dim(h, -1);
    ct_tensor *in = names->gate_in ? ct_narrow(h, -1, n, ct_dim(h, -1) - n)
                                   : cti_nn_forward(module, names->in, x, n);
    return ct_activated_mul(names->gate_in ? ct_narrow(h, -1, 0, n) : h, f->activation, in);
}

ct_tensor *cti_nn_feed(ct_module *module, cti_nn_feed_forward f, ct_tensor *x,
                       ct_tensor *residual) {
    const cti_nn_feed_names *names = f.names;
    ct_tensor *h = f.gated ? feed_gated(module, &f, x) : cti_nn_forward(module, names->in, x, 0);
    if (!h) return NULL;
    const ct_module *out = ct_module_child(module, names->out);
    if (!out) return NULL;
    const bool drops = f.dropout > 0 && module->training;
    if (!f.gated && !drops && cti_nn_is_linear(out)) {
        return ct_activated_linear(h, f.activation, cti_nn_param(out, "weight"),
                                   cti_nn_param(out, "bias"), residual);
    }
    if (!f.gated) h = ct_activate(h, f.activation);
    if (h && drops) h = ct_dropout(h, f.dropout, true);
    h = h ? cti_nn_forward(module, names->out, h, f.width) : NULL;
    return h && residual ? ct_add(residual, h) : h;
}
