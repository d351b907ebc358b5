/* Hypothesis: the error is a combination of up to three terms. A term is a sum of the cotangent
 * times a known vector, over a dim or over all elements, and times another known vector. If a sum
 * runs over the wrong dim, for example, one term is missing and one is too many. */
#include "suspect.h"

#include <math.h>
#include <string.h>

enum { VECTORS = 3, MOST_TERMS = (CT_MAX_DIMS + 2) * VECTORS * VECTORS, TAKEN = 3 };
static const char *const vector_name[VECTORS] = {"", " times the output", " times the input"};

typedef struct {
    int dim;  /* the dim of the sum; -1: all elements; -2: no sum, only the element itself */
    int u, v; /* the vectors inside and outside of the sum: 0 ones, 1 the output, 2 the input */
} sum_term;

static double vector_at(const cti_suspect *s, int vector, int64_t i) {
    return vector == 0 ? 1 : vector == 1 ? s->check->y[i] : cti_check_get(s->c->x, i);
}

/* Do elements r and i belong to the same sum over `dim`? */
static bool in_one_row(const cti_suspect *s, int dim, int64_t r, int64_t i) {
    if (dim == -2) return r == i;
    for (int d = 0; d < s->in.ndim && dim >= 0; d++)
        if (d != dim && cti_suspect_along(s->in, r, d) != cti_suspect_along(s->in, i, d))
            return false;
    return true;
}

static void term_fill(const cti_suspect *s, sum_term term, double *out) {
    for (int64_t r = 0; r < s->rows; r++)
        for (int64_t i = 0; i < s->n; i++)
            out[r * s->n + i] = in_one_row(s, term.dim, r, i)
                                    ? vector_at(s, term.u, r) * vector_at(s, term.v, i)
                                    : 0;
}

static double dot(const double *a, const double *b, int64_t n) {
    double sum = 0;
    for (int64_t e = 0; e < n; e++) sum += a[e] * b[e];
    return sum;
}

/* One step of Gram-Schmidt: makes `term` orthogonal to the terms taken before, and subtracts from
 * `left` its projection onto `term`. Returns the decrease of ||left||^2. */
static double terms_take_away(double *left, double *term, double *const *taken, int count,
                              int64_t n) {
    for (int t = 0; t < count; t++) {
        const double part = dot(term, taken[t], n) / dot(taken[t], taken[t], n);
        for (int64_t e = 0; e < n; e++) term[e] -= part * taken[t][e];
    }
    const double size = dot(term, term, n), c = size > 0 ? dot(left, term, n) / size : 0;
    for (int64_t e = 0; e < n; e++) left[e] -= c * term[e];
    return c * c * size;
}

static int terms_collect(const cti_suspect *s, sum_term list[MOST_TERMS]) {
    int count = 0;
    for (int d = -2; d < s->in.ndim; d++) {
        if (d >= 0 && (s->in.dim[d] < 2 || s->in.ndim == 1)) continue;
        for (int u = 0; u < VECTORS; u++)
            for (int v = 0; v < VECTORS; v++)
                if (d != -2 || u <= v) list[count++] = (sum_term){d, u, v};
    }
    return count;
}

/* The term that decreases ||left||^2 the most. term and trial are scratch. */
static int best_term(const cti_suspect *s, const sum_term *list, int count, const double *left,
                     double *const *taken, int have, double *term, double *trial) {
    const int64_t n = s->rows * s->n;
    int best = 0;
    double most = -1;
    for (int t = 0; t < count; t++) {
        term_fill(s, list[t], term);
        memcpy(trial, left, (size_t)n * sizeof *trial);
        const double gone = terms_take_away(trial, term, taken, have, n);
        if (gone > most * (1 + 1e-9)) most = gone, best = t;
    }
    return best;
}

static void terms_describe(const sum_term *terms, int count, char *text, size_t size) {
    size_t end = 0;
    for (int t = 0; t < count && end < size; t++) {
        char over[32] = "all elements";
        if (terms[t].dim >= 0) snprintf(over, sizeof over, "dim %d", terms[t].dim);
        if (terms[t].dim == -2)
            end +=
                (size_t)snprintf(text + end, size - end, "%sthe cotangent%s%s", t ? ", and " : "",
                                 vector_name[terms[t].u], vector_name[terms[t].v]);
        else
            end +=
                (size_t)snprintf(text + end, size - end, "%sthe sum over %s of the cotangent%s%s%s",
                                 t ? ", and " : "", over, vector_name[terms[t].u],
                                 terms[t].v ? "," : "", vector_name[terms[t].v]);
    }
}

bool cti_suspect_other_sum(cti_suspect *s) {
    enum { MOST = 128 };
    if (!s->check->whole || !cti_shape_same(&s->in, &s->out) || s->n < 6 || s->n > MOST)
        return false;
    const int64_t n = s->rows * s->n;
    sum_term list[MOST_TERMS], found[TAKEN];
    const int count = terms_collect(s, list);
    double *taken[TAKEN], *left = cti_check_numbers(s->check, 1, n),
                          *trial = cti_check_numbers(s->check, 1, n);
    if (!left || !trial) return false;
    for (int64_t e = 0; e < n; e++) left[e] = s->a[e] - s->j[e];
    for (int have = 0; have < TAKEN; have++) {
        double *term = taken[have] = cti_check_numbers(s->check, 1, n);
        if (!term) return false;
        found[have] = list[best_term(s, list, count, left, taken, have, term, trial)];
        term_fill(s, found[have], term);
        terms_take_away(left, term, taken, have, n);
        if (sqrt(dot(left, left, n)) > s->fit * s->error) continue;
        char text[200];
        terms_describe(found, have + 1, text, sizeof text);
        const bool moved = have == 1 && found[0].u == found[1].u && found[0].v == found[1].v &&
                           found[0].dim != -2 && found[1].dim != -2;
        if (moved)
            return cti_suspect_say(s, CT_MISTAKE_SUM,
                                   "a sum runs over other dims than it must: the error is %s",
                                   text);
        return cti_suspect_say(s, CT_MISTAKE_TERM, "terms are missing or wrong: %s", text);
    }
    return false;
}
