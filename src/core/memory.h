/* The pool of a context, from which all memory of the library comes except the context itself and
 * its threads. Memory is in one of these states:
 *
 *     allocator ------ large block ----------> IN USE ----- cti_give -----> FREE
 *      ^    |                                   ^  ^                        |  |
 *      |    `-- slab --> UNCUT --- cti_take ----'  `------- cti_take -------'  |
 *      |                                                                       |
 *      `-- ct_memory_trim: large blocks, and slabs without a block in use -----'
 *
 * IN USE  The block belongs to the caller of cti_take.
 * FREE    The block is on the free list of its size class, and its first bytes are the list's link.
 * UNCUT   The memory is the rest of pool->small or pool->medium, from which blocks are cut.
 *
 * Invariants:
 *
 * 1. The size class of a small or medium block follows from the size with which it was taken. The
 *    caller gives it back with the same size, so it has no header. The class of a large block
 *    follows from its header, because the best fit for a request may be a larger block.
 * 2. Every block begins at a multiple of 64 bytes.
 * 3. Every byte behind a slab's header is in a block in use, in a free block, in the uncut rest, or
 *    counted in the slab's `waste`.
 * 4. Every slab, large block and lasting block has a header and is on pool->blocks once. `held` is
 *    the sum of their sizes, and it never passes the limit.
 * 5. `live` is the sum of the class sizes of the blocks in use, without the objects that have
 *    ended, and of CTI_HANDLE_BYTES for each handle that has not ended.
 * 6. A lasting block is never free: its memory returns to the allocator with the context.
 * 7. In debug mode a free block is all ones behind its link, and so is new memory. */
#ifndef CTI_CORE_MEMORY_H
#define CTI_CORE_MEMORY_H

#include <cotangent/context.h>

#include "assert.h"

enum { CTI_ALIGN = 64 }; /* the alignment of every block in bytes, which is a cache line */

/* The largest request in bytes. Rounded up to its class and with a header it does not overflow. */
#define CTI_MOST_BYTES ((size_t)PTRDIFF_MAX / 4)

/* The size classes. Up to 4,096 bytes they are linear: there is one for each multiple of 64 bytes.
 * Above they are geometric, with eight classes to a doubling. */
enum {
    CTI_LINEAR_MAX = 4096,
    CTI_LINEAR_CLASSES = CTI_LINEAR_MAX / CTI_ALIGN,
    CTI_SIZE_CLASSES = 8 * 64
};
/* Whether 1 <= size <= CTI_LINEAR_MAX. For 0 the subtraction wraps around. */
static inline bool cti_is_linear(size_t size) { return size - 1 < CTI_LINEAR_MAX; }
/* The class of such a size; *bytes is the size of the class's blocks. */
static inline int cti_linear_class(size_t size, size_t *bytes) {
    CTI_ASSERT(cti_is_linear(size));
    const size_t class = (size - 1) / CTI_ALIGN;
    *bytes = (class + 1) * CTI_ALIGN;
    return (int)class;
}

typedef struct cti_block cti_block;
typedef struct cti_free_block {
    struct cti_free_block *next;
} cti_free_block;

/* The slab that new blocks are cut from, in the order of their addresses. */
typedef struct {
    cti_block *block; /* the slab; NULL if there is none yet */
    char *next, *end; /* its uncut rest */
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
    cti_block *blocks; /* the list of all blocks from the allocator */
    cti_free_block *free[CTI_SIZE_CLASSES];
    size_t slab_max; /* the largest size in bytes that is cut from a slab */
    cti_slab small, medium;
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
char *cti_take_string(ct_context *context, const char *string);

#endif
