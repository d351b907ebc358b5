/* Code that the suites of the profile share: rows of its tables, and an op that is made of other
 * ops. */
#ifndef PROFILE_CHECK_H
#define PROFILE_CHECK_H

#include "src/core/profile.h"
#include "tests/support/one_context.h"

static inline void setup_debug(void) {
    context = ct_context_new((ct_context_opts){.seed = 1, .threads = 1, .debug = true});
}

static inline const cti_profile *profile(void) { return context->profile; }

static inline const cti_profile_row *row_of(const cti_profile_table *table, const char *name) {
    for (int i = 0; i < table->count; i++)
        if (!strcmp(table->row[i].name, name)) return &table->row[i];
    ck_abort_msg("no row %s", name);
    return NULL;
}
static inline const cti_profile_row *op(const char *name) { return row_of(&profile()->ops, name); }
static inline const cti_profile_row *module(const char *name) {
    return row_of(&profile()->modules, name);
}

static inline void calls(const cti_profile_row *row, int64_t forward, int64_t backward) {
    ck_assert_msg(row->calls[0] == forward && row->calls[1] == backward, "%s: %lld and %lld calls",
                  row->name, (long long)row->calls[0], (long long)row->calls[1]);
}

/* The number of rows that have been used. */
static inline int used(const cti_profile_table *table) {
    int n = 0;
    for (int i = 0; i < table->count; i++) n += table->row[i].calls[0] || table->row[i].calls[1];
    return n;
}

static inline int64_t time_of(const cti_profile_table *table) {
    int64_t sum = 0;
    for (int i = 0; i < table->count; i++) sum += table->row[i].time[0] + table->row[i].time[1];
    return sum;
}

static inline void start(void) { ck_assert(ct_profile_start(context)); }
static inline void stop(void) {
    ck_assert_msg(ct_profile_stop(context), "%s", ct_error_message(context));
    ck_assert_ptr_null(profile()->open);
    ck_assert(context->observed == context->debug);
}

static inline ct_tensor *leaf(ct_shape shape) {
    return ct_set_requires_grad(ct_rand(context, CT_F32, shape), true);
}
static inline ct_tensor *total(ct_tensor *x) { return ct_sum(x, CT_ALL, false); }

static char printed[1 << 18];
static inline const char *print(void) {
    memset(printed, 0, sizeof printed);
    FILE *file = fmemopen(printed, sizeof printed, "w");
    ct_profile_print(context, file);
    fclose(file);
    return printed;
}
static inline void says(const char *part) {
    ck_assert_msg(strstr(print(), part), "no \"%s\" in\n%s", part, printed);
}

/* ---- an op made of others ---- */

static ct_module *inside; /* the module that its forward calls, or NULL */
static bool (*in_forward)(ct_context *);

static inline ct_tensor *twice_forward(ct_call *c) {
    if (in_forward) in_forward(c->context);
    c->drop = CT_DROP_INPUTS | CT_DROP_OUT;
    if (inside) ct_forward(inside, c->in[0]);
    return ct_add(c->in[0], ct_scale(c->in[0], 1));
}
static inline bool twice_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    (void)c;
    grad[0] = ct_scale(g[0], 2);
    return grad[0];
}
static const ct_op twice = {.name = "tw\"i\\c\ne\x01\xff", /* a name to be escaped */
                            .forward = twice_forward,
                            .backward = twice_backward};
static inline ct_tensor *apply(ct_tensor *x) { return ct_apply(&twice, &x, 1, NULL); }

static inline ct_tensor *calls_twice(void *self, ct_tensor *x) { return (void)self, apply(x); }

#endif
