/* Matrix products on all threads: A and B are packed in slices along K, then blocks of C are computed by the table's register block.
 *
 * Three ways, chosen by size:
 *   rows     C is one row: nothing is packed, pieces of the row run in parallel
 *   items    a problem that is small or one of many: each is packed and computed by one worker, in scratch of its own
 *   slices   else: for each slice of kc, all workers pack it, then all compute blocks of C from it
 *
 * An element of C is the sum over k in order within a slice, and slices are added in order; kc is a constant of the table. So neither
 * the blocks along M and N nor the threads change a bit of it. */
#include "gemm.h"

#include <string.h>

#include "context.h"

enum {
    BLOCK_M = 144, BLOCK_N = 256,       /* of C, at most, for one piece of work: its A and B (kc deep) stay in a second-level cache */
    SLICE_M = 4096, SLICE_N = 4096,     /* rows of A and columns of B packed at once, at most: what bounds the scratch */
    ITEM_M = 512, ITEM_N = 512,         /* the same for problems that one worker does alone */
    PACK_PANELS = 8,
};
static const double ITEM_COST = 1 << 20, BATCH_COST = 1 << 24, BLOCK_COST = 1 << 20;   /* in multiplications; 2^20 take some 20 us */

typedef struct {
    const ct_gemm_kernels *kernels;
    int64_t size;            /* of an element, in bytes */
    int64_t m, n, k;
    double alpha;
    ct_gemm_end end;
    bool turned;             /* A, B and C are the transposed of the caller's, C' = B' A' */
    ct_matrix a, b, c;
    char *scratch;
    size_t a_bytes, b_bytes; /* of the packed slice of A and of B */
    int64_t m0, n0, k0;      /* where the slice starts ... */
    int64_t ml, nl, kl;      /* ... and its lengths */
    int64_t bm, bn;          /* the block that is one piece of work */
    int64_t a_panels;        /* how many panels of A there are to pack */
    int64_t grain;           /* of a row, or of the items */
} job;

static int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t pieces(int64_t n, int64_t size) { return n / size + (n % size != 0); }
static size_t slice_bytes(int64_t n, int64_t panel, int64_t k, int64_t size) {
    size_t bytes = (size_t)(pieces(n, panel) * panel * k * size);   /* bounded by SLICE_M, SLICE_N and kc */
    return (bytes + CT_ALIGN - 1) / CT_ALIGN * CT_ALIGN;
}

static void *at(const job *j, const ct_matrix *x, int64_t item, int64_t row, int64_t col) {
    return (char *)x->data + (item * x->batch + row * x->row + col * x->col) * j->size;
}

static ct_matrix transposed(ct_matrix x) { return (ct_matrix){x.data, x.col, x.row, x.batch}; }

/* Rows [m, m + rows) and columns [n, n + cols) of C are complete. */
static void done(const job *j, int64_t item, int64_t m, int64_t n, int64_t rows, int64_t cols) {
    if (!j->end.done) return;
    const ct_matrix c = {at(j, &j->c, item, m, n), j->c.row, j->c.col, 0};
    if (j->turned) j->end.done(j->end.arg, transposed(c), cols, rows);
    else j->end.done(j->end.arg, c, rows, cols);
}

/* Panel i of the slice, packed: it has kl columns of mr (rows of nr). */
static char *panel_a(const job *j, char *packed, int64_t i) { return packed + i * j->kernels->mr * j->kl * j->size; }
static char *panel_b(const job *j, char *packed, int64_t i) { return packed + i * j->kernels->nr * j->kl * j->size; }

static void pack_panel_a(const job *j, int64_t item, int64_t i, char *packed) {
    const int64_t mr = j->kernels->mr;
    const void *from = at(j, &j->a, item, j->m0 + i * mr, j->k0);
    j->kernels->pack_a(min(mr, j->ml - i * mr), j->kl, from, j->a.row, j->a.col, panel_a(j, packed, i));
}

static void pack_panel_b(const job *j, int64_t item, int64_t i, char *packed) {
    const int64_t nr = j->kernels->nr;
    const void *from = at(j, &j->b, item, j->k0, j->n0 + i * nr);
    j->kernels->pack_b(j->kl, min(nr, j->nl - i * nr), from, j->b.row, j->b.col, panel_b(j, packed, i));
}

/* The tiles of rows [m, m_end) and columns [n, n_end) of the slice; m and n are multiples of mr and nr. The first slice writes. */
static void tiles(const job *j, int64_t item, int64_t m, int64_t m_end, int64_t n, int64_t n_end, char *a, char *b) {
    const ct_gemm_kernels *f = j->kernels;
    const bool add = j->end.add || j->k0 > 0;
    for (int64_t row = m; row < m_end; row += f->mr) {
        for (int64_t col = n; col < n_end; col += f->nr) {
            f->tile(min(f->mr, m_end - row), min(f->nr, n_end - col), j->kl, panel_a(j, a, row / f->mr), panel_b(j, b, col / f->nr),
                    j->alpha, add, at(j, &j->c, item, j->m0 + row, j->n0 + col), j->c.row, j->c.col);
        }
    }
}

/* ---- rows ---- */

static void row_task(void *arg, int64_t begin, int64_t end, int worker) {
    const job *j = arg;
    const int64_t per_item = pieces(j->n, j->grain);
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const int64_t item = i / per_item, n0 = i % per_item * j->grain;
        for (int64_t k0 = 0; k0 < j->k; k0 += j->kernels->kc) {
            j->kernels->row(min(j->grain, j->n - n0), min(j->kernels->kc, j->k - k0), at(j, &j->a, item, 0, k0), j->a.col,
                            at(j, &j->b, item, k0, n0), j->b.row, j->b.col, j->alpha, j->end.add || k0 > 0,
                            at(j, &j->c, item, 0, n0), j->c.col);
        }
        done(j, item, 0, n0, 1, min(j->grain, j->n - n0));
    }
}

static bool rows(ct_context *context, job *j, int64_t batch) {
    j->grain = 256;   /* pieces start at multiples of any vector */
    while (j->grain < j->n && (double)j->grain * (double)j->k < 65536) j->grain *= 2;
    double cost = (double)min(j->grain, j->n) * (double)j->k;
    ct_parallel(context, batch * pieces(j->n, j->grain), cost < 65536 ? (int64_t)(65536 / cost) : 1, row_task, j);
    return true;
}

/* ---- items ---- */

static void item_task(void *arg, int64_t begin, int64_t end, int worker) {
    job j = *(const job *)arg;
    char *a = j.scratch + (size_t)worker * (j.a_bytes + j.b_bytes), *b = a + j.a_bytes;
    const bool whole = j.m <= ITEM_M && j.n <= ITEM_N && j.k <= j.kernels->kc;   /* then what all items share is packed once */
    for (int64_t item = begin; item < end; item++) {
        for (j.n0 = 0; j.n0 < j.n; j.n0 += ITEM_N) {
            j.nl = min(ITEM_N, j.n - j.n0);
            for (j.k0 = 0; j.k0 < j.k; j.k0 += j.kernels->kc) {
                j.kl = min(j.kernels->kc, j.k - j.k0);
                if (!whole || item == begin || j.b.batch != 0)
                    for (int64_t i = 0; i < pieces(j.nl, j.kernels->nr); i++) pack_panel_b(&j, item, i, b);
                for (j.m0 = 0; j.m0 < j.m; j.m0 += ITEM_M) {
                    j.ml = min(ITEM_M, j.m - j.m0);
                    if (!whole || item == begin || j.a.batch != 0)
                        for (int64_t i = 0; i < pieces(j.ml, j.kernels->mr); i++) pack_panel_a(&j, item, i, a);
                    tiles(&j, item, 0, j.ml, 0, j.nl, a, b);
                    if (j.k0 + j.kl == j.k) done(&j, item, j.m0, j.n0, j.ml, j.nl);
                }
            }
        }
    }
}

static bool items(ct_context *context, job *j, int64_t batch, double cost) {
    const int64_t kl = min(j->k, j->kernels->kc), grain = cost < ITEM_COST ? (int64_t)(ITEM_COST / cost) : 1;
    j->a_bytes = slice_bytes(min(j->m, ITEM_M), j->kernels->mr, kl, j->size);
    j->b_bytes = slice_bytes(min(j->n, ITEM_N), j->kernels->nr, kl, j->size);
    const int workers = batch > grain ? ct_parallel_width(context) : 1;
    const size_t bytes = ct_bytes(workers, j->a_bytes + j->b_bytes);
    if (!(j->scratch = ct_take(context, bytes))) return false;
    ct_parallel(context, batch, grain, item_task, j);
    ct_give(context, j->scratch, bytes);
    return true;
}

/* ---- slices ---- */

static void pack_task(void *arg, int64_t begin, int64_t end, int worker) {
    const job *j = arg;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        if (i < j->a_panels) pack_panel_a(j, 0, i, j->scratch);
        else pack_panel_b(j, 0, i - j->a_panels, j->scratch + j->a_bytes);
    }
}

static void block_task(void *arg, int64_t begin, int64_t end, int worker) {
    const job *j = arg;
    const int64_t across = pieces(j->nl, j->bn);
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const int64_t m = i / across * j->bm, n = i % across * j->bn;
        const int64_t m_end = min(m + j->bm, j->ml), n_end = min(n + j->bn, j->nl);
        tiles(j, 0, m, m_end, n, n_end, j->scratch, j->scratch + j->a_bytes);
        if (j->k0 + j->kl == j->k) done(j, 0, j->m0 + m, j->n0 + n, m_end - m, n_end - n);
    }
}

/* Blocks as large as the caches like, halved while that leaves few of them and each is still worth a thread. */
static void choose_block(job *j) {
    const int64_t mr = j->kernels->mr, nr = j->kernels->nr;
    j->bm = min(BLOCK_M / mr, pieces(j->ml, mr)) * mr;
    j->bn = min(BLOCK_N / nr, pieces(j->nl, nr)) * nr;
    while (pieces(j->ml, j->bm) * pieces(j->nl, j->bn) < 32 && (double)j->bm * (double)j->bn * (double)j->kl > 2 * BLOCK_COST) {
        if (j->bm >= j->bn && j->bm > mr) j->bm = pieces(j->bm / mr, 2) * mr;
        else if (j->bn > nr) j->bn = pieces(j->bn / nr, 2) * nr;
        else break;
    }
}

static void slices_of_item(ct_context *context, job *j) {
    const int64_t mr = j->kernels->mr, nr = j->kernels->nr, kc = j->kernels->kc;
    for (j->n0 = 0; j->n0 < j->n; j->n0 += SLICE_N) {
        j->nl = min(SLICE_N, j->n - j->n0);
        for (j->k0 = 0; j->k0 < j->k; j->k0 += kc) {
            j->kl = min(kc, j->k - j->k0);
            for (j->m0 = 0; j->m0 < j->m; j->m0 += SLICE_M) {
                j->ml = min(SLICE_M, j->m - j->m0);
                j->a_panels = pieces(j->ml, mr);
                ct_parallel(context, j->a_panels + (j->m0 == 0 ? pieces(j->nl, nr) : 0), PACK_PANELS, pack_task, j);
                choose_block(j);
                ct_parallel(context, pieces(j->ml, j->bm) * pieces(j->nl, j->bn), 1, block_task, j);
            }
        }
    }
}

static bool slices(ct_context *context, job *j, int64_t batch) {
    const int64_t kl = min(j->k, j->kernels->kc);
    j->a_bytes = slice_bytes(min(j->m, SLICE_M), j->kernels->mr, kl, j->size);
    j->b_bytes = slice_bytes(min(j->n, SLICE_N), j->kernels->nr, kl, j->size);
    const ct_matrix a = j->a, b = j->b, c = j->c;
    if (!(j->scratch = ct_take(context, j->a_bytes + j->b_bytes))) return false;
    for (int64_t item = 0; item < batch; item++) {
        j->a.data = at(j, &a, item, 0, 0);
        j->b.data = at(j, &b, item, 0, 0);
        j->c.data = at(j, &c, item, 0, 0);
        slices_of_item(context, j);
    }
    ct_give(context, j->scratch, j->a_bytes + j->b_bytes);
    return true;
}

/* ---- */

static void zero_task(void *arg, int64_t begin, int64_t end, int worker) {
    const job *j = arg;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        for (int64_t col = 0; col < j->n && !j->end.add; col++) memset(at(j, &j->c, i / j->m, i % j->m, col), 0, (size_t)j->size);
        done(j, i / j->m, i % j->m, 0, 1, j->n);
    }
}

bool ct_gemm(ct_context *context, ct_dtype dtype, int64_t batch, int64_t m, int64_t n, int64_t k, double alpha, ct_matrix a, ct_matrix b,
             ct_gemm_end end, ct_matrix c) {
    if (batch <= 0 || m <= 0 || n <= 0) return true;
    job j = {.kernels = &context->isa->of[dtype]->gemm, .size = dtype == CT_F32 ? 4 : 8, .m = m, .n = n, .k = k, .alpha = alpha, .end = end,
             .a = a, .b = b, .c = c};
    if (k <= 0) {
        ct_parallel(context, batch * m, pieces(65536, n), zero_task, &j);
        return true;
    }
    if ((n == 1 && m > 1) || (m > 1 && c.col != 1 && c.row == 1)) {   /* C' = B' A': a column becomes a row, and columns rows */
        j.turned = true;
        j.m = n; j.n = m;
        j.a = transposed(b); j.b = transposed(a); j.c = transposed(c);
    }
    const double cost = (double)m * (double)n * (double)k;
    if (j.m == 1) return rows(context, &j, batch);
    if (cost <= ITEM_COST || (batch >= 16 && cost <= BATCH_COST)) return items(context, &j, batch, cost);
    return slices(context, &j, batch);
}
