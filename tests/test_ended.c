/* Handles that have ended, without debug mode: each use is an error, for as many handles as are
 * remembered, and no use crashes. */
#include "ended_uses.h"

enum { REMEMBERED = 4096 };

/* A handle that `age` others have ended after, whose memory some of these have had. */
static ct_tensor *ended(int age) {
    ct_scope scope = ct_scope_open(context);
    ct_tensor *y = ct_full(context, CT_F32, CT_SHAPE(2, 3), 3);
    ct_scope_close(scope);
    for (int i = 0; i < age; i++) ct_release(ct_full(context, CT_F32, CT_SHAPE(2, 3), 7));
    return y;
}

static void is_an_error(const char *call, const char *function) {
    char begin[64];
    snprintf(begin, sizeof begin, "%s: ", function);
    const char *message = ct_error_message(context);
    ck_assert_msg(ct_error(context) == CT_ERR_ARGUMENT, "%s: %s", call, message);
    ck_assert_msg(!strncmp(message, begin, strlen(begin)), "%s: %s", call, message);
    expect(CT_ERR_ARGUMENT, " has ended: its scope was closed", "CT_DEBUG=1 says what made it");
}

START_TEST(every_use) {
    each_use_of(ended((int[]){0, 1, 2, 31, 32, 33, 500, 3000}[_i]), is_an_error);
}
END_TEST

static void is_harmless(const char *call, const char *function) {
    (void)call, (void)function;
    ct_error_clear(context);
}

START_TEST(the_oldest_crash_nothing) {
    for (int i = 0; i < 40; i++) each_use_of(ended(REMEMBERED + 500 + 777 * i), is_harmless);
}
END_TEST

START_TEST(an_input_is_named) {
    ct_tensor *y = ended(1), *x = ct_ones(context, CT_F32, CT_SHAPE(2, 3));
    ck_assert_ptr_null(ct_add(x, y));
    expect(CT_ERR_ARGUMENT, "add: input 1 has ended: its scope was closed", "");
    ck_assert_ptr_null(ct_max(y, CT_ALL, false));
    expect(CT_ERR_ARGUMENT, "max: input 0 has ended: its scope was closed", "");
}
END_TEST

/* As many as handle.h says are remembered, in any order of ends, with handles that stay between. */
START_TEST(the_last_are_remembered) {
    static ct_tensor *made[3 * REMEMBERED];
    const int n = 3 * REMEMBERED;
    uint32_t random = 1;
    int first = 0; /* those before have ended, more than REMEMBERED ago */
    static int order[3 * REMEMBERED];
    int ends = 0;
    for (int i = 0; i < n; i++) {
        made[i] = ct_full(context, CT_F32, CT_SCALAR, i);
        random = random * 1664525u + 1013904223u;
        if (random >> 30 == 0) continue; /* a quarter stays */
        ct_release(made[i]);
        order[ends++] = i;
        first = ends > REMEMBERED ? ends - REMEMBERED : 0;
        if (i % 97) continue;
        for (int k = first; k < ends; k += 1 + (ends - first) / 50) {
            ck_assert_msg(!ct_neg(made[order[k]]), "%d of %d ended", k, ends);
            expect(CT_ERR_ARGUMENT, "neg: input 0 has ended", "");
        }
    }
    no_error();
}
END_TEST

/* What keeps handles over scopes by mistake: a leaf, a sum of losses, a gradient, a parameter. */
START_TEST(usual_mistakes) {
    ct_scope scope = ct_scope_open(context);
    ct_tensor *leaf = ct_set_requires_grad(ct_ones(context, CT_F32, CT_SHAPE(2)), true);
    ct_scope_close(scope);
    ck_assert_ptr_null(ct_sum(leaf, CT_ALL, false));
    expect(CT_ERR_ARGUMENT, "sum: input 0 has ended", "");

    ct_tensor *total = ct_zeros(context, CT_F32, CT_SCALAR);
    for (int step = 0; step < 3; step++) {
        scope = ct_scope_open(context);
        total = ct_add(total, ct_full(context, CT_F32, CT_SCALAR, 1));
        ct_scope_close(scope);
    }
    expect(CT_ERR_ARGUMENT, "add: input 0 has ended", "");

    ct_tensor *x = ct_set_requires_grad(ct_ones(context, CT_F32, CT_SHAPE(2)), true);
    ct_backward(ct_sum(ct_mul(x, x), CT_ALL, false));
    ct_tensor *g = ct_grad(x);
    ct_zero_grad(x);
    ct_full(context, CT_F32, CT_SHAPE(2), 99);
    ck_assert_ptr_null(ct_data_f32(g));
    expect(CT_ERR_ARGUMENT, "data: the tensor has ended", "");

    ct_module *m = ct_linear_new(context, (ct_linear_opts){.in_features = 2, .out_features = 2});
    ct_tensor *weight = ct_module_get(m, "weight");
    ct_module_free(m);
    ck_assert_ptr_null(ct_linear(x, weight, NULL));
    expect(CT_ERR_ARGUMENT, "linear: input 1 has ended", "");
}
END_TEST

/* A trim gives back no handle's memory. */
START_TEST(trimmed) {
    ct_tensor *kept[2000];
    for (int i = 0; i < 2000; i++) kept[i] = ct_full(context, CT_F32, CT_SCALAR, i);
    for (int i = 0; i < 2000; i++) ct_release(kept[i]);
    ct_memory_trim(context);
    for (int i = 0; i < 2000; i++) {
        ck_assert(isnan(ct_item(kept[i])));
        expect(CT_ERR_ARGUMENT, "item: the tensor has ended", "");
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("ended");
    TCase *tcase = tcase_create("ended");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, every_use, 0, 8);
    tcase_add_test(tcase, the_oldest_crash_nothing);
    tcase_add_test(tcase, an_input_is_named);
    tcase_add_test(tcase, the_last_are_remembered);
    tcase_add_test(tcase, usual_mistakes);
    tcase_add_test(tcase, trimmed);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
