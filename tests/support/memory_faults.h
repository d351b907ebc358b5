/* Requests to cti_take that are refused. The Makefile links a test that includes this header with
 * --wrap of cti_take_any, cti_take_zeroed, cti_string_take and cti_handle_take_any. */
#ifndef MEMORY_FAULTS_H
#define MEMORY_FAULTS_H

#include "src/core/context.h"
#include "faults.h"

static struct {
    int64_t requests, bytes; /* counts of cti_take since they were set to 0 */
} asked;

/* A context without inline allocation, so that --wrap sees every request. */
static inline ct_context *new_with(ct_context_opts opts) {
    ct_context *c = ct_context_new(opts);
    if (c) c->pool.plain = false;
    return c;
}

static inline bool take_refused(ct_context *c, size_t size) {
    asked.requests++;
    asked.bytes += (int64_t)size;
    if (!fault_strikes(FAULT_TAKE, "cti_take")) return false;
    ct_fail(c, CT_ERR_MEMORY, "injected: out of memory");
    return true;
}

#define WRAP_TAKE(result, name, size, parameters, arguments)                                       \
    result __real_##name parameters;                                                               \
    result __wrap_##name parameters;                                                               \
    result __wrap_##name parameters {                                                              \
        return take_refused(c, size) ? NULL : __real_##name arguments;                             \
    }
WRAP_TAKE(void *, cti_take_any, size, (ct_context * c, size_t size), (c, size))
WRAP_TAKE(void *, cti_take_zeroed, size, (ct_context * c, size_t size), (c, size))
WRAP_TAKE(ct_tensor *, cti_handle_take_any, sizeof(ct_tensor), (ct_context * c), (c))

char *__real_cti_string_take(ct_context *c, const char *string);
char *__wrap_cti_string_take(ct_context *c, const char *string);
char *__wrap_cti_string_take(ct_context *c, const char *string) { /* `asked` does not count it */
    if (!fault_strikes(FAULT_TAKE, "cti_string_take")) return __real_cti_string_take(c, string);
    ct_fail(c, CT_ERR_MEMORY, "injected: out of memory");
    return NULL;
}
#undef WRAP_TAKE

#endif
