/* rotary: see README.md. */
#include "exercise.h"

static ct_tensor *rotary_forward(ct_call *call) {
    return ct_fail(call->context, CT_ERR_ARGUMENT, "rotary: forward is not written yet");
}

static bool rotary_backward(const ct_call *call, ct_tensor *const *cotangents, ct_tensor **grad) {
    (void)cotangents[0], (void)grad; /* read the cotangent, set grad */
    return ct_fail(call->context, CT_ERR_ARGUMENT, "rotary: backward is not written yet");
}

const ct_op rotary = {.name = "rotary",
                      .attrs_size = sizeof(rotary_attrs),
                      .forward = rotary_forward,
                      .backward = rotary_backward};
