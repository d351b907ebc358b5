/* The pool, whose states and invariants are in memory.h. The size of a block decides its source:
 *
 *     small     to 4 KiB    a slab
 *     large     above       a chunk of a region (chunk.h), or the allocator (malloc, or the
 *                           caller's), one by one
 *
 * A small block that is given back goes to the free list of its size class, and the next request of
 * this class takes it from the list. A chunk becomes one with the free chunks beside it. So a loop
 * that repeats its shapes stops calling the allocator, and a loop whose shapes vary needs little
 * more memory than the largest of them.
 *
 * Regions consist of huge pages because pages of 4 KiB map to L2 sets at random: some buffers of
 * a training step would share sets and evict each other (conflict misses). With a memory limit,
 * with a caller's allocator and in debug mode there are no regions, and a large block comes from
 * the allocator by itself: a limit counts each block, a caller's allocator sees each block, and
 * debug mode would fill whole regions with ones. Such a block goes to the free list of its class
 * too. */

#include "asan.h"
#include "context.h"
#include "int_math.h"
#include "../os/os.h"

#include <stdlib.h>
#include <string.h>

typedef enum { ALONE, SLAB, REGION } block_kind;

/* The header of a block from the allocator, which is a slab, a region, or a large or lasting block
 * by itself. */
struct cti_pool_block {
    cti_free_block link; /* the next block on pool->blocks */
    cti_pool_block *prev;
    void *raw;    /* the allocator's address; the header is at the first aligned address in it */
    size_t total; /* the size that was requested from the allocator */
    block_kind kind;
    size_t free_bytes; /* of a slab: its free blocks and the uncut rest; set by free_slabs */
};

/* AddressSanitizer reports accesses to free blocks, to the uncut rest of a slab, and to the bytes
 * of a block beyond the requested size, because these are poisoned. A chunk may have no bytes
 * beyond the requested size, so it ends with guard bytes. In debug mode nothing is poisoned,
 * because free memory is all ones then and may be read. */
#if defined CTI_ASAN
enum { GUARD = 8 * CTI_ALIGN };
#else
enum { GUARD = 0 };
#endif

enum {
    BLOCK_HEADER = CTI_ALIGN,
    OVERHEAD = BLOCK_HEADER + CTI_ALIGN, /* the bytes for the header and for the alignment */
    /* The size of the largest small block in bytes. Small blocks have no guard bytes. */
    SMALL_MAX = GUARD ? 2048 : CTI_LINEAR_MAX,
    SMALL_CLASSES = SMALL_MAX / CTI_ALIGN,
    /* Regions and slabs: the smallest, and the size from which a region has whole huge pages. */
    SLAB_MIN = 64 << 10,
    HUGE_PAGE = 2 << 20,
};

_Static_assert(sizeof(cti_pool_block) <= BLOCK_HEADER,
               "data begins HEADER bytes behind an aligned address");
_Static_assert(offsetof(cti_pool_block, link) == 0, "sort_by_address sorts blocks by their links");
_Static_assert(sizeof(cti_free_block) <= CTI_ALIGN, "a free block of any class holds its link");

static cti_pool_block *next_of(const cti_pool_block *block) {
    return (cti_pool_block *)block->link.next;
}
static char *data_of_block(cti_pool_block *block) { return (char *)block + BLOCK_HEADER; }

/* The header of a large block, from the address of its data. */
static cti_pool_block *block_of(void *data) {
    return (cti_pool_block *)((char *)data - BLOCK_HEADER);
}

/* The number of bytes behind the header. */
static size_t capacity(const cti_pool_block *block) { return block->total - OVERHEAD; }

static void asan_poison(const cti_pool *pool, void *memory, size_t size) {
    if (!pool->poison) cti_asan_poison(memory, size);
}

/* ---- blocks from the allocator ---- */

static void *default_alloc(void *data, size_t size) {
    (void)data;
    return cti_os_alloc(size);
}

/* The C library may keep a block that is freed. So the pages of a block that is not small go back
 * to the system first. */
static void default_free(void *data, void *block, size_t size) {
    (void)data;
    if (size >= SLAB_MIN) cti_os_discard(block, size);
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
        .in_regions = !callers && !limit && !poison,
    };
}

/* Makes a block with `size` bytes behind its header. Returns NULL if memory is short or the block
 * would pass the limit. */
static cti_pool_block *block_new(cti_pool *pool, size_t size, block_kind kind) {
    const size_t total = size + OVERHEAD; /* cannot overflow: see CTI_MOST_BYTES */
    if (pool->limit && (int64_t)total > pool->limit - pool->held) return NULL;
    pool->calls++;
    void *raw = pool->allocator.alloc(pool->allocator.data, total);
    if (!raw) return NULL;
    cti_pool_block *block =
        (cti_pool_block *)(((uintptr_t)raw + CTI_ALIGN - 1) & ~(uintptr_t)(CTI_ALIGN - 1));
    *block = (cti_pool_block){.link = {pool->blocks ? &pool->blocks->link : NULL},
                              .raw = raw,
                              .total = total,
                              .kind = kind};
    CTI_ASSERT(data_of_block(block) + size <= (char *)raw + total);
    /* a chunk of a region is filled when it is taken */
    if (pool->poison && kind != REGION) memset(data_of_block(block), 0xff, size);
    asan_poison(pool, data_of_block(block), size);
    if (pool->blocks) pool->blocks->prev = block;
    pool->blocks = block;
    pool->held += (int64_t)total;
    CTI_ASSERT(!pool->limit || pool->held <= pool->limit);
    return block;
}

static void block_free(cti_pool *pool, cti_pool_block *block) {
    cti_pool_block *next = next_of(block);
    CTI_ASSERT(block == (block->prev ? next_of(block->prev) : pool->blocks));
    CTI_ASSERT((!next || next->prev == block) && pool->held >= (int64_t)block->total);
    if (next) next->prev = block->prev;
    if (block->prev) block->prev->link.next = block->link.next;
    else pool->blocks = next;
    pool->held -= (int64_t)block->total;
    cti_asan_unpoison(block->raw, block->total);
    pool->allocator.free(pool->allocator.data, block->raw, block->total);
}

void cti_pool_free(cti_pool *pool) {
    while (pool->blocks) block_free(pool, pool->blocks);
}

/* ---- slabs and free lists ---- */

static void push_free(cti_pool *pool, void *block, size_t bytes, int class) {
    CTI_ASSERT(cti_class_bytes(class) == bytes);
    asan_poison(pool, block, bytes);
    cti_asan_unpoison(block, sizeof(cti_free_block));
    cti_free_block *free = block;
    free->next = pool->free[class];
    pool->free[class] = free;
}

/* Cuts the rest of a slab into free blocks. */
static void retire_slab(cti_pool *pool) {
    enum { CHUNK = 8 * CTI_ALIGN };
    cti_slab *slab = &pool->slab;
    size_t rest = (size_t)(slab->end - slab->next);
    CTI_ASSERT(rest % CTI_ALIGN == 0 && rest < SMALL_MAX);
    while (rest > 0) {
        const size_t bytes = rest < CHUNK ? rest : CHUNK; /* a multiple of CTI_ALIGN, like rest */
        size_t same;
        push_free(pool, slab->next, bytes, cti_size_class(bytes, &same));
        slab->next += bytes;
        rest -= bytes;
    }
}

/* Cuts a small block from the slab or, if it does not fit, from a new slab. A new slab has an
 * eighth of the pool's size, 64 KiB to 16 MiB, so a large pool has few slabs and a small pool has
 * little unused memory. If there is no memory for that, it has 4 KiB. */
static void *cut_from_slab(cti_pool *pool, size_t bytes) {
    enum { SLAB_MAX = 16 << 20 };
    cti_slab *slab = &pool->slab;
    if ((size_t)(slab->end - slab->next) < bytes) {
        int64_t size = cti_min(cti_max(pool->held / 8, SLAB_MIN), SLAB_MAX) / CTI_ALIGN * CTI_ALIGN;
        cti_pool_block *block = block_new(pool, (size_t)size, SLAB);
        if (!block) {
            size = SMALL_MAX;
            block = block_new(pool, (size_t)size, SLAB);
        }
        if (!block) return NULL;
        if (slab->block) retire_slab(pool);
        slab->block = block;
        slab->next = data_of_block(block);
        slab->end = slab->next + size;
    }
    void *data = slab->next;
    CTI_ASSERT((uintptr_t)data % CTI_ALIGN == 0 && bytes <= (size_t)(slab->end - slab->next));
    slab->next += bytes;
    return data;
}

/* Takes a chunk of a region. If no free chunk is large enough, a new region is made. It has the
 * pool's size, because pages that are never written take no memory, but at most 16 MiB or an eighth
 * of the pool, unless the chunk alone is larger. With its header it is a multiple of 64 KiB, or of
 * a huge page. If there is no memory for it, it holds the chunk alone. */
static void *take_large(cti_pool *pool, size_t bytes, int class) {
    if (GUARD) class = cti_size_class(bytes + GUARD, &bytes);
    void *chunk = cti_chunk_take(&pool->chunks, bytes, class);
    if (chunk) return chunk;
    enum { REGION_MAX = 16 << 20 };
    const int64_t least = (int64_t)bytes + CTI_CHUNK_HEADER,
                  most = cti_max(REGION_MAX, pool->held / 8),
                  size = cti_max(cti_min(pool->held, most), least) + OVERHEAD,
                  total = cti_round_up(size, size < HUGE_PAGE ? SLAB_MIN : HUGE_PAGE);
    int64_t inside = total - OVERHEAD;
    cti_pool_block *region = block_new(pool, (size_t)inside, REGION);
    if (!region) {
        inside = least;
        region = block_new(pool, (size_t)inside, REGION);
    }
    if (!region) return NULL;
    cti_region_add(&pool->chunks, data_of_block(region), (size_t)inside);
    return cti_chunk_take(&pool->chunks, bytes, class);
}

/* Takes a block that no free list has. */
static void *take_new(cti_pool *pool, size_t bytes, int class) {
    if (bytes <= SMALL_MAX) return cut_from_slab(pool, bytes);
    if (pool->in_regions) return take_large(pool, bytes, class);
    cti_pool_block *block = block_new(pool, bytes, ALONE);
    return block ? data_of_block(block) : NULL;
}

/* ---- the bound ---- */

/* The bytes of the allocator that may take memory of the machine: all but the clean ones. */
static int64_t bytes_written(const cti_pool *pool) { return pool->held - pool->chunks.clean; }

/* What may be written: a fifth more than was ever in use, and 1 MiB. */
static int64_t bytes_allowed(const cti_pool *pool) {
    return pool->most + pool->most / 5 + (1 << 20);
}

/* Keeps the bound (invariant 8) after a block was taken that no free list had. All that is free is
 * given back. If only a part were, memory of sizes that no longer occur might be kept, while memory
 * of other sizes would be given back and requested again and again. If not enough could be given
 * back, it is not tried again before a sixteenth more is written. */
static void keep_bound(ct_context *context) {
    cti_pool *pool = &context->pool;
    pool->most = cti_max(pool->most, pool->peak);
    if (bytes_written(pool) <= cti_max(bytes_allowed(pool), pool->tolerated)) return;
    ct_memory_trim(context);
    pool->tolerated = bytes_written(pool) + pool->most / 16;
}

void *cti_take_any(ct_context *context, size_t size) {
    cti_pool *pool = &context->pool;
    const char *op = context->op ? context->op : "memory";
    if (size > CTI_MOST_BYTES) return ct_fail(context, CT_ERR_MEMORY, "%s: a size overflows", op);
    size_t bytes;
    const int class = cti_size_class(size, &bytes);
    CTI_ASSERT(cti_class_bytes(class) == bytes && bytes >= size);
    CTI_ASSERT(bytes - size <= CTI_ALIGN || bytes - size <= bytes / 8); /* size 0 has 64 bytes */
    void *block = pool->free[class];
    const bool is_new = !block;
    if (block) {
        pool->free[class] = pool->free[class]->next;
    } else {
        block = take_new(pool, bytes, class);
        if (!block) { /* free blocks of other classes may hold enough memory */
            ct_memory_trim(context);
            block = take_new(pool, bytes, class);
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
    pool->live += (int64_t)bytes;
    if (pool->live > pool->peak) pool->peak = pool->live;
    if (is_new) keep_bound(context);
    cti_asan_unpoison(block, size);
    asan_poison(pool, (char *)block + size, bytes - size);
    if (pool->poison && pool->in_regions && bytes > SMALL_MAX) memset(block, 0xff, size);
    return block;
}

void *cti_take_lasting(ct_context *context, size_t size) {
    cti_pool *pool = &context->pool;
    cti_pool_block *block = block_new(pool, size, ALONE);
    if (!block) {
        ct_memory_trim(context);
        block = block_new(pool, size, ALONE);
    }
    if (!block) return NULL;
    pool->lasting += (int64_t)block->total;
    CTI_ASSERT(pool->lasting <= pool->held);
    cti_asan_unpoison(data_of_block(block), size);
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
    const int class = cti_size_class(size, &bytes);
    CTI_ASSERT((uintptr_t)block % CTI_ALIGN == 0 && pool->live >= (int64_t)bytes);
    pool->live -= (int64_t)bytes;
    if (pool->in_regions && bytes > SMALL_MAX) {
        asan_poison(pool, block, bytes);
        cti_chunk_give(&pool->chunks, block);
        return;
    }
    cti_asan_unpoison(block, bytes);
    if (pool->poison) memset((cti_free_block *)block + 1, 0xff, bytes - sizeof(cti_free_block));
    push_free(pool, block, bytes, class);
}

char *cti_string_take(ct_context *context, const char *string) {
    size_t size = strlen(string) + 1;
    char *copy = cti_take(context, size);
    return copy ? memcpy(copy, string, size) : NULL;
}

void ct_memory_reset_peak(ct_context *context) {
    if (!context) return;
    cti_pool *pool = &context->pool;
    pool->most = cti_max(pool->most, pool->peak);
    pool->peak = pool->live;
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
static cti_pool_block *slab_holding(cti_pool_block *slab, const cti_free_block *free) {
    while ((const char *)free >= (const char *)slab->raw + slab->total) slab = next_of(slab);
    CTI_ASSERT(slab->kind == SLAB && (const char *)free >= (const char *)slab + BLOCK_HEADER);
    return slab;
}

static bool is_free_slab(const cti_pool_block *block) {
    CTI_ASSERT(block->kind != SLAB || block->free_bytes <= capacity(block));
    return block->kind == SLAB && block->free_bytes == capacity(block);
}

static void free_large_blocks(cti_pool *pool) {
    for (int c = SMALL_CLASSES; c < CTI_SIZE_CLASSES; c++) {
        while (pool->free[c]) {
            cti_free_block *free = pool->free[c];
            pool->free[c] = free->next;
            block_free(pool, block_of(free));
        }
    }
}

static void free_regions(cti_pool *pool) {
    for (cti_pool_block *next, *block = pool->blocks; block; block = next) {
        next = next_of(block);
        if (block->kind != REGION || !cti_region_is_free(data_of_block(block))) continue;
        cti_region_remove(&pool->chunks, data_of_block(block));
        block_free(pool, block);
    }
}

static void sort_blocks(cti_pool *pool) {
    if (!pool->blocks) return;
    pool->blocks = (cti_pool_block *)sort_by_address(&pool->blocks->link);
    cti_pool_block *prev = NULL;
    for (cti_pool_block *block = pool->blocks; block; block = next_of(block)) {
        block->prev = prev;
        prev = block;
    }
}

/* Sets free_bytes of each slab, and sorts the free lists of small blocks by address. */
static void count_free_bytes(cti_pool *pool) {
    for (cti_pool_block *block = pool->blocks; block; block = next_of(block)) block->free_bytes = 0;
    const cti_slab *open = &pool->slab;
    if (open->block) open->block->free_bytes = (size_t)(open->end - open->next);
    for (int c = 0; c < SMALL_CLASSES; c++) {
        cti_pool_block *slab = pool->blocks;
        pool->free[c] = sort_by_address(pool->free[c]);
        for (cti_free_block *free = pool->free[c]; free; free = free->next) {
            slab = slab_holding(slab, free);
            slab->free_bytes += cti_class_bytes(c);
        }
    }
}

/* Removes the blocks in free slabs from the free lists, which are sorted. */
static void unlink_free_slabs(cti_pool *pool) {
    for (int c = 0; c < SMALL_CLASSES; c++) {
        cti_pool_block *slab = pool->blocks;
        cti_free_block **link = &pool->free[c];
        while (*link) {
            slab = slab_holding(slab, *link);
            if (is_free_slab(slab)) *link = (*link)->next;
            else link = &(*link)->next;
        }
    }
}

static void free_slabs(cti_pool *pool) {
    sort_blocks(pool);
    count_free_bytes(pool);
    unlink_free_slabs(pool);
    if (pool->slab.block && is_free_slab(pool->slab.block)) pool->slab = (cti_slab){0};
    for (cti_pool_block *next, *block = pool->blocks; block; block = next) {
        next = next_of(block);
        if (is_free_slab(block)) block_free(pool, block);
    }
}

/* Every allocation that fails calls it, so it should be fast: it takes n log n time for n small
 * free blocks. */
void ct_memory_trim(ct_context *context) {
    if (!context) return;
    cti_pool *pool = &context->pool;
    free_large_blocks(pool);
    free_regions(pool);
    cti_chunks_discard(&pool->chunks);
    free_slabs(pool);
    pool->tolerated = 0;
}
