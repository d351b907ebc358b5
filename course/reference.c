/* The judge's right values: see reference.h. */
#include "reference.h"

#include "wire.h"

#include <math.h>

/* ---- reading and making tensors ---- */

/* The numbers of a tensor of f64, bool or i64, one after the other. They live until the tensor's
 * scope ends. */
static const double *numbers_of(ct_tensor *x) {
    ct_tensor *dense = ct_contiguous(ct_detach(x));
    if (!dense || ct_dtype_of(x) == CT_F64) return dense ? ct_data_f64(dense) : NULL;
    ct_tensor *as_f64 = ct_empty(ct_context_of(x), CT_F64, ct_shape_of(x));
    if (!as_f64) return NULL;
    const bool *flags = ct_dtype_of(x) == CT_BOOL ? ct_data_bool(dense) : NULL;
    const int64_t *whole = ct_dtype_of(x) == CT_I64 ? ct_data_i64(dense) : NULL;
    for (int64_t i = 0; i < ct_numel(x); i++)
        ct_data_f64(as_f64)[i] = flags ? flags[i] : whole ? (double)whole[i] : NAN;
    return ct_data_f64(as_f64);
}

static ct_tensor *new_like(ct_tensor *x, ct_shape shape) {
    return ct_empty(ct_context_of(x), CT_F64, shape);
}

static ct_tensor *misfit(ct_tensor *x, const char *name) {
    return ct_fail(ct_context_of(x), CT_ERR_SHAPE, "reference: %s: the shapes do not fit", name);
}

/* Where element e of the shape `out` is read in a tensor of the shape `in`, which broadcasts to it:
 * a dim that `in` lacks, or that is 1, is read again and again. */
static int64_t read_at(ct_shape in, ct_shape out, int64_t e) {
    int64_t at = 0, step = 1;
    for (int d = out.ndim - 1, i = in.ndim - 1; i >= 0; d--, i--) {
        if (in.dim[i] > 1) at += e % out.dim[d] * step;
        step *= in.dim[i], e /= out.dim[d];
    }
    return at;
}

/* Makes `shape` the one that it and `other` broadcast to. */
static bool broadcast(ct_shape *shape, ct_shape other) {
    ct_shape out = shape->ndim > other.ndim ? *shape : other;
    for (int i = 1; i <= out.ndim; i++) {
        const int64_t a = i <= shape->ndim ? shape->dim[shape->ndim - i] : 1,
                      b = i <= other.ndim ? other.dim[other.ndim - i] : 1;
        if (a != b && a != 1 && b != 1) return false;
        out.dim[out.ndim - i] = a == 1 ? b : a;
    }
    *shape = out;
    return true;
}

/* ---- element by element ---- */

/* f of each element of a and b, and of c if it is not NULL. */
static ct_tensor *of_elements(const char *name, ct_tensor *a, ct_tensor *b, ct_tensor *c,
                              ct_dtype dtype, double (*f)(double, double, double)) {
    if (!a || !b) return NULL;
    ct_shape shape = ct_shape_of(a);
    const ct_shape of_a = shape, of_b = ct_shape_of(b), of_c = c ? ct_shape_of(c) : CT_SCALAR;
    if (!broadcast(&shape, of_b) || !broadcast(&shape, of_c)) return misfit(a, name);
    ct_tensor *out = ct_empty(ct_context_of(a), dtype, shape);
    const double *x = numbers_of(a), *y = numbers_of(b), *z = c ? numbers_of(c) : NULL;
    if (!out || !x || !y || (c && !z)) return NULL;
    for (int64_t e = 0; e < ct_numel(out); e++) {
        const double value = f(x[read_at(of_a, shape, e)], y[read_at(of_b, shape, e)],
                               z ? z[read_at(of_c, shape, e)] : 0);
        if (dtype == CT_BOOL) ct_data_bool(out)[e] = value != 0;
        else ct_data_f64(out)[e] = value;
    }
    return out;
}

#define OF_TWO(name, dtype, formula)                                                               \
    static double one_##name(double a, double b, double unused) {                                  \
        (void)unused;                                                                              \
        return formula;                                                                            \
    }                                                                                              \
    ct_tensor *ref_##name(ct_tensor *a, ct_tensor *b) {                                            \
        return of_elements(#name, a, b, NULL, dtype, one_##name);                                  \
    }
OF_TWO(add, CT_F64, a + b)
OF_TWO(sub, CT_F64, a - b)
OF_TWO(mul, CT_F64, (a * b))
OF_TWO(div, CT_F64, a / b)
OF_TWO(maximum, CT_F64, isnan(a) || a > b ? a : b)
OF_TWO(minimum, CT_F64, isnan(a) || a < b ? a : b)
OF_TWO(eq, CT_BOOL, a == b)
OF_TWO(lt, CT_BOOL, a < b)
OF_TWO(gt, CT_BOOL, a > b)
OF_TWO(logical_and, CT_BOOL, a != 0 && b != 0)
OF_TWO(logical_or, CT_BOOL, a != 0 || b != 0)

ct_tensor *ref_logical_not(ct_tensor *x) {
    return x ? ref_eq(x, ct_zeros(ct_context_of(x), CT_F64, CT_SCALAR)) : NULL;
}

static double chosen(double a, double b, double condition) { return condition != 0 ? a : b; }
ct_tensor *ref_where(ct_tensor *condition, ct_tensor *a, ct_tensor *b) {
    return condition ? of_elements("where", a, b, condition, CT_F64, chosen) : NULL;
}
ct_tensor *ref_masked_fill(ct_tensor *x, ct_tensor *mask, double value) {
    return x ? ref_where(mask, ct_full(ct_context_of(x), CT_F64, CT_SCALAR, value), x) : NULL;
}
ct_tensor *ref_expand(ct_tensor *x, ct_shape shape) {
    return x ? ref_add(x, ct_zeros(ct_context_of(x), CT_F64, shape)) : NULL;
}

static ct_tensor *of_each(ct_tensor *x, double a, double b, double (*f)(double, double, double)) {
    ct_tensor *out = x ? new_like(x, ct_shape_of(x)) : NULL;
    const double *from = out ? numbers_of(x) : NULL;
    for (int64_t e = 0; from && e < ct_numel(out); e++) ct_data_f64(out)[e] = f(from[e], a, b);
    return from ? out : NULL;
}

#define OF_ONE(name, formula)                                                                      \
    static double one_##name(double x, double a, double b) {                                       \
        (void)a, (void)b;                                                                          \
        return formula;                                                                            \
    }                                                                                              \
    ct_tensor *ref_##name(ct_tensor *x) { return of_each(x, 0, 0, one_##name); }
OF_ONE(copy, x)
OF_ONE(neg, -x)
OF_ONE(abs, fabs(x))
OF_ONE(exp, exp(x))
OF_ONE(log, log(x))
OF_ONE(sqrt, sqrt(x))
OF_ONE(sin, sin(x))
OF_ONE(cos, cos(x))
OF_ONE(tanh, tanh(x))
OF_ONE(sigmoid, 1 / (1 + exp(-x)))
OF_ONE(relu, x > 0 || isnan(x) ? x : 0)
OF_ONE(silu, x / (1 + exp(-x)))

static double one_scale(double x, double a, double unused) { return (void)unused, a * x; }
static double one_add_scalar(double x, double a, double unused) { return (void)unused, x + a; }
static double one_clamp(double x, double lo, double hi) { return x < lo ? lo : x > hi ? hi : x; }
ct_tensor *ref_scale(ct_tensor *x, double a) { return of_each(x, a, 0, one_scale); }
ct_tensor *ref_add_scalar(ct_tensor *x, double a) { return of_each(x, a, 0, one_add_scalar); }
ct_tensor *ref_clamp(ct_tensor *x, double lo, double hi) { return of_each(x, lo, hi, one_clamp); }

/* ---- over some dims ---- */

/* Begins each element of the result with `first`, and joins to it those of x that it stands for. */
static ct_tensor *over_dims(ct_tensor *x, ct_shape dims, bool keepdim, double first,
                            double (*join)(double, double, double)) {
    if (!x) return NULL;
    const ct_shape shape = ct_shape_of(x);
    bool over[CT_MAX_DIMS] = {false};
    for (int d = 0; d < shape.ndim; d++) over[d] = dims.ndim == 0;
    for (int i = 0; i < dims.ndim; i++) {
        const int64_t d = dims.dim[i] < 0 ? dims.dim[i] + shape.ndim : dims.dim[i];
        if (d < 0 || d >= shape.ndim) return misfit(x, "a reduction");
        over[d] = true;
    }
    ct_shape kept = shape, without = {0, {0}};
    for (int d = 0; d < shape.ndim; d++)
        if (over[d]) kept.dim[d] = 1;
        else without.dim[without.ndim++] = shape.dim[d];
    ct_tensor *out = ct_full(ct_context_of(x), CT_F64, kept, first);
    const double *from = out ? numbers_of(x) : NULL;
    if (!from) return NULL;
    for (int64_t e = 0; e < ct_numel(x); e++) {
        double *to = ct_data_f64(out) + read_at(kept, shape, e);
        *to = join(*to, from[e], 0);
    }
    return keepdim ? out : ct_reshape(out, without);
}

ct_tensor *ref_sum(ct_tensor *x, ct_shape dims, bool keepdim) {
    return over_dims(x, dims, keepdim, 0, one_add);
}
ct_tensor *ref_mean(ct_tensor *x, ct_shape dims, bool keepdim) {
    ct_tensor *sum = ref_sum(x, dims, keepdim);
    return sum ? ref_scale(sum, (double)ct_numel(sum) / (double)ct_numel(x)) : NULL;
}
ct_tensor *ref_max(ct_tensor *x, ct_shape dims, bool keepdim) {
    return over_dims(x, dims, keepdim, -INFINITY, one_maximum);
}
ct_tensor *ref_any(ct_tensor *x, ct_shape dims, bool keepdim) {
    return ref_logical_not(ref_logical_not(over_dims(x, dims, keepdim, 0, one_logical_or)));
}

/* ---- along one dim ---- */

/* The numbers of a tensor along a dim: element i of line (a, b) is at (a n + i) after + b. */
typedef struct {
    int64_t before, n, after;
} lines;

static bool lines_of(ct_tensor *x, int *dim, lines *l) {
    const ct_shape shape = ct_shape_of(x);
    if (*dim < 0) *dim += shape.ndim;
    if (*dim < 0 || *dim >= shape.ndim) return misfit(x, "a dim") != NULL;
    *l = (lines){1, shape.dim[*dim], 1};
    for (int d = 0; d < *dim; d++) l->before *= shape.dim[d];
    for (int d = *dim + 1; d < shape.ndim; d++) l->after *= shape.dim[d];
    return true;
}

/* y of each line of x, both with this step from one number to the next; `seen` is NULL or as x. */
typedef void (*line_function)(const double *x, const double *seen, double *y, int64_t n,
                              int64_t step);

static ct_tensor *of_lines(ct_tensor *x, ct_tensor *seen, int dim, line_function f) {
    lines l;
    if (!x || !lines_of(x, &dim, &l)) return NULL;
    ct_tensor *out = new_like(x, ct_shape_of(x));
    const double *from = out ? numbers_of(x) : NULL, *mask = from && seen ? numbers_of(seen) : NULL;
    if (!from || (seen && !mask)) return NULL;
    for (int64_t a = 0; a < l.before; a++)
        for (int64_t b = 0; b < l.after && l.n > 0; b++) {
            const int64_t at = a * l.n * l.after + b;
            f(from + at, mask ? mask + at : NULL, ct_data_f64(out) + at, l.n, l.after);
        }
    return out;
}

static double line_max(const double *x, const double *seen, int64_t n, int64_t step) {
    double max = -INFINITY;
    for (int64_t i = 0; i < n; i++)
        if (!seen || seen[i * step] != 0) max = one_maximum(x[i * step], max, 0);
    return max;
}

static void softmax_line(const double *x, const double *seen, double *y, int64_t n, int64_t step) {
    const double max = line_max(x, seen, n, step);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        y[i * step] = !seen || seen[i * step] != 0 ? exp(x[i * step] - max) : 0;
        sum += y[i * step];
    }
    for (int64_t i = 0; i < n && (!seen || sum != 0); i++) y[i * step] /= sum;
}
static void log_softmax_line(const double *x, const double *seen, double *y, int64_t n,
                             int64_t step) {
    const double max = line_max(x, seen, n, step);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += exp(x[i * step] - max);
    for (int64_t i = 0; i < n; i++) y[i * step] = x[i * step] - max - log(sum);
}
static void cumsum_line(const double *x, const double *seen, double *y, int64_t n, int64_t step) {
    double sum = 0;
    (void)seen;
    for (int64_t i = 0; i < n; i++) y[i * step] = sum += x[i * step];
}

ct_tensor *ref_softmax(ct_tensor *x, int dim) { return of_lines(x, NULL, dim, softmax_line); }
ct_tensor *ref_log_softmax(ct_tensor *x, int dim) {
    return of_lines(x, NULL, dim, log_softmax_line);
}
ct_tensor *ref_cumsum(ct_tensor *x, int dim) { return of_lines(x, NULL, dim, cumsum_line); }
ct_tensor *ref_masked_softmax(ct_tensor *x, ct_tensor *mask, int dim) {
    if (!x || !mask) return ref_softmax(x, dim);
    ct_tensor *seen = ref_expand(mask, ct_shape_of(x));
    return seen && ct_numel(seen) == ct_numel(x) ? of_lines(x, seen, dim, softmax_line)
                                                 : misfit(x, "masked_softmax");
}
ct_tensor *ref_logsumexp(ct_tensor *x, int dim) {
    if (!x) return NULL;
    ct_tensor *max = ref_max(x, CT_DIMS(dim), true);
    ct_tensor *sum = ref_log(ref_sum(ref_exp(ref_sub(x, max)), CT_DIMS(dim), true));
    ct_tensor *kept = ref_add(max, sum);
    return kept ? ct_squeeze(kept, dim) : NULL;
}

ct_tensor *ref_argmax(ct_tensor *x, int dim) {
    lines l;
    if (!x || !lines_of(x, &dim, &l)) return NULL;
    ct_tensor *out = ct_squeeze(ct_narrow(x, dim, 0, 1), dim);
    out = out ? ct_zeros(ct_context_of(x), CT_I64, ct_shape_of(out)) : NULL;
    const double *from = out ? numbers_of(x) : NULL;
    for (int64_t line = 0; from && line < l.before * l.after; line++) {
        const double *first = from + line / l.after * l.n * l.after + line % l.after;
        int64_t best = 0;
        for (int64_t i = 1; i < l.n; i++)
            if (first[i * l.after] > first[best * l.after]) best = i;
        ct_data_i64(out)[line] = best;
    }
    return from ? out : NULL;
}

/* ---- products ---- */

/* c (n, p) = a (n, m) b (m, p) */
static void multiply(double *c, const double *a, const double *b, int64_t n, int64_t m, int64_t p) {
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < p; j++) c[i * p + j] = 0;
        for (int64_t k = 0; k < m; k++)
            for (int64_t j = 0; j < p; j++) c[i * p + j] += a[i * m + k] * b[k * p + j];
    }
}

ct_tensor *ref_matmul(ct_tensor *a, ct_tensor *b) {
    if (!a || !b) return NULL;
    if (ct_ndim(a) < 2 || ct_ndim(b) < 2 || ct_dim(a, -1) != ct_dim(b, -2))
        return misfit(a, "matmul");
    const int64_t n = ct_dim(a, -2), m = ct_dim(a, -1), p = ct_dim(b, -1);
    ct_shape of_a = ct_shape_of(a), of_b = ct_shape_of(b), shape = of_a;
    of_a.ndim -= 2, of_b.ndim -= 2, shape.ndim -= 2;
    if (!broadcast(&shape, of_b)) return misfit(a, "matmul");
    int64_t batches = 1;
    for (int d = 0; d < shape.ndim; d++) batches *= shape.dim[d];
    ct_shape whole = shape;
    whole.dim[whole.ndim++] = n, whole.dim[whole.ndim++] = p;
    ct_tensor *out = new_like(a, whole);
    const double *x = numbers_of(a), *y = numbers_of(b);
    for (int64_t e = 0; out && x && y && e < batches; e++)
        multiply(ct_data_f64(out) + e * n * p, x + read_at(of_a, shape, e) * n * m,
                 y + read_at(of_b, shape, e) * m * p, n, m, p);
    return x && y ? out : NULL;
}

ct_tensor *ref_linear(ct_tensor *x, ct_tensor *weight, ct_tensor *bias) {
    ct_tensor *y = x && weight ? ref_matmul(x, ct_transpose(weight, 0, 1)) : NULL;
    return bias ? ref_add(y, bias) : y;
}

/* ---- moving numbers ---- */

/* The indexes of a dim, of which those that x has not are NaN or `value`: x[.., from[i], ..]. */
static ct_tensor *picked(ct_tensor *x, int dim, const int64_t *from, int64_t count, double value) {
    lines l;
    if (!x || !lines_of(x, &dim, &l)) return NULL;
    ct_shape shape = ct_shape_of(x);
    shape.dim[dim] = count;
    ct_tensor *dense = ct_contiguous(ct_detach(x)),
              *out = ct_empty(ct_context_of(x), ct_dtype_of(x), shape);
    if (!dense || !out) return NULL;
    const size_t element = wire_size_of(ct_dtype_of(x)), run = (size_t)l.after * element;
    const unsigned char *source = wire_data_of(dense);
    unsigned char *to = (unsigned char *)wire_data_of(out);
    for (int64_t a = 0; a < l.before; a++)
        for (int64_t i = 0; i < count; i++, to += run) {
            if (from[i] >= 0 && from[i] < l.n)
                memcpy(to, source + (a * l.n + from[i]) * (int64_t)run, run);
            else
                for (int64_t b = 0; b < l.after; b++) memcpy(to + b * 8, &value, 8);
        }
    return out;
}

/* `count` indexes, of which number i is i + first, or that modulo `turn`. */
static ct_tensor *picked_in_turn(ct_tensor *x, int dim, int64_t first, int64_t count, int64_t turn,
                                 double value) {
    int64_t *from = malloc((size_t)count * sizeof *from + 1);
    for (int64_t i = 0; from && i < count; i++)
        from[i] = turn ? ((i + first) % turn + turn) % turn : i + first;
    ct_tensor *out = from ? picked(x, dim, from, count, value) : NULL;
    free(from);
    return out;
}

ct_tensor *ref_pad(ct_tensor *x, int dim, int64_t before, int64_t after, double value) {
    if (!x) return NULL;
    return picked_in_turn(x, dim, -before, before + ct_dim(x, dim) + after, 0, value);
}
ct_tensor *ref_roll(ct_tensor *x, int64_t shift, int dim) {
    return x ? picked_in_turn(x, dim, -shift, ct_dim(x, dim), ct_dim(x, dim), 0) : NULL;
}
ct_tensor *ref_index_select(ct_tensor *x, int dim, ct_tensor *index) {
    return index ? picked(x, dim, ct_data_i64(index), ct_numel(index), NAN) : NULL;
}

/* The sum of the parts, each with zeros where the others stand. */
ct_tensor *ref_cat(ct_tensor *const *parts, int n, int dim) {
    int64_t before = 0, all = 0;
    ct_tensor *out = NULL;
    for (int i = 0; i < n; i++) {
        if (!parts[i]) return NULL;
        all += ct_dim(parts[i], dim);
    }
    for (int i = 0; i < n; before += ct_dim(parts[i], dim), i++) {
        const int64_t behind = all - before - ct_dim(parts[i], dim);
        if (out) {
            lines to, from;
            int where = dim, same = dim;
            ct_tensor *dense = ct_contiguous(ct_detach(parts[i]));
            if (!dense || !lines_of(out, &where, &to) || !lines_of(parts[i], &same, &from) ||
                to.before != from.before || to.after != from.after)
                return misfit(out, "cat");
            for (int64_t a = 0; a < to.before; a++)
                memcpy(ct_data_f64(out) + (a * to.n + before) * to.after,
                       ct_data_f64(dense) + a * from.n * from.after,
                       (size_t)(from.n * from.after) * sizeof(double));
        } else out = ref_pad(parts[i], dim, before, behind, 0);
        if (!out) return NULL;
    }
    return out;
}
ct_tensor *ref_stack(ct_tensor *const *parts, int n, int dim) {
    ct_tensor *each[16];
    if (n > 16) return NULL;
    for (int i = 0; i < n; i++) each[i] = parts[i] ? ct_unsqueeze(parts[i], dim) : NULL;
    return ref_cat(each, n, dim);
}

ct_tensor *ref_one_hot(ct_tensor *ids, int64_t n) {
    if (!ids) return NULL;
    ct_shape shape = ct_shape_of(ids);
    shape.dim[shape.ndim++] = n;
    ct_tensor *out = ct_zeros(ct_context_of(ids), CT_F64, shape);
    for (int64_t i = 0; out && i < ct_numel(ids); i++) {
        const int64_t id = ct_data_i64(ids)[i];
        if (id < 0 || id >= n) return misfit(ids, "one_hot");
        ct_data_f64(out)[i * n + id] = 1;
    }
    return out;
}

ct_tensor *ref_causal_mask(ct_context *context, int64_t t, int64_t s) {
    ct_tensor *mask = ct_zeros(context, CT_BOOL, CT_SHAPE(t, s));
    for (int64_t i = 0; mask && i < t; i++)
        for (int64_t j = 0; j < s; j++) ct_data_bool(mask)[i * s + j] = j <= i;
    return mask;
}

ct_tensor *ref_split_heads(ct_tensor *x, int64_t heads) {
    if (!x) return NULL;
    const int64_t b = ct_dim(x, 0), t = ct_dim(x, 1), d = ct_dim(x, 2) / heads;
    return ct_contiguous(ct_transpose(ct_reshape(ct_detach(x), CT_SHAPE(b, t, heads, d)), 1, 2));
}
ct_tensor *ref_combine_heads(ct_tensor *x) {
    if (!x) return NULL;
    const int64_t b = ct_dim(x, 0), h = ct_dim(x, 1), t = ct_dim(x, 2), d = ct_dim(x, 3);
    return ct_reshape(ct_contiguous(ct_transpose(ct_detach(x), 1, 2)), CT_SHAPE(b, t, h * d));
}

/* ---- layers ---- */

/* weight (x - mean) / sqrt(var + eps) + bias of each row; without bias, the mean stays and `var` is
 * the mean of squares. */
static ct_tensor *norm_of_rows(ct_tensor *x, ct_tensor *weight, ct_tensor *bias, double eps) {
    if (!x || !weight) return NULL;
    const int64_t n = ct_dim(x, -1), rows = n ? ct_numel(x) / n : 0;
    if (ct_numel(weight) != n || (bias && ct_numel(bias) != n)) return misfit(x, "a norm");
    ct_tensor *out = new_like(x, ct_shape_of(x));
    const double *from = numbers_of(x), *w = numbers_of(weight), *b = bias ? numbers_of(bias) : w;
    for (int64_t row = 0; out && from && w && b && row < rows; row++) {
        const double *r = from + row * n;
        double mean = 0, var = 0;
        for (int64_t i = 0; i < n && bias; i++) mean += r[i] / (double)n;
        for (int64_t i = 0; i < n; i++) var += (r[i] - mean) * (r[i] - mean) / (double)n;
        for (int64_t i = 0; i < n; i++)
            ct_data_f64(out)[row * n + i] =
                w[i] * (r[i] - mean) / sqrt(var + eps) + (bias ? b[i] : 0);
    }
    return from && w && b ? out : NULL;
}
ct_tensor *ref_layer_norm(ct_tensor *x, ct_tensor *weight, ct_tensor *bias, double eps) {
    return bias ? norm_of_rows(x, weight, bias, eps) : NULL;
}
ct_tensor *ref_rms_norm(ct_tensor *x, ct_tensor *weight, double eps) {
    return norm_of_rows(x, weight, NULL, eps);
}

ct_tensor *ref_cross_entropy(ct_tensor *logits, ct_tensor *targets, int64_t ignored) {
    ct_tensor *logs = targets ? ref_log_softmax(logits, -1) : NULL;
    if (!logs) return NULL;
    const int64_t classes = ct_dim(logits, -1);
    double sum = 0;
    int64_t count = 0;
    for (int64_t row = 0; row < ct_numel(targets); row++) {
        const int64_t target = ct_data_i64(targets)[row];
        if (target == ignored) continue;
        if (target < 0 || target >= classes) return misfit(logits, "cross_entropy");
        sum -= ct_data_f64(logs)[row * classes + target], count++;
    }
    return ct_full(ct_context_of(logits), CT_F64, CT_SCALAR, count ? sum / (double)count : 0);
}

ct_tensor *ref_rope(ct_tensor *x, int64_t offset, double base, bool interleaved) {
    ct_tensor *out = ref_copy(x);
    if (!out) return NULL;
    const int64_t rows = ct_dim(x, -2), d = ct_dim(x, -1);
    double *all = ct_data_f64(out);
    for (int64_t row = 0; d && row < ct_numel(x) / d; row++)
        for (int64_t j = 0; j < d / 2; j++) {
            const double angle =
                (double)(offset + row % rows) * pow(base, -2 * (double)j / (double)d);
            double *first = all + row * d + (interleaved ? 2 * j : j),
                   *second = first + (interleaved ? 1 : d / 2);
            const double a = *first, b = *second;
            *first = a * cos(angle) - b * sin(angle);
            *second = a * sin(angle) + b * cos(angle);
        }
    return out;
}

ct_tensor *ref_attention(ct_tensor *q, ct_tensor *k, ct_tensor *v, ct_tensor *key_mask,
                         bool causal) {
    if (!q || !k || !v) return NULL;
    const int64_t batch = ct_dim(q, 0), t = ct_dim(q, 1), d = ct_dim(q, 2), s = ct_dim(k, 1),
                  e = ct_dim(v, 2);
    if (ct_dim(k, 0) != batch || ct_dim(v, 0) != batch || ct_dim(k, 2) != d || ct_dim(v, 1) != s)
        return misfit(q, "attention");
    if (key_mask && (ct_dim(key_mask, 0) != batch || ct_dim(key_mask, 1) != s))
        return misfit(q, "attention's mask");
    ct_tensor *out = ct_zeros(ct_context_of(q), CT_F64, CT_SHAPE(batch, t, e));
    const double *Q = numbers_of(q), *K = numbers_of(k), *V = numbers_of(v),
                 *mask = key_mask ? numbers_of(key_mask) : NULL;
    double *seen = malloc((size_t)(2 * s) * sizeof *seen + 1), *weight = seen + s;
    for (int64_t row = 0; seen && out && Q && K && V && row < batch * t; row++) {
        const int64_t b = row / t, i = row % t;
        double *to = ct_data_f64(out) + row * e;
        for (int64_t j = 0; j < s; j++) {
            double score = 0;
            for (int64_t c = 0; c < d; c++) score += Q[row * d + c] * K[(b * s + j) * d + c];
            weight[j] = score / sqrt((double)d);
            seen[j] = (!causal || j <= i) && (!mask || mask[b * s + j] != 0);
        }
        softmax_line(weight, seen, weight, s, 1);
        for (int64_t j = 0; j < s; j++)
            for (int64_t c = 0; c < e && seen[j] != 0; c++)
                to[c] += weight[j] * V[(b * s + j) * e + c];
    }
    free(seen);
    return out;
}
