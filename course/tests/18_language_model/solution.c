/* A decoder: norms before attention and before the MLP, rotary positions, logits from the
 * embedding. */
#include "exercise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- new parameters ---- */

static bool is_norm(int place) { return place == NORM1_WEIGHT || place == NORM2_WEIGHT; }

/* The spread of a layer's parameter, 0 for a bias. What adds to the sum that runs through all
 * layers begins smaller, the more layers there are. */
static double spread_of(int place, int64_t layers) {
    if (place == IN_WEIGHT || place == UP_WEIGHT) return 0.02;
    if (place == OUT_WEIGHT || place == DOWN_WEIGHT) return 0.02 / sqrt(2.0 * (double)layers);
    return 0;
}

static ct_tensor *drawn(ct_context *context, ct_shape shape, double spread) {
    ct_tensor *x = ct_scale(ct_randn(context, CT_F64, shape), spread);
    return x ? ct_set_requires_grad(x, true) : NULL;
}

static ct_tensor *filled(ct_context *context, int64_t n, double value) {
    ct_tensor *x = ct_full(context, CT_F64, CT_SHAPE(n), value);
    return x ? ct_set_requires_grad(x, true) : NULL;
}

bool model_init(ct_context *context, model *m) {
    const int64_t e = m->sizes.width;
    const int64_t rows[PER_LAYER] = {e, e, 3 * e, 3 * e, e, e, e, e, 4 * e, 4 * e, e, e};
    m->params[EMBEDDING] = drawn(context, CT_SHAPE(m->sizes.vocabulary, e), 0.02);
    m->params[NORM_WEIGHT] = filled(context, e, 1), m->params[NORM_BIAS] = filled(context, e, 0);
    for (int64_t layer = 0; layer < m->sizes.layers; layer++)
        for (int place = 0; place < PER_LAYER; place++) {
            const double spread = spread_of(place, m->sizes.layers);
            const int64_t columns = place == DOWN_WEIGHT ? 4 * e : e;
            m->params[LAYERS + PER_LAYER * layer + place] =
                spread > 0 ? drawn(context, CT_SHAPE(rows[place], columns), spread)
                           : filled(context, rows[place], is_norm(place));
        }
    return !ct_error(context);
}

/* ---- the forward ---- */

static ct_tensor *linear(ct_tensor *x, ct_tensor *weight, ct_tensor *bias) {
    return ct_add(op_matmul(x, weight, true), bias);
}

/* Columns part E ... (part + 1) E of qkv as (B H, T, d); queries and keys are rotated. */
static ct_tensor *heads_of(ct_tensor *qkv, int part, const model_sizes *s) {
    ct_tensor *x = op_split_heads(ct_narrow(qkv, -1, part * s->width, s->width), s->heads);
    if (part < 2) x = op_rotary(x);
    const int64_t tokens = ct_dim(qkv, 1), batch = ct_dim(qkv, 0);
    return ct_reshape(x, CT_SHAPE(batch * s->heads, tokens, s->width / s->heads));
}

static ct_tensor *attention(ct_tensor *x, ct_tensor *const *p, const model_sizes *s) {
    const int64_t batch = ct_dim(x, 0), tokens = ct_dim(x, 1);
    ct_tensor *qkv = linear(x, p[IN_WEIGHT], p[IN_BIAS]);
    if (!qkv) return NULL;
    ct_tensor *out =
        op_masked_attention(heads_of(qkv, 0, s), heads_of(qkv, 1, s), heads_of(qkv, 2, s));
    out = ct_reshape(out, CT_SHAPE(batch, s->heads, tokens, s->width / s->heads));
    return linear(op_combine_heads(out), p[OUT_WEIGHT], p[OUT_BIAS]);
}

static ct_tensor *mlp(ct_tensor *x, ct_tensor *const *p) {
    return linear(ct_gelu(linear(x, p[UP_WEIGHT], p[UP_BIAS])), p[DOWN_WEIGHT], p[DOWN_BIAS]);
}

static ct_tensor *logits_of(const model *m, ct_tensor *tokens, bool training) {
    const model_sizes *s = &m->sizes;
    ct_tensor *x = ct_embedding(tokens, m->params[EMBEDDING]);
    for (int64_t layer = 0; layer < s->layers; layer++) {
        ct_tensor *const *p = m->params + LAYERS + PER_LAYER * layer;
        ct_tensor *y = attention(op_layer_norm(x, p[NORM1_WEIGHT], p[NORM1_BIAS]), p, s);
        x = ct_add(x, op_dropout(y, s->dropout, training));
        y = mlp(op_layer_norm(x, p[NORM2_WEIGHT], p[NORM2_BIAS]), p);
        x = ct_add(x, op_dropout(y, s->dropout, training));
    }
    x = op_layer_norm(x, m->params[NORM_WEIGHT], m->params[NORM_BIAS]);
    return op_matmul(x, m->params[EMBEDDING], true);
}

ct_tensor *model_logits(const model *m, ct_tensor *tokens) { return logits_of(m, tokens, false); }

static ct_tensor *loss_of(const model *m, ct_tensor *text, bool training) {
    const int64_t batch = ct_dim(text, 0), length = ct_dim(text, 1) - 1;
    ct_tensor *logits = logits_of(m, ct_narrow(text, 1, 0, length), training);
    logits = ct_reshape(logits, CT_SHAPE(batch * length, m->sizes.vocabulary));
    return op_cross_entropy(logits,
                            ct_reshape(ct_narrow(text, 1, 1, length), CT_SHAPE(batch * length)));
}

ct_tensor *model_loss(const model *m, ct_tensor *text) { return loss_of(m, text, false); }

/* ---- training ---- */

bool model_step(model *m, ct_tensor *text, adamw_opts opts, double *loss) {
    for (int i = 0; i < m->count; i++) ct_zero_grad(m->params[i]);
    ct_tensor *out = loss_of(m, text, true);
    if (!out || !ct_backward(out)) return false;
    *loss = ct_item(out);
    m->updates++;
    for (int i = 0; i < m->count; i++)
        adamw_step(ct_numel(m->params[i]), ct_data_f64(m->params[i]),
                   ct_data_f64(ct_grad(m->params[i])), m->m[i], m->v[i], m->updates, opts);
    return true;
}

/* ---- writing ---- */

static int64_t most_probable(const double *p, int64_t n) {
    int64_t best = 0;
    for (int64_t k = 1; k < n; k++)
        if (p[k] > p[best]) best = k;
    return best;
}

static int64_t drawn_token(const double *p, int64_t n, double draw) {
    double sum = 0;
    for (int64_t k = 0; k < n; k++) {
        sum += p[k];
        if (sum > draw) return k;
    }
    return n - 1; /* the sum is 1 but for rounding */
}

bool model_write(const model *m, ct_context *context, const int64_t *prompt, int64_t n,
                 int64_t count, const double *draws, int64_t *written) {
    const int64_t vocabulary = m->sizes.vocabulary;
    int64_t *all = malloc((size_t)(n + count) * sizeof *all);
    if (!all) return ct_fail(context, CT_ERR_MEMORY, "model_write: no memory");
    memcpy(all, prompt, (size_t)n * sizeof *all);
    bool done = true;
    for (int64_t i = 0; i < count && done; i++) {
        const int64_t length = n + i < m->sizes.length ? n + i : m->sizes.length;
        ct_scope scope = ct_scope_open_no_grad(context);
        ct_tensor *logits =
            model_logits(m, ct_from_i64(context, CT_SHAPE(1, length), all + n + i - length));
        ct_tensor *p = logits ? op_softmax(ct_narrow(logits, 1, length - 1, 1)) : NULL;
        done = p != NULL;
        if (done)
            all[n + i] = draws ? drawn_token(ct_data_f64(p), vocabulary, draws[i])
                               : most_probable(ct_data_f64(p), vocabulary);
        ct_scope_close(scope);
    }
    if (done) memcpy(written, all + n, (size_t)count * sizeof *all);
    free(all);
    return done;
}
