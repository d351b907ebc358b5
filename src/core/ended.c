/* Debug mode: handles that have ended, in a queue of bounded length, which the context's count of
 * live bytes leaves out. */
#include "context.h"

enum { MOST = 1 << 16, KEPT = (sizeof(ct_tensor) + CTI_ALIGN - 1) / CTI_ALIGN * CTI_ALIGN };

static void forget_oldest(ct_context *context) {
    ct_tensor *oldest = context->ended_first;
    context->ended_first = oldest->next;
    if (!oldest->next) context->ended_last = NULL;
    context->ended--;
    context->pool.live += KEPT;
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
    context->pool.live -= KEPT;
    if (context->ended > MOST) forget_oldest(context);
}

void cti_ended_forget(ct_context *context) {
    while (context->ended) forget_oldest(context);
}
