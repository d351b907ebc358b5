/* The files behind a path to load from: one safetensors file, the shards that an index lists, or
 * one GGUF file or the files of a split one. A save of shards is a save of a set (set.h) whose head
 * is the index, and removes a single file of the folder. A load is a reading of this set. */
#ifndef CTI_IO_SHARDS_H
#define CTI_IO_SHARDS_H

#include "gguf.h"
#include "safetensors.h"

/* The names that a load looks for in a folder: a single file, or the index of shards. */
#define CTI_MODEL_FILE  "model.safetensors"
#define CTI_MODEL_INDEX "model.safetensors.index.json"

/* The open files of a path, and all their tensors as one list. */
typedef struct {
    ct_context *context;
    const char *op;                 /* the operation for messages, the caller's as in cti_file */
    char *path;                     /* path of the single file or of the index */
    cti_safetensors *file;          /* [files] the open files with their headers; NULL for GGUF */
    cti_gguf *gguf;                 /* [files] those of GGUF, or NULL; the first has the metadata */
    char **file_path;               /* [files] their paths */
    int64_t files, room;            /* number of open files; capacity of the two arrays */
    const cti_file_tensor **tensor; /* [tensors] in the order of the header, or of the index */
    const void **by_name;           /* [tensors] pointers into .tensor, sorted by name */
    int64_t tensors;
    char **name; /* [names] the texts of names that cti_shards_set_name has given */
    int64_t names, name_room;
    bool checks; /* files are opened by cti_safetensors_open_checked */
    bool plain;  /* a GGUF file is refused */
} cti_shards;

/* Opens a file, an index (a name that ends in .json) or a folder with one of them. The shards that
 * are then open come from one save. A file that begins as GGUF is one, whatever its name; of a
 * split one the path is the first file, and all are opened. A folder without safetensors may have
 * one GGUF file, or one split one. Its tensors have GGUF's names, in the order of the files.
 * False: an error was recorded, and no file is open. */
bool cti_shards_open(ct_context *context, const char *op, const char *path, cti_shards *shards);
/* Does the same, but refuses a GGUF file. */
bool cti_shards_open_safetensors(ct_context *context, const char *op, const char *path,
                                 cti_shards *shards);
/* Does this by cti_safetensors_open_checked. A file without a checksum is no error here: the
 * caller looks at .file[i].checked, and may have a better message for such a file. */
bool cti_shards_open_checked(ct_context *context, const char *op, const char *path,
                             cti_shards *shards);
void cti_shards_close(cti_shards *shards);

/* Makes a reader of open files, which it closes. NULL: memory was short, and they are still the
 * caller's. */
ct_safetensors *cti_safetensors_of(const cti_shards *shards);

/* The index of a tensor in .tensor; -1, without an error, if none has the name. */
int64_t cti_shards_find(const cti_shards *shards, cti_text name);
/* The value of a metadata key of the first file; NULL, without an error, if it has no such key or
 * is GGUF. */
const cti_text *cti_shards_metadata(const cti_shards *shards, cti_text key);

/* Shows each tensor of GGUF files to the visit, which may give it another name, an order of rows
 * and an offset. Then the list is sorted and checked for names that are there twice, as by the
 * open. If the visit returns CTI_VISIT_DROP, the tensor leaves the list; if CTI_VISIT_FAIL, an
 * error was recorded and the result is false. The caller closes the shards in any case. */
typedef enum { CTI_VISIT_FAIL, CTI_VISIT_KEEP, CTI_VISIT_DROP } cti_visited;
typedef cti_visited cti_shards_visit(void *arg, cti_shards *shards, cti_file_tensor *tensor);
bool cti_shards_rename(cti_shards *shards, cti_shards_visit *visit, void *arg);
/* Gives a tensor a copy of the name, which lives until the shards are closed. False: memory was
 * short. */
bool cti_shards_set_name(cti_shards *shards, cti_file_tensor *tensor, const char *name);

/* An index is {"weight_map": {"the tensor's name": "its file", ...}, "metadata": ...} and may have
 * further members. All of it must be JSON in which no object has a key twice. (A tensor that is
 * twice in weight_map is found later, when the files are open.) */
typedef struct {
    cti_text name, file; /* a tensor and the file that has it */
} cti_index_entry;
/* A key outside of weight_map. */
typedef struct {
    int64_t object; /* number of the object that has the key; 0 for the index itself */
    cti_text key;
} cti_index_key;
typedef struct {
    const cti_file *file; /* the index's file, for messages */
    char *text;           /* [size + 1] the JSON; parsed in place and overwritten */
    size_t size;
    cti_index_entry *entry; /* [entries] the members of weight_map */
    int64_t entries, room;  /* room: capacity of entry */
    cti_index_key *key;     /* [keys] */
    int64_t keys, key_room; /* key_room: capacity of key */
} cti_index;
/* Fills in entry and key. .file, .text and .size are set by the caller, all else is zero. False:
 * CT_ERR_FORMAT was recorded, or memory was short. */
bool cti_index_parse(cti_index *index);
void cti_index_free(cti_index *index); /* frees entry and key */

#endif
