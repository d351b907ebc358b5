/* Functions of the program that free or change what a ct_dist is using: the backward of an op, and
 * on_error. No call crashes, each either succeeds on both ranks or is an error on both, and no rank
 * hangs. */
#include "dist_model.h"

enum { RANKS = 2 };
static const plan hostile_plan = {
    .threads = 1, .shares = 2, .micro_batches = 4, .rule = ADAMW, .bucket_bytes = 300, .clip = 1};

static struct {
    int how, rank; /* the hostile act, and its rank */
    bool acts;
    ct_context *context;
    ct_comm *comm;
    ct_optim *optim;
    ct_dist *dist;
    ct_module *root, *layer;
    bool ok[RANKS]; /* the results of the call in which it is done */
    char message[RANKS][400];
} hostile;

static ct_dist *dist_of(ct_context *c, ct_comm *comm, int rank, model *m) {
    *m = model_new(c);
    ct_optim *optim = model_optim(m, &hostile_plan);
    if (rank == hostile.rank) {
        hostile.context = c, hostile.comm = comm, hostile.optim = optim;
        hostile.root = m->root, hostile.layer = m->layer;
    }
    return ct_dist_new(optim, comm, model_dist(&hostile_plan));
}

static void record(ct_context *c, int rank, bool ok) {
    hostile.ok[rank] = ok;
    snprintf(hostile.message[rank], sizeof hostile.message[0], "%s", ct_error_message(c));
    ct_error_clear(c);
}

static void run_hostile(thread_rank *fn, ct_error_fn on_error, int arg) {
    hostile.acts = false;
    thread_run(RANKS, (thread_world_opts){0},
               (ct_context_opts){.seed = 7, .threads = 1, .on_error = on_error}, fn, &arg);
    ck_assert_msg(hostile.ok[0] == hostile.ok[1], "how %d, %d, rank %d: %s / %s", hostile.how, arg,
                  hostile.rank, hostile.message[0], hostile.message[1]);
    for (int r = 0; r < RANKS; r++)
        ck_assert_msg(hostile.ok[r] == !*hostile.message[r], "how %d, %d, rank %d: %s", hostile.how,
                      arg, r, hostile.message[r]);
}

/* ---- in a backward ---- */

typedef enum {
    FREES_OPTIM,
    FREES_MODULE,
    CLOSES,
    CONVERTS,
    FREEZES,
    NEXT,
    ZEROES,
    FREES_CHILD,
    UNWATCHES,
    ACTS
} act;

static void act_now(void) {
    int64_t i;
    switch ((act)hostile.how) {
    case FREES_OPTIM: ct_optim_free(hostile.optim); break;
    case FREES_MODULE: ct_module_free(hostile.root); break;
    case CLOSES: ct_comm_close(hostile.comm); break;
    case CONVERTS: ct_module_to(hostile.layer, CT_BF16); break;
    case FREEZES:
        for (ct_param p = {0}; ct_module_next(hostile.root, &p);)
            ct_set_requires_grad(p.tensor, false);
        break;
    case NEXT: ct_dist_next(hostile.dist, &i); break;
    case ZEROES: ct_optim_zero_grad(hostile.optim); break;
    case FREES_CHILD: ct_module_free(hostile.layer); break;
    case UNWATCHES: ct_unwatch(hostile.context, hostile.dist); break;
    case ACTS: break;
    }
}

static ct_tensor *acting_forward(ct_call *call) { return ct_scale(call->in[0], 1); }
static bool acting_backward(const ct_call *call, ct_tensor *const *g, ct_tensor **grad) {
    if (hostile.acts && ct_context_of(g[0]) == hostile.context) {
        hostile.acts = false;
        act_now();
    }
    (void)call;
    return (grad[0] = ct_scale(g[0], 1)) != NULL;
}
static const ct_op acting = {
    .name = "acting", .forward = acting_forward, .backward = acting_backward};

static void act_in_backward(ct_context *c, ct_comm *comm, int rank, void *arg) {
    const int at = *(const int *)arg; /* the micro-batch in which it is done */
    model m;
    double loss;
    ct_dist *dist = dist_of(c, comm, rank, &m);
    if (rank == hostile.rank) hostile.dist = dist;
    ck_assert(model_step(&m, dist, &hostile_plan, &loss));
    int n = 0;
    for (int64_t i; ct_dist_next(dist, &i);) {
        ct_scope scope = ct_scope_open(c);
        ct_tensor *more = ct_sum(ct_apply(&acting, &m.bias, 1, NULL), CT_ALL, false);
        if (rank == hostile.rank) hostile.acts = n == at;
        ct_backward(ct_add(model_loss(&m, i, false), more));
        ct_scope_close(scope);
        n++;
    }
    record(c, rank, ct_dist_step(dist));
}

START_TEST(in_a_backward) {
    hostile.how = _i;
    for (int at = 0; at < 2; at++)
        for (hostile.rank = 0; hostile.rank < RANKS; hostile.rank++) {
            run_hostile(act_in_backward, NULL, at);
            if (_i < FREES_CHILD) ck_assert(!hostile.ok[0]);
        }
}
END_TEST

/* ---- in on_error ---- */

typedef enum { REPORT_FREES_OPTIM, REPORT_FREES_MODULE, REPORT_CLOSES, CALLS, REPORTS } report;
typedef enum { IN_NEW, IN_STEP, IN_SUM, IN_SAVE, IN_LOAD, PLACES } place;

static _Thread_local int own_rank;
static void report_error(void *data, ct_status status, const char *message) {
    double one = 1;
    int64_t i;
    (void)data, (void)status, (void)message;
    if (!hostile.acts || own_rank != hostile.rank) return;
    switch ((report)hostile.how) {
    case REPORT_FREES_OPTIM: ct_optim_free(hostile.optim); break;
    case REPORT_FREES_MODULE: ct_module_free(hostile.root); break;
    case REPORT_CLOSES: ct_comm_close(hostile.comm); break;
    case CALLS:
        if (!hostile.dist) break;
        ct_dist_next(hostile.dist, &i), ct_dist_step(hostile.dist);
        ct_dist_sum(hostile.dist, &one, 1);
        break;
    case REPORTS: break;
    }
}

static void act_in_report(ct_context *c, ct_comm *comm, int rank, void *arg) {
    const place where = (place) * (const int *)arg;
    double loss, values[3] = {1};
    model m = model_new(c);
    ct_optim *optim = model_optim(&m, &hostile_plan);
    const bool acts = rank == hostile.rank;
    own_rank = rank;
    if (acts) {
        hostile.comm = comm, hostile.optim = optim, hostile.root = m.root, hostile.dist = NULL;
        hostile.acts = where == IN_NEW;
    } else if (where == IN_NEW) {
        ct_optim_set_lr(optim, 0.7);
    }
    ct_dist *dist = ct_dist_new(optim, comm, model_dist(&hostile_plan));
    if (acts) hostile.dist = dist;
    if (where != IN_NEW) {
        ck_assert(model_step(&m, dist, &hostile_plan, &loss));
        if (acts) hostile.acts = true;
        else if (where == IN_STEP) ct_optim_set_lr(optim, 0.7);
    }
    ct_checkpoint k = {
        .module = m.root, .optim = optim, .group = ct_dist_group(dist), .step = rank};
    bool ok = false;
    if (where == IN_NEW) ok = dist;
    else if (where == IN_STEP) ok = model_step(&m, dist, &hostile_plan, &loss);
    else if (where == IN_SUM) ok = ct_dist_sum(dist, values, acts ? 3 : 2);
    else if (where == IN_SAVE) ok = ct_checkpoint_save("/no/such/folder", &k);
    else ok = ct_checkpoint_load("/no/such/file", &k);
    record(c, rank, ok);
    if (acts) hostile.acts = false;
    if (!dist) return;
    ct_dist_sum(dist, values, 1); /* an error of both, or of none */
    ct_error_clear(c);
}

START_TEST(in_on_error) {
    hostile.how = _i;
    for (int where = 0; where < PLACES; where++)
        for (hostile.rank = 0; hostile.rank < RANKS; hostile.rank++) {
            run_hostile(act_in_report, report_error, where);
            ck_assert(!hostile.ok[0]);
        }
}
END_TEST

int main(void) {
    return run_tests("dist_hostile", NULL, NULL,
                     TESTS(LOOP(in_a_backward, ACTS), LOOP(in_on_error, REPORTS)));
}
