/* A JSON text as the readers of the text floor see it. */
#ifndef TEXT_READING_H
#define TEXT_READING_H

#include <cotangent/cotangent.h>

#include "ext/text/reading.h"
#include "tests/support/suite.h"

typedef struct {
    ct_context *context;
    cti_arena arena;
    cti_json_tree tree;
    char text[8192];
    cti_reading reading; /* its pointers lead into this struct */
} text_reading;

/* Reads a JSON text, which is valid and shorter than the array. */
static inline void begin_reading(text_reading *r, const char *json) {
    const size_t size = strlen(json);
    ck_assert_uint_lt(size, sizeof r->text);
    *r = (text_reading){.context = ct_context_new((ct_context_opts){.threads = 1})};
    r->arena.context = r->context;
    memcpy(r->text, json, size + 1);
    ck_assert(cti_json_tree_read(r->context, "test", "t.json", r->text, size, &r->tree));
    r->reading = (cti_reading){
        .context = r->context, .arena = &r->arena, .path = "t.json", .tree = &r->tree};
}

static inline void end_reading(text_reading *r) {
    cti_arena_free(&r->arena);
    cti_json_tree_free(&r->tree);
    ct_context_free(r->context);
}

#endif
