/* Helpers of the suites of modules: a context for each test, checks of values and errors, and runs
 * without memory. */
#ifndef NN_CHECK_H
#define NN_CHECK_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fault_sweep.h"
#include "one_context.h"

static inline double *values(ct_tensor *t) { /* the caller frees them */
    no_error();
    ck_assert_ptr_nonnull(t);
    double *out = malloc(sizeof(double) * (size_t)(ct_numel(t) + 1));
    ck_assert(ct_to_f64(t, out, ct_numel(t)));
    return out;
}

/* The largest absolute value; infinity if there is a NaN. */
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

/* A context whose allocator can refuse a request. Large blocks are requested one by one, so each of
 * them can be the one that is refused. */
static inline ct_context *refusing_context(void) {
    return ct_context_new((ct_context_opts){.threads = 1, .allocator = {allocate, release, NULL}});
}

/* Runs f once for each of its requests to the allocator; from this request on, all requests are
 * refused. */
static inline void memory_sweep(fault_case f) {
    f.kind = FAULT_ALLOCATOR;
    f.forever = true;
    fault_sweep(&f);
}

typedef struct {
    ct_context *c;
    ct_module *(*make)(ct_context *c, int which);
    int which;
    ct_module *made;
} construction;

static inline bool construct(void *arg) {
    construction *t = arg;
    t->made = t->make(t->c, t->which);
    return t->made != NULL;
}
static inline void free_constructed(const fault_end *end, void *arg) {
    construction *t = arg;
    ct_error_clear(t->c);
    ct_module_free(t->made);
    FAULT_CK(end, ct_memory(t->c).live == end->live);
}

/* Constructors that run out of memory at any of their requests (at least `least`) fail with an
 * error and free everything. */
static inline void constructors_leave_nothing(ct_module *(*make)(ct_context *c, int which),
                                              int count, int64_t least) {
    construction t = {.c = refusing_context(), .make = make};
    for (; t.which < count; t.which++)
        memory_sweep((fault_case){.name = "a constructor",
                                  .context = &t.c,
                                  .arg = &t,
                                  .run = construct,
                                  .end = free_constructed,
                                  .least = least,
                                  .most = 200});
    ct_context_free(t.c);
}

#endif
