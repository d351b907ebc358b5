/* The memory of each line of ops.def, forward and backward: every request that it makes is refused
 * once, and the next run makes as many requests as the first. */
#include <cotangent/cotangent.h>
#include <string.h>

#include "tests/support/cases.h"
#include "tests/support/fault_sweep.h"
#include "tests/support/memory_faults.h"

/* ---- each line of ops.def, forward and backward ---- */

enum { MOST = 16384 }; /* elements of all gradients together */

/* The gradients of the inputs, as doubles. wanted: compares them with `bits`. */
static bool gradients(ct_tensor *const *in, int n, double *bits, bool wanted) {
    for (int i = 0, at = 0; i < n; i++) {
        ct_tensor *grad = in[i] ? ct_grad(in[i]) : NULL;
        static double own[MOST];
        const int64_t size = grad ? ct_numel(grad) : 0;
        ck_assert(at + size <= MOST && (!grad || ct_to_f64(grad, own, size)));
        if (wanted && memcmp(bits + at, own, (size_t)size * sizeof *own)) return false;
        memcpy(bits + at, own, (size_t)size * sizeof *own);
        at += (int)size;
    }
    return true;
}

static void zero_gradients(ct_tensor *const *in, int n) {
    for (int i = 0; i < n; i++)
        if (in[i]) ct_zero_grad(in[i]);
}

typedef struct {
    ct_context *c;
    const case_line *line;
    ct_tensor *const *in, *cotangent;
    int n;
    double bits[MOST];
} op_run;

/* Value and gradients. */
static bool run_op(void *arg) {
    op_run *r = arg;
    ct_scope scope = ct_scope_open(r->c);
    ct_tensor *y = case_run(r->c, r->line, r->in);
    const bool done = y && (!ct_requires_grad(y) ||
                            ct_backward_with(&y, &r->cotangent, 1, (ct_backward_opts){0}));
    ct_scope_close(scope);
    return done;
}

static void check_op(const fault_end *end, void *arg) {
    op_run *r = arg;
    FAULT_CK(end, end->done == !end->struck);
    FAULT_CK(end, !end->done || gradients(r->in, r->n, r->bits, true));
    ct_error_clear(r->c);
    zero_gradients(r->in, r->n);
    FAULT_CK(end, ct_memory(r->c).live == end->live);
}

/* Every request of the line on these inputs is refused once. */
static void refuse_each(ct_context *c, const case_line *line, ct_tensor *const *in, int n) {
    static op_run r;
    ct_scope scope = ct_scope_open(c);
    ct_tensor *y = case_run(c, line, in);
    r = (op_run){.c = c, .line = line, .in = in, .n = n};
    if (ct_requires_grad(y)) r.cotangent = case_cotangent(y, 3, false);
    ck_assert_msg(run_op(&r), "%s: %s", line->call, ct_error_message(c));
    gradients(in, n, r.bits, false);
    zero_gradients(in, n);
    for (int forever = 0; forever < 2; forever++)
        fault_sweep(&(fault_case){.name = line->call,
                                  .kind = FAULT_TAKE,
                                  .forever = forever,
                                  .context = &r.c,
                                  .arg = &r,
                                  .run = run_op,
                                  .end = check_op,
                                  .grows = true});
    ct_scope_close(scope);
}

/* Runs f on each list of inputs of a line: with all gradients wanted, then with only the gradient
 * of one input at a time. */
static void each_wish(int index, ct_context_opts opts,
                      void (*f)(ct_context *c, const case_line *line, ct_tensor *const *in,
                                int n)) {
    const case_line *line = case_at(index);
    for (int v = 0; v < case_variants(line); v++) {
        case_input input[CASE_INPUTS];
        const int n = case_inputs(line, v, 1, input);
        for (int alone = -1; alone < n; alone++) {
            ct_tensor *in[CASE_INPUTS] = {0};
            ct_context *c = new_with(opts);
            ct_scope scope = ct_scope_open(c);
            ck_assert(case_build(c, input, n, (case_build_opts){.dtype = CT_F64, .seed = 2}, in));
            const bool any = alone < 0 || (in[alone] && ct_requires_grad(in[alone]));
            for (int i = 0; i < n && alone >= 0; i++)
                if (i != alone && in[i] && ct_requires_grad(in[i]))
                    ct_set_requires_grad(in[i], false);
            if (any) f(c, line, in, n);
            ct_scope_close(scope);
            ct_context_free(c);
            ck_assert_int_eq(allocated.bytes, 0);
        }
    }
}

START_TEST(an_op) {
    each_wish(_i, (ct_context_opts){.threads = 2, .allocator = {allocate, release, NULL}},
              refuse_each);
}
END_TEST

/* ---- no op allocates more than it did before ---- */

/* tests/golden/memory.txt has a line of bytes, requests and the op for each of ops.def. */

static void run_once(ct_context *c, const case_line *line, ct_tensor *const *in, int n) {
    (void)n;
    ct_tensor *y = case_run(c, line, in);
    const int64_t requests = asked.requests, bytes = asked.bytes;
    ct_tensor *g = ct_requires_grad(y) ? case_cotangent(y, 3, false) : NULL;
    asked.requests = requests, asked.bytes = bytes;
    ck_assert_msg(!g || ct_backward_with(&y, &g, 1, (ct_backward_opts){0}), "%s: %s", line->call,
                  ct_error_message(c));
}

START_TEST(an_op_asks_for_no_more) {
    const case_line *line = case_at(_i);
    char wanted[4096], row[4096] = "";
    int64_t bytes = -1, requests = -1;
    snprintf(wanted, sizeof wanted, "%s on %s\n", line->call, line->inputs);
    FILE *file = fopen("tests/golden/memory.txt", "r");
    ck_assert_ptr_nonnull(file);
    for (int at = 0; bytes < 0 && fgets(row, sizeof row, file);) {
        long long b, r;
        if (sscanf(row, "%lld %lld %n", &b, &r, &at) == 2 && !strcmp(row + at, wanted))
            bytes = b, requests = r;
    }
    fclose(file);
    asked.requests = asked.bytes = 0;
    each_wish(
        _i,
        (ct_context_opts){.threads = 1, .isa = "scalar", .allocator = {allocate, release, NULL}},
        run_once);
    ck_assert_msg(asked.bytes <= bytes && asked.requests <= requests,
                  "if it has to: tests/golden/memory.txt: %lld %lld %s", (long long)asked.bytes,
                  (long long)asked.requests, wanted);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("op_faults");
    TCase *memory = tcase_create("memory of ops"), *golden = tcase_create("memory.txt");
    tcase_add_loop_test(memory, an_op, 0, case_count());
    tcase_add_loop_test(golden, an_op_asks_for_no_more, 0, case_count());
    suite_add_tcase(suite, memory);
    suite_add_tcase(suite, golden); /* `make golden` runs it by its name */
    return run_suite(suite);
}
