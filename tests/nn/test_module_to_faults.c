/* Each request for memory fails in turn, while the matrices of a module become bf16 and f32 again:
 * then the module is as it was. */
#include "tests/support/memory_faults.h"

#include "tests/support/fault_sweep.h"

typedef struct {
    ct_context *c;
    ct_module *module;
    ct_dtype from, to;
} conversion;

static void begin(void *arg) {
    conversion *v = arg;
    v->module = ct_mha_new(v->c, (ct_mha_opts){.embed_dim = 8, .num_heads = 2});
    ck_assert_msg(ct_module_to(v->module, v->from), "%s", ct_error_message(v->c));
}

static bool run(void *arg) {
    conversion *v = arg;
    return ct_module_to(v->module, v->to);
}

static void end(const fault_end *end, void *arg) {
    conversion *v = arg;
    const ct_dtype dtype = end->done ? v->to : v->from;
    for (ct_param p = {0}; ct_module_next(v->module, &p);) {
        const bool matrix = ct_ndim(p.tensor) == 2;
        FAULT_CK(end, ct_dtype_of(p.tensor) == (matrix ? dtype : CT_F32));
        FAULT_CK(end, ct_requires_grad(p.tensor) == (!matrix || dtype == CT_F32));
    }
    ct_error_clear(v->c);
    FAULT_CK(end, ct_module_to(v->module, v->to)); /* nothing is left half-way */
    ct_module_free(v->module);
}

START_TEST(memory_runs_out) {
    for (int i = 0; i < 4; i++) {
        conversion v = {.c = new_with((ct_context_opts){.threads = 1}),
                        .from = i < 2 ? CT_BF16 : CT_F32,
                        .to = i < 2 ? CT_F32 : CT_BF16};
        fault_case converted = {.name = "a conversion of a module",
                                .kind = FAULT_TAKE,
                                .forever = i % 2,
                                .context = &v.c,
                                .arg = &v,
                                .begin = begin,
                                .run = run,
                                .end = end,
                                .least = 3};
        fault_sweep(&converted);
        ct_context_free(v.c);
    }
}
END_TEST

int main(void) { return run_tests("module_to_faults", NULL, NULL, TESTS(TEST(memory_runs_out))); }
