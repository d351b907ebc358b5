/* The macro-kernel on every tile there is: each number of rows and columns up to the largest tile
 * of each instruction set, each layout of A, C = A B and C = base + A B, C by rows and strided.
 * Operands are small whole numbers, so that the sums are exact and equal in any order. */
#include "kernels.h"
#include "src/kernels/products.h"

enum { ROWS = 16, K = 9, SLACK = 3 };

static int whole(int64_t i, int64_t j) { return (int)((i * 7 + j * 3) % 11) - 5; }

static void set(table t, void *p, int64_t i, double x) {
    if (t.dtype) ((double *)p)[i] = x;
    else ((float *)p)[i] = (float)x;
}

/* Elements of a matrix at these strides, others NaN. */
static void lay_out(table t, void *p, int64_t size, int64_t rows, int64_t cols, int64_t row,
                    int64_t col) {
    for (int64_t i = 0; i < size; i++) set(t, p, i, NAN);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) set(t, p, i * row + j * col, whole(i, j));
}

typedef struct {
    int64_t row, col;
} strides;

static void tile(table t, int64_t m, int64_t n, int64_t k, strides a, strides c, bool base,
                 double alpha) {
    enum { MOST = ROWS * 80 * 3 };
    static double pa[MOST], pb[MOST], pc[MOST], before[MOST], pbase[MOST];
    const int64_t b_row = n + SLACK, base_row = n + 1, count = c.row * m + c.col * n;
    lay_out(t, pa, MOST, m, k, a.row, a.col);
    lay_out(t, pb, MOST, k, n, b_row, 1);
    lay_out(t, pbase, MOST, m, n, base_row, c.col); /* columns as far apart as C's */
    for (int64_t i = 0; i < count; i++) set(t, pc, i, 1000 + (double)i);
    memcpy(before, pc, sizeof pc);
    const cti_gemm_params params = {.k = k,
                                    .a_row = a.row,
                                    .a_col = a.col,
                                    .b_row = b_row,
                                    .row = c.row,
                                    .col = c.col,
                                    .base_row = base_row,
                                    .alpha = alpha};
    t.k->gemm->macro_kernel(&params, m, n, pa, pb, t.k->gemm->nr * (int64_t)t.size,
                            base ? pbase : NULL, pc);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t p = 0; p < k; p++) sum += whole(i, p) * whole(p, j);
            const double want = alpha * sum + (base ? get(t, pbase, i * base_row + j * c.col) : 0);
            const int64_t at = i * c.row + j * c.col;
            EXPECT(get(t, pc, at) == want,
                   "%s %s: (%d %d %d), A %d %d, C %d %d, base %d: %g, not %g", t.isa,
                   t.dtype ? "f64" : "f32", (int)m, (int)n, (int)k, (int)a.row, (int)a.col,
                   (int)c.row, (int)c.col, base, get(t, pc, at), want);
            set(t, pc, at, get(t, before, at));
        }
    EXPECT(!memcmp(pc, before, sizeof pc), "%s: (%d %d %d) writes outside of C", t.isa, (int)m,
           (int)n, (int)k);
}

START_TEST(every_tile) {
    table t;
    ck_assert(table_at(_i, &t));
    const int64_t most =
                      t.k->gemm->mr_narrow > t.k->gemm->mr ? t.k->gemm->mr_narrow : t.k->gemm->mr,
                  nr = t.k->gemm->nr, lanes = t.k->gemm->lanes;
    ck_assert(most <= ROWS && nr <= 80);
    for (int64_t m = 1; m <= most; m++)
        for (int64_t n = 1; n <= nr; n++) {
            if (m > t.k->gemm->mr && n > lanes) continue; /* several tiles, as below */
            const int64_t k = 1 + (m + n) % K;
            const strides layouts[] = {{K, 1}, {1, m}, {1, t.k->gemm->mr}, {2 * K, 2}};
            for (int l = 0; l < 4; l++) {
                if (l == 2 && m > t.k->gemm->mr) continue;
                const bool base = (m + n + l) % 2, halved = (m + n) % 3 == 0;
                tile(t, m, n, k, layouts[l], (strides){n + SLACK, 1}, base, halved ? 0.5 : 1);
                tile(t, m, n, k, layouts[l], (strides){n + SLACK, 1}, !base, 1);
            }
            if (n < 9)
                tile(t, m, n, k, layouts[n % 4 == 2 ? 0 : n % 4], (strides){2 * n + 1, 2}, n % 2,
                     1);
        }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("gemm_tiles");
    TCase *tcase = tcase_create("gemm_tiles");
    table t;
    int tables = 0;
    while (table_at(tables, &t)) tables++;
    tcase_add_loop_test(tcase, every_tile, 0, tables);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
