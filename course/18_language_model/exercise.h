/* Your file defines a language model: its parameters, its forward, a step of training, and how it
 * writes. */
#ifndef EXERCISE_H
#define EXERCISE_H

#include <cotangent/cotangent.h>

/* ---- the ops ---- */

/* You wrote each of them in an earlier exercise, whose README.md describes it. With CUMULATIVE=1
 * they are yours, without it the library's. All tensors are f64. */
ct_tensor *op_matmul(ct_tensor *a, ct_tensor *b, bool transpose);   /* 02 */
ct_tensor *op_softmax(ct_tensor *x);                                /* 03, over the last dim */
ct_tensor *op_cross_entropy(ct_tensor *logits, ct_tensor *targets); /* 04: (N, V), i64 (N) -> () */
ct_tensor *op_layer_norm(ct_tensor *x, ct_tensor *weight, ct_tensor *bias); /* 05, eps 1e-5 */
ct_tensor *op_masked_attention(ct_tensor *q, ct_tensor *k, ct_tensor *v);   /* 06, causal */
ct_tensor *op_split_heads(ct_tensor *x, int64_t heads);       /* 07: (B, T, E) -> (B, H, T, d) */
ct_tensor *op_combine_heads(ct_tensor *x);                    /* 07: (B, H, T, d) -> (B, T, E) */
ct_tensor *op_dropout(ct_tensor *x, double p, bool training); /* 08 */
ct_tensor *op_rotary(ct_tensor *x); /* 09, base 10000, pairs (j, j + d/2) */

typedef struct {
    double lr, beta1, beta2, eps, weight_decay;
} adamw_opts;
void adamw_step(int64_t n, double *w, const double *g, double *m, double *v, int64_t t,
                adamw_opts opts); /* 14 */

/* ---- the model ---- */

typedef struct {
    int64_t vocabulary; /* V: tokens are numbers from 0 to V - 1 */
    int64_t width;      /* E */
    int64_t heads;      /* H, each of E / H columns, an even number */
    int64_t layers;
    int64_t length; /* the most tokens that the model is given at a time */
    double dropout; /* of model_step alone */
} model_sizes;

/* The places of parameters in `params`: those of the model, then those of each layer, for example
 * params[LAYERS + PER_LAYER * layer + UP_BIAS]. */
enum { EMBEDDING /* (V, E) */, NORM_WEIGHT /* (E) */, NORM_BIAS /* (E) */, LAYERS };
enum {
    NORM1_WEIGHT, /* (E) */
    NORM1_BIAS,   /* (E) */
    IN_WEIGHT,    /* (3 E, E): queries, keys, values */
    IN_BIAS,      /* (3 E) */
    OUT_WEIGHT,   /* (E, E) */
    OUT_BIAS,     /* (E) */
    NORM2_WEIGHT, /* (E) */
    NORM2_BIAS,   /* (E) */
    UP_WEIGHT,    /* (4 E, E) */
    UP_BIAS,      /* (4 E) */
    DOWN_WEIGHT,  /* (E, 4 E) */
    DOWN_BIAS,    /* (E) */
    PER_LAYER
};
enum { MOST_LAYERS = 4, MOST_PARAMS = LAYERS + MOST_LAYERS * PER_LAYER };

typedef struct {
    model_sizes sizes;
    int count; /* of params: LAYERS + PER_LAYER * layers */
    ct_tensor *params[MOST_PARAMS];
    /* what AdamW keeps of each parameter, zeros at first: made for you */
    double *m[MOST_PARAMS], *v[MOST_PARAMS];
    int64_t updates; /* so far */
} model;

/* Sets params[0 ... count - 1] to new parameters, which require a gradient. Sizes and count are
 * set. Returns false with an error if this fails. */
extern bool model_init(ct_context *context, model *m);

/* tokens i64 (B, T) -> logits (B, T, V): row t is about the token that follows token t. Nothing is
 * dropped. */
extern ct_tensor *model_logits(const model *m, ct_tensor *tokens);

/* text i64 (B, T + 1): the mean over B T places of -ln p(next token), a scalar. Nothing is dropped.
 */
extern ct_tensor *model_loss(const model *m, ct_tensor *text);

/* One step of training on text (B, T + 1): the loss, with dropout, its gradients, and one update of
 * every parameter by adamw_step. *loss is the loss before the update. Returns false with an error,
 * and updates nothing, if the loss or its backward fails. */
extern bool model_step(model *m, ct_tensor *text, adamw_opts opts, double *loss);

/* Writes `count` tokens that follow the prompt's n >= 1 tokens. For token i the model reads the
 * last tokens, at most `length` of them. Its choice is the most probable token if draws is NULL,
 * and otherwise the smallest token k with p_0 + ... + p_k > draws[i], a number in [0, 1). */
extern bool model_write(const model *m, ct_context *context, const int64_t *prompt, int64_t n,
                        int64_t count, const double *draws, int64_t *written);

#endif
