/* Functions that cannot be checked, and a report of several wrong inputs. */
#include "op_check.h"

static int calls;

static ct_tensor *returns_whole_numbers(ct_tensor *const *in, int n, void *arg) {
    return (void)n, (void)arg, ct_cast(in[0], CT_I64);
}

/* Another shape from the call number *arg on. */
static ct_tensor *changes_shape(ct_tensor *const *in, int n, void *arg) {
    (void)n;
    ct_tensor *y = ct_mul(in[0], in[0]);
    return ++calls >= *(const int *)arg ? ct_reshape(y, CT_SHAPE(3, 2)) : y;
}

static ct_tensor *nothing(ct_tensor *const *in, int n, void *arg) {
    return (void)in, (void)n, (void)arg, NULL;
}

START_TEST(what_is_no_function) {
    ct_tensor *x = ct_randn(context, CT_F64, CT_SHAPE(2, 3));
#define CHECK(f, arg) ct_gradcheck(f, arg, &x, 1, (ct_gradcheck_opts){0})
    ct_gradcheck_result r = CHECK(returns_whole_numbers, NULL);
    ck_assert(!r.ran && !r.ok && r.verdict == CT_VERDICT_CANNOT_TELL);
    FAILS(NULL, CT_ERR_DTYPE, "gradcheck: the function returns i64");
    r = CHECK(nothing, NULL);
    ck_assert(!r.ran && !r.ok);
    FAILS(NULL, CT_ERR_ARGUMENT, "gradcheck: the function returned nothing");
    for (int at = 2; at <= 12; at++) { /* an error that says so, or backward's own, and no crash */
        calls = 0;
        r = CHECK(changes_shape, &at);
        ck_assert(!r.ok);
        if (r.ran) continue;
        FAILS(NULL, CT_ERR_SHAPE,
              "gradcheck: the function returned (3, 2), and before that (2, 3)");
    }
#undef CHECK
}
END_TEST

/* a b with both gradients wrong: a's has the wrong sign, b's is doubled. */
static ct_tensor *product(ct_call *c) { return ct_mul(c->in[0], c->in[1]); }
static bool product_wrong(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    grad[0] = ct_scale(ct_mul(g[0], c->in[1]), -1);
    grad[1] = ct_scale(ct_mul(g[0], c->in[0]), 2);
    return true;
}
static const ct_op wrong_op = {.name = "wrong", .forward = product, .backward = product_wrong};
static ct_tensor *wrong(ct_tensor *const *in, int n, void *arg) {
    return (void)arg, ct_apply(&wrong_op, in, n, NULL);
}

/* The report and the page name what is wrong with the other input too. */
START_TEST(both_are_wrong) {
    char text[1 << 13] = "", *page = NULL;
    size_t size = 0;
    FILE *report = fmemopen(text, sizeof text, "w"), *html = open_memstream(&page, &size);
    ct_tensor *in[2] = {ct_randn(context, CT_F64, CT_SHAPE(2, 3)),
                        ct_randn(context, CT_F64, CT_SHAPE(2, 3))};
    ct_gradcheck_result r =
        ct_gradcheck(wrong, NULL, in, 2, (ct_gradcheck_opts){.report = report, .html = html});
    fclose(report);
    fclose(html);
    ck_assert(r.ran && r.verdict == CT_VERDICT_WRONG);
    const char *line = strstr(text, "\n  and ");
    ck_assert_msg(line != NULL, "%s", text);
    const char *other = r.input == 0 ? "input 1" : "input 0";
    ck_assert_msg(!strncmp(line + 7, other, 7), "%s", text);
    ck_assert_msg(strstr(text, "sign") && strstr(text, "factor"), "%s", text);
    const char *also = strstr(page, "<p>Also: ");
    ck_assert_msg(also && !strncmp(also + 9, other, 7), "%s", page);
    free(page);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("gradcheck_refused");
    TCase *tcase = tcase_create("gradcheck_refused");
    tcase_add_checked_fixture(tcase, open_context, close_context);
    tcase_add_test(tcase, what_is_no_function);
    tcase_add_test(tcase, both_are_wrong);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
