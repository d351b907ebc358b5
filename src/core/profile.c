/* Records a profile: its spans, the rows to which they add, and the events of the trace. */
#include "profile.h"
#include "../os/os.h"

#include <string.h>

#include <cotangent/autograd.h>

int64_t cti_profile_wall(const cti_profile *profile) {
    return (profile->running ? cti_os_now() : profile->stop) - profile->start;
}

/* ---- tables ---- */

static void table_clear(cti_profile_table *table, cti_profile_row *row, uint16_t *index, int most) {
    *table = (cti_profile_table){
        .row = row, .index = index, .count = CTI_PROFILE_FIRST, .most = most + CTI_PROFILE_FIRST};
    memset(index, 0, 2 * (size_t)most * sizeof *index);
    row[CTI_PROFILE_NONE] = (cti_profile_row){.name = "-"};
    row[CTI_PROFILE_OTHERS] = (cti_profile_row){.name = "others"};
}

/* The row of this name and parent. A new row is made if there is none; if the table is full, the
 * result is the row "others". */
static int table_find(cti_profile_table *table, const char *name, int parent) {
    const uint32_t places = 2 * (uint32_t)(table->most - CTI_PROFILE_FIRST);
    uint32_t hash = 2166136261u ^ (uint32_t)parent; /* FNV-1a */
    size_t length = 0;
    for (; name[length] && length < CTI_NAME_SIZE - 1; length++)
        hash = (hash ^ (unsigned char)name[length]) * 16777619u;
    uint32_t at = (hash ^ hash >> 15) % places;
    for (; table->index[at]; at = (at + 1) % places) {
        const cti_profile_row *row = &table->row[table->index[at]];
        if (row->parent == parent && !strncmp(row->name, name, CTI_NAME_SIZE - 1))
            return table->index[at];
    }
    if (table->count == table->most) return CTI_PROFILE_OTHERS;
    cti_profile_row *row = &table->row[table->count];
    *row = (cti_profile_row){.parent = parent};
    memcpy(row->name, name, length);
    table->index[at] = (uint16_t)table->count;
    return table->count++;
}

static void row_add(cti_profile_row *row, const cti_span *span, int64_t time) {
    row->time[span->in_backward] += time;
    row->flops += span->flops;
    row->bytes += span->bytes;
    row->made += span->made;
    row->kept += span->kept;
}

/* ---- spans ---- */

static void begin(cti_profile *p, cti_span *span, cti_span_kind kind, const char *name) {
    cti_span *outer = p->open;
    *span = (cti_span){.outer = outer,
                       .kind = kind,
                       .in_backward = kind == CTI_SPAN_BACKWARD || (outer && outer->in_backward),
                       .module = outer ? outer->module : CTI_PROFILE_NONE};
    if (name) span->op = table_find(&p->ops, name, 0);
    p->open = span;
    span->start = cti_os_now();
}

void cti_span_begin(ct_context *context, cti_span *span, cti_span_kind kind, const char *name) {
    if (cti_profile_is_running(context)) begin(context->profile, span, kind, name);
}

void cti_span_begin_backward(ct_context *context, cti_span *span, const char *name, uint32_t mark) {
    if (!cti_profile_is_running(context)) return;
    cti_profile *p = context->profile;
    begin(p, span, CTI_SPAN_BACKWARD, name);
    span->module = mark >> 16 == p->session ? (int)(mark & 0xFFFF) : CTI_PROFILE_NONE;
}

/* The forward of a module may enter the same module again, as ct_forward calls ct_mha_forward. Both
 * calls are one span. */
void cti_span_begin_module(ct_context *context, cti_span *span, const cti_namer *namer,
                           const char *name) {
    cti_profile *p = context->profile;
    if (p->open && p->open->namer == namer) return;
    begin(p, span, CTI_SPAN_MODULE, NULL);
    span->namer = namer;
    span->module = table_find(&p->modules, name, span->module);
}

static void record_event(ct_context *context, const cti_span *span, int64_t duration) {
    cti_profile *p = context->profile;
    if (p->events_count == CT_PROFILE_EVENTS) {
        p->dropped++;
        return;
    }
    CTI_ASSERT(p->events_count < CT_PROFILE_EVENTS && span->kind <= CTI_SPAN_MODULE);
    p->event[p->events_count++] =
        (cti_profile_event){.start = span->start - p->start,
                            .duration = duration,
                            .live = context->pool.live - (int64_t)sizeof *p,
                            .shapes = span->shapes,
                            .shapes_count = (uint16_t)span->shapes_count,
                            .op = (uint16_t)span->op,
                            .module = (uint16_t)span->module,
                            .kind = (uint8_t)span->kind,
                            .in_backward = span->in_backward};
}

void cti_span_end(ct_context *context, cti_span *span) {
    cti_profile *p = context->profile;
    if (!p || p->open != span) return;
    const int64_t duration = cti_os_now() - span->start, time = duration - span->inside;
    const bool is_module = span->kind == CTI_SPAN_MODULE;
    p->open = span->outer;
    if (p->open) p->open->inside += duration;
    if (!is_module) row_add(&p->ops.row[span->op], span, time);
    row_add(&p->modules.row[span->module], span, time);
    (is_module ? &p->modules.row[span->module] : &p->ops.row[span->op])->calls[span->in_backward]++;
    record_event(context, span, duration);
}

void cti_update_ended(ct_context *context, cti_span *span, int64_t bytes) {
    if (cti_span_open(context) == span) span->bytes = bytes;
    cti_span_end(context, span);
}

uint32_t cti_profile_mark(const ct_context *context) {
    const cti_span *span = cti_span_open(context);
    return span ? (uint32_t)context->profile->session << 16 | (uint32_t)span->module : 0;
}

void cti_profile_add_flops(ct_context *context, double flops) {
    cti_span *span = cti_span_open(context);
    if (span) span->flops += flops;
}

/* ---- shapes ---- */

static int record_shapes(int64_t *to, ct_tensor *const *tensor, int n) {
    int count = 0;
    for (int i = 0; i < n && count < CTI_PROFILE_MOST_SHAPES; i++) {
        const ct_tensor *t = tensor[i];
        to[count++] = t ? t->shape.ndim : CTI_SHAPE_NULL;
        for (int d = 0; t && d < t->shape.ndim; d++) to[count++] = t->shape.dim[d];
    }
    return count;
}

void cti_span_shapes(ct_context *context, cti_span *span, ct_tensor *const *in, int n,
                     ct_tensor *const *out, int n_out) {
    enum { ROOM = 2 * (CTI_PROFILE_MOST_SHAPES + CT_MAX_DIMS) + 1 };
    cti_profile *p = context->profile;
    if (p->events_count == CT_PROFILE_EVENTS || p->shapes_count > CTI_PROFILE_SHAPES - ROOM) return;
    int64_t *to = p->shapes + p->shapes_count;
    int count = record_shapes(to, in, n);
    to[count++] = CTI_SHAPE_ARROW;
    count += record_shapes(to + count, out, n_out);
    CTI_ASSERT(count <= ROOM);
    span->shapes = (uint32_t)p->shapes_count;
    span->shapes_count = (uint32_t)count;
    p->shapes_count += count;
}

/* ---- start and stop ---- */

/* Whether a forward or a backward is running. It may have begun without a span. */
static bool is_inside_region(const ct_context *context) {
    for (const cti_frame *frame = context->frame; frame != &context->root; frame = frame->outer)
        if (!frame->pooled) return true;
    return false;
}

bool ct_profile_start(ct_context *context) {
    if (!cti_ready(context)) return false;
    if (is_inside_region(context))
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "profile_start: called inside a forward or a backward");
    cti_profile *p = context->profile;
    if (!p) p = cti_take(context, sizeof *p);
    if (!p) return false;
    const uint16_t session = context->profile ? (uint16_t)(p->session + 1) : 1;
    context->profile = p;
    table_clear(&p->ops, p->op_row, p->op_index, CT_PROFILE_OPS);
    table_clear(&p->modules, p->module_row, p->module_index, CT_PROFILE_MODULES);
    p->session = session ? session : 1;
    p->events_count = p->dropped = p->shapes_count = 0;
    p->open = NULL;
    p->end_span = cti_span_end;
    p->running = context->observed = true;
    p->start = cti_os_now();
    return true;
}

bool ct_profile_stop(ct_context *context) {
    if (!context) return false;
    cti_profile *p = context->profile;
    if (!cti_profile_is_running(context))
        return ct_fail(context, CT_ERR_ARGUMENT, "profile_stop: no profile runs");
    while (p->open) cti_span_end(context, p->open);
    p->stop = cti_os_now();
    p->running = false;
    context->observed = context->debug;
    return true;
}
