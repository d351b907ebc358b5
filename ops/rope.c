/* rope: each pair (a, b) of a row at position p is rotated by t = p f_j and multiplied by the
 * attention_factor s, giving (a s cos t - b s sin t, a s sin t + b s cos t), and the rest of the
 * row is copied; dx = s g rotated by -t.
 * Su et al. 2021, arXiv:2104.09864 */
#include "support/op.h"
#include "support/rotary.h"
#include "../src/kernels/rows.h"

#include <string.h>

typedef struct {
    const cti_kernels *k;
    int64_t n, dims;         /* elements of a row, and how many of them are rotated */
    int64_t positions;       /* T */
    int64_t rows_of_batch;   /* consecutive rows that use the same T rows of the table */
    size_t size, angle_size; /* bytes of an element of x, and of a cosine */
    const char *x, *cos, *sin;
    bool interleaved;
    double sign; /* -1 rotates back */
    char *y;
} rope_args;

static void rope_rows(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const rope_args *a = arg;
    const size_t turned = (size_t)a->dims * a->size, rest = (size_t)(a->n - a->dims) * a->size;
    int64_t t = begin % a->positions, first = begin / a->rows_of_batch * a->positions;
    for (int64_t r = begin; r < end; r++) {
        const size_t row = (size_t)(r * a->n) * a->size,
                     angles = (size_t)((first + t) * (a->dims / 2)) * a->angle_size;
        a->k->rows->rope(a->dims, a->x + row, a->cos + angles, a->sin + angles, a->interleaved,
                         a->sign, a->y + row);
        if (rest) memcpy(a->y + row + turned, a->x + row + turned, rest);
        if (++t < a->positions) continue;
        t = 0;
        first = (r + 1) / a->rows_of_batch * a->positions;
    }
}

static ct_tensor *rope_turn(const ct_call *c, ct_tensor *x, double sign) {
    ct_tensor *y = cti_op_new(c, x->dtype, x->shape);
    if (y && y->numel > 0) {
        const ct_rope_opts *opts = c->attrs;
        const int64_t n = x->shape.dim[x->shape.ndim - 1], rows = x->numel / n,
                      positions = x->shape.dim[x->shape.ndim - 2];
        rope_args a = {.k = kernels(c),
                       .n = n,
                       .dims = opts->dims ? opts->dims : n,
                       .positions = positions,
                       .rows_of_batch = rows / (c->saved[0]->shape.dim[0] / positions),
                       .size = cti_dtype_size(x->dtype),
                       .angle_size = cti_dtype_size(c->saved[0]->dtype),
                       .x = x->data,
                       .cos = c->saved[0]->data,
                       .sin = c->saved[1]->data,
                       .interleaved = opts->interleaved,
                       .sign = sign,
                       .y = y->data};
        cti_parallel(c->context, rows, cti_op_grain(n), rope_rows, &a);
    }
    return y;
}

typedef struct {
    const int64_t *position; /* NULL: row p has position p */
    const double *rate;      /* the frequencies of the pairs */
    int64_t half;
    double factor;
    ct_tensor *cos, *sin;
} angle_table;

static void fill_angles(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const angle_table *t = arg;
    for (int64_t p = begin; p < end; p++) {
        const double position = (double)(t->position ? t->position[p] : p);
        for (int64_t j = 0; j < t->half; j++) {
            const double angle = position * t->rate[j], c = cos(angle), s = sin(angle);
            const int64_t at = p * t->half + j;
            cti_real_set(t->cos->dtype, t->cos->data, at, t->factor * c);
            cti_real_set(t->sin->dtype, t->sin->data, at, t->factor * s);
        }
    }
}

/* Makes the tables of cosines and sines, (positions, half), or (B positions, half) if each sequence
 * has positions of its own. */
static bool rope_table(ct_call *c, const ct_rope_opts *opts) {
    const ct_tensor *x = c->in[0], *positions = c->in[1];
    const int64_t rows = positions ? positions->numel : x->shape.dim[x->shape.ndim - 2],
                  half = opts->dims / 2;
    ct_tensor *rate = cti_op_new(c, CT_F64, CT_SHAPE(half));
    const ct_dtype statistics = cti_dtype_statistics(x->dtype); /* kernels compute in it */
    c->saved[0] = cti_op_new(c, statistics, CT_SHAPE(rows, half));
    c->saved[1] = cti_op_new(c, statistics, CT_SHAPE(rows, half));
    if (!rate || !c->saved[0] || !c->saved[1]) return false;
    double *r = (double *)rate->data;
    for (int64_t j = 0; j < half; j++)
        r[j] = opts->frequencies ? opts->frequencies[j] : cti_rotary_frequency(opts->base, j, half);
    cti_parallel(c->context, rows, cti_op_grain(half * 16), fill_angles,
                 &(angle_table){.position = positions ? (const int64_t *)positions->data : NULL,
                                .rate = r,
                                .half = half,
                                .factor = opts->attention_factor,
                                .cos = c->saved[0],
                                .sin = c->saved[1]});
    return true;
}

/* Returns whether positions are (T), or (B, T) with x (B, ..., T, d). */
static bool rope_fits(const ct_tensor *positions, const ct_tensor *x) {
    const ct_shape p = positions->shape, s = x->shape;
    if (p.ndim == 2 && (s.ndim < 3 || p.dim[0] != s.dim[0])) return false;
    return (p.ndim == 1 || p.ndim == 2) && p.dim[p.ndim - 1] == s.dim[s.ndim - 2];
}

static ct_tensor *rope_forward(ct_call *c) {
    ct_tensor *x = c->in[0], *positions = c->in[1];
    ct_rope_opts opts = *(const ct_rope_opts *)c->attrs;
    c->drop = CT_DROP_INPUTS | CT_DROP_OUT;
    if (!cti_op_is_real(c, 0) || (positions && !cti_op_is(c, 1, CT_I64))) return NULL;
    const int64_t n = x->shape.ndim ? x->shape.dim[x->shape.ndim - 1] : 0;
    if (x->shape.ndim < 2 || (!opts.dims && n % 2 != 0))
        return ct_fail(c->context, CT_ERR_SHAPE, "rope: %s is not (..., T, d) with an even d",
                       SHAPE(x->shape));
    if (!cti_rotary_check(c->context, "rope: ", &opts, n)) return NULL;
    if (opts.dims > n)
        return ct_fail(c->context, CT_ERR_SHAPE, "rope: rows of %s have fewer than dims = %lld",
                       SHAPE(x->shape), (long long)opts.dims);
    if (positions && !rope_fits(positions, x))
        return ct_fail(c->context, CT_ERR_SHAPE,
                       "rope: positions %s are not (T) or (B, T) of x = %s",
                       SHAPE(positions->shape), SHAPE(x->shape));
    /* if d = 0 any number of positions has no element, and no table is needed */
    if (x->numel == 0) return cti_op_new(c, x->dtype, x->shape);
    return rope_table(c, &opts) ? rope_turn(c, x, 1) : NULL;
}

static bool rope_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    return (grad[0] = rope_turn(c, g[0], -1)) != NULL;
}

/* Of the attributes, which a node keeps, backward reads neither `frequencies`, the caller's array,
 * nor the other numbers of the table. */
static const ct_op rope_op = {.name = "rope",
                              .attrs_size = sizeof(ct_rope_opts),
                              .forward = rope_forward,
                              .backward = rope_backward,
                              .flags = CT_OP_OPTIONAL};

ct_tensor *ct_rope(ct_tensor *x, ct_tensor *positions, ct_rope_opts opts) {
    return ct_apply(&rope_op, (ct_tensor *[]){x, positions}, 2, &opts);
}
