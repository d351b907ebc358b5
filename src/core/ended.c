/* Debug mode: a queue of the last handles that ended, so that their use is an error that names
 * them. ct_memory does not count them as live. */
#include "context.h"

enum {
    QUEUE_MAX = 1 << 16,
    HANDLE_BYTES = (sizeof(ct_tensor) + CTI_ALIGN - 1) / CTI_ALIGN * CTI_ALIGN /* of its block */
};
_Static_assert(sizeof(ct_tensor) <= CTI_LINEAR_MAX, "HANDLE_BYTES is the size of a linear class");

static void forget_oldest(ct_context *context) {
    ct_tensor *oldest = context->ended_first;
    context->ended_first = oldest->next;
    if (!oldest->next) context->ended_last = NULL;
    context->ended--;
    context->pool.live += HANDLE_BYTES;
    cti_give(context, oldest, sizeof *oldest);
}

void cti_ended_add(ct_tensor *tensor) {
    ct_context *context = tensor->context;
    tensor->storage = NULL;
    tensor->data = NULL;
    tensor->slot = NULL;
    tensor->contiguous = false;
    tensor->parameter = CTI_ENDED;
    tensor->next = NULL;
    *(context->ended_last ? &context->ended_last->next : &context->ended_first) = tensor;
    context->ended_last = tensor;
    context->ended++;
    context->pool.live -= HANDLE_BYTES;
    if (context->ended > QUEUE_MAX) forget_oldest(context);
}

void cti_ended_forget(ct_context *context) {
    while (context->ended) forget_oldest(context);
}
