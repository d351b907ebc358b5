/* copy_into, lerp_into, add_into, scale_into and clone: their values against a loop over the
 * elements, for destinations and sources of many layouts, and of memory that they share. */
#include "tests/support/op_check.h"

static void refused(bool done, ct_status status, const char *message) {
    ck_assert(!done);
    ck_assert_msg(ct_error(context) == status && strstr(ct_error_message(context), message),
                  "\"%s\"", ct_error_message(context));
    ct_error_clear(context);
}

static ct_shape sizes(int64_t a, int64_t b, int64_t c) { return CT_SHAPE(a, b, c); }
static ct_shape last_of(ct_shape s, int64_t size) {
    s.dim[s.ndim - 1] = size;
    return s;
}
static ct_shape without_first(ct_shape s) {
    for (int d = 1; d < s.ndim; d++) s.dim[d - 1] = s.dim[d];
    s.ndim--;
    return s;
}

static double *numbers(ct_tensor *t) { /* the caller frees them */
    double *out = malloc((size_t)(ct_numel(t) + 1) * sizeof *out);
    ck_assert_msg(ct_to_f64(t, out, ct_numel(t)), "%s", ct_error_message(context));
    return out;
}

/* Views of x, which has three dims. */
enum { VIEWS = 10 };
static ct_tensor *view_of(ct_tensor *x, int which) {
    switch (which) {
    case 0: return x;
    case 1: return ct_narrow(x, 2, 1, 3);
    case 2: return ct_narrow(x, 1, 2, 2);
    case 3: return ct_transpose(x, 0, 2);
    case 4: return ct_select(x, 2, 1);
    case 5: return ct_select(ct_select(ct_select(x, 0, 1), 0, 2), 0, 3);
    case 6: return ct_narrow(x, 1, 1, 0);
    case 7: return ct_narrow(ct_permute(x, CT_DIMS(1, 2, 0)), 1, 0, 2);
    case 8: return ct_unsqueeze(ct_narrow(x, 0, 1, 2), 3);
    default: return ct_narrow(ct_transpose(x, 1, 2), 2, 2, 1);
    }
}

/* Random tensors that broadcast to the shape; NULL: no such one. */
enum { SOURCES = 8 };
static ct_tensor *source_for(ct_shape s, int which, ct_dtype dtype) {
    const bool scalar = s.ndim == 0;
    ct_shape turned = s;
    for (int d = 0; d < s.ndim; d++) turned.dim[d] = s.dim[s.ndim - 1 - d];
    ct_shape order = {.ndim = s.ndim};
    for (int d = 0; d < s.ndim; d++) order.dim[d] = s.ndim - 1 - d;
    switch (which) {
    case 0: return ct_randn(context, dtype, s);
    case 1: return ct_permute(ct_randn(context, dtype, turned), scalar ? CT_SCALAR : order);
    case 2: return scalar ? NULL : ct_randn(context, dtype, last_of(s, 1));
    case 3: return scalar ? NULL : ct_randn(context, dtype, without_first(s));
    case 4: return ct_randn(context, dtype, CT_SCALAR);
    case 5: return ct_expand(ct_randn(context, dtype, CT_SCALAR), s);
    case 6:
        if (scalar) return NULL;
        return ct_narrow(ct_randn(context, dtype, last_of(s, s.dim[s.ndim - 1] + 3)), -1, 2,
                         s.dim[s.ndim - 1]);
    default:
        if (s.ndim < 2 || !ct_numel(ct_empty(context, dtype, s))) return NULL;
        return ct_unsqueeze(ct_select(ct_randn(context, dtype, s), 0, 0), 0);
    }
}

/* Where element i of the shape lies in a row-major tensor that broadcasts to it. */
static int64_t broadcast_index(int64_t i, ct_shape shape, ct_shape from) {
    int64_t at = 0, step = 1;
    for (int d = shape.ndim - 1; d >= 0; d--) {
        const int own = d - (shape.ndim - from.ndim);
        const int64_t index = i % shape.dim[d];
        i /= shape.dim[d];
        if (own < 0) continue;
        if (from.dim[own] > 1) at += index * step;
        step *= from.dim[own];
    }
    return at;
}

/* A change in place, with a number w. */
typedef enum { COPY, LERP, ADD, SCALE, KINDS } kind_of_write;

static bool write_into(kind_of_write kind, ct_tensor *to, const ct_tensor *from, double w) {
    switch (kind) {
    case COPY: return ct_copy_into(to, from);
    case LERP: return ct_lerp_into(to, from, w);
    case ADD: return ct_add_into(to, from, w);
    default: return ct_scale_into(to, w);
    }
}

static double expected(kind_of_write kind, double to, double from, double w) {
    switch (kind) {
    case COPY: return from;
    case LERP: return fabs(w) < 0.5 ? to + w * (from - to) : from - (from - to) * (1 - w);
    case ADD: return to + w * from;
    default: return w * to;
    }
}

static void same_to(double got, double want, double error, const char *what, int64_t i) {
    ck_assert_msg(got == want || (isnan(got) && isnan(want)) || fabs(got - want) <= error,
                  "%s [%lld]: %.17g, not %.17g", what, (long long)i, got, want);
}

/* Writes into view number v of a tensor with infinities and NaN, from source number s: the elements
 * of the view become what the loop says, and no other changes. */
static void write_one(ct_shape shape, int v, int s, ct_dtype dtype, kind_of_write kind, double w) {
    ct_scope scope = ct_scope_open(context);
    ct_tensor *base = ct_randn(context, dtype, shape), *to = view_of(base, v),
              *from = source_for(ct_shape_of(to), s, dtype);
    const int64_t n = ct_numel(base);
    ct_tensor *places = ct_view(ct_arange(context, CT_F64, 0, (double)n, 1), shape);
    if (from) {
        for (int i = 0; i < 3; i++)
            ck_assert(ct_init_constant(ct_narrow(ct_view(base, CT_SHAPE(n)), 0, 31 + 2 * i, 1),
                                       ((double[]){NAN, INFINITY, -INFINITY})[i]));
        double *before = numbers(base), *index = numbers(view_of(places, v)), *b = numbers(from);
        char what[64];
        snprintf(what, sizeof what, "kind %d, view %d, source %d, weight %g", kind, v, s, w);
        for (int64_t i = 0; i < ct_numel(to); i++) {
            double *x = &before[(int64_t)index[i]];
            *x = expected(kind, *x, b[broadcast_index(i, ct_shape_of(to), ct_shape_of(from))], w);
        }
        ck_assert_msg(write_into(kind, to, from, w), "%s: %s", what, ct_error_message(context));
        double *after = numbers(base);
        const double error = kind == COPY ? 0 : (dtype == CT_F32 ? 4e-6 : 8e-15) * (1 + fabs(w));
        for (int64_t i = 0; i < n; i++) same_to(after[i], before[i], error, what, i);
        free(before), free(index), free(b), free(after);
    }
    ct_scope_close(scope);
}

START_TEST(into_views) {
    static const double weights[] = {0, 0.25, 0.5, -0.5, 0.75, 1, 2, -0.3, -3};
    for (int dtype = CT_F32; dtype <= CT_F64; dtype++)
        for (int v = 0; v < VIEWS; v++)
            for (int s = 0; s < SOURCES; s++) {
                write_one(sizes(4, 5, 7), v, s, (ct_dtype)dtype, COPY, 0);
                for (int i = 0; i < 9; i++)
                    for (int kind = LERP; kind < KINDS; kind++)
                        write_one(sizes(4, 5, 7), v, s, (ct_dtype)dtype, (kind_of_write)kind,
                                  weights[i]);
            }
}
END_TEST

/* Sizes that all threads share. */
START_TEST(into_large_views) {
    for (int v = 0; v < VIEWS; v++)
        for (int s = 0; s < SOURCES; s++)
            for (int kind = COPY; kind < KINDS; kind++)
                write_one(sizes(9, 70, 83), v, s, CT_F32, (kind_of_write)kind, 0.01);
}
END_TEST

START_TEST(threads_write_the_same_bits) {
    enum { N = 3 * 101 * 229 };
    static float first[VIEWS][N], now[N];
    for (int threads = 1; threads <= 7; threads++)
        for (int v = 0; v < VIEWS; v++) {
            ck_assert(ct_set_threads(context, threads));
            ct_seed(context, 3);
            ct_scope scope = ct_scope_open(context);
            ct_tensor *base = ct_randn(context, CT_F32, sizes(3, 101, 229)), *to = view_of(base, v),
                      *from = source_for(ct_shape_of(to), 0, CT_F32);
            ck_assert(ct_lerp_into(to, from, 0.3) && ct_lerp_into(to, from, 0.7) &&
                      ct_add_into(to, from, 0.1) && ct_scale_into(to, 1.1));
            ck_assert(ct_to_f32(base, threads == 1 ? first[v] : now, N));
            ct_scope_close(scope);
            if (threads > 1) ck_assert_mem_eq(first[v], now, sizeof now);
        }
}
END_TEST

/* The two formulas for |w| below 1/2 and from 1/2 on round differently, which shows the formula
 * that was taken. */
START_TEST(the_nearer_end_is_exact) {
    ct_tensor *big = ct_full(context, CT_F32, CT_SHAPE(3), 1e8),
              *small = ct_full(context, CT_F32, CT_SCALAR, 1);
    ck_assert(ct_lerp_into(big, small, 1));
    IS(big, 1, 1, 1);
    ct_tensor *one = ct_full(context, CT_F32, CT_SHAPE(2), 1),
              *minus = ct_full(context, CT_F32, CT_SHAPE(2), -1 + 0x1p-24);
    ck_assert(ct_lerp_into(one, minus, 0.5));
    IS(one, 0x1p-24, 0x1p-24);
}
END_TEST

START_TEST(dtypes_are_converted) {
    ct_tensor *f = ct_set_requires_grad(F64(-1.5, 0, 300.75, 2), false), *i = I64(7, -1, 0, 3),
              *b = BOOL(true, false, true, false), *s = of(CT_F32, CT_SHAPE(4));
    ck_assert(ct_copy_into(s, f));
    IS(s, -1.5, 0, 300.75, 2);
    ck_assert(ct_copy_into(i, s));
    IS(i, -1, 0, 300, 2);
    ck_assert(ct_copy_into(f, b));
    IS(f, 1, 0, 1, 0);
    ck_assert(ct_copy_into(b, s));
    IS(b, 1, 0, 1, 1);
    ck_assert(ct_copy_into(ct_narrow(i, 0, 1, 2), ct_select(s, 0, 3))); /* and broadcast */
    IS(i, -1, 2, 2, 2);
    refused(ct_lerp_into(i, i, 0.5), CT_ERR_DTYPE, "lerp_into: takes f32 or f64, not i64");
    refused(ct_lerp_into(f, s, 0.5), CT_ERR_DTYPE,
            "lerp_into: dtypes differ: f64 and f32; ct_cast converts");
}
END_TEST

/* bf16 is computed in f32 and rounded to nearest even; other dtypes of from are converted. */
START_TEST(sums_and_products_in_other_dtypes) {
    ct_tensor *half =
                  ct_cast(ct_from_f32(context, CT_SHAPE(2, 2), (float[]){1, 2, -3, 256}), CT_BF16),
              *row = I64(1, 2);
    ck_assert(ct_add_into(half, row, 0.5));
    IS(half, 1.5, 3, -2.5, 256); /* 257 is between 256 and 258 */
    ck_assert(
        ct_add_into(ct_transpose(half, 0, 1), ct_from_f32(context, CT_SHAPE(1), (float[]){1}), 3));
    IS(half, 4.5, 6, 0.5, 260); /* 259 is between 258 and 260 */
    ck_assert(ct_scale_into(ct_select(half, 1, 0), -1 / 3.));
    IS(half, -1.5, 6, -0.1669921875, 260);
    ct_tensor *f = ct_ones(context, CT_F32, CT_SHAPE(2)),
              *d = ct_ones(context, CT_F64, CT_SHAPE(2));
    ck_assert(ct_add_into(f, ct_select(half, 0, 0), 2) && ct_add_into(d, f, 0.25));
    IS(f, -2, 13);
    IS(d, 0.5, 4.25);
    ck_assert(ct_add_into(f, BOOL(true, false), -1) && ct_add_into(f, d, 1));
    IS(f, -2.5, 17.25);
    refused(ct_add_into(row, row, 1), CT_ERR_DTYPE, "add_into: takes f32, f64 or bf16, not i64");
    refused(ct_scale_into(BOOL(true), 2), CT_ERR_DTYPE,
            "scale_into: takes f32, f64 or bf16, not bool");
}
END_TEST

/* ---- memory that both share ---- */

enum { ROWS = 150 };
static double memory[ROWS * ROWS];

static ct_tensor *wrapped(int64_t start, int64_t rows, int64_t row, int64_t column) {
    return ct_wrap(context, CT_F64, CT_SHAPE(rows, ROWS - 1), (int64_t[]){row, column},
                   memory + start);
}

/* The result equals a copy of from, also if `to` covers parts of it. */
START_TEST(from_is_read_first) {
    const struct {
        int64_t to[4], from[4];
    } pairs[] = {{{1, ROWS, ROWS, 1}, {0, ROWS, ROWS, 1}},            /* a column on */
                 {{0, ROWS, ROWS, 1}, {1, ROWS, ROWS, 1}},            /* and back */
                 {{0, ROWS - 1, ROWS, 1}, {ROWS, ROWS - 1, ROWS, 1}}, /* rows */
                 {{0, ROWS - 1, ROWS, 1}, {0, ROWS - 1, 1, ROWS}},    /* transposed */
                 {{0, ROWS - 1, 1, ROWS}, {0, ROWS - 1, ROWS, 1}},
                 {{0, ROWS, ROWS, 1}, {0, ROWS, ROWS, 1}},          /* itself */
                 {{0, ROWS, ROWS, 1}, {70 * ROWS, 1, ROWS, 1}},     /* one of its rows */
                 {{0, ROWS, ROWS, 1}, {ROWS - 2, ROWS, ROWS, -1}}}; /* backwards */
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        for (int k = 0; k < 2 * SCALE; k++) {
            ct_scope scope = ct_scope_open(context);
            const kind_of_write kind = (kind_of_write)(k / 2);
            const double w = 0.25 + 0.25 * (k % 2);
            for (int j = 0; j < ROWS * ROWS; j++) memory[j] = j % 1009;
            const int64_t *t = pairs[i].to, *f = pairs[i].from;
            ct_tensor *to = wrapped(t[0], t[1], t[2], t[3]),
                      *from = wrapped(f[0], f[1], f[2], f[3]);
            double *a = numbers(to), *b = numbers(from);
            ck_assert(write_into(kind, to, from, w));
            double *got = numbers(to);
            for (int64_t j = 0; j < ct_numel(to); j++)
                same_to(got[j],
                        expected(kind, a[j],
                                 b[broadcast_index(j, ct_shape_of(to), ct_shape_of(from))], w),
                        1e-12, "shared", j);
            free(a), free(b), free(got);
            ct_scope_close(scope);
        }
    ct_tensor *x = I64(1, 2, 3, 4, 5); /* views of one storage; bits read as another dtype */
    ck_assert(ct_copy_into(ct_narrow(x, 0, 1, 4), ct_narrow(x, 0, 0, 4)));
    IS(x, 1, 1, 2, 3, 4);
    double line[10] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}; /* only the ends meet, one backwards */
    ct_tensor *back = ct_wrap(context, CT_F64, CT_SHAPE(6), (int64_t[]){-1}, line + 9),
              *front = ct_wrap(context, CT_F64, CT_SHAPE(6), NULL, line);
    ck_assert(ct_copy_into(front, back));
    IS(front, 9, 8, 7, 6, 5, 4);
    ct_tensor *bits = ct_wrap(context, CT_F64, CT_SHAPE(4), NULL, ct_data_i64(x));
    ck_assert(ct_copy_into(bits, ct_narrow(x, 0, 1, 4)));
    IS(bits, 1, 2, 3, 4);
}
END_TEST

START_TEST(elements_of_to_have_an_address_each) {
    ct_tensor *x = of(CT_F32, CT_SHAPE(3, 1)), *y = ct_ones(context, CT_F32, CT_SHAPE(3, 4));
    refused(ct_copy_into(ct_expand(x, CT_SHAPE(3, 4)), y), CT_ERR_ARGUMENT,
            "copy_into: elements of (3, 4) share memory, as in an expanded tensor");
    refused(ct_lerp_into(ct_expand(x, CT_SHAPE(3, 4)), y, 0.5), CT_ERR_ARGUMENT, "lerp_into");
    refused(ct_add_into(ct_expand(x, CT_SHAPE(3, 4)), y, 1), CT_ERR_ARGUMENT,
            "add_into: elements of (3, 4) share memory");
    refused(ct_scale_into(ct_expand(x, CT_SHAPE(3, 4)), 1), CT_ERR_ARGUMENT,
            "scale_into: elements of (3, 4) share memory");
    refused(ct_copy_into(ct_transpose(ct_expand(x, CT_SHAPE(3, 4)), 0, 1), ct_select(y, 1, 0)),
            CT_ERR_ARGUMENT, "(4, 3) share memory");
    float own[8] = {0};
    refused(ct_copy_into(ct_wrap(context, CT_F32, CT_SHAPE(3, 4), (int64_t[]){1, 1}, own), y),
            CT_ERR_ARGUMENT, "(3, 4) share memory");
    refused(ct_copy_into(ct_wrap(context, CT_F32, CT_SHAPE(3, 4), (int64_t[]){2, -1}, own + 3), y),
            CT_ERR_ARGUMENT, "(3, 4) share memory");
    for (int i = 0; i < 8; i++) ck_assert(own[i] == 0);
    /* an expanded tensor of one element, or of none, has no two elements that share memory */
    ck_assert(ct_copy_into(ct_expand(x, CT_SHAPE(3, 1)), ct_narrow(y, 1, 0, 1)));
    ck_assert(ct_copy_into(ct_expand(of(CT_F32, CT_SHAPE(0, 1)), CT_SHAPE(0, 4)),
                           y = of(CT_F32, CT_SHAPE(0, 4))));
    ck_assert(ct_copy_into(ct_wrap(context, CT_F32, CT_SHAPE(2, 4), (int64_t[]){-4, 1}, own + 4),
                           ct_arange(context, CT_F32, 0, 4, 1)));
    for (int i = 0; i < 8; i++) ck_assert(own[i] == i % 4);
}
END_TEST

/* ---- errors ---- */

START_TEST(what_is_refused) {
    ct_tensor *to = ct_ones(context, CT_F64, CT_SHAPE(2, 3)), *row = of(CT_F64, CT_SHAPE(3));
    refused(ct_copy_into(to, NULL), CT_ERR_ARGUMENT, "copy_into: from is NULL");
    refused(ct_copy_into(NULL, to), CT_ERR_ARGUMENT, "copy_into: to is NULL");
    refused(ct_lerp_into(to, NULL, 0.5), CT_ERR_ARGUMENT, "lerp_into: from is NULL");
    refused(ct_lerp_into(NULL, to, 0.5), CT_ERR_ARGUMENT, "lerp_into: to is NULL");
    ck_assert(!ct_copy_into(NULL, NULL) && !ct_lerp_into(NULL, NULL, 1) && !ct_clone(NULL));
    refused(ct_copy_into(row, to), CT_ERR_SHAPE, "copy_into: (2, 3) does not broadcast to (3)");
    refused(ct_copy_into(to, of(CT_F64, CT_SHAPE(3, 2))), CT_ERR_SHAPE,
            "copy_into: (3, 2) does not broadcast to (2, 3)");
    refused(ct_copy_into(row, of(CT_F64, CT_SHAPE(1, 3))), CT_ERR_SHAPE, "(1, 3)");
    refused(ct_copy_into(row, of(CT_F64, CT_SHAPE(0))), CT_ERR_SHAPE, "(0)");
    refused(ct_lerp_into(to, of(CT_F64, CT_SHAPE(2)), 0.5), CT_ERR_SHAPE,
            "lerp_into: (2) does not broadcast to (2, 3)");
    refused(ct_lerp_into(to, row, NAN), CT_ERR_ARGUMENT, "lerp_into: a weight of nan");
    refused(ct_lerp_into(to, row, -INFINITY), CT_ERR_ARGUMENT, "lerp_into: a weight of -inf");
    refused(ct_add_into(to, NULL, 1), CT_ERR_ARGUMENT, "add_into: from is NULL");
    refused(ct_add_into(NULL, to, 1), CT_ERR_ARGUMENT, "add_into: to is NULL");
    ck_assert(!ct_add_into(NULL, NULL, 1) && !ct_scale_into(NULL, 1));
    ct_wrote(NULL);
    refused(ct_add_into(to, of(CT_F64, CT_SHAPE(2)), 1), CT_ERR_SHAPE,
            "add_into: (2) does not broadcast to (2, 3)");
    refused(ct_add_into(to, row, NAN), CT_ERR_ARGUMENT, "add_into: a factor of nan");
    refused(ct_add_into(to, row, INFINITY), CT_ERR_ARGUMENT, "add_into: a factor of inf");
    refused(ct_scale_into(to, NAN), CT_ERR_ARGUMENT, "scale_into: a factor of nan");
    ct_fail(context, CT_ERR_IO, "pending");
    ck_assert(!ct_copy_into(to, row) && !ct_lerp_into(to, row, 0.5) && !ct_add_into(to, row, 1) &&
              !ct_scale_into(to, 2));
    refused(false, CT_ERR_IO, "pending");
    ct_context *other = ct_context_new((ct_context_opts){.threads = 1});
    ct_tensor *theirs = ct_zeros(other, CT_F64, CT_SHAPE(2, 3));
    for (int i = 0; i < 2 * SCALE; i++) {
        const kind_of_write kind = (kind_of_write)(i / 2);
        ck_assert(!(i % 2 ? write_into(kind, to, theirs, 0.5) : write_into(kind, theirs, to, 0.5)));
        ck_assert_int_eq(ct_error(other), CT_ERR_ARGUMENT);
        ct_error_clear(other);
        refused(false, CT_ERR_ARGUMENT, "tensors of different contexts");
    }
    ct_context_free(other);
    IS(to, 1, 1, 1, 1, 1, 1);
}
END_TEST

/* ---- gradients ---- */

/* All count a write, also through a view; none is on the tape. */
START_TEST(writes_are_counted) {
    static const double after[KINDS] = {3, 3, 4,
                                        3}; /* the values of the 1 in x, with w = 1, scale's 3 */
    for (int kind = COPY; kind < KINDS; kind++)
        for (int view = 0; view < 2; view++) {
            ct_tensor *x = F64(1, 2), *w = F64(3, 4), *y = ct_mul(x, w),
                      *to = view ? ct_narrow(x, 0, 0, 1) : x;
            ck_assert(
                write_into((kind_of_write)kind, to, ct_narrow(w, 0, 0, 1), kind == SCALE ? 3 : 1));
            refused(ct_backward(ct_sum(y, CT_ALL, false)), CT_ERR_GRAD, "changed");
            ck_assert_double_eq(ct_data_f64(x)[0], after[kind]);
            if (view) ck_assert_double_eq(ct_data_f64(x)[1], 2);
            IS(y, 3, 8);
            ck_assert(ct_requires_grad(x) && !ct_grad(w));
            ct_tensor *z = ct_add(x, w); /* keeps no values: it may be overwritten */
            ck_assert(ct_copy_into(z, of(CT_F64, CT_SHAPE(1))));
            backward(ct_scale(z, 2));
            IS(ct_grad(x), 2, 4);
        }
}
END_TEST

/* A write through a pointer counts when the program says so, also while an error is pending. */
START_TEST(writes_through_a_pointer) {
    for (int told = 0; told < 3; told++) {
        ct_tensor *x = F64(1, 2), *w = F64(3, 4), *y = ct_sum(ct_mul(x, w), CT_ALL, false);
        ct_tensor *view = ct_narrow(x, 0, 1, 1);
        ct_data_f64(x)[0] = 5;
        if (told == 2) ct_fail(context, CT_ERR_IO, "pending");
        if (told) ct_wrote(told == 1 ? x : view);
        if (told == 2) refused(false, CT_ERR_IO, "pending");
        if (told) {
            refused(ct_backward(y), CT_ERR_GRAD, "changed");
        } else {
            ck_assert(ct_backward(y));
            IS(ct_grad(w), 5, 2);
        }
    }
    ct_tensor *none = of(CT_F32, CT_SHAPE(0, 3));
    ct_wrote(none);
    ck_assert(ct_scale_into(none, 2) && ct_add_into(none, of(CT_F32, CT_SHAPE(3)), 2));
    ck_assert_int_eq(ct_error(context), CT_OK);
}
END_TEST

START_TEST(a_clone_has_memory_of_its_own) {
    ct_tensor *x = F64(1, 2, 3, 4, 5, 6), *m = ct_view(x, CT_SHAPE(2, 3));
    ct_tensor *c = ct_clone(m), *t = ct_clone(ct_transpose(m, 0, 1)),
              *e = ct_clone(ct_expand(ct_narrow(m, 0, 0, 1), CT_SHAPE(2, 3)));
    has_shape(t, CT_SHAPE(3, 2));
    ck_assert(ct_data_f64(c) != ct_data_f64(x) && ct_data_f64(t) && ct_data_f64(e));
    ck_assert(ct_copy_into(e, ct_full(context, CT_I64, CT_SCALAR, 9)));
    ck_assert(ct_copy_into(ct_select(c, 0, 1), ct_full(context, CT_F32, CT_SCALAR, 7)));
    IS(x, 1, 2, 3, 4, 5, 6);
    IS(c, 1, 2, 3, 7, 7, 7);
    IS(t, 1, 4, 2, 5, 3, 6);
    backward(t);
    IS(ct_grad(x), 1, 3, 5, 2, 4, 6);
    ck_assert(!ct_requires_grad(ct_clone(ct_detach(x))) && ct_requires_grad(c));
    ct_scope scope = ct_scope_open_no_grad(context);
    ck_assert(!ct_requires_grad(ct_clone(x)));
    ct_scope_close(scope);
}
END_TEST

int main(void) {
    return run_tests("copy_into", open_context, close_context,
                     TESTS(TEST(into_views), TEST(into_large_views),
                           TEST(threads_write_the_same_bits), TEST(the_nearer_end_is_exact),
                           TEST(dtypes_are_converted), TEST(sums_and_products_in_other_dtypes),
                           TEST(from_is_read_first), TEST(elements_of_to_have_an_address_each),
                           TEST(what_is_refused), TEST(writes_are_counted),
                           TEST(writes_through_a_pointer), TEST(a_clone_has_memory_of_its_own)));
}
