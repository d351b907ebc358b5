/* Merges dims of a product, and loops over those that cannot be merged.
 *
 * A dim has steps (a, b, c) in A, B and C. m, n and k are dims too: m (a, 0, c), n (0, b, c),
 * k (a, b, 0). Two dims merge into one if in each operand the outer's step is the inner's step
 * times the inner's size. So the batch of an activation merges into m when it is multiplied by a
 * weight, and into k when the weight's gradient sums over it. Of the batch dims that are left, one
 * is cti_gemm's batch, and the others are looped over. */
#include "contract.h"

static bool can_merge(cti_contract_dim outer, cti_contract_dim inner) {
    for (int x = CTI_A; x <= CTI_C; x++) {
        if (outer.step[x] != inner.step[x] * inner.size) return false;
    }
    return true;
}

/* Merges `dim` into `into`, as its outer or its inner part. False: they cannot merge. */
static bool merge_dim(cti_contract_dim *into, cti_contract_dim dim) {
    if (dim.size == 1) return true;
    if (into->size == 1) {
        *into = dim;
    } else if (can_merge(dim, *into)) {
        into->size *= dim.size;
    } else if (can_merge(*into, dim)) {
        dim.size *= into->size;
        *into = dim;
    } else {
        return false;
    }
    return true;
}

/* Merges batch dims into m, n, k or each other where it can; returns how many are left. keep_n:
 * none merges into n. */
static int merge_all(cti_contract_dim *m, cti_contract_dim *n, cti_contract_dim *k,
                     cti_contract_dim *batch, int dims, bool keep_n) {
    for (int i = 0; i < dims;) {
        const cti_contract_dim d = batch[i];
        bool merged = d.size == 1 ||
                      (d.step[CTI_B] == 0 && d.step[CTI_C] != 0 && merge_dim(m, d)) ||
                      (d.step[CTI_A] == 0 && d.step[CTI_C] != 0 && !keep_n && merge_dim(n, d)) ||
                      (d.step[CTI_C] == 0 && merge_dim(k, d));
        for (int other = 0; other < dims && !merged; other++)
            merged = other != i && merge_dim(&batch[other], d);
        if (!merged) {
            i++;
            continue;
        }
        for (dims--; i < dims; i++) batch[i] = batch[i + 1];
        i = 0; /* a dim that has grown may merge with another now */
    }
    return dims;
}

/* One matrix product; data[] has the first element of A, B and C. Inlined into both of its callers,
 * so that the args of a small product stay in registers: a step of `bench/rows micro` (4,192
 * parameters) takes 0.4 % fewer instructions. */
static inline __attribute__((always_inline)) bool
matrix_product(ct_context *context, const cti_contract_dim *batch, const cti_contract_dim *m,
               const cti_contract_dim *n, const cti_contract_dim *k,
               const ct_tensor *const tensor[CTI_OPERANDS], char *const data[CTI_OPERANDS],
               const cti_gemm_epilogue *epilogue) {
    const cti_gemm_args g = {.batch = batch->size,
                             .m = m->size,
                             .n = n->size,
                             .k = k->size,
                             .alpha = 1,
                             .epilogue = epilogue,
                             .a = {.data = data[CTI_A],
                                   .row = m->step[CTI_A],
                                   .col = k->step[CTI_A],
                                   .batch = batch->step[CTI_A],
                                   .dtype = tensor[CTI_A]->dtype},
                             .b = {.data = data[CTI_B],
                                   .row = k->step[CTI_B],
                                   .col = n->step[CTI_B],
                                   .batch = batch->step[CTI_B],
                                   .dtype = tensor[CTI_B]->dtype},
                             .c = {.data = data[CTI_C],
                                   .row = m->step[CTI_C],
                                   .col = n->step[CTI_C],
                                   .batch = batch->step[CTI_C],
                                   .dtype = tensor[CTI_C]->dtype}};
    return cti_gemm(context, &g);
}

/* The dim to use as cti_gemm's batch: the largest that steps in C. One that is summed over cannot
 * be it, as its products are added to the same C. -1: none. */
static int widest(const cti_contract_dim *dim, int dims) {
    int at = -1;
    for (int i = 0; i < dims; i++)
        if (dim[i].step[CTI_C] != 0 && (at < 0 || dim[i].size > dim[at].size)) at = i;
    return at;
}

/* The next index of the loop over dims, the last one fastest. False: it was the last. */
static bool next_index(int64_t *index, const cti_contract_dim *dim, int dims) {
    for (int i = dims - 1; i >= 0; i--) {
        if (++index[i] < dim[i].size) return true;
        index[i] = 0;
    }
    return false;
}

bool cti_contract(ct_context *context, const cti_contract_dim *of_m, const cti_contract_dim *of_n,
                  const cti_contract_dim *of_k, const cti_contract_dim *batch, int dims,
                  const ct_tensor *a, const ct_tensor *b, const cti_gemm_epilogue *epilogue,
                  const ct_tensor *c) {
    static const cti_contract_dim single = {.size = 1};
    const ct_tensor *const tensor[CTI_OPERANDS] = {a, b, c};
    char *const start[CTI_OPERANDS] = {a->data, b->data, c->data};
    if (dims == 0)
        return matrix_product(context, &single, of_m, of_n, of_k, tensor, start, epilogue);
    cti_contract_dim m = *of_m, n = *of_n, k = *of_k, left[CT_MAX_DIMS], items = single;
    bool empty = m.size == 0 || n.size == 0, no_terms = k.size == 0;
    for (int i = 0; i < dims; i++) {
        left[i] = batch[i];
        if (left[i].size == 0 && left[i].step[CTI_C] != 0) empty = true;
        if (left[i].size == 0 && left[i].step[CTI_C] == 0) no_terms = true;
    }
    if (empty) return true;                    /* C has no element */
    for (int i = 0; i < dims && no_terms; i++) /* K is 0: add the zeros once, not for each index */
        if (left[i].step[CTI_C] == 0) left[i].size = 1;
    if (no_terms) k.size = 0;
    dims = merge_all(&m, &n, &k, left, dims, epilogue && (epilogue->apply || epilogue->bias));
    const int wide = widest(left, dims);
    if (wide >= 0) {
        items = left[wide];
        left[wide] = left[--dims];
    }

    int64_t index[CT_MAX_DIMS] = {0};
    do {
        char *data[CTI_OPERANDS] = {start[CTI_A], start[CTI_B], start[CTI_C]};
        cti_gemm_epilogue part = epilogue ? *epilogue : (cti_gemm_epilogue){0};
        for (int i = 0; i < dims; i++) {
            for (int x = CTI_A; x <= CTI_C; x++)
                data[x] += index[i] * left[i].step[x] * (int64_t)cti_dtype_size(tensor[x]->dtype);
            const bool summed = left[i].step[CTI_C] == 0;
            /* The first term of a sum writes C, later ones add, and the last one completes it. */
            if (summed && index[i] > 0) {
                part.add = true;
                part.bias = NULL;
            }
            if (summed && index[i] < left[i].size - 1) part.apply = NULL;
        }
        if (!matrix_product(context, &items, &m, &n, &k, tensor, data, &part)) return false;
    } while (next_index(index, left, dims));
    return true;
}
