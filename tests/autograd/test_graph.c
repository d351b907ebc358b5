/* The recorded graph as text and for Graphviz: content, order and names. */
#include "tests/support/suite.h"
#include <cotangent/cotangent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/fault_sweep.h"
#include "tests/support/memory_faults.h"

static ct_context *context;
static char text[1 << 18];

static void setup(void) { context = ct_context_new((ct_context_opts){.seed = 1, .threads = 1}); }
static void teardown(void) {
    ck_assert_msg(ct_error(context) == CT_OK, "left pending: %s", ct_error_message(context));
    ct_context_free(context);
}

static const char *written(bool (*write)(const ct_tensor *, FILE *), const ct_tensor *t) {
    FILE *file = fmemopen(text, sizeof text, "w");
    ck_assert(file && write(t, file));
    fclose(file);
    return text;
}

static void prints(const ct_tensor *t, const char *want) {
    ck_assert_str_eq(written(ct_graph_print, t), want);
}
static void draws(const ct_tensor *t, const char *part) {
    ck_assert_msg(strstr(written(ct_graph_dot, t), part), "no\n%s\nin\n%s", part, text);
}

static ct_tensor *ones(ct_shape shape) { return ct_ones(context, CT_F32, shape); }
static ct_tensor *leaf(ct_shape shape) { return ct_set_requires_grad(ones(shape), true); }
static ct_tensor *sum(ct_tensor *x) { return ct_sum(x, CT_ALL, false); }

START_TEST(ops_in_the_order_of_computation) {
    ct_tensor *x = leaf(CT_SHAPE(2, 3)), *b = leaf(CT_SHAPE(3)), *c = ones(CT_SHAPE(2, 3));
    ct_tensor *y = ct_mul(x, c), *unused = ct_exp(y), *z = ct_add(ct_mul(y, y), b);
    ct_tensor *picked = ct_embedding(ct_zeros(context, CT_I64, CT_SHAPE(2)), z);
    const char *want = "x1 = leaf (2, 3) f32\n"
                       "%1 = mul(x1, (2, 3) f32) (2, 3) f32\n"
                       "%2 = mul(%1, %1) (2, 3) f32\n"
                       "x2 = leaf (3) f32\n"
                       "%3 = add(%2, x2) (2, 3) f32\n"
                       "%4 = embedding((2) i64, %3) (2, 3) f32\n"
                       "%5 = sum(%4) () f32\n";
    ct_tensor *loss = sum(picked);
    prints(loss, want);
    prints(unused,
           "x1 = leaf (2, 3) f32\n%1 = mul(x1, (2, 3) f32) (2, 3) f32\n%2 = exp(%1) (2, 3) f32\n");
    prints(loss, want); /* writing has no effect on the graph */
    prints(ct_linear(x, ones(CT_SHAPE(4, 3)), NULL),
           "x1 = leaf (2, 3) f32\n%1 = linear(x1, (4, 3) f32, NULL) (2, 4) f32\n");
    ct_fail(context, CT_ERR_IO, "an earlier fault");
    prints(loss, want); /* works as a reader */
    ct_error_clear(context);
    ck_assert(ct_backward(loss)); /* backward is not affected */
    ck_assert_double_eq(ct_item(sum(ct_grad(x))), 12);
    prints(loss, "%1 = sum(released by backward) () f32\n");
    prints(unused, "%1 = mul(released by backward) (2, 3) f32\n%2 = exp(%1) (2, 3) f32\n");
    prints(x, "x1 = leaf (2, 3) f32\n");
    prints(c, "(2, 3) f32, of no recorded op\n");
}
END_TEST

START_TEST(the_same_for_graphviz) {
    ct_tensor *x = leaf(CT_SHAPE(2, 3)), *y = ct_add(ct_mul(x, ones(CT_SHAPE(3))), x),
              *loss = sum(y);
    ct_module *module =
        ct_linear_new(context, (ct_linear_opts){.in_features = 3, .out_features = 2});
    draws(loss, "digraph cotangent {\n");
    draws(loss, "    x1 [label=\"leaf\\n(2, 3) f32\", fillcolor=\"#fdf0c8\"];\n"
                "    n1 [label=\"mul\\n(2, 3) f32\"];\n"
                "    x1 -> n1;\n"
                "    c1 [label=\"(3) f32\", style=dashed, color=gray50, fontcolor=gray30];\n"
                "    c1 -> n1 [style=dashed, color=gray50];\n"
                "    n2 [label=\"add\\n(2, 3) f32\"];\n"
                "    n1 -> n2;\n"
                "    x1 -> n2;\n"
                "    n3 [label=\"sum\\n() f32\", penwidth=2];\n"
                "    n2 -> n3;\n"
                "}\n");
    draws(ct_forward(module, x),
          "    x2 [label=\"weight\\n(2, 3) f32\", fillcolor=\"#d5e8f7\"];\n");
    draws(x, "    x1 [label=\"leaf\\n(2, 3) f32\"");
    draws(ones(CT_SCALAR), "    c1 [label=\"() f32\", style=dashed];\n}\n");
    ct_backward(loss);
    draws(loss, "n1 [label=\"sum (released)\\n() f32\"");
}
END_TEST

static ct_tensor *itself(ct_call *c) { return c->in[0]; }
static bool its_gradient(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    return (void)c, grad[0] = g[0], true;
}

START_TEST(names_are_escaped) {
    const ct_op op = {
        .name = "a \"quoted\" \\N\n<b>{x|y}\x7f", .forward = itself, .backward = its_gradient};
    ct_module *module = ct_module_new(context, "mine");
    ct_tensor *w = ct_module_add_param(module, "w\"\\G\t", ones(CT_SCALAR)),
              *y = ct_apply(&op, &w, 1, NULL);
    draws(y, "n1 [label=\"a \\\"quoted\\\" \\\\N?<b>{x|y}?\\n() f32\"");
    draws(y, "x1 [label=\"w\\\"\\\\G?\\n() f32\"");
    prints(y, "x1 = parameter \"w\\\"\\\\G?\" () f32\n%1 = a \\\"quoted\\\" \\\\N?<b>{x|y}?(x1) () "
              "f32\n");
    ct_release(y);
}
END_TEST

START_TEST(parameters_have_their_full_names) {
    ct_module *model = ct_module_new(context, "model"), *list = NULL;
    const ct_linear_opts square = {.in_features = 2, .out_features = 2, .no_bias = true};
    for (int i = 0; i < 2; i++) list = ct_module_append(model, "h", ct_linear_new(context, square));
    ct_tensor *x = ones(CT_SHAPE(1, 2)),
              *y = ct_forward(list, ct_forward(ct_module_child(model, "h.0"), x));
    prints(
        y,
        "x1 = parameter \"h.0.weight\" (2, 2) f32\n%1 = linear((1, 2) f32, x1, NULL) (1, 2) f32\n"
        "x2 = parameter \"h.1.weight\" (2, 2) f32\n%2 = linear(%1, x2, NULL) (1, 2) f32\n");
    ct_module *outer =
        ct_module_new(context, "outer"); /* the name at the time of printing counts */
    ct_module_add_child(outer, "inner", model);
    ct_tensor *tied = ct_module_add_param(outer, "tied", ct_module_get(model, "h.0.weight"));
    prints(tied, "x1 = parameter \"inner.h.0.weight\" (2, 2) f32\n");
    prints(
        y,
        "x1 = parameter \"inner.h.0.weight\" (2, 2) f32\n%1 = linear((1, 2) f32, x1, NULL) (1, 2) "
        "f32\n"
        "x2 = parameter \"inner.h.1.weight\" (2, 2) f32\n%2 = linear(%1, x2, NULL) (1, 2) f32\n");
    ct_module_free(model); /* the graph keeps the leaf, without the name of a freed module */
    prints(y, "x1 = leaf (2, 2) f32\n%1 = linear((1, 2) f32, x1, NULL) (1, 2) f32\n"
              "x2 = leaf (2, 2) f32\n%2 = linear(%1, x2, NULL) (1, 2) f32\n");
    ck_assert(ct_backward(sum(y)));
}
END_TEST

START_TEST(a_million_nodes) {
    enum { N = 1000000 };
    ct_tensor *x = leaf(CT_SHAPE(1)), *y = x;
    for (int i = 0; i < N; i++) {
        ct_tensor *next = i % 3 ? ct_neg(y) : ct_add(y, x);
        if (y != x) ct_release(y);
        y = next;
    }
    FILE *file = tmpfile();
    ck_assert(file && ct_graph_print(y, file));
    rewind(file);
    char line[128], want[128];
    ck_assert(fgets(line, sizeof line, file) && !strcmp(line, "x1 = leaf (1) f32\n"));
    for (int i = 1; i <= N; i++) {
        if (i == 1) snprintf(want, sizeof want, "%%1 = add(x1, x1) (1) f32\n");
        else
            snprintf(want, sizeof want,
                     i % 3 == 1 ? "%%%d = add(%%%d, x1) (1) f32\n" : "%%%d = neg(%%%d) (1) f32\n",
                     i, i - 1);
        if (!fgets(line, sizeof line, file) || strcmp(line, want))
            ck_abort_msg("line %d: %s, not %s", i, line, want);
    }
    ck_assert(!fgets(line, sizeof line, file));
    rewind(file);
    ck_assert(ct_graph_dot(y, file) && ftell(file) > 50 * N);
    fclose(file);
    ck_assert(ct_backward(sum(y)));
}
END_TEST

/* The graph may hold a leaf longer than its module lives: a freed module's name is not read. */
START_TEST(a_leaf_whose_parameter_has_gone) {
    for (int frozen = 0; frozen < 2; frozen++)
        for (int thawed = 0; thawed < 2; thawed++)
            for (int held = 0; held < 2;
                 held++) { /* whether an optimiser holds the tensor after its module was freed */
                ct_module *m = ct_linear_new(
                    context,
                    (ct_linear_opts){.in_features = 2, .out_features = 2, .no_bias = true});
                ct_module *outer = ct_module_new(context, "outer");
                ck_assert(ct_module_add_param(outer, "tied", ct_module_get(m, "weight")));
                ct_optim *optim = held ? ct_sgd_new(outer, (ct_sgd_opts){0}) : NULL;
                ct_tensor *weight = ct_module_get(m, "weight"),
                          *y = ct_forward(m, ones(CT_SHAPE(1, 2)));
                if (frozen) ct_set_requires_grad(weight, false);
                if (thawed) ct_set_requires_grad(weight, true);
                prints(y,
                       frozen
                           ? "x1 = leaf (2, 2) f32\n%1 = linear((1, 2) f32, x1, NULL) (1, 2) f32\n"
                           : "x1 = parameter \"weight\" (2, 2) f32\n%1 = linear((1, 2) f32, x1, "
                             "NULL) (1, 2) f32\n");
                if (thawed || !frozen)
                    prints(ct_forward(m, ones(CT_SHAPE(1, 2))),
                           "x1 = parameter \"weight\" (2, 2) f32\n%1 = linear((1, 2) f32, x1, "
                           "NULL) (1, 2) f32\n");
                ct_module_free(m);
                if (!held) ct_module_free(outer);
                for (int i = 0; i < 50; i++) ones(CT_SHAPE(1 + i % 7));
                prints(y, "x1 = leaf (2, 2) f32\n%1 = linear((1, 2) f32, x1, NULL) (1, 2) f32\n");
                if (held) {
                    ct_module_free(outer);
                    (void)optim;
                }
            }
}
END_TEST

START_TEST(what_fails) {
    ct_tensor *x = leaf(CT_SHAPE(2)), *y = ct_neg(x);
    ck_assert(!ct_graph_dot(NULL, stdout) && !ct_graph_print(NULL, stdout));
    ck_assert(!ct_graph_dot(y, NULL));
    ck_assert_int_eq(ct_error(context), CT_ERR_ARGUMENT);
    ct_error_clear(context);
    FILE *full = fopen("/dev/full", "w");
    if (full) {
        setvbuf(full, NULL, _IONBF, 0);
        ck_assert(!ct_graph_print(y, full));
        ck_assert_int_eq(ct_error(context), CT_ERR_IO);
        ct_error_clear(context);
        fclose(full);
    }
    prints(y, "x1 = leaf (2) f32\n%1 = neg(x1) (2) f32\n");

    ct_context *small = ct_context_new((ct_context_opts){.threads = 1, .memory_limit = 1 << 20});
    ct_tensor *z = ct_set_requires_grad(ct_ones(small, CT_F32, CT_SCALAR), true), *last = z,
              *spare = ct_ones(small, CT_F32, CT_SHAPE(1 << 16));
    int ops = 0;
    for (; !ct_error(small); ops++) {
        ct_tensor *next = ct_neg(z);
        if (next) last = z = next;
    }
    ct_error_clear(small);
    ck_assert(!ct_graph_print(last, stdout)); /* no memory for its numbers */
    ck_assert_int_eq(ct_error(small), CT_ERR_MEMORY);
    ct_error_clear(small);
    ct_release(spare);
    const char *lines = written(ct_graph_print, last);
    for (ops--; (lines = strchr(lines, '\n')); lines++) ops--;
    ck_assert_int_eq(ops, -1); /* and the line of the leaf */
    ct_context_free(small);
}
END_TEST

/* ---- with numbers ---- */

static const ct_graph_opts both = {.values = true, .grads = true};

static void shows_with(const ct_tensor *t, ct_graph_opts opts, const char *part) {
    FILE *file = fmemopen(text, sizeof text, "w");
    ck_assert(file && ct_graph_dot_with(t, file, opts));
    fclose(file);
    ck_assert_msg(strstr(text, part), "no\n%s\nin\n%s", part, text);
}
static void shows(const ct_tensor *t, const char *part) { shows_with(t, both, part); }
static int count_of(const char *part) {
    int count = 0;
    for (const char *at = text; (at = strstr(at, part)); at++) count++;
    return count;
}

static ct_tensor *f32_of(const float *data, ct_shape shape) {
    return ct_from_f32(context, shape, data);
}

START_TEST(values_of_small_tensors) {
    ct_tensor *x = f32_of((float[]){1, -2.5f, 1e-7f, 4, 5, 12345.6f}, CT_SHAPE(2, 3));
    ct_set_requires_grad(x, true);
    ct_tensor *ids = ct_from_i64(context, CT_SHAPE(3), (int64_t[]){1, 0, 1}),
              *rows = ct_embedding(ids, x), *turned = ct_transpose(x, 0, 1),
              *all = ct_add(ct_sum(rows, CT_ALL, false), ct_sum(turned, CT_ALL, false));
    shows(all, "x1 [label=\"leaf\\n(2, 3) f32\\n[[1, -2.5, 1e-07], [4, 5, 1.235e+04]]\", fill");
    shows(all, "c1 [label=\"(3) i64\\n[1, 0, 1]\", style=dashed");
    shows(all, "[label=\"transpose\\n(3, 2) f32\\n[[1, 4], [-2.5, 5], [1e-07, 1.235e+04]]\"];");
    shows(all, "[label=\"add\\n() f32\\n3.706e+04\", penwidth=2];");
    ck_assert(!strstr(text, "not kept") && !strstr(text, "=red"));
    shows(ct_ones(context, CT_BOOL, CT_SHAPE(1, 2)),
          "(1, 2) bool\\n[[true, true]]\", style=dashed");
    shows(ct_ones(context, CT_F64, CT_SHAPE(2, 1, 2)), "\\n[[[1, 1]], [[1, 1]]]\"");
    shows(ct_zeros(context, CT_F32, CT_SHAPE(0, 5)), "(0, 5) f32\\nno elements\"");
    shows(x, "x1 [label=\"leaf\\n(2, 3) f32\\n[[1, -2.5, 1e-07], [4, 5, 1.235e+04]]\"");
}
END_TEST

START_TEST(values_of_large_tensors) {
    double data[12], sum = 0;
    for (int i = 0; i < 12; i++) sum += data[i] = (i * 7 % 12) * 0.25 - 1;
    ct_tensor *x = ct_from_f64(context, CT_SHAPE(3, 4), data);
    char want[128];
    snprintf(want, sizeof want, "\\nmin -1, mean %.4g, max 1.75\"", sum / 12);
    shows(x, want);
    shows(ct_transpose(x, 0, 1), want);
    shows(ct_expand(ct_narrow(x, 0, 1, 1), CT_SHAPE(5, 4)), "\\nmin -0.75, mean 0.375, max 1.75\"");
    shows(ct_full(context, CT_F64, CT_SHAPE(9), 1e308), "\\nmin 1e+308, mean 1e+308, max 1e+308\"");
    shows(ct_full(context, CT_F32, CT_SHAPE(9), 0), "\\nmin 0, mean 0, max 0\"");
    shows(ct_full(context, CT_I64, CT_SHAPE(3, 3), -4), "\\nmin -4, mean -4, max -4\"");
}
END_TEST

START_TEST(nan_and_infinities_are_red) {
    float data[10] = {NAN, 1, 2, 3, INFINITY, 4, -INFINITY, 5, 6, 7};
    ct_tensor *x = ct_set_requires_grad(f32_of(data, CT_SHAPE(10)), true), *c = ones(CT_SHAPE(10)),
              *y = ct_mul(x, c), *z = ct_narrow(y, 0, 1, 3),
              *bad = f32_of((float[]){-NAN, INFINITY, -INFINITY}, CT_SHAPE(3));
    shows(ct_mul(z, bad), "x1 [label=\"leaf\\n(10) f32\\n1 nan, 2 inf, min 1, mean 4, max 7\", "
                          "fillcolor=\"#fdf0c8\", color=red, fontcolor=red];\n");
    shows(ct_mul(z, bad), "c2 [label=\"(3) f32\\n[nan, inf, -inf]\", style=dashed, color=red, "
                          "fontcolor=red];\n");
    ck_assert_int_eq(count_of("fontcolor=red"), 4); /* x, y, bad and the product; not c and z */
    ck_assert(strstr(text, "Red: NaN or infinite."));
    shows(z, "n2 [label=\"narrow\\n(3) f32\\n[1, 2, 3]\", penwidth=2];\n");
    ck_assert(ct_backward(sum(ct_mul(z, bad))));
    shows(x, "\\n|grad| nan (1 nan)\"");
    shows_with(x, (ct_graph_opts){.grads = true},
               "x1 [label=\"leaf\\n(10) f32\\n|grad| nan (1 nan)\", "
               "fillcolor=\"#fdf0c8\", color=red, fontcolor=red];");
    ct_zero_grad(x);
    ck_assert(ct_backward(sum(ct_mul(ct_narrow(x, 0, 1, 2), ct_narrow(bad, 0, 1, 2)))));
    shows(x, "\\n|grad| inf (2 inf)\"");
}
END_TEST

START_TEST(norms_of_gradients) {
    ct_tensor *x = ct_set_requires_grad(ct_randn(context, CT_F64, CT_SHAPE(4, 5)), true),
              *w = ct_set_requires_grad(ct_randn(context, CT_F64, CT_SHAPE(3, 5)), true),
              *h = ct_retain_grad(ct_silu(ct_linear(x, w, NULL))), *loss = sum(ct_mul(h, h));
    shows(loss, "n1");
    ck_assert(!strstr(text, "|grad|"));
    ck_assert(ct_backward_with(&loss, NULL, 1, (ct_backward_opts){.retain_graph = true}));
    ct_tensor *const of[] = {x, w, h};
    static const char *const node[] = {"x1 [label=\"leaf\\n(4, 5) f64",
                                       "x2 [label=\"leaf\\n(3, 5) f64",
                                       "n2 [label=\"silu\\n(4, 3) f64"};
    for (int i = 0; i < 3; i++) {
        double grad[20], squares = 0;
        const int64_t n = ct_numel(of[i]);
        ck_assert(ct_to_f64(ct_grad(of[i]), grad, n));
        for (int64_t e = 0; e < n; e++) squares += grad[e] * grad[e];
        char want[128];
        snprintf(want, sizeof want, "%s\\n|grad| %.6g\"", node[i], sqrt(squares));
        shows_with(loss, (ct_graph_opts){.grads = true}, want);
    }
    ck_assert_int_eq(count_of("|grad|"), 3); /* not of the results whose gradient is not kept */
    shows_with(loss, (ct_graph_opts){.values = true}, "min");
    ck_assert(!strstr(text, "|grad|"));
    ct_zero_grad(h);
    shows(loss, "|grad|");
    ck_assert_int_eq(count_of("|grad|"), 2);
    ct_zero_grad(x);
    ck_assert(ct_backward(ct_sum(ct_scale(x, 1e200), CT_ALL, false)));
    char want[64];
    snprintf(want, sizeof want, "\\n|grad| %.6g\"", 1e200 * sqrt(20));
    shows(x, want); /* squares of 1e200 overflow */
}
END_TEST

/* A result is shown while anything has its values, and never read after that. */
START_TEST(values_that_were_not_kept) {
    ct_tensor *x = leaf(CT_SHAPE(2)), *c = ones(CT_SHAPE(2));
    ct_scope scope = ct_scope_open(context);
    ct_tensor *h = ct_add(x, c), *y = ct_add(h, c), *e = ct_exp(y), *z = ct_add(e, c);
    shows(z, "n1 [label=\"add\\n(2) f32\\n[2, 2]\"];");
    shows(z, "n2 [label=\"add\\n(2) f32\\n[3, 3]\"];");
    ct_release(h);
    shows(z, "n1 [label=\"add\\n(2) f32\\nvalues not kept\"];");
    shows(z, "n2 [label=\"add\\n(2) f32\\n[3, 3]\"];");
    shows(z, "c1 [label=\"(2) f32\\nvalues not kept\", style=dashed, color=gray50");
    ct_release(e);
    z = ct_scope_return(scope, z);
    for (int i = 0; i < 50; i++) ones(CT_SHAPE(2));
    shows(z, "n2 [label=\"add\\n(2) f32\\nvalues not kept\"];");
    shows(z, "n3 [label=\"exp\\n(2) f32\\n[20.09, 20.09]\"];"); /* saved by exp */
    shows(z, "n4 [label=\"add\\n(2) f32\\n[21.09, 21.09]\", penwidth=2];");
    ct_release(x);
    shows(z, "x1 [label=\"leaf\\n(2) f32\\nvalues not kept\", fillcolor");
    ck_assert(ct_backward(sum(z)));
    shows(z, "n1 [label=\"add (released)\\n(2) f32\\n[21.09, 21.09]\", penwidth=2];");
}
END_TEST

/* No scope owns a parameter, and add saves none of its values. */
START_TEST(values_of_parameters) {
    ct_module *module = ct_module_new(context, "module");
    ct_tensor *w = ct_module_add_param(module, "w", ones(CT_SHAPE(2)));
    const char *want = "x1 [label=\"w\\n(2) f32\\n[1, 1]\", fillcolor=\"#d5e8f7\"];";
    shows(ct_add(w, ones(CT_SHAPE(2))), want);
    shows(w, want);
}
END_TEST

/* A leaf shows its present values, and so does an op's kept copy of it. */
START_TEST(a_leaf_that_has_changed) {
    ct_tensor *x = leaf(CT_SHAPE(2)), *y = ct_mul(x, x);
    ct_data_f32(x)[0] = ct_data_f32(x)[1] = 3;
    shows(y, "x1 [label=\"leaf\\n(2) f32\\n[3, 3]\", fillcolor");
    ct_release(x);
    shows(y, "x1 [label=\"leaf\\n(2) f32\\n[3, 3]\", fillcolor"); /* saved by mul */
}
END_TEST

static ct_tensor *twice(ct_call *c) {
    c->drop = CT_DROP_INPUTS | CT_DROP_OUT;
    c->outs[1] = ct_scale(c->in[0], 3);
    return ct_scale(c->in[0], 2);
}
static bool twice_gradient(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    (void)c;
    grad[0] = g[0] ? ct_scale(g[0], 2) : ct_scale(g[1], 3);
    return true;
}

START_TEST(several_outputs) {
    const ct_op op = {
        .name = "a&amp;b", .forward = twice, .backward = twice_gradient, .outputs = 2};
    ct_tensor *x = leaf(CT_SHAPE(1)), *outs[2];
    ck_assert(ct_apply_many(&op, &x, 1, NULL, outs));
    ct_retain_grad(outs[1]);
    ct_tensor *y = ct_add(outs[1], x);
    ck_assert(ct_backward_with(&y, NULL, 1, (ct_backward_opts){.retain_graph = true}));
    shows(y, "n1 [label=\"a&amp;amp;b\\n2 outputs\\noutput 0: [2]\\noutput 1: [3]\\noutput 1: "
             "|grad| 1\"];");
    ct_data_f32(outs[0])[0] = INFINITY; /* red, though the other is finite */
    shows(y, "output 0: [inf]\\noutput 1: [3]\\noutput 1: |grad| 1\", color=red, fontcolor=red];");
    ct_release(outs[0]);
    shows(y, "n1 [label=\"a&amp;amp;b\\n2 outputs\\noutput 0: values not kept\\noutput 1: [3]\\n");
    prints(y, "x1 = leaf (1) f32\n%1 = a&amp;b(x1) (1) f32\n%2 = add(%1.1, x1) (1) f32\n");
    ct_release(y), ct_release(outs[1]);
}
END_TEST

START_TEST(without_options_it_is_graph_dot) {
    ct_tensor *x = leaf(CT_SHAPE(2)), *loss = sum(ct_mul(ct_exp(x), ones(CT_SHAPE(2))));
    ck_assert(ct_backward_with(&loss, NULL, 1, (ct_backward_opts){.retain_graph = true}));
    shows_with(loss, (ct_graph_opts){0}, "digraph");
    char *plain = strdup(text);
    ck_assert_str_eq(written(ct_graph_dot, loss), plain);
    free(plain);
    ct_fail(context, CT_ERR_IO, "an earlier fault");
    shows(loss, "\\n[2.718, 2.718]\""); /* works as a reader */
    ct_error_clear(context);
}
END_TEST

static bool draw(void *y) {
    FILE *file = fmemopen(text, sizeof text, "w");
    const bool done = ct_graph_dot_with(y, file, both);
    fclose(file);
    return done;
}
static void numbers_are_cleared(const fault_end *end, void *y) {
    FAULT_CK(end, end->done == !end->struck);
    ct_error_clear(context);
    prints(y, "x1 = leaf (2) f32\n%1 = neg(x1) (2) f32\n");
}

START_TEST(what_fails_with_numbers) {
    ct_tensor *x = leaf(CT_SHAPE(2)), *y = ct_neg(x), *ended = ones(CT_SHAPE(2));
    ct_release(ended);
    ck_assert(!ct_graph_dot_with(NULL, stdout, both) && !ct_graph_dot_with(y, NULL, both));
    ck_assert_int_eq(ct_error(context), CT_ERR_ARGUMENT);
    ct_error_clear(context);
    ck_assert(!ct_graph_dot_with(ended, stdout, both));
    ck_assert(strstr(ct_error_message(context), "graph: the tensor has ended"));
    ct_error_clear(context);
    FILE *full = fopen("/dev/full", "w");
    if (full) {
        setvbuf(full, NULL, _IONBF, 0);
        ck_assert(!ct_graph_dot_with(y, full, both));
        ck_assert_int_eq(ct_error(context), CT_ERR_IO);
        ct_error_clear(context);
        fclose(full);
    }
    fault_sweep(&(fault_case){.name = "a graph",
                              .kind = FAULT_TAKE,
                              .context = &context,
                              .arg = y,
                              .run = draw,
                              .end = numbers_are_cleared,
                              .least = 2,
                              .most = 2});
    const ct_memory_stats before = ct_memory(context);
    shows(y, "\\n[-1, -1]\"");
    ck_assert_int_eq(ct_memory(context).live, before.live);
}
END_TEST

int main(void) {
    return run_cases(
        "graph",
        CASES({.name = "a large graph",
               .tags = "one-thread",
               .before = setup,
               .after = teardown,
               .tests = TESTS(TEST(a_million_nodes))},
              {.name = "graph",
               .before = setup,
               .after = teardown,
               .tests =
                   TESTS(TEST(ops_in_the_order_of_computation), TEST(the_same_for_graphviz),
                         TEST(names_are_escaped), TEST(parameters_have_their_full_names),
                         TEST(a_leaf_whose_parameter_has_gone), TEST(what_fails),
                         TEST(values_of_small_tensors), TEST(values_of_large_tensors),
                         TEST(nan_and_infinities_are_red), TEST(norms_of_gradients),
                         TEST(values_that_were_not_kept), TEST(values_of_parameters),
                         TEST(a_leaf_that_has_changed), TEST(several_outputs),
                         TEST(without_options_it_is_graph_dot), TEST(what_fails_with_numbers))}));
}
