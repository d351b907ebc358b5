/* The pool, whose states and invariants are in memory.h. The size of a new block decides its
 * source:
 *
 *     small     to 2 KiB         a slab
 *     medium    to 1.875 MiB     a slab of huge pages
 *     large     above            the allocator (malloc, or the caller's), one by one
 *
 * A block that is given back goes to the free list of its size class, and the next request of this
 * class takes it from the list. So a loop that repeats its shapes stops calling the allocator.
 * Rounding a size up to its class wastes at most an eighth of the block, or 63 bytes.
 *
 * Medium blocks lie in huge pages because pages of 4 KiB map to L2 sets at random: some buffers of
 * a training step would share sets and evict each other (conflict misses). With a memory limit,
 * with a caller's allocator and in debug mode there are no medium slabs, and blocks of this size
 * come from the allocator one by one: a limit counts each block, a caller's allocator sees each
 * block, and debug mode would fill whole slabs with ones. */

#include "context.h"
#include "int_math.h"
#include "../os/os.h"

#include <stdlib.h>
#include <string.h>

/* The header of a block from the allocator, which is a slab, a large block or a lasting block. */
struct cti_block {
    cti_free_block link; /* the next block on pool->blocks */
    cti_block *prev;
    void *raw;    /* the allocator's address; the header is at the first aligned address in it */
    size_t total; /* the size that was requested from the allocator */
    bool slab;
    /* The next two fields are used in a slab only. */
    size_t waste;      /* the bytes that are never in a block, such as guard bytes */
    size_t free_bytes; /* waste, free blocks and the uncut rest; set by ct_memory_trim */
};

enum {
    BLOCK_HEADER = CTI_ALIGN,
    OVERHEAD = BLOCK_HEADER + CTI_ALIGN, /* the bytes for the header and for the alignment */
    HUGE_PAGE = 2 << 20,
    SMALL_MAX = 2048,                 /* the size of the largest small block in bytes */
    MEDIUM_MAX = HUGE_PAGE / 16 * 15, /* the size of the largest medium block in bytes */
};

_Static_assert(sizeof(cti_block) <= BLOCK_HEADER,
               "data begins HEADER bytes behind an aligned address");
_Static_assert(offsetof(cti_block, link) == 0, "sort_by_address sorts blocks by their links");
_Static_assert(sizeof(cti_free_block) <= CTI_ALIGN, "a free block of any class holds its link");
_Static_assert(SMALL_MAX <= (int)CTI_LINEAR_MAX, "small blocks have linear classes");
_Static_assert(SMALL_MAX % CTI_ALIGN == 0, "the largest small block fills its class");

static cti_block *next_of(const cti_block *block) { return (cti_block *)block->link.next; }
static char *data_of_block(cti_block *block) { return (char *)block + BLOCK_HEADER; }

/* The header of a large block, from the address of its data. */
static cti_block *block_of(void *data) { return (cti_block *)((char *)data - BLOCK_HEADER); }

/* The number of bytes behind the header. */
static size_t capacity(const cti_block *block) { return block->total - OVERHEAD; }

/* ---- AddressSanitizer ---- */

/* The sanitizer reports an access to poisoned memory. Poisoned are free blocks, the uncut rest of a
 * slab, and the bytes of a block beyond the requested size. A medium block may have no such bytes,
 * so guard bytes follow it. In debug mode nothing is poisoned, because free memory is all ones then
 * and may be read. */
#if defined __SANITIZE_ADDRESS__
#define ASAN 1
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define ASAN 1
#endif
#endif
#if defined ASAN
#include <sanitizer/asan_interface.h>
enum { GUARD = 8 * CTI_ALIGN };
static void asan_poison(const cti_pool *pool, void *memory, size_t size) {
    if (!pool->poison) __asan_poison_memory_region(memory, size);
}
static void asan_unpoison(void *memory, size_t size) {
    __asan_unpoison_memory_region(memory, size);
}
#else
enum { GUARD = 0 };
static void asan_poison(const cti_pool *pool, void *memory, size_t size) {
    (void)pool, (void)memory, (void)size;
}
static void asan_unpoison(void *memory, size_t size) { (void)memory, (void)size; }
#endif

_Static_assert(MEDIUM_MAX + GUARD + OVERHEAD <= HUGE_PAGE, "a huge page holds any medium block");

/* ---- size classes ---- */

/* A block of a geometric class has m << s units of 64 bytes, with m = 9 ... 16 and s >= 3, so there
 * are eight classes to a doubling. The first class has 9 << 3 = 72 units, 4,608 bytes. */
_Static_assert(CTI_LINEAR_CLASSES == 8 << 3, "the geometric classes continue the linear ones");
_Static_assert(CTI_LINEAR_MAX == 1 << 12, "log2 of the largest linear class, below, is 12");
_Static_assert(CTI_MOST_BYTES <= (uint64_t)1 << 61, "log2 of the largest request, below, is 61");
_Static_assert(CTI_LINEAR_CLASSES + 8 * (61 - 12) <= CTI_SIZE_CLASSES, "every request has a class");

static int class_of(size_t size, size_t *bytes) {
    if (size <= CTI_LINEAR_MAX) return cti_linear_class(size ? size : 1, bytes);
    const size_t last = (size - 1) / CTI_ALIGN; /* the number of units minus one */
    const int s = 63 - __builtin_clzll(last) - 3;
    const size_t m = (last >> s) + 1;
    *bytes = (m << s) * CTI_ALIGN;
    return CTI_LINEAR_CLASSES + 8 * (s - 3) + (int)m - 9;
}

/* The size of the blocks of class c, the inverse of class_of. */
static size_t class_bytes(int c) {
    CTI_ASSERT(c >= 0 && c < CTI_SIZE_CLASSES);
    const int above = c - CTI_LINEAR_CLASSES;
    const size_t units = above < 0 ? (size_t)c + 1 : (size_t)(9 + above % 8) << (3 + above / 8);
    return units * CTI_ALIGN;
}

/* The first class whose blocks come from the allocator one by one. */
static int first_large_class(const cti_pool *pool) {
    size_t bytes;
    return class_of(pool->slab_max + 1, &bytes);
}

/* ---- blocks from the allocator ---- */

static void *default_alloc(void *data, size_t size) {
    (void)data;
    return cti_os_alloc(size);
}

static void default_free(void *data, void *block, size_t size) {
    (void)data, (void)size;
    cti_os_free(block);
}

void cti_pool_init(cti_pool *pool, ct_allocator allocator, int64_t limit, bool poison) {
    const bool callers = allocator.alloc && allocator.free;
    if (!callers) allocator = (ct_allocator){.alloc = default_alloc, .free = default_free};
    *pool = (cti_pool){
        .allocator = allocator,
        .limit = limit,
        .poison = poison,
        .plain = !poison && GUARD == 0,
        .slab_max = callers || limit || poison ? SMALL_MAX : MEDIUM_MAX,
    };
}

/* Makes a block with `size` bytes behind its header. Returns NULL if memory is short or the block
 * would pass the limit. */
static cti_block *block_new(cti_pool *pool, size_t size, bool slab) {
    const size_t total = size + OVERHEAD; /* cannot overflow: see CTI_MOST_BYTES */
    if (pool->limit && (int64_t)total > pool->limit - pool->held) return NULL;
    pool->calls++;
    void *raw = pool->allocator.alloc(pool->allocator.data, total);
    if (!raw) return NULL;
    cti_block *block =
        (cti_block *)(((uintptr_t)raw + CTI_ALIGN - 1) & ~(uintptr_t)(CTI_ALIGN - 1));
    *block = (cti_block){.link = {pool->blocks ? &pool->blocks->link : NULL},
                         .raw = raw,
                         .total = total,
                         .slab = slab};
    CTI_ASSERT(data_of_block(block) + size <= (char *)raw + total);
    if (pool->poison) memset(data_of_block(block), 0xff, size);
    asan_poison(pool, data_of_block(block), size);
    if (pool->blocks) pool->blocks->prev = block;
    pool->blocks = block;
    pool->held += (int64_t)total;
    CTI_ASSERT(!pool->limit || pool->held <= pool->limit);
    return block;
}

static void block_free(cti_pool *pool, cti_block *block) {
    cti_block *next = next_of(block);
    CTI_ASSERT(block == (block->prev ? next_of(block->prev) : pool->blocks));
    CTI_ASSERT((!next || next->prev == block) && pool->held >= (int64_t)block->total);
    if (next) next->prev = block->prev;
    if (block->prev) block->prev->link.next = block->link.next;
    else pool->blocks = next;
    pool->held -= (int64_t)block->total;
    asan_unpoison(block->raw, block->total);
    pool->allocator.free(pool->allocator.data, block->raw, block->total);
}

void cti_pool_free(cti_pool *pool) {
    while (pool->blocks) block_free(pool, pool->blocks);
}

/* ---- slabs and free lists ---- */

static void push_free(cti_pool *pool, void *block, size_t bytes, int class) {
    CTI_ASSERT(class_bytes(class) == bytes);
    asan_poison(pool, block, bytes);
    asan_unpoison(block, sizeof(cti_free_block));
    cti_free_block *free = block;
    free->next = pool->free[class];
    pool->free[class] = free;
}

/* Cuts the rest of a slab into small free blocks. A rest above SMALL_MAX becomes waste, because its
 * size need not be the size of a class. */
static void retire_slab(cti_pool *pool, cti_slab *slab) {
    enum { CHUNK = 8 * CTI_ALIGN };
    size_t rest = (size_t)(slab->end - slab->next);
    CTI_ASSERT(rest % CTI_ALIGN == 0);
    if (rest > SMALL_MAX) {
        slab->block->waste += rest;
        return;
    }
    while (rest > 0) {
        const size_t bytes = rest < CHUNK ? rest : CHUNK; /* a multiple of CTI_ALIGN, like rest */
        size_t same;
        push_free(pool, slab->next, bytes, class_of(bytes, &same));
        slab->next += bytes;
        rest -= bytes;
    }
}

/* Cuts a block and its guard bytes from the slab or, if they do not fit, from a new slab of
 * `slab_size` bytes. If there is no memory for the new slab, a medium block gets a slab of exactly
 * its size, and small blocks get a slab of 4 KiB. */
static void *cut_from_slab(cti_pool *pool, cti_slab *slab, size_t bytes, size_t guard,
                           size_t slab_size) {
    bytes += guard;
    if ((size_t)(slab->end - slab->next) < bytes) {
        cti_block *block = block_new(pool, slab_size, true);
        if (!block && bytes > SMALL_MAX) {
            block = block_new(pool, bytes, true);
            if (!block) return NULL;
            block->waste = guard;
            return data_of_block(block);
        }
        if (!block) {
            slab_size = 2 * SMALL_MAX;
            block = block_new(pool, slab_size, true);
        }
        if (!block) return NULL;
        if (slab->block) retire_slab(pool, slab);
        slab->block = block;
        slab->next = data_of_block(block);
        slab->end = slab->next + slab_size;
    }
    void *data = slab->next;
    CTI_ASSERT((uintptr_t)data % CTI_ALIGN == 0 && bytes <= (size_t)(slab->end - slab->next));
    slab->next += bytes;
    slab->block->waste += guard;
    return data;
}

/* Takes a block that no free list has. A new slab has 64 KiB to 16 MiB, and its size grows with the
 * pool, so a large pool has few slabs and a small pool has little unused memory. A slab for small
 * blocks has an eighth of the pool's size. A slab for medium blocks has the pool's size, because
 * pages that are never written take no memory; with its header it is a multiple of 64 KiB, or of a
 * huge page. */
static void *take_new(cti_pool *pool, size_t bytes) {
    enum { SLAB_MIN = 64 << 10, SLAB_MAX = 16 << 20 };
    if (bytes <= SMALL_MAX) {
        const int64_t size = cti_min(cti_max(pool->held / 8, SLAB_MIN), SLAB_MAX);
        return cut_from_slab(pool, &pool->small, bytes, 0, (size_t)(size / CTI_ALIGN * CTI_ALIGN));
    }
    if (bytes <= pool->slab_max) {
        const int64_t least = (int64_t)bytes + GUARD,
                      size = cti_min(cti_max(pool->held, least), SLAB_MAX) + OVERHEAD,
                      total = cti_round_up(size, size < HUGE_PAGE ? SLAB_MIN : HUGE_PAGE);
        return cut_from_slab(pool, &pool->medium, bytes, GUARD, (size_t)total - OVERHEAD);
    }
    cti_block *block = block_new(pool, bytes, false);
    return block ? data_of_block(block) : NULL;
}

/* The best fit for a large block: the class itself, or the next class that has a free block, up to
 * 4 classes above (1.5 times the size). So gradients reuse the memory of activations of other
 * shapes. Under a limit the class itself is used, because the limit counts the whole block. */
static int best_fit_class(const cti_pool *pool, int class) {
    if (pool->limit) return class;
    const int last = (int)cti_min(class + 4, CTI_SIZE_CLASSES - 1);
    for (int larger = class; larger <= last; larger++)
        if (pool->free[larger]) return larger;
    return class;
}

void *cti_take_any(ct_context *context, size_t size) {
    cti_pool *pool = &context->pool;
    const char *op = context->op ? context->op : "memory";
    if (size > CTI_MOST_BYTES) return ct_fail(context, CT_ERR_MEMORY, "%s: a size overflows", op);
    size_t bytes;
    int class = class_of(size, &bytes);
    CTI_ASSERT(class_bytes(class) == bytes && bytes >= size);
    CTI_ASSERT(bytes - size <= CTI_ALIGN || bytes - size <= bytes / 8); /* size 0 has 64 bytes */
    if (bytes > MEDIUM_MAX) class = best_fit_class(pool, class);
    void *block = pool->free[class];
    if (block) {
        pool->free[class] = pool->free[class]->next;
    } else {
        block = take_new(pool, bytes);
        if (!block) { /* free blocks of other classes may hold enough memory */
            ct_memory_trim(context);
            block = take_new(pool, bytes);
        }
        if (!block && pool->limit)
            return ct_fail(
                context, CT_ERR_MEMORY,
                "%s: %zu bytes more would pass the memory limit of %lld bytes (%lld in use)", op,
                bytes, (long long)pool->limit, (long long)pool->live);
        if (!block)
            return ct_fail(context, CT_ERR_MEMORY, "%s: out of memory: no %zu bytes (%lld in use)",
                           op, bytes, (long long)pool->live);
    }
    /* `live` counts the class of the requested size, even if the best fit is a larger block. */
    pool->live += (int64_t)bytes;
    if (pool->live > pool->peak) pool->peak = pool->live;
    if (bytes > MEDIUM_MAX) bytes = capacity(block_of(block));
    CTI_ASSERT(bytes >= size);
    asan_unpoison(block, size);
    asan_poison(pool, (char *)block + size, bytes - size);
    return block;
}

void *cti_take_lasting(ct_context *context, size_t size) {
    cti_pool *pool = &context->pool;
    cti_block *block = block_new(pool, size, false);
    if (!block) {
        ct_memory_trim(context);
        block = block_new(pool, size, false);
    }
    if (!block) return NULL;
    pool->lasting += (int64_t)block->total;
    CTI_ASSERT(pool->lasting <= pool->held);
    asan_unpoison(data_of_block(block), size);
    return data_of_block(block);
}

void *cti_take_zeroed(ct_context *context, size_t size) {
    void *block = cti_take(context, size);
    return block ? memset(block, 0, size) : NULL;
}

void cti_give_any(ct_context *context, void *block, size_t size) {
    if (!block) return;
    cti_pool *pool = &context->pool;
    size_t bytes;
    int class = class_of(size, &bytes);
    CTI_ASSERT((uintptr_t)block % CTI_ALIGN == 0 && pool->live >= (int64_t)bytes);
    pool->live -= (int64_t)bytes;
    if (bytes > MEDIUM_MAX) class = class_of(capacity(block_of(block)), &bytes);
    asan_unpoison(block, bytes);
    if (pool->poison) memset((cti_free_block *)block + 1, 0xff, bytes - sizeof(cti_free_block));
    push_free(pool, block, bytes, class);
}

char *cti_take_string(ct_context *context, const char *string) {
    size_t size = strlen(string) + 1;
    char *copy = cti_take(context, size);
    return copy ? memcpy(copy, string, size) : NULL;
}

void ct_memory_reset_peak(ct_context *context) {
    if (context) context->pool.peak = context->pool.live;
}

/* ---- trim ---- */

/* Ends the list after its first ascending run of addresses, and returns the rest. */
static cti_free_block *split_run(cti_free_block *list) {
    while (list->next && (uintptr_t)list < (uintptr_t)list->next) list = list->next;
    cti_free_block *rest = list->next;
    list->next = NULL;
    return rest;
}

/* Merges two sorted lists, of which b may be empty, and appends them at *end. Returns the end. */
static cti_free_block **merge_blocks(cti_free_block **end, cti_free_block *a, cti_free_block *b) {
    while (a && b) {
        cti_free_block **lower = (uintptr_t)a < (uintptr_t)b ? &a : &b;
        *end = *lower;
        end = &(*lower)->next;
        *lower = *end;
    }
    *end = a ? a : b;
    while (*end) end = &(*end)->next;
    return end;
}

/* Sorts a list by natural merge sort. A list that is sorted already takes one pass. */
static cti_free_block *sort_by_address(cti_free_block *list) {
    bool sorted = !list;
    while (!sorted) {
        cti_free_block *rest = list, **end = &list;
        sorted = true;
        while (rest) {
            cti_free_block *a = rest, *b = split_run(a);
            rest = b ? split_run(b) : NULL;
            if (rest) sorted = false;
            end = merge_blocks(end, a, b);
        }
    }
    return list;
}

/* The slab that holds the free block. The search begins at `slab` and goes to higher addresses.
 * Both lists are sorted, so all free blocks of a list together take one pass over the slabs. */
static cti_block *slab_holding(cti_block *slab, const cti_free_block *free) {
    while ((const char *)free >= (const char *)slab->raw + slab->total) slab = next_of(slab);
    CTI_ASSERT(slab->slab && (const char *)free >= (const char *)slab + BLOCK_HEADER);
    return slab;
}

static bool is_free_slab(const cti_block *block) {
    CTI_ASSERT(!block->slab || block->free_bytes <= capacity(block));
    return block->slab && block->free_bytes == capacity(block);
}

static void free_large_blocks(cti_pool *pool) {
    for (int c = first_large_class(pool); c < CTI_SIZE_CLASSES; c++) {
        while (pool->free[c]) {
            cti_free_block *free = pool->free[c];
            pool->free[c] = free->next;
            block_free(pool, block_of(free));
        }
    }
}

static void sort_blocks(cti_pool *pool) {
    if (!pool->blocks) return;
    pool->blocks = (cti_block *)sort_by_address(&pool->blocks->link);
    cti_block *prev = NULL;
    for (cti_block *block = pool->blocks; block; block = next_of(block)) {
        block->prev = prev;
        prev = block;
    }
}

/* Sets free_bytes of each slab, and sorts the free lists of small and medium blocks by address. */
static void count_free_bytes(cti_pool *pool) {
    const cti_slab *open[] = {&pool->small, &pool->medium};
    for (cti_block *block = pool->blocks; block; block = next_of(block))
        block->free_bytes = block->waste;
    for (int i = 0; i < 2; i++)
        if (open[i]->block) open[i]->block->free_bytes += (size_t)(open[i]->end - open[i]->next);
    for (int c = 0, end = first_large_class(pool); c < end; c++) {
        cti_block *slab = pool->blocks;
        pool->free[c] = sort_by_address(pool->free[c]);
        for (cti_free_block *free = pool->free[c]; free; free = free->next) {
            slab = slab_holding(slab, free);
            slab->free_bytes += class_bytes(c);
        }
    }
}

/* Removes the blocks in free slabs from the free lists, which are sorted. */
static void unlink_free_slabs(cti_pool *pool) {
    for (int c = 0, end = first_large_class(pool); c < end; c++) {
        cti_block *slab = pool->blocks;
        cti_free_block **link = &pool->free[c];
        while (*link) {
            slab = slab_holding(slab, *link);
            if (is_free_slab(slab)) *link = (*link)->next;
            else link = &(*link)->next;
        }
    }
}

/* Frees the large blocks on free lists, and the slabs that hold only free blocks. Every allocation
 * that fails calls it, so it should be fast: it takes n log n time for n free blocks. */
void ct_memory_trim(ct_context *context) {
    if (!context) return;
    cti_pool *pool = &context->pool;
    free_large_blocks(pool);
    sort_blocks(pool);
    count_free_bytes(pool);
    unlink_free_slabs(pool);
    cti_slab *open[] = {&pool->small, &pool->medium};
    for (int i = 0; i < 2; i++)
        if (open[i]->block && is_free_slab(open[i]->block)) *open[i] = (cti_slab){0};
    for (cti_block *next, *block = pool->blocks; block; block = next) {
        next = next_of(block);
        if (is_free_slab(block)) block_free(pool, block);
    }
}
