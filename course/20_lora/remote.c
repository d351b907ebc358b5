/* The names of exercise.h, which stand for the submission's. */
#include "../remote.h"
#include "exercise.h"

const ct_op lora = REMOTE_OP("lora", sizeof(lora_attrs));

bool lora_init(ct_context *context, int64_t out, int64_t in, int64_t rank, ct_tensor **a,
               ct_tensor **b) {
    message *m = remote_begin("lora_init");
    put_number(m, out), put_number(m, in), put_number(m, rank), put_rng(m, ct_rng_get(context));
    message *got = remote_call(context);
    if (!got) return false;
    *a = get_tensor(got, context), *b = get_tensor(got, context);
    remote_end(got);
    return *a && *b;
}

void lora_merge(int64_t out, int64_t in, int64_t rank, double *weight, const double *a,
                const double *b, double scale) {
    message *m = remote_begin("lora_merge");
    put_number(m, out), put_number(m, in), put_number(m, rank), put_f64(m, scale);
    put_array(m, weight, out * in), put_array(m, a, rank * in), put_array(m, b, out * rank);
    message *got = remote_call(NULL);
    get_array(got, weight, out * in);
    remote_end(got);
}
