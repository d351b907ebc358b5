/* Writes a file, or a set of shards with their index (set.h). */
#include <stdio.h>
#include <string.h>

#include "../core/context.h"
#include "checksum.h"
#include "set.h"
#include "shards.h"

/* ---- one file ---- */

static bool save_file(ct_context *context, const char *op, const char *path, const ct_named *named,
                      int64_t n, ct_save_opts opts) {
    cti_file_new file;
    if (!cti_set_settle(context, op, path) || !cti_file_new_open(context, op, path, &file))
        return false;
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
static bool shards_divide(shard_set *set, const ct_named *named, int64_t n, ct_save_opts opts) {
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

/* Writes the shards, which wait for the end of the set. */
static bool shards_write(const shard_set *set, ct_save_opts opts) {
    for (int64_t i = 0; i < set->n; i++) {
        const shard *s = &set->shard[i];
        if (!save_file(set->context, set->op, s->path, s->named, s->n, opts)) return false;
    }
    return true;
}

static void index_write(const shard_set *set, cti_writer *out) {
    cti_string_write(out, "{\n  \"metadata\": {\n    \"total_size\": ");
    cti_natural_write(out, set->total);
    cti_string_write(out, "\n  },\n  \"weight_map\": {");
    const char *before = "\n    ";
    for (int64_t i = 0; i < set->n; i++)
        for (int64_t k = 0; k < set->shard[i].n; k++, before = ",\n    ") {
            cti_string_write(out, before);
            cti_quoted_write(out, cti_text_of(set->shard[i].named[k].name));
            cti_string_write(out, ": ");
            cti_quoted_write(out, cti_text_of(set->shard[i].name));
        }
    cti_string_write(out, "\n  }\n}\n");
}

/* Writes the index, the head of the set. */
static bool save_index(const shard_set *set) {
    cti_writer out = {0};
    index_write(set, &out);
    const size_t bytes = out.used;
    if (bytes > CTI_LARGEST_HEADER)
        return ct_fail(set->context, CT_ERR_ARGUMENT, "%s: %s: an index of %zu bytes, over %d",
                       set->op, set->index_path, bytes, CTI_LARGEST_HEADER);
    char *text = cti_take(set->context, bytes);
    if (!text) return false;
    out = (cti_writer){.at = text, .size = bytes};
    index_write(set, &out);
    const bool ok = cti_file_write(set->context, set->op, set->index_path, text, bytes);
    cti_give(set->context, text, bytes);
    return ok;
}

static bool save_shards(ct_context *context, const char *op, const char *path,
                        const ct_named *named, int64_t n, ct_save_opts opts) {
    shard_set shards = {.context = context, .op = op, .path = path};
    cti_set set;
    bool ok = shards_divide(&shards, named, n, opts) && cti_set_begin(context, op, path, &set);
    if (ok)
        ok = cti_set_end(&set, shards_write(&shards, opts) &&
                                   cti_set_remove(context, op, CTI_MODEL_FILE) &&
                                   save_index(&shards));
    for (int64_t i = 0; shards.shard && i < shards.n; i++)
        cti_path_free(context, shards.shard[i].path);
    cti_give(context, shards.shard, (size_t)shards.n * sizeof *shards.shard);
    cti_path_free(context, shards.index_path);
    return ok;
}

bool cti_safetensors_save(ct_context *context, const char *op, const char *path,
                          const ct_named *named, int64_t n, ct_save_opts opts) {
    return cti_safetensors_check(context, op, path, named, n, opts) &&
           (opts.shard_bytes ? save_shards : save_file)(context, op, path, named, n, opts);
}
