/* The name of exercise.h, which stands for the submission's, and the same in three steps. */
#include "../remote.h"
#include "timed.h"

static message *begin(const char *function, int64_t m, int64_t n, int64_t k, const double *a,
                      const double *b) {
    message *to = remote_begin(function);
    put_number(to, m), put_number(to, n), put_number(to, k);
    put_array(to, a, m * k), put_array(to, b, k * n);
    return to;
}

void product(int64_t m, int64_t n, int64_t k, const double *a, const double *b, double *c) {
    put_array(begin("product", m, n, k, a, b), c, m * n);
    message *got = remote_call(NULL);
    get_array(got, c, m * n);
    remote_end(got);
}

void product_load(int64_t m, int64_t n, int64_t k, const double *a, const double *b,
                  const double *c) {
    put_array(begin("load", m, n, k, a, b), c, m * n);
    remote_end(remote_call(NULL));
}

double product_run(void) {
    const double start = remote_work();
    remote_begin("run");
    remote_end(remote_call(NULL));
    return remote_work() - start;
}

void product_fetch(int64_t m, int64_t n, double *c) {
    remote_begin("fetch");
    message *got = remote_call(NULL);
    get_array(got, c, m * n);
    remote_end(got);
}
