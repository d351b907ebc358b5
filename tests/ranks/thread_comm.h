/* An engine of ct_comm whose ranks are threads of one process, each with a context of its own. */
#ifndef THREAD_COMM_H
#define THREAD_COMM_H

#include <cotangent/cotangent.h>

typedef struct thread_world thread_world;

typedef struct {
    /* A message of up to `eager` bytes is copied at once; a larger message is pending until it is
     * received, as with MPI. */
    size_t eager;
    /* On rank `fail_rank`, call number `fail_at` of start fails, counted from 1; 0: no call
     * fails. */
    int64_t fail_at;
    int fail_rank;
    bool dies; /* all later calls fail too, and to other ranks this rank looks like a process that
                * was killed */
    const char *last_isa; /* the set of the last rank's context; NULL: the set of all ranks */
    /* a function that is called at the beginning of each of the engine's functions, with its name;
     * if it returns false, start fails. It may be NULL. */
    bool (*within)(ct_comm *comm, const char *function);
} thread_world_opts;

/* The comms must be closed before the world is freed. */
thread_world *thread_world_new(int size, thread_world_opts opts);
void thread_world_free(thread_world *world);
ct_comm *thread_comm_new(thread_world *world, ct_context *context, int rank);

/* Runs fn for each rank in a thread of its own, with a comm of a new context, which is freed at the
 * end; then frees the world. */
typedef void thread_rank(ct_context *context, ct_comm *comm, int rank, void *arg);
void thread_run(int size, thread_world_opts world, ct_context_opts context, thread_rank *fn,
                void *arg);

#endif
