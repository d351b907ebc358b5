/* The requirements of each dtype, tested in a walk over the table of dtypes. A new dtype fails here
 * until it has its row, its casts, its name in files and its text in print. */
#ifndef CTI_ASSERTS
#define CTI_ASSERTS
#endif
#include "src/core/dtype.h"
#include "src/kernels/elementwise.h"

#include <cotangent/cotangent.h>
#include <string.h>

#include "src/core/tensor.h"
#include "src/core/isa.h"
#include "tests/support/files.h"
#include "tests/support/suite.h"

enum { N = 5 };

START_TEST(a_row_is_whole) {
    const ct_dtype dtype = (ct_dtype)_i;
    const cti_dtype_info *row = &cti_dtype_table[dtype];
    ck_assert_msg(row->name && row->file, "dtype %d has no row in src/core/dtype.c", _i);
    /* an element has a size of its own, or is a code in a block */
    ck_assert_int_eq(row->size == 0, row->code_bits > 0);
    ck_assert_int_eq(cti_is_blocks(dtype), row->code_bits > 0);
    ck_assert_msg(cti_dtype_computed(row->computed) == row->computed, "%s: computed", row->name);
    ck_assert_msg(cti_dtype_statistics(row->statistics) == row->statistics, "%s: statistics",
                  row->name);
    ck_assert(cti_dtype_size(row->computed) >= row->size);
    ck_assert(cti_dtype_size(row->statistics) >= row->size);
    /* statistics are numbers of a kernel that computes in f32 or f64, and checks read them */
    if (row->real)
        ck_assert_msg(row->statistics == CT_F32 || row->statistics == CT_F64, "%s: statistics",
                      row->name);
    for (int other = 0; other < _i; other++)
        ck_assert(strcmp(row->name, cti_dtype_table[other].name) &&
                  strcmp(row->file, cti_dtype_table[other].file));
}
END_TEST

START_TEST(kernels_move_and_convert_it) {
    for (int isa = 0; cti_isa_at(isa); isa++) {
        const cti_kernels *kernels = cti_isa_at(isa)->of[_i];
        ck_assert_msg(kernels, "%s: no kernels of %s", cti_isa_at(isa)->name,
                      cti_dtype_name((ct_dtype)_i));
        if (cti_is_blocks((ct_dtype)_i)) continue; /* core/block_matrix.c moves and converts it */
        ck_assert(kernels->elementwise->fill && kernels->elementwise->where);
        for (int to = 0; to < CTI_DTYPES; to++)
            ck_assert_msg(kernels->elementwise->cast[to] || cti_is_blocks((ct_dtype)to),
                          "%s: no cast from %s to %s", cti_isa_at(isa)->name,
                          cti_dtype_name((ct_dtype)_i), cti_dtype_name((ct_dtype)to));
    }
}
END_TEST

/* 0 and 1 are numbers of every dtype, and a matrix of zeros has blocks of zeros. */
START_TEST(it_comes_back_from_casts_and_files) {
    const ct_dtype dtype = (ct_dtype)_i;
    const bool blocks = cti_is_blocks(dtype);
    const size_t bytes = (size_t)cti_dtype_bytes(dtype, blocks ? N * 32 : N);
    ct_tensor *x = blocks ? ct_cast(ct_zeros(context, CT_F32, CT_SHAPE(N, 32)), dtype)
                          : ct_ones(context, dtype, CT_SHAPE(N));
    for (int other = 0; other < CTI_DTYPES; other++) {
        const bool floats = other != CT_I64 && other != CT_BOOL;
        if (blocks ? !floats : cti_is_blocks((ct_dtype)other)) continue;
        ct_tensor *back = ct_cast(ct_cast(x, (ct_dtype)other), dtype);
        ck_assert_msg(back && !memcmp(back->data, x->data, bytes), "%s as %s and back",
                      cti_dtype_name(dtype), cti_dtype_name((ct_dtype)other));
    }
    const char *path = in_folder("x.safetensors");
    const ct_named named = {.name = "x", .tensor = x};
    ck_assert(ct_tensors_save(context, path, &named, 1, (ct_save_opts){0}));
    ct_safetensors *file = ct_safetensors_open(context, path);
    ct_safetensors_entry entry = {0};
    ck_assert(ct_safetensors_next(file, &entry));
    ck_assert_str_eq(entry.dtype, blocks ? "BF16" : cti_dtype_table[dtype].file);
    ct_tensor *back = ct_cast(ct_safetensors_read(file, "x"), dtype);
    ck_assert(back && !memcmp(back->data, x->data, bytes));
    ct_safetensors_close(file);
}
END_TEST

#ifdef tcase_add_loop_test_raise_signal /* Check has it, tests/portable has not */
#include <signal.h>

static const ct_dtype not_served[] = {CT_I64,  CT_BOOL, CT_BF16,
                                      CT_Q8_0, CT_Q4_0, (ct_dtype)CTI_DTYPES};
enum { NOT_SERVED = sizeof not_served / sizeof *not_served };
static double number[2] = {1, 2};

START_TEST(get_asserts_its_dtype) { (void)cti_real_get(not_served[_i], number, 0); }
END_TEST
START_TEST(set_asserts_its_dtype) { cti_real_set(not_served[_i], number, 0, 3); }
END_TEST
START_TEST(add_asserts_its_dtype) { cti_real_add(not_served[_i], number, 0, number, 1); }
END_TEST
#endif

/* cti_real_get, set and add serve f32 and f64: an op that computes in another dtype meets the
 * assert. Check needs a fork to survive it. */
static void add_asserts(Suite *suite) {
#ifndef tcase_add_loop_test_raise_signal
    (void)suite;
#else
    TCase *asserts = tcase_create("asserts");
    tcase_set_tags(asserts, "forks");
    if (tests_fork()) {
        tcase_add_loop_test_raise_signal(asserts, get_asserts_its_dtype, SIGABRT, 0, NOT_SERVED);
        tcase_add_loop_test_raise_signal(asserts, set_asserts_its_dtype, SIGABRT, 0, NOT_SERVED);
        tcase_add_loop_test_raise_signal(asserts, add_asserts_its_dtype, SIGABRT, 0, NOT_SERVED);
    }
    suite_add_tcase(suite, asserts);
#endif
}

int main(void) {
    Suite *suite = suite_create("dtypes");
    TCase *tcase = tcase_create("table");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, a_row_is_whole, 0, CTI_DTYPES);
    tcase_add_loop_test(tcase, kernels_move_and_convert_it, 0, CTI_DTYPES);
    tcase_add_loop_test(tcase, it_comes_back_from_casts_and_files, 0, CTI_DTYPES);
    suite_add_tcase(suite, tcase);
    add_asserts(suite);
    return run_suite(suite);
}
