/* ct_mpi_comm: starts MPI, makes a comm that all ranks agree on, and ends MPI after the last comm.
 * mpi_engine.h has the states of a comm. */
#include <cotangent/mpi.h>
#include <cotangent/autograd.h>
#include <cotangent/context.h>

#include "mpi_engine.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    MESSAGE = 1024, /* bytes of an error message */
    MINUTES = 10,   /* longest wait for all ranks to call ct_mpi_comm */
    SECONDS = 5     /* longest time for MPI_Abort */
};

/* A process has one MPI, so these variables are global. Only the thread that started MPI uses
 * them. */
static cti_mpi *open_comms,
    *failed_comms; /* failed_comms: closed after a failure, with "over" still to be sent */
static bool started_here;
static bool abandoned; /* a collective call has not ended, so MPI_Finalize would wait for ever */
static bool aborting;
static pid_t started_by; /* the process that started MPI; a child of fork is another */

/* ---- the end ---- */

/* Ends all ranks. MPI_Abort may run at_exit. MPI_Abort of MPICH 4.0 over UCX does not return while
 * a send is pending; then a signal ends this rank, and the launcher ends the others. */
static void mpi_abort_all(MPI_Comm comm) {
    sigset_t alarms;
    aborting = true;
    fflush(NULL); /* messages about the failure */
    signal(SIGALRM, SIG_DFL);
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
    alarm(SECONDS);
    MPI_Abort(comm, EXIT_FAILURE);
}

static void mpi_library_end(void) {
    int over = 0;
    MPI_Finalized(&over);
    if (!started_here || open_comms || failed_comms || over) return;
    if (abandoned) mpi_abort_all(MPI_COMM_WORLD);
    MPI_Finalize();
}

static void comm_free(cti_mpi *m) {
    if (!m) return;
    free(m->left);
    free(m->leaving);
    free(m->parting);
    free(m);
}

/* Returns when all ranks have parted; otherwise the program ends. */
static void part_comm(cti_mpi *m, bool failed) {
    if (!cti_mpi_part(m, failed)) mpi_abort_all(m->comm);
    MPI_Comm_free(&m->comm);
}

void cti_mpi_close(cti_mpi *m, bool failed) {
    if (m->process != getpid()) return; /* the comm is the parent process's */
    if (m->comm == MPI_COMM_NULL) {     /* MPI has already ended */
        comm_free(m);
        return;
    }
    cti_mpi **link = &open_comms;
    while (*link != m) link = &(*link)->next;
    *link = m->next;
    if (failed || m->failed) {
        m->next = failed_comms;
        failed_comms = m;
        cti_mpi_leave(m);
        return;
    }
    part_comm(m, false);
    comm_free(m);
    mpi_library_end();
}

/* Runs at the end of the program or of MPI. A comm may still be open, for instance when
 * ct_error_die has ended the program; other ranks are waiting for its "over". */
static void part_all(void) {
    if (started_by != getpid() || aborting) return;
    for (cti_mpi *m = open_comms; m; m = m->next)
        part_comm(m, m->failed); /* the comm is freed when it is closed */
    open_comms = NULL;
    while (failed_comms) {
        cti_mpi *m = failed_comms;
        failed_comms = m->next;
        part_comm(m, true);
        comm_free(m);
    }
}

static void at_exit(void) {
    int over = 0;
    if (started_by != getpid() || aborting) return;
    MPI_Finalized(&over);
    if (!over) part_all();
    mpi_library_end();
}

static int at_finalize(MPI_Comm self, int key, void *value, void *state) {
    (void)self, (void)key, (void)value, (void)state;
    part_all();
    return MPI_SUCCESS;
}

/* ---- the start ---- */

static bool mpi_library_start(ct_context *context) {
    int running = 0, over = 0, main_thread = 0, level;
    MPI_Finalized(&over);
    if (over)
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "ct_mpi_comm: MPI has been ended and starts once in a process; a program "
                       "with several contexts in turn calls MPI_Init and MPI_Finalize itself");
    MPI_Initialized(&running);
    if (!running) {
        if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level) != MPI_SUCCESS)
            return ct_fail(context, CT_ERR_ARGUMENT, "ct_mpi_comm: MPI does not start");
        started_here = true;
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    }
    if (!started_by) {
        int key = MPI_KEYVAL_INVALID;
        started_by = getpid();
        atexit(at_exit);
        /* MPI_Finalize frees MPI_COMM_SELF before everything else, which calls at_finalize */
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_finalize, &key, NULL);
        MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
    }
    if (started_by != getpid())
        return ct_fail(context, CT_ERR_ARGUMENT, "ct_mpi_comm: a child of fork has no MPI");
    if (failed_comms || abandoned)
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "ct_mpi_comm: the ranks have failed before; start the program again");
    MPI_Is_thread_main(&main_thread);
    return main_thread || ct_fail(context, CT_ERR_ARGUMENT,
                                  "ct_mpi_comm: called from another thread than the one that "
                                  "started MPI");
}

/* Returns false if the request has failed, or has not ended in time. */
static bool request_wait(MPI_Request *request, double until) {
    for (int done = 0;; cti_mpi_nap()) {
        if (MPI_Test(request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
        if (done) return true;
        if (MPI_Wtime() > until) return false;
    }
}

static MPI_Request *no_requests(int n) {
    MPI_Request *requests = malloc((size_t)n * sizeof *requests);
    for (int i = 0; requests && i < n; i++) requests[i] = MPI_REQUEST_NULL;
    return requests;
}

static cti_mpi *new_comm(ct_context *context) {
    int size = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    cti_mpi *m = calloc(1, sizeof *m);
    if (m) {
        *m = (cti_mpi){.process = getpid(),
                       .size = size,
                       .staying = size - 1,
                       .discard = MPI_REQUEST_NULL,
                       .left = calloc((size_t)size, sizeof *m->left),
                       .leaving = no_requests(size),
                       .parting = no_requests(size)};
        MPI_Comm_rank(MPI_COMM_WORLD, &m->rank);
    }
    if (m && m->left && m->leaving && m->parting) return m;
    comm_free(m);
    return ct_fail(context, CT_ERR_MEMORY, "ct_mpi_comm: out of memory");
}

/* Duplicates MPI_COMM_WORLD, with all ranks. A rank with an error takes part too, and its message
 * becomes every rank's error. */
static bool comm_agree_all(ct_context *context, MPI_Comm *comm) {
    double until = MPI_Wtime() + MINUTES * 60;
    char message[MESSAGE];
    int own = 0, size = 0, who = 0;
    MPI_Request request;
    MPI_Comm_rank(MPI_COMM_WORLD, &own);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    snprintf(message, sizeof message, "%s", ct_error_message(context));
    if (ct_error(context) == CT_OK) own = size;
    abandoned = MPI_Comm_idup(MPI_COMM_WORLD, comm, &request) != MPI_SUCCESS ||
                !request_wait(&request, until) ||
                MPI_Iallreduce(&own, &who, 1, MPI_INT, MPI_MIN, *comm, &request) != MPI_SUCCESS ||
                !request_wait(&request, until);
    if (!abandoned && who < size)
        abandoned = MPI_Ibcast(message, MESSAGE, MPI_CHAR, who, *comm, &request) != MPI_SUCCESS ||
                    !request_wait(&request, until);
    if (abandoned)
        return ct_fail(context, CT_ERR_IO,
                       "ct_mpi_comm: not all ranks have called it within %d minutes", MINUTES);
    if (who == size) return true;
    MPI_Comm_free(comm);
    return ct_fail(context, CT_ERR_ARGUMENT, "ct_mpi_comm: rank %d has an error: %s", who, message);
}

ct_comm *ct_mpi_comm(ct_context *context) {
    MPI_Comm comm;
    if (!context || !mpi_library_start(context)) return NULL;
    cti_mpi *m = new_comm(context);
    if (!comm_agree_all(context, &comm)) {
        comm_free(m);
        return NULL;
    }
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    m->comm = comm;
    m->next = open_comms;
    open_comms = m;
    ct_comm *made = ct_comm_new(context, &cti_mpi_engine, m->rank, m->size, m);
    if (!made) cti_mpi_close(m, true);
    return made;
}
