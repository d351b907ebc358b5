/* CTI_ASSERT checks an invariant if CTI_ASSERTS is defined: under the sanitizers, in fuzzing, and
 * in CI's builds for other systems. A release build compiles no instruction for it, so the
 * condition must have no effect. A false condition is a fault of the library. A mistake of its user
 * is never asserted but recorded as an error of the context. */
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
