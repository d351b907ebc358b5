/* Opens the files behind a path: a single file, the shards of an index, or GGUF files. Their
 * tensors become one list. */
#include "shards.h"

#include <string.h>

#include "../core/context.h"
#include "gguf_split.h"
#include "kind.h"
#include "list.h"
#include "set.h"

/* ---- paths ---- */

static char *beside(ct_context *context, const char *path, const char *name) {
    const size_t length = cti_os_folder_length(path), size = strlen(name) + 1;
    char *made = cti_take(context, length + size);
    if (!made) return NULL;
    memcpy(made, path, length);
    memcpy(made + length, name, size);
    return made;
}

/* Whether the path exists. If this cannot be found out, *ok is set to false. */
static bool exists(ct_context *context, const char *op, const char *path, bool *ok) {
    cti_os_about about;
    *ok = cti_file_find(context, op, path, &about) && *ok;
    return *ok && about.kind != CTI_OS_ABSENT;
}

#define PICKLE_THERE                                                                               \
    "; its pytorch_model.bin is a pickle: in Python, "                                             \
    "safetensors.torch.save_file(torch.load(...), "                                                \
    "path) writes it as safetensors"

static bool has_pickle(ct_context *context, const char *folder) {
    char *path = cti_path_in(context, folder, "pytorch_model.bin");
    cti_os_about about; /* a failure only leaves out the advice */
    const bool found = path && cti_os_about_path(path, &about);
    cti_path_free(context, path);
    return found;
}

/* The path of the single file or of the index in a folder, or of the GGUF file. */
static char *shards_find_in(const cti_shards *shards, const char *folder) {
    ct_context *context = shards->context;
    const char *op = shards->op;
    char *file = cti_path_in(context, folder, CTI_MODEL_FILE),
         *index = file ? cti_path_in(context, folder, CTI_MODEL_INDEX) : NULL, *found = NULL;
    bool ok = index != NULL;
    const bool file_there = ok && exists(context, op, file, &ok),
               index_there = ok && exists(context, op, index, &ok);
    if (ok && file_there && index_there) {
        ct_fail(context, CT_ERR_FORMAT,
                "%s: %s: the folder has " CTI_MODEL_FILE " and " CTI_MODEL_INDEX "; name one", op,
                folder);
    } else if (ok && (file_there || index_there)) {
        found = file_there ? file : index;
    } else if (ok && (shards->plain || cti_gguf_find_in(context, op, folder, &found)) && !found) {
        ct_fail(context, CT_ERR_IO,
                "%s: %s: is a folder with neither " CTI_MODEL_FILE " nor " CTI_MODEL_INDEX "%s", op,
                folder, has_pickle(context, folder) ? PICKLE_THERE : "");
    }
    if (found != file) cti_path_free(context, file);
    if (found != index) cti_path_free(context, index);
    return found;
}

static bool is_index(const char *path) {
    const size_t size = strlen(path);
    return size >= 5 && strcmp(path + size - 5, ".json") == 0;
}

/* ---- one list of tensors ---- */

static bool files_take(cti_shards *shards, int64_t n) {
    shards->file = cti_take_zeroed(shards->context, cti_bytes(n, sizeof *shards->file));
    shards->file_path =
        shards->file ? cti_take_zeroed(shards->context, cti_bytes(n, sizeof *shards->file_path))
                     : NULL;
    shards->room = n;
    return shards->file_path != NULL;
}

static bool tensors_take(cti_shards *shards, int64_t n) {
    const size_t bytes = cti_bytes(n, sizeof(void *));
    shards->tensors = n;
    shards->tensor = cti_take(shards->context, bytes);
    shards->by_name = shards->tensor ? cti_take(shards->context, bytes) : NULL;
    return shards->by_name != NULL;
}

/* Opens the next file. The path belongs to `shards` from then on, also if the open fails. */
static bool file_open(cti_shards *shards, char *path) {
    if (!path) return false;
    shards->file_path[shards->files] = path;
    cti_safetensors *file = &shards->file[shards->files++];
    return (shards->checks ? cti_safetensors_open_checked
                           : cti_safetensors_open)(shards->context, shards->op, path, file);
}

static int shard_tensor_by_name(const void *a, const void *b) {
    const cti_file_tensor *const *x = a, *const *y = b;
    return cti_text_compare((*x)->name, (*y)->name);
}

static bool names_sort(cti_shards *shards) {
    const int64_t n = shards->tensors;
    for (int64_t i = 0; i < n; i++) shards->by_name[i] = &shards->tensor[i];
    if (!cti_list_sort(shards->context, shards->by_name, n, shard_tensor_by_name)) return false;
    const cti_file_tensor *const *repeat =
        cti_list_repeat(shards->by_name, n, shard_tensor_by_name);
    return !repeat ||
           ct_fail(shards->context, CT_ERR_FORMAT, "%s: %s: tensor \"%s\" is there twice",
                   shards->op, shards->path, NAME((*repeat)->name));
}

static bool shard_open(cti_shards *shards) {
    if (!files_take(shards, 1) ||
        !file_open(shards, cti_string_take(shards->context, shards->path)) ||
        !tensors_take(shards, shards->file[0].tensors))
        return false;
    for (int64_t i = 0; i < shards->tensors; i++) shards->tensor[i] = &shards->file[0].tensor[i];
    return names_sort(shards);
}

/* ---- GGUF ---- */

/* Opens file i, whose path belongs to `shards` from then on. */
static bool gguf_file_open(cti_shards *shards, int64_t i, char *path) {
    shards->file_path[i] = path;
    return path && cti_gguf_open(shards->context, shards->op, path, &shards->gguf[i]);
}

/* Whether all files of the set are there: no memory is taken for more files than there are. */
static bool set_is_there(const cti_gguf *first, const cti_gguf_split *split) {
    bool ok = true;
    for (int64_t i = 1; ok && i < split->count; i++) {
        char *path = cti_gguf_split_path(first, split, i);
        ok = path != NULL;
        if (ok && !exists(first->context, first->op, path, &ok) && ok)
            ok = ct_fail(first->context, CT_ERR_IO,
                         "%s: %s: cannot open: No such file, and %s is the first of %lld",
                         first->op, path, first->path, (long long)split->count);
        cti_path_free(first->context, path);
    }
    return ok;
}

/* Opens the first file by itself, to learn how many there are. */
static bool split_look(const cti_shards *shards, cti_gguf_split *split) {
    cti_gguf first;
    if (!cti_gguf_open(shards->context, shards->op, shards->path, &first)) return false;
    const bool ok = cti_gguf_split_first(&first, split) && set_is_there(&first, split);
    cti_gguf_close(&first);
    return ok;
}

static bool gguf_list(cti_shards *shards) {
    int64_t tensors = 0, at = 0;
    for (int64_t i = 0; i < shards->files; i++) tensors += shards->gguf[i].tensors;
    if (!tensors_take(shards, tensors)) return false;
    for (int64_t i = 0; i < shards->files; i++)
        for (int64_t k = 0; k < shards->gguf[i].tensors; k++)
            shards->tensor[at++] = &shards->gguf[i].tensor[k];
    return names_sort(shards);
}

static bool gguf_open(cti_shards *shards) {
    cti_gguf_split split;
    if (!split_look(shards, &split)) return false;
    shards->gguf = cti_take_zeroed(shards->context, cti_bytes(split.count, sizeof *shards->gguf));
    shards->file_path =
        shards->gguf
            ? cti_take_zeroed(shards->context, cti_bytes(split.count, sizeof *shards->file_path))
            : NULL;
    if (!shards->file_path) {
        cti_give(shards->context, shards->gguf, (size_t)split.count * sizeof *shards->gguf);
        shards->gguf = NULL;
        return false;
    }
    shards->room = split.count;
    int64_t tensors = 0;
    for (int64_t i = 0; i < split.count; i++) {
        char *path = i == 0 ? cti_string_take(shards->context, shards->path)
                            : cti_gguf_split_path(&shards->gguf[0], &split, i);
        shards->files++;
        if (!gguf_file_open(shards, i, path) || !cti_gguf_split_check(&shards->gguf[i], &split, i))
            return false;
        tensors += shards->gguf[i].tensors;
    }
    return cti_gguf_split_sum(&shards->gguf[0], &split, tensors) && gguf_list(shards);
}

bool cti_shards_set_name(cti_shards *shards, cti_file_tensor *tensor, const char *name) {
    char **more = cti_list_grow(shards->context, shards->name, shards->names, &shards->name_room,
                                sizeof *shards->name);
    if (!more) return false;
    shards->name = more;
    char *copy = cti_string_take(shards->context, name);
    if (!copy) return false;
    shards->name[shards->names++] = copy;
    tensor->name = cti_text_of(copy);
    return true;
}

bool cti_shards_rename(cti_shards *shards, cti_shards_visit *visit, void *arg) {
    const size_t had = cti_bytes(shards->tensors, sizeof(void *));
    CTI_ASSERT(shards->gguf);
    cti_give(shards->context, shards->tensor, had);
    cti_give(shards->context, shards->by_name, had);
    shards->tensor = NULL;
    shards->by_name = NULL;
    shards->tensors = 0;
    for (int64_t i = 0; i < shards->files; i++) {
        cti_gguf *file = &shards->gguf[i];
        int64_t kept = 0;
        for (int64_t k = 0; k < file->tensors; k++) {
            const cti_visited visited = visit(arg, shards, &file->tensor[k]);
            if (visited == CTI_VISIT_FAIL) return false;
            if (visited == CTI_VISIT_KEEP) file->tensor[kept++] = file->tensor[k];
        }
        file->tensors = kept;
    }
    return gguf_list(shards);
}

/* ---- an index ---- */

static int by_file(const void *a, const void *b) {
    return cti_text_compare(((const cti_index_entry *)a)->file, ((const cti_index_entry *)b)->file);
}

/* Opens a file that the index names. */
static bool shards_open_named(cti_shards *shards, cti_text name) {
    char *path = beside(shards->context, shards->path, name.at);
    bool ok = path != NULL;
    if (!ok || exists(shards->context, shards->op, path, &ok)) return file_open(shards, path);
    if (ok)
        ct_fail(shards->context, CT_ERR_IO,
                "%s: %s: cannot open: No such file, although %s names it", shards->op, path,
                shards->path);
    cti_path_free(shards->context, path);
    return false;
}

/* Opens each file that the entries name, and finds their tensors. The entries are sorted by file.
 */
static bool shards_open_sorted(cti_shards *shards, const cti_index *index,
                               const void *const *entry) {
    int64_t files = 0;
    for (int64_t i = 0; i < index->entries; i++)
        files += i == 0 || by_file(entry[i - 1], entry[i]) != 0;
    if (!files_take(shards, files) || !tensors_take(shards, index->entries)) return false;
    for (int64_t i = 0; i < index->entries; i++) {
        const cti_index_entry *at = entry[i];
        if ((i == 0 || by_file(entry[i - 1], at) != 0) && !shards_open_named(shards, at->file))
            return false;
        const cti_safetensors *file = &shards->file[shards->files - 1];
        const cti_file_tensor *tensor = cti_safetensors_find(file, at->name);
        if (!tensor)
            return ct_fail(shards->context, CT_ERR_FORMAT,
                           "%s: %s: has no tensor \"%s\", which the index puts there", shards->op,
                           file->file.path, NAME(at->name));
        shards->tensor[at - index->entry] = tensor;
    }
    return names_sort(shards);
}

static bool shards_open_listed(cti_shards *shards, const cti_index *index) {
    const size_t bytes = cti_bytes(index->entries, sizeof(void *));
    const void **entry = cti_take(shards->context, bytes);
    for (int64_t i = 0; entry && i < index->entries; i++) entry[i] = &index->entry[i];
    const bool ok = entry && cti_list_sort(shards->context, entry, index->entries, by_file) &&
                    shards_open_sorted(shards, index, entry);
    cti_give(shards->context, entry, bytes);
    return ok;
}

/* Refuses a file of a known other kind with that kind's name. JSON and plain texts pass: the parser
 * reports the byte at which such a text is no index. */
static bool check_begin(const cti_index *index) {
    const unsigned char *begin = (unsigned char *)index->text;
    const size_t n = index->size < CTI_KIND_BYTES ? index->size : CTI_KIND_BYTES;
    if (n == 0)
        return ct_fail(index->file->context, CT_ERR_FORMAT,
                       "%s: %s: is not an index of safetensors files: the file is empty",
                       index->file->op, index->file->path);
    const cti_kind *kind = cti_kind_of(begin, n, index->file->size, false);
    return !kind || cti_kind_is_text(kind) ||
           !cti_kind_refuse(index->file, begin, n, "an index of safetensors files");
}

static bool index_read(cti_shards *shards, const cti_file *file) {
    if (file->size > CTI_LARGEST_HEADER)
        return ct_fail(shards->context, CT_ERR_FORMAT,
                       "%s: %s: is not an index of safetensors files: it has %lld bytes, over %d",
                       shards->op, shards->path, (long long)file->size, CTI_LARGEST_HEADER);
    cti_index index = {.file = file, .size = (size_t)file->size};
    index.text = cti_take(shards->context, index.size + 1);
    const bool ok = index.text && cti_file_read(file, 0, index.text, index.size) &&
                    check_begin(&index) && cti_index_parse(&index) &&
                    shards_open_listed(shards, &index);
    cti_index_free(&index);
    cti_give(shards->context, index.text, index.size + 1);
    return ok;
}

static bool index_open(cti_shards *shards) {
    cti_file file;
    if (!cti_file_open(shards->context, shards->op, shards->path, &file)) return false;
    const bool ok = index_read(shards, &file);
    cti_file_close(&file);
    return ok;
}

void cti_shards_close(cti_shards *shards) {
    ct_context *context = shards->context;
    const size_t names = (size_t)shards->tensors * sizeof(void *);
    for (int64_t i = 0; i < shards->files; i++) {
        if (shards->file && shards->file[i].file.context) cti_safetensors_close(&shards->file[i]);
        if (shards->gguf && shards->gguf[i].context) cti_gguf_close(&shards->gguf[i]);
        cti_path_free(context, shards->file_path[i]);
    }
    for (int64_t i = 0; i < shards->names; i++) cti_path_free(context, shards->name[i]);
    cti_give(context, shards->name, (size_t)shards->name_room * sizeof *shards->name);
    cti_give(context, shards->file, (size_t)shards->room * sizeof *shards->file);
    cti_give(context, shards->gguf, (size_t)shards->room * sizeof *shards->gguf);
    cti_give(context, shards->file_path, (size_t)shards->room * sizeof *shards->file_path);
    cti_give(context, shards->tensor, names);
    cti_give(context, shards->by_name, names);
    cti_path_free(context, shards->path);
    *shards = (cti_shards){
        .context = context, .op = shards->op, .checks = shards->checks, .plain = shards->plain};
}

/* Opens what a path leads to, once. */
static bool shards_open_found(cti_shards *shards, const char *path, bool is_folder) {
    shards->path =
        is_folder ? shards_find_in(shards, path) : cti_string_take(shards->context, path);
    if (!shards->path) return false;
    bool is_gguf = false;
    if (!shards->plain && !cti_gguf_is(shards->context, shards->op, shards->path, &is_gguf))
        return false;
    if (is_gguf) return gguf_open(shards);
    return (is_index(shards->path) ? index_open : shard_open)(shards);
}

/* Opens what the path leads to. The caller has set context, op, checks and plain. */
static bool shards_open(cti_shards *shards, const char *path) {
    ct_context *context = shards->context;
    const char *op = shards->op;
    cti_os_about about;
    if (!cti_file_find(context, op, path, &about)) return false;
    const bool is_folder = about.kind == CTI_OS_FOLDER;
    char *folder = is_folder ? cti_string_take(context, path) : cti_path_folder(context, path);
    const char *name = is_index(path) ? path + cti_os_folder_length(path) : NULL;
    cti_set_reading reading = {
        .context = context,
        .op = op,
        .folder = folder,
        .head = {is_folder ? CTI_MODEL_INDEX : name, is_folder ? CTI_MODEL_FILE : NULL}};
    bool ok = false, again = folder != NULL;
    while (again && cti_set_read_begin(&reading)) {
        ok = cti_set_read_end(&reading, shards_open_found(shards, path, is_folder), &again);
        if (!ok) cti_shards_close(shards);
    }
    cti_path_free(context, folder);
    return ok;
}

bool cti_shards_open(ct_context *context, const char *op, const char *path, cti_shards *shards) {
    *shards = (cti_shards){.context = context, .op = op};
    return shards_open(shards, path);
}

bool cti_shards_open_safetensors(ct_context *context, const char *op, const char *path,
                                 cti_shards *shards) {
    *shards = (cti_shards){.context = context, .op = op, .plain = true};
    return shards_open(shards, path);
}

bool cti_shards_open_checked(ct_context *context, const char *op, const char *path,
                             cti_shards *shards) {
    *shards = (cti_shards){.context = context, .op = op, .checks = true, .plain = true};
    return shards_open(shards, path);
}

int64_t cti_shards_find(const cti_shards *shards, cti_text name) {
    const cti_file_tensor named = {.name = name}, *key = &named;
    const cti_file_tensor *const *found =
        cti_list_find(shards->by_name, shards->tensors, &key, shard_tensor_by_name);
    return found ? found - shards->tensor : -1;
}

const cti_text *cti_shards_metadata(const cti_shards *shards, cti_text key) {
    return shards->file && shards->files ? cti_safetensors_metadata(&shards->file[0], key) : NULL;
}
