/* Weights in blocks (q8_0, q4_0): the layout, casts, products and look-ups have the bits of the
 * same call with the values of the blocks in f32. */
#include <math.h>
#include <string.h>

#include "src/core/block_matrix.h"
#include "src/core/isa.h"
#include "src/core/row_rule.h"
#include "tests/support/one_context.h"
#include "tests/support/suite.h"

static const ct_dtype kinds[] = {CT_Q8_0, CT_Q4_0};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void same_bits(const char *what, ct_tensor *want, ct_tensor *got) {
    ct_context *c = ct_context_of(want);
    ck_assert_msg(want && got && ct_error(c) == CT_OK, "%s: %s", what, ct_error_message(c));
    const int64_t n = ct_numel(want);
    ck_assert_int_eq(n, ct_numel(got));
    const float *a = ct_data_f32(want), *b = ct_data_f32(got);
    for (int64_t i = 0; i < n; i++)
        ck_assert_msg(!memcmp(&a[i], &b[i], sizeof *a), "%s: number %d is %.9g and not %.9g", what,
                      (int)i, (double)b[i], (double)a[i]);
}

/* ---- layout and casts ---- */

static uint32_t random_state;
static unsigned char random_byte(void) {
    random_state = random_state * 1664525u + 1013904223u;
    return (unsigned char)(random_state >> 24);
}

/* Rows of random blocks, with any scale: denormal, infinite and NaN ones among them. */
enum { ROWS = 5, COLS = 3 * 512 + 64, BLOCK_BYTES = ROWS * COLS / 32 * 34 };

static ct_tensor *of_bytes(ct_context *c, ct_dtype dtype, unsigned char *blocks) {
    random_state = 7;
    for (int i = 0; i < BLOCK_BYTES; i++) blocks[i] = random_byte();
    ct_tensor *t = ct_cast(ct_zeros(c, CT_F32, CT_SHAPE(ROWS, COLS)), dtype);
    ck_assert_ptr_nonnull(t);
    cti_block_matrix_set_rows(t, 0, ROWS, cti_block_type(dtype), blocks);
    return t;
}

START_TEST(file_blocks_keep_their_bits) {
    static unsigned char blocks[BLOCK_BYTES], back[BLOCK_BYTES];
    static float want[ROWS * COLS], got[ROWS * COLS];
    for (int k = 0; k < KINDS; k++) {
        for (int i = 0; cti_isa_at(i); i++) {
            ct_context *c = ct_context_new((ct_context_opts){.isa = cti_isa_at(i)->name});
            ct_tensor *t = of_bytes(c, kinds[k], blocks);
            const cti_block type = cti_block_type(kinds[k]);
            const size_t bytes = (size_t)(ROWS * COLS / 32 * cti_block_bytes(type));
            cti_block_matrix_get_rows(t, 0, ROWS, back);
            ck_assert_mem_eq(blocks, back, bytes);
            cti_blocks_widen(type, blocks, want, ROWS * COLS / 32);
            ck_assert(ct_to_f32(t, got, ROWS * COLS));
            for (int j = 0; j < ROWS * COLS; j++)
                ck_assert_msg(
                    (isnan(want[j]) && isnan(got[j])) || !memcmp(&want[j], &got[j], sizeof *got),
                    "%s: %d: %g, not %g", cti_isa_at(i)->name, j, (double)got[j], (double)want[j]);
            /* any part of a row */
            for (int first = 0; first < 70; first++) {
                cti_block_row_widen(t, 3, first, 100 - first, got);
                for (int j = first; j < 100; j++) {
                    const float value = want[3 * COLS + j];
                    ck_assert(isnan(value) || got[j - first] == value);
                }
            }
            /* rows in another place, one by one */
            cti_block_matrix_set_rows(t, 1, 2, type, blocks + bytes / ROWS * 3);
            cti_block_matrix_get_rows(t, 2, 1, back);
            ck_assert_mem_eq(blocks + bytes / ROWS * 4, back, bytes / ROWS);
            ct_context_free(c);
        }
    }
}
END_TEST

START_TEST(casts_round_as_files_do) {
    static unsigned char blocks[BLOCK_BYTES], back[BLOCK_BYTES];
    static float values[ROWS * COLS];
    ct_tensor *x = ct_randn(context, CT_F32, CT_SHAPE(ROWS, COLS));
    for (int k = 0; k < KINDS; k++) {
        const cti_block type = cti_block_type(kinds[k]);
        const size_t bytes = (size_t)(ROWS * COLS / 32 * cti_block_bytes(type));
        ct_tensor *t = ct_cast(x, kinds[k]);
        cti_blocks_round(type, ct_data_f32(x), blocks, ROWS * COLS / 32);
        cti_block_matrix_get_rows(t, 0, ROWS, back);
        ck_assert_mem_eq(blocks, back, bytes);
        cti_blocks_widen(type, blocks, values, ROWS * COLS / 32);
        same_bits("cast", ct_from_f32(context, CT_SHAPE(ROWS, COLS), values), ct_cast(t, CT_F32));
        same_bits("clone", ct_cast(t, CT_F32), ct_cast(ct_clone(t), CT_F32));
        same_bits("itself", ct_cast(t, CT_F32), ct_cast(ct_cast(t, kinds[k]), CT_F32));
        same_bits("f64", ct_cast(t, CT_F32), ct_cast(ct_cast(t, CT_F64), CT_F32));
        same_bits("bf16", ct_cast(ct_cast(ct_cast(t, CT_F32), CT_BF16), CT_F32),
                  ct_cast(ct_cast(t, CT_BF16), CT_F32));
        ct_tensor *half = ct_cast(x, CT_BF16);
        same_bits("from bf16", ct_cast(ct_cast(ct_cast(half, CT_F32), kinds[k]), CT_F32),
                  ct_cast(ct_cast(half, kinds[k]), CT_F32));
        ct_tensor *turned = ct_transpose(ct_randn(context, CT_F32, CT_SHAPE(64, 3)), 0, 1);
        same_bits("strided", ct_cast(ct_cast(ct_contiguous(turned), kinds[k]), CT_F32),
                  ct_cast(ct_cast(turned, kinds[k]), CT_F32));
        const int64_t before = live();
        ct_tensor *copy = ct_clone(t);
        ck_assert_int_le(live() - before, (int64_t)(bytes + bytes / 8 + 1024));
        ct_release(copy);
    }
}
END_TEST

START_TEST(shapes_and_dtypes_that_do_not_fit) {
    ct_tensor *x = ct_ones(context, CT_F32, CT_SHAPE(2, 64));
    for (int k = 0; k < KINDS; k++) {
        const ct_shape wrong[] = {CT_SHAPE(64), CT_SHAPE(2, 33), CT_SHAPE(1, 2, 32), CT_SCALAR};
        for (int i = 0; i < 4; i++)
            ck_refused(ct_cast(ct_ones(context, CT_F32, wrong[i]), kinds[k]), CT_ERR_SHAPE,
                       "is for a matrix whose rows are multiples of 32", "cast");
        ck_refused(ct_cast(ct_ones(context, CT_I64, CT_SHAPE(2, 64)), kinds[k]), CT_ERR_DTYPE,
                   "i64", "");
        ct_tensor *t = ct_cast(x, kinds[k]);
        ck_refused(ct_cast(t, CT_BOOL), CT_ERR_DTYPE, "bool", "");
        ck_refused(ct_zeros(context, kinds[k], CT_SHAPE(2, 64)), CT_ERR_DTYPE, "ct_cast does", "");
        ck_refused(ct_set_requires_grad(t, true), CT_ERR_DTYPE, "", "");
        ct_tensor *leaf = ct_set_requires_grad(ct_ones(context, CT_F32, CT_SHAPE(2, 64)), true);
        ck_refused(ct_cast(leaf, kinds[k]), CT_ERR_GRAD, "no gradient flows through", "");
        for (int64_t rows = 0; rows < 2; rows++) { /* no elements */
            ct_tensor *none =
                ct_cast(ct_ones(context, CT_F32, CT_SHAPE(rows, rows ? 0 : 32)), kinds[k]);
            ck_assert(none && ct_to_f32(none, NULL, 0) && ct_clone(none));
        }
    }
    no_error();
}
END_TEST

/* ---- products ---- */

typedef struct {
    ct_tensor *y, *dx;
} product;

/* y = x W^T + bias and the gradient of x. */
static product linear(ct_tensor *x, ct_tensor *w, ct_tensor *bias) {
    ct_context *c = ct_context_of(x);
    ct_tensor *leaf = ct_set_requires_grad(ct_clone(x), true);
    ct_tensor *y = ct_linear(leaf, w, bias);
    ck_assert_msg(y != NULL, "%s", ct_error_message(c));
    ct_tensor *g = ct_clone(ct_detach(y));
    ck_assert(ct_backward_with(&y, &g, 1, (ct_backward_opts){0}));
    return (product){ct_detach(y), ct_grad(leaf)};
}

static void compare_products(ct_context *c, ct_dtype kind, int64_t rows, int64_t in, int64_t out,
                             bool with_bias) {
    ct_scope scope = ct_scope_open(c);
    const double size = rows % 3 ? 1 : 1e-3; /* 1e-3: the scales of blocks are denormal */
    ct_tensor *w = ct_cast(ct_scale(ct_randn(c, CT_F32, CT_SHAPE(out, in)), size), kind),
              *x = ct_randn(c, CT_F32, CT_SHAPE(rows, in)),
              *bias = with_bias ? ct_randn(c, CT_F32, CT_SHAPE(out)) : NULL,
              *wide = ct_cast(w, CT_F32);
    char what[128];
    const product want = linear(x, wide, bias), got = linear(x, w, bias);
    snprintf(what, sizeof what, "y of %d x %d by %d", (int)rows, (int)in, (int)out);
    same_bits(what, want.y, got.y);
    snprintf(what, sizeof what, "dx of %d x %d by %d", (int)rows, (int)in, (int)out);
    same_bits(what, want.dx, got.dx);
    ct_scope_close(scope);
}

static ct_context *context_of(int isa, int threads, ct_matmul_precision precision) {
    return ct_context_new((ct_context_opts){
        .seed = 3, .threads = threads, .isa = cti_isa_at(isa)->name, .matmul = precision});
}

static const ct_matmul_precision precisions[] = {CT_MATMUL_F32, CT_MATMUL_BF16, CT_MATMUL_BF16X3,
                                                 CT_MATMUL_BF16X6};

START_TEST(products_of_any_rows) {
    for (int k = 0; k < KINDS; k++) {
        for (int isa = 0; cti_isa_at(isa); isa++) {
            for (int t = 1; t < 3; t++) {
                ct_context *c = context_of(isa, t, precisions[_i]);
                for (int64_t rows = 1; rows <= 40; rows++)
                    compare_products(c, kinds[k], rows, 96, 37, rows % 2);
                ct_context_free(c);
            }
        }
    }
}
END_TEST

START_TEST(products_of_any_size) {
    static const int64_t size[][3] = {
        {1, 32, 1},    {1, 64, 7},    {3, 32, 5},  {1, 576, 192}, {2, 576, 100},  {7, 1568, 33},
        {33, 1568, 9}, {40, 800, 70}, {1, 800, 3}, {64, 64, 64},  {5, 1536, 200}, {3, 64, 1},
        {70, 4864, 6}, {0, 32, 3},    {2, 32, 0},  {1, 4864, 40}, {18, 480, 257}, {300, 96, 64}};
    for (int k = 0; k < KINDS; k++)
        for (int isa = 0; cti_isa_at(isa); isa++)
            for (int t = 1; t < 3; t++) {
                ct_context *c = context_of(isa, t, precisions[_i]);
                for (size_t s = 0; s < sizeof size / sizeof *size; s++)
                    compare_products(c, kinds[k], size[s][0], size[s][1], size[s][2], s % 2);
                ct_context_free(c);
            }
}
END_TEST

/* The rule by which generation computes, and batches that do not merge into rows. */
START_TEST(products_by_the_row_rule) {
    for (int k = 0; k < KINDS; k++) {
        for (int isa = 0; cti_isa_at(isa); isa++) {
            ct_context *c = context_of(isa, 2, precisions[_i]);
            ct_tensor *w = ct_cast(ct_randn(c, CT_F32, CT_SHAPE(65, 160)), kinds[k]),
                      *wide = ct_cast(w, CT_F32);
            for (int rule = CTI_ROWS_ANY; rule <= CTI_ROWS_MANY; rule++) {
                const cti_rows before = cti_set_rows(c, (cti_rows)rule);
                for (int64_t rows = 1; rows < 30; rows += 4) {
                    ct_tensor *x = ct_randn(c, CT_F32, CT_SHAPE(3, rows, 160)),
                              *columns =
                                  ct_transpose(ct_randn(c, CT_F32, CT_SHAPE(160, rows)), 0, 1),
                              *apart =
                                  ct_transpose(ct_randn(c, CT_F32, CT_SHAPE(rows, 3, 160)), 0, 1);
                    same_bits("dense", ct_linear(x, wide, NULL), ct_linear(x, w, NULL));
                    same_bits("columns", ct_linear(columns, wide, NULL),
                              ct_linear(columns, w, NULL));
                    same_bits("apart", ct_linear(apart, wide, NULL), ct_linear(apart, w, NULL));
                }
                cti_set_rows(c, before);
            }
            ct_context_free(c);
        }
    }
}
END_TEST

/* The other ops that multiply: values, and the gradient of x. */
START_TEST(other_products) {
    for (int k = 0; k < KINDS; k++) {
        for (int isa = 0; cti_isa_at(isa); isa++) {
            ct_context *c = context_of(isa, 2, CT_MATMUL_F32);
            for (int64_t rows = 1; rows < 40; rows += 6) {
                ct_tensor *w = ct_cast(ct_randn(c, CT_F32, CT_SHAPE(66, 64)), kinds[k]),
                          *weight[] = {ct_cast(w, CT_F32), w}, *dx[2][2], *y[2][2],
                          *x = ct_randn(c, CT_F32, CT_SHAPE(rows, 64)),
                          *residual = ct_randn(c, CT_F32, CT_SHAPE(rows, 66)),
                          *targets = ct_empty(c, CT_I64, CT_SHAPE(rows));
                for (int64_t i = 0; i < rows; i++) ct_data_i64(targets)[i] = 5 * i % 66;
                for (int i = 0; i < 2; i++) {
                    ct_tensor *a = ct_set_requires_grad(ct_clone(x), true),
                              *b = ct_set_requires_grad(ct_clone(x), true);
                    ct_tensor *act = ct_activated_linear(a, CT_SILU, weight[i], NULL, residual),
                              *loss = ct_linear_cross_entropy(b, weight[i], targets,
                                                              (ct_cross_entropy_opts){0});
                    ck_assert_msg(act && loss, "%s", ct_error_message(c));
                    ck_assert(ct_backward(ct_sum(act, CT_ALL, false)) && ct_backward(loss));
                    y[i][0] = ct_detach(act), y[i][1] = ct_detach(loss);
                    dx[i][0] = ct_grad(a), dx[i][1] = ct_grad(b);
                }
                for (int i = 0; i < 2; i++) {
                    same_bits(i ? "loss" : "activated_linear", y[0][i], y[1][i]);
                    same_bits(i ? "dx of loss" : "dx of activated_linear", dx[0][i], dx[1][i]);
                }
            }
            ct_context_free(c);
        }
    }
}
END_TEST

START_TEST(look_ups) {
    const int64_t index[] = {4, 0, 4, 3, 1, 1};
    ct_tensor *ids = ct_from_i64(context, CT_SHAPE(6), index);
    for (int k = 0; k < KINDS; k++) {
        ct_tensor *w = ct_cast(ct_randn(context, CT_F32, CT_SHAPE(5, 96)), kinds[k]),
                  *wide = ct_cast(w, CT_F32);
        same_bits("embedding", ct_embedding(ids, wide), ct_embedding(ids, w));
        ct_tensor *rows = ct_index_select(w, 0, ids);
        ck_assert_int_eq(ct_dtype_of(rows), kinds[k]);
        same_bits("index_select", ct_index_select(wide, 0, ids), ct_cast(rows, CT_F32));
        same_bits("index_select", ct_index_select(wide, -2, ids),
                  ct_cast(ct_index_select(w, -2, ids), CT_F32));
        ck_refused(ct_index_select(w, 1, ids), CT_ERR_DTYPE, "only along dim 0", "");
        ck_refused(ct_embedding(ct_full(context, CT_I64, CT_SHAPE(1), 5), w), CT_ERR_ARGUMENT, "",
                   "");
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("block_products");
    TCase *tcase = tcase_create("blocks");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, file_blocks_keep_their_bits);
    tcase_add_test(tcase, casts_round_as_files_do);
    tcase_add_test(tcase, shapes_and_dtypes_that_do_not_fit);
    tcase_add_loop_test(tcase, products_of_any_rows, 0, 4);
    tcase_add_loop_test(tcase, products_of_any_size, 0, 4);
    tcase_add_loop_test(tcase, products_by_the_row_rule, 0, 4);
    tcase_add_test(tcase, other_products);
    tcase_add_test(tcase, look_ups);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
