/* The arithmetic of the ops in test_gradcheck_mistakes.c: forwards, right backwards (NAME_right)
 * and wrong ones, as functions on arrays of doubles. */
#ifndef WRONG_OPS_H
#define WRONG_OPS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct {
    /* input 0 as a matrix, whose last dim is the columns; n and m: the numbers of elements of input
     * 0 and of the output */
    int64_t rows, columns, n, m;
    const double *x[2];
    double *y;
    const double *g;
    double *dx[2]; /* initially zeros */
} numbers;
typedef void work(numbers *s);

#define EACH(i, n) for (int64_t i = 0; i < (n); i++)
#define WORK(name) static void name(numbers *s)

/* ---- elementwise ---- */

WORK(square) { EACH(i, s->n) s->y[i] = s->x[0][i] * s->x[0][i]; }
WORK(square_right) { EACH(i, s->n) s->dx[0][i] = 2 * s->x[0][i] * s->g[i]; }
WORK(square_sign) { EACH(i, s->n) s->dx[0][i] = -2 * s->x[0][i] * s->g[i]; }
WORK(square_twice) { EACH(i, s->n) s->dx[0][i] = 4 * s->x[0][i] * s->g[i]; }
WORK(square_tenth) { EACH(i, s->n) s->dx[0][i] = -0.2 * s->x[0][i] * s->g[i]; }
WORK(square_zero) { (void)s; }
WORK(square_ignoring) { EACH(i, s->n) s->dx[0][i] = 2 * s->x[0][i]; }
WORK(square_offset) { EACH(i, s->n) s->dx[0][i] = 2 * s->x[0][i] * s->g[i] + 0.25 * (double)i; }
WORK(square_nonlinear) { EACH(i, s->n) s->dx[0][i] = 2 * s->x[0][i] * s->g[i] * s->g[i]; }
WORK(square_first) {
    s->dx[0][0] = 2 * s->x[0][0] * s->g[0];
    EACH(i, s->n) s->dx[0][i] = 2 * s->x[0][i] * s->g[i] * (i < 8);
}
WORK(square_tail) {
    EACH(i, s->n) s->dx[0][i] = i < s->n / 8 * 8 ? 2 * s->x[0][i] * s->g[i] : 0.5 * s->g[i];
}
WORK(square_row_tail) {
    EACH(i, s->n)
    s->dx[0][i] = 2 * s->x[0][i] * s->g[i] * (i % s->columns < s->columns / 4 * 4 ? 1 : 0);
}
WORK(square_last) { EACH(i, s->n) s->dx[0][i] = i < s->n - 1 ? 2 * s->x[0][i] * s->g[i] : 0; }
WORK(square_every) {
    EACH(i, s->n)
    s->dx[0][i] = 2 * s->x[0][i] * (i % 4 == 0 ? s->g[(i + 1) % s->n] * 1.5 : s->g[i]);
}
WORK(square_random) {
    EACH(i, s->n) s->dx[0][i] = 2 * s->x[0][i] * s->g[i] * (1 + 0.3 * sin(40.0 * (double)i));
}
WORK(square_handed_on) { EACH(i, s->n) s->dx[0][i] = s->g[i]; }
WORK(square_nan) { EACH(i, s->n) s->dx[0][i] = i == 3 ? (double)NAN : 2 * s->x[0][i] * s->g[i]; }
WORK(square_reversed) { EACH(i, s->n) s->dx[0][s->n - 1 - i] = 2 * s->x[0][i] * s->g[i]; }
WORK(square_shifted) {
    EACH(i, s->n) s->dx[0][i] = 2 * s->x[0][(i + 1) % s->n] * s->g[(i + 1) % s->n];
}
WORK(square_cotangent_shifted) {
    EACH(i, s->n) s->dx[0][i] = 2 * s->x[0][i] * s->g[(i + 1) % s->n];
}
WORK(square_swapped) {
    square_right(s);
    double t = s->dx[0][1];
    s->dx[0][1] = s->dx[0][4], s->dx[0][4] = t;
}
WORK(square_transposed) {
    EACH(r, s->rows)
    EACH(c, s->columns)
    s->dx[0][c * s->rows + r] = 2 * s->x[0][r * s->columns + c] * s->g[r * s->columns + c];
}
WORK(square_reads_transposed) {
    EACH(r, s->rows)
    EACH(c, s->columns)
    s->dx[0][r * s->columns + c] = 2 * s->x[0][r * s->columns + c] * s->g[c * s->rows + r];
}
WORK(square_permuted) {
    EACH(a, 2)
    EACH(b, 3)
    EACH(c, 4)
    s->dx[0][(c * 2 + a) * 3 + b] = 2 * s->x[0][(a * 3 + b) * 4 + c] * s->g[(a * 3 + b) * 4 + c];
}

WORK(square_in_f32) {
    EACH(i, s->n) s->dx[0][i] = (double)((float)(2 * s->x[0][i]) * (float)s->g[i]);
}
WORK(square_clipped) {
    EACH(i, s->n) {
        const double g = s->g[i];
        s->dx[0][i] = 2 * s->x[0][i] * (g > 20 ? 20 : g < -20 ? -20 : g);
    }
}
WORK(square_above) {
    EACH(i, s->n) s->dx[0][i] = 2 * s->x[0][i] * s->g[i] * (s->x[0][i] > 0.2 ? 0.5 : 1);
}
WORK(square_by_rows) {
    EACH(i, s->n)
    s->dx[0][i] = 2 * s->x[0][i] * s->g[i] * (1 + (double)(i / s->columns));
}
WORK(square_beside) {
    EACH(i, s->n)
    s->dx[0][i] = i + 1 < s->n ? 2 * s->x[0][i + 1] * s->g[i] : 2 * s->x[0][i] * s->g[i];
}
WORK(bend) { EACH(i, s->n) s->y[i] = s->x[0][i] + sin(3 * s->x[0][i]); }
WORK(bend_right) { EACH(i, s->n) s->dx[0][i] = s->g[i] * (1 + 3 * cos(3 * s->x[0][i])); }
WORK(bend_without_x) { EACH(i, s->n) s->dx[0][i] = s->g[i] * 3 * cos(3 * s->x[0][i]); }
WORK(bend_slower) { EACH(i, s->n) s->dx[0][i] = s->g[i] * (1 + 3 * cos(2.5 * s->x[0][i])); }
WORK(length) {
    EACH(i, s->n) s->y[0] += s->x[0][i] * s->x[0][i];
    s->y[0] = sqrt(s->y[0]);
}
WORK(length_right) { EACH(i, s->n) s->dx[0][i] = s->g[0] * s->x[0][i] / s->y[0]; }
WORK(length_undivided) { EACH(i, s->n) s->dx[0][i] = s->g[0] * s->x[0][i]; }
WORK(spread_of) { /* the variance of all elements, with divisor n - 1 */
    double mean_ = 0;
    EACH(i, s->n) mean_ += s->x[0][i] / (double)s->n;
    EACH(i, s->n) s->y[0] += (s->x[0][i] - mean_) * (s->x[0][i] - mean_) / (double)(s->n - 1);
}
WORK(spread_over_n) {
    double mean_ = 0;
    EACH(i, s->n) mean_ += s->x[0][i] / (double)s->n;
    EACH(i, s->n) s->dx[0][i] = 2 * (s->x[0][i] - mean_) / (double)s->n * s->g[0];
}
WORK(times) { EACH(i, s->n) s->y[i] = s->x[0][i] * s->x[1][i] * s->x[1][i]; }
WORK(times_exchanged) {
    EACH(i, s->n) {
        s->dx[1][i] = s->g[i] * s->x[1][i] * s->x[1][i];
        s->dx[0][i] = s->g[i] * 2 * s->x[0][i] * s->x[1][i];
    }
}
WORK(times_itself) {
    EACH(i, s->n) {
        s->dx[0][i] = s->g[i] * s->x[0][i] * s->x[0][i];
        s->dx[1][i] = s->g[i] * 2 * s->x[0][i] * s->x[1][i];
    }
}
WORK(filter) { EACH(t, 7) EACH(k, 3) s->y[t] += s->x[0][t + k] * s->x[1][k]; }
WORK(filter_reversed) {
    EACH(t, 7) EACH(k, 3) {
        s->dx[0][t + k] += s->g[t] * s->x[1][2 - k];
        s->dx[1][k] += s->g[t] * s->x[0][t + k];
    }
}
WORK(steps) { EACH(i, s->n) EACH(j, i + 1) s->y[i] += s->x[0][j]; }
WORK(steps_same_way) { EACH(i, s->n) EACH(j, i + 1) s->dx[0][i] += s->g[j]; }
WORK(cubic) { s->y[0] = s->x[0][0] * s->x[0][0] * s->x[0][0]; }
WORK(cubic_square) { s->dx[0][0] = 2 * s->x[0][0] * s->g[0]; }

WORK(cube) { EACH(i, s->n) s->y[i] = s->x[0][i] * s->x[0][i] * s->x[0][i]; }
WORK(cube_less) { EACH(i, s->n) s->dx[0][i] = 3 * s->x[0][i] * s->g[i]; }
WORK(cube_more) { EACH(i, s->n) s->dx[0][i] = 3 * pow(s->x[0][i], 5) * s->g[i]; }

WORK(triple) { EACH(i, s->n) s->y[i] = 3 * s->x[0][i]; }
WORK(triple_right) { EACH(i, s->n) s->dx[0][i] = 3 * s->g[i]; }
WORK(triple_of_mean) { EACH(i, s->n) EACH(j, s->n) s->dx[0][i] += 3 * s->g[j] / (double)s->n; }

WORK(relu) { EACH(i, s->n) s->y[i] = s->x[0][i] > 0 ? s->x[0][i] : 0; }
WORK(relu_right) { EACH(i, s->n) s->dx[0][i] = s->x[0][i] > 0 ? s->g[i] : 0; }
WORK(relu_maskless) { EACH(i, s->n) s->dx[0][i] = s->g[i]; }
WORK(dropout) { EACH(i, s->n) s->y[i] = i % 3 ? s->x[0][i] / 0.7 : 0; }
WORK(dropout_right) { EACH(i, s->n) s->dx[0][i] = i % 3 ? s->g[i] / 0.7 : 0; }
WORK(dropout_scaleless) { EACH(i, s->n) s->dx[0][i] = i % 3 ? s->g[i] : 0; }
WORK(dropout_twice) { EACH(i, s->n) s->dx[0][i] = i % 3 ? s->g[i] / 0.49 : 0; }
WORK(dropout_maskless) { EACH(i, s->n) s->dx[0][i] = s->g[i] / 0.7; }
WORK(dropout_nothing) { EACH(i, s->n) s->dx[0][i] = s->g[i]; }

static double logistic(double x) { return 1 / (1 + exp(-x)); }
WORK(silu) { EACH(i, s->n) s->y[i] = s->x[0][i] * logistic(s->x[0][i]); }
WORK(silu_right) {
    EACH(i, s->n) {
        double p = logistic(s->x[0][i]);
        s->dx[0][i] = s->g[i] * (p + s->x[0][i] * p * (1 - p));
    }
}
WORK(silu_first_half) { EACH(i, s->n) s->dx[0][i] = s->g[i] * logistic(s->x[0][i]); }
WORK(silu_second_half) {
    EACH(i, s->n) {
        double p = logistic(s->x[0][i]);
        s->dx[0][i] = s->g[i] * s->x[0][i] * p * (1 - p);
    }
}
WORK(silu_at_output) {
    EACH(i, s->n) {
        double p = logistic(s->y[i]);
        s->dx[0][i] = s->g[i] * (p + s->y[i] * p * (1 - p));
    }
}
WORK(tangent) { EACH(i, s->n) s->y[i] = tanh(s->x[0][i]); }
WORK(tangent_right) { EACH(i, s->n) s->dx[0][i] = s->g[i] * (1 - s->y[i] * s->y[i]); }
WORK(tangent_at_input) { EACH(i, s->n) s->dx[0][i] = s->g[i] * (1 - s->x[0][i] * s->x[0][i]); }

/* ---- rows ---- */

WORK(mean) { EACH(i, s->n) s->y[0] += s->x[0][i] / (double)s->n; }
WORK(mean_right) { EACH(i, s->n) s->dx[0][i] = s->g[0] / (double)s->n; }
WORK(mean_undivided) { EACH(i, s->n) s->dx[0][i] = s->g[0]; }
WORK(scaled) { EACH(i, s->n) s->y[i] = sin(s->x[0][i]) / sqrt((double)s->columns); }
WORK(scaled_right) {
    EACH(i, s->n) s->dx[0][i] = s->g[i] * cos(s->x[0][i]) / sqrt((double)s->columns);
}
WORK(scaled_unscaled) { EACH(i, s->n) s->dx[0][i] = s->g[i] * cos(s->x[0][i]); }
WORK(squares) { EACH(i, s->n) s->y[0] += s->x[0][i] * s->x[0][i]; }
WORK(squares_right) { EACH(i, s->n) s->dx[0][i] = 2 * s->x[0][i] * s->g[0]; }

WORK(softmax) {
    EACH(r, s->rows) {
        double sum = 0;
        EACH(c, s->columns) sum += s->y[r * s->columns + c] = exp(s->x[0][r * s->columns + c]);
        EACH(c, s->columns) s->y[r * s->columns + c] /= sum;
    }
}
static void softmax_less(numbers *s, bool by_row) {
    double all = 0;
    EACH(i, s->n) all += s->g[i] * s->y[i];
    EACH(r, s->rows) {
        const double *y = s->y + r * s->columns, *g = s->g + r * s->columns;
        double sum = 0;
        EACH(c, s->columns) sum += g[c] * y[c];
        EACH(c, s->columns) s->dx[0][r * s->columns + c] = y[c] * (g[c] - (by_row ? sum : all));
    }
}
WORK(softmax_right) { softmax_less(s, true); }
WORK(softmax_sums_all) { softmax_less(s, false); }
WORK(softmax_sumless) { EACH(i, s->n) s->dx[0][i] = s->y[i] * s->g[i]; }
WORK(softmax_diagonal) { EACH(i, s->n) s->dx[0][i] = s->y[i] * (1 - s->y[i]) * s->g[i]; }

WORK(cross_entropy) { /* the mean over rows; row r's target is 2 r mod columns */
    EACH(r, s->rows) {
        const double *x = s->x[0] + r * s->columns;
        double sum = 0;
        EACH(c, s->columns) sum += exp(x[c]);
        s->y[0] += (log(sum) - x[2 * r % s->columns]) / (double)s->rows;
    }
}
static void cross_entropy_less(numbers *s, bool target, double divisor) {
    EACH(r, s->rows) {
        const double *x = s->x[0] + r * s->columns;
        double sum = 0;
        EACH(c, s->columns) sum += exp(x[c]);
        EACH(c, s->columns)
        s->dx[0][r * s->columns + c] =
            s->g[0] * (exp(x[c]) / sum - (target && c == 2 * r % s->columns)) / divisor;
    }
}
WORK(cross_entropy_right) { cross_entropy_less(s, true, (double)s->rows); }
WORK(cross_entropy_targetless) { cross_entropy_less(s, false, (double)s->rows); }
WORK(cross_entropy_summed) { cross_entropy_less(s, true, 1); }

static double normalized(const double *x, int64_t n, double *z) {
    double mean_ = 0, var = 1e-5;
    EACH(i, n) mean_ += x[i] / (double)n;
    EACH(i, n) var += (x[i] - mean_) * (x[i] - mean_) / (double)n;
    EACH(i, n) z[i] = (x[i] - mean_) / sqrt(var);
    return 1 / sqrt(var);
}
WORK(layer_norm) {
    EACH(r, s->rows) normalized(s->x[0] + r * s->columns, s->columns, s->y + r * s->columns);
}
static void layer_norm_less(numbers *s, bool less_mean, bool less_projection) {
    EACH(r, s->rows) {
        const double *g = s->g + r * s->columns;
        double z[64], scale = normalized(s->x[0] + r * s->columns, s->columns, z), a = 0, b = 0;
        EACH(c, s->columns) a += g[c] / (double)s->columns, b += g[c] * z[c] / (double)s->columns;
        EACH(c, s->columns)
        s->dx[0][r * s->columns + c] = scale * (g[c] - less_mean * a - less_projection * b * z[c]);
    }
}
WORK(layer_norm_right) { layer_norm_less(s, true, true); }
WORK(layer_norm_meanless) { layer_norm_less(s, false, true); }
WORK(layer_norm_projectionless) { layer_norm_less(s, true, false); }
WORK(layer_norm_bare) { layer_norm_less(s, false, false); }

/* ---- broadcasts, products, indices: input 0 is (rows, columns) ---- */

WORK(times_row) { EACH(i, s->n) s->y[i] = s->x[0][i] * s->x[1][i % s->columns]; }
static void times_row_dx(numbers *s) {
    EACH(i, s->n) s->dx[0][i] = s->g[i] * s->x[1][i % s->columns];
}
WORK(times_row_right) {
    times_row_dx(s);
    EACH(i, s->n) s->dx[1][i % s->columns] += s->g[i] * s->x[0][i];
}
WORK(softmax_times_row) {
    softmax(s);
    EACH(i, s->n) s->y[i] *= s->x[1][i % s->columns];
}
static void softmax_times_row_d(numbers *s, bool with_row) {
    EACH(r, s->rows) {
        const double *g = s->g + r * s->columns, *y = s->y + r * s->columns, *w = s->x[1];
        double sum = 0;
        EACH(c, s->columns) sum += g[c] * y[c] / (with_row ? 1 : w[c]);
        EACH(c, s->columns) {
            const double p = y[c] / w[c];
            s->dx[0][r * s->columns + c] = p * (g[c] * (with_row ? w[c] : 1) - sum);
            s->dx[1][c] += g[c] * p;
        }
    }
}
WORK(softmax_times_row_right) { softmax_times_row_d(s, true); }
WORK(softmax_times_row_without_it) { softmax_times_row_d(s, false); }
/* softmax(x) w for w of two columns */
WORK(mixture) {
    double p[64];
    numbers weights = *s;
    weights.y = p;
    softmax(&weights);
    EACH(i, s->m) EACH(c, s->columns) s->y[i] += p[i / 2 * s->columns + c] * s->x[1][c * 2 + i % 2];
}
static void mixture_d(numbers *s, bool with_sum) {
    double p[64];
    numbers weights = *s;
    weights.y = p;
    softmax(&weights);
    EACH(i, s->n) {
        const double *w = s->x[1] + i % s->columns * 2, *g = s->g + i / s->columns * 2,
                     *y = s->y + i / s->columns * 2;
        s->dx[0][i] =
            p[i] * (g[0] * w[0] + g[1] * w[1] - (with_sum ? g[0] * y[0] + g[1] * y[1] : 0));
        EACH(c, 2) s->dx[1][i % s->columns * 2 + c] += p[i] * g[c];
    }
}
WORK(mixture_right) { mixture_d(s, true); }
WORK(mixture_sumless) { mixture_d(s, false); }
WORK(times_row_unsummed) {
    times_row_dx(s);
    EACH(i, s->columns) s->dx[1][i] = s->g[i] * s->x[0][i];
}
WORK(times_row_assigned) {
    times_row_dx(s);
    EACH(i, s->n) s->dx[1][i % s->columns] = s->g[i] * s->x[0][i];
}
WORK(times_row_averaged) {
    times_row_dx(s);
    EACH(i, s->n) s->dx[1][i % s->columns] += s->g[i] * s->x[0][i] / (double)s->rows;
}
WORK(times_row_handed_on) {
    times_row_dx(s);
    EACH(i, s->n) s->dx[1][i % s->columns] += s->g[i];
}
WORK(times_row_zero) { times_row_dx(s); }
WORK(times_row_by_rows) {
    times_row_dx(s);
    EACH(i, s->n) s->dx[1][i / s->columns] += s->g[i] * s->x[0][i];
}

/* x (2, 3, 4) times input 1 of shape (3, 1), which is broadcast */
WORK(times_part) {
    EACH(a, 2)
    EACH(b, 3) EACH(c, 4) s->y[(a * 3 + b) * 4 + c] = s->x[0][(a * 3 + b) * 4 + c] * s->x[1][b];
}
WORK(times_part_half) {
    EACH(a, 2) EACH(b, 3) EACH(c, 4) {
        int64_t i = (a * 3 + b) * 4 + c;
        s->dx[0][i] = s->g[i] * s->x[1][b];
        if (c == 0) s->dx[1][b] += s->g[i] * s->x[0][i];
    }
}
WORK(times_part_regrouped) {
    EACH(i, 24) s->dx[0][i] = s->g[i] * s->x[1][i / 4 % 3], s->dx[1][i / 8] += s->g[i] * s->x[0][i];
}

enum { K = 4 };
WORK(product) {
    EACH(m, 3) EACH(n, K) EACH(k, K) s->y[m * K + n] += s->x[0][m * K + k] * s->x[1][k * K + n];
}
static void product_d(numbers *s, bool transposed) {
    EACH(m, 3) EACH(n, K) EACH(k, K) {
        s->dx[0][m * K + k] += s->g[m * K + n] * s->x[1][transposed ? k * K + n : n * K + k];
        s->dx[1][k * K + n] += s->g[m * K + n] * s->x[0][m * K + k];
    }
}
WORK(product_right) { product_d(s, true); }
WORK(product_untransposed) { product_d(s, false); }

/* y (3, 2, 2) = 3 matrices (2, 2), each times one shared matrix */
WORK(shared) {
    EACH(b, 3)
    EACH(m, 2)
    EACH(n, 2)
    EACH(k, 2) s->y[b * 4 + m * 2 + n] += s->x[0][b * 4 + m * 2 + k] * s->x[1][k * 2 + n];
}
static void shared_d(numbers *s, int64_t from) {
    EACH(b, 3) EACH(m, 2) EACH(n, 2) EACH(k, 2) {
        s->dx[0][b * 4 + m * 2 + k] += s->g[b * 4 + m * 2 + n] * s->x[1][k * 2 + n];
        if (b >= from) s->dx[1][k * 2 + n] += s->g[b * 4 + m * 2 + n] * s->x[0][b * 4 + m * 2 + k];
    }
}
WORK(shared_right) { shared_d(s, 0); }
WORK(shared_last) { shared_d(s, 2); }

WORK(gram) {
    EACH(a, 3) EACH(b, 3) EACH(k, K) s->y[a * 3 + b] += s->x[0][a * K + k] * s->x[0][b * K + k];
}
WORK(gram_right) {
    EACH(a, 3)
    EACH(b, 3)
    EACH(k, K) s->dx[0][a * K + k] += (s->g[a * 3 + b] + s->g[b * 3 + a]) * s->x[0][b * K + k];
}
WORK(gram_half) {
    EACH(a, 3) EACH(b, 3) EACH(k, K) s->dx[0][a * K + k] += s->g[a * 3 + b] * s->x[0][b * K + k];
}

static const int id[] = {1, 0, 1, 2, 1, 3};
WORK(rows_of) {
    EACH(t, 6) EACH(c, s->columns) s->y[t * s->columns + c] = s->x[0][id[t] * s->columns + c];
}
WORK(rows_of_right) {
    EACH(t, 6) EACH(c, s->columns) s->dx[0][id[t] * s->columns + c] += s->g[t * s->columns + c];
}
WORK(rows_of_assigned) {
    EACH(t, 6) EACH(c, s->columns) s->dx[0][id[t] * s->columns + c] = s->g[t * s->columns + c];
}

/* ---- the wrong place ---- */

WORK(square_by_uneven_rows) {
    EACH(i, s->n) {
        const double r = (double)(i / s->columns);
        s->dx[0][i] = 2 * s->x[0][i] * s->g[i] * (1 + r * r);
    }
}
WORK(square_first_row) {
    EACH(i, s->n) s->dx[0][i] = i < s->columns ? 2 * s->x[0][i] * s->g[i] : 0;
}
WORK(times_row_of_rows) { /* the row's element is read by the number of the row */
    times_row_right(s);
    EACH(i, s->n) s->dx[0][i] = s->g[i] * s->x[1][i / s->columns];
}
WORK(softmax_times_row_of_x) { /* x for softmax(x) */
    softmax_times_row_right(s);
    EACH(c, s->columns) s->dx[1][c] = 0;
    EACH(i, s->n) s->dx[1][i % s->columns] += s->g[i] * s->x[0][i];
}
WORK(leaky) { EACH(i, s->n) s->y[i] = s->x[0][i] > 0 ? s->x[0][i] : 0.1 * s->x[0][i]; }
WORK(leaky_right) { EACH(i, s->n) s->dx[0][i] = s->g[i] * (s->x[0][i] > 0 ? 1 : 0.1); }
WORK(leaky_swapped) { EACH(i, s->n) s->dx[0][i] = s->g[i] * (s->x[0][i] > 0 ? 0.1 : 1); }
WORK(cross_entropy_other_target) {
    cross_entropy_less(s, false, (double)s->rows);
    EACH(r, s->rows) s->dx[0][r * s->columns + (r + 1) % s->columns] -= s->g[0] / (double)s->rows;
}
WORK(cross_entropy_exp) { /* e^x for its softmax */
    cross_entropy_right(s);
    EACH(r, s->rows) {
        double sum = 0;
        const double *x = s->x[0] + r * s->columns;
        EACH(c, s->columns) sum += exp(x[c]);
        EACH(c, s->columns)
        s->dx[0][r * s->columns + c] += s->g[0] / (double)s->rows * exp(x[c]) * (1 - 1 / sum);
    }
}
WORK(turned_left_out) { EACH(i, s->n) s->dx[0][i] = s->g[i]; }
/* sin(x) w at every other element, x at the others */
WORK(labelled) { EACH(i, s->n) s->y[i] = i % 2 ? sin(s->x[0][i]) * s->x[1][i] : s->x[0][i]; }
static void labelled_d(numbers *s, bool with_w) {
    EACH(i, s->n) {
        s->dx[0][i] = s->g[i] * (i % 2 ? cos(s->x[0][i]) * (with_w ? s->x[1][i] : 1) : 1);
        s->dx[1][i] = i % 2 ? s->g[i] * sin(s->x[0][i]) : 0;
    }
}
WORK(labelled_right) { labelled_d(s, true); }
WORK(labelled_without_w) { labelled_d(s, false); }
WORK(row_squares) { EACH(i, s->n) s->y[i / s->columns] += s->x[0][i] * s->x[0][i]; }
WORK(row_squares_right) { EACH(i, s->n) s->dx[0][i] = 2 * s->x[0][i] * s->g[i / s->columns]; }
WORK(row_squares_by_columns) { EACH(i, s->n) s->dx[0][i] = 2 * s->x[0][i] * s->g[i % s->columns]; }
WORK(shared_of_first) { /* the first matrix for each of the batch */
    shared_right(s);
    EACH(i, 4) s->dx[1][i] = 0;
    EACH(b, 3)
    EACH(m, 2)
    EACH(n, 2) EACH(k, 2) s->dx[1][k * 2 + n] += s->g[b * 4 + m * 2 + n] * s->x[0][m * 2 + k];
}
static void turn_pairs(const numbers *s, const double *from, double *to, double back, double base) {
    EACH(r, s->rows) EACH(j, s->columns / 2) {
        const double a = back * (double)(r + 1) * pow(base, (double)-j);
        const double *v = from + r * s->columns + 2 * j;
        to[r * s->columns + 2 * j] = v[0] * cos(a) - v[1] * sin(a);
        to[r * s->columns + 2 * j + 1] = v[0] * sin(a) + v[1] * cos(a);
    }
}
WORK(turned) { turn_pairs(s, s->x[0], s->y, 1, 3); }
WORK(turned_right) { turn_pairs(s, s->g, s->dx[0], -1, 3); }
WORK(turned_otherwise) { turn_pairs(s, s->g, s->dx[0], -1, 2); }
/* y = a^T W (1, r + 1, 2 r + 1, ...) for row r, which is a, of x (3, K) */
WORK(forms) {
    EACH(r, 3)
    EACH(j, K) EACH(k, K) s->y[r] += s->x[0][r * K + j] * s->x[1][j * K + k] * (double)(r * k + 1);
}
static void forms_d(numbers *s, bool transposed) {
    EACH(r, 3) EACH(j, K) EACH(k, K) {
        s->dx[0][r * K + j] +=
            s->g[r] * s->x[1][transposed ? k * K + j : j * K + k] * (double)(r * k + 1);
        s->dx[1][j * K + k] += s->g[r] * s->x[0][r * K + j] * (double)(r * k + 1);
    }
}
WORK(forms_right) { forms_d(s, false); }
WORK(forms_untransposed) { forms_d(s, true); }

#endif
