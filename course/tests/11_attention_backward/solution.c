/* The backward of multi-head attention from its end to its beginning. Three products do the work of
 * all matrices: a b, a^T b and a b^T. */
#include "exercise.h"

#include <math.h>
#include <string.h>

/* c (m, n) = sum over l < k of scale a[i, l] b[l, j]; a_row and a_col are the steps of a from row
 * to row and from column to column, and those of b likewise. */
static void product(int64_t m, int64_t n, int64_t k, double scale, const double *a, int64_t a_row,
                    int64_t a_col, const double *b, int64_t b_row, int64_t b_col, double *c,
                    int64_t c_row) {
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t l = 0; l < k; l++)
                sum += a[i * a_row + l * a_col] * b[l * b_row + j * b_col];
            c[i * c_row + j] = scale * sum;
        }
}

/* (B, T, row), of which the columns from `first` on are heads, beside (B, H, T, d). */
static double *column(const attention_values *a, double *packed, int64_t row, int64_t first,
                      int64_t b, int64_t h, int64_t t) {
    return packed + (b * a->tokens + t) * row + first + h * (a->width / a->heads);
}

void attention_backward(const attention_values *a, const attention_gradients *grad) {
    const int64_t B = a->batch, T = a->tokens, E = a->width, H = a->heads, d = E / H, N = B * T;
    const size_t head_row = (size_t)d * sizeof(double);
    const double scale = 1 / sqrt((double)d);

    /* y = O w_out^T + b_out */
    product(E, E, N, 1, a->dy, 1, E, a->O, E, 1, grad->dW_out, E);
    for (int64_t j = 0; j < E; j++) {
        grad->db_out[j] = 0;
        for (int64_t i = 0; i < N; i++) grad->db_out[j] += a->dy[i * E + j];
    }
    product(N, E, E, 1, a->dy, E, 1, a->w_out, E, 1, grad->dO, E);

    /* O = combine_heads(P v) */
    for (int64_t b = 0; b < B; b++)
        for (int64_t h = 0; h < H; h++)
            for (int64_t t = 0; t < T; t++)
                memcpy(grad->dO_heads + ((b * H + h) * T + t) * d,
                       column(a, grad->dO, E, 0, b, h, t), head_row);

    for (int64_t head = 0; head < B * H; head++) {
        const double *q = a->q + head * T * d, *k = a->k + head * T * d, *v = a->v + head * T * d,
                     *P = a->P + head * T * T, *dO = grad->dO_heads + head * T * d;
        double *dP = grad->dP + head * T * T, *D = grad->D + head * T,
               *dS = grad->dS + head * T * T;
        product(T, d, T, 1, P, 1, T, dO, d, 1, grad->dv + head * T * d, d);
        product(T, T, d, 1, dO, d, 1, v, 1, d, dP, T);
        /* P = softmax of each row of S */
        for (int64_t i = 0; i < T; i++) {
            D[i] = 0;
            for (int64_t j = 0; j < T; j++) D[i] += P[i * T + j] * dP[i * T + j];
            for (int64_t j = 0; j < T; j++) dS[i * T + j] = P[i * T + j] * (dP[i * T + j] - D[i]);
        }
        /* S = q k^T / sqrt d */
        product(T, d, T, scale, dS, T, 1, k, d, 1, grad->dq + head * T * d, d);
        product(T, d, T, scale, dS, 1, T, q, d, 1, grad->dk + head * T * d, d);
    }

    /* q, k, v = split_heads of the columns of qkv */
    for (int64_t part = 0; part < 3; part++) {
        const double *from = part == 0 ? grad->dq : part == 1 ? grad->dk : grad->dv;
        for (int64_t b = 0; b < B; b++)
            for (int64_t h = 0; h < H; h++)
                for (int64_t t = 0; t < T; t++)
                    memcpy(column(a, grad->dqkv, 3 * E, part * E, b, h, t),
                           from + ((b * H + h) * T + t) * d, head_row);
    }

    /* qkv = x w_in^T + b_in */
    product(3 * E, E, N, 1, grad->dqkv, 1, 3 * E, a->x, E, 1, grad->dW_in, E);
    for (int64_t j = 0; j < 3 * E; j++) {
        grad->db_in[j] = 0;
        for (int64_t i = 0; i < N; i++) grad->db_in[j] += grad->dqkv[i * 3 * E + j];
    }
    for (int64_t part = 0; part < 3; part++)
        product(N, E, E, 1, grad->dqkv + part * E, 3 * E, 1, a->w_in + part * E * E, E, 1,
                grad->dx_paths + part * N * E, E);
    for (int64_t i = 0; i < N * E; i++)
        grad->dx[i] = grad->dx_paths[i] + grad->dx_paths[N * E + i] + grad->dx_paths[2 * N * E + i];
}
