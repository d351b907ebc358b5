/* More ops with mutations, written after the hypotheses: composed functions, losses and linear
 * algebra. */
#ifndef MUTANTS_MORE_H
#define MUTANTS_MORE_H

#include "mutants.h"

OP(group_norm) { /* x (2, 4, 3), two groups of two channels */
    EACH(g, 4) {
        const double *x = X + g * 6, mean = mean_of(x, 6);
        double var = 1e-3;
        EACH(i, 6) var += (x[i] - mean) * (x[i] - mean) / 6;
        EACH(i, 6) Y[g * 6 + i] = (x[i] - mean) / sqrt(var);
    }
}
OP(group_norm_back) {
    EACH(g, 4) {
        const double *x = X + g * 6, *y = Y + g * 6, *c = G + g * 6;
        double var = 1e-3, a = 0, b = 0;
        EACH(i, 6) var += (x[i] - mean_of(x, 6)) * (x[i] - mean_of(x, 6)) / 6;
        EACH(i, M("bounds: the mean stops early", 6, 5)) a += c[i] / M("constant: count", 6, 3);
        EACH(i, 6) b += c[i] * y[i] / M("constant: count of the other", 6, 5);
        EACH(i, 6)
        DX[g * 6 + i] = (c[i] - a - M("sign: of the projection", 1, -1) * y[i] * b) / sqrt(var) *
                        M("rows: a group twice", 1, g == 2 ? 2 : 1);
    }
}
OP(cosine) { /* cosines of rows of (3, 4) with rows of (3, 4) */
    EACH(r, 3) {
        double ab = 0, aa = 0, bb = 0;
        EACH(c, 4)
        ab += X[r * 4 + c] * B[r * 4 + c], aa += pow(X[r * 4 + c], 2), bb += pow(B[r * 4 + c], 2);
        Y[r] = ab / sqrt(aa * bb);
    }
}
OP(cosine_back) {
    EACH(r, 3) {
        double aa = 0, bb = 0;
        EACH(c, 4) aa += pow(X[r * 4 + c], 2), bb += pow(B[r * 4 + c], 2);
        EACH(c, 4) {
            const double x = X[r * 4 + c], b = B[r * 4 + c], y = Y[r];
            DX[r * 4 + c] = G[r] * (b / sqrt(aa * bb) - M("term: the second", y, 0) * x /
                                                            M("constant: norm", aa, sqrt(aa)));
            DB[r * 4 + c] = G[r] * (M("operand: b for a", x, b) / sqrt(aa * bb) -
                                    M("sign: second", y, -y) * b / M("operand: aa for bb", bb, aa));
        }
    }
}
OP(focal) { /* sum of (1 - p)^2 (-log p), p = sigmoid(x) */
    EACH(i, s->n) {
        const double p = logistic(X[i]);
        Y[0] -= (1 - p) * (1 - p) * log(p);
    }
}
OP(focal_back) {
    EACH(i, s->n) {
        const double p = logistic(X[i]);
        const double d = M("constant: 2", 2, 3) * (1 - p) * log(p) * M("term: the first", 1, 0) -
                         (1 - p) * (1 - p) / p * M("term: the second", 1, 0);
        DX[i] = G[0] * d * M("chain: the sigmoid", p * (1 - p), 1) *
                M("formula: p for 1 - p", 1, p / (1 - p));
    }
}
OP(smoothed) { /* label smoothing: mean over rows of lse(x) - 0.9 x[t] - 0.1 mean(x) */
    EACH(r, 4) {
        double sum = 0;
        EACH(c, 5) sum += exp(X[r * 5 + c]), Y[0] -= 0.1 * X[r * 5 + c] / 5 / 4;
        Y[0] += (log(sum) - 0.9 * X[r * 5 + r]) / 4;
    }
}
OP(smoothed_back) {
    EACH(r, 4) {
        double p[5];
        softmax_row(X + r * 5, 5, p);
        EACH(c, 5)
        DX[r * 5 + c] = G[0] / 4 *
                        (p[c] - M("constant: 0.9", 0.9, 1) * (c == r) -
                         M("constant: 0.1", 0.1, 0) / 5 + M("sign: p", 0, -2 * p[c]));
    }
}
OP(gru) { /* z = sigmoid(a), y = z h + (1 - z) tanh(c): inputs h, a, c of (3, 4) */
    EACH(i, 12) {
        const double z = logistic(B[i]);
        Y[i] = z * X[i] + (1 - z) * tanh(C[i]);
    }
}
OP(gru_back) {
    EACH(i, 12) {
        const double z = logistic(B[i]), t = tanh(C[i]);
        DX[i] = G[i] * M("formula: 1 - z", z, 1 - z);
        DB[i] = G[i] * (X[i] - M("term: the other branch", t, 0)) * z * M("chain: 1 - z", 1 - z, 1);
        DC[i] = G[i] * M("chain: the gate", 1 - z, 1) * (1 - M("chain: squared", t * t, t));
        DB[i] *= M("sign: a", 1, -1);
        DC[i] = M("exchanged: c has a's", DC[i], DB[i]);
    }
}
OP(inverse2) { /* the inverse of a matrix (2, 2) */
    const double det = X[0] * X[3] - X[1] * X[2];
    Y[0] = X[3] / det, Y[1] = -X[1] / det, Y[2] = -X[2] / det, Y[3] = X[0] / det;
}
OP(inverse2_back) { /* -Y^T G Y^T */
    EACH(i, 2)
    EACH(j, 2)
    EACH(k, 2)
    EACH(l, 2)
    DX[i * 2 + j] += M("sign: all", -1, 1) * Y[M("transposed: the left", k * 2 + i, i * 2 + k)] *
                     G[k * 2 + l] * Y[M("transposed: the right", j * 2 + l, l * 2 + j)];
    EACH(i, 4) DX[i] = M("product: one side", DX[i], -G[i] * Y[i]);
}
OP(pooled) { /* the mean of windows of 3 with step 2 of (2, 9) */
    EACH(r, 2) EACH(t, 4) EACH(k, 3) Y[r * 4 + t] += X[r * 9 + 2 * t + k] / 3;
}
OP(pooled_back) {
    EACH(r, 2)
    EACH(t, 4)
    EACH(k, M("bounds: the window", 3, 2))
    DX[r * 9 + M("index: step 1", 2, 1) * t + k] +=
        G[r * 4 + M("index: reversed", t, 3 - t)] / M("factor: the window", 3, 1);
    IF("sum: the last of overlaps")
    EACH(r, 2) EACH(t, 4) EACH(k, 3) DX[r * 9 + 2 * t + k] = G[r * 4 + t] / 3;
}
OP(plane) { /* correlation of (5, 5) with (3, 3), padded to (5, 5) */
    EACH(i, 5) EACH(j, 5) EACH(a, 3) EACH(b, 3) {
        const int64_t u = i + a - 1, v = j + b - 1;
        if (u >= 0 && u < 5 && v >= 0 && v < 5) Y[i * 5 + j] += X[u * 5 + v] * B[a * 3 + b];
    }
}
OP(plane_back) {
    EACH(i, 5) EACH(j, 5) EACH(a, 3) EACH(b, 3) {
        const int64_t u = i + a - 1, v = j + b - 1;
        if (u < 0 || u >= 5 || v < 0 || v >= 5) continue;
        const double w = M("reversed: both", B[a * 3 + b], B[8 - a * 3 - b]);
        DX[u * 5 + v] += G[i * 5 + j] * M("transposed: kernel", w, B[b * 3 + a]) *
                         M("reversed: columns", 1, B[a * 3 + 2 - b] / B[a * 3 + b]);
        DB[M("reversed: result", a * 3 + b, 8 - a * 3 - b)] +=
            G[i * 5 + j] * X[u * 5 + v] * M("bounds: the border", 1, i > 0);
    }
}
OP(logits) { /* a b^T / 0.5 of (3, 4) and (3, 4), then a log-softmax's diagonal */
    EACH(i, 3) {
        double z[3] = {0}, p[3];
        EACH(j, 3) EACH(k, 4) z[j] += X[i * 4 + k] * B[j * 4 + k] / 0.5;
        softmax_row(z, 3, p);
        Y[i] = -log(p[i]);
    }
}
OP(logits_back) {
    EACH(i, 3) {
        double z[3] = {0}, p[3];
        EACH(j, 3) EACH(k, 4) z[j] += X[i * 4 + k] * B[j * 4 + k] / 0.5;
        softmax_row(z, 3, p);
        EACH(j, 3) EACH(k, 4) {
            const double d = G[M("index: j", i, j)] * (p[j] - M("term: the target", i == j, 0)) /
                             M("factor: temperature", 0.5, 1);
            DX[i * 4 + k] += d * B[j * 4 + k] * M("mask: not itself", 1, i != j);
            DB[j * 4 + k] += d * X[M("operand: its own row", i, j) * 4 + k];
        }
    }
}
OP(distances) { /* distances of each of (3, 2) from each of (4, 2) */
    EACH(i, 3)
    EACH(j, 4)
    Y[i * 4 + j] = sqrt(pow(X[i * 2] - B[j * 2], 2) + pow(X[i * 2 + 1] - B[j * 2 + 1], 2));
}
OP(distances_back) {
    EACH(i, 3) EACH(j, 4) EACH(k, 2) {
        const double d = G[i * 4 + j] * (X[i * 2 + k] - M("term: b", B[j * 2 + k], 0)) /
                         M("chain: the distance", Y[i * 4 + j], 1);
        DX[i * 2 + k] += d * M("factor: 2", 1, 2);
        DB[j * 2 + k] += M("sign: b", -d, d) * M("bounds: the first", 1, i > 0);
        IF("sum: assigned") DX[i * 2 + k] = d;
    }
}
OP(running_product) {
    EACH(r, 3) EACH(i, 5) Y[r * 5 + i] = (i ? Y[r * 5 + i - 1] : 1) * X[r * 5 + i];
}
OP(running_product_back) {
    EACH(r, 3)
    EACH(i, 5)
    EACH(j, M("bounds: without itself", i + 1, i))
    DX[r * 5 + j] += G[r * 5 + i] * Y[r * 5 + i] /
                     M("operand: the last for it", X[r * 5 + j], X[r * 5 + i]) *
                     M("chain: y twice", 1, Y[r * 5 + i]);
    IF("term: only itself")
    EACH(r, 3) EACH(i, 5) DX[r * 5 + i] = G[r * 5 + i] * Y[r * 5 + i] / X[r * 5 + i];
}
OP(swiglu) { EACH(i, 12) Y[i] = X[i] * logistic(X[i]) * B[i] + X[i]; }
OP(swiglu_back) {
    EACH(i, 12) {
        const double p = logistic(X[i]);
        DX[i] = G[i] * ((p + X[i] * p * (1 - p) * M("product: a term", 1, 0)) *
                            M("chain: the gate", B[i], 1) +
                        M("residual: forgotten", 1, 0));
        DB[i] = G[i] * X[i] * p * M("formula: once more", 1, p) *
                M("threshold: relu for silu", 1, X[i] > 0);
    }
}
OP(divergence) { /* sum of p (log p - x), p = softmax of b rows; mean over 4 rows of 3 */
    EACH(r, 4) {
        double p[3];
        softmax_row(B + r * 3, 3, p);
        EACH(c, 3) Y[0] += p[c] * (log(p[c]) - X[r * 3 + c]) / 4;
    }
}
OP(divergence_back) {
    EACH(r, 4) {
        double p[3], q[3], sum = 0;
        softmax_row(B + r * 3, 3, p);
        EACH(c, 3)
        q[c] = log(p[c]) - X[r * 3 + c] + M("constant: one more that cancels not", 0, p[c]),
        sum += p[c] * q[c];
        EACH(c, 3) {
            DX[r * 3 + c] = M("sign: all", -1, 1) * G[0] * p[c] / M("factor: rows", 4, 12);
            DB[r * 3 + c] = G[0] * p[c] * (q[c] - M("term: the sum", sum, 0)) / 4;
        }
    }
}
OP(scattered_mean) { /* rows of (6, 2) averaged by segment */
    static const int64_t of[] = {0, 1, 0, 2, 1, 0}, count[] = {3, 2, 1};
    EACH(t, 6) EACH(c, 2) Y[of[t] * 2 + c] += X[t * 2 + c] * X[t * 2 + c] / (double)count[of[t]];
}
OP(scattered_mean_back) {
    static const int64_t of[] = {0, 1, 0, 2, 1, 0}, count[] = {3, 2, 1};
    EACH(t, 6)
    EACH(c, 2)
    DX[t * 2 + c] = 2 * M("chain: x", X[t * 2 + c], 1) *
                    G[M("index: segment", of[t], (of[t] + 1) % 3) * 2 + c] /
                    M("rows: the counts", (double)count[of[t]], 1) * M("factor: all", 1, 0.5);
    IF("mask: of a segment") EACH(c, 2) DX[6 + c] = 0;
}

OP(layer) { /* tanh(x / 2 + x^3 / 9) w of (3, 4) (4, 3), then a softplus */
    EACH(i, 3) EACH(j, 3) {
        double z = 0;
        EACH(k, 4) z += tanh(X[i * 4 + k] / 2 + pow(X[i * 4 + k], 3) / 9) * B[k * 3 + j];
        Y[i * 3 + j] = log(1 + exp(z));
    }
}
OP(layer_back) {
    EACH(i, 3) EACH(j, 3) EACH(k, 4) {
        const double x = X[i * 4 + k], t = tanh(x / 2 + x * x * x / 9);
        const double d =
            G[i * 3 + j] * (1 - M("constant: behind", exp(-Y[i * 3 + j]), exp(-2 * Y[i * 3 + j])));
        DX[i * 4 + k] += d * B[k * 3 + j] * (1 - t * t) *
                         (0.5 + x * x / M("constant: 9 / 3", 3, 9)) *
                         M("chain: behind", 1, 1 / (1 - exp(-Y[i * 3 + j])));
        DB[k * 3 + j] += d * M("value: x for the activation", t, x) * M("sign: w", 1, -1) *
                         M("bounds: a row", 1, i < 2);
        IF("term: the inner derivative")
        DX[i * 4 + k] += d * B[k * 3 + j] * (1 - (1 - t * t) * (0.5 + x * x / 3));
    }
}

#endif
