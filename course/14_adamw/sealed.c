/* What the judge may ask a submission of this exercise for. */
#include "../sealed.h"
#include "exercise.h"

static adamw_opts get_opts(message *m) {
    adamw_opts o = {.lr = get_f64(m)};
    o.beta1 = get_f64(m), o.beta2 = get_f64(m), o.eps = get_f64(m), o.weight_decay = get_f64(m);
    return o;
}

static void call_step(ct_context *context, message *in, message *out) {
    int64_t n;
    double *w = sealed_array("w", in, &n);
    const double *g = sealed_input("g", in, &n);
    double *m = sealed_array("m", in, &n), *v = sealed_array("v", in, &n);
    const int64_t t = get_number(in);
    (void)context;
    adamw_step(n, w, g, m, v, t, get_opts(in));
    put_array(out, w, n), put_array(out, m, n), put_array(out, v, n);
}

/* ---- training ---- */

enum { MOST = 16 };
typedef struct {
    ct_context *context;
    ct_tensor *params[MOST];
    int n;
    message call;
} training;

/* The judge's loss, as an op of the parameters that have a gradient. Its attributes are the loss;
 * saved[0] has the gradients, one behind the other. */
typedef struct {
    double loss;
    ct_tensor *gradients;
} loss_attrs;
static ct_tensor *loss_forward(ct_call *call) {
    const loss_attrs *attrs = call->attrs;
    call->saved[0] = ct_scale(attrs->gradients, 1);
    return ct_full(call->context, CT_F64, CT_SCALAR, attrs->loss);
}
static bool loss_backward(const ct_call *call, ct_tensor *const *cotangents, ct_tensor **grad) {
    int64_t at = 0;
    for (int i = 0; i < call->n; i++) {
        const int64_t n = ct_numel(call->in[i]);
        grad[i] = ct_reshape(ct_scale(ct_narrow(call->saved[0], 0, at, n), ct_item(cotangents[0])),
                             ct_shape_of(call->in[i]));
        at += n;
    }
    return !ct_error(call->context);
}
static const ct_op loss_op = {.name = "loss",
                              .attrs_size = sizeof(loss_attrs),
                              .forward = loss_forward,
                              .backward = loss_backward};

static ct_tensor *loss(void *arg) {
    training *t = arg;
    char text[512];
    ct_tensor *in[MOST];
    int n = 0;
    int64_t size = 0, room = 0;
    message_clear(&t->call);
    for (int i = 0; i < t->n; i++) {
        put_array(&t->call, ct_data_f64(t->params[i]), ct_numel(t->params[i]));
        room += ct_numel(t->params[i]);
    }
    message *got = sealed_call_back(&t->call);
    const int64_t status = get_number(got);
    get_text(got, text, sizeof text);
    loss_attrs attrs = {get_f64(got), NULL};
    if (status != CT_OK) return ct_fail(t->context, (ct_status)status, "%s", text);
    double *all = malloc((size_t)room * sizeof *all + 1);
    if (!all) sealed_give_up();
    for (int i = 0; i < t->n; i++) {
        const wire_tensor grad = get_wire_tensor(got);
        if (!grad.data) continue;
        memcpy(all + size, grad.data, (size_t)grad.numel * sizeof *all);
        in[n++] = t->params[i], size += grad.numel;
    }
    attrs.gradients = ct_from_f64(t->context, CT_SHAPE(size), all);
    free(all);
    return ct_apply(&loss_op, in, n, &attrs);
}

static void call_train(ct_context *context, message *in, message *out) {
    static training t;
    int64_t steps;
    t.context = context, t.n = (int)get_number(in), steps = get_number(in);
    const adamw_opts opts = get_opts(in);
    double *losses = sealed_array("losses", in, &steps);
    if (t.n > MOST) sealed_give_up();
    ct_scope scope = ct_scope_open(context);
    for (int i = 0; i < t.n; i++) {
        t.params[i] = ct_set_requires_grad(get_tensor(in, context), true);
        ct_tensor *left = get_tensor(in, context);
        if (!left) continue; /* a gradient that a backward before has left */
        ct_tensor *copy = ct_scale(t.params[i], 1);
        ct_backward_with(&copy, &left, 1, (ct_backward_opts){false});
    }
    const bool done = train(context, t.params, t.n, loss, &t, (int)steps, opts, losses);
    /* an error that is left goes back beside the result, which must be false then */
    put_number(out, done), put_number(out, ct_error(context));
    put_text(out, ct_error_message(context)), ct_error_clear(context);
    put_array(out, losses, steps);
    for (int i = 0; i < t.n; i++) put_array(out, ct_data_f64(t.params[i]), ct_numel(t.params[i]));
    ct_scope_close(scope);
}

const sealed_op sealed_ops[] = {{NULL, NULL, NULL}};
const sealed_function sealed_functions[] = {
    {"adamw_step", call_step}, {"train", call_train}, {NULL, NULL}};
