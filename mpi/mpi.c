/* ct_mpi_comm: starts MPI, makes a comm that all ranks agree on, and ends MPI after the last. */
#include <cotangent/mpi.h>
#include <cotangent/autograd.h>
#include <cotangent/context.h>

#include "mpi_engine.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    MESSAGE = 1024, /* of an error */
    MINUTES = 10,   /* to wait until all ranks have called */
    SECONDS = 5     /* for MPI_Abort */
};

/* MPI is one for the process, so this is too; only the thread that started MPI comes here. */
static cti_mpi *open_comms;
static bool started_here;
static bool abandoned; /* a collective call has not ended, so MPI_Finalize would not either */
static bool aborting;
static pid_t started_by; /* the process, which a child of fork is not */

/* ---- the end ---- */

/* Ends all ranks. MPI_Abort may come by at_exit; and with a send pending that of MPICH 4.0 over UCX
 * does not return, so that a signal has to end this rank, and the launcher the others. */
static void abort_all(MPI_Comm comm) {
    sigset_t alarms;
    aborting = true;
    fflush(NULL); /* what was said of the failure */
    signal(SIGALRM, SIG_DFL);
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
    alarm(SECONDS);
    MPI_Abort(comm, EXIT_FAILURE);
}

static void end_mpi(void) {
    int over = 0;
    MPI_Finalized(&over);
    if (!started_here || open_comms || over) return;
    if (abandoned) abort_all(MPI_COMM_WORLD);
    MPI_Finalize();
}

static void free_comm(cti_mpi *m) {
    if (!m) return;
    free(m->left);
    free(m->leaves);
    free(m);
}

/* Returns once all have left, or not at all. */
static void part(cti_mpi *m, bool failed) {
    if (!cti_mpi_leave(m, failed || m->failed)) abort_all(m->comm);
    MPI_Comm_free(&m->comm);
}

void cti_mpi_close(cti_mpi *m, bool failed) {
    int over = 0;
    if (m->process != getpid()) return; /* the parent's */
    cti_mpi **link = &open_comms;
    while (*link && *link != m) link = &(*link)->next;
    bool open = *link; /* else at_exit has closed it */
    if (open) *link = m->next;
    MPI_Finalized(&over);
    if (open && !over) part(m, failed);
    free_comm(m);
    end_mpi();
}

/* Others wait for the leave of a rank that exits without closing its comm, as ct_error_die does. */
static void at_exit(void) {
    int over = 0;
    if (started_by != getpid() || aborting) return;
    MPI_Finalized(&over);
    while (open_comms && !over) {
        cti_mpi *m = open_comms;
        open_comms = m->next;
        part(m, false); /* a later ct_context_free frees it */
    }
    if (!over) end_mpi();
}

/* ---- the start ---- */

static bool start_mpi(ct_context *context) {
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
    if (started_by != getpid()) {
        started_by = getpid();
        atexit(at_exit);
    }
    MPI_Is_thread_main(&main_thread);
    return main_thread || ct_fail(context, CT_ERR_ARGUMENT,
                                  "ct_mpi_comm: called from another thread than the one that "
                                  "started MPI");
}

/* False: not all ranks have come. */
static bool wait_for(MPI_Request *request, double until) {
    for (int done = 0;; cti_mpi_nap()) {
        if (MPI_Test(request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
        if (done) return true;
        if (MPI_Wtime() > until) return false;
    }
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
                       .leaves = malloc((size_t)size * sizeof *m->leaves)};
        MPI_Comm_rank(MPI_COMM_WORLD, &m->rank);
        for (int r = 0; m->leaves && r < size; r++) m->leaves[r] = MPI_REQUEST_NULL;
    }
    if (m && m->left && m->leaves) return m;
    free_comm(m);
    return ct_fail(context, CT_ERR_MEMORY, "ct_mpi_comm: out of memory");
}

/* A rank that has an error takes part too, so that the others hear of it. */
static bool join(ct_context *context, MPI_Comm *comm) {
    double until = MPI_Wtime() + MINUTES * 60;
    char message[MESSAGE];
    int own = 0, size = 0, who = 0;
    MPI_Request request;
    MPI_Comm_rank(MPI_COMM_WORLD, &own);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    snprintf(message, sizeof message, "%s", ct_error_message(context));
    if (ct_error(context) == CT_OK) own = size;
    abandoned = MPI_Comm_idup(MPI_COMM_WORLD, comm, &request) != MPI_SUCCESS ||
                !wait_for(&request, until) ||
                MPI_Iallreduce(&own, &who, 1, MPI_INT, MPI_MIN, *comm, &request) != MPI_SUCCESS ||
                !wait_for(&request, until);
    if (!abandoned && who < size)
        abandoned = MPI_Ibcast(message, MESSAGE, MPI_CHAR, who, *comm, &request) != MPI_SUCCESS ||
                    !wait_for(&request, until);
    if (abandoned)
        return ct_fail(context, CT_ERR_IO,
                       "ct_mpi_comm: not all ranks have called it within %d minutes", MINUTES);
    if (who == size) return true;
    MPI_Comm_free(comm);
    return ct_fail(context, CT_ERR_ARGUMENT, "ct_mpi_comm: rank %d has an error: %s", who, message);
}

ct_comm *ct_mpi_comm(ct_context *context) {
    MPI_Comm comm;
    if (!context || !start_mpi(context)) return NULL;
    cti_mpi *m = new_comm(context);
    if (!join(context, &comm)) {
        free_comm(m);
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
