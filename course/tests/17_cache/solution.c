/* Keys and values of each layer, one row for each token, behind those of earlier tokens. New tokens
 * go through the layers together. */
#include "exercise.h"

#include <math.h>
#include <stdlib.h>

struct cache {
    const model *m;
    int length;
    double *keys, *values; /* (layers, context, width) */
};

cache *cache_new(const model *m) {
    const size_t size = (size_t)m->layers * (size_t)m->context * (size_t)m->width;
    cache *c = malloc(sizeof *c);
    *c = (cache){m, 0, malloc(size * sizeof(double)), malloc(size * sizeof(double))};
    return c;
}

void cache_free(cache *c) {
    free(c->keys), free(c->values);
    free(c);
}

void cache_rewind(cache *c, int length) { c->length = length; }

/* Weights of the first `seen` keys for one query, of one head of size d; then their mean of the
 * values. Rows are `width` apart. */
static void attend(const double *query, const double *keys, const double *values, int seen, int d,
                   int width, double *weights, double *out) {
    double most = -INFINITY, sum = 0;
    for (int j = 0; j < seen; j++) {
        double dot = 0;
        for (int e = 0; e < d; e++) dot += query[e] * keys[j * width + e];
        weights[j] = dot / sqrt(d);
        most = fmax(most, weights[j]);
    }
    for (int j = 0; j < seen; j++) {
        weights[j] = exp(weights[j] - most);
        sum += weights[j];
    }
    for (int e = 0; e < d; e++) {
        out[e] = 0;
        for (int j = 0; j < seen; j++) out[e] += weights[j] / sum * values[j * width + e];
    }
}

/* One layer: x, n rows, becomes x + attention, and then x + mlp. */
static void run_layer(cache *c, int layer, int n, double *x) {
    const model *m = c->m;
    const int width = m->width, d = width / m->heads;
    const size_t rows = (size_t)n * (size_t)width, hidden = (size_t)n * (size_t)m->hidden;
    double *keys = c->keys + (size_t)layer * (size_t)m->context * (size_t)width,
           *values = c->values + (size_t)layer * (size_t)m->context * (size_t)width;
    double *q = malloc(rows * sizeof *q), *attended = malloc(rows * sizeof *attended),
           *weights = malloc((size_t)m->context * sizeof *weights),
           *up = malloc(hidden * sizeof *up);
    m->multiply(QUERY, layer, n, x, q);
    m->multiply(KEY, layer, n, x, keys + c->length * width);
    m->multiply(VALUE, layer, n, x, values + c->length * width);
    for (int i = 0; i < n; i++)
        for (int h = 0; h < m->heads; h++)
            attend(q + i * width + h * d, keys + h * d, values + h * d, c->length + i + 1, d, width,
                   weights, attended + i * width + h * d);
    m->multiply(OUT, layer, n, attended, q);
    for (size_t i = 0; i < rows; i++) x[i] += q[i];
    m->multiply(UP, layer, n, x, up);
    for (size_t i = 0; i < hidden; i++) up[i] = fmax(up[i], 0);
    m->multiply(DOWN, layer, n, up, q);
    for (size_t i = 0; i < rows; i++) x[i] += q[i];
    free(q), free(attended), free(weights), free(up);
}

void cache_extend(cache *c, const int *tokens, int n, double *logits) {
    const model *m = c->m;
    double *x = malloc((size_t)n * (size_t)m->width * sizeof *x);
    m->embed(tokens, c->length, n, x);
    for (int layer = 0; layer < m->layers; layer++) run_layer(c, layer, n, x);
    m->multiply(LOGITS, 0, 1, x + (n - 1) * m->width, logits);
    c->length += n;
    free(x);
}

/* How many logits come before logits[i]: larger ones, and equal ones of a lower index. */
static int rank_of(const double *logits, int n, int i) {
    int before = 0;
    for (int j = 0; j < n; j++)
        before += logits[j] > logits[i] || (logits[j] == logits[i] && j < i);
    return before;
}

int sample(const double *logits, int n, double temperature, int top_k, double u) {
    int best = 0, last = 0;
    double sum = 0, passed = 0;
    for (int i = 0; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    if (temperature == 0) return best;
    double *p = malloc((size_t)n * sizeof *p);
    for (int i = 0; i < n; i++) {
        p[i] = exp((logits[i] - logits[best]) / temperature);
        if (top_k > 0 && rank_of(logits, n, i) >= top_k) p[i] = 0;
        sum += p[i];
    }
    for (int i = 0; i < n; i++) {
        passed += p[i] / sum;
        if (p[i] > 0) last = i;
        if (u < passed) break;
    }
    free(p);
    return last;
}

void generate(const model *m, const int *prompt, int n, int count, double temperature, int top_k,
              const double *u, int *tokens) {
    cache *c = cache_new(m);
    double *logits = malloc((size_t)m->vocabulary * sizeof *logits);
    for (int i = 0; i < count; i++) {
        if (i == 0) cache_extend(c, prompt, n, logits);
        else cache_extend(c, &tokens[i - 1], 1, logits);
        tokens[i] = sample(logits, m->vocabulary, temperature, top_k, u[i]);
    }
    free(logits);
    cache_free(c);
}
