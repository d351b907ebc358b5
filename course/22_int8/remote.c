/* The names of exercise.h, which stand for the submission's. What is in a result before comes
 * along, so that a test sees what was not written. */
#include "../course.h"
#include "../remote.h"
#include "exercise.h"

static size_t weights(const layout *l) { return (size_t)(l->rows * l->columns); }
static size_t scales(const layout *l) {
    return (size_t)(l->rows * ((l->columns + l->block - 1) / l->block));
}

static message *begin(const char *function, const layout *l) {
    message *to = remote_begin(function);
    put_number(to, l->rows), put_number(to, l->columns), put_number(to, l->block);
    return to;
}
static void take(void *result, size_t bytes) {
    message *got = remote_call(NULL);
    get_items(got, result, bytes);
    remote_end(got);
}

void find_scales(const layout *l, const float *w, float *scale) {
    const size_t bytes = scales(l) * sizeof *scale;
    message *to = begin("find_scales", l);
    put_bytes(to, w, weights(l) * sizeof *w), put_bytes(to, scale, bytes);
    take(scale, bytes);
}
void quantise(const layout *l, const float *w, const float *scale, int8_t *q) {
    message *to = begin("quantise", l);
    put_bytes(to, w, weights(l) * sizeof *w), put_bytes(to, scale, scales(l) * sizeof *scale);
    put_bytes(to, q, weights(l));
    take(q, weights(l));
}
void dequantise(const layout *l, const int8_t *q, const float *scale, float *w) {
    const size_t bytes = weights(l) * sizeof *w;
    message *to = begin("dequantise", l);
    put_bytes(to, q, weights(l)), put_bytes(to, scale, scales(l) * sizeof *scale);
    put_bytes(to, w, bytes);
    take(w, bytes);
}

/* A product, or the bound of one, which needs no q. */
static void multiply_with(const char *function, const layout *l, const int8_t *q,
                          const float *scale, int64_t n, const void *x, void *y, size_t size) {
    const size_t bytes = (size_t)(n * l->rows) * size;
    message *to = begin(function, l);
    put_bytes(to, q, q ? weights(l) : 0), put_bytes(to, scale, scales(l) * sizeof *scale);
    put_bytes(to, x, (size_t)(n * l->columns) * size), put_bytes(to, y, bytes);
    take(y, bytes);
}
void multiply(const layout *l, const int8_t *q, const float *scale, int64_t n, const double *x,
              double *y) {
    multiply_with("multiply", l, q, scale, n, x, y, sizeof *x);
}
void multiply_f32(const layout *l, const int8_t *q, const float *scale, int64_t n, const float *x,
                  float *y) {
    multiply_with("multiply_f32", l, q, scale, n, x, y, sizeof *x);
}
void bound_error(const layout *l, const float *scale, int64_t n, const double *x, double *bound) {
    multiply_with("bound_error", l, NULL, scale, n, x, bound, sizeof *x);
}
