/* Request number n for memory fails on one rank, for every n, while it makes a ct_dist, trains,
 * adds numbers, saves or loads: then all ranks have the error, none has changed anything, and after
 * ct_error_clear all go on to the same bits as without it. */
#include "tests/support/memory_faults.h"

#include "dist_model.h"
#include "tests/support/fault_sweep.h"
#include "tests/support/files.h"
#include "tests/support/refused.h"

/* ---- a run of which one phase fails ---- */

typedef enum { NONE, NEW, STEP, SECOND_STEP, SUM, SAVE, LOAD, PHASES } phase;

static struct {
    phase phase;
    bool files; /* it saves and loads */
    int64_t at;
    int bad;
    bool reached;            /* the fault, by the bad rank, which is the only one that writes it */
    bool failed[MOST_RANKS]; /* the phase */
    uint64_t hash[MOST_RANKS];
    char wrong[MOST_RANKS][1200]; /* "" if all is well */
} run;

typedef struct {
    ct_context *c;
    int rank;
    bool done; /* the result of the last try */
} attempt;

static void complain(int rank, const char *says, const char *more) {
    if (!*run.wrong[rank]) snprintf(run.wrong[rank], sizeof run.wrong[0], "%s: %s", says, more);
}

/* Before what is to fail, and behind it. Each rank is a thread, and has a fault of its own. */
static void arm(const attempt *a, phase p) {
    fault_arm(FAULT_TAKE, p == run.phase && a->rank == run.bad ? run.at : 0);
}
static bool fails(attempt *a, phase p, bool done) {
    if (fault.struck) run.reached = true;
    fault_disarm();
    if (done == (ct_error(a->c) != CT_OK)) complain(a->rank, "a result without its error", "");
    if (done) return false;
    run.failed[a->rank] = true;
    if (p != run.phase) complain(a->rank, "an error without a fault", ct_error_message(a->c));
    if (ct_error(a->c) != CT_ERR_MEMORY) complain(a->rank, "not", ct_error_message(a->c));
    ct_error_clear(a->c);
    return true;
}

static void train(ct_context *c, ct_comm *comm, int rank, void *arg) {
    attempt a = {.c = c, .rank = rank};
    const plan *p = arg;
    char path[200];
    double loss, values[20] = {1, rank};
    snprintf(path, sizeof path, "%s/checkpoint", folder);
    c->pool.plain = false; /* the wrappers see every request then */
    model m = model_new(c);
    ct_optim *optim = model_optim(&m, p);
    const int64_t live = ct_memory(c).live;
    arm(&a, NEW);
    ct_dist *dist = ct_dist_new(optim, comm, model_dist(p));
    if (fails(&a, NEW, dist)) {
        if (ct_memory(c).live != live) complain(rank, "memory is left of a ct_dist", "");
        dist = ct_dist_new(optim, comm, model_dist(p));
    }
    for (phase s = STEP; s <= SECOND_STEP; s++) {
        const uint64_t before = model_hash(m.root);
        arm(&a, s);
        if (!fails(&a, s, model_step(&m, dist, p, &loss))) continue;
        const bool in_sum = ct_dist_steps(dist) == (int64_t)(s - STEP + 1);
        if (in_sum != (model_hash(m.root) != before)) complain(rank, "the step was half done", "");
        if (!in_sum && !model_step(&m, dist, p, &loss))
            complain(rank, "afterwards", ct_error_message(c));
    }
    arm(&a, SUM);
    if (fails(&a, SUM, ct_dist_sum(dist, values, 20)) && values[0] != 1)
        complain(rank, "values have changed", "");
    if (!run.files) {
        if (!model_step(&m, dist, p, &loss)) complain(rank, "a third step", ct_error_message(c));
        run.hash[rank] = model_hash(m.root);
        return;
    }
    ct_checkpoint k = {.module = m.root, .optim = optim, .group = ct_dist_group(dist), .step = 5};
    arm(&a, SAVE);
    if (fails(&a, SAVE, ct_checkpoint_save(path, &k)) && !ct_checkpoint_save(path, &k))
        complain(rank, "afterwards", ct_error_message(c));
    if (!model_step(&m, dist, p, &loss)) complain(rank, "a third step", ct_error_message(c));
    const uint64_t before = model_hash(m.root);
    k.step = 9;
    arm(&a, LOAD);
    if (fails(&a, LOAD, ct_checkpoint_load(path, &k))) {
        if (model_hash(m.root) != before || k.step != 9 || ct_dist_steps(dist) != 3)
            complain(rank, "half loaded", "");
        if (!ct_checkpoint_load(path, &k)) complain(rank, "afterwards", ct_error_message(c));
    }
    if (!model_step(&m, dist, p, &loss)) complain(rank, "a step", ct_error_message(c));
    run.hash[rank] = model_hash(m.root);
}

static void run_phase(const plan *p, phase at_phase, int64_t at, int bad, bool files) {
    memset(&run, 0, sizeof run);
    run.files = files;
    run.phase = at_phase, run.at = at, run.bad = bad;
    thread_run(p->ranks, (thread_world_opts){0}, (ct_context_opts){.seed = 7, .threads = 1}, train,
               (void *)p);
}

typedef struct {
    const plan *plan;
    phase phase;
    int bad; /* the rank that has the fault */
    uint64_t want;
} world;

static bool run_world(void *arg) {
    const world *w = arg;
    run_phase(w->plan, w->phase, fault.at, w->bad, w->phase >= SAVE);
    if (run.reached) fault.struck = "cti_take";
    return !run.failed[0];
}

static void check_world(const fault_end *end, void *arg) {
    const world *w = arg;
    for (int r = 0; r < w->plan->ranks; r++) {
        ck_assert_msg(!*run.wrong[r], "phase %d, request %d, rank %d: %s", (int)w->phase,
                      (int)end->at, r, run.wrong[r]);
        ck_assert_msg(run.failed[r] == run.failed[0], "phase %d, request %d: only one rank",
                      (int)w->phase, (int)end->at);
        ck_assert_msg(run.hash[r] == w->want, "phase %d, request %d: other parameters",
                      (int)w->phase, (int)end->at);
    }
}

START_TEST(memory_runs_out) {
    const plan p = {.ranks = 2,
                    .threads = 1,
                    .shares = 4,
                    .micro_batches = 4,
                    .rule = ADAMW,
                    .bucket_bytes = 100000,
                    .clip = 1,
                    .groups = true};
    world w = {.plan = &p, .phase = (phase)(NEW + _i / 2), .bad = _i % 2};
    run_phase(&p, NONE, 0, 0, w.phase >= SAVE);
    ck_assert_msg(!*run.wrong[0] && !*run.wrong[1], "%s%s", run.wrong[0], run.wrong[1]);
    w.want = run.hash[0];
    fault_sweep(&(fault_case){.name = "a rank",
                              .kind = FAULT_TAKE,
                              .arg = &w,
                              .run = run_world,
                              .end = check_world,
                              /* a later rank needs no memory for a save */
                              .least = w.phase == SUM || w.phase == SAVE ? 1 : 5,
                              .sparse = w.phase < SAVE ? 8 : 5});
}
END_TEST

/* ---- an error that the program clears within a step ---- */

static struct {
    ct_optim *optim;
    ct_module *module;
} freed;
static void free_all(void *data, ct_status status, const char *message) {
    (void)data, (void)status, (void)message;
    ct_optim_free(freed.optim);
    ct_module_free(freed.module);
}
static void micro_batch(const model *m, int64_t i) {
    ct_scope scope = ct_scope_open(ct_context_of(m->odd));
    ct_backward(model_loss(m, i, false));
    ct_scope_close(scope);
}

/* ct_dist_next has no memory to add a gradient to a sum. The step fails, also if the program clears
 * the error and goes on, and if on_error frees all. The next step is whole again. */
START_TEST(a_cleared_error) {
    const plan p = {.shares = 4, .micro_batches = 4, .rule = ADAMW};
    bool struck = true;
    for (int64_t at = 1; struck; at += at < 4 ? 1 : 7) {
        ct_context *c = new_with((ct_context_opts){.threads = 1, .on_error = _i ? free_all : NULL});
        model m = model_new(c);
        ct_optim *optim = model_optim(&m, &p);
        ct_dist *dist = ct_dist_new(optim, NULL, model_dist(&p));
        ck_assert(dist);
        freed.optim = optim, freed.module = m.root;
        int64_t i;
        double loss;
        ck_assert(ct_dist_next(dist, &i));
        micro_batch(&m, i);
        fault_arm(FAULT_TAKE, at);
        ct_dist_next(dist, &i);
        struck = fault.struck;
        fault_disarm();
        ck_assert_int_eq(ct_error(c), struck ? CT_ERR_MEMORY : CT_OK);
        ct_error_clear(c);
        do micro_batch(&m, 1);
        while (ct_dist_next(dist, &i));
        freed.optim = NULL, freed.module = NULL;
        ck_assert(ct_dist_step(dist) != struck);
        if (struck) refused_in(c, false, "ct_dist_step", CT_ERR_ARGUMENT, "has failed", "lack");
        for (int step = 0; step < 2; step++)
            ck_assert_msg(model_step(&m, dist, &p, &loss), "%s", ct_error_message(c));
        ct_context_free(c);
    }
}
END_TEST

int main(void) {
    return run_tests("dist_faults", setup, teardown,
                     TESTS(LOOP(memory_runs_out, 2 * (PHASES - NEW)), LOOP(a_cleared_error, 2)));
}
