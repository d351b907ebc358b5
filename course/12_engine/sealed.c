/* What the judge may ask a submission of this exercise for. */
#include "../sealed.h"
#include "exercise.h"

/* The judge's names of tapes and of their values are numbers from 0 on. */
enum { MOST_TAPES = 1024 };
static struct {
    tape *tape;
    value *values;
    int64_t count, room;
} tapes[MOST_TAPES];
static int tape_count;

static int tape_of(message *in) {
    const int64_t number = get_number(in);
    if (number < 0 || number >= tape_count) sealed_give_up();
    return (int)number;
}
static value value_of(int t, double index) {
    if (!(index >= 0 && index < (double)tapes[t].count)) sealed_give_up();
    return tapes[t].values[(int64_t)index];
}

static void call_new(ct_context *context, message *in, message *out) {
    tape *made = tape_new();
    (void)context, (void)in;
    if (tape_count == MOST_TAPES) sealed_give_up();
    if (made) tapes[tape_count].tape = made;
    put_number(out, made ? tape_count++ : -1);
}

/* One row of a request: the tape's number, a kind, a or the number, b. */
enum { WORDS = 4 };
static value recorded(int t, const double *row) {
    tape *of = tapes[t].tape;
    switch ((int)row[1]) {
    case 0: return value_leaf(of, row[2]);
    case 1: return value_add(of, value_of(t, row[2]), value_of(t, row[3]));
    case 2: return value_mul(of, value_of(t, row[2]), value_of(t, row[3]));
    case 3: return value_exp(of, value_of(t, row[2]));
    default: return value_tanh(of, value_of(t, row[2]));
    }
}

static void keep_value(int t, value made) {
    if (tapes[t].count == tapes[t].room) {
        tapes[t].room = 2 * tapes[t].room + 64;
        tapes[t].values = realloc(tapes[t].values, (size_t)tapes[t].room * sizeof(value));
        if (!tapes[t].values)
            sealed_says(NO_MEMORY, "there is no room for %lld values more",
                        (long long)tapes[t].count);
    }
    tapes[t].values[tapes[t].count++] = made;
}

/* Answers with the first value that is negative and its place in the request, or with -1. */
static void call_record(ct_context *context, message *in, message *out) {
    size_t size;
    const double *rows = get_bytes(in, &size);
    const int64_t n = (int64_t)(size / sizeof *rows) / WORDS;
    (void)context;
    for (int64_t i = 0; i < n; i++) {
        const double *row = rows + WORDS * i;
        if (!(row[0] >= 0 && row[0] < tape_count)) sealed_give_up();
        const value made = recorded((int)row[0], row);
        if (made < 0) {
            put_number(out, i), put_number(out, made);
            return;
        }
        keep_value((int)row[0], made);
    }
    put_number(out, -1), put_number(out, 0);
}

static void call_data(ct_context *context, message *in, message *out) {
    const int t = tape_of(in);
    (void)context;
    put_f64(out, value_data(tapes[t].tape, value_of(t, (double)get_number(in))));
}
static void call_grad(ct_context *context, message *in, message *out) {
    const int t = tape_of(in);
    (void)context;
    put_f64(out, value_grad(tapes[t].tape, value_of(t, (double)get_number(in))));
}
static void call_backward(ct_context *context, message *in, message *out) {
    const int t = tape_of(in);
    (void)context, (void)out;
    tape_backward(tapes[t].tape, value_of(t, (double)get_number(in)));
}
static void call_zero(ct_context *context, message *in, message *out) {
    (void)context, (void)out;
    tape_zero_grad(tapes[tape_of(in)].tape), get_number(in);
}
static void call_free(ct_context *context, message *in, message *out) {
    const int t = tape_of(in);
    (void)context, (void)out;
    get_number(in), tape_free(tapes[t].tape), free(tapes[t].values);
    tapes[t].tape = NULL, tapes[t].values = NULL, tapes[t].count = tapes[t].room = 0;
}

const sealed_op sealed_ops[] = {{NULL, NULL, NULL}};
const sealed_function sealed_functions[] = {
    {"tape_new", call_new},           {"record", call_record},
    {"value_data", call_data},        {"value_grad", call_grad},
    {"tape_backward", call_backward}, {"tape_zero_grad", call_zero},
    {"tape_free", call_free},         {NULL, NULL},
};
