/* A mistake of one rank is an error on every rank. It changes nothing on any rank, and none hangs.
 */
#include "dist_model.h"
#include "tests/support/files.h"

#include <fenv.h>
#include <time.h>

typedef struct {
    ct_context *c;
    ct_comm *comm;
    int rank, ranks;
    bool bad; /* this rank does what is wrong */
    model m;
    ct_optim *optim;
    ct_dist *dist;
    plan p;
    double loss;
    uint64_t before; /* hash of the parameters before the call that fails */
} rank_state;

typedef struct {
    const char *name;
    void (*run)(rank_state *s); /* up to the error */
    ct_status status;
    /* in the message on the ranks that did nothing wrong, and on the other, NULL: the same;
     * %d is that rank */
    const char *says, *says_bad;
    /* The rank leaves the run. Each other rank leaves when it sees that a rank has left, and names
     * the rank that it saw. One of them at least names the right rank. */
    bool leaves;
    bool goes_on; /* after ct_error_clear, and mend, all ranks make a step more */
    void (*mend)(rank_state *s);
    double timeout;
} mistake;

static const mistake *current;
static int bad_rank;

static void make_optim(rank_state *s) {
    s->m = model_new(s->c);
    s->optim = model_optim(&s->m, &s->p);
}
static void make_dist(rank_state *s) {
    ct_dist_opts opts = model_dist(&s->p);
    if (current->timeout > 0) opts.timeout = current->timeout;
    s->dist = ct_dist_new(s->optim, s->comm, opts);
}
static void make(rank_state *s) {
    make_optim(s);
    make_dist(s);
}
static void steps(rank_state *s, int n) {
    while (n-- > 0) model_step(&s->m, s->dist, &s->p, &s->loss);
    s->before = model_hash(s->m.root);
}
/* The micro-batches of a step, without its end. */
static void micro_batches(rank_state *s) {
    for (int64_t i; ct_dist_next(s->dist, &i);) ct_backward(model_loss(&s->m, i, false));
}
static void make_and_step(rank_state *s) {
    make(s);
    steps(s, 1);
}

/* ---- when it is made ---- */

static void optimiser_is_null(rank_state *s) {
    make_optim(s);
    if (s->bad) s->optim = NULL;
    make_dist(s);
}
static void error_is_pending(rank_state *s) {
    make_optim(s);
    if (s->bad)
        ct_matmul(ct_ones(s->c, CT_F32, CT_SHAPE(2, 3)), ct_ones(s->c, CT_F32, CT_SHAPE(2)));
    make_dist(s);
}
static void shares_differ(rank_state *s) {
    if (s->bad) s->p.shares = 4, s->p.micro_batches = 8;
    make(s);
}
static void shares_are_odd(rank_state *s) {
    if (s->bad) s->p.shares = 3, s->p.micro_batches = 9;
    make(s);
}
static void micro_batches_are_odd(rank_state *s) {
    if (s->bad) s->p.micro_batches = 12;
    make(s);
}
static void lr_differs(rank_state *s) {
    make_optim(s);
    if (s->bad) ct_optim_set_lr(s->optim, 0.5);
    make_dist(s);
}
static void matmul_differs(rank_state *s) {
    if (s->bad) ct_set_matmul(s->c, CT_MATMUL_BF16X3);
    make(s);
}
static void rounding_differs(rank_state *s) {
#ifdef FE_UPWARD
    if (s->bad) fesetround(FE_UPWARD); /* the rounding of this rank's thread */
#else
    if (s->bad) ct_set_matmul(s->c, CT_MATMUL_BF16X3);
#endif
    make(s);
    fesetround(FE_TONEAREST);
}
static void rule_differs(rank_state *s) {
    if (s->bad) s->p.rule = ADAM;
    make(s);
}
static void group_differs(rank_state *s) {
    make_optim(s);
    if (s->bad) ct_optim_group(s->optim, "bias", (ct_group_opts){.frozen = true});
    make_dist(s);
}
static void rule_of_a_parameter_differs(rank_state *s) {
    static const char *const by_adamw[] = {"layer.*"};
    s->m = model_new(s->c);
    s->optim =
        ct_muon_new(s->m.root, (ct_muon_opts){.adamw_names = by_adamw, .n_adamw_names = s->bad});
    make_dist(s);
}
static void trained_differs(rank_state *s) {
    make_optim(s);
    if (s->bad) ct_set_requires_grad(s->m.bias, false);
    make_dist(s);
}
static void with_param(rank_state *s, const char *name, ct_dtype dtype, ct_shape shape) {
    s->m = model_new(s->c);
    model_param(s->c, s->m.root, name, dtype, shape);
    s->optim = model_optim(&s->m, &s->p);
    make_dist(s);
}
static void shape_differs(rank_state *s) {
    with_param(s, "more", CT_F32, s->bad ? CT_SHAPE(3, 4) : CT_SHAPE(4, 4));
}
static void dtype_differs(rank_state *s) {
    with_param(s, "more", s->bad ? CT_F64 : CT_F32, CT_SHAPE(4));
}
static void name_differs(rank_state *s) {
    with_param(s, s->bad ? "mine" : "more", CT_F32, CT_SHAPE(4));
}
static void buffer_is_missing(rank_state *s) {
    s->m = model_new(s->c);
    if (!s->bad)
        ct_module_add_buffer(s->m.root, "seen", ct_zeros(s->c, CT_F32, CT_SHAPE(9)), false);
    s->optim = model_optim(&s->m, &s->p);
    make_dist(s);
}
static void leaves_before(rank_state *s) {
    make_optim(s);
    if (!s->bad) make_dist(s);
}

/* ---- in a step ---- */

static void backward_fails(rank_state *s) {
    make_and_step(s);
    for (int64_t i; ct_dist_next(s->dist, &i);) {
        ct_tensor *x = ct_ones(s->c, CT_F32, CT_SHAPE(2, 7));
        if (s->bad && i % 2) ct_linear(x, s->m.big, NULL);
        ct_backward(model_loss(&s->m, i, false));
    }
    ct_dist_step(s->dist);
}
static void all_fail(rank_state *s) {
    make_and_step(s);
    ct_fail(s->c, CT_ERR_FORMAT, "everybody fails");
    micro_batches(s);
    ct_dist_step(s->dist);
}
static void step_is_early(rank_state *s) {
    make_and_step(s);
    int64_t i;
    if (s->bad) ct_dist_next(s->dist, &i);
    else micro_batches(s);
    ct_dist_step(s->dist);
}
/* One rank has no error, the other has no micro-batch. */
static void step_without_a_batch(rank_state *s) {
    make_and_step(s);
    if (!s->bad) micro_batches(s);
    ct_dist_step(s->dist);
}
static void stepped_alone(rank_state *s) {
    make_and_step(s);
    micro_batches(s);
    if (s->bad) ct_optim_step(s->optim);
    ct_dist_step(s->dist);
}
static void lr_changes(rank_state *s) {
    make_and_step(s);
    ct_optim_set_lr(s->optim, s->bad ? 0.25 : 0.5);
    micro_batches(s);
    ct_dist_step(s->dist);
}
static void option_changes(rank_state *s) {
    make_and_step(s);
    if (s->bad) ct_optim_set(s->optim, "clip_norm", 0.125);
    micro_batches(s);
    ct_dist_step(s->dist);
}
static void mend_option_changes(rank_state *s) { ct_optim_set(s->optim, "clip_norm", 0.125); }
static void mend_lr_changes(rank_state *s) { ct_optim_set_lr(s->optim, 0.5); }
static void matmul_changes(rank_state *s) {
    make_and_step(s);
    if (s->bad) ct_set_matmul(s->c, CT_MATMUL_BF16);
    micro_batches(s);
    ct_dist_step(s->dist);
}
static void mend_matmul_changes(rank_state *s) { ct_set_matmul(s->c, CT_MATMUL_F32); }
static void group_changes(rank_state *s) {
    make_and_step(s);
    if (s->bad) ct_optim_group(s->optim, "one", (ct_group_opts){.lr_scale = 3});
    micro_batches(s);
    ct_dist_step(s->dist);
}
static void mend_group_changes(rank_state *s) {
    ct_optim_group(s->optim, "one", (ct_group_opts){0});
}
static void seed_changes(rank_state *s) {
    make_and_step(s);
    if (s->bad) ct_seed(s->c, 99);
    micro_batches(s);
    ct_dist_step(s->dist);
}
static void mend_seed_changes(rank_state *s) { ct_seed(s->c, 7); }
static void backward_twice(rank_state *s) {
    make_and_step(s);
    for (int64_t i; ct_dist_next(s->dist, &i);) {
        ct_backward(model_loss(&s->m, i, false));
        if (s->bad) ct_backward(model_loss(&s->m, i, false));
    }
    ct_dist_step(s->dist);
}
/* m.sometimes gets a gradient in the first micro-batch of a rank and none in the first backward of
 * its last, which sends the gradient because it is complete. A second backward of the last
 * micro-batch then adds to a gradient that was sent. */
static void backward_twice_of_one(rank_state *s) {
    s->p.shares = s->ranks, s->p.micro_batches = 2 * s->ranks;
    make_and_step(s);
    for (int64_t i; ct_dist_next(s->dist, &i);) {
        ct_backward(model_loss(&s->m, 0, false));
        if (i % 2 == 0 || s->bad) ct_backward(ct_mean(ct_exp(s->m.sometimes), CT_ALL, false));
    }
    ct_dist_step(s->dist);
}
static void trained_later(rank_state *s) {
    make_optim(s);
    ct_set_requires_grad(s->m.bias, false);
    make_dist(s);
    steps(s, 1);
    if (s->bad) ct_set_requires_grad(s->m.bias, true);
    micro_batches(s);
    ct_dist_step(s->dist);
}
static void mend_trained_later(rank_state *s) { ct_set_requires_grad(s->m.bias, false); }
static void parameter_is_added(rank_state *s) {
    make_and_step(s);
    if (s->bad) model_param(s->c, s->m.root, "late", CT_F32, CT_SHAPE(2));
    s->before = model_hash(s->m.root);
    micro_batches(s);
    ct_dist_step(s->dist);
}

/* ---- others are elsewhere, or gone ---- */

static void in_sum(rank_state *s) {
    make_and_step(s);
    double value = 1;
    micro_batches(s);
    if (s->bad) ct_dist_sum(s->dist, &value, 1);
    else ct_dist_step(s->dist);
}
static void count_differs(rank_state *s) {
    make_and_step(s);
    double values[3] = {1, 2, 3};
    ct_dist_sum(s->dist, values, s->bad ? 3 : 2);
}
static void sum_of_null(rank_state *s) {
    make_and_step(s);
    double values[3] = {1, 2, 3};
    ct_dist_sum(s->dist, s->bad ? NULL : values, 3);
}
static void leaves(rank_state *s) {
    make_and_step(s);
    if (s->bad) ct_comm_close(s->comm);
    else micro_batches(s), ct_dist_step(s->dist);
}
static void leaves_in_backward(rank_state *s) {
    make_and_step(s);
    micro_batches(s);
    if (s->bad) ct_comm_close(s->comm);
    else ct_dist_step(s->dist);
}
static void frees_optimiser(rank_state *s) {
    make_and_step(s);
    micro_batches(s);
    if (s->bad) ct_optim_free(s->optim), ct_comm_close(s->comm);
    else ct_dist_step(s->dist);
}
static void sleeps(rank_state *s) {
    make_and_step(s);
    micro_batches(s);
    if (s->bad) nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    ct_dist_step(s->dist);
}

/* ---- checkpoints ---- */

static ct_checkpoint checkpoint_of(const rank_state *s) {
    return (ct_checkpoint){.module = s->m.root, .optim = s->optim, .group = ct_dist_group(s->dist)};
}
static void saves_in_step(rank_state *s) {
    make_and_step(s);
    int64_t i;
    if (s->bad) ct_dist_next(s->dist, &i);
    ct_checkpoint k = checkpoint_of(s);
    char path[100];
    snprintf(path, sizeof path, "%s/x%d", folder, s->rank);
    ct_checkpoint_save(path, &k);
}
static void saves_another_step(rank_state *s) {
    make_and_step(s);
    ct_checkpoint k = checkpoint_of(s);
    char path[100];
    snprintf(path, sizeof path, "%s/steps%d", folder, s->rank);
    k.step = s->bad ? 2 : 1;
    ct_checkpoint_save(path, &k);
}
static void saves_more_optimisers(rank_state *s) {
    make_and_step(s);
    ct_checkpoint k = checkpoint_of(s);
    ct_optim *more = ct_sgd_new(s->m.layer, (ct_sgd_opts){0});
    char path[100];
    snprintf(path, sizeof path, "%s/optims%d", folder, s->rank);
    if (s->bad) k.optims = &more, k.n_optims = 1;
    ct_checkpoint_save(path, &k);
}
static void save_is_refused(rank_state *s) {
    make_and_step(s);
    ct_checkpoint k = checkpoint_of(s);
    ct_checkpoint_save("/no/such/folder/x", &k);
}
static void nothing_to_load(rank_state *s) {
    make_and_step(s);
    ct_checkpoint k = checkpoint_of(s);
    ct_checkpoint_load("/no/such/folder/x", &k);
}
static void loads_other_tensors(rank_state *s) {
    make_and_step(s);
    ct_checkpoint k = checkpoint_of(s);
    ct_tensor *note = ct_zeros(s->c, CT_F32, s->bad ? CT_SHAPE(3) : CT_SHAPE(2));
    k.tensors = &(ct_named){"note", note}, k.n_tensors = 1;
    static char path[MOST_RANKS][100];
    snprintf(path[s->rank], sizeof path[0], "%s/loads", folder);
    ct_checkpoint_save(path[s->rank], &k);
    ct_checkpoint_load(path[s->rank], &k);
}
static void load_lacks_optimiser(rank_state *s) {
    make_and_step(s);
    ct_checkpoint k = checkpoint_of(s);
    static char path[MOST_RANKS][100];
    snprintf(path[s->rank], sizeof path[0], "%s/lacks", folder);
    ct_checkpoint_save(path[s->rank], &k);
    if (s->bad) k.optim = NULL;
    ct_checkpoint_load(path[s->rank], &k);
}

/* ---- all of them ---- */

#define MISTAKE(function) .name = #function, .run = function
static const mistake mistakes[] = {
    {MISTAKE(optimiser_is_null), .status = CT_ERR_ARGUMENT,
     .says = "rank %d: ct_dist_new: optimiser is NULL",
     .says_bad = "ct_dist_new: optimiser is NULL"},
    {MISTAKE(error_is_pending), .status = CT_ERR_SHAPE,
     .says = "rank %d: matmul: ", .says_bad = "matmul: "},
    {MISTAKE(shares_differ), .status = CT_ERR_ARGUMENT,
     .says = "rank %d has shares 4, rank 0 has 8"},
    {MISTAKE(shares_are_odd), .status = CT_ERR_ARGUMENT,
     .says = "rank %d: dist_new: shares is 3, must be a power of two that",
     .says_bad = "dist_new: shares is 3"},
    {MISTAKE(micro_batches_are_odd), .status = CT_ERR_ARGUMENT,
     .says = "rank %d: dist_new: micro_batches is 12, must be a multiple of shares, 8",
     .says_bad = "micro_batches"},
    {MISTAKE(lr_differs), .status = CT_ERR_ARGUMENT, .says = "rank %d has lr 0.5, rank 0 has 0.02"},
    {MISTAKE(matmul_differs), .status = CT_ERR_ARGUMENT,
     .says = "rank %d has the matmul precision bf16x3, rank 0 has f32"},
#ifdef FE_UPWARD
    {MISTAKE(rounding_differs), .status = CT_ERR_ARGUMENT, .says = "rank %d has the fingerprint "},
#else
    {MISTAKE(rounding_differs), .status = CT_ERR_ARGUMENT, .says = "rank %d has the matmul "},
#endif
    {MISTAKE(rule_differs), .status = CT_ERR_ARGUMENT,
     .says = "rank %d has the optimiser Adam, rank 0 has AdamW"},
    {MISTAKE(group_differs), .status = CT_ERR_ARGUMENT,
     .says = "rank %d has the group of bias (lr_scale 1, weight_decay 0, frozen), rank 0 has"},
    {MISTAKE(rule_of_a_parameter_differs), .status = CT_ERR_ARGUMENT,
     .says = "rank %d has the rule of layer."},
    {MISTAKE(trained_differs), .status = CT_ERR_ARGUMENT,
     .says = "rank %d has the step of bias 0, and it requires no gradient, rank 0 has 0"},
    {MISTAKE(shape_differs), .status = CT_ERR_ARGUMENT,
     .says = "rank %d has the parameter more (3, 4), rank 0 has (4, 4)"},
    {MISTAKE(dtype_differs), .status = CT_ERR_ARGUMENT,
     .says = "rank %d has the dtype of more f64, rank 0 has f32"},
    {MISTAKE(name_differs), .status = CT_ERR_ARGUMENT,
     .says = "rank %d has the parameter mine (4), rank 0 has the parameter more (4)"},
    {MISTAKE(buffer_is_missing), .status = CT_ERR_ARGUMENT,
     .says = "rank 0 has the buffer seen (9), rank %d has not"},
    {MISTAKE(leaves_before), .status = CT_ERR_IO,
     .says = "dist_new: rank %d has left the run; this rank is in step 0", .leaves = true},
    {MISTAKE(backward_fails), .status = CT_ERR_SHAPE, .says = "rank %d: linear: inner sizes differ",
     .says_bad = "linear: inner sizes differ", .goes_on = true},
    {MISTAKE(all_fail), .status = CT_ERR_FORMAT, .says = "everybody fails", .goes_on = true},
    {MISTAKE(step_is_early), .status = CT_ERR_ARGUMENT, .says = "rank %d: dist_step: 1 of ",
     .says_bad = "dist_step: 1 of ", .goes_on = true},
    {MISTAKE(step_without_a_batch), .status = CT_ERR_ARGUMENT, .says = "rank %d: dist_step: 0 of ",
     .says_bad = "dist_step: 0 of ", .goes_on = true},
    {MISTAKE(stepped_alone), .status = CT_ERR_ARGUMENT,
     .says = "rank %d: AdamW: the optimiser has a ct_dist, and is stepped by ct_dist_step",
     .says_bad = "AdamW: the", .goes_on = true},
    {MISTAKE(lr_changes), .status = CT_ERR_ARGUMENT,
     .says = "dist_step: rank %d has a learning rate of 0.25, rank 0 of 0.5", .goes_on = true,
     .mend = mend_lr_changes},
    {MISTAKE(matmul_changes), .status = CT_ERR_ARGUMENT,
     .says = "rank %d has the matmul precision bf16, rank 0 has f32", .goes_on = true,
     .mend = mend_matmul_changes},
    {MISTAKE(group_changes), .status = CT_ERR_ARGUMENT,
     .says = "rank %d has other groups or numbers", .goes_on = true, .mend = mend_group_changes},
    {MISTAKE(option_changes), .status = CT_ERR_ARGUMENT,
     .says = "rank %d has other groups or numbers", .goes_on = true, .mend = mend_option_changes},
    {MISTAKE(seed_changes), .status = CT_ERR_ARGUMENT, .says = "rank %d has the seed 99, rank 0 7",
     .goes_on = true, .mend = mend_seed_changes},
    {MISTAKE(backward_twice), .status = CT_ERR_ARGUMENT,
     .says = "has got a gradient after its sum was sent", .goes_on = true},
    {MISTAKE(backward_twice_of_one), .status = CT_ERR_ARGUMENT,
     .says = "sometimes has got a gradient after its sum was sent", .goes_on = true},
    {MISTAKE(trained_later), .status = CT_ERR_ARGUMENT,
     .says = "bias requires a gradient since ct_dist_new", .goes_on = true,
     .mend = mend_trained_later},
    {MISTAKE(parameter_is_added), .status = CT_ERR_ARGUMENT,
     .says = "the parameter late has been added since the optimiser was made"},
    {MISTAKE(in_sum), .status = CT_ERR_ARGUMENT,
     .says = "rank %d is in dist_sum of step 1, rank 0 in dist_step"},
    {MISTAKE(count_differs), .status = CT_ERR_ARGUMENT, .says = "rank %d has 3 values, rank 0 2"},
    {MISTAKE(sum_of_null), .status = CT_ERR_ARGUMENT, .says = "rank %d: dist_sum: values is NULL",
     .says_bad = "dist_sum: values is NULL", .goes_on = true},
    {MISTAKE(leaves), .status = CT_ERR_IO,
     .says = "dist_step: rank %d has left the run; this rank is in step 1", .leaves = true},
    {MISTAKE(leaves_in_backward), .status = CT_ERR_IO, .says = "rank %d has left the run",
     .leaves = true},
    {MISTAKE(frees_optimiser), .status = CT_ERR_IO, .says = "rank %d has left the run",
     .leaves = true},
    {MISTAKE(sleeps), .status = CT_ERR_IO, .says = " has not answered for 0.1 s", .says_bad = "",
     .timeout = 0.1},
    {MISTAKE(saves_in_step), .status = CT_ERR_ARGUMENT,
     .says = "rank %d: checkpoint_save: step 1 has not ended", .says_bad = "step 1 has not ended"},
    {MISTAKE(saves_another_step), .status = CT_ERR_ARGUMENT,
     .says = "checkpoint_save: rank %d has step 2, rank 0 has step 1", .goes_on = true},
    {MISTAKE(saves_more_optimisers), .status = CT_ERR_ARGUMENT,
     .says = "checkpoint_save: rank %d has other optimisers than rank 0", .goes_on = true},
    {MISTAKE(save_is_refused), .status = CT_ERR_IO, .says = "/no/such/folder/x", .goes_on = true},
    {MISTAKE(nothing_to_load), .status = CT_ERR_IO, .says = "/no/such/folder/x", .goes_on = true},
    {MISTAKE(loads_other_tensors), .status = CT_ERR_ARGUMENT,
     .says = "rank %d has other names, shapes or dtypes than rank 0", .goes_on = true},
    {MISTAKE(load_lacks_optimiser), .status = CT_ERR_ARGUMENT,
     .says = "rank %d: checkpoint_load: .group is of none", .says_bad = ".group is of none",
     .goes_on = true},
};
enum { MISTAKES = sizeof mistakes / sizeof *mistakes };

static struct {
    ct_status status;
    char message[1100], later[1100];
    uint64_t before, after, next, stream; /* stream: where the generator stands */
    bool done;
} got[MOST_RANKS];

static void run_mistake(ct_context *c, ct_comm *comm, int rank, void *arg) {
    rank_state s = {.c = c,
                    .comm = comm,
                    .rank = rank,
                    .ranks = *(const int *)arg,
                    .bad = rank == bad_rank,
                    .p = {.shares = 8, .micro_batches = 8, .rule = ADAMW, .bucket_bytes = 1000}};
    if (s.ranks == 2) s.p.micro_batches = 8;
    current->run(&s);
    got[rank].status = ct_error(c);
    snprintf(got[rank].message, sizeof got[rank].message, "%s", ct_error_message(c));
    got[rank].before = s.before;
    got[rank].after = s.before ? model_hash(s.m.root) : 0;
    ct_error_clear(c);
    double value = 1;
    if (current->mend) current->mend(&s);
    if (current->goes_on) {
        got[rank].done = model_step(&s.m, s.dist, &s.p, &s.loss);
        got[rank].next = model_hash(s.m.root);
        got[rank].stream = ct_rng_get(c).stream;
    } else if (s.dist && (!s.bad || got[rank].status)) {
        ct_dist_sum(s.dist, &value, 1);
    }
    snprintf(got[rank].later, sizeof got[rank].later, "%s", ct_error_message(c));
}

/* Whether the message contains `says`, with the rank for its %d. */
static bool says_of(const char *message, const char *says, int rank) {
    char text[300];
    snprintf(text, sizeof text, says, rank);
    return strstr(message, text) != NULL;
}

static void try_mistake(const mistake *m, int ranks) {
    current = m;
    bad_rank = ranks - 1;
    memset(got, 0, sizeof got);
    thread_run(ranks, (thread_world_opts){0}, (ct_context_opts){.seed = 7, .threads = 1},
               run_mistake, &ranks);
    int of_bad = 0;
    for (int r = 0; r < ranks; r++) {
        const bool bad = r == bad_rank;
        const char *says = bad && m->says_bad ? m->says_bad : m->says;
        if (bad && (m->leaves || !*says)) continue; /* it has left, or slept */
        ck_assert_msg(got[r].status == m->status, "%s, rank %d of %d: status %d: %s", m->name, r,
                      ranks, (int)got[r].status, got[r].message);
        bool said = says_of(got[r].message, says, bad_rank);
        of_bad += said;
        for (int other = 0; m->leaves && other < ranks; other++)
            said = said || (other != r && says_of(got[r].message, says, other));
        ck_assert_msg(said, "%s, rank %d of %d: \"%s\" of rank %d is not in: %s", m->name, r, ranks,
                      says, bad_rank, got[r].message);
        ck_assert_msg(got[r].before == got[r].after, "%s, rank %d of %d: parameters have changed",
                      m->name, r, ranks);
        if (!m->goes_on) continue;
        ck_assert_msg(got[r].done, "%s, rank %d of %d: afterwards: %s", m->name, r, ranks,
                      got[r].later);
        ck_assert(got[r].next == got[0].next && got[r].next != got[r].before);
        ck_assert(got[r].stream == got[0].stream && got[r].stream < 1000);
    }
    ck_assert_msg(of_bad > 0, "%s: nobody names rank %d", m->name, bad_rank);
}

START_TEST(each_mistake) {
    try_mistake(&mistakes[_i], 2);
    try_mistake(&mistakes[_i], 4);
}
END_TEST

/* Kernels of another instruction set round differently. The message has both. */
START_TEST(instruction_sets_differ) {
    static char says[200];
    ct_context *c = ct_context_new((ct_context_opts){.threads = 1});
    snprintf(says, sizeof says, "dist_new: rank 3 has the instruction set scalar, rank 0 has %s",
             ct_isa_name(c));
    const bool has_one = !strcmp(ct_isa_name(c), "scalar");
    ct_context_free(c);
    if (has_one) return;
    static model_run run;
    const plan p = {.shares = 4, .micro_batches = 4};
    run.plan = &p;
    thread_run(4, (thread_world_opts){.last_isa = "scalar"},
               (ct_context_opts){.seed = 7, .threads = 1}, run_rank, &run);
    for (int r = 0; r < 4; r++) ck_assert_ptr_nonnull(strstr(run.out[r].message, says));
}
END_TEST

int main(void) {
    return run_tests("dist_mistakes", setup, teardown,
                     TESTS(LOOP(each_mistake, MISTAKES), TEST(instruction_sets_differ)));
}
