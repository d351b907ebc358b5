/* What the judge may ask a submission of this exercise for. */
#include "../sealed.h"
#include "exercise.h"

static void call_backward(ct_context *context, message *in, message *out) {
    static const char *const inputs[] = {"a->x", "a->w_in", "a->q",     "a->k", "a->v",
                                         "a->P", "a->O",    "a->w_out", "a->dy"};
    static const char *const outputs[] = {
        "grad->dW_out", "grad->db_out", "grad->dO",    "grad->dO_heads", "grad->dv",
        "grad->dP",     "grad->D",      "grad->dS",    "grad->dq",       "grad->dk",
        "grad->dqkv",   "grad->dW_in",  "grad->db_in", "grad->dx_paths", "grad->dx"};
    enum { INS = sizeof inputs / sizeof *inputs, OUTS = sizeof outputs / sizeof *outputs };
    const double *x[INS];
    double *y[OUTS];
    int64_t n[INS + OUTS];
    const int64_t batch = get_number(in), tokens = get_number(in), width = get_number(in),
                  heads = get_number(in);
    (void)context;
    for (int i = 0; i < INS; i++) x[i] = sealed_input(inputs[i], in, &n[i]);
    for (int i = 0; i < OUTS; i++) y[i] = sealed_array(outputs[i], in, &n[INS + i]);
    const attention_values a = {batch, tokens, width, heads, x[0], x[1], x[2],
                                x[3],  x[4],   x[5],  x[6],  x[7], x[8]};
    const attention_gradients grad = {y[0], y[1], y[2],  y[3],  y[4],  y[5],  y[6], y[7],
                                      y[8], y[9], y[10], y[11], y[12], y[13], y[14]};
    attention_backward(&a, &grad);
    for (int i = 0; i < OUTS; i++) put_array(out, y[i], n[INS + i]);
    for (int i = 0; i < OUTS; i++) sealed_put_beside(outputs[i], out);
}

const sealed_op sealed_ops[] = {{NULL, NULL, NULL}};
const sealed_function sealed_functions[] = {{"attention_backward", call_backward}, {NULL, NULL}};
