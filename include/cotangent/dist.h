/* Data-parallel training by several processes, called ranks, and gradient accumulation by one.
 *
 * A step's gradient is the mean over its micro-batches, as in torch's DistributedDataParallel. Each
 * rank computes some of them; gradients are added up by a reduce-scatter, each rank steps its part
 * of the parameters with its part of the optimiser's state (ZeRO-1: Rajbhandari et al. 2019,
 * arXiv:1910.02054), and an all-gather hands the parameters to all.
 *
 *     ct_dist *dist = ct_dist_new(optim, ct_mpi_comm(context),
 *                                 (ct_dist_opts){.micro_batches = 16, .shares = 8});
 *     for (int64_t step = 0; step < steps; step++) {
 *         for (int64_t i; ct_dist_next(dist, &i);) ct_backward(loss of micro-batch i);
 *         ct_dist_step(dist);
 *     }
 *
 * The same bits for any number of ranks times any number of threads. A share is micro_batches /
 * shares consecutive micro-batches, whose gradients are added in order; the sums of the shares are
 * added along the binary tree that `shares` alone fixes. Each rank has shares / ranks consecutive
 * shares, a subtree, so who computes what changes no sum.
 *
 * Errors: what one rank does wrong is an error on every rank, with that rank's number, and not a
 * hang. So all ranks make the same calls of ct_dist_new, ct_dist_step, ct_dist_sum and of
 * checkpoints with .dist in the same order, also while an error is pending: a rank that has one
 * tells the others. After ct_error_clear on all they may go on. Where ranks are in different calls,
 * or one has left, failed or not answered, all that is left to them is that error (CT_ERR_ARGUMENT,
 * CT_ERR_IO). */
#ifndef CT_DIST_H
#define CT_DIST_H

#include <cotangent/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- messages between ranks ---- */

/* What ranks send each other messages by: MPI (cotangent/mpi.h), or an engine of one's own. */
typedef struct ct_comm ct_comm;

/* A message that is under way. Messages of one tag from one rank to another arrive in the order in
 * which they were started. */
typedef struct {
    int peer; /* the other rank */
    bool receives;
    int tag;     /* 0 ... 255 */
    void *data;  /* valid until the transfer has ended */
    size_t size; /* in bytes, equal on both sides */
    void *state; /* the engine's */
} ct_transfer;

typedef enum {
    CT_TRANSFER_PENDING,
    CT_TRANSFER_DONE,
    /* the peer has closed its comm, or has died: it will never come. What it had sent before does
     * come */
    CT_TRANSFER_LEFT,
    CT_TRANSFER_FAILED /* anything else; ct_comm_engine.reason says what. The comm is closed */
} ct_transfer_state;

/* A table of functions, each called by the context's thread alone. None records an error: the
 * library does, as it knows what was going on. A transfer that has started is tested until it is
 * not pending any more, or cancelled; its struct does not move meanwhile. Of the library a function
 * calls ct_comm_rank, ct_comm_size and ct_comm_data. In it the comm cannot be used or closed, nor
 * its ct_dist, optimiser or context freed: CT_ERR_ARGUMENT, the transfer fails, and they stay. It
 * ends by returning. */
typedef struct {
    const char *name; /* "MPI" */
    /* False: as CT_TRANSFER_FAILED, and neither tested nor cancelled. A size is never 0. */
    bool (*start)(ct_comm *comm, ct_transfer *transfer);
    /* Makes progress, of all transfers, and returns without waiting. No ct_transfer_state: as
     * CT_TRANSFER_FAILED. */
    ct_transfer_state (*test)(ct_comm *comm, ct_transfer *transfer);
    /* Ends a transfer that is pending; its data is not touched after that. */
    void (*cancel)(ct_comm *comm, ct_transfer *transfer);
    /* Why the last transfer failed, as a sentence without a full stop; "" or NULL: no reason. Of a
     * long one the middle is left out, and what is no UTF-8 is shown as '?'. */
    const char *(*reason)(ct_comm *comm);
    /* Tells the other ranks that this one leaves, and frees the engine's data. `failed`: transfers
     * were cancelled or lost, so a collective farewell would hang. */
    void (*close)(ct_comm *comm, bool failed);
} ct_comm_engine;

/* A comm of the context, which closes it when it is freed. The table is not copied. NULL:
 * CT_ERR_MEMORY; CT_ERR_ARGUMENT for a rank outside 0 ... size - 1; close was not called then. */
CT_API ct_comm *ct_comm_new(ct_context *context, const ct_comm_engine *engine, int rank, int size,
                            void *data);
CT_API int ct_comm_rank(const ct_comm *comm); /* 0 for NULL */
CT_API int ct_comm_size(const ct_comm *comm); /* 1 for NULL */
CT_API void *ct_comm_data(const ct_comm *comm);
CT_API void ct_comm_close(ct_comm *comm); /* before its context; NULL or closed: does nothing */

/* ---- training ---- */

typedef struct ct_dist ct_dist;

typedef struct {
    int64_t micro_batches; /* of a step, at most 2^18; 0: as many as shares */
    /* A power of two that ranks divide and that divides micro_batches. It fixes the order of sums,
     * so keep it when the number of ranks changes. 0: the number of ranks */
    int64_t shares;
    /* Gradients are sent in buckets of about so many bytes, each as soon as the backward of the
     * last micro-batch has finished them. 0: 4 MiB. */
    int64_t bucket_bytes;
    /* Seconds without an answer after which a rank is given up; 0: 600. Up to 4 seconds more go by
     * until ranks have told each other for whom they wait, so that the error names a rank that is
     * silent and none that only waits. */
    double timeout;
} ct_dist_opts;

/* Trains the optimiser's module with the comm's ranks; comm NULL: with this process alone. Call it
 * on every rank; parameters and buffers of rank 0 are copied to all, with the optimiser's states
 * where it has been stepped, and the random generator. It ends with its optimiser.
 *
 * Parameters that require a gradient now are trained; one that does so later is an error in
 * ct_dist_step. The optimiser keeps its options, groups and clipping, but is stepped by
 * ct_dist_step alone. With several ranks it has the states of this rank's part only. Memory: the
 * gradients once more, half of them to receive, and once for each doubling of the shares of a rank.
 *
 * Errors, on every rank: CT_ERR_ARGUMENT where the number of ranks is no power of two, or it,
 * shares and micro_batches do not divide each other, or ranks differ in options, in the names,
 * shapes or dtypes of parameters, in the optimiser's kind and numbers, or in what fixes the bits of
 * a kernel's results: ct_isa_name (CT_ISA sets it), ct_get_matmul and ct_fingerprint. */
CT_API ct_dist *ct_dist_new(ct_optim *optim, ct_comm *comm, ct_dist_opts opts);

/* The next micro-batch of this step that is this rank's, 0 ... micro_batches - 1; false when there
 * is none left, or an error is pending. Within it the generator's streams depend on (seed, step,
 * *micro_batch) alone; after the last one the generator stands where it stood before the first, so
 * what is drawn between steps is the same on all ranks. Begins by zeroing gradients when the step
 * does.
 *
 * In the last micro-batch, while its backward runs, gradients that are complete are sent to other
 * ranks and end. So with several ranks that micro-batch has one ct_backward; a second one that
 * reaches a parameter again is an error in ct_dist_step. (With retain_graph nothing is sent
 * early.) */
CT_API bool ct_dist_next(ct_dist *dist, int64_t *micro_batch);

/* Ends the step: the mean of gradients, clipping by the norm over all of them, the optimiser's
 * step, and parameters to all ranks. A parameter without a gradient in every micro-batch of all
 * ranks is left out; in some of them, it is 0 there. Afterwards ct_grad of a parameter is the mean
 * with one rank, and undefined with several. Call it too where the loop broke off with an error: it
 * tells the other ranks. Before the last ct_dist_next has returned false it is CT_ERR_ARGUMENT.
 *
 * A step that fails changes nothing, on any rank. (A rank that is lost in the last moment, when
 * parameters are handed over, may be noticed by some after others have finished.) Ranks must have
 * the same learning rate, groups, seed and ct_set_matmul; others are CT_ERR_ARGUMENT.
 * ct_optim_grad_norm and ct_optim_skipped are those of the whole. */
CT_API bool ct_dist_step(ct_dist *dist);

/* Adds up values[i] over the ranks, in order of the ranks, for logs: on return all have the sums.
 * For the same bits with any number of ranks let each fill in the values of its own micro-batches
 * and leave 0 elsewhere. */
CT_API bool ct_dist_sum(ct_dist *dist, double *values, int64_t n);

CT_API int64_t ct_dist_steps(const ct_dist *dist); /* done so far; -1 for NULL */

/* What the last step sent from this rank to others, in bytes: of gradients, of parameters, and of
 * everything else (norms, agreement on errors). */
typedef struct {
    int64_t gradients, parameters, other;
} ct_dist_traffic;
CT_API ct_dist_traffic ct_dist_sent(const ct_dist *dist);

#ifdef __cplusplus
}
#endif
#endif
