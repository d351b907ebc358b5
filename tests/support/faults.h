/* Faults: the requests of one kind are counted, and request number `at` fails, or it and all later
 * ones ("strikes"). The allocator below, memory_faults.h and io_faults.h call fault_strikes at each
 * request. fault_sweep.h makes each request of a program fail in turn. */
#ifndef FAULTS_H
#define FAULTS_H

#include <cotangent/cotangent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef enum {
    FAULT_NONE,      /* nothing is counted */
    FAULT_ALLOCATOR, /* a request to the context's allocator is refused */
    FAULT_TAKE,      /* a request to cti_take is refused */
    FAULT_CALL,      /* a call into the system fails */
    FAULT_SIGNAL,    /* a signal interrupts a call into the system */
    FAULT_SHRINK,    /* another program truncates the file before a read */
    FAULT_KILL,      /* the process ends before a call into the system */
    FAULT_MEANWHILE, /* another program runs before a call into the system */
} fault_kind;

/* The fault of this thread. */
static _Thread_local struct {
    fault_kind kind;
    bool forever;       /* all requests from number `at` on strike */
    int64_t at, calls;  /* the first request that strikes, 0 for none; the requests so far */
    int error;          /* errno of a call that fails */
    const char *only;   /* if set, the only call that is counted */
    const char *struck; /* the request that was struck last; NULL: none */
} fault;

static inline bool fault_strikes(fault_kind kind, const char *request) {
    if (kind != fault.kind || !fault.at || (fault.only && strcmp(fault.only, request) != 0))
        return false;
    fault.calls++;
    if (fault.forever ? fault.calls < fault.at : fault.calls != fault.at) return false;
    fault.struck = request;
    return true;
}

static inline void fault_arm(fault_kind kind, int64_t at) {
    memset(&fault, 0, sizeof fault);
    fault.kind = kind, fault.at = at;
}
static inline void fault_disarm(void) { fault_arm(FAULT_NONE, 0); }

/* ---- an allocator ---- */

static struct {
    int64_t bytes;  /* the bytes that are allocated and not yet freed */
    size_t largest; /* the largest block that is given; 0: no limit */
} allocated;

static inline void *allocate(void *data, size_t size) {
    (void)data;
    if (fault_strikes(FAULT_ALLOCATOR, "the allocator")) return NULL;
    void *block = allocated.largest && size > allocated.largest ? NULL : malloc(size);
    if (block) allocated.bytes += (int64_t)size;
    return block;
}

static inline void release(void *data, void *block, size_t size) {
    (void)data;
    allocated.bytes -= (int64_t)size;
    free(block);
}

#endif
