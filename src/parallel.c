/* A pool of threads for one context. A job is cut into pieces by its size; whoever is free takes the next piece. The caller works
 * too, and does not wait for threads that come too late to find a piece.
 *
 * Workers look for a new job for a moment before they go to sleep, so that a step's hundreds of jobs do not each pay for a
 * wake-up; idle, they sleep. */
#include "parallel.h"
#include "context.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

typedef struct {
    ct_workers *pool;
    pthread_t thread;
    int index;
} worker;

struct ct_workers {
    pthread_mutex_t lock;
    pthread_cond_t wake, idle;
    atomic_uint job;         /* grows with each job */
    atomic_int inside;       /* workers at the job */
    bool open, stop;         /* guarded by lock: may a worker join; must it end */
    ct_task *task;
    void *arg;
    int64_t n, grain;
    atomic_int_least64_t next;   /* the first piece that nobody has taken */
    int count;
    size_t bytes;
    worker worker[];
};

enum { SPINS = 4000 };   /* some ten microseconds */

static void breathe(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void take_pieces(ct_workers *pool, int index) {
    int64_t begin;
    while ((begin = atomic_fetch_add_explicit(&pool->next, pool->grain, memory_order_relaxed)) < pool->n)
        pool->task(pool->arg, begin, pool->n - begin < pool->grain ? pool->n : begin + pool->grain, index);
}

static void *work(void *arg) {
    worker *self = arg;
    ct_workers *pool = self->pool;
    unsigned seen = 0;
    for (;;) {
        for (int i = 0; i < SPINS && atomic_load_explicit(&pool->job, memory_order_relaxed) == seen; i++) breathe();
        pthread_mutex_lock(&pool->lock);
        while (!pool->stop && atomic_load(&pool->job) == seen) pthread_cond_wait(&pool->wake, &pool->lock);
        seen = atomic_load(&pool->job);
        bool stop = pool->stop, join = pool->open && !stop;
        if (join) atomic_fetch_add(&pool->inside, 1);
        pthread_mutex_unlock(&pool->lock);
        if (stop) return NULL;
        if (!join) continue;
        take_pieces(pool, self->index);
        pthread_mutex_lock(&pool->lock);
        if (atomic_fetch_sub(&pool->inside, 1) == 1) pthread_cond_signal(&pool->idle);
        pthread_mutex_unlock(&pool->lock);
    }
}

/* Starts the workers with all signals blocked. Where the system has no more threads there are fewer workers, which changes no
 * result. */
static ct_workers *start(ct_context *context) {
    int most = context->threads - 1;
    size_t bytes = sizeof(ct_workers) + (size_t)most * sizeof(worker);
    ct_allocator allocator = context->pool.allocator;   /* not ct_take: what a computation leaves behind is its tensors alone */
    ct_workers *pool = allocator.alloc(allocator.data, bytes);
    if (!pool) return NULL;
    memset(pool, 0, bytes);
    pool->bytes = bytes;
    if (pthread_mutex_init(&pool->lock, NULL)) goto no_lock;
    if (pthread_cond_init(&pool->wake, NULL)) goto no_wake;
    if (pthread_cond_init(&pool->idle, NULL)) goto no_idle;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (; pool->count < most; pool->count++) {
        worker *w = &pool->worker[pool->count];
        *w = (worker){.pool = pool, .index = pool->count + 1};
        if (pthread_create(&w->thread, NULL, work, w)) break;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return pool;

no_idle:
    pthread_cond_destroy(&pool->wake);
no_wake:
    pthread_mutex_destroy(&pool->lock);
no_lock:
    allocator.free(allocator.data, pool, bytes);
    return NULL;
}

void ct_workers_free(ct_context *context) {
    ct_workers *pool = context->workers;
    if (!pool) return;
    pthread_mutex_lock(&pool->lock);
    pool->stop = true;
    atomic_fetch_add(&pool->job, 1);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->count; i++) pthread_join(pool->worker[i].thread, NULL);
    pthread_cond_destroy(&pool->idle);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    context->pool.allocator.free(context->pool.allocator.data, pool, pool->bytes);
    context->workers = NULL;
}

int ct_parallel_width(const ct_context *context) { return context->threads; }

/* The pieces are the same whoever works: a task may keep a partial result for each. */
void ct_parallel(ct_context *context, int64_t n, int64_t grain, ct_task *task, void *arg) {
    if (grain < 1) grain = 1;
    bool alone = n <= grain || context->threads == 1;
    if (!alone && !context->workers) context->workers = start(context);   /* NULL is no fault: the caller does the work */
    ct_workers *pool = context->workers;
    if (alone || !pool || !pool->count) {
        for (int64_t begin = 0; begin < n; begin += grain) task(arg, begin, n - begin < grain ? n : begin + grain, 0);
        return;
    }
    pthread_mutex_lock(&pool->lock);
    pool->task = task;
    pool->arg = arg;
    pool->n = n;
    pool->grain = grain;
    atomic_store(&pool->next, 0);
    pool->open = true;
    atomic_fetch_add(&pool->job, 1);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);

    take_pieces(pool, 0);

    for (int i = 0; i < SPINS && atomic_load(&pool->inside); i++) breathe();
    pthread_mutex_lock(&pool->lock);
    pool->open = false;
    while (atomic_load(&pool->inside)) pthread_cond_wait(&pool->idle, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}
