/* Tests rotary against plain loops and against numbers made by hand, and tests what it is
 * for: scores depend only on distances. */
#include "../course.h"
#include "exercise.h"

#include <math.h>

static ct_tensor *yours(ct_tensor *x, rotary_attrs attrs) {
    return ct_apply(&rotary, &x, 1, &attrs);
}

static ct_tensor *by_you(ct_tensor *const *in, int n, void *attrs) {
    (void)n;
    return yours(in[0], *(const rotary_attrs *)attrs);
}

enum {
    TURNED_BACK,
    NOT_TURNED,
    FROM_ONE,
    OFFSET_IGNORED,
    OFFSET_SUBTRACTED,
    POSITIONS_GO_ON,
    SAME_POSITION,
    EXPONENT_POSITIVE,
    EXPONENT_HALVED,
    EXPONENT_DOUBLED,
    EXPONENT_ZERO,
    EXPONENT_NEXT,
    EXPONENT_COLUMN,
    BASE_FIXED,
    ALWAYS_HALVES,
    ALWAYS_INTERLEAVED,
    MIRRORED,
    EXCHANGED,
    OVERWRITTEN,
    REFLECTED,
    SECOND_SIGN,
    NO_SINE,
    DEGREES,
    STORED_APART,
    OFFSET_MULTIPLIED,
    SINE_SUBTRACTED,
    EXPONENT_LESS_2,
    EXPONENT_REVERSED,
    EXPONENT_FROM_ONE,
    BASE_DIVIDED,
    BASE_SQUARED,
    BASE_E,
    POWER_FIRST,
    TURNS,
    POSITION_DOUBLED,
    OFFSET_DOUBLED,
    OFFSET_TO_ANGLE,
    OFFSET_TO_PAIR,
    OFFSET_FROM_FIRST,
    POSITIONS_REVERSED,
    POSITIONS_OF_BATCH,
    POSITION_TIMES_J,
    FIRST_PAIR_ONLY,
    LAST_PAIR_LOST,
    FIRST_ROW_ONLY,
    LAST_ROW_LOST,
    OWN_ANGLE,
    OUT_EXCHANGED,
    NO_COSINE,
    FIRST_UNTURNED,
    SECOND_UNTURNED,
    FIRST_SIGN,
    FIRST_NEGATED,
    HALF_ANGLE,
    ANGLE_COLUMN,
    POSITION_OF_PAIR
};
static const course_mistake mistakes[] = {
    [TURNED_BACK] = {"when pairs turn the other way: the sign of the sines is reversed"},
    [NOT_TURNED] = {"when nothing turns", true},
    [FROM_ONE] = {"when positions begin at 1, and not 0"},
    [OFFSET_IGNORED] = {"without the offset"},
    [OFFSET_SUBTRACTED] = {"when the offset is subtracted"},
    [POSITIONS_GO_ON] = {"when positions go on from one sequence of the batch to the next"},
    [SAME_POSITION] = {"when all rows stand at one position", true},
    [EXPONENT_POSITIVE] = {"with base^(2j/d), without the minus"},
    [EXPONENT_HALVED] = {"with base^(-j/d), without the 2"},
    [EXPONENT_DOUBLED] = {"with base^(-4j/d): twice the exponent"},
    [EXPONENT_ZERO] = {"when all pairs turn by the same angle: is -2 * j / d divided as integers?"},
    [EXPONENT_NEXT] = {"with j + 1 for j in the exponent"},
    [EXPONENT_COLUMN] = {"with the column 2j for j in the exponent of interleaved pairs"},
    [BASE_FIXED] = {"with 10000 in place of the attribute base"},
    [ALWAYS_HALVES] = {"when pairs are columns j and j + d/2 although `interleaved` is true"},
    [ALWAYS_INTERLEAVED] = {"when pairs are columns 2j and 2j + 1 although `interleaved` is false"},
    [MIRRORED] = {"when pairs are columns j and d - 1 - j"},
    [EXCHANGED] = {"with sine and cosine exchanged"},
    [OVERWRITTEN] = {"when b' is computed from a', and not from a"},
    [REFLECTED] = {"with b' = a sin t - b cos t: the sign of b cos t is wrong"},
    [SECOND_SIGN] = {"with a' = a cos t + b sin t and b' = a sin t + b cos t: a sign is missing"},
    [NO_SINE] = {"without the sines", true},
    [DEGREES] = {"with angles in degrees"},
    [OFFSET_MULTIPLIED] = {"when the row is multiplied by the offset, which must be added"},
    [SINE_SUBTRACTED] = {"with b' = b cos t - a sin t: that sign is wrong"},
    [EXPONENT_LESS_2] = {"with base^(-2j/(d - 2)): the last pair then has 1 / base"},
    [EXPONENT_REVERSED] = {"when the last pair turns by what must be the first one's angle"},
    [EXPONENT_FROM_ONE] = {"with base^(-2j/d) base^(-1/d): 2j + 1 for 2j in the exponent"},
    [BASE_DIVIDED] = {"with 1 / (base 2j/d + 1) in place of base^(-2j/d)"},
    [BASE_SQUARED] = {"with base^2 in place of base"},
    [BASE_E] = {"with e in place of base"},
    [POWER_FIRST] = {"with base^(-2) j / d: the power before the product"},
    [TURNS] = {"with angles in whole turns: times 2 pi"},
    [POSITION_DOUBLED] = {"when the position is doubled"},
    [OFFSET_DOUBLED] = {"when the offset is added twice"},
    [OFFSET_TO_ANGLE] = {"when the offset is added to the angle, and not to the position"},
    [OFFSET_TO_PAIR] = {"when the offset is added to j"},
    [OFFSET_FROM_FIRST] = {"when row 0 stands at 0 and the offset begins with row 1"},
    [POSITIONS_REVERSED] = {"when positions count from the last row"},
    [POSITIONS_OF_BATCH] = {"when the number of the sequence is taken for the row's"},
    [POSITION_TIMES_J] = {"when the angle is multiplied by j, too"},
    [FIRST_PAIR_ONLY] = {"when only pair 0 turns"},
    [LAST_PAIR_LOST] = {"when the last pair does not turn"},
    [FIRST_ROW_ONLY] = {"when only the first sequence turns"},
    [LAST_ROW_LOST] = {"when the last row does not turn"},
    [OWN_ANGLE] = {"when b' has the angle of another pair: j + d/2 for j, or 2j + 1 for 2j"},
    [OUT_EXCHANGED] = {"when a' and b' are stored in each other's place"},
    [NO_COSINE] = {"without the cosines"},
    [FIRST_UNTURNED] = {"when a' is a, and only b' is computed"},
    [SECOND_UNTURNED] = {"when b' is b, and only a' is computed"},
    [FIRST_SIGN] = {"with a' = a cos t + b sin t and the right b': a sign is missing"},
    [FIRST_NEGATED] = {"with a' = b sin t - a cos t: that sign is wrong"},
    [HALF_ANGLE] = {"when pairs turn by half the angle"},
    [ANGLE_COLUMN] = {"with the number of the column for the position"},
    [POSITION_OF_PAIR] = {"with row and pair exchanged: j base^(-2 row/d)"},
    [STORED_APART] = {"when what comes of interleaved pairs is stored in halves, or the reverse"},
};

/* base^(-2j/d) */
static double frequency(int64_t j, int64_t d, const rotary_attrs *attrs, course_set bits) {
    const double size = (double)(bits >> EXPONENT_LESS_2 & 1 ? d - 2 : d);
    if (bits >> OFFSET_TO_PAIR & 1) j += attrs->offset;
    if (bits >> EXPONENT_REVERSED & 1) j = d / 2 - 1 - j;
    double base = bits >> BASE_FIXED & 1 ? 10000 : attrs->base,
           exponent = -2.0 * (double)(j + (bits >> EXPONENT_NEXT & 1)) / size;
    if (bits >> EXPONENT_POSITIVE & 1) exponent = -exponent;
    if (bits >> EXPONENT_HALVED & 1) exponent /= 2;
    if (bits >> EXPONENT_DOUBLED & 1) exponent *= 2;
    if (bits >> EXPONENT_COLUMN & 1 && attrs->interleaved) exponent *= 2;
    if (bits >> EXPONENT_FROM_ONE & 1) exponent -= 1 / size;
    if (bits >> EXPONENT_ZERO & 1) exponent = 0;
    if (bits >> BASE_DIVIDED & 1) return 1 / (1 - base * exponent);
    if (bits >> POWER_FIRST & 1) return pow(base, -2) * (double)j / (double)d;
    if (bits >> BASE_SQUARED & 1) base *= base;
    if (bits >> BASE_E & 1) base = exp(1);
    return pow(base, exponent);
}

static double angle(int64_t row, int64_t rows, int64_t j, int64_t d, const rotary_attrs *attrs,
                    course_set bits) {
    int64_t at = bits >> POSITIONS_GO_ON & 1 ? row : row % rows, offset = attrs->offset;
    if (bits >> SAME_POSITION & 1) at = 0;
    if (bits >> POSITIONS_REVERSED & 1) at = rows - 1 - at;
    if (bits >> POSITIONS_OF_BATCH & 1) at = row / rows;
    if (bits >> ANGLE_COLUMN & 1) at = j;
    if (bits >> OFFSET_FROM_FIRST & 1 && at == 0) offset = 0;
    if (bits >> OFFSET_DOUBLED & 1) offset *= 2;
    if (bits >> FIRST_ROW_ONLY & 1 && row >= rows) return 0;
    if (bits >> LAST_ROW_LOST & 1 && row % rows == rows - 1) return 0;
    if (bits >> FIRST_PAIR_ONLY & 1 && j > 0) return 0;
    if (bits >> LAST_PAIR_LOST & 1 && j == d / 2 - 1) return 0;
    at += bits >> FROM_ONE & 1;
    if (bits >> POSITION_OF_PAIR & 1)
        return (double)(j + offset) *
               frequency(row % rows, d, attrs, bits & ~COURSE_BIT(POSITION_OF_PAIR));
    if (bits >> OFFSET_MULTIPLIED & 1) at *= offset ? offset : 1;
    else if (!(bits & (COURSE_BIT(OFFSET_IGNORED) | COURSE_BIT(OFFSET_TO_ANGLE) |
                       COURSE_BIT(OFFSET_TO_PAIR))))
        at += bits >> OFFSET_SUBTRACTED & 1 ? -offset : offset;
    double t = (double)at * frequency(j, d, attrs, bits);
    if (bits >> TURNED_BACK & 1) t = -t;
    if (bits >> DEGREES & 1) t *= acos(-1) / 180;
    if (bits >> TURNS & 1) t *= 2 * acos(-1);
    if (bits >> POSITION_DOUBLED & 1) t *= 2;
    if (bits >> HALF_ANGLE & 1) t /= 2;
    if (bits >> POSITION_TIMES_J & 1) t *= (double)j;
    return bits >> OFFSET_TO_ANGLE & 1 ? t + (double)offset : t;
}

static ct_tensor *columns(ct_tensor *x, const int64_t *which, int64_t n) {
    return ref_index_select(x, 1, ct_from_i64(ct_context_of(x), CT_SHAPE(n), which));
}

enum { MOST = 2048 };

/* bits == 0: the right one */
static ct_tensor *variant(ct_tensor *const *in, int n, void *arg, course_set bits) {
    const rotary_attrs *a = arg;
    (void)n;
    if (!bits) return ref_rope(in[0], a->offset, a->base, a->interleaved);
    if (bits >> NOT_TURNED & 1) return ref_scale(in[0], 1);
    ct_context *context = ct_context_of(in[0]);
    const int64_t d = ct_dim(in[0], -1), half = d / 2, rows = ct_dim(in[0], -2);
    const int64_t count = d ? ct_numel(in[0]) / d : 0;
    int64_t first[MOST], second[MOST], place[MOST];
    if (count == 0 || d > MOST) return NULL;
    bool apart = a->interleaved;
    if (bits >> ALWAYS_HALVES & 1) apart = false;
    if (bits >> ALWAYS_INTERLEAVED & 1) apart = true;
    if (bits >> EXPONENT_LESS_2 & 1 && d < 4) return NULL;
    ct_tensor *cosine = ct_empty(context, CT_F64, CT_SHAPE(count, half)),
              *sine = ct_empty(context, CT_F64, CT_SHAPE(count, half));
    for (int64_t j = 0; j < half; j++) {
        first[j] = apart ? 2 * j : j, second[j] = apart ? 2 * j + 1 : j + half;
        if (bits >> MIRRORED & 1) second[j] = d - 1 - j;
        const bool other = apart != (bits >> STORED_APART & 1);
        place[other ? 2 * j : j] = j;
        place[other ? 2 * j + 1 : bits >> MIRRORED & 1 ? d - 1 - j : j + half] = half + j;
        for (int64_t row = 0; row < count; row++) {
            const double t = angle(row, rows, j, d, a, bits);
            ct_data_f64(cosine)[row * half + j] = bits >> EXCHANGED & 1 ? sin(t) : cos(t);
            ct_data_f64(sine)[row * half + j] = bits >> EXCHANGED & 1 ? cos(t) : sin(t);
        }
    }
    if (bits >> NO_SINE & 1) sine = ref_scale(sine, 0);
    if (bits >> NO_COSINE & 1) cosine = ref_scale(cosine, 0);
    ct_tensor *x = ct_reshape(in[0], CT_SHAPE(count, d)), *u = columns(x, first, half),
              *v = columns(x, second, half), *out[2];
    const bool sign = bits & (COURSE_BIT(SECOND_SIGN) | COURSE_BIT(FIRST_SIGN));
    out[0] = ref_sub(ref_mul(u, cosine), ref_scale(ref_mul(v, sine), sign ? -1 : 1));
    if (bits >> FIRST_NEGATED & 1) out[0] = ref_neg(out[0]);
    if (bits >> FIRST_UNTURNED & 1) out[0] = u;
    if (bits >> OVERWRITTEN & 1) u = out[0];
    if (bits >> SINE_SUBTRACTED & 1) sine = ref_neg(sine);
    if (bits >> OWN_ANGLE & 1) {
        for (int64_t e = 0; e < count * half; e++) {
            const int64_t j = e % half;
            const double t = angle(e / half, rows, apart ? 2 * j + 1 : j + half, d, a, bits);
            ct_data_f64(cosine)[e] = cos(t), ct_data_f64(sine)[e] = sin(t);
        }
    }
    out[1] =
        ref_add(ref_mul(u, sine), ref_scale(ref_mul(v, cosine), bits >> REFLECTED & 1 ? -1 : 1));
    if (bits >> SECOND_UNTURNED & 1) out[1] = v;
    if (bits >> OUT_EXCHANGED & 1) {
        ct_tensor *other = out[0];
        out[0] = out[1], out[1] = other;
    }
    return ct_reshape(columns(ref_cat(out, 2, 1), place, d), ct_shape_of(in[0]));
}
/* Finds the angle by which the first wrong pair is rotated, if it is rotated. */
static void explain(ct_tensor *const *in, int n, void *arg, ct_tensor *got, ct_tensor *right,
                    char *said, size_t size) {
    const rotary_attrs *attrs = arg;
    const int64_t d = ct_dim(got, -1), half = d / 2, rows = ct_dim(got, -2),
                  count = ct_numel(got) / d;
    const double *x = ct_data_f64(in[0]), *y = ct_data_f64(got), *must = ct_data_f64(right);
    (void)n;
    for (int64_t row = 0; row < count; row++, x += d, y += d, must += d)
        for (int64_t j = 0; j < half; j++) {
            const int64_t a = attrs->interleaved ? 2 * j : j,
                          b = attrs->interleaved ? 2 * j + 1 : j + half;
            if (fabs(y[a] - must[a]) < 1e-9 && fabs(y[b] - must[b]) < 1e-9) continue;
            if (!isfinite(y[a]) || !isfinite(y[b])) continue;
            const double before = x[a] * x[a] + x[b] * x[b], after = y[a] * y[a] + y[b] * y[b],
                         by = atan2(x[a] * y[b] - x[b] * y[a], x[a] * y[a] + x[b] * y[b]),
                         wanted = atan2(x[a] * must[b] - x[b] * must[a],
                                        x[a] * must[a] + x[b] * must[b]);
            const int at = (int)(row % rows);
            if (fabs(before - after) > 1e-7 * before)
                snprintf(said, size,
                         "pair %d of row %d (columns %d and %d) is not turned: a'^2 + "
                         "b'^2 is %.6g, and a^2 + b^2 is %.6g",
                         (int)j, at, (int)a, (int)b, after, before);
            else
                snprintf(said, size,
                         "pair %d of row %d, at position %lld, is turned, but by %.8g "
                         "radians, and must be by %.8g (or 2 pi more or less)",
                         (int)j, at, (long long)(at + attrs->offset), by, wanted);
            return;
        }
}

static void probe(ct_context *context, ct_tensor **in, void **arg) {
    static rotary_attrs attrs;
    attrs =
        (rotary_attrs){.base = 50, .offset = 3, .interleaved = ((rotary_attrs *)*arg)->interleaved};
    in[0] = course_randn(context, CT_SHAPE(2, 5, 8)), *arg = &attrs;
}
static const char *const inputs[] = {"x: head, sequence, row, column",
                                     "the result: head, sequence, row, column"};
static const course_function function = COURSE_FUNCTION(by_you, variant, mistakes, .inputs = inputs,
                                                        .probe = probe, .explain = explain);

static ct_tensor *by_reference(ct_tensor *const *in, int n, void *attrs) {
    return course_as_yours(&function, in, n, attrs);
}

static void compare(const char *what, ct_tensor *x, rotary_attrs a, double tolerance) {
    course_forward(what, &function, &a, &x, 1, tolerance);
}

/* The example of README.md. */
static void by_hand(ct_context *context) {
    ct_tensor *x = course_f64(context, CT_SHAPE(2, 4), (double[]){1, 2, 3, 4, 1, 2, 3, 4});
    const double c0 = cos(1), s0 = sin(1), c1 = cos(0.25), s1 = sin(0.25);
    ct_tensor *y = course_f64(
        context, CT_SHAPE(2, 4),
        (double[]){1, 2, 3, 4, c0 - 3 * s0, 2 * c1 - 4 * s1, s0 + 3 * c0, 2 * s1 + 4 * c1});
    compare("the statement's example", x, (rotary_attrs){.base = 16}, 1e-12);
    course_value("the statement's example", yours(x, (rotary_attrs){.base = 16}), y, 1e-12);
}

static void shapes(ct_context *context) {
    const ct_shape shapes[] = {CT_SHAPE(1, 2), CT_SHAPE(7, 6), CT_SHAPE(3, 1, 4),
                               CT_SHAPE(2, 3, 5, 8), CT_SHAPE(2, 0, 4)};
    for (int i = 0; i < 5; i++)
        compare("pairs (j, j + d/2)", course_randn(context, shapes[i]),
                (rotary_attrs){.base = 10000}, 1e-12);
}

static void offset(ct_context *context) {
    compare("from position 5 on", course_randn(context, CT_SHAPE(2, 3, 4)),
            (rotary_attrs){.base = 50, .offset = 5}, 1e-12);
    compare("from position 1,000,000 on", course_randn(context, CT_SHAPE(2, 3, 4)),
            (rotary_attrs){.base = 10000, .offset = 1000000}, 1e-8);
}

/* <q at 3, k at 1> = <q at 12, k at 10>, and not <q at 3, k at 2>. */
static void distance(ct_context *context) {
    ct_tensor *q = course_randn(context, CT_SHAPE(1, 8)),
              *k = course_randn(context, CT_SHAPE(1, 8));
    const int64_t at[][2] = {{3, 1}, {12, 10}, {3, 2}};
    ct_tensor *score[3];
    for (int i = 0; i < 3; i++) {
        ct_tensor *turned_q =
            yours(ref_scale(q, 1), (rotary_attrs){.base = 100, .offset = at[i][0]});
        ct_tensor *turned_k =
            yours(ref_scale(k, 1), (rotary_attrs){.base = 100, .offset = at[i][1]});
        score[i] = ref_sum(ref_mul(turned_q, turned_k), CT_ALL, false);
        if (!score[i]) course_fail("%s", ct_error_message(context));
    }
    course_value(
        "the product of a query at 12 and a key at 10, expected that of the same at 3 and 1",
        score[1], score[0], 1e-12);
    if (fabs(ct_item(score[2]) - ct_item(score[0])) < 1e-6)
        course_fail("the product of a query and a key does not depend on their distance");
}

static void refused(ct_context *context) {
    const rotary_attrs attrs = {.base = 100};
    course_refused("a row of 5 columns", context,
                   yours(course_randn(context, CT_SHAPE(2, 5)), attrs), CT_ERR_SHAPE, "rotary:");
    course_refused("a tensor of one dim", context, yours(course_randn(context, CT_SHAPE(4)), attrs),
                   CT_ERR_SHAPE, "rotary:");
}

static void interleaved(ct_context *context) {
    compare("pairs (2j, 2j + 1)", course_randn(context, CT_SHAPE(2, 3, 8)),
            (rotary_attrs){.base = 50, .offset = 2, .interleaved = true}, 1e-12);
}

/* A gradient is worth something only if the function is the right one. */
static void check_gradient(ct_context *context, const char *what, rotary_attrs attrs) {
    ct_tensor *x = course_randn(context, CT_SHAPE(2, 3, 6));
    course_forward_first("the forward that is differentiated", &function, &attrs, &x, 1, 1e-12);
    course_gradient(what, &rotary, &attrs, &x, 1, (ct_gradcheck_opts){0});
    x = course_randn(context, CT_SHAPE(2, 32, 1024));
    course_gradient_as(what, by_you, by_reference, &attrs, &x, 1, 1e-9);
}

static void gradient(ct_context *context) {
    check_gradient(context, "pairs (j, j + d/2), from position 0", (rotary_attrs){.base = 100});
    check_gradient(context, "pairs (j, j + d/2), from position 4",
                   (rotary_attrs){.base = 50, .offset = 4});
}

static void gradient_interleaved(ct_context *context) {
    check_gradient(context, "pairs (2j, 2j + 1), from position 4",
                   (rotary_attrs){.base = 50, .offset = 4, .interleaved = true});
}

const course_test course_tests[] = {
    {"by_hand", 1, by_hand},   {"shapes", 1, shapes},
    {"offset", 1, offset},     {"distance", 1, distance},
    {"refused", 1, refused},   {"interleaved", 1, interleaved},
    {"gradient", 2, gradient}, {"gradient_interleaved", 2, gradient_interleaved},
};
const int course_test_count = sizeof course_tests / sizeof *course_tests;
