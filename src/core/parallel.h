/* The threads of a context. A job is one call of cti_parallel, and its caller is one of the threads
 * that work on it; the others are workers. A job is open while workers may join it:
 *
 *     CLOSED ---- cti_parallel ----> OPEN ---- the caller finds no chunk ----> CLOSED
 *
 * A worker that waits spins first, and sleeps later:
 *
 *     WAITS ------ a new job that is open -------> INSIDE
 *      |  ^                                           |
 *      |  `------- the worker finds no chunk ---------'
 *      |
 *      `---------- the workers are freed --------> ended
 *
 * Invariants:
 *
 * 1. A job is divided into chunks whose limits follow from n and grain only. So a result has the
 *    same bits for any number of threads.
 * 2. Every chunk is taken by exactly one thread. A thread begins with its own consecutive chunks,
 *    and then takes chunks of the other threads.
 * 3. A worker joins a job only while the job is open. The caller returns only when it has closed
 *    the job and no worker is inside. So the job's data, which may lie on the caller's stack, exist
 *    while a worker reads them.
 * 4. A context has one job at a time. A task starts no job.
 * 5. Workers compute in the floating-point mode of the job's caller.
 * 6. A child of a fork never uses the workers of its parent, which have no threads in the child: it
 *    starts workers of its own.
 * 7. If the system refuses to start threads, there are fewer workers or none, and the other threads
 *    do their chunks. */
#ifndef CTI_CORE_PARALLEL_H
#define CTI_CORE_PARALLEL_H

#include <stdint.h>

typedef struct ct_context ct_context;
typedef struct cti_workers cti_workers;

/* Does the elements [begin, end) of a job. `worker`, from 0 to threads - 1, is the number of the
 * thread, by which a task selects private scratch memory. A task records no error, makes no tensor
 * and takes no memory. */
typedef void cti_task(void *arg, int64_t begin, int64_t end, int worker);

/* Runs the task over [0, n) in chunks of `grain` elements, of which the last may be shorter.
 * Returns when all chunks are done. A job of a single chunk, and every job of a context with one
 * thread, runs on the caller's thread. A chunk should take 20 us or more. */
void cti_parallel(ct_context *context, int64_t n, int64_t grain, cti_task *task, void *arg);

int cti_parallel_width(const ct_context *context); /* the number of threads, the caller included */

/* Ends the context's workers. The next job starts new ones. */
void cti_workers_free(ct_context *context);

#endif
