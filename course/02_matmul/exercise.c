/* matmul: see README.md. */
#include "exercise.h"

static ct_tensor *matmul_forward(ct_call *call) {
    const matmul_attrs *attrs = call->attrs;
    (void)attrs;
    return ct_fail(call->context, CT_ERR_ARGUMENT, "matmul: forward is not written yet");
}

static bool matmul_backward(const ct_call *call, ct_tensor *const *cotangents, ct_tensor **grad) {
    const matmul_attrs *attrs = call->attrs;
    (void)attrs, (void)cotangents[0], (void)grad; /* read attrs and the cotangent, set grad */
    return ct_fail(call->context, CT_ERR_ARGUMENT, "matmul: backward is not written yet");
}

const ct_op matmul = {.name = "matmul",
                      .attrs_size = sizeof(matmul_attrs),
                      .forward = matmul_forward,
                      .backward = matmul_backward};
