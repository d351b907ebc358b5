/* The setting of the precision of products: its values, its sources, and its errors. test_rounded.c
 * tests the kernels with it. */
#include "tests/support/suite.h"

#include <cotangent/cotangent.h>

#include <stdlib.h>
#include <string.h>

static void expect_refused(ct_context *context, const char *part) {
    ck_assert_int_eq(ct_error(context), CT_ERR_ARGUMENT);
    ck_assert_msg(strstr(ct_error_message(context), part) != NULL, "\"%s\" does not say %s",
                  ct_error_message(context), part);
    ct_error_clear(context);
}

START_TEST(setting) {
    ct_context *c = ct_context_new((ct_context_opts){.threads = 1});
    ck_assert_int_eq(ct_get_matmul(c), CT_MATMUL_F32);
    for (int p = CT_MATMUL_F32; p <= CT_MATMUL_BF16; p++) {
        ck_assert(ct_set_matmul(c, (ct_matmul_precision)p));
        ck_assert_int_eq(ct_get_matmul(c), p);
    }
    ck_assert(ct_set_matmul(c, CT_MATMUL_DEFAULT));
    ck_assert_int_eq(ct_get_matmul(c), CT_MATMUL_F32);
    ct_context_free(c);
    c = ct_context_new((ct_context_opts){.threads = 1, .matmul = CT_MATMUL_BF16X3});
    ck_assert_int_eq(ct_get_matmul(c), CT_MATMUL_BF16X3);
    ct_context_free(c);
    ck_assert_int_eq(ct_get_matmul(NULL), CT_MATMUL_F32);
    ck_assert(!ct_set_matmul(NULL, CT_MATMUL_BF16));
}
END_TEST

START_TEST(environment) {
    static const char *const names[] = {"f32", "bf16x6", "bf16x3", "bf16"};
    for (int i = 0; i < 4; i++) {
        setenv("CT_MATMUL", names[i], 1);
        ct_context *c = ct_context_new((ct_context_opts){.threads = 1});
        ck_assert_int_eq(ct_error(c), CT_OK);
        ck_assert_int_eq(ct_get_matmul(c), CT_MATMUL_F32 + i);
        ck_assert(ct_set_matmul(c, CT_MATMUL_F32) && ct_set_matmul(c, CT_MATMUL_DEFAULT));
        ck_assert_int_eq(ct_get_matmul(c), CT_MATMUL_F32 + i);
        ct_context_free(c);
        /* the option overrides it */
        c = ct_context_new((ct_context_opts){.threads = 1, .matmul = CT_MATMUL_BF16X3});
        ck_assert_int_eq(ct_get_matmul(c), CT_MATMUL_BF16X3);
        ct_context_free(c);
    }
    setenv("CT_MATMUL", "", 1);
    ct_context *c = ct_context_new((ct_context_opts){.threads = 1});
    ck_assert_int_eq(ct_error(c), CT_OK);
    ck_assert_int_eq(ct_get_matmul(c), CT_MATMUL_F32);
    ct_context_free(c);
    unsetenv("CT_MATMUL");
}
END_TEST

START_TEST(refused) {
    static const int wrong[] = {-1, 5, 1000};
    ct_context *c = ct_context_new((ct_context_opts){.threads = 1, .matmul = CT_MATMUL_BF16});
    for (int i = 0; i < 3; i++) {
        ck_assert(!ct_set_matmul(c, (ct_matmul_precision)wrong[i]));
        expect_refused(c, "not a ct_matmul_precision");
        ct_context *other = ct_context_new(
            (ct_context_opts){.threads = 1, .matmul = (ct_matmul_precision)wrong[i]});
        expect_refused(other, "not a ct_matmul_precision");
        ck_assert_int_eq(ct_get_matmul(other), CT_MATMUL_F32);
        ct_context_free(other);
    }
    static const char *const names[] = {"fp16", "BF16", "bf16 ", "bf16x"};
    for (int i = 0; i < 4; i++) {
        setenv("CT_MATMUL", names[i], 1);
        ck_assert(!ct_set_matmul(c, CT_MATMUL_DEFAULT));
        expect_refused(c, names[i]);
        ct_context *other = ct_context_new((ct_context_opts){.threads = 1});
        expect_refused(other, "f32, bf16x6, bf16x3 or bf16");
        ct_tensor *one = ct_ones(other, CT_F32, CT_SHAPE(2)); /* works when the error is cleared */
        ck_assert(ct_item(ct_sum(one, CT_ALL, false)) == 2);
        ct_context_free(other);
    }
    unsetenv("CT_MATMUL");
    ck_assert_int_eq(ct_get_matmul(c), CT_MATMUL_BF16); /* nothing has changed */
    ct_zeros(c, CT_F32, CT_SHAPE(-1));                  /* an error is pending: nothing is set */
    ck_assert(!ct_set_matmul(c, CT_MATMUL_F32));
    ck_assert_int_eq(ct_get_matmul(c), CT_MATMUL_BF16);
    ct_context_free(c);
}
END_TEST

int main(void) {
    return run_tests("precision of products", NULL, NULL,
                     TESTS(TEST(setting), TEST(environment), TEST(refused)));
}
