/* A context's threads. Work is cut by its size alone, so results are the same bits for any number
 * of threads. */
#ifndef CTI_CORE_PARALLEL_H
#define CTI_CORE_PARALLEL_H

#include <stdint.h>

typedef struct ct_context ct_context;
typedef struct cti_workers cti_workers;

/* The elements [begin, end) of the work. worker is 0 ... threads - 1: which private scratch to use.
 * No error, no tensor, no allocation in here. */
typedef void cti_task(void *arg, int64_t begin, int64_t end, int worker);

/* Runs task over [0, n) in pieces of grain (the last one shorter) and returns when all are done.
 * Work of a single piece, or a context of one thread, stays on the caller's. A grain that costs
 * under some 20 us is too small. */
void cti_parallel(ct_context *context, int64_t n, int64_t grain, cti_task *task, void *arg);

int cti_parallel_width(const ct_context *context); /* how many workers there may be */

void cti_workers_free(ct_context *context);

#endif
