/* Tensors: creation, reading and printing; and the random generator. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "src/core/shape.h"
#include "tests/support/one_context.h"

/* ---- tensors ---- */

START_TEST(shapes_that_cannot_be) {
    ct_tensor *x = ct_zeros(context, CT_F32, CT_SHAPE(1, 2, 1, 2, 1, 2, 1, 2));
    ck_assert_int_eq(ct_ndim(x), 8);
    ck_assert_int_eq(ct_numel(x), 16);
    ck_refused(ct_zeros(context, CT_F32, (ct_shape){.ndim = 9}), CT_ERR_SHAPE, "zeros", "9");
    ck_refused(ct_zeros(context, CT_F32, (ct_shape){.ndim = -1}), CT_ERR_SHAPE, "zeros", "-1");
    ck_refused(ct_unsqueeze(x, 0), CT_ERR_SHAPE, "unsqueeze", "");
    ck_refused(ct_ones(context, CT_F32, CT_SHAPE(2, -3)), CT_ERR_SHAPE, "ones", "(2, -3)");
    int64_t huge[] = {INT64_MAX, INT64_C(1) << 62, INT64_C(1) << 40, INT64_C(1) << 32};
    for (int i = 0; i < 4; i++) {
        ck_refused(ct_zeros(context, CT_F64, CT_SHAPE(huge[i], huge[i])), CT_ERR_MEMORY, "zeros",
                   "");
        /* strides would overflow */
        ck_refused(ct_empty(context, CT_F64, CT_SHAPE(0, huge[0], 3)), CT_ERR_MEMORY, "empty", "");
    }
    ck_refused(ct_zeros(context, (ct_dtype)9, CT_SHAPE(1)), CT_ERR_DTYPE, "zeros", "");
    ck_assert_int_eq(ct_dim(x, -1), 2);
    ck_assert_int_eq(ct_dim(x, 0), 1);
    ck_assert_int_eq(ct_dim(x, 8), -1);
    expect(CT_ERR_SHAPE, "dim", "8");
}
END_TEST

/* The checks of a 32-bit machine: sizes are 64 bits and are compared with its largest size_t.
 */
START_TEST(sizes_are_checked_against_the_machine) {
    int64_t numel;
    const uint64_t most = UINT64_C(1) << 32;
    ck_assert(cti_shape_fits_in(most, context, "zeros", &CT_SHAPE(1 << 15, 1 << 15), 4, &numel) &&
              numel == 1 << 30);
    const ct_shape large[] = {CT_SHAPE(1LL << 48), CT_SHAPE((1 << 30) + 1),
                              CT_SHAPE(1 << 16, 1 << 16), CT_SHAPE(0, 1LL << 48),
                              CT_SHAPE(1LL << 32, 1LL << 32)};
    for (int i = 0; i < 5; i++) {
        ck_refused(cti_shape_fits_in(most, context, "zeros", &large[i], 4, &numel), CT_ERR_MEMORY,
                   "zeros: the size of", "overflows");
    }
    ck_assert(CTI_MOST_BYTES <= (size_t)PTRDIFF_MAX / 4);
    ck_refused(ct_zeros(context, CT_BOOL, CT_SHAPE((int64_t)CTI_MOST_BYTES + 1)), CT_ERR_MEMORY,
               "zeros: the size of", "overflows");
    ck_assert(cti_bytes(-1, 8) == SIZE_MAX && cti_bytes(INT64_MAX, 3) == SIZE_MAX);
}
END_TEST

START_TEST(values_of_new_tensors) {
    ct_tensor *b = ct_full(context, CT_BOOL, CT_SHAPE(2), 0.5),
              *i = ct_full(context, CT_I64, CT_SHAPE(2), -2.9);
    ck_assert(ct_data_bool(b)[1]);
    ck_assert_int_eq(ct_data_i64(i)[1], -2);
    ck_assert(ct_data_f32(ct_ones(context, CT_F32, CT_SCALAR))[0] == 1);
    ct_tensor *r = ct_arange(context, CT_F64, 1, 2, 0.3);
    ck_assert_int_eq(ct_numel(r), 4);
    ck_assert(fabs(ct_data_f64(r)[3] - 1.9) < 1e-15);
    r = ct_arange(context, CT_I64, 5, -1, -2);
    ck_assert_int_eq(ct_numel(r), 3);
    ck_assert_int_eq(ct_data_i64(r)[2], 1);
    ck_assert_int_eq(ct_numel(ct_arange(context, CT_F32, 3, 3, 1)), 0);
    double bad[][3] = {{0, 1, 0}, {0, 1, -1}, {1, 0, 1}, {0, INFINITY, 1}, {NAN, 1, 1}};
    for (int k = 0; k < 5; k++) {
        ck_refused(ct_arange(context, CT_F32, bad[k][0], bad[k][1], bad[k][2]), CT_ERR_ARGUMENT,
                   "arange", "");
    }
    ck_refused(ct_arange(context, CT_BOOL, 0, 1, 1), CT_ERR_DTYPE, "arange", "bool");
    ck_refused(ct_arange(context, CT_F32, 0, 1e30, 1), CT_ERR_MEMORY, "arange", "");
    ck_refused(ct_from_f32(context, CT_SHAPE(2), NULL), CT_ERR_ARGUMENT, "from_f32", "(2)");
    ck_assert_int_eq(ct_numel(ct_from_i64(context, CT_SHAPE(2, 0), NULL)), 0);
    no_error();
}
END_TEST

/* The number of elements of arange if a difference overflows, or a product or quotient is 0 or
 * infinite. */
START_TEST(ranges_at_the_ends_of_f64) {
    static const struct {
        double start, end, step;
        int64_t count; /* -1: wrong sign of step, -2: too many */
    } range[] = {{0, -1e-45, 1e-300, -1},    {-1e-300, -2e-300, 1e-300, -1},
                 {1e-320, 0, 1e-320, -1},    {0, 1e-300, 1e300, 1},
                 {0, 5e-324, 1, 1},          {0, -5e-324, -1, 1},
                 {0, 1e308, 1e-300, -2},     {-1e308, 1e308, 1, -2},
                 {1e308, -1e308, 1, -1},     {-1e308, 1e308, 1e308, 2},
                 {1e308, -1e308, -1e308, 2}, {3e-324, 3e-324, -1, 0}};
    for (size_t i = 0; i < sizeof range / sizeof *range; i++) {
        ct_tensor *r = ct_arange(context, CT_F64, range[i].start, range[i].end, range[i].step);
        if (range[i].count < 0) {
            ck_assert_msg(r == NULL, "%d", (int)i);
            expect(range[i].count == -1 ? CT_ERR_ARGUMENT : CT_ERR_MEMORY, "arange",
                   range[i].count == -1 ? "no way" : "elements");
        } else {
            ck_assert_msg(ct_numel(r) == range[i].count, "%d: %lld", (int)i,
                          (long long)ct_numel(r));
        }
    }
    no_error();
}
END_TEST

START_TEST(wrapping_with_any_strides) {
    double data[12];
    for (int i = 0; i < 12; i++) data[i] = i;
    double out[12];
    ct_tensor *x = ct_wrap(context, CT_F64, CT_SHAPE(3, 4), NULL, data);
    data[0] = 100; /* borrowed, not copied */
    ck_assert(ct_data_f64(x) == data && ct_data_f64(x)[0] == 100);
    data[0] = 0;
    x = ct_wrap(context, CT_F64, CT_SHAPE(4, 3), (int64_t[]){1, 4}, data); /* transposed */
    ck_refused(ct_data_f64(x), CT_ERR_ARGUMENT, "contiguous", "(4, 3)");
    ck_assert(ct_to_f64(x, out, 12) && out[1] == 4 && out[3] == 1 && out[11] == 11);
    x = ct_wrap(context, CT_F64, CT_SHAPE(2, 3), (int64_t[]){-4, -1}, data + 11); /* backwards */
    ck_assert(ct_to_f64(x, out, 6) && out[0] == 11 && out[2] == 9 && out[3] == 7 && out[5] == 5);
    /* one row, three times */
    x = ct_wrap(context, CT_F64, CT_SHAPE(3, 2), (int64_t[]){0, 2}, data);
    ck_assert(ct_to_f64(x, out, 6) && out[0] == 0 && out[1] == 2 && out[4] == 0 && out[5] == 2);
    ck_assert(ct_item(ct_sum(x, CT_ALL, false)) == 6);
    ck_assert(ct_data_f64(ct_contiguous(x))[5] == 2);
    /* a stride that is never used */
    x = ct_wrap(context, CT_F64, CT_SHAPE(1, 4), (int64_t[]){77, 1}, data);
    ck_assert_ptr_nonnull(ct_data_f64(x));
    ck_refused(ct_wrap(context, CT_F64, CT_SHAPE(2), NULL, NULL), CT_ERR_ARGUMENT, "wrap", "(2)");
    ck_refused(ct_wrap(context, CT_F64, CT_SHAPE(1), NULL, (char *)data + 1), CT_ERR_ARGUMENT,
               "wrap", "align");
    ck_assert_ptr_null(
        ct_wrap(context, CT_F64, CT_SHAPE(1 << 20), (int64_t[]){INT64_MAX / 2}, data));
    ck_assert_int_ne(ct_error(context), CT_OK);
    ct_error_clear(context);
}
END_TEST

static bool same(ct_tensor *a, ct_tensor *b) {
    return a && b && ct_item(ct_max(ct_abs(ct_sub(a, b)), CT_ALL, false)) == 0;
}

/* The stride of a dim of size 1 is not used. */
START_TEST(a_stride_of_one_element) {
    enum { N = 40, WIDTH = 16 };
    static float data[N * WIDTH];
    for (int i = 0; i < N * WIDTH; i++) data[i] = (float)(i % 7) - 3;
    static const int64_t strides[] = {INT64_C(1) << 60, INT64_MAX, INT64_MIN, 0, -1};
    for (size_t i = 0; i < sizeof strides / sizeof *strides; i++) {
        const int64_t s = strides[i];
        ct_tensor *column = ct_wrap(context, CT_F32, CT_SHAPE(N, 1), (int64_t[]){1, s}, data);
        ct_tensor *row = ct_wrap(context, CT_F32, CT_SHAPE(1, N), (int64_t[]){s, 1}, data);
        ct_tensor *plain = ct_wrap(context, CT_F32, CT_SHAPE(N, 1), NULL, data);
        ct_tensor *row_major = ct_wrap(context, CT_F32, CT_SHAPE(1, N), NULL, data);
        ck_assert(same(ct_matmul(column, row), ct_matmul(plain, row_major)));
        ck_assert(same(ct_matmul(row, column), ct_matmul(row_major, plain)));
        ck_assert(same(ct_softmax(column, 1), ct_softmax(plain, 1)) &&
                  same(ct_sum(row, CT_DIMS(0), true), row_major));

        ct_tensor *q =
            ct_wrap(context, CT_F32, CT_SHAPE(1, 1, 1, WIDTH), (int64_t[]){s, s, s, 1}, data);
        ct_tensor *k =
            ct_wrap(context, CT_F32, CT_SHAPE(1, 1, N, WIDTH), (int64_t[]){s, s, WIDTH, 1}, data);
        ct_tensor *q1 = ct_wrap(context, CT_F32, CT_SHAPE(1, 1, 1, WIDTH), NULL, data);
        ct_tensor *k1 = ct_wrap(context, CT_F32, CT_SHAPE(1, 1, N, WIDTH), NULL, data);
        ck_assert(same(ct_attention(q, k, k, (ct_attention_opts){0}).out,
                       ct_attention(q1, k1, k1, (ct_attention_opts){0}).out));
        ck_assert(same(ct_attention(k, q, q, (ct_attention_opts){0}).out,
                       ct_attention(k1, q1, q1, (ct_attention_opts){0}).out));

        ct_tensor *none = ct_wrap(context, CT_F32, CT_SHAPE(0, 3, 1), (int64_t[]){s, 1, s}, data);
        ck_assert(none && ct_item(ct_sum(none, CT_ALL, false)) == 0);
    }
}
END_TEST

START_TEST(reading_with_a_cast) {
    ct_tensor *x = ct_from_f64(context, CT_SHAPE(2, 2), (double[]){-1.7, 0, 2.5, 1e10});
    float f[4];
    int64_t i[4];
    bool b[4];
    double d[4];
    ck_assert(ct_to_f32(x, f, 4) && f[0] == -1.7f && f[3] == 1e10f);
    ck_assert(ct_to_i64(ct_transpose(x, 0, 1), i, 4) && i[0] == -1 && i[1] == 2 &&
              i[3] == 10000000000);
    ck_assert(ct_to_bool(x, b, 4) && b[0] && !b[1] && b[2]);
    ck_assert(ct_to_f64(ct_from_bool(context, CT_SHAPE(2), (bool[]){true, false}), d, 2) &&
              d[0] == 1 && d[1] == 0);
    ck_assert(ct_to_f64(ct_from_i64(context, CT_SCALAR, (int64_t[]){-3}), d, 1) && d[0] == -3);
    ck_refused(ct_to_f32(x, f, 3), CT_ERR_ARGUMENT, "(2, 2)", "3");
    ck_assert(ct_item(ct_select(ct_select(x, 0, 1), 0, 0)) == 2.5);
    ck_assert(isnan(ct_item(x)));
    expect(CT_ERR_SHAPE, "item", "(2, 2)");
    ck_refused(ct_data_f32(x), CT_ERR_DTYPE, "f32", "f64");
    ct_tensor *large =
        ct_transpose(ct_view(ct_arange(context, CT_I64, 0, 1200, 1), CT_SHAPE(2, 600)), 0, 1);
    int64_t all[1200];
    ck_assert(ct_to_i64(large, all, 1200) && all[1] == 600 && all[2] == 1 && all[1199] == 1199);
}
END_TEST

static void printed(ct_tensor *x, const char *const *words, int n) {
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    ct_print(x, file);
    fclose(file);
    for (int i = 0; i < n; i++)
        ck_assert_msg(strstr(text, words[i]), "no \"%s\" in:\n%s", words[i], text);
    ck_assert_msg(size < 4000, "%d characters", (int)size);
    free(text);
}

START_TEST(printing) {
    printed(ct_from_f32(context, CT_SHAPE(2, 2), (float[]){1, 2.5, -3, NAN}),
            (const char *[]){"1.", "2.5", "-3.", "nan", "f32"}, 5);
    printed(ct_full(context, CT_F64, CT_SHAPE(2), -(double)NAN), (const char *[]){"([nan, nan]"},
            1);
    printed(ct_from_i64(context, CT_SHAPE(3), (int64_t[]){1, -20, 3}),
            (const char *[]){"1,", "-20", "3", "i64"}, 4);
    printed(ct_from_bool(context, CT_SHAPE(2), (bool[]){true, false}),
            (const char *[]){"true", "false", "bool"}, 3);
    printed(ct_arange(context, CT_F64, 0, 100000, 1),
            (const char *[]){"0", "...", "99999", "100000"}, 4);
    printed(ct_zeros(context, CT_F32, CT_SHAPE(300, 200, 4)),
            (const char *[]){"...", "(300, 200, 4)"}, 2);
    printed(ct_zeros(context, CT_F32, CT_SHAPE(0, 3)), (const char *[]){"(0, 3)"}, 1);
    printed(ct_full(context, CT_F64, CT_SCALAR, 0.25), (const char *[]){"0.25"}, 1);
    printed(ct_transpose(ct_from_f32(context, CT_SHAPE(1, 2), (float[]){1, 2}), 0, 1),
            (const char *[]){"1", "2", "(2, 1)"}, 3);
    no_error();
}
END_TEST

/* ---- the generator ---- */

START_TEST(streams) {
    ct_tensor *a = ct_rand(context, CT_F64, CT_SHAPE(1000)),
              *b = ct_rand(context, CT_F64, CT_SHAPE(1000));
    ck_assert_int_eq(ct_rng_get(context).stream, 2);
    ck_assert(memcmp(ct_data_f64(a), ct_data_f64(b), 8000));
    double mean = 0;
    for (int i = 0; i < 1000; i++) {
        double v = ct_data_f64(a)[i];
        ck_assert(v >= 0 && v < 1);
        mean += v / 1000;
    }
    ck_assert(fabs(mean - 0.5) < 0.05);
    ct_seed(context, 1);
    ck_assert(!memcmp(ct_data_f64(a), ct_data_f64(ct_rand(context, CT_F64, CT_SHAPE(1000))), 8000));
    ct_rng saved = ct_rng_get(context);
    ct_tensor *c = ct_randn(context, CT_F32, CT_SHAPE(777));
    ct_rng_set(context, saved);
    ck_assert(
        !memcmp(ct_data_f32(c), ct_data_f32(ct_randn(context, CT_F32, CT_SHAPE(777))), 4 * 777));
    ct_seed(context, 2);
    ck_assert(memcmp(ct_data_f64(a), ct_data_f64(ct_rand(context, CT_F64, CT_SHAPE(1000))), 8000));
    ct_seed(context, 1); /* element i does not depend on the size */
    ck_assert(!memcmp(ct_data_f64(a), ct_data_f64(ct_rand(context, CT_F64, CT_SHAPE(10))), 80));
    uint64_t before = ct_rng_get(context).stream;
    ct_tanh(a), ct_dropout(a, 0.5, false), ct_dropout(a, 0, true),
        ct_zeros(context, CT_F32, CT_SHAPE(3));
    ck_assert_int_eq(ct_rng_get(context).stream, before);
    ct_dropout(a, 0.5, true);
    ck_assert_int_eq(ct_rng_get(context).stream, before + 1);
    ck_refused(ct_rand(context, CT_I64, CT_SHAPE(1)), CT_ERR_DTYPE, "rand", "i64");
}
END_TEST

START_TEST(normal_numbers) {
    enum { N = 100001 };
    ct_tensor *x = ct_randn(context, CT_F64, CT_SHAPE(N));
    const double *v = ct_data_f64(x);
    double m1 = 0, m2 = 0, m3 = 0, m4 = 0;
    for (int i = 0; i < N; i++)
        m1 += v[i] / N, m2 += v[i] * v[i] / N, m3 += v[i] * v[i] * v[i] / N,
            m4 += v[i] * v[i] * v[i] * v[i] / N;
    ck_assert_msg(fabs(m1) < 0.015 && fabs(m2 - 1) < 0.02 && fabs(m3) < 0.05 && fabs(m4 - 3) < 0.15,
                  "moments %g %g %g %g", m1, m2, m3, m4);
}
END_TEST

START_TEST(random_integers) {
    int count[7] = {0};
    for (int i = 0; i < 7000; i++) {
        int64_t n = ct_random_below(context, 7);
        ck_assert(n >= 0 && n < 7);
        count[n]++;
    }
    for (int i = 0; i < 7; i++)
        ck_assert_msg(abs(count[i] - 1000) < 150, "%d came %d times of 7000", i, count[i]);
    ck_assert_int_eq(ct_random_below(context, 1), 0);
    int64_t large = 0;
    for (int i = 0; i < 200; i++) {
        int64_t n = ct_random_below(context, INT64_MAX);
        ck_assert(n >= 0);
        large |= n;
    }
    ck_assert_int_eq(large, INT64_MAX); /* every bit is drawn */
    for (int64_t n = 0; n > -3; n--) {
        ck_assert_int_eq(ct_random_below(context, n), -1);
        expect(CT_ERR_ARGUMENT, "random_below", "");
    }
}
END_TEST

int main(void) {
    return run_tests("tensor", setup, teardown,
                     TESTS(TEST(shapes_that_cannot_be), TEST(sizes_are_checked_against_the_machine),
                           TEST(values_of_new_tensors), TEST(ranges_at_the_ends_of_f64),
                           TEST(wrapping_with_any_strides), TEST(a_stride_of_one_element),
                           TEST(reading_with_a_cast), TEST(printing), TEST(streams),
                           TEST(normal_numbers), TEST(random_integers)));
}
