/* A model with everything that a ct_dist meets: tied weights, dropout, parameters that are tiny,
 * large, f64, unused, or used by some micro-batches only; and runs of it by ranks that are
 * threads. */
#ifndef DIST_MODEL_H
#define DIST_MODEL_H

#include <math.h>
#include <string.h>

#include "tests/support/optim_rules.h"
#include "tests/support/suite.h"
#include "thread_comm.h"

enum { MOST_RANKS = 8, STEPS = 3 };

typedef enum { SGD, MOMENTUM, ADAM, ADAMW, LION, NORMED, MUON } rule;

typedef struct {
    int ranks, threads;
    int64_t shares, micro_batches, bucket_bytes;
    rule rule;
    double clip;
    bool skip_nonfinite, groups;
    int nan_step; /* the step, counted from 1, of which micro-batch 1 gives NaN; 0: none does */
    size_t eager;
    ct_dtype states; /* .state_dtype of the optimiser */
} plan;

typedef struct {
    uint64_t hash;
    double loss, norm; /* the mean of the last step's micro-batches; before clipping */
    int64_t skipped, steps;
    ct_dist_traffic sent;
    char message[1100];
} outcome;

typedef struct {
    ct_module *root, *embed, *layer;
    ct_tensor *odd, *one, *unused, *sometimes, *big, *wide, *bias;
} model;

static inline ct_tensor *model_param(ct_context *c, ct_module *m, const char *name, ct_dtype dtype,
                                     ct_shape shape) {
    ct_scope scope = ct_scope_open(c);
    ct_tensor *p = ct_module_add_param(m, name, ct_randn(c, dtype, shape));
    ct_scope_close(scope);
    return p;
}

static inline model model_new(ct_context *c) {
    model m = {.root = ct_module_new(c, "model")};
    m.odd = model_param(c, m.root, "odd", CT_F32, CT_SHAPE(3));
    m.embed = ct_module_add_child(
        m.root, "embed",
        ct_embedding_new(c, (ct_embedding_opts){.num_embeddings = 11, .embedding_dim = 6}));
    m.big = model_param(c, m.root, "big", CT_F32, CT_SHAPE(300, 131)); /* 3 units */
    m.one = model_param(c, m.root, "one", CT_F32, CT_SCALAR);
    m.wide = model_param(c, m.root, "wide", CT_F64, CT_SHAPE(7));
    m.unused = model_param(c, m.root, "unused", CT_F32, CT_SHAPE(5));
    model_param(c, m.root, "empty", CT_F32, CT_SHAPE(0));
    m.layer = ct_module_add_child(
        m.root, "layer",
        ct_encoder_layer_new(
            c, (ct_layer_opts){.embed_dim = 6, .num_heads = 2, .hidden = 10, .dropout = 0.2}));
    m.sometimes = model_param(c, m.root, "sometimes", CT_F32, CT_SHAPE(2, 2));
    m.bias = model_param(c, m.root, "bias", CT_F32, CT_SHAPE(11));
    ct_module_add_param(m.root, "head", ct_module_get(m.embed, "weight")); /* tied */
    ct_scope scope = ct_scope_open(c);
    ct_module_add_buffer(m.root, "count", ct_full(c, CT_I64, CT_SHAPE(2), 3), true);
    ct_scope_close(scope);
    return m;
}

static inline ct_tensor *model_loss(const model *m, int64_t i, bool nan) {
    ct_context *c = ct_context_of(m->odd);
    enum { B = 2, T = 4 };
    int64_t ids[B * T], targets[B * T];
    for (int64_t k = 0; k < B * T; k++) {
        ids[k] = (3 * k + 5 * i + k * k * i) % 11;
        targets[k] = (ids[k] * 7 + i) % 11;
    }
    ct_tensor *x = ct_forward(m->embed, ct_from_i64(c, CT_SHAPE(B, T), ids));
    x = ct_encoder_layer_forward(m->layer, ct_mul(x, m->one), (ct_mha_call){.causal = true}).out;
    ct_tensor *logits = ct_linear(x, ct_module_get(m->embed, "weight"), m->bias);
    ct_tensor *loss =
        ct_cross_entropy(ct_view(logits, CT_SHAPE(B * T, 11)),
                         ct_from_i64(c, CT_SHAPE(B * T), targets), (ct_cross_entropy_opts){0});
    /* a gradient as large as the others', so that the norm has all its digits */
    ct_tensor *more = ct_scale(ct_mean(ct_mul(m->big, m->big), CT_ALL, false), 300);
    more = ct_add(more, ct_sum(ct_sin(ct_scale(m->odd, 1 + 0.1 * (double)i)), CT_ALL, false));
    ct_tensor *wide = ct_mean(ct_dropout(ct_mul(m->wide, m->wide), 0.5, true), CT_ALL, false);
    more = ct_add(more, ct_cast(wide, CT_F32));
    if (i % 3 == 1) more = ct_add(more, ct_mean(ct_exp(m->sometimes), CT_ALL, false));
    loss = ct_add(loss, ct_scale(more, 0.25));
    return nan ? ct_scale(loss, (double)NAN) : loss;
}

static inline ct_optim *model_optim(const model *m, const plan *p) {
    const ct_sgd_opts sgd = {.lr = 0.1,
                             .momentum = p->rule == MOMENTUM ? 0.9 : 0,
                             .nesterov = p->rule == MOMENTUM,
                             .weight_decay = 0.01,
                             .clip_norm = p->clip,
                             .skip_nonfinite = p->skip_nonfinite,
                             .state_dtype = p->states};
    const ct_adamw_opts adam = {.lr = 0.02,
                                .weight_decay = 0.1,
                                .decay_matrices_only = true,
                                .clip_norm = p->clip,
                                .skip_nonfinite = p->skip_nonfinite,
                                .state_dtype = p->states};
    const ct_optim_opts own = {.lr = 0.02,
                               .weight_decay = 0.1,
                               .decay_matrices_only = true,
                               .clip_norm = p->clip,
                               .skip_nonfinite = p->skip_nonfinite,
                               .state_dtype = p->states};
    const char *const embed[] = {"embed.*"};
    const ct_muon_opts muon = {.lr = 0.02,
                               .weight_decay = 0.1,
                               .clip_norm = p->clip,
                               .skip_nonfinite = p->skip_nonfinite,
                               .adamw_names = embed,
                               .n_adamw_names = 1,
                               .adamw = {.lr = 0.01, .weight_decay = 0.2},
                               .state_dtype = p->states};
    ct_optim *optim = p->rule == SGD || p->rule == MOMENTUM ? ct_sgd_new(m->root, sgd)
                      : p->rule == ADAM                     ? ct_adam_new(m->root, adam)
                      : p->rule == ADAMW                    ? ct_adamw_new(m->root, adam)
                      : p->rule == LION                     ? ct_optim_new(m->root, &lion, own)
                      : p->rule == NORMED                   ? ct_optim_new(m->root, &normed, own)
                                                            : ct_muon_new(m->root, muon);
    if (!p->groups) return optim;
    ct_optim_group(optim, "*norm*", (ct_group_opts){.lr_scale = 2});
    ct_optim_group(optim, "layer.linear1.*", (ct_group_opts){.frozen = true});
    ct_set_requires_grad(ct_module_get(ct_module_child(m->layer, "linear2"), "bias"), false);
    return optim;
}

static inline uint64_t model_hash(const ct_module *root) {
    uint64_t hash = 1469598103934665603u;
    for (ct_param p = {0}; ct_module_next(root, &p);) {
        const int64_t n = ct_numel(p.tensor);
        double *values = malloc((size_t)(n + 1) * sizeof *values);
        ct_to_f64(p.tensor, values, n);
        const unsigned char *at = (const unsigned char *)values;
        for (size_t k = 0; k < (size_t)n * sizeof *values; k++)
            hash = (hash ^ at[k]) * 1099511628211u;
        free(values);
    }
    return hash;
}

/* One step; the sum over all ranks of the losses goes to *loss. */
static inline bool model_step(const model *m, ct_dist *dist, const plan *p, double *loss) {
    ct_context *c = ct_context_of(m->odd);
    double losses[64] = {0};
    for (int64_t i; ct_dist_next(dist, &i);) {
        ct_scope scope = ct_scope_open(c);
        ct_tensor *l = model_loss(m, i, i == 1 && ct_dist_steps(dist) + 1 == p->nan_step);
        if (l) losses[i] = ct_item(l);
        ct_backward(l);
        ct_scope_close(scope);
    }
    if (!ct_dist_step(dist) || !ct_dist_sum(dist, losses, p->micro_batches)) return false;
    *loss = 0;
    for (int64_t i = 0; i < p->micro_batches; i++) *loss += losses[i] / (double)p->micro_batches;
    return true;
}

static inline ct_dist_opts model_dist(const plan *p) {
    return (ct_dist_opts){.micro_batches = p->micro_batches,
                          .shares = p->shares,
                          .bucket_bytes = p->bucket_bytes,
                          .timeout = 60};
}

/* ---- a whole run ---- */

typedef struct {
    const plan *plan;
    outcome out[MOST_RANKS];
} model_run;

static inline void run_rank(ct_context *c, ct_comm *comm, int rank, void *arg) {
    model_run *run = arg;
    const plan *p = run->plan;
    outcome *out = &run->out[rank];
    model m = model_new(c);
    ct_optim *optim = model_optim(&m, p);
    ct_dist *dist = ct_dist_new(optim, comm, model_dist(p));
    for (int step = 0; dist && step < STEPS && model_step(&m, dist, p, &out->loss); step++) {}
    out->hash = model_hash(m.root);
    out->norm = ct_optim_grad_norm(optim);
    out->skipped = ct_optim_skipped(optim);
    out->steps = ct_dist_steps(dist);
    out->sent = ct_dist_sent(dist);
    snprintf(out->message, sizeof out->message, "%s", ct_error_message(c));
}

static inline void run_plan(const plan *p, model_run *run) {
    memset(run, 0, sizeof *run);
    run->plan = p;
    thread_run(p->ranks, (thread_world_opts){.eager = p->eager},
               (ct_context_opts){.seed = 7, .threads = p->threads}, run_rank, run);
}

#endif
