/* A pool of threads for one context. A job is cut into pieces by its size, and each thread has a
 * share of pieces that follow each other: the same rows of one job and the next, so that what a
 * thread reads is what its own cache still holds. Whoever is through with its share takes from the
 * others'. The caller works too, and does not wait for threads that come too late to find a piece.
 *
 * Workers look for a new job for a moment before they go to sleep, so that a step's hundreds of
 * jobs do not each pay for a wake-up; idle, they sleep. */
#include "parallel.h"
#include "context.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

enum { LINE = 64 }; /* bytes of a cache line: a share that others write to is not in it */

typedef struct {
    cti_workers *pool;
    pthread_t thread;
    int index;
    int64_t end;               /* of its share, in pieces */
    atomic_int_least64_t next; /* the first piece of it that nobody has taken */
    char apart[LINE];
} worker;

struct cti_workers {
    pthread_mutex_t lock;
    pthread_cond_t wake, idle;
    atomic_uint job;   /* grows with each job */
    atomic_int inside; /* workers at the job */
    bool open, stop;   /* guarded by lock: may a worker join; must it end */
    cti_task *task;
    void *arg;
    int64_t n, grain;
    int count; /* of workers besides the caller */
    size_t bytes;
    unsigned forks;  /* of this process's ancestors, when the pool was made */
    worker worker[]; /* the caller is the first */
};

/* A child of fork has its parent's memory and none of its threads: a pool that was made before is
 * no longer one, and its locks may be held for ever. So each child counts its fork, once for all
 * contexts. */
static unsigned forks;
static bool forks_are_counted;
static pthread_once_t count_once = PTHREAD_ONCE_INIT;
static void count_fork(void) { forks++; }
static void count_forks(void) { forks_are_counted = !pthread_atfork(NULL, NULL, count_fork); }

/* Of a pause: fifty microseconds to a millisecond, by machine. Longer than the serial parts of a
 * step. */
enum { SPINS = 20000 };

static void breathe(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void take_pieces(cti_workers *pool, int index) {
    for (int i = 0; i <= pool->count; i++) {
        worker *of = &pool->worker[(index + i) % (pool->count + 1)];
        for (int64_t piece;
             (piece = atomic_fetch_add_explicit(&of->next, 1, memory_order_relaxed)) < of->end;) {
            const int64_t begin = piece * pool->grain;
            pool->task(pool->arg, begin,
                       pool->n - begin < pool->grain ? pool->n : begin + pool->grain, index);
        }
    }
}

static void share_out(cti_workers *pool) {
    const int64_t pieces = pool->n / pool->grain + (pool->n % pool->grain != 0),
                  shares = pool->count + 1;
    /* the first `more` shares are longer by one */
    const int64_t least = pieces / shares, more = pieces % shares;
    int64_t piece = 0;
    for (int64_t i = 0; i < shares; i++) {
        atomic_store_explicit(&pool->worker[i].next, piece, memory_order_relaxed);
        pool->worker[i].end = piece += least + (i < more);
    }
}

static void *work(void *arg) {
    worker *self = arg;
    cti_workers *pool = self->pool;
    unsigned seen = 0;
    for (;;) {
        for (int i = 0; i < SPINS && atomic_load_explicit(&pool->job, memory_order_relaxed) == seen;
             i++)
            breathe();
        pthread_mutex_lock(&pool->lock);
        while (!pool->stop && atomic_load(&pool->job) == seen)
            pthread_cond_wait(&pool->wake, &pool->lock);
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

/* Starts the workers with all signals blocked. Where the system has no more threads there are fewer
 * workers, which changes no result. */
static cti_workers *start(ct_context *context) {
    int most = context->threads - 1;
    if (pthread_once(&count_once, count_forks) || !forks_are_counted) return NULL;
    size_t bytes = sizeof(cti_workers) + ((size_t)most + 1) * sizeof(worker);
    /* not cti_take: what a computation leaves behind is its tensors alone */
    ct_allocator allocator = context->pool.allocator;
    cti_workers *pool = allocator.alloc(allocator.data, bytes);
    if (!pool) return NULL;
    memset(pool, 0, bytes);
    pool->bytes = bytes;
    pool->forks = forks;
    if (pthread_mutex_init(&pool->lock, NULL)) goto no_lock;
    if (pthread_cond_init(&pool->wake, NULL)) goto no_wake;
    if (pthread_cond_init(&pool->idle, NULL)) goto no_idle;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (; pool->count < most; pool->count++) {
        worker *w = &pool->worker[pool->count + 1];
        w->pool = pool;
        w->index = pool->count + 1;
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

static void end_threads(cti_workers *pool) {
    pthread_mutex_lock(&pool->lock);
    pool->stop = true;
    atomic_fetch_add(&pool->job, 1);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 1; i <= pool->count; i++) pthread_join(pool->worker[i].thread, NULL);
    pthread_cond_destroy(&pool->idle);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
}

void cti_workers_free(ct_context *context) {
    cti_workers *pool = context->workers;
    if (!pool) return;
    context->workers = NULL;
    if (pool->forks == forks) end_threads(pool);
    context->pool.allocator.free(context->pool.allocator.data, pool, pool->bytes);
}

int cti_parallel_width(const ct_context *context) { return context->threads; }

/* The pieces are the same whoever works: a task may keep a partial result for each. */
void cti_parallel(ct_context *context, int64_t n, int64_t grain, cti_task *task, void *arg) {
    if (grain < 1) grain = 1;
    bool alone = n <= grain || context->threads == 1;
    if (!alone && context->workers && context->workers->forks != forks) cti_workers_free(context);
    /* NULL is no fault: the caller does the work */
    if (!alone && !context->workers) context->workers = start(context);
    cti_workers *pool = context->workers;
    if (alone || !pool || !pool->count) {
        for (int64_t begin = 0; begin < n; begin += grain)
            task(arg, begin, n - begin < grain ? n : begin + grain, 0);
        return;
    }
    pthread_mutex_lock(&pool->lock);
    pool->task = task;
    pool->arg = arg;
    pool->n = n;
    pool->grain = grain;
    share_out(pool);
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
