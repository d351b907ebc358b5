/* Memory of one context. Everything the library allocates comes from here; a block that is given
 * back is kept in the free list of its size class. */
#ifndef CTI_CORE_MEMORY_H
#define CTI_CORE_MEMORY_H

#include <cotangent/context.h>

enum { CTI_ALIGN = 64 }; /* bytes; every block is aligned to a cache line */

/* The largest request, in bytes: with a header and rounded up to its class it does not overflow. */
#define CTI_MOST_BYTES ((size_t)PTRDIFF_MAX / 4)

/* Size classes: up to 4,096 bytes linear, one for each multiple of 64 bytes; above geometric, eight
 * to a doubling. */
enum {
    CTI_LINEAR_MAX = 4096,
    CTI_LINEAR_CLASSES = CTI_LINEAR_MAX / CTI_ALIGN,
    CTI_SIZE_CLASSES = 8 * 64
};
/* Is 1 <= size <= CTI_LINEAR_MAX? For 0 the subtraction wraps around. */
static inline bool cti_is_linear(size_t size) { return size - 1 < CTI_LINEAR_MAX; }
/* The class of such a size; *bytes is the size of the class's blocks. */
static inline int cti_linear_class(size_t size, size_t *bytes) {
    const size_t class = (size - 1) / CTI_ALIGN;
    *bytes = (class + 1) * CTI_ALIGN;
    return (int)class;
}

typedef struct cti_block cti_block;
typedef struct cti_free_block {
    struct cti_free_block *next;
} cti_free_block;

/* The slab that new blocks are cut from, in order of address. */
typedef struct {
    cti_block *block; /* NULL: none yet */
    char *next, *end; /* the rest of it */
} cti_slab;

typedef struct {
    ct_allocator allocator;
    /* In bytes: what may be held (0: no limit); held from the allocator; in use; most in use. */
    int64_t limit, held, live, peak;
    int64_t lasting; /* the part of held that is in lasting blocks */
    int64_t calls;   /* of the allocator */
    /* neither poison nor guard bytes: linear classes are taken and given back inline */
    bool plain;
    bool poison;       /* debug mode: memory that is free or new is all ones, NaN or -1 */
    cti_block *blocks; /* every block from the allocator */
    cti_free_block *free[CTI_SIZE_CLASSES];
    size_t slab_max; /* bytes; larger blocks come from the allocator one by one */
    cti_slab small, medium;
} cti_pool;

/* If the allocator's functions are NULL: malloc and free. */
void cti_pool_init(cti_pool *pool, ct_allocator allocator, int64_t limit, bool poison);
void cti_pool_free(cti_pool *pool);

void *cti_take_zeroed(ct_context *context, size_t size);
/* A block that lasts as long as the context, for the slots of handles. NULL, with no error
 * recorded: there is no memory. */
void *cti_take_lasting(ct_context *context, size_t size);
/* The general case of cti_take and cti_give (context.h). */
void *cti_take_any(ct_context *context, size_t size);
void cti_give_any(ct_context *context, void *block, size_t size);

/* count * size, or SIZE_MAX where that overflows, which cti_take refuses. Sizes of memory are
 * multiplied only here. */
size_t cti_bytes(int64_t count, size_t size);

/* A copy, to be given back with strlen + 1. */
char *cti_take_string(ct_context *context, const char *string);

#endif
