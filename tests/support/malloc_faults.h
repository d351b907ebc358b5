/* Calls of malloc, calloc and realloc that fail. fault_strikes counts all three as the call
 * "malloc". The Makefile links a test that includes this header with --wrap of them. */
#ifndef MALLOC_FAULTS_H
#define MALLOC_FAULTS_H

#include "faults.h"

#define WRAP_MALLOC(name, parameters, arguments)                                                   \
    void *__real_##name parameters;                                                                \
    void *__wrap_##name parameters;                                                                \
    void *__wrap_##name parameters {                                                               \
        return fault_strikes(FAULT_CALL, "malloc") ? NULL : __real_##name arguments;               \
    }
WRAP_MALLOC(malloc, (size_t size), (size))
WRAP_MALLOC(calloc, (size_t n, size_t size), (n, size))
WRAP_MALLOC(realloc, (void *block, size_t size), (block, size))
#undef WRAP_MALLOC

#endif
