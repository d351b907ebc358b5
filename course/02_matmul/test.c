/* matmul against numbers made by hand, plain loops, and differences. */
#include "../course.h"
#include "exercise.h"

#include <math.h>
#include <string.h>

static ct_tensor *yours(ct_tensor *a, ct_tensor *b, bool transpose) {
    return ct_apply(&matmul, (ct_tensor *[]){a, b}, 2, &(matmul_attrs){transpose});
}

static ct_tensor *reference_of(ct_tensor *a, ct_tensor *b, bool transpose) {
    return ref_matmul(a, transpose ? ct_transpose(b, -1, -2) : b);
}

typedef struct {
    const char *what;
    ct_shape a, b;
} pair;

/* `transpose` points to a bool. */
static ct_tensor *by_you(ct_tensor *const *in, int n, void *transpose) {
    (void)n;
    return yours(in[0], in[1], *(bool *)transpose);
}

enum {
    TRANSPOSE_IGNORED,
    A_TRANSPOSED,
    Y_TRANSPOSED,
    A_OF_MEMORY,
    B_OF_MEMORY,
    Y_OF_MEMORY,
    LAST_LOST,
    FIRST_LOST,
    LAST_ALONE,
    FIRST_ALONE,
    A_OF_FIRST,
    B_OF_FIRST,
    ORDER,
    SUM_GOES_ON,
    SUM_OF_ROW,
    BATCHES_ADDED,
    SUMMANDS,
    ABSOLUTE,
    INTO_FIRST,
    B_TRANSPOSED,
    A_STEP_ROWS,
    A_STEP_COLUMNS,
    B_STEP_ROWS,
    B_STEP_INNER,
    BATCH_STEP_ROWS,
    BATCH_STEP_INNER,
    MIDDLE_LOST,
    MEAN_OF_PRODUCTS,
    ROOT_OF_INNER,
    LARGEST,
    SQUARED,
    ELEMENTS,
    NEGATED,
    SUM_FROM_ONE,
    ONE_COLUMN_FOR_ALL,
    DIAGONAL,
    ADDED_TO_A,
    LAST_OF_BATCH_ALONE,
    SUM_OF_MATRIX,
    INTO_LAST_ROW,
    NOT_ADVANCED_A,
    NOT_ADVANCED_B
};
static const course_mistake mistakes[] = {
    [TRANSPOSE_IGNORED] = {"when `transpose` is not looked at"},
    [A_TRANSPOSED] = {"with a^T in place of a"},
    [Y_TRANSPOSED] = {"when rows and columns of the result are exchanged"},
    [A_OF_MEMORY] = {"when a is read column by column (index k M + m)"},
    [B_OF_MEMORY] = {"when b is read with the wrong step between its rows: the index is row times "
                     "number of columns, plus column, of b as it is stored"},
    [Y_OF_MEMORY] = {"when the result is written column by column (index n M + m)"},
    [LAST_LOST] = {"when the sum ends one too early: without the last k"},
    [FIRST_LOST] = {"when the sum begins one too late: without k = 0"},
    [LAST_ALONE] = {"when only the last product of each sum is left: = in place of +=", true},
    [FIRST_ALONE] = {"when only the first product of each sum is there", true},
    [A_OF_FIRST] = {"when all products of a batch use the first matrix of a"},
    [B_OF_FIRST] = {"when all products of a batch use the first matrix of b"},
    [ORDER] = {"with b a in place of a b"},
    [SUM_GOES_ON] = {"when the sum is not set back to 0 for each element"},
    [SUM_OF_ROW] = {"when the sum is set back to 0 for each row alone, not for each element"},
    [BATCHES_ADDED] = {"when the products of the batch are added up"},
    [SUMMANDS] = {"when a_mk and b_kn are added, not multiplied", true},
    [INTO_FIRST] = {"when all products of a batch are written to, or added in, the first matrix"},
    [ABSOLUTE] = {"when signs are lost: |a| and |b|"},
    [B_TRANSPOSED] = {"with b^T although `transpose` is false"},
    [A_STEP_ROWS] =
        {"when a's rows are taken to begin M numbers apart (index m M + k): they have K"},
    [A_STEP_COLUMNS] = {"when a's rows are taken to begin N numbers apart (index m N + k): they "
                        "have K"},
    [B_STEP_ROWS] = {"when b's rows are taken to begin M numbers apart"},
    [B_STEP_INNER] = {"when b's rows are taken to begin as many numbers apart as it has rows, and "
                      "not columns"},
    [BATCH_STEP_ROWS] = {"when the matrices of a batch are taken to begin a row apart, and not a "
                         "matrix"},
    [BATCH_STEP_INNER] = {"when the matrices of a batch are taken to begin one number apart"},
    [MIDDLE_LOST] = {"when the sum goes over every second k alone"},
    [MEAN_OF_PRODUCTS] = {"with the mean over k in place of the sum"},
    [ROOT_OF_INNER] = {"when the sum is divided by sqrt K"},
    [LARGEST] = {"with the largest product of each sum"},
    [SQUARED] = {"when a is taken twice: a a_mk b_kn"},
    [ELEMENTS] = {"with products of elements that stand at the same place, and no sum", true},
    [NEGATED] = {"with the sign of the result reversed"},
    [SUM_FROM_ONE] = {"when each sum begins with 1, and not 0"},
    [ONE_COLUMN_FOR_ALL] = {"when every column of the result is its first"},
    [DIAGONAL] = {"when only elements (m, m) of the result are written, and others are 0"},
    [ADDED_TO_A] = {"when a is added to the result"},
    [LAST_OF_BATCH_ALONE] = {"when only the last matrix of the batch is written, and others are 0"},
    [SUM_OF_MATRIX] = {"when the sum is set back to 0 for each matrix alone"},
    [INTO_LAST_ROW] = {"when only the last row of each result is written, and others are 0"},
    [NOT_ADVANCED_A] = {"when a does not go on to the next matrix where b has no batch"},
    [NOT_ADVANCED_B] = {"when b does not go on to the next matrix where a has no batch"},
};

/* x's memory, read as if its last two dims were stored in the other order. */
static ct_tensor *of_memory(ct_tensor *x) {
    ct_shape shape = ct_shape_of(x);
    const int64_t rows = ct_dim(x, -2);
    shape.dim[shape.ndim - 2] = ct_dim(x, -1), shape.dim[shape.ndim - 1] = rows;
    return ct_transpose(ct_reshape(x, shape), -1, -2);
}
static ct_tensor *first_of(ct_tensor *x) {
    return ct_ndim(x) == 3 && ct_dim(x, 0) > 1 ? ref_expand(ct_narrow(x, 0, 0, 1), ct_shape_of(x))
                                               : x;
}

/* x as it is read if rows begin `row` numbers apart, and matrices `matrix` numbers. NULL if this
 * reads beyond x. */
static ct_tensor *by_steps(ct_tensor *x, int64_t row, int64_t matrix) {
    const int64_t rows = ct_dim(x, -2), columns = ct_dim(x, -1), n = ct_numel(x);
    int64_t from[1024];
    if (n > 1024 || n == 0) return NULL;
    for (int64_t e = 0; e < n; e++) {
        from[e] = e / (rows * columns) * matrix + e / columns % rows * row + e % columns;
        if (from[e] >= n) return NULL;
    }
    return ct_reshape(ref_index_select(ct_reshape(x, CT_SHAPE(-1)), 0,
                                       ct_from_i64(ct_context_of(x), CT_SHAPE(n), from)),
                      ct_shape_of(x));
}

/* A mask (..., rows, columns): 1 at the elements of the result that the mistake leaves right, 0 at
 * the others. */
static ct_tensor *left(ct_context *context, ct_shape shape, course_set bits) {
    double one[1024];
    int64_t n = 1;
    for (int d = 0; d < shape.ndim; d++) n *= shape.dim[d];
    if (n > 1024 || n == 0) return NULL;
    const int64_t rows = shape.dim[shape.ndim - 2], columns = shape.dim[shape.ndim - 1];
    for (int64_t e = 0; e < n; e++) {
        const int64_t row = e / columns % rows;
        one[e] = bits >> DIAGONAL & 1        ? row == e % columns
                 : bits >> INTO_LAST_ROW & 1 ? row == rows - 1
                                             : e >= n - rows * columns;
    }
    return ct_from_f64(context, shape, one);
}

typedef struct {
    ct_tensor *a, *b; /* NULL: a mistake would read elements that do not exist */
    int64_t inner;    /* K */
} factor_pair;

/* a and b as they are read: `turn` is the exercise's `transpose`, `columns` the result's. */
static factor_pair read_factors(ct_tensor *a, ct_tensor *b, bool turn, int64_t columns,
                                course_set bits) {
    const factor_pair none = {0};
    if (bits >> A_TRANSPOSED & 1) a = ct_transpose(a, -1, -2);
    if (bits >> A_OF_MEMORY & 1) a = of_memory(a);
    if (bits >> B_OF_MEMORY & 1) b = of_memory(b);
    const int64_t rows = ct_dim(a, -2), inner = ct_dim(a, -1),
                  b_size = ct_dim(b, -1) * ct_dim(b, -2);
    if (bits >> B_STEP_ROWS & 1) b = by_steps(b, rows, b_size);
    if (b && bits >> B_STEP_INNER & 1) b = by_steps(b, ct_dim(b, -2), b_size);
    if (b && bits & (COURSE_BIT(BATCH_STEP_ROWS) | COURSE_BIT(BATCH_STEP_INNER))) {
        const bool row = bits >> BATCH_STEP_ROWS & 1;
        a = by_steps(a, inner, row ? inner : 1);
        b = by_steps(b, ct_dim(b, -1), row ? ct_dim(b, -1) : 1);
    }
    if (!a || !b) return none;
    if (turn && !(bits >> TRANSPOSE_IGNORED & 1)) b = ct_transpose(b, -1, -2);
    if (bits >> A_STEP_ROWS & 1) a = by_steps(a, rows, rows * inner);
    if (bits >> A_STEP_COLUMNS & 1) a = by_steps(a, columns, rows * inner);
    if (bits >> B_TRANSPOSED & 1) b = turn ? NULL : ct_transpose(b, -1, -2);
    if (!a || !b) return none;
    if (bits >> NOT_ADVANCED_A & 1) a = ct_ndim(b) == 3 && ct_dim(b, 0) > 1 ? NULL : first_of(a);
    if (a && bits >> NOT_ADVANCED_B & 1)
        b = ct_ndim(a) == 3 && ct_dim(a, 0) > 1 ? NULL : first_of(b);
    if (!a || !b) return none;
    if (bits >> SQUARED & 1) a = ref_mul(a, a);
    return (factor_pair){a, b, inner};
}

/* The sum over k, or the value that stands in its place. f->a becomes the factor that is
 * multiplied. */
static ct_tensor *summed(factor_pair *f, course_set bits) {
    ct_tensor *a = f->a, *b = f->b;
    if (bits >> A_OF_FIRST & 1) a = first_of(a);
    if (bits >> B_OF_FIRST & 1) b = first_of(b);
    if (bits >> ABSOLUTE & 1) a = ref_abs(a), b = ref_abs(b);
    const int64_t k = ct_dim(a, -1),
                  from = bits >> LAST_ALONE & 1 ? k - 1 : (int64_t)(bits >> FIRST_LOST & 1),
                  to = bits >> FIRST_ALONE & 1 ? 1 : k - (bits >> LAST_LOST & 1);
    if (from != 0 || to != k)
        a = ct_narrow(a, -1, from, to - from), b = ct_narrow(b, -2, from, to - from);
    if (bits >> MIDDLE_LOST & 1) {
        double one[256];
        if (f->inner > 256) return NULL;
        for (int64_t i = 0; i < f->inner; i++) one[i] = i % 2 == 0;
        a = ref_mul(a, ct_from_f64(ct_context_of(a), CT_SHAPE(f->inner), one));
    }
    f->a = a;
    if (bits >> LARGEST & 1)
        return ref_max(ref_mul(ct_unsqueeze(a, -1), ct_unsqueeze(b, -3)), CT_DIMS(-2), false);
    if (bits >> ORDER & 1) return ref_matmul(b, a);
    if (bits >> SUMMANDS & 1)
        return ref_add(ref_scale(ref_sum(a, CT_DIMS(-1), true), 1), ref_sum(b, CT_DIMS(-2), true));
    return ref_matmul(a, b);
}

/* The sums y as they are written into a result of this shape. */
static ct_tensor *written(ct_tensor *y, ct_tensor *a, ct_shape shape, course_set bits) {
    if (bits >> NEGATED & 1) y = ref_neg(y);
    if (bits >> SUM_FROM_ONE & 1) y = ref_add_scalar(y, 1);
    if (bits >> ONE_COLUMN_FOR_ALL & 1) y = ref_expand(ct_narrow(y, -1, 0, 1), shape);
    if (bits >> ADDED_TO_A & 1) y = ref_add(a, y);
    if (bits &
        (COURSE_BIT(DIAGONAL) | COURSE_BIT(INTO_LAST_ROW) | COURSE_BIT(LAST_OF_BATCH_ALONE))) {
        ct_tensor *kept = left(ct_context_of(y), shape, bits);
        if (!kept) return NULL;
        y = ref_mul(y, kept);
    }
    if (bits >> SUM_OF_MATRIX & 1 && ct_ndim(y) == 3) {
        ct_tensor *flat = ct_reshape(y, CT_SHAPE(shape.dim[0], shape.dim[1] * shape.dim[2]));
        y = ct_reshape(ref_cumsum(flat, -1), shape);
    }
    if (bits >> SUM_OF_ROW & 1) y = ref_cumsum(y, -1);
    if (bits >> SUM_GOES_ON & 1) y = ct_reshape(ref_cumsum(ct_reshape(y, CT_SHAPE(-1)), 0), shape);
    if (bits >> BATCHES_ADDED & 1) y = ref_expand(ref_sum(y, CT_DIMS(0), true), shape);
    if (bits >> INTO_FIRST & 1) {
        if (ct_ndim(y) < 3) return NULL;
        y = ref_pad(ref_sum(y, CT_DIMS(0), true), 0, 0, shape.dim[0] - 1, 0);
    }
    if (bits >> Y_TRANSPOSED & 1) y = ct_transpose(y, -1, -2);
    if (bits >> Y_OF_MEMORY & 1) y = ct_reshape(ct_contiguous(ct_transpose(y, -1, -2)), shape);
    return y;
}

/* bits == 0: the right product */
static ct_tensor *variant(ct_tensor *const *in, int n, void *transpose, course_set bits) {
    (void)n;
    const bool turn = *(bool *)transpose;
    if (!bits) return reference_of(in[0], in[1], turn);
    const ct_shape shape = ct_shape_of(reference_of(in[0], in[1], turn));
    factor_pair f = read_factors(in[0], in[1], turn, shape.dim[shape.ndim - 1], bits);
    if (!f.a) return NULL;
    if (bits >> ELEMENTS & 1) return ref_mul(f.a, f.b);
    ct_tensor *y = summed(&f, bits);
    if (!y || bits >> LARGEST & 1) return y;
    if (bits >> MEAN_OF_PRODUCTS & 1) y = ref_scale(y, 1 / (double)f.inner);
    if (bits >> ROOT_OF_INNER & 1) y = ref_scale(y, 1 / sqrt((double)f.inner));
    return written(y, f.a, shape, bits);
}
static double element(ct_tensor *a, ct_tensor *b, bool turn, int64_t e) {
    ct_tensor *y = yours(a, b, turn);
    return y ? ct_data_f64(ct_contiguous(y))[e] : NAN;
}

/* Finds the factor of each product a_mk b_kn in the first wrong element: the change of the element
 * when both numbers change, without the changes when only one of them does. */
static void explain(ct_tensor *const *in, int n, void *transpose, ct_tensor *got, ct_tensor *right,
                    char *said, size_t size) {
    const bool turn = *(bool *)transpose;
    const int64_t inner = ct_dim(in[0], -1), rows = ct_dim(in[0], -2), columns = ct_dim(right, -1);
    const double *y = ct_data_f64(ct_contiguous(got)), *must = ct_data_f64(ct_contiguous(right));
    int64_t e = 0;
    bool all_one = true;
    char factors[96] = "";
    (void)n;
    while (e < ct_numel(got) && fabs(y[e] - must[e]) < 1e-9) e++;
    if (inner > 8 || e == ct_numel(got) || !isfinite(y[e])) return;
    const int64_t batch = e / (rows * columns), row = e / columns % rows, column = e % columns;
    const int64_t a_from = ct_numel(in[0]) > rows * inner ? batch * rows * inner : 0,
                  b_from = ct_numel(in[1]) > inner * columns ? batch * inner * columns : 0;
    for (int64_t k = 0; k < inner; k++) {
        ct_tensor *a = ref_scale(in[0], 1), *b = ref_scale(in[1], 1);
        ct_data_f64(a)[a_from + row * inner + k] += 1;
        ct_data_f64(b)[b_from + (turn ? column * inner + k : k * columns + column)] += 1;
        const double factor =
            element(a, b, turn, e) - element(a, in[1], turn, e) - element(in[0], b, turn, e) + y[e];
        if (!isfinite(factor)) return;
        all_one = all_one && fabs(factor - 1) < 1e-9;
        snprintf(factors + strlen(factors), sizeof factors - strlen(factors), "%s%.4g",
                 k ? ", " : "", fabs(factor) < 1e-9 ? 0 : factor);
    }
    if (!all_one)
        snprintf(said, size,
                 "in the first that is wrong the products of k = 0, 1 ... have the "
                 "factors %s, and must have 1",
                 factors);
}

static void probe(ct_context *context, ct_tensor **in, void **transpose) {
    const bool turn = *(bool *)*transpose;
    in[0] = course_randn(context, CT_SHAPE(3, 2, 4));
    in[1] = course_randn(context, turn ? CT_SHAPE(3, 5, 4) : CT_SHAPE(3, 4, 5));
}
static const char *const inputs[] = {"a: matrix, row, column", "b: matrix, row, column",
                                     "the result: matrix, row, column"};
static const course_function function = COURSE_FUNCTION(by_you, variant, mistakes, .inputs = inputs,
                                                        .probe = probe, .explain = explain);

static ct_tensor *by_reference(ct_tensor *const *in, int n, void *transpose) {
    return course_as_yours(&function, in, n, transpose);
}

/* Checks the values and, with `gradient`, the gradient of the function, which proves something only
 * if the values are right. */
static void try(ct_context *context, pair p, bool transpose, bool gradient) {
    ct_tensor *in[] = {course_randn(context, p.a), course_randn(context, p.b)};
    (gradient ? course_forward_first : course_forward)(p.what, &function, &transpose, in, 2, 1e-13);
    if (gradient)
        course_gradient(p.what, &matmul, &(matmul_attrs){transpose}, in, 2, (ct_gradcheck_opts){0});
}

static void by_hand(ct_context *context) {
    ct_tensor *a = course_f64(context, CT_SHAPE(2, 3), (double[]){1, 2, 3, 4, 5, 6}),
              *b = course_f64(context, CT_SHAPE(3, 1), (double[]){1, 0, -1});
    course_forward("the statement's example", &function, &(bool){false}, (ct_tensor *[]){a, b}, 2,
                   1e-13);
    course_value("the statement's example", yours(a, b, false),
                 course_f64(context, CT_SHAPE(2, 1), (double[]){-2, -2}), 0);
}

/* Some shapes are square, so that a transposed gradient has the right shape. */
static const pair plain[] = {{"(2, 3) by (3, 4)", {2, {2, 3}}, {2, {3, 4}}},
                             {"(3, 3) by (3, 3)", {2, {3, 3}}, {2, {3, 3}}},
                             {"(1, 5) by (5, 1)", {2, {1, 5}}, {2, {5, 1}}},
                             {"(4, 1) by (1, 3)", {2, {4, 1}}, {2, {1, 3}}},
                             {"(2, 0) by (0, 3), which is all zeros", {2, {2, 0}}, {2, {0, 3}}}};
static const pair turned[] = {{"(2, 3) by (4, 3)^T", {2, {2, 3}}, {2, {4, 3}}},
                              {"(3, 3) by (3, 3)^T", {2, {3, 3}}, {2, {3, 3}}}};
static const pair batched[] = {{"(3, 2, 4) by (3, 4, 2)", {3, {3, 2, 4}}, {3, {3, 4, 2}}},
                               {"(3, 2, 4) by (4, 5), shared", {3, {3, 2, 4}}, {2, {4, 5}}},
                               {"(3, 4), shared, by (2, 4, 2)", {2, {3, 4}}, {3, {2, 4, 2}}},
                               {"(2, 3, 4) by (1, 4, 2), shared", {3, {2, 3, 4}}, {3, {1, 4, 2}}},
                               {"(1, 2, 3) by (3, 2)", {3, {1, 2, 3}}, {2, {3, 2}}}};

#define EACH(pairs, transpose, gradient)                                                           \
    for (unsigned i = 0; i < sizeof pairs / sizeof *pairs; i++)                                    \
    try(context, pairs[i], transpose, gradient)

static void large_gradient(ct_context *context, const char *what, ct_shape a, bool transpose) {
    ct_tensor *in[] = {course_randn(context, a), course_randn(context, CT_SHAPE(200, 200))};
    course_gradient_as(what, by_you, by_reference, &transpose, in, 2, 1e-9);
}

static void shapes(ct_context *context) { EACH(plain, false, false); }
static void transposed(ct_context *context) { EACH(turned, true, false); }
static void batches(ct_context *context) { EACH(batched, false, false); }
static void gradient(ct_context *context) {
    EACH(plain, false, true);
    large_gradient(context, "(200, 200) by (200, 200)", CT_SHAPE(200, 200), false);
}
static void gradient_transposed(ct_context *context) {
    EACH(turned, true, true);
    large_gradient(context, "(200, 200) by (200, 200)^T", CT_SHAPE(200, 200), true);
}
static void gradient_batches(ct_context *context) {
    EACH(batched, false, true);
    try(context, (pair){"(2, 3, 4) by (5, 4)^T, shared", CT_SHAPE(2, 3, 4), CT_SHAPE(5, 4)}, true,
        true);
    large_gradient(context, "(2, 100, 200) by (200, 200), shared", CT_SHAPE(2, 100, 200), false);
}

static void refused(ct_context *context) {
    ct_tensor *a = course_randn(context, CT_SHAPE(2, 3)),
              *b = course_randn(context, CT_SHAPE(4, 2));
    course_refused("(2, 3) by (4, 2)", context, yours(a, b, false), CT_ERR_SHAPE,
                   "matmul: inner sizes 3 and 4 differ");
    course_refused("(2, 3) by (4, 2)^T", context, yours(a, b, true), CT_ERR_SHAPE,
                   "matmul: inner sizes 3 and 2 differ");
    a = course_randn(context, CT_SHAPE(2, 3, 4)), b = course_randn(context, CT_SHAPE(3, 4, 5));
    course_refused("(2, 3, 4) by (3, 4, 5)", context, yours(a, b, false), CT_ERR_SHAPE,
                   "matmul: batches of 2 and 3 differ");
}

const course_test course_tests[] = {
    {"by_hand", 1, by_hand},
    {"shapes", 1, shapes},
    {"transposed", 1, transposed},
    {"batches", 1, batches},
    {"gradient", 2, gradient},
    {"gradient_transposed", 1, gradient_transposed},
    {"gradient_batches", 2, gradient_batches},
    {"refused", 1, refused},
};
const int course_test_count = sizeof course_tests / sizeof *course_tests;
