/* What a profile records (cotangent/profile.h). A span is a call that is running: of an op's
 * forward or backward, of an update in place, of a module's forward. It lies on the C stack of what
 * it times and points to the span around it. When it ends, its time without the spans inside is
 * added to the row of its op and to that of its module, and it becomes an event of the trace.
 *
 * All memory is one block, taken at the start. context->observed is true in debug mode and while a
 * profile runs; nothing here is called otherwise. */
#ifndef CTI_CORE_PROFILE_H
#define CTI_CORE_PROFILE_H

#include <cotangent/profile.h>

#include "context.h"

typedef enum {
    CTI_SPAN_FORWARD,
    CTI_SPAN_BACKWARD,
    CTI_SPAN_UPDATE,
    CTI_SPAN_MODULE
} cti_span_kind;

typedef struct cti_span cti_span;
struct cti_span {
    cti_span *outer;
    const cti_namer *namer; /* of a module: which; else NULL */
    cti_span_kind kind;
    bool in_backward;      /* it is a backward, or runs inside one */
    int op, module;        /* rows; op is not read of a module */
    int64_t start, inside; /* nanoseconds: when it began; of the spans inside it */
    int64_t bytes, made, kept;
    double flops;
    uint32_t shapes, shapes_count; /* in cti_profile.shapes */
};

/* A row of a table. Of the two numbers the second is of what ran in backward. */
typedef struct {
    char name[CTI_NAME_SIZE]; /* its first bytes, if it is longer */
    int parent;               /* of a module: the row of the one that called it */
    int64_t calls[2], time[2];
    int64_t bytes, made, kept;
    double flops;
} cti_profile_row;

enum { CTI_PROFILE_NONE, CTI_PROFILE_OTHERS, CTI_PROFILE_FIRST }; /* rows: "-", "others" */

/* Rows by name and parent: a hash table with open addressing, at most half full. */
typedef struct {
    cti_profile_row *row;
    uint16_t *slot; /* [2 most]: a row, or 0 */
    int count, most;
} cti_profile_table;

typedef struct {
    int64_t start, duration; /* nanoseconds; start since the profile's */
    int64_t live;            /* bytes in use at its end, without the profile's */
    uint32_t shapes;
    uint16_t shapes_count, op, module;
    uint8_t kind;
    bool in_backward;
} cti_profile_event;

/* Shapes in cti_profile.shapes: for each tensor its number of dims and its dims, or CTI_SHAPE_NULL;
 * CTI_SHAPE_ARROW between inputs and outputs. */
enum { CTI_SHAPE_NULL = -1, CTI_SHAPE_ARROW = -2 };
enum { CTI_PROFILE_SHAPES = 8 * CT_PROFILE_EVENTS, CTI_PROFILE_MOST_SHAPES = 128 };

struct cti_profile {
    bool running;
    uint16_t session; /* how often it was started: rows in nodes of another one mean nothing */
    int64_t start, stop;
    cti_span *open; /* the innermost */
    cti_profile_table ops, modules;
    int64_t events_count, dropped, shapes_count;
    cti_profile_row op_row[CT_PROFILE_OPS + CTI_PROFILE_FIRST];
    cti_profile_row module_row[CT_PROFILE_MODULES + CTI_PROFILE_FIRST];
    uint16_t op_slot[2 * CT_PROFILE_OPS], module_slot[2 * CT_PROFILE_MODULES];
    cti_profile_event event[CT_PROFILE_EVENTS];
    int64_t shapes[CTI_PROFILE_SHAPES];
};

static inline bool cti_profile_is_running(const ct_context *context) {
    return context->profile && context->profile->running;
}
/* Nanoseconds from start to stop, or until now. */
int64_t cti_profile_wall(const cti_profile *profile);

/* Begin a span; without a running profile they do nothing, and cti_span_end neither. cti_span_end
 * is harmless for a span that was not begun, or that ct_profile_stop has ended. */
void cti_span_begin(ct_context *context, cti_span *span, cti_span_kind kind, const char *name);
/* Of a node: `mark` is cti_profile_mark of when it was recorded. */
void cti_span_begin_backward(ct_context *context, cti_span *span, const char *name, uint32_t mark);
void cti_span_begin_module(ct_context *context, cti_span *span, const cti_namer *namer,
                           const char *name);
void cti_span_end(ct_context *context, cti_span *span);

/* The innermost open span; NULL: none, or no profile runs. */
static inline cti_span *cti_span_open(const ct_context *context) {
    return cti_profile_is_running(context) ? context->profile->open : NULL;
}

/* The module of the innermost span, and the session: never 0 while a profile runs. */
uint32_t cti_profile_mark(const ct_context *context);

/* Keeps shapes for the trace. NULLs are inputs that are not given. */
void cti_span_shapes(ct_context *context, cti_span *span, ct_tensor *const *in, int n,
                     ct_tensor *const *out, int n_out);

static inline int64_t cti_profile_bytes(const ct_tensor *t) {
    return t->numel * (int64_t)cti_dtype_size(t->dtype);
}

/* Counts multiplications and additions of products in the innermost span. */
void cti_profile_add_flops(ct_context *context, double flops);

/* Around an update in place, which reads and writes so many bytes. */
void cti_update_ended(ct_context *context, cti_span *span, int64_t bytes);
static inline void cti_update_begin(ct_context *context, cti_span *span, const char *name) {
    if (context->observed) cti_span_begin(context, span, CTI_SPAN_UPDATE, name);
}
static inline void cti_update_end(ct_context *context, cti_span *span, int64_t bytes) {
    if (context->observed) cti_update_ended(context, span, bytes);
}

#endif
