/* Attention in scalar code, with every option, forward and backward: what the fused code computes.
 * Read this first; the tests compare everything else with it. All tensors are f64 and dense.
 *
 * B batches, H query heads, H_kv key heads, T queries, S keys; a query or key has d numbers, a
 * value dv. The query heads h G ... h G + G - 1 share key head h, G = H / H_kv. */
#ifndef CTI_OPS_ATTENTION_ATTENTION_REFERENCE_H
#define CTI_OPS_ATTENTION_ATTENTION_REFERENCE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct {
    int64_t batch, heads, kv_heads, t, s, d, dv;
    const double *q, *k, *v; /* (B, H, T, d), (B, H_kv, S, d), (B, H_kv, S, dv) */
    double scale, softcap;   /* softcap 0: none */
    const double *bias;      /* (B, H, T, S), added to scores; -inf hides; NULL: none */
    const bool *mask;        /* (B, H, T, S), true: visible; NULL: none */
    const bool *key_mask;    /* (B, S), true: visible; NULL: none */
    const int64_t *lengths;  /* (B): row b has the keys 0 ... lengths[b] - 1; NULL: S */
    const int64_t *segments; /* (B, T), T = S: a query sees the keys of its number; NULL: all */
    bool causal, lower_right;
    int64_t left, right;   /* the window: keys j with i - left < j < i + right; 0: no limit */
    const double *factors; /* (B, H, T, S): dropout's 0 or 1 / (1 - p); NULL: no dropout */
} attention_reference;

/* Whether query t of batch b and head h sees key j. What it does not see is not read, so it may be
 * NaN. */
static inline bool reference_sees(const attention_reference *a, int64_t b, int64_t h, int64_t t,
                                  int64_t j) {
    const int64_t pair = ((b * a->heads + h) * a->t + t) * a->s + j;
    const int64_t keys = a->lengths ? a->lengths[b] : a->s;
    const int64_t i = a->lower_right ? keys - a->t + t : t; /* the query's index among the keys */
    if (j >= keys) return false;
    if (a->causal && j > i) return false;
    if (a->left && j <= i - a->left) return false;
    if (a->right && j >= i + a->right) return false;
    if (a->mask && !a->mask[pair]) return false;
    if (a->key_mask && !a->key_mask[b * a->s + j]) return false;
    if (a->segments && a->segments[b * a->t + t] != a->segments[b * a->t + j]) return false;
    return !a->bias || a->bias[pair] != -INFINITY;
}

/* Sets out (B, H, T, dv), and p (B, H, T, S) to the weights before dropout. A query that sees
 * nothing has an output of zeros. */
static inline void reference_forward(const attention_reference *a, double *out, double *p) {
    const int64_t d = a->d, dv = a->dv, group = a->kv_heads ? a->heads / a->kv_heads : 1;
    for (int64_t row = 0; row < a->batch * a->heads * a->t; row++) {
        const int64_t t = row % a->t, h = row / a->t % a->heads, b = row / a->t / a->heads;
        const int64_t head = (b * a->kv_heads + h / group) * a->s; /* its first key */
        const double *q = a->q + row * d;
        double *o = out + row * dv, *w = p + row * a->s, max = -INFINITY, sum = 0;
        for (int64_t j = 0; j < a->s; j++) {
            w[j] = -INFINITY;
            if (!reference_sees(a, b, h, t, j)) continue;
            double dot = 0;
            for (int64_t i = 0; i < d; i++) dot += q[i] * a->k[(head + j) * d + i];
            w[j] = a->scale * dot;
            if (a->softcap > 0) w[j] = a->softcap * tanh(w[j] / a->softcap);
            if (a->bias) w[j] += a->bias[row * a->s + j];
            if (w[j] > max) max = w[j];
        }
        for (int64_t j = 0; j < a->s; j++) {
            w[j] = reference_sees(a, b, h, t, j) ? exp(w[j] - max) : 0;
            sum += w[j];
        }
        for (int64_t i = 0; i < dv; i++) o[i] = 0;
        for (int64_t j = 0; j < a->s; j++) {
            if (!reference_sees(a, b, h, t, j)) continue;
            w[j] /= sum;
            const double factor = a->factors ? a->factors[row * a->s + j] : 1;
            for (int64_t i = 0; i < dv; i++) o[i] += w[j] * factor * a->v[(head + j) * dv + i];
        }
    }
}

/* The gradients. dout is the cotangent of out; dweights, of the weights after dropout, may be NULL.
 * p is forward's. dq, dk, dv and dbias (B, H, T, S) are zeros before. */
static inline void reference_backward(const attention_reference *a, const double *p,
                                      const double *dout, const double *dweights, double *dq,
                                      double *dk, double *dvalues, double *dbias) {
    const int64_t d = a->d, dv = a->dv, group = a->kv_heads ? a->heads / a->kv_heads : 1;
    for (int64_t row = 0; row < a->batch * a->heads * a->t; row++) {
        const int64_t t = row % a->t, h = row / a->t % a->heads, b = row / a->t / a->heads;
        const int64_t head = (b * a->kv_heads + h / group) * a->s;
        const double *q = a->q + row * d, *w = p + row * a->s, *go = dout + row * dv;
        double *ds = dbias + row * a->s, mean = 0;
        for (int64_t j = 0; j < a->s; j++) {
            if (!reference_sees(a, b, h, t, j)) continue;
            /* in the forward pass this was out += w factor v, so now we have */
            const double factor = a->factors ? a->factors[row * a->s + j] : 1;
            double dw = dweights ? dweights[row * a->s + j] : 0;
            for (int64_t i = 0; i < dv; i++) {
                dw += go[i] * a->v[(head + j) * dv + i];
                dvalues[(head + j) * dv + i] += w[j] * factor * go[i];
            }
            ds[j] = dw * factor;
            mean += w[j] * ds[j];
        }
        for (int64_t j = 0; j < a->s; j++) {
            if (!reference_sees(a, b, h, t, j)) continue;
            /* this was w = exp(score) / sum, in which every score is part of the sum */
            ds[j] = w[j] * (ds[j] - mean);
            /* the bias was added, so its gradient is ds; before that, the score was
             * softcap tanh(scale q k / softcap) */
            double dot = 0, slope = a->scale;
            for (int64_t i = 0; i < d; i++) dot += q[i] * a->k[(head + j) * d + i];
            if (a->softcap > 0) slope *= 1 - pow(tanh(a->scale * dot / a->softcap), 2);
            for (int64_t i = 0; i < d; i++) {
                dq[row * d + i] += ds[j] * slope * a->k[(head + j) * d + i];
                dk[(head + j) * d + i] += ds[j] * slope * q[i];
            }
        }
    }
}

#endif
