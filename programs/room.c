/* Memory that grows. Apart from common.c, so that a test may have a fail of its own. */
#include "common.h"

#include <stdint.h>
#include <stdlib.h>

void *room_for(void *block, size_t n, size_t size) {
    void *larger = n <= SIZE_MAX / size ? realloc(block, n ? n * size : 1) : NULL;
    if (!larger) fail(EXIT_FAILED, "out of memory");
    return larger;
}
