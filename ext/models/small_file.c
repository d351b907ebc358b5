/* Small files of a folder, which are read whole. */
#include "small_file.h"

#include <cotangent/autograd.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../../src/core/memory.h"
#include "../../src/io/file.h"
#include "../../src/io/kind.h"

enum { MOST_CONFIG = 1 << 24 };

char *cti_lm_read_file(ct_context *context, const char *op, const char *path, size_t *size) {
    cti_file file;
    if (!cti_file_open(context, op, path, &file)) return NULL;
    char *text = NULL;
    if (file.size > MOST_CONFIG)
        ct_fail(context, CT_ERR_FORMAT, "%s: %s: its %" PRId64 " bytes are too many", op, path,
                file.size);
    else text = cti_take_any(context, (size_t)file.size + 1);
    *size = (size_t)file.size;
    if (text && (!cti_file_read(&file, 0, text, *size) || cti_kind_refuse_json(&file, text))) {
        cti_give_any(context, text, *size + 1);
        text = NULL;
    }
    cti_file_close(&file);
    if (text) text[*size] = 0;
    return text;
}
