/* Ops that keep something between forward and backward outside of their call, and ops whose
 * backward is wrong only if some input wants no gradient. They give the right gradient as
 * the only op of a graph with all gradients wanted, and the checker must find them nevertheless. */
#include "tests/support/suite.h"

#include <cotangent/cotangent.h>

#include <string.h>

static ct_context *context;

/* ---- the op: a b^2, and a state that backward may use ---- */

typedef enum {
    SAVED,         /* no state */
    OVERWRITTEN,   /* a static that every forward sets */
    ENDED,         /* the same, but the tensor ends with the forward */
    FIRST,         /* a static that only the first forward sets */
    IN_ATTRS,      /* attrs point to it */
    MASK,          /* a random mask that forward drew */
    MASK_OF_FIRST, /* the mask of the first forward */
    STACK,         /* forward pushes, backward pops */
    QUEUE,         /* forward appends, backward takes the first */
    TAKEN          /* backward takes it away */
} state_kind;

enum { DEEP = 64 };

static struct {
    ct_tensor *tensor;
    ct_tensor *list[DEEP];
    int first, count;
} kept;

typedef struct {
    state_kind kind;
    ct_tensor **there;
} state_attrs;

static ct_tensor *kept_now(ct_tensor *t) { return ct_keep(ct_clone(t)); }

static ct_tensor *state_forward(ct_call *c) {
    const state_attrs *a = c->attrs;
    ct_tensor *square = ct_mul(c->in[1], c->in[1]), *mask = NULL;
    if (a->kind == MASK || a->kind == MASK_OF_FIRST)
        mask = ct_cast(ct_gt(ct_rand(c->context, CT_F64, ct_shape_of(c->in[0])),
                             ct_full(c->context, CT_F64, CT_SCALAR, 0.5)),
                       CT_F64);
    if (a->kind == OVERWRITTEN || a->kind == TAKEN) kept.tensor = kept_now(square);
    if (a->kind == ENDED) kept.tensor = square;
    if (a->kind == FIRST && !kept.tensor) kept.tensor = kept_now(square);
    if (a->kind == IN_ATTRS) *a->there = kept_now(square);
    if (a->kind == MASK) kept.tensor = kept_now(mask);
    if (a->kind == MASK_OF_FIRST && !kept.tensor) kept.tensor = kept_now(mask);
    if (a->kind == STACK || a->kind == QUEUE) kept.list[kept.count++ % DEEP] = kept_now(square);
    ct_tensor *y = ct_mul(c->in[0], square);
    return mask ? ct_mul(y, mask) : y;
}

static ct_tensor *state_read(const state_attrs *a, const ct_call *c) {
    ct_tensor *t = a->kind == SAVED                     ? ct_mul(c->in[1], c->in[1])
                   : a->kind == IN_ATTRS                ? *a->there
                   : a->kind == STACK && kept.count > 0 ? kept.list[--kept.count % DEEP]
                   : a->kind == QUEUE                   ? kept.list[kept.first++ % DEEP]
                                                        : kept.tensor;
    if (a->kind == TAKEN) kept.tensor = NULL;
    return t;
}

static bool state_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    const state_attrs *a = c->attrs;
    const bool masked = a->kind == MASK || a->kind == MASK_OF_FIRST;
    ct_tensor *read = state_read(a, c), *from = masked ? ct_mul(g[0], read) : g[0];
    grad[0] = ct_mul(from, masked ? ct_mul(c->in[1], c->in[1]) : read);
    grad[1] = ct_scale(ct_mul(from, ct_mul(c->in[0], c->in[1])), 2);
    return grad[0] && grad[1];
}

static const ct_op state_op = {.name = "kept",
                               .attrs_size = sizeof(state_attrs),
                               .forward = state_forward,
                               .backward = state_backward};

static ct_tensor *apply_state(ct_tensor *const *in, void *arg) {
    static ct_tensor *there;
    return ct_apply(&state_op, in, 2, &(state_attrs){*(const state_kind *)arg, &there});
}
static ct_tensor *once(ct_tensor *const *in, int n, void *arg) {
    return (void)n, apply_state(in, arg);
}
static ct_tensor *twice(ct_tensor *const *in, int n, void *arg) {
    ct_tensor *again[] = {once(in, n, arg), in[1]};
    return apply_state(again, arg);
}
static ct_tensor *in_a_layer(ct_tensor *const *in, int n, void *arg) {
    return (void)n, ct_tanh(apply_state((ct_tensor *[]){ct_sin(in[0]), in[1]}, arg));
}

static ct_gradcheck_result check(ct_fn fn, state_kind kind, ct_shape shape) {
    ct_tensor *in[] = {ct_randn(context, CT_F64, shape), ct_randn(context, CT_F64, shape)};
    memset(&kept, 0, sizeof kept);
    return ct_gradcheck(fn, &kind, in, 2, (ct_gradcheck_opts){0});
}

/* A list that grows with every forward is not deterministic either; and where the op stands twice
 * in a graph, its gradient may be wrong in any way, or its backward fail. */
static bool is_named(state_kind kind, const ct_gradcheck_result *r, bool one) {
    if (kind == STACK || kind == QUEUE) return true;
    if (!one && (kind == FIRST || kind == MASK_OF_FIRST || kind == TAKEN)) return true;
    return r->mistake == CT_MISTAKE_STATE && strstr(r->diagnosis, "outside of");
}

START_TEST(state_is_found_and_named) {
    const ct_fn all[] = {once, twice, in_a_layer};
    const ct_shape shapes[] = {CT_SHAPE(3, 5), CT_SHAPE(7), CT_SCALAR};
    for (int f = 0; f < 3; f++)
        for (int s = 0; s < 3; s++) {
            const ct_gradcheck_result r = check(all[f], (state_kind)_i, shapes[s]);
            ck_assert_msg(r.ran, "%s", ct_error_message(context));
            /* one random bit, which may be the same */
            if (s == 2 && (_i == MASK || _i == MASK_OF_FIRST)) continue;
            ck_assert_msg(_i == SAVED ? r.ok : r.verdict == CT_VERDICT_WRONG, "%d %d %d: %s", _i, f,
                          s, r.diagnosis);
            ck_assert_msg(_i == SAVED || is_named((state_kind)_i, &r, f != 1), "%d %d %d: %s: %s",
                          _i, f, s, ct_mistake_name(r.mistake), r.diagnosis);
        }
}
END_TEST

START_TEST(only_the_gradient) { /* the message names an ended tensor here too */
    ct_tensor *in[] = {ct_randn(context, CT_F64, CT_SHAPE(4)),
                       ct_randn(context, CT_F64, CT_SHAPE(4))};
    state_kind kind = ENDED;
    const ct_gradcheck_result r =
        ct_gradcheck(once, &kind, in, 2, (ct_gradcheck_opts){.gradient_only = true, .fast = true});
    ck_assert_msg(r.mistake == CT_MISTAKE_STATE && strstr(r.diagnosis, "has ended"), "%s",
                  r.diagnosis);
    ck_assert_int_eq(ct_error(context), CT_OK);
}
END_TEST

/* ---- several outputs, a module, ct_recompute ---- */

static bool pair_forward_kept;

static ct_tensor *pair_forward(ct_call *c) {
    if (pair_forward_kept) kept.tensor = kept_now(c->in[0]);
    c->outs[1] = ct_neg(c->in[0]);
    return ct_mul(c->in[0], c->in[0]);
}
static bool pair_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    ct_tensor *x = pair_forward_kept ? kept.tensor : c->in[0];
    grad[0] = g[0] ? ct_scale(ct_mul(g[0], x), 2) : ct_zeros(c->context, CT_F64, ct_shape_of(x));
    if (g[1]) grad[0] = ct_sub(grad[0], g[1]);
    return grad[0];
}
static const ct_op pair_op = {
    .name = "pair", .forward = pair_forward, .backward = pair_backward, .outputs = 2};
static ct_tensor *pair(ct_tensor *const *in, int n, void *arg) {
    ct_tensor *outs[2] = {0};
    (void)arg;
    return ct_apply_many(&pair_op, in, n, NULL, outs) ? ct_mul(outs[0], outs[1]) : NULL;
}

START_TEST(several_outputs) {
    ct_tensor *x = ct_randn(context, CT_F64, CT_SHAPE(2, 3));
    for (int with = 0; with < 2; with++) {
        pair_forward_kept = with;
        const ct_gradcheck_result r = ct_gradcheck(pair, NULL, &x, 1, (ct_gradcheck_opts){0});
        ck_assert_msg(r.mistake == (with ? CT_MISTAKE_STATE : CT_MISTAKE_NONE), "%s", r.diagnosis);
    }
}
END_TEST

/* A module's own forward, with an op whose attrs point into what the module has. */
static ct_tensor *module_forward(void *self, ct_tensor *x) {
    return ct_apply(&state_op, (ct_tensor *[]){x, ct_sin(x)}, 2,
                    &(state_attrs){IN_ATTRS, (ct_tensor **)self});
}
static ct_tensor *call_module(ct_tensor *const *in, int n, void *arg) {
    return (void)n, ct_forward(arg, in[0]);
}

START_TEST(a_module) {
    ct_tensor *there = NULL, *x = ct_randn(context, CT_F64, CT_SHAPE(2, 3));
    ct_module *module =
        ct_module_set_forward(ct_module_new(context, "own"), module_forward, (void *)&there);
    const ct_gradcheck_result r = ct_gradcheck(call_module, module, &x, 1, (ct_gradcheck_opts){0});
    ck_assert_msg(r.mistake == CT_MISTAKE_STATE, "%s", r.diagnosis);
    ct_module_free(module);
}
END_TEST

/* ct_recompute runs the forward again just before its backward, so there this state is right. */
static ct_tensor *recomputed(ct_tensor *const *in, int n, void *arg) {
    return ct_recompute(once, arg, in, n);
}
static ct_tensor *recomputed_twice(ct_tensor *const *in, int n, void *arg) {
    return ct_recompute(twice, arg, in, n);
}

START_TEST(inside_ct_recompute) {
    ck_assert(check(recomputed, SAVED, CT_SHAPE(3, 2)).ok);
    ck_assert(check(recomputed_twice, SAVED, CT_SHAPE(3, 2)).ok);
    const ct_gradcheck_result r = check(recomputed, OVERWRITTEN, CT_SHAPE(3, 2));
    ck_assert_msg(r.ok, "%s", r.diagnosis);
    ck_assert_int_eq(check(recomputed, ENDED, CT_SHAPE(3, 2)).mistake, CT_MISTAKE_STATE);
}
END_TEST

/* ---- what is kept and right ---- */

/* The mask depends on the shape only, and is made once. */
static ct_tensor *masked_forward(ct_call *c) {
    if (!kept.tensor)
        kept.tensor = ct_keep(ct_tril(ct_ones(c->context, CT_F64, CT_SHAPE(4, 4)), 0));
    return ct_mul(c->in[0], kept.tensor);
}
static bool masked_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    (void)c;
    grad[0] = ct_mul(g[0], kept.tensor);
    return grad[0];
}
static const ct_op masked_op = {
    .name = "masked", .forward = masked_forward, .backward = masked_backward};
static ct_tensor *masked(ct_tensor *const *in, int n, void *arg) {
    return (void)arg, ct_apply(&masked_op, in, n, NULL);
}

/* Inputs of i64 and bool, which come in another order, and a domain that the other inputs leave. */
static ct_tensor *gathered(ct_tensor *const *in, int n, void *arg) {
    (void)n, (void)arg;
    return ct_mul(ct_index_select(in[0], 0, in[1]), ct_cast(in[2], CT_F64));
}
static ct_tensor *in_a_domain(ct_tensor *const *in, int n, void *arg) {
    (void)n, (void)arg;
    if (ct_item(ct_select(in[0], 0, 0)) < 1)
        return ct_fail(context, CT_ERR_ARGUMENT, "in_a_domain: the first element is below 1");
    return ct_mul(in[0], in[0]);
}

START_TEST(what_is_right_stays_so) {
    memset(&kept, 0, sizeof kept);
    ct_tensor *square = ct_randn(context, CT_F64, CT_SHAPE(4, 4)),
              *index = ct_from_i64(context, CT_SHAPE(5), (int64_t[]){3, 0, 1, 1, 2}),
              *keep = ct_from_bool(context, CT_SHAPE(5, 1), (bool[]){1, 1, 0, 1, 0}),
              *one = ct_from_f64(context, CT_SHAPE(2), (double[]){1.1, 3});
    ct_gradcheck_result r = ct_gradcheck(masked, NULL, &square, 1, (ct_gradcheck_opts){0});
    ck_assert_msg(r.ok, "%s", r.diagnosis);
    r = ct_gradcheck(gathered, NULL, (ct_tensor *[]){square, index, keep}, 3,
                     (ct_gradcheck_opts){0});
    ck_assert_msg(r.ok, "%s", r.diagnosis);
    ck_assert(ct_data_i64(index)[0] == 3 && ct_data_bool(keep)[2] == 0);
    r = ct_gradcheck(in_a_domain, NULL, &one, 1, (ct_gradcheck_opts){0});
    ck_assert_msg(r.ok && ct_error(context) == CT_OK, "%s", r.diagnosis);
}
END_TEST

/* ---- backwards that depend on which inputs want a gradient: a b^2 c ---- */

typedef enum {
    BY_NEED,     /* right: what no wanted gradient needs is not computed */
    IN_A_BRANCH, /* b^2, which c's gradient needs too, is computed if a wants its gradient */
    STALE,       /* the same, and the place is a static variable, which earlier calls have set */
    WITHOUT_ONE, /* a's gradient is wrong if b wants none */
    ONLY_TWO,    /* b's gradient is wrong if a wants one and c does not */
    UNSET,       /* c's gradient is not set if a wants none */
    VALUE        /* the value changes if no gradient is wanted */
} need_kind;

static ct_tensor *need_forward(ct_call *c) {
    ct_tensor *y = ct_mul(ct_mul(c->in[0], ct_mul(c->in[1], c->in[1])), c->in[2]);
    const bool wanted =
        ct_requires_grad(c->in[0]) || ct_requires_grad(c->in[1]) || ct_requires_grad(c->in[2]);
    /* the checker's own runs without a gradient record nothing, but their leaves want one */
    return *(const need_kind *)c->attrs == VALUE && !wanted ? ct_scale(y, 1.001) : y;
}

static bool need_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    static double place[64];
    double fresh[64] = {0};
    const need_kind kind = *(const need_kind *)c->attrs;
    double *square = kind == STALE ? place : fresh;
    const bool *wants = c->wants;
    const double *in[3];
    double *d[3];
    for (int i = 0; i < 3; i++) {
        in[i] = ct_data_f64(c->in[i]);
        if (wants[i] && !(kind == UNSET && i == 2 && !wants[0]))
            grad[i] = ct_zeros(c->context, CT_F64, ct_shape_of(c->in[i]));
        d[i] = grad[i] ? ct_data_f64(grad[i]) : NULL;
    }
    for (int64_t e = 0; e < ct_numel(g[0]); e++) {
        const double v = ct_data_f64(g[0])[e], a = in[0][e], b = in[1][e], w = in[2][e];
        if (wants[0] || (wants[2] && kind != IN_A_BRANCH && kind != STALE)) square[e] = b * b;
        if (d[0]) d[0][e] = v * square[e] * w * (kind == WITHOUT_ONE && !wants[1] ? 2 : 1);
        if (d[1])
            d[1][e] = 2 * v * a * b * w * (kind == ONLY_TWO && wants[0] && !wants[2] ? 1.5 : 1);
        if (d[2]) d[2][e] = v * a * square[e];
    }
    return true;
}
static const ct_op need_op = {.name = "need",
                              .attrs_size = sizeof(need_kind),
                              .forward = need_forward,
                              .backward = need_backward};
static ct_tensor *needing(ct_tensor *const *in, int n, void *arg) {
    return (void)n, ct_apply(&need_op, in, 3, arg);
}
/* With an input before and behind, which wants its own gradient. */
static ct_tensor *needing_in_a_layer(ct_tensor *const *in, int n, void *arg) {
    ct_tensor *inside[] = {in[0], ct_sin(in[1]), in[2]};
    return (void)n, ct_mul(ct_apply(&need_op, inside, 3, arg), in[3]);
}
/* The last three of six inputs. */
static ct_tensor *needing_of_six(ct_tensor *const *in, int n, void *arg) {
    return (void)n, ct_add(ct_add(in[0], ct_mul(in[1], in[2])), ct_apply(&need_op, in + 3, 3, arg));
}

START_TEST(a_gradient_does_not_depend_on_who_else_wants_one) {
    static const char *const words[] = {
        [BY_NEED] = "",
        [IN_A_BRANCH] =
            "wanted for input 2 and not for input 0 and 1, the gradient of input 2 differs",
        [STALE] = "the gradient of input 2 differs",
        [WITHOUT_ONE] = "for input 0 and not for input 1 and 2, the gradient of input 0 differs",
        [ONLY_TWO] = "for input 0 and 1 and not for input 2, the gradient of input 1 differs",
        [UNSET] = "for input 2 and not for input 0 and 1, backward fails: ",
        [VALUE] = "with no gradient wanted, the value differs"};
    ct_tensor *in[6];
    const ct_fn all[] = {needing, needing_in_a_layer, needing_of_six};
    const int inputs[] = {3, 4, 6};
    need_kind kind = (need_kind)_i;
    for (int f = 0; f < 3; f++)
        for (int fast = 0; fast < 2; fast++) {
            for (int i = 0; i < 6; i++) in[i] = ct_randn(context, CT_F64, CT_SHAPE(2, 3));
            const ct_gradcheck_result r =
                ct_gradcheck(all[f], &kind, in, inputs[f], (ct_gradcheck_opts){.fast = fast});
            ck_assert_msg(r.ran && ct_error(context) == CT_OK, "%s", ct_error_message(context));
            ck_assert_msg(r.mistake == (kind == BY_NEED ? CT_MISTAKE_NONE : CT_MISTAKE_WANTS) &&
                              r.ok == (kind == BY_NEED) && r.wrong == 0,
                          "%d, function %d: %s: %s", _i, f, ct_mistake_name(r.mistake),
                          r.diagnosis);
            ck_assert_msg(f > 0 || strstr(r.diagnosis, words[_i]), "%d: %s", _i, r.diagnosis);
        }
}
END_TEST

/* None of the inputs is f32 or f64, or there is no element. */
START_TEST(nothing_to_want) {
    need_kind kind = VALUE;
    ct_tensor *in[3];
    for (int i = 0; i < 3; i++) in[i] = ct_randn(context, CT_F64, CT_SHAPE(0, 3));
    ct_gradcheck_result r = ct_gradcheck(needing, &kind, in, 3, (ct_gradcheck_opts){0});
    ck_assert_msg(r.ok, "%s", r.diagnosis);
}
END_TEST

static void setup(void) { context = ct_context_new((ct_context_opts){.seed = 5, .threads = 1}); }
static void teardown(void) { ct_context_free(context); }

int main(void) {
    Suite *suite = suite_create("gradcheck_state");
    TCase *tcase = tcase_create("state");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, state_is_found_and_named, SAVED, TAKEN + 1);
    tcase_add_test(tcase, only_the_gradient);
    tcase_add_test(tcase, several_outputs);
    tcase_add_test(tcase, a_module);
    tcase_add_test(tcase, inside_ct_recompute);
    tcase_add_test(tcase, what_is_right_stays_so);
    tcase_add_loop_test(tcase, a_gradient_does_not_depend_on_who_else_wants_one, BY_NEED,
                        VALUE + 1);
    tcase_add_test(tcase, nothing_to_want);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
