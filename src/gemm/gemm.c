/* Matrix products on all threads, by the table's register block.
 *
 * C is cut into blocks, which are the pieces of work. For each, a strip of B's columns is packed into panels, as many as a second-level
 * cache holds, and each few rows of A meet all of them at once: these rows stay in the first-level cache, the panels stream from the
 * second, and an element of C is finished before the next rows are begun. Where B's rows are dense and near each other it is read in
 * place. So is A, unless several panels meet it and its columns are far apart, or many and its rows all begin in the same set of a cache:
 * then it is packed before, by all threads. C of few rows has a way of its own.
 *
 * Threads share C by rows where they can: what made A, and what reads C, is shared out by rows too, so they find them in their own
 * caches. For that a B that is not large is packed once, by all, for all to read. A small C that sums over many k, as the gradient of a
 * weight does, is shared by slices of k instead, each thread's its own rows of A and B, and the slices' sums are added at the end.
 *
 * An element of C is the sum over k in order within a slice, and slices are added in order; their length follows from the sizes alone.
 * So neither the blocks along M and N, which follow from the size of the cache, nor the threads change a bit of it. */
#include "gemm.h"

#include <string.h>

enum {
    TALL = 20,           /* panels of A in a block for which B is packed without regret */
    PACK_PANELS = 8,     /* of A, a piece of work */
    SHARED_B = 1 << 20,  /* bytes of B that are packed for all threads, at most */
    DEEP_C = 256 << 10,  /* bytes of a C that is shared out by slices, at most, */
    DEPTH = 8 << 10,     /* and of the slices of a row of A, at once */
    NEAR_B = 32 << 10,   /* rows of B in place: so many bytes apart, from place to place of a first-level cache, they meet in it but once */
    SMALL_B = 20 << 10,  /* bytes of B that are packed for a small product, at most: they are on the stack */
    FEW = 32,            /* rows of C that are dot products, */
    FEW_K = 20,          /* if K is so many times longer */
    NEAR_A = 256,        /* A in place though its rows are not dense: bytes from one of its columns to the next, at most, */
    PANELS = 4,          /* or panels of B that meet it; */
    ALIASED_PANELS = 3,  /* where its columns fall into a few sets of a first-level cache, */
    SET_PANELS = 1,      /* into the same, */
    ROWS_PANELS = 16,    /* and A in place though its rows are a multiple of WAY apart: panels of B that meet it, at most; */
    FEW_WAYS = 8,        /* where a set of that cache has more lines, in place whatever its rows are */
    WAY = 4096,          /* bytes of a way of a first-level cache: what is so far apart begins in the same set */
};
static const double PIECE_COST = 1 << 18;   /* of a piece of work at least, in multiplications: some 3 us */

typedef struct {
    const cti_gemm_kernels *kernels;
    int64_t size;              /* of an element, in bytes */
    int64_t m, n, k, kc;       /* kc: the length of a slice */
    double alpha;
    bool turned;               /* A, B and C are the transposed of the caller's, C' = B' A' */
    const cti_gemm_epilogue *end;
    bool add;                  /* onto C, as it is or filled with the bias; */
    const char *bias;          /* else onto this in every row, or NULL: 0 */
    const cti_matrix *a, *b, *c;
    bool roomy;                /* a set of the first-level cache has many lines */
    bool pack_a, pack_b;
    bool shared_b;             /* B is packed before, for all to read */
    bool deep;                 /* a slice is a piece of work */
    int64_t item0, items, m0, ml, k0, kl;   /* what is computed now: some items, or some rows of one, and some of K */
    int64_t bm, bn;            /* the block of C that is a piece of work */
    int64_t down, across;      /* how many of them */
    int64_t cache;             /* bytes of the second level; */
    int64_t near;              /* of B that may be read in place, */
    int64_t strip, chunk;      /* of B that a worker packs at once, and of A that are packed at once */
    char *packed, *strips;     /* panels of A; of B each worker's, so many bytes, or all of B */
    size_t b_bytes;
    cti_binary *sum;               /* of the same dtype */
    char *sums;                /* of the slices but the first, each a dense m x n */
} job;

static int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t pieces(int64_t n, int64_t size) { return n / size + (n % size != 0); }
static int64_t up(int64_t n, int64_t size) { return pieces(n, size) * size; }

static void *at(const job *j, const cti_matrix *x, int64_t item, int64_t row, int64_t col) {
    return (char *)x->data + (item * x->batch + row * x->row + col * x->col) * j->size;
}

static cti_matrix transposed(cti_matrix x) { return (cti_matrix){x.data, x.col, x.row, x.batch}; }

/* Rows [m, m + rows) and columns [n, n + cols) of C are complete. */
static void done(const job *j, int64_t item, int64_t m, int64_t n, int64_t rows, int64_t cols) {
    if (!j->end->done) return;
    const int64_t row = j->c->row, col = j->c->col;
    void *data = at(j, j->c, item, m, n);
    if (j->turned) j->end->done(j->end->arg, &(cti_matrix){data, col, row, 0}, cols, rows);
    else j->end->done(j->end->arg, &(cti_matrix){data, row, col, 0}, rows, cols);
}

/* ---- C of few rows ---- */

/* One, or so few, with A and B dense along K, that it costs less to add up the lanes of vectors than to turn B for them. */
static bool is_few(const job *j) {
    return j->m == 1 || (j->b->col != 1 && j->b->row == 1 && j->a->col == 1 && j->m <= FEW && j->m <= j->k / FEW_K);
}

static void few_task(void *arg, int64_t begin, int64_t end, int worker) {
    const job *j = arg;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const int64_t item = i / j->across, n0 = i % j->across * j->bn, nl = min(j->bn, j->n - n0);
        for (int64_t k0 = 0; k0 < j->k; k0 += j->kc) {
            const int64_t kl = min(j->kc, j->k - k0);
            const void *a = at(j, j->a, item, 0, k0), *b = at(j, j->b, item, k0, n0);
            void *c = at(j, j->c, item, 0, n0);
            const bool add = j->add || k0 > 0;
            if (j->m == 1) j->kernels->row(nl, kl, a, j->a->col, b, j->b->row, j->b->col, j->alpha, add, c, j->c->col);
            else j->kernels->dots(j->m, nl, kl, a, j->a->row, b, j->b->col, j->alpha, add, c, j->c->row, j->c->col);
        }
        done(j, item, 0, n0, j->m, nl);
    }
}

static void few(ct_context *context, job *j, int64_t batch) {
    j->bn = j->m == 1 ? 256 : 64;   /* pieces start at multiples of any vector */
    while (j->bn < j->n && (double)j->bn * (double)j->m * (double)j->k < 65536) j->bn *= 2;
    j->across = pieces(j->n, j->bn);
    const double cost = (double)min(j->bn, j->n) * (double)j->m * (double)j->k;
    cti_parallel(context, batch * j->across, cost < 65536 ? (int64_t)(65536 / cost) : 1, few_task, j);
}

/* ---- blocks ---- */

/* Rows m on of an item, packed: panels of mr rows and kl columns. */
static char *panels(const job *j, int64_t item, int64_t m) {
    const int64_t mr = j->kernels->mr;
    return j->packed + ((item - j->item0) * up(j->ml, mr) + (m - j->m0)) * j->kl * j->size;
}

static void pack_task(void *arg, int64_t begin, int64_t end, int worker) {
    const job *j = arg;
    const int64_t rows = PACK_PANELS * j->kernels->mr, per_item = pieces(j->ml, rows);
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const int64_t item = j->item0 + i / per_item, m = j->m0 + i % per_item * rows;
        j->kernels->pack_a(min(rows, j->m0 + j->ml - m), j->kl, at(j, j->a, item, m, j->k0), j->a->row, j->a->col, panels(j, item, m));
    }
}

/* Panels of B for all. */
static void pack_b_task(void *arg, int64_t begin, int64_t end, int worker) {
    const job *j = arg;
    (void)worker;
    j->kernels->pack_b(j->kl, end - begin, at(j, j->b, 0, j->k0, begin), j->b->row, j->b->col, j->strips + begin * j->kl * j->size);
}

/* What a piece sums over, [k, k + kl) of A's and B's present k, and where to. */
typedef struct {
    int64_t k, kl;
    bool add;
    const char *bias;
    cti_matrix c;
} part;

static part part_of(const job *j, int64_t slice) {
    const bool add = j->add || j->k0 > 0;
    if (!j->deep) return (part){0, j->kl, add, j->bias, *j->c};
    const int64_t k = slice * j->kc, kl = min(j->kc, j->kl - k);
    if (slice == 0) return (part){k, kl, add, j->bias, *j->c};
    return (part){k, kl, false, NULL, {j->sums + (slice - 1) * j->m * j->n * j->size, j->n, 1, 0}};
}

/* Columns [n, n + cols) of B, where they lie or as panels. */
typedef struct {
    const char *data;
    int64_t panel, row;    /* bytes from one panel to the next, elements from one row to the next */
    int64_t n, cols;
    const char *source;    /* what is packed: it may be wanted again */
} strip;

static strip next_strip(const job *j, const part *p, int64_t item, int64_t n, strip last, char *packed) {
    const int64_t nr = j->kernels->nr, cols = min(j->bn, j->n - n);
    const char *source = at(j, j->b, item, j->k0 + p->k, n);
    if (!j->pack_b) return (strip){source, nr * j->size, j->b->row, n, cols, NULL};
    const strip s = {j->shared_b ? j->strips + n * p->kl * j->size : packed, nr * p->kl * j->size, nr, n, cols, source};
    if (j->shared_b || (last.source == source && last.cols == cols)) return s;
    j->kernels->pack_b(p->kl, cols, source, j->b->row, j->b->col, packed);
    return s;
}

static cti_gemm_form form_of(const job *j, int64_t k, int64_t a_row, int64_t a_col, int64_t b_row, bool add, const cti_matrix *c) {
    return (cti_gemm_form){k, a_row, a_col, b_row, c->row, c->col, add ? c->row : 0, j->alpha};
}

/* Rows [m, m + rows), at most mr, by a strip. */
static void meet(const job *j, const part *p, int64_t item, int64_t m, int64_t rows, strip s) {
    const cti_gemm_kernels *f = j->kernels;
    const int64_t a_row = j->pack_a ? 1 : j->a->row, a_col = j->pack_a ? f->mr : j->a->col;
    const char *a = (j->pack_a ? panels(j, item, m) : (char *)at(j, j->a, item, m, j->k0)) + p->k * a_col * j->size;
    const cti_gemm_form form = form_of(j, p->kl, a_row, a_col, s.row, p->add, &p->c);
    char *c = at(j, &p->c, item, m, s.n);
    f->blocks(&form, rows, s.cols, a, s.data, s.panel, p->add ? c : p->bias ? p->bias + s.n * j->size : NULL, c);
    if (j->k0 + j->kl == j->k) done(j, item, m, s.n, rows, s.cols);
}

/* Pieces with the same strip follow each other: all rows of all items, which may share B. */
static void block_task(void *arg, int64_t begin, int64_t end, int worker) {
    const job *j = arg;
    const int64_t mr = j->kernels->mr;
    char *const mine = j->strips ? j->strips + (size_t)worker * j->b_bytes : NULL;
    strip s = {0};
    for (int64_t i = begin; i < end; i++) {
        const int64_t item = j->item0 + i / j->down % j->items, m = j->m0 + i % j->down * j->bm, m_end = min(m + j->bm, j->m0 + j->ml);
        const int64_t column = i / j->down / j->items;
        const part p = part_of(j, column / j->across);
        s = next_strip(j, &p, item, column % j->across * j->bn, s, mine);
        for (int64_t row = m; row < m_end; row += mr) meet(j, &p, item, row, min(mr, m_end - row), s);
    }
}

/* Rows of C get the sums of the slices but the first, in their order. */
static void sum_task(void *arg, int64_t begin, int64_t end, int worker) {
    const job *j = arg;
    (void)worker;
    for (int64_t slice = 1; slice < pieces(j->kl, j->kc); slice++) {
        const part p = part_of(j, slice);
        for (int64_t m = begin; m < end; m++) {
            void *c = at(j, j->c, 0, m, 0);
            j->sum(j->n, c, 1, at(j, &p.c, 0, m, 0), 1, c);
        }
    }
}

static int64_t slices(const job *j) { return j->deep ? pieces(j->kl, j->kc) : 1; }

static double cost(const job *j) { return (double)j->bm * (double)j->bn * (double)(j->deep ? j->kc : j->kl); }

/* Are there pieces for all threads, some for who is late, and do all end together? */
static bool is_shared(const job *j, int threads) {
    const int64_t parts = slices(j) * j->items, count = parts * pieces(j->ml, j->bm) * pieces(j->n, j->bn), rounds = pieces(count, threads);
    return count >= 4 * threads &&
           (double)parts * (double)j->ml * (double)j->n >= 0.93 * (double)rounds * (double)threads * (double)j->bm * (double)j->bn;
}

/* All rows and as many columns as a strip has, then smaller until it can be shared out among threads: by rows as long as that costs
 * nothing (each of a strip's blocks may be another worker's, who packs it again), then by columns. */
static void choose_block(job *j, int threads) {
    const int64_t mr = j->kernels->mr, nr = j->kernels->nr;
    j->bm = j->ml;
    j->bn = up(j->n, nr);
    if (j->pack_b && !j->shared_b) {
        const int64_t most = j->strip / ((j->deep ? j->kc : j->kl) * j->size) / nr * nr;
        j->bn = up(pieces(j->n, pieces(j->n, most < nr ? nr : most)), nr);
    }
    while (threads > 1 && cost(j) > 2 * PIECE_COST && !is_shared(j, threads)) {
        if (j->bm > (j->pack_b && !j->shared_b ? TALL : 2) * mr) j->bm = up(pieces(j->bm, 2), mr);
        else if (j->bn > 2 * nr) j->bn = min(up(j->bn / 8 * 7, nr), j->bn - nr);
        else if (j->bm > 2 * mr) j->bm = up(pieces(j->bm, 2), mr);
        else break;
    }
    j->down = pieces(j->ml, j->bm);
    j->across = pieces(j->n, j->bn);
}

static int64_t size_of(int64_t x) { return x < 0 ? -x : x; }

/* Is B as good where it lies: its rows fit half of a second-level cache, and do not begin in so few sets of the first that panels of it push
 * themselves out? For few rows of A those of B may, unless they all begin in the same two. */
static bool is_near(const job *j) {
    const int64_t step = size_of(j->b->row) * j->size;
    const int64_t lowest = step & -step, meet = j->k * min(lowest, WAY);   /* an odd multiple of 2^i leads to WAY / 2^i places */
    return step <= j->near / j->k && (meet <= NEAR_B || (lowest < 2048 && j->m <= 2 * TALL * j->kernels->mr));
}

/* Is it worth packing A for the panels of B that meet it: its columns are far apart, or its rows all begin in the same set? The widest
 * blocks use most of each line of a column: where a set has many lines twice as many panels meet columns in place, of f64 four times,
 * unless the columns begin in the same set and a second-level cache does not hold so many, so far apart. */
static bool is_far(const job *j) {
    const int64_t col = size_of(j->a->col) * j->size, row = size_of(j->a->row) * j->size, nr = j->kernels->nr;
    if (j->a->col == 1) return !j->roomy && row % WAY == 0 && j->n > ROWS_PANELS * nr;
    const bool wide = j->roomy && j->kernels->lanes * j->size == 64, held = col % WAY != 0 || col <= j->cache / min(j->k, j->kc);
    const int64_t times = !wide ? 1 : j->size == 8 && held ? 4 : 2;
    return col > NEAR_A && j->n > (col % 2048 == 0 ? SET_PANELS : col % 256 == 0 ? ALIASED_PANELS : PANELS) * times * nr;
}

/* One product by one thread, B in place or packed, its panels so many bytes apart. */
static inline void at_once(const job *j, const char *b, int64_t b_row, int64_t panel) {
    const cti_matrix *c = j->c;
    for (int64_t k = 0; k < j->k; k += j->kc) {
        const bool add = j->add || k > 0;
        const cti_gemm_form form = form_of(j, min(j->kc, j->k - k), j->a->row, j->a->col, b_row, add, c);
        j->kernels->blocks(&form, j->m, j->n, at(j, j->a, 0, 0, k), b + k * b_row * j->size, panel, add ? c->data : j->bias, c->data);
    }
    done(j, 0, 0, 0, j->m, j->n);
}

__attribute__((noinline))   /* what is on its stack is not on the others' */
static void pack_at_once(const job *j) {
    _Alignas(CTI_ALIGN) char packed[SMALL_B];
    const int64_t nr = j->kernels->nr;
    j->kernels->pack_b(j->k, j->n, j->b->data, j->b->row, j->b->col, packed);
    at_once(j, packed, nr, nr * j->k * j->size);
}

/* A small one is done, unless B does not lie well and is too large to be packed here. */
static bool small(const job *j) {
    const int64_t nr = j->kernels->nr;
    if (!cti_gemm_is_small(j->m, j->n, j->k)) return false;
    if (j->b->col == 1) at_once(j, j->b->data, j->b->row, nr * j->size);
    else if ((j->n + nr) * j->k * j->size <= SMALL_B) pack_at_once(j);
    else return false;
    return true;
}

/* Memory for the packed A, each worker's or everyone's strip of B, and the slices' sums. */
static int64_t carve(job *j, int64_t together, int64_t chunk, int64_t bk, int workers, int64_t *b_at, int64_t *sums_at) {
    const int64_t mr = j->kernels->mr, nr = j->kernels->nr, size = j->size;
    const int64_t a = j->pack_a ? up(together * up(chunk, mr) * bk * size, CTI_ALIGN) : 0;
    const int64_t columns = up(j->shared_b ? j->n : j->bn, nr);
    j->b_bytes = j->pack_b ? (size_t)up(columns * (j->deep ? j->kc : bk) * size, CTI_ALIGN) : 0;
    const int64_t b = (j->shared_b ? 1 : workers) * (int64_t)j->b_bytes;
    *b_at = a, *sums_at = a + b;
    return a + b + (j->deep ? (pieces(bk, j->kc) - 1) * j->m * j->n * size : 0);
}

static bool blocks(ct_context *context, job *j, int64_t batch) {
    const cti_gemm_kernels *f = j->kernels;
    const int threads = cti_parallel_width(context);
    const bool split = threads > 1 && batch == 1 && (double)j->m * (double)j->n * (double)j->k > 2 * PIECE_COST;
    const int64_t depth = min(j->k, DEPTH / (j->kc * j->size) * j->kc);
    int64_t chunk = j->m, together = batch;   /* rows and items computed at once */
    int64_t b_at, sums_at;
    j->packed = NULL;
    j->cache = context->cache, j->near = context->cache / 2, j->strip = context->cache / 8 * 3, j->chunk = 4 * context->cache;
    j->deep = split && j->alpha == 1 && depth > j->kc && j->c->col == 1 && !j->end->done && j->m * j->n * j->size <= DEEP_C;
    j->roomy = context->ways > FEW_WAYS;
    j->pack_a = !j->deep && is_far(j);
    j->pack_b = j->b->col != 1 || (j->m > 2 * f->mr && !is_near(j));
    const int64_t bk = j->deep ? depth : min(j->k, j->kc), panel = f->mr * bk * j->size;
    j->shared_b = split && !j->deep && j->pack_b && j->m >= 8 * threads * f->mr && up(j->n, f->nr) <= SHARED_B / (bk * j->size);
    if (j->pack_a) {
        chunk = min(j->m, pieces(j->chunk, panel) * f->mr);
        together = min(batch, pieces(j->chunk, pieces(chunk, f->mr) * panel));
    }
    j->items = together, j->ml = chunk, j->kl = bk;
    choose_block(j, threads);
    const int64_t grain = cost(j) < PIECE_COST ? (int64_t)(PIECE_COST / cost(j)) : 1;
    const int workers = slices(j) * together * j->down * j->across > grain ? threads : 1;
    const size_t bytes = cti_bytes(carve(j, together, chunk, bk, workers, &b_at, &sums_at), 1);
    if (bytes) {
        if (!(j->packed = cti_take(context, bytes))) return false;
        j->strips = j->packed + b_at;
        j->sums = j->packed + sums_at;
    }
    for (j->k0 = 0; j->k0 < j->k; j->k0 += bk) {
        j->kl = min(bk, j->k - j->k0);
        if (j->shared_b) cti_parallel(context, j->n, pieces(pieces(j->n, f->nr), 2 * threads) * f->nr, pack_b_task, j);
        for (j->item0 = 0; j->item0 < batch; j->item0 += together) {
            j->items = min(together, batch - j->item0);
            for (j->m0 = 0; j->m0 < j->m; j->m0 += chunk) {
                j->ml = min(chunk, j->m - j->m0);
                j->down = pieces(j->ml, j->bm);
                if (j->pack_a) cti_parallel(context, j->items * pieces(j->ml, PACK_PANELS * f->mr), 1, pack_task, j);
                cti_parallel(context, slices(j) * j->items * j->down * j->across, grain, block_task, j);
            }
        }
        if (j->deep) cti_parallel(context, j->m, pieces(16384, j->n), sum_task, j);
    }
    cti_give(context, j->packed, bytes);
    return true;
}

/* ---- */

static void zero_task(void *arg, int64_t begin, int64_t end, int worker) {
    const job *j = arg;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        for (int64_t col = 0; col < j->n && !j->add; col++) memset(at(j, j->c, i / j->m, i % j->m, col), 0, (size_t)j->size);
        done(j, i / j->m, i % j->m, 0, 1, j->n);
    }
}

/* Who cannot begin with the bias adds to a C that is it. */
static void fill_with_bias(const cti_kernels *kernels, job *j, int64_t batch) {
    const cti_matrix c = j->turned ? transposed(*j->c) : *j->c;
    const int64_t m = j->turned ? j->n : j->m, n = j->turned ? j->m : j->n;
    for (int64_t i = 0; i < batch; i++) kernels->copy2d(m, n, j->bias, 0, 1, at(j, &c, i, 0, 0), c.row, c.col, false);
    j->add = true, j->bias = NULL;
}

/* As many slices as it takes, all as long but the last; two at least where threads may share them. */
static int64_t slice_length(const job *j) {
    const bool deep = j->k >= CTI_GEMM_DEEP && j->k > j->m && j->k > j->n && j->m <= DEEP_C / j->size / j->n;
    if (!deep && j->k <= j->kernels->kc) return j->k;
    const int64_t count = pieces(j->k, j->kernels->kc), least = deep ? 2 : 1;
    return up(pieces(j->k, count < least ? least : count), 8);
}

bool cti_gemm_any(ct_context *context, ct_dtype dtype, int64_t batch, int64_t m, int64_t n, int64_t k, double alpha, const cti_matrix *a,
                 const cti_matrix *b, const cti_gemm_epilogue *end, const cti_matrix *c) {
    if (batch <= 0 || m <= 0 || n <= 0) return true;
    static const cti_gemm_epilogue plain = {0};
    job j;   /* the rest is for those who need it: clearing it all would take as long as a small product */
    cti_matrix turned[3];
    j.kernels = &context->isa->of[dtype]->gemm, j.size = (int64_t)cti_dtype_size(dtype), j.alpha = alpha;
    j.turned = (n == 1 && m > 1) || (m > 1 && c->col != 1 && c->row == 1);   /* C' = B' A': a column becomes a row, and columns rows */
    j.m = m, j.n = n, j.k = k, j.kc = slice_length(&j), j.sum = context->isa->of[dtype]->add;
    j.end = end ? end : &plain, j.a = a, j.b = b, j.c = c;
    if (j.turned) {
        j.m = n, j.n = m;
        turned[0] = transposed(*b), turned[1] = transposed(*a), turned[2] = transposed(*c);
        j.a = &turned[0], j.b = &turned[1], j.c = &turned[2];
    }
    j.add = j.end->add, j.bias = j.add ? NULL : j.end->bias;
    if (j.bias && (j.turned || j.c->col != 1 || k <= 0 || is_few(&j))) fill_with_bias(context->isa->of[dtype], &j, batch);
    if (k <= 0) cti_parallel(context, batch * j.m, pieces(65536, j.n), zero_task, &j);
    else if (is_few(&j)) few(context, &j, batch);
    else return (batch == 1 && small(&j)) || blocks(context, &j, batch);
    return true;
}
