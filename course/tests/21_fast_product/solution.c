/* Tiles of 4 rows and 4 columns, whose sums stay in registers: a step of the sum reads four numbers
 * of a and four of b, for sixteen products. Both are packed, so that these lie side by side, and
 * filled up with zeros at the edges. */
#include "exercise.h"

#include <stdlib.h>
#include <string.h>

enum { TILE = 4 };
typedef double pair __attribute__((vector_size(16))); /* two numbers, for one instruction */

static pair pair_at(const double *x) {
    pair p;
    memcpy(&p, x, sizeof p);
    return p;
}

/* A tile of c: sums over k of TILE numbers of a times TILE numbers of b. Each of the eight pairs
 * has a name, so that the compiler keeps it in a register. */
static void compute_tile(int64_t k, const double *a, const double *b, double c[TILE][TILE]) {
    const pair zero = {0, 0};
    pair c00 = zero, c02 = zero, c10 = zero, c12 = zero, c20 = zero, c22 = zero, c30 = zero,
         c32 = zero;
    for (int64_t p = 0; p < k; p++, a += TILE, b += TILE) {
        const pair b0 = pair_at(b), b2 = pair_at(b + 2);
        const pair a0 = {a[0], a[0]}, a1 = {a[1], a[1]};
        c00 += a0 * b0, c02 += a0 * b2, c10 += a1 * b0, c12 += a1 * b2;
        const pair a2 = {a[2], a[2]}, a3 = {a[3], a[3]};
        c20 += a2 * b0, c22 += a2 * b2, c30 += a3 * b0, c32 += a3 * b2;
    }
    const pair all[TILE][2] = {{c00, c02}, {c10, c12}, {c20, c22}, {c30, c32}};
    memcpy(c, all, sizeof all);
}

/* Packs TILE rows of a: the numbers of a step side by side. Those after `count` rows are 0. */
static void pack_rows(int64_t count, int64_t k, const double *a, double *packed) {
    for (int64_t p = 0; p < k; p++)
        for (int64_t r = 0; r < TILE; r++) packed[p * TILE + r] = r < count ? a[r * k + p] : 0;
}
static void pack_columns(int64_t count, int64_t k, int64_t n, const double *b, double *packed) {
    for (int64_t p = 0; p < k; p++)
        for (int64_t j = 0; j < TILE; j++) packed[p * TILE + j] = j < count ? b[p * n + j] : 0;
}

static int64_t at_most(int64_t x) { return x < TILE ? x : TILE; }

void product(int64_t m, int64_t n, int64_t k, const double *a, const double *b, double *c) {
    double tile[TILE][TILE];
    double *rows = malloc((size_t)((m + TILE) * k) * sizeof *rows),
           *columns = malloc((size_t)(TILE * k) * sizeof *columns);
    for (int64_t i = 0; i < m; i += TILE) pack_rows(at_most(m - i), k, a + i * k, rows + i * k);
    for (int64_t j = 0; j < n; j += TILE) {
        const int64_t wide = at_most(n - j);
        pack_columns(wide, k, n, b + j, columns);
        for (int64_t i = 0; i < m; i += TILE) {
            compute_tile(k, rows + i * k, columns, tile);
            for (int64_t r = 0; r < at_most(m - i); r++)
                memcpy(c + (i + r) * n + j, tile[r], (size_t)wide * sizeof *c);
        }
    }
    free(rows), free(columns);
}
