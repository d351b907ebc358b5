/* A language model: see README.md. */
#include "exercise.h"

bool model_init(ct_context *context, model *m) {
    (void)m;
    return ct_fail(context, CT_ERR_ARGUMENT, "model_init: it is not written yet");
}

ct_tensor *model_logits(const model *m, ct_tensor *tokens) {
    (void)m;
    return ct_fail(ct_context_of(tokens), CT_ERR_ARGUMENT, "model_logits: it is not written yet");
}

ct_tensor *model_loss(const model *m, ct_tensor *text) {
    (void)m;
    return ct_fail(ct_context_of(text), CT_ERR_ARGUMENT, "model_loss: it is not written yet");
}

bool model_step(model *m, ct_tensor *text, adamw_opts opts, double *loss) {
    (void)m, (void)opts, (void)loss;
    return ct_fail(ct_context_of(text), CT_ERR_ARGUMENT, "model_step: it is not written yet");
}

bool model_write(const model *m, ct_context *context, const int64_t *prompt, int64_t n,
                 int64_t count, const double *draws, int64_t *written) {
    (void)m, (void)prompt, (void)n, (void)count, (void)draws, (void)written;
    return ct_fail(context, CT_ERR_ARGUMENT, "model_write: it is not written yet");
}
