/* What the judge asks a submission for. The model lies in the submission's program; remote.c. */
#ifndef MODEL_H
#define MODEL_H

#include "exercise.h"

/* model_init: begins a model. */
bool model_begin(ct_context *context, model_sizes sizes);
/* Begins a model with these parameters, one behind the other; n has the numbers of each. */
void model_set(model_sizes sizes, int count, const int64_t *n, const double *params);
/* The parameters, and AdamW's m and v; returns the number of updates. */
int64_t model_get(int count, const int64_t *n, double *params, double *m, double *v);

ct_tensor *model_logits_of(ct_context *context, ct_tensor *tokens);
ct_tensor *model_loss_of(ct_context *context, ct_tensor *text);
bool model_train(ct_context *context, ct_tensor *text, adamw_opts opts, double *loss);
bool model_writes(ct_context *context, const int64_t *prompt, int64_t n, int64_t count,
                  const double *draws, int64_t *written);

#endif
