/* The names of exercise.h, which stand for the submission's. */
#include "../remote.h"
#include "exercise.h"

const ct_op blockwise_attention =
    REMOTE_OP("blockwise_attention", sizeof(blockwise_attention_attrs));

void attend_block(attention_state *state, int64_t n, const double *score, int64_t e,
                  const double *v) {
    message *m = remote_begin("attend_block");
    put_f64(m, state->max), put_f64(m, state->sum), put_array(m, state->out, e);
    put_array(m, score, n), put_array(m, v, n * e);
    message *got = remote_call(NULL);
    state->max = get_f64(got), state->sum = get_f64(got), get_array(got, state->out, e);
    remote_end(got);
}
