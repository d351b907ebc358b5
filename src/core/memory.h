/* Memory of one context: blocks by size class, kept for reuse. Everything the library allocates
 * comes from here. */
#ifndef CTI_CORE_MEMORY_H
#define CTI_CORE_MEMORY_H

#include <cotangent/context.h>

enum { CTI_ALIGN = 64 }; /* bytes; every block is aligned so */

/* What a block may take at most: with a header, and rounded up to its class, it is still a size of
 * this machine. */
#define CTI_MOST_BYTES ((size_t)PTRDIFF_MAX / 4)

/* Small sizes, of 1 ... 4096 bytes, have a class for each multiple of 64 bytes. Above them are
 * eight classes to a doubling. */
enum { CTI_SMALL = 4096, CTI_SMALL_CLASSES = CTI_SMALL / CTI_ALIGN, CTI_SIZE_CLASSES = 8 * 64 };
/* 0 - 1 is the largest */
static inline bool cti_is_small(size_t size) { return size - 1 < CTI_SMALL; }
static inline int cti_small_class(size_t size, size_t *bytes) {
    const size_t last = (size - 1) / CTI_ALIGN;
    *bytes = (last + 1) * CTI_ALIGN;
    return (int)last;
}

typedef struct cti_block cti_block;
typedef struct cti_free_block {
    struct cti_free_block *next;
} cti_free_block;
typedef struct {
    cti_block *block; /* the newest slab; NULL: there is none */
    char *at, *end;   /* what is not yet carved of it */
} cti_slab;
typedef struct {
    ct_allocator allocator;
    int64_t limit, held, live, peak, calls;
    /* small blocks are taken from their lists, and given back, without a further thought */
    bool plain;
    bool poison; /* what is free, and what is new, is all ones: NaN, or -1 */
    /* all that came from the allocator: what ct_context_free hands back */
    cti_block *blocks;
    cti_free_block *free[CTI_SIZE_CLASSES]; /* by class */
    size_t carved; /* bytes of a block that is carved from a slab, at most */
    cti_slab small, medium;
} cti_pool;

/* an allocator of NULLs is malloc and free */
void cti_pool_init(cti_pool *pool, ct_allocator allocator, int64_t limit, bool poison);
void cti_pool_free(cti_pool *pool);

void *cti_take_zeroed(ct_context *context, size_t size);
/* cti_take and cti_give (context.h) of any size, from any pool. */
void *cti_take_any(ct_context *context, size_t size);
void cti_give_any(ct_context *context, void *block, size_t size);

/* count * size, or SIZE_MAX where that overflows, which cti_take refuses. The one place that
 * multiplies sizes of memory. */
size_t cti_bytes(int64_t count, size_t size);

/* a copy; given back with strlen + 1 */
char *cti_take_string(ct_context *context, const char *string);

#endif
