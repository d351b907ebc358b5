/* What the judge may ask a submission of this exercise for. There is one model at a time, which
 * lies here between requests. */
#include "../sealed.h"
#include "exercise.h"

void *sealed_calloc(size_t count, size_t size); /* sealed.c: a block between guards */
void sealed_free(void *block);

static model own;

/* The shape that a parameter must have. */
static ct_shape shape_of(int i) {
    const int64_t e = own.sizes.width;
    const ct_shape of_model[] = {CT_SHAPE(own.sizes.vocabulary, e), CT_SHAPE(e), CT_SHAPE(e)};
    const ct_shape of_layer[] = {CT_SHAPE(e),     CT_SHAPE(e),        CT_SHAPE(3 * e, e),
                                 CT_SHAPE(3 * e), CT_SHAPE(e, e),     CT_SHAPE(e),
                                 CT_SHAPE(e),     CT_SHAPE(e),        CT_SHAPE(4 * e, e),
                                 CT_SHAPE(4 * e), CT_SHAPE(e, 4 * e), CT_SHAPE(e)};
    return i < LAYERS ? of_model[i] : of_layer[(i - LAYERS) % PER_LAYER];
}
static int64_t numel_of(int i) {
    const ct_shape shape = shape_of(i);
    return shape.dim[0] * (shape.ndim == 2 ? shape.dim[1] : 1);
}

static void end_model(void) {
    for (int i = 0; i < own.count; i++) {
        if (own.params[i]) ct_release(own.params[i]);
        sealed_free(own.m[i]), sealed_free(own.v[i]);
    }
    own = (model){.count = 0};
}

/* A model of these sizes, with nothing in it yet. */
static void begin_model(message *in) {
    end_model();
    model_sizes *s = &own.sizes;
    s->vocabulary = get_number(in), s->width = get_number(in), s->heads = get_number(in);
    s->layers = get_number(in), s->length = get_number(in), s->dropout = get_f64(in);
    if (in->broken || s->layers < 1 || s->layers > MOST_LAYERS) sealed_give_up();
    own.count = LAYERS + PER_LAYER * (int)s->layers;
    for (int i = 0; i < own.count; i++) {
        own.m[i] = sealed_calloc((size_t)numel_of(i), sizeof(double));
        own.v[i] = sealed_calloc((size_t)numel_of(i), sizeof(double));
    }
}

/* A parameter with these values that stays until the model ends. */
static ct_tensor *lasting(ct_context *context, int i, const double *values) {
    ct_tensor *x = ct_from_f64(context, shape_of(i), values);
    if (!x) sealed_give_up();
    return ct_keep(ct_set_requires_grad(x, true));
}

static void call_init(ct_context *context, message *in, message *out) {
    (void)out;
    begin_model(in);
    ct_rng_set(context, get_rng(in));
    ct_scope scope = ct_scope_open(context);
    if (!model_init(context, &own)) {
        memset(own.params, 0, sizeof own.params);
        ct_scope_close(scope);
        if (!ct_error(context)) sealed_says("no model", "model_init returns false, and no error");
        return;
    }
    for (int i = own.count; i < MOST_PARAMS; i++)
        if (own.params[i])
            sealed_says("one parameter too many", "model_init sets params[%d], and count is %d", i,
                        own.count);
    for (int i = 0; i < own.count; i++) {
        ct_tensor *x = own.params[i];
        const ct_shape shape = shape_of(i);
        if (!x) sealed_says("no parameter", "model_init leaves params[%d] NULL", i);
        if (ct_dtype_of(x) != CT_F64 || ct_ndim(x) != shape.ndim || ct_dim(x, 0) != shape.dim[0] ||
            ct_dim(x, -1) != shape.dim[shape.ndim - 1])
            sealed_says("wrong shape",
                        "model_init: params[%d] has %d dims, the last of %lld, and must be f64 "
                        "with %d dims, the last of %lld",
                        i, ct_ndim(x), (long long)ct_dim(x, -1), shape.ndim,
                        (long long)shape.dim[shape.ndim - 1]);
        if (!ct_requires_grad(x))
            sealed_says("no gradient wanted",
                        "model_init: params[%d] does not require a gradient: "
                        "ct_set_requires_grad",
                        i);
        own.params[i] = lasting(context, i, ct_data_f64(ct_contiguous(ct_detach(x))));
    }
    ct_scope_close(scope);
}

static void call_set(ct_context *context, message *in, message *out) {
    (void)out;
    begin_model(in);
    for (int i = 0; i < own.count; i++) {
        size_t bytes;
        const double *values = get_bytes(in, &bytes);
        if (bytes != (size_t)numel_of(i) * sizeof *values) sealed_give_up();
        own.params[i] = lasting(context, i, values);
    }
}

/* Parameters, then the means of gradients, then those of their squares. */
static void call_get(ct_context *context, message *in, message *out) {
    (void)context, (void)in;
    for (int i = 0; i < own.count; i++) put_array(out, ct_data_f64(own.params[i]), numel_of(i));
    for (int i = 0; i < own.count; i++) put_array(out, own.m[i], numel_of(i));
    for (int i = 0; i < own.count; i++) put_array(out, own.v[i], numel_of(i));
    put_number(out, own.updates);
}

static void must_be_done(ct_context *context, const char *function, bool done) {
    if (!done && !ct_error(context))
        sealed_says("no result", "%s returns nothing, and no error", function);
}

static void call_logits(ct_context *context, message *in, message *out) {
    ct_scope scope = ct_scope_open(context);
    ct_tensor *logits = model_logits(&own, get_tensor(in, context));
    must_be_done(context, "model_logits", logits);
    put_tensor(out, logits);
    ct_scope_close(scope);
}

static void call_loss(ct_context *context, message *in, message *out) {
    ct_scope scope = ct_scope_open(context);
    ct_tensor *loss = model_loss(&own, get_tensor(in, context));
    must_be_done(context, "model_loss", loss);
    put_tensor(out, loss);
    ct_scope_close(scope);
}

static void call_step(ct_context *context, message *in, message *out) {
    ct_scope scope = ct_scope_open(context);
    ct_tensor *text = get_tensor(in, context);
    adamw_opts o = {.lr = get_f64(in)};
    o.beta1 = get_f64(in), o.beta2 = get_f64(in), o.eps = get_f64(in), o.weight_decay = get_f64(in);
    double loss;
    memset(&loss, 0xff, sizeof loss); /* as new memory */
    must_be_done(context, "model_step", model_step(&own, text, o, &loss));
    put_f64(out, loss);
    ct_scope_close(scope);
}

static void call_write(ct_context *context, message *in, message *out) {
    int64_t n, count, ignored;
    const double *prompt = sealed_input("prompt", in, &n);
    count = get_number(in);
    const bool drawn = get_number(in) != 0;
    const double *draws = sealed_input("draws", in, &ignored);
    if (in->broken || count < 0 || count > MESSAGE_MOST / 8) sealed_give_up();
    int64_t *tokens = sealed_calloc((size_t)n, sizeof *tokens),
            *written = sealed_calloc((size_t)count, sizeof *written);
    for (int64_t i = 0; i < n; i++) tokens[i] = (int64_t)prompt[i];
    for (int64_t i = 0; i < count; i++) written[i] = -1;
    const bool done = model_write(&own, context, tokens, n, count, drawn ? draws : NULL, written);
    must_be_done(context, "model_write", done);
    put_bytes(out, written, (size_t)count * sizeof *written);
    sealed_free(tokens), sealed_free(written);
}

const sealed_op sealed_ops[] = {{NULL, NULL, NULL}};
const sealed_function sealed_functions[] = {
    {"model_init", call_init},   {"model_set", call_set},
    {"model_get", call_get},     {"model_logits", call_logits},
    {"model_loss", call_loss},   {"model_step", call_step},
    {"model_write", call_write}, {NULL, NULL},
};
