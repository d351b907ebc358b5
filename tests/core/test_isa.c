/* An instruction set that inherits another's tables. The sets below are in no library: this program
 * is linked with its own isa.c, in which they stand behind the scalar set. */
#include <stdlib.h>

#define CTI_SETS SET(scalar) HEIR(child) HEIR(grandchild)
#include "src/core/isa.h"
#include "src/kernels/products.h"
#include "src/kernels/unary.h"

static void exp_is_7(int64_t n, const void *x, void *y) {
    (void)x;
    for (int64_t i = 0; i < n; i++) ((float *)y)[i] = 7;
}
static void tanh_is_8(int64_t n, const void *x, void *y) {
    (void)x;
    for (int64_t i = 0; i < n; i++) ((float *)y)[i] = 8;
}
static cti_unary_kernels unary_of_child, unary_of_grandchild;
static cti_gemm_kernels gemm_of_grandchild;
void cti_kernels_child(cti_kernels *table) {
    unary_of_child = *table->unary;
    unary_of_child.exp = exp_is_7;
    table->unary = &unary_of_child;
}
void cti_kernels_grandchild(cti_kernels *table) {
    unary_of_grandchild = *table->unary;
    unary_of_grandchild.tanh = tanh_is_8;
    table->unary = &unary_of_grandchild;
    gemm_of_grandchild = *table->gemm;
    gemm_of_grandchild.mr = 2; /* numbers are entries too */
    table->gemm = &gemm_of_grandchild;
}

#include "src/core/isa.c"

#include "tests/support/suite.h"

#include <cotangent/cotangent.h>

START_TEST(a_child_has_all_but_what_it_replaces) {
    const cti_isa *scalar = cti_isa_find("scalar"), *child = cti_isa_find("child");
    const cti_isa *grandchild = cti_isa_find("grandchild");
    cti_kernels expected = *scalar->of[CT_F32];
    cti_unary_kernels unary = *expected.unary;
    unary.exp = exp_is_7;
    ck_assert(!memcmp(&unary, child->of[CT_F32]->unary, sizeof unary));
    expected.unary = &unary_of_child;
    ck_assert(!memcmp(&expected, child->of[CT_F32], sizeof expected));
    unary.tanh = tanh_is_8;
    ck_assert(!memcmp(&unary, grandchild->of[CT_F32]->unary, sizeof unary));
    expected.unary = &unary_of_grandchild, expected.gemm = &gemm_of_grandchild;
    ck_assert(!memcmp(&expected, grandchild->of[CT_F32], sizeof expected));
    ck_assert(!memcmp(scalar->of[CT_F64], grandchild->of[CT_F64], sizeof expected));
    ck_assert_ptr_eq(grandchild->of[CT_I64], scalar->of[CT_I64]);
    ck_assert_ptr_eq(grandchild->of[CT_BOOL], scalar->of[CT_BOOL]);
    ck_assert_ptr_eq(cti_isa_at(1), child);
    ck_assert_ptr_eq(cti_isa_find(NULL), grandchild);
}
END_TEST

/* Checks the results of a program with CT_ISA=isa: e^0, tanh 0 and 1 + 1 in f32, e^0 in f64. */
static void expect(const char *isa, float e, float tanh, double e_f64) {
    setenv("CT_ISA", isa, 1);
    ct_context *context = ct_context_new((ct_context_opts){.threads = 1});
    ct_tensor *zero = ct_zeros(context, CT_F32, CT_SHAPE(1));
    ct_tensor *one = ct_ones(context, CT_F32, CT_SHAPE(1));
    ct_tensor *zero_f64 = ct_zeros(context, CT_F64, CT_SHAPE(1));
    ck_assert_float_eq(ct_data_f32(ct_exp(zero))[0], e);
    ck_assert_float_eq(ct_data_f32(ct_tanh(zero))[0], tanh);
    ck_assert_float_eq(ct_data_f32(ct_add(one, one))[0], 2);
    ck_assert_double_eq(ct_data_f64(ct_exp(zero_f64))[0], e_f64);
    ck_assert_int_eq(ct_error(context), CT_OK);
    ct_context_free(context);
}

START_TEST(a_program_finds_it_by_name) {
    expect("scalar", 1, 0, 1);
    expect("child", 7, 0, 1);
    expect("grandchild", 7, 8, 1);
}
END_TEST

int main(void) {
    return run_tests(
        "instruction sets", NULL, NULL,
        TESTS(TEST(a_child_has_all_but_what_it_replaces), TEST(a_program_finds_it_by_name)));
}
