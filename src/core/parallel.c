/* A thread pool with work stealing, whose invariants are in parallel.h. Each thread owns
 * consecutive chunks of a job. So from job to job it works on the same rows, which its cache still
 * holds. When these chunks are done it steals chunks of the other threads. The caller works as
 * thread 0, and at the end it waits only for workers that have joined the job.
 *
 * Workers spin for a while before they sleep, because a training step has hundreds of jobs and each
 * wake-up takes time. */
#include "parallel.h"
#include "context.h"
#include "float_mode.h"
#include "int_math.h"
#include "../os/os.h"

#include <stdatomic.h>
#include <string.h>

enum { LINE = 64 }; /* bytes of a cache line */

typedef struct {
    cti_workers *pool;
    cti_thread thread;
    int index;
    atomic_int_least64_t
        next;           /* the first of the thread's chunks that is not taken; may pass end */
    int64_t end;        /* one past the thread's last chunk */
    char padding[LINE]; /* against false sharing of `next` */
} worker;

/* A child of a fork has a copy of the pool but not its threads, and a lock in the copy may be held
 * for ever. So the child counts each fork, and a pool that was made at another count is not used:
 * its memory is freed and a new pool is made. */
struct cti_workers {
    cti_mutex lock;
    cti_cond wake, idle; /* signals of a new job, and of the last worker that leaves a job */
    atomic_uint job;     /* the number of the job; it grows with each job */
    atomic_int inside;   /* the number of workers that have joined the job and not left it */
    bool open, stop;     /* under the lock: workers may join the job; workers must end */
    cti_task *task;
    void *arg;
    int64_t n, grain;
    cti_float_mode mode; /* the mode of the job's caller */
    int count;           /* the number of workers besides the caller */
    size_t bytes;        /* the size of this block */
    unsigned forks;      /* cti_os_forks when the pool was made */
    worker worker[];     /* [count + 1] the threads; the caller is number 0 */
};

/* The iterations of the spin loop. They take 50 us to 1 ms, depending on the machine's pause
 * instruction, and so longer than the serial parts of a training step. */
enum { SPINS = 20000 };

static void pause_core(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int64_t take_chunk(worker *owner) {
    return atomic_fetch_add_explicit(&owner->next, 1, memory_order_relaxed);
}

/* Works on the thread's own chunks, then on the chunks of the other threads. */
static void run_chunks(cti_workers *pool, int index) {
    for (int i = 0; i <= pool->count; i++) {
        worker *owner = &pool->worker[(index + i) % (pool->count + 1)];
        for (int64_t p = take_chunk(owner); p < owner->end; p = take_chunk(owner)) {
            const int64_t begin = p * pool->grain;
            CTI_ASSERT(p >= 0 && begin < pool->n);
            pool->task(pool->arg, begin, begin + cti_min(pool->grain, pool->n - begin), index);
        }
    }
}

static void divide_range(cti_workers *pool) {
    const int64_t chunks = cti_ceil_div(pool->n, pool->grain), threads = pool->count + 1;
    /* the first `longer` threads own one more chunk than the others */
    const int64_t least = chunks / threads, longer = chunks % threads;
    int64_t chunk = 0;
    for (int64_t i = 0; i < threads; i++) {
        atomic_store_explicit(&pool->worker[i].next, chunk, memory_order_relaxed);
        chunk += least + (i < longer);
        pool->worker[i].end = chunk;
    }
    CTI_ASSERT(chunk == chunks);
}

static void worker_loop(void *arg) {
    worker *self = arg;
    cti_workers *pool = self->pool;
    unsigned last = 0; /* the last job that this thread has seen */
    for (;;) {
        for (int i = 0; i < SPINS && atomic_load_explicit(&pool->job, memory_order_relaxed) == last;
             i++)
            pause_core();
        cti_mutex_lock(&pool->lock);
        while (!pool->stop && atomic_load(&pool->job) == last)
            cti_cond_wait(&pool->wake, &pool->lock);
        last = atomic_load(&pool->job);
        bool stop = pool->stop, join = pool->open && !stop;
        CTI_ASSERT(atomic_load(&pool->inside) >= 0 && atomic_load(&pool->inside) <= pool->count);
        if (join) atomic_fetch_add(&pool->inside, 1);
        cti_mutex_unlock(&pool->lock);
        if (stop) return;
        if (!join) continue;
        cti_float_mode_set(&pool->mode);
        run_chunks(pool, self->index);
        cti_mutex_lock(&pool->lock);
        CTI_ASSERT(atomic_load(&pool->inside) > 0);
        if (atomic_fetch_sub(&pool->inside, 1) == 1) cti_cond_signal(&pool->idle);
        cti_mutex_unlock(&pool->lock);
    }
}

/* Makes the pool. If the system refuses to start threads the pool has fewer workers. Returns NULL
 * if memory is short or the system does not count forks. */
static cti_workers *start(ct_context *context) {
    const int most = context->threads - 1;
    if (!cti_os_count_forks()) return NULL;
    size_t bytes = sizeof(cti_workers) + ((size_t)most + 1) * sizeof(worker);
    /* not from cti_take, because ct_memory should not count this block as in use */
    ct_allocator allocator = context->pool.allocator;
    cti_workers *pool = allocator.alloc(allocator.data, bytes);
    if (!pool) return NULL;
    memset(pool, 0, bytes);
    pool->bytes = bytes;
    pool->forks = cti_os_forks();
    if (!cti_mutex_init(&pool->lock)) goto no_lock;
    if (!cti_cond_init(&pool->wake)) goto no_wake;
    if (!cti_cond_init(&pool->idle)) goto no_idle;
    for (; pool->count < most; pool->count++) {
        worker *w = &pool->worker[pool->count + 1];
        w->pool = pool;
        w->index = pool->count + 1;
        if (!cti_thread_start(&w->thread, worker_loop, w)) break;
    }
    return pool;

no_idle:
    cti_cond_free(&pool->wake);
no_wake:
    cti_mutex_free(&pool->lock);
no_lock:
    allocator.free(allocator.data, pool, bytes);
    return NULL;
}

static void end_threads(cti_workers *pool) {
    cti_mutex_lock(&pool->lock);
    pool->stop = true;
    atomic_fetch_add(&pool->job, 1);
    cti_cond_broadcast(&pool->wake);
    cti_mutex_unlock(&pool->lock);
    for (int i = 1; i <= pool->count; i++) cti_thread_join(&pool->worker[i].thread);
    cti_cond_free(&pool->idle);
    cti_cond_free(&pool->wake);
    cti_mutex_free(&pool->lock);
}

void cti_workers_free(ct_context *context) {
    cti_workers *pool = context->workers;
    if (!pool) return;
    context->workers = NULL;
    if (pool->forks == cti_os_forks()) end_threads(pool);
    context->pool.allocator.free(context->pool.allocator.data, pool, pool->bytes);
}

int cti_parallel_width(const ct_context *context) { return context->threads; }

void cti_parallel(ct_context *context, int64_t n, int64_t grain, cti_task *task, void *arg) {
    if (grain < 1) grain = 1;
    bool alone = n <= grain || context->threads == 1;
    if (!alone && context->workers && context->workers->forks != cti_os_forks())
        cti_workers_free(context);
    /* if no pool can be made (NULL) the caller does all the work */
    if (!alone && !context->workers) context->workers = start(context);
    cti_workers *pool = context->workers;
    if (alone || !pool || !pool->count) {
        for (int64_t begin = 0; begin < n; begin += grain)
            task(arg, begin, begin + cti_min(grain, n - begin), 0);
        return;
    }
    cti_mutex_lock(&pool->lock);
    CTI_ASSERT(!pool->open && !atomic_load(&pool->inside)); /* a task begins no job */
    pool->task = task;
    pool->arg = arg;
    pool->n = n;
    pool->grain = grain;
    pool->mode = cti_float_mode_get();
    divide_range(pool);
    pool->open = true;
    atomic_fetch_add(&pool->job, 1);
    cti_cond_broadcast(&pool->wake);
    cti_mutex_unlock(&pool->lock);

    run_chunks(pool, 0);

    for (int i = 0; i < SPINS && atomic_load(&pool->inside); i++) pause_core();
    cti_mutex_lock(&pool->lock);
    pool->open = false;
    while (atomic_load(&pool->inside)) cti_cond_wait(&pool->idle, &pool->lock);
    for (int i = 0; i <= pool->count; i++)
        CTI_ASSERT(atomic_load(&pool->worker[i].next) >= pool->worker[i].end);
    cti_mutex_unlock(&pool->lock);
}
