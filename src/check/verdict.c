/* The verdict on each entry, column and input: the comparison of the two matrices, the worst
 * elements, the map, and the mistake that was found. */
#include "phases.h"

#include "../core/message.h"

#include <math.h>
#include <string.h>

enum { MAP_ROWS = 8, MAP_COLUMNS = 32 };
_Static_assert(MAP_ROWS *(MAP_COLUMNS + 1) + 1 == CT_GRADCHECK_MAP,
               "the map in the result is of this size");

double cti_check_allowed(const cti_check *check, int64_t r, double numeric) {
    const int64_t summed = r - (check->rows - CTI_ROWS_SUMMED);
    return check->opts.atol * (summed < 0 ? 1 : check->length[summed]) +
           check->opts.rtol * fabs(numeric);
}

/* The error of an entry divided by its tolerance. An entry above 1 is not right. */
static double excess(const cti_check *check, const cti_checked *c, int64_t r, int64_t i) {
    const double analytic = c->analytic[r * c->n + i], numeric = c->numeric[r * c->n + i];
    const double e =
        analytic == numeric ? 0 : fabs(analytic - numeric) / cti_check_allowed(check, r, numeric);
    return isnan(e) ? INFINITY : e;
}

bool cti_check_right(const cti_check *check, const cti_checked *c, int64_t r, int64_t i) {
    return excess(check, c, r, i) <= 1;
}

/* If a row of a single output is wrong, the summed rows are not considered: a single output is
 * easier to read. */
double cti_check_worst(const cti_check *check, const cti_checked *c, int64_t i,
                       ct_gradcheck_element *out) {
    double most = -1;
    int64_t row = 0;
    for (int64_t r = 0; r < check->rows && !(r == check->rows - CTI_ROWS_SUMMED && most > 1); r++) {
        double e = excess(check, c, r, i);
        if (e > most) most = e, row = r;
    }
    double analytic = c->analytic[row * c->n + i], numeric = c->numeric[row * c->n + i],
           error = analytic == numeric ? 0 : fabs(analytic - numeric);
    int64_t summed = row - (check->rows - CTI_ROWS_SUMMED);
    *out = (ct_gradcheck_element){.input = c->input,
                                  .index = c->direction ? -1 : i,
                                  .output = summed < 0                ? row
                                            : summed < CTI_ROW_ONES   ? -1
                                            : summed == CTI_ROW_ONES  ? -2
                                            : summed == CTI_ROW_ZEROS ? -3
                                                                      : -4,
                                  .analytic = analytic,
                                  .numeric = numeric,
                                  .error = error,
                                  .relative = error == 0 ? 0 : error / fabs(numeric),
                                  .noise = c->noise[row * c->n + i]};
    return most;
}

/* Draws the input as rows of its last dim. If it is larger than the map, a cell stands for several
 * elements and shows the worst. */
static void error_map_draw(const cti_check *check, const cti_checked *c,
                           char map[CT_GRADCHECK_MAP]) {
    const int ndim = c->x->shape.ndim;
    const int64_t columns = ndim ? c->x->shape.dim[ndim - 1] : 1, rows = c->n / columns;
    const int64_t high = rows < MAP_ROWS ? rows : MAP_ROWS,
                  wide = columns < MAP_COLUMNS ? columns : MAP_COLUMNS;
    for (int64_t v = 0; v < high; v++) {
        memset(map + v * (wide + 1), '.', (size_t)wide);
        map[v * (wide + 1) + wide] = '\n';
    }
    for (int64_t i = 0; i < c->n; i++) {
        ct_gradcheck_element element;
        double here = cti_check_worst(check, c, i, &element), power = floor(log10(here));
        if (here <= 1 && c->state[i] == CTI_RIGHT) continue;
        if (here <= 1) power = 0; /* wrong though within the tolerance */
        char sign = isinf(here) ? 'x' : (char)('1' + (power > 8 ? 8 : (int)power));
        char *cell = map + i / columns * high / rows * (wide + 1) + i % columns * wide / columns;
        if (*cell == '.' || sign > *cell) *cell = sign;
    }
}

/* Puts an element into worst[], which is sorted by excess_of[]. */
static void worst_insert(ct_gradcheck_result *r, double excess_of[CT_GRADCHECK_WORST], double here,
                         const ct_gradcheck_element *element) {
    int at = r->worst_count < CT_GRADCHECK_WORST ? r->worst_count++ : CT_GRADCHECK_WORST;
    for (; at > 0 && here > excess_of[at - 1]; at--)
        if (at < CT_GRADCHECK_WORST)
            excess_of[at] = excess_of[at - 1], r->worst[at] = r->worst[at - 1];
    if (at < CT_GRADCHECK_WORST) excess_of[at] = here, r->worst[at] = *element;
}

/* The order of elements in the report: wrong ones, then undecided ones, then all others. */
static int rank_of(cti_state state) { return state == CTI_WRONG ? 2 : state != CTI_RIGHT; }

void cti_check_compare(cti_check *check) {
    ct_gradcheck_result *r = &check->result;
    double excess_of[CT_GRADCHECK_WORST], top = -1;
    int most = 0;
    for (int q = 0; q < check->count; q++)
        for (int64_t i = 0; i < check->checked[q].n; i++)
            most = rank_of(check->checked[q].state[i]) > most ? rank_of(check->checked[q].state[i])
                                                              : most;
    for (int q = 0; q < check->count; q++) {
        cti_checked *c = &check->checked[q];
        for (int64_t e = 0; e < check->rows * c->n; e++) r->noise = fmax(r->noise, c->noise[e]);
        for (int64_t i = 0; i < c->n; i++) {
            ct_gradcheck_element element;
            const double here = cti_check_worst(check, c, i, &element);
            const int rank = rank_of(c->state[i]);
            r->checked++;
            r->error = isnan(element.error) ? INFINITY : fmax(r->error, element.error);
            c->wrong += rank == 2, c->undecided += rank == 1;
            if (rank == most && here > top) {
                top = here;
                r->input = c->input, r->index = element.index, r->analytic = element.analytic,
                r->numeric = element.numeric;
            }
            if (rank == most && rank) worst_insert(r, excess_of, here, &element);
        }
        r->wrong += c->wrong + c->undecided, r->undecided += c->undecided;
    }
    if (r->wrong) r->ok = false;
    for (int q = 0; q < check->count && r->wrong && !check->opts.fast; q++)
        if (check->checked[q].input == r->input) error_map_draw(check, &check->checked[q], r->map);
}

/* ---- mistakes ---- */

const char *ct_mistake_name(ct_mistake mistake) {
    static const char *const name[] = {[CT_MISTAKE_NONE] = "none",
                                       [CT_MISTAKE_UNKNOWN] = "unknown",
                                       [CT_MISTAKE_REFUSED] = "refused",
                                       [CT_MISTAKE_NONDETERMINISTIC] = "non-deterministic",
                                       [CT_MISTAKE_WRITES] = "writes",
                                       [CT_MISTAKE_MEMORY] = "memory",
                                       [CT_MISTAKE_THREADS] = "threads",
                                       [CT_MISTAKE_LAYOUT] = "layout",
                                       [CT_MISTAKE_SHARED] = "shared",
                                       [CT_MISTAKE_DTYPE] = "dtype",
                                       [CT_MISTAKE_NOT_FINITE] = "not finite",
                                       [CT_MISTAKE_KINK] = "kink",
                                       [CT_MISTAKE_PRECISION] = "precision",
                                       [CT_MISTAKE_ZERO] = "zero",
                                       [CT_MISTAKE_SIGN] = "sign",
                                       [CT_MISTAKE_FACTOR] = "factor",
                                       [CT_MISTAKE_SCALE] = "scale",
                                       [CT_MISTAKE_COTANGENT] = "cotangent",
                                       [CT_MISTAKE_MASK] = "mask",
                                       [CT_MISTAKE_SUM] = "sum",
                                       [CT_MISTAKE_ASSIGNED] = "assigned",
                                       [CT_MISTAKE_TRANSPOSED] = "transposed",
                                       [CT_MISTAKE_PERMUTED] = "permuted",
                                       [CT_MISTAKE_FORWARD_VALUE] = "forward value",
                                       [CT_MISTAKE_CHAIN] = "chain rule",
                                       [CT_MISTAKE_PRODUCT_RULE] = "product rule",
                                       [CT_MISTAKE_EDGES] = "edges",
                                       [CT_MISTAKE_TERM] = "term",
                                       [CT_MISTAKE_UNIFORM] = "uniform",
                                       [CT_MISTAKE_ROUNDING] = "rounding",
                                       [CT_MISTAKE_RESIDUAL] = "residual",
                                       [CT_MISTAKE_EXCHANGED] = "exchanged",
                                       [CT_MISTAKE_OPERAND] = "operand",
                                       [CT_MISTAKE_REVERSED] = "reversed",
                                       [CT_MISTAKE_THRESHOLD] = "threshold",
                                       [CT_MISTAKE_ROWS] = "rows",
                                       [CT_MISTAKE_FORMULA] = "formula",
                                       [CT_MISTAKE_STATE] = "state",
                                       [CT_MISTAKE_WANTS] = "wants"};
    return (unsigned)mistake < sizeof name / sizeof *name ? name[mistake] : "unknown";
}

void cti_check_found(cti_check *check, ct_mistake mistake, const char *sentence) {
    check->result.ok = false;
    if (check->result.mistake != CT_MISTAKE_NONE) return;
    check->result.mistake = mistake;
    cti_text_shorten(check->result.diagnosis, sizeof check->result.diagnosis - 1, sentence,
                     strlen(sentence));
}

void cti_check_say(cti_check *check, cti_checked *c, ct_mistake mistake, double factor,
                   const char *sentence) {
    char text[CTI_SHAPE_TEXT + 320];
    snprintf(text, sizeof text, "input %d %s: %s", c->input, SHAPE(c->x->shape), sentence);
    cti_text_shorten(c->diagnosis, sizeof c->diagnosis - 1, text, strlen(text));
    if (c->input != check->result.input || check->result.mistake != CT_MISTAKE_NONE) return;
    cti_check_found(check, mistake, c->diagnosis);
    check->result.factor = factor;
}

void cti_check_say_undecided(cti_check *check, cti_checked *c) {
    int64_t count[CTI_NOT_FINITE + 1] = {0};
    double noise = 0;
    char text[256];
    for (int64_t i = 0; i < c->n; i++) {
        count[c->state[i]]++;
        for (int64_t r = 0; r < check->rows && c->state[i] == CTI_IMPRECISE; r++)
            if (!cti_check_right(check, c, r, i)) noise = fmax(noise, c->noise[r * c->n + i]);
    }
    CTI_ASSERT(!count[CTI_WRONG]);
    if (count[CTI_NOT_FINITE]) {
        cti_check_say(check, c, CT_MISTAKE_NOT_FINITE, 0,
                      "the function is not finite within a step of this point, so its differences "
                      "say nothing; move the point");
    } else if (count[CTI_KINK]) {
        snprintf(text, sizeof text,
                 "a kink or a jump near this point: at %lld %s%s the slopes to both sides, or with "
                 "several steps, disagree by as much as the gradient is off; move the point",
                 (long long)count[CTI_KINK], check->opts.fast ? "direction" : "element",
                 count[CTI_KINK] > 1 ? "s" : "");
        cti_check_say(check, c, CT_MISTAKE_KINK, 0, text);
    } else {
        snprintf(
            text, sizeof text,
            check->coarse
                ? "f32 is too coarse here: the differences themselves are off by %.2g; check in f64"
                : "the differences themselves are off by %.2g here, as much as the error, with any "
                  "step: try another eps, or smaller values",
            noise);
        cti_check_say(check, c, CT_MISTAKE_PRECISION, 0, text);
    }
}
