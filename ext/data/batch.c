/* Batches: rows of ids of unequal length with padding. */
#include "batch.h"

#include <cotangent/autograd.h>
#include <cotangent/scope.h>
#include <cotangent/tensor.h>

#include <stdlib.h>
#include <string.h>

#include "../../src/core/int_math.h"

static const char batch_of_op[] = "batch_of";

enum { IGNORED_TARGET = -100 };

/* ---- tensors ---- */

static void row_fill(const ct_batch *batch, const cti_batch_row *row, int64_t at, int64_t T,
                     const ct_batch_opts *opts) {
    int64_t *ids = ct_data_i64(batch->ids) + at * T, *types = ct_data_i64(batch->types) + at * T;
    bool *mask = ct_data_bool(batch->mask) + at * T;
    int64_t *targets = batch->targets ? ct_data_i64(batch->targets) + at * T : NULL;
    const int64_t begin = opts->pad_left ? T - row->length : 0, end = begin + row->length;
    for (int64_t t = 0; t < T; t++) {
        const bool is_token = t >= begin && t < end;
        ids[t] = is_token ? row->ids[t - begin] : opts->pad_id;
        types[t] = is_token && row->types ? row->types[t - begin] : 0;
        mask[t] = is_token;
        if (targets) targets[t] = is_token ? row->targets[t - begin] : IGNORED_TARGET;
    }
}

ct_batch cti_batch_make(ct_context *context, const cti_batch_row *rows, int64_t n, bool has_targets,
                        const ct_batch_opts *opts) {
    int64_t T = 0;
    for (int64_t i = 0; i < n; i++) T = cti_max(T, rows[i].length);
    ct_scope scope = ct_scope_open_no_grad(context);
    const ct_shape shape = CT_SHAPE(n, T);
    ct_batch batch = {.ids = ct_empty(context, CT_I64, shape)};
    batch.mask = ct_empty(context, CT_BOOL, shape);
    batch.types = ct_empty(context, CT_I64, shape);
    if (has_targets) batch.targets = ct_empty(context, CT_I64, shape);
    const bool ok = batch.types && (batch.targets || !has_targets);
    for (int64_t i = 0; ok && T && i < n; i++) row_fill(&batch, &rows[i], i, T, opts);
    if (ok) {
        batch.ids = ct_scope_keep(scope, batch.ids);
        batch.mask = ct_scope_keep(scope, batch.mask);
        batch.types = ct_scope_keep(scope, batch.types);
        if (has_targets) batch.targets = ct_scope_keep(scope, batch.targets);
    }
    ct_scope_close(scope);
    return ok ? batch : (ct_batch){0};
}

cti_batch_row *cti_batch_rows_new(ct_context *context, int64_t n, const char *op) {
    cti_batch_row *rows =
        (uint64_t)n > SIZE_MAX / sizeof *rows ? NULL : calloc((size_t)n, sizeof *rows);
    if (!rows) ct_fail(context, CT_ERR_MEMORY, "%s: out of memory for %lld rows", op, (long long)n);
    return rows;
}

bool cti_batch_check(ct_context *context, const ct_batch_opts *opts, int64_t n, const char *op) {
    if (n < 1) return ct_fail(context, CT_ERR_ARGUMENT, "%s: %lld rows", op, (long long)n);
    return opts->max_length >= 0 || ct_fail(context, CT_ERR_ARGUMENT, "%s: max_length is %lld", op,
                                            (long long)opts->max_length);
}

/* ---- rows of ids ---- */

ct_batch ct_batch_of(ct_context *context, const int64_t *ids, const int64_t *targets,
                     const int64_t *lengths, int64_t n, ct_batch_opts opts) {
    const ct_batch none = {0};
    if (!context || !cti_batch_check(context, &opts, n, batch_of_op)) return none;
    if (!ids || !lengths) {
        ct_fail(context, CT_ERR_ARGUMENT, "%s: %s is NULL", batch_of_op, ids ? "lengths" : "ids");
        return none;
    }
    cti_batch_row *rows = cti_batch_rows_new(context, n, batch_of_op);
    bool ok = rows != NULL;
    int64_t at = 0;
    for (int64_t i = 0; ok && i < n; i++) {
        int64_t length = lengths[i];
        ok = length >= 0 || ct_fail(context, CT_ERR_ARGUMENT, "%s: the length of row %lld is %lld",
                                    batch_of_op, (long long)i, (long long)length);
        if (opts.max_length) length = cti_min(length, opts.max_length);
        rows[i] = (cti_batch_row){.ids = (int64_t *)(uintptr_t)(ids + at), .length = length};
        if (targets) rows[i].targets = targets + at;
        at += lengths[i];
    }
    const ct_batch batch = ok ? cti_batch_make(context, rows, n, targets != NULL, &opts) : none;
    free(rows);
    return batch;
}
