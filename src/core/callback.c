/* Runs callbacks, and finds the callbacks that were left by an exception or longjmp. */
#include "callback.h"
#include "../os/os.h"
#include "profile.h"

#include <cotangent/autograd.h>

#include <string.h>

/* The bytes of stack between a call and the callback that it runs. */
enum { GAP = 8192 };

/* Keeps the variables of a function on the thread's stack. AddressSanitizer may put them on a
 * separate stack, to find uses after the function has returned. */
#define ON_THE_REAL_STACK __attribute__((noinline, no_sanitize("address")))

/* ---- frames ---- */

/* Whether this is the first frame, from the innermost outward, that a callback does not move: the
 * root, or the frame in which the callback around it began. Of the frames inside this one, frames
 * of the program's own scopes (`pooled`) are blocks and do not move either. */
static bool is_last(const ct_context *context, const cti_frame *frame) {
    return frame == &context->root || (context->callback && frame == context->callback->innermost);
}

static int count_frames(const ct_context *context) {
    int count = 0;
    for (const cti_frame *f = context->frame; !is_last(context, f); f = f->outer)
        count += !f->pooled;
    return count;
}

/* Points the handles of a frame to its present address. */
static void settle_frame(cti_frame *frame) {
    for (ct_tensor *t = frame->tensors; t; t = t->next) t->frame = frame;
}

static void move_frames(ct_context *context, cti_callback *record) {
    int i = 0;
    for (cti_frame **link = &context->frame; !is_last(context, *link); link = &(*link)->outer) {
        if ((*link)->pooled) continue;
        cti_moved_frame *moved = &record->moved[i++];
        *moved = (cti_moved_frame){.home = *link, .frame = **link};
        *link = &moved->frame;
        settle_frame(&moved->frame);
    }
    CTI_ASSERT(i == record->count);
}

static void move_back(ct_context *context, cti_callback *record) {
    int i = 0;
    for (cti_frame **link = &context->frame; i < record->count; link = &(*link)->outer) {
        if (*link != &record->moved[i].frame) continue;
        cti_frame *home = record->moved[i++].home;
        *home = **link;
        *link = home;
        settle_frame(home);
    }
}

cti_frame *cti_callback_frame(const ct_context *context, cti_frame *frame) {
    for (cti_callback *record = context->callback; record; record = record->outer)
        for (int i = 0; i < record->count; i++)
            if (record->moved[i].home == frame) return &record->moved[i].frame;
    return frame;
}

/* ---- state ---- */

static cti_call_state state_of(const ct_context *context) {
    return (cti_call_state){.op = context->op,
                            .backward = context->backward,
                            .running = context->running,
                            .pending = context->pending,
                            .data_copies = context->data_copies,
                            .span = context->profile ? context->profile->open : NULL,
                            .undo = context->undo,
                            .set = context->set,
                            .in_recompute = context->in_recompute,
                            .rows = context->rows,
                            .held = context->held,
                            .loans = context->loans.open,
                            .depth = context->depth};
}

/* Restores the state that the context had before the calls that were left. `inside` is the state in
 * the innermost callback's record. The depth is changed by a difference, because the call that has
 * found the callback may already be counted in it. */
static void set_state(ct_context *context, const cti_call_state *state,
                      const cti_call_state *inside) {
    if (context->backward && !state->backward) context->give_up_backward(context);
    while (context->undo != state->undo) context->undo->undo(context, context->undo);
    context->op = state->op;
    context->backward = state->backward;
    context->running = state->running;
    context->pending = state->pending;
    context->data_copies = state->data_copies;
    if (cti_profile_is_running(context)) context->profile->open = state->span;
    context->in_recompute = state->in_recompute;
    context->set = NULL; /* as in every callback: see begin_callback */
    context->rows = state->rows;
    context->held = state->held;
    context->loans.open = state->loans;
    context->depth += state->depth - inside->depth;
    if (!context->depth) atomic_store(&context->inside, 0);
    context->reporting = false;
}

/* ---- a callback ---- */

static void begin_callback(ct_context *context, cti_callback *record, const char *what,
                           const char *name) {
    snprintf(record->name, sizeof record->name, "%s", name);
    record->what = what;
    record->thread = cti_this_thread();
    move_frames(context, record);
    record->innermost = context->frame;
    record->inside = state_of(context);
    context->set = NULL; /* a file that the callback writes joins no set */
    record->outer = context->callback;
    context->callback = record;
    context->callbacks++;
}

/* Ends the innermost record. Its callback has returned or was left. */
static void end_callback(ct_context *context) {
    cti_callback *record = context->callback;
    CTI_ASSERT(record && context->callbacks > 0);
    context->callback = record->outer;
    context->callbacks--;
    CTI_ASSERT(!context->callback == !context->callbacks);
    if (record->bytes) cti_give(context, record, record->bytes);
}

/* Ends the record `left` and all records inside it, whose callbacks were left, and closes the
 * frames of the calls that ran them. */
static void leave(ct_context *context, const cti_callback *left) {
    static const cti_call_state none;
    char name[sizeof left->name];
    memcpy(name, left->name, sizeof name);
    const char *what = left->what;
    const cti_callback *outer = left->outer;
    if (left->count) cti_frame_close(context, (cti_frame *)&left->moved[left->count - 1].frame);
    set_state(context, outer ? &outer->inside : &none, &context->callback->inside);
    while (context->callback != outer) end_callback(context);
    ct_fail(context, CT_ERR_ARGUMENT,
            "%s: its %s was left by an exception or by longjmp; a callback must return", name,
            what);
}

/* Calls call(arg) below the gap. The writes keep the gap on the stack until call has returned. */
ON_THE_REAL_STACK static void run_below(cti_callback *record, void (*call)(void *), void *arg) {
    volatile char gap[GAP];
    gap[0] = 0;
    record->stack = (uintptr_t)gap;
    call(arg);
    gap[0] = 1;
    record->stack = UINTPTR_MAX; /* the callback has returned, and no call is above this mark */
}

static void run_callback(ct_context *context, cti_callback *record, const char *what,
                         const char *name, void (*call)(void *), void *arg) {
    begin_callback(context, record, what, name);
    run_below(record, call, arg);
    if (context->callback != record) {
        const cti_callback *left = context->callback;
        while (left->outer != record) left = left->outer;
        leave(context, left);
    }
    CTI_ASSERT(context->callback == record);
    move_back(context, record);
    context->set = record->inside.set;
    end_callback(context);
}

bool cti_callback_run(ct_context *context, const char *what, const char *name, void (*call)(void *),
                      void *arg) {
    const int count = count_frames(context);
    const size_t bytes = sizeof(cti_callback) + (size_t)count * sizeof(cti_moved_frame);
    cti_callback *record = cti_take(context, bytes);
    if (!record) return false;
    *record = (cti_callback){
        .bytes = bytes, .count = count, .moved = (cti_moved_frame *)(void *)(record + 1)};
    run_callback(context, record, what, name, call, arg);
    return true;
}

/* Runs a callback with the given record and room for `most` moved frames, which are reserved memory
 * and not blocks from cti_take. */
static void run_reserved(ct_context *context, cti_callback *record, cti_moved_frame *moved,
                         int most, const char *what, const char *name, void (*call)(void *),
                         void *arg) {
    const int count = count_frames(context);
    if (count > most) {
        call(arg);
        return;
    }
    *record = (cti_callback){.count = count, .moved = moved};
    run_callback(context, record, what, name, call, arg);
}

void cti_callback_run_in(cti_callback_reserve *reserve, ct_context *context, const char *what,
                         const char *name, void (*call)(void *), void *arg) {
    run_reserved(context, &reserve->record, reserve->moved, CTI_RESERVED_FRAMES, what, name, call,
                 arg);
}

void cti_callback_report(ct_context *context, void (*call)(void *), void *arg) {
    run_reserved(context, &context->report, context->report_moved, CTI_REPORT_FRAMES, "on_error",
                 "context", call, arg);
}

/* ---- callbacks that were left ---- */

static bool was_left(const cti_callback *record, uintptr_t here) {
    return record->thread == cti_this_thread() && here > record->stack &&
           cti_os_on_stack(here, record->stack);
}

ON_THE_REAL_STACK void cti_callback_check(ct_context *context) {
    const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    const cti_callback *left = NULL, *record = context->callback;
    for (; record && was_left(record, here); record = record->outer) left = record;
    if (left) leave(context, left);
}

bool cti_ready_in_callback(const ct_context *context) {
    if (context->callbacks) cti_callback_check((ct_context *)(uintptr_t)context);
    return context->status == CT_OK;
}
