/* What the judge may ask a submission of this exercise for. */
#include "../sealed.h"
#include "exercise.h"

static void take(message *in, architecture *a, step *s) {
    if (!get_items(in, a, sizeof *a) || !get_items(in, s, sizeof *s)) sealed_give_up();
}

static void call_parameters(ct_context *context, message *in, message *out) {
    architecture a;
    step s;
    (void)context;
    take(in, &a, &s), put_number(out, count_parameters(&a));
}
static void call_forward(ct_context *context, message *in, message *out) {
    architecture a;
    step s;
    (void)context;
    take(in, &a, &s), put_number(out, count_forward(&a, &s));
}
static void call_step(ct_context *context, message *in, message *out) {
    architecture a;
    step s;
    (void)context;
    take(in, &a, &s), put_number(out, count_step(&a, &s));
}
static void call_memory(ct_context *context, message *in, message *out) {
    architecture a;
    step s;
    (void)context;
    take(in, &a, &s);
    const memory m = count_memory(&a, &s);
    put_number(out, m.weights), put_number(out, m.gradients);
    put_number(out, m.optimiser), put_number(out, m.activations);
}

const sealed_op sealed_ops[] = {{NULL, NULL, NULL}};
const sealed_function sealed_functions[] = {{"count_parameters", call_parameters},
                                            {"count_forward", call_forward},
                                            {"count_step", call_step},
                                            {"count_memory", call_memory},
                                            {NULL, NULL}};
