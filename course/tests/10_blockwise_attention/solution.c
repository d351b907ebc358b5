/* blockwise_attention: softmax(q k^T / sqrt d) v, a block of keys at a time.
 *
 * forward: a query's maximum, sum and output follow its keys block by block; kept for backward:
 * out, and the log-sum-exp of each query, L_i = max + ln sum.
 *
 * backward, one score at a time:
 *     p_ij = e^(s_ij - L_i)
 *     D_i = <g_i, out_i> = sum_j p_ij <g_i, v_j>,  ds_ij = p_ij (<g_i, v_j> - D_i)
 *     dv_j = sum_i p_ij g_i,  dq_i = sum_j ds_ij k_j / sqrt d,  dk_j = sum_i ds_ij q_i / sqrt d
 */
#include "exercise.h"

#include <math.h>

void attend_block(attention_state *state, int64_t n, const double *score, int64_t e,
                  const double *v) {
    double max = state->max;
    for (int64_t j = 0; j < n; j++) max = fmax(max, score[j]);
    /* what was relative to the old maximum; e^-inf = 0 before the first key */
    const double moved = exp(state->max - max);
    state->max = max;
    state->sum *= moved;
    for (int64_t c = 0; c < e; c++) state->out[c] *= moved;
    for (int64_t j = 0; j < n; j++) {
        const double p = exp(score[j] - max);
        state->sum += p;
        for (int64_t c = 0; c < e; c++) state->out[c] += p * v[j * e + c];
    }
}

static double dot(const double *a, const double *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* y += a x */
static void add(double *y, double a, const double *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] += a * x[i];
}

/* The sizes, and one sequence of the batch. */
typedef struct {
    int64_t batch, queries, keys, d, e;
    double scale;
    bool causal;
    const double *q, *k, *v;
} problem;

static problem problem_of(const ct_call *call) {
    const blockwise_attention_attrs *attrs = call->attrs;
    ct_tensor *q = call->in[0], *k = call->in[1], *v = call->in[2];
    return (problem){ct_dim(q, 0),  ct_dim(q, 1),   ct_dim(k, 1),
                     ct_dim(q, 2),  ct_dim(v, 2),   1 / sqrt((double)ct_dim(q, 2)),
                     attrs->causal, ct_data_f64(q), ct_data_f64(k),
                     ct_data_f64(v)};
}

static void next_sequence(problem *p) {
    p->q += p->queries * p->d;
    p->k += p->keys * p->d;
    p->v += p->keys * p->e;
}

/* Query i sees the first keys only; returns how many. */
static int64_t seen_by(const problem *p, int64_t i) {
    return p->causal && i + 1 < p->keys ? i + 1 : p->keys;
}

static double score_of(const problem *p, int64_t i, int64_t j) {
    return p->scale * dot(p->q + i * p->d, p->k + j * p->d, p->d);
}

/* One query: its output, and its log-sum-exp. `score` has room for a block. */
static double attend(const problem *p, int64_t i, int64_t block, double *score, double *out) {
    attention_state state = {-INFINITY, 0, out};
    for (int64_t c = 0; c < p->e; c++) out[c] = 0;
    const int64_t keys = seen_by(p, i);
    for (int64_t first = 0; first < keys; first += block) {
        /* the last block may be shorter */
        const int64_t n = keys - first < block ? keys - first : block;
        for (int64_t j = 0; j < n; j++) score[j] = score_of(p, i, first + j);
        attend_block(&state, n, score, p->e, p->v + first * p->e);
    }
    for (int64_t c = 0; c < p->e; c++) out[c] /= state.sum;
    return state.max + log(state.sum);
}

static ct_tensor *blockwise_attention_forward(ct_call *call) {
    const int64_t block = ((const blockwise_attention_attrs *)call->attrs)->block;
    problem p = problem_of(call);
    ct_tensor *out = ct_empty(call->context, CT_F64, CT_SHAPE(p.batch, p.queries, p.e));
    ct_tensor *log_sum_exp = ct_empty(call->context, CT_F64, CT_SHAPE(p.batch, p.queries));
    ct_tensor *scores = ct_empty(call->context, CT_F64, CT_SHAPE(block < p.keys ? block : p.keys));
    if (!out || !log_sum_exp || !scores) return NULL;
    double *y = ct_data_f64(out), *lse = ct_data_f64(log_sum_exp);
    for (int64_t b = 0; b < p.batch; b++, next_sequence(&p))
        for (int64_t i = 0; i < p.queries; i++, y += p.e, lse++)
            *lse = attend(&p, i, block, ct_data_f64(scores), y);
    call->saved[0] = log_sum_exp;
    return out;
}

static bool blockwise_attention_backward(const ct_call *call, ct_tensor *const *cotangents,
                                         ct_tensor **grad) {
    problem p = problem_of(call);
    for (int n = 0; n < 3; n++)
        if (!(grad[n] = ct_zeros(call->context, CT_F64, ct_shape_of(call->in[n])))) return false;
    const double *g = ct_data_f64(cotangents[0]), *y = ct_data_f64(call->out),
                 *lse = ct_data_f64(call->saved[0]);
    double *dq = ct_data_f64(grad[0]), *dk = ct_data_f64(grad[1]), *dv = ct_data_f64(grad[2]);
    for (int64_t b = 0; b < p.batch; b++, next_sequence(&p), dk += p.keys * p.d, dv += p.keys * p.e)
        for (int64_t i = 0; i < p.queries; i++, g += p.e, y += p.e, lse++, dq += p.d) {
            const double of_row = dot(g, y, p.e); /* D_i */
            for (int64_t j = 0; j < seen_by(&p, i); j++) {
                const double weight = exp(score_of(&p, i, j) - *lse);
                const double ds = p.scale * weight * (dot(g, p.v + j * p.e, p.e) - of_row);
                add(dv + j * p.e, weight, g, p.e);
                add(dq, ds, p.k + j * p.d, p.d);
                add(dk + j * p.d, ds, p.q + i * p.d, p.d);
            }
        }
    return true;
}

const ct_op blockwise_attention = {.name = "blockwise_attention",
                                   .attrs_size = sizeof(blockwise_attention_attrs),
                                   .forward = blockwise_attention_forward,
                                   .backward = blockwise_attention_backward};
