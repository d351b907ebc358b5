/* dropout: see README.md. */
#include "exercise.h"

static ct_tensor *dropout_forward(ct_call *call) {
    return ct_fail(call->context, CT_ERR_ARGUMENT, "dropout: forward is not written yet");
}

static bool dropout_backward(const ct_call *call, ct_tensor *const *cotangents, ct_tensor **grad) {
    (void)cotangents[0], (void)grad; /* read the cotangent, set grad */
    return ct_fail(call->context, CT_ERR_ARGUMENT, "dropout: backward is not written yet");
}

const ct_op dropout = {.name = "dropout",
                       .attrs_size = sizeof(dropout_attrs),
                       .forward = dropout_forward,
                       .backward = dropout_backward};
