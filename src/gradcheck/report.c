/* The comparison of the two matrices: wrong entries, worst elements, the map, and the printed
 * report. */
#include "suspect.h"

#include <math.h>
#include <string.h>

enum { MAP_ROWS = 8, MAP_COLUMNS = 32 };
_Static_assert(MAP_ROWS *(MAP_COLUMNS + 1) + 1 == CT_GRADCHECK_MAP,
               "the map in the result is of this size");

double cti_check_allowed(const cti_check *k, int64_t r, double numeric) {
    const int64_t summed = r - (k->rows - CTI_ROWS_SUMMED);
    return k->opts.atol * (summed < 0 ? 1 : k->length[summed]) + k->opts.rtol * fabs(numeric);
}

/* The error of an entry divided by its tolerance. An entry above 1 is not right. */
static double excess(const cti_check *k, const cti_checked *c, int64_t r, int64_t i) {
    const double analytic = c->analytic[r * c->n + i], numeric = c->numeric[r * c->n + i];
    const double e =
        analytic == numeric ? 0 : fabs(analytic - numeric) / cti_check_allowed(k, r, numeric);
    return isnan(e) ? INFINITY : e;
}

bool cti_check_right(const cti_check *k, const cti_checked *c, int64_t r, int64_t i) {
    return excess(k, c, r, i) <= 1;
}

/* If a row of a single output is wrong, the summed rows are not considered: a single output is
 * easier to read. */
double cti_check_worst(const cti_check *k, const cti_checked *c, int64_t i,
                       ct_gradcheck_element *out) {
    double most = -1;
    int64_t row = 0;
    for (int64_t r = 0; r < k->rows && !(r == k->rows - CTI_ROWS_SUMMED && most > 1); r++) {
        double e = excess(k, c, r, i);
        if (e > most) most = e, row = r;
    }
    double analytic = c->analytic[row * c->n + i], numeric = c->numeric[row * c->n + i],
           error = analytic == numeric ? 0 : fabs(analytic - numeric);
    int64_t summed = row - (k->rows - CTI_ROWS_SUMMED);
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
static void draw_map(const cti_check *k, const cti_checked *c, char map[CT_GRADCHECK_MAP]) {
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
        double here = cti_check_worst(k, c, i, &element), power = floor(log10(here));
        if (here <= 1 && c->state[i] == CTI_RIGHT) continue;
        if (here <= 1) power = 0; /* wrong though within the tolerance */
        char sign = isinf(here) ? 'x' : (char)('1' + (power > 8 ? 8 : (int)power));
        char *cell = map + i / columns * high / rows * (wide + 1) + i % columns * wide / columns;
        if (*cell == '.' || sign > *cell) *cell = sign;
    }
}

/* Puts an element into worst[], which is sorted by excess_of[]. */
static void insert_worst(ct_gradcheck_result *r, double excess_of[CT_GRADCHECK_WORST], double here,
                         const ct_gradcheck_element *element) {
    int at = r->worst_count < CT_GRADCHECK_WORST ? r->worst_count++ : CT_GRADCHECK_WORST;
    for (; at > 0 && here > excess_of[at - 1]; at--)
        if (at < CT_GRADCHECK_WORST)
            excess_of[at] = excess_of[at - 1], r->worst[at] = r->worst[at - 1];
    if (at < CT_GRADCHECK_WORST) excess_of[at] = here, r->worst[at] = *element;
}

/* The order of elements in the report: wrong ones, then undecided ones, then all others. */
static int rank_of(cti_state state) { return state == CTI_WRONG ? 2 : state != CTI_RIGHT; }

void cti_check_compare(cti_check *k) {
    ct_gradcheck_result *r = &k->result;
    double excess_of[CT_GRADCHECK_WORST], top = -1;
    int most = 0;
    for (int q = 0; q < k->count; q++)
        for (int64_t i = 0; i < k->checked[q].n; i++)
            most = rank_of(k->checked[q].state[i]) > most ? rank_of(k->checked[q].state[i]) : most;
    for (int q = 0; q < k->count; q++) {
        cti_checked *c = &k->checked[q];
        for (int64_t e = 0; e < k->rows * c->n; e++) r->noise = fmax(r->noise, c->noise[e]);
        for (int64_t i = 0; i < c->n; i++) {
            ct_gradcheck_element element;
            const double here = cti_check_worst(k, c, i, &element);
            const int rank = rank_of(c->state[i]);
            r->checked++;
            r->error = isnan(element.error) ? INFINITY : fmax(r->error, element.error);
            c->wrong += rank == 2, c->undecided += rank == 1;
            if (rank == most && here > top) {
                top = here;
                r->input = c->input, r->index = element.index, r->analytic = element.analytic,
                r->numeric = element.numeric;
            }
            if (rank == most && rank) insert_worst(r, excess_of, here, &element);
        }
        r->wrong += c->wrong + c->undecided, r->undecided += c->undecided;
    }
    if (r->wrong) r->ok = false;
    for (int q = 0; q < k->count && r->wrong && !k->opts.fast; q++)
        if (k->checked[q].input == r->input) draw_map(k, &k->checked[q], r->map);
}

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
                                       [CT_MISTAKE_STATE] = "state"};
    return (unsigned)mistake < sizeof name / sizeof *name ? name[mistake] : "unknown";
}

const char *cti_check_position(ct_shape shape, int64_t index, char text[CTI_SHAPE_TEXT]) {
    ct_shape at = shape;
    for (int d = 0; d < shape.ndim; d++) at.dim[d] = cti_suspect_along(shape, index, d);
    return cti_shape_text(at, text);
}

const char *cti_check_cotangent(int64_t output) {
    static const char *const name[] = {"random", "ones", "zeros", "scaled"}; /* for -1, -2, ... */
    return output >= 0 ? "1 at " : name[-1 - output];
}

const char *cti_check_verdict(const ct_gradcheck_result *r) {
    static const char *const name[] = {[CT_VERDICT_OK] = "ok",
                                       [CT_VERDICT_WRONG] = "wrong",
                                       [CT_VERDICT_CANNOT_TELL] = "cannot tell"};
    return name[r->verdict];
}

/* Returns x, and for a NaN one without a sign: printf would show the sign, which has no meaning. */
static double shown_row(double x) { return isnan(x) ? (double)NAN : x; }

void cti_check_report(const cti_check *k) {
    const ct_gradcheck_result *r = &k->result;
    FILE *file = k->opts.report;
    if (!file || !r->ran) return;
    if (r->ok)
        fprintf(file, "gradcheck: ok: %lld %s, error at most %.2g, noise of the differences %.2g\n",
                (long long)r->checked, k->opts.fast ? "directions" : "elements", r->error,
                r->noise);
    else fprintf(file, "gradcheck: %s: %s\n", cti_check_verdict(r), r->diagnosis);
    for (int q = 0; q < k->count; q++)
        if (*k->checked[q].diagnosis && strcmp(k->checked[q].diagnosis, r->diagnosis))
            fprintf(file, "  and %s\n", k->checked[q].diagnosis);
    if (!r->wrong) return;
    fprintf(file, "  %lld of %lld %s wrong", (long long)(r->wrong - r->undecided),
            (long long)r->checked, k->opts.fast ? "directions are" : "elements are");
    if (r->undecided) fprintf(file, ", %lld undecided", (long long)r->undecided);
    fprintf(file, "; allowed is %.2g |g| + %.2g |numeric|; the worst:\n", k->opts.atol,
            k->opts.rtol);
    fprintf(file, "  %-16s %-16s %15s %15s %9s %9s %9s\n", "input", "cotangent", "analytic",
            "numeric", "error", "relative", "noise");
    for (int w = 0; w < r->worst_count; w++) {
        const ct_gradcheck_element *e = &r->worst[w];
        char input[CTI_SHAPE_TEXT + 16], cotangent[CTI_SHAPE_TEXT + 16];
        snprintf(input, sizeof input, "%d %s", e->input,
                 e->index < 0 ? "a direction" : CTI_POSITION(k->in[e->input]->shape, e->index));
        snprintf(cotangent, sizeof cotangent, "%s%s", cti_check_cotangent(e->output),
                 e->output >= 0 ? CTI_POSITION(k->shape, e->output) : "");
        fprintf(file, "  %-16s %-16s %15.9g %15.9g %9.2g %9.2g %9.2g\n", input, cotangent,
                shown_row(e->analytic), shown_row(e->numeric), shown_row(e->error),
                shown_row(e->relative), shown_row(e->noise));
    }
    if (!*r->map) return;
    fprintf(file,
            "  where in input %d %s: . is right, 1 to 9 powers of ten above what is allowed, x not "
            "finite\n",
            r->input, SHAPE(k->in[r->input]->shape));
    for (const char *line = r->map; *line; line += strcspn(line, "\n") + 1)
        fprintf(file, "    %.*s\n", (int)strcspn(line, "\n"), line);
}
