/* ct_dist with ranks that are threads: the same bits for any number of ranks and threads, and those
 * of an ordinary loop. */
#include "dist_model.h"

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
    };
    sweep(plans[_i]);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("dist");
    TCase *tcase = tcase_create("dist");
    suite_add_tcase(suite, tcase);
    tcase_add_loop_test(tcase, same_bits, 0, 8);
    return run_suite(suite);
}
