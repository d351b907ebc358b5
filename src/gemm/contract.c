/* Products of tensors with any number of batch dims, by as few and as large matrix products as their strides allow.
 *
 * A dim is (size, a, b, c): the step it makes in each operand; 0 where it does not appear, or repeats. m, n and k are dims too:
 * m (a, 0, c), n (0, b, c), k (a, b, 0). Two dims are one where in each operand the outer's step is the inner's times the inner's
 * size. So the batch of an activation goes into m when the other side is a weight, and into k when that weight's gradient sums over
 * it. Of the dims that are left one is cti_gemm's batch, and the others are looped over. */
#include "gemm.h"

enum { A, B, C };

static bool joins(cti_contract_dim outer, cti_contract_dim inner) {
    for (int x = A; x <= C; x++) {
        if (outer.step[x] != inner.step[x] * inner.size) return false;
    }
    return true;
}

/* Puts `dim` into `into`, on whichever side it fits. */
static bool join(cti_contract_dim *into, cti_contract_dim dim) {
    if (dim.size == 1) return true;
    if (into->size == 1) {
        *into = dim;
    } else if (joins(dim, *into)) {
        into->size *= dim.size;
    } else if (joins(*into, dim)) {
        dim.size *= into->size;
        *into = dim;
    } else {
        return false;
    }
    return true;
}

/* Joins what can be joined; returns how many dims of the batch are left. */
static int join_all(cti_contract_dim *m, cti_contract_dim *n, cti_contract_dim *k, cti_contract_dim *batch, int dims, bool keep_n) {
    for (int i = 0; i < dims;) {
        const cti_contract_dim d = batch[i];
        bool gone = d.size == 1 || (d.step[B] == 0 && d.step[C] != 0 && join(m, d)) ||
                    (d.step[A] == 0 && d.step[C] != 0 && !keep_n && join(n, d)) || (d.step[C] == 0 && join(k, d));
        for (int other = 0; other < dims && !gone; other++) gone = other != i && join(&batch[other], d);
        if (!gone) {
            i++;
            continue;
        }
        for (dims--; i < dims; i++) batch[i] = batch[i + 1];
        i = 0;   /* what has grown may fit another now */
    }
    return dims;
}

/* One of the products: a, b and c are where it begins. */
static bool product(ct_context *context, ct_dtype dtype, const cti_contract_dim *batch, const cti_contract_dim *m, const cti_contract_dim *n,
                    const cti_contract_dim *k, char *a, char *b, const cti_gemm_epilogue *end, char *c) {
    return cti_gemm(context, dtype, batch->size, m->size, n->size, k->size, 1, &(cti_matrix){a, m->step[A], k->step[A], batch->step[A]},
                   &(cti_matrix){b, k->step[B], n->step[B], batch->step[B]}, end, &(cti_matrix){c, m->step[C], n->step[C], batch->step[C]});
}

bool cti_contract(ct_context *context, ct_dtype dtype, const cti_contract_dim *of_m, const cti_contract_dim *of_n, const cti_contract_dim *of_k,
                 const cti_contract_dim *batch, int dims, void *a, void *b, const cti_gemm_epilogue *end, void *c) {
    static const cti_contract_dim single = {1, {0, 0, 0}};
    if (dims == 0) return product(context, dtype, &single, of_m, of_n, of_k, a, b, end, c);
    cti_contract_dim m = *of_m, n = *of_n, k = *of_k, left[CT_MAX_DIMS], one = single;
    for (int i = 0; i < dims; i++) {
        left[i] = batch[i];
        if (left[i].size == 0 && left[i].step[C] != 0) return true;   /* C has no element */
        if (left[i].size == 0) left[i].size = 1, k.size = 0;          /* a sum of nothing */
    }
    dims = join_all(&m, &n, &k, left, dims, end && (end->done || end->bias));

    int widest = -1;   /* the batch of cti_gemm; a dim that is summed over cannot be it: its products go to the same place */
    for (int i = 0; i < dims; i++) {
        if (left[i].step[C] != 0 && (widest < 0 || left[i].size > left[widest].size)) widest = i;
    }
    if (widest >= 0) {
        one = left[widest];
        left[widest] = left[--dims];
    }

    const int64_t size = dtype == CT_F32 ? 4 : 8;
    int64_t index[CT_MAX_DIMS] = {0};
    for (;;) {
        int64_t at[3] = {0, 0, 0};
        cti_gemm_epilogue part = end ? *end : (cti_gemm_epilogue){0};   /* the first term of a sum writes, later ones add, the last one is the end */
        for (int i = 0; i < dims; i++) {
            for (int x = A; x <= C; x++) at[x] += index[i] * left[i].step[x] * size;
            if (left[i].step[C] == 0 && index[i] > 0) part.add = true;
            if (left[i].step[C] == 0 && index[i] < left[i].size - 1) part.done = NULL;
        }
        if (!product(context, dtype, &one, &m, &n, &k, (char *)a + at[A], (char *)b + at[B], &part, (char *)c + at[C])) return false;
        int i = dims - 1;
        while (i >= 0 && ++index[i] == left[i].size) index[i--] = 0;
        if (i < 0) return true;
    }
}
