/* Memory that runs out: an allocator and wrappers of cti_take of which request number `at` fails,
 * once or from then on. Link with -Wl,--wrap=cti_take_any -Wl,--wrap=cti_take_zeroed
 * -Wl,--wrap=cti_take_string -Wl,--wrap=cti_handle_take_any. */
#ifndef MEMORY_FAULTS_H
#define MEMORY_FAULTS_H

#include <stdlib.h>

#include "memory_wraps.h"

static struct {
    int64_t calls, at; /* requests so far; the number of the first that fails, 0: none is counted */
    bool forever;      /* all later requests fail too */
    bool take;         /* requests of cti_take are counted and fail, not those of the allocator */
    size_t largest;    /* the allocator refuses more than this; 0: no limit */
    int64_t bytes;     /* allocated and not yet freed */
} fault;

static struct {
    int64_t requests, bytes; /* counts of cti_take since they were set to 0 */
} asked;

static inline bool fails(bool take) {
    if (!fault.at || take != fault.take) return false;
    fault.calls++;
    return fault.forever ? fault.calls >= fault.at : fault.calls == fault.at;
}

static inline void *allocate(void *data, size_t size) {
    (void)data;
    const bool none = fails(false) || (fault.largest && size > fault.largest);
    void *block = none ? NULL : malloc(size);
    if (block) fault.bytes += (int64_t)size;
    return block;
}

static inline void release(void *data, void *block, size_t size) {
    (void)data;
    fault.bytes -= (int64_t)size;
    free(block);
}

/* No inline allocation, so that --wrap sees every request. */
static inline ct_context *new_with(ct_context_opts opts) {
    ct_context *context = ct_context_new(opts);
    if (context) context->pool.plain = false;
    return context;
}

static inline void count_request(size_t size) {
    asked.requests++;
    asked.bytes += (int64_t)size;
}
static inline bool refuses(ct_context *context) {
    if (!fails(true)) return false;
    ct_fail(context, CT_ERR_MEMORY, "injected: out of memory");
    return true;
}
void *__wrap_cti_take_any(ct_context *context, size_t size) {
    count_request(size);
    return refuses(context) ? NULL : __real_cti_take_any(context, size);
}
void *__wrap_cti_take_zeroed(ct_context *context, size_t size) {
    count_request(size);
    return refuses(context) ? NULL : __real_cti_take_zeroed(context, size);
}
char *__wrap_cti_take_string(ct_context *context, const char *string) {
    return refuses(context) ? NULL : __real_cti_take_string(context, string);
}
ct_tensor *__wrap_cti_handle_take_any(ct_context *context) {
    count_request(sizeof(ct_tensor));
    return refuses(context) ? NULL : __real_cti_handle_take_any(context);
}

#endif
