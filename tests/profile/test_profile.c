/* The profile: the exact counts of each op and module; how time is divided; when it
 * starts and stops; and that it changes no bit. */
#include "ops/update/update.h"
#include "src/core/isa.h"
#include "profile_check.h"

/* ---- counts ---- */

static void step(ct_module *mlp, ct_optim *optim, ct_tensor *x) {
    const ct_scope scope = ct_scope_open(context);
    ct_optim_zero_grad(optim);
    ck_assert(ct_backward(ct_mse_loss(ct_forward(mlp, x), x)));
    ck_assert(ct_optim_step(optim));
    ct_scope_close(scope);
}

START_TEST(calls_by_op_and_module) {
    enum { STEPS = 3 };
    ct_module *mlp = ct_mlp_new(context, (ct_mlp_opts){.dim = 3, .hidden = 5});
    ct_optim *optim = ct_adamw_new(mlp, (ct_adamw_opts){.clip_norm = 0.1});
    ct_tensor *x = ct_rand(context, CT_F32, CT_SHAPE(4, 3));
    start();
    for (int i = 0; i < STEPS; i++) step(mlp, optim, x);
    ct_clip_grad_norm(mlp, 1e-9);
    stop();
    calls(op("linear"), STEPS, STEPS);
    calls(op("activated_linear"), STEPS, STEPS);
    calls(op("adam_step"), STEPS, 0);
    calls(op("sum_squares"), STEPS + 1, 0);
    calls(op("scale_in_place"), 4, 0); /* each gradient */
    calls(module("MLP"), STEPS, 0);
    calls(module("fc"), STEPS, 0);
    calls(module("-"), 0, 0);
    ck_assert_int_eq(used(&profile()->modules), 2);
    ck_assert_int_eq(module("MLP")->parent, 0);
    ck_assert_ptr_eq(&profile()->modules.row[module("fc")->parent], module("MLP"));
    /* linear ran in fc, activated_linear in the MLP, and so did their backwards */
    const double one = 2.0 * 4 * 3 * 5 * STEPS;
    ck_assert_double_eq(module("fc")->flops, 2 * one);  /* the product, dW */
    ck_assert_double_eq(module("MLP")->flops, 3 * one); /* the product, dW, dx */
    ck_assert_double_eq(module("-")->flops, 0);
    ck_assert_int_gt(module("fc")->time[1], 0);
    ck_assert_int_gt(module("MLP")->time[1], 0);
    ck_assert_int_eq(op("adam_step")->bytes, STEPS * 7 * 4 * (3 * 5 + 5 + 5 * 3 + 3));
    const int64_t in_ops = time_of(&profile()->ops), in_modules = time_of(&profile()->modules);
    ck_assert(in_ops <= in_modules && in_modules <= cti_profile_wall(profile()));
    no_error();
}
END_TEST

START_TEST(bytes_made_and_kept) {
    ct_tensor *x = leaf(CT_SHAPE(4, 3)), *y = ct_rand(context, CT_F32, CT_SHAPE(4, 3));
    ct_module *fc = ct_linear_new(context, (ct_linear_opts){.in_features = 3, .out_features = 5});
    start();
    ct_add(x, y);
    ct_exp(x);
    ct_mul(x, y);
    ct_mul(y, y);
    ct_reshape(x, CT_SHAPE(12));
    ct_reshape(ct_transpose(x, 0, 1), CT_SHAPE(12)); /* not a view but a copy */
    ct_argmax(x, 1);
    ct_tensor *z = ct_forward(fc, x);
    stop();
    const int64_t n = 4 * 3 * 4;
    ck_assert_int_eq(op("add")->bytes, 3 * n);
    ck_assert_int_eq(op("add")->made, n);
    ck_assert_int_eq(op("add")->kept, 0);
    ck_assert_int_eq(op("exp")->kept, n); /* its output */
    ck_assert_int_eq(op("mul")->kept, n); /* only y for dx, and nothing without a gradient */
    ck_assert_int_eq(op("mul")->made, 2 * n);
    ck_assert_int_eq(op("view")->made + op("view")->bytes, 0);
    calls(op("view"), 2, 0);
    ck_assert_int_eq(op("contiguous")->made, n);
    ck_assert_int_eq(op("contiguous")->bytes, 2 * n);
    ck_assert_int_eq(op("argmax")->made, 4 * 8);
    ck_assert_int_eq(op("linear")->made, 4 * 5 * 4);
    ck_assert_int_eq(op("linear")->kept, n); /* x, and the weight, which is a parameter */
    start();
    ck_assert(ct_backward(total(z)));
    stop();
    /* linear reads the cotangent, x and W, and writes three gradients
     */
    ck_assert_int_eq(op("linear")->bytes, 4 * (20 + 12 + 15 + 12 + 15 + 5));
    start();
    ck_assert(ct_backward(total(ct_exp(ct_view(ct_add(x, y), CT_SHAPE(12))))));
    stop();
    ck_assert_int_eq(op("view")->bytes, 0); /* their backwards hand on the cotangent */
    ck_assert_int_eq(op("add")->bytes, 3 * n);
    ck_assert_int_eq(op("exp")->bytes, 2 * n + 3 * n);
    no_error();
}
END_TEST

START_TEST(bytes_of_updates) {
    ct_tensor *x = ct_rand(context, CT_F32, CT_SHAPE(4, 3)),
              *y = ct_zeros(context, CT_F32, x->shape);
    start();
    ck_assert(ct_init_constant(x, 1) && ct_init_uniform(x, 0, 1) && ct_copy_into(y, x));
    ck_assert(cti_op_scale_in_place(x, 2));
    stop();
    ck_assert_int_eq(op("fill")->bytes, 4 * 12);
    ck_assert_int_eq(op("random_fill")->bytes, 4 * 12);
    ck_assert_int_eq(op("copy_into")->bytes, 2 * 4 * 12);
    ck_assert_int_eq(op("scale_in_place")->bytes, 2 * 4 * 12);
    no_error();
}
END_TEST

START_TEST(flops_of_products) {
    ct_tensor *a = leaf(CT_SHAPE(2, 3)), *b = leaf(CT_SHAPE(3, 4)), *c = leaf(CT_SHAPE(5, 6, 7)),
              *d = ct_rand(context, CT_F32, CT_SHAPE(5, 7, 8));
    ct_tensor *large = ct_rand(context, CT_F32, CT_SHAPE(90, 100));
    start();
    ct_tensor *y = ct_matmul(a, b);
    ck_assert_double_eq(op("matmul")->flops, 48);
    ct_tensor *z = ct_matmul(c, d);
    ck_assert_double_eq(op("matmul")->flops, 48 + 2 * 5 * 6 * 7 * 8);
    ck_assert(ct_backward(ct_add(total(y), total(z))));
    ck_assert_double_eq(op("matmul")->flops, 3 * 48 + 2 * 2 * 5 * 6 * 7 * 8); /* d wants none */
    ct_linear(large, large, NULL);
    ck_assert_double_eq(op("linear")->flops, 2.0 * 90 * 90 * 100);
    ct_einsum("ij,kj->ik", large, large);
    ck_assert_double_eq(op("einsum")->flops, 2.0 * 90 * 90 * 100);
    ck_assert_double_eq(op("sum")->flops, 0);
    stop();
    no_error();
}
END_TEST

/* B 2, H 4, d 8: pairs of queries and keys that the causal mask leaves, times d and dv */
START_TEST(flops_of_attention) {
    static const struct {
        int64_t t, s;
        bool causal;
        int64_t pairs;
    } cases[] = {
        {6, 9, false, 54}, {6, 9, true, 21}, {9, 6, true, 21 + 3 * 6},
        {7, 7, true, 28},  {1, 5, false, 5}, /* decoding keeps the scores for backward */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ct_tensor *q = leaf(CT_SHAPE(2, 4, cases[i].t, 8)),
                  *k = leaf(CT_SHAPE(2, 4, cases[i].s, 8));
        ct_tensor *v = leaf(CT_SHAPE(2, 4, cases[i].s, 8));
        start();
        const ct_attention_opts opts = {.causal = cases[i].causal};
        ct_tensor *y = ct_attention(q, k, v, opts).out;
        const double product = 2.0 * 2 * 4 * (double)cases[i].pairs * 8;
        ck_assert_double_eq(op("attention")->flops, 2 * product);
        ck_assert(ct_backward(total(y)));
        stop();
        ck_assert_double_eq(op("attention")->flops, (cases[i].t == 1 ? 6 : 7) * product);
    }
    no_error();
}
END_TEST

/* ---- an op made of others ---- */

START_TEST(times_are_exclusive) {
    ct_module *outer = ct_module_set_forward(ct_module_new(context, "Outer"), calls_twice, NULL);
    inside = ct_layer_norm_new(context, (ct_layer_norm_opts){.dim = 3});
    ct_tensor *x = leaf(CT_SHAPE(4, 3));
    start();
    ck_assert(ct_backward(total(ct_forward(outer, x))));
    stop();
    calls(op(twice.name), 1, 1);
    calls(op("scale"), 1, 1); /* the second in its backward */
    calls(op("add"), 1, 0);
    calls(op("layer_norm"), 1, 0);
    calls(module("Outer"), 1, 0);
    calls(module("LayerNorm"), 1, 0);
    ck_assert_ptr_eq(&profile()->modules.row[module("LayerNorm")->parent], module("Outer"));
    /* to the nanosecond: an op's time is its duration without what is inside */
    int64_t duration = 0, within = 0, outside = 0;
    for (int64_t i = 0; i < profile()->events_count; i++) {
        const cti_profile_event *e = &profile()->event[i];
        const char *name = profile()->ops.row[e->op].name;
        if (e->kind == CTI_SPAN_MODULE && e->module == module("Outer") - profile()->modules.row)
            outside = e->duration;
        else if (e->kind == CTI_SPAN_MODULE) within += e->duration;
        else if (!strcmp(name, twice.name)) duration += e->duration;
        else if (!strcmp(name, "scale") || !strcmp(name, "add")) within += e->duration;
    }
    const cti_profile_row *row = op(twice.name);
    ck_assert_int_eq(row->time[0] + row->time[1], duration - within);
    ck_assert_int_eq(module("Outer")->time[0] + module("LayerNorm")->time[0], outside);
    start();
    ct_forward(outer, x);
    ct_forward(inside, x); /* once inside another module, once not: two rows */
    stop();
    ck_assert_int_eq(profile()->modules.count, CTI_PROFILE_FIRST + 3);
    calls(module("LayerNorm"), 1, 0);
    inside = NULL;
    no_error();
}
END_TEST

/* ---- when it starts and stops ---- */

START_TEST(a_second_start_is_from_zero) {
    ct_tensor *x = leaf(CT_SHAPE(4, 3)), *y;
    ct_module *norm = ct_layer_norm_new(context, (ct_layer_norm_opts){.dim = 3});
    ct_module *fc = ct_linear_new(context, (ct_linear_opts){.in_features = 3, .out_features = 5});
    start();
    ct_exp(x);
    y = ct_forward(norm, x);
    start(); /* while it runs */
    ct_exp(x);
    calls(op("exp"), 1, 0);
    ck_assert_int_eq(profile()->events_count, 1);
    stop();
    ct_exp(x);
    calls(op("exp"), 1, 0);
    const int64_t before = live();
    start();
    ck_assert_int_eq(live(), before);
    ct_forward(fc, x);                /* has the row that the norm had */
    ck_assert(ct_backward(total(y))); /* recorded before: its module is not known any more */
    stop();
    calls(op("layer_norm"), 0, 1);
    ck_assert_int_eq(profile()->modules.count, CTI_PROFILE_FIRST + 1);
    ck_assert_int_eq(module("Linear")->time[1], 0);
    ck_assert_int_gt(module("-")->time[1], 0);
    no_error();
}
END_TEST

static bool stopped;
static bool stop_inside(ct_context *c) { return stopped = ct_profile_stop(c); }

START_TEST(start_and_stop_inside_an_op) {
    ct_tensor *x = leaf(CT_SHAPE(4, 3));
    in_forward = ct_profile_start;
    ck_refused(apply(x), CT_ERR_ARGUMENT, "profile_start", "inside");
    ck_assert_ptr_null(profile());
    start();
    in_forward = stop_inside;
    ck_assert_ptr_nonnull(apply(x));
    ck_assert(stopped && !profile()->open && !profile()->running);
    calls(op(twice.name), 1, 0); /* until the stop */
    ck_assert_int_eq(profile()->events_count, 1);
    in_forward = NULL;
    start();
    ck_assert_ptr_nonnull(apply(x));
    stop();
    ck_refused(ct_profile_stop(context), CT_ERR_ARGUMENT, "profile_stop", "no profile runs");
}
END_TEST

START_TEST(errors_on_the_way) {
    ct_module *fc = ct_linear_new(context, (ct_linear_opts){.in_features = 3, .out_features = 5});
    ct_tensor *x = leaf(CT_SHAPE(4, 2));
    start();
    ck_refused(ct_forward(fc, x), CT_ERR_SHAPE, "linear", "(4, 2)");
    ck_assert_ptr_null(profile()->open);
    calls(op("linear"), 1, 0);
    calls(module("Linear"), 1, 0);
    ck_assert_int_eq(op("linear")->made + op("linear")->bytes, 0);
    ct_tensor *gone = ct_exp(x);
    ct_release(gone);
    ck_refused(ct_add(gone, gone), CT_ERR_ARGUMENT, "add", "ended");
    ct_error_clear(context);
    ck_assert(ct_fail(context, CT_ERR_IO, "an error of the caller's") == NULL);
    ck_assert(!ct_profile_start(context));
    stop(); /* works, and so do these */
    says("linear");
    ck_assert(ct_profile_trace(context, "/dev/null/x") == false);
    ct_error_clear(context);
}
END_TEST

START_TEST(nothing_and_null) {
    says("Profile: ct_profile_start was not called.\n");
    ck_refused(ct_profile_trace(context, "/tmp/x"), CT_ERR_ARGUMENT, "profile_trace: /tmp/x",
               "ct_profile_start was not called");
    start();
    says("Profile: nothing has run since ct_profile_start.\n");
    ck_refused(ct_profile_trace(context, NULL), CT_ERR_ARGUMENT, "profile_trace", "path is NULL");
    ck_refused(ct_profile_trace(context, "/nonexistent/trace.json"), CT_ERR_IO, "profile_trace",
               "/nonexistent/trace.json");
    ct_profile_print(context, NULL);
    expect(CT_ERR_ARGUMENT, "profile_print", "file is NULL");
    ct_exp(leaf(CT_SHAPE(2)));
    FILE *full = fopen("/dev/full", "w");
    if (full) {
        setvbuf(full, NULL, _IONBF, 0);
        ct_profile_print(context, full);
        expect(CT_ERR_IO, "profile_print", "cannot be written");
        fclose(full);
    }
    ck_assert(!ct_profile_start(NULL) && !ct_profile_stop(NULL) && !ct_profile_trace(NULL, "x"));
    ct_profile_print(NULL, stdout);
    ck_assert_int_eq(ct_threads(NULL), 0);
    ck_assert_str_eq(ct_isa_name(NULL), "");
    ck_assert(ct_set_threads(context, 3) && ct_threads(context) == 3);
    ck_assert_ptr_nonnull(strstr(cti_isa_names(), ct_isa_name(context)));
    /* teardown frees the context while the profile runs */
}
END_TEST

/* ---- it changes nothing ---- */

static void train(ct_context *c, bool profiled, float *out) {
    ct_module *encoder =
        ct_encoder_new(c, (ct_layer_opts){.embed_dim = 8, .num_heads = 2, .dropout = 0.1}, 1, true);
    ct_optim *optim = ct_adamw_new(encoder, (ct_adamw_opts){.clip_norm = 1});
    ct_tensor *y = NULL;
    if (profiled) ck_assert(ct_profile_start(c));
    for (int i = 0; i < 3; i++) {
        y = ct_forward(encoder, ct_randn(c, CT_F32, CT_SHAPE(2, 3, 8)));
        ck_assert(ct_backward(ct_mean(ct_mul(y, y), CT_ALL, false)) && ct_optim_step(optim));
    }
    memcpy(out, ct_data_f32(y), 48 * sizeof *out);
}

START_TEST(same_bits_and_two_contexts) {
    float with[48], without[48];
    ct_context *other = ct_context_new((ct_context_opts){.seed = 1, .threads = 2});
    ct_context *plain = ct_context_new((ct_context_opts){.seed = 1, .threads = 1});
    train(plain, false, without);
    train(context, true, with);
    ck_assert_mem_eq(with, without, sizeof with);
    const int64_t events = profile()->events_count;
    train(other, true, with);
    ck_assert_mem_eq(with, without, sizeof with);
    ck_assert_int_eq(profile()->events_count, events);
    ck_assert_int_eq(other->profile->events_count, events);
    stop();
    ck_assert(other->profile->running && !plain->profile);
    ct_context_free(plain);
    ct_context_free(other);
}
END_TEST

static ct_tensor *applied(ct_tensor *const *in, int n, void *arg) {
    (void)n, (void)arg;
    return apply(in[0]);
}

START_TEST(gradcheck_inside) {
    ct_tensor *x = ct_set_requires_grad(ct_rand(context, CT_F64, CT_SHAPE(2, 3)), true);
    start();
    ck_assert_msg(ct_gradcheck(applied, NULL, &x, 1, (ct_gradcheck_opts){0}).ran, "%s",
                  ct_error_message(context));
    stop();
    ck_assert_int_gt(op(twice.name)->calls[0], 10);
    ck_assert_int_ge(op(twice.name)->calls[1], 1);
    ck_assert_int_eq(op("scale")->calls[0] + op("scale")->calls[1],
                     op(twice.name)->calls[0] + op(twice.name)->calls[1]);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("profile");
    for (int debug = 0; debug < 2; debug++) {
        TCase *tests = tcase_create(debug ? "in debug mode" : "tests");
        tcase_add_checked_fixture(tests, debug ? setup_debug : setup, teardown);
        tcase_add_test(tests, calls_by_op_and_module);
        tcase_add_test(tests, bytes_made_and_kept);
        tcase_add_test(tests, bytes_of_updates);
        tcase_add_test(tests, flops_of_products);
        tcase_add_test(tests, flops_of_attention);
        tcase_add_test(tests, times_are_exclusive);
        tcase_add_test(tests, a_second_start_is_from_zero);
        tcase_add_test(tests, start_and_stop_inside_an_op);
        tcase_add_test(tests, errors_on_the_way);
        tcase_add_test(tests, nothing_and_null);
        tcase_add_test(tests, same_bits_and_two_contexts);
        tcase_add_test(tests, gradcheck_inside);
        suite_add_tcase(suite, tests);
    }
    return run_suite(suite);
}
