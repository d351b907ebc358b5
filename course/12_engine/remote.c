/* The names of exercise.h, which stand for the submission's. A graph of a million values is sent in
 * pieces: what is recorded is kept here, of all tapes in its order, until anything else is asked.
 */
#include "../course.h"
#include "../remote.h"
#include "exercise.h"

struct tape {
    int64_t number; /* the submission's name of it */
    int64_t values; /* recorded so far: a value's index is its name here */
};

static const char *const names[] = {"value_leaf", "value_add", "value_mul", "value_exp",
                                    "value_tanh"};
enum { LEAF, ADD, MUL, EXP, TANH };
enum { PIECE = 1 << 15, WORDS = 4 };
static double kept[PIECE][WORDS]; /* the tape's number, a kind, a or the number, b */
static int kept_count;

/* Sends what is kept. */
static void record(void) {
    if (kept_count == 0) return;
    put_array(remote_begin("record"), &kept[0][0], (int64_t)kept_count * WORDS);
    message *got = remote_call(NULL);
    const int64_t wrong = get_number(got), returned = get_number(got);
    remote_end(got);
    if (wrong >= 0 && wrong < kept_count)
        course_fail("%s returns %lld, as the stub does: is it not written yet?",
                    names[(int)kept[wrong][1]], (long long)returned);
    kept_count = 0;
}

static value recorded(tape *t, int kind, double a, double b) {
    double *row = kept[kept_count++];
    row[0] = (double)t->number, row[1] = kind, row[2] = a, row[3] = b;
    if (kept_count == PIECE) record();
    return t->values++;
}
value value_leaf(tape *t, double data) { return recorded(t, LEAF, data, 0); }
value value_add(tape *t, value a, value b) { return recorded(t, ADD, (double)a, (double)b); }
value value_mul(tape *t, value a, value b) { return recorded(t, MUL, (double)a, (double)b); }
value value_exp(tape *t, value a) { return recorded(t, EXP, (double)a, 0); }
value value_tanh(tape *t, value a) { return recorded(t, TANH, (double)a, 0); }

static message *asked(const char *function, const tape *t, value a) {
    record();
    message *m = remote_begin(function);
    put_number(m, t->number), put_number(m, a);
    return remote_call(NULL);
}

tape *tape_new(void) {
    record(), remote_begin("tape_new");
    message *got = remote_call(NULL);
    const int64_t number = get_number(got);
    remote_end(got);
    tape *t = number < 0 ? NULL : calloc(1, sizeof *t);
    if (t) t->number = number;
    return t;
}

static double number_of(const char *function, const tape *t, value a) {
    message *got = asked(function, t, a);
    const double x = get_f64(got);
    remote_end(got);
    return x;
}
double value_data(const tape *t, value a) { return number_of("value_data", t, a); }
double value_grad(const tape *t, value a) { return number_of("value_grad", t, a); }

void tape_backward(tape *t, value from) { remote_end(asked("tape_backward", t, from)); }
void tape_zero_grad(tape *t) { remote_end(asked("tape_zero_grad", t, 0)); }
void tape_free(tape *t) {
    remote_end(asked("tape_free", t, 0));
    free(t);
}
