/* Descriptions of wrong values, which are found only from these values and the right ones: all
 * zeros, a constant factor, transposed, only the first row right ... Every sentence is a fact about
 * the numbers, to nine digits. Part of course.c. */
#ifndef COURSE_LIKENESS_H
#define COURSE_LIKENESS_H

#include <cotangent/cotangent.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ALIKE = 4096 }; /* elements; more are not looked at */

typedef struct {
    const double *got, *expected;
    ct_shape shape;
    int64_t n, wrong;
    const bool *is_wrong;
    char *said;
    size_t size;
} likeness;

#define SAY(l, ...) (snprintf((l)->said, (l)->size, __VA_ARGS__), true)

static bool near(double a, double b) {
    return a == b || (isfinite(b) && fabs(a - b) <= 1e-9 * fmax(1, fabs(b)));
}

/* ---- each wrong number as a function of the right one ---- */

static double minus(double x) { return -x; }
static double inverse(double x) { return 1 / x; }
static double rest(double x) { return 1 - x; }
static double square(double x) { return x * x; }
static double positive(double x) { return x > 0 ? x : 0; }
static double in_float(double x) { return (float)x; }

static const struct {
    double (*of)(double);
    const char *what;
    bool whole;
} functions[] = {
    {minus, "the negative of what it must be"},
    {fabs, "right but for the sign: the absolute value of what it must be"},
    {in_float, "rounded to float: there is a variable or a function of float (expf)"},
    {trunc, "cut to a whole number: is there an int, or a division of integers?", true},
    {floor, "rounded down to a whole number", true},
    {rint, "rounded to a whole number: is there an int?", true},
    {positive, "0 where it must be negative"},
    {inverse, "1 divided by what it must be"},
    {rest, "1 minus what it must be"},
    {square, "the square of what it must be"},
    {sqrt, "the square root of what it must be"},
    {exp, "e to the power of what it must be: a logarithm is missing"},
    {log, "the logarithm of what it must be: one too many"}};

/* Whether the wrong values have two numbers that differ, or one number that no formula gives by
 * chance. */
static bool telling(const likeness *l) {
    double first = NAN;
    for (int64_t i = 0; i < l->n; i++) {
        if (!l->is_wrong[i]) continue;
        if (!isnan(first) && first != l->expected[i]) return true;
        first = l->expected[i];
    }
    return fabs(first - rint(first)) > 1e-3;
}

static bool a_function(likeness *l) {
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
        int64_t i = 0;
        /* a single whole number may come of anything */
        if (functions[f].whole && l->wrong == 1) continue;
        while (i < l->n && (!l->is_wrong[i] || near(l->got[i], functions[f].of(l->expected[i]))))
            i++;
        /* rounding to float must be exact: near would take the right number for it */
        for (int64_t j = 0; f == 2 && j < l->n && i == l->n; j++)
            if (l->is_wrong[j] && l->got[j] != in_float(l->expected[j])) i = 0;
        if (i == l->n) return SAY(l, "what is wrong is %s", functions[f].what);
    }
    return false;
}

/* "1 / sqrt(5)" of 0.4472, or nothing. */
static bool name_of(double c, char name[64]) {
    static const struct {
        double value;
        const char *name;
    } known[] = {{M_LOG2E, "1 / ln 2: a logarithm to base 2"},
                 {M_LOG10E, "1 / ln 10: a logarithm to base 10"},
                 {M_PI, "pi"},
                 {M_PI / 180, "pi / 180"},
                 {180 / M_PI, "180 / pi"}};
    const double size = fabs(c);
    const char *sign = c < 0 ? "-" : "";
    for (int i = 0; i < 5; i++)
        if (near(c / known[i].value, 1)) return snprintf(name, 64, "%s", known[i].name) > 0;
    for (int below = 1; below <= 64; below++)
        for (int root = 0; root < 2; root++) {
            const double over = (root ? size * size : size) * below;
            if (over < 0.5 || over > 4096.5 || !near(over / rint(over), 1)) continue;
            if (root && rint(over) == 1) snprintf(name, 64, "%s1 / sqrt(%d)", sign, below);
            else if (root && below == 1) snprintf(name, 64, "%ssqrt(%.0f)", sign, over);
            else if (root) snprintf(name, 64, "%ssqrt(%.0f / %d)", sign, over, below);
            else if (below == 1) snprintf(name, 64, "%s%.0f", sign, over);
            else snprintf(name, 64, "%s%.0f / %d", sign, over, below);
            return true;
        }
    return false;
}

static bool a_factor(likeness *l) {
    int64_t largest = -1, count = 0;
    for (int64_t i = 0; i < l->n; i++) {
        if (!l->is_wrong[i]) continue;
        count++;
        if (largest < 0 || fabs(l->expected[i]) > fabs(l->expected[largest])) largest = i;
    }
    const double c = l->got[largest] / l->expected[largest];
    char name[64];
    const bool named = isfinite(c) && name_of(c, name);
    if (!isfinite(c) || c == 0 || fabs(c - 1) < 1e-5 || (count < 3 && !named)) return false;
    if (count == 1 && l->n > 1) return false; /* one of several is some multiple of anything */
    for (int64_t i = 0; i < l->n; i++)
        if (l->is_wrong[i] && !near(l->got[i], c * l->expected[i])) return false;
    return SAY(l, "a constant factor: %s %.6g times what it must be%s%s",
               l->wrong == l->n ? "it is" : "what is wrong is", c,
               named && c != rint(c) ? ", that is " : "", named && c != rint(c) ? name : "");
}

static bool a_constant_more(likeness *l) {
    int64_t first = 0;
    while (!l->is_wrong[first]) first++;
    const double off = l->got[first] - l->expected[first];
    if (l->wrong == 1 && l->n > 1 && near(fabs(off), 1))
        return SAY(l, "one of them is wrong, by 1: a 1 is %s", off > 0 ? "too many" : "missing");
    first = -1;
    for (int64_t i = 0; i < l->n; i++) {
        if (!l->is_wrong[i]) continue;
        if (first < 0) first = i;
        else if (!near(l->got[i] - l->expected[i], l->got[first] - l->expected[first]))
            return false;
    }
    return l->wrong >= 3 && SAY(l, "to each wrong one the same number is added, %.6g",
                                l->got[first] - l->expected[first]);
}

/* Whether the values are right to seven digits: they were rounded to float, or an epsilon was
 * added. */
static bool nearly_right(likeness *l) {
    double worst = 0;
    for (int64_t i = 0; i < l->n; i++)
        worst = fmax(worst, fabs(l->got[i] - l->expected[i]) / fmax(fabs(l->expected[i]), 1e-3));
    return worst < 1e-5 && SAY(l,
                               "it is right to %d digits: something is computed in float, or a "
                               "small number is added that is not in the formula",
                               (int)floor(-log10(worst)));
}

/* ---- the places of wrong numbers ---- */

static int64_t step_of(ct_shape shape, int d) {
    int64_t step = 1;
    for (int i = d + 1; i < shape.ndim; i++) step *= shape.dim[i];
    return step;
}
static int64_t index_of(ct_shape shape, int64_t e, int d) {
    return e / step_of(shape, d) % shape.dim[d];
}

/* got[e] = expected[e moved to `to` in dim d], for each e whose `to` there is */
static bool moved(const likeness *l, int d, bool reversed, int64_t by) {
    const int64_t size = l->shape.dim[d], step = step_of(l->shape, d);
    for (int64_t e = 0; e < l->n; e++) {
        const int64_t here = index_of(l->shape, e, d), to = reversed ? size - 1 - here : here + by;
        if (to >= 0 && to < size && !near(l->got[e], l->expected[e + (to - here) * step]))
            return false;
    }
    return true;
}

/* Whether dims a and b are exchanged: in the shape of `got`, if their sizes are equal, or only in
 * memory. */
static bool exchanged(const likeness *l, int a, int b, bool in_memory) {
    if (!in_memory && l->shape.dim[a] != l->shape.dim[b]) return false;
    ct_shape other = l->shape;
    other.dim[a] = l->shape.dim[b], other.dim[b] = l->shape.dim[a];
    for (int64_t e = 0; e < l->n; e++) {
        int64_t from = 0; /* place in expected of the element that stands at e when exchanged */
        for (int d = 0; d < other.ndim; d++)
            from += index_of(other, e, d) * step_of(l->shape, d == a ? b : d == b ? a : d);
        if (!near(l->got[e], l->expected[from])) return false;
    }
    return true;
}

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool same_numbers(const likeness *l) {
    double *a = malloc((size_t)l->n * sizeof *a), *b = malloc((size_t)l->n * sizeof *b);
    memcpy(a, l->got, (size_t)l->n * sizeof *a), memcpy(b, l->expected, (size_t)l->n * sizeof *b);
    qsort(a, (size_t)l->n, sizeof *a, by_size), qsort(b, (size_t)l->n, sizeof *b, by_size);
    int64_t i = 0;
    while (i < l->n && near(a[i], b[i])) i++;
    free(a), free(b);
    return i == l->n;
}

static bool elsewhere(likeness *l) {
    const int dims = l->shape.ndim;
    if (l->n < 2) return false;
    for (int d = 0; d < dims; d++) {
        if (l->shape.dim[d] < 2) continue;
        if (moved(l, d, true, 0))
            return SAY(l, "the numbers are right, but along dim %d in reversed order", d);
        if (l->shape.dim[d] < 3) continue;
        for (int by = -1; by <= 1; by += 2)
            if (moved(l, d, false, by))
                return SAY(l,
                           "along dim %d each stands where the %s one must stand: shifted by one",
                           d, by > 0 ? "last" : "next");
    }
    for (int a = 0; a < dims; a++)
        for (int b = a + 1; b < dims; b++)
            if (exchanged(l, a, b, true) || exchanged(l, a, b, false))
                return SAY(l, "transposed: the numbers are right, but dims %d and %d are exchanged",
                           a, b);
    return same_numbers(l) && SAY(l, "the numbers are right, but they stand in other places");
}

/* Whether each row (or column) is wrong by a factor of its own, or by an added number of its
 * own. */
static bool by_rows(likeness *l) {
    static const char *const sentences[] = {
        "the numbers of a row (of the last dim) are all wrong by one factor, which differs in each "
        "row: look at what a row is divided by or multiplied with",
        "to all numbers of a row (of the last dim) the same is added, another number in each row",
        "the numbers of a column are all wrong by one factor, which differs in each column",
        "to all numbers of a column the same is added, another number in each column"};
    const int64_t columns = l->shape.ndim ? l->shape.dim[l->shape.ndim - 1] : 1;
    const int64_t rows = l->n / columns;
    if (rows < 2 || columns < 2) return false;
    for (int way = 0; way < 4; way++) {
        const bool by_column = way >= 2, factor = way % 2 == 0;
        const int64_t lines = by_column ? columns : rows, length = by_column ? rows : columns;
        const int64_t step = by_column ? columns : 1;
        bool fits = true;
        int64_t wrong_lines = 0;
        for (int64_t line = 0; line < lines && fits; line++) {
            const int64_t first = by_column ? line : line * columns;
            const double *got = l->got + first, *right = l->expected + first;
            int64_t nonzero = right[0] != 0;
            for (int64_t i = 1; i < length && fits; i++) {
                nonzero += right[i * step] != 0;
                fits = factor ? near(got[i * step] * right[0], got[0] * right[i * step])
                              : near(got[i * step] - right[i * step], got[0] - right[0]);
            }
            fits = fits && (nonzero > 2 || (nonzero == 2 && lines > 2));
            wrong_lines += l->is_wrong[first];
        }
        fits = fits && wrong_lines >= 2;
        if (fits) return SAY(l, "%s", sentences[way]);
    }
    return false;
}

/* Appends the places of wrong elements, if all elements of an index are wrong or none. */
static void append_where(likeness *l) {
    const size_t at = strlen(l->said);
    const char *join = at ? "; " : "";
    char *said = l->said + at;
    const size_t room = l->size - at;
    if (l->wrong == l->n) return;
    if (l->wrong == 1 && l->is_wrong[l->n - 1]) {
        snprintf(said, room, "%sonly the very last element is wrong", join);
        return;
    }
    int best = -1;
    int64_t fewest = 0;
    bool *seen = malloc((size_t)l->n), *chosen = calloc((size_t)l->n, 1);
    for (int d = 0; d < l->shape.ndim; d++) {
        int64_t count = 0;
        memset(seen, 0, (size_t)l->n);
        for (int64_t e = 0; e < l->n; e++)
            if (l->is_wrong[e] && !seen[index_of(l->shape, e, d)])
                seen[index_of(l->shape, e, d)] = true, count++;
        if (count == l->shape.dim[d]) continue;
        if (best < 0 || count * l->shape.dim[best] < fewest * l->shape.dim[d])
            best = d, fewest = count, memcpy(chosen, seen, (size_t)l->n);
    }
    if (best >= 0) {
        const int64_t size = l->shape.dim[best];
        int64_t first = 0, right = 0;
        while (!chosen[first]) first++;
        while (chosen[right]) right++;
        if (fewest == 1)
            snprintf(said, room, "%sonly index %lld of dim %d%s is wrong", join, (long long)first,
                     best,
                     first == size - 1 ? ", the last,"
                     : first           ? ""
                                       : ", the first,");
        else if (fewest == size - 1)
            snprintf(said, room, "%sonly index %lld of dim %d%s is right", join, (long long)right,
                     best,
                     right == size - 1 ? ", the last,"
                     : right           ? ""
                                       : ", the first,");
        else
            snprintf(said, room, "%sof dim %d, %lld of %lld indexes are wrong: %lld is the first",
                     join, best, (long long)fewest, (long long)size, (long long)first);
    }
    free(seen), free(chosen);
}

/* ---- all of it ---- */

static bool not_numbers(likeness *l) {
    int64_t unwritten = 0, nan = 0, infinite = 0;
    for (int64_t i = 0; i < l->n; i++) {
        uint64_t bits;
        memcpy(&bits, &l->got[i], sizeof bits);
        if (!l->is_wrong[i]) continue;
        if (bits << 1 == UINT64_MAX << 1) unwritten++;
        else if (isnan(l->got[i])) nan++;
        else if (isinf(l->got[i])) infinite++;
    }
    if (unwritten)
        return SAY(l,
                   "%lld of them were never written, or computed from memory that was not (new "
                   "memory holds NaN here)",
                   (long long)unwritten);
    if (nan)
        return SAY(l, "NaN is what 0 / 0, inf / inf, inf - inf and 0 times inf give; e^x is inf "
                      "from x = 710 on, and 0 below -745");
    return infinite > 0 &&
           SAY(l, "infinite is what a division by 0 gives, e^x from x = 710 on, and ln 0");
}

static bool all_of_one(likeness *l) {
    for (int64_t i = 1; i < l->n; i++)
        if (l->got[i] != l->got[0]) return false;
    if (l->n == 1 && l->got[0] != 0) return false;
    return l->got[0] == 0 ? SAY(l, "%s 0: was nothing written?", l->n == 1 ? "it is" : "all are")
                          : SAY(l, "all are the same number");
}

static bool all_whole(likeness *l) {
    int64_t whole = 0, must = 0;
    for (int64_t i = 0; i < l->n; i++)
        whole += l->got[i] == rint(l->got[i]), must += l->expected[i] == rint(l->expected[i]);
    return whole == l->n && must == 0 &&
           SAY(l, "%s: is there an int, or a division of integers?",
               l->n == 1 ? "it is a whole number" : "all are whole numbers");
}

static bool wrong_ones_zero(likeness *l) {
    for (int64_t i = 0; i < l->n; i++)
        if (l->is_wrong[i] && l->got[i] != 0) return false;
    return SAY(l, "what is wrong is 0");
}

/* Whether the numbers are the same as in the last call. This function keeps the numbers of each
 * call. */
static bool as_before(likeness *l) {
    static double before[MOST_ALIKE];
    static int64_t count;
    const bool same =
        count == l->n && count > 1 && !memcmp(before, l->got, (size_t)l->n * sizeof *before);
    count = l->n, memcpy(before, l->got, (size_t)l->n * sizeof *before);
    return same && l->wrong &&
           SAY(l, "this is what the call before gave, for other inputs: does it keep something?");
}

/* Describes wrong values. It must also be called with right values, because as_before compares with
 * the last call. If no pattern fits, *said stays empty. */
static void looks_like(const double *got, const double *expected, ct_shape shape,
                       const bool *is_wrong, int64_t wrong, char *said, size_t size) {
    int64_t n = 1;
    for (int d = 0; d < shape.ndim; d++) n *= shape.dim[d];
    likeness l = {got, expected, shape, n, wrong, is_wrong, said, size};
    *said = 0;
    if (n == 0 || n > MOST_ALIKE || as_before(&l) || wrong == 0) return;
    if (all_of_one(&l) || (!(telling(&l) && a_function(&l)) && all_whole(&l))) return;
    *said = 0;
    if (!not_numbers(&l) && !wrong_ones_zero(&l) && !(telling(&l) && a_function(&l)) &&
        !nearly_right(&l) && !(telling(&l) && a_factor(&l)) && !elsewhere(&l) &&
        !a_constant_more(&l))
        by_rows(&l);
    append_where(&l);
}

#endif
