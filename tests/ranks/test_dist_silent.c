/* One rank no longer answers, from any place of a step on. All others must name it, also those that
 * wait only for ranks that wait for it. */
#include "dist_model.h"

#include <time.h>

enum { RANKS = 8 };

static void rest(double seconds) {
    const time_t whole = (time_t)seconds;
    nanosleep(
        &(struct timespec){.tv_sec = whole, .tv_nsec = (long)((seconds - (double)whole) * 1e9)},
        NULL);
}

typedef struct {
    int silent, ranks, where; /* where: before the first step, in its batches, or in a sum */
    double timeout, last;     /* rank r comes r * last / ranks seconds late */
    char message[RANKS][1100];
} scene;

static void play(ct_context *c, ct_comm *comm, int rank, void *arg) {
    scene *s = arg;
    const plan p = {.shares = RANKS, .micro_batches = RANKS, .bucket_bytes = 20000};
    model m = model_new(c);
    ct_optim *optim = model_optim(&m, &p);
    ct_dist_opts opts = model_dist(&p);
    opts.timeout = s->timeout;
    const bool silent = rank == s->silent;
    const double away = 3 * s->timeout + s->last;
    double loss = 0, late = s->last * rank / s->ranks;
    if (silent && s->where == 0) rest(away);
    if (s->where == 0) rest(late);
    ct_dist *dist = ct_dist_new(optim, comm, opts);
    model_step(&m, dist, &p, &loss);
    if (s->where == 2) {
        if (silent) rest(away);
        rest(late);
        ct_dist_sum(dist, &loss, 1);
    } else if (s->where == 1) {
        rest(late);
        for (int64_t i; ct_dist_next(dist, &i);) ct_backward(model_loss(&m, i, false));
        if (silent) rest(away); /* gradients are sent already */
        ct_dist_step(dist);
    }
    snprintf(s->message[rank], sizeof s->message[rank], "%s", ct_error_message(c));
}

static void all_name(scene s) {
    static scene played;
    char says[80];
    played = s;
    thread_run(s.ranks, (thread_world_opts){.eager = s.silent % 2 ? 0 : 1 << 20},
               (ct_context_opts){.seed = 7, .threads = 1}, play, &played);
    snprintf(says, sizeof says, "rank %d has not answered for %g s", s.silent, s.timeout);
    for (int r = 0; r < s.ranks; r++)
        if (r != s.silent)
            ck_assert_msg(strstr(played.message[r], says) != NULL,
                          "rank %d of %d, where %d: \"%s\" is not in: %s", r, s.ranks, s.where,
                          says, played.message[r]);
}

START_TEST(all_name_it) {
    all_name((scene){.silent = 3 * _i % RANKS, .ranks = RANKS, .where = _i % 3, .timeout = 0.8});
}
END_TEST

/* Ranks begin to wait at different times, the last one long after the first. */
START_TEST(ranks_come_one_after_the_other) {
    all_name((scene){.silent = _i, .ranks = RANKS, .where = 2, .timeout = 1.2, .last = 0.8});
}
END_TEST

/* A step that takes nearly as long as the time-out, so that ranks listen to each other, is no
 * error, and later steps have the usual results. */
static void play_slowly(ct_context *c, ct_comm *comm, int rank, void *arg) {
    outcome *out = (outcome *)arg + rank;
    const plan p = {.shares = 4, .micro_batches = 4, .bucket_bytes = 20000, .rule = ADAMW};
    model m = model_new(c);
    ct_optim *optim = model_optim(&m, &p);
    ct_dist_opts opts = model_dist(&p);
    opts.timeout = 2;
    ct_dist *dist = ct_dist_new(optim, comm, opts);
    for (int step = 0; step < STEPS; step++) {
        if (rank == step) rest(0.6);
        model_step(&m, dist, &p, &out->loss);
    }
    out->hash = model_hash(m.root);
    snprintf(out->message, sizeof out->message, "%s", ct_error_message(c));
}
START_TEST(a_slow_rank_is_none) {
    static outcome out[4], alone;
    thread_run(1, (thread_world_opts){0}, (ct_context_opts){.seed = 7, .threads = 1}, play_slowly,
               &alone);
    thread_run(4, (thread_world_opts){0}, (ct_context_opts){.seed = 7, .threads = 1}, play_slowly,
               out);
    for (int r = 0; r < 4; r++) {
        ck_assert_str_eq(out[r].message, "");
        ck_assert(out[r].hash == alone.hash);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("dist_silent");
    TCase *tcase = tcase_create("dist_silent");
    suite_add_tcase(suite, tcase);
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, all_name_it, 0, 4);
    tcase_add_loop_test(tcase, ranks_come_one_after_the_other, 5, 7);
    tcase_add_test(tcase, a_slow_rank_is_none);
    return run_suite(suite);
}
