/* Runs one test of an exercise: program TEST FD SECONDS MIB [sanitized]. `grade` sends a nonce on
 * standard input, and believes what comes back on FD only if it begins with it, so that nothing the
 * submission prints counts. Limits are set here, before the submission's code runs. */
#include "course.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { NONCE = 32 };
static char nonce[NONCE];
static int result;
static unsigned long memory_mib;
static ct_context *context;

/* ---- how a test ends ---- */

static void put(const char *text, size_t size) {
    while (size > 0) {
        ssize_t written = write(result, text, size);
        if (written <= 0) return; /* nobody listens: the verdict is lost, and with it the points */
        text += written, size -= (size_t)written;
    }
}

static void end(const char *verdict, const char *sentence, const char *report) {
    fflush(NULL);
    put(nonce, NONCE), put(verdict, strlen(verdict)), put(sentence, strlen(sentence));
    if (*report) put("\n", 1), put(report, strlen(report));
    _exit(0);
}

static void fail_with(const char *report, const char *format, va_list args) {
    char sentence[2048];
    vsnprintf(sentence, sizeof sentence, format, args);
    end("failed\n", sentence, report);
}

static void fail_reporting(const char *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void fail_reporting(const char *report, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fail_with(report, format, args);
    va_end(args);
}

void course_fail(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fail_with("", format, args);
    va_end(args);
    _exit(0);
}

/* ---- memory ---- */

/* The linker hands malloc and its like here. What is new holds NaN, and what is not there ends
 * the test. */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);

static void *there(void *block, size_t count, size_t size) {
    if (!block && count && size)
        course_fail("needed more memory than the limit of %lu MiB: there is no room for %zu times "
                    "%zu bytes",
                    memory_mib, count, size);
    return block;
}

void *__wrap_malloc(size_t size) {
    void *block = there(__real_malloc(size), 1, size);
    return block ? memset(block, 0xff, size) : NULL;
}
void *__wrap_calloc(size_t count, size_t size) {
    return there(__real_calloc(count, size), count, size);
}
void *__wrap_realloc(void *block, size_t size) {
    return there(__real_realloc(block, size), 1, size);
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

static ct_tensor *made(ct_tensor *tensor) {
    if (!tensor) course_fail("the test could not make its tensors: %s", ct_error_message(context));
    return tensor;
}

static double *values_of(const char *what, ct_tensor *tensor) {
    const int64_t n = ct_numel(tensor);
    double *values = malloc((size_t)n * sizeof *values + 1);
    if (!ct_to_f64(tensor, values, n)) course_fail("%s: %s", what, ct_error_message(context));
    return values;
}

static double number(double x) { return isnan(x) ? fabs(x) : x; } /* printf knows a -nan */

/* How far off, in units of what is allowed. */
static double excess(double got, double expected, double tolerance) {
    if (got == expected || (isnan(got) && isnan(expected))) return 0;
    if (!isfinite(got) || !isfinite(expected)) return INFINITY;
    double error = fabs(got - expected), allowed = tolerance * fmax(1, fabs(expected));
    return error <= allowed ? 0 : error / fmax(allowed, 1e-300);
}

/* Both tensors as ct_print shows them, where they are small. */
static void show(FILE *report, ct_tensor *got, ct_tensor *expected) {
    if (!report || ct_numel(got) > 40) return;
    fprintf(report, "got\n"), ct_print(got, report);
    fprintf(report, "expected\n"), ct_print(expected, report);
}

void course_value(const char *what, ct_tensor *got, ct_tensor *expected, double tolerance) {
    if (!got || ct_error(context))
        course_fail("%s: %s", what,
                    ct_error(context) ? ct_error_message(context)
                                      : "there is no result, and no error");
    made(expected);
    const ct_shape shape = ct_shape_of(got), right = ct_shape_of(expected);
    if (shape.ndim != right.ndim ||
        memcmp(shape.dim, right.dim, (size_t)shape.ndim * sizeof *shape.dim))
        course_fail("%s: the shape is %s, and must be %s", what, TEXT(shape), TEXT(right));
    if (ct_dtype_of(got) != ct_dtype_of(expected))
        course_fail("%s: the dtype is %s, and must be %s", what, dtype_text(ct_dtype_of(got)),
                    dtype_text(ct_dtype_of(expected)));

    const int64_t n = ct_numel(got);
    double *a = values_of(what, got), *b = values_of(what, expected);
    int64_t wrong = 0, first = 0, worst = 0;
    for (int64_t i = 0; i < n; i++) {
        double here = excess(a[i], b[i], tolerance);
        if (here > 0 && !wrong++) first = worst = i;
        if (here > excess(a[worst], b[worst], tolerance)) worst = i;
    }
    if (wrong) {
        char *report = NULL, also[256] = "";
        size_t size;
        FILE *file = open_memstream(&report, &size);
        show(file, got, expected);
        if (file) fclose(file);
        if (worst != first)
            snprintf(also, sizeof also, "; the worst, %s, is %.10g and must be %.10g",
                     TEXT(place(shape, worst)), number(a[worst]), b[worst]);
        fail_reporting(report ? report : "",
                       "%s: element %s is %.10g%s and must be %.10g%s; %lld of %lld %s wrong", what,
                       TEXT(place(shape, first)), number(a[first]),
                       isfinite(a[first]) ? "" : " (not finite)", b[first], also, (long long)wrong,
                       (long long)n, wrong == 1 ? "is" : "are");
    }
    free(a), free(b);
}

void course_refused(const char *what, ct_context *of, ct_tensor *got, ct_status status,
                    const char *words) {
    static const char *const names[] = {"CT_OK",           "CT_ERR_SHAPE",  "CT_ERR_DTYPE",
                                        "CT_ERR_ARGUMENT", "CT_ERR_MEMORY", "CT_ERR_IO",
                                        "CT_ERR_FORMAT",   "CT_ERR_GRAD"};
    if (got)
        course_fail("%s: there is a result where there must be an error (%s)", what, names[status]);
    if (ct_error(of) != status)
        course_fail("%s: the error is %s and must be %s: \"%s\"", what, names[ct_error(of)],
                    names[status], ct_error_message(of));
    if (!strstr(ct_error_message(of), words))
        course_fail("%s: the error does not say \"%s\": \"%s\"", what, words, ct_error_message(of));
    ct_error_clear(of);
}

/* ---- gradients ---- */

void course_gradient_of(const char *what, ct_fn fn, void *arg, ct_tensor *const *in, int n,
                        ct_gradcheck_opts opts) {
    char *report = NULL;
    size_t size;
    opts.report = open_memstream(&report, &size);
    ct_gradcheck_result r = ct_gradcheck(fn, arg, in, n, opts);
    if (opts.report) fclose(opts.report);
    if (!r.ran) course_fail("%s: %s", what, ct_error_message(context));
    if (!r.ok) {
        /* its first line is the diagnosis */
        const char *rest = report ? strchr(report, '\n') : NULL;
        rest = rest ? rest + 1 : "";
        if (r.verdict == CT_VERDICT_CANNOT_TELL)
            fail_reporting(rest, "%s: it cannot be told whether the gradient is right (%s): %s",
                           what, ct_mistake_name(r.mistake), r.diagnosis);
        fail_reporting(rest, "%s: the gradient is wrong (%s): %s", what, ct_mistake_name(r.mistake),
                       r.diagnosis);
    }
    free(report);
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

ct_tensor *course_f64(ct_context *of, ct_shape shape, const double *values) {
    return made(ct_from_f64(of, shape, values));
}
ct_tensor *course_randn(ct_context *of, ct_shape shape) {
    return made(ct_randn(of, CT_F64, shape));
}

/* ---- one test ---- */

static bool limit(int what, unsigned long soft, unsigned long hard) {
    return setrlimit(what, &(struct rlimit){soft, hard}) == 0;
}

int main(int count, char **args) {
    if ((count != 5 && count != 6) || read(STDIN_FILENO, nonce, NONCE) != NONCE) {
        fprintf(stderr, "this program is run by examples/course/grade\n");
        return 2;
    }
    const char *name = args[1];
    const unsigned long seconds = strtoul(args[3], NULL, 10);
    result = atoi(args[2]), memory_mib = strtoul(args[4], NULL, 10);
    setvbuf(stdout, NULL, _IOLBF, 0); /* a crash loses no line */
    if (!limit(RLIMIT_CORE, 0, 0) || !limit(RLIMIT_FSIZE, 0, 0) ||
        !limit(RLIMIT_CPU, seconds, seconds + 1) ||
        /* a sanitizer's shadow is larger than any limit */
        (count == 5 && !limit(RLIMIT_AS, memory_mib << 20, memory_mib << 20)))
        course_fail("the limits cannot be set");
    for (int i = 0; i < course_test_count; i++) {
        if (strcmp(course_tests[i].name, name)) continue;
        context = ct_context_new((ct_context_opts){.seed = 1, .threads = 1});
        if (!context || ct_error(context)) course_fail("no context: %s", ct_error_message(context));
        course_tests[i].run(context);
        if (ct_error(context)) course_fail("an error is left: %s", ct_error_message(context));
        ct_context_free(context);
        end("passed\n", "", "");
    }
    course_fail("there is no test %s", name);
}
