/* Functions that cannot be checked, and a report of several wrong inputs. */
#include "tests/support/op_check.h"

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

/* ---- mistakes that only one input, or a part of a sum, shows ---- */

/* a b, whose gradient to a is halved where b is above 0.1. */
static ct_tensor *product(ct_call *c) { return ct_mul(c->in[0], c->in[1]); }
static bool product_halved(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    ct_tensor *b = c->in[1], *limit = ct_full(c->context, CT_F64, CT_SCALAR, 0.1);
    ct_tensor *right = ct_mul(g[0], b);
    grad[0] = ct_where(ct_gt(b, limit), ct_scale(right, 0.5), right);
    grad[1] = ct_mul(g[0], c->in[0]);
    return true;
}

/* w x, (3, 4) times (4), whose gradient to x has three of the twelve products a quarter as large.
 */
static ct_tensor *applied(ct_call *c) { return ct_matmul(c->in[1], c->in[0]); }
static bool applied_in_part(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    static const double part[12] = {1, 0.25, 1, 1, 1, 1, 0.25, 1, 0.25, 1, 1, 1};
    ct_tensor *w = ct_mul(c->in[1], ct_from_f64(c->context, CT_SHAPE(3, 4), part));
    grad[0] = ct_matmul(ct_transpose(w, 0, 1), g[0]);
    grad[1] = ct_mul(ct_view(g[0], CT_SHAPE(3, 1)), ct_view(c->in[0], CT_SHAPE(1, 4)));
    return true;
}

/* The mean over two dims, whose backward forgets to divide; and a repetition, whose backward takes
 * the mean in place of the sum. */
static ct_tensor *averaged(ct_call *c) { return ct_mean(c->in[0], CT_DIMS(1, 2), true); }
static bool averaged_undivided(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    grad[0] = ct_contiguous(ct_expand(g[0], ct_shape_of(c->in[0])));
    return true;
}
static ct_tensor *repeated(ct_call *c) {
    return ct_contiguous(ct_expand(c->in[0], CT_SHAPE(2, 3, 4)));
}
static bool repeated_averaged(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    (void)c;
    grad[0] = ct_mean(g[0], CT_DIMS(1, 2), true);
    return true;
}

static ct_tensor *run(ct_tensor *const *in, int n, void *op) { return ct_apply(op, in, n, NULL); }

START_TEST(mistakes_in_part) {
    ct_op op = {.name = "halved", .forward = product, .backward = product_halved};
    ct_tensor *in[2] = {F64(0.3, -1.2, 0.8, 2.1, -0.4, 1.7, 0.9, -2),
                        F64(1.1, -0.7, 0.05, -1.3, 0.6, 2.2, -0.2, 0.9)};
    ct_gradcheck_result r =
        ct_gradcheck(run, &op, in, 2, (ct_gradcheck_opts){.gradient_only = true});
    ck_assert_msg(
        r.mistake == CT_MISTAKE_THRESHOLD && r.input == 0 &&
            strstr(r.diagnosis, "wrong exactly where input 1 is above a threshold between") &&
            strstr(r.diagnosis, "0.5 times"),
        "%s", r.diagnosis);
    op = (ct_op){.name = "in_part", .forward = applied, .backward = applied_in_part};
    in[0] = F64(0.3, -1.2, 0.8, 2.1);
    in[1] = ct_detach(
        ct_view(F64(0.3, -1.2, 0.8, 2.1, -0.4, 1.7, 0.9, -2, 1.5, 0.2, -0.6, 1.1), CT_SHAPE(3, 4)));
    r = ct_gradcheck(run, &op, in, 2, (ct_gradcheck_opts){.gradient_only = true});
    ck_assert_msg(
        strstr(r.diagnosis, "some contributions are 0.25 times what they must be: 3 of 12"), "%s",
        r.diagnosis);
}
END_TEST

START_TEST(factors_of_several_dims) {
    ct_op op = {.name = "averaged", .forward = averaged, .backward = averaged_undivided};
    ct_tensor *x = ct_randn(context, CT_F64, CT_SHAPE(2, 3, 4));
    ct_gradcheck_result r =
        ct_gradcheck(run, &op, &x, 1, (ct_gradcheck_opts){.gradient_only = true});
    ck_assert_msg(r.mistake == CT_MISTAKE_FACTOR && fabs(r.factor - 12) < 1e-6 &&
                      strstr(r.diagnosis, "how many elements make one of the output"),
                  "%s", r.diagnosis);
    op = (ct_op){.name = "repeated", .forward = repeated, .backward = repeated_averaged};
    x = ct_randn(context, CT_F64, CT_SHAPE(2, 1, 1));
    r = ct_gradcheck(run, &op, &x, 1, (ct_gradcheck_opts){.gradient_only = true});
    ck_assert_msg(r.mistake == CT_MISTAKE_FACTOR && fabs(r.factor - 1.0 / 12) < 1e-6 &&
                      strstr(r.diagnosis, "how often it is repeated"),
                  "%s", r.diagnosis);
}
END_TEST

/* a b with both gradients wrong: a's has the wrong sign, b's is doubled. */
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
    return run_tests("gradcheck_refused", open_context, close_context,
                     TESTS(TEST(what_is_no_function), TEST(mistakes_in_part),
                           TEST(factors_of_several_dims), TEST(both_are_wrong)));
}
