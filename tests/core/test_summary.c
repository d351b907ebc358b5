/* Summaries of a tensor's values, which the drawn graph shows: all elements if there are up to
 * eight, otherwise counts and extremes; infinities and NaN are counted separately. */
#include "src/core/context.h"
#include "src/core/summary.h"

#include "tests/support/op_check.h"

static char text[256];

static const char *summary_of(ct_tensor *t) {
    memset(text, 0, sizeof text);
    FILE *file = fmemopen(text, sizeof text, "w");
    const cti_summary s = cti_tensor_summarize(t);
    cti_summary_print(t, &s, file);
    fclose(file);
    return text;
}

START_TEST(texts) {
    const double inf = INFINITY, nan = NAN;
    ck_assert_str_eq(summary_of(of(CT_F32, CT_SHAPE(0, 3))), "no elements");
    ck_assert_str_eq(summary_of(ct_full(context, CT_F32, CT_SCALAR, -0.5)), "-0.5");
    ck_assert_str_eq(summary_of(F64(1, nan, -inf)), "[1, nan, -inf]");
    ck_assert_str_eq(summary_of(BOOL(true, false)), "[true, false]");
    ck_assert_str_eq(summary_of(ct_transpose(ct_view(I64(1, 2, 3, 4), CT_SHAPE(2, 2)), 0, 1)),
                     "[[1, 3], [2, 4]]");
    ck_assert_str_eq(summary_of(F64(1, 2, 3, 4, 5, 6, 7, 8, 9)), "min 1, mean 5, max 9");
    ck_assert_str_eq(summary_of(F64(1, 2, 3, nan, nan, 6, 7, 8, 9)),
                     "2 nan, min 1, mean 5.143, max 9");
    ck_assert_str_eq(summary_of(F64(1, 2, 3, inf, -inf, 6, 7, 8, 9)),
                     "2 inf, min 1, mean 5.143, max 9");
    ck_assert_str_eq(summary_of(F64(1, 2, 3, inf, nan, 6, 7, 8, 9)),
                     "1 nan, 1 inf, min 1, mean 5.143, max 9");
    ck_assert_str_eq(summary_of(ct_full(context, CT_F64, CT_SHAPE(9), nan)), "9 nan");
    ck_assert_str_eq(summary_of(ct_full(context, CT_F64, CT_SHAPE(9), -inf)), "9 inf");
    ck_assert_str_eq(summary_of(F64(nan, inf, nan, inf, nan, inf, nan, inf, nan)), "5 nan, 4 inf");
    ck_assert_str_eq(summary_of(of(CT_F64, CT_SHAPE(9))), "min 0, mean 0, max 0");
    ck_assert_str_eq(summary_of(ct_full(context, CT_BOOL, CT_SHAPE(9), 1)), "min 1, mean 1, max 1");
}
END_TEST

/* Neither large nor small squares are lost. */
START_TEST(sums) {
    cti_summary s = cti_tensor_summarize(F64(3e200, -4e200));
    ck_assert(fabs(s.norm - 5e200) < 1e186 && s.mean == -0.5e200 && s.min == -4e200);
    s = cti_tensor_summarize(F64(3e-200, 4e-200, NAN, INFINITY));
    ck_assert(fabs(s.norm - 5e-200) < 1e-214 && fabs(s.mean - 3.5e-200) < 1e-214 && s.nans == 1 &&
              s.infinities == 1 && s.finite == 2);
}
END_TEST

int main(void) {
    return run_tests("summary", open_context, close_context, TESTS(TEST(texts), TEST(sums)));
}
