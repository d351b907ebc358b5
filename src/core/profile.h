/* The records of a profile (cotangent/profile.h). A span is a call that is running: an op's forward
 * or backward, an update in place, or a module's forward. It lies on the C stack of the call (or
 * behind the frame of ct_module_enter) and points to the span around it. When it ends it becomes an
 * event of the trace, and its time without the time of the spans inside is added to the row of its
 * op and to the row of its module.
 *
 *     no span --- cti_span_begin ---> open --- cti_span_end, or ct_profile_stop ---> event
 *
 * Invariants:
 *
 * 1. The open spans are a list from profile->open, the innermost, outward along `outer`.
 * 2. The time of a span without the spans inside is added to exactly one row of the modules' table
 *    and, unless the span is a module's, to exactly one row of the ops' table. So the times of the
 *    modules' table add up to the time of the outermost spans.
 * 3. cti_span_end ends only the innermost span. For any other span it does nothing. Such a span was
 *    not begun, because no profile ran, or was ended by ct_profile_stop.
 * 4. All memory is one block, which ct_profile_start takes. If a table is full, its row "others" is
 *    used; if the events are full, later ones are counted in `dropped`.
 *
 * context->observed is true in debug mode and while a profile runs. Otherwise no function of
 * profile.c is called. */
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
    const cti_namer *namer; /* the module; NULL if the span is not a module's */
    cti_span_kind kind;
    bool in_backward;      /* whether the span is a backward or runs inside one */
    int op, module;        /* the rows of its op and its module; a module's span has no op */
    int64_t start, inside; /* its start, and the time of the spans inside it, in nanoseconds */
    /* the bytes that were read and written, of new outputs, and kept for backward */
    int64_t bytes, made, kept;
    double flops;
    uint32_t shapes, shapes_count; /* the range of its shapes in cti_profile.shapes */
};

/* A row of a table. calls[0] and time[0] are for forward and updates, calls[1] and time[1] for
 * backward. */
typedef struct {
    char name[CTI_NAME_SIZE]; /* the name, or the beginning of a longer name */
    int parent;               /* the row of the module that called this module */
    int64_t calls[2], time[2];
    int64_t bytes, made, kept;
    double flops;
} cti_profile_row;

/* The first rows of a table: row "-" without a name, row "others", and the first named row. */
enum { CTI_PROFILE_NONE, CTI_PROFILE_OTHERS, CTI_PROFILE_FIRST };

/* A table of rows. Its index is a hash table of name and parent with open addressing, which is at
 * most half full. */
typedef struct {
    cti_profile_row *row;
    uint16_t *index; /* [2 most] the number of a row, or 0 */
    int count, most;
} cti_profile_table;

typedef struct {
    int64_t start, duration; /* nanoseconds; start is counted from the start of the profile */
    int64_t live;            /* the bytes in use at its end, without the profile's block */
    uint32_t shapes;
    uint16_t shapes_count, op, module;
    uint8_t kind;
    bool in_backward;
} cti_profile_event;

/* cti_profile.shapes has for each tensor its number of dims and its dims, or CTI_SHAPE_NULL, and
 * CTI_SHAPE_ARROW between inputs and outputs. */
enum { CTI_SHAPE_NULL = -1, CTI_SHAPE_ARROW = -2 };
enum { CTI_PROFILE_SHAPES = 8 * CT_PROFILE_EVENTS, CTI_PROFILE_MOST_SHAPES = 128 };

struct cti_profile {
    /* cti_span_end. scope.c calls it by this pointer and calls no other function of the profile. */
    void (*end_span)(ct_context *context, cti_span *span);
    bool running;
    uint16_t session; /* the number of starts; a mark of another session is ignored */
    int64_t start, stop;
    cti_span *open; /* the innermost open span */
    cti_profile_table ops, modules;
    int64_t events_count, dropped, shapes_count;
    cti_profile_row op_row[CT_PROFILE_OPS + CTI_PROFILE_FIRST];
    cti_profile_row module_row[CT_PROFILE_MODULES + CTI_PROFILE_FIRST];
    uint16_t op_index[2 * CT_PROFILE_OPS], module_index[2 * CT_PROFILE_MODULES];
    cti_profile_event event[CT_PROFILE_EVENTS];
    int64_t shapes[CTI_PROFILE_SHAPES];
};

static inline bool cti_profile_is_running(const ct_context *context) {
    return context->profile && context->profile->running;
}
/* The nanoseconds from the start of the profile to its stop or, while it runs, until now. */
int64_t cti_profile_wall(const cti_profile *profile);

/* These functions begin and end a span. cti_span_begin and cti_span_begin_backward do nothing if no
 * profile runs; cti_span_begin_module is called only while one runs. */
void cti_span_begin(ct_context *context, cti_span *span, cti_span_kind kind, const char *name);
/* Begins the span of a node's backward. `mark` is the result of cti_profile_mark when the node was
 * recorded. */
void cti_span_begin_backward(ct_context *context, cti_span *span, const char *name, uint32_t mark);
void cti_span_begin_module(ct_context *context, cti_span *span, const cti_namer *namer,
                           const char *name);
void cti_span_end(ct_context *context, cti_span *span);

/* The innermost open span; NULL if there is none or no profile runs. */
static inline cti_span *cti_span_open(const ct_context *context) {
    return cti_profile_is_running(context) ? context->profile->open : NULL;
}

/* A number made of the session and the module of the innermost span; 0 only if none is open. */
uint32_t cti_profile_mark(const ct_context *context);

/* Keeps the shapes of a span's inputs and outputs for the trace. NULL is an input that is not
 * given. */
void cti_span_shapes(ct_context *context, cti_span *span, ct_tensor *const *in, int n,
                     ct_tensor *const *out, int n_out);

static inline int64_t cti_profile_bytes(const ct_tensor *t) {
    return cti_dtype_bytes(t->dtype, t->numel);
}

/* Adds the number of multiplications and additions of a product to the innermost span. */
void cti_profile_add_flops(ct_context *context, double flops);

/* These run around an update in place, which reads and writes `bytes` bytes. */
void cti_update_ended(ct_context *context, cti_span *span, int64_t bytes);
static inline void cti_update_begin(ct_context *context, cti_span *span, const char *name) {
    if (context->observed) cti_span_begin(context, span, CTI_SPAN_UPDATE, name);
}
static inline void cti_update_end(ct_context *context, cti_span *span, int64_t bytes) {
    if (context->observed) cti_update_ended(context, span, bytes);
}

#endif
