/* clip_grad_norm: c = max_norm / (norm + 1e-6); if c < 1, every gradient is multiplied by c. As in
 * torch, a norm that is not finite makes the gradients NaN or zero; the caller finds this out from
 * the returned norm. */
#include "optim.h"

#include <math.h>

double cti_nn_clip_scale(double norm, double max_norm) {
    const double c = max_norm / (norm + 1e-6);
    return c >= 1 ? 1 : c;
}

double ct_clip_grad_norm(ct_module *module, double max_norm) {
    if (!cti_nn_ready(module, "ct_clip_grad_norm", NULL)) return NAN;
    if (!(max_norm >= 0)) {
        ct_fail(module->context, CT_ERR_ARGUMENT,
                "clip_grad_norm: max_norm is %g, must be at least 0", max_norm);
        return NAN;
    }
    ct_context *context = module->context;
    int64_t count = 0, n = 0;
    for (ct_param param = {0}; ct_module_next(module, &param);) count++;
    const size_t bytes = cti_bytes(count, sizeof(ct_optim_item));
    ct_optim_item *all = cti_take(context, bytes);
    if (!all) return NAN;
    for (ct_param param = {0}; ct_module_next(module, &param);) {
        ct_tensor *grad = ct_grad(param.tensor);
        if (grad) all[n++] = (ct_optim_item){.grad = grad};
    }
    const double norm = sqrt(cti_op_sum_squares(all, n)), c = cti_nn_clip_scale(norm, max_norm);
    for (int64_t i = 0; i < n && c != 1 && cti_ready(context); i++)
        cti_op_scale_in_place(all[i].grad, c);
    cti_give(context, all, bytes);
    return cti_ready(context) ? norm : NAN;
}
