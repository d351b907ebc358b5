/* A context's thread pool. Work is divided by its size alone, so results are the same bits for any
 * number of threads. */
#ifndef CTI_CORE_PARALLEL_H
#define CTI_CORE_PARALLEL_H

#include <stdint.h>

typedef struct ct_context ct_context;
typedef struct cti_workers cti_workers;

/* Does elements [begin, end) of the work. worker, 0 ... threads - 1, selects private scratch. A
 * task records no error, makes no tensor and takes no memory. */
typedef void cti_task(void *arg, int64_t begin, int64_t end, int worker);

/* Runs task over [0, n) in chunks of `grain` elements (the last one may be shorter), whose limits
 * do not depend on the number of threads; returns when all are done. A single chunk, and all work
 * of a context with one thread, runs on the caller's thread. Workers compute in the caller's
 * floating-point mode. A chunk should take 20 us or more. */
void cti_parallel(ct_context *context, int64_t n, int64_t grain, cti_task *task, void *arg);

int cti_parallel_width(const ct_context *context); /* number of workers, the caller among them */

void cti_workers_free(ct_context *context);

#endif
