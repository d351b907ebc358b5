/* The sentence vector of hidden states, and the Dense modules that it runs. */
#ifndef CTI_MODELS_SENTENCE_VECTOR_H
#define CTI_MODELS_SENTENCE_VECTOR_H

#include "lm.h"

/* A Dense: y = f(x W^T + b). Its child is `linear`. */
#define CTI_DENSE_LINEAR "linear"
typedef struct {
    int64_t in, out;
    bool no_bias;
    const char *activation; /* "Tanh", a name of cti_dense_activation */
} cti_dense_opts;
extern const ct_module_type cti_dense_type;
/* The activation of torch.nn with this name, as a text that lives on; NULL: it is not followed. */
const char *cti_dense_activation(cti_text name);
/* Makes a Dense without values, of f32 or f64. */
ct_module *cti_dense_new(ct_context *context, cti_dense_opts opts, ct_dtype dtype);

/* Whether a parameter's name is one of a Dense. */
bool cti_lm_is_of_dense(const void *lm, const char *name);

/* Whether the model has a sentence vector for the call. */
bool cti_lm_sentence_check(const cti_lm *lm, const char *op, const ct_lm_call *call);
/* The vector (B, D) of hidden states (B, T, E); x may be NULL. */
ct_tensor *cti_lm_sentence_vector(const cti_lm *lm, const ct_lm_call *call, ct_tensor *x);

#endif
