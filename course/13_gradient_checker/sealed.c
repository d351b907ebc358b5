/* What the judge may ask a submission of this exercise for. */
#include "../sealed.h"
#include "exercise.h"

static int inputs, outputs; /* how many the checked function has */
static message call;

static void forward(const double *x, double *y) {
    message_clear(&call);
    put_text(&call, "forward"), put_array(&call, x, inputs), put_array(&call, y, outputs);
    get_array(sealed_call_back(&call), y, outputs);
}
static void backward(const double *x, const double *g, double *dx) {
    message_clear(&call);
    put_text(&call, "backward"), put_array(&call, x, inputs), put_array(&call, g, outputs);
    put_array(&call, dx, inputs);
    get_array(sealed_call_back(&call), dx, inputs);
}

static void call_check(ct_context *context, message *in, message *out) {
    int64_t n;
    inputs = (int)get_number(in), outputs = (int)get_number(in);
    const double *x = sealed_input("x", in, &n);
    const function f = {inputs, outputs, forward, backward};
    const check c = check_gradient(&f, x);
    (void)context;
    put_number(out, c.verdict), put_number(out, c.output), put_number(out, c.input);
    put_f64(out, c.analytic), put_f64(out, c.numeric);
}

const sealed_op sealed_ops[] = {{NULL, NULL, NULL}};
const sealed_function sealed_functions[] = {{"check_gradient", call_check}, {NULL, NULL}};
