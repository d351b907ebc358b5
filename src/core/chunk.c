/* The chunks of regions: see chunk.h. */
#include "chunk.h"
#include "../os/os.h"
#include "asan.h"

struct cti_chunk {
    cti_chunk *before; /* the chunk in front, or NULL in the first of its region */
    size_t size;       /* the bytes behind the header, a multiple of CTI_ALIGN */
    bool last;         /* whether the region ends behind this chunk */
    bool free;
    /* The next fields are used in a free chunk only. */
    size_t clean;           /* how many bytes at its end take no memory of the machine */
    cti_chunk *next, *prev; /* in its bin */
};

_Static_assert(sizeof(cti_chunk) <= CTI_CHUNK_HEADER, "a header fits in front of a payload");

static char *payload_of(cti_chunk *chunk) { return (char *)chunk + CTI_CHUNK_HEADER; }

static cti_chunk *chunk_behind(cti_chunk *chunk) {
    return chunk->last ? NULL : (cti_chunk *)(payload_of(chunk) + chunk->size);
}

/* ---- bins ---- */

/* The largest class that `size` bytes can serve. */
static int bin_of(size_t size) {
    size_t bytes;
    const int class = cti_size_class(size, &bytes);
    return bytes > size ? class - 1 : class;
}

static void bin_add(cti_chunks *chunks, cti_chunk *chunk) {
    CTI_ASSERT(chunk->free && chunk->clean <= chunk->size);
    if (!chunk->size) return;
    const int bin = bin_of(chunk->size);
    cti_chunk *first = chunks->bin[bin];
    chunk->prev = NULL;
    chunk->next = first;
    if (first) first->prev = chunk;
    chunks->bin[bin] = chunk;
    chunks->filled[bin / 64] |= (uint64_t)1 << bin % 64;
}

static void bin_remove(cti_chunks *chunks, cti_chunk *chunk) {
    CTI_ASSERT(chunk->free);
    if (!chunk->size) return;
    if (chunk->next) chunk->next->prev = chunk->prev;
    if (chunk->prev) {
        chunk->prev->next = chunk->next;
        return;
    }
    const int bin = bin_of(chunk->size);
    CTI_ASSERT(chunks->bin[bin] == chunk);
    chunks->bin[bin] = chunk->next;
    if (!chunk->next) chunks->filled[bin / 64] &= ~((uint64_t)1 << bin % 64);
}

/* The first chunk of the first bin from `bin` on that is not empty, or NULL. */
static cti_chunk *bin_search(const cti_chunks *chunks, int bin) {
    uint64_t bits = chunks->filled[bin / 64] >> bin % 64 << bin % 64;
    for (int word = bin / 64; word < CTI_SIZE_CLASSES / 64;) {
        if (bits) return chunks->bin[word * 64 + __builtin_ctzll(bits)];
        word++;
        bits = word < CTI_SIZE_CLASSES / 64 ? chunks->filled[word] : 0;
    }
    return NULL;
}

/* ---- regions ---- */

void cti_region_add(cti_chunks *chunks, void *memory, size_t size) {
    CTI_ASSERT((uintptr_t)memory % CTI_ALIGN == 0 && size % CTI_ALIGN == 0);
    CTI_ASSERT(size > CTI_CHUNK_HEADER);
    cti_chunk *chunk = memory;
    cti_asan_unpoison(chunk, CTI_CHUNK_HEADER);
    size -= CTI_CHUNK_HEADER;
    *chunk = (cti_chunk){.size = size, .last = true, .free = true, .clean = size};
    chunks->clean += (int64_t)size;
    bin_add(chunks, chunk);
}

bool cti_region_is_free(const void *memory) {
    const cti_chunk *chunk = memory;
    CTI_ASSERT(!chunk->before);
    return chunk->free && chunk->last;
}

void cti_region_remove(cti_chunks *chunks, void *memory) {
    cti_chunk *chunk = memory;
    CTI_ASSERT(cti_region_is_free(memory));
    bin_remove(chunks, chunk);
    chunks->clean -= (int64_t)chunk->clean;
}

/* ---- chunks ---- */

/* Cuts a chunk that is in no bin behind its first `bytes` bytes. What is left becomes a free
 * chunk. */
static void chunk_cut(cti_chunks *chunks, cti_chunk *chunk, size_t bytes) {
    CTI_ASSERT(chunk->size >= bytes && (chunk->size - bytes) % CTI_ALIGN == 0);
    if (chunk->size == bytes) return;
    cti_chunk *behind = chunk_behind(chunk), *rest = (cti_chunk *)(payload_of(chunk) + bytes);
    const size_t size = chunk->size - bytes - CTI_CHUNK_HEADER;
    cti_asan_unpoison(rest, CTI_CHUNK_HEADER);
    *rest = (cti_chunk){.before = chunk,
                        .size = size,
                        .last = chunk->last,
                        .free = true,
                        .clean = chunk->clean < size ? chunk->clean : size};
    if (behind) behind->before = rest;
    chunk->size = bytes;
    chunk->last = false;
    chunks->clean += (int64_t)rest->clean;
    bin_add(chunks, rest);
}

void *cti_chunk_take(cti_chunks *chunks, size_t bytes, int class) {
    CTI_ASSERT(cti_class_bytes(class) == bytes);
    cti_chunk *chunk = bin_search(chunks, class);
    if (!chunk) return NULL;
    bin_remove(chunks, chunk);
    chunks->clean -= (int64_t)chunk->clean;
    chunk_cut(chunks, chunk, bytes);
    chunk->free = false;
    CTI_ASSERT(chunk->size == bytes);
    return payload_of(chunk);
}

/* Makes two neighbours one chunk. Neither is in a bin. The bytes of `behind` that are clean stay
 * so; those of `chunk` would be in the middle, and are no longer counted. */
static void chunk_join(cti_chunks *chunks, cti_chunk *chunk, cti_chunk *behind) {
    CTI_ASSERT(chunk_behind(chunk) == behind && behind->before == chunk);
    chunks->clean -= (int64_t)chunk->clean;
    chunk->size += CTI_CHUNK_HEADER + behind->size;
    chunk->clean = behind->clean;
    chunk->last = behind->last;
    cti_asan_poison(behind, CTI_CHUNK_HEADER);
}

void cti_chunk_give(cti_chunks *chunks, void *payload) {
    cti_chunk *chunk = (cti_chunk *)((char *)payload - CTI_CHUNK_HEADER);
    CTI_ASSERT(!chunk->free);
    chunk->free = true;
    chunk->clean = 0;
    cti_chunk *behind = chunk_behind(chunk), *before = chunk->before;
    if (behind && behind->free) {
        bin_remove(chunks, behind);
        chunk_join(chunks, chunk, behind);
    }
    if (before && before->free) {
        bin_remove(chunks, before);
        chunk_join(chunks, before, chunk);
        chunk = before;
    }
    behind = chunk_behind(chunk);
    CTI_ASSERT(!behind || !behind->free);
    if (behind) behind->before = chunk;
    bin_add(chunks, chunk);
}

void cti_chunks_discard(cti_chunks *chunks) {
    for (int bin = CTI_LINEAR_CLASSES; bin < CTI_SIZE_CLASSES; bin++) { /* less is no whole page */
        for (cti_chunk *chunk = chunks->bin[bin]; chunk; chunk = chunk->next) {
            const size_t written = chunk->size - chunk->clean;
            if (!written || !cti_os_discard(payload_of(chunk), chunk->size)) continue;
            chunk->clean = chunk->size;
            chunks->clean += (int64_t)written;
        }
    }
}
