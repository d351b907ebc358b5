/* Memory that is given back all at once, such as a tokenizer's when it is closed: blocks of the
 * context, of which parts are handed out in order. Without a context the blocks are malloc's, so
 * that a thread that may not use the context can have an arena too. */
#ifndef CTI_TEXT_ARENA_H
#define CTI_TEXT_ARENA_H

#include <cotangent/types.h>

#include "../../src/io/json.h"

typedef struct cti_arena_block cti_arena_block;
typedef struct {
    ct_context *context; /* NULL: malloc */
    cti_arena_block *blocks;
    char *next, *end; /* the rest of the newest block */
} cti_arena;

/* Takes count * size bytes, aligned to 16 and not initialised. Returns NULL after an error of the
 * context; without a context that is all that tells of the error. */
void *cti_arena_take(cti_arena *arena, size_t count, size_t size);
/* A copy of a text, with a NUL behind it; .at is NULL after an error. */
cti_text cti_arena_copy(cti_arena *arena, cti_text text);
void cti_arena_free(cti_arena *arena);

#endif
