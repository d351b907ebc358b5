/* Regions, and the chunks that they are divided into. A region is a large piece of memory from the
 * allocator. It is a row of chunks, and each chunk is a header with a payload behind it:
 *
 *     region   | header | in use      | header | free          | header | in use  |
 *                       '-- .size ----'        '-- written --+- clean -'
 *
 * A request takes a free chunk that is large enough, cuts off what it does not need as another free
 * chunk, and uses the rest. A chunk that is given back becomes one with the free chunks before and
 * behind it. So memory that served one set of sizes serves any other.
 *
 * Free chunks are in bins, one for each size class, by the largest class that they can serve. A
 * request looks into the bin of its own class and then into those above, which takes a few
 * instructions, as a bit for each bin says whether it is empty.
 *
 * The clean bytes of a free chunk are those that take no memory of the machine: they have never
 * been written, or went back to the system (cti_os_discard). They are at the chunk's end.
 *
 * Invariants:
 *
 * 1. The chunks of a region follow each other without a gap. `before` of each is the chunk before
 *    it, and NULL in the first. The last has `last`.
 * 2. No two free chunks are side by side.
 * 3. A free chunk is in the bin of the largest class that is not larger than its size, or in no bin
 *    if its size is 0. So every chunk in the bin of class c, or in a bin above, can serve class c.
 * 4. A chunk that was taken has at most 63 bytes more than were requested.
 * 5. `clean` of the whole is the sum over the free chunks. The count of a chunk may be too low, and
 *    never too high by more than its headers and the pages that it shares with other chunks. */
#ifndef CTI_CORE_CHUNK_H
#define CTI_CORE_CHUNK_H

#include "size_class.h"

#include <stdbool.h>

typedef struct cti_chunk cti_chunk;

typedef struct {
    cti_chunk *bin[CTI_SIZE_CLASSES];
    uint64_t filled[CTI_SIZE_CLASSES / 64]; /* a bit for each bin: whether it has a chunk */
    int64_t clean;                          /* the clean bytes of all free chunks */
} cti_chunks;

/* The bytes of a region that are in no payload: the header of its first chunk. */
enum { CTI_CHUNK_HEADER = CTI_ALIGN };

/* Makes `size` bytes of new memory a region with one free chunk. */
void cti_region_add(cti_chunks *chunks, void *memory, size_t size);
/* Whether the region that begins at `memory` has no chunk in use. */
bool cti_region_is_free(const void *memory);
/* Takes the chunk of a free region out of its bin. The memory is then the caller's. */
void cti_region_remove(cti_chunks *chunks, void *memory);

/* Takes a chunk for `bytes` bytes, the size of class `class`. Returns its payload, or NULL if no
 * free chunk is large enough. */
void *cti_chunk_take(cti_chunks *chunks, size_t bytes, int class);
/* Gives back a payload that cti_chunk_take returned. */
void cti_chunk_give(cti_chunks *chunks, void *payload);

/* Gives the pages of free chunks back to the system, if it takes them. */
void cti_chunks_discard(cti_chunks *chunks);

#endif
