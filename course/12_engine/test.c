/* The engine against derivatives that are written out here, on graphs that are each difficult in
 * another way. The numbers of leaves are drawn by the seed. */
#include "../course.h"
#include "exercise.h"

#include <math.h>

static tape *new_tape(void) {
    tape *t = tape_new();
    if (!t) course_fail("tape_new returns NULL, as the stub does: is it not written yet?");
    return t;
}

static value known(const char *name, value v) {
    if (v < 0)
        course_fail("%s returns %lld, as the stub does: is it not written yet?", name,
                    (long long)v);
    return v;
}
static value leaf(tape *t, double x) { return known("value_leaf", value_leaf(t, x)); }
static value add(tape *t, value a, value b) { return known("value_add", value_add(t, a, b)); }
static value mul(tape *t, value a, value b) { return known("value_mul", value_mul(t, a, b)); }
static value exp_of(tape *t, value a) { return known("value_exp", value_exp(t, a)); }
static value tanh_of(tape *t, value a) { return known("value_tanh", value_tanh(t, a)); }

static bool close_to(double got, double expected) {
    return got == expected || fabs(got - expected) <= 1e-12 * fmax(1, fabs(expected));
}
static void expect(const char *what, double got, double expected) {
    if (!close_to(got, expected))
        course_fail("wrong value: %s is %.15g and must be %.15g", what, isnan(got) ? NAN : got,
                    expected);
}
static void data(const tape *t, const char *what, value a, double expected) {
    expect(what, value_data(t, a), expected);
}
/* `mistake` is its value with a known mistake; NAN: none is known. */
static void gradient(const tape *t, const char *what, value a, double expected, double mistake,
                     const char *hint) {
    course_hint("%s", close_to(value_grad(t, a), mistake) ? hint : "");
    expect(what, value_grad(t, a), expected);
    course_hint("%s", "");
}

/* A number between 0.3 and 1.3, of either sign. */
static double draw(ct_context *context) {
    const double u = ct_item(course_randn(context, CT_SCALAR)),
                 size = 0.3 + fabs(u) - floor(fabs(u));
    return u < 0 ? -size : size;
}

/* ---- values ---- */

static void forward(ct_context *context) {
    tape *t = new_tape();
    const double x = draw(context), y = draw(context);
    value a = leaf(t, x), b = leaf(t, y), sum = add(t, a, b), product = mul(t, a, b),
          e = exp_of(t, b), h = tanh_of(t, a), square = mul(t, a, a);
    data(t, "a leaf a", a, x), data(t, "a leaf b", b, y);
    data(t, "a + b", sum, x + y), data(t, "a * b", product, x * y);
    data(t, "exp(b)", e, exp(y)), data(t, "tanh(a)", h, tanh(x)), data(t, "a * a", square, x * x);
    expect("the gradient of a before any backward", value_grad(t, a), 0);
    /* more than any first allocation has room for */
    value many = leaf(t, 0), two = leaf(t, -2);
    for (int i = 0; i < 100000; i++) many = add(t, many, two);
    data(t, "the sum of 100,000 times -2", many, -200000);
    data(t, "the first leaf after 100,000 more values", a, x);
    tape *other = new_tape();
    value c = leaf(other, 7);
    data(t, "the first tape's first leaf after a second tape was made", a, x);
    data(other, "the second tape's 7", c, 7);
    tape_free(other), tape_free(t);
}

static void check_neuron(double w0, double x0, double b0) {
    tape *t = new_tape();
    value w = leaf(t, w0), x = leaf(t, x0), b = leaf(t, b0), wx = mul(t, w, x), z = add(t, wx, b),
          y = tanh_of(t, z);
    const double z0 = w0 * x0 + b0, slope = 1 - tanh(z0) * tanh(z0);
    data(t, "tanh(w x + b)", y, tanh(z0));
    tape_backward(t, y);
    gradient(t, "the gradient of y itself", y, 1, NAN, "");
    gradient(t, "the gradient of z = w x + b", z, slope, 1 - z0 * z0,
             "this is 1 - z^2: the derivative of tanh(z) is 1 - tanh(z)^2");
    gradient(t, "the gradient of w x", wx, slope, NAN, "");
    gradient(t, "the gradient of b", b, slope, NAN, "");
    gradient(t, "the gradient of w", w, slope * x0, slope * w0, "this is the gradient of x");
    gradient(t, "the gradient of x", x, slope * w0, slope * x0, "this is the gradient of w");
    tape_free(t);
}

/* The example of README.md, exercise 01's neuron; then others. */
static void neuron(ct_context *context) {
    check_neuron(2, 0.5, log(2) - 1);
    for (int i = 0; i < 3; i++) check_neuron(draw(context), draw(context), draw(context));
}

static void chain(ct_context *context) {
    tape *t = new_tape();
    const double x0 = draw(context), z0 = draw(context);
    value x = leaf(t, x0), e = exp_of(t, x), h = tanh_of(t, e), y = exp_of(t, h);
    tape_backward(t, y);
    const double ex = exp(x0), hx = tanh(ex);
    data(t, "exp(tanh(exp(x)))", y, exp(hx));
    gradient(t, "the gradient of tanh(...)", h, exp(hx), NAN, "");
    gradient(t, "the gradient of exp(x)", e, exp(hx) * (1 - hx * hx), 1 - hx * hx,
             "this is the last factor alone: the chain rule multiplies it by what has arrived");
    gradient(t, "the gradient of x", x, exp(hx) * (1 - hx * hx) * ex, NAN, "");
    value z = leaf(t, z0), at = z;
    double derivative = 1, here = z0;
    for (int i = 0; i < 30; i++) {
        at = tanh_of(t, at), here = tanh(here);
        derivative *= 1 - here * here;
    }
    tape_backward(t, at);
    gradient(t, "the gradient of z through 30 times tanh", z, derivative, NAN, "");
    tape_free(t);
}

/* ---- several uses ---- */

static void diamond(ct_context *context) {
    tape *t = new_tape();
    const double x0 = draw(context), u0 = draw(context);
    /* x is used by two, and both by one */
    value x = leaf(t, x0), e = exp_of(t, x), h = tanh_of(t, x), y = mul(t, e, h);
    tape_backward(t, y);
    const double ex = exp(x0), hx = tanh(x0);
    gradient(t, "the gradient of x in exp(x) tanh(x)", x, ex * hx + ex * (1 - hx * hx), ex * hx,
             "this is the path through exp alone");
    tape_free(t);
    /* a is complete only when the short path and the long one have arrived */
    t = new_tape();
    value u = leaf(t, u0), a = exp_of(t, u), b = exp_of(t, a), c = tanh_of(t, b), z = add(t, a, c);
    tape_backward(t, z);
    const double ax = exp(u0), bx = exp(ax), cx = tanh(bx), da = 1 + (1 - cx * cx) * bx;
    gradient(t, "with a = exp(u): the gradient of a in a + tanh(exp(a))", a, da, NAN, "");
    gradient(t, "with a = exp(u): the gradient of u in a + tanh(exp(a))", u, da * ax, (1 + da) * ax,
             "here a has sent to u twice, the first time before all had arrived at a: a value must "
             "wait for all its uses");
    tape_free(t);
}

static void many_uses(ct_context *context) {
    static const char *const last = "this is one use alone: = for +=";
    tape *t = new_tape();
    const double y0 = draw(context);
    value x = leaf(t, draw(context)), twice = add(t, x, x);
    tape_backward(t, twice);
    gradient(t, "the gradient of x in x + x", x, 2, 1, last);
    value y = leaf(t, y0), square = mul(t, y, y);
    tape_backward(t, square);
    gradient(t, "the gradient of y in y y", y, 2 * y0, y0, last);
    value z = leaf(t, draw(context)), one = leaf(t, 1), sum = leaf(t, 0);
    for (int i = 1; i <= 1000; i++) sum = add(t, sum, mul(t, z, leaf(t, i)));
    tape_backward(t, mul(t, sum, one));
    gradient(t, "the gradient of z in z + 2 z + ... + 1000 z", z, 500500, 1000, last);
    tape_free(t);
}

/* Values that `from` was not computed from. */
static void elsewhere(ct_context *context) {
    tape *t = new_tape();
    const double x0 = draw(context);
    value x = leaf(t, x0), y = leaf(t, draw(context)), middle = mul(t, x, x), beside = exp_of(t, x),
          later = mul(t, middle, y);
    tape_backward(t, middle);
    gradient(t, "backward from x^2: the gradient of x", x, 2 * x0, NAN, "");
    gradient(t, "the gradient of exp(x), which x^2 was not computed from", beside, 0, NAN, "");
    gradient(t, "the gradient of what was computed from x^2 later", later, 0, 1,
             "backward begins at `from`, and not at what was recorded last");
    gradient(t, "the gradient of y, which was used later", y, 0, NAN, "");
    tape_backward(t, y);
    gradient(t, "backward from a leaf: its gradient", y, 1, NAN, "");
    tape_free(t);
    /* infinity beside the path: 0 times it is not a number */
    t = new_tape();
    value u = leaf(t, 800), infinite = exp_of(t, u), more = mul(t, infinite, u), h = tanh_of(t, u),
          z = add(t, h, u);
    (void)more;
    tape_backward(t, z);
    course_hint("%s", isnan(value_grad(t, u)) ? "0 times infinity: a value that no gradient has "
                                                "reached sends nothing, not 0 times its derivative"
                                              : "");
    expect("beside exp(800), which is infinite: the gradient of u in tanh(u) + u", value_grad(t, u),
           1);
    course_hint("%s", "");
    tape_free(t);
}

/* ---- several backwards ---- */

static void accumulate(ct_context *context) {
    tape *t = new_tape();
    const double x0 = draw(context), a0 = x0 * x0;
    value x = leaf(t, x0), a = mul(t, x, x), b = exp_of(t, a), c = tanh_of(t, a);
    const double da = exp(a0), dc = 1 - tanh(a0) * tanh(a0), dx = 2 * x0;
    tape_backward(t, b);
    gradient(t, "the gradient of x after one backward", x, da * dx, NAN, "");
    tape_backward(t, b);
    static const char *const stale = "the second backward has sent once more what the first had "
                                     "left in the values between";
    gradient(t, "the gradient of x after two backwards from the same value", x, 2 * da * dx,
             3 * da * dx, stale);
    gradient(t, "the gradient of a after two backwards from the same value", a, 2 * da, 3 * da,
             stale);
    gradient(t, "the gradient of b after two backwards from it", b, 2, 1,
             "1 is added to it, not written over it");
    tape_backward(t, c);
    gradient(t, "the gradient of a after two backwards from b and one from c", a, 2 * da + dc, NAN,
             "");
    gradient(t, "the gradient of x after two backwards from b and one from c", x,
             (2 * da + dc) * dx, NAN, "");
    tape_free(t);
}

static void zero(ct_context *context) {
    tape *t = new_tape();
    const double x0 = draw(context), factor = draw(context);
    value x = leaf(t, x0), k = leaf(t, factor), a = exp_of(t, x), y = mul(t, a, k);
    const double dy = factor * exp(x0);
    tape_backward(t, y);
    tape_zero_grad(t);
    gradient(t, "the gradient of x after zeroing", x, 0, NAN, "");
    gradient(t, "the gradient of exp(x), no leaf, after zeroing", a, 0, NAN, "");
    data(t, "k exp(x) after zeroing", y, dy);
    tape_backward(t, y);
    gradient(t, "the gradient of x after zeroing and another backward", x, dy, 2 * dy,
             "the gradients of before are still in it");
    value z = mul(t, y, x); /* a tape may grow after backward */
    tape_zero_grad(t);
    tape_backward(t, z);
    gradient(t, "the gradient of x in k exp(x) x, of which part was recorded after a backward", x,
             (1 + x0) * dy, NAN, "");
    tape_free(t);
}

/* ---- long graphs ---- */

static void long_graphs(ct_context *context) {
    /* 2^60 paths */
    tape *t = new_tape();
    value x = leaf(t, draw(context)), y = x;
    for (int i = 0; i < 60; i++) y = add(t, y, y);
    tape_backward(t, y);
    gradient(t, "the gradient of x after 60 times y = y + y", x, ldexp(1, 60), NAN, "");
    tape_free(t);
    t = new_tape();
    enum { LONG = 1000000 };
    value first = leaf(t, 0), one = leaf(t, 1), at = first;
    for (int i = 0; i < LONG; i++) at = add(t, at, one);
    tape_backward(t, at);
    data(t, "0 + 1 + ... + 1", at, LONG);
    gradient(t, "the gradient of the first of a million additions", first, 1, NAN, "");
    gradient(t, "the gradient of what was used a million times", one, LONG, NAN, "");
    tape_free(t);
}

/* ---- a network ---- */

/* Exclusive or: y = tanh(w2 tanh(w1 x + b1) + b2). A new tape for each step. */
enum { HIDDEN = 4, WEIGHTS = HIDDEN * 4 + 1, TRAINING = 300 };

static value network(tape *t, const value *w, value x0, value x1) {
    value sum = w[4 * HIDDEN];
    for (int i = 0; i < HIDDEN; i++, w += 4) {
        value z = add(t, add(t, mul(t, w[0], x0), mul(t, w[1], x1)), w[2]);
        sum = add(t, sum, mul(t, w[3], tanh_of(t, z)));
    }
    return tanh_of(t, sum);
}

static void learns(ct_context *context) {
    double weights[WEIGHTS], loss = 0;
    ct_seed(context, 3);
    if (!ct_to_f64(course_randn(context, CT_SHAPE(WEIGHTS)), weights, WEIGHTS))
        course_fail("%s", ct_error_message(context));
    for (int step = 0; step < TRAINING; step++) {
        tape *t = new_tape();
        value w[WEIGHTS], total = leaf(t, 0), minus_one = leaf(t, -1);
        for (int i = 0; i < WEIGHTS; i++) w[i] = leaf(t, weights[i]);
        for (int i = 0; i < 4; i++) {
            const int a = i & 1, b = i >> 1;
            value target = leaf(t, a != b ? 0.9 : -0.9),
                  y = network(t, w, leaf(t, a ? 1 : -1), leaf(t, b ? 1 : -1)),
                  error = add(t, y, mul(t, target, minus_one));
            total = add(t, total, mul(t, error, error));
        }
        loss = value_data(t, total);
        tape_backward(t, total);
        for (int i = 0; i < WEIGHTS; i++) weights[i] -= 0.1 * value_grad(t, w[i]);
        tape_free(t);
    }
    if (!(loss < 0.01))
        course_fail("the network has not learnt exclusive or: the loss is %.4g after %d steps, and "
                    "must be below 0.01",
                    loss, TRAINING);
}

const course_test course_tests[] = {
    {"forward", 1, forward},       {"neuron", 1, neuron},       {"chain", 1, chain},
    {"diamond", 1, diamond},       {"many_uses", 1, many_uses}, {"elsewhere", 1, elsewhere},
    {"accumulate", 1, accumulate}, {"zero", 1, zero},           {"long_graphs", 1, long_graphs},
    {"learns", 1, learns},
};
const int course_test_count = sizeof course_tests / sizeof *course_tests;
