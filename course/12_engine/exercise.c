/* The engine: see README.md. */
#include "exercise.h"

struct tape {
    int64_t length; /* and what else you need */
};

tape *tape_new(void) { return NULL; /* it is not written yet */ }
void tape_free(tape *t) { (void)t; }

value value_leaf(tape *t, double data) {
    (void)t, (void)data;
    return -1;
}
value value_add(tape *t, value a, value b) {
    (void)t, (void)a, (void)b;
    return -1;
}
value value_mul(tape *t, value a, value b) {
    (void)t, (void)a, (void)b;
    return -1;
}
value value_exp(tape *t, value a) {
    (void)t, (void)a;
    return -1;
}
value value_tanh(tape *t, value a) {
    (void)t, (void)a;
    return -1;
}

double value_data(const tape *t, value a) {
    (void)t, (void)a;
    return 0;
}
double value_grad(const tape *t, value a) {
    (void)t, (void)a;
    return 0;
}

void tape_backward(tape *t, value from) { (void)t, (void)from; }
void tape_zero_grad(tape *t) { (void)t; }
