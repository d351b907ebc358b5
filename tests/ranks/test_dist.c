/* ct_dist with ranks that are threads: the same bits for any number of ranks and threads, and those
 * of an ordinary loop. */
#include "dist_model.h"

#include "ext/ranks/dist.h"
#include "nn/optim/optim.h"
#include "src/autograd/tape.h"

static model_run first, other;

static bool same_number(double a, double b) { return !memcmp(&a, &b, sizeof a); }

/* All ranks of a run have the same, without an error. */
static void check_ranks(const model_run *run) {
    for (int r = 0; r < run->plan->ranks; r++) {
        const outcome *a = &run->out[0], *b = &run->out[r];
        ck_assert_msg(!*b->message, "rank %d of %d: %s", r, run->plan->ranks, b->message);
        ck_assert_int_eq(b->steps, STEPS);
        ck_assert(a->hash == b->hash && same_number(a->loss, b->loss) &&
                  same_number(a->norm, b->norm) && a->skipped == b->skipped);
    }
}

/* Runs of the plan by 1, 2, 4, ... ranks of 1, 2, 3 threads have the same bits. */
static void sweep(plan p) {
    p.ranks = p.threads = 1;
    run_plan(&p, &first);
    check_ranks(&first);
    ck_assert(isfinite(first.out[0].loss));
    for (p.ranks = 1; p.ranks <= p.shares && p.ranks <= MOST_RANKS; p.ranks *= 2) {
        p.threads = 1 + p.ranks % 3;
        run_plan(&p, &other);
        check_ranks(&other);
        ck_assert_msg(first.out[0].hash == other.out[0].hash, "%d ranks: other parameters",
                      p.ranks);
        ck_assert(same_number(first.out[0].loss, other.out[0].loss));
        ck_assert(same_number(first.out[0].norm, other.out[0].norm));
        ck_assert_int_eq(first.out[0].skipped, other.out[0].skipped);
    }
}

START_TEST(same_bits) {
    const plan plans[] = {
        {.shares = 8, .micro_batches = 8, .rule = ADAMW, .clip = 0.5},
        {.shares = 8, .micro_batches = 24, .rule = ADAM, .bucket_bytes = 1},
        {.shares = 8, .micro_batches = 8, .rule = SGD, .bucket_bytes = 600, .groups = true},
        {.shares = 16, .micro_batches = 16, .rule = MOMENTUM, .clip = 1, .bucket_bytes = 4096},
        {.shares = 4, .micro_batches = 20, .rule = ADAMW, .groups = true, .clip = 0.1},
        {.shares = 8, .micro_batches = 8, .rule = ADAMW, .eager = 100, .bucket_bytes = 600},
        {.shares = 2, .micro_batches = 2, .rule = ADAM, .skip_nonfinite = true, .nan_step = 2},
        {.shares = 8, .micro_batches = 8, .rule = MOMENTUM, .skip_nonfinite = true, .nan_step = 1},
        {.shares = 8, .micro_batches = 8, .rule = LION, .clip = 0.5, .groups = true},
        {.shares = 8, .micro_batches = 8, .rule = NORMED, .clip = 0.5, .bucket_bytes = 600},
        {.shares = 4, .micro_batches = 8, .rule = NORMED, .groups = true},
        {.shares = 8, .micro_batches = 8, .rule = MUON, .clip = 0.5, .groups = true},
        {.shares = 4, .micro_batches = 4, .rule = MUON, .skip_nonfinite = true, .nan_step = 2},
        {.shares = 8, .micro_batches = 8, .rule = ADAMW, .clip = 0.5, .states = CT_BF16},
        {.shares = 4, .micro_batches = 8, .rule = LION, .bucket_bytes = 600, .states = CT_BF16},
        {.shares = 4, .micro_batches = 4, .rule = MUON, .groups = true, .states = CT_BF16},
    };
    sweep(plans[_i]);
}
END_TEST

/* ---- against an ordinary loop ---- */

static ct_rng stream_of(int64_t step, int64_t i) {
    return (ct_rng){7, UINT64_C(1) << 63 | (uint64_t)step << 38 | (uint64_t)i << 20};
}

/* Adds the gradients of all parameters, or the numbers `more`, to sum[k]; parameters follow each
 * other, and a missing gradient counts as 0. Returns the number of elements. Each sum of two
 * numbers is computed in double and rounded to the dtype, which gives the bits of a sum in the
 * dtype. */
static int64_t add_grads(ct_module *root, double *sum, const double *more) {
    int64_t at = 0;
    for (ct_param p = {0}; ct_module_next(root, &p); at += ct_numel(p.tensor)) {
        ct_tensor *grad = ct_grad(p.tensor);
        const int64_t n = ct_numel(p.tensor);
        double *values = calloc((size_t)(n + 1), sizeof *values);
        if (!more && grad) ct_to_f64(grad, values, n);
        for (int64_t k = 0; k < n; k++) {
            const double y = sum[at + k] + (more ? more[at + k] : values[k]);
            sum[at + k] = ct_dtype_of(p.tensor) == CT_F32 ? (double)(float)y : y;
        }
        free(values);
    }
    return at;
}

static void set_grads(ct_module *root, const double *sum, double scale) {
    for (ct_param p = {0}; ct_module_next(root, &p); sum += ct_numel(p.tensor)) {
        ct_tensor *grad = ct_grad(p.tensor);
        const int64_t n = ct_numel(p.tensor);
        for (int64_t k = 0; grad && k < n; k++) {
            if (ct_dtype_of(grad) == CT_F32) ct_data_f32(grad)[k] = (float)sum[k] * (float)scale;
            else ct_data_f64(grad)[k] = sum[k] * scale;
        }
    }
}

/* Micro-batches [from, to) of a step: their gradients are added to sums along the tree. */
static void tree(const model *m, int64_t step, int64_t from, int64_t to, int64_t share,
                 double *sum) {
    enum { ROOM = 60000 };
    ct_context *c = ct_context_of(m->odd);
    if (to - from > share) {
        double *upper = calloc(ROOM, sizeof *upper);
        tree(m, step, from, from + (to - from) / 2, share, sum);
        tree(m, step, from + (to - from) / 2, to, share, upper);
        add_grads(m->root, sum, upper);
        free(upper);
        return;
    }
    for (ct_param p = {0}; ct_module_next(m->root, &p);) ct_zero_grad(p.tensor);
    for (int64_t i = from; i < to; i++) {
        ct_scope scope = ct_scope_open(c);
        ct_rng_set(c, stream_of(step, i));
        ct_backward(model_loss(m, i, false));
        ct_scope_close(scope);
    }
    ck_assert_int_lt(add_grads(m->root, sum, NULL), ROOM);
}

static uint64_t by_hand(const plan *p) {
    ct_context *c = ct_context_new((ct_context_opts){.seed = 7, .threads = 1});
    model m = model_new(c);
    ct_optim *optim = model_optim(&m, p);
    const ct_rng rng = ct_rng_get(c);
    for (int64_t step = 0; step < STEPS; step++) {
        double *sum = calloc(60000, sizeof *sum);
        tree(&m, step, 0, p->micro_batches, p->micro_batches / p->shares, sum);
        for (int64_t i = 0; i < p->micro_batches; i++) /* each parameter has a gradient then */
            ct_backward(model_loss(&m, i, false));
        set_grads(m.root, sum, 1 / (double)p->micro_batches);
        ct_rng_set(c, rng);
        ck_assert_msg(ct_optim_step(optim), "%s", ct_error_message(c));
        free(sum);
    }
    const uint64_t hash = model_hash(m.root);
    ct_context_free(c);
    return hash;
}

/* One share is a plain loop; several are a tree of them. */
START_TEST(as_by_hand) {
    const plan plans[] = {
        {.shares = 1, .micro_batches = 1, .rule = ADAMW, .clip = 0.5},
        {.shares = 1, .micro_batches = 3, .rule = MOMENTUM, .clip = 0.5},
        {.shares = 1, .micro_batches = 2, .rule = ADAM, .groups = true},
        {.shares = 4, .micro_batches = 12, .rule = ADAMW, .clip = 0.3},
        {.shares = 8, .micro_batches = 8, .rule = SGD, .groups = true},
        {.shares = 4, .micro_batches = 8, .rule = NORMED, .clip = 0.3},
        {.shares = 2, .micro_batches = 4, .rule = MUON, .groups = true},
    };
    plan p = plans[_i];
    p.ranks = p.threads = 1;
    run_plan(&p, &first);
    check_ranks(&first);
    ck_assert(first.out[0].hash == by_hand(&p));
}
END_TEST

/* ---- one process ---- */

START_TEST(without_a_comm) {
    ct_context *c = ct_context_new((ct_context_opts){.seed = 7, .threads = 1});
    const plan p = {.ranks = 1, .threads = 1, .micro_batches = 4, .shares = 2, .rule = ADAM};
    model m = model_new(c);
    ct_optim *optim = model_optim(&m, &p);
    ct_dist *dist = ct_dist_new(optim, NULL, model_dist(&p));
    double loss, values[] = {1, -0.0, 3};
    const ct_rng before = ct_rng_get(c);
    for (int step = 0; step < STEPS; step++) ck_assert(model_step(&m, dist, &p, &loss));
    ck_assert(!memcmp(&before, &(ct_rng){ct_rng_get(c).seed, ct_rng_get(c).stream}, sizeof before));
    ck_assert_int_eq(ct_dist_steps(dist), STEPS);
    ck_assert(ct_dist_sum(dist, values, 3) && values[0] == 1 && signbit(values[1]) &&
              values[2] == 3);
    ck_assert(ct_dist_sum(dist, NULL, 0));
    const ct_dist_traffic sent = ct_dist_sent(dist);
    ck_assert(!sent.gradients && !sent.parameters && !sent.other);
    ck_assert_ptr_nonnull(ct_grad(m.big)); /* the mean, as without a ct_dist */
    run_plan(&p, &first);
    ck_assert(first.out[0].hash == model_hash(m.root));

    ck_assert(!ct_dist_new(optim, NULL, (ct_dist_opts){0}));
    ck_assert_ptr_nonnull(strstr(ct_error_message(c), "has a ct_dist already"));
    ct_error_clear(c);
    ck_assert(!ct_dist_next(dist, NULL) && ct_error(c) == CT_ERR_ARGUMENT);
    ct_error_clear(c);
    ct_optim_free(optim);
    int64_t i;
    ck_assert(!ct_dist_next(dist, &i) && ct_error(c) == CT_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(ct_error_message(c), "the ct_dist has ended"));
    ct_error_clear(c);
    ck_assert(!ct_dist_step(dist) && ct_error(c) == CT_ERR_ARGUMENT);
    ct_error_clear(c);
    ck_assert(ct_dist_steps(dist) == -1 && ct_dist_steps(NULL) == -1);
    ct_error_clear(c);
    ck_assert(!ct_dist_step(NULL) && !ct_dist_next(NULL, &i) && !ct_dist_sum(NULL, values, 1));
    ck_assert(!ct_dist_sent(NULL).other && ct_comm_rank(NULL) == 0 && ct_comm_size(NULL) == 1);
    ck_assert(!ct_comm_data(NULL));
    ct_comm_close(NULL);
    ct_context_free(c);
}
END_TEST

START_TEST(options_are_checked) {
    const struct {
        ct_dist_opts opts;
        const char *says;
    } wrong[] = {
        {{.shares = 3}, "shares is 3, must be a power of two"},
        {{.shares = -2}, "shares is -2"},
        {{.shares = 4, .micro_batches = 6}, "micro_batches is 6, must be a multiple of shares, 4"},
        {{.micro_batches = -1}, "micro_batches is -1"},
        {{.micro_batches = 1 << 19}, "at most 262144"},
        {{.bucket_bytes = -1}, "bucket_bytes is -1"},
        {{.timeout = -1}, "timeout is -1"},
        {{.timeout = (double)NAN}, "timeout is"},
    };
    ct_context *c = ct_context_new((ct_context_opts){.seed = 7, .threads = 1});
    model m = model_new(c);
    ct_optim *optim = model_optim(&m, &(plan){.rule = SGD});
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        ck_assert(!ct_dist_new(optim, NULL, wrong[k].opts));
        ck_assert_msg(ct_error(c) == CT_ERR_ARGUMENT &&
                          strstr(ct_error_message(c), wrong[k].says) != NULL,
                      "%s", ct_error_message(c));
        ct_error_clear(c);
    }
    ct_dist *dist = ct_dist_new(optim, NULL, (ct_dist_opts){0});
    int64_t i = -1;
    ck_assert(ct_dist_next(dist, &i) && i == 0 && !ct_dist_step(dist)); /* too early */
    ck_assert_ptr_nonnull(strstr(ct_error_message(c), "dist_step: 1 of 1 micro-batches"));
    ct_error_clear(c);
    ck_assert(ct_dist_next(dist, &i) && !ct_dist_next(dist, &i) && !ct_dist_next(dist, &i));
    const uint64_t before = model_hash(m.root);
    ck_assert(ct_dist_step(dist) && model_hash(m.root) == before); /* no gradient: nothing to do */
    ct_context_free(c);
}
END_TEST

/* ---- what it begins with ---- */

/* Each rank has its own parameters, buffers, states and generator. */
static void begin_apart(ct_context *c, ct_comm *comm, int rank, void *arg) {
    const plan *p = arg;
    double loss;
    ct_seed(c, 100 + (uint64_t)rank);
    model m = model_new(c);
    ct_optim *optim = model_optim(&m, p);
    ct_tensor *count = ct_module_get(m.root, "count");
    ct_copy_into(count, ct_full(c, CT_I64, CT_SCALAR, 5 + rank));
    ct_backward(model_loss(&m, 3 * rank, false)); /* the same parameters on all */
    ct_optim_step(optim);
    ct_dist *dist = ct_dist_new(optim, comm, model_dist(p));
    first.out[rank].skipped = (int64_t)ct_rng_get(c).stream;
    for (int step = 0; step < 2; step++) model_step(&m, dist, p, &loss);
    first.out[rank].hash = model_hash(m.root) + (uint64_t)ct_item(ct_sum(count, CT_ALL, false));
    first.out[rank].steps = ct_dist_steps(dist);
}

START_TEST(begins_as_rank_0) {
    for (rule r = MOMENTUM; r <= ADAMW; r++) {
        plan p = {.shares = 4, .micro_batches = 4, .rule = r, .bucket_bytes = 10000};
        uint64_t want = 0;
        int64_t stream = 0;
        for (p.ranks = 1; p.ranks <= 4; p.ranks *= 2) {
            thread_run(p.ranks, (thread_world_opts){0}, (ct_context_opts){.threads = 1},
                       begin_apart, &p);
            if (p.ranks == 1) want = first.out[0].hash, stream = first.out[0].skipped;
            for (int rank = 0; rank < p.ranks; rank++) {
                ck_assert(first.out[rank].steps == 2 && first.out[rank].hash == want);
                ck_assert_int_eq(first.out[rank].skipped, stream);
            }
        }
    }
}
END_TEST

/* ---- several ranks: three of them are refused, what is sent, states, and another ct_dist ---- */

static struct {
    int64_t elements[MOST_RANKS][2]; /* elements of m and of v */
    int64_t bytes;                   /* bytes of gradients */
    double sum[MOST_RANKS][2];
    bool ok[MOST_RANKS];
} seen;

static void look(ct_context *c, ct_comm *comm, int rank, void *arg) {
    const plan *p = arg;
    model m = model_new(c);
    ct_optim *optim = model_optim(&m, p);
    ct_dist *dist = ct_dist_new(optim, comm, model_dist(p));
    double loss;
    seen.ok[rank] = model_step(&m, dist, p, &loss);
    int64_t bytes = 0;
    for (int64_t i = 0; i < optim->count; i++) {
        for (int k = 0; k < 2 && optim->items[i].state[k]; k++)
            seen.elements[rank][k] += ct_numel(optim->items[i].state[k]);
        bytes += ct_numel(optim->items[i].param) * (ct_dtype_of(optim->items[i].param) ? 8 : 4);
    }
    if (rank == 0) seen.bytes = bytes;
    first.out[rank].sent = ct_dist_sent(dist);
    /* in order of the ranks: 1e16 + 1 + 1 ... - 1e16 loses the ones */
    double values[2] = {rank == 0 ? 1e16 : rank == p->ranks - 1 ? -1e16 : 1, rank};
    seen.ok[rank] &= ct_dist_sum(dist, values, 2);
    memcpy(seen.sum[rank], values, sizeof values);
    /* another one, when this one has ended on all */
    ct_optim_free(optim);
    optim = model_optim(&m, p);
    dist = ct_dist_new(optim, comm, model_dist(p));
    seen.ok[rank] &= model_step(&m, dist, p, &loss) && !ct_error(c);
}

START_TEST(several_ranks) {
    plan p = {.threads = 1, .shares = 8, .micro_batches = 8, .rule = ADAM};
    for (p.ranks = 2; p.ranks <= 8; p.ranks *= 2) {
        memset(&seen, 0, sizeof seen);
        thread_run(p.ranks, (thread_world_opts){0}, (ct_context_opts){.seed = 7, .threads = 1},
                   look, &p);
        int64_t gradients = 0, parameters = 0, elements[2] = {0};
        for (int r = 0; r < p.ranks; r++) {
            const ct_dist_traffic *sent = &first.out[r].sent;
            ck_assert(seen.ok[r]);
            gradients += sent->gradients, parameters += sent->parameters;
            for (int k = 0; k < 2; k++) elements[k] += seen.elements[r][k];
            ck_assert(sent->other > 0 && sent->other < 20000);
            ck_assert_int_lt(seen.elements[r][0], 300 * 131 + 1500);
            ck_assert(seen.sum[r][0] == 0 && seen.sum[r][1] == p.ranks * (p.ranks - 1) / 2);
        }
        ck_assert(gradients == (p.ranks - 1) * seen.bytes && parameters == gradients);
        /* all that has had a gradient: not `unused` and `empty` */
        ck_assert(elements[0] == elements[1] && elements[0] == 300 * 131 + 420);
    }
}
END_TEST

static void three(ct_context *c, ct_comm *comm, int rank, void *arg) {
    model m = model_new(c);
    seen.ok[rank] = !ct_dist_new(model_optim(&m, arg), comm, (ct_dist_opts){0}) &&
                    strstr(ct_error_message(c), "3 ranks, their number must be a power of two");
}

static ct_transfer_state never(ct_comm *comm, ct_transfer *t) {
    return (void)comm, (void)t, CT_TRANSFER_PENDING;
}

START_TEST(comms_are_checked) {
    thread_run(3, (thread_world_opts){0}, (ct_context_opts){.threads = 1}, three,
               &(plan){.rule = SGD});
    ck_assert(seen.ok[0] && seen.ok[1] && seen.ok[2]);
    thread_world *world = thread_world_new(2, (thread_world_opts){0});
    ct_context *c = ct_context_new((ct_context_opts){.threads = 1});
    const ct_comm_engine half = {.name = "half", .test = never};
    ck_assert(!ct_comm_new(c, &half, 0, 1, NULL) && ct_error(c) == CT_ERR_ARGUMENT);
    ct_error_clear(c);
    ck_assert(!ct_comm_new(c, NULL, 0, 1, NULL) && ct_error(c) == CT_ERR_ARGUMENT);
    ct_error_clear(c);
    ck_assert(!thread_comm_new(world, c, -2) && ct_error(c) == CT_ERR_ARGUMENT);
    ck_assert_str_eq(ct_error_message(c), "comm: rank -2 of 2");
    ct_error_clear(c);
    ct_comm *comm = thread_comm_new(world, c, 1);
    ck_assert(ct_comm_rank(comm) == 1 && ct_comm_size(comm) == 2 && ct_comm_data(comm));
    ct_comm_close(comm);
    ct_comm_close(comm);
    ck_assert(!ct_comm_data(comm) && ct_error(c) == CT_ERR_ARGUMENT);
    ct_error_clear(c);
    ck_assert(!ct_dist_new(NULL, comm, (ct_dist_opts){0}) && ct_error(c) == CT_ERR_ARGUMENT);
    ct_context_free(c);
    thread_world_free(world);
}
END_TEST

/* ---- buckets that are sent in backward ---- */

typedef enum { PLAIN, RETAINED, HIDING, LATER_GRAPH } way;
static int64_t staged[MOST_RANKS], buckets;

static ct_tensor *same_forward(ct_call *call) { return ct_scale(call->in[0], 1); }
static bool same_backward(const ct_call *call, ct_tensor *const *g, ct_tensor **grad) {
    (void)call;
    return (grad[0] = ct_scale(g[0], 1)) != NULL;
}
static const ct_op hiding = {.name = "hiding",
                             .forward = same_forward,
                             .backward = same_backward,
                             .flags = CTI_OP_HIDES_LEAVES};

static void backward_in(ct_context *c, ct_comm *comm, int rank, void *arg) {
    const plan p = {.threads = 1, .shares = 4, .micro_batches = 4, .rule = ADAMW};
    const way w = *(const way *)arg;
    model m = model_new(c);
    ct_dist *dist = ct_dist_new(model_optim(&m, &p), comm,
                                (ct_dist_opts){.shares = 4, .bucket_bytes = 500, .timeout = 60});
    for (int step = 0; step < STEPS; step++) {
        for (int64_t i; ct_dist_next(dist, &i);) {
            ct_scope scope = ct_scope_open(c);
            ct_tensor *loss = model_loss(&m, i, false),
                      *more = w == LATER_GRAPH ? ct_sum(m.bias, CT_ALL, false) : NULL;
            if (w == HIDING) loss = ct_apply(&hiding, &loss, 1, NULL);
            ct_backward_with(&loss, NULL, 1, (ct_backward_opts){.retain_graph = w == RETAINED});
            staged[rank] = dist->staged;
            if (more) ct_backward(ct_scale(more, 0)); /* it was there before: nothing is late */
            ct_scope_close(scope);
        }
        ct_dist_step(dist);
    }
    if (rank == 0) buckets = dist->buckets;
    first.out[rank].hash = model_hash(m.root);
    first.out[rank].steps = ct_dist_steps(dist);
}

START_TEST(sent_early) {
    uint64_t want = 0;
    for (way w = PLAIN; w <= LATER_GRAPH; w++) {
        thread_run(4, (thread_world_opts){0}, (ct_context_opts){.seed = 7, .threads = 1},
                   backward_in, &w);
        if (w == PLAIN) want = first.out[0].hash;
        for (int r = 0; r < 4; r++) {
            ck_assert(first.out[r].hash == want && first.out[r].steps == STEPS);
            if (w == PLAIN) ck_assert(buckets > 5 && staged[r] == buckets);
            else if (w == LATER_GRAPH) ck_assert(staged[r] > 0 && staged[r] < buckets);
            else ck_assert_int_eq(staged[r], 0);
        }
    }
}
END_TEST

/* ---- parameters that ranks step as a whole ---- */

static int64_t stepped[MOST_RANKS];
static bool counts_steps(const ct_optim_item *p, void *user) {
    ++*(int64_t *)user;
    return ct_add_into(p->param, p->grad, -1);
}
enum { MATRICES = 32 };
static void step_matrices(ct_context *c, ct_comm *comm, int rank, void *arg) {
    const ct_optim_rule own = {.name = "Whole", .step = counts_steps};
    ct_module *m = ct_module_new(c, "M");
    ct_tensor *sum = NULL;
    (void)arg;
    stepped[rank] = 0;
    for (int k = 0; k < MATRICES; k++) {
        char name[8];
        snprintf(name, sizeof name, "w%d", k);
        model_param(c, m, name, CT_F32, CT_SHAPE(5, 3 + k % 2));
    }
    ct_optim *optim = ct_optim_new(m, &own, (ct_optim_opts){.user = &stepped[rank]});
    ct_dist *dist = ct_dist_new(optim, comm, (ct_dist_opts){.bucket_bytes = 1, .timeout = 60});
    for (int64_t i; ct_dist_next(dist, &i);) {
        for (ct_param p = {0}; ct_module_next(m, &p);) {
            ct_tensor *more = ct_sum(p.tensor, CT_ALL, false);
            sum = sum ? ct_add(sum, more) : more;
        }
        ct_backward(sum);
    }
    seen.ok[rank] = ct_dist_step(dist);
}

/* Every rank steps as many. */
START_TEST(whole_parameters_are_shared) {
    for (int ranks = 2; ranks <= MOST_RANKS; ranks *= 2) {
        memset(&seen, 0, sizeof seen);
        thread_run(ranks, (thread_world_opts){0}, (ct_context_opts){.seed = 7, .threads = 1},
                   step_matrices, NULL);
        for (int r = 0; r < ranks; r++) {
            ck_assert(seen.ok[r]);
            ck_assert_int_eq(stepped[r], MATRICES / ranks);
        }
    }
}
END_TEST

int main(void) {
    return run_tests("dist", NULL, NULL,
                     TESTS(LOOP(same_bits, 16), LOOP(as_by_hand, 7), TEST(without_a_comm),
                           TEST(options_are_checked), TEST(begins_as_rank_0), TEST(several_ranks),
                           TEST(comms_are_checked), TEST(sent_early),
                           TEST(whole_parameters_are_shared)));
}
