/* Merges the dims of a product, and loops over the dims that cannot be merged.
 *
 * A dim has steps (a, b, c) in A, B and C. m, n and k are dims too: m (a, 0, c), n (0, b, c), k (a,
 * b, 0). Two dims merge into one if in each operand the outer's step is the inner's step times the
 * inner's size. So the batch of an activation merges into m when it is multiplied by a weight, and
 * into k when the weight's gradient sums over it. Of the batch dims that are left, one is
 * cti_gemm's batch, and the others are looped over. */
#include "contract.h"

static bool can_merge(cti_contract_dim outer, cti_contract_dim inner) {
    for (int x = CTI_A; x <= CTI_C; x++) {
        if (outer.step[x] != inner.step[x] * inner.size) return false;
    }
    return true;
}

/* Merges `dim` into `into`, either as the outer or as the inner dim. Returns false if they cannot
 * merge. */
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

/* Merges batch dims into m, n, k or each other if it can. With keep_n none merges into n. */
static void merge_all(cti_contraction *p, bool keep_n) {
    for (int i = 0; i < p->dims;) {
        const cti_contract_dim d = p->batch[i];
        const bool in_a = d.step[CTI_A] != 0, in_b = d.step[CTI_B] != 0, in_c = d.step[CTI_C] != 0;
        bool merged = d.size == 1 || (!in_b && in_c && merge_dim(&p->m, d)) ||
                      (!in_a && in_c && !keep_n && merge_dim(&p->n, d)) ||
                      (!in_c && merge_dim(&p->k, d));
        for (int other = 0; other < p->dims && !merged; other++)
            merged = other != i && merge_dim(&p->batch[other], d);
        if (!merged) {
            i++;
            continue;
        }
        for (p->dims--; i < p->dims; i++) p->batch[i] = p->batch[i + 1];
        i = 0; /* a dim that has grown may merge with another now */
    }
}

/* Computes one matrix product; data[] has the addresses of the first elements of A, B and C. It is
 * inlined into both of its callers, so that the args of a small product stay in registers: a step
 * of `bench/rows micro` (4,192 parameters) takes 0.4 % fewer instructions. */
static inline __attribute__((always_inline)) bool
matrix_product(ct_context *context, const cti_contraction *p, const cti_contract_dim *batch,
               const ct_tensor *const operand[CTI_OPERANDS], char *const data[CTI_OPERANDS],
               const cti_gemm_epilogue *epilogue) {
    const cti_gemm_args g = {.batch = batch->size,
                             .m = p->m.size,
                             .n = p->n.size,
                             .k = p->k.size,
                             .alpha = 1,
                             .epilogue = epilogue,
                             .a = {.data = data[CTI_A],
                                   .row = p->m.step[CTI_A],
                                   .col = p->k.step[CTI_A],
                                   .batch = batch->step[CTI_A],
                                   .dtype = operand[CTI_A]->dtype},
                             .b = {.data = data[CTI_B],
                                   .row = p->k.step[CTI_B],
                                   .col = p->n.step[CTI_B],
                                   .batch = batch->step[CTI_B],
                                   .dtype = operand[CTI_B]->dtype},
                             .c = {.data = data[CTI_C],
                                   .row = p->m.step[CTI_C],
                                   .col = p->n.step[CTI_C],
                                   .batch = batch->step[CTI_C],
                                   .dtype = operand[CTI_C]->dtype}};
    return cti_gemm(context, &g);
}

/* Returns the dim that becomes the batch of cti_gemm: the largest with a step in C, or -1 if there
 * is none. A dim that is summed over cannot become the batch, because its products are added to the
 * same C. */
static int widest(const cti_contract_dim *dim, int dims) {
    int at = -1;
    for (int i = 0; i < dims; i++)
        if (dim[i].step[CTI_C] != 0 && (at < 0 || dim[i].size > dim[at].size)) at = i;
    return at;
}

/* Sets the next index of the loop over dims; the last dim is the fastest. Returns false after the
 * last index. */
static bool next_index(int64_t *index, const cti_contract_dim *dim, int dims) {
    for (int i = dims - 1; i >= 0; i--) {
        if (++index[i] < dim[i].size) return true;
        index[i] = 0;
    }
    return false;
}

bool cti_contract(ct_context *context, const cti_contraction *p,
                  const ct_tensor *const operand[CTI_OPERANDS], const cti_gemm_epilogue *epilogue) {
    static const cti_contract_dim single = {.size = 1};
    CTI_ASSERT(p->dims >= 0 && p->dims <= CT_MAX_DIMS);
    CTI_ASSERT(p->m.step[CTI_B] == 0 && p->n.step[CTI_A] == 0 && p->k.step[CTI_C] == 0);
    char *const start[CTI_OPERANDS] = {operand[CTI_A]->data, operand[CTI_B]->data,
                                       operand[CTI_C]->data};
    if (p->dims == 0) return matrix_product(context, p, &single, operand, start, epilogue);
    cti_contraction left;
    cti_contract_dim matrices = single;
    left.m = p->m, left.n = p->n, left.k = p->k, left.dims = p->dims;
    bool empty = left.m.size == 0 || left.n.size == 0, no_terms = left.k.size == 0;
    for (int i = 0; i < p->dims; i++) {
        const cti_contract_dim d = p->batch[i];
        left.batch[i] = d;
        if (d.size == 0 && d.step[CTI_C] != 0) empty = true;
        if (d.size == 0 && d.step[CTI_C] == 0) no_terms = true;
    }
    if (empty) return true; /* C has no element */
    /* K is 0: the zeros are added once, not for each index. */
    for (int i = 0; i < left.dims && no_terms; i++)
        if (left.batch[i].step[CTI_C] == 0) left.batch[i].size = 1;
    if (no_terms) left.k.size = 0;
    merge_all(&left, epilogue && (epilogue->apply || epilogue->bias));
    const int wide = widest(left.batch, left.dims);
    if (wide >= 0) {
        matrices = left.batch[wide];
        left.batch[wide] = left.batch[--left.dims];
    }

    int64_t index[CT_MAX_DIMS] = {0};
    do {
        char *data[CTI_OPERANDS] = {start[CTI_A], start[CTI_B], start[CTI_C]};
        cti_gemm_epilogue of_term = epilogue ? *epilogue : (cti_gemm_epilogue){0};
        for (int i = 0; i < left.dims; i++) {
            const cti_contract_dim *d = &left.batch[i];
            for (int x = CTI_A; x <= CTI_C; x++)
                data[x] += index[i] * d->step[x] * (int64_t)cti_dtype_size(operand[x]->dtype);
            const bool summed = d->step[CTI_C] == 0;
            /* The first term of a sum writes C, later ones add, and the last one completes it. */
            if (summed && index[i] > 0) {
                of_term.add = true;
                of_term.bias = NULL;
            }
            if (summed && index[i] < d->size - 1) of_term.apply = NULL;
        }
        if (!matrix_product(context, &left, &matrices, operand, data, &of_term)) return false;
    } while (next_index(index, left.batch, left.dims));
    return true;
}
