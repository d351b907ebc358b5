/* This header has data-parallel training by several processes, called ranks, and gradient
 * accumulation by one process.
 *
 * The gradient of a step is the mean over its micro-batches, as in torch's DistributedDataParallel.
 * Each rank computes some of the micro-batches. A reduce-scatter adds up the gradients over the
 * ranks, each rank steps a range of the parameters with the optimiser's state of that range
 * (ZeRO-1: Rajbhandari et al. 2019, arXiv:1910.02054), and an all-gather sends the new parameters
 * to all ranks.
 *
 *     ct_dist *dist = ct_dist_new(optim, ct_mpi_comm(context),
 *                                 (ct_dist_opts){.micro_batches = 16, .shares = 8});
 *     for (int64_t step = 0; step < steps; step++) {
 *         for (int64_t i; ct_dist_next(dist, &i);) ct_backward(loss of micro-batch i);
 *         ct_dist_step(dist);
 *     }
 *
 * Results have the same bits for any number of ranks, each with any number of threads. A share is
 * micro_batches / shares consecutive micro-batches, whose gradients are added in order. The sums of
 * the shares are added along a binary tree whose form depends only on `shares`. Each rank has
 * shares / ranks consecutive shares, which are a subtree of this tree. So no sum depends on the
 * number of ranks.
 *
 * An error on one rank becomes an error on every rank, with the number of the rank that failed, and
 * no rank hangs. For this purpose
 *
 * (1) all ranks must make the same calls of ct_dist_new, ct_dist_step, ct_dist_sum and of
 * checkpoints with .group, in the same order;
 *
 * (2) a rank with a pending error must make these calls too, because they send its error to the
 * other ranks;
 *
 * (3) after ct_error_clear on all ranks the training may continue. But if ranks are in different
 * calls (CT_ERR_ARGUMENT), or a rank has left, has failed or does not answer (CT_ERR_IO), the comm
 * is lost, and every later call has that error. */
#ifndef CT_DIST_H
#define CT_DIST_H

#include <cotangent/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- messages between ranks ---- */

/* The connection of a rank with the other ranks. An engine sends the messages: MPI
 * (cotangent/mpi.h), or a ct_comm_engine of your own. */
typedef struct ct_comm ct_comm;

/* A message that is sent or received. */
typedef struct {
    int peer;      /* the other rank */
    bool receives; /* false: this rank sends */
    int tag;       /* 0 ... 255 */
    void *data;    /* valid until the transfer has ended */
    size_t size;   /* in bytes, equal on both sides and never 0 */
    void *state;   /* belongs to the engine */
} ct_transfer;

typedef enum {
    CT_TRANSFER_PENDING,
    CT_TRANSFER_DONE,
    /* the peer has closed its comm or has died, so the message will never come. Messages that the
     * peer sent before still come */
    CT_TRANSFER_LEFT,
    CT_TRANSFER_FAILED /* any other failure, described by ct_comm_engine.reason; closes the comm */
} ct_transfer_state;

/* An engine, a table of functions that send and receive messages:
 *
 *     start --> PENDING --- test ---> PENDING, DONE, LEFT or FAILED
 *                  '------ cancel --> ended
 *
 * (1) Messages of one tag from one rank to another arrive in the order in which they were started.
 *
 * (2) A transfer that was started is tested until it is no longer pending, or cancelled. Its struct
 * does not move meanwhile.
 *
 * (3) All functions are called by the thread that uses the context, and each must return.
 *
 * (4) No function records an error; the library does that, because only the library can name the
 * call that failed.
 *
 * (5) The only functions of the library that an engine may call are ct_comm_rank, ct_comm_size and
 * ct_comm_data. If it uses or closes the comm, or frees its ct_dist, optimiser or context, that is
 * CT_ERR_ARGUMENT, the object stays, and the transfer fails. */
typedef struct {
    const char *name; /* the name for messages, such as "MPI" */
    /* Starts a transfer. If it returns false, the transfer has failed as with CT_TRANSFER_FAILED,
     * and is neither tested nor cancelled. */
    bool (*start)(ct_comm *comm, ct_transfer *transfer);
    /* Advances all transfers, and returns the state of this one without waiting. A result that is
     * no ct_transfer_state counts as CT_TRANSFER_FAILED. */
    ct_transfer_state (*test)(ct_comm *comm, ct_transfer *transfer);
    /* Ends a transfer that is pending. The engine does not touch its data after that. */
    void (*cancel)(ct_comm *comm, ct_transfer *transfer);
    /* Returns the reason of the last failure: a sentence without a full stop; "" or NULL if there
     * is none. Messages show a long reason without its middle, and bytes that are not UTF-8 as '?'.
     */
    const char *(*reason)(ct_comm *comm);
    /* Informs the other ranks that this rank leaves, and frees the engine's data. With `failed`
     * transfers were cancelled or lost, so the engine must not wait for all ranks to close. */
    void (*close)(ct_comm *comm, bool failed);
} ct_comm_engine;

/* Returns a comm, which belongs to the context. `engine` is not copied and must outlive the comm.
 * `data` belongs to the engine. Returns NULL, without a call of close, after CT_ERR_MEMORY, or
 * after CT_ERR_ARGUMENT: a rank outside 0 ... size - 1, or an engine that lacks a function. */
CT_API ct_comm *ct_comm_new(ct_context *context, const ct_comm_engine *engine, int rank, int size,
                            void *data);
CT_API int ct_comm_rank(const ct_comm *comm); /* returns 0 for NULL */
CT_API int ct_comm_size(const ct_comm *comm); /* returns 1 for NULL */
/* Returns the `data` of ct_comm_new, for the functions of an engine. */
CT_API void *ct_comm_data(const ct_comm *comm);
/* Closes the comm, which ct_context_free does too. It does nothing for NULL or a closed comm. */
CT_API void ct_comm_close(ct_comm *comm);

/* ---- training ---- */

/* A ct_dist repeats
 *
 *     ct_dist_next (true), once for each micro-batch of this rank --> ct_dist_next (false)
 *          ^                                                                |
 *          '------------------------- ct_dist_step <------------------------' */
typedef struct ct_dist ct_dist;

typedef struct {
    int64_t micro_batches; /* the number of micro-batches in a step, over all ranks, at most 2^18;
                            * 0: shares */
    /* the number of shares: a power of two that is a multiple of the number of ranks and divides
     * micro_batches. It fixes the order of sums, so keep it when the number of ranks changes. 0:
     * the number of ranks */
    int64_t shares;
    /* the approximate size of a bucket. Gradients are sent in buckets. A bucket is sent as soon as
     * the backward of the last micro-batch has completed its gradients. 0: 4 MiB */
    int64_t bucket_bytes;
    /* the seconds without an answer after which a rank is declared lost; 0: 600. Up to 4 more
     * seconds pass until the ranks have exchanged lists of the ranks that they wait for, so that
     * the error names a rank that does not answer and not a rank that waits for it */
    double timeout;
} ct_dist_opts;

/* Makes a ct_dist, which trains the optimiser's module with all ranks of the comm, or with only
 * this process if comm is NULL. All ranks call it. Rank 0's parameters, buffers and random
 * generator are copied to all ranks, and also its optimiser's states if it has made a step. The
 * ct_dist is freed with its optimiser.
 *
 * It trains the parameters that require a gradient now; if another parameter requires one later,
 * that is an error in ct_dist_step. The optimiser keeps its options, groups and clipping, but only
 * ct_dist_step may step it. With several ranks it has only the states of the ranges that this rank
 * updates. A ct_dist takes memory for one more copy of the gradients, half a copy to receive, and
 * one copy for each doubling of the number of shares of a rank.
 *
 * These are CT_ERR_ARGUMENT on every rank: the number of ranks is no power of two; the number of
 * ranks does not divide shares, or shares does not divide micro_batches; ranks differ in options,
 * in the names, shapes or dtypes of parameters, in the optimiser's kind or numbers, or in the bits
 * of their results, that is in ct_isa_name (which CT_ISA sets), ct_get_matmul or ct_fingerprint. */
CT_API ct_dist *ct_dist_new(ct_optim *optim, ct_comm *comm, ct_dist_opts opts);

/* Sets *micro_batch to the next micro-batch of this rank in this step, one of 0 ... micro_batches -
 * 1, and returns true. Returns false if none is left or an error is pending. The first call of a
 * step zeroes the gradients.
 *
 * During a micro-batch the random streams depend only on (seed, step, *micro_batch). After the last
 * micro-batch the generator has the state that it had before the first. So random numbers that are
 * drawn between steps are the same on all ranks.
 *
 * While the backward of the last micro-batch runs, gradients that are complete are sent to other
 * ranks, and their handles end. So with several ranks the last micro-batch may have only one
 * ct_backward: if a second one reaches a parameter again, that is an error in ct_dist_step. (With
 * retain_graph nothing is sent early.) */
CT_API bool ct_dist_next(ct_dist *dist, int64_t *micro_batch);

/* Ends the step: computes the mean of the gradients, clips it by the norm over all of them, steps
 * the optimiser, and sends the parameters to all ranks. A call before ct_dist_next has returned
 * false is CT_ERR_ARGUMENT. If the loop has ended with an error, call ct_dist_step nevertheless,
 * because it sends the error to the other ranks.
 *
 * A parameter that has no gradient in any micro-batch of any rank is left out; if it has one in
 * some micro-batches, its gradient in the others is 0. After the step ct_grad of a parameter is the
 * mean with one rank, and undefined with several. ct_optim_grad_norm and ct_optim_skipped cover all
 * ranks.
 *
 * All ranks must have the same learning rate, options, groups, seed and ct_set_matmul; otherwise it
 * is CT_ERR_ARGUMENT. A step that fails changes nothing on any rank, with two exceptions: if a rank
 * is lost while parameters are sent, the step may fail on some ranks and succeed on others; and
 * with one rank a step of the program's own rule fails as ct_optim_step does.
 *
 * If ct_dist_next or the backward of the last micro-batch has failed after it has taken gradients,
 * the step fails too, even if the program has cleared the error. */
CT_API bool ct_dist_step(ct_dist *dist);

/* Replaces values[i] by its sum over the ranks, on all ranks, for logs. The sum is in the order of
 * the ranks. For the same bits with any number of ranks, let i be a micro-batch: each rank fills in
 * the values of its own micro-batches and leaves the others 0. */
CT_API bool ct_dist_sum(ct_dist *dist, double *values, int64_t n);

/* Returns the ranks as the .group of a ct_checkpoint; NULL for NULL. */
CT_API ct_checkpoint_group *ct_dist_group(ct_dist *dist);

/* Returns the number of steps that are done; -1 for NULL. */
CT_API int64_t ct_dist_steps(const ct_dist *dist);

/* The bytes that this rank sent to others in the last step, for gradients, for parameters, and for
 * everything else (norms, agreement on errors). */
typedef struct {
    int64_t gradients, parameters, other;
} ct_dist_traffic;
CT_API ct_dist_traffic ct_dist_sent(const ct_dist *dist);

#ifdef __cplusplus
}
#endif
#endif
