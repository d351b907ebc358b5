/* What the judge may ask a submission of this exercise for. */
#include "../sealed.h"
#include "exercise.h"

static void call_attend_block(ct_context *context, message *in, message *out) {
    int64_t e, n, all;
    attention_state state;
    state.max = get_f64(in), state.sum = get_f64(in);
    state.out = sealed_array("state->out", in, &e);
    const double *score = sealed_input("score", in, &n), *v = sealed_input("v", in, &all);
    (void)context;
    double *const given = state.out;
    attend_block(&state, n, score, e, v);
    put_f64(out, state.max), put_f64(out, state.sum), put_array(out, given, e);
}

const sealed_op sealed_ops[] = {
    {"blockwise_attention", &blockwise_attention, NULL},
    {NULL, NULL, NULL},
};
const sealed_function sealed_functions[] = {{"attend_block", call_attend_block}, {NULL, NULL}};
