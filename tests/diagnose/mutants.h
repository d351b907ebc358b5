/* Correct backwards, each with places that can be made wrong. M("kind: name", right, wrong) is the
 * right expression, unless this mutation is chosen. The kind determines which diagnoses are
 * accepted. A mutation is listed only if it changes some gradient. */
#ifndef MUTANTS_H
#define MUTANTS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    int64_t n, m; /* elements of input 0 and of the output */
    const double *x[3];
    double *y;       /* the forward's output; initially zeros */
    const double *g; /* the cotangent */
    double *dx[3];   /* initially zeros */
} numbers;

/* The mutations met so far in the backward that runs, and the chosen one (-1: none). */
enum { MOST_MUTATIONS = 64 };
static const char *met[MOST_MUTATIONS];
static int met_count, chosen = -1;

static bool mutated(const char *name) {
    int at = 0;
    while (at < met_count && strcmp(met[at], name)) at++;
    if (at == met_count && met_count < MOST_MUTATIONS) met[met_count++] = name;
    return at == chosen;
}
#define M(name, right, wrong) (mutated(name) ? (wrong) : (right))
/* A statement that a mutation adds. */
#define IF(name) if (mutated(name))

#define EACH(i, n) for (int64_t i = 0; i < (n); i++)
#define OP(name)   static void name(numbers *s)
#define X          s->x[0]
#define B          s->x[1]
#define C          s->x[2]
#define Y          s->y
#define G          s->g
#define DX         s->dx[0]
#define DB         s->dx[1]
#define DC         s->dx[2]

/* Mutations that any elementwise backward may have; `d` is the derivative of y[i] by x[i]. */
static double clip(double v, double most) { return v > most ? most : v < -most ? -most : v; }
static double elementwise(numbers *s, int64_t i, double d) {
    double g = M("cotangent: clipped", G[i], clip(G[i], 0.5));
    g = M("cotangent: clipped when large", g, clip(g, 100));
    g = M("cotangent: its sign is lost", g, fabs(g));
    d = M("sign: all", d, -d), d = M("factor: half", d, d / 2);
    d = M("rounding: the derivative as a float", d, (double)(float)d);
    d = M("threshold: above 0.3", d, X[i] > 0.3 ? 0.8 * d : d);
    d = M("threshold: below -0.2", d, X[i] < -0.2 ? d - 0.5 : d);
    d = M("threshold: small ones", d, fabs(X[i]) < 0.4 ? 0 : d);
    d = M("residual: once too often", d, d + 1);
    d = M("residual: not passed on", d, d - 1);
    d = M("chain: the input too many", d, d * X[i]);
    d = M("chain: the output too many", d, d * Y[i]);
    d = M("chain: the square of the output", d, d * Y[i] * Y[i]);
    d = M("rows: each column its own factor", d, d * (1 + 0.1 * (double)(i % 5)));
    d = M("zero: nothing", d, 0);
    return M("rounding: the product as a float", g * d, (double)((float)g * (float)d));
}
static void unary(numbers *s, double (*derivative)(double x, double y)) {
    EACH(i, s->n) {
        int64_t at = M("index: the next element's input", i, (i + 1) % s->n);
        double y = M("value: y for x", Y[at], Y[at]);
        double x = M("value: y for x", X[at], Y[at]);
        const double d = elementwise(s, i, derivative(x, y));
        const int64_t to = M("index: written one further", i, i + 1);
        if (to >= s->n) continue;
        DX[to] = M("bounds: the last is left out", d, i + 1 < s->n ? d : 0);
    }
}
#define UNARY(name, value, slope)                                                                  \
    static double name##_of(double x) { return value; }                                            \
    static double name##_slope(double x, double y) { return (void)x, (void)y, slope; }             \
    OP(name) { EACH(i, s->n) Y[i] = name##_of(X[i]); }                                             \
    OP(name##_back) { unary(s, name##_slope); }

static double logistic(double x) { return 1 / (1 + exp(-x)); }

UNARY(sigmoid, logistic(x),
      y * (1 - M("formula: y for y^2", y, sqrt(y))) * M("sign: 1 + y", 1, (1 + y) / (1 - y)))
UNARY(tangent, tanh(x), 1 - M("chain: y for its square", y *y, y) * M("sign: 1 + y^2", 1, -1))
UNARY(silu, x *logistic(x),
      M("product: one factor is constant", logistic(x), 0) +
          M("product: the other is", x *logistic(x) * (1 - logistic(x)), 0) *
              M("sign: of a term", 1, -1))
UNARY(gelu, 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))),
      0.5 * (1 + tanh(0.7978845608028654 *
                      (x + M("constant: 0.044715", 0.044715, 0.0447) * x * x * x))) +
          M("term: the second half", 0.5, 0) * x *
              (1 - pow(tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)), 2)) *
              0.7978845608028654 *
              (1 +
               M("constant: 3", 3, 2) * M("constant: 0.044715 again", 0.044715, 0.44715) * x * x))
UNARY(elu, x > 0 ? x : exp(x) - 1,
      x > 0 ? M("threshold: slope on the right", 1, 1.5)
            : M("threshold: slope on the left", exp(x), exp(x) - 1))
UNARY(cubed, x *x *x, M("constant: 3", 3, 2) * M("constant: power", x *x, fabs(x) * sqrt(fabs(x))))
UNARY(arctan, atan(x),
      1 / (M("constant: 1", 1, 1.25) + x * x) *
          M("sign: 1 - x^2", 1, (1 + x * x) / (1.0001 - x * x)))
UNARY(softplus, log(1 + exp(2 * x)) / 2, 1 / (1 + exp(M("constant: beta", -2, -1) * x)))
UNARY(wave, sin(3 * x) + x, M("constant: 3", 3, 1) * cos(3 * x) + M("residual: forgotten", 1, 0))
UNARY(rooted, sqrt(1 + x * x), x / M("chain: the root", y, 1) * M("constant: two", 1, 2))
UNARY(huber, fabs(x) < 0.5 ? x * x / 2 : 0.5 * (fabs(x) - 0.25),
      fabs(x) < 0.5 ? x : M("threshold: the linear part", x > 0 ? 0.5 : -0.5, x))
UNARY(exponential, exp(0.7 * x), 0.7 * M("value: x for y", y, x))

/* ---- of two inputs of one shape ---- */

OP(times) { EACH(i, s->n) Y[i] = X[i] * B[i]; }
OP(times_back) {
    EACH(i, s->n) {
        DX[i] = G[i] * M("operand: itself", B[i], X[i]) * M("exchanged: both", 1, X[i] / B[i]);
        DX[i] *= M("factor: 1.5", 1, 1.5);
        DB[i] = G[i] * M("operand: the output", X[i], Y[i]) * M("exchanged: both", 1, B[i] / X[i]);
        DB[i] = M("cotangent: passed on alone", DB[i], G[i]);
        DB[i] += M("cotangent: a constant is added", 0, 0.25);
        DX[i] = M("cotangent: ignored", DX[i], B[i]);
    }
}
OP(ratio) { EACH(i, s->n) Y[i] = X[i] / (2 + B[i] * B[i]); }
OP(ratio_back) {
    EACH(i, s->n) {
        const double d = 2 + B[i] * B[i];
        DX[i] =
            G[i] / M("chain: not squared", d, d * d) * M("rows: by index", 1, (double)(i / 4 + 1));
        DB[i] = M("sign: of the second", -2.0, 2.0) * G[i] * B[i] *
                M("operand: y for x", X[i], Y[i]) / M("chain: the square is missing", d * d, d);
        DB[i] *= M("constant: 2", 1, 0.5);
    }
}
OP(distance) { EACH(i, s->n) Y[i] = (X[i] - B[i]) * (X[i] - B[i]) / 2 + 3 * X[i]; }
OP(distance_back) {
    EACH(i, s->n) {
        const double e = X[i] - M("term: the other input", B[i], 0);
        DX[i] = G[i] * (e + M("residual: 3", 3, 0));
        DB[i] = G[i] * M("sign: of b", -e, e);
        DB[i] = M("exchanged: a's gradient", DB[i], DX[i]);
    }
}

/* ---- broadcasts: x (4, 5), b (5), c (4, 1) ---- */

OP(affine) { EACH(i, 20) Y[i] = X[i] * B[i % 5] + C[i / 5]; }
OP(affine_back) {
    EACH(i, 20) {
        const int64_t r = i / 5, c = i % 5;
        DX[i] = G[i] * B[M("index: of the row", c, (c + 1) % 5)];
        DB[c] += M("sum: only the first row", 1, r == 0) * G[i] * X[i];
        IF("sum: assigned") DB[c] = G[i] * X[i];
        IF("bounds: the last row is left out") if (r == 3) DB[c] -= G[i] * X[i];
        DC[M("sum: of the other dim", r, c % 4)] += G[i];
        IF("sum: only the last") DC[r] = G[i];
    }
    EACH(c, 5) DB[c] *= M("factor: a mean of rows", 1, 0.25);
    EACH(r, 4) DC[r] *= M("factor: a mean of columns", 1, 0.2) * M("sign: of c", 1, -1);
}

/* ---- reductions of x (4, 5) ---- */

static double mean_of(const double *x, int64_t n) {
    double sum = 0;
    EACH(i, n) sum += x[i];
    return sum / (double)n;
}
OP(variance) { EACH(r, 4) EACH(c, 5) Y[r] += pow(X[r * 5 + c] - mean_of(X + r * 5, 5), 2) / 4; }
OP(variance_back) {
    EACH(i, 20) {
        const int64_t r = i / 5;
        const double mean = M("term: the mean", mean_of(X + r * 5, 5), 0);
        DX[i] = G[M("index: row", r, (r + 1) % 4)] * 2 * (X[i] - mean) /
                M("factor: n for n - 1", 4, 5) * M("factor: 2", 1, 0.5);
        IF("index: transposed") DX[i] = G[r] * 2 * (X[i % 4 * 5 + i / 4] - mean) / 4;
    }
}
OP(norm) {
    EACH(i, 20) Y[0] += X[i] * X[i];
    Y[0] = sqrt(Y[0]);
}
OP(norm_back) {
    EACH(i, 20)
    DX[i] = G[0] * X[i] / M("chain: the norm", Y[0], 1) / M("chain: squared", 1, Y[0]) *
            M("factor: 2", 1, 2) * M("sign: all", 1, -1);
}
OP(log_sum) {
    EACH(r, 4) {
        EACH(c, 5) Y[r] += exp(X[r * 5 + c]);
        Y[r] = log(Y[r]);
    }
}
OP(log_sum_back) {
    EACH(i, 20) {
        const double p = exp(X[i] - M("rows: the sum is forgotten", Y[i / 5], 0));
        DX[i] = G[i / 5] * M("chain: the softmax", p, 1) * M("formula: 1 - p", 1, 1 - p);
        DX[i] = M("factor: a mean", DX[i], DX[i] / 5);
        DX[i] = M("rounding: a float", DX[i], (double)((float)G[i / 5] * (float)p));
        DX[i] = M("cotangent: the mean of it", DX[i], mean_of(G, 4) * p);
    }
}
OP(all_mean) { Y[0] = mean_of(X, 20) + X[3] * X[3]; }
OP(all_mean_back) {
    EACH(i, 20) DX[i] = G[0] * M("factor: a sum", 0.05, 1.0);
    DX[3] += M("term: of one element", 2, 0) * X[3] * G[0];
}
OP(product_of_row) {
    EACH(r, 4) {
        Y[r] = 1;
        EACH(c, 5) Y[r] *= X[r * 5 + c];
    }
}
OP(product_of_row_back) {
    EACH(i, 20) DX[i] = G[i / 5] * M("chain: not divided", Y[i / 5] / X[i], Y[i / 5]);
    EACH(i, 20) DX[i] *= M("chain: the output twice", 1, Y[i / 5]);
}
OP(peak) { /* the largest of each row */
    EACH(r, 4) {
        Y[r] = X[r * 5];
        EACH(c, 5) Y[r] = fmax(Y[r], X[r * 5 + c]);
    }
}
OP(peak_back) {
    EACH(r, 4) {
        int64_t top = 0, low = 0;
        EACH(c, 5) if (X[r * 5 + c] > X[r * 5 + top]) top = c;
        EACH(c, 5) if (X[r * 5 + c] < X[r * 5 + low]) low = c;
        const int64_t next = (top + 1) % 5;
        DX[r * 5 + M("index: the smallest", top, low)] =
            G[M("index: row", r, 3 - r)] * M("factor: of the row", 1, 0.2);
        IF("index: the next") DX[r * 5 + top] = 0, DX[r * 5 + next] = G[r];
        IF("mask: every element") EACH(c, 5) DX[r * 5 + c] = G[r];
    }
}

/* ---- rows of x (4, 5) ---- */

static void softmax_row(const double *x, int64_t n, double *p) {
    double sum = 0;
    EACH(c, n) sum += p[c] = exp(x[c]);
    EACH(c, n) p[c] /= sum;
}
OP(softmax) { EACH(r, 4) softmax_row(X + r * 5, 5, Y + r * 5); }
OP(softmax_back) {
    EACH(i, 20) {
        const int64_t r = i / 5, c = i % 5;
        double sum = 0, other = 0, sum_of_g = 0;
        EACH(k, M("bounds: the sum stops early", 5, 4)) sum += G[r * 5 + k] * Y[r * 5 + k];
        EACH(k, 5) sum_of_g += G[r * 5 + k];
        EACH(k, 4) other += G[k * 5 + c] * Y[k * 5 + c];
        sum = M("sum: over the other dim", sum, other);
        sum = M("term: the sum without y", sum, sum_of_g);
        sum = M("rounding: the sum in f32", sum, (double)(float)sum);
        DX[i] = M("term: y", Y[i], 1) *
                (M("term: g", G[i], 0) - M("term: the sum", 1, 0) * M("sign: of it", 1, -1) *
                                             M("constant: 1", 1, 0.5) * sum);
        DX[i] *= M("rows: of each row", 1, 1 + 0.2 * (double)r);
    }
}
OP(log_softmax) {
    EACH(r, 4) {
        double p[5];
        softmax_row(X + r * 5, 5, p);
        EACH(c, 5) Y[r * 5 + c] = log(p[c]);
    }
}
OP(log_softmax_back) {
    EACH(i, 20) {
        double sum = 0;
        EACH(k, 5) sum += G[i / 5 * 5 + k];
        DX[i] = G[i] - M("term: the sum", 1, 0) * M("value: y for e^y", exp(Y[i]), Y[i]) * sum *
                           M("factor: a mean", 1, 0.2);
        DX[i] = M("term: p", DX[i], G[i] - sum),
        DX[i] = M("sign: of the sum", DX[i], G[i] + exp(Y[i]) * sum);
    }
}
OP(layer_norm) { /* with weight b (5) and bias c (5) */
    EACH(r, 4) {
        const double *x = X + r * 5, mean = mean_of(x, 5);
        double var = 1e-2;
        EACH(c, 5) var += (x[c] - mean) * (x[c] - mean) / 5;
        EACH(c, 5) Y[r * 5 + c] = (x[c] - mean) / sqrt(var) * B[c] + C[c];
    }
}
OP(layer_norm_back) {
    EACH(r, 4) {
        const double *x = X + r * 5, *g = G + r * 5, mean = mean_of(x, 5);
        double var = M("constant: eps", 1e-2, 0.2), a = 0, b = 0, h[5], z[5];
        EACH(c, 5) var += (x[c] - mean) * (x[c] - mean) / M("constant: n - 1", 5, 4);
        EACH(c, 5) {
            z[c] = (x[c] - M("term: z without its mean", mean, 0)) / sqrt(var);
            h[c] = g[c] * M("chain: the weight", B[c], 1);
            a += h[c] / 5, b += h[c] * z[c] / 5;
        }
        EACH(c, 5) {
            DX[r * 5 + c] = (h[c] - M("term: the mean", a, 0) -
                             M("term: the projection", b, 0) * z[c] * M("sign: of it", 1, -1)) /
                            M("rows: not divided", sqrt(var), 1);
            DB[c] = M("sum: the last row alone", DB[c], 0) + g[c] * z[c];
            DC[c] += M("value: dw for db", g[c], g[c] * z[c]);
        }
        IF("exchanged: weight and bias") if (r == 3) EACH(c, 5) {
            const double t = DB[c];
            DB[c] = DC[c], DC[c] = t;
        }
    }
}
OP(rms_norm) {
    EACH(i, 20) {
        double square = 0;
        EACH(k, 5) square += X[i / 5 * 5 + k] * X[i / 5 * 5 + k] / 5;
        Y[i] = X[i] / sqrt(square);
    }
}
OP(rms_norm_back) {
    EACH(i, 20) {
        const int64_t r = i / 5 * 5;
        double square = 0, dot = 0;
        EACH(k, 5)
        square += X[r + k] * X[r + k] / 5, dot += G[r + k] * Y[r + k] / M("constant: a mean", 5, 1);
        const double scale = M("rows: not divided", sqrt(square), 1);
        DX[i] =
            (G[i] - M("term: the projection", dot, 0) * M("value: x for y", Y[i], X[i])) / scale;
        DX[i] /= M("rows: divided twice", 1, sqrt(square));
    }
}
OP(cross_entropy) { /* the mean of 4 rows; row r has target 2 r mod 5 */
    EACH(r, 4) {
        double p[5];
        softmax_row(X + r * 5, 5, p);
        Y[0] -= log(p[2 * r % 5]) / 4;
    }
}
OP(cross_entropy_back) {
    EACH(r, 4) {
        double p[5];
        softmax_row(X + r * 5, 5, p);
        EACH(c, 5) {
            const int64_t target = M("index: another target", 2 * r % 5, (2 * r + 1) % 5);
            DX[r * 5 + c] =
                G[0] * (p[c] - M("term: the target", c == target, 0)) / M("factor: a sum", 4, 1);
            IF("sign: all") DX[r * 5 + c] *= -1;
            IF("factor: elements for rows") DX[r * 5 + c] /= 5;
            IF("term: the target twice") DX[r * 5 + c] -= G[0] * (c == target) / 4;
        }
    }
}

/* ---- linear maps ---- */

OP(product) { /* (3, 4) (4, 4) */
    EACH(m, 3) EACH(n, 4) EACH(k, 4) Y[m * 4 + n] += X[m * 4 + k] * B[k * 4 + n];
}
OP(product_back) {
    EACH(m, 3) EACH(n, 4) EACH(k, 4) {
        const double g = G[m * 4 + M("index: of the cotangent", n, (n + 1) % 4)];
        DX[m * 4 + k] +=
            M("bounds: n stops early", 1, n < 3) * g * B[M("transposed: b", k * 4 + n, n * 4 + k)];
        DB[M("transposed: the result", k * 4 + n, n * 4 + k)] +=
            M("bounds: m begins late", 1, m > 0) * g * X[m * 4 + k] *
            M("factor: a mean", 1, 1. / 3);
        IF("sum: assigned") DB[k * 4 + n] = g * X[m * 4 + k];
        IF("index: k is shifted") DX[m * 4 + k] += g * (B[(k + 1) % 4 * 4 + n] - B[k * 4 + n]);
    }
}
OP(batched) { /* 3 of (2, 3) by one (3, 2) */
    EACH(b, 3)
    EACH(m, 2) EACH(n, 2) EACH(k, 3) Y[b * 4 + m * 2 + n] += X[b * 6 + m * 3 + k] * B[k * 2 + n];
}
OP(batched_back) {
    EACH(b, 3) EACH(m, 2) EACH(n, 2) EACH(k, 3) {
        const double g = G[b * 4 + m * 2 + n];
        DX[b * 6 + m * 3 + k] += g * B[k * 2 + n] * M("sign: all", 1, -1);
        const double part = g * X[b * 6 + m * 3 + k];
        DB[k * 2 + n] += M("sum: the first of the batch", part, b == 0 ? part : 0);
        IF("factor: a mean of the batch") DB[k * 2 + n] -= part * 2 / 3;
        IF("index: the other batch")
        DX[b * 6 + m * 3 + k] += (G[(b + 1) % 3 * 4 + m * 2 + n] - g) * B[k * 2 + n];
    }
}
OP(outer) { EACH(i, 5) EACH(j, 5) Y[i * 5 + j] = X[i] * B[j]; }
OP(outer_back) {
    EACH(i, 5) EACH(j, 5) {
        DX[i] += G[M("transposed: the cotangent", i * 5 + j, j * 5 + i)] *
                 M("operand: itself", B[j], X[j]);
        DB[j] += G[i * 5 + j] * X[M("index: i for j", i, j)];
    }
    IF("exchanged: both") EACH(i, 5) {
        const double t = DX[i];
        DX[i] = DB[i], DB[i] = t;
    }
}
OP(gram) { EACH(a, 3) EACH(b, 3) EACH(k, 4) Y[a * 3 + b] += X[a * 4 + k] * X[b * 4 + k]; }
OP(gram_back) {
    EACH(a, 3) EACH(b, 3) EACH(k, 4) {
        DX[a * 4 + k] += (G[a * 3 + b] + M("product: one half", G[b * 3 + a], 0)) * X[b * 4 + k];
        IF("factor: 2") DX[a * 4 + k] += (G[a * 3 + b] + G[b * 3 + a]) * X[b * 4 + k];
    }
}
OP(convolve) { EACH(t, 7) EACH(k, 3) Y[t] += X[t + k] * B[k]; } /* (9), kernel (3) */
OP(convolve_back) {
    EACH(t, 7) EACH(k, 3) {
        DX[M("index: shifted", t + k, t + k > 0 ? t + k - 1 : 0)] +=
            G[t] * B[M("reversed: the kernel", k, 2 - k)];
        DB[M("reversed: its gradient", k, 2 - k)] += G[t] * X[M("index: t alone", t + k, t)];
        IF("bounds: the kernel's last") if (k == 2) DX[t + k] -= G[t] * B[k];
        IF("sum: assigned") DX[t + k] = G[t] * B[k];
    }
}
OP(strided) { EACH(t, 4) EACH(k, 3) Y[t] += X[2 * t + k] * B[k]; } /* step 2 */
OP(strided_back) {
    EACH(t, 4) EACH(k, 3) {
        DX[M("index: without the step", 2 * t + k, t + k)] +=
            G[t] * B[M("reversed: the kernel", k, 2 - k)];
        DB[k] +=
            G[t] * X[2 * t + k] * M("factor: 2", 1, 2) * M("bounds: the last output", 1, t < 3);
    }
}
OP(running_sum) { EACH(r, 3) EACH(i, 6) EACH(j, i + 1) Y[r * 6 + i] += X[r * 6 + j]; }
OP(running_sum_back) {
    EACH(r, 3) EACH(i, 6) EACH(j, i + 1) {
        DX[r * 6 + M("transposed: the same way", j, i)] +=
            G[r * 6 + M("transposed: the same way", i, j)];
        IF("bounds: without itself") if (i == j) DX[r * 6 + j] -= G[r * 6 + i];
        IF("sum: assigned") DX[r * 6 + j] = G[r * 6 + i];
        IF("mask: all of the row") if (i == 5) EACH(k, 5 - j) DX[r * 6 + 5 - k] += G[r * 6 + j];
    }
}
static const int64_t chosen_row[] = {2, 0, 2, 3, 2, 1};
OP(rows_of) {
    EACH(t, 6) EACH(c, 3) Y[t * 3 + c] = X[chosen_row[t] * 3 + c] * X[chosen_row[t] * 3 + c];
}
OP(rows_of_back) {
    EACH(t, 6) EACH(c, 3) {
        const int64_t row = M("index: one further", chosen_row[t], (chosen_row[t] + 1) % 4);
        DX[row * 3 + c] += 2 * X[chosen_row[t] * 3 + c] * G[t * 3 + c];
        IF("sum: assigned") DX[row * 3 + c] = 2 * X[chosen_row[t] * 3 + c] * G[t * 3 + c];
        IF("bounds: the last is not read")
        if (t == 5) DX[row * 3 + c] -= 2 * X[chosen_row[t] * 3 + c] * G[t * 3 + c];
        IF("factor: of repeats") DX[row * 3 + c] -= X[chosen_row[t] * 3 + c] * G[t * 3 + c];
    }
}
OP(rotary) { /* pairs (j, j + 2) of 3 rows of 4 */
    EACH(r, 3) EACH(j, 2) {
        const double a = 0.7 * (double)(r + 1) / (double)(j + 1), *x = X + r * 4 + j;
        Y[r * 4 + j] = x[0] * cos(a) - x[2] * sin(a),
                  Y[r * 4 + j + 2] = x[0] * sin(a) + x[2] * cos(a);
    }
}
OP(rotary_back) {
    EACH(r, 3) EACH(j, 2) {
        const double a = 0.7 * (double)(r + M("index: position", 1, 0)) / (double)(j + 1),
                     *g = G + r * 4 + j;
        const double sign = M("transposed: the same way", 1, -1);
        DX[r * 4 + j] = g[0] * cos(a) + sign * g[2] * sin(a);
        DX[r * 4 + j + 2] = -sign * g[0] * sin(a) + g[2] * cos(a) * M("sign: of one", 1, -1);
    }
}
OP(attention) { /* q, k, v of (3, 2) */
    EACH(i, 3) {
        double z[3] = {0}, p[3];
        EACH(j, 3) EACH(d, 2) z[j] += X[i * 2 + d] * B[j * 2 + d] / sqrt(2);
        softmax_row(z, 3, p);
        EACH(j, 3) EACH(d, 2) Y[i * 2 + d] += p[j] * C[j * 2 + d];
    }
}
OP(attention_back) {
    EACH(i, 3) {
        double z[3] = {0}, p[3], dp[3] = {0}, sum = 0;
        EACH(j, 3) EACH(d, 2) z[j] += X[i * 2 + d] * B[j * 2 + d] / sqrt(2);
        softmax_row(z, 3, p);
        EACH(j, 3) EACH(d, 2) dp[j] += G[i * 2 + d] * C[j * 2 + d];
        EACH(j, 3) sum += p[j] * dp[j];
        EACH(j, 3) EACH(d, 2) {
            const double dz = p[j] * (dp[j] - M("term: the sum of the row", sum, 0)) /
                              M("factor: the scale", sqrt(2), 1);
            DX[i * 2 + d] += dz * M("operand: q for k", B[j * 2 + d], X[j * 2 + d]);
            DB[j * 2 + d] += dz * X[M("index: j for i", i, j) * 2 + d];
            DC[M("transposed: p", j, i) * 2 + d] += p[j] * G[M("transposed: p", i, j) * 2 + d];
            IF("sum: assigned") DC[j * 2 + d] = p[j] * G[i * 2 + d];
        }
    }
    IF("exchanged: keys and values") EACH(i, 6) {
        const double t = DB[i];
        DB[i] = DC[i], DC[i] = t;
    }
}

#endif
