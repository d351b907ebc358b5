/* Weights in int8 beside the same by plain loops in f64, with the mistakes that are often made.
 * Each function is given what comes before it by the judge, so that a mistake in the one costs
 * nothing in the other. */
#include "../course.h"
#include "exercise.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* scales */
    SIGNED_MAXIMUM,
    OVER_128,
    OVER_127_5,
    WHOLE_RANGE,
    ONE_A_ROW,
    ONE_OF_ALL,
    SHORT_BLOCK_LEFT_OUT,
    ACROSS_ROWS,
    INTO_NEXT_ROW,
    BLOCKS_ROUNDED_DOWN,
    ONE_FOR_ZEROS,
    NEVER_SMALL,
    INVERTED,
    /* rounding */
    TRUNCATED,
    AWAY_FROM_ZERO,
    HALF_UP,
    FLOORED,
    BY_INVERSE,
    DOWN_TO_128,
    WRAPPED,
    NOT_ZERO,
    /* which scale */
    FIRST_OF_ROW,
    LAST_OF_ROW,
    COUNTED_ACROSS_ROWS,
    BLOCK_BEFORE_ROW,
    WITHOUT_SCALE,
    /* products */
    WEIGHTS_IN_F32,
    SUM_IN_F32,
    SUM_OF_BLOCK_IN_F32,
    PRODUCT_IN_F32,
    RESULT_IN_F32,
    X_IN_INT8,
    /* the bound */
    NOT_HALVED,
    WITHOUT_ABS,
    ROOT_OF_SQUARES,
    LARGEST_OF_ROW,
    LARGEST_OF_X
};
static const course_mistake mistakes[] = {
    [SIGNED_MAXIMUM] = {"with the largest number of a block, and not the largest absolute value"},
    [OVER_128] = {"when the maximum is divided by 128, and not by 127"},
    [OVER_127_5] = {"when the maximum is divided by 127.5, and not by 127"},
    [WHOLE_RANGE] = {"when the range from the smallest to the largest is divided by 255"},
    [ONE_A_ROW] = {"when a row has one scale, and not each of its blocks"},
    [ONE_OF_ALL] = {"when the largest of all rows decides every scale"},
    [SHORT_BLOCK_LEFT_OUT] = {"when the last block of a row, which is shorter, has no scale"},
    [ACROSS_ROWS] = {"when blocks go on from one row into the next"},
    [INTO_NEXT_ROW] = {"when the last block of a row, which is shorter, goes on into the next row"},
    [BLOCKS_ROUNDED_DOWN] =
        {"when the blocks of a row are counted as columns / block, rounded down: "
         "a shorter last block is one, too"},
    [ONE_FOR_ZEROS] = {"when a block of zeros has the scale 1"},
    [NEVER_SMALL] = {"when a scale is at least 1e-8"},
    [INVERTED] = {"when 127 is divided by the maximum"},
    [TRUNCATED] = {"when numbers are cut to whole ones, and not rounded"},
    [AWAY_FROM_ZERO] = {"when halves are rounded away from zero, as round does, and not to even"},
    [HALF_UP] = {"when halves are rounded up, as floor(x + 0.5) does, and not to even"},
    [FLOORED] = {"when numbers are rounded down"},
    [BY_INVERSE] = {"when w is multiplied by 1 / scale in f32, which is rounded: divide"},
    [DOWN_TO_128] = {"when -128 is there, too: the range is -127 to 127"},
    [WRAPPED] = {"when numbers beyond 127 wrap around: they become 127 or -127"},
    [NOT_ZERO] = {"where the scale is 0 and q is not"},
    [FIRST_OF_ROW] = {"when the first scale of a row is taken for all of its blocks"},
    [LAST_OF_ROW] = {"when the last scale of a row is taken for all of its blocks"},
    [COUNTED_ACROSS_ROWS] = {"when (r * columns + c) / block is the number of a scale: each row "
                             "begins with a block of its own"},
    [BLOCK_BEFORE_ROW] = {"when scales are read block by block, and not row by row"},
    [WITHOUT_SCALE] = {"when scales are not multiplied with"},
    [WEIGHTS_IN_F32] = {"when q times the scale is rounded to f32 before it is multiplied with x"},
    [SUM_IN_F32] = {"when the sum is a float: it must be f64, and y is rounded once"},
    [SUM_OF_BLOCK_IN_F32] = {"when the sum of a block is a float: it must be f64"},
    [PRODUCT_IN_F32] = {"when each product is rounded to f32: sums and what they are of are f64"},
    [RESULT_IN_F32] = {"when y is rounded to f32"},
    [X_IN_INT8] = {"when x is cut to whole numbers"},
    [NOT_HALVED] = {"with the whole scale: rounding is off by half of it at most"},
    [WITHOUT_ABS] = {"with x and not |x|: errors of different signs do not cancel in the worst "
                     "case"},
    [ROOT_OF_SQUARES] = {"with the root of the sum of squares, which is no bound"},
    [LARGEST_OF_ROW] = {"when the largest scale of a row is taken for all of its blocks"},
    [LARGEST_OF_X] = {"when the largest |x| is taken for all"}};

/* ---- by plain loops ---- */

enum { MOST_ROWS = 8, MOST_COLUMNS = 96, MOST_N = 4, MOST_WEIGHTS = MOST_ROWS * MOST_COLUMNS };
typedef enum { SCALES, QUANTISED, DEQUANTISED, PRODUCT, PRODUCT_F32, BOUND } quantity;
/* Which function, and the block; rows and columns are those of its inputs. */
typedef struct {
    quantity of;
    int64_t block;
} question;

static int64_t blocks_of(const layout *l) { return (l->columns + l->block - 1) / l->block; }

static double scale_at(const layout *l, const double *scale, int64_t r, int64_t c, course_set m) {
    const int64_t blocks = blocks_of(l);
    int64_t at = r * blocks + c / l->block;
    if (course_has(m, FIRST_OF_ROW)) at = r * blocks;
    if (course_has(m, LAST_OF_ROW)) at = (r + 1) * blocks - 1;
    if (course_has(m, COUNTED_ACROSS_ROWS)) at = (r * l->columns + c) / l->block;
    if (course_has(m, BLOCKS_ROUNDED_DOWN)) at = r * (l->columns / l->block) + c / l->block;
    if (course_has(m, BLOCK_BEFORE_ROW)) at = c / l->block * l->rows + r;
    if (!course_has(m, LARGEST_OF_ROW)) return course_has(m, WITHOUT_SCALE) ? 1 : scale[at];
    double most = 0;
    for (int64_t b = 0; b < blocks; b++) most = fmax(most, scale[r * blocks + b]);
    return most;
}

/* The scale of what lies from `first` to `end` in an array. */
static float scale_of(const double *w, int64_t first, int64_t end, course_set m) {
    float most = 0, largest = -INFINITY, least = INFINITY;
    for (int64_t i = first; i < end; i++) {
        const float x = (float)w[i];
        most = fmaxf(most, fabsf(x)), largest = fmaxf(largest, x), least = fminf(least, x);
    }
    float scale = most / 127;
    if (course_has(m, SIGNED_MAXIMUM)) scale = largest / 127;
    if (course_has(m, OVER_128)) scale = most / 128;
    if (course_has(m, OVER_127_5)) scale = most / 127.5F;
    if (course_has(m, WHOLE_RANGE)) scale = (largest - least) / 255;
    if (course_has(m, INVERTED) && most > 0) scale = 127 / most;
    if (course_has(m, ONE_FOR_ZEROS) && most == 0) scale = 1;
    if (course_has(m, NEVER_SMALL)) scale = fmaxf(scale, 1e-8F);
    return scale;
}

static void scales_right(const layout *l, const double *w, course_set m, double *scale) {
    const int64_t blocks = blocks_of(l), all = l->rows * l->columns,
                  written = course_has(m, BLOCKS_ROUNDED_DOWN) ? l->columns / l->block : blocks;
    /* a scale that the mistake does not write stays NaN */
    for (int64_t i = 0; i < l->rows * blocks; i++) scale[i] = NAN;
    for (int64_t r = 0; r < l->rows; r++)
        for (int64_t b = 0; b < written; b++) {
            int64_t first = r * l->columns + b * l->block, end = first + l->block;
            if (end > (r + 1) * l->columns) end = (r + 1) * l->columns;
            const bool is_short = end - first < l->block && b > 0;
            if (course_has(m, ONE_A_ROW)) first = r * l->columns, end = (r + 1) * l->columns;
            if (course_has(m, ONE_OF_ALL)) first = 0, end = all;
            if (course_has(m, ACROSS_ROWS)) first = (r * blocks + b) * l->block;
            if (course_has(m, ACROSS_ROWS) || course_has(m, INTO_NEXT_ROW)) end = first + l->block;
            if (end > all) end = all;
            scale[r * written + b] = scale_of(w, first, end, m);
            if (course_has(m, SHORT_BLOCK_LEFT_OUT) && is_short) scale[r * written + b] = 0;
        }
}

static double rounded(double w, double scale, course_set m) {
    if (scale == 0 && !course_has(m, NOT_ZERO)) return 0;
    if (scale == 0) return w > 0 ? 127 : w < 0 ? -127 : 0;
    double x = w / scale, q = rint(x);
    if (course_has(m, BY_INVERSE)) q = rint((float)w * (1 / (float)scale));
    if (course_has(m, TRUNCATED)) q = trunc(x);
    if (course_has(m, AWAY_FROM_ZERO)) q = round(x);
    if (course_has(m, HALF_UP)) q = floor(x + 0.5);
    if (course_has(m, FLOORED)) q = floor(x);
    if (course_has(m, WRAPPED) && fabs(q) < 1e15) {
        const double left = fmod(q, 256);
        return left > 127 ? left - 256 : left < -128 ? left + 256 : left;
    }
    return fmax(course_has(m, DOWN_TO_128) ? -128 : -127, fmin(127, q));
}

static double product_right(const layout *l, const double *q, const double *scale, int64_t r,
                            const double *x, course_set m) {
    double sum = 0;
    float in_f32 = 0, of_block = 0;
    for (int64_t c = 0; c < l->columns; c++) {
        const double s = scale_at(l, scale, r, c, m),
                     here = course_has(m, X_IN_INT8) ? trunc(x[c]) : x[c],
                     units = q[r * l->columns + c],
                     term = here * (course_has(m, WEIGHTS_IN_F32) ? (float)(units * s) : units * s);
        sum += course_has(m, PRODUCT_IN_F32) ? (float)term : term;
        in_f32 += (float)here * ((float)units * (float)s);
        of_block += (float)here * (float)units;
        if (c + 1 < l->columns && (c + 1) % l->block) continue;
        if (course_has(m, SUM_OF_BLOCK_IN_F32)) sum = (c < l->block ? 0 : sum) + of_block * s;
        if (course_has(m, SUM_OF_BLOCK_IN_F32)) of_block = 0;
    }
    return course_has(m, SUM_IN_F32) ? in_f32 : sum;
}

static double bound_right(const layout *l, const double *scale, int64_t r, const double *x,
                          course_set m) {
    double sum = 0, squares = 0, most = 0;
    for (int64_t c = 0; c < l->columns; c++) most = fmax(most, fabs(x[c]));
    for (int64_t c = 0; c < l->columns; c++) {
        const double here = course_has(m, WITHOUT_ABS)    ? x[c]
                            : course_has(m, LARGEST_OF_X) ? most
                                                          : fabs(x[c]),
                     term =
                         here * scale_at(l, scale, r, c, m) / (course_has(m, NOT_HALVED) ? 1 : 2);
        sum += term, squares += term * term;
    }
    return course_has(m, ROOT_OF_SQUARES) ? sqrt(squares) : sum;
}

/* ---- what is compared ---- */

/* Inputs of each function: SCALES w; QUANTISED w, scale; DEQUANTISED q, scale; PRODUCT x, q, scale;
 * BOUND x, scale. All are f64 but q, which is i64. */
static ct_tensor *scale_in(ct_tensor *const *in, quantity of) {
    return of == SCALES ? NULL : of == PRODUCT || of == PRODUCT_F32 ? in[2] : in[1];
}
static bool take_layout(ct_tensor *const *in, const question *t, layout *l) {
    ct_tensor *scale = scale_in(in, t->of);
    const bool product = t->of == PRODUCT || t->of == PRODUCT_F32;
    *l = (layout){.columns = ct_dim(in[0], -1), .block = t->block};
    l->rows = t->of == BOUND ? ct_dim(scale, 0) : ct_dim(product ? in[1] : in[0], 0);
    return l->rows <= MOST_ROWS && l->columns <= MOST_COLUMNS &&
           (!scale || (ct_dim(scale, 0) == l->rows && ct_dim(scale, 1) == blocks_of(l)));
}
static ct_shape shape_of_result(ct_tensor *const *in, const question *t, const layout *l) {
    if (t->of == SCALES) return CT_SHAPE(l->rows, blocks_of(l));
    if (t->of < PRODUCT) return CT_SHAPE(l->rows, l->columns);
    return CT_SHAPE(ct_dim(in[0], 0), l->rows);
}

static ct_tensor *by_judge(ct_tensor *const *in, int n, void *arg, course_set m) {
    const question *t = arg;
    layout l;
    double out[MOST_WEIGHTS], q[MOST_WEIGHTS];
    (void)n;
    if (!take_layout(in, t, &l)) return NULL;
    ct_tensor *whole = t->of == DEQUANTISED                ? in[0]
                       : t->of < PRODUCT || t->of == BOUND ? NULL
                                                           : in[1];
    for (int64_t i = 0; whole && i < ct_numel(whole); i++) q[i] = (double)ct_data_i64(whole)[i];
    ct_tensor *of_scale = scale_in(in, t->of);
    const double *scale = of_scale ? ct_data_f64(of_scale) : NULL,
                 *x = t->of == DEQUANTISED ? NULL : ct_data_f64(in[0]);
    if (t->of == SCALES) scales_right(&l, x, m, out);
    for (int64_t r = 0; r < l.rows && t->of < PRODUCT && t->of != SCALES; r++)
        for (int64_t c = 0; c < l.columns; c++) {
            const int64_t i = r * l.columns + c;
            const double s = (float)scale_at(&l, scale, r, c, m);
            out[i] = t->of == QUANTISED ? rounded((float)x[i], s, m) : (double)(float)(q[i] * s);
        }
    for (int64_t i = 0; t->of >= PRODUCT && i < ct_dim(in[0], 0); i++)
        for (int64_t r = 0; r < l.rows; r++) {
            double row[MOST_COLUMNS], scales[MOST_WEIGHTS];
            for (int64_t c = 0; c < l.columns; c++) {
                row[c] = x[i * l.columns + c];
                if (t->of == PRODUCT_F32) row[c] = (float)row[c];
            }
            for (int64_t b = 0; b < l.rows * blocks_of(&l); b++) scales[b] = (float)scale[b];
            const double y = t->of == BOUND ? bound_right(&l, scales, r, row, m)
                                            : product_right(&l, q, scales, r, row, m);
            const bool in_f32 = t->of == PRODUCT_F32 || course_has(m, RESULT_IN_F32);
            out[i * l.rows + r] = in_f32 ? (float)y : y;
        }
    return course_f64(ct_context_of(in[0]), shape_of_result(in, t, &l), out);
}

static ct_tensor *from_floats(ct_context *context, ct_shape shape, const float *x, int64_t n) {
    double values[MOST_WEIGHTS];
    for (int64_t i = 0; i < n; i++) values[i] = x[i];
    return course_f64(context, shape, values);
}
static void to_floats(ct_tensor *x, float *out) {
    for (int64_t i = 0; x && i < ct_numel(x); i++) out[i] = (float)ct_data_f64(x)[i];
}

/* Results are full of NaN before, or of -128, which no q is: what is left of it was not written. */
static const int8_t unwritten_q = -128;
static bool is_unwritten(double x) { return isnan(x) || x == unwritten_q; }
static void expect_written(const char *function, ct_tensor *got, quantity of) {
    const double *x = ct_data_f64(got);
    int64_t unwritten = 0;
    for (int64_t i = 0; i < ct_numel(got); i++) unwritten += is_unwritten(x[i]);
    if (unwritten == ct_numel(got))
        course_fail("%s writes nothing: is it not written yet?", function);
    if (unwritten && (of == SCALES || of == DEQUANTISED))
        course_hint("%s leaves numbers unwritten, or writes NaN", function);
}

static ct_tensor *by_you(ct_tensor *const *in, int n, void *arg) {
    static const char *const functions[] = {"find_scales", "quantise",     "dequantise",
                                            "multiply",    "multiply_f32", "bound_error"};
    static float w[MOST_WEIGHTS], scale[MOST_WEIGHTS], out[MOST_WEIGHTS];
    static double wide[MOST_WEIGHTS];
    static int8_t q[MOST_WEIGHTS];
    const question *t = arg;
    ct_context *context = ct_context_of(in[0]);
    layout l;
    (void)n;
    if (!take_layout(in, t, &l)) return NULL;
    const ct_shape shape = shape_of_result(in, t, &l);
    const int64_t results = shape.dim[0] * shape.dim[1], rows = ct_dim(in[0], 0);
    memset(out, 0xff, sizeof out), memset(wide, 0xff, sizeof wide);
    memset(q, unwritten_q, sizeof q);
    to_floats(scale_in(in, t->of), scale);
    ct_tensor *whole = t->of == DEQUANTISED                ? in[0]
                       : t->of < PRODUCT || t->of == BOUND ? NULL
                                                           : in[1];
    for (int64_t i = 0; whole && i < ct_numel(whole); i++) q[i] = (int8_t)ct_data_i64(whole)[i];
    if (t->of != DEQUANTISED) to_floats(in[0], w);
    switch (t->of) {
    case SCALES: find_scales(&l, w, out); break;
    case QUANTISED: quantise(&l, w, scale, q); break;
    case DEQUANTISED: dequantise(&l, q, scale, out); break;
    case PRODUCT: multiply(&l, q, scale, rows, ct_data_f64(in[0]), wide); break;
    case PRODUCT_F32: multiply_f32(&l, q, scale, rows, w, out); break;
    default: bound_error(&l, scale, rows, ct_data_f64(in[0]), wide); break;
    }
    for (int64_t i = 0; i < results && t->of == QUANTISED; i++) out[i] = q[i];
    ct_tensor *got = t->of == PRODUCT || t->of == BOUND ? course_f64(context, shape, wide)
                                                        : from_floats(context, shape, out, results);
    expect_written(functions[t->of], got, t->of);
    return got;
}

/* The sums of a float are off by no more than its rounding. */
static void explain(ct_tensor *const *in, int n, void *arg, ct_tensor *got, ct_tensor *right,
                    char *said, size_t size) {
    const question *t = arg;
    const double *yours = ct_data_f64(got), *other = ct_data_f64(right);
    (void)n, (void)size;
    *said = 0;
    if (t->of != PRODUCT && t->of != PRODUCT_F32) return;
    double most = 0;
    for (int64_t i = 0; i < ct_numel(in[0]); i++) most = fmax(most, fabs(ct_data_f64(in[0])[i]));
    for (int64_t i = 0; i < ct_numel(got); i++)
        if (!(fabs(yours[i] - other[i]) <= 1e-4 * most)) return;
    course_hint("what is wrong is off by as little as sums of float make: they must be f64");
}

static const char *const scale_names[] = {"w: row, column", "the scales: row, block"};
static const char *const quantise_names[] = {"w: row, column", "the scales: row, block",
                                             "q: row, column"};
static const char *const dequantise_names[] = {"q: row, column", "the scales: row, block",
                                               "w: row, column"};
static const char *const product_names[] = {"x: row, column", "q: row, column",
                                            "the scales: row, block", "y: row of x, row of W"};
static const char *const bound_names[] = {"x: row, column", "the scales: row, block",
                                          "the bound: row of x, row of W"};
static const char *const *const all_names[] = {scale_names,   quantise_names, dequantise_names,
                                               product_names, product_names,  bound_names};
/* A float that was rounded once may be its neighbour if the sum was taken in another order. */
static const double tolerances[] = {0, 0, 0, 1e-11, 1.3e-7, 1e-11};

static void compare_at(const char *what, quantity of, int64_t block, ct_tensor *const *in) {
    const course_function f =
        COURSE_FUNCTION(by_you, by_judge, mistakes, all_names[of], .explain = explain);
    question t = {of, block};
    const int n = of == SCALES ? 1 : of == PRODUCT || of == PRODUCT_F32 ? 3 : 2;
    course_forward(what, &f, &t, in, n, tolerances[of]);
}

/* ---- weights ---- */

typedef struct {
    layout l;
    ct_tensor *w, *scale, *q; /* of w, by the judge */
} weight;

static double draw(ct_context *context, double low, double high) {
    return low + (high - low) * ct_item(ct_rand(context, CT_F64, CT_SCALAR));
}
static int64_t draw_size(ct_context *context, int64_t low, int64_t high) {
    return low + ct_random_below(context, high - low + 1);
}

static weight new_weight(ct_context *context, layout l, const double *values) {
    weight w = {.l = l};
    int64_t whole[MOST_WEIGHTS];
    w.w = course_f64(context, CT_SHAPE(l.rows, l.columns), values);
    w.scale = by_judge(&w.w, 1, &(question){SCALES, l.block}, 0);
    ct_tensor *q = by_judge((ct_tensor *[]){w.w, w.scale}, 2, &(question){QUANTISED, l.block}, 0);
    for (int64_t i = 0; i < ct_numel(q); i++) whole[i] = (int64_t)ct_data_f64(q)[i];
    w.q = ct_from_i64(context, CT_SHAPE(l.rows, l.columns), whole);
    return w;
}

/* Blocks of very different sizes: each is normal numbers times a power of ten. A block's largest
 * absolute value may have either sign. */
static weight draw_weight(ct_context *context, layout l) {
    double values[MOST_WEIGHTS], factor = 1;
    if (!ct_to_f64(course_randn(context, CT_SHAPE(l.rows * l.columns)), values, l.rows * l.columns))
        course_fail("%s", ct_error_message(context));
    for (int64_t r = 0; r < l.rows; r++)
        for (int64_t c = 0; c < l.columns; c++) {
            if (c % l.block == 0) factor = pow(10, draw(context, -1.5, 1.5));
            values[r * l.columns + c] = (float)(values[r * l.columns + c] * factor);
        }
    return new_weight(context, l, values);
}

/* Rows of one block; and rows of several, which fill them or do not. Only the test of blocks has
 * the latter, so that a mistake in them costs nothing else. */
static layout draw_rows(ct_context *context) {
    layout l = {.rows = draw_size(context, 3, MOST_ROWS), .columns = draw_size(context, 20, 60)};
    l.block = l.columns;
    return l;
}
static layout draw_blocks(ct_context *context, bool fill) {
    layout l = {.rows = draw_size(context, 3, MOST_ROWS), .block = draw_size(context, 3, 9)};
    l.columns = l.block * draw_size(context, 2, 6);
    if (!fill) l.columns += draw_size(context, 1, l.block - 1);
    return l;
}

/* ---- tests ---- */

/* The example of README.md, times a power of two. */
static void by_hand(ct_context *context) {
    static const double w[] = {254, 3, -127, 2.5, 0, 0.5, -0.5, 635, 7.5, -254},
                        x[] = {1, 10, -1, 2, 3};
    double values[10];
    const double factor = ldexp(1, (int)draw_size(context, -3, 3));
    for (int i = 0; i < 10; i++) values[i] = w[i] * factor;
    const weight e = new_weight(context, (layout){2, 5, 2}, values);
    ct_tensor *in = course_f64(context, CT_SHAPE(1, 5), x);
    compare_at("the scales of the example", SCALES, 2, &e.w);
    compare_at("q of the example", QUANTISED, 2, (ct_tensor *[]){e.w, e.scale});
    compare_at("what q of the example stands for", DEQUANTISED, 2, (ct_tensor *[]){e.q, e.scale});
    compare_at("y of the example", PRODUCT, 2, (ct_tensor *[]){in, e.q, e.scale});
    compare_at("y of the example in f32", PRODUCT_F32, 2, (ct_tensor *[]){in, e.q, e.scale});
    compare_at("the bound of the example", BOUND, 2, (ct_tensor *[]){in, e.scale});
}

static void scales(ct_context *context) {
    for (int i = 0; i < 4; i++) {
        const weight w = draw_weight(context, draw_rows(context));
        compare_at("scales", SCALES, w.l.block, &w.w);
    }
}

/* Scales that divide (k + 1/2) scale exactly: a whole number, below 2^10, times a power of two.
 * Halves are rounded to even then, and no quotient is rounded itself. */
static void rounding(ct_context *context) {
    for (int i = 0; i < 6; i++) {
        const layout l = draw_rows(context);
        double values[MOST_WEIGHTS], scale[MOST_WEIGHTS];
        for (int64_t b = 0; b < l.rows * blocks_of(&l); b++) {
            const int power = (int)draw_size(context, -20, 4);
            scale[b] = ldexp((double)(2 * draw_size(context, 1, 500) + 1), power);
        }
        for (int64_t j = 0; j < l.rows * l.columns; j++) {
            const double s = scale[j / l.columns * blocks_of(&l) + j % l.columns / l.block],
                         half = (double)draw_size(context, -126, 125) + 0.5;
            values[j] = i < 3 ? s * half : (float)(s * draw(context, -127.4, 127.4));
        }
        compare_at(i < 3 ? "q of halves" : "q", QUANTISED, l.block,
                   (ct_tensor *[]){course_f64(context, CT_SHAPE(l.rows, l.columns), values),
                                   course_f64(context, CT_SHAPE(l.rows, blocks_of(&l)), scale)});
    }
}

/* Rows of zeros, and rows whose maximum is so small that the scale is 0. */
static void zeros(ct_context *context) {
    const layout l = draw_rows(context);
    double values[MOST_WEIGHTS];
    for (int64_t i = 0; i < l.rows * l.columns; i++) {
        const bool small = i / l.columns % 2;
        values[i] = small ? (double)draw_size(context, -60, 60) * 0x1p-149 : 0;
    }
    const weight w = new_weight(context, l, values);
    ct_tensor *x = course_randn(context, CT_SHAPE(2, l.columns));
    compare_at("scales of rows, some of zeros, some of numbers below 1e-43", SCALES, l.block, &w.w);
    compare_at("q of rows, some of zeros, some of numbers below 1e-43", QUANTISED, l.block,
               (ct_tensor *[]){w.w, w.scale});
    compare_at("what q stands for, where scales are 0", DEQUANTISED, l.block,
               (ct_tensor *[]){w.q, w.scale});
    compare_at("y, where scales are 0", PRODUCT, l.block, (ct_tensor *[]){x, w.q, w.scale});
}

/* Numbers up to 1e38 and down to 1e-45; scales that are too small for w. */
static void extremes(ct_context *context) {
    for (int i = 0; i < 3; i++) {
        const layout l = draw_rows(context);
        double values[MOST_WEIGHTS], scale[MOST_WEIGHTS];
        for (int64_t j = 0; j < l.rows * l.columns; j++)
            values[j] = i == 0   ? (float)draw(context, -1e38, 1e38)
                        : i == 1 ? (double)draw_size(context, -400, 400) * 0x1p-149
                                 : (float)draw(context, -200, 200);
        for (int64_t b = 0; b < l.rows * blocks_of(&l); b++)
            scale[b] = i == 0 ? 0x1p-140 : i == 1 ? 0x1p-149 : 1;
        const weight w = new_weight(context, l, values);
        ct_tensor *small = course_f64(context, CT_SHAPE(l.rows, blocks_of(&l)), scale);
        static const char *const sizes[] = {"of numbers up to 1e38", "of numbers below 1e-42",
                                            "of numbers up to 200"};
        char what[96];
        snprintf(what, sizeof what, "scales %s", sizes[i]);
        compare_at(what, SCALES, l.block, &w.w);
        snprintf(what, sizeof what, "q %s", sizes[i]);
        compare_at(what, QUANTISED, l.block, (ct_tensor *[]){w.w, w.scale});
        snprintf(what, sizeof what, "what q stands for, %s", sizes[i]);
        compare_at(what, DEQUANTISED, l.block, (ct_tensor *[]){w.q, w.scale});
        snprintf(what, sizeof what, "q %s, whose scales come from elsewhere", sizes[i]);
        compare_at(what, QUANTISED, l.block, (ct_tensor *[]){w.w, small});
    }
}

/* Blocks that do not fill a row, of one column, and larger than a row. */
static void blocks(ct_context *context) {
    for (int i = 0; i < 5; i++) {
        layout l = draw_blocks(context, i == 0);
        if (i == 3) l.block = 1;
        if (i == 4) l.block = l.columns + draw_size(context, 1, 5);
        const weight w = draw_weight(context, l);
        ct_tensor *x = course_randn(context, CT_SHAPE(2, l.columns));
        char what[96];
        snprintf(what, sizeof what, "%lld columns in blocks of %lld", (long long)l.columns,
                 (long long)l.block);
        compare_at(what, SCALES, l.block, &w.w);
        compare_at(what, QUANTISED, l.block, (ct_tensor *[]){w.w, w.scale});
        compare_at(what, DEQUANTISED, l.block, (ct_tensor *[]){w.q, w.scale});
        compare_at(what, PRODUCT, l.block, (ct_tensor *[]){x, w.q, w.scale});
        compare_at(what, PRODUCT_F32, l.block, (ct_tensor *[]){x, w.q, w.scale});
        compare_at(what, BOUND, l.block, (ct_tensor *[]){x, w.scale});
    }
}

static void dequantising(ct_context *context) {
    for (int i = 0; i < 3; i++) {
        const weight w = draw_weight(context, draw_rows(context));
        compare_at("what q stands for", DEQUANTISED, w.l.block, (ct_tensor *[]){w.q, w.scale});
    }
}

static void products(ct_context *context) {
    for (int i = 0; i < 3; i++) {
        const weight w = draw_weight(context, draw_rows(context));
        ct_tensor *x = course_randn(context, CT_SHAPE(draw_size(context, 1, MOST_N), w.l.columns));
        compare_at("y", PRODUCT, w.l.block, (ct_tensor *[]){x, w.q, w.scale});
    }
}

/* x has large numbers that almost cancel: a float has too few digits for the sum. */
static void products_f32(ct_context *context) {
    for (int i = 0; i < 3; i++) {
        const layout l = {draw_size(context, 3, MOST_ROWS), 80, 80};
        double values[MOST_WEIGHTS], x[MOST_N * MOST_COLUMNS];
        for (int64_t j = 0; j < l.rows * l.columns; j++) values[j] = (float)draw(context, -1, 1);
        for (int64_t j = 0; i > 0 && j + 1 < l.rows * l.columns; j += 2) values[j + 1] = values[j];
        const weight w = new_weight(context, l, values);
        for (int64_t j = 0; j < MOST_N * l.columns; j++) {
            x[j] = (float)draw(context, -1, 1);
            if (i > 0 && j % 2) x[j] = (float)(x[j] / 8 - x[j - 1]);
            else if (i > 0) x[j] = (float)(x[j] * 3e4);
        }
        compare_at(
            i ? "y in f32, where large numbers cancel" : "y in f32", PRODUCT_F32, l.block,
            (ct_tensor *[]){course_f64(context, CT_SHAPE(MOST_N, l.columns), x), w.q, w.scale});
    }
}

static void bound(ct_context *context) {
    for (int i = 0; i < 3; i++) {
        const weight w = draw_weight(context, draw_rows(context));
        ct_tensor *x = course_randn(context, CT_SHAPE(draw_size(context, 1, MOST_N), w.l.columns));
        compare_at("the bound", BOUND, w.l.block, (ct_tensor *[]){x, w.scale});
    }
}

const course_test course_tests[] = {
    {"by_hand", 1, by_hand},           {"scales", 1, scales},
    {"rounding", 1, rounding},         {"zeros", 1, zeros},
    {"extremes", 1, extremes},         {"blocks", 1, blocks},
    {"dequantising", 1, dequantising}, {"products", 1, products},
    {"products_f32", 1, products_f32}, {"bound", 1, bound},
};
const int course_test_count = sizeof course_tests / sizeof *course_tests;
