/* Files: parameters as safetensors, and checkpoints to resume from. Writing is atomic: a temporary
 * file beside the target, fsync, rename, fsync of the folder. A reader sees the old file or
 * the new one, never a part. A failed load changes nothing.
 *
 * A file that is replaced keeps its mode, and its owner and group where the system allows it. A
 * temporary file is named .cotangent-, 16 hex digits, .tmp, and locked (fcntl) while it is written;
 * a save removes those in its folder that are not locked, as programs that were
 * killed left them. */
#ifndef CT_IO_H
#define CT_IO_H

#include <cotangent/types.h>
#include <cotangent/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Writes every parameter under its full name, a shared one once under its first name. metadata is a
 * list key, value, ..., NULL, or NULL for none. If path is a symbolic link, the file that it points
 * to is replaced. */
CT_API bool ct_save(ct_module *module, const char *path, const char *const *metadata);

typedef struct {
    /* load only the tensors that match by name, shape and dtype, and ignore all others */
    bool partial;
} ct_load_opts;

/* Reads parameters by name. Shapes must be equal; f16 and bf16 are widened, f32 and f64 converted.
 * Without .partial the file must have every parameter (a shared one under any of its names) and
 * nothing else. Errors: CT_ERR_IO or CT_ERR_FORMAT, with the path and every mismatch. */
CT_API bool ct_load(ct_module *module, const char *path, ct_load_opts opts);

/* Copies the value of a metadata key into out, with a NUL. A missing key or a value longer than
 * size - 1 is CT_ERR_ARGUMENT. */
CT_API bool ct_load_metadata(ct_context *context, const char *path, const char *key, char *out,
                             size_t size);

/* Everything that training needs to resume with the same bits. Load restores the module's
 * parameters, the optimiser's state and options (lr, weight decay, ...), the random generator, and
 * `step`, which is in 0 ... INT64_MAX - 1. The optimiser must be of the kind that was saved;
 * options that its constructor would refuse are CT_ERR_FORMAT. */
typedef struct {
    ct_module *module;
    ct_optim *optim;
    int64_t step;
} ct_checkpoint;
CT_API bool ct_checkpoint_save(const char *path, ct_checkpoint *checkpoint);
CT_API bool ct_checkpoint_load(const char *path, ct_checkpoint *checkpoint);

#ifdef __cplusplus
}
#endif
#endif
