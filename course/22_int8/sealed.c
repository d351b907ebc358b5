/* What the judge may ask a submission of this exercise for. */
#include "../sealed.h"
#include "exercise.h"

static layout get_layout(message *in) {
    layout l;
    l.rows = get_number(in), l.columns = get_number(in), l.block = get_number(in);
    if (l.rows < 1 || l.columns < 1 || l.block < 1) sealed_give_up();
    return l;
}

static void call_scales(ct_context *context, message *in, message *out) {
    int64_t n;
    const layout l = get_layout(in);
    const float *w = sealed_items("w", in, sizeof *w, true, &n);
    float *scale = sealed_items("scale", in, sizeof *scale, false, &n);
    (void)context;
    find_scales(&l, w, scale);
    put_bytes(out, scale, (size_t)n * sizeof *scale);
}

static void call_quantise(ct_context *context, message *in, message *out) {
    int64_t n;
    const layout l = get_layout(in);
    const float *w = sealed_items("w", in, sizeof *w, true, &n),
                *scale = sealed_items("scale", in, sizeof *scale, true, &n);
    int8_t *q = sealed_items("q", in, 1, false, &n);
    (void)context;
    quantise(&l, w, scale, q);
    put_bytes(out, q, (size_t)n);
}

static void call_dequantise(ct_context *context, message *in, message *out) {
    int64_t n;
    const layout l = get_layout(in);
    const int8_t *q = sealed_items("q", in, 1, true, &n);
    const float *scale = sealed_items("scale", in, sizeof *scale, true, &n);
    float *w = sealed_items("w", in, sizeof *w, false, &n);
    (void)context;
    dequantise(&l, q, scale, w);
    put_bytes(out, w, (size_t)n * sizeof *w);
}

/* What a product is given: x and y are f64 or f32, q may be empty. */
typedef struct {
    layout l;
    const int8_t *q;
    const float *scale;
    const void *x;
    void *y;
    int64_t n, results;
} product;
static product get_product(message *in, size_t size) {
    product p = {.l = get_layout(in)};
    p.q = sealed_items("q", in, 1, true, &p.n);
    p.scale = sealed_items("scale", in, sizeof *p.scale, true, &p.n);
    p.x = sealed_items("x", in, size, true, &p.n);
    p.y = sealed_items("y", in, size, false, &p.results);
    p.n /= p.l.columns;
    return p;
}

static void call_multiply(ct_context *context, message *in, message *out) {
    const product p = get_product(in, sizeof(double));
    (void)context;
    multiply(&p.l, p.q, p.scale, p.n, p.x, p.y);
    put_bytes(out, p.y, (size_t)p.results * sizeof(double));
}
static void call_multiply_f32(ct_context *context, message *in, message *out) {
    const product p = get_product(in, sizeof(float));
    (void)context;
    multiply_f32(&p.l, p.q, p.scale, p.n, p.x, p.y);
    put_bytes(out, p.y, (size_t)p.results * sizeof(float));
}
static void call_bound(ct_context *context, message *in, message *out) {
    const product p = get_product(in, sizeof(double));
    (void)context;
    bound_error(&p.l, p.scale, p.n, p.x, p.y);
    put_bytes(out, p.y, (size_t)p.results * sizeof(double));
}

const sealed_op sealed_ops[] = {{NULL, NULL, NULL}};
const sealed_function sealed_functions[] = {{"find_scales", call_scales},
                                            {"quantise", call_quantise},
                                            {"dequantise", call_dequantise},
                                            {"multiply", call_multiply},
                                            {"multiply_f32", call_multiply_f32},
                                            {"bound_error", call_bound},
                                            {NULL, NULL}};
