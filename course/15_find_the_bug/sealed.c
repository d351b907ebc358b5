/* What the judge may ask a submission of this exercise for. */
#include "../sealed.h"
#include "exercise.h"

static void call_mistakes(ct_context *context, message *in, message *out) {
    (void)context, (void)in;
    put_number(out, silu_mistake);
    put_number(out, embedding_mistake);
    put_number(out, rms_norm_mistake);
    put_number(out, cross_entropy_mistake);
    put_number(out, causal_attention_mistake);
}

const sealed_op sealed_ops[] = {
    {"silu", &silu, NULL},
    {"embedding", &embedding, NULL},
    {"rms_norm", &rms_norm, NULL},
    {"cross_entropy", &cross_entropy, NULL},
    {"causal_attention", &causal_attention, NULL},
    {NULL, NULL, NULL},
};
const sealed_function sealed_functions[] = {{"mistakes", call_mistakes}, {NULL, NULL}};
