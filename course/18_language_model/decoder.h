/* The decoder that the judge compares with: the forward of README.md in scalar loops, also with the
 * mistakes that are often made in it. */
#ifndef DECODER_H
#define DECODER_H

#include "../course.h"
#include "exercise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum {
    RIGHT,
    NO_MASK,
    NO_ROTARY,
    QUERIES_ROTATED,
    VALUES_ROTATED,
    ROTATED_BEFORE_SPLIT,
    ONE_HEAD,
    NO_SCALE,
    KEYS_FIRST,
    VALUES_FIRST,
    NO_IN_BIAS,
    NO_OUT_BIAS,
    NO_UP_BIAS,
    NO_DOWN_BIAS,
    NO_BIASES,
    NO_OUT,
    NO_GELU,
    RELU,
    NO_ATTENTION_SUM,
    NO_MLP_SUM,
    NO_SUMS,
    SUM_OF_NORMED,
    NORM_AFTER,
    NO_NORM1,
    NO_NORM2,
    NORM1_TWICE,
    NO_LAST_NORM,
    PARALLEL,
    FIRST_LAYER_ALWAYS,
    ONE_LAYER,
    EMBEDDING_SCALED,
    LOGITS_SCALED,
    NO_LAYERS,
    NOTHING_LEFT,
    MISTAKES
} mistake;

static const char *const looks_like[MISTAKES] = {
    [NO_MASK] = "this is what comes out without the causal mask",
    [NO_ROTARY] = "this is what comes out without rotary positions",
    [QUERIES_ROTATED] = "this is what comes out if queries are rotated, and keys are not",
    [VALUES_ROTATED] = "this is what comes out if values are rotated, too",
    [ROTATED_BEFORE_SPLIT] =
        "this is what comes out if q and k are rotated before they are split into heads",
    [ONE_HEAD] = "this is what comes out with one head: q, k and v must be split",
    [NO_SCALE] = "this is what comes out without the scale 1 / sqrt d of scores",
    [KEYS_FIRST] = "this is what comes out if the first E rows of IN_WEIGHT make keys, and the "
                   "next queries",
    [VALUES_FIRST] = "this is what comes out if the first E rows of IN_WEIGHT make values, and the "
                     "last queries",
    [NO_IN_BIAS] = "this is what comes out without IN_BIAS",
    [NO_OUT_BIAS] = "this is what comes out without OUT_BIAS",
    [NO_UP_BIAS] = "this is what comes out without UP_BIAS",
    [NO_DOWN_BIAS] = "this is what comes out without DOWN_BIAS",
    [NO_BIASES] = "this is what comes out without the biases of the four products",
    [NO_OUT] = "this is what comes out without the product with OUT_WEIGHT",
    [NO_GELU] = "this is what comes out without gelu",
    [RELU] = "this is what comes out with relu in place of gelu",
    [NO_ATTENTION_SUM] = "this is what comes out if attention replaces x: it must be added to x",
    [NO_MLP_SUM] = "this is what comes out if the MLP replaces x: it must be added to x",
    [NO_SUMS] = "this is what comes out if attention and the MLP replace x: they must be added to "
                "x",
    [SUM_OF_NORMED] = "this is what comes out if attention and the MLP are added to the norm's "
                      "result: they must be added to x",
    [NORM_AFTER] =
        "this is what comes out with norms after the sums: they must be before attention "
        "and before the MLP",
    [NO_NORM1] = "this is what comes out without the norm before attention",
    [NO_NORM2] = "this is what comes out without the norm before the MLP",
    [NORM1_TWICE] = "this is what comes out if the MLP's norm has the parameters of attention's",
    [NO_LAST_NORM] = "this is what comes out without the norm before the logits",
    [PARALLEL] = "this is what comes out if the MLP reads x as it was before attention",
    [FIRST_LAYER_ALWAYS] = "this is what comes out if every layer has the parameters of the first",
    [ONE_LAYER] = "this is what comes out with the first layer alone",
    [EMBEDDING_SCALED] = "this is what comes out with an embedding times sqrt E",
    [LOGITS_SCALED] = "this is what comes out with logits divided by sqrt E",
    [NO_LAYERS] = "this is what comes out without any layer: of logits from the embedding alone",
    [NOTHING_LEFT] = "this is what comes out if the embedding is dropped, too",
};

/* ---- parameters ---- */

/* All numbers of a model, one parameter behind the other. */
typedef struct {
    model_sizes sizes;
    int count;
    int64_t total, n[MOST_PARAMS], at[MOST_PARAMS + 1];
    double *all;
} weights;

static const char *const places[] = {"EMBEDDING", "NORM_WEIGHT", "NORM_BIAS"};
static const char *const layer_places[] = {
    "NORM1_WEIGHT", "NORM1_BIAS", "IN_WEIGHT", "IN_BIAS", "OUT_WEIGHT",  "OUT_BIAS",
    "NORM2_WEIGHT", "NORM2_BIAS", "UP_WEIGHT", "UP_BIAS", "DOWN_WEIGHT", "DOWN_BIAS"};

static const char *name_of(int i, char text[64]) {
    if (i < LAYERS) snprintf(text, 64, "%s", places[i]);
    else
        snprintf(text, 64, "%s of layer %d", layer_places[(i - LAYERS) % PER_LAYER],
                 (i - LAYERS) / PER_LAYER);
    return text;
}

static double *numbers(int64_t n) {
    double *x = calloc((size_t)n + 1, sizeof *x);
    if (!x) course_fail("the test has no memory");
    return x;
}

static weights new_weights(model_sizes sizes) {
    const int64_t e = sizes.width, of_model[] = {sizes.vocabulary * e, e, e};
    const int64_t of_layer[] = {e, e, 3 * e * e, 3 * e, e * e,     e,
                                e, e, 4 * e * e, 4 * e, 4 * e * e, e};
    weights w = {.sizes = sizes, .count = LAYERS + PER_LAYER * (int)sizes.layers};
    for (int i = 0; i < w.count; i++) {
        w.n[i] = i < LAYERS ? of_model[i] : of_layer[(i - LAYERS) % PER_LAYER];
        w.at[i] = w.total, w.total += w.n[i];
    }
    w.all = numbers(w.total);
    return w;
}

static const double *param(const weights *w, int i) { return w->all + w->at[i]; }

/* ---- the forward of one sequence ---- */

/* y (rows, out) = x (rows, in) weight^T + bias; a bias that is NULL is 0. */
static void apply_linear(const double *x, int64_t rows, int64_t in, const double *weight,
                         const double *bias, int64_t out, double *y) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t o = 0; o < out; o++) {
            double even = bias ? bias[o] : 0, odd = 0; /* two sums, which do not wait */
            const double *a = x + r * in, *b = weight + o * in;
            int64_t i = 0;
            for (; i + 1 < in; i += 2) even += a[i] * b[i], odd += a[i + 1] * b[i + 1];
            if (i < in) even += a[i] * b[i];
            y[r * out + o] = even + odd;
        }
}

static void apply_norm(const double *x, int64_t rows, int64_t n, const double *weight,
                       const double *bias, double *y) {
    for (int64_t r = 0; r < rows; r++, x += n, y += n) {
        double mean = 0, variance = 0;
        for (int64_t i = 0; i < n; i++) mean += x[i] / (double)n;
        for (int64_t i = 0; i < n; i++) variance += (x[i] - mean) * (x[i] - mean) / (double)n;
        for (int64_t i = 0; i < n; i++)
            y[i] = (x[i] - mean) / sqrt(variance + 1e-5) * weight[i] + bias[i];
    }
}

/* Rotates columns first ... first + d - 1 of each row of x, whose rows are `stride` apart. */
static void rotate(double *x, int64_t rows, int64_t stride, int64_t d) {
    for (int64_t j = 0; j < d / 2; j++) {
        const double turn = pow(10000, -2.0 * (double)j / (double)d);
        for (int64_t t = 0; t < rows; t++) {
            double *a = x + t * stride + j, *b = a + d / 2;
            const double c = cos((double)t * turn), s = sin((double)t * turn), first = *a;
            *a = first * c - *b * s, *b = first * s + *b * c;
        }
    }
}

/* Attention of one head, whose queries are d columns of qkv from q on, and so keys and values;
 * `seen` gets its weights if it is not NULL. */
static void attend(const double *q, const double *k, const double *v, int64_t tokens,
                   int64_t stride, int64_t d, mistake how, double *out, int64_t out_stride,
                   double *seen) {
    double *p = numbers(tokens);
    for (int64_t t = 0; t < tokens; t++) {
        const int64_t keys = how == NO_MASK ? tokens : t + 1;
        double max = -INFINITY, sum = 0;
        for (int64_t s = 0; s < keys; s++) {
            p[s] = 0;
            for (int64_t j = 0; j < d; j++) p[s] += q[t * stride + j] * k[s * stride + j];
            if (how != NO_SCALE) p[s] /= sqrt((double)d);
            max = fmax(max, p[s]);
        }
        for (int64_t s = 0; s < keys; s++) sum += p[s] = exp(p[s] - max);
        for (int64_t j = 0; j < d; j++) {
            double y = 0;
            for (int64_t s = 0; s < keys; s++) y += p[s] / sum * v[s * stride + j];
            out[t * out_stride + j] = y;
        }
        for (int64_t s = 0; seen && s < keys; s++) seen[t * tokens + s] = p[s] / sum;
    }
    free(p);
}

typedef struct {
    double *x, *normed, *qkv, *mixed, *up, *y;
} buffers;

static void run_attention(const weights *w, int layer, int64_t tokens, mistake how, buffers *b,
                          double *seen) {
    const int64_t e = w->sizes.width, heads = how == ONE_HEAD ? 1 : w->sizes.heads, d = e / heads;
    const int at = LAYERS + PER_LAYER * layer;
    const bool in_bias = how != NO_IN_BIAS && how != NO_BIASES,
               out_bias = how != NO_OUT_BIAS && how != NO_BIASES;
    apply_linear(b->normed, tokens, e, param(w, at + IN_WEIGHT),
                 in_bias ? param(w, at + IN_BIAS) : NULL, 3 * e, b->qkv);
    const int64_t q = how == KEYS_FIRST     ? e
                      : how == VALUES_FIRST ? 2 * e
                                            : 0,
                  k = how == KEYS_FIRST ? 0 : e, v = how == VALUES_FIRST ? 0 : 2 * e;
    const int64_t parts[] = {q, k, v};
    const int rotated = how == NO_ROTARY         ? 0
                        : how == QUERIES_ROTATED ? 1
                        : how == VALUES_ROTATED  ? 3
                                                 : 2;
    for (int part = 0; part < rotated; part++)
        for (int64_t h = 0; h < (how == ROTATED_BEFORE_SPLIT ? 1 : heads); h++)
            rotate(b->qkv + parts[part] + h * d, tokens, 3 * e,
                   how == ROTATED_BEFORE_SPLIT ? e : d);
    for (int64_t h = 0; h < heads; h++)
        attend(b->qkv + q + h * d, b->qkv + k + h * d, b->qkv + v + h * d, tokens, 3 * e, d, how,
               b->mixed + h * d, e, seen ? seen + h * tokens * tokens : NULL);
    if (how == NO_OUT) memcpy(b->y, b->mixed, (size_t)(tokens * e) * sizeof(double));
    else
        apply_linear(b->mixed, tokens, e, param(w, at + OUT_WEIGHT),
                     out_bias ? param(w, at + OUT_BIAS) : NULL, e, b->y);
}

static void run_mlp(const weights *w, int layer, int64_t tokens, mistake how, buffers *b) {
    const int64_t e = w->sizes.width;
    const int at = LAYERS + PER_LAYER * layer;
    const bool up_bias = how != NO_UP_BIAS && how != NO_BIASES,
               down_bias = how != NO_DOWN_BIAS && how != NO_BIASES;
    apply_linear(b->normed, tokens, e, param(w, at + UP_WEIGHT),
                 up_bias ? param(w, at + UP_BIAS) : NULL, 4 * e, b->up);
    for (int64_t i = 0; i < tokens * 4 * e && how != NO_GELU; i++)
        b->up[i] = how == RELU ? fmax(0, b->up[i]) : b->up[i] * 0.5 * (1 + erf(b->up[i] / sqrt(2)));
    apply_linear(b->up, tokens, 4 * e, param(w, at + DOWN_WEIGHT),
                 down_bias ? param(w, at + DOWN_BIAS) : NULL, e, b->y);
}

/* x + y, or what a mistake makes of it. */
static void add_to_x(buffers *b, int64_t n, bool replaces, mistake how) {
    for (int64_t i = 0; i < n; i++)
        b->x[i] = (replaces ? 0 : how == SUM_OF_NORMED ? b->normed[i] : b->x[i]) + b->y[i];
}

static void run_layer(const weights *w, int layer, int64_t tokens, mistake how, buffers *b,
                      double *seen) {
    const int64_t e = w->sizes.width, n = tokens * e;
    const size_t size = (size_t)n * sizeof(double);
    const int at = LAYERS + PER_LAYER * layer;
    double *before = numbers(n);
    memcpy(before, b->x, size);
    if (how == NO_NORM1 || how == NORM_AFTER) memcpy(b->normed, b->x, size);
    else
        apply_norm(b->x, tokens, e, param(w, at + NORM1_WEIGHT), param(w, at + NORM1_BIAS),
                   b->normed);
    run_attention(w, layer, tokens, how, b, seen);
    add_to_x(b, n, how == NO_ATTENTION_SUM || how == NO_SUMS, how);
    if (how == NORM_AFTER)
        apply_norm(b->x, tokens, e, param(w, at + NORM1_WEIGHT), param(w, at + NORM1_BIAS), b->x);
    const int second = at + (how == NORM1_TWICE ? NORM1_WEIGHT : NORM2_WEIGHT);
    if (how == NO_NORM2 || how == NORM_AFTER) memcpy(b->normed, b->x, size);
    else
        apply_norm(how == PARALLEL ? before : b->x, tokens, e, param(w, second),
                   param(w, second + 1), b->normed);
    run_mlp(w, layer, tokens, how, b);
    add_to_x(b, n, how == NO_MLP_SUM || how == NO_SUMS, how);
    if (how == NORM_AFTER)
        apply_norm(b->x, tokens, e, param(w, at + NORM2_WEIGHT), param(w, at + NORM2_BIAS), b->x);
    free(before);
}

/* The logits (tokens, V) of one sequence; `seen`, if it is not NULL, gets the weights of attention,
 * (layers, heads, tokens, tokens). */
static void decode(const weights *w, const int64_t *ids, int64_t tokens, mistake how,
                   double *logits, double *seen) {
    const int64_t e = w->sizes.width, n = tokens * e, vocabulary = w->sizes.vocabulary;
    buffers b = {numbers(n), numbers(n), numbers(3 * n), numbers(n), numbers(4 * n), numbers(n)};
    for (int64_t t = 0; t < tokens; t++)
        for (int64_t i = 0; i < e; i++)
            b.x[t * e + i] = how == NOTHING_LEFT
                                 ? 0
                                 : param(w, EMBEDDING)[ids[t] * e + i] *
                                       (how == EMBEDDING_SCALED ? sqrt((double)e) : 1);
    const int64_t layers = how == NO_LAYERS || how == NOTHING_LEFT ? 0
                           : how == ONE_LAYER                      ? 1
                                                                   : w->sizes.layers;
    for (int layer = 0; layer < layers; layer++)
        run_layer(w, how == FIRST_LAYER_ALWAYS ? 0 : layer, tokens, how, &b,
                  seen ? seen + layer * w->sizes.heads * tokens * tokens : NULL);
    if (how != NO_LAST_NORM)
        apply_norm(b.x, tokens, e, param(w, NORM_WEIGHT), param(w, NORM_BIAS), b.x);
    apply_linear(b.x, tokens, e, param(w, EMBEDDING), NULL, vocabulary, logits);
    for (int64_t i = 0; i < tokens * vocabulary && how == LOGITS_SCALED; i++)
        logits[i] /= sqrt((double)e);
    free(b.x), free(b.normed), free(b.qkv), free(b.mixed), free(b.up), free(b.y);
}

/* -ln p(target) from a row of logits. */
static double surprise(const double *logits, int64_t n, int64_t target) {
    double max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) max = fmax(max, logits[i]);
    for (int64_t i = 0; i < n; i++) sum += exp(logits[i] - max);
    return log(sum) + max - logits[target];
}

/* The mean of -ln p(next token) over `rows` sequences of tokens + 1. */
static double decode_loss(const weights *w, const int64_t *text, int64_t rows, int64_t tokens,
                          mistake how) {
    const int64_t vocabulary = w->sizes.vocabulary;
    double *logits = numbers(tokens * vocabulary), sum = 0;
    for (int64_t r = 0; r < rows; r++) {
        const int64_t *ids = text + r * (tokens + 1);
        decode(w, ids, tokens, how, logits, NULL);
        for (int64_t t = 0; t < tokens; t++)
            sum += surprise(logits + t * vocabulary, vocabulary, ids[t + 1]);
    }
    free(logits);
    return sum / (double)(rows * tokens);
}

#endif
