/* The library prints to stderr only an error that the program has not looked at, when its context
 * is freed, and in debug mode each error when it is recorded. */
#include <fcntl.h>
#include <unistd.h>

#include "tests/support/recompute_check.h"

/* ---- stderr ---- */

static int saved_stderr;
static FILE *captured;

static void begin_capture(void) {
    fflush(stderr);
    captured = tmpfile();
    saved_stderr = dup(2);
    ck_assert(captured && saved_stderr >= 0 && dup2(fileno(captured), 2) == 2);
}

/* Returns the text that was printed since begin_capture; valid until the next call. */
static const char *end_capture(void) {
    static char text[4000];
    fflush(stderr);
    dup2(saved_stderr, 2);
    close(saved_stderr);
    rewind(captured);
    text[fread(text, 1, sizeof text - 1, captured)] = 0;
    fclose(captured);
    return text;
}

/* ---- when a context is freed ---- */

static void fail_matmul(ct_context *c) {
    ct_tensor *x = ct_ones(c, CT_F32, CT_SHAPE(2, 3));
    ct_matmul(x, x);
}
static const char unseen[] =
    "cotangent: error never looked at: matmul: inner sizes differ: (2, 3) @ (2, 3)\n";

static int told;
static void tell(void *data, ct_status status, const char *message) {
    (void)data, (void)status, (void)message;
    told++;
}

typedef enum {
    NO_LOOK,
    NO_LOOK_AGAIN, /* after an error that was cleared */
    ANOTHER,       /* a second error, which is not recorded */
    BEFORE,        /* ct_error before the error */
    ERROR,
    MESSAGE,
    CLEAR,
    ON_ERROR,
    NO_ERROR,
    LOOKS
} look;

START_TEST(looked_at) {
    for (int l = 0; l < LOOKS; l++) {
        ct_context *c = ct_context_new(
            (ct_context_opts){.threads = 1, .on_error = l == ON_ERROR ? tell : NULL});
        begin_capture();
        if (l == BEFORE) ck_assert(!ct_error(c) && !*ct_error_message(c));
        if (l == NO_LOOK_AGAIN) {
            ct_ones(c, CT_F32, CT_SHAPE(-1));
            ct_error_message(c);
            ct_error_clear(c);
        }
        if (l != NO_ERROR) fail_matmul(c);
        if (l == ANOTHER) ct_ones(c, CT_F32, CT_SHAPE(-1));
        if (l == ERROR) ck_assert_int_eq(ct_error(c), CT_ERR_SHAPE);
        if (l == MESSAGE) ck_assert(*ct_error_message(c));
        if (l == CLEAR) ct_error_clear(c);
        ct_context_free(c);
        ck_assert_str_eq(end_capture(), l < ERROR ? unseen : "");
    }
    ck_assert_int_eq(told, 1);
}
END_TEST

/* A context that begins with an error; an error in two contexts, of which one is looked at. */
START_TEST(contexts) {
    begin_capture();
    ct_context_free(ct_context_new((ct_context_opts){.threads = -1}));
    const char *text = end_capture();
    ck_assert_msg(!strncmp(text, "cotangent: error never looked at: context: -1 threads", 53), "%s",
                  text);
    begin_capture();
    ct_context *c = ct_context_new((ct_context_opts){.threads = -1});
    ck_assert(ct_error(c));
    ct_context_free(c);
    ct_context_free(NULL);
    ck_assert_str_eq(end_capture(), "");

    ct_context *two[] = {ct_context_new((ct_context_opts){.threads = 1}),
                         ct_context_new((ct_context_opts){.threads = 1})};
    ct_add(ct_ones(two[0], CT_F32, CT_SHAPE(2)), ct_ones(two[1], CT_F32, CT_SHAPE(2)));
    ck_assert(ct_error(two[0]));
    begin_capture();
    ct_context_free(two[0]);
    ck_assert_str_eq(end_capture(), "");
    begin_capture();
    ct_context_free(two[1]);
    ck_assert_str_eq(end_capture(),
                     "cotangent: error never looked at: add: tensors of different contexts\n");
}
END_TEST

/* ---- debug mode ---- */

START_TEST(debug_mode) {
    for (int with_on_error = 0; with_on_error < 2; with_on_error++) {
        told = 0;
        ct_context *c = ct_context_new((ct_context_opts){
            .threads = 1, .debug = true, .on_error = with_on_error ? tell : NULL});
        for (int i = 0; i < 2; i++) {
            begin_capture();
            fail_matmul(c);
            fail_matmul(c); /* while one is pending */
            ck_assert_str_eq(end_capture(),
                             "cotangent: matmul: inner sizes differ: (2, 3) @ (2, 3)\n");
            if (!i) ct_error_clear(c);
        }
        ck_assert_int_eq(told, 2 * with_on_error);
        begin_capture();
        ct_context_free(c);
        ck_assert_str_eq(end_capture(), with_on_error ? "" : unseen);
    }
}
END_TEST

static ct_tensor *refused_backward(ct_tensor *const *in, int n, void *arg) {
    (void)n, (void)arg;
    return ct_add(ct_sqrt(ct_detach(in[0])), ct_scale(in[0], 1));
}
static ct_tensor *picky(ct_tensor *const *in, int n, void *arg) {
    (void)n, (void)arg;
    ct_tensor *y =
        ct_wrap(ct_context_of(in[0]), CT_F64, ct_shape_of(in[0]), NULL, ct_data_f64(in[0]));
    return ct_add(y, in[0]);
}
static ct_tensor *fails_again(ct_tensor *const *in, int n, void *arg) {
    (void)n;
    return ct_matmul(in[0], (*(int *)arg)++ ? in[0] : ct_transpose(in[0], 0, 1));
}

static ct_tensor *keep(ct_call *c) { return ct_clone(c->in[0]); }
static bool refuse(const ct_call *c, ct_tensor *const *cotangents, ct_tensor **grad) {
    (void)cotangents, (void)grad;
    return ct_fail(c->context, CT_ERR_ARGUMENT, "refused");
}
static ct_tensor *apply_op(ct_tensor *const *in, int n, void *op) {
    return ct_apply(op, in, n, NULL);
}
static ct_tensor *fails_beside(ct_tensor *const *in, int n, void *arg) {
    return ++*(int *)arg < 3 ? ct_exp(in[0]) : fails_again(in, n, &(int){1});
}

/* Trial runs of gradcheck and a backward that fails in ct_jacobian print nothing; ct_recompute's
 * second run, and a function that fails beside x, one line. */
START_TEST(held_errors) {
    ct_context *c = ct_context_new((ct_context_opts){.threads = 1, .debug = true});
    ct_tensor *x = ct_ones(c, CT_F64, CT_SHAPE(2, 3));
    begin_capture();
    ct_gradcheck(refused_backward, NULL, &x, 1, (ct_gradcheck_opts){0});
    ct_gradcheck(picky, NULL, &x, 1, (ct_gradcheck_opts){0});
    ck_assert_str_eq(end_capture(), "");
    ct_error_clear(c);
    ct_jacobian_out j;
    int runs = 0;
    begin_capture();
    ck_assert(!ct_jacobian(fails_beside, &runs, &x, 1, (ct_jacobian_opts){0}, &j));
    ck_assert_str_eq(end_capture(),
                     "cotangent: jacobian: with element (0, 0) of input 0 changed by at most "
                     "2e-06: matmul: inner sizes differ: (2, 3) @ (2, 3)\n");
    ct_error_clear(c);
    begin_capture();
    const ct_op refusing = {.name = "refusing", .forward = keep, .backward = refuse};
    ck_assert(ct_jacobian(apply_op, (void *)&refusing, &x, 1, (ct_jacobian_opts){0}, &j));
    ck_assert(!j.analytic && !strcmp(j.refused, "refused"));
    ck_assert_str_eq(end_capture(), "");
    runs = 0;
    ct_tensor *y =
        ct_recompute(fails_again, &runs, (ct_tensor *[]){ct_set_requires_grad(x, true)}, 1);
    begin_capture();
    ck_assert(y && !ct_backward(ct_sum(y, CT_ALL, false)));
    const char *text = end_capture(),
               *start = "cotangent: recompute: in the function's second run: ";
    ck_assert_msg(!strncmp(text, start, strlen(start)) && strchr(text, '\n')[1] == 0, "%s", text);
    ct_error_clear(c);
    ct_context_free(c);
}
END_TEST

int main(void) {
    return run_cases("unseen errors", CASES({.name = "posix",
                                             .tags = "posix",
                                             .tests = TESTS(TEST(looked_at), TEST(contexts),
                                                            TEST(debug_mode), TEST(held_errors))}));
}
