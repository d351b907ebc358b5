/* Products that are large enough for a workspace, under every memory limit from too little to
 * enough: an error that says so, and nothing is lost; then the bits that they have without a limit.
 */
#include <string.h>

#include "tests/support/suite.h"
#include <cotangent/cotangent.h>

enum { M = 96, N = 520, K = 160, STEP = 96 << 10 };

typedef struct {
    float loss, grad[2][N * K];
} outcome;

static ct_tensor *leaf(ct_context *c, int64_t rows, int64_t cols) {
    return ct_set_requires_grad(ct_randn(c, CT_F32, CT_SHAPE(rows, cols)), true);
}

/* The loss and all gradients; false with the context's error. */
static bool run(ct_context *c, int which, outcome *out) {
    ct_tensor *x = leaf(c, M, K), *w = leaf(c, N, K), *y, *targets;
    if (which == 0) y = ct_linear(x, w, NULL);
    else if (which == 1) y = ct_activated_linear(x, CT_GELU, w, NULL, NULL);
    else if (which == 2) y = ct_matmul(x, ct_transpose(w, 0, 1));
    else {
        targets = ct_zeros(c, CT_I64, CT_SHAPE(M));
        y = ct_linear_cross_entropy(x, w, targets, (ct_cross_entropy_opts){0});
    }
    ct_tensor *loss = which < 3 ? ct_mean(ct_mul(y, y), CT_ALL, false) : y;
    if (!ct_backward(loss)) return false;
    out->loss = (float)ct_item(loss);
    return ct_to_f32(ct_grad(x), out->grad[0], M * K) && ct_to_f32(ct_grad(w), out->grad[1], N * K);
}

START_TEST(every_limit) {
    static outcome want, got;
    ct_context *free = ct_context_new((ct_context_opts){.seed = 2, .threads = 2});
    ck_assert_msg(run(free, _i, &want), "%s", ct_error_message(free));
    ct_context_free(free);
    int refused = 0;
    bool done = false;
    for (int64_t limit = 4 * (M + N) * K; !done && refused < 500; limit += STEP) {
        ct_context *c =
            ct_context_new((ct_context_opts){.seed = 2, .threads = 2, .memory_limit = limit});
        const int64_t before = ct_memory(c).live;
        ct_scope scope = ct_scope_open(c);
        done = run(c, _i, &got);
        if (!done) {
            refused++;
            ck_assert_msg(ct_error(c) == CT_ERR_MEMORY, "%lld bytes: %s", (long long)limit,
                          ct_error_message(c));
        }
        ct_error_clear(c);
        ct_scope_close(scope);
        ck_assert_int_eq(ct_memory(c).live, before);
        ct_context_free(c);
    }
    ck_assert(done && refused > 3);
    ck_assert(!memcmp(&got, &want, sizeof got));
}
END_TEST

int main(void) { return run_tests("memory_limits", NULL, NULL, TESTS(LOOP(every_limit, 4))); }
