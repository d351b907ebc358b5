/* The pending error of a context. Its states and invariants are in context.h. */
#include "context.h"
#include "message.h"

#include <cotangent/autograd.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Begins the message with the name of the module whose forward is running: "layers.2.linear1: ".
 * Returns its length. */
static size_t write_module(ct_context *context) {
    const cti_namer *module = context->frame ? context->frame->module : NULL;
    char buffer[CTI_NAME_SIZE];
    const char *name = module ? module->name(module, buffer) : "";
    return *name ? (size_t)snprintf(context->message, CTI_NAME_SIZE + 2, "%s: ", name) : 0;
}

static void record_error(ct_context *context, ct_status status, const char *format, va_list args) {
    if (!cti_ready(context) || status == CT_OK) return;
    context->status = status;
    const size_t used = write_module(context);
    cti_message(context->message + used, sizeof context->message - used, format, args);
    cti_error_report(context);
}

void *ct_fail(ct_context *context, ct_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    record_error(context, status, format, args);
    va_end(args);
    return NULL;
}

void *cti_fail_in_both(ct_context *a, ct_context *b, ct_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    record_error(a, status, format, args);
    va_end(args);
    va_start(args, format);
    record_error(b, status, format, args);
    va_end(args);
    return NULL;
}

/* Debug mode prints the error, except if on_error is ct_error_die, which prints the same line. */
void cti_error_report(ct_context *context) {
    if (context->held) return;
    if (context->debug && context->on_error != ct_error_die)
        fprintf(stderr, "cotangent: %s\n", context->message);
    context->unseen = !context->on_error;
    if (!context->on_error) return;
    struct cti_file_set *set = context->set;
    context->set = NULL; /* a file that on_error saves joins no set */
    context->reporting = true;
    context->on_error(context->on_error_data, context->status, context->message);
    context->reporting = false;
    context->set = set;
}

void cti_error_print_unseen(const ct_context *context) {
    if (context->status && context->unseen)
        fprintf(stderr, "cotangent: error never looked at: %s\n", context->message);
}

/* Records that the caller has looked at the error. The functions that call this take a constant
 * context, and this is the only field that they change. */
static void mark_seen(const ct_context *context) {
    ((ct_context *)(uintptr_t)context)->unseen = false;
}

ct_status ct_error(const ct_context *context) {
    if (!context) return CT_ERR_MEMORY;
    if (context->status) mark_seen(context);
    return context->status;
}

const char *ct_error_message(const ct_context *context) {
    if (!context) return "no context: out of memory";
    if (!context->status) return "";
    mark_seen(context);
    return context->message;
}

const char *cti_pending_error(const ct_context *context, ct_status *status) {
    *status = context->status;
    return context->status ? context->message : "";
}

void ct_error_clear(ct_context *context) {
    if (!context) return;
    if (!context->reporting) context->status = CT_OK;
}

void ct_error_die(void *data, ct_status status, const char *message) {
    (void)data, (void)status;
    fprintf(stderr, "cotangent: %s\n", message);
    exit(1);
}
