/* A rank that fails, leaves, or is lost: an error on all ranks, and the parameters of none change
 * before all agree. */
#include "dist_model.h"

static bool held[MOST_RANKS]; /* whether all that a rank checked was right */

/* ---- a rule that fails on one rank ---- */

static int failing_rank;
static bool fails_on_one(const ct_optim_item *p, void *user) {
    const int *rank = user;
    return (*rank != failing_rank || p->step < 2) && lion_step(p, NULL);
}

static char messages[MOST_RANKS][1100];
static void train_until_failure(ct_context *c, ct_comm *comm, int rank, void *arg) {
    const plan *p = arg;
    ct_optim_rule own = lion;
    double loss;
    own.step = fails_on_one;
    model m = model_new(c);
    ct_optim *optim = ct_optim_new(m.root, &own, (ct_optim_opts){.lr = 0.02, .user = &rank});
    ct_dist *dist = ct_dist_new(optim, comm, model_dist(p));
    held[rank] = model_step(&m, dist, p, &loss);
    const uint64_t before = model_hash(m.root);
    held[rank] &= !model_step(&m, dist, p, &loss) && model_hash(m.root) == before;
    snprintf(messages[rank], sizeof messages[rank], "%s", ct_error_message(c));
    ct_error_clear(c);
    held[rank] &= !model_step(&m, dist, p, &loss);
    ct_error_clear(c);
}

/* The rank leaves, which is an error on all, and no parameter has changed anywhere. */
START_TEST(a_rule_fails_on_one_rank) {
    const plan p = {.ranks = 2, .threads = 1, .shares = 2, .micro_batches = 2};
    for (failing_rank = 0; failing_rank < 2; failing_rank++) {
        memset(held, 0, sizeof held);
        thread_run(2, (thread_world_opts){0}, (ct_context_opts){.seed = 7, .threads = 1},
                   train_until_failure, (void *)&p);
        for (int r = 0; r < 2; r++) ck_assert_msg(held[r], "rank %d: %s", r, messages[r]);
        ck_assert_msg(strstr(messages[failing_rank], "its step returned false"), "%s",
                      messages[failing_rank]);
        ck_assert_msg(*messages[!failing_rank] && !strstr(messages[!failing_rank], "returned"),
                      "%s", messages[!failing_rank]);
    }
}
END_TEST

/* ---- a rule that closes the comm on one rank ---- */

typedef struct {
    int rank;
    ct_comm *comm;
} closer;

static bool closes_on_one(const ct_optim_item *p, void *user) {
    const closer *l = user;
    if (l->rank == failing_rank && p->step >= 2) ct_comm_close(l->comm);
    return lion_step(p, NULL);
}

static void train_until_closed(ct_context *c, ct_comm *comm, int rank, void *arg) {
    (void)arg;
    const plan p = {.ranks = 2, .threads = 1, .shares = 2, .micro_batches = 4, .bucket_bytes = 900};
    closer l = {.rank = rank, .comm = comm};
    ct_optim_rule own = lion;
    own.step = closes_on_one;
    model m = model_new(c);
    ct_optim *optim = ct_optim_new(m.root, &own, (ct_optim_opts){.lr = 0.02, .user = &l});
    ct_dist *dist = ct_dist_new(optim, comm, model_dist(&p));
    double loss;
    held[rank] = model_step(&m, dist, &p, &loss);
    const uint64_t before = model_hash(m.root);
    held[rank] &= !model_step(&m, dist, &p, &loss);
    snprintf(messages[rank], sizeof messages[rank], "%s", ct_error_message(c));
    ct_error_clear(c);
    held[rank] &= model_hash(m.root) == before;
    int64_t i;
    double one = 1;
    for (int call = 0; call < 3; call++) { /* each says so */
        const bool done = call == 0   ? ct_dist_next(dist, &i)
                          : call == 1 ? ct_dist_step(dist)
                                      : ct_dist_sum(dist, &one, 1);
        held[rank] &= !done && ct_error(c);
        ct_error_clear(c);
    }
    if (rank == failing_rank) ct_optim_free(optim);
    held[rank] &= ct_error(c) == CT_OK;
}

START_TEST(a_step_closes_the_comm_of_one_rank) {
    for (failing_rank = 0; failing_rank < 2; failing_rank++) {
        memset(held, 0, sizeof held);
        thread_run(2, (thread_world_opts){0}, (ct_context_opts){.seed = 7, .threads = 1},
                   train_until_closed, NULL);
        for (int r = 0; r < 2; r++) ck_assert_msg(held[r], "rank %d: %s", r, messages[r]);
        ck_assert_msg(strstr(messages[failing_rank], "the comm was closed by"), "%s",
                      messages[failing_rank]);
        ck_assert_msg(strstr(messages[!failing_rank], "has left the run"), "%s",
                      messages[!failing_rank]);
    }
}
END_TEST

/* ---- a backward that fails when a part of the gradients was taken ---- */

static bool failing_backward(const ct_call *call, ct_tensor *const *g, ct_tensor **grad) {
    (void)g, (void)grad;
    return ct_fail(ct_context_of(call->in[0]), CT_ERR_GRAD, "fails");
}
static ct_tensor *same_forward(ct_call *call) { return ct_scale(call->in[0], 1); }
static const ct_op fails_back = {
    .name = "fails_back", .forward = same_forward, .backward = failing_backward};

static void backward_again(ct_context *c, ct_comm *comm, int rank, void *arg) {
    const plan p = {.threads = 1, .shares = 2, .micro_batches = 2, .rule = ADAMW};
    const int fails = *(const int *)arg;
    model m = model_new(c);
    ct_dist *dist = ct_dist_new(model_optim(&m, &p), comm, model_dist(&p));
    double loss;
    for (int64_t i; ct_dist_next(dist, &i);) {
        ct_tensor *odd = m.odd;
        if (rank == fails) { /* the sum of bias is whole before odd's */
            ct_tensor *y = ct_sum(ct_apply(&fails_back, &odd, 1, NULL), CT_ALL, false);
            y = ct_add(y, ct_sum(m.bias, CT_ALL, false));
            held[rank] = !ct_backward(y);
            ct_error_clear(c);
        } else {
            held[rank] = true;
        }
        ct_backward(model_loss(&m, i, false)); /* bias would have the first gradient, too */
    }
    held[rank] &= !ct_dist_step(dist) &&
                  strstr(ct_error_message(c), "ct_dist_next or the last backward has failed");
    snprintf(messages[rank], sizeof messages[rank], "%s", ct_error_message(c));
    ct_error_clear(c);
    held[rank] &= model_step(&m, dist, &p, &loss);
}

START_TEST(a_backward_that_fails) {
    for (int fails = 0; fails < 2; fails++) {
        memset(held, 0, sizeof held);
        thread_run(2, (thread_world_opts){0}, (ct_context_opts){.seed = 7, .threads = 1},
                   backward_again, &fails);
        for (int r = 0; r < 2; r++) ck_assert_msg(held[r], "rank %d: %s", r, messages[r]);
    }
}
END_TEST

/* ---- a rank that is lost ---- */

/* For each n a rank loses its message number n, or is killed there. All ranks end, with an error
 * unless n is past the end. The ranks that end without an error have the same parameters. */
START_TEST(lost_anywhere) {
    static model_run run;
    const plan p = {.ranks = _i % 2 ? 4 : 2,
                    .threads = 1,
                    .shares = 4,
                    .micro_batches = 4,
                    .rule = ADAMW,
                    .bucket_bytes = 20000,
                    .clip = 1};
    int64_t failures = 0;
    bool failed = true;
    for (int64_t at = 1; failed; at += 1 + at / 8, failures++) {
        memset(&run, 0, sizeof run);
        run.plan = &p;
        thread_run(p.ranks,
                   (thread_world_opts){.fail_at = at, .fail_rank = p.ranks - 1, .dies = _i / 2},
                   (ct_context_opts){.seed = 7, .threads = 1}, run_rank, &run);
        failed = *run.out[p.ranks - 1].message;
        for (int r = 0; r < p.ranks; r++) {
            const outcome *out = &run.out[r];
            if (failed)
                ck_assert_msg(
                    strstr(out->message, "cannot be reached: the wire was cut") ||
                        strstr(out->message, " has left the run; this rank is in step ") ||
                        (!*out->message && out->steps == STEPS),
                    "message %d, rank %d: %s", (int)at, r, out->message);
            else ck_assert_msg(!*out->message, "%s", out->message);
        }
    }
    ck_assert_int_gt(failures, 20);
}
END_TEST

int main(void) {
    return run_tests("dist_failures", NULL, NULL,
                     TESTS(TEST(a_rule_fails_on_one_rank), TEST(a_step_closes_the_comm_of_one_rank),
                           TEST(a_backward_that_fails), LOOP(lost_anywhere, 4)));
}
