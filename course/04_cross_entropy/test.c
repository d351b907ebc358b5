/* cross_entropy against plain loops, and against numbers made by hand. */
#include "../course.h"
#include "exercise.h"

#include <math.h>
#include <string.h>

enum { IGNORE = -100 };

/* Logits with targets, and which of these is to be ignored. */
typedef struct {
    ct_tensor *logits, *targets;
    cross_entropy_attrs attrs;
} batch;

static batch batch_of(ct_context *context, ct_tensor *logits, const int64_t *targets, int64_t n,
                      int64_t ignore) {
    ct_tensor *t = ct_from_i64(context, CT_SHAPE(n), targets);
    if (!t) course_fail("the test itself: %s", ct_error_message(context));
    return (batch){logits, t, {ignore}};
}

/* Names the error of a batch that has no wrong target, only one of an ignored row. */
static void name_refusal(batch b) {
    const ct_context *context = ct_context_of(b.logits);
    const int64_t *target = ct_data_i64(b.targets);
    char said[32];
    snprintf(said, sizeof said, "target %lld ", (long long)b.attrs.ignore_index);
    if (ct_error(context) != CT_ERR_ARGUMENT || !strstr(ct_error_message(context), said)) return;
    for (int64_t i = 0; i < ct_numel(b.targets); i++)
        if (target[i] == b.attrs.ignore_index)
            course_hint("the range of a target is tested before it is known whether its row is "
                        "ignored: an ignored row's target may be any number");
}
static ct_tensor *loss(batch b) {
    ct_tensor *y = ct_apply(&cross_entropy, (ct_tensor *[]){b.logits, b.targets}, 2, &b.attrs);
    if (!y) name_refusal(b);
    return y;
}

static ct_tensor *by_you(ct_tensor *const *in, int n, void *arg) {
    batch b = *(const batch *)arg;
    (void)n;
    b.logits = in[0];
    return loss(b);
}

enum {
    SUM_FOR_MEAN,
    OVER_ALL_ROWS,
    OVER_CLASSES,
    OVER_LOGITS,
    OVER_COUNT_MORE,
    IGNORED_COUNTED,
    PROBABILITY,
    REST,
    BASE_2,
    BASE_10,
    NO_LOGARITHM,
    MAXIMUM_LOST,
    LOGIT_ALONE,
    SUM_ALONE,
    NEXT_TARGET,
    TARGET_BEFORE,
    ALL_CLASSES,
    BINARY,
    SQUARES,
    DOWN_COLUMNS,
    TWICE,
    FIRST_ROW,
    LAST_ROW,
    FIRST_TARGET,
    NO_MAXIMUM,
    MAXIMUM_FROM_ZERO,
    LOG_OF_SOFTMAX,
    NEGATED,
    NOT_ADVANCED,
    DIVIDED_AS_COUNTED,
    STOPS_AT_IGNORED,
    FIRST_ROW_LOST,
    LAST_ROW_LOST,
    MEAN_TWICE,
    RUNNING_HALVES,
    IGNORE_NEGATIVE,
    IGNORE_FIRST_CLASS,
    IGNORED_ALONE,
    AFTER_IGNORED_LOST,
    WITHOUT_TARGET,
    SUM_WITHOUT_FIRST,
    SUM_WITHOUT_LAST,
    SUM_GOES_ON,
    MAXIMUM_TWICE,
    MAXIMUM_SUBTRACTED,
    MAXIMUM_ALONE,
    DOUBLED,
    WEIGHTED,
    SIGN,
    LOG1P,
    LOG_OF_MEAN,
    OVER_ONE_LESS,
    TARGET_BY_COLUMN,
    TARGET_OF_ROW_NUMBER,
    TARGET_OF_NEXT_ROW,
    TARGET_OF_ROW_BEFORE,
    TARGET_FROM_END,
    TARGET_ADDED,
    LARGEST_FOR_TARGET,
    LARGEST_LOSS,
    ROOT,
    SQUARED,
    COUNT_OF_IGNORED,
    ONLY_TARGETS_MAXIMUM,
    SUM_OF_LAST,
    TARGET_IN_FIRST_ROW
};
static const course_mistake mistakes[] = {
    [SUM_FOR_MEAN] = {"with the sum of the losses in place of their mean"},
    [OVER_ALL_ROWS] = {"when the sum is divided by N, all rows, and not by those that count"},
    [OVER_CLASSES] = {"when the sum is divided by the number of classes"},
    [OVER_LOGITS] = {"when the sum is divided by the number of all logits that count, rows times "
                     "classes"},
    [OVER_COUNT_MORE] = {"when the sum is divided by the count of rows and one more"},
    [IGNORED_COUNTED] = {"when ignored rows count as others do"},
    [PROBABILITY] = {"with -p of the target in place of -ln p"},
    [REST] = {"with 1 - p of the target in place of -ln p"},
    [BASE_2] = {"with a logarithm to base 2"},
    [BASE_10] = {"with a logarithm to base 10"},
    [NO_LOGARITHM] = {"without the logarithm of the sum of exponentials"},
    [MAXIMUM_LOST] = {"when the maximum that is taken off in the exponentials is not added again"},
    [LOGIT_ALONE] = {"with -x of the target alone: no softmax", true},
    [SUM_ALONE] = {"without x of the target: ln sum e^x alone", true},
    [NEXT_TARGET] = {"with the class behind the target"},
    [TARGET_BEFORE] = {"with the class before the target"},
    [ALL_CLASSES] = {"when -ln p is summed over all classes, not of the target alone"},
    [BINARY] = {"when -ln (1 - p) of the other classes is added"},
    [SQUARES] = {"with squares of softmax minus target in place of a logarithm"},
    [DOWN_COLUMNS] = {"when the softmax is over the rows of a column, and not over classes"},
    [TWICE] = {"when the softmax is applied twice"},
    [FIRST_ROW] = {"with the loss of the first row alone"},
    [LAST_ROW] = {"with the loss of the last row alone: = or =+ in place of +="},
    [FIRST_TARGET] = {"with the first row's target for all rows"},
    [NO_MAXIMUM] = {"when no maximum is taken off before e^x"},
    [MAXIMUM_FROM_ZERO] = {"when the search for the maximum begins with 0"},
    [LOG_OF_SOFTMAX] = {"when the logarithm is taken of a softmax that is 0 already"},
    [NOT_ADVANCED] = {"when an ignored row is not stepped over: the next one takes its logits"},
    [NEGATED] = {"with the sign of the logits reversed"},
    [DIVIDED_AS_COUNTED] = {"when each loss is divided by the rows counted so far, in the loop"},
    [STOPS_AT_IGNORED] = {"when the loop ends at the first ignored row: break for continue"},
    [FIRST_ROW_LOST] = {"when the first row is left out"},
    [LAST_ROW_LOST] = {"when the last row is left out"},
    [MEAN_TWICE] = {"when the sum is divided by the count of rows twice"},
    [RUNNING_HALVES] =
        {"when each row's loss is averaged with the result so far: (sum + loss) / 2"},
    [IGNORE_NEGATIVE] = {"when rows with a target below 0 are ignored, and not those of "
                         "ignore_index"},
    [IGNORE_FIRST_CLASS] = {"when rows with target 0 are ignored, too"},
    [IGNORED_ALONE] = {"when only the rows count that must be ignored"},
    [AFTER_IGNORED_LOST] = {"when the row behind an ignored one is left out, too"},
    [WITHOUT_TARGET] = {"when the sum of exponentials is over the other classes alone"},
    [SUM_WITHOUT_FIRST] = {"when the sum of exponentials lacks class 0"},
    [SUM_WITHOUT_LAST] = {"when the sum of exponentials lacks the last class"},
    [SUM_GOES_ON] = {"when the sum of exponentials is not set back to 0 for each row"},
    [MAXIMUM_TWICE] = {"when the maximum is added twice"},
    [MAXIMUM_SUBTRACTED] = {"when the maximum is subtracted where it must be added again"},
    [MAXIMUM_ALONE] = {"with the maximum in place of the logarithm of the sum of exponentials"},
    [DOUBLED] = {"when it is twice what it must be"},
    [WEIGHTED] = {"with -p ln p in place of -ln p"},
    [SIGN] = {"with ln p in place of -ln p: the sign is reversed"},
    [LOG1P] = {"with ln(1 + sum) in place of ln sum"},
    [LOG_OF_MEAN] = {"with the logarithm of the mean of the exponentials, not of their sum"},
    [OVER_ONE_LESS] = {"when the sum is divided by the count of rows less one"},
    [TARGET_BY_COLUMN] = {"when x of the target is read at target N + row: column by column"},
    [TARGET_OF_ROW_NUMBER] = {"with the row's number for its target"},
    [TARGET_OF_NEXT_ROW] = {"with the next row's target"},
    [TARGET_OF_ROW_BEFORE] = {"with the target of the row before"},
    [TARGET_FROM_END] = {"when targets count from the last class"},
    [TARGET_ADDED] = {"when x of the target is added, and not subtracted"},
    [LARGEST_FOR_TARGET] = {"with the largest logit in place of the target's"},
    [LARGEST_LOSS] = {"with the largest loss of a row, and not their mean"},
    [ROOT] = {"when the sum is divided by the root of the count of rows"},
    [SQUARED] = {"with the square of each row's loss"},
    [COUNT_OF_IGNORED] = {"when the sum is divided by the number of ignored rows"},
    [ONLY_TARGETS_MAXIMUM] = {"when all rows share one maximum"},
    [SUM_OF_LAST] = {"when the sum of exponentials is the last class's alone: = or =+ in place of "
                     "+="},
    [TARGET_IN_FIRST_ROW] = {"when x of the target is read in row 0 for each row: x[t] in place of "
                             "x[r * C + t]"},
};

/* -ln p of every class, (N, C); with a mistake, what is computed instead of it */
static ct_tensor *losses(ct_tensor *x, course_set bits) {
    const ct_shape dims = bits >> DOWN_COLUMNS & 1 ? CT_DIMS(0) : CT_DIMS(-1);
    if (bits >> NEGATED & 1) x = ref_neg(x);
    if (bits >> LOGIT_ALONE & 1) return ref_neg(x);
    const int64_t rows = ct_dim(x, 0), classes = ct_dim(x, 1);
    ct_tensor *max = ref_max(ct_detach(x), bits >> ONLY_TARGETS_MAXIMUM & 1 ? CT_ALL : dims, true);
    if (bits >> NO_MAXIMUM & 1) max = ref_scale(max, 0);
    if (bits >> MAXIMUM_FROM_ZERO & 1) max = ref_relu(max);
    ct_tensor *e = ref_exp(ref_sub(x, max)), *counted = e;
    if (bits >> SUM_WITHOUT_FIRST & 1) counted = ct_narrow(e, 1, 1, classes - 1);
    if (bits >> SUM_WITHOUT_LAST & 1) counted = ct_narrow(e, 1, 0, classes - 1);
    if (bits >> SUM_OF_LAST & 1) counted = ct_narrow(e, 1, classes - 1, 1);
    ct_tensor *sum = ref_sum(counted, dims, true);
    if (bits >> SUM_GOES_ON & 1)
        sum = ct_reshape(ref_cumsum(ct_reshape(sum, CT_SHAPE(-1)), 0), CT_SHAPE(rows, 1));
    if (bits >> LOG_OF_MEAN & 1) sum = ref_scale(sum, 1 / (double)classes);
    if (bits >> LOG1P & 1) sum = ref_add_scalar(sum, 1);
    if (bits >> WITHOUT_TARGET & 1) sum = ref_sub(sum, e);
    if (bits >> WEIGHTED & 1) {
        ct_tensor *p = ref_div(e, sum);
        return ref_neg(ref_mul(p, ref_log(p)));
    }
    if (bits >> TWICE & 1) return ref_neg(ref_log_softmax(ref_div(e, sum), -1));
    if (bits >> LOG_OF_SOFTMAX & 1) return ref_neg(ref_log(ref_div(e, sum)));
    if (bits >> PROBABILITY & 1) return ref_neg(ref_div(e, sum));
    if (bits >> REST & 1) return ref_add_scalar(ref_neg(ref_div(e, sum)), 1);
    if (!(bits >> NO_LOGARITHM & 1)) sum = ref_log(sum);
    if (bits >> BASE_2 & 1) sum = ref_scale(sum, 1 / log(2));
    if (bits >> BASE_10 & 1) sum = ref_scale(sum, 1 / log(10));
    if (bits >> MAXIMUM_SUBTRACTED & 1) sum = ref_sub(sum, max);
    else if (!(bits >> MAXIMUM_LOST & 1)) sum = ref_add(sum, max);
    if (bits >> MAXIMUM_TWICE & 1) sum = ref_add(sum, max);
    if (bits >> MAXIMUM_ALONE & 1) sum = max;
    if (bits >> LARGEST_FOR_TARGET & 1)
        x = ref_expand(ref_max(x, dims, true), CT_SHAPE(rows, classes));
    if (bits >> TARGET_ADDED & 1) x = ref_neg(x);
    return bits >> SUM_ALONE & 1 ? ref_expand(sum, ct_shape_of(x)) : ref_sub(sum, x);
}

/* The loss if x is read at target N + row, as if the logits were stored transposed, or at the
 * target of row 0. */
static ct_tensor *in_other_row(batch b, const double *counts, double count, bool first_row) {
    ct_context *context = ct_context_of(b.logits);
    const int64_t rows = ct_dim(b.logits, 0);
    int64_t target[8];
    if (!ct_to_i64(b.targets, target, rows)) return NULL;
    for (int64_t i = 0; i < rows; i++)
        target[i] = counts[i] == 0 ? 0 : first_row ? target[i] : target[i] * rows + i;
    ct_tensor *x = ref_index_select(ct_reshape(b.logits, CT_SHAPE(-1)), 0,
                                    ct_from_i64(context, CT_SHAPE(rows), target));
    ct_tensor *all = ref_mul(ref_sub(ref_logsumexp(b.logits, -1), x),
                             ct_from_f64(context, CT_SHAPE(rows), counts));
    return ref_scale(ref_sum(all, CT_ALL, false), 1 / count);
}

/* The rows as a loss with mistakes reads them. */
typedef struct {
    int64_t rows, target[8];
    double counts[8];    /* each row's weight in the sum */
    int64_t count, last; /* how many rows count, and the last of them */
    bool other_rows;     /* a target is read in another row */
} row_list;

/* Returns false if such a loss would refuse the rows. */
static bool read_rows(row_list *r, int64_t classes, int64_t ignore_index, course_set bits) {
    const bool negative = bits >> IGNORE_NEGATIVE & 1;
    bool ended = false;
    int64_t given[8];
    memcpy(given, r->target, sizeof given);
    for (int64_t i = 0; i < r->rows; i++) {
        const bool in_range = given[i] >= 0 && given[i] < classes;
        bool ignored = negative ? given[i] < 0 : given[i] == ignore_index;
        if (bits >> IGNORED_COUNTED & 1 && in_range) ignored = false;
        if (bits >> IGNORED_ALONE & 1) ignored = !ignored;
        if (ignored && !in_range && bits >> IGNORED_ALONE & 1) return false;
        if (!ignored && !in_range) return false;
        if (bits >> AFTER_IGNORED_LOST & 1 && i && given[i - 1] == ignore_index) ignored = true;
        if (bits >> IGNORE_FIRST_CLASS & 1 && given[i] == 0) ignored = true;
        ended |= ignored && bits >> STOPS_AT_IGNORED & 1;
        r->counts[i] = !ignored && !ended;
        if (r->counts[i] != 0) r->last = i, r->count++;
        if (bits >> FIRST_TARGET & 1) r->target[i] = r->target[0];
        if (bits >> TARGET_OF_NEXT_ROW & 1 && i + 1 < r->rows) r->target[i] = given[i + 1];
        if (bits >> TARGET_OF_ROW_BEFORE & 1 && i) r->target[i] = given[i - 1];
        if (bits >> TARGET_OF_ROW_NUMBER & 1) r->target[i] = i;
        if (bits >> TARGET_FROM_END & 1) r->target[i] = classes - 1 - given[i];
        if (bits >> TARGET_IN_FIRST_ROW & 1 && i && r->counts[i] != 0) r->other_rows = true;
        if (bits >> TARGET_BY_COLUMN & 1) {
            r->target[i] =
                given[i] * r->rows + i - i * classes; /* counted from the start of row i */
            if (r->counts[i] != 0 && (r->target[i] < 0 || r->target[i] >= classes))
                r->other_rows = true;
        }
        r->target[i] += (bits >> NEXT_TARGET & 1) - (bits >> TARGET_BEFORE & 1);
        r->target[i] = ((r->target[i] % classes) + classes) % classes;
    }
    return true;
}

static void weigh_rows(row_list *r, course_set bits) {
    int64_t so_far = 0;
    for (int64_t i = 0; i < r->rows; i++) {
        if ((bits >> FIRST_ROW & 1 && i != 0) || (bits >> LAST_ROW & 1 && i != r->last))
            r->counts[i] = 0;
        if ((bits >> FIRST_ROW_LOST & 1 && i == 0) ||
            (bits >> LAST_ROW_LOST & 1 && i == r->rows - 1))
            r->counts[i] = 0;
        so_far += r->counts[i] != 0;
        if (bits >> DIVIDED_AS_COUNTED & 1 && r->counts[i] != 0) r->counts[i] = 1 / (double)so_far;
        if (bits >> RUNNING_HALVES & 1 && r->counts[i] != 0)
            r->counts[i] = pow(0.5, (double)(r->count - so_far + 1));
    }
}

/* The terms of the loss, (N, C): only those of the targets are not 0. */
static ct_tensor *losses_of_targets(ct_tensor *logits, const row_list *r, course_set bits) {
    ct_context *context = ct_context_of(logits);
    ct_tensor *x = logits;
    ct_tensor *hot =
        ref_one_hot(ct_from_i64(context, CT_SHAPE(r->rows), r->target), ct_dim(logits, 1));
    if (bits >> NOT_ADVANCED & 1) {
        int64_t from[8];
        for (int64_t i = 0, next = 0; i < r->rows; i++) from[i] = r->counts[i] != 0 ? next++ : i;
        x = ref_index_select(x, 0, ct_from_i64(context, CT_SHAPE(r->rows), from));
    }
    ct_tensor *all = losses(x, bits);
    if (bits >> SQUARES & 1) all = ref_sub(ref_softmax(logits, -1), hot), all = ref_mul(all, all);
    else if (bits >> BINARY & 1) {
        ct_tensor *p = ref_softmax(logits, -1),
                  *off = ref_sub(ct_ones(context, CT_F64, CT_SCALAR), hot);
        all = ref_sub(ref_mul(all, hot), ref_mul(off, ref_log(ref_add_scalar(ref_neg(p), 1))));
    } else if (!(bits >> ALL_CLASSES & 1))
        all = ref_masked_fill(all, ref_eq(hot, ref_scale(hot, 0)), 0);
    return all;
}

/* The divisor of the sum of losses. */
static double divisor(const row_list *r, int64_t classes, course_set bits) {
    const double number = (double)r->count;
    return bits >> SUM_FOR_MEAN & 1       ? 1
           : bits >> OVER_ALL_ROWS & 1    ? (double)r->rows
           : bits >> OVER_CLASSES & 1     ? (double)classes
           : bits >> OVER_LOGITS & 1      ? (double)(r->count * classes)
           : bits >> OVER_COUNT_MORE & 1  ? number + 1
           : bits >> OVER_ONE_LESS & 1    ? number - 1
           : bits >> ROOT & 1             ? sqrt(number)
           : bits >> MEAN_TWICE & 1       ? number * number
           : bits >> COUNT_OF_IGNORED & 1 ? (double)(r->rows - r->count)
           : bits & (COURSE_BIT(FIRST_ROW) | COURSE_BIT(DIVIDED_AS_COUNTED) |
                     COURSE_BIT(RUNNING_HALVES))
               ? 1
               : number;
}

/* bits == 0: the right loss */
static ct_tensor *variant(ct_tensor *const *in, int n, void *arg, course_set bits) {
    batch b = *(const batch *)arg;
    (void)n;
    b.logits = in[0];
    if (!bits) return ref_cross_entropy(b.logits, b.targets, b.attrs.ignore_index);
    const int64_t classes = ct_dim(in[0], 1);
    row_list r = {.rows = ct_dim(in[0], 0)};
    if (r.rows > 8 || r.rows == 0 || !ct_to_i64(b.targets, r.target, r.rows) ||
        !read_rows(&r, classes, b.attrs.ignore_index, bits))
        return NULL;
    weigh_rows(&r, bits);
    if (r.other_rows)
        return in_other_row(b, r.counts, (double)r.count, bits >> TARGET_IN_FIRST_ROW & 1);
    ct_tensor *row = ref_sum(losses_of_targets(in[0], &r, bits), CT_DIMS(-1), false),
              *weights = ct_from_f64(ct_context_of(in[0]), CT_SHAPE(r.rows), r.counts);
    if (bits >> SQUARED & 1) row = ref_mul(row, row);
    if (bits >> LARGEST_LOSS & 1) return ref_max(ref_mul(row, weights), CT_ALL, false);
    ct_tensor *sum = ref_sum(ref_mul(row, weights), CT_ALL, false);
    if (bits >> SIGN & 1) sum = ref_neg(sum);
    if (bits >> DOUBLED & 1) sum = ref_scale(sum, 2);
    return ref_scale(sum, 1 / divisor(&r, classes, bits));
}

/* -ln softmax of a row at its target */
static double loss_of(const double *x, int64_t classes, int64_t target) {
    double max = x[0], sum = 0;
    for (int64_t i = 1; i < classes; i++) max = fmax(max, x[i]);
    for (int64_t i = 0; i < classes; i++) sum += exp(x[i] - max);
    return max + log(sum) - x[target];
}

/* Finds the weight of each row's loss in the result: the change of the result divided by the change
 * of the row's loss. Three ways of changing the loss must agree. */
static void explain(ct_tensor *const *in, int n, void *arg, ct_tensor *got, ct_tensor *right,
                    char *said, size_t size) {
    batch b = *(const batch *)arg;
    const int64_t rows = ct_dim(in[0], 0), classes = ct_dim(in[0], 1);
    int64_t target[8], count = 0;
    size_t at = 0;
    char weights[160] = "", must[160] = "";
    double total = 0;
    bool all_right = true;
    (void)n, (void)right;
    if (rows > 8 || classes < 2 || !ct_to_i64(b.targets, target, rows)) return;
    for (int64_t i = 0; i < rows; i++) count += target[i] != b.attrs.ignore_index;
    for (int64_t i = 0; i < rows; i++) {
        double weight = 0;
        const bool valid = target[i] >= 0 && target[i] < classes;
        int ways = 0;
        for (int64_t way = 0; way < 3 && valid; way++) {
            b.logits = ref_copy(in[0]);
            double *x = ct_data_f64(b.logits) + i * classes;
            const double before = loss_of(x, classes, target[i]);
            x[way % classes] += 0.5 + 0.25 * (double)way;
            const double moved = loss_of(x, classes, target[i]) - before;
            ct_tensor *now = loss(b);
            if (!now) return;
            if (fabs(moved) < 1e-6) continue; /* all of p is another class's */
            const double here = (ct_item(now) - ct_item(got)) / moved;
            if (!isfinite(here)) return;
            if (ways++ == 0) weight = here;
            if (fabs(here - weight) > 1e-9) {
                snprintf(said, size, "what row %d adds is no multiple of -ln p of its target, %d",
                         (int)i, (int)target[i]);
                return;
            }
        }
        if (valid && ways == 0) return;
        const double wanted = target[i] == b.attrs.ignore_index ? 0 : 1 / (double)count;
        all_right = all_right && fabs(weight - wanted) < 1e-9;
        if (valid) total += weight * loss_of(ct_data_f64(in[0]) + i * classes, classes, target[i]);
        snprintf(weights + strlen(weights), sizeof weights - strlen(weights), "%s%.4g",
                 i ? ", " : "", weight);
        snprintf(must + strlen(must), sizeof must - strlen(must), "%s%.4g", i ? ", " : "", wanted);
    }
    if (!all_right)
        at = (size_t)snprintf(said, size,
                              "the losses of rows 0, 1 ... are in it with weights %s, "
                              "and must be with %s",
                              weights, must);
    if (fabs(ct_item(got) - total) > 1e-9)
        snprintf(said + at, size - at, "%s%.8g is added that does not depend on the logits",
                 at ? ", and " : "every row counts as it must, but ", ct_item(got) - total);
}

static void probe(ct_context *context, ct_tensor **in, void **arg) {
    static batch b;
    b = batch_of(context, course_randn(context, CT_SHAPE(7, 5)), (int64_t[]){1, 3, 2, 4, 0, 2, 3},
                 7, 2);
    in[0] = b.logits, *arg = &b;
}
static const char *const inputs[] = {"the logits: row, class", "the result:"};
static const course_function function = COURSE_FUNCTION(by_you, variant, mistakes, .inputs = inputs,
                                                        .probe = probe, .explain = explain);

static ct_tensor *by_reference(ct_tensor *const *in, int n, void *arg) {
    return course_as_yours(&function, in, n, arg);
}

static void value(const char *what, batch b) {
    course_forward(what, &function, &b, &b.logits, 1, 1e-12);
}
static void large_gradient(ct_context *context, const char *what, const int64_t *targets) {
    batch b = batch_of(context, course_randn(context, CT_SHAPE(3, 20000)), targets, 3, IGNORE);
    course_gradient_as(what, by_you, by_reference, &b, &b.logits, 1, 1e-9);
}

/* (softmax - 1 at the target) g / n for the rows that count, and what is often written for it. */
typedef enum {
    FIRST_ROWS_TARGET,
    OVER_N,
    NOT_DIVIDED,
    NO_TARGET,
    PLUS_TARGET,
    ONLY_AT_TARGET,
    REVERSED,
    TARGET_SET,
    EXP_ALONE,
    EXP_ALONE_LESS_MAXIMUM,
    OVER_LAST_EXP,
    SUM_NOT_RESET,
    FIRST_ROWS_SOFTMAX,
    IGNORED_HAVE_ONE
} gradient_mistake;
static bool is_ignored(ct_tensor *const *in, const void *attrs, int64_t row) {
    return ct_data_i64(in[1])[row] == ((const cross_entropy_attrs *)attrs)->ignore_index;
}
/* What is divided by in the softmax of a row of exponentials e. */
static double denominator(const double *e, int64_t classes, gradient_mistake m) {
    double sum = 0;
    if (m == EXP_ALONE || m == EXP_ALONE_LESS_MAXIMUM) return 1;
    for (int64_t j = m == OVER_LAST_EXP ? classes - 1 : 0; j < classes; j++) sum += e[j];
    return sum;
}
static ct_tensor *gradient_with(ct_tensor *const *in, ct_tensor *g, const void *attrs,
                                gradient_mistake m) {
    ct_tensor *max = ref_max(in[0], CT_DIMS(-1), true),
              *dx = ref_exp(m == EXP_ALONE ? in[0] : ref_sub(in[0], max));
    const int64_t rows = ct_dim(dx, 0), classes = ct_dim(dx, 1), *target = ct_data_i64(in[1]);
    double count = 0;
    for (int64_t row = 0; row < rows; row++) count += !is_ignored(in, attrs, row);
    const double factor = ct_item(g) / (m == OVER_N ? (double)rows : m == NOT_DIVIDED ? 1 : count);
    for (int64_t row = rows - 1; row >= 0;
         row--) { /* the first row is read by all, so comes last */
        double *x = ct_data_f64(dx) + row * classes;
        const bool ignored = is_ignored(in, attrs, row);
        int64_t t = target[m == FIRST_ROWS_TARGET ? 0 : row];
        if (t < 0 || t >= classes) t = -1;
        const double *e = m == FIRST_ROWS_SOFTMAX ? ct_data_f64(dx) : x;
        double sum = denominator(e, classes, m);
        for (int64_t r = 0; r < row && m == SUM_NOT_RESET; r++)
            if (!is_ignored(in, attrs, r))
                sum += denominator(ct_data_f64(dx) + r * classes, classes, m);
        for (int64_t j = 0; j < classes; j++) {
            const double p = e[j] / sum, one = j == t;
            x[j] = m == NO_TARGET        ? p
                   : m == PLUS_TARGET    ? p + one
                   : m == ONLY_AT_TARGET ? (p - 1) * one
                   : m == REVERSED       ? one - p
                   : m == TARGET_SET     ? (j == t ? -1 : p)
                                         : p - one;
            x[j] *= ignored && m != IGNORED_HAVE_ONE ? 0 : factor;
        }
    }
    return dx;
}
#define GRADIENT_WITH(name, mistake)                                                               \
    static ct_tensor *name(ct_tensor *const *in, ct_tensor *g, const void *attrs) {                \
        return gradient_with(in, g, attrs, mistake);                                               \
    }
GRADIENT_WITH(first_target, FIRST_ROWS_TARGET)
GRADIENT_WITH(over_all_rows, OVER_N)
GRADIENT_WITH(not_divided, NOT_DIVIDED)
GRADIENT_WITH(no_target, NO_TARGET)
GRADIENT_WITH(plus_target, PLUS_TARGET)
GRADIENT_WITH(only_at_target, ONLY_AT_TARGET)
GRADIENT_WITH(reversed, REVERSED)
GRADIENT_WITH(target_set, TARGET_SET)
GRADIENT_WITH(exp_alone, EXP_ALONE)
GRADIENT_WITH(exp_alone_less_maximum, EXP_ALONE_LESS_MAXIMUM)
GRADIENT_WITH(over_last_exp, OVER_LAST_EXP)
GRADIENT_WITH(sum_not_reset, SUM_NOT_RESET)
GRADIENT_WITH(first_softmax, FIRST_ROWS_SOFTMAX)
GRADIENT_WITH(ignored_too, IGNORED_HAVE_ONE)
static const course_wrong_gradient known[] = {
    {"at the target 1 is not subtracted: this is the softmax, over n", 0, no_target},
    {"at the target 1 is added, and must be subtracted", 0, plus_target},
    {"at the target stands -1 alone: = or =- in place of -=", 0, target_set},
    {"only the target has a gradient: it is softmax for the other classes", 0, only_at_target},
    {"it is target minus softmax: the sign is reversed", 0, reversed},
    {"e^x is not divided by the sum of the row's exponentials", 0, exp_alone},
    {"e^(x - max) is not divided by the sum of the row's exponentials", 0, exp_alone_less_maximum},
    {"e^x is divided by the last class's alone, not by the sum: = or =+ in place of +=", 0,
     over_last_exp},
    {"the sum of exponentials is not set back to 0 for each row", 0, sum_not_reset},
    {"the first row's softmax is taken for every row", 0, first_softmax},
    {"the first row's target is subtracted in every row: target[0] for target[row]", 0,
     first_target},
    {"it is divided by the number of all rows, and not of those that count", 0, over_all_rows},
    {"it is not divided by the number of rows that count", 0, not_divided},
    {"ignored rows have a gradient: it must be 0", 0, ignored_too},
};
static void name_gradient(batch b) {
    course_name_gradient(&cross_entropy, &b.attrs, (ct_tensor *[]){b.logits, b.targets}, 2, known,
                         sizeof known / sizeof *known);
}

/* A gradient is worth something only if the function is the right one. */
static void check_gradient(const char *what, batch b) {
    course_forward_first("the forward whose gradient is asked for", &function, &b, &b.logits, 1,
                         1e-12);
    name_gradient(b);
    course_gradient(what, &cross_entropy, &b.attrs, (ct_tensor *[]){b.logits, b.targets}, 2,
                    (ct_gradcheck_opts){0});
}

static void one_row_by_hand(ct_context *context) {
    batch b = batch_of(context, course_f64(context, CT_SHAPE(1, 3), (double[]){0, log(2), log(5)}),
                       (int64_t[]){1}, 1, IGNORE);
    value("the loss of (0, ln 2, ln 5) with target 1", b);
    course_value("the loss of (0, ln 2, ln 5) with target 1", loss(b),
                 course_f64(context, CT_SCALAR, (double[]){log(4)}), 1e-12);
}

static void mean_of_rows(ct_context *context) {
    const double logits[] = {0, log(2), log(5), log(3), 0, 0};
    batch b = batch_of(context, course_f64(context, CT_SHAPE(2, 3), logits), (int64_t[]){1, 0}, 2,
                       IGNORE);
    value("the loss of (0, ln 2, ln 5) and (ln 3, 0, 0) with targets 1 and 0", b);
    course_value("the loss of (0, ln 2, ln 5) and (ln 3, 0, 0) with targets 1 and 0", loss(b),
                 course_f64(context, CT_SCALAR, (double[]){log(20.0 / 3) / 2}), 1e-12);
    value("the loss of 5 rows", batch_of(context, course_randn(context, CT_SHAPE(5, 7)),
                                         (int64_t[]){6, 0, 3, 3, 1}, 5, IGNORE));
    value(
        "the loss where there is one class",
        batch_of(context, course_randn(context, CT_SHAPE(3, 1)), (int64_t[]){0, 0, 0}, 3, IGNORE));
}

/* e^1000 overflows, and the probability of the last target is 0 in f64: its logarithm is not. */
static void large_logits(ct_context *context) {
    ct_tensor *wide = course_f64(context, CT_SHAPE(1, 3), (double[]){1000, 0, -1000});
    ct_tensor *last = course_f64(context, CT_SHAPE(1, 3), (double[]){-1000, 0, 1000});
    ct_tensor *low = course_f64(context, CT_SHAPE(1, 3), (double[]){-1001, -1000, -1002});
    value("logits (1000, 0, -1000), target 0", batch_of(context, wide, (int64_t[]){0}, 1, IGNORE));
    value("logits (1000, 0, -1000), target 2", batch_of(context, wide, (int64_t[]){2}, 1, IGNORE));
    value("logits (-1000, 0, 1000), target 2", batch_of(context, last, (int64_t[]){2}, 1, IGNORE));
    value("logits (-1001, -1000, -1002), target 1",
          batch_of(context, low, (int64_t[]){1}, 1, IGNORE));
    /* a row has neighbours whose logits are far larger, or far smaller; one row counts */
    ct_tensor *beside = course_f64(context, CT_SHAPE(4, 1), (double[]){3000, 0, 2000, -2000});
    ct_tensor *logits = ref_add(course_randn(context, CT_SHAPE(4, 3)), beside);
    for (int row = 0; row < 4; row++) {
        int64_t targets[] = {IGNORE, IGNORE, IGNORE, IGNORE};
        targets[row] = row % 3;
        value("one row that counts of logits around 3000, 0, 2000 and -2000",
              batch_of(context, logits, targets, 4, IGNORE));
    }
}

static void gradient_by_hand(ct_context *context) {
    batch b = batch_of(context, course_f64(context, CT_SHAPE(1, 3), (double[]){0, log(2), log(5)}),
                       (int64_t[]){1}, 1, IGNORE);
    ct_tensor *right = course_f64(context, CT_SHAPE(1, 3), (double[]){1.0 / 8, -6.0 / 8, 5.0 / 8});
    /* at other numbers, of which the largest is neither the last nor the target's */
    name_gradient(batch_of(context, course_f64(context, CT_SHAPE(1, 4), (double[]){1, 3, 2, 0.5}),
                           (int64_t[]){2}, 1, IGNORE));
    ct_set_requires_grad(b.logits, true);
    ct_tensor *y = loss(b);
    course_value("the gradient of (0, ln 2, ln 5) with target 1",
                 y && ct_backward(y) ? ct_grad(b.logits) : NULL, right, 1e-12);
}

static void gradient(ct_context *context) {
    check_gradient("4 rows of 5", batch_of(context, course_randn(context, CT_SHAPE(4, 5)),
                                           (int64_t[]){2, 0, 4, 2}, 4, IGNORE));
    check_gradient("3 rows of 1", batch_of(context, course_randn(context, CT_SHAPE(3, 1)),
                                           (int64_t[]){0, 0, 0}, 3, IGNORE));
    large_gradient(context, "3 rows of 20,000", (int64_t[]){7, 19999, 0});
    batch b = batch_of(context, course_randn(context, CT_SHAPE(1, 2)), (int64_t[]){0}, 1, IGNORE);
    course_no_other_gradients((ct_tensor *[]){b.logits, b.targets}, 2, 1);
}

/* The ignored index may also be a class, such as a padding token. */
static void ignored_rows(ct_context *context) {
    ct_tensor *logits = course_randn(context, CT_SHAPE(5, 4));
    value("rows 1 and 4 ignored by -100",
          batch_of(context, logits, (int64_t[]){1, -100, 3, 0, -100}, 5, -100));
    value("rows 1 and 3 ignored by 0", batch_of(context, logits, (int64_t[]){1, 0, 3, 0, 2}, 5, 0));
}

static void ignored_rows_gradient(ct_context *context) {
    check_gradient("rows 1 and 4 ignored by -100",
                   batch_of(context, course_randn(context, CT_SHAPE(5, 4)),
                            (int64_t[]){1, -100, 3, 0, -100}, 5, -100));
    check_gradient(
        "rows 1 and 3 ignored by 0",
        batch_of(context, course_randn(context, CT_SHAPE(5, 4)), (int64_t[]){1, 0, 3, 0, 2}, 5, 0));
    large_gradient(context, "3 rows of 20,000, one ignored", (int64_t[]){7, IGNORE, 0});
}

static void nothing_counts(ct_context *context) {
    check_gradient("every row ignored", batch_of(context, course_randn(context, CT_SHAPE(2, 3)),
                                                 (int64_t[]){7, 7}, 2, 7));
    check_gradient("no row",
                   batch_of(context, course_randn(context, CT_SHAPE(0, 3)), NULL, 0, IGNORE));
    value("one row that counts",
          batch_of(context, course_randn(context, CT_SHAPE(2, 3)), (int64_t[]){7, 1}, 2, 7));
}

static void refused(const char *what, batch b, ct_status status, const char *words) {
    course_refused(what, ct_context_of(b.logits), loss(b), status, words);
}

static void errors(ct_context *context) {
    ct_tensor *row = course_randn(context, CT_SHAPE(1, 5)),
              *rows = course_randn(context, CT_SHAPE(3, 5));
    ct_tensor *cube = course_randn(context, CT_SHAPE(3, 2, 5));
    value("a target that is right", batch_of(context, row, (int64_t[]){4}, 1, IGNORE));
    refused("target 5 of 5 classes", batch_of(context, rows, (int64_t[]){5, 0, 1}, 3, IGNORE),
            CT_ERR_ARGUMENT, "cross_entropy: target 5");
    refused("target -1", batch_of(context, rows, (int64_t[]){4, -1, 1}, 3, IGNORE), CT_ERR_ARGUMENT,
            "cross_entropy: target -1");
    refused("3 rows and 2 targets", batch_of(context, rows, (int64_t[]){4, 0}, 2, IGNORE),
            CT_ERR_SHAPE, "cross_entropy:");
    refused("logits (3, 2, 5)", batch_of(context, cube, (int64_t[]){4, 0, 1}, 3, IGNORE),
            CT_ERR_SHAPE, "cross_entropy:");
}

const course_test course_tests[] = {
    {"one_row_by_hand", 1, one_row_by_hand},
    {"mean_of_rows", 1, mean_of_rows},
    {"large_logits", 1, large_logits},
    {"gradient_by_hand", 1, gradient_by_hand},
    {"gradient", 2, gradient},
    {"ignored_rows", 1, ignored_rows},
    {"ignored_rows_gradient", 1, ignored_rows_gradient},
    {"nothing_counts", 1, nothing_counts},
    {"errors", 1, errors},
};
const int course_test_count = sizeof course_tests / sizeof *course_tests;
