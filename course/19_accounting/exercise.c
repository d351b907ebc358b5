/* What training a transformer takes: see README.md. */
#include "exercise.h"

int64_t count_parameters(const architecture *a) {
    (void)a;
    return 0; /* it is not written yet */
}

int64_t count_forward(const architecture *a, const step *s) {
    (void)a, (void)s;
    return 0;
}

int64_t count_step(const architecture *a, const step *s) {
    (void)a, (void)s;
    return 0;
}

memory count_memory(const architecture *a, const step *s) {
    (void)a, (void)s;
    return (memory){.weights = 0};
}
