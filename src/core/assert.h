/* Invariants, checked where CTI_ASSERTS is defined: in the library that the tests link, under the
 * sanitizers and in fuzzing. A release build compiles no instruction for them, so a condition must
 * have no effect. A false condition is a fault of the library, never of its user, whose mistakes
 * are recorded as errors of the context. */
#ifndef CTI_CORE_ASSERT_H
#define CTI_CORE_ASSERT_H

#ifdef CTI_ASSERTS
#include <stdio.h>
#include <stdlib.h>
#define CTI_ASSERT(condition)                                                                      \
    ((condition) ? (void)0                                                                         \
                 : (void)(fprintf(stderr, "%s:%d: %s: invariant does not hold: %s\n", __FILE__,    \
                                  __LINE__, __func__, #condition),                                 \
                          abort()))
#else
#define CTI_ASSERT(condition) ((void)sizeof(!(condition)))
#endif

#endif
