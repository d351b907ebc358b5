/* Writes a file, or a folder of shards with their index, in the order that shards.h lists. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../core/context.h"
#include "checksum.h"
#include "shards.h"

/* ---- one file ---- */

static bool save_file(ct_context *context, const char *op, const char *path, const ct_named *named,
                      int64_t n, ct_save_opts opts) {
    cti_file_new file;
    if (!cti_file_new_open(context, op, path, &file)) return false;
    cti_file_new_remove_dead(&file);
    if (cti_safetensors_write(&file, named, n, opts)) return cti_file_new_commit(&file);
    cti_file_new_drop(&file);
    return false;
}

bool cti_safetensors_save_checked(ct_context *context, const char *op, const char *path,
                                  const ct_named *named, int64_t n, const char *const *metadata) {
    const ct_save_opts opts = {.metadata = metadata};
    cti_file_new file;
    if (!cti_safetensors_check(context, op, path, named, n, opts) ||
        !cti_file_new_open(context, op, path, &file))
        return false;
    cti_file_new_remove_dead(&file);
    if (cti_checksum_begin(&file) && cti_safetensors_write(&file, named, n, opts) &&
        cti_checksum_end(&file))
        return cti_file_new_commit(&file);
    cti_file_new_drop(&file);
    return false;
}

/* ---- shards ---- */

enum { MOST_SHARDS = 99999, SHARD_NAME = 40 };

typedef struct {
    const ct_named *named; /* [n] */
    int64_t n;
    char name[SHARD_NAME], *path;
    cti_file_new file;
    bool open; /* `file` is neither committed nor dropped yet */
} shard;

typedef struct {
    ct_context *context;
    const char *op, *path; /* path: the folder */
    shard *shard;          /* [n] */
    int64_t n, total;      /* total: bytes of all tensors */
    char *index_path;
} shard_set;

/* The number of tensors in the next shard: as many as fit, at least one. */
static int64_t fitting(const ct_named *named, int64_t n, ct_save_opts opts) {
    int64_t i = 0;
    for (int64_t left = opts.shard_bytes; i < n; i++) {
        const int64_t bytes = cti_file_bytes(named[i].tensor, opts.floats);
        if (i > 0 && bytes > 0 && bytes > left) break;
        left -= bytes;
    }
    return i;
}

/* Sets the shards' tensors, names and paths. */
static bool divide_shards(shard_set *set, const ct_named *named, int64_t n, ct_save_opts opts) {
    set->n = n == 0;
    for (int64_t at = 0; at < n; set->n++) at += fitting(named + at, n - at, opts);
    if (set->n > MOST_SHARDS) {
        const int64_t shards = set->n;
        set->n = 0;
        return ct_fail(set->context, CT_ERR_ARGUMENT,
                       "%s: %s: shard_bytes of %lld makes %lld files, over %d", set->op, set->path,
                       (long long)opts.shard_bytes, (long long)shards, MOST_SHARDS);
    }
    set->shard = cti_take_zeroed(set->context, cti_bytes(set->n, sizeof *set->shard));
    set->index_path = set->shard ? cti_path_in(set->context, set->path, CTI_MODEL_INDEX) : NULL;
    if (!set->index_path) return false;
    for (int64_t i = 0, at = 0; i < set->n; i++) {
        shard *s = &set->shard[i];
        s->named = named + at;
        s->n = fitting(s->named, n - at, opts);
        at += s->n;
        snprintf(s->name, sizeof s->name, "model-%05d-of-%05d.safetensors", (int)i + 1,
                 (int)set->n);
        s->path = cti_path_in(set->context, set->path, s->name);
        if (!s->path) return false;
    }
    for (int64_t i = 0; i < n; i++) set->total += cti_file_bytes(named[i].tensor, opts.floats);
    return true;
}

static bool make_folder(const shard_set *set) {
    if (!cti_os_make_folder(set->path))
        return errno == EEXIST ||
               cti_file_fail(set->context, set->op, set->path, "cannot make the folder");
    return cti_file_sync_folder(set->context, set->op, set->path);
}

/* Writes and syncs the shards under temporary names. */
static bool write_shards(shard_set *set, ct_save_opts opts) {
    for (int64_t i = 0; i < set->n; i++) {
        shard *s = &set->shard[i];
        s->open = cti_file_new_open(set->context, set->op, s->path, &s->file);
        if (s->open && i == 0) cti_file_new_remove_dead(&s->file);
        if (!s->open || !cti_safetensors_write(&s->file, s->named, s->n, opts) ||
            !cti_file_new_sync(&s->file))
            return false;
    }
    return true;
}

static void write_index(const shard_set *set, cti_writer *out) {
    cti_write(out, "{\n  \"metadata\": {\n    \"total_size\": ");
    cti_write_natural(out, set->total);
    cti_write(out, "\n  },\n  \"weight_map\": {");
    const char *before = "\n    ";
    for (int64_t i = 0; i < set->n; i++)
        for (int64_t k = 0; k < set->shard[i].n; k++, before = ",\n    ") {
            cti_write(out, before);
            cti_write_quoted(out, cti_text_of(set->shard[i].named[k].name));
            cti_write(out, ": ");
            cti_write_quoted(out, cti_text_of(set->shard[i].name));
        }
    cti_write(out, "\n  }\n}\n");
}

/* Writes and syncs the index under a temporary name; the caller commits it. */
static bool new_index(const shard_set *set, cti_file_new *file) {
    cti_writer out = {0};
    write_index(set, &out);
    const size_t bytes = out.used;
    if (bytes > CTI_LARGEST_HEADER)
        return ct_fail(set->context, CT_ERR_ARGUMENT, "%s: %s: an index of %zu bytes, over %d",
                       set->op, set->index_path, bytes, CTI_LARGEST_HEADER);
    char *text = cti_take(set->context, bytes);
    if (!text) return false;
    out = (cti_writer){.at = text, .size = bytes};
    write_index(set, &out);
    bool ok = cti_file_new_open(set->context, set->op, set->index_path, file);
    if (ok && (!cti_file_new_write(file, text, bytes) || !cti_file_new_sync(file))) {
        cti_file_new_drop(file);
        ok = false;
    }
    cti_give(set->context, text, bytes);
    return ok;
}

/* Renames all files, the index last. If a shard of the old set is replaced, the old index is
 * removed before, so that no reader opens shards of both sets. */
static bool commit_shards(shard_set *set, cti_file_new *index) {
    bool replaces = false, ok = true;
    for (int64_t i = 0; i < set->n; i++) replaces |= set->shard[i].file.replaces;
    if (replaces && index->replaces) ok = cti_file_remove(set->context, set->op, index->target);
    for (int64_t i = 0; ok && i < set->n; i++) {
        set->shard[i].open = false;
        ok = cti_file_new_commit(&set->shard[i].file);
    }
    if (ok) return cti_file_new_commit(index);
    cti_file_new_drop(index);
    return false;
}

static bool save_shards(ct_context *context, const char *op, const char *path,
                        const ct_named *named, int64_t n, ct_save_opts opts) {
    shard_set set = {.context = context, .op = op, .path = path};
    cti_file_new index;
    const bool ok = divide_shards(&set, named, n, opts) && make_folder(&set) &&
                    write_shards(&set, opts) && new_index(&set, &index) &&
                    commit_shards(&set, &index);
    for (int64_t i = 0; set.shard && i < set.n; i++) {
        if (set.shard[i].open) cti_file_new_drop(&set.shard[i].file);
        cti_path_free(context, set.shard[i].path);
    }
    cti_give(context, set.shard, (size_t)set.n * sizeof *set.shard);
    cti_path_free(context, set.index_path);
    return ok;
}

bool cti_safetensors_save(ct_context *context, const char *op, const char *path,
                          const ct_named *named, int64_t n, ct_save_opts opts) {
    return cti_safetensors_check(context, op, path, named, n, opts) &&
           (opts.shard_bytes ? save_shards : save_file)(context, op, path, named, n, opts);
}
