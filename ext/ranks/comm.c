/* Transfers of a comm, and how it is closed; comm.h has the states. */
#include "comm.h"

#include <cotangent/autograd.h>
#include <cotangent/tensor.h>

#include "../../src/core/assert.h"
#include "../../src/core/busy.h"
#include "../../src/core/dtype.h"
#include "../../src/core/memory.h"
#include "../../src/core/message.h"
#include "../../src/io/json.h"

#include <stdio.h>
#include <string.h>

/* ---- calls of the engine ---- */

enum { MOST_NAME = 40, MOST_REASON = 120 }; /* most bytes in a fault */

/* Copies a text of the engine, which may have any length and any bytes, to a line of UTF-8. */
static void words_copy(char *out, size_t most, const char *text) {
    const size_t length = cti_text_shorten(out, most, text, strlen(text));
    for (size_t bad = cti_json_utf8(out, length); bad < length; bad = cti_json_utf8(out, length))
        out[bad] = '?';
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)out[i] < ' ' || out[i] == 0x7f) out[i] = ' ';
}

static void name_copy(const ct_comm *comm, char name[MOST_NAME + 1]) {
    words_copy(name, MOST_NAME, comm->engine->name ? comm->engine->name : "without a name");
}

/* engine_enter and engine_leave enclose every call of an engine's function. */
static void engine_enter(ct_comm *comm) {
    comm->inside = true;
    cti_lend(comm->context, "a comm's engine");
}
static void engine_leave(ct_comm *comm) {
    comm->inside = false;
    const char *refused = cti_lend_end(comm->context);
    if (refused) comm->misuse = refused;
}

bool cti_comm_is_inside(ct_comm *comm, const char *function) {
    if (!comm->inside) return false;
    char name[MOST_NAME + 1];
    name_copy(comm, name);
    comm->misuse = function;
    ct_fail(comm->context, CT_ERR_ARGUMENT, "%s: called by a function of the engine %s", function,
            name);
    return true;
}

static void engine_cancel(ct_comm *comm, ct_transfer *transfer) {
    engine_enter(comm);
    comm->engine->cancel(comm, transfer);
    engine_leave(comm);
}

/* Starts or tests a transfer. The engine may change `state` and no other field of it. A transfer
 * that fails because the engine has called the library is cancelled, if the engine has it still. */
static ct_transfer_state engine_run(ct_comm *comm, ct_transfer *transfer, bool starts) {
    const ct_comm_engine *engine = comm->engine;
    const ct_transfer given = *transfer;
    ct_transfer_state state;
    comm->misuse = NULL;
    engine_enter(comm);
    if (starts) state = engine->start(comm, transfer) ? CT_TRANSFER_PENDING : CT_TRANSFER_FAILED;
    else state = engine->test(comm, transfer);
    engine_leave(comm);
    transfer->peer = given.peer, transfer->receives = given.receives, transfer->tag = given.tag;
    if (!comm->misuse) return state;
    if (state == CT_TRANSFER_PENDING) engine_cancel(comm, transfer);
    return CT_TRANSFER_FAILED;
}

static void engine_close(ct_comm *comm, bool failed) {
    engine_enter(comm);
    comm->engine->close(comm, failed);
    engine_leave(comm);
    comm->engine = NULL;
    comm->data = NULL;
}

/* Writes the engine's reason for the last failure. */
static void engine_reason(ct_comm *comm, char words[MOST_REASON + 1]) {
    char name[MOST_NAME + 1];
    name_copy(comm, name);
    if (comm->misuse) {
        snprintf(words, MOST_REASON, "the engine %s has called %s", name, comm->misuse);
        return;
    }
    engine_enter(comm);
    const char *reason = comm->engine->reason(comm);
    engine_leave(comm);
    if (reason && *reason) words_copy(words, MOST_REASON, reason);
    else snprintf(words, MOST_REASON, "the engine %s gives no reason", name);
}

/* ---- making and closing ---- */

static void comm_close_with_context(cti_hook *self) { ct_comm_close((ct_comm *)self); }

static bool comm_check(ct_context *context, const ct_comm_engine *engine, int rank, int size) {
    if (!engine || !engine->start || !engine->test || !engine->cancel || !engine->reason ||
        !engine->close)
        return ct_fail(context, CT_ERR_ARGUMENT, "comm: the engine is NULL, or lacks a function");
    return (size >= 1 && rank >= 0 && rank < size) ||
           ct_fail(context, CT_ERR_ARGUMENT, "comm: rank %d of %d", rank, size);
}

static void comm_end(ct_comm *comm) {
    ct_context *context = comm->context;
    cti_give_any(context, comm->roll, cti_bytes(comm->size, sizeof *comm->roll));
    cti_give_any(context, comm->lost, cti_bytes(comm->size, sizeof *comm->lost));
    cti_object_end(&comm->object, "");
}

ct_comm *ct_comm_new(ct_context *context, const ct_comm_engine *engine, int rank, int size,
                     void *data) {
    ct_comm *comm = cti_object_new(context, sizeof *comm, "comm");
    if (!comm) return NULL;
    if (comm_check(context, engine, rank, size)) {
        comm->rank = rank;
        comm->size = size;
        comm->lost = cti_take_zeroed(context, cti_bytes(size, sizeof *comm->lost));
        comm->roll = comm->lost ? cti_take_any(context, cti_bytes(size, sizeof *comm->roll)) : NULL;
        for (int r = 0; comm->roll && r < size; r++) comm->roll[r] = (cti_roll){.note = {.n = -1}};
        if (comm->roll) {
            cti_object_end_with_context(&comm->object, comm_close_with_context);
            comm->engine = engine;
            comm->data = data;
            return comm;
        }
    }
    comm_end(comm);
    return NULL;
}

static bool is_open(const ct_comm *comm, const char *function) {
    return comm && cti_object_is_open(&comm->object, function);
}
int ct_comm_rank(const ct_comm *comm) { return is_open(comm, "ct_comm_rank") ? comm->rank : 0; }
int ct_comm_size(const ct_comm *comm) { return is_open(comm, "ct_comm_size") ? comm->size : 1; }
void *ct_comm_data(const ct_comm *comm) {
    return is_open(comm, "ct_comm_data") ? comm->data : NULL;
}

static void transfer_unlink(ct_comm *comm, cti_transfer *transfer) {
    CTI_ASSERT(transfer->pending);
    *(transfer->next ? &transfer->next->prev : &comm->last) = transfer->prev;
    *(transfer->prev ? &transfer->prev->next : &comm->pending) = transfer->next;
    transfer->pending = false;
}

static void transfer_cancel(ct_comm *comm, cti_transfer *transfer) {
    if (!transfer->pending) return;
    engine_cancel(comm, &transfer->transfer);
    transfer_unlink(comm, transfer);
}

static void comm_close_engine(ct_comm *comm) {
    if (!comm->engine) return;
    for (int r = 0; r < comm->size; r++) transfer_cancel(comm, &comm->roll[r].receive);
    const bool failed = comm->pending || *comm->fault;
    while (comm->pending) transfer_cancel(comm, comm->pending);
    engine_close(comm, failed);
    CTI_ASSERT(!comm->pending && !comm->last);
}

void ct_comm_close(ct_comm *comm) {
    if (!comm || comm->object.self != &comm->object || cti_comm_is_inside(comm, "ct_comm_close"))
        return;
    comm_close_engine(comm);
    comm_end(comm);
}

void cti_comm_break(ct_comm *comm, const char *fault) {
    if (fault)
        snprintf(comm->fault, sizeof comm->fault, "%.*s", (int)sizeof comm->fault - 1, fault);
    comm_close_engine(comm);
}

/* ---- transfers ---- */

void cti_comm_lose(ct_comm *comm, int peer, const char *says) {
    comm->lost[peer] = true;
    if (!*comm->fault) snprintf(comm->fault, sizeof comm->fault, "rank %d %s", peer, says);
    for (cti_transfer *t = comm->pending, *next; t; t = next) {
        next = t->next;
        if (t->transfer.peer == peer) transfer_cancel(comm, t);
    }
}

/* Handles a failure of the engine. The peer may be alive and waiting for us; continuing could
 * deadlock, so this rank leaves. `state` is the result of the engine's test. */
static void comm_fail(ct_comm *comm, int peer, ct_transfer_state state) {
    char words[MOST_REASON + 1], says[CTI_LOSS_SIZE];
    if (state == CT_TRANSFER_FAILED) {
        engine_reason(comm, words);
    } else {
        char name[MOST_NAME + 1];
        name_copy(comm, name);
        snprintf(words, sizeof words, "test of the engine %s has returned %d, no ct_transfer_state",
                 name, (int)state);
    }
    snprintf(says, sizeof says, "cannot be reached: %s", words);
    cti_comm_lose(comm, peer, says);
    cti_comm_break(comm, NULL);
}

int64_t cti_comm_start_bytes(ct_comm *comm, cti_transfer *transfer, int tag, int peer,
                             bool receives, void *data, size_t size) {
    *transfer = (cti_transfer){
        .transfer = {.peer = peer, .receives = receives, .tag = tag, .data = data, .size = size}};
    CTI_ASSERT(peer >= 0 && peer < comm->size && peer != comm->rank);
    if (!size || !comm->engine || comm->lost[peer]) return 0;
    if (engine_run(comm, &transfer->transfer, true) == CT_TRANSFER_FAILED) {
        comm_fail(comm, peer, CT_TRANSFER_FAILED);
        return 0;
    }
    transfer->pending = true;
    transfer->prev = comm->last;
    *(comm->last ? &comm->last->next : &comm->pending) = transfer;
    comm->last = transfer;
    return (int64_t)size;
}

char *cti_comm_elements(ct_tensor *tensor) {
    switch (ct_dtype_of(tensor)) {
    case CT_F32: return (char *)ct_data_f32(tensor);
    case CT_F64: return (char *)ct_data_f64(tensor);
    case CT_I64: return (char *)ct_data_i64(tensor);
    case CT_BOOL: return (char *)ct_data_bool(tensor);
    case CT_BF16: return (char *)ct_data_bf16(tensor);
    case CT_Q8_0:
    case CT_Q4_0: break;
    }
    return NULL;
}

int64_t cti_comm_start(ct_comm *comm, cti_transfer *transfer, int tag, int peer, bool receives,
                       ct_tensor *tensor, int64_t at, int64_t n) {
    const size_t size = cti_dtype_size(ct_dtype_of(tensor));
    return cti_comm_start_bytes(comm, transfer, tag, peer, receives,
                                cti_comm_elements(tensor) + (size_t)at * size, (size_t)n * size);
}

/* Unlinks a transfer that has ended with this state. Returns whether the caller should look at its
 * transfers again. For a transfer of the roll call the answer is no, because a rank that has left
 * sends no roll message. */
static bool transfer_end(ct_comm *comm, cti_transfer *transfer, ct_transfer_state state) {
    const int peer = transfer->transfer.peer;
    const bool roll = transfer->transfer.tag == CTI_ROLL_TAG;
    transfer_unlink(comm, transfer);
    transfer->done = state == CT_TRANSFER_DONE;
    switch (state) {
    case CT_TRANSFER_PENDING:
    case CT_TRANSFER_DONE: return !roll;
    case CT_TRANSFER_LEFT:
        if (!roll) cti_comm_lose(comm, peer, "has left the run");
        return !roll;
    case CT_TRANSFER_FAILED: break;
    }
    comm_fail(comm, peer, state);
    return true;
}

bool cti_comm_poll(ct_comm *comm) {
    CTI_ASSERT(comm->engine || !comm->pending);
    bool ended = false;
    cti_transfer *t = comm->pending;
    while (t) {
        if (t->transfer.tag == CTI_ROLL_TAG && !comm->listens) {
            t = t->next;
            continue;
        }
        const ct_transfer_state state = engine_run(comm, &t->transfer, false);
        cti_transfer *next = t->next;
        if (state != CT_TRANSFER_PENDING && transfer_end(comm, t, state)) {
            ended = true;
            /* other transfers with this peer may have ended too, including `next` */
            if (state != CT_TRANSFER_DONE) next = comm->pending;
        }
        t = next;
    }
    return ended;
}
