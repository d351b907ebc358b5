/* A tape of scalars. A value's arguments were recorded before it, so going through the tape from
 * `from` to the beginning meets every value after all its uses. */
#include "exercise.h"

#include <math.h>
#include <stdlib.h>

typedef enum { LEAF, ADD, MUL, EXP, TANH } operation;

typedef struct {
    operation op;
    value a, b; /* what it was computed from; not read for a leaf */
    double data, grad;
    double flow; /* of the backward that is running: what has arrived so far */
} node;

struct tape {
    int64_t length, room;
    node *nodes;
};

tape *tape_new(void) {
    tape *t = malloc(sizeof *t);
    if (t) *t = (tape){0, 0, NULL};
    return t;
}

void tape_free(tape *t) {
    free(t->nodes);
    free(t);
}

static value record(tape *t, operation op, value a, value b, double data) {
    if (t->length == t->room) {
        const int64_t room = t->room ? 2 * t->room : 64;
        node *nodes = realloc(t->nodes, (size_t)room * sizeof *nodes);
        if (!nodes) return -1;
        t->nodes = nodes, t->room = room;
    }
    t->nodes[t->length] = (node){op, a, b, data, 0, 0};
    return t->length++;
}

double value_data(const tape *t, value a) { return t->nodes[a].data; }
double value_grad(const tape *t, value a) { return t->nodes[a].grad; }

value value_leaf(tape *t, double data) { return record(t, LEAF, 0, 0, data); }
value value_add(tape *t, value a, value b) {
    return record(t, ADD, a, b, value_data(t, a) + value_data(t, b));
}
value value_mul(tape *t, value a, value b) {
    return record(t, MUL, a, b, value_data(t, a) * value_data(t, b));
}
value value_exp(tape *t, value a) { return record(t, EXP, a, 0, exp(value_data(t, a))); }
value value_tanh(tape *t, value a) { return record(t, TANH, a, 0, tanh(value_data(t, a))); }

void tape_backward(tape *t, value from) {
    node *nodes = t->nodes;
    for (value i = 0; i <= from; i++) nodes[i].flow = 0;
    nodes[from].flow = 1;
    for (value i = from; i >= 0; i--) {
        const node *n = &nodes[i];
        const double g = n->flow;
        if (g == 0) continue; /* not reached, or nothing to send: 0 times infinity is no number */
        nodes[i].grad += g;
        switch (n->op) {
        case LEAF: break;
        case ADD:
            nodes[n->a].flow += g;
            nodes[n->b].flow += g;
            break;
        case MUL:
            nodes[n->a].flow += g * nodes[n->b].data;
            nodes[n->b].flow += g * nodes[n->a].data;
            break;
        case EXP: nodes[n->a].flow += g * n->data; break;
        case TANH: nodes[n->a].flow += g * (1 - n->data * n->data); break;
        }
    }
}

void tape_zero_grad(tape *t) {
    for (value i = 0; i < t->length; i++) t->nodes[i].grad = 0;
}
