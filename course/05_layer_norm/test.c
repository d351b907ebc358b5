/* layer_norm against plain loops, and against numbers made by hand. */
#include "../course.h"
#include "exercise.h"

#include <math.h>
#include <string.h>

/* The inputs x, weight and bias, and eps. */
typedef struct {
    ct_tensor *in[3];
    layer_norm_attrs attrs;
} operands;

static operands random_operands(ct_context *context, ct_shape x) {
    const ct_shape row = CT_SHAPE(x.dim[x.ndim - 1]);
    return (operands){
        {course_randn(context, x), course_randn(context, row), course_randn(context, row)}, {1e-5}};
}

static ct_tensor *apply(operands o) { return ct_apply(&layer_norm, o.in, 3, &o.attrs); }

static ct_tensor *by_you(ct_tensor *const *in, int n, void *attrs) {
    (void)n;
    return apply((operands){{in[0], in[1], in[2]}, *(layer_norm_attrs *)attrs});
}

enum {
    EPS_OUTSIDE,
    EPS_MISSING,
    EPS_FIXED,
    BESSEL,
    NO_ROOT,
    MEAN_KEPT,
    NO_MEAN,
    ABOUT_ZERO,
    SQUARES_SUMMED,
    MEAN_SUMMED,
    OVER_ALL,
    DOWN_COLUMNS,
    FIRST_ROW,
    NO_WEIGHT,
    NO_BIAS,
    BIAS_INSIDE,
    EXCHANGED,
    WEIGHT_MORE,
    BIAS_SUBTRACTED,
    ABSOLUTE,
    MULTIPLIED,
    NO_VARIANCE,
    WEIGHT_FIRST,
    LAST_LOST,
    MEAN_LESS,
    EPS_SQUARED,
    FIRST_WEIGHT,
    WEIGHT_OF_ROW,
    MEAN_GOES_ON,
    VARIANCE_GOES_ON,
    MEAN_SUM_GOES_ON,
    VARIANCE_SUM_GOES_ON,
    MEAN_WITHOUT_FIRST,
    MEAN_WITHOUT_LAST,
    VARIANCE_WITHOUT_FIRST,
    VARIANCE_WITHOUT_LAST,
    FIRST_MEAN,
    FIRST_VARIANCE,
    ROW_BEFORE,
    MEAN_OVER_ROWS,
    VARIANCE_OVER_ROWS,
    MEAN_ADDED,
    MEAN_HALVED,
    MEAN_TAKEN_LAST,
    EPS_TWICE,
    EPS_TIMES_D,
    EPS_SUBTRACTED,
    EPS_ROOT,
    EPS_INSTEAD,
    EPS_LARGEST,
    WEIGHT_TWICE,
    WEIGHT_DIVIDES,
    BIAS_TWICE,
    BIAS_SCALED,
    ROOT_TWICE,
    LARGEST_SIZE,
    RANGE,
    SUM_OF_SIZES,
    LAST_ROW,
    NEGATED,
    MEAN_OF_SIZES,
    BETWEEN_EXTREMES,
    MEAN_PLUS_EPS,
    LAST_COLUMN_UNNORMED,
    MEAN_MORE,
    MEAN_OF_LAST,
    VARIANCE_OF_LAST
};
static const course_mistake mistakes[] = {
    [EPS_OUTSIDE] = {"when eps is added to the root, and not to the variance under it"},
    [EPS_MISSING] = {"without eps"},
    [EPS_FIXED] = {"with 1e-5 in place of the attribute eps"},
    [BESSEL] = {"when the variance is divided by D - 1, not D"},
    [NO_ROOT] = {"when it is divided by var + eps, and not by the root of that"},
    [MEAN_KEPT] = {"when the mean is not taken off x above the line"},
    [NO_MEAN] = {"without the mean: x / sqrt(mean x^2 + eps), which is RMS norm"},
    [ABOUT_ZERO] = {"with the mean of x^2 for the variance"},
    [SQUARES_SUMMED] = {"when the squares are summed and not divided by D"},
    [MEAN_SUMMED] = {"with the sum for the mean: it is not divided by D"},
    [OVER_ALL] = {"with one mean and variance of all rows together"},
    [DOWN_COLUMNS] = {"with mean and variance of columns, not rows"},
    [FIRST_ROW] = {"with mean and variance of the first row for all rows"},
    [NO_WEIGHT] = {"without the weight", true},
    [NO_BIAS] = {"without the bias", true},
    [BIAS_INSIDE] = {"when the bias is added before the weight multiplies: (z + b) w"},
    [EXCHANGED] = {"with weight and bias exchanged: z b + w"},
    [WEIGHT_MORE] = {"with 1 + w in place of w"},
    [BIAS_SUBTRACTED] = {"when the bias is subtracted"},
    [ABSOLUTE] = {"with the mean of |x - mean| in place of the root of the variance"},
    [MULTIPLIED] = {"when z is multiplied by the root, and not divided"},
    [NO_VARIANCE] = {"when x - mean is not divided by anything", true},
    [WEIGHT_FIRST] = {"when x is multiplied by the weight before it is normed"},
    [LAST_LOST] = {"when mean and variance lack the row's last number"},
    [MEAN_LESS] = {"when the sum is divided by D - 1 for the mean, too"},
    [FIRST_WEIGHT] = {"with the first weight and bias for all columns"},
    [WEIGHT_OF_ROW] = {"with weight and bias of the row's number, not of the column's"},
    [EPS_SQUARED] = {"with eps^2 under the root"},
    [MEAN_GOES_ON] = {"when a row's sum for the mean begins with the mean of the row before, and "
                      "not with 0"},
    [VARIANCE_GOES_ON] = {"when a row's sum of squares begins with the variance of the row before, "
                          "and not with 0"},
    [MEAN_SUM_GOES_ON] = {"when the sum for the mean is not set back to 0 for each row"},
    [VARIANCE_SUM_GOES_ON] = {"when the sum of squares is not set back to 0 for each row"},
    [MEAN_WITHOUT_FIRST] = {"when the sum for the mean lacks the row's first number"},
    [MEAN_WITHOUT_LAST] = {"when the sum for the mean lacks the row's last number"},
    [VARIANCE_WITHOUT_FIRST] = {"when the sum of squares lacks the row's first number"},
    [VARIANCE_WITHOUT_LAST] = {"when the sum of squares lacks the row's last number"},
    [FIRST_MEAN] = {"with the mean of the first row for all rows"},
    [FIRST_VARIANCE] = {"with the variance of the first row for all rows"},
    [ROW_BEFORE] = {"with mean and variance of the row before"},
    [MEAN_OVER_ROWS] = {"when the sum for the mean is divided by the number of rows, not D"},
    [VARIANCE_OVER_ROWS] = {"when the sum of squares is divided by the number of rows, not D"},
    [MEAN_ADDED] = {"when the mean is added, and not subtracted, above the line"},
    [MEAN_HALVED] = {"when half of the mean is subtracted"},
    [MEAN_TAKEN_LAST] = {"when the mean is subtracted after the division by the root"},
    [EPS_TWICE] = {"when eps is added twice"},
    [EPS_TIMES_D] = {"when eps is added to each square of the sum, D times, or before the division "
                     "by D"},
    [EPS_SUBTRACTED] = {"when eps is subtracted"},
    [EPS_ROOT] = {"with the root of eps in place of eps"},
    [EPS_INSTEAD] = {"when eps is under the root alone, without the variance"},
    [EPS_LARGEST] = {"with the larger of variance and eps in place of their sum"},
    [WEIGHT_TWICE] = {"when the weight multiplies twice"},
    [WEIGHT_DIVIDES] = {"when z is divided by the weight"},
    [BIAS_TWICE] = {"when the bias is added twice"},
    [BIAS_SCALED] = {"when the bias is divided by the root, too"},
    [ROOT_TWICE] = {"when the root is taken twice"},
    [LARGEST_SIZE] = {"when x - mean is divided by its largest absolute value"},
    [RANGE] = {"when x - mean is divided by the difference of the largest and the smallest"},
    [SUM_OF_SIZES] = {"when x - mean is divided by the sum of |x - mean|"},
    [LAST_ROW] = {"with mean and variance of the last row for all rows"},
    [NEGATED] = {"with mean - x in place of x - mean"},
    [MEAN_OF_SIZES] = {"with the mean of |x| in place of the mean of x"},
    [BETWEEN_EXTREMES] = {"with the middle between smallest and largest in place of the mean"},
    [MEAN_PLUS_EPS] = {"when eps is added to the mean"},
    [LAST_COLUMN_UNNORMED] = {"when the last column is not normed: it is x w + b"},
    [MEAN_MORE] = {"when the sum for the mean is divided by D + 1"},
    [MEAN_OF_LAST] = {"when the sum for the mean is the row's last number alone: = or =+ in place "
                      "of +="},
    [VARIANCE_OF_LAST] = {"when the sum of squares is the last square alone: = or =+ in place of "
                          "+="},
};

/* The numbers x (..., 1), one for each row, read from another row. With `before` each row has the
 * number of the row before it, and the first row its own. Otherwise all rows have the number of the
 * last row, if `last`, or of the first. */
static ct_tensor *of_row(ct_tensor *x, int64_t before, bool last) {
    const ct_shape shape = ct_shape_of(x);
    ct_tensor *flat = ct_reshape(x, CT_SHAPE(-1));
    const int64_t n = ct_numel(x);
    if (n < 2) return NULL;
    if (before) {
        ct_tensor *parts[] = {ct_narrow(flat, 0, 0, 1), ct_narrow(flat, 0, 0, n - 1)};
        return ct_reshape(ref_cat(parts, 2, 0), shape);
    }
    return ref_expand(ct_reshape(ct_narrow(flat, 0, last ? n - 1 : 0, 1), CT_SHAPE(1)), shape);
}

/* The means of rows if the sum is not set to 0 at the beginning of a row. With `result` it begins
 * with the mean of the row before, otherwise with its sum. `sum` has the right sums, and `over` is
 * the divisor. */
static ct_tensor *carried(ct_tensor *sum, double over, bool result) {
    const ct_shape shape = ct_shape_of(sum);
    ct_tensor *flat = ct_reshape(sum, CT_SHAPE(-1)), *row[64];
    const int64_t n = ct_numel(sum);
    if (!result) return ref_scale(ct_reshape(ref_cumsum(flat, 0), shape), 1 / over);
    if (n > 64 || n < 2) return NULL;
    for (int64_t i = 0; i < n; i++) {
        row[i] = ct_narrow(flat, 0, i, 1);
        if (i) row[i] = ref_add(row[i], row[i - 1]);
        row[i] = ref_scale(row[i], 1 / over);
    }
    return ct_reshape(ref_cat(row, (int)n, 0), shape);
}

/* The mean of each row, with mistakes: the first or last element is left out, the divisor is the
 * number of rows, or the sum begins with the result or the sum of the row before. */
static ct_tensor *row_mean(ct_tensor *x, ct_shape dims, bool no_first, bool no_last, bool over_rows,
                           bool goes_on, bool sum_goes_on) {
    const int64_t n = ct_dim(x, -1);
    const double over = over_rows ? (double)(ct_numel(x) / n) : (double)n;
    if ((no_first || no_last) && n < 2) return NULL;
    if (no_first) x = ct_narrow(x, -1, 1, n - 1);
    if (no_last) x = ct_narrow(x, -1, 0, n - 1);
    if (!no_first && !no_last && !over_rows && !goes_on && !sum_goes_on)
        return ref_mean(x, dims, true);
    ct_tensor *sum = ref_sum(x, dims, true);
    return goes_on || sum_goes_on ? carried(sum, over, goes_on) : ref_scale(sum, 1 / over);
}

static ct_tensor *extreme(ct_tensor *x, double sign) {
    return ref_scale(ref_max(ref_scale(x, sign), CT_DIMS(-1), true), sign);
}

static ct_tensor *mean_of(ct_tensor *from, ct_shape dims, double eps, course_set bits) {
    const double size = (double)ct_dim(from, -1);
    ct_tensor *mean = row_mean(from, dims, bits >> MEAN_WITHOUT_FIRST & 1,
                               bits >> MEAN_WITHOUT_LAST & 1, bits >> MEAN_OVER_ROWS & 1,
                               bits >> MEAN_GOES_ON & 1, bits >> MEAN_SUM_GOES_ON & 1);
    if (bits >> MEAN_OF_LAST & 1)
        mean = ref_scale(ct_narrow(from, -1, ct_dim(from, -1) - 1, 1), 1 / size);
    if (bits >> MEAN_SUMMED & 1) mean = ref_sum(from, dims, true);
    if (bits >> MEAN_OF_SIZES & 1) mean = ref_mean(ref_abs(from), dims, true);
    if (bits >> BETWEEN_EXTREMES & 1)
        mean = ref_scale(ref_add(extreme(from, 1), extreme(from, -1)), 0.5);
    if (mean && bits >> MEAN_LESS & 1) mean = ref_scale(mean, size / (size - 1));
    if (mean && bits >> MEAN_MORE & 1) mean = ref_scale(mean, size / (size + 1));
    if (mean && bits >> NO_MEAN & 1) mean = ref_scale(mean, 0);
    if (mean && bits >> MEAN_HALVED & 1) mean = ref_scale(mean, 0.5);
    if (mean && bits >> MEAN_PLUS_EPS & 1) mean = ref_add_scalar(mean, eps);
    if (mean && bits >> FIRST_MEAN & 1) mean = of_row(mean, 0, false);
    return mean;
}

static ct_tensor *variance_of(ct_tensor *from, ct_tensor *off, ct_shape dims, course_set bits) {
    const double size = (double)ct_dim(from, -1);
    ct_tensor *var = row_mean(ref_mul(off, off), dims, bits >> VARIANCE_WITHOUT_FIRST & 1,
                              bits >> VARIANCE_WITHOUT_LAST & 1, bits >> VARIANCE_OVER_ROWS & 1,
                              bits >> VARIANCE_GOES_ON & 1, bits >> VARIANCE_SUM_GOES_ON & 1);
    if (bits >> VARIANCE_OF_LAST & 1)
        var = ref_scale(ct_narrow(ref_mul(off, off), -1, ct_dim(from, -1) - 1, 1), 1 / size);
    if (bits >> ABOUT_ZERO & 1) var = ref_mean(ref_mul(from, from), dims, true);
    if (var && bits & (COURSE_BIT(BESSEL) | COURSE_BIT(MEAN_LESS)))
        var = ref_scale(var, size / fmax(1, size - 1));
    if (var && bits >> SQUARES_SUMMED & 1) var = ref_scale(var, size);
    if (var && bits >> EPS_INSTEAD & 1) var = ref_scale(var, 0);
    if (var && bits >> FIRST_VARIANCE & 1) var = of_row(var, 0, false);
    return var;
}

static ct_tensor *divisor_of(ct_tensor *var, ct_tensor *off, ct_shape dims, double eps,
                             course_set bits) {
    if (bits >> EPS_TWICE & 1) eps *= 2;
    if (bits >> EPS_TIMES_D & 1) eps *= (double)ct_dim(off, -1);
    if (bits >> EPS_SUBTRACTED & 1) eps = -eps;
    if (bits >> EPS_ROOT & 1) eps = sqrt(eps);
    if (bits >> ABSOLUTE & 1) return ref_add_scalar(ref_mean(ref_abs(off), dims, true), eps);
    if (bits >> SUM_OF_SIZES & 1) return ref_sum(ref_abs(off), dims, true);
    if (bits >> LARGEST_SIZE & 1) return ref_max(ref_abs(off), dims, true);
    if (bits >> RANGE & 1) return ref_sub(extreme(off, 1), extreme(off, -1));
    if (bits >> NO_ROOT & 1) return ref_add_scalar(var, eps);
    if (bits >> EPS_LARGEST & 1) return ref_sqrt(ref_clamp(var, eps, INFINITY));
    if (bits >> EPS_OUTSIDE & 1) return ref_add_scalar(ref_sqrt(var), eps);
    ct_tensor *root = ref_sqrt(ref_add_scalar(var, eps));
    return bits >> ROOT_TWICE & 1 ? ref_sqrt(root) : root;
}

/* z w + b, with the mistakes of `bits`. */
static ct_tensor *with_weights(ct_tensor *x, ct_tensor *z, ct_tensor *divisor, ct_tensor *w,
                               ct_tensor *b, course_set bits) {
    if (bits >> EXCHANGED & 1) {
        ct_tensor *other = w;
        w = b, b = other;
    }
    if (bits >> FIRST_WEIGHT & 1) w = ct_narrow(w, 0, 0, 1), b = ct_narrow(b, 0, 0, 1);
    if (bits >> WEIGHT_OF_ROW & 1) {
        const int64_t count = ct_numel(x) / ct_dim(x, -1);
        ct_shape rows = ct_shape_of(x);
        rows.dim[rows.ndim - 1] = 1;
        if (count > ct_dim(x, -1)) return NULL;
        w = ct_reshape(ct_narrow(w, 0, 0, count), rows);
        b = ct_reshape(ct_narrow(b, 0, 0, count), rows);
    }
    if (bits >> WEIGHT_MORE & 1) w = ref_add_scalar(w, 1);
    if (bits >> BIAS_SUBTRACTED & 1) b = ref_neg(b);
    if (bits >> BIAS_TWICE & 1) b = ref_scale(b, 2);
    if (bits >> BIAS_INSIDE & 1) b = ref_mul(b, w);
    if (bits >> BIAS_SCALED & 1) b = ref_div(b, divisor);
    if (bits >> WEIGHT_TWICE & 1) w = ref_mul(w, w);
    if (bits >> WEIGHT_DIVIDES & 1) z = ref_div(z, w);
    else if (!(bits & (COURSE_BIT(NO_WEIGHT) | COURSE_BIT(WEIGHT_FIRST)))) z = ref_mul(z, w);
    return bits >> NO_BIAS & 1 ? z : ref_add(z, b);
}

/* The layer norm with the mistakes of `bits`; with bits == 0, the right one. */
static ct_tensor *variant(ct_tensor *const *in, int n, void *attrs, course_set bits) {
    double eps = ((layer_norm_attrs *)attrs)->eps;
    ct_tensor *x = in[0], *w = in[1], *from = x;
    (void)n;
    if (!bits) return ref_layer_norm(x, w, in[2], eps);
    const ct_shape dims = bits >> OVER_ALL & 1       ? CT_ALL
                          : bits >> DOWN_COLUMNS & 1 ? CT_DIMS(0)
                                                     : CT_DIMS(-1);
    if (bits >> EPS_MISSING & 1) eps = 0;
    if (bits >> EPS_FIXED & 1) eps = 1e-5;
    if (bits >> EPS_SQUARED & 1) eps *= eps;
    if (bits >> WEIGHT_FIRST & 1) from = x = ref_mul(x, w);
    const bool last = bits >> LAST_ROW & 1;
    if (last || bits >> FIRST_ROW & 1) {
        from = ct_reshape(x, CT_SHAPE(-1, ct_dim(x, -1)));
        from = ct_narrow(from, 0, last ? ct_dim(from, 0) - 1 : 0, 1);
    }
    if (bits >> LAST_LOST & 1) from = ct_narrow(from, -1, 0, ct_dim(from, -1) - 1);
    ct_tensor *mean = mean_of(from, dims, eps, bits);
    if (!mean) return NULL;
    ct_tensor *off = ref_sub(from, mean), *var = variance_of(from, off, dims, bits);
    if (!var) return NULL;
    ct_tensor *divisor = divisor_of(var, off, dims, eps, bits);
    if (bits >> ROW_BEFORE & 1) {
        mean = of_row(mean, 1, false), divisor = of_row(divisor, 1, false);
        if (!mean || !divisor) return NULL;
    }
    if (bits >> MEAN_ADDED & 1) mean = ref_neg(mean);
    ct_tensor *z =
        bits & (COURSE_BIT(MEAN_KEPT) | COURSE_BIT(MEAN_TAKEN_LAST)) ? x : ref_sub(x, mean);
    if (bits >> NEGATED & 1) z = ref_neg(z);
    if (bits >> MULTIPLIED & 1) z = ref_mul(z, divisor);
    else if (!(bits >> NO_VARIANCE & 1)) z = ref_div(z, divisor);
    if (bits >> MEAN_TAKEN_LAST & 1) z = ref_sub(z, mean);
    if (bits >> LAST_COLUMN_UNNORMED & 1) {
        const int64_t size = ct_dim(x, -1);
        ct_tensor *parts[] = {ct_narrow(z, -1, 0, size - 1), ct_narrow(x, -1, size - 1, 1)};
        z = ref_cat(parts, 2, -1);
    }
    return with_weights(x, z, divisor, w, in[2], bits);
}

/* Fits each row of y by (x - m) r w + b, with m and r by least squares, and describes the first row
 * that has a wrong m or r, or that is no (x - m) r w + b for any m and r. */
static void explain(ct_tensor *const *in, int n, void *attrs, ct_tensor *got, ct_tensor *right,
                    char *said, size_t size) {
    const double eps = ((layer_norm_attrs *)attrs)->eps;
    const int64_t d = ct_dim(got, -1), rows = d ? ct_numel(got) / d : 0;
    const double *x = ct_data_f64(in[0]), *w = ct_data_f64(in[1]), *b = ct_data_f64(in[2]),
                 *y = ct_data_f64(got), *must = ct_data_f64(right);
    (void)n;
    for (int64_t row = 0; row < rows; row++, x += d, y += d, must += d) {
        double mean = 0, var = 0, zs = 0, zx = 0, worst = 0, wrong = 0;
        for (int64_t i = 0; i < d; i++) mean += x[i] / (double)d;
        for (int64_t i = 0; i < d; i++) {
            const double z = (y[i] - b[i]) / w[i];
            var += (x[i] - mean) * (x[i] - mean) / (double)d;
            zs += z / (double)d, zx += z * (x[i] - mean) / (double)d;
            wrong = fmax(wrong, fabs(y[i] - must[i]));
        }
        const double r = zx / var, m = mean - zs / r, root = 1 / sqrt(var + eps);
        int64_t others = 0; /* two different numbers are fitted by some m and r in any case */
        for (int64_t i = 0; i < d; i++) others += x[i] != x[0] && x[i] != x[d - 1];
        if (wrong < 1e-9 || others == 0 || !isfinite(m)) continue;
        for (int64_t i = 0; i < d; i++)
            worst = fmax(worst, fabs((x[i] - m) * r * w[i] + b[i] - y[i]));
        if (worst > 1e-7)
            snprintf(said, size,
                     "row %d is not (x - m) r w + b with one m and one r for all of the "
                     "row: look at where weight and bias are applied",
                     (int)row);
        else
            snprintf(said, size, "row %d is (x - m) r w + b with m = %.8g%s and r = %.8g%s",
                     (int)row, m, fabs(m - mean) < 1e-7 ? ", the mean," : "", r,
                     fabs(r - root) < 1e-7 ? ", which is right" : "");
        const size_t at = strlen(said);
        if (worst <= 1e-7 && fabs(m - mean) >= 1e-7)
            snprintf(said + at, size - at, "; m must be the mean, %.8g", mean);
        const size_t more = strlen(said);
        if (worst <= 1e-7 && fabs(r - root) >= 1e-7)
            snprintf(said + more, size - more,
                     "; r must be 1 / sqrt(var + eps), %.8g (yours is 1 / "
                     "sqrt of %.8g, var is %.8g)",
                     root, 1 / (r * r), var);
        return;
    }
}

static void probe(ct_context *context, ct_tensor **in, void **attrs) {
    static layer_norm_attrs other = {0.3};
    const operands o = random_operands(context, CT_SHAPE(2, 3, 7));
    memcpy(in, o.in, sizeof o.in), *attrs = &other;
}
static const char *const inputs[] = {"x: matrix, row, column", "the weight: column",
                                     "the bias: column", "the result: matrix, row, column"};
static const course_function function = COURSE_FUNCTION(by_you, variant, mistakes, .inputs = inputs,
                                                        .probe = probe, .explain = explain);

static void as_the_reference(const char *what, operands o, double tolerance) {
    course_forward(what, &function, &o.attrs, o.in, 3, tolerance);
}
static void first_as_the_reference(operands o) {
    course_forward_first("the forward whose gradient is asked for", &function, &o.attrs, o.in, 3,
                         1e-12);
}

static void by_hand(ct_context *context) {
    operands o = {{course_f64(context, CT_SHAPE(4), (double[]){-3, -3, 5, 5}),
                   course_f64(context, CT_SHAPE(4), (double[]){1, 2, 3, 4}),
                   course_f64(context, CT_SHAPE(4), (double[]){0, 0, 10, 10})},
                  {9}};
    as_the_reference(
        "layer_norm of (-3, -3, 5, 5) with weight (1, 2, 3, 4), bias (0, 0, 10, 10) and eps 9", o,
        1e-12);
    course_value(
        "layer_norm of (-3, -3, 5, 5) with weight (1, 2, 3, 4), bias (0, 0, 10, 10) and eps 9",
        apply(o), course_f64(context, CT_SHAPE(4), (double[]){-0.8, -1.6, 12.4, 13.2}), 1e-12);
}

static void shapes(ct_context *context) {
    const ct_shape all[] = {CT_SHAPE(3, 5), CT_SHAPE(17), CT_SHAPE(2, 3, 4), CT_SHAPE(4, 1),
                            CT_SHAPE(0, 5)};
    for (int i = 0; i < 5; i++)
        as_the_reference("layer_norm of each row", random_operands(context, all[i]), 1e-12);
    operands same = random_operands(context, CT_SHAPE(2, 3));
    same.in[0] = course_f64(context, CT_SHAPE(2, 3), (double[]){7, 7, 7, 0, 0, 0});
    as_the_reference("layer_norm of a row of equal numbers", same, 1e-12);
    /* each row beside rows of quite other sizes */
    operands other = random_operands(context, CT_SHAPE(3, 4));
    ct_tensor *size = course_f64(context, CT_SHAPE(3, 1), (double[]){1e3, 1, -1e-2});
    other.in[0] = ref_mul(other.in[0], size);
    as_the_reference("layer_norm of rows that differ in size", other, 1e-11);
}

/* Moving a row does not change its norm. Each number here is exact in f64; its square is not. */
static void far_from_zero(ct_context *context) {
    operands o = random_operands(context, CT_SHAPE(2, 4));
    const double near[] = {1, 2, 4, 8, 3, 1, 4, 1}, far = 1073741824; /* 2^30 */
    double x[8];
    for (int i = 0; i < 8; i++) x[i] = near[i] + far;
    o.in[0] = course_f64(context, CT_SHAPE(2, 4), near);
    ct_tensor *expected = ref_layer_norm(o.in[0], o.in[1], o.in[2], o.attrs.eps);
    as_the_reference("layer_norm of (1, 2, 4, 8) and (3, 1, 4, 1)", o, 1e-12);
    course_hint("the same rows near 0 are right: far from 0 nothing is left of mean(x^2) - mean^2");
    o.in[0] = course_f64(context, CT_SHAPE(2, 4), x);
    course_value("layer_norm of (1, 2, 4, 8) and (3, 1, 4, 1), each plus 2^30", apply(o), expected,
                 1e-9);
}

/* The gradient of one input; the others are fixed. */
typedef struct {
    operands o;
    int which;
} one_input;

static ct_tensor *of_one_input(ct_tensor *const *in, int n, void *arg) {
    one_input f = *(const one_input *)arg;
    (void)n;
    f.o.in[f.which] = in[0];
    return apply(f.o);
}

static ct_tensor *of_one_input_by_reference(ct_tensor *const *in, int n, void *arg) {
    one_input f = *(const one_input *)arg;
    (void)n;
    f.o.in[f.which] = in[0];
    return course_as_yours(&function, f.o.in, 3, &f.o.attrs);
}
static ct_tensor *of_all_by_reference(ct_tensor *const *in, int n, void *arg) {
    return course_as_yours(&function, in, n, arg);
}
static void large_gradient(ct_context *context, int which, const char *what) {
    one_input f = {random_operands(context, CT_SHAPE(2, 20000)), which};
    course_gradient_as(what, of_one_input, of_one_input_by_reference, &f, &f.o.in[which], 1, 1e-9);
}

/* A result that does not depend on an input has the gradient 0, which is right and worth
 * nothing. */
static void must_depend(ct_context *context, one_input f, const char *what) {
    ct_tensor *y = apply(f.o);
    f.o.in[f.which] = ref_add_scalar(f.o.in[f.which], 1);
    ct_tensor *moved = ref_max(ref_abs(ref_sub(apply(f.o), y)), CT_ALL, false);
    if (!moved) course_fail("%s", ct_error_message(context));
    if (ct_item(moved) == 0)
        course_fail("forward gives the same for every %s: its gradient can wait", what);
}

/* (x - mean) / sqrt(var + eps), or without the division, or without both */
enum { WHOLE, OFF_MEAN, RAW };
static ct_tensor *z_of(ct_tensor *x, const void *attrs, int kind) {
    const ct_shape row = CT_DIMS(-1);
    ct_tensor *off = ref_sub(x, ref_mean(x, row, true)),
              *var = ref_mean(ref_mul(off, off), row, true);
    const double eps = ((const layer_norm_attrs *)attrs)->eps;
    return kind == RAW        ? x
           : kind == OFF_MEAN ? off
                              : ref_div(off, ref_sqrt(ref_add_scalar(var, eps)));
}
static ct_tensor *over_rows(ct_tensor *x) {
    return ref_sum(ct_reshape(x, CT_SHAPE(-1, ct_dim(x, -1))), CT_DIMS(0), false);
}
static ct_tensor *x_for_z(ct_tensor *const *in, ct_tensor *g, const void *attrs) {
    return over_rows(ref_mul(g, z_of(in[0], attrs, RAW)));
}
static ct_tensor *off_mean_for_z(ct_tensor *const *in, ct_tensor *g, const void *attrs) {
    return over_rows(ref_mul(g, z_of(in[0], attrs, OFF_MEAN)));
}
static ct_tensor *weight_too_many(ct_tensor *const *in, ct_tensor *g, const void *attrs) {
    return over_rows(ref_mul(ref_mul(g, in[1]), z_of(in[0], attrs, WHOLE)));
}
static ct_tensor *no_z(ct_tensor *const *in, ct_tensor *g, const void *attrs) {
    return (void)in, (void)attrs, over_rows(g);
}
static ct_tensor *weight_in_bias(ct_tensor *const *in, ct_tensor *g, const void *attrs) {
    return (void)attrs, over_rows(ref_mul(g, in[1]));
}
/* (h - mean(h) - z mean(h z)) / sqrt(var + eps), with one part left out or wrong */
enum {
    DX_NO_MEAN,
    DX_NO_PRODUCT,
    DX_NO_BOTH,
    DX_NO_WEIGHT,
    DX_NO_ROOT,
    DX_BESSEL,
    DX_ONE_LESS,
    DX_LAST_H,
    DX_LAST_HZ,
    DX_LAST_BOTH
};
/* The mean of h over the row, of which it may be the last number alone that is in the sum. */
static ct_tensor *mean_in_dx(ct_tensor *h, bool last, double less) {
    const double size = (double)ct_dim(h, -1);
    if (last) h = ct_narrow(h, -1, ct_dim(h, -1) - 1, 1);
    return ref_scale(ref_sum(h, CT_DIMS(-1), true), less / size);
}
static ct_tensor *dx_without(ct_tensor *const *in, ct_tensor *g, const void *attrs, int part) {
    const double size = (double)ct_dim(in[0], -1), less = size / (size - 1),
                 of_mean = part == DX_ONE_LESS ? less : 1,
                 of_product = part == DX_ONE_LESS || part == DX_BESSEL ? less : 1;
    ct_tensor *z = z_of(in[0], attrs, WHOLE), *h = part == DX_NO_WEIGHT ? g : ref_mul(g, in[1]),
              *dx = h, *inverse = ref_div(z, z_of(in[0], attrs, OFF_MEAN));
    if (part != DX_NO_MEAN && part != DX_NO_BOTH)
        dx = ref_sub(dx, mean_in_dx(h, part == DX_LAST_H || part == DX_LAST_BOTH, of_mean));
    if (part != DX_NO_PRODUCT && part != DX_NO_BOTH) {
        const bool last = part == DX_LAST_HZ || part == DX_LAST_BOTH;
        dx = ref_sub(dx, ref_mul(z, mean_in_dx(ref_mul(h, z), last, of_product)));
    }
    return part == DX_NO_ROOT ? dx : ref_mul(dx, inverse);
}
#define WITHOUT(name, part)                                                                        \
    static ct_tensor *name(ct_tensor *const *in, ct_tensor *g, const void *attrs) {                \
        return dx_without(in, g, attrs, part);                                                     \
    }
WITHOUT(no_mean, DX_NO_MEAN)
WITHOUT(no_product, DX_NO_PRODUCT)
WITHOUT(no_both, DX_NO_BOTH)
WITHOUT(no_weight, DX_NO_WEIGHT)
WITHOUT(no_root, DX_NO_ROOT)
WITHOUT(bessel, DX_BESSEL)
WITHOUT(one_less, DX_ONE_LESS)
WITHOUT(last_h, DX_LAST_H)
WITHOUT(last_hz, DX_LAST_HZ)
WITHOUT(last_both, DX_LAST_BOTH)

static const course_wrong_gradient known[] = {
    {"in dw stands x for z: dw is the sum of g z over the rows", 1, x_for_z},
    {"in dw stands x - mean for z: 1 / sqrt(var + eps) is missing", 1, off_mean_for_z},
    {"dw has the factor weight, which only h = g weight of dx has", 1, weight_too_many},
    {"dw lacks the factor z: this is the gradient of the bias", 1, no_z},
    {"db has the factor weight, which only h = g weight of dx has", 2, weight_in_bias},
    {"dx lacks - mean(h): the mean of x depends on every x", 0, no_mean},
    {"dx lacks - z mean(h z): the variance depends on every x", 0, no_product},
    {"dx has neither - mean(h) nor - z mean(h z): mean and variance depend on every x", 0, no_both},
    {"dx has g for h = g weight", 0, no_weight},
    {"dx lacks the factor 1 / sqrt(var + eps)", 0, no_root},
    {"in dx the sum of h z is divided by D - 1, not D", 0, bessel},
    {"in dx both sums are divided by D - 1, not D", 0, one_less},
    {"in dx the sum of h is the last h alone: = or =+ in place of +=", 0, last_h},
    {"in dx the sum of h z is the last h z alone: = or =+ in place of +=", 0, last_hz},
    {"in dx both sums are their last terms alone: = or =+ in place of +=", 0, last_both},
};
/* Names the mistake in the gradient of this input. */
static void name_gradient(const operands *o, int which) {
    int first = 0, count = 0;
    while (known[first].input != which) first++;
    while (first + count < (int)(sizeof known / sizeof *known) &&
           known[first + count].input == which)
        count++;
    course_name_gradient(&layer_norm, &o->attrs, o->in, 3, known + first, count);
}

static void gradient(ct_context *context, int which, const char *what) {
    const ct_shape all[] = {CT_SHAPE(3, 5), CT_SHAPE(2, 1, 4)};
    for (int i = 0; i < 2; i++) {
        one_input f = {random_operands(context, all[i]), which};
        must_depend(context, f, what);
        first_as_the_reference(f.o);
        name_gradient(&f.o, which);
        course_own_forward(of_one_input_by_reference, &f);
        course_gradient_of(what, of_one_input, &f, &f.o.in[which], 1, (ct_gradcheck_opts){0});
    }
    course_forgive(); /* a mistake of the forward costs the points of its own tests */
}
static void gradient_of_bias(ct_context *context) {
    gradient(context, 2, "bias");
    large_gradient(context, 2, "bias of rows of 20,000");
}
static void gradient_of_weight(ct_context *context) {
    gradient(context, 1, "weight");
    large_gradient(context, 1, "weight of rows of 20,000");
}

/* The gradient of x is worth something only if the function is the right one. */
static void gradient_of_x(ct_context *context) {
    const ct_shape all[] = {CT_SHAPE(3, 5), CT_SHAPE(2, 1, 4), CT_SHAPE(4, 1)};
    for (int i = 0; i < 3; i++) {
        first_as_the_reference(random_operands(context, all[i]));
        one_input f = {random_operands(context, all[i]), 0};
        if (i == 0) name_gradient(&f.o, 0);
        course_own_forward(of_one_input_by_reference, &f);
        course_gradient_of("x", of_one_input, &f, &f.o.in[0], 1, (ct_gradcheck_opts){0});
    }
    large_gradient(context, 0, "x of rows of 20,000");
}

/* Checks the three gradients of one backward, as in training: one must not change another. */
static void gradients_together(ct_context *context) {
    first_as_the_reference(random_operands(context, CT_SHAPE(3, 5)));
    operands o = random_operands(context, CT_SHAPE(3, 5));
    course_name_gradient(&layer_norm, &o.attrs, o.in, 3, known, sizeof known / sizeof *known);
    course_own_forward(of_all_by_reference, &o.attrs);
    course_gradient("x, weight and bias", &layer_norm, &o.attrs, o.in, 3, (ct_gradcheck_opts){0});
    large_gradient(context, 0, "x of rows of 20,000");
}

static void errors(ct_context *context) {
    operands right = random_operands(context, CT_SHAPE(3, 4)), o = right;
    if (!apply(right)) course_fail("shapes that fit: %s", ct_error_message(context));
    o.in[1] = course_randn(context, CT_SHAPE(3));
    course_refused("x (3, 4) and weight (3)", context, apply(o), CT_ERR_SHAPE, "layer_norm:");
    o = right, o.in[2] = course_randn(context, CT_SHAPE(4, 1));
    course_refused("x (3, 4) and bias (4, 1)", context, apply(o), CT_ERR_SHAPE, "layer_norm:");
    o = right, o.in[0] = course_randn(context, CT_SCALAR);
    course_refused("x a scalar", context, apply(o), CT_ERR_SHAPE, "layer_norm:");
}

const course_test course_tests[] = {
    {"by_hand", 1, by_hand},
    {"shapes", 1, shapes},
    {"far_from_zero", 1, far_from_zero},
    {"gradient_of_bias", 1, gradient_of_bias},
    {"gradient_of_weight", 1, gradient_of_weight},
    {"gradient_of_x", 3, gradient_of_x},
    {"gradients_together", 1, gradients_together},
    {"errors", 1, errors},
};
const int course_test_count = sizeof course_tests / sizeof *course_tests;
