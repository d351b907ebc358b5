/* ct_safetensors: an open file, or an open set of shards, that is read tensor by tensor. */
#include <string.h>

#include "../core/context.h"
#include "shards.h"

struct ct_safetensors {
    union {
        cti_object object; /* must be first */
        ct_context *context;
    };
    cti_shards shards;
};
_Static_assert(sizeof(ct_safetensors) <= CTI_OBJECT_BYTES, "a reader is an object");

static const char reader_op[] = "safetensors";

static void reader_end(cti_hook *self) { ct_safetensors_close((ct_safetensors *)self); }

ct_safetensors *cti_safetensors_of(const cti_shards *shards) {
    ct_safetensors *file = cti_object_new(shards->context, sizeof *file, "file");
    if (!file) return NULL;
    file->shards = *shards;
    cti_object_end_with_context(&file->object, reader_end);
    return file;
}

ct_safetensors *ct_safetensors_open(ct_context *context, const char *path) {
    if (!cti_ready(context)) return NULL;
    if (!path) return ct_fail(context, CT_ERR_ARGUMENT, "safetensors_open: path is NULL");
    cti_shards shards;
    if (!cti_shards_open_safetensors(context, reader_op, path, &shards)) return NULL;
    ct_safetensors *file = cti_safetensors_of(&shards);
    if (!file) cti_shards_close(&shards);
    return file;
}

void ct_safetensors_close(ct_safetensors *file) {
    if (!file || file->object.self != &file->object) return;
    char name[CTI_OBJECT_NAME];
    snprintf(name, sizeof name, "%.*s", (int)sizeof name - 1, file->shards.path);
    cti_shards_close(&file->shards);
    cti_object_end(&file->object, name);
}

bool ct_safetensors_next(ct_safetensors *file, ct_safetensors_entry *entry) {
    if (!file || !cti_object_is_open(&file->object, "ct_safetensors_next")) return false;
    if (!entry) return ct_fail(file->context, CT_ERR_ARGUMENT, "safetensors_next: entry is NULL");
    const uint64_t i = entry->position[0];
    if (i >= (uint64_t)file->shards.tensors) return false;
    const cti_file_tensor *tensor = file->shards.tensor[i];
    *entry = (ct_safetensors_entry){.name = tensor->name.at,
                                    .dtype = cti_file_dtype_name(tensor->dtype),
                                    .shape = tensor->shape,
                                    .position = {i + 1}};
    return true;
}

/* Sets *to to the dtype into which tensors of the file's dtype are read. Returns false if no dtype
 * holds the values. */
static bool reader_read_as(cti_file_dtype from, ct_dtype *to) {
    static const ct_dtype order[] = {CT_F32, CT_I64, CT_BOOL};
    *to = CT_F64;
    if (from == CTI_FILE_F64) return true;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        *to = order[i];
        if (cti_file_tensor_fits(from, *to)) return true;
    }
    return false;
}

static ct_tensor *reader_read_tensor(const cti_file_tensor *from) {
    const cti_file *file = from->file;
    ct_dtype dtype;
    if (!reader_read_as(from->dtype, &dtype))
        return ct_fail(file->context, CT_ERR_DTYPE,
                       "%s: %s: tensor \"%s\" is %s, which no dtype of a tensor here holds",
                       reader_op, file->path, NAME(from->name), cti_file_dtype_name(from->dtype));
    if (from->ndim > CT_MAX_DIMS)
        return ct_fail(file->context, CT_ERR_SHAPE,
                       "%s: %s: tensor \"%s\" has %lld dims, a tensor at most %d", reader_op,
                       file->path, NAME(from->name), (long long)from->ndim, CT_MAX_DIMS);
    ct_tensor *to = cti_tensor_new(file->context, dtype, from->shape);
    return to && cti_file_tensor_read(from, 0, from->numel, to, 0) ? to : NULL;
}

ct_tensor *ct_safetensors_read(ct_safetensors *file, const char *name) {
    if (!file || !cti_object_is_ready(&file->object, "ct_safetensors_read", "file", NULL))
        return NULL;
    ct_context *context = file->context;
    if (!name) return ct_fail(context, CT_ERR_ARGUMENT, "safetensors_read: name is NULL");
    const int64_t i = cti_shards_find(&file->shards, cti_text_of(name));
    if (i < 0)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: %s: no tensor \"%s\"", reader_op,
                       file->shards.path, NAME(cti_text_of(name)));
    cti_frame frame;
    cti_frame_open(context, &frame, true);
    return cti_frame_return(context, &frame, reader_read_tensor(file->shards.tensor[i]));
}

const char *ct_safetensors_metadata(ct_safetensors *file, const char *key) {
    if (!file || !cti_object_is_open(&file->object, "ct_safetensors_metadata")) return NULL;
    if (!key) return ct_fail(file->context, CT_ERR_ARGUMENT, "safetensors_metadata: key is NULL");
    const cti_text *value = cti_shards_metadata(&file->shards, cti_text_of(key));
    return value ? value->at : NULL;
}
