/* softmax and log_softmax: see README.md. */
#include "exercise.h"

static ct_tensor *softmax_forward(ct_call *call) {
    return ct_fail(call->context, CT_ERR_ARGUMENT, "softmax: forward is not written yet");
}

static bool softmax_backward(const ct_call *call, ct_tensor *const *cotangents, ct_tensor **grad) {
    (void)cotangents[0], (void)grad; /* read the cotangent, set grad */
    return ct_fail(call->context, CT_ERR_ARGUMENT, "softmax: backward is not written yet");
}

static ct_tensor *log_softmax_forward(ct_call *call) {
    return ct_fail(call->context, CT_ERR_ARGUMENT, "log_softmax: forward is not written yet");
}

static bool log_softmax_backward(const ct_call *call, ct_tensor *const *cotangents,
                                 ct_tensor **grad) {
    (void)cotangents[0], (void)grad;
    return ct_fail(call->context, CT_ERR_ARGUMENT, "log_softmax: backward is not written yet");
}

const ct_op softmax = {.name = "softmax", .forward = softmax_forward, .backward = softmax_backward};
const ct_op log_softmax = {
    .name = "log_softmax", .forward = log_softmax_forward, .backward = log_softmax_backward};
