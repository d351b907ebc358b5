/* Structs of modules that have ended are used again after some thousand others, so that making and
 * freeing modules takes no more and more memory; debug mode names the module that was used. */
#define ONE_CONTEXT_DEBUG true
#include "tests/support/one_context.h"

enum { QUEUED = 4096 };

static ct_module *dropout(void) { return ct_dropout_new(context, 0.5); }

static ct_module *make(void) {
    ct_module *m = ct_module_new(context, "Mine");
    ck_assert(m && ct_module_add_child(m, "child", dropout()));
    return m;
}

/* As many objects as are queued, and some more, twice: the second time takes no memory. */
START_TEST(their_memory_is_used_again) {
    static ct_module *all[2 * QUEUED];
    int64_t held = 0;
    const int64_t before = live();
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < QUEUED; i++) ct_module_free(make());
        no_error();
        ck_assert_int_eq(live(), before);
        const int64_t now = live() + ct_memory(context).pooled;
        if (round > 0) ck_assert_int_eq(now, held);
        held = now;
    }
    for (int i = 0; i < 2 * QUEUED; i++) all[i] = make(); /* more than are queued, at once */
    no_error();
    for (int i = 0; i < 2 * QUEUED; i++) ck_assert_ptr_nonnull(ct_module_child(all[i], "child"));
    for (int i = 0; i < 2 * QUEUED; i++) ct_module_free(all[i]);
    ck_assert_int_eq(live(), before);
    ct_module *m = make(); /* a module in memory of ended ones is like new */
    ck_assert(ct_module_training(m) && ct_module_count(m) == 0 && ct_module_child(m, "child"));
    ck_assert_int_gt(live(), before);
    ct_module_free(m);
    ck_assert_int_eq(live(), before);
}
END_TEST

START_TEST(the_module_is_named) {
    ct_tensor *x = ct_ones(context, CT_F32, CT_SHAPE(2, 3));
    ct_module *m = make(), *child = ct_module_child(m, "child"),
              *linear =
                  ct_linear_new(context, (ct_linear_opts){.in_features = 3, .out_features = 3});
    ct_optim *optim = ct_sgd_new(linear, (ct_sgd_opts){.lr = 1});
    ct_module_free(m);
    ck_refused(ct_forward(child, x), CT_ERR_ARGUMENT,
               "ct_forward: the module Dropout child has ended: it was freed", "");
    ck_refused(ct_forward(m, x), CT_ERR_ARGUMENT,
               "ct_forward: the module Mine has ended: it was freed", "");
    ct_optim_free(optim);
    ck_refused(ct_optim_step(optim), CT_ERR_ARGUMENT,
               "ct_optim_step: the optimiser SGD has ended: it was freed", "");
}
END_TEST

int main(void) {
    return run_tests("ended_modules", setup, teardown,
                     TESTS(TEST(their_memory_is_used_again), TEST(the_module_is_named)));
}
