/* Files: parameters and tensors as safetensors, and checkpoints to resume from. Writing is atomic:
 * a temporary file beside the target, fsync, rename, fsync of the folder. A reader sees the old
 * file or the new one, never a part. A failed load changes nothing.
 *
 * A file that is replaced keeps its mode, and its owner and group where the system allows it. A
 * temporary file is named .cotangent-, 16 hex digits, .tmp, and locked (fcntl) while it is written;
 * a save removes those in its folder that are not locked, as programs that were
 * killed left them. */
#ifndef CT_IO_H
#define CT_IO_H

#include <cotangent/types.h>
#include <cotangent/context.h>
#include <cotangent/dist.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- maps ---- */

/* An entry of a map between the names of a module and the names of a file. Rows [param_start,
 * param_start + rows) of a parameter are rows [file_start, file_start + rows) of the file's tensor,
 * which is transposed first (two dims) if the parameter has it the other way round. rows 0: all
 * that the file has from file_start on. A row is an element of the first dim; sizes of the other
 * dims must be equal. One * in param stands for any text, and for the same text where file has a *:
 *
 *     {.param = "h.*.in_proj_weight", .file = "layer.*.q.weight"},
 *     {.param = "h.*.in_proj_weight", .file = "layer.*.k.weight", .param_start = 768}, ...
 *
 * Several entries may fill one parameter; they must fill all of it, without overlap. A parameter
 * (or buffer) without an entry is found by its own name. For a further name of a shared parameter
 * (tied weights), patterns count only if no entry without a * has that name. */
typedef struct {
    const char *param, *file;
    int64_t param_start, file_start, rows;
    bool transposed;
} ct_load_map;

/* ---- saving ---- */

/* How floats are written; other dtypes stay what they are. A number is rounded to the nearest,
 * between two to the even one; beyond the largest it is an infinity, and NaN stays NaN. F16 and
 * BF16 are for sharing a model, not for resuming its training. */
typedef enum { CT_FILE_SAME, CT_FILE_F32, CT_FILE_F16, CT_FILE_BF16 } ct_file_float;

typedef struct {
    const char *const *metadata; /* key, value, ..., NULL; or NULL for none. All are UTF-8 */
    ct_file_float floats;
    /* 0: one file. Else path is a folder, which is made if it is not there (its parent must be),
     * and gets model-00001-of-00003.safetensors, ... and model.safetensors.index.json, as Hugging
     * Face's. A file has at most so many bytes of tensors, or one tensor; all have the metadata */
    int64_t shard_bytes;
    /* [n_map] of a load, backwards: the file gets tensors of the entries' .file, put together from
     * rows of parameters and transposed back. So what was loaded by a map is saved under the names
     * and in the shapes that it had. An entry with .rows 0 has all rows of its parameter up to
     * those of the next entry. Entries must have all rows of a parameter that they name and fill
     * all of a tensor of the file, each once; parameters that they do not name keep their names */
    const ct_load_map *map;
    int64_t n_map;
} ct_save_opts;

/* Writes every parameter and every persistent buffer under its full name, a shared one once under
 * its first name; with a map once under the first of its names that an entry has, and besides under
 * each one that an entry without a * has. If path is a symbolic link, the file that it points to is
 * replaced. Works while an error is pending.
 *
 * A set of shards: all files are written and synced under temporary names before any is renamed,
 * the index is renamed last, and where a shard of the same name is replaced, the old index is
 * removed before the first rename. So a save that fails while it writes changes nothing; a load
 * (ct_load, ct_safetensors_open) at any time gets the whole old set, the whole new set, or an error
 * between the two; and a program that is killed between the renames leaves no index, so no mixed
 * set is ever loaded. Shards of an old set of another number of files stay in the folder.
 *
 * Errors: CT_ERR_IO; CT_ERR_ARGUMENT for text that is not UTF-8, a key that is there twice, a
 * parameter named __metadata__, and a map that names no parameter of the module, leaves out rows or
 * has some twice, or puts rows of different shapes or dtypes into one tensor. */
CT_API bool ct_save(ct_module *module, const char *path, ct_save_opts opts);

/* A tensor and its name. */
typedef struct {
    const char *name;
    ct_tensor *tensor;
} ct_named;

/* The same for n tensors of the context, of any dtypes and strides; names are any UTF-8, each there
 * once, but __metadata__. A map's .param is then one of these names. F32, F64, I64 and BOOL in the
 * file. */
CT_API bool ct_tensors_save(ct_context *context, const char *path, const ct_named *tensors,
                            int64_t n, ct_save_opts opts);

/* ---- reading a file by hand ---- */

/* In all that loads, path is a safetensors file; an index of shards, whose name ends in .json; or a
 * folder with either model.safetensors or model.safetensors.index.json, not both. An index may name
 * files of its own folder only (else CT_ERR_FORMAT); a shard that is missing is CT_ERR_IO, and a
 * tensor that its shard lacks CT_ERR_FORMAT. A tensor that the index does not name is not there. An
 * index is JSON in which no object has a key twice. A file of another format is CT_ERR_FORMAT with
 * its name if its first bytes tell it: a git-lfs pointer, a pickle (PyTorch's .pt and .bin), an
 * HTML page, GGUF, gzip, .npy, ... */
typedef struct ct_safetensors ct_safetensors;

/* Reads and checks the headers; the files stay open. Close it, or ct_context_free does. NULL:
 * CT_ERR_IO, or CT_ERR_FORMAT with what is wrong. A use after close is CT_ERR_ARGUMENT. */
CT_API ct_safetensors *ct_safetensors_open(ct_context *context, const char *path);

typedef struct {
    const char *name;  /* valid until close */
    const char *dtype; /* as in the file: "BF16" */
    ct_shape shape;    /* of more than 8 dims the first 8 */
    uint64_t position[2];
} ct_safetensors_entry;
/* Visits all tensors in the order of the header or index: start with a zeroed entry. False, without
 * an error, after the last. */
CT_API bool ct_safetensors_next(ct_safetensors *file, ct_safetensors_entry *entry);

/* Reads a tensor into a new one of the innermost scope: F16, BF16 and F32 become f32, F64 f64, I8
 * to I64 and U8 to U64 i64, BOOL bool, all exactly. CT_ERR_ARGUMENT: there is none of the name;
 * CT_ERR_DTYPE: another dtype, or a number of U64 beyond i64; CT_ERR_SHAPE: more than 8 dims;
 * CT_ERR_IO; CT_ERR_FORMAT: the file has been cut since, or a bool is neither 0 nor 1. */
CT_API ct_tensor *ct_safetensors_read(ct_safetensors *file, const char *name);

/* The value of a metadata key, of a set of shards the first one's; valid until close. NULL, without
 * an error: no such key. */
CT_API const char *ct_safetensors_metadata(ct_safetensors *file, const char *key);
CT_API void ct_safetensors_close(ct_safetensors *file); /* NULL, or closed already: does nothing */

/* ---- loading ---- */

/* How many parameters and buffers were loaded, and how many were not found; how many tensors of the
 * file nothing asked for; and how many parameters fit by name but not by shape or dtype, or have
 * several names (tied weights) for which the file has different values. Of each the first four
 * names, longer ones with their middle cut out; an unused one is "".
 *
 * ignored: tensors of the file that nothing asked for and a pattern of .ignore matches.
 *
 * square: parameters that are loaded from a square matrix as it is, although the map transposes
 * other matrices with a side of that length. Their shapes are right either way, so if .transposed
 * was forgotten nothing else would say so: GPT-2's c_attn, (768, 2304), does not fit without, but
 * attn.c_proj, (768, 768), does. */
typedef struct {
    int64_t loaded, missing, unexpected, mismatched;
    char loaded_names[4][128], missing_names[4][128], unexpected_names[4][128],
        mismatched_names[4][128];
    int64_t ignored, square;
    char ignored_names[4][128], square_names[4][128];
} ct_load_report;

/* Prints "loaded 2: weight, bias" and the like, a line each; of ignored and square only if there
 * are any. */
CT_API void ct_load_report_print(const ct_load_report *report, FILE *file);

typedef struct {
    /* load only what matches by name, shape and dtype, and ignore all else; if that is nothing, the
     * load fails */
    bool partial;
    const ct_load_map *map; /* [n_map] */
    int64_t n_map;
    ct_load_report *report; /* filled in as soon as headers are read, also where the load fails */
    /* [..., NULL] or NULL: patterns of names of the file's tensors, with * for any text and ? for
     * one character, as {"h.*.attn.bias", NULL}. Such a tensor that nothing needs is not
     * unexpected; one that a parameter needs is loaded all the same, and of a shared parameter's
     * names another one that the file has. A pattern may match nothing */
    const char *const *ignore;
} ct_load_opts;

/* Reads parameters and persistent buffers by name. Shapes must be equal; f16 and bf16 are widened,
 * f32 and f64 converted, integers become i64. Without .partial the file must have every parameter
 * and nothing else. A load that fails changes nothing.
 *
 * A shared parameter (tied weights) is found under any of its names, each by the map's entries for
 * that name or, without any, by the name itself. If the file has several, their values must be
 * equal once they are converted: two that differ are an error with both names; with .partial the
 * parameter is mismatched, and stays as it was.
 *
 * Errors: CT_ERR_IO or CT_ERR_FORMAT, with the path and every mismatch, of a map also rows that no
 * entry or that two fill; CT_ERR_ARGUMENT: an entry of the map that names no parameter. */
CT_API bool ct_load(ct_module *module, const char *path, ct_load_opts opts);

/* Copies the value of a metadata key into out, with a NUL. A missing key or a value longer than
 * size - 1 is CT_ERR_ARGUMENT. */
CT_API bool ct_load_metadata(ct_context *context, const char *path, const char *key, char *out,
                             size_t size);

/* ---- checkpoints ---- */

/* Everything that training needs to resume with the same bits (see other_bits). Load restores the
 * module's parameters and persistent buffers, the optimisers' state and options (lr, weight decay,
 * ...), the tensors, the random generator, and `step`, which is in 0 ... INT64_MAX - 1. There must
 * be as many optimisers as were saved, each of the kind that was; options that its constructor
 * would refuse are CT_ERR_FORMAT. The group of each parameter is that of the file too, whatever
 * ct_optim_group has set before: none, where the file has none. A frozen parameter of the file has
 * no state, and a group that is set after the load holds.
 *
 * The file has a checksum of all its bytes, which a load compares before it changes anything: a
 * flipped bit anywhere, a file that was cut or that something was appended to, is CT_ERR_FORMAT
 * with both numbers; so is a file without one. It is the CRC-64 of xz, in the metadata "checksum"
 * as 16 hex digits, and computed with '0' in the place of each of these. Other files have none.
 *
 * A load without any optimiser of what was saved with one is for inference: it reads the module,
 * `step`, and those tensors that are given, and leaves the generator as it is. A save needs an
 * optimiser or a tensor. */
typedef struct {
    ct_module *module;
    ct_optim *optim; /* or NULL */
    int64_t step;
    ct_optim *const *optims; /* [n_optims] further optimisers */
    int64_t n_optims;
    /* [n_tensors] the caller's own, numbers as scalars. A load writes into them; names, shapes and
     * dtypes must be those of the file */
    const ct_named *tensors;
    int64_t n_tensors;
    /* of an optimiser that has one, else CT_ERR_ARGUMENT. Then all ranks save or load together,
     * between two steps, and all have the error of one. Rank 0 writes the file, which is that of a
     * process alone: the same bytes whatever the number of ranks is, with ct_dist_steps. Rank 0
     * reads it; the others need no path to the file. The number of ranks may change from a save to
     * a load, shares and micro_batches should not. At a save `step` and the optimisers must be
     * those of rank 0, else CT_ERR_ARGUMENT on all */
    ct_dist *dist;
    /* Set by a load: "" if this context computes the same bits as the one that saved (its
     * ct_fingerprint was that), or the file does not say. Else training goes on to other bits than
     * it would have had, and this is a line that names the instruction set, compiler and -O of
     * both. It is no error. */
    char other_bits[224];
} ct_checkpoint;
CT_API bool ct_checkpoint_save(const char *path, ct_checkpoint *checkpoint);
CT_API bool ct_checkpoint_load(const char *path, ct_checkpoint *checkpoint);

#ifdef __cplusplus
}
#endif
#endif
