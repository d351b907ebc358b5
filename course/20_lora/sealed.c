/* What the judge may ask a submission of this exercise for. */
#include "../sealed.h"
#include "exercise.h"

static void call_init(ct_context *context, message *in, message *out) {
    const int64_t rows = get_number(in), columns = get_number(in), rank = get_number(in);
    ct_rng_set(context, get_rng(in));
    ct_scope scope = ct_scope_open(context);
    ct_tensor *a = NULL, *b = NULL;
    if (lora_init(context, rows, columns, rank, &a, &b)) {
        if (!a || !b) sealed_says("no result", "lora_init leaves *a or *b as it was");
        if (!ct_requires_grad(a) || !ct_requires_grad(b))
            sealed_says("no gradient wanted", "what lora_init makes must require a gradient: "
                                              "ct_set_requires_grad");
        put_tensor(out, a), put_tensor(out, b);
    } else if (!ct_error(context))
        sealed_says("no result", "lora_init returns false, and no error");
    ct_scope_close(scope);
}

static void call_merge(ct_context *context, message *in, message *out) {
    const int64_t rows = get_number(in), columns = get_number(in), rank = get_number(in);
    const double scale = get_f64(in);
    int64_t n, ignored;
    double *weight = sealed_array("weight", in, &n);
    const double *a = sealed_input("a", in, &ignored), *b = sealed_input("b", in, &ignored);
    (void)context;
    lora_merge(rows, columns, rank, weight, a, b, scale);
    put_array(out, weight, n);
}

const sealed_op sealed_ops[] = {
    {"lora", &lora, NULL},
    {NULL, NULL, NULL},
};
const sealed_function sealed_functions[] = {
    {"lora_init", call_init}, {"lora_merge", call_merge}, {NULL, NULL}};
