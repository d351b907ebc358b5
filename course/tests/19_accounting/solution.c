/* Each count is a sum over the parts of the model, in the order of the text. */
#include "exercise.h"

/* ---- parameters ---- */

/* The columns of the keys, and of the values. */
static int64_t kv_width(const architecture *a) { return a->width / a->heads * a->kv_heads; }

/* Numbers in the weights of a layer, without biases. */
static int64_t layer_weights(const architecture *a) {
    const int64_t attention = 2 * a->width * a->width + 2 * a->width * kv_width(a),
                  feed_forward = (a->gated ? 3 : 2) * a->width * a->hidden;
    return attention + feed_forward;
}

static int64_t layer_biases(const architecture *a) {
    const int64_t attention = 2 * a->width + 2 * kv_width(a),
                  feed_forward = (a->gated ? 2 : 1) * a->hidden + a->width;
    return a->biases ? attention + feed_forward : 0;
}

int64_t count_parameters(const architecture *a) {
    const int64_t norm = (a->norm_biases ? 2 : 1) * a->width,
                  layer = layer_weights(a) + layer_biases(a) + 2 * norm,
                  tables = (a->tied ? 1 : 2) * a->vocabulary * a->width;
    return tables + a->positions * a->width + a->layers * layer + norm;
}

/* ---- multiply-adds ---- */

/* Of the scores of one layer, and as many of the mean of the values. */
static int64_t count_scores(const architecture *a, const step *s) {
    const int64_t pairs = s->causal ? s->length * (s->length + 1) / 2 : s->length * s->length;
    return s->sequences * pairs * a->width;
}

static int64_t count_layers(const architecture *a, const step *s) {
    const int64_t tokens = s->sequences * s->length;
    return a->layers * (tokens * layer_weights(a) + 2 * count_scores(a, s));
}

int64_t count_forward(const architecture *a, const step *s) {
    const int64_t tokens = s->sequences * s->length;
    return count_layers(a, s) + tokens * a->width * a->vocabulary;
}

int64_t count_step(const architecture *a, const step *s) {
    int64_t all = 3 * count_forward(a, s);
    if (s->fused) all += a->layers * count_scores(a, s);
    if (s->recomputed) all += count_layers(a, s);
    return all;
}

/* ---- bytes ---- */

/* What one layer keeps for its backward, its input included. */
static int64_t layer_activations(const architecture *a, const step *s) {
    const int64_t tokens = s->sequences * s->length, rows = s->sequences * a->heads * s->length,
                  widths = 6 * a->width + 2 * kv_width(a) + (a->gated ? 3 : 2) * a->hidden;
    return tokens * widths * s->bytes + (s->fused ? 4 * rows : rows * s->length * s->bytes);
}

static int64_t count_activations(const architecture *a, const step *s) {
    const int64_t tokens = s->sequences * s->length, input = tokens * a->width * s->bytes,
                  layer = layer_activations(a, s),
                  end = 2 * input + tokens * a->vocabulary * s->bytes;
    if (!s->recomputed) return a->layers * layer + end;
    return a->layers * input + (layer - input > end ? layer - input : end);
}

memory count_memory(const architecture *a, const step *s) {
    const int64_t parameters = count_parameters(a);
    return (memory){.weights = parameters * s->bytes,
                    .gradients = parameters * s->bytes,
                    .optimiser = parameters * (s->bytes == 2 ? 12 : 8),
                    .activations = count_activations(a, s)};
}
