/* expect 0/10
 * by_hand failed: refused: it calls ct_attention
 */
/* The library can do this already. */
#include "exercise.h"

static ct_tensor *masked_attention_forward(ct_call *call) {
    const masked_attention_attrs *attrs = call->attrs;
    ct_tensor *q = ct_unsqueeze(call->in[0], 1), *k = ct_unsqueeze(call->in[1], 1),
              *v = ct_unsqueeze(call->in[2], 1);
    return ct_squeeze(
        ct_attention(q, k, v, (ct_attention_opts){.key_mask = call->in[3], .causal = attrs->causal})
            .out,
        1);
}

static bool masked_attention_backward(const ct_call *call, ct_tensor *const *cotangents,
                                      ct_tensor **grad) {
    (void)cotangents[0], (void)grad;
    return ct_fail(call->context, CT_ERR_ARGUMENT, "masked_attention: the library does it");
}

const ct_op masked_attention = {.name = "masked_attention",
                                .attrs_size = sizeof(masked_attention_attrs),
                                .forward = masked_attention_forward,
                                .backward = masked_attention_backward,
                                .flags = CT_OP_OPTIONAL};
