/* The pool of a context, from which all memory of the library comes except the context itself and
 * its threads. Memory is in one of these states:
 *
 *     allocator ------ large block ----------> IN USE ----- cti_give -----> FREE
 *      ^    |                                   ^  ^                        |  |
 *      |    |-- slab --> UNCUT --- cti_take ----'  `------- cti_take -------'  |
 *      |    `-- region -----------------------------------------------------> FREE
 *      |                                                                       |
 *      `-- large blocks, and slabs and regions without a block in use ---------'
 *
 * IN USE  The block belongs to the caller of cti_take.
 * FREE    The block is on the free list of its size class, and its first bytes are the list's link;
 *         or it is a free chunk of a region (chunk.h).
 * UNCUT   The memory is the rest of pool->slab, from which small blocks are cut.
 *
 * Invariants:
 *
 * 1. The size class of a block follows from the size with which it was taken, which is the size
 *    with which the caller gives it back.
 * 2. Every block begins at a multiple of 64 bytes.
 * 3. Every byte behind a slab's header is in a block in use, in a free block, or in the uncut rest.
 * 4. Every slab, region, large block by itself and lasting block has a header and is on
 *    pool->blocks once. `held` is the sum of their sizes, and it never passes the limit.
 * 5. `live` is the sum of the class sizes of the blocks in use, without the objects that have
 *    ended, and of CTI_HANDLE_BYTES for each handle that has not ended.
 * 6. A lasting block is never free: its memory returns to the allocator with the context.
 * 7. In debug mode a free block is all ones behind its link, and so is new memory.
 * 8. The bytes that may take memory of the machine are those held without the clean bytes of free
 *    chunks. Whenever cti_take returns they are at most 1.2 times the largest `live` so far, plus 1
 *    MiB. They may be more only if the excess could not be given back at the last attempt (it is
 *    free blocks in slabs that are in use, and parts of pages) and has grown by less than a
 *    sixteenth since. So the sizes that a program takes may change as they like. If the system
 *    takes no pages back (cti_os_discard), free chunks in regions that are in use cannot be given
 *    back either. */
#ifndef CTI_CORE_MEMORY_H
#define CTI_CORE_MEMORY_H

#include <cotangent/context.h>

#include "chunk.h"

typedef struct cti_pool_block cti_pool_block;
typedef struct cti_free_block {
    struct cti_free_block *next;
} cti_free_block;

/* The slab that new blocks are cut from, in the order of their addresses. */
typedef struct {
    cti_pool_block *block; /* the slab; NULL if there is none yet */
    char *next, *end;      /* its uncut rest */
} cti_slab;

typedef struct {
    ct_allocator allocator;
    /* The numbers of bytes that may be held (0: no limit), that are held from the allocator, that
     * are in use, and that were in use at most since ct_memory_reset_peak. */
    int64_t limit, held, live, peak;
    int64_t lasting; /* the bytes of `held` that are in lasting blocks */
    int64_t calls;   /* the number of calls of allocator.alloc */
    /* Whether blocks of linear classes are taken and given back inline: free memory is neither
     * filled with ones nor poisoned for a sanitizer. */
    bool plain;
    bool poison; /* debug mode: free memory and new memory are all ones, which reads as NaN or -1 */
    cti_pool_block *blocks; /* the list of all blocks from the allocator */
    cti_free_block *free[CTI_SIZE_CLASSES];
    cti_slab slab;
    bool in_regions; /* whether large blocks are chunks of regions */
    cti_chunks chunks;
    int64_t most;      /* the largest `live` since the start; `peak` may be ahead of it */
    int64_t tolerated; /* so many bytes may be written though they pass the bound */
} cti_pool;

/* Makes an empty pool. If one of the allocator's functions is NULL it uses malloc and free. */
void cti_pool_init(cti_pool *pool, ct_allocator allocator, int64_t limit, bool poison);
void cti_pool_free(cti_pool *pool);

void *cti_take_zeroed(ct_context *context, size_t size);
/* Takes a block that lasts as long as the context. Entries of handles lie in such blocks. Returns
 * NULL without an error if memory is short. */
void *cti_take_lasting(ct_context *context, size_t size);
/* These are the general cases of cti_take and cti_give (context.h). */
void *cti_take_any(ct_context *context, size_t size);
void cti_give_any(ct_context *context, void *block, size_t size);

/* count * size, or SIZE_MAX if the product overflows; cti_take refuses SIZE_MAX. No other function
 * multiplies sizes of memory. */
static inline size_t cti_bytes(int64_t count, size_t size) {
    size_t bytes;
    return __builtin_mul_overflow((uint64_t)count, size, &bytes) ? SIZE_MAX : bytes;
}

/* A copy of the string, which is given back with the size strlen + 1. */
char *cti_string_take(ct_context *context, const char *string);

#endif
