/* neuron, add and mul against numbers made by hand, plain loops, and
 * differences. */
#include "../course.h"
#include "exercise.h"

#include <math.h>

static ct_tensor *scalar(ct_context *context, double x) {
    return course_f64(context, CT_SCALAR, &x);
}

static ct_tensor *yours(const ct_op *op, ct_tensor *a, ct_tensor *b) {
    return ct_apply(op, (ct_tensor *[]){a, b}, 2, NULL);
}

static ct_tensor *reference_of(const ct_op *op, ct_tensor *a, ct_tensor *b) {
    return op == &add ? ref_add(a, b) : ref_mul(a, b);
}

static ct_tensor *by_you(ct_tensor *const *in, int n, void *op) {
    return ct_apply(op, in, n, NULL);
}

enum {
    BIAS_OUTSIDE,
    NO_BIAS,
    BIAS_SUBTRACTED,
    BIAS_TIMES_X,
    BIAS_TIMES_W,
    ALL_MULTIPLIED,
    ADDED,
    HALVED,
    DOUBLED,
    SIGMOID,
    RELU,
    SINE,
    NO_TANH,
    NO_W,
    NO_X,
    PRODUCT_SUBTRACTED,
    TANH_OF_X,
    TANH_OF_W,
    TANH_TWICE,
    TANGENT,
    SINH,
    NEGATED,
    X_SQUARED,
    W_SQUARED,
    BIAS_TWICE,
    DERIVATIVE,
    TANH_SQUARED,
    TANH_ABSOLUTE
};
static const course_mistake neuron_mistakes[] = {
    [BIAS_OUTSIDE] = {"when b is added after tanh: tanh(w x) + b"},
    [NO_BIAS] = {"without b: tanh(w x)"},
    [BIAS_SUBTRACTED] = {"when b is subtracted: tanh(w x - b)"},
    [BIAS_TIMES_X] = {"when b is multiplied by x: tanh((w + b) x)"},
    [BIAS_TIMES_W] = {"when b is multiplied by w: tanh(w (x + b))"},
    [ALL_MULTIPLIED] = {"when b is multiplied, too: tanh(w x b)"},
    [ADDED] = {"when w and x are added, not multiplied"},
    [HALVED] = {"with (e^z - 1) / (e^z + 1), which is tanh(z / 2)"},
    [DOUBLED] = {"with tanh of twice what is inside"},
    [SIGMOID] = {"with a sigmoid, 1 / (1 + e^-z), in place of tanh"},
    [RELU] = {"with max(z, 0) in place of tanh", true},
    [SINE] = {"with a sine in place of tanh"},
    [NO_TANH] = {"without tanh: w x + b", true},
    [NO_W] = {"without w: tanh(x + b)", true},
    [NO_X] = {"without x: tanh(w + b)", true},
    [PRODUCT_SUBTRACTED] = {"when w x is subtracted: tanh(b - w x)"},
    [TANH_OF_X] = {"with a tanh of x before w multiplies it"},
    [TANH_OF_W] = {"with a tanh of w before it multiplies x"},
    [TANH_TWICE] = {"when tanh is applied twice"},
    [TANGENT] = {"with the tangent of an angle, tan, in place of tanh"},
    [SINH] = {"with sinh, (e^z - e^-z) / 2, in place of tanh"},
    [NEGATED] = {"with the sign of the result reversed"},
    [X_SQUARED] = {"with x^2 in place of x"},
    [W_SQUARED] = {"with w^2 in place of w"},
    [BIAS_TWICE] = {"when b is added twice"},
    [DERIVATIVE] = {"with 1 - tanh^2, the derivative, in place of tanh"},
    [TANH_SQUARED] = {"with tanh^2 in place of tanh"},
    [TANH_ABSOLUTE] = {"with tanh of the absolute value"},
};

static ct_tensor *neuron_variant(ct_tensor *const *in, int n, void *op, course_set bits) {
    (void)n, (void)op;
    ct_tensor *w = in[0], *x = in[1], *b = in[2];
    const bool outside = bits >> BIAS_OUTSIDE & 1;
    if (bits >> NO_BIAS & 1) b = ref_scale(b, 0);
    if (bits >> BIAS_SUBTRACTED & 1) b = ref_neg(b);
    if (bits >> BIAS_TIMES_X & 1) b = ref_mul(b, x);
    if (bits >> BIAS_TIMES_W & 1) b = ref_mul(b, w);
    if (bits >> BIAS_TWICE & 1) b = ref_scale(b, 2);
    if (bits >> X_SQUARED & 1) x = ref_mul(x, x);
    if (bits >> W_SQUARED & 1) w = ref_mul(w, w);
    if (bits >> TANH_OF_X & 1) x = ref_tanh(x);
    if (bits >> TANH_OF_W & 1) w = ref_tanh(w);
    ct_tensor *z = bits >> ADDED & 1  ? ref_add(w, x)
                   : bits >> NO_W & 1 ? x
                   : bits >> NO_X & 1 ? w
                                      : ref_mul(w, x);
    if (bits >> PRODUCT_SUBTRACTED & 1) z = ref_neg(z);
    if (bits >> ALL_MULTIPLIED & 1) z = ref_mul(z, b);
    else if (!outside) z = ref_add(z, b);
    if (bits >> HALVED & 1) z = ref_scale(z, 0.5);
    if (bits >> DOUBLED & 1) z = ref_scale(z, 2);
    if (bits >> TANH_ABSOLUTE & 1) z = ref_abs(z);
    ct_tensor *y = bits >> SIGMOID & 1   ? ref_sigmoid(z)
                   : bits >> RELU & 1    ? ref_relu(z)
                   : bits >> SINE & 1    ? ref_sin(z)
                   : bits >> TANGENT & 1 ? ref_div(ref_sin(z), ref_cos(z))
                   : bits >> SINH & 1    ? ref_scale(ref_sub(ref_exp(z), ref_exp(ref_neg(z))), 0.5)
                   : bits >> NO_TANH & 1 ? z
                                         : ref_tanh(z);
    if (bits >> TANH_TWICE & 1) y = ref_tanh(y);
    if (bits & (COURSE_BIT(TANH_SQUARED) | COURSE_BIT(DERIVATIVE))) y = ref_mul(y, y);
    if (bits >> DERIVATIVE & 1) y = ref_add_scalar(ref_neg(y), 1);
    if (bits >> NEGATED & 1) y = ref_neg(y);
    return outside ? ref_add(y, b) : y;
}

/* What stands inside, if there is a tanh around it. */
static void explain_neuron(ct_tensor *const *in, int n, void *op, ct_tensor *got, ct_tensor *right,
                           char *said, size_t size) {
    (void)in, (void)n, (void)op;
    const double y = ct_item(got);
    if (isnan(y)) return;
    if (fabs(y) >= 1) snprintf(said, size, "no tanh is %.10g: it lies between -1 and 1", y);
    else
        snprintf(said, size, "it is tanh of %.10g, and must be tanh of w x + b, %.10g", atanh(y),
                 atanh(ct_item(right)));
}
static const char *const neuron_inputs[] = {"w:", "x:", "b:", "the result:"};
static const course_function neuron_function = COURSE_FUNCTION(
    by_you, neuron_variant, neuron_mistakes, .inputs = neuron_inputs, .explain = explain_neuron);

enum {
    OTHER_OP,
    SUBTRACTED,
    DIVIDED,
    FIRST_ALONE,
    SECOND_ALONE,
    NUMBER_OF_FIRST,
    ALIGNED_LEFT,
    MODULO,
    IN_RUNS,
    FIRST_FOR_ALL,
    LAST_FOR_REST,
    FROM_LEFT,
    REVERSED,
    MAXIMUM,
    MINIMUM,
    NEGATED_A,
    OVER_A,
    ABSOLUTE,
    A_TWICE,
    B_TWICE,
    MEAN,
    PLACE_PLUS_ONE
};
static const course_mistake mistakes[] = {
    [OTHER_OP] = {"when add multiplies, or mul adds"},
    [SUBTRACTED] = {"when b is subtracted"},
    [DIVIDED] = {"when a is divided by b"},
    [FIRST_ALONE] = {"when the result is a alone", true},
    [SECOND_ALONE] = {"when the result is b alone", true},
    [NUMBER_OF_FIRST] = {"when a is multiplied by itself, or added to itself"},
    [ALIGNED_LEFT] = {"when the shapes are aligned at the left"},
    [MODULO] =
        {"when element e of the result takes number e % size of an input: right for rows that "
         "are repeated, not for columns"},
    [IN_RUNS] = {"when each number of an input is repeated in a run, before the next one comes"},
    [FIRST_FOR_ALL] = {"when only the first number of what is repeated is used"},
    [LAST_FOR_REST] = {"when an input's last number is taken where it has no more"},
    [FROM_LEFT] = {"when the indices of element e are taken from the first dim on: e % size is "
                   "that of the last dim"},
    [REVERSED] = {"when the result is written from its end"},
    [MAXIMUM] = {"with the larger of the two"},
    [MINIMUM] = {"with the smaller of the two"},
    [NEGATED_A] = {"when a is subtracted"},
    [OVER_A] = {"when b is divided by a"},
    [ABSOLUTE] = {"when signs are lost: |a| and |b|"},
    [A_TWICE] = {"when a is taken twice"},
    [B_TWICE] = {"when b is taken twice"},
    [MEAN] = {"when the result is halved"},
    [PLACE_PLUS_ONE] = {"when each number of what is repeated is the next one, the first last"},
};

/* x in the result's shape, with the mistakes. */
static ct_tensor *spread(ct_tensor *x, ct_shape shape, course_set bits) {
    int64_t from[512], n = ct_numel(x), count = 1;
    for (int d = 0; d < shape.ndim; d++) count *= shape.dim[d];
    if (bits >> ALIGNED_LEFT & 1) {
        while (ct_ndim(x) < shape.ndim) x = ct_unsqueeze(x, -1);
        return ref_expand(x, shape);
    }
    if (!(bits & (COURSE_BIT(PLACE_PLUS_ONE) | COURSE_BIT(MODULO) | COURSE_BIT(IN_RUNS) |
                  COURSE_BIT(FIRST_FOR_ALL) | COURSE_BIT(LAST_FOR_REST))) ||
        n == count || n == 0 || count > 512)
        return x;
    if (bits >> PLACE_PLUS_ONE & 1)
        return ct_reshape(ref_roll(ct_reshape(x, CT_SHAPE(-1)), -1, 0), ct_shape_of(x));
    for (int64_t e = 0; e < count; e++)
        from[e] = bits >> MODULO & 1          ? e % n
                  : bits >> IN_RUNS & 1       ? e * n / count
                  : bits >> LAST_FOR_REST & 1 ? (e < n ? e : n - 1)
                                              : 0;
    x = ref_index_select(ct_reshape(x, CT_SHAPE(-1)), 0,
                         ct_from_i64(ct_context_of(x), CT_SHAPE(count), from));
    return ct_reshape(x, shape);
}

/* y with its elements in the wrong places: element number e is written as if the first index, and
 * not the last one, ran fastest. */
static ct_tensor *from_left(ct_tensor *y) {
    const ct_shape shape = ct_shape_of(y);
    int64_t from[512], step[CT_MAX_DIMS], next = 1;
    if (ct_numel(y) > 512) return NULL;
    for (int d = shape.ndim - 1; d >= 0; next *= shape.dim[d--]) step[d] = next;
    for (int64_t e = 0; e < ct_numel(y); e++) {
        int64_t rest = e;
        from[e] = 0;
        for (int d = 0; d < shape.ndim; rest /= shape.dim[d++])
            from[e] += rest % shape.dim[d] * step[d];
    }
    return ct_reshape(ref_index_select(ct_reshape(y, CT_SHAPE(-1)), 0,
                                       ct_from_i64(ct_context_of(y), CT_SHAPE(ct_numel(y)), from)),
                      shape);
}

static ct_tensor *combined(const ct_op *op, ct_tensor *a, ct_tensor *b, course_set bits) {
    if (bits >> DIVIDED & 1) return ref_div(a, b);
    if (bits >> OVER_A & 1) return ref_div(b, a);
    if (bits >> MAXIMUM & 1) return ref_maximum(a, b);
    if (bits >> MINIMUM & 1) return ref_minimum(a, b);
    return reference_of((op == &add) != (bits >> OTHER_OP & 1) ? &add : &mul, a, b);
}

static ct_tensor *variant(ct_tensor *const *in, int n, void *op, course_set bits) {
    (void)n;
    ct_tensor *right = reference_of(op, in[0], in[1]);
    if (!bits || !right) return right;
    const ct_shape shape = ct_shape_of(right);
    ct_tensor *a = spread(in[0], shape, bits), *b = spread(in[1], shape, bits);
    if (bits >> FIRST_ALONE & 1) return ref_expand(a, shape);
    if (bits >> SECOND_ALONE & 1) return ref_expand(b, shape);
    if (bits >> NUMBER_OF_FIRST & 1) b = a;
    if (bits >> SUBTRACTED & 1) b = ref_neg(b);
    if (bits >> NEGATED_A & 1) a = ref_neg(a);
    if (bits >> ABSOLUTE & 1) a = ref_abs(a), b = ref_abs(b);
    if (bits >> A_TWICE & 1) a = reference_of(op, a, a);
    if (bits >> B_TWICE & 1) b = reference_of(op, b, b);
    ct_tensor *y = combined(op, a, b, bits);
    if (y && bits >> MEAN & 1) y = ref_scale(y, 0.5);
    if (y && bits >> FROM_LEFT & 1) y = from_left(y);
    if (y && bits >> REVERSED & 1) {
        int64_t from[512];
        const int64_t count = ct_numel(y);
        for (int64_t e = 0; e < count && count <= 512; e++) from[e] = count - 1 - e;
        y = count > 512
                ? NULL
                : ct_reshape(ref_index_select(ct_reshape(y, CT_SHAPE(-1)), 0,
                                              ct_from_i64(ct_context_of(y), CT_SHAPE(count), from)),
                             shape);
    }
    return y;
}
static const char *const inputs[] = {"a: matrix, row, column", "b: matrix, row, column",
                                     "the result: matrix, row, column"};
static const course_function function =
    COURSE_FUNCTION(by_you, variant, mistakes, .inputs = inputs);

static ct_tensor *by_reference(ct_tensor *const *in, int n, void *op) {
    return course_as_yours(n == 3 ? &neuron_function : &function, in, n, op);
}

/* ---- the neuron's gradient ---- */

static bool near(double a, double b) { return fabs(a - b) <= 1e-9; }

static double one_minus_z_squared(double z, double y) { return (void)y, 1 - z * z; }
static double one(double z, double y) { return (void)z, (void)y, 1; }
static double tanh_once_more(double z, double y) { return (void)z, 1 - tanh(y) * tanh(y); }
static double one_plus_y_squared(double z, double y) { return (void)z, 1 + y * y; }
static double one_minus_y(double z, double y) { return (void)z, 1 - y; }
static double the_result(double z, double y) { return (void)z, y; }
static double y_squared(double z, double y) { return (void)z, y * y; }
static double of_sigmoid(double z, double y) { return (void)z, y * (1 - y); }
static double root(double z, double y) { return (void)z, sqrt(1 - y * y); }
static double negative(double z, double y) { return (void)z, y * y - 1; }
static double divided(double z, double y) { return (void)z, 1 / (1 - y * y); }
static double of_arctangent(double z, double y) { return (void)y, 1 / (1 + z * z); }

/* What stands where 1 - y^2 must, with z = w x + b inside of tanh and y its result. */
static const struct {
    const char *what;
    double (*of)(double z, double y);
} slopes[] = {
    {"1 - z^2 is written for 1 - y^2: z = w x + b is inside of tanh, and y is its result",
     one_minus_z_squared},
    {"the derivative of tanh, 1 - y^2, is missing: dz = g", one},
    {"1 - tanh(y)^2 is written for 1 - y^2: y is tanh(z) already", tanh_once_more},
    {"1 + y^2 is written for 1 - y^2", one_plus_y_squared},
    {"1 - y is written for 1 - y^2", one_minus_y},
    {"y is written for 1 - y^2: tanh itself, and not its derivative", the_result},
    {"y^2 is written for 1 - y^2", y_squared},
    {"y (1 - y) is written for 1 - y^2: the derivative of a sigmoid, not of tanh", of_sigmoid},
    {"sqrt(1 - y^2) is written for 1 - y^2", root},
    {"1 - y^2 has the wrong sign", negative},
    {"1 - y^2 divides, and must multiply", divided},
    {"1 / (1 + z^2) is written for 1 - y^2: the derivative of the inverse of a tangent",
     of_arctangent},
};

/* If the neuron's gradient is wrong, sets a hint that names the mistake which gives the same three
 * numbers. */
static void name_gradient(ct_context *context) {
    const double w = 0.71828, x = -1.31415, b = 0.41421, z = w * x + b, y = tanh(z);
    ct_tensor *leaf[3] = {scalar(context, w), scalar(context, x), scalar(context, b)};
    for (int i = 0; i < 3; i++) ct_set_requires_grad(leaf[i], true);
    ct_tensor *out = ct_apply(&neuron, leaf, 3, NULL);
    const bool ran = course_same(out, scalar(context, y), 1e-9) && ct_backward(out);
    ct_tensor *grad[3] = {NULL};
    for (int i = 0; i < 3 && ran; i++) grad[i] = ct_grad(leaf[i]);
    if (ct_error(context)) ct_error_clear(context);
    if (!grad[0] || !grad[1] || !grad[2]) return;
    const double dw = ct_item(grad[0]), dx = ct_item(grad[1]), db = ct_item(grad[2]),
                 dz = 1 - y * y;
    const struct {
        const char *what;
        double dw, dx, db;
    } paths[] = {
        {"dw and dx are exchanged", dz * w, dz * x, dz},
        {"dw lacks the factor x", dz, dz * w, dz},
        {"dx lacks the factor w", dz * x, dz, dz},
        {"dw lacks the factor x, and dx the factor w", dz, dz, dz},
        {"db has the factor b: the derivative of w x + b by b is 1", dz * x, dz * w, dz * b},
        {"db lacks the factor 1 - y^2", dz * x, dz * w, 1},
        {"dw and dx lack the factor 1 - y^2", x, w, dz},
    };
    for (size_t i = 0; i < sizeof slopes / sizeof *slopes; i++) {
        const double slope = slopes[i].of(z, y);
        if (near(dw, slope * x) && near(dx, slope * w) && near(db, slope))
            course_hint("%s", slopes[i].what);
    }
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (near(dw, paths[i].dw) && near(dx, paths[i].dx) && near(db, paths[i].db))
            course_hint("%s", paths[i].what);
}

static void neuron_by_hand(ct_context *context) {
    ct_tensor *in[] = {scalar(context, 2), scalar(context, 0.5), scalar(context, log(2) - 1)};
    course_forward("w = 2, x = 0.5, b = ln 2 - 1", &neuron_function, (void *)&neuron, in, 3, 1e-15);
    course_value("w = 2, x = 0.5, b = ln 2 - 1", ct_apply(&neuron, in, 3, NULL),
                 scalar(context, 0.6), 1e-15);
    name_gradient(context);
    course_gradient_is(
        "w = 2, x = 0.5, b = ln 2 - 1 (inputs 0, 1, 2)", &neuron, NULL, in, 3,
        (ct_tensor *[]){scalar(context, 0.32), scalar(context, 1.28), scalar(context, 0.64)},
        1e-14);
    course_hint("%s", "");
    in[2] = scalar(context, -1);
    course_value("w = 2, x = 0.5, b = -1", ct_apply(&neuron, in, 3, NULL), scalar(context, 0),
                 1e-15);
}

static void neuron_gradient(ct_context *context) {
    ct_tensor *in[] = {scalar(context, 0.71828), scalar(context, -1.31415),
                       scalar(context, 0.41421)};
    course_forward_first("the forward that is differentiated", &neuron_function, (void *)&neuron,
                         in, 3, 1e-15);
    name_gradient(context);
    course_gradient("w = 0.71828, x = -1.31415, b = 0.41421 (inputs 0, 1, 2)", &neuron, NULL, in, 3,
                    (ct_gradcheck_opts){0});
    in[0] = scalar(context, 3e5), in[1] = scalar(context, 1e-6), in[2] = scalar(context, 0.2);
    /* exact, as differences are not: 1 - tanh(0.5)^2 times x, w and 1 */
    const double slope = 1 / (cosh(0.5) * cosh(0.5));
    if (!course_same(ct_apply(&neuron, in, 3, NULL), scalar(context, tanh(0.5)), 1e-9)) return;
    course_hint("inexact: differences of forward are not as exact as a gradient must be");
    course_gradient_is("w = 300000, x = 0.000001, b = 0.2 (inputs 0, 1, 2)", &neuron, NULL, in, 3,
                       (ct_tensor *[]){scalar(context, slope * 1e-6), scalar(context, slope * 3e5),
                                       scalar(context, slope)},
                       1e-14);
    course_hint("%s", "");
}

/* ---- add and mul ---- */

/* Shapes that broadcast, each with its purpose. */
typedef struct {
    ct_shape a, b;
    const char *what;
} pair;

static const pair same[] = {
    {{1, {4}}, {1, {4}}, "(4) and (4)"},
    {{2, {3, 5}}, {2, {3, 5}}, "(3, 5) and (3, 5)"},
    {{0, {0}}, {0, {0}}, "() and ()"},
    {{2, {0, 3}}, {2, {0, 3}}, "(0, 3) and (0, 3)"},
};
static const pair different[] = {
    {{2, {2, 3}}, {1, {3}}, "(2, 3) and (3)"}, /* a dim that one lacks */
    {{1, {3}}, {2, {2, 3}}, "(3) and (2, 3)"}, /* that the other lacks */
    /* aligned at the right, though the left would fit too */
    {{2, {3, 3}}, {1, {3}}, "(3, 3) and (3)"},
    {{2, {3, 1}}, {2, {1, 4}}, "(3, 1) and (1, 4)"},       /* a dim of 1, on each side */
    {{3, {2, 3, 4}}, {2, {3, 1}}, "(2, 3, 4) and (3, 1)"}, /* both ways at once */
    {{3, {2, 1, 5}}, {3, {1, 3, 1}}, "(2, 1, 5) and (1, 3, 1)"},
    {{2, {2, 3}}, {0, {0}}, "(2, 3) and ()"},  /* a number for all */
    {{2, {0, 3}}, {1, {3}}, "(0, 3) and (3)"}, /* nothing to add to: a gradient of zeros */
};

static void each(ct_context *context, const ct_op *op, const pair *pairs, int count,
                 bool gradient) {
    for (int i = 0; i < count; i++) {
        char what[80];
        snprintf(what, sizeof what, "%s of %s", op->name, pairs[i].what);
        ct_tensor *in[] = {course_randn(context, pairs[i].a), course_randn(context, pairs[i].b)};
        (gradient ? course_forward_first : course_forward)(what, &function, (void *)op, in, 2,
                                                           1e-15);
        if (gradient) course_gradient(what, op, NULL, in, 2, (ct_gradcheck_opts){0});
    }
}
#define EACH(op, pairs, gradient) each(context, op, pairs, sizeof pairs / sizeof *pairs, gradient)

static void same_shapes(ct_context *context) { EACH(&add, same, false), EACH(&mul, same, false); }
static void add_broadcast(ct_context *context) {
    ct_tensor *in[] = {course_f64(context, CT_SHAPE(2, 3), (double[]){1, 2, 3, 4, 5, 6}),
                       course_f64(context, CT_SHAPE(3), (double[]){10, 20, 30})};
    course_forward("the statement's example", &function, (void *)&add, in, 2, 0);
    course_value("the statement's example", yours(&add, in[0], in[1]),
                 course_f64(context, CT_SHAPE(2, 3), (double[]){11, 22, 33, 14, 25, 36}), 0);
    EACH(&add, different, false);
}
static void mul_broadcast(ct_context *context) { EACH(&mul, different, false); }

/* A random tensor of 90,000 elements, and one of shape b. */
static void large_gradient(ct_context *context, const ct_op *op, ct_shape b) {
    char what[80];
    snprintf(what, sizeof what, "%s of (300, 300) and %s", op->name,
             b.ndim == 1 ? "(300)" : "(300, 300)");
    ct_tensor *in[] = {course_randn(context, CT_SHAPE(300, 300)), course_randn(context, b)};
    course_gradient_as(what, by_you, by_reference, (void *)op, in, 2, 1e-9);
}

static void same_shapes_gradient(ct_context *context) {
    EACH(&add, same, true), EACH(&mul, same, true);
    large_gradient(context, &add, CT_SHAPE(300, 300));
    large_gradient(context, &mul, CT_SHAPE(300, 300));
}
static void add_gradient(ct_context *context) {
    EACH(&add, different, true);
    large_gradient(context, &add, CT_SHAPE(300));
}
static void mul_gradient(ct_context *context) {
    EACH(&mul, different, true);
    large_gradient(context, &mul, CT_SHAPE(300));
}

static void refused(ct_context *context) {
    const struct {
        ct_shape a, b;
        const char *what, *words;
    } wrong[] = {
        {CT_SHAPE(2, 3), CT_SHAPE(4), "(2, 3) and (4)", "sizes 3 and 4 do not broadcast"},
        {CT_SHAPE(2, 5), CT_SHAPE(3, 1, 5), "(2, 5) and (3, 1, 5), which broadcast to (3, 2, 5)",
         NULL},
        {CT_SHAPE(2, 5), CT_SHAPE(3, 5), "(2, 5) and (3, 5)", "sizes 2 and 3 do not broadcast"},
        {CT_SHAPE(0), CT_SHAPE(2), "(0) and (2)", "sizes 0 and 2 do not broadcast"}};
    const ct_op *ops[] = {&add, &mul};
    for (int o = 0; o < 2; o++)
        for (int i = 0; i < 4; i++) {
            ct_tensor *a = course_randn(context, wrong[i].a),
                      *b = course_randn(context, wrong[i].b);
            if (wrong[i].words)
                course_refused(wrong[i].what, context, yours(ops[o], a, b), CT_ERR_SHAPE,
                               wrong[i].words);
            else
                course_forward(wrong[i].what, &function, (void *)ops[o], (ct_tensor *[]){a, b}, 2,
                               1e-15);
        }
}

const course_test course_tests[] = {
    {"neuron_by_hand", 1, neuron_by_hand},
    {"neuron_gradient", 2, neuron_gradient},
    {"same_shapes", 1, same_shapes},
    {"add_broadcast", 1, add_broadcast},
    {"mul_broadcast", 1, mul_broadcast},
    {"same_shapes_gradient", 1, same_shapes_gradient},
    {"add_gradient", 1, add_gradient},
    {"mul_gradient", 1, mul_gradient},
    {"refused", 1, refused},
};
const int course_test_count = sizeof course_tests / sizeof *course_tests;
