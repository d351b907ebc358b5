/* Transfers of a comm, its end, and waiting. */
#include "../core/os.h"
#include "comm.h"

#include <stdio.h>
#include <string.h>

/* ---- making and closing ---- */

static void close_from_context(cti_closer *self) {
    ct_comm_close((ct_comm *)((char *)self - offsetof(ct_comm, closer)));
}

ct_comm *ct_comm_new(ct_context *context, const ct_comm_engine *engine, int rank, int size,
                     void *data) {
    if (!cti_ready(context)) return NULL;
    if (!engine || !engine->start || !engine->test || !engine->cancel || !engine->reason ||
        !engine->close)
        return ct_fail(context, CT_ERR_ARGUMENT, "comm: the engine is NULL, or lacks a function");
    if (size < 1 || rank < 0 || rank >= size)
        return ct_fail(context, CT_ERR_ARGUMENT, "comm: rank %d of %d", rank, size);
    bool *lost = cti_take_zeroed(context, cti_bytes(size, sizeof *lost));
    ct_comm *comm = lost ? cti_object_new(context, sizeof *comm, "comm") : NULL;
    if (!comm) {
        cti_give(context, lost, cti_bytes(size, sizeof *lost));
        return NULL;
    }
    comm->closer.close = close_from_context;
    comm->engine = engine;
    comm->data = data;
    comm->lost = lost;
    comm->rank = rank;
    comm->size = size;
    cti_closer_add(&context->closers, &comm->closer);
    return comm;
}

static bool is_open(const ct_comm *comm, const char *function) {
    return comm && cti_object_is_open(&comm->object, function);
}
int ct_comm_rank(const ct_comm *comm) { return is_open(comm, "ct_comm_rank") ? comm->rank : 0; }
int ct_comm_size(const ct_comm *comm) { return is_open(comm, "ct_comm_size") ? comm->size : 1; }
void *ct_comm_data(const ct_comm *comm) {
    return is_open(comm, "ct_comm_data") ? comm->data : NULL;
}

static void unlink_transfer(ct_comm *comm, cti_transfer *transfer) {
    *(transfer->next ? &transfer->next->prev : &comm->last) = transfer->prev;
    *(transfer->prev ? &transfer->prev->next : &comm->pending) = transfer->next;
    transfer->pending = false;
}

void cti_comm_cancel(ct_comm *comm, cti_transfer *transfer) {
    if (!transfer->pending) return;
    comm->engine->cancel(comm, &transfer->transfer);
    unlink_transfer(comm, transfer);
}

static void close_engine(ct_comm *comm) {
    if (!comm->engine) return;
    const bool failed = comm->pending || *comm->fault;
    while (comm->pending) cti_comm_cancel(comm, comm->pending);
    const ct_comm_engine *engine = comm->engine;
    comm->engine = NULL;
    engine->close(comm, failed);
    comm->data = NULL;
}

void ct_comm_close(ct_comm *comm) {
    if (!comm || comm->object.self != &comm->object) return;
    ct_context *context = comm->context;
    close_engine(comm);
    cti_closer_remove(&context->closers, &comm->closer);
    cti_give(context, comm->lost, cti_bytes(comm->size, sizeof *comm->lost));
    cti_object_end(&comm->object, "");
}

void cti_comm_break(ct_comm *comm, const char *fault) {
    if (fault)
        snprintf(comm->fault, sizeof comm->fault, "%.*s", (int)sizeof comm->fault - 1, fault);
    close_engine(comm);
}

/* ---- transfers ---- */

/* Ends all transfers with a peer. The first fault stays. */
static void lose(ct_comm *comm, int peer, const char *says) {
    comm->lost[peer] = true;
    if (!*comm->fault) snprintf(comm->fault, sizeof comm->fault, "rank %d %s", peer, says);
    for (cti_transfer *t = comm->pending, *next; t; t = next) {
        next = t->next;
        if (t->transfer.peer == peer) cti_comm_cancel(comm, t);
    }
}

/* The peer may be there still and wait for this rank, and others for the peer, so that going on
 * could be a circle: this rank leaves. */
static void fail(ct_comm *comm, int peer) {
    char says[CTI_FAULT_SIZE];
    const char *reason = comm->engine->reason(comm);
    snprintf(says, sizeof says, "cannot be reached: %s",
             reason && *reason    ? reason
             : comm->engine->name ? comm->engine->name
                                  : "no reason");
    lose(comm, peer, says);
    cti_comm_break(comm, NULL);
}

int64_t cti_comm_start_bytes(ct_comm *comm, cti_transfer *transfer, int tag, int peer,
                             bool receives, void *data, size_t size) {
    *transfer = (cti_transfer){
        .transfer = {.peer = peer, .receives = receives, .tag = tag, .data = data, .size = size}};
    if (!size || !comm->engine || comm->lost[peer]) return 0;
    if (!comm->engine->start(comm, &transfer->transfer)) {
        fail(comm, peer);
        return 0;
    }
    transfer->pending = true;
    transfer->prev = comm->last;
    *(comm->last ? &comm->last->next : &comm->pending) = transfer;
    comm->last = transfer;
    return (int64_t)size;
}

int64_t cti_comm_start(ct_comm *comm, cti_transfer *transfer, int tag, int peer, bool receives,
                       ct_tensor *tensor, int64_t at, int64_t n) {
    const size_t size = cti_dtype_size(tensor->dtype);
    return cti_comm_start_bytes(comm, transfer, tag, peer, receives,
                                tensor->data + (size_t)at * size, (size_t)n * size);
}

/* ---- waiting ---- */

bool cti_comm_poll(ct_comm *comm) {
    bool ended = false;
    cti_transfer *t = comm->pending;
    while (t) {
        const ct_transfer_state state = comm->engine->test(comm, &t->transfer);
        cti_transfer *next = t->next;
        if (state == CT_TRANSFER_PENDING) {
            t = next;
            continue;
        }
        const int peer = t->transfer.peer;
        unlink_transfer(comm, t);
        t->done = state == CT_TRANSFER_DONE;
        ended = true;
        if (state == CT_TRANSFER_LEFT) lose(comm, peer, "has left the run");
        if (state == CT_TRANSFER_FAILED) fail(comm, peer);
        t = state == CT_TRANSFER_DONE ? next : comm->pending; /* lose() may have ended `next` */
    }
    return ended;
}

/* Gives up the peers of all transfers of the tag. */
static void give_up(ct_comm *comm, int tag) {
    char says[CTI_FAULT_SIZE];
    snprintf(says, sizeof says, "has not answered for %g s", comm->timeout);
    cti_transfer *t = comm->pending;
    while (t) {
        const bool lost = t->transfer.tag == tag;
        if (lost) lose(comm, t->transfer.peer, says);
        t = lost ? comm->pending : t->next;
    }
}

cti_wait cti_wait_begin(int tag) { return (cti_wait){.tag = tag}; }

/* A message between two processes of a machine takes about a microsecond, so a few turns only
 * test. Then whoever else has work gets the core, and after some milliseconds this rank sleeps: 20
 * us, up to a millisecond in the end. */
void cti_wait_turn(ct_comm *comm, cti_wait *wait) {
    enum { TESTS = 64, YIELDS = 4096, LEAST = 20000, MOST = 1000000 };
    if (cti_comm_poll(comm)) {
        wait->turns = 0;
        return;
    }
    const int64_t turn = wait->turns++;
    if (!turn) wait->since = cti_os_now();
    if (turn < TESTS) return;
    if (turn < YIELDS) {
        cti_os_sleep(0);
    } else {
        const int64_t sleep = LEAST * (1 + (turn - YIELDS) / 16);
        cti_os_sleep(sleep < MOST ? sleep : MOST);
    }
    if ((double)(cti_os_now() - wait->since) > comm->timeout * 1e9) {
        give_up(comm, wait->tag);
        wait->turns = 0;
    }
}

void cti_comm_wait(ct_comm *comm, const cti_transfer *transfer) {
    cti_wait wait = cti_wait_begin(transfer->transfer.tag);
    while (transfer->pending) cti_wait_turn(comm, &wait);
}
