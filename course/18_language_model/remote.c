/* The names of exercise.h, which stand for the submission's. The model lies in the submission: what
 * the judge has of it are its numbers (model.h). */
#include "../course.h"
#include "../remote.h"
#include "model.h"

static void put_sizes(message *m, const model_sizes *s) {
    put_number(m, s->vocabulary), put_number(m, s->width), put_number(m, s->heads);
    put_number(m, s->layers), put_number(m, s->length), put_f64(m, s->dropout);
}

bool model_begin(ct_context *context, model_sizes sizes) {
    message *m = remote_begin("model_init");
    put_sizes(m, &sizes), put_rng(m, ct_rng_get(context));
    message *got = remote_call(context);
    if (got) remote_end(got);
    return got != NULL;
}

void model_set(model_sizes sizes, int count, const int64_t *n, const double *params) {
    message *m = remote_begin("model_set");
    put_sizes(m, &sizes);
    for (int i = 0; i < count; i++) put_array(m, params, n[i]), params += n[i];
    remote_end(remote_call(NULL));
}

int64_t model_get(int count, const int64_t *n, double *params, double *m, double *v) {
    remote_begin("model_get");
    message *got = remote_call(NULL);
    double *to[] = {params, m, v};
    for (int kind = 0; kind < 3; kind++)
        for (int i = 0; i < count; i++) get_array(got, to[kind], n[i]), to[kind] += n[i];
    const int64_t updates = get_number(got);
    remote_end(got);
    return updates;
}

static ct_tensor *tensor_of(ct_context *context, const char *function, ct_tensor *tokens) {
    put_tensor(remote_begin(function), tokens);
    message *got = remote_call(context);
    if (!got) return NULL;
    ct_tensor *x = get_tensor(got, context);
    remote_end(got);
    return x;
}
ct_tensor *model_logits_of(ct_context *context, ct_tensor *tokens) {
    return tensor_of(context, "model_logits", tokens);
}
ct_tensor *model_loss_of(ct_context *context, ct_tensor *text) {
    return tensor_of(context, "model_loss", text);
}

bool model_train(ct_context *context, ct_tensor *text, adamw_opts o, double *loss) {
    message *m = remote_begin("model_step");
    put_tensor(m, text), put_f64(m, o.lr), put_f64(m, o.beta1), put_f64(m, o.beta2);
    put_f64(m, o.eps), put_f64(m, o.weight_decay);
    message *got = remote_call(context);
    if (!got) return false;
    *loss = get_f64(got);
    remote_end(got);
    return true;
}

bool model_writes(ct_context *context, const int64_t *prompt, int64_t n, int64_t count,
                  const double *draws, int64_t *written) {
    message *m = remote_begin("model_write");
    double *as_numbers = malloc((size_t)n * sizeof *as_numbers + 1);
    if (!as_numbers) course_fail("the test has no memory");
    for (int64_t i = 0; i < n; i++) as_numbers[i] = (double)prompt[i];
    put_array(m, as_numbers, n), put_number(m, count), put_number(m, draws != NULL);
    put_array(m, draws ? draws : as_numbers, draws ? count : 0);
    free(as_numbers);
    message *got = remote_call(context);
    if (!got) return false;
    size_t size;
    const void *tokens = get_bytes(got, &size);
    if (size == (size_t)count * sizeof *written) memcpy(written, tokens, size);
    else got->broken = true;
    remote_end(got);
    return true;
}
