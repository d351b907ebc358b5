/* Transfers of a comm, and its end. */
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
    cti_roll *roll = lost ? cti_take(context, cti_bytes(size, sizeof *roll)) : NULL;
    ct_comm *comm = roll ? cti_object_new(context, sizeof *comm, "comm") : NULL;
    if (!comm) {
        cti_give(context, roll, cti_bytes(size, sizeof *roll));
        cti_give(context, lost, cti_bytes(size, sizeof *lost));
        return NULL;
    }
    comm->closer.close = close_from_context;
    comm->engine = engine;
    comm->data = data;
    comm->lost = lost;
    comm->roll = roll;
    comm->rank = rank;
    comm->size = size;
    for (int r = 0; r < size; r++) roll[r] = (cti_roll){.note = {.n = -1}};
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

void cti_comm_hush(ct_comm *comm) {
    for (int r = 0; r < comm->size; r++) {
        cti_comm_cancel(comm, &comm->roll[r].receive);
        cti_comm_cancel(comm, &comm->roll[r].send);
    }
}

static void close_engine(ct_comm *comm) {
    if (!comm->engine) return;
    cti_comm_hush(comm);
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
    cti_give(context, comm->roll, cti_bytes(comm->size, sizeof *comm->roll));
    cti_give(context, comm->lost, cti_bytes(comm->size, sizeof *comm->lost));
    cti_object_end(&comm->object, "");
}

void cti_comm_break(ct_comm *comm, const char *fault) {
    if (fault)
        snprintf(comm->fault, sizeof comm->fault, "%.*s", (int)sizeof comm->fault - 1, fault);
    close_engine(comm);
}

/* ---- transfers ---- */

void cti_comm_lose(ct_comm *comm, int peer, const char *says) {
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
    cti_comm_lose(comm, peer, says);
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

bool cti_comm_poll(ct_comm *comm) {
    bool ended = false;
    cti_transfer *t = comm->pending;
    while (t) {
        if (t->transfer.tag == CTI_ROLL_TAG && !comm->listens) {
            t = t->next;
            continue;
        }
        const ct_transfer_state state = comm->engine->test(comm, &t->transfer);
        cti_transfer *next = t->next;
        if (state == CT_TRANSFER_PENDING) {
            t = next;
            continue;
        }
        const int peer = t->transfer.peer;
        const bool roll = t->transfer.tag == CTI_ROLL_TAG; /* one that has left says nothing */
        unlink_transfer(comm, t);
        t->done = state == CT_TRANSFER_DONE;
        if (roll && state != CT_TRANSFER_FAILED) {
            t = next;
            continue;
        }
        ended = true;
        if (state == CT_TRANSFER_LEFT) cti_comm_lose(comm, peer, "has left the run");
        if (state == CT_TRANSFER_FAILED) fail(comm, peer);
        t = state == CT_TRANSFER_DONE ? next
                                      : comm->pending; /* cti_comm_lose() may have ended `next` */
    }
    return ended;
}
