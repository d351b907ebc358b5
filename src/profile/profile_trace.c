/* Writes a profile's events as Chrome's trace-event JSON: complete events ("X"), whose nesting
 * follows from their times, and counter events ("C") of memory in use. */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include <cotangent/autograd.h>

#include "../core/profile.h"
#include "../io/file.h"
#include "../io/json.h"

/* The text of an event has at most two names, of six bytes for each character, and its shapes, of
 * 22 bytes for each number. That is less than half of the buffer. */
enum { BUFFER = 1 << 15 };
_Static_assert(12 * CTI_NAME_SIZE + 22 * (2 * CTI_PROFILE_MOST_SHAPES + 32) + 512 < BUFFER / 2,
               "an event fits");

typedef struct {
    const cti_file_new *file;
    cti_writer out;
    bool ok; /* whether every write has succeeded */
    char buffer[BUFFER];
} trace;

static void trace_flush(trace *t) {
    t->ok = t->ok && cti_file_new_write(t->file, t->buffer, t->out.used);
    t->out.used = 0;
}

CT_FORMAT(2, 3) static void trace_put(trace *t, const char *format, ...) {
    char text[128];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    cti_string_write(&t->out, text);
}

/* Writes a name between quotes. Bytes that are not UTF-8 become "?". */
static void string_put(trace *t, const char *string) {
    char text[CTI_NAME_SIZE];
    const size_t size = strlen(string);
    memcpy(text, string, size + 1);
    for (size_t bad = cti_json_utf8(text, size); bad < size; bad = cti_json_utf8(text, size))
        text[bad] = '?';
    cti_quoted_write(&t->out, cti_text_of(text));
}

/* Writes a time of `time` nanoseconds in microseconds. */
static void time_put(trace *t, const char *key, int64_t time) {
    trace_put(t, ",\"%s\":%" PRId64 ".%03d", key, time / 1000, (int)(time % 1000));
}

/* Writes shapes as "(4, 8), (16, 8) -> (4, 16)". */
static void trace_shapes(trace *t, const int64_t *at, int count) {
    for (int i = 0; i < count;) {
        const int64_t ndim = at[i++];
        if (ndim == CTI_SHAPE_ARROW) {
            trace_put(t, " -> ");
            continue;
        }
        if (i > 1 && at[i - 2] != CTI_SHAPE_ARROW) trace_put(t, ", ");
        if (ndim == CTI_SHAPE_NULL) trace_put(t, "NULL");
        else trace_put(t, "(");
        for (int64_t d = 0; d < ndim; d++) trace_put(t, d ? ", %" PRId64 : "%" PRId64, at[i++]);
        if (ndim != CTI_SHAPE_NULL) trace_put(t, ")");
    }
}

static const char *category(const cti_profile_event *e) {
    if (e->in_backward) return "backward";
    if (e->kind == CTI_SPAN_MODULE) return "module";
    return e->kind == CTI_SPAN_UPDATE ? "update" : "forward";
}

static void event_put(trace *t, const cti_profile *p, const cti_profile_event *e) {
    const char *module = p->modules.row[e->module].name;
    trace_put(t, ",\n{\"name\":");
    string_put(t, e->kind == CTI_SPAN_MODULE ? module : p->ops.row[e->op].name);
    trace_put(t, ",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":1,\"tid\":1", category(e));
    time_put(t, "ts", e->start);
    time_put(t, "dur", e->duration);
    trace_put(t, ",\"args\":{\"module\":");
    string_put(t, module);
    if (e->shapes_count) {
        trace_put(t, ",\"shapes\":\"");
        trace_shapes(t, p->shapes + e->shapes, e->shapes_count);
        trace_put(t, "\"");
    }
    trace_put(t, "}}");
}

static void memory_put(trace *t, const cti_profile_event *e) {
    trace_put(t, ",\n{\"name\":\"memory in use\",\"ph\":\"C\",\"pid\":1");
    time_put(t, "ts", e->start + e->duration);
    trace_put(t, ",\"args\":{\"bytes\":%" PRId64 "}}", e->live);
}

static void trace_all(trace *t, const ct_context *context) {
    const cti_profile *p = context->profile;
    int64_t live = -1;
    trace_put(t, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"isa\":\"%s\",\"threads\":%d,",
              ct_isa_name(context), ct_threads(context));
    trace_put(t, "\"dropped_events\":%" PRId64 "},\n\"traceEvents\":[\n", p->dropped);
    trace_put(
        t, "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"args\":{\"name\":\"cotangent\"}}");
    for (int64_t i = 0; t->ok && i < p->events_count; i++) {
        const cti_profile_event *e = &p->event[i];
        event_put(t, p, e);
        if (e->live != live) memory_put(t, e);
        live = e->live;
        if (t->out.used > BUFFER / 2) trace_flush(t);
    }
    trace_put(t, "\n]}\n");
    trace_flush(t);
}

bool ct_profile_trace(ct_context *context, const char *path) {
    if (!context) return false;
    if (!path) return ct_fail(context, CT_ERR_ARGUMENT, "profile_trace: the path is NULL");
    if (!context->profile)
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "profile_trace: %s: ct_profile_start was not called", path);
    cti_file_new file;
    trace *t = cti_take(context, sizeof *t);
    if (!t) return false;
    bool ok = cti_file_new_open(context, "profile_trace", path, &file);
    if (ok) {
        t->file = &file;
        t->out = (cti_writer){.at = t->buffer, .size = BUFFER};
        t->ok = true;
        cti_file_new_remove_dead(&file);
        trace_all(t, context);
        ok = t->ok && cti_file_new_commit(&file);
        if (!t->ok) cti_file_new_drop(&file);
    }
    cti_give(context, t, sizeof *t);
    return ok;
}
