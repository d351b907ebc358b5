/* Leaves that are watched during a backward: when their gradients are whole, and the calls
 * that a watcher may and may not make. */

#include "tests/support/memory_faults.h"
#include "tests/support/nn_check.h"

enum { MOST = 12 };

/* The calls that a watcher got. */
typedef struct {
    ct_tensor *leaf[MOST];
    char seen[128]; /* letters in order: b and e for begin and end, t for a turn, a digit for a leaf
                     */
    bool reached[MOST], retained, ok, take;
    bool whole[MOST];
    ct_tensor *value[MOST]; /* copies of the gradients when they were whole */
    void (*act)(void);      /* called by each function; NULL: nothing */
    char when;              /* the letter at which act is called; 0: always */
} watcher;

static watcher w;

static void saw(char letter) {
    const size_t length = strlen(w.seen);
    ck_assert_uint_lt(length + 1, sizeof w.seen);
    w.seen[length] = letter;
    w.seen[length + 1] = 0;
    if (w.act && (!w.when || w.when == letter)) w.act();
}

static void on_begin(void *self, const bool *reached, bool retain_graph) {
    ck_assert_ptr_eq(self, &w);
    for (int i = 0; i < MOST && w.leaf[i]; i++) w.reached[i] = reached[i];
    w.retained = retain_graph;
    saw('b');
}
static bool on_whole(void *self, int64_t i, ct_tensor *grad) {
    ck_assert_ptr_eq(self, &w);
    ck_assert(!w.whole[i]);
    w.whole[i] = true;
    ck_assert_ptr_eq(grad, ct_grad(w.leaf[i]));
    w.value[i] = ct_keep(ct_clone(grad));
    saw((char)('0' + i));
    return w.take;
}
static void on_turn(void *self) {
    (void)self;
    saw('t');
}
static void on_end(void *self, bool ok) {
    (void)self;
    w.ok = ok;
    saw('e');
}
static const ct_watch_fns fns = {
    .begin = on_begin, .whole = on_whole, .turn = on_turn, .end = on_end};

static void begin(void) {
    setup();
    memset(&w, 0, sizeof w);
}

static int count_leaves(void) {
    int n = 0;
    while (n < MOST && w.leaf[n]) n++;
    return n;
}
static void watch_all(void) { ck_assert(ct_watch(context, w.leaf, count_leaves(), &fns, &w)); }

static ct_tensor *leaf(ct_shape shape) { return ct_set_requires_grad(randn(shape), true); }
static ct_tensor *total(ct_tensor *x) { return ct_sum(x, CT_ALL, false); }

/* ---- when a gradient is whole ---- */

/* a is used first, b by the second op and again by the last one, c by the last one, d never */
static ct_tensor *four(void) {
    for (int i = 0; i < 4; i++) w.leaf[i] = leaf(CT_SHAPE(3, 5));
    ct_tensor *y = ct_exp(w.leaf[0]);            /* node 1 */
    y = ct_mul(y, w.leaf[1]);                    /* node 2 */
    y = ct_mul(ct_mul(y, w.leaf[2]), w.leaf[1]); /* nodes 3, 4 */
    return total(y);                             /* node 5 */
}

START_TEST(in_the_order_of_the_tape) {
    ct_tensor *y = four();
    watch_all();
    ck_assert(ct_backward(y));
    ck_assert_str_eq(w.seen, "btt2t1t0te");
    ck_assert(w.ok && !w.retained);
    ck_assert(w.reached[0] && w.reached[1] && w.reached[2] && !w.reached[3]);
    for (int i = 0; i < 3; i++) ck_assert(distance(w.value[i], ct_grad(w.leaf[i])) == 0);
    ck_assert_ptr_null(ct_grad(w.leaf[3]));
    ct_unwatch(context, &w);
    ct_backward(total(ct_exp(w.leaf[0])));
    ck_assert_str_eq(w.seen, "btt2t1t0te"); /* nothing more */
    no_error();
}
END_TEST

/* The gradient of a leaf that another live graph uses too is reported as whole only at the end of
 * the backward. A leaf that only the other graph uses is not reported. */
START_TEST(used_elsewhere) {
    ct_tensor *y = four(), *other = total(ct_mul(w.leaf[2], w.leaf[3]));
    watch_all();
    ck_assert(ct_backward(y));
    ck_assert_str_eq(w.seen, "bttt1t0t2e");
    ck_assert(w.reached[2] && !w.reached[3]);
    memset(w.whole, 0, sizeof w.whole);
    w.seen[0] = 0;
    ck_assert(ct_backward(other));
    ck_assert_str_eq(w.seen, "bt23te");
    for (int i = 0; i < 4; i++) ck_assert(distance(w.value[i], ct_grad(w.leaf[i])) == 0);
}
END_TEST

START_TEST(retained_at_the_end) {
    ct_tensor *y = four();
    watch_all();
    ck_assert(ct_backward_with(&y, NULL, 1, (ct_backward_opts){.retain_graph = true}));
    ck_assert_str_eq(w.seen, "bttttt012e");
    ck_assert(w.retained);
    memset(w.whole, 0, sizeof w.whole);
    w.seen[0] = 0;
    ck_assert(ct_backward(y)); /* adds to the gradients */
    ck_assert_str_eq(w.seen, "btt2t1t0te");
    for (int i = 0; i < 3; i++) ck_assert(distance(w.value[i], ct_grad(w.leaf[i])) == 0);
}
END_TEST

static ct_tensor *squared(ct_tensor *const *in, int n, void *arg) {
    (void)n;
    return ct_mul(ct_mul(in[0], in[0]), arg);
}

START_TEST(recomputed_at_the_end) {
    w.leaf[0] = leaf(CT_SHAPE(4)), w.leaf[1] = leaf(CT_SHAPE(4));
    ct_tensor *x = ct_exp(w.leaf[0]), *y = ct_recompute(squared, w.leaf[1], &x, 1);
    watch_all();
    ck_assert(ct_backward(total(y)));
    ck_assert(w.reached[0] && w.reached[1]);
    ck_assert_ptr_nonnull(strstr(w.seen, "t01e"));
    for (int i = 0; i < 2; i++) ck_assert(distance(w.value[i], ct_grad(w.leaf[i])) == 0);
}
END_TEST

START_TEST(an_output_that_is_a_leaf) {
    w.leaf[0] = leaf(CT_SCALAR), w.leaf[1] = leaf(CT_SCALAR);
    ct_tensor *outs[] = {w.leaf[0], ct_mul(w.leaf[0], w.leaf[1])};
    watch_all();
    ck_assert(ct_backward_with(outs, NULL, 2, (ct_backward_opts){0}));
    ck_assert_str_eq(w.seen, "bt01e");
    ck_assert(fabs(ct_item(w.value[0]) - 1 - ct_item(w.leaf[1])) < 1e-15);
}
END_TEST

/* A backward from a leaf, which no op has computed, leaves the number of its node as it was.
 * ct_recompute uses the same number for its counts, and would fail. */
START_TEST(an_output_that_is_another_leaf) {
    w.leaf[0] = leaf(CT_SHAPE(4));
    ct_tensor *other = leaf(CT_SCALAR);
    watch_all();
    ck_assert(ct_backward(other));
    ck_assert_str_eq(w.seen, "be");
    ct_unwatch(context, &w);
    ct_tensor *y = ct_recompute(squared, other, &w.leaf[0], 1);
    ck_assert(ct_backward(total(y)));
    no_error();
    ct_tensor *squares = total(ct_mul(ct_detach(w.leaf[0]), ct_detach(w.leaf[0])));
    ck_assert(fabs(ct_item(ct_grad(other)) - 1 - ct_item(squares)) < 1e-12);
}
END_TEST

/* Random graphs. Every leaf that is reached is reported as whole exactly once, with its final
 * gradient; no node adds to it afterwards. */
static ct_tensor *random_graph(int leaves) {
    ct_tensor *made[40];
    int n = 0;
    for (int i = 0; i < leaves; i++) made[n++] = w.leaf[i] = leaf(CT_SHAPE(2, 3));
    while (n < 30) {
        ct_tensor *a = made[ct_random_below(context, n)], *b = made[ct_random_below(context, n)];
        switch (ct_random_below(context, 4)) {
        case 0: made[n++] = ct_tanh(a); break;
        case 1:
            made[n++] = ct_cat((ct_tensor *[]){ct_narrow(a, 0, 0, 1), ct_narrow(b, 0, 1, 1)}, 2, 0);
            break;
        case 2: made[n++] = ct_tanh(ct_add(a, b)); break;
        default: made[n++] = ct_tanh(ct_mul(a, b)); break;
        }
    }
    return total(ct_mul(made[n - 1], randn(CT_SHAPE(2, 3))));
}

START_TEST(random_graphs) {
    ct_tensor *y = random_graph(MOST - 4);
    watch_all();
    ct_backward(y);
    if (!ct_requires_grad(y)) ct_error_clear(context);
    no_error();
    for (int i = 0; i < MOST - 4; i++) {
        ck_assert_int_eq(w.reached[i], ct_grad(w.leaf[i]) != NULL);
        ck_assert_int_eq(w.reached[i], w.whole[i]);
        if (w.whole[i]) ck_assert(distance(w.value[i], ct_grad(w.leaf[i])) == 0);
    }
}
END_TEST

/* ---- taking ---- */

static int64_t peak;
static void measure(void) {
    if (live() > peak) peak = live();
}

/* The most memory in use at a turn, for 10 parameters of 8,000 bytes that are used one by one. */
static int64_t most_memory(bool take) {
    memset(&w, 0, sizeof w);
    ct_scope scope = ct_scope_open(context);
    ct_tensor *y = randn(CT_SHAPE(1000));
    for (int i = 0; i < 10; i++) y = ct_mul(y, w.leaf[i] = leaf(CT_SHAPE(1000)));
    y = total(y);
    watch_all();
    static const ct_watch_fns taking = {.whole = on_whole, .turn = on_turn};
    ct_unwatch(context, &w);
    ck_assert(ct_watch(context, w.leaf, 10, &taking, &w));
    w.take = take, w.act = measure, w.when = 't';
    peak = 0;
    ck_assert(ct_backward(y));
    for (int i = 0; i < 10; i++) {
        ck_assert_int_eq(ct_grad(w.leaf[i]) == NULL, take);
        if (!take) ck_assert(distance(w.value[i], ct_grad(w.leaf[i])) == 0);
    }
    ct_unwatch(context, &w);
    for (int i = 0; i < 10; i++) ct_release(w.value[i]);
    ct_scope_close(scope);
    return peak;
}

START_TEST(taken_gradients_give_their_memory_back) {
    most_memory(false); /* fills the pool */
    const int64_t kept = most_memory(false), taken = most_memory(true);
    ck_assert_msg(kept - taken >= 8 * 8000, "%lld bytes and %lld", (long long)kept,
                  (long long)taken);
}
END_TEST

/* An optimiser gets a gradient with the changes that were made in place when it was whole. */
static bool halve(void *self, int64_t i, ct_tensor *grad) {
    (void)self, (void)i;
    double *g = ct_data_f64(grad);
    for (int64_t k = 0; k < ct_numel(grad); k++) g[k] /= 2;
    return false;
}
START_TEST(changed_in_place) {
    static const ct_watch_fns only_whole = {.whole = halve};
    w.leaf[0] = leaf(CT_SHAPE(3));
    ck_assert(ct_watch(context, w.leaf, 1, &only_whole, &w));
    ck_assert(ct_backward(total(w.leaf[0])));
    ck_assert(distance(ct_grad(w.leaf[0]), ct_full(context, CT_F64, CT_SHAPE(3), 0.5)) == 0);
}
END_TEST

/* ---- refused ---- */

START_TEST(refused) {
    ct_tensor *x = randn(CT_SHAPE(2)), *p = leaf(CT_SHAPE(2)), *y = ct_exp(p);
    ck_refused(ct_watch(context, &x, 1, &fns, &w), CT_ERR_GRAD, "watch: tensor 0 (2)", "no leaf");
    ck_refused(ct_watch(context, (ct_tensor *[]){p, y}, 2, &fns, &w), CT_ERR_GRAD, "tensor 1",
               "no leaf");
    ck_refused(ct_watch(context, (ct_tensor *[]){p, p}, 2, &fns, &w), CT_ERR_ARGUMENT,
               "leaf 1 is leaf 0", "");
    ck_refused(ct_watch(context, (ct_tensor *[]){NULL}, 1, &fns, &w), CT_ERR_ARGUMENT,
               "leaf 0 is NULL", "");
    ck_refused(ct_watch(context, &p, -1, &fns, &w), CT_ERR_ARGUMENT, "-1 leaves", "");
    ck_refused(ct_watch(context, NULL, 1, &fns, &w), CT_ERR_ARGUMENT, "1 leaves", "");
    ck_refused(ct_watch(context, &p, 1, NULL, &w), CT_ERR_ARGUMENT, "functions", "");
    ct_release(x);
    ck_refused(ct_watch(context, &x, 1, &fns, &w), CT_ERR_ARGUMENT, "watch", "has ended");
    ck_assert(!ct_watch(NULL, &p, 1, &fns, &w));
    ck_assert(ct_watch(context, &p, 1, &fns, &w));
    ck_assert(!ct_watch(context, &p, 1, &fns, &peak)); /* there is a watcher: no error */
    no_error();
    ct_unwatch(context, &peak); /* not its watcher */
    ck_assert(!ct_watch(context, &p, 1, &fns, &peak));
    ct_unwatch(context, &w);
    ck_assert(ct_watch(context, NULL, 0, &(ct_watch_fns){0}, &peak));
    ck_assert(ct_backward(total(y)));
    ct_unwatch(context, &peak);
    ct_unwatch(NULL, &peak);
    no_error();
}
END_TEST

/* A leaf that has ended, or requires no gradient any more, is not reached. */
START_TEST(leaves_that_are_gone) {
    ct_tensor *y = four();
    watch_all();
    ct_set_requires_grad(w.leaf[1], false);
    ct_release(w.leaf[2]);
    ck_assert(ct_backward(y));
    ck_assert(w.reached[0] && !w.reached[1] && !w.reached[2]);
    ck_assert(w.whole[0] && !w.whole[1] && !w.whole[2]);
    no_error();
    ct_module *m = ct_linear_new(context, (ct_linear_opts){.in_features = 2, .out_features = 3});
    ct_unwatch(context, &w);
    memset(&w, 0, sizeof w);
    w.leaf[0] = ct_module_get(m, "weight");
    watch_all();
    ct_module_free(m);
    ck_assert(ct_backward(total(leaf(CT_SHAPE(2)))));
    ck_assert(!w.reached[0]);
}
END_TEST

/* ---- functions that misbehave ---- */

static ct_tensor *other_loss;

static void start_a_backward(void) { ct_backward(other_loss); }
static void zero_the_gradients(void) {
    for (int i = 0; i < 3; i++) ct_zero_grad(w.leaf[i]);
}
static void record_an_error(void) { ct_fail(context, CT_ERR_SHAPE, "of the watcher"); }
static void take_itself_off(void) { ct_unwatch(context, &w); }
static void watch_anew(void) {
    static int other;
    ct_unwatch(context, &w);
    ck_assert(ct_watch(context, w.leaf, 3, &(ct_watch_fns){0}, &other));
}
static void end_the_leaves(void) {
    for (int i = 0; i < 3; i++)
        if (w.leaf[i]) ct_release(w.leaf[i]), w.leaf[i] = NULL;
}
static void no_gradients(void) {
    for (int i = 0; i < 3; i++) ct_set_requires_grad(w.leaf[i], false);
}
static void compute(void) { ct_exp(randn(CT_SHAPE(2, 2))); }

static const struct {
    void (*act)(void);
    const char *word1, *word2; /* in the error; "": there is none */
} misdeeds[] = {{start_a_backward, "backward: called inside the backward of", ""},
                {zero_the_gradients, "zero_grad: called inside the backward of", ""},
                {record_an_error, "of the watcher", ""},
                {take_itself_off, "", ""},
                {watch_anew, "", ""},
                {end_the_leaves, "", ""},
                {no_gradients, "", ""},
                {compute, "", ""}};
enum { MISDEEDS = sizeof misdeeds / sizeof *misdeeds };
static const char moments[] = "bt210e";

/* Each misdeed at each moment: an error or none, no crash, and the context works afterwards. */
START_TEST(misbehaved) {
    const int what = _i / (int)strlen(moments), when = _i % (int)strlen(moments);
    for (int take = 0; take < 2; take++) {
        memset(&w, 0, sizeof w);
        ct_tensor *y = four();
        other_loss = total(leaf(CT_SHAPE(2)));
        watch_all();
        w.take = take, w.act = misdeeds[what].act, w.when = moments[when];
        const bool ok = ct_backward(y);
        if (*misdeeds[what].word1) {
            ck_assert(!ok);
            expect(ct_error(context), misdeeds[what].word1, misdeeds[what].word2);
        } else {
            ck_assert(ok);
        }
        no_error();
        ct_unwatch(context, &w);
        static const ct_watch_fns none;
        ct_tensor *p = leaf(CT_SHAPE(3));
        if (!ct_watch(context, &p, 1, &none, &peak)) { /* watch_anew's */
            ck_assert_ptr_eq(misdeeds[what].act, watch_anew);
            teardown(), setup();
            p = leaf(CT_SHAPE(3));
        }
        ck_assert(ct_backward(total(ct_exp(p))));
        ck_assert(distance(ct_grad(p), ct_exp(ct_detach(p))) == 0);
        ct_unwatch(context, &peak);
        no_error();
    }
}
END_TEST

static bool fails(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    (void)c, (void)g, (void)grad;
    return false;
}
static ct_tensor *same(ct_call *c) { return ct_scale(c->in[0], 1); }

START_TEST(a_backward_that_fails) {
    static const ct_op op = {.name = "fails", .forward = same, .backward = fails};
    w.leaf[0] = leaf(CT_SHAPE(3)), w.leaf[1] = leaf(CT_SHAPE(3));
    ct_tensor *x = ct_apply(&op, &w.leaf[0], 1, NULL);
    watch_all();
    ck_assert(!ct_backward(total(ct_mul(x, w.leaf[1]))));
    expect(CT_ERR_GRAD, "fails: backward failed", "");
    ck_assert(!w.ok && !w.whole[0] && w.whole[1]);
    ck_assert_int_eq(w.seen[strlen(w.seen) - 1], 'e');
}
END_TEST

/* ---- without memory ---- */

static ct_context *poor;
static void begin_poor(void *arg) {
    (void)arg;
    if (!poor) poor = new_with((ct_context_opts){.threads = 1});
}
static bool watch_poorly(void *arg) {
    (void)arg;
    ct_scope scope = ct_scope_open(poor);
    ct_tensor *p[2];
    for (int i = 0; i < 2; i++)
        p[i] = ct_set_requires_grad(ct_ones(poor, CT_F64, CT_SHAPE(3)), true);
    static const ct_watch_fns none;
    const bool ok = ct_watch(poor, p, 2, &none, &peak) &&
                    ct_backward(ct_sum(ct_mul(p[0], p[1]), CT_ALL, false));
    ct_unwatch(poor, &peak);
    ct_scope_close(scope);
    return ok;
}
START_TEST(without_memory) {
    fault_sweep(&(fault_case){.name = "a watch",
                              .kind = FAULT_TAKE,
                              .context = &poor,
                              .begin = begin_poor,
                              .run = watch_poorly,
                              .least = 8});
    ct_context_free(poor);
}
END_TEST

int main(void) {
    return run_tests("watch", begin, teardown,
                     TESTS(TEST(in_the_order_of_the_tape), TEST(used_elsewhere),
                           TEST(retained_at_the_end), TEST(recomputed_at_the_end),
                           TEST(an_output_that_is_a_leaf), TEST(an_output_that_is_another_leaf),
                           LOOP(random_graphs, 30), TEST(taken_gradients_give_their_memory_back),
                           TEST(changed_in_place), TEST(refused), TEST(leaves_that_are_gone),
                           LOOP(misbehaved, MISDEEDS * (int)(sizeof moments - 1)),
                           TEST(a_backward_that_fails), TEST(without_memory)));
}
