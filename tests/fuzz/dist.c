/* Programs of calls of a ct_dist by two ranks, which are threads. A byte is a call that both ranks
 * make, or if its highest bit is set, only one of them. So a single rank fails, ranks are in
 * different calls, and ranks leave. No rank may hang. After a program of calls that both ranks have
 * made, both have the same status and the same parameters. */
#include "tests/ranks/thread_comm.h"
#include "fuzz.h"

enum { CALLS = 60 };

static const uint8_t *program;
static size_t length;

typedef struct {
    ct_context *c;
    ct_comm *comm;
    ct_module *module;
    ct_optim *optim;
    ct_dist *dist;
    int64_t micro_batch;
    char path[128];
} state;

static struct {
    ct_status status;
    int64_t steps;
    float value[64];
} end[2];

static ct_tensor *loss_of(state *s, int64_t i) {
    ct_tensor *x = ct_add_scalar(ct_randn(s->c, CT_F32, CT_SHAPE(2, 3)), 0.1 * (double)i);
    return ct_mse_loss(ct_forward(s->module, x), x);
}

static void backward(state *s, int64_t i) {
    ct_scope scope = ct_scope_open(s->c);
    ct_backward(loss_of(s, i));
    ct_scope_close(scope);
}

static void make(state *s) {
    const int kind = program[0] % 3;
    s->optim = kind == 0 ? ct_sgd_new(s->module, (ct_sgd_opts){.momentum = 0.5, .clip_norm = 1})
               : kind == 1
                   ? ct_adam_new(s->module, (ct_adam_opts){.skip_nonfinite = program[0] & 64})
                   : ct_adamw_new(s->module, (ct_adamw_opts){.clip_norm = 0.5});
    s->dist = ct_dist_new(s->optim, s->comm,
                          (ct_dist_opts){.shares = program[1] % 5,
                                         .micro_batches = program[1] / 5 % 9,
                                         .bucket_bytes = program[2],
                                         .timeout = 10});
}

static void call(state *s, int number) {
    double values[3] = {1, 2, (double)number};
    ct_checkpoint k = {
        .module = s->module, .optim = s->optim, .group = ct_dist_group(s->dist), .step = number};
    switch (number) {
    case 0:
        if (ct_dist_next(s->dist, &s->micro_batch)) backward(s, s->micro_batch);
        break;
    case 1:
    case 2:
    case 3:
        while (ct_dist_next(s->dist, &s->micro_batch)) backward(s, s->micro_batch);
        ct_dist_step(s->dist);
        break;
    case 4: ct_dist_step(s->dist); break;
    case 5: ct_dist_sum(s->dist, values, 3); break;
    case 6: ct_checkpoint_save(s->path, &k); break;
    case 7: ct_checkpoint_load(s->path, &k); break;
    case 8: ct_optim_group(s->optim, "*bias", (ct_group_opts){.frozen = true}); break;
    case 9: ct_optim_group(s->optim, "*bias", (ct_group_opts){.lr_scale = 2}); break;
    case 10: backward(s, 1); break;
    case 11: ct_error_clear(s->c); break;
    case 12:
        ct_matmul(ct_ones(s->c, CT_F32, CT_SHAPE(2, 3)), ct_ones(s->c, CT_F32, CT_SHAPE(2)));
        break;
    case 13: ct_optim_step(s->optim); break;
    case 14:
        if (s->optim) ct_optim_free(s->optim);
        make(s);
        break;
    case 15: ct_comm_close(s->comm); break;
    }
}

static void run(ct_context *c, ct_comm *comm, int rank, void *arg) {
    state s = {.c = c, .comm = comm};
    (void)arg;
    snprintf(s.path, sizeof s.path, "%s/checkpoint", fuzz_folder);
    s.module = ct_mlp_new(c, (ct_mlp_opts){.dim = 3, .hidden = 4, .dropout = 0.25});
    make(&s);
    for (size_t i = 3; i < length && i < CALLS; i++) {
        if (program[i] & 128 && rank != (program[i] >> 6 & 1)) continue;
        call(&s, program[i] & 15);
        MUST((ct_error(c) == CT_OK) == !*ct_error_message(c));
        if (program[i] & 32) ct_error_clear(c);
    }
    end[rank].status = ct_error(c);
    end[rank].steps = ct_dist_steps(s.dist);
    memset(end[rank].value, 0, sizeof end[rank].value);
    float *at = end[rank].value;
    for (ct_param p = {0}; ct_module_next(s.module, &p); at += ct_numel(p.tensor))
        MUST(ct_to_f32(p.tensor, at, ct_numel(p.tensor)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!*fuzz_folder) fuzz_begin();
    if (size < 3) return 0;
    program = data;
    length = size;
    bool together = true;
    for (size_t i = 3; i < size && i < CALLS; i++) {
        together &= !(data[i] & 128);
        /* one rank closes its comm before the other, which is like a call of only one rank */
        together &= (data[i] & 15) != 15;
    }
    thread_run(2, (thread_world_opts){.eager = data[2] & 1 ? 64 : 0},
               (ct_context_opts){.seed = 1, .threads = 1}, run, NULL);
    if (together)
        MUST(end[0].status == end[1].status && end[0].steps == end[1].steps &&
             !memcmp(end[0].value, end[1].value, sizeof end[0].value));
    return 0;
}
