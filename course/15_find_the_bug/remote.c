/* The names of exercise.h, which stand for the submission's. The student's answers are constants of
 * exercise.h and variables here, so that header is read with other names for them. */
#include "../remote.h"
#define silu_mistake             silu_declared
#define embedding_mistake        embedding_declared
#define rms_norm_mistake         rms_norm_declared
#define cross_entropy_mistake    cross_entropy_declared
#define causal_attention_mistake causal_attention_declared
#include "exercise.h"
#undef silu_mistake
#undef embedding_mistake
#undef rms_norm_mistake
#undef cross_entropy_mistake
#undef causal_attention_mistake

const ct_op silu = REMOTE_OP("silu", 0);
const ct_op embedding = REMOTE_OP("embedding", 0);
const ct_op rms_norm = REMOTE_OP("rms_norm", 0);
const ct_op cross_entropy = REMOTE_OP("cross_entropy", 0);
const ct_op causal_attention = REMOTE_OP("causal_attention", 0);

extern mistake silu_mistake, embedding_mistake, rms_norm_mistake, cross_entropy_mistake,
    causal_attention_mistake;
mistake silu_mistake, embedding_mistake, rms_norm_mistake, cross_entropy_mistake,
    causal_attention_mistake;

void remote_ready(void) {
    mistake *const answers[] = {&silu_mistake, &embedding_mistake, &rms_norm_mistake,
                                &cross_entropy_mistake, &causal_attention_mistake};
    remote_begin("mistakes");
    message *got = remote_call(NULL);
    for (unsigned i = 0; i < sizeof answers / sizeof *answers; i++)
        *answers[i] = (mistake)get_number(got);
    remote_end(got);
}
