/* The files behind a path to load from: one safetensors file, or the shards that an index lists.
 * This page also has the order in which a set of shards is replaced and read.
 *
 * These are the steps of a save of a set (save_shards.c). The columns on the right have the set
 * that a load finds after each step. A collision is a new shard whose name a file of the folder has
 * already; the name has the number of shards in it.
 *
 *     step                                                    collision       no collision
 *     1 make the folder if it is missing
 *     2 write and sync each shard under a temporary name
 *     3 write and sync the index under a temporary name       old set         old set
 *     4 if there is a collision, remove the old index         none            old set
 *     5 rename the shards, one after another                  none            old set
 *     6 rename the index                                      new set         new set
 *
 * A load that finds none fails with CT_ERR_IO.
 *
 * A load of a set (shards.c):
 *
 *     a open the index and read it
 *     b open each shard that it lists
 *     c check that the index's path still names the file of step a; if it does not, close all files
 *       and go back to a, at most 4 times
 *
 * Invariants, while at most one save at a time writes into the folder:
 * 1. A save that fails in steps 1 to 3 changes no file of the old set. These steps write all bytes,
 *    so a full disk fails in them.
 * 2. While the folder has an index, each shard that it lists is of the save that wrote the index:
 *    step 4 comes before the first rename that could replace such a shard, step 6 after the last.
 * 3. An index that was removed never comes back, and no other file can have its inode number while
 *    the load has it open. So if c finds the same file, it was in the folder during all of b, and
 *    by 2 all open shards are of one save.
 * 4. Every step is synced before the next one (file.h), so 2 holds after a power failure too.
 * 5. A save that was killed in steps 4 to 6 leaves the old set, no index, or the new set. Shards
 *    without an index are never loaded. The next save replaces them or leaves them in the folder.
 * Open files stay readable after they were replaced or removed, so a load needs no lock. */
#ifndef CTI_IO_SHARDS_H
#define CTI_IO_SHARDS_H

#include "safetensors.h"

/* The names that a load looks for in a folder: a single file, or the index of shards. */
#define CTI_MODEL_FILE  "model.safetensors"
#define CTI_MODEL_INDEX "model.safetensors.index.json"

/* Returns folder + "/" + name, without a second slash, in a block of strlen + 1; NULL if memory is
 * short. */
char *cti_path_in(ct_context *context, const char *folder, const char *name);
void cti_path_free(ct_context *context, char *path); /* path may be NULL */

/* The open files of a path, and all their tensors as one list. */
typedef struct {
    ct_context *context;
    const char *op;                 /* the operation for messages, the caller's as in cti_file */
    char *path;                     /* path of the single file or of the index */
    cti_safetensors *file;          /* [files] the open files with their headers */
    char **file_path;               /* [files] their paths */
    int64_t files, room;            /* number of open files; capacity of the two arrays */
    const cti_file_tensor **tensor; /* [tensors] in the order of the header, or of the index */
    const void **by_name;           /* [tensors] pointers into .tensor, sorted by name */
    int64_t tensors;
    bool checks; /* files are opened by cti_safetensors_open_checked */
} cti_shards;

/* Opens a file, an index (a name that ends in .json) or a folder with one of them. All shards that
 * are open afterwards are of one save. False: an error was recorded, and no file is open. */
bool cti_shards_open(ct_context *context, const char *op, const char *path, cti_shards *shards);
/* Does the same by cti_safetensors_open_checked. A file without a checksum is no error here: the
 * caller looks at .file[i].checked, and may have a better message for such a file. */
bool cti_shards_open_checked(ct_context *context, const char *op, const char *path,
                             cti_shards *shards);
void cti_shards_close(cti_shards *shards);

/* The index of a tensor in .tensor; -1, without an error, if none has the name. */
int64_t cti_shards_find(const cti_shards *shards, cti_text name);
/* The value of a metadata key of the first file; NULL, without an error, if it has no such key. */
const cti_text *cti_shards_metadata(const cti_shards *shards, cti_text key);

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
