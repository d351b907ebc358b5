/* The seal around a submission. It stands before the first instruction of the submission's program:
 * constructors and the loader's ifuncs run under it. seal.c, of the judge. */
#ifndef COURSE_SEAL_H
#define COURSE_SEAL_H

#include <stdbool.h>

typedef struct {
    unsigned long seconds, memory_mib; /* the most processor time, and the most address space */
    bool sealed;    /* false: only limits, for practice, where there is no filter or no libc.a */
    bool sanitized; /* a sanitizer reserves more address space than such a limit, and has threads of
                       its own */
} seal_options;

/* Whether this system has the filter. */
bool seal_is_there(void);

/* Starts a program: descriptor 0 is empty, 1 and 2 are this process's, 3 is `talk`, and there are
 * no others. Returns its process id, or -1. If the seal cannot be set, it exits with 125. */
int seal_start(const char *program, int talk, const seal_options *options);

#endif
