/* What the judge may ask a submission of this exercise for. */
#include "../sealed.h"
#include "exercise.h"

void *sealed_malloc(size_t size); /* sealed.c: a block between guards */
void sealed_free(void *block);

static void call_product(ct_context *context, message *in, message *out) {
    const int64_t m = get_number(in), n = get_number(in), k = get_number(in);
    int64_t ignored, size;
    const double *a = sealed_input("a", in, &ignored), *b = sealed_input("b", in, &ignored);
    double *c = sealed_array("c", in, &size);
    (void)context;
    product(m, n, k, a, b, c);
    put_array(out, c, size);
}

/* ---- a product whose work is measured ---- */

static struct {
    int64_t m, n, k;
    double *a, *b, *c;
} loaded;

static double *block_of(message *in, int64_t n) {
    size_t bytes;
    const void *values = get_bytes(in, &bytes);
    double *block = sealed_malloc(bytes);
    if (in->broken || n < 0 || bytes != (size_t)n * sizeof *block) sealed_give_up();
    memcpy(block, values, bytes);
    return block;
}

static void call_load(ct_context *context, message *in, message *out) {
    (void)context, (void)out;
    sealed_free(loaded.a), sealed_free(loaded.b), sealed_free(loaded.c);
    loaded.m = get_number(in), loaded.n = get_number(in), loaded.k = get_number(in);
    loaded.a = block_of(in, loaded.m * loaded.k), loaded.b = block_of(in, loaded.k * loaded.n);
    loaded.c = block_of(in, loaded.m * loaded.n);
}

static void call_run(ct_context *context, message *in, message *out) {
    (void)context, (void)in, (void)out;
    product(loaded.m, loaded.n, loaded.k, loaded.a, loaded.b, loaded.c);
}

static void call_fetch(ct_context *context, message *in, message *out) {
    (void)context, (void)in;
    put_array(out, loaded.c, loaded.m * loaded.n);
}

const sealed_op sealed_ops[] = {{NULL, NULL, NULL}};
const sealed_function sealed_functions[] = {
    {"product", call_product}, {"load", call_load}, {"run", call_run},
    {"fetch", call_fetch},     {NULL, NULL},
};
