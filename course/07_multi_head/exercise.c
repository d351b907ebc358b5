/* split_heads, combine_heads and multi_head: see README.md. */
#include "exercise.h"

static ct_tensor *split_heads_forward(ct_call *call) {
    return ct_fail(call->context, CT_ERR_ARGUMENT, "split_heads: forward is not written yet");
}

static bool split_heads_backward(const ct_call *call, ct_tensor *const *cotangents,
                                 ct_tensor **grad) {
    (void)cotangents[0], (void)grad; /* read the cotangent, set grad */
    return ct_fail(call->context, CT_ERR_ARGUMENT, "split_heads: backward is not written yet");
}

static ct_tensor *combine_heads_forward(ct_call *call) {
    return ct_fail(call->context, CT_ERR_ARGUMENT, "combine_heads: forward is not written yet");
}

static bool combine_heads_backward(const ct_call *call, ct_tensor *const *cotangents,
                                   ct_tensor **grad) {
    (void)cotangents[0], (void)grad;
    return ct_fail(call->context, CT_ERR_ARGUMENT, "combine_heads: backward is not written yet");
}

const ct_op split_heads = {.name = "split_heads",
                           .attrs_size = sizeof(split_heads_attrs),
                           .forward = split_heads_forward,
                           .backward = split_heads_backward};
const ct_op combine_heads = {
    .name = "combine_heads", .forward = combine_heads_forward, .backward = combine_heads_backward};

ct_tensor *multi_head(ct_tensor *x, const multi_head_params *params, int64_t heads, bool causal) {
    (void)params, (void)heads, (void)causal;
    return ct_fail(ct_context_of(x), CT_ERR_ARGUMENT, "multi_head: it is not written yet");
}
