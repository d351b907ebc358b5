/* Reductions over any set of dims. Adjacent dims that are all reduced, or all kept, are a run.
 * Reduced runs are handled from the last to the first, each as n elements for each of outer x
 * inner:
 *
 *     (outer, n, inner) -> (outer, inner)
 *
 * A pass is divided into units of rows by columns, which depend on the sizes only. If that gives
 * few units, n is divided too and a further pass combines the partial results. So a sum is a tree
 * of pairwise sums and has the error of pairwise summation. */
#include "reduce.h"
#include "../../src/core/isa.h"
#include "../../src/kernels/rows.h"

#include <string.h>

enum { REDUCE_UNIT = 32768, REDUCE_COLUMNS = 1024, REDUCE_FEW = 16 };

/* The runs of a shape. A run is a maximal group of adjacent dims that are all reduced or all kept,
 * so reduced and kept runs alternate. Dims of size 1 are left out. size[i] is the product of the
 * dims of run i. */
typedef struct {
    int count;
    int64_t size[CT_MAX_DIMS];
    bool reduced[CT_MAX_DIMS];
} reduce_runs;

static reduce_runs runs_of(ct_shape shape, unsigned set) {
    reduce_runs runs = {.count = 0};
    for (int d = 0; d < shape.ndim; d++) {
        bool reduced = set >> d & 1;
        if (shape.dim[d] == 1) continue;
        if (!runs.count || runs.reduced[runs.count - 1] != reduced) {
            runs.reduced[runs.count] = reduced;
            runs.size[runs.count++] = 1;
        }
        runs.size[runs.count - 1] *= shape.dim[d];
    }
    return runs;
}

/* Finds the last reduced run. Sets *n to its size, *outer to the product of the runs before it, and
 * *inner to the size of the kept run after it. Returns the index of the run. If the index is 0 or
 * 1, this is the only reduced run, because runs alternate. If no run is reduced, *outer and *n are
 * 1 and the result is -1. */
static int last_run(const reduce_runs *runs, int64_t *outer, int64_t *n, int64_t *inner) {
    int last = runs->count - 1;
    *outer = *n = *inner = 1;
    while (last >= 0 && !runs->reduced[last]) *inner *= runs->size[last--];
    if (last >= 0) *n = runs->size[last];
    for (int r = 0; r < last; r++) *outer *= runs->size[r];
    return last;
}

typedef struct {
    cti_reduce *f;
    /* reduces many rows at once if inner is 1; NULL if there is no such kernel */
    void (*whole_rows)(int64_t rows, int64_t n, const void *x, void *y);
    const char *x;
    char *y;
    int64_t x_size, y_size, n, inner, x_row; /* x_row: stride of n in x, in elements */
    /* a unit has `rows` by `width` elements; n has `chunks` of such rows, inner has `blocks` of
     * such columns */
    int64_t rows, chunks, width, blocks;
} reduce_pass;

static void reduce_pass_task(void *arg, int64_t begin, int64_t end, int worker) {
    const reduce_pass *p = arg;
    (void)worker;
    if (p->whole_rows && p->inner == 1 && p->chunks == 1) {
        p->whole_rows(end - begin, p->n, p->x + begin * p->n * p->x_size, p->y + begin * p->y_size);
        return;
    }
    for (int64_t unit = begin; unit < end; unit++) {
        /* chunk is an index from 0 to outer * chunks - 1 */
        int64_t column = unit % p->blocks * p->width, chunk = unit / p->blocks;
        int64_t row = chunk % p->chunks * p->rows, o = chunk / p->chunks;
        int64_t rows = p->n - row < p->rows ? p->n - row : p->rows,
                width = p->inner - column < p->width ? p->inner - column : p->width;
        p->f(rows, width, p->x + ((o * p->n + row) * p->x_row + column) * p->x_size, p->x_row,
             p->y + (chunk * p->inner + column) * p->y_size);
    }
}

/* A reduced run of x: (outer, n, inner) -> (outer, inner), none of them 0. */
typedef struct {
    cti_reduce *f, *again; /* again combines partial results; NULL if they cannot be combined */
    ct_dtype from, to;
    int64_t outer, n, inner, x_row; /* x_row: the stride of n in x, in elements */
    const char *x;
    char *y;
} reduced_run;

/* Each pass leaves at most 1/32 of the elements. */
static bool reduce_run(const ct_call *c, const reduced_run *r) {
    CTI_ASSERT(r->outer > 0 && r->n > 0 && r->inner > 0);
    cti_reduce *f = r->f;
    int64_t n = r->n;
    reduce_pass p = {.x = r->x,
                     .x_size = (int64_t)cti_dtype_size(r->from),
                     .y_size = (int64_t)cti_dtype_size(r->to),
                     .inner = r->inner,
                     .x_row = r->x_row};
    p.width = r->inner < REDUCE_COLUMNS ? r->inner : REDUCE_COLUMNS;
    p.blocks = (r->inner + p.width - 1) / p.width;
    for (p.chunks = 0; p.chunks != 1;
         n = p.chunks, f = r->again, p.x = p.y, p.x_size = p.y_size, p.x_row = r->inner) {
        const bool cut =
            r->again && r->outer * p.blocks < REDUCE_FEW && n >= 2 * (REDUCE_UNIT / p.width);
        const cti_kernels *k = c->context->isa->of[f == r->again ? r->to : r->from];
        p.f = f;
        p.whole_rows = f == k->rows->sum   ? k->rows->sum_rows
                       : f == k->rows->max ? k->rows->max_rows
                                           : NULL;
        p.n = n;
        p.rows = cut ? REDUCE_UNIT / p.width : n;
        p.chunks = (n + p.rows - 1) / p.rows;
        p.y = r->y;
        if (cut) {
            ct_tensor *chunks = cti_op_new(c, r->to, CT_SHAPE(r->outer, p.chunks, r->inner));
            if (!chunks) return false;
            p.y = chunks->data;
        }
        cti_parallel(c->context, r->outer * p.chunks * p.blocks, cti_op_grain(p.rows * p.width),
                     reduce_pass_task, &p);
    }
    return true;
}

/* Returns the distance between two rows if all dims but the last are reduced and rows are dense and
 * evenly spaced (a view of columns of a matrix); otherwise 0. */
static int64_t row_step(const ct_tensor *x, unsigned set) {
    const int last = x->shape.ndim - 1;
    if (last < 1 || set != (1u << last) - 1 || x->shape.dim[last] < 2 || x->stride[last] != 1)
        return 0;
    for (int d = 0; d < last - 1; d++)
        if (x->stride[d] != x->stride[d + 1] * x->shape.dim[d + 1]) return 0;
    return x->stride[last - 1];
}

ct_tensor *cti_reduce_dims(const ct_call *c, cti_reduce *f, cti_reduce *again, ct_dtype dtype,
                           ct_tensor *x, unsigned set, bool keepdim) {
    if (!f)
        return ct_fail(c->context, CT_ERR_DTYPE, "%s: does not take %s", c->op->name,
                       cti_dtype_name(x->dtype));
    ct_tensor *y = cti_op_new(c, dtype, cti_shape_reduced(x->shape, set, keepdim));
    if (!y || !y->numel) return y;
    if (!x->numel) return memset(y->data, 0, (size_t)y->numel * cti_dtype_size(dtype)), y;
    CTI_ASSERT(again || __builtin_popcount(set) == 1);
    const int64_t step = x->contiguous ? 0 : row_step(x, set);
    if (!step) x = cti_tensor_dense(x);
    if (!x) return NULL;
    reduce_runs runs = runs_of(x->shape, set);
    reduced_run r = {.f = f, .again = again, .from = x->dtype, .to = dtype, .x = x->data};
    for (bool first = true;; first = false) {
        const int last = last_run(&runs, &r.outer, &r.n, &r.inner);
        ct_tensor *reduced = last < 2 ? y : cti_op_new(c, dtype, CT_SHAPE(r.outer, r.inner));
        if (!reduced) return NULL;
        r.y = reduced->data;
        r.x_row = first && step ? step : r.inner;
        if (!reduce_run(c, &r)) return NULL;
        if (last < 2) return y;
        runs.count = last;
        runs.size[last - 1] *= r.inner; /* the kept runs on both sides are adjacent now */
        r.x = reduced->data;
        r.from = dtype;
        r.f = again;
    }
}

ct_tensor *cti_reduce_sum(const ct_call *c, ct_tensor *x, unsigned set, bool keepdim) {
    const cti_kernels *const *of = c->context->isa->of;
    ct_dtype dtype = x->dtype == CT_BOOL ? CT_I64 : x->dtype;
    if (!of[x->dtype]->rows->sum) return cti_op_refuse(c, x->dtype), NULL;
    return cti_reduce_dims(c, of[x->dtype]->rows->sum, of[dtype]->rows->sum, dtype, x, set,
                           keepdim);
}

ct_tensor *cti_reduce_as_columns(ct_tensor *x, unsigned set, cti_columns *of, ct_shape *back) {
    const reduce_runs runs = runs_of(x->shape, set);
    *back = CT_SCALAR;
    if (last_run(&runs, &of->outer, &of->n, &of->inner) < 2) return x;
    ct_shape order = {.ndim = x->shape.ndim};
    *back = order;
    *of = (cti_columns){1, 1, 1};
    for (int d = 0, kept = 0, reduced = order.ndim - __builtin_popcount(set); d < order.ndim; d++) {
        const bool gone = set >> d & 1;
        back->dim[d] = gone ? reduced++ : kept++;
        order.dim[back->dim[d]] = d;
        *(gone ? &of->n : &of->outer) *= x->shape.dim[d];
    }
    return ct_contiguous(ct_permute(x, order));
}

ct_tensor *cti_reduce_expand(ct_tensor *g, ct_shape shape, unsigned set) {
    int64_t stride[CT_MAX_DIMS] = {0};
    bool keepdim = g->shape.ndim == shape.ndim;
    for (int d = 0, own = 0; d < shape.ndim; d++) {
        if (!(set >> d & 1)) stride[d] = g->stride[own++];
        else own += keepdim;
    }
    return cti_tensor_view(g, g->data, shape, stride);
}

double cti_reduce_count(ct_shape shape, unsigned set) {
    double count = 1;
    for (int d = 0; d < shape.ndim; d++)
        if (set >> d & 1) count *= (double)shape.dim[d];
    return count;
}
