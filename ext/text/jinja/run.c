/* A run: its first error, its memory, and the bounds of what a template may do. */
#include "value.h"

#include <stdarg.h>

cti_jinja_value cti_jinja_fail(cti_jinja_run *run, const char *format, ...) {
    if (!run->failed) {
        va_list args;
        va_start(args, format);
        cti_message(run->error, sizeof run->error, format, args);
        va_end(args);
        run->failed = true;
    }
    return (cti_jinja_value){.kind = CTI_JINJA_UNDEFINED};
}

void *cti_jinja_take(cti_jinja_run *run, size_t count, size_t size) {
    if (run->failed) return NULL;
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > CTI_JINJA_MEMORY - run->taken) {
        cti_jinja_fail(run, "the values take more than %d bytes", CTI_JINJA_MEMORY);
        return NULL;
    }
    void *part = cti_arena_take(&run->arena, count, size);
    if (part) {
        run->taken += bytes;
        return part;
    }
    run->no_memory = true;
    cti_jinja_fail(run, "out of memory");
    return NULL;
}

bool cti_jinja_step(cti_jinja_run *run) {
    if (run->failed) return false;
    if (++run->steps <= CTI_JINJA_STEPS) return true;
    cti_jinja_fail(run, "the template takes more than %d steps", CTI_JINJA_STEPS);
    return false;
}

bool cti_jinja_read(cti_jinja_run *run, cti_jinja_value value) {
    if (value.kind != CTI_JINJA_STRING || value.string->size < CTI_JINJA_STEP_BYTES)
        return !run->failed;
    run->steps += (int64_t)(value.string->size / CTI_JINJA_STEP_BYTES);
    return cti_jinja_step(run);
}

bool cti_jinja_enter(cti_jinja_run *run) {
    if (run->failed) return false;
    if (run->depth >= CTI_JINJA_DEPTH) {
        cti_jinja_fail(run, "calls and values are nested more than %d deep", CTI_JINJA_DEPTH);
        return false;
    }
    run->depth++;
    return true;
}

void cti_jinja_leave(cti_jinja_run *run) { run->depth--; }
