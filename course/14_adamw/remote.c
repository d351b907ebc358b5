/* The names of exercise.h, which stand for the submission's. The loss stays here: each of its calls
 * is a call back with the parameters, which the judge replies to with the loss and its gradients.
 */
#include "../course.h"
#include "../remote.h"
#include "exercise.h"

static void put_opts(message *m, const adamw_opts *o) {
    put_f64(m, o->lr), put_f64(m, o->beta1), put_f64(m, o->beta2), put_f64(m, o->eps);
    put_f64(m, o->weight_decay);
}

void adamw_step(int64_t n, double *w, const double *g, double *m, double *v, int64_t t,
                adamw_opts opts) {
    message *to = remote_begin("adamw_step");
    put_array(to, w, n), put_array(to, g, n), put_array(to, m, n), put_array(to, v, n);
    put_number(to, t), put_opts(to, &opts);
    message *got = remote_call(NULL);
    get_array(got, w, n), get_array(got, m, n), get_array(got, v, n);
    remote_end(got);
}

typedef struct {
    ct_context *context;
    ct_tensor *const *params;
    int n;
    loss_function loss;
    void *arg;
} training;

/* Takes the values of the parameters from a message. */
static void take_params(const training *t, message *m) {
    for (int i = 0; i < t->n; i++) {
        get_array(m, ct_data_f64(t->params[i]), ct_numel(t->params[i]));
        ct_wrote(t->params[i]);
    }
}

static void compute_loss(message *called, message *reply, void *arg) {
    const training *t = arg;
    ct_scope scope = ct_scope_open(t->context);
    take_params(t, called);
    for (int i = 0; i < t->n; i++) ct_zero_grad(t->params[i]);
    ct_tensor *loss = called->broken ? NULL : t->loss(t->arg);
    put_number(reply, ct_error(t->context)), put_text(reply, ct_error_message(t->context));
    put_f64(reply, loss ? ct_item(loss) : 0);
    if (loss) ct_backward(loss);
    for (int i = 0; i < t->n; i++) {
        ct_tensor *grad = ct_grad(t->params[i]);
        put_tensor(reply, grad);
        if (grad) ct_zero_grad(t->params[i]);
    }
    ct_error_clear(t->context);
    ct_scope_close(scope);
}

bool train(ct_context *context, ct_tensor *const *params, int n, loss_function loss, void *arg,
           int steps, adamw_opts opts, double *losses) {
    training t = {context, params, n, loss, arg};
    message *m = remote_begin("train");
    put_number(m, n), put_number(m, steps), put_opts(m, &opts), put_array(m, losses, steps);
    for (int i = 0; i < n; i++) put_tensor(m, params[i]), put_tensor(m, ct_grad(params[i]));
    message *got = remote_call_with(context, compute_loss, &t);
    if (!got) return false;
    char text[512];
    const bool done = get_number(got) != 0;
    const int64_t status = get_number(got);
    get_text(got, text, sizeof text);
    if (status > CT_OK && status <= CT_ERR_GRAD) ct_fail(context, (ct_status)status, "%s", text);
    get_array(got, losses, steps), take_params(&t, got);
    remote_end(got);
    return done;
}
