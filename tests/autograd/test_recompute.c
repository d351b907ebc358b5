/* ct_recompute: the same bits as without it, the memory that it keeps, the leaves that get
 * gradients. test_recompute_refused.c tests the refusals, and test_recompute_layers.c layers with
 * ct_layer_opts.recompute. */
#include "src/autograd/recompute.h"
#include "src/core/profile.h"

#include "tests/support/recompute_check.h"

/* two blocks, each again by ct_recompute, or the second only */
static ct_tensor *nested(ct_tensor *const *in, int n, void *arg) {
    ct_tensor *y = ct_recompute(block, arg, in, n);
    return ct_recompute(block, arg, &y, 1);
}
static ct_tensor *deeper(ct_tensor *const *in, int n, void *arg) {
    ct_tensor *y = ct_tanh(ct_recompute(nested, arg, in, n));
    return ct_mul(y, ct_recompute(block, arg, &y, 1));
}

static bool plainly; /* call functions directly */
static ct_tensor *apply(ct_fn fn, void *arg, ct_tensor *const *in, int n) {
    return plainly ? fn(in, n, arg) : ct_recompute(fn, arg, in, n);
}

/* ---- the same bits ---- */

/* A graph in which a leaf, results and parameters are used inside and outside, before and after:
 * gradients of everything, and the loss. ct_recompute runs `inner`. */
static void graph(ct_fn inner, result *out) {
    ct_seed(context, 9);
    ct_scope scope = ct_scope_open(context);
    const int64_t e = 13;
    part p = part_of(e), q = part_of(e);
    ct_tensor *x = parameter(CT_SHAPE(7, e)), *early = ct_tanh(x);
    ct_tensor *before = ct_linear(early, p.w, NULL); /* p.w and early are used outside too */
    ct_retain_grad(before);
    ct_tensor *y = apply(inner, &p, &before, 1);
    ct_retain_grad(y);
    ct_tensor *z = ct_add(apply(inner, &q, &y, 1), ct_mul(before, early));
    z = ct_add(apply(inner, &p, &z, 1), ct_linear(z, q.w, p.b));
    z = ct_dropout(ct_mul(z, x), 0.2, true);
    ct_tensor *cotangent = ct_randn(context, CT_F32, ct_shape_of(z));
    for (int i = 0; i < 2; i++) /* leaves have gradients already in the second round */
        ck_assert_msg(ct_backward_with(&z, &cotangent, 1, (ct_backward_opts){.retain_graph = !i}),
                      "%s", ct_error_message(context));
    result_clear(out);
    result_add(out, z);
    ct_tensor *of[] = {x, p.w, p.b, q.w, q.b, before, y};
    for (int i = 0; i < 7; i++) result_add(out, ct_grad(of[i]));
    result_add_rng(out, context);
    ct_scope_close(scope);
}

START_TEST(the_same_bits) {
    static const ct_fn inner[] = {block, nested, deeper};
    static result want, got;
    for (int i = 0; i < 3; i++)
        for (int threads = 1; threads <= 3; threads += 2) {
            ct_set_threads(context, threads);
            plainly = true;
            graph(inner[i], &want);
            plainly = false;
            graph(inner[i], &got);
            result_same(&want, &got);
        }
}
END_TEST

/* If the precision of products is changed between forward and backward, the second run uses the
 * precision of the first run, and the products of backward itself use the new one. */
static void set_between(ct_matmul_precision first, ct_matmul_precision then, result *out) {
    ct_seed(context, 5);
    ct_set_matmul(context, first);
    ct_scope scope = ct_scope_open(context);
    part p = part_of(128);
    ct_tensor *x = parameter(CT_SHAPE(64, 128)), *y = apply(block, &p, &x, 1);
    ct_tensor *loss = ct_mean(ct_mul(y, y), CT_ALL, false);
    ct_set_matmul(context, then);
    ck_assert_msg(ct_backward(loss), "%s", ct_error_message(context));
    ck_assert(ct_get_matmul(context) == then);
    result_clear(out);
    ct_tensor *of[] = {loss, ct_grad(x), ct_grad(p.w), ct_grad(p.b)};
    for (int i = 0; i < 4; i++) result_add(out, of[i]);
    ct_scope_close(scope);
    ct_set_matmul(context, CT_MATMUL_DEFAULT);
}
START_TEST(the_same_bits_by_another_precision) {
    static result want, got;
    for (int i = 0; i < 2; i++) {
        const ct_matmul_precision first = i ? CT_MATMUL_BF16 : CT_MATMUL_F32,
                                  then = i ? CT_MATMUL_F32 : CT_MATMUL_BF16;
        plainly = true;
        set_between(first, then, &want);
        plainly = false;
        set_between(first, then, &got);
        result_same(&want, &got);
    }
}
END_TEST

/* A gradient that arrives in slices, and is strided: through narrow and transpose. */
static ct_tensor *doubled(ct_tensor *const *in, int n, void *arg) {
    (void)n, (void)arg;
    return ct_transpose(ct_mul(in[0], in[1]), 0, 1);
}
static void slices(result *out) {
    ct_seed(context, 2);
    ct_scope scope = ct_scope_open(context);
    ct_tensor *x = parameter(CT_SHAPE(5, 9)), *xs[] = {ct_tanh(x), NULL};
    xs[1] = xs[0];
    ct_tensor *y = apply(doubled, NULL, xs, 2);
    ck_assert(!plainly || ct_dim(y, 0) == 9);
    ct_tensor *loss = ct_sum(ct_mul(ct_narrow(y, 0, 1, 3), ct_narrow(y, 0, 4, 3)), CT_ALL, false);
    ck_assert(ct_backward(ct_add(loss, ct_sum(ct_exp(ct_narrow(xs[0], 1, 2, 2)), CT_ALL, false))));
    result_clear(out);
    result_add(out, loss);
    result_add(out, ct_grad(x));
    ct_scope_close(scope);
}
START_TEST(the_same_bits_in_debug_mode) {
    ct_context *plain = context;
    context = ct_context_new((ct_context_opts){.seed = 1, .threads = 1, .debug = true});
    static result want, got;
    plainly = true;
    graph(deeper, &want);
    plainly = false;
    graph(deeper, &got);
    result_same(&want, &got);
    ct_context_free(context);
    context = plain;
}
END_TEST
START_TEST(slices_and_strides) {
    static result want, got;
    plainly = true;
    slices(&want);
    plainly = false;
    slices(&got);
    result_same(&want, &got);
}
END_TEST

/* Which tensors are the same one decides what some functions compute. */
static ct_tensor *identities(ct_tensor *const *in, int n, void *arg) {
    part *p = arg;
    p->runs++;
    ck_assert_int_eq(n, 20);
    ck_assert(in[0] == in[19] && in[0] == in[7] && in[0] != in[1]);
    ck_assert(in[2] == p->w && !in[3] && !in[4]);
    ck_assert(ct_dtype_of(in[5]) == CT_I64 && !ct_requires_grad(in[5]));
    ct_tensor *sum = in[0];
    for (int i = 6; i < n; i++) sum = ct_add(sum, in[i]);
    return ct_add(ct_add(sum, in[1]), ct_index_select(in[2], 0, in[5]));
}
START_TEST(inputs_twice_and_none) {
    part p = part_of(3);
    ct_tensor *x = parameter(CT_SHAPE(2, 3)), *y = ct_neg(x), *in[20];
    for (int i = 0; i < 20; i++) in[i] = x;
    in[1] = y, in[2] = p.w, in[3] = in[4] = NULL;
    in[5] = ct_from_i64(context, CT_SHAPE(2), (int64_t[]){2, 0});
    ct_tensor *loss = ct_sum(ct_recompute(identities, &p, in, 20), CT_ALL, false);
    ck_assert_msg(ct_backward(loss), "%s", ct_error_message(context));
    ck_assert_int_eq(p.runs, 2);
    float g[9];
    ck_assert(ct_to_f32(ct_grad(x), g, 6));
    for (int i = 0; i < 6; i++) ck_assert(g[i] == 14); /* 15 times, and once through neg */
    ck_assert(ct_to_f32(ct_grad(p.w), g, 9));
    for (int i = 0; i < 9; i++) ck_assert(g[i] == (i / 3 != 1));
}
END_TEST

/* ---- leaves that get gradients ---- */

static ct_tensor *lookup(ct_tensor *const *in, int n, void *arg) {
    (void)n;
    return ct_embedding(in[0], ((part *)arg)->w);
}
START_TEST(parameters_where_no_input_requires_a_gradient) {
    part p = part_of(4);
    ct_tensor *ids = ct_from_i64(context, CT_SHAPE(3), (int64_t[]){1, 3, 1});
    ct_tensor *y = ct_recompute(lookup, &p, &ids, 1);
    ck_assert(ct_requires_grad(y));
    ck_assert(ct_backward(ct_sum(y, CT_ALL, false)));
    float g[16];
    ck_assert(ct_to_f32(ct_grad(p.w), g, 16));
    for (int i = 0; i < 16; i++) ck_assert(g[i] == (i / 4 == 1 ? 2 : i / 4 == 3));
    ct_set_requires_grad(p.w, false); /* now nothing does */
    const cti_node *last = context->tape_last;
    y = ct_recompute(lookup, &p, &ids, 1);
    no_error();
    ck_assert(!ct_requires_grad(y) && context->tape_last == last);
}
END_TEST

START_TEST(results_from_outside) {
    static result want, got;
    for (int i = 0; i < 2; i++) {
        plainly = !i;
        result *out = i ? &got : &want;
        ct_seed(context, 4);
        ct_tensor *x = parameter(CT_SHAPE(3, 5)), *v = parameter(CT_SHAPE(3, 5));
        part p = {.kept = ct_sigmoid(v)};
        ct_tensor *y = apply(times, &p, &x, 1);
        y = ct_sum(ct_mul(ct_mul(y, p.kept), apply(times, &p, &v, 1)), CT_ALL, false);
        ck_assert_msg(ct_backward(y), "%s", ct_error_message(context));
        result_clear(out);
        result_add(out, y), result_add(out, ct_grad(x)), result_add(out, ct_grad(v));
    }
    result_same(&want, &got);
}
END_TEST

/* fn returns what it was given, a view of it, a tensor without a gradient, or one from outside */
static ct_tensor *pass(ct_tensor *const *in, int n, void *arg) {
    (void)n;
    part *p = arg;
    p->runs++;
    switch (p->odd_run) {
    case 0: return in[0];
    case 1: return ct_transpose(in[0], 0, 1);
    case 2: return ct_detach(ct_exp(in[0]));
    case 3: return p->kept;
    default: return ct_ones(context, CT_F32, CT_SHAPE(2, 3));
    }
}
START_TEST(what_fn_returns) {
    for (int i = 0; i < 5; i++) {
        part p = {.odd_run = i};
        ct_tensor *leaf = parameter(CT_SHAPE(2, 3)), *x = ct_scale(leaf, 3);
        p.kept = ct_scale(x, 2);
        ct_tensor *y = ct_recompute(pass, &p, &x, 1);
        no_error();
        ck_assert(i != 0 || y == x);
        ck_assert(i != 3 || y == p.kept);
        ck_assert_int_eq(ct_requires_grad(y), i == 0 || i == 1 || i == 3);
        ct_tensor *loss = ct_add(ct_sum(y, CT_ALL, false), ct_sum(x, CT_ALL, false));
        ck_assert(ct_backward(loss));
        ck_assert_int_eq(p.runs, 1 + (i == 1)); /* only a view is an op inside */
        float g[6];
        ck_assert(ct_to_f32(ct_grad(leaf), g, 6));
        for (int k = 0; k < 6; k++) ck_assert(g[k] == (i < 2 ? 6 : i == 3 ? 9 : 3));
    }
}
END_TEST

START_TEST(nothing_is_recorded) {
    part p = part_of(3);
    ct_tensor *x = parameter(CT_SHAPE(2, 3));
    ct_scope scope = ct_scope_open_no_grad(context);
    const int64_t before = live();
    ct_tensor *y = ct_recompute(block, &p, &x, 1);
    no_error();
    ck_assert(!ct_requires_grad(y) && p.runs == 1 && !context->tape_last);
    ct_release(y);
    ck_assert_int_eq(live(), before); /* tensors that fn made have ended */
    ct_scope_close(scope);
}
END_TEST

/* ---- memory ---- */

/* Per block: the input, 12 kB in a block of up to an eighth more, and less than 1.5 kB for the
 * node. Without ct_recompute there would be four tensors of that size. */
START_TEST(only_inputs_are_kept) {
    enum { BLOCKS = 20, ROWS = 12, WIDTH = 256, INPUT = ROWS * WIDTH * (int)sizeof(float) };
    part p = part_of(WIDTH);
    ct_tensor *x = parameter(CT_SHAPE(ROWS, WIDTH));
    const int64_t before = live();
    for (int i = 0; i < BLOCKS; i++) {
        ct_tensor *y = ct_recompute(block, &p, &x, 1);
        no_error();
        if (i) ct_release(x);
        x = y;
    }
    const int64_t kept = live() - before;
    ck_assert_msg(kept < BLOCKS * (INPUT * 9 / 8 + 1536), "%lld bytes", (long long)kept);
    int nodes = 0;
    for (cti_node *node = context->tape_first; node; node = node->next) nodes++;
    ck_assert_int_eq(nodes, BLOCKS);
    ck_assert(ct_backward(ct_sum(x, CT_ALL, false)));
    ck_assert_int_eq(p.runs, 2 * BLOCKS);
    /* left: the last block's, which x still has, and the sum's */
    ck_assert_ptr_eq(context->tape_first->next, context->tape_last);
}
END_TEST

START_TEST(a_long_chain_needs_no_stack) {
    part p = part_of(1);
    ct_tensor *x = parameter(CT_SHAPE(1)), *y = x;
    for (int i = 0; i < 20000; i++) {
        ct_tensor *z = ct_recompute(i % 2 ? nested : block, &p, &y, 1);
        if (i) ct_release(y);
        y = i % 100 ? z : ct_scale(z, 0.01);
    }
    ck_assert(ct_backward(ct_sum(y, CT_ALL, false)));
    ck_assert_ptr_nonnull(ct_grad(x));
}
END_TEST

/* ---- what fn keeps ---- */

static ct_tensor *keeps(ct_tensor *const *in, int n, void *arg) {
    (void)n;
    part *p = arg;
    p->kept = ct_keep(ct_retain_grad(ct_mul(in[0], p->w)));
    return ct_retain_grad(ct_exp(p->kept));
}
START_TEST(kept_handles) {
    part p = part_of(2);
    ct_tensor *x = parameter(CT_SHAPE(2, 2)), *y = ct_recompute(keeps, &p, &x, 1), *first = p.kept;
    ct_tensor *after = ct_neg(x);
    ck_assert(ct_backward_with(&y, &after, 1, (ct_backward_opts){.retain_graph = true}));
    ck_assert(p.kept != first && !ct_grad(first) && ct_grad(p.kept));
    float g[4], a[4], v[4];
    ck_assert(ct_to_f32(ct_grad(y), g, 4) && ct_to_f32(after, a, 4));
    ck_assert(!memcmp(g, a, sizeof g));
    ck_assert(ct_to_f32(ct_grad(p.kept), g, 4) && ct_to_f32(after, a, 4) && ct_to_f32(y, v, 4));
    for (int i = 0; i < 4; i++) ck_assert(g[i] == a[i] * v[i]);
    /* the first has a graph of its own; the second's was moved, and is older than `after` */
    ct_tensor *outs[] = {p.kept, after, first}, *cotangents[] = {x, x, x};
    ck_assert_msg(ct_backward_with(outs, cotangents, 3, (ct_backward_opts){.retain_graph = true}) &&
                      ct_backward_with(outs, cotangents, 3, (ct_backward_opts){0}),
                  "%s", ct_error_message(context));
    ck_refused(ct_backward_with(outs, cotangents, 1, (ct_backward_opts){0}), CT_ERR_GRAD,
               "released", "mul");
    ck_assert(ct_backward_with(&y, &x, 1, (ct_backward_opts){0}));
    ck_refused(ct_backward_with(&y, &x, 1, (ct_backward_opts){0}), CT_ERR_GRAD, "released",
               "recompute");
}
END_TEST

/* ---- gradcheck ---- */

static ct_tensor *checked(ct_tensor *const *in, int n, void *arg) {
    (void)n;
    part *p = arg;
    ct_tensor *h = ct_dropout(ct_silu(ct_linear(in[0], in[1], p->b)), 0.3, true);
    return ct_add(h, in[0]);
}
static ct_tensor *under_check(ct_tensor *const *in, int n, void *arg) {
    return ct_recompute(checked, arg, in, n);
}
START_TEST(gradcheck) {
    part p = {.b = ct_set_requires_grad(ct_randn(context, CT_F64, CT_SHAPE(3)), true)};
    ct_tensor *in[] = {ct_randn(context, CT_F64, CT_SHAPE(5, 3)),
                       ct_randn(context, CT_F64, CT_SHAPE(3, 3))};
    const ct_gradcheck_result r = ct_gradcheck(under_check, &p, in, 2, (ct_gradcheck_opts){0});
    no_error();
    ck_assert_msg(r.ok && r.checked == 24, "%s", r.diagnosis);
}
END_TEST

/* ---- the graph and the profile ---- */

START_TEST(drawn_as_one_node) {
    part p = part_of(3);
    ct_tensor *x = parameter(CT_SHAPE(2, 3)), *y = ct_recompute(block, &p, &x, 1);
    ck_assert_ptr_eq(context->tape_last->call.op, &cti_op_recompute);
    char text[2000] = "";
    FILE *file = fmemopen(text, sizeof text, "w");
    ck_assert(ct_graph_print(y, file));
    fclose(file);
    ck_assert_str_eq(text, "x1 = leaf (2, 3) f32\nx2 = leaf (3, 3) f32\nx3 = leaf (3) f32\n"
                           "%1 = recompute(x1, x2, x3) (2, 3) f32\n");
    file = fmemopen(text, sizeof text, "w");
    ck_assert(ct_graph_dot_with(y, file, (ct_graph_opts){.values = true, .grads = true}));
    fclose(file);
    ck_assert(strstr(text, "recompute") && !strstr(text, "silu"));
}
END_TEST

/* The edges of a recomputed node lead to the leaves that it uses. The nodes of the second run are
 * on the tape only from the node's own backward on, so code that counts the uses of a leaf sees the
 * node before, and these nodes after. */
static const cti_node *watched;
static ct_tensor *watch(ct_tensor *const *in, int n, void *arg) {
    ct_tensor *y = block(in, n, arg);
    if (((part *)arg)->runs == 2) watched = cti_node_of(y->slot);
    return y;
}
static bool look(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    (void)c;
    ck_assert_ptr_null(watched);
    grad[0] = g[0];
    return true;
}
static ct_tensor *same(ct_call *c) { return c->in[0]; }
START_TEST(edges_of_its_node) {
    static const ct_op looks = {"looks", 0, same, look, 0, 0};
    part p = part_of(3);
    ct_tensor *x = parameter(CT_SHAPE(2, 3)), *y = ct_recompute(watch, &p, &x, 1);
    const cti_node *node = context->tape_last;
    ck_assert_int_eq(node->call.n, 3);
    ck_assert(node->edge[0] == x->slot && node->edge[1] == p.w->slot + 0 &&
              node->edge[2] == p.b->slot);
    ck_assert(ct_backward(ct_sum(ct_apply(&looks, &y, 1, NULL), CT_ALL, false)));
    ck_assert_ptr_nonnull(watched);
}
END_TEST

static const cti_profile_row *row(const char *name) {
    const cti_profile_table *ops = &context->profile->ops;
    for (int i = 0; i < ops->count; i++)
        if (!strcmp(ops->row[i].name, name)) return &ops->row[i];
    ck_abort_msg("no row %s", name);
    return NULL;
}
START_TEST(profiled) {
    part p = part_of(32);
    ct_tensor *x = parameter(CT_SHAPE(8, 32));
    ck_assert(ct_profile_start(context));
    ct_tensor *y = ct_recompute(block, &p, &x, 1);
    ck_assert_int_eq(row("silu")->kept, 0); /* dropped */
    ck_assert_int_eq(row("recompute")->kept, 8 * 32 * 4);
    ck_assert(ct_backward(ct_sum(y, CT_ALL, false)));
    ck_assert(ct_profile_stop(context));
    ck_assert(row("silu")->calls[0] == 1 && row("silu")->calls[1] == 2);
    ck_assert(row("recompute")->calls[0] == 1 && row("recompute")->calls[1] == 1);
}
END_TEST

int main(void) {
    return run_tests(
        "recompute", setup, teardown,
        TESTS(TEST(the_same_bits), TEST(the_same_bits_in_debug_mode),
              TEST(the_same_bits_by_another_precision), TEST(slices_and_strides),
              TEST(inputs_twice_and_none), TEST(parameters_where_no_input_requires_a_gradient),
              TEST(results_from_outside), TEST(what_fn_returns), TEST(nothing_is_recorded),
              TEST(only_inputs_are_kept), TEST(a_long_chain_needs_no_stack), TEST(kept_handles),
              TEST(gradcheck), TEST(drawn_as_one_node), TEST(edges_of_its_node), TEST(profiled)));
}
