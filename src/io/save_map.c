/* A save by a map. For each name that it matches, an entry makes a slice: rows of a tensor, and the
 * place of these rows in a tensor of the file. A group is the slices of one tensor of the file. If
 * a group is a single slice, the file's tensor is a view of the slice's tensor, otherwise a copy of
 * all its slices.
 *
 * In a load, .rows of 0 means all rows that the file has. In a save the file's tensor does not
 * exist yet. The entries for a name must have each of its rows once, so an entry with .rows of 0
 * has the rows up to the first row of the next entry. */
#include "save_map.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../core/block_matrix.h"
#include "list.h"
#include "safetensors.h"

/* Rows [start, start + rows) of a tensor, which become rows [file_start, file_start + rows) of the
 * tensor `file` of the file. */
typedef struct {
    char *file; /* a block of strlen + 1 */
    const char *name;
    ct_tensor *tensor;
    int64_t start, file_start, rows;
    bool transposed; /* the group's tensor is transposed after its rows were put together */
} save_slice;

/* A tensor of the file: slices [first, first + n) in sorted order. */
typedef struct {
    int64_t first, n, turn; /* turn: the least index of its slices before they were sorted */
    ct_shape shape;         /* the shape before it is transposed */
} save_group;

typedef struct {
    ct_context *context;
    const char *op, *path;
    bool same; /* whether floats keep their dtype */
    cti_name_map map;
    bool *used;        /* [map.n] the entry matches a name */
    save_slice *slice; /* [slices] */
    int64_t slices, room;
} saving;

static int64_t save_rows(const ct_tensor *tensor) {
    return tensor->shape.ndim ? tensor->shape.dim[0] : 1;
}

/* ---- the slices of each name ---- */

CT_FORMAT(2, 3) static bool save_refuse(const saving *s, const char *format, ...) {
    char what[2 * CTI_NAME_TEXT + 2 * CTI_SHAPE_TEXT + 512];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return ct_fail(s->context, CT_ERR_ARGUMENT, "%s: %s: %s", s->op, s->path, what);
}

/* Adds a slice. Its .file belongs to this function, which frees it if the slice cannot be added. */
static bool save_add(saving *s, save_slice slice) {
    if (!slice.file) return false;
    save_slice *more = cti_list_grow(s->context, s->slice, s->slices, &s->room, sizeof *more);
    if (!more) {
        cti_give(s->context, slice.file, strlen(slice.file) + 1);
        return false;
    }
    s->slice = more;
    s->slice[s->slices++] = slice;
    return true;
}

/* Sets the rows of a name's slices whose entries have .rows of 0. */
static void save_set_rows(save_slice *slice, int64_t n, int64_t rows) {
    for (int64_t k = 0; k < n; k++) {
        if (slice[k].rows) continue;
        int64_t end = rows;
        for (int64_t other = 0; other < n; other++)
            if (slice[other].start > slice[k].start && slice[other].start < end)
                end = slice[other].start;
        slice[k].rows = end > slice[k].start ? end - slice[k].start : 0;
    }
}

/* Whether a name's slices have each row of its tensor once. */
static bool save_check_rows(const saving *s, const save_slice *slice, int64_t n) {
    const int64_t rows = save_rows(slice->tensor);
    for (int64_t k = 0; k < n; k++) {
        const long long start = slice[k].start;
        if (slice[k].transposed && slice->tensor->shape.ndim != 2)
            return save_refuse(s, "%s has shape %s, and only a matrix is transposed", slice->name,
                               SHAPE(slice->tensor->shape));
        if (slice[k].start > rows || slice[k].rows > rows - slice[k].start)
            return save_refuse(s,
                               "%s has %lld rows, and an entry of the map takes %lld from %lld on",
                               slice->name, (long long)rows, (long long)slice[k].rows, start);
        for (int64_t other = 0; other < n; other++)
            if (other != k && slice[other].start >= slice[k].start &&
                slice[other].start < slice[k].start + slice[k].rows && slice[other].rows)
                return save_refuse(s, "%s: two entries of the map take its rows from %lld on",
                                   slice->name, (long long)slice[other].start);
    }
    int64_t end = 0;
    for (int64_t k = 0; k < n; k++)
        if (slice[k].start == end && slice[k].rows) {
            end += slice[k].rows;
            k = -1; /* starts again: the next slice may have a lower index */
        }
    return end == rows || save_refuse(s, "%s: no entry of the map takes its rows from %lld on",
                                      slice->name, (long long)end);
}

/* Adds the slices of one name of a tensor. If there are any, *mapped becomes true. If it is true
 * already, by an earlier name of the tensor, entries with a * do not count. Nor do they count for a
 * further name of the tensor if an entry without a * has it. */
static bool save_add_name(saving *s, const char *name, ct_tensor *tensor, bool further,
                          bool *mapped) {
    const bool exact = (further || *mapped) && cti_name_map_calls(&s->map, name);
    const int64_t first = s->slices;
    cti_text text;
    for (int64_t k = 0; k < s->map.n; k++) {
        const ct_load_map *entry = &s->map.entry[k];
        if (!cti_name_map_matches(entry, name, &text)) continue;
        s->used[k] = true;
        if ((exact || *mapped) && strcmp(entry->param, name) != 0) continue;
        const save_slice slice = {.file = cti_name_map_file(s->context, entry, text),
                                  .name = name,
                                  .tensor = tensor,
                                  .start = entry->param_start,
                                  .file_start = entry->file_start,
                                  .rows = entry->rows,
                                  .transposed = entry->transposed};
        if (!save_add(s, slice)) return false;
    }
    const int64_t n = s->slices - first;
    if (n == 0) return true;
    *mapped = true;
    save_set_rows(&s->slice[first], n, save_rows(tensor));
    return save_check_rows(s, &s->slice[first], n);
}

static bool save_add_all(saving *s, const ct_named *named, int64_t n, const cti_other_name *other,
                         int64_t others) {
    for (int64_t i = 0; i < n; i++) {
        bool mapped = false;
        ct_tensor *tensor = named[i].tensor;
        if (!save_add_name(s, named[i].name, tensor, false, &mapped)) return false;
        for (int64_t k = 0; k < others; k++)
            if (other[k].of == i && !save_add_name(s, other[k].name, tensor, true, &mapped))
                return false;
        const save_slice whole = {.file =
                                      mapped ? NULL : cti_string_take(s->context, named[i].name),
                                  .name = named[i].name,
                                  .tensor = tensor,
                                  .rows = save_rows(tensor)};
        if (!mapped && !save_add(s, whole)) return false;
    }
    for (int64_t k = 0; k < s->map.n; k++)
        if (!s->used[k]) return cti_name_map_refuse(&s->map, k, "no parameter has such a name");
    return true;
}

/* ---- the tensors of the file ---- */

/* Orders slices by the file's tensor, then by their place in it. Equal slices stay in the order in
 * which they were added, because the sort is stable. */
static int by_place(const void *a, const void *b) {
    const save_slice *x = a, *y = b;
    const int order = strcmp(x->file, y->file);
    if (order) return order;
    if (x->file_start != y->file_start) return x->file_start < y->file_start ? -1 : 1;
    return (x->rows > y->rows) - (x->rows < y->rows); /* a slice without rows comes first */
}

static int by_turn(const void *a, const void *b) {
    const save_group *x = a, *y = b;
    return (x->turn > y->turn) - (x->turn < y->turn);
}

/* Whether two slices can be rows of one tensor of the file: dtype, transposition and all dims but
 * the first must agree. */
static bool save_check_pair(const saving *s, const save_slice *a, const save_slice *b) {
    const ct_shape x = a->tensor->shape, y = b->tensor->shape;
    bool same = x.ndim == y.ndim && a->tensor->dtype == b->tensor->dtype;
    for (int d = 1; same && d < x.ndim; d++) same = x.dim[d] == y.dim[d];
    if (!same)
        return save_refuse(s, "rows of tensor \"%s\" of the file: %s is %s %s, %s is %s %s",
                           NAME(cti_text_of(a->file)), a->name, cti_dtype_name(a->tensor->dtype),
                           SHAPE(x), b->name, cti_dtype_name(b->tensor->dtype), SHAPE(y));
    return a->transposed == b->transposed ||
           save_refuse(s, "rows of tensor \"%s\" of the file: of %s and %s one is transposed",
                       NAME(cti_text_of(a->file)), a->name, b->name);
}

static bool is_repeated(const save_slice *a, const save_slice *b) {
    return a->tensor == b->tensor && a->start == b->start && a->file_start == b->file_start &&
           a->rows == b->rows;
}

/* Whether the group's slices fill each of its rows once. Sets the group's shape. If two names of a
 * tensor gave the same slice twice, one of the two is taken out. */
static bool save_check_group(const saving *s, save_group *group, const save_slice **slice) {
    int64_t end = 0, n = 0;
    for (int64_t k = 0; k < group->n; k++) {
        const save_slice *at = slice[group->first + k],
                         *before = n ? slice[group->first + n - 1] : NULL;
        if (before && !save_check_pair(s, before, at)) return false;
        if (before && is_repeated(before, at)) continue;
        if (at->file_start < end)
            return save_refuse(
                s, "tensor \"%s\" of the file: %s and %s both fill rows from %lld on",
                NAME(cti_text_of(at->file)), before->name, at->name, (long long)at->file_start);
        if (at->file_start > end)
            return save_refuse(s, "tensor \"%s\" of the file: nothing fills its rows from %lld on",
                               NAME(cti_text_of(at->file)), (long long)end);
        if (__builtin_add_overflow(end, at->rows, &end))
            return save_refuse(s, "tensor \"%s\" of the file: its rows overflow",
                               NAME(cti_text_of(at->file)));
        slice[group->first + n++] = at;
    }
    group->n = n;
    group->shape = slice[group->first]->tensor->shape;
    if (group->shape.ndim) group->shape.dim[0] = end;
    return group->shape.ndim || end == 1 ||
           save_refuse(s, "tensor \"%s\" of the file: %lld scalars are no rows",
                       NAME(cti_text_of(slice[group->first]->file)), (long long)end);
}

/* Rows of a tensor as a view; the tensor itself if these are all its rows. */
static ct_tensor *save_view(ct_tensor *of, int64_t start, int64_t rows) {
    ct_shape shape = of->shape;
    if (!shape.ndim || (start == 0 && rows == shape.dim[0])) return of;
    shape.dim[0] = rows;
    if (cti_is_blocks(of->dtype)) return cti_block_matrix_rows(of, rows ? start : 0, rows);
    const int64_t offset = rows ? start * of->stride[0] : 0;
    return cti_tensor_view(of, of->data + offset * (int64_t)cti_dtype_size(of->dtype), shape,
                           of->stride);
}

/* The tensor of a group: a new one in the innermost scope, or an existing one. */
static ct_tensor *save_make(const saving *s, const save_group *group, const save_slice **slice) {
    const save_slice *first = slice[group->first];
    ct_tensor *made = group->n == 1
                          ? save_view(first->tensor, first->start, first->rows)
                          : cti_tensor_new(s->context, first->tensor->dtype, group->shape);
    for (int64_t k = 0; made && group->n > 1 && k < group->n; k++) {
        const save_slice *at = slice[group->first + k];
        ct_tensor *from = save_view(at->tensor, at->start, at->rows),
                  *to = from ? save_view(made, at->file_start, at->rows) : NULL;
        if (!to) return NULL;
        cti_tensor_copy(to, from, false);
    }
    if (!made || !first->transposed) return made;
    if (cti_is_blocks(made->dtype)) { /* a view that is transposed is dense */
        ct_tensor *wide = cti_tensor_new(s->context, s->same ? CT_BF16 : CT_F32, made->shape);
        if (!wide) return NULL;
        cti_block_matrix_cast(wide, made);
        made = wide;
    }
    return cti_tensor_view(made, made->data, CT_SHAPE(made->shape.dim[1], made->shape.dim[0]),
                           (int64_t[]){made->stride[1], made->stride[0]});
}

/* Sorts the slices and makes a group of each run of equal .file. Returns the number of groups; -1
 * if memory is short. */
static int64_t save_find_groups(const saving *s, const save_slice **slice, save_group *group) {
    int64_t n = 0;
    for (int64_t k = 0; k < s->slices; k++) slice[k] = &s->slice[k];
    if (!cti_list_sort(s->context, (const void **)slice, s->slices, by_place)) return -1;
    for (int64_t k = 0; k < s->slices; k++) {
        const int64_t turn = slice[k] - s->slice;
        if (k == 0 || strcmp(slice[k - 1]->file, slice[k]->file) != 0)
            group[n++] = (save_group){.first = k, .turn = turn};
        save_group *last = &group[n - 1];
        last->n++;
        if (turn < last->turn) last->turn = turn;
    }
    return n;
}

static bool save_groups(const saving *s, const save_slice **slice, save_group *group,
                        const void **order, ct_named *out, int64_t n, ct_save_opts opts) {
    for (int64_t g = 0; g < n; g++) order[g] = &group[g];
    if (!cti_list_sort(s->context, order, n, by_turn)) return false;
    for (int64_t g = 0; g < n; g++) {
        save_group *at = (save_group *)order[g];
        if (!save_check_group(s, at, slice)) return false;
        out[g] = (ct_named){.name = slice[at->first]->file, .tensor = save_make(s, at, slice)};
        if (!out[g].tensor) return false;
    }
    return cti_safetensors_save(s->context, s->op, s->path, out, n, opts);
}

/* Makes the groups and saves them. There are at most as many groups as slices, and the memory is
 * taken for that many. */
static bool save_slices(const saving *s, ct_save_opts opts) {
    ct_context *context = s->context;
    const size_t pointers = cti_bytes(s->slices, sizeof(void *)),
                 groups = cti_bytes(s->slices, sizeof(save_group)),
                 names = cti_bytes(s->slices, sizeof(ct_named));
    const save_slice **slice = cti_take(context, pointers);
    const void **order = slice ? cti_take(context, pointers) : NULL;
    save_group *group = order ? cti_take(context, groups) : NULL;
    ct_named *out = group ? cti_take(context, names) : NULL;
    cti_frame frame;
    cti_frame_open(context, &frame, true);
    bool ok = out != NULL;
    if (ok) {
        const int64_t n = save_find_groups(s, slice, group);
        ok = n >= 0 && save_groups(s, slice, group, order, out, n, opts);
    }
    cti_frame_close(context, &frame);
    cti_give(context, slice, pointers);
    cti_give(context, order, pointers);
    cti_give(context, group, groups);
    cti_give(context, out, names);
    return ok;
}

bool cti_save_mapped(ct_context *context, const char *op, const char *path, const ct_named *named,
                     int64_t n, const cti_other_name *other, int64_t others, ct_save_opts opts) {
    saving s = {.context = context, .op = op, .path = path, .same = opts.floats == CT_FILE_SAME};
    s.map = (cti_name_map){
        .context = context, .op = op, .path = path, .entry = opts.map, .n = opts.n_map};
    if (!cti_name_map_check(&s.map)) return false;
    if (!opts.n_map) return cti_safetensors_save(context, op, path, named, n, opts);
    if (!cti_safetensors_check(context, op, path, named, n, opts)) return false;
    const size_t bytes = cti_bytes(opts.n_map, sizeof(bool));
    s.used = cti_take_zeroed(context, bytes);
    const bool ok = s.used && save_add_all(&s, named, n, other, others) && save_slices(&s, opts);
    for (int64_t k = 0; k < s.slices; k++)
        cti_give(context, s.slice[k].file, strlen(s.slice[k].file) + 1);
    cti_give(context, s.slice, (size_t)s.room * sizeof *s.slice);
    cti_give(context, s.used, bytes);
    return ok;
}

bool ct_tensors_save(ct_context *context, const char *path, const ct_named *tensors, int64_t n,
                     ct_save_opts opts) {
    static const char op[] = "tensors_save";
    if (!context) return false;
    if (!path || (!tensors && n > 0))
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: %s is NULL", op, path ? "tensors" : "path");
    if (n < 0)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: %s: n is %lld, must be at least 0", op, path,
                       (long long)n);
    return cti_save_mapped(context, op, path, tensors, n, NULL, 0, opts);
}
