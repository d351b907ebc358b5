/* Files: parameters as safetensors, and checkpoints to resume from. Writing is atomic: a temporary
 * file beside the target, fsync, rename, fsync of the folder. A reader sees the old file or the new
 * one; a failed load changes nothing.
 *
 * A file that is replaced keeps its mode, and its owner and group where the system allows it. A
 * temporary file is named .cotangent-, 16 hex digits, .tmp, and locked (fcntl) while it is written;
 * a save removes those in its folder that nobody holds: they are of programs that were killed. */
#ifndef CT_IO_H
#define CT_IO_H

#include <cotangent/types.h>
#include <cotangent/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Writes every parameter under the name that ct_module_get takes, a shared one once, under its
 * first. metadata: key, value, ..., NULL, or NULL. Where path is a symbolic link, the file it
 * points to is replaced. */
CT_API bool ct_save(ct_module *module, const char *path, const char *const *metadata);

typedef struct {
    /* take what fits by name, shape and dtype, and leave the rest of the module and of the file
     * alone */
    bool partial;
} ct_load_opts;

/* Reads parameters by name. Shapes must be equal; f16 and bf16 are widened, f32 and f64 converted.
 * Without .partial every parameter must be there, a shared one under any of its names, and nothing
 * else; each mismatch is named. CT_ERR_IO or CT_ERR_FORMAT with the path and the fault. */
CT_API bool ct_load(ct_module *module, const char *path, ct_load_opts opts);

/* The value of one metadata key, with its NUL, into out. No such key, or longer than size - 1:
 * CT_ERR_ARGUMENT. */
CT_API bool ct_load_metadata(ct_context *context, const char *path, const char *key, char *out,
                             size_t size);

/* All that training needs to go on to the same bits: load fills the module, the optimiser with
 * its numbers (lr, weight decay, ...), the generator, and step, from 0 to INT64_MAX - 1. The
 * optimiser must be of the kind that was saved; numbers that its constructor would refuse are
 * CT_ERR_FORMAT. */
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
