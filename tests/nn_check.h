/* Helpers of the suites of modules: a context for each test, checks of values and errors, and an
 * allocator that runs out of memory. */
#ifndef NN_CHECK_H
#define NN_CHECK_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "one_context.h"

static inline double *values(ct_tensor *t) { /* the caller frees them */
    no_error();
    ck_assert_ptr_nonnull(t);
    double *out = malloc(sizeof(double) * (size_t)(ct_numel(t) + 1));
    ck_assert(ct_to_f64(t, out, ct_numel(t)));
    return out;
}

/* NaN is larger than anything. */
static inline double largest(ct_tensor *t) {
    double *v = values(t), most = 0;
    for (int64_t i = 0; i < ct_numel(t); i++)
        most = isnan(v[i]) ? INFINITY : fmax(most, fabs(v[i]));
    free(v);
    return most;
}

static inline double distance(ct_tensor *a, ct_tensor *b) {
    no_error();
    ck_assert_int_eq(ct_numel(a), ct_numel(b));
    return largest(ct_sub(a, b));
}

static inline ct_tensor *randn(ct_shape shape) { return ct_randn(context, CT_F64, shape); }

/* An allocator with `left` more blocks. Large blocks are requested one by one, so each of them can
 * be the one that is refused. */
typedef struct {
    int64_t left;
} budget;

static inline void *count_down(void *data, size_t size) {
    return ((budget *)data)->left-- > 0 ? malloc(size) : NULL;
}
static inline void give_back(void *data, void *block, size_t size) {
    (void)data, (void)size, free(block);
}
static inline ct_context *budget_context(budget *b) {
    return ct_context_new((ct_context_opts){.threads = 1, .allocator = {count_down, give_back, b}});
}

/* Runs a list of tests that ends with NULL. */
static inline int run_tests(const char *name, const TTest *const *tests) {
    Suite *suite = suite_create(name);
    TCase *all = tcase_create(name);
    tcase_add_checked_fixture(all, setup, teardown);
    for (; *tests; tests++) tcase_add_test(all, *tests);
    suite_add_tcase(suite, all);
    return run_suite(suite);
}

/* Constructors that run out of memory at any of their requests (at least `least`) fail with an
 * error and free everything. */
static inline void constructors_leave_nothing(ct_module *(*make)(ct_context *c, int which),
                                              int count, int least) {
    for (int which = 0; which < count; which++) {
        budget b = {1000000};
        ct_context *c = budget_context(&b);
        int64_t before = ct_memory(c).live, failures = 0;
        ct_module *module = NULL;
        for (int64_t n = 0; n < 200 && !module; n++) {
            ct_memory_trim(c);
            b.left = n;
            module = make(c, which);
            if (module) break;
            failures++;
            ck_assert_int_eq(ct_error(c), CT_ERR_MEMORY);
            ck_assert_int_eq(ct_memory(c).live, before);
            ct_error_clear(c);
        }
        ck_assert_ptr_nonnull(module);
        ck_assert_int_ge(failures, least);
        ct_module_free(module);
        ck_assert_int_eq(ct_memory(c).live, before);
        ct_context_free(c);
    }
}

#endif
