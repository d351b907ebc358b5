/* Memory by size class. A class is a multiple of 64 bytes: each of them up to 4096 bytes, then
 * eight to a doubling, so a block is at most an eighth, or 63 bytes, larger than asked for. Small
 * blocks are carved from slabs, large ones come from the allocator one by one; all are kept for
 * reuse, so a loop that repeats its shapes stops asking the allocator. A large block may stand in
 * for one of two thirds of its size; what counts as in use is the size that was asked for. Every
 * block from the allocator is on one list, and that list is all that ct_context_free has to walk.
 *
 * Blocks between the two are carved as well, from slabs of huge pages: what is to stay in a
 * second-level cache would else lie in pages that happen to share its sets. But a memory limit is
 * met to the block, an allocator that is not malloc is asked for each, and debug mode writes to all
 * it holds: there they come one by one. */
#define _DEFAULT_SOURCE /* madvise */

#include "context.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct cti_block {
    /* to the next one; first, as in a free block, so that one sort serves both */
    cti_free_block link;
    cti_block *prev;
    void *raw;    /* as the allocator gave it */
    size_t total; /* as it was asked for */
    bool slab;
    /* of a slab: bytes that are nobody's, between its blocks and at its end when a block did not
     * fit */
    size_t lost;
    size_t idle; /* scratch of ct_memory_trim: free bytes in a slab */
};

enum {
    HEADER = CTI_ALIGN,
    HUGE_PAGE = 2 << 20,
    /* bytes of a block that is carved from a small slab, at most, */
    FINE = 2048,
    MEDIUM = HUGE_PAGE / 16 * 15, /* and from one of huge pages */
};
static cti_block *next_of(const cti_block *block) { return (cti_block *)block->link.next; }

_Static_assert(sizeof(cti_block) <= HEADER, "the header stands in front of an aligned block");

/* Under AddressSanitizer memory that nobody has asked for is out of bounds: what is free, and what
 * lies behind a block's last byte; between two medium blocks there is always some. Debug mode may
 * look at it: there it is all ones. */
#if defined __SANITIZE_ADDRESS__
#define GUARDED 1
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define GUARDED 1
#endif
#endif
#if defined GUARDED
#include <sanitizer/asan_interface.h>
enum { GUARD = 8 * CTI_ALIGN };
static void forbid(const cti_pool *pool, void *memory, size_t size) {
    if (!pool->poison) __asan_poison_memory_region(memory, size);
}
static void allow(void *memory, size_t size) { __asan_unpoison_memory_region(memory, size); }
#else
enum { GUARD = 0 };
static void forbid(const cti_pool *pool, void *memory, size_t size) {
    (void)pool, (void)memory, (void)size;
}
static void allow(void *memory, size_t size) { (void)memory, (void)size; }
#endif

/* The class of a size, and the bytes of its blocks. Above the small ones, with 2^s units of 64
 * bytes a step, each doubling has the classes of 9 ... 16 steps; the first is that of 65 units, s =
 * 3 and 9 steps. */
static int class_of(size_t size, size_t *bytes) {
    if (size <= CTI_SMALL) return cti_small_class(size ? size : 1, bytes);
    size_t units = (size - 1) / CTI_ALIGN + 1;
    int shift = 63 - __builtin_clzll(units - 1) - 3;
    size_t steps = ((units - 1) >> shift) + 1;
    *bytes = (steps << shift) * CTI_ALIGN;
    return CTI_SMALL_CLASSES + 8 * (shift - 3) + (int)steps - 9;
}

static void *default_alloc(void *data, size_t size) {
    (void)data;
#if defined MADV_HUGEPAGE
    void *pages;
    if (size >= HUGE_PAGE && !posix_memalign(&pages, HUGE_PAGE, size)) {
        /* a wish: without it all is as right, and a little slower */
        madvise(pages, size, MADV_HUGEPAGE);
        return pages;
    }
#endif
    return malloc(size);
}

static void default_free(void *data, void *block, size_t size) {
    (void)data, (void)size;
    free(block);
}

void cti_pool_init(cti_pool *pool, ct_allocator allocator, int64_t limit, bool poison) {
    const bool own = allocator.alloc && allocator.free;
    if (!own) allocator = (ct_allocator){default_alloc, default_free, NULL};
    *pool = (cti_pool){
        .allocator = allocator, .limit = limit, .poison = poison, .plain = !poison && !GUARD};
    pool->carved = own || limit || poison ? FINE : MEDIUM;
}

/* A block from the allocator, with room for `size` bytes behind its header; NULL: it or the limit
 * said no. */
static cti_block *block_new(cti_pool *pool, size_t size, bool slab) {
    /* cti_take_any has seen to it that nothing overflows */
    size_t total = size + HEADER + CTI_ALIGN;
    if ((pool->limit && (int64_t)total > pool->limit - pool->held)) return NULL;
    pool->calls++;
    void *raw = pool->allocator.alloc(pool->allocator.data, total);
    if (!raw) return NULL;
    cti_block *block =
        (cti_block *)(((uintptr_t)raw + CTI_ALIGN - 1) & ~(uintptr_t)(CTI_ALIGN - 1));
    *block = (cti_block){.link = {pool->blocks ? &pool->blocks->link : NULL},
                         .raw = raw,
                         .total = total,
                         .slab = slab};
    if (pool->poison) memset((char *)block + HEADER, 0xff, size);
    forbid(pool, (char *)block + HEADER, size);
    if (pool->blocks) pool->blocks->prev = block;
    pool->blocks = block;
    pool->held += (int64_t)total;
    return block;
}

static void block_free(cti_pool *pool, cti_block *block) {
    cti_block *next = next_of(block);
    if (next) next->prev = block->prev;
    if (block->prev) block->prev->link.next = block->link.next;
    else pool->blocks = next;
    pool->held -= (int64_t)block->total;
    allow(block->raw, block->total);
    pool->allocator.free(pool->allocator.data, block->raw, block->total);
}

static char *block_data(cti_block *block) { return (char *)block + HEADER; }

/* Of a large block, which came from the allocator by itself. */
static size_t large_bytes(const void *data) {
    return ((const cti_block *)((const char *)data - HEADER))->total - HEADER - CTI_ALIGN;
}

static void push(cti_pool *pool, void *block, size_t bytes, int class) {
    forbid(pool, block, bytes);
    allow(block, sizeof(cti_free_block));
    cti_free_block *free = block;
    free->next = pool->free[class];
    pool->free[class] = free;
}

/* The rest of a slab that makes room for the next: a small one becomes small blocks. */
static void retire(cti_pool *pool, cti_slab *slab) {
    size_t rest = (size_t)(slab->end - slab->at);
    if (rest > FINE) {
        slab->block->lost += rest;
        return;
    }
    for (size_t piece; rest > 0; slab->at += piece, rest -= piece) {
        piece = rest < 8 * CTI_ALIGN ? rest : 8 * CTI_ALIGN;
        const int class = class_of(piece, &piece);
        push(pool, slab->at, piece, class);
    }
}

/* A block cut from the newest slab, or from a new one of that size or, if there is no such, as
 * little as will do. `guard` bytes behind it are nobody's. */
static void *carve(cti_pool *pool, cti_slab *slab, size_t bytes, size_t guard, size_t size) {
    bytes += guard;
    if ((size_t)(slab->end - slab->at) < bytes) {
        cti_block *block = block_new(pool, size, true);
        if (!block && bytes > FINE) {
            if (!(block = block_new(pool, bytes, true))) return NULL;
            block->lost = guard;
            return block_data(block);
        }
        if (!block) block = block_new(pool, size = 2 * FINE, true);
        if (!block) return NULL;
        if (slab->at) retire(pool, slab);
        slab->block = block;
        slab->at = block_data(block);
        slab->end = slab->at + size;
    }
    void *block = slab->at;
    slab->at += bytes;
    slab->block->lost += guard;
    return block;
}

static size_t between(size_t least, size_t x, size_t most) {
    return x < least ? least : x > most ? most : x;
}

/* Slabs grow with the pool: few for the largest, little for the smallest. Those of medium blocks
 * are whole pages, and larger: a page that nobody has touched is no memory. */
static void *fresh(cti_pool *pool, size_t bytes) {
    const size_t held = (size_t)pool->held, least = 64 << 10, most = 16 << 20;
    if (bytes <= FINE)
        return carve(pool, &pool->small, bytes, 0,
                     between(least, held / 8, most) / CTI_ALIGN * CTI_ALIGN);
    if (bytes <= pool->carved) {
        const size_t size = between(bytes + GUARD, held, most) + HEADER + CTI_ALIGN,
                     page = size < HUGE_PAGE ? least : HUGE_PAGE;
        return carve(pool, &pool->medium, bytes, GUARD,
                     (size + page - 1) / page * page - HEADER - CTI_ALIGN);
    }
    cti_block *block = block_new(pool, bytes, false);
    return block ? block_data(block) : NULL;
}

/* The class that a large block is taken from: its own if one waits there, or else the next in which
 * one does, up to half as large again. So what begins when something else has ended, as gradients
 * do after activations, lies in memory that is there already. But what it does not need is lost as
 * long as it lasts: not under a limit. */
static int class_that_waits(const cti_pool *pool, int class) {
    for (int larger = class; larger <= class + 4 && larger < CTI_SIZE_CLASSES && !pool->limit;
         larger++)
        if (pool->free[larger]) return larger;
    return class;
}

void *cti_take_any(ct_context *context, size_t size) {
    cti_pool *pool = &context->pool;
    const char *op = context->op ? context->op : "memory";
    if (size > CTI_MOST_BYTES) return ct_fail(context, CT_ERR_MEMORY, "%s: a size overflows", op);
    size_t bytes;
    int class = class_of(size, &bytes);
    if (bytes > MEDIUM) class = class_that_waits(pool, class);
    void *block = pool->free[class];
    if (block) {
        pool->free[class] = pool->free[class]->next;
    } else {
        block = fresh(pool, bytes);
        if (!block) { /* what is pooled in other classes may be what is missing */
            ct_memory_trim(context);
            block = fresh(pool, bytes);
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
    if (bytes > MEDIUM) bytes = large_bytes(block);
    allow(block, size);
    forbid(pool, (char *)block + size, bytes - size);
    return block;
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
    pool->live -= (int64_t)bytes;
    if (bytes > MEDIUM) class = class_of(large_bytes(block), &bytes);
    allow(block, bytes);
    if (pool->poison) memset((cti_free_block *)block + 1, 0xff, bytes - sizeof(cti_free_block));
    push(pool, block, bytes, class);
}

size_t cti_bytes(int64_t count, size_t size) {
    size_t bytes;
    return __builtin_mul_overflow(count, size, &bytes) ? SIZE_MAX : bytes;
}

char *cti_take_string(ct_context *context, const char *string) {
    size_t size = strlen(string) + 1;
    char *copy = cti_take(context, size);
    return copy ? memcpy(copy, string, size) : NULL;
}

ct_memory_stats ct_memory(const ct_context *context) {
    if (!context) return (ct_memory_stats){0};
    const cti_pool *pool = &context->pool;
    return (ct_memory_stats){pool->live, pool->peak, pool->held - pool->live, pool->calls};
}

void ct_memory_reset_peak(ct_context *context) {
    if (context) context->pool.peak = context->pool.live;
}

/* ---- handing memory back ---- */

/* Cuts a list behind its first run of growing addresses, and returns what is behind. */
static cti_free_block *cut_run(cti_free_block *at) {
    while (at->next && (uintptr_t)at < (uintptr_t)at->next) at = at->next;
    cti_free_block *rest = at->next;
    at->next = NULL;
    return rest;
}

/* The list in the order of addresses: a merge sort of its runs, so that one that has been sorted
 * before takes one pass. */
static cti_free_block *sorted(cti_free_block *list) {
    for (bool many = list; many;) {
        cti_free_block *rest = list, **end = &list;
        for (many = false; rest;) {
            cti_free_block *a = rest, *b = cut_run(a);
            rest = b ? cut_run(b) : NULL;
            many |= rest != NULL;
            while (a && b) {
                cti_free_block **lower = (uintptr_t)a < (uintptr_t)b ? &a : &b;
                *end = *lower;
                end = &(*lower)->next;
                *lower = *end;
            }
            *end = a ? a : b;
            while (*end) end = &(*end)->next;
        }
    }
    return list;
}

/* The block that holds the address, from `block` on in a list sorted by address. */
static cti_block *holder(cti_block *block, const void *address) {
    while ((const char *)address >= (const char *)block->raw + block->total) block = next_of(block);
    return block;
}

static bool is_idle(const cti_block *slab) {
    return slab->slab && slab->idle == slab->total - HEADER - CTI_ALIGN;
}

/* Hands back the large blocks that are free, and the slabs in which everything is. Blocks and free
 * lists are sorted, so that one pass over both finds the slab of each free block: a refused
 * allocation comes by here too. */
void ct_memory_trim(ct_context *context) {
    if (!context) return;
    cti_ended_forget(context);
    cti_pool *pool = &context->pool;
    size_t bytes;
    const int first_large = class_of(pool->carved + 1, &bytes);
    for (int class = first_large; class < CTI_SIZE_CLASSES; class ++)
        for (cti_free_block *next, *free = pool->free[class]; free;
             pool->free[class] = free = next) {
            next = free->next;
            block_free(pool, (cti_block *)((char *)free - HEADER));
        }

    if (pool->blocks) pool->blocks = (cti_block *)sorted(&pool->blocks->link);
    for (cti_block *before = NULL, *block = pool->blocks; block;
         before = block, block = next_of(block)) {
        block->prev = before;
        block->idle = block->lost;
    }
    cti_slab *open[] = {&pool->small, &pool->medium};
    for (int i = 0; i < 2; i++)
        if (open[i]->block) open[i]->block->idle += (size_t)(open[i]->end - open[i]->at);
    for (size_t size = CTI_ALIGN; size <= pool->carved; size = bytes + 1) {
        const int class = class_of(size, &bytes);
        cti_block *slab = pool->blocks;
        pool->free[class] = sorted(pool->free[class]);
        for (cti_free_block *free = pool->free[class]; free; free = free->next)
            (slab = holder(slab, free))->idle += bytes;
    }
    for (size_t size = CTI_ALIGN; size <= pool->carved; size = bytes + 1) {
        cti_free_block **link = &pool->free[class_of(size, &bytes)];
        for (cti_block *slab = pool->blocks; *link;) {
            slab = holder(slab, *link);
            if (is_idle(slab)) *link = (*link)->next;
            else link = &(*link)->next;
        }
    }
    for (int i = 0; i < 2; i++)
        if (open[i]->block && is_idle(open[i]->block)) *open[i] = (cti_slab){0};
    for (cti_block *next, *block = pool->blocks; block; block = next) {
        next = next_of(block);
        if (is_idle(block)) block_free(pool, block);
    }
}

void cti_pool_free(cti_pool *pool) {
    while (pool->blocks) block_free(pool, pool->blocks);
}
