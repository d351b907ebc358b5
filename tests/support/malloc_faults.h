/* Calls of malloc, calloc and realloc that fail. fault_strikes counts all three as the call
 * "malloc" and adds up the bytes. The Makefile links a test that includes this header with --wrap
 * of them. */
#ifndef MALLOC_FAULTS_H
#define MALLOC_FAULTS_H

#include "faults.h"

static size_t malloced; /* bytes that were asked for since the test set this to 0 */

#define WRAP_MALLOC(name, size, parameters, arguments)                                             \
    void *__real_##name parameters;                                                                \
    void *__wrap_##name parameters;                                                                \
    void *__wrap_##name parameters {                                                               \
        malloced += size;                                                                          \
        return fault_strikes(FAULT_CALL, "malloc") ? NULL : __real_##name arguments;               \
    }
WRAP_MALLOC(malloc, size, (size_t size), (size))
WRAP_MALLOC(calloc, n *size, (size_t n, size_t size), (n, size))
WRAP_MALLOC(realloc, size, (void *block, size_t size), (block, size))
#undef WRAP_MALLOC

#endif
