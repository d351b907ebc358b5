/* sum_i t_i^2 in f64: the sums of fixed pieces, added in their order. */
#include "op.h"
#include "update.h"

#include <math.h>

enum { PIECE = 16384 };

typedef struct {
    const ct_tensor *t;
    double *sums;
} squares;

static void sum_pieces(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const squares *s = arg;
    const ct_tensor *t = s->t;
    for (int64_t i = begin; i < end; i++) {
        const int64_t at = i * PIECE, n = t->numel - at < PIECE ? t->numel - at : PIECE;
        s->sums[i] = t->context->isa->of[t->dtype]->sum_squares(n, t->data + (size_t)at * ct_dtype_size(t->dtype));
    }
}

double op_sum_squares(ct_tensor *t) {
    if (!op_updatable(t, "sum_squares", true)) return NAN;
    const int64_t pieces = t->numel / PIECE + (t->numel % PIECE != 0);
    const size_t bytes = ct_bytes(pieces, sizeof(double));
    double *sums = ct_take(t->context, bytes), total = 0;
    if (!sums) return NAN;
    ct_parallel(t->context, pieces, 1, sum_pieces, &(squares){t, sums});
    for (int64_t i = 0; i < pieces; i++) total += sums[i];
    ct_give(t->context, sums, bytes);
    return total;
}
