/* The names of exercise.h, which stand for the submission's. */
#include "../course.h"
#include "../remote.h"
#include "exercise.h"

static message *ask(const char *function, const architecture *a, const step *s) {
    static const step none;
    message *to = remote_begin(function);
    put_bytes(to, a, sizeof *a), put_bytes(to, s ? s : &none, sizeof *s);
    return remote_call(NULL);
}
static int64_t number(const char *function, const architecture *a, const step *s) {
    message *got = ask(function, a, s);
    const int64_t x = get_number(got);
    remote_end(got);
    return x;
}

int64_t count_parameters(const architecture *a) { return number("count_parameters", a, NULL); }
int64_t count_forward(const architecture *a, const step *s) {
    return number("count_forward", a, s);
}
int64_t count_step(const architecture *a, const step *s) { return number("count_step", a, s); }

memory count_memory(const architecture *a, const step *s) {
    message *got = ask("count_memory", a, s);
    memory m;
    m.weights = get_number(got), m.gradients = get_number(got);
    m.optimiser = get_number(got), m.activations = get_number(got);
    remote_end(got);
    return m;
}
