/* This header has functions for files: parameters and tensors as safetensors, and checkpoints from
 * which training resumes.
 *
 * A save is atomic: it writes a temporary file beside the target, syncs it, renames it to the
 * target and syncs the folder. A reader sees the old file or the new one, never a part of one. A
 * load that fails changes nothing.
 *
 * A new file has the mode of the file that it replaces, and the owner and group of that file if the
 * system allows this. The name of a temporary file is .cotangent-, 16 hex digits and .tmp. It is
 * locked (fcntl) while it is written. A save removes temporary files in its folder that are not
 * locked, because killed programs have left them. (On a file system without locks the name ends in
 * .part, and no save removes the file.) */
#ifndef CT_IO_H
#define CT_IO_H

#include <cotangent/types.h>
#include <cotangent/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- maps ---- */

/* An entry of a map between the names of a module and the names of a file. The entry means that
 * rows [param_start, param_start + rows) of the parameter `param` are rows [file_start, file_start
 * + rows) of the tensor `file` of the file. A row is an element of the first dim; the sizes of the
 * other dims must be equal. With `transposed` the file's tensor, of two dims, is transposed first.
 * rows 0 means all rows of the file's tensor from file_start on. One * in param stands for any
 * text, and a * in file stands for the same text:
 *
 *     {.param = "h.*.in_proj_weight", .file = "layer.*.q.weight"},
 *     {.param = "h.*.in_proj_weight", .file = "layer.*.k.weight", .param_start = 768}, ...
 *
 * Several entries may fill one parameter. Together they must fill all of it, without overlap. A
 * parameter or buffer without an entry has its own name in the file. For a further name of a shared
 * parameter (tied weights) an entry with a * counts only if no entry without a * has this name. */
typedef struct {
    const char *param, *file;
    int64_t param_start, file_start, rows;
    bool transposed;
} ct_load_map;

/* ---- saving ---- */

/* The format in which floats are written; other dtypes are written as they are. CT_FILE_SAME keeps
 * the dtype. A number is rounded to nearest, ties to even. A number beyond the range of the format
 * becomes an infinity, and NaN stays NaN. F16 and BF16 are for sharing a model, not for further
 * training. Weights in blocks (CT_Q8_0, CT_Q4_0) are BF16 with CT_FILE_SAME. CT_FILE_Q8_0 and
 * CT_FILE_Q4_0 are for GGUF files (ct_lm_save); in a safetensors file they are CT_ERR_ARGUMENT. */
typedef enum {
    CT_FILE_SAME,
    CT_FILE_F32,
    CT_FILE_F16,
    CT_FILE_BF16,
    CT_FILE_Q8_0,
    CT_FILE_Q4_0
} ct_file_float;

typedef struct {
    const char *const *metadata; /* key, value, ..., NULL, all UTF-8; or NULL for none */
    ct_file_float floats;
    /* the maximum number of bytes of tensors in a shard (a larger tensor has a shard of its own);
     * 0: one file. With shards, `path` is a folder, which is created if it does not exist (its
     * parent must exist). The folder gets the files model-00001-of-00003.safetensors, ... and
     * model.safetensors.index.json, with the names that Hugging Face uses. Each shard has the
     * metadata */
    int64_t shard_bytes;
    /* [n_map] the map of a load, applied in reverse: the tensors of the file have the names .file
     * of the entries, and are assembled from rows of parameters and transposed back. So a model
     * that was loaded by a map is saved under the names and in the shapes of its file. An entry
     * with rows 0 has the rows of its parameter up to the first row of the next entry. The entries
     * of a parameter must have each of its rows once, and the entries of a tensor of the file must
     * fill it once. Parameters without an entry keep their names */
    const ct_load_map *map;
    int64_t n_map;
} ct_save_opts;

/* Writes every parameter and every persistent buffer under its full name. A shared parameter is
 * written once, under its first name. With a map, a shared parameter is written under the first of
 * its names that an entry matches, and also under each further name for which there is an entry
 * without a *. If path is a symbolic link, the file that it points to is replaced. It works while
 * an error is pending.
 *
 * A set of shards is replaced as one, like every folder that the library saves. First all files are
 * written and synced under temporary names, so a full disk changes nothing. Then a record of what
 * is to be renamed and removed, .cotangent-save, is put into the folder; then the old files are
 * removed, the index first, and the new ones renamed, the index last; then the record is removed.
 * If the program is killed, the next load or save in the folder finds the record and completes the
 * save. So a load at any time (ct_load, ct_safetensors_open) gets the whole old set or the whole
 * new one. Another program sees one of the two, or no index. Saves at the same time, of threads or
 * processes, are one after another. A folder with a record that cannot be written to is CT_ERR_IO.
 * In such a folder a symbolic link is replaced, and not the file that it points to. A single
 * model.safetensors in the folder is removed; shards of an old set with another number of files
 * stay.
 *
 * Errors: CT_ERR_IO; CT_ERR_ARGUMENT for text that is not UTF-8, a key that occurs twice, a
 * parameter named __metadata__, or a map that names no parameter of the module, leaves out rows,
 * has rows twice, or puts rows of different shapes or dtypes into one tensor. */
CT_API bool ct_save(ct_module *module, const char *path, ct_save_opts opts);

/* A tensor and its name. */
typedef struct {
    const char *name;
    ct_tensor *tensor;
} ct_named;

/* Saves n tensors of the context, of any dtypes and strides, as ct_save does. A name is any UTF-8
 * text except __metadata__, and all names differ. The .param of a map is one of these names. The
 * dtypes in the file are F32, F64, I64, BOOL and BF16. */
CT_API bool ct_tensors_save(ct_context *context, const char *path, const ct_named *tensors,
                            int64_t n, ct_save_opts opts);

/* ---- reading a file by hand ---- */

/* In every function that loads, path is one of
 *
 * - a safetensors file;
 * - an index of shards, whose name ends in .json;
 * - a folder with either model.safetensors or model.safetensors.index.json, not both.
 *
 * An index is JSON in which no object has a key twice. It may name only files of its own folder;
 * any other name is CT_ERR_FORMAT. A missing shard is CT_ERR_IO, and a tensor that its shard lacks
 * is CT_ERR_FORMAT. A tensor in a shard that the index does not name is ignored.
 *
 * A file of another format is CT_ERR_FORMAT, with the name of the format if its first bytes reveal
 * it: a git-lfs pointer, a pickle (PyTorch's .pt and .bin), an HTML page, GGUF, gzip, .npy, ... */
typedef struct ct_safetensors ct_safetensors;

/* Opens a file or a set of shards, and reads and checks the headers. The files stay open until
 * ct_safetensors_close or ct_context_free. It returns NULL after CT_ERR_IO, or after CT_ERR_FORMAT
 * with a description of the fault. A use after the close is CT_ERR_ARGUMENT. */
CT_API ct_safetensors *ct_safetensors_open(ct_context *context, const char *path);

typedef struct {
    const char *name;     /* valid until the close */
    const char *dtype;    /* the name in the file, such as "BF16" */
    ct_shape shape;       /* the first 8 dims, if there are more */
    uint64_t position[2]; /* the state of the iteration */
} ct_safetensors_entry;
/* Iterates over all tensors in the order of the header or index; the first call gets a zeroed
 * entry. Returns false, without an error, after the last tensor. */
CT_API bool ct_safetensors_next(ct_safetensors *file, ct_safetensors_entry *entry);

/* Reads a tensor into a new tensor of the innermost scope. F16, BF16 and F32 become f32, F64
 * becomes f64, I8 to I64 and U8 to U64 become i64, and BOOL becomes bool, all exactly.
 *
 * Errors: CT_ERR_ARGUMENT if there is no tensor of that name; CT_ERR_DTYPE for another dtype, or
 * for a number of U64 that exceeds i64; CT_ERR_SHAPE for more than 8 dims; CT_ERR_IO; CT_ERR_FORMAT
 * if the file has become shorter since it was opened, or a bool is neither 0 nor 1. */
CT_API ct_tensor *ct_safetensors_read(ct_safetensors *file, const char *name);

/* Returns the value of a metadata key, valid until the close. For a set of shards it is the value
 * in the first shard. Returns NULL, without an error, if there is no such key. */
CT_API const char *ct_safetensors_metadata(ct_safetensors *file, const char *key);
/* Closes the files. It does nothing for NULL, or if they are closed already. */
CT_API void ct_safetensors_close(ct_safetensors *file);

/* ---- loading ---- */

/* The result of matching a module with a file. Each count comes with the first four names that it
 * counts. The middle of a long name is left out; an unused name is "".
 *
 * loaded: parameters and buffers that were loaded.
 *
 * missing: parameters and buffers that the file lacks.
 *
 * unexpected: tensors of the file that no parameter or buffer needs.
 *
 * mismatched: parameters whose name is in the file with another shape or dtype, or which have
 * several names (tied weights) with different values in the file.
 *
 * ignored: tensors that would be unexpected, but match a pattern of ct_load_opts.ignore.
 *
 * square: parameters that are loaded from a square matrix without transposition, although the map
 * transposes other matrices with a side of that length. Perhaps .transposed was forgotten: the
 * shape of a square matrix fits with and without it, so this count is the only sign of the mistake.
 * (In GPT-2 c_attn, (768, 2304), fits only if it is transposed, but attn.c_proj, (768, 768), always
 * fits.) */
typedef struct {
    int64_t loaded, missing, unexpected, mismatched;
    char loaded_names[4][128], missing_names[4][128], unexpected_names[4][128],
        mismatched_names[4][128];
    int64_t ignored, square;
    char ignored_names[4][128], square_names[4][128];
} ct_load_report;

/* Prints a line for each count, such as "loaded 2: weight, bias"; for ignored and square only if
 * they are not 0. */
CT_API void ct_load_report_print(const ct_load_report *report, FILE *file);

typedef struct {
    /* only the parameters and buffers that the file has with the same name, shape and dtype are
     * loaded, and mismatches are no error. If there are none, the load fails */
    bool partial;
    const ct_load_map *map; /* [n_map] */
    int64_t n_map;
    ct_load_report *report; /* set after the headers are read, even if the load fails later */
    /* patterns of the names of tensors that count as ignored and not as unexpected: an array that
     * ends with NULL, such as {"h.*.attn.bias", NULL}; or NULL for none. * stands for any text and
     * ? for one character. A tensor that a parameter needs is loaded even if a pattern matches it;
     * but a shared parameter is loaded from another of its names, if the file has one that no
     * pattern matches. A pattern may match nothing */
    const char *const *ignore;
    /* the values are read into the parameters themselves, without the memory of a copy, but a load
     * that fails while it reads may have changed some of them: for a module that is freed then */
    bool in_place;
} ct_load_opts;

/* Loads parameters and persistent buffers by name. Shapes must be equal. Floats are converted to
 * the dtype of the parameter, and integers become i64. Without .partial the file must have every
 * parameter and persistent buffer, and no other tensor. A load that fails changes nothing, unless
 * .in_place is set.
 *
 * A shared parameter (tied weights) may have any of its names in the file. For each name the
 * file is searched by the map's entries for this name or, if there are none, for the name itself.
 * If the file has several of the names, their values must be equal after conversion. If they
 * differ, that is an error with both names; with .partial the parameter is mismatched and stays
 * unchanged.
 *
 * Errors: CT_ERR_IO; CT_ERR_FORMAT with the path and every mismatch, including rows of a parameter
 * that no entry of the map fills or that two entries fill; CT_ERR_ARGUMENT if an entry of the map
 * names no parameter. */
CT_API bool ct_load(ct_module *module, const char *path, ct_load_opts opts);

/* Copies the value of a metadata key to out, with a NUL at its end. A missing key, or a value
 * longer than size - 1, is CT_ERR_ARGUMENT. */
CT_API bool ct_load_metadata(ct_context *context, const char *path, const char *key, char *out,
                             size_t size);

/* ---- checkpoints ---- */

/* The state from which training resumes with the same bits (with the exception in other_bits). A
 * load restores the parameters and persistent buffers of the module, the states and options of the
 * optimisers (lr, weight decay, ...), the tensors, the random generator, and `step`.
 *
 * There must be as many optimisers as were saved, of the same kinds. An option in the file that the
 * constructor would refuse is CT_ERR_FORMAT. The groups of the parameters are replaced by the
 * groups in the file: a parameter that has no group in the file has none after the load, even if
 * ct_optim_group has set one before. A parameter that is frozen in the file has no state. A group
 * that is set after the load is kept. States become the optimiser's .state_dtype, whatever the file
 * has; with another one than the run began with the bits differ, and other_bits does not say so.
 *
 * The file has a checksum over all its bytes, which a load compares before it changes anything. A
 * flipped bit anywhere, or a file that was cut or appended to, is CT_ERR_FORMAT with both
 * checksums, and so is a file without a checksum. The checksum is the CRC-64 of xz, 16 hex digits
 * in the metadata "checksum", computed with '0' in place of each of these digits. Files that are
 * not checkpoints have no checksum.
 *
 * For inference a file that was saved with optimisers may be loaded without any. Such a load reads
 * the module, `step` and the given tensors, and leaves the generator unchanged. A save needs an
 * optimiser or a tensor. */
typedef struct {
    ct_module *module;
    ct_optim *optim;         /* an optimiser, or NULL */
    int64_t step;            /* 0 ... INT64_MAX - 1 */
    ct_optim *const *optims; /* [n_optims] further optimisers */
    int64_t n_optims;
    /* [n_tensors] tensors of the program; a number is a scalar. A load writes into them, and their
     * names, shapes and dtypes must equal those in the file */
    const ct_named *tensors;
    int64_t n_tensors;
    /* whether the file has only the parameters that require a gradient, and the buffers, as of a
     * large frozen model with a few trained matrices. A load with it leaves all other parameters as
     * they are, even if the file has values for them */
    bool trained;
    /* ct_dist_group of the ct_dist of one of the optimisers, or NULL if no optimiser has a ct_dist;
     * any other value is CT_ERR_ARGUMENT. All ranks save or load together, between two steps, and
     * an error of one rank is an error of all. Only rank 0 reads or writes the file, so other ranks
     * need no access to it. The file has the same bytes for any number of ranks, and has
     * ct_dist_steps. The number of ranks may change from a save to a load; shares and micro_batches
     * should not. At a save `step` and the optimisers of all ranks must be equal; otherwise it is
     * CT_ERR_ARGUMENT on all ranks */
    ct_checkpoint_group *group;
    /* a text that a load sets. It is "" if this context has the ct_fingerprint of the context that
     * saved, and so computes the same bits, or if the file has no fingerprint. Otherwise it is a
     * line with the instruction set, the compiler and the -O of both contexts: training continues,
     * but with different bits than without the stop. This is no error */
    char other_bits[224];
} ct_checkpoint;
CT_API bool ct_checkpoint_save(const char *path, ct_checkpoint *checkpoint);
CT_API bool ct_checkpoint_load(const char *path, ct_checkpoint *checkpoint);

#ifdef __cplusplus
}
#endif
#endif
