/* An arena: a list of blocks, of which the newest small one is cut from its front. */
#include "arena.h"

#include <stdlib.h>
#include <string.h>

#include "../../src/core/memory.h"

enum {
    ARENA_ALIGN = 16,
    ARENA_BLOCK = 1 << 16,        /* bytes of a block from which parts are cut */
    ARENA_LARGE = ARENA_BLOCK / 4 /* a request of at least so many bytes gets a block of its own */
};

struct cti_arena_block {
    cti_arena_block *next;
    size_t bytes; /* the size of the block with this header */
};
enum { ARENA_HEADER = 16 };
_Static_assert(sizeof(cti_arena_block) <= ARENA_HEADER, "the header fits");
_Static_assert(ARENA_HEADER % ARENA_ALIGN == 0, "the first part is aligned");

/* A new block with room for `bytes`; returns the room, or NULL after an error. */
static char *new_block(cti_arena *arena, size_t bytes) {
    size_t whole;
    if (__builtin_add_overflow(bytes, (size_t)ARENA_HEADER, &whole)) whole = SIZE_MAX;
    cti_arena_block *block = arena->context ? cti_take_any(arena->context, whole) : malloc(whole);
    if (!block) return NULL;
    *block = (cti_arena_block){.next = arena->blocks, .bytes = whole};
    arena->blocks = block;
    return (char *)block + ARENA_HEADER;
}

void *cti_arena_take(cti_arena *arena, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX - ARENA_ALIGN)
        bytes = SIZE_MAX - ARENA_ALIGN;
    bytes = (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    if (bytes >= ARENA_LARGE) return new_block(arena, bytes);
    if (!arena->next || bytes > (size_t)(arena->end - arena->next)) {
        char *room = new_block(arena, ARENA_BLOCK - ARENA_HEADER);
        if (!room) return NULL;
        arena->next = room;
        arena->end = room + ARENA_BLOCK - ARENA_HEADER;
    }
    void *part = arena->next;
    arena->next += bytes;
    return part;
}

cti_text cti_arena_copy(cti_arena *arena, cti_text text) {
    char *copy = cti_arena_take(arena, text.size + 1, 1);
    if (!copy) return (cti_text){0};
    if (text.size) memcpy(copy, text.at, text.size);
    copy[text.size] = 0;
    return (cti_text){copy, text.size};
}

void cti_arena_free(cti_arena *arena) {
    while (arena->blocks) {
        cti_arena_block *block = arena->blocks;
        arena->blocks = block->next;
        if (arena->context) cti_give_any(arena->context, block, block->bytes);
        else free(block);
    }
    arena->next = arena->end = NULL;
}
