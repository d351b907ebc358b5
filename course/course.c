/* Runs one test of an exercise. This is the judge: it starts the submission, a program of its own
 * behind a seal, and compares the numbers that it answers (remote.h).
 *     program TEST FD SECONDS MIB SEED SUBMISSION SEAL    SEAL: sealed, practice or sanitized
 *     program --list                                      the tests: name, points, hidden, times
 *     program --probe SUBMISSION                          whether it runs, sealed: exit status 0
 * The verdict goes to FD, and is one of these:
 *     passed
 *     failed POINTS     then a line each for word, sentence and wrong elements, and the report
 *     died CODE         the submission: its exit code, or minus a signal */
#define _GNU_SOURCE /* M_PI, open_memstream */
#include "course.h"
#include "likeness.h"
#include "remote.h"
#include "seal.h"

#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int result;
static double seconds; /* the time limit of the test */
static ct_context *context;
static const course_test *running;
static char hint[1024];
/* Texts about the forward that is compared, for an empty hint; and a line that follows the
 * numbers. */
static char about[512], depends[512], also[1200];
/* If a gradient is checked of a forward whose mistake has a name: "the forward is wrong: ". This is
 * said before all that is guessed of the gradient. */
static char forward_wrong[1100];
static char *wrong_elements; /* a line of JSON (write_wrong); NULL: none are known */
enum { MOST_INPUTS = 8 };

/* ---- how a test ends ---- */

static void put(const char *text, size_t size) {
    while (size > 0) {
        ssize_t written = write(result, text, size);
        if (written <= 0)
            return; /* the grader has closed the pipe: the verdict is lost, and with
                     * it the points */
        text += written, size -= (size_t)written;
    }
}

/* Writes a text as one line, in which newlines become spaces. */
static void put_line(const char *text) {
    for (size_t length = strcspn(text, "\n"); text[length]; length = strcspn(text, "\n"))
        put(text, length), put(" ", 1), text += length + 1;
    put(text, strlen(text)), put("\n", 1);
}

/* The report of a test that failed: the diagnosis in a few words, which a list of many submissions
 * shows too; a sentence that begins with it; and lines of numbers. */
typedef struct {
    const char *word, *sentence, *numbers, *report;
} failure;

static void end(const char *verdict, const failure *t) __attribute__((noreturn));
static void end(const char *verdict, const failure *t) {
    fflush(NULL);
    put(verdict, strlen(verdict));
    if (t) {
        put_line(t->word), put_line(t->sentence);
        put_line(wrong_elements ? wrong_elements : "");
        if (*t->numbers) put_line(t->numbers);
        if (*also) put_line(also);
        put(t->report, strlen(t->report));
    }
    _exit(0);
}

void course_end_as_died(int code) {
    char verdict[32];
    snprintf(verdict, sizeof verdict, "died %d\n", code);
    end(verdict, NULL);
}

static void end_as_failed(int points, const failure *t) {
    char verdict[32];
    const int most = running && running->points > 0 ? running->points - 1 : 0;
    snprintf(verdict, sizeof verdict, "failed %d\n",
             points < 0      ? 0
             : points < most ? points
                             : most);
    end(verdict, t);
}

/* Ends the test as failed. The diagnosis is the hint or, if that is empty, `word` or, if that is
 * NULL, the sentence itself. */
static void fail_with(int points, const char *word, const char *report, const char *format,
                      va_list args) {
    char said[2048], sentence[2048 + 64];
    vsnprintf(said, sizeof said, format, args);
    snprintf(sentence, sizeof sentence, "%s%s%s", word ? word : "", word ? ": " : "", said);
    char both[sizeof forward_wrong + sizeof sentence + 16];
    const char *first = *hint ? hint : sentence;
    snprintf(both, sizeof both, "%s; besides: %s", forward_wrong, first);
    end_as_failed(points, &(failure){*forward_wrong ? forward_wrong
                                     : *hint        ? hint
                                     : word         ? word
                                                    : said,
                                     *forward_wrong ? both : first, *hint ? said : "", report});
}

/* Fails with a word that is the diagnosis if there is no hint. */
static void fail_reporting(const char *word, const char *report, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void fail_reporting(const char *word, const char *report, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fail_with(0, word, report, format, args);
    va_end(args);
}

void course_fail(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fail_with(0, NULL, "", format, args);
    va_end(args);
    _exit(0);
}

void course_partial(int points, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fail_with(points, NULL, "", format, args);
    va_end(args);
    _exit(0);
}

void course_hint(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(hint, sizeof hint, format, args);
    va_end(args);
}

void course_end_as_found(const char *word, const char *sentence) {
    fail_reporting(word, "", "%s", sentence);
    _exit(0);
}

/* ---- comparing ---- */

static const char *shape_text(ct_shape shape, char text[160]) {
    int at = snprintf(text, 160, "(");
    for (int d = 0; d < shape.ndim; d++)
        at +=
            snprintf(text + at, 160 - (size_t)at, "%s%lld", d ? ", " : "", (long long)shape.dim[d]);
    snprintf(text + at, 160 - (size_t)at, ")");
    return text;
}
#define TEXT(shape) shape_text((shape), (char[160]){0})

static ct_shape place(ct_shape shape, int64_t index) {
    ct_shape at = shape;
    for (int d = shape.ndim - 1; d >= 0; index /= shape.dim[d--]) at.dim[d] = index % shape.dim[d];
    return at;
}

static const char *dtype_text(ct_dtype dtype) {
    return (const char *[]){"f32", "f64", "i64", "bool"}[dtype];
}

/* Whatever fails while an error of the submission is pending fails because of that. */
static ct_tensor *made(ct_tensor *tensor) {
    if (!tensor) course_fail("%s: so the test cannot go on", ct_error_message(context));
    return tensor;
}

static double *values_of(const char *what, ct_tensor *tensor) {
    const int64_t n = ct_numel(tensor);
    double *values = malloc((size_t)n * sizeof *values + 1);
    if (!values) course_fail("%s: the test has no memory", what);
    if (!ct_to_f64(tensor, values, n)) course_fail("%s: %s", what, ct_error_message(context));
    return values;
}

static double number(double x) { return isnan(x) ? fabs(x) : x; } /* printf knows a -nan */

/* The error in units of the tolerance. */
static double excess(double got, double expected, double tolerance) {
    if (got == expected || (isnan(got) && isnan(expected))) return 0;
    if (!isfinite(got) || !isfinite(expected)) return INFINITY;
    double error = fabs(got - expected), allowed = tolerance * fmax(1, fabs(expected));
    return error <= allowed ? 0 : error / fmax(allowed, 1e-300);
}

#include "elements.h"

/* Both tensors as ct_print shows them, if they are small. */
static void show(FILE *report, ct_tensor *got, ct_tensor *expected) {
    if (!report || ct_numel(got) > 40) return;
    fprintf(report, "got\n"), ct_print(got, report);
    fprintf(report, "expected\n"), ct_print(expected, report);
}

void course_value(const char *what, ct_tensor *got, ct_tensor *expected, double tolerance) {
    if (ct_error(context)) fail_reporting(ct_error_message(context), "", "%s", what);
    if (!got) fail_reporting("no result", "", "%s: NULL, and no error", what);
    made(expected);
    const ct_shape shape = ct_shape_of(got), right = ct_shape_of(expected);
    if (shape.ndim != right.ndim ||
        memcmp(shape.dim, right.dim, (size_t)shape.ndim * sizeof *shape.dim))
        fail_reporting("wrong shape", "", "%s: the shape is %s, and must be %s", what, TEXT(shape),
                       TEXT(right));
    if (ct_dtype_of(got) != ct_dtype_of(expected))
        fail_reporting("wrong dtype", "", "%s: the dtype is %s, and must be %s", what,
                       dtype_text(ct_dtype_of(got)), dtype_text(ct_dtype_of(expected)));

    const int64_t n = ct_numel(got);
    double *a = values_of(what, got), *b = values_of(what, expected);
    bool *is_wrong = calloc((size_t)n + 1, sizeof *is_wrong);
    int64_t wrong = 0, first = 0, worst = 0;
    for (int64_t i = 0; i < n; i++) {
        double here = excess(a[i], b[i], tolerance);
        is_wrong[i] = here > 0;
        if (here > 0 && !wrong++) first = worst = i;
        if (here > excess(a[worst], b[worst], tolerance)) worst = i;
    }
    char alike[512];
    looks_like(a, b, shape, is_wrong, wrong, alike, sizeof alike);
    if (wrong) {
        if (!*hint) {
            course_hint("%s", alike);
            if (*about || *depends)
                snprintf(also, sizeof also, "%s%s%s", about, *about && *depends ? "; " : "",
                         depends);
        }
        char *report = NULL, largest[256] = "";
        size_t size;
        FILE *file = open_memstream(&report, &size);
        show(file, got, expected);
        if (file) fclose(file);
        write_wrong(
            &(compared){.input = -1, .shape = shape, .got = a, .right = b, .tolerance = tolerance},
            n);
        if (worst != first)
            snprintf(largest, sizeof largest, "; the worst, %s, is %.10g and must be %.10g",
                     TEXT(place(shape, worst)), number(a[worst]), b[worst]);
        fail_reporting("wrong values", report ? report : "",
                       "%s: element %s is %.10g%s and must be %.10g%s; %lld of %lld %s wrong", what,
                       TEXT(place(shape, first)), number(a[first]),
                       isfinite(a[first]) ? "" : " (not finite)", b[first], largest,
                       (long long)wrong, (long long)n, wrong == 1 ? "is" : "are");
    }
    free(a), free(b), free(is_wrong);
}

static bool same_shape(ct_tensor *a, ct_tensor *b) {
    const ct_shape one = ct_shape_of(a), other = ct_shape_of(b);
    return one.ndim == other.ndim &&
           !memcmp(one.dim, other.dim, (size_t)one.ndim * sizeof *one.dim);
}

bool course_same(ct_tensor *got, ct_tensor *other, double tolerance) {
    if (!got || !other || ct_dtype_of(got) != ct_dtype_of(other)) return false;
    if (!same_shape(got, other)) return false;
    const int64_t n = ct_numel(got);
    double *a = values_of("comparing", got), *b = values_of("comparing", other);
    int64_t same = 0;
    while (same < n && excess(a[same], b[same], tolerance) == 0) same++;
    free(a), free(b);
    return same == n;
}

void course_refused(const char *what, ct_context *of, ct_tensor *got, ct_status status,
                    const char *words) {
    static const char *const names[] = {"CT_OK",           "CT_ERR_SHAPE",  "CT_ERR_DTYPE",
                                        "CT_ERR_ARGUMENT", "CT_ERR_MEMORY", "CT_ERR_IO",
                                        "CT_ERR_FORMAT",   "CT_ERR_GRAD"};
    if (got)
        course_fail("no error: there is a result where there must be an error (%s): %s",
                    names[status], what);
    if (ct_error(of) != status)
        fail_reporting("another error", "", "the error is %s and must be %s: \"%s\"; %s",
                       names[ct_error(of)], names[status], ct_error_message(of), what);
    if (!strstr(ct_error_message(of), words))
        fail_reporting("another error", "", "the error does not say \"%s\": \"%s\"; %s", words,
                       ct_error_message(of), what);
    ct_error_clear(of);
}

/* ---- wrong forwards that have a name ---- */

#include "naming.h"

/* ---- gradients ---- */

/* Whether every wrong element is wrong in the same way, so that three of them show as much as
 * ten. */
static bool systematic(ct_mistake mistake) {
    return mistake == CT_MISTAKE_SIGN || mistake == CT_MISTAKE_FACTOR ||
           mistake == CT_MISTAKE_SCALE || mistake == CT_MISTAKE_ZERO;
}

/* Shortens the list of worst elements in a report to three lines. */
static void shorten_worst(char *report) {
    char *line = strstr(report, "the worst:\n");
    for (int skipped = 0; line && skipped < 5; skipped++) { /* the heading's two, and three */
        line = strchr(line, '\n');
        if (line) line++;
    }
    char *rest = line;
    int left_out = 0;
    for (; rest && rest[strspn(rest, " ")] >= '0' && rest[strspn(rest, " ")] <= '9'; left_out++)
        rest = strchr(rest, '\n') + 1;
    if (left_out < 2) return;
    line += sprintf(line, "  and %d in the same way\n", left_out);
    memmove(line, rest, strlen(rest) + 1);
}

/* Fails because the gradient of backward is wrong or cannot be checked. */
static void fail_of_gradient(const char *what, const ct_gradcheck_result *r, ct_tensor *const *in,
                             char *report) {
    const char *name = ct_mistake_name(r->mistake), *word = name;
    const bool refused = r->mistake == CT_MISTAKE_REFUSED; /* the diagnosis is backward's error */
    char sentence[400], numbers[400 + 400], *rest = strchr(report, '\n');
    char both[sizeof forward_wrong + sizeof hint + 64];
    if (r->verdict == CT_VERDICT_CANNOT_TELL) word = "cannot tell";
    else if (r->mistake == CT_MISTAKE_UNKNOWN) word = "wrong gradient";
    if (systematic(r->mistake)) shorten_worst(report);
    write_wrong_gradient(r, in);
    snprintf(sentence, sizeof sentence, "%s%s%s", refused ? "" : word, refused ? "" : ": ",
             r->diagnosis);
    snprintf(numbers, sizeof numbers, "%s: %s (%s)%s%s", what,
             r->verdict == CT_VERDICT_CANNOT_TELL
                 ? "it cannot be told whether the gradient is right"
                 : "the gradient is wrong",
             name, *hint ? ": " : "", *hint ? r->diagnosis : "");
    const char *first = *hint ? hint : sentence;
    snprintf(both, sizeof both, "%s; and the gradient is not that of this forward: %s",
             forward_wrong, first);
    /* the report's first line is the diagnosis */
    end_as_failed(0, &(failure){*forward_wrong ? forward_wrong
                                : *hint        ? hint
                                : refused      ? r->diagnosis
                                               : word,
                                *forward_wrong ? both : first, numbers, rest ? rest + 1 : ""});
}

/* The value of a function of yours, which the judge has computed, too: forward hands on the judge's
 * numbers, and backward goes to yours. Inputs: yours, the judge's. */
static ct_tensor *settled_forward(ct_call *call) { return ref_copy(call->in[1]); }
static bool settled_backward(const ct_call *call, ct_tensor *const *cotangents, ct_tensor **grad) {
    (void)call;
    grad[0] = ref_copy(cotangents[0]);
    return grad[0] != NULL;
}
static const ct_op settled = {
    .name = "settled", .forward = settled_forward, .backward = settled_backward};

/* A function whose gradient is checked, and the judge's own forward of it, if a
 * course_forward_first at the same inputs has told it. */
typedef struct {
    const char *what;
    ct_fn yours, own; /* own: NULL if it is not known */
    int beside;       /* how often yours was called although no gradient was wanted */
    void *arg, *own_arg;
} judged_function;

static struct {
    ct_fn own;
    void *arg;
} told_forward;
void course_own_forward(ct_fn own, void *arg) { told_forward.own = own, told_forward.arg = arg; }

static ct_tensor *own_of_first(ct_tensor *const *in, int n, void *arg) {
    (void)arg;
    return course_as_yours(first_forward.f, in, n, first_forward.arg);
}

static void find_own_forward(judged_function *judged, ct_tensor *const *in, int n) {
    judged->own = told_forward.own, judged->own_arg = told_forward.arg;
    told_forward.own = NULL;
    if (judged->own) return;
    if (n == first_forward.n && !memcmp(in, first_forward.in, (size_t)n * sizeof *in))
        judged->own = own_of_first;
}

/* Differences are taken of the judge's forward: one that is right only where it was compared would
 * else make any gradient right. Yours must be the same function everywhere. */
static ct_tensor *judge_forward(ct_tensor *const *in, int n, void *arg) {
    judged_function *judged = arg;
    const ct_rng before = ct_rng_get(context);
    /* the judge's first: a forward may change its inputs, which the checker finds */
    ct_scope scope = ct_scope_open_no_grad(context);
    ct_tensor *own = judged->own ? judged->own(in, n, judged->own_arg) : NULL;
    own = own ? ct_scope_return(scope, own) : NULL;
    if (!own) ct_scope_close(scope);
    bool wanted = false;
    for (int i = 0; i < n; i++) wanted = wanted || (in[i] && ct_requires_grad(in[i]));
    /* of what only differences need, yours is called for the first ones: it may keep something from
     * one call for another */
    enum { BESIDE = 48 };
    if (own && !wanted && judged->beside++ >= BESIDE) return own;
    ct_rng_set(context, before);
    ct_tensor *yours = judged->yours(in, n, judged->arg);
    if (own && yours && !course_same(yours, own, 1e-9)) {
        course_hint("%s", "");
        course_value(judged->what, yours, own, 1e-9);
    }
    return own && yours ? ct_apply(&settled, (ct_tensor *[]){yours, own}, 2, NULL) : yours;
}

void course_gradient_of(const char *what, ct_fn fn, void *arg, ct_tensor *const *in, int n,
                        ct_gradcheck_opts opts) {
    char *report = NULL;
    size_t size;
    opts.report = open_memstream(&report, &size);
    judged_function judged = {.yours = fn, .arg = arg, .what = what};
    find_own_forward(&judged, in, n);
    remote_allow_changes(true);
    ct_gradcheck_result r = ct_gradcheck(judge_forward, &judged, in, n, opts);
    remote_allow_changes(false);
    if (opts.report) fclose(opts.report);
    if (!r.ran) fail_reporting(ct_error_message(context), "", "%s", what);
    const bool unwritten = remote_unwritten();
    if (!r.ok && unwritten && r.mistake == CT_MISTAKE_NOT_FINITE && !*hint)
        course_hint(
            "the gradient has numbers that were never written, or were computed from memory "
            "that was not (new memory holds NaN here)");
    if (!r.ok) fail_of_gradient(what, &r, in, report ? report : (char[1]){""});
    free(report);
    /* the hint may be of a wrong gradient that is right at these inputs */
    course_hint("%s", "");
}

typedef struct {
    const ct_op *op;
    const void *attrs;
} applied;

static ct_tensor *apply(ct_tensor *const *in, int n, void *arg) {
    const applied *a = arg;
    return ct_apply(a->op, in, n, a->attrs);
}

void course_gradient(const char *what, const ct_op *op, const void *attrs, ct_tensor *const *in,
                     int n, ct_gradcheck_opts opts) {
    course_gradient_of(what, apply, &(applied){op, attrs}, in, n, opts);
}

void course_gradient_is(const char *what, const ct_op *op, const void *attrs, ct_tensor *const *in,
                        int n, ct_tensor *const *expected, double tolerance) {
    char text[256];
    ct_tensor *leaf[MOST_INPUTS];
    for (int i = 0; i < n; i++)
        leaf[i] = expected[i] ? ct_set_requires_grad(made(ref_copy(in[i])), true) : in[i];
    ct_tensor *out = ct_apply(op, leaf, n, attrs);
    ct_tensor *ones = out ? ct_full(context, CT_F64, ct_shape_of(out), 1) : NULL;
    if (!out || !ct_backward_with(&out, &ones, 1, (ct_backward_opts){false}))
        fail_reporting(ct_error_message(context), "", "%s", what);
    for (int i = 0; i < n; i++) {
        if (!expected[i]) continue;
        snprintf(text, sizeof text, "the gradient of input %d for a cotangent of ones, at %s", i,
                 what);
        course_value(text, ct_grad(leaf[i]), expected[i], tolerance);
    }
}

/* Returns fn(in), and sets grad[i] to the gradient of sum(weights fn(in)), NULL if there is none.
 * If *weights is NULL the weights are made. */
static ct_tensor *gradients_of(const char *what, ct_fn fn, void *arg, ct_tensor *const *in, int n,
                               ct_tensor **weights, ct_tensor *grad[MOST_INPUTS]) {
    ct_tensor *leaf[MOST_INPUTS];
    for (int i = 0; i < n; i++) {
        leaf[i] = in[i];
        if (in[i] && ct_dtype_of(in[i]) == CT_F64)
            leaf[i] = ct_set_requires_grad(made(ref_copy(in[i])), true);
    }
    const double start = remote_work();
    ct_tensor *out = fn(leaf, n, arg);
    if (!out) fail_reporting(ct_error_message(context), "", "%s", what);
    const double allowed = fmin(seconds / 5 + 100 * (remote_work() - start), seconds / 2.5);
    if (!*weights) *weights = course_randn(context, ct_shape_of(out));
    char late[512];
    snprintf(late, sizeof late,
             "backward takes too long: does it take differences of forward? %s: it has not ended "
             "after %.1f s of work",
             what, allowed);
    remote_limit(allowed, late);
    if (!ct_backward_with(&out, weights, 1, (ct_backward_opts){false}))
        fail_reporting(ct_error_message(context), "", "%s", what);
    remote_limit(0, NULL);
    for (int i = 0; i < n; i++) grad[i] = leaf[i] == in[i] ? NULL : ct_grad(leaf[i]);
    return out;
}

void course_name_gradient(const ct_op *op, const void *attrs, ct_tensor *const *in, int n,
                          const course_wrong_gradient *known, int count) {
    ct_tensor *leaf[MOST_INPUTS];
    course_hint("%s", "");
    if (!nothing(wrongs)) return;
    memcpy(leaf, in, (size_t)n * sizeof *in);
    for (int i = 0; i < count; i++)
        leaf[known[i].input] = ct_set_requires_grad(made(ref_copy(in[known[i].input])), true);
    ct_tensor *out = ct_apply(op, leaf, n, attrs),
              *g = out ? course_randn(context, ct_shape_of(out)) : NULL;
    const bool ran = out && ct_backward_with(&out, &g, 1, (ct_backward_opts){false});
    /* two wrong gradients may be the same at these inputs */
    const course_wrong_gradient *first = NULL, *second = NULL;
    for (int i = 0; i < count && ran && !second; i++) {
        if (first && known[i].input != first->input) continue;
        if (!course_same(ct_grad(leaf[known[i].input]), known[i].of(in, g, attrs), 1e-9)) continue;
        if (first) second = &known[i];
        else first = &known[i];
    }
    if (first)
        course_hint("%s%s%s", first->what, second ? "; or: " : "", second ? second->what : "");
    if (ct_error(context)) ct_error_clear(context); /* which the check that follows finds, too */
}

void course_no_other_gradients(ct_tensor *const *in, int n, int points) {
    const unsigned set = remote_set_unwanted();
    for (int i = 0; i < n; i++)
        if (set >> i & 1 && (!in[i] || ct_dtype_of(in[i]) != CT_F64)) {
            course_hint("grad[%d] is set, and input %d has no gradient", i, i);
            course_partial(points, "input %d is %s%s: backward must leave grad[%d] as it is", i,
                           in[i] ? "of dtype " : "NULL",
                           in[i] ? dtype_text(ct_dtype_of(in[i])) : "", i);
        }
}

/* A function of the judge's, at inputs of which number `which` is moved by a multiple of u. */
typedef struct {
    ct_fn fn;
    void *arg;
    ct_tensor *const *in;
    int n, which;
    const double *u;
    ct_tensor *weights;
    ct_rng rng;
} moved_function;

/* sum(weights fn(in + h u)) */
static double value_moved(const moved_function *m, double h) {
    ct_scope scope = ct_scope_open_no_grad(context);
    ct_tensor *in[MOST_INPUTS];
    memcpy(in, m->in, (size_t)m->n * sizeof *in);
    in[m->which] = made(ref_copy(in[m->which]));
    for (int64_t j = 0; j < ct_numel(in[m->which]); j++)
        ct_data_f64(in[m->which])[j] += h * m->u[j];
    ct_rng_set(context, m->rng);
    ct_tensor *out = made(ct_contiguous(m->fn(in, m->n, m->arg)));
    long double sum = 0;
    for (int64_t j = 0; j < ct_numel(out); j++)
        sum += (long double)ct_data_f64(out)[j] * ct_data_f64(m->weights)[j];
    ct_scope_close(scope);
    return (double)sum;
}

/* The derivative along u, by four points: the error of the formula is of the order h^4. */
static double derivative_along(const moved_function *m, double h) {
    return (8 * (value_moved(m, h) - value_moved(m, -h)) -
            (value_moved(m, 2 * h) - value_moved(m, -2 * h))) /
           (12 * h);
}

/* The elements from `first` up to `end` of the direction u, the others 0: how far the gradient `a`
 * is off along it. */
static double off_along(moved_function *m, const double *a, const double *u, int64_t first,
                        int64_t end, double *part) {
    const int64_t n = ct_numel(m->in[m->which]);
    long double along = 0;
    for (int64_t j = 0; j < n; j++) {
        part[j] = j >= first && j < end ? u[j] : 0;
        along += (long double)part[j] * a[j];
    }
    m->u = part;
    return (double)along - derivative_along(m, 1e-4);
}

/* Fails if the gradient is off along a random direction by more than is allowed; the wrong element
 * is then found by halving the direction. An error that is not a number is the largest. */
static void check_along(const char *what, moved_function *m, ct_tensor *gradient,
                        double tolerance) {
    const ct_shape shape = ct_shape_of(gradient);
    const int64_t n = ct_numel(gradient);
    double *a = values_of(what, gradient), largest = 0,
           *u = values_of(what, course_randn(context, shape)),
           *part = malloc((size_t)n * sizeof *part + 1);
    for (int64_t j = 0; j < n; j++) largest = isnan(a[j]) ? a[j] : fmax(largest, fabs(a[j]));
    const double off = off_along(m, a, u, 0, n, part),
                 allowed = tolerance * largest * sqrt((double)n);
    int64_t first = 0, end = n;
    while (!(fabs(off) <= allowed) && end - first > 1) {
        const int64_t middle = first + (end - first) / 2;
        const double left = off_along(m, a, u, first, middle, part),
                     right = off_along(m, a, u, middle, end, part);
        if (isnan(left) || fabs(left) > fabs(right)) end = middle;
        else first = middle;
    }
    if (!(fabs(off) <= allowed)) {
        const double right = a[first] - off_along(m, a, u, first, first + 1, part) / u[first];
        course_fail("%s; %s: that of input %d is %.12g at %s and must be %.12g",
                    fabs(a[first] - right) < 1e-4 * fabs(right)
                        ? "inexact: differences of forward are not as exact as a gradient must be"
                        : "wrong gradient of large inputs",
                    what, m->which, number(a[first]), TEXT(place(shape, first)), right);
    }
    free(a), free(u), free(part);
}

void course_gradient_along(const char *what, ct_fn reference, void *arg, ct_tensor *const *in,
                           int n, ct_tensor *weights, ct_tensor *const *grad, double tolerance) {
    moved_function m = {.fn = reference, .arg = arg, .in = in, .n = n, .weights = weights};
    m.rng = ct_rng_get(context);
    for (int i = 0; i < n; i++) {
        if (!in[i] || ct_dtype_of(in[i]) != CT_F64) continue;
        if (!grad[i]) course_fail("no gradient of input %d: %s", i, what);
        m.which = i;
        check_along(what, &m, grad[i], tolerance);
    }
}

void course_gradient_as(const char *what, ct_fn yours, ct_fn reference, void *arg,
                        ct_tensor *const *in, int n, double tolerance) {
    ct_tensor *weights = NULL, *got[MOST_INPUTS];
    ct_scope scope = ct_scope_open_no_grad(context);
    ct_tensor *right = ct_scope_return(scope, made(reference(in, n, arg)));
    ct_tensor *out = gradients_of(what, yours, arg, in, n, &weights, got);
    if (course_same(out, right, 1e-9))
        course_gradient_along(what, reference, arg, in, n, weights, got, tolerance);
}

ct_tensor *course_derivative(ct_fn fn, void *arg, ct_tensor *const *in, int n, int which,
                             ct_tensor *cotangent, double step) {
    moved_function m = {.fn = fn, .arg = arg, .in = in, .n = n, .which = which};
    const int64_t count = ct_numel(in[which]);
    m.weights = made(ct_contiguous(cotangent)), m.rng = ct_rng_get(context);
    double *u = calloc((size_t)count + 1, sizeof *u);
    ct_tensor *gradient = made(ct_zeros(context, CT_F64, ct_shape_of(in[which])));
    m.u = u;
    for (int64_t j = 0; j < count && u; j++) {
        u[j] = 1;
        ct_data_f64(gradient)[j] = derivative_along(&m, step);
        u[j] = 0;
    }
    free(u);
    return gradient;
}

ct_tensor *course_f64(ct_context *of, ct_shape shape, const double *values) {
    return made(ct_from_f64(of, shape, values));
}
ct_tensor *course_randn(ct_context *of, ct_shape shape) {
    return made(ct_randn(of, CT_F64, shape));
}

/* ---- one test ---- */

__attribute__((weak)) void remote_ready(void) {}

static int list(void) {
    for (int i = 0; i < course_test_count; i++)
        printf("%s %d %d %d\n", course_tests[i].name, course_tests[i].points,
               course_tests[i].hidden, course_tests[i].times > 0 ? course_tests[i].times : 1);
    return fflush(stdout) == 0 ? 0 : 2;
}

static int probe(const char *submission) {
    remote_start(&(remote_options){
        .program = submission, .seconds = 10, .memory_mib = 1024, .sealed = true});
    remote_stop();
    return 0;
}

int main(int count, char **args) {
    if (count == 2 && strcmp(args[1], "--list") == 0) return list();
    if (count == 3 && strcmp(args[1], "--probe") == 0) return result = 2, probe(args[2]);
    if (count != 8) {
        fprintf(stderr, "this program is run by course/grade\n");
        return 2;
    }
    const char *name = args[1], *seal = args[7];
    const remote_options options = {.program = args[6],
                                    .seconds = strtoul(args[3], NULL, 10),
                                    .memory_mib = strtoul(args[4], NULL, 10),
                                    .sealed = strcmp(seal, "sealed") == 0,
                                    .sanitized = strcmp(seal, "sanitized") == 0};
    result = atoi(args[2]), seconds = (double)options.seconds;
    fcntl(result, F_SETFD, FD_CLOEXEC);
    for (int i = 0; i < course_test_count; i++) {
        if (strcmp(course_tests[i].name, name)) continue;
        const ct_context_opts of_judge = {.seed = strtoull(args[5], NULL, 10), .threads = 1};
        context = ct_context_new(of_judge);
        if (!context || ct_error(context)) course_fail("no context: %s", ct_error_message(context));
        running = &course_tests[i];
        remote_start(&options), remote_ready();
        running->run(context);
        end_with_wrongs();
        if (ct_error(context)) course_fail("an error is left: %s", ct_error_message(context));
        remote_stop();
        end("passed\n", NULL);
    }
    course_fail("there is no test %s", name);
}
