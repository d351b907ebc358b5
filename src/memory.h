/* Memory of one context: blocks by size class, kept for reuse. Everything the library allocates comes from here. */
#ifndef CT_SRC_MEMORY_H
#define CT_SRC_MEMORY_H

#include <cotangent/context.h>

enum { CT_ALIGN = 64 };   /* bytes; every block is aligned so */

/* A block of at least size bytes, its content undefined. NULL with CT_ERR_MEMORY recorded. size 0 gives a block too. */
void *ct_take(ct_context *context, size_t size);
void *ct_take_zeroed(ct_context *context, size_t size);

/* Gives a block back, with the size it was taken with. NULL is harmless. */
void ct_give(ct_context *context, void *block, size_t size);

/* count * size, or SIZE_MAX where that overflows, which ct_take refuses. The one place that multiplies sizes of memory. */
size_t ct_bytes(int64_t count, size_t size);

char *ct_take_string(ct_context *context, const char *string); /* a copy; given back with strlen + 1 */

#endif
