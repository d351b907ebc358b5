/* Engines that break the rules of ct_comm_engine: each mistake is an error, on every rank, and none
 * is a crash. */
#include "dist_model.h"

/* ---- what an engine calls of the library ---- */

enum { RANKS = 2 };
static struct {
    ct_context *context;
    ct_comm *comm;
    ct_optim *optim;
    ct_dist *dist;
    ct_module *module;
    const char *at; /* the function of the engine that does it; NULL: none does */
    void (*act)(void);
    int acted, starts;
    bool worked; /* a call that must be refused succeeded */
} bad;           /* the last rank, whose engine acts */

static void closes(void) { ct_comm_close(bad.comm); }
static void makes_another(void) { ct_dist_new(bad.optim, bad.comm, (ct_dist_opts){0}); }
static void steps(void) { ct_dist_step(bad.dist); }
static void asks_for_the_next(void) {
    int64_t i;
    bad.worked |= ct_dist_next(bad.dist, &i);
}
static void sums(void) {
    double one = 1;
    bad.worked |= ct_dist_sum(bad.dist, &one, 1) || one != 1;
}
static ct_checkpoint checkpoint(void) {
    return (ct_checkpoint){
        .module = bad.module, .optim = bad.optim, .group = ct_dist_group(bad.dist)};
}
static void saves(void) {
    ct_checkpoint all = checkpoint();
    bad.worked |= ct_checkpoint_save("/tmp/never", &all);
}
static void loads(void) {
    ct_checkpoint all = checkpoint();
    bad.worked |= ct_checkpoint_load("/tmp/never", &all);
}
static void frees_the_optimiser(void) { ct_optim_free(bad.optim); }
static void frees_the_module(void) { ct_module_free(bad.module); }
static void frees_the_context(void) { ct_context_free(bad.context); }

static const struct {
    void (*act)(void);
    const char *name;
} calls[] = {
    {closes, "ct_comm_close"},
    {makes_another, "dist_new"},
    {steps, "dist_step"},
    {asks_for_the_next, "dist_step"},
    {sums, "dist_sum"},
    {saves, "checkpoint_save"},
    {loads, "checkpoint_load"},
    {frees_the_optimiser, "ct_optim_free"},
    {frees_the_module, "ct_module_free"},
    {frees_the_context, "ct_context_free"},
};
static const char *const functions[] = {"start", "test", "cancel", "reason", "close"};
enum { CALLS = sizeof calls / sizeof *calls, FUNCTIONS = sizeof functions / sizeof *functions };

/* cancel, reason and close are called after a start that fails while others are pending. */
static bool act_within(ct_comm *comm, const char *function) {
    if (ct_comm_rank(comm) != RANKS - 1 || !bad.at) return true;
    if (!strcmp(function, bad.at)) {
        bad.acted++;
        bad.act();
    }
    const bool is_start = !strcmp(function, "start");
    bad.starts += is_start;
    return !is_start || bad.starts < 5 || !strcmp(bad.at, "start") || !strcmp(bad.at, "test");
}

static struct {
    ct_status status;
    bool first, stepped, later; /* whether each step, and the sum behind them, succeeded */
    ct_status after_all;
    uint64_t before, after;
    char message[1100];
} got[RANKS];

typedef struct {
    int call, function;
} misuse;

static void run_misuse(ct_context *c, ct_comm *comm, int rank, void *arg) {
    const misuse *m = arg;
    const plan p = {.shares = RANKS, .micro_batches = 4, .bucket_bytes = 1000, .rule = ADAMW};
    double loss, one = 1;
    model mod = model_new(c);
    ct_optim *optim = model_optim(&mod, &p);
    ct_dist *dist = ct_dist_new(optim, comm, model_dist(&p));
    got[rank].first = model_step(&mod, dist, &p, &loss);
    if (rank == RANKS - 1) {
        bad.context = c, bad.comm = comm, bad.optim = optim, bad.dist = dist, bad.module = mod.root;
        bad.act = calls[m->call].act;
        bad.at = functions[m->function];
    }
    got[rank].before = model_hash(mod.root);
    got[rank].stepped = model_step(&mod, dist, &p, &loss);
    got[rank].after = model_hash(mod.root);
    got[rank].status = ct_error(c);
    snprintf(got[rank].message, sizeof got[rank].message, "%s", ct_error_message(c));
    ct_error_clear(c);
    if (rank == RANKS - 1) bad.at = NULL;
    got[rank].later = ct_dist_sum(dist, &one, 1);
    got[rank].after_all = ct_error(c);
}

START_TEST(an_engine_calls_the_library) {
    misuse m = {_i / FUNCTIONS, _i % FUNCTIONS};
    char says[120];
    memset(&bad, 0, sizeof bad);
    thread_run(RANKS, (thread_world_opts){.within = act_within},
               (ct_context_opts){.seed = 7, .threads = 1}, run_misuse, &m);
    snprintf(says, sizeof says, "%s: called by a function of ", calls[m.call].name);
    ck_assert(bad.acted > 0 && !bad.worked);
    for (int r = 0; r < RANKS; r++) {
        ck_assert(got[r].first && got[r].after_all == CT_ERR_IO);
        ck_assert(!got[r].stepped && !got[r].later && got[r].before == got[r].after);
        const bool right =
            r == RANKS - 1
                ? got[r].status == CT_ERR_ARGUMENT && strstr(got[r].message, says)
                : got[r].status == CT_ERR_IO && strstr(got[r].message, "rank 1 has left the run");
        ck_assert_msg(right, "%s in %s, rank %d: %s", calls[m.call].name, functions[m.function], r,
                      got[r].message);
    }
}
END_TEST

/* ---- a transfer that was started, and fails because the engine has called the library ---- */

static struct {
    bool in_test;
    int pending, cancelled;
} misused;

static bool start_misused(ct_comm *comm, ct_transfer *t) {
    (void)t;
    misused.pending++;
    if (!misused.in_test) ct_comm_close(comm);
    return true;
}
static ct_transfer_state test_misused(ct_comm *comm, ct_transfer *t) {
    (void)t;
    ct_comm_close(comm);
    return CT_TRANSFER_PENDING;
}
static void cancel_misused(ct_comm *comm, ct_transfer *t) {
    (void)comm, (void)t;
    misused.cancelled++;
}
static const char *no_reason(ct_comm *comm) { return (void)comm, ""; }
static void no_close(ct_comm *comm, bool failed) { (void)comm, (void)failed; }

/* The engine gives its data back: each transfer is cancelled once. */
START_TEST(a_misused_transfer_is_cancelled) {
    static const ct_comm_engine engine = {"misused",      start_misused, test_misused,
                                          cancel_misused, no_reason,     no_close};
    ct_context *c = ct_context_new((ct_context_opts){.threads = 1});
    ct_module *module = ct_linear_new(c, (ct_linear_opts){.in_features = 2, .out_features = 2});
    memset(&misused, 0, sizeof misused);
    misused.in_test = _i;
    ct_comm *comm = ct_comm_new(c, &engine, 0, 2, NULL);
    ck_assert(!ct_dist_new(ct_sgd_new(module, (ct_sgd_opts){0}), comm, (ct_dist_opts){0}));
    ck_assert_int_eq(ct_error(c), CT_ERR_ARGUMENT);
    ck_assert(misused.pending > 0);
    ck_assert_int_eq(misused.cancelled, misused.pending);
    ct_error_clear(c);
    ct_context_free(c);
}
END_TEST

/* ---- results of an engine on one rank of two ---- */

typedef struct {
    ct_transfer_state state;
    bool starts, scribbles;
    const char *name, *reason;
} manner;

static bool start(ct_comm *comm, ct_transfer *t) {
    const manner *m = ct_comm_data(comm);
    if (m->scribbles) t->peer = 1 << 20, t->tag = -5, t->receives = !t->receives;
    return m->starts;
}
static ct_transfer_state test(ct_comm *comm, ct_transfer *t) {
    const manner *m = ct_comm_data(comm);
    if (m->scribbles) t->peer = -77, t->tag = 1000, t->receives = !t->receives;
    return m->state;
}
static void cancel(ct_comm *comm, ct_transfer *t) {
    (void)comm;
    ck_assert(t->peer == 1 && t->tag >= 0 && t->tag < 256);
}
static const char *reason(ct_comm *comm) { return ((manner *)ct_comm_data(comm))->reason; }
static void end(ct_comm *comm, bool failed) { (void)comm, (void)failed; }

/* The message of ct_dist_new, which fails; it is a line of UTF-8. */
static const char *message_of(manner m) {
    static char message[1100];
    ct_context *c = ct_context_new((ct_context_opts){.threads = 1});
    const ct_comm_engine engine = {m.name, start, test, cancel, reason, end};
    ct_module *module = ct_linear_new(c, (ct_linear_opts){.in_features = 2, .out_features = 2});
    ct_comm *comm = ct_comm_new(c, &engine, 0, 2, &m);
    ct_optim *optim = ct_sgd_new(module, (ct_sgd_opts){0});
    ck_assert_ptr_null(ct_dist_new(optim, comm, (ct_dist_opts){.timeout = 0.05}));
    ck_assert_int_ne(ct_error(c), CT_OK);
    snprintf(message, sizeof message, "%s", ct_error_message(c));
    ct_error_clear(c);
    ck_assert_ptr_null(ct_dist_new(optim, comm, (ct_dist_opts){.timeout = 0.05}));
    ck_assert_ptr_nonnull(strstr(ct_error_message(c), "the ranks cannot go on"));
    ct_context_free(c);
    for (const char *at = message; *at; at++) ck_assert(*at >= ' ' || *at < 0);
    ck_assert(!strchr(message, '\xff') && !strchr(message, '\xc3'));
    return message;
}

START_TEST(a_state_that_is_none) {
    const int states[] = {77, -1, CT_TRANSFER_FAILED + 1};
    for (int i = 0; i < 3; i++) {
        char says[100];
        const char *message = message_of(
            (manner){.state = (ct_transfer_state)states[i], .starts = true, .name = "mine"});
        snprintf(says, sizeof says,
                 "rank 1 cannot be reached: test of the engine mine has "
                 "returned %d, no ct_transfer_state",
                 states[i]);
        ck_assert_msg(strstr(message, says) != NULL, "%s", message);
    }
}
END_TEST

START_TEST(reasons_of_any_kind) {
    static char huge[100000];
    memset(huge, 'x', sizeof huge - 1);
    memcpy(huge + sizeof huge - 5, "end", 3);
    const struct {
        const char *name, *reason, *says;
    } cases[] = {{"mine", NULL, "cannot be reached: the engine mine gives no reason"},
                 {"mine", "", "cannot be reached: the engine mine gives no reason"},
                 {NULL, "", "the engine without a name gives no reason"},
                 {huge, "", "xx...xx"},
                 {"mine", huge, "xx...xx"},
                 {"mine", "a\nb\xff\xfe\xc3(\xe2\x82", "cannot be reached: a b??\?(??;"},
                 {"mine", "the wire is \xe2\x82\xac", "the wire is \xe2\x82\xac;"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int starts = 0; starts < 2; starts++) {
            const char *message = message_of((manner){.state = CT_TRANSFER_FAILED,
                                                      .starts = starts,
                                                      .name = cases[i].name,
                                                      .reason = cases[i].reason});
            ck_assert_msg(strstr(message, cases[i].says) != NULL, "%s", message);
        }
}
END_TEST

/* One that changes what is not its own; and one that says "done" and has received nothing. */
START_TEST(transfers_of_nothing) {
    for (int scribbles = 0; scribbles < 2; scribbles++) {
        manner m = {.starts = true, .scribbles = scribbles, .name = "mine", .reason = "torn"};
        m.state = CT_TRANSFER_LEFT;
        ck_assert_ptr_nonnull(strstr(message_of(m), "rank 1 has left the run"));
        m.state = CT_TRANSFER_PENDING;
        ck_assert_ptr_nonnull(strstr(message_of(m), "rank 1 has not answered for 0.05 s"));
        m.state = CT_TRANSFER_FAILED;
        ck_assert_ptr_nonnull(strstr(message_of(m), "rank 1 cannot be reached: torn"));
        m.state = CT_TRANSFER_DONE;
        ck_assert_ptr_nonnull(strstr(message_of(m), "different versions"));
    }
}
END_TEST

int main(void) {
    return run_tests("dist_engine", NULL, NULL,
                     TESTS(LOOP(an_engine_calls_the_library, CALLS * FUNCTIONS),
                           LOOP(a_misused_transfer_is_cancelled, 2), TEST(a_state_that_is_none),
                           TEST(reasons_of_any_kind), TEST(transfers_of_nothing)));
}
