/* Times of single ops. First the overhead of an op: chains of ops on eight floats. Then every line
 * of ops.def on inputs of about 64 K elements, with the sizes of its lists of inputs multiplied.
 *
 *     build/bench/ops --threads 2 [--only gelu] */
#include "flags.h"
#include "timing.h"

#include "../tests/support/cases.h"

#include <stdlib.h>
#include <string.h>

enum { CHAIN = 64, ROUNDS = 15, ELEMENTS = 1 << 16 };

static ct_context *context;

/* The median over rounds, in ns per call, of as many calls as take half a millisecond, without the
 * first round. */
static double median_ns(void (*call)(void *), void *arg) {
    double ns[ROUNDS + 1], first = now();
    call(arg);
    int64_t n = (int64_t)(0.0005 / (now() - first)) + 1;
    for (int i = 0; i <= ROUNDS; i++) {
        double start = now();
        for (int64_t j = 0; j < n; j++) call(arg);
        ns[i] = 1e9 * (now() - start) / (double)n;
    }
    return median(ns + 1, ROUNDS);
}

/* ---- eight floats ---- */

typedef struct {
    const char *name;
    ct_tensor *(*run)(ct_tensor *x, ct_tensor *c);
    ct_tensor *x, *c, *cotangent;
    bool record, back;
} chain;

static ct_tensor *run_add(ct_tensor *x, ct_tensor *c) { return ct_add(x, c); }
static ct_tensor *run_mul(ct_tensor *x, ct_tensor *c) { return ct_mul(x, c); }
static ct_tensor *run_scale(ct_tensor *x, ct_tensor *c) { return (void)c, ct_scale(x, 0.99); }
static ct_tensor *run_relu(ct_tensor *x, ct_tensor *c) { return (void)c, ct_relu(x); }
static ct_tensor *run_tanh(ct_tensor *x, ct_tensor *c) { return (void)c, ct_tanh(x); }
static ct_tensor *run_transpose(ct_tensor *x, ct_tensor *c) {
    return (void)c, ct_transpose(x, 0, 1);
}
static ct_tensor *run_softmax(ct_tensor *x, ct_tensor *c) { return (void)c, ct_softmax(x, -1); }
static ct_tensor *run_rms_norm(ct_tensor *x, ct_tensor *c) {
    return (void)c, ct_rms_norm(x, NULL, 1e-5);
}

/* In a scope: a chain of CHAIN ops, and backward through them. */
static void run_chain(void *arg) {
    chain *a = arg;
    ct_scope scope = a->record ? ct_scope_open(context) : ct_scope_open_no_grad(context);
    ct_tensor *y = a->x;
    for (int i = 0; i < CHAIN; i++) y = a->run(y, a->c);
    if (a->back) {
        ct_backward_with(&y, &a->cotangent, 1, (ct_backward_opts){0});
        ct_zero_grad(a->x);
    }
    ct_scope_close(scope);
}

static void small_ops(const char *only) {
    chain chains[] = {
        {.name = "add", .run = run_add},         {.name = "mul", .run = run_mul},
        {.name = "scale", .run = run_scale},     {.name = "relu", .run = run_relu},
        {.name = "tanh", .run = run_tanh},       {.name = "transpose", .run = run_transpose},
        {.name = "softmax", .run = run_softmax}, {.name = "rms_norm", .run = run_rms_norm},
    };
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) {
        chain *a = &chains[i];
        if (only && strcmp(only, a->name)) continue;
        ct_scope scope = ct_scope_open(context);
        a->x = ct_set_requires_grad(ct_full(context, CT_F32, CT_SHAPE(1, 8), 0.5), true);
        a->c = ct_full(context, CT_F32, CT_SHAPE(1, 8), 0.99);
        a->cotangent = ct_ones(context, CT_F32, CT_SHAPE(1, 8));
        double plain = median_ns(run_chain, a) / CHAIN;
        a->record = true;
        double forward = median_ns(run_chain, a) / CHAIN;
        a->back = true;
        double both = median_ns(run_chain, a) / CHAIN;
        printf("{\"small\": \"%s\", \"no_grad\": %.1f, \"forward\": %.1f, \"backward\": %.1f}\n",
               a->name, plain, forward, both - forward);
        fflush(stdout);
        ct_scope_close(scope);
    }
}

/* ---- every line of ops.def ---- */

typedef struct {
    const case_line *line;
    ct_tensor *in[CASE_INPUTS], *cotangent;
    int n;
    bool back;
} timed_case;

static void run_case(void *arg) {
    timed_case *t = arg;
    ct_scope scope = t->back ? ct_scope_open(context) : ct_scope_open_no_grad(context);
    ct_tensor *y = case_run(context, t->line, t->in);
    if (t->back) {
        ct_backward_with(&y, &t->cotangent, 1, (ct_backward_opts){0});
        for (int i = 0; i < t->n; i++)
            if (t->in[i]) ct_zero_grad(t->in[i]);
    }
    ct_scope_close(scope);
}

/* Elements of the largest input of a list; 0: malformed text. */
static int64_t elements(const case_line *line, int variant, int64_t scale) {
    case_input inputs[CASE_INPUTS];
    int64_t most = 0;
    for (int i = case_inputs(line, variant, scale, inputs) - 1; i >= 0; i--) {
        int64_t n = inputs[i].kind != 'N';
        for (int d = 0; d < inputs[i].shape.ndim; d++) n *= inputs[i].shape.dim[d];
        if (n > most) most = n;
    }
    return most;
}

/* Builds the inputs and tries the call, with backward if an input requires a gradient. */
static bool prepare(timed_case *t, int variant, int64_t scale, case_input *inputs) {
    ct_error_clear(context);
    t->n = case_inputs(t->line, variant, scale, inputs);
    t->back = false;
    if (t->n < 0 ||
        !case_build(context, inputs, t->n, (case_build_opts){.dtype = CT_F32, .seed = 1}, t->in))
        return false;
    ct_tensor *y = case_run(context, t->line, t->in);
    bool back = y && ct_requires_grad(y);
    t->cotangent = back ? case_cotangent(y, 1, false) : NULL;
    if (t->back = back, back) run_case(t);
    return ct_error(context) == CT_OK;
}

static void print_inputs(const case_input *inputs, int n) {
    for (int i = 0; i < n; i++) {
        printf("%s%c", i ? " " : "", inputs[i].kind);
        if (inputs[i].ranged) printf("(%g,%g)", inputs[i].low, inputs[i].high);
        for (int d = 0; d < inputs[i].shape.ndim; d++)
            printf("%c%lld", d ? ',' : '[', (long long)inputs[i].shape.dim[d]);
        printf("%s", inputs[i].kind == 'N' ? "" : inputs[i].shape.ndim ? "]" : "[]");
    }
}

static void print_text(const char *key, const char *text) {
    printf(", \"%s\": \"", key);
    for (; *text; text++) printf(*text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
    printf("\"");
}

static void time_line(const case_line *line) {
    timed_case t = {.line = line};
    case_input inputs[CASE_INPUTS];
    int variant = 0;
    for (int i = 1; i < case_variants(line); i++)
        if (elements(line, i, 1) > elements(line, variant, 1)) variant = i;
    int64_t scale = 1;
    for (int64_t most = 0, next;
         (next = elements(line, variant, 2 * scale)) <= ELEMENTS && next > most; most = next)
        scale *= 2;
    ct_scope scope = ct_scope_open(context);
    while (!prepare(&t, variant, scale, inputs) && scale > 1)
        ct_scope_close(scope), scope = ct_scope_open(context), scale /= 2;
    printf("{\"op\": \"%s\"", line->name);
    print_text("call", line->call);
    print_text("torch", line->torch);
    printf(", \"inputs\": \"");
    print_inputs(inputs, t.n);
    if (ct_error(context)) printf("\", \"error\": \"%s\"}\n", ct_error_message(context));
    else {
        bool back = t.back;
        t.back = false;
        double forward = median_ns(run_case, &t), both = 0;
        if ((t.back = back)) both = median_ns(run_case, &t);
        printf("\", \"elements\": %lld, \"forward\": %.0f",
               (long long)elements(line, variant, scale), forward);
        if (back) printf(", \"both\": %.0f", both);
        printf("}\n");
    }
    fflush(stdout);
    ct_error_clear(context);
    ct_scope_close(scope);
}

int main(int argc, char **argv) {
    int threads = 1;
    const char *only = NULL;
    if (!threads_and_only(argc, argv, "ops", &threads, &only)) return 2;
    context = ct_context_new((ct_context_opts){.seed = 1, .threads = threads});
    if (ct_error(context))
        return fprintf(stderr, "ops: %s\n", context ? ct_error_message(context) : "out of memory"),
               1;
    small_ops(only);
    for (int i = 0; i < case_count(); i++)
        if (!only || !strcmp(only, case_at(i)->name)) time_line(case_at(i));
    bool failed = ct_error(context);
    ct_context_free(context);
    return failed;
}
