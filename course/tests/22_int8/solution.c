/* Each function goes through the rows and columns once, and finds the scale of each number by its
 * index. */
#include "exercise.h"

#include <math.h>

static int64_t blocks_of(const layout *l) { return (l->columns + l->block - 1) / l->block; }
static float scale_at(const layout *l, const float *scale, int64_t r, int64_t c) {
    return scale[r * blocks_of(l) + c / l->block];
}

void find_scales(const layout *l, const float *w, float *scale) {
    for (int64_t r = 0; r < l->rows; r++)
        for (int64_t b = 0; b < blocks_of(l); b++) {
            float most = 0;
            for (int64_t c = b * l->block; c < l->columns && c < (b + 1) * l->block; c++)
                most = fmaxf(most, fabsf(w[r * l->columns + c]));
            scale[r * blocks_of(l) + b] = most / 127;
        }
}

void quantise(const layout *l, const float *w, const float *scale, int8_t *q) {
    for (int64_t r = 0; r < l->rows; r++)
        for (int64_t c = 0; c < l->columns; c++) {
            const double unit = scale_at(l, scale, r, c);
            const double units = unit == 0 ? 0 : rint(w[r * l->columns + c] / unit);
            q[r * l->columns + c] = (int8_t)fmax(-127, fmin(127, units));
        }
}

void dequantise(const layout *l, const int8_t *q, const float *scale, float *w) {
    for (int64_t r = 0; r < l->rows; r++)
        for (int64_t c = 0; c < l->columns; c++)
            w[r * l->columns + c] = q[r * l->columns + c] * scale_at(l, scale, r, c);
}

void multiply(const layout *l, const int8_t *q, const float *scale, int64_t n, const double *x,
              double *y) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t r = 0; r < l->rows; r++) {
            double sum = 0;
            for (int64_t c = 0; c < l->columns; c++)
                sum += x[i * l->columns + c] * q[r * l->columns + c] *
                       (double)scale_at(l, scale, r, c);
            y[i * l->rows + r] = sum;
        }
}

void multiply_f32(const layout *l, const int8_t *q, const float *scale, int64_t n, const float *x,
                  float *y) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t r = 0; r < l->rows; r++) {
            double sum = 0;
            for (int64_t c = 0; c < l->columns; c++)
                sum += (double)x[i * l->columns + c] * q[r * l->columns + c] *
                       (double)scale_at(l, scale, r, c);
            y[i * l->rows + r] = (float)sum;
        }
}

void bound_error(const layout *l, const float *scale, int64_t n, const double *x, double *bound) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t r = 0; r < l->rows; r++) {
            double sum = 0;
            for (int64_t c = 0; c < l->columns; c++)
                sum += fabs(x[i * l->columns + c]) * (double)scale_at(l, scale, r, c) / 2;
            bound[i * l->rows + r] = sum;
        }
}
