/* Memory of one context: blocks by size class, kept for reuse. Everything the library allocates comes from here. */
#ifndef CT_SRC_MEMORY_H
#define CT_SRC_MEMORY_H

#include <cotangent/context.h>

enum { CT_ALIGN = 64 };   /* bytes; every block is aligned so */

/* What a block may take at most: with a header, and rounded up to its class, it is still a size of this machine. */
#define CT_MOST_BYTES ((size_t)PTRDIFF_MAX / 4)

/* Small sizes, of 1 ... 4096 bytes, have a class for each multiple of 64 bytes. Above them are eight classes to a doubling. */
enum { CT_SMALL = 4096, CT_SMALL_CLASSES = CT_SMALL / CT_ALIGN, CT_SIZE_CLASSES = 8 * 64 };
static inline bool ct_is_small(size_t size) { return size - 1 < CT_SMALL; }   /* 0 - 1 is the largest */
static inline int ct_small_class(size_t size, size_t *bytes) {
    const size_t last = (size - 1) / CT_ALIGN;
    *bytes = (last + 1) * CT_ALIGN;
    return (int)last;
}

typedef struct ct_block ct_block;
typedef struct ct_free_block {
    struct ct_free_block *next;
} ct_free_block;
typedef struct {
    ct_block *block;                   /* the newest slab; NULL: there is none */
    char *at, *end;                    /* what is not yet carved of it */
} ct_slab;
typedef struct {
    ct_allocator allocator;
    int64_t limit, held, live, peak, calls;
    bool plain;                        /* small blocks are taken from their lists, and given back, without a further thought */
    bool poison;                       /* what is free, and what is new, is all ones: NaN, or -1 */
    ct_block *blocks;                  /* all that came from the allocator: what ct_context_free hands back */
    ct_free_block *free[CT_SIZE_CLASSES];   /* by class */
    size_t carved;                     /* bytes of a block that is carved from a slab, at most */
    ct_slab small, medium;
} ct_pool;

void ct_pool_init(ct_pool *pool, ct_allocator allocator, int64_t limit, bool poison);   /* an allocator of NULLs is malloc and free */
void ct_pool_free(ct_pool *pool);

void *ct_take_zeroed(ct_context *context, size_t size);
/* ct_take and ct_give (context.h) of any size, from any pool. */
void *ct_take_any(ct_context *context, size_t size);
void ct_give_any(ct_context *context, void *block, size_t size);

/* count * size, or SIZE_MAX where that overflows, which ct_take refuses. The one place that multiplies sizes of memory. */
size_t ct_bytes(int64_t count, size_t size);

char *ct_take_string(ct_context *context, const char *string); /* a copy; given back with strlen + 1 */

#endif
