/* What a path to load from stands for: one safetensors file, or the shards that an index lists. */
#ifndef CTI_IO_SHARDS_H
#define CTI_IO_SHARDS_H

#include "safetensors.h"

/* In a folder: the one file, or the index of the shards. */
#define CTI_MODEL_FILE  "model.safetensors"
#define CTI_MODEL_INDEX "model.safetensors.index.json"

/* folder + "/" + name, without a second slash, in a block of strlen + 1. NULL: out of memory. */
char *cti_path_in(ct_context *context, const char *folder, const char *name);
void cti_path_free(ct_context *context, char *path); /* or NULL */

/* All tensors of the files. */
typedef struct {
    ct_context *context;
    const char *op;        /* the caller's, as file.h has it */
    char *path;            /* of the file or the index */
    cti_safetensors *file; /* [files] with their headers */
    char **file_path;      /* [files] */
    int64_t files, room;
    const cti_file_tensor **tensor; /* [tensors] in the order of the header, or of the index */
    const void **by_name;           /* [tensors] sorted pointers into .tensor */
    int64_t tensors;
    bool checks; /* by cti_shards_open_checked */
} cti_shards;

/* Opens a file, an index (a name that ends in .json) or a folder with one of them. If files of a
 * set are replaced meanwhile, it starts again, so that all are of one save. False: an error was
 * recorded, and nothing is open. */
bool cti_shards_open(ct_context *context, const char *op, const char *path, cti_shards *shards);
/* The same by cti_safetensors_open_checked; CT_ERR_FORMAT where a file has no checksum is left to
 * the caller, who may know better what is wrong: see .file[i].checked. */
bool cti_shards_open_checked(ct_context *context, const char *op, const char *path,
                             cti_shards *shards);
void cti_shards_close(cti_shards *shards);

/* The number of a tensor in .tensor; -1, with no error: none of the name. */
int64_t cti_shards_find(const cti_shards *shards, cti_text name);
/* Of the first file; NULL, with no error: no such key. */
const cti_text *cti_shards_metadata(const cti_shards *shards, cti_text key);

/* An index: {"weight_map": {"the tensor's name": "its file", ...}, "metadata": ...}; other members
 * may be there. All of it must be JSON in which no object has a key twice (a tensor that is there
 * twice is found when the files are open). The text is parsed in place and overwritten. False with
 * CT_ERR_FORMAT. */
typedef struct {
    cti_text name, file;
} cti_index_entry;
typedef struct {
    int64_t object; /* its number; 0: the index itself */
    cti_text key;
} cti_index_key; /* of what is not read */
typedef struct {
    const cti_file *file; /* for messages */
    char *text;           /* [size + 1] */
    size_t size;
    cti_index_entry *entry;
    int64_t entries, room;
    cti_index_key *key;
    int64_t keys, key_room;
} cti_index;
bool cti_index_parse(cti_index *index);
void cti_index_free(cti_index *index); /* its entries and keys */

#endif
