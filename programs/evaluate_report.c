/* What evaluate says: figures with their standard errors, the difference of two models, and JSON.
 */
#include "evaluate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- figures ---- */

/* A figure and its standard error, which is NaN if it is not known. */
typedef struct {
    double value, error;
} figure;

static const figure unknown = {NAN, NAN};

/* sum x / sum w of n units, and the error of this ratio: how much it would vary with other units of
 * this kind. The mean of x is a ratio whose weights are 1. */
static figure ratio(const double *x, const double *w, int64_t n) {
    double sum = 0, weight = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i], weight += w[i];
    if (!(weight > 0)) return unknown;
    const double r = sum / weight;
    for (int64_t i = 0; i < n; i++) squares += (x[i] - r * w[i]) * (x[i] - r * w[i]);
    const double units = (double)n;
    return (figure){r, n > 1 ? sqrt(squares * units / (units - 1)) / weight : NAN};
}

/* What is measured of a unit. */
typedef enum { NATS, RIGHT, RIGHT_PER_BYTE, RIGHT_LABELS, SQUARES } measure;

static double measured(const scored *unit, measure what) {
    switch (what) {
    case NATS: return unit->nats;
    case RIGHT: return unit->answer == unit->chosen;
    case RIGHT_PER_BYTE: return unit->answer == unit->chosen_per_byte;
    case RIGHT_LABELS: return (double)unit->right;
    case SQUARES: break;
    }
    return unit->squared_error;
}

typedef enum { PER_UNIT, PER_TOKEN, PER_BIT_OF_BYTE } weighing;

static double weight_of(const scored *unit, weighing by) {
    return by == PER_UNIT    ? 1
           : by == PER_TOKEN ? (double)unit->tokens
                             : log(2) * (double)unit->bytes;
}

/* A figure of a model or, with b, the difference a - b, whose error is that of paired units. */
static figure figure_of(const evaluation *a, const evaluation *b, measure what, weighing by) {
    double *x = calloc(2 * ((size_t)a->n + 1), sizeof *x), *w = x + a->n;
    if (!x) fail(EXIT_FAILED, "out of memory");
    for (int64_t i = 0; i < a->n; i++) {
        x[i] = measured(&a->unit[i], what) - (b ? measured(&b->unit[i], what) : 0);
        w[i] = weight_of(&a->unit[i], by);
    }
    const figure y = ratio(x, w, a->n);
    free(x);
    return y;
}

/* ---- texts ---- */

typedef struct {
    double nats;
    int64_t tokens;
    figure per_token, bits_per_byte;
} text_figures;

static text_figures text_figures_of(const evaluation *e) {
    text_figures f = {.per_token = figure_of(e, NULL, NATS, PER_TOKEN)};
    for (int64_t i = 0; i < e->n; i++) {
        f.nats += e->unit[i].nats;
        f.tokens += e->unit[i].tokens;
    }
    f.bits_per_byte = e->of_windows ? unknown : figure_of(e, NULL, NATS, PER_BIT_OF_BYTE);
    f.bits_per_byte.value = e->bytes ? f.nats / (log(2) * (double)e->bytes) : NAN;
    return f;
}

/* Whether both models were scored on the same units: the same documents, or windows of the same
 * tokens. */
static bool are_paired(const evaluation *a, const evaluation *b, bool by_tokens) {
    bool same = a->n == b->n && a->of_windows == b->of_windows;
    for (int64_t i = 0; same && i < a->n; i++)
        same = by_tokens ? a->unit[i].tokens == b->unit[i].tokens : a->unit[i].bytes > 0;
    return same;
}

/* How often the first model did better, worse, and as well. */
typedef struct {
    int64_t wins, losses, ties;
} tally;

static tally tally_of(const evaluation *a, const evaluation *b, measure what) {
    tally t = {0};
    for (int64_t i = 0; i < a->n; i++) {
        const double x = measured(&a->unit[i], what), y = measured(&b->unit[i], what);
        const bool better = what == NATS || what == SQUARES ? x < y : x > y;
        t.ties += x == y, t.wins += better, t.losses += x != y && !better;
    }
    return t;
}

/* ---- labels ---- */

static bool are_numbers(const evaluation *e) { return e->labelled.kind == LABELLED_REAL; }

/* What a labelled line is measured by: the squares of errors, or the right decisions. */
static measure of_labels(const evaluation *e) { return are_numbers(e) ? SQUARES : RIGHT_LABELS; }

/* Pearson's correlation of the model's numbers with those of the data; NaN if one of them does not
 * vary. */
static double pearson(const evaluation *e) {
    double n = 0, mean_x = 0, mean_y = 0, xx = 0, yy = 0, xy = 0;
    for (int64_t i = 0; i < e->n; i++) { /* Welford's sums */
        if (!e->unit[i].tokens) continue;
        const double x = e->scores.answer[i].value, y = e->labelled.texts[i].real;
        const double dx = x - mean_x, dy = y - mean_y;
        n++;
        mean_x += dx / n, mean_y += dy / n;
        xx += dx * (x - mean_x), yy += dy * (y - mean_y), xy += dx * (y - mean_y);
    }
    return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : NAN;
}

/* A part of a whole, or NaN of nothing. */
static double part_of(double part, double whole) { return whole > 0 ? part / whole : NAN; }

static const char *unit_of_labels(const evaluation *e) {
    return e->labelled.task == LABELLED_TOKENS ? "word" : "text";
}

/* ---- printing ---- */

static const char *plus_minus(figure f) {
    static char text[4][48];
    static int turn;
    char *out = text[turn = (turn + 1) % 4];
    if (isnan(f.error)) return "";
    snprintf(out, sizeof *text, " ± %.4f", f.error);
    return out;
}

/* A row of the table of labels; what has no value is a dash. */
static void print_label(const char *name, const double *x, double real, double said) {
    printf("  %-15s", name);
    for (int i = 0; i < 3; i++)
        if (isnan(x[i])) printf("  %9s", "-");
        else printf("  %9.4f", x[i]);
    printf("  %6.0f  %6.0f\n", real, said);
}

static void print_labels(const evaluation *e) {
    const label_scores *s = &e->scores;
    const figure f = figure_of(e, NULL, of_labels(e), PER_TOKEN);
    const long long decisions = (long long)s->decisions, left = (long long)e->left_out;
    if (are_numbers(e)) {
        printf("  mean squared error  %.4f%s\n  Pearson             %.4f\n", f.value, plus_minus(f),
               pearson(e));
    } else {
        const label_f1s f1 = label_f1s_of(s);
        printf("  accuracy     %.4f%s\n  F1 macro     %.4f\n  F1 micro     %.4f\n"
               "  F1 weighted  %.4f\n  %-15s  %9s  %9s  %9s  %6s  %6s\n",
               f.value, plus_minus(f), f1.macro, f1.micro, f1.weighted, "label", "F1", "precision",
               "recall", "true", "said");
        for (int64_t k = 0; k < s->labels; k++)
            print_label(e->labelled.names[k],
                        (double[]){label_f1(s, k), part_of(s->right[k], s->said[k]),
                                   part_of(s->right[k], s->real[k])},
                        s->real[k], s->said[k]);
    }
    printf("  %lld %s%s", decisions, unit_of_labels(e), PLURAL(decisions));
    if (left)
        printf("; %lld left out, as the model reads no token of %s", left,
               left == 1 ? "it" : "them");
    printf("\n");
}

static void print_model(const evaluation *e) {
    printf("%s%s%s\n", e->path, e->adapter ? " with " : "", e->adapter ? e->adapter : "");
    if (e->kind == DATA_LABELS) {
        print_labels(e);
        return;
    }
    if (e->kind == DATA_CHOICES) {
        const figure acc = figure_of(e, NULL, RIGHT, PER_UNIT),
                     norm = figure_of(e, NULL, RIGHT_PER_BYTE, PER_UNIT);
        printf("  acc       %.4f%s\n  acc_norm  %.4f%s   %lld question%s\n", acc.value,
               plus_minus(acc), norm.value, plus_minus(norm), (long long)e->n, PLURAL(e->n));
        return;
    }
    const text_figures f = text_figures_of(e);
    printf("  perplexity      %.4f\n  nats a token    %.4f%s\n", exp(f.per_token.value),
           f.per_token.value, plus_minus(f.per_token));
    if (e->bytes)
        printf("  bits a byte     %.4f%s\n", f.bits_per_byte.value, plus_minus(f.bits_per_byte));
    printf("  %lld token%s predicted in %lld document%s, in windows of %lld every %lld\n",
           (long long)f.tokens, PLURAL(f.tokens), (long long)e->documents, PLURAL(e->documents),
           (long long)e->window, (long long)e->stride);
}

static void print_difference_of_labels(const evaluation *a, const evaluation *b) {
    const measure what = of_labels(a);
    const char *name = are_numbers(a) ? "mean squared error" : "accuracy";
    if (!are_paired(a, b, true)) {
        printf("  the models read other %ss: %s %+.4f\n", unit_of_labels(a), name,
               figure_of(a, NULL, what, PER_TOKEN).value -
                   figure_of(b, NULL, what, PER_TOKEN).value);
        return;
    }
    const figure f = figure_of(a, b, what, PER_TOKEN);
    const tally t = tally_of(a, b, what);
    printf("  %s  %+.4f%s   better in %lld of %lld text%s, worse in %lld\n", name, f.value,
           plus_minus(f), (long long)t.wins, (long long)a->n, PLURAL(a->n), (long long)t.losses);
}

static void print_difference(const evaluation *a, const evaluation *b) {
    printf("%s, less %s\n", a->path, b->path);
    if (a->kind == DATA_LABELS) {
        print_difference_of_labels(a, b);
        return;
    }
    if (a->kind == DATA_CHOICES) {
        const figure acc = figure_of(a, b, RIGHT, PER_UNIT),
                     norm = figure_of(a, b, RIGHT_PER_BYTE, PER_UNIT);
        const tally t = tally_of(a, b, RIGHT), u = tally_of(a, b, RIGHT_PER_BYTE);
        printf("  acc       %+.4f%s   right where the other is wrong: %lld, and wrong where it is "
               "right: %lld\n",
               acc.value, plus_minus(acc), (long long)t.wins, (long long)t.losses);
        printf("  acc_norm  %+.4f%s   %lld and %lld\n", norm.value, plus_minus(norm),
               (long long)u.wins, (long long)u.losses);
        return;
    }
    const bool tokens = are_paired(a, b, true), bytes = are_paired(a, b, false);
    const figure per_token = tokens ? figure_of(a, b, NATS, PER_TOKEN) : unknown,
                 bits = bytes ? figure_of(a, b, NATS, PER_BIT_OF_BYTE) : unknown;
    if (tokens) printf("  nats a token    %+.4f%s\n", per_token.value, plus_minus(per_token));
    if (bytes) printf("  bits a byte     %+.4f%s\n", bits.value, plus_minus(bits));
    if (!tokens && !bytes)
        printf("  the tokenizers differ: bits a byte %+.4f\n",
               text_figures_of(a).bits_per_byte.value - text_figures_of(b).bits_per_byte.value);
    if (!tokens && !bytes) return;
    const tally t = tally_of(a, b, NATS);
    printf("  better in %lld of %lld %s%s, worse in %lld\n", (long long)t.wins, (long long)a->n,
           a->of_windows ? "window" : "document", PLURAL(a->n), (long long)t.losses);
}

/* ---- JSON ---- */

typedef struct {
    FILE *file;
    int depth;
    bool first; /* of its object */
} json_out;

static void put_key(json_out *j, const char *key) {
    fprintf(j->file, "%s\n%*s", j->first ? "" : ",", 2 * j->depth, "");
    if (key) fprintf(j->file, "\"%s\": ", key);
    j->first = false;
}

static void put_begin(json_out *j, const char *key, char bracket) {
    put_key(j, key);
    fputc(bracket, j->file);
    j->depth++, j->first = true;
}

static void put_end(json_out *j, char bracket) {
    j->depth--;
    fprintf(j->file, "\n%*s%c", 2 * j->depth, "", bracket);
    j->first = false;
}

static void put_number(json_out *j, const char *key, double x) {
    put_key(j, key);
    if (isfinite(x)) fprintf(j->file, "%.17g", x);
    else fprintf(j->file, "null");
}

static void put_figure(json_out *j, const char *key, figure f) {
    char name[64];
    put_number(j, key, f.value);
    snprintf(name, sizeof name, "%s_stderr", key);
    put_number(j, name, f.error);
}

static void put_text(json_out *j, const char *key, const char *text) {
    put_key(j, key);
    if (!text) {
        fprintf(j->file, "null");
        return;
    }
    fputc('"', j->file);
    for (; *text; text++) {
        const unsigned char byte = (unsigned char)*text;
        if (byte < 32) fprintf(j->file, "\\u%04x", byte);
        else if (byte == '"' || byte == '\\') fprintf(j->file, "\\%c", byte);
        else fputc(byte, j->file);
    }
    fputc('"', j->file);
}

static void put_labels(json_out *j, const evaluation *e) {
    const label_scores *s = &e->scores;
    const label_f1s f1 = label_f1s_of(s);
    put_number(j, "texts", (double)e->n);
    if (e->labelled.task == LABELLED_TOKENS) put_number(j, "words", s->decisions);
    put_number(j, "left_out", (double)e->left_out);
    put_figure(j, are_numbers(e) ? "mse" : "accuracy", figure_of(e, NULL, of_labels(e), PER_TOKEN));
    if (are_numbers(e)) {
        put_number(j, "pearson", pearson(e));
        return;
    }
    put_number(j, "f1_macro", f1.macro);
    put_number(j, "f1_micro", f1.micro);
    put_number(j, "f1_weighted", f1.weighted);
    put_begin(j, "labels", '[');
    for (int64_t k = 0; k < s->labels; k++) {
        put_begin(j, NULL, '{');
        put_text(j, "label", e->labelled.names[k]);
        put_number(j, "f1", label_f1(s, k));
        put_number(j, "precision", part_of(s->right[k], s->said[k]));
        put_number(j, "recall", part_of(s->right[k], s->real[k]));
        put_number(j, "true", s->real[k]);
        put_number(j, "said", s->said[k]);
        put_end(j, '}');
    }
    put_end(j, ']');
}

static void put_model(json_out *j, const evaluation *e) {
    put_begin(j, NULL, '{');
    put_text(j, "model", e->path);
    put_text(j, "adapter", e->adapter);
    put_number(j, "seconds", e->seconds);
    if (e->kind == DATA_LABELS) {
        put_labels(j, e);
    } else if (e->kind == DATA_CHOICES) {
        put_number(j, "questions", (double)e->n);
        put_figure(j, "acc", figure_of(e, NULL, RIGHT, PER_UNIT));
        put_figure(j, "acc_norm", figure_of(e, NULL, RIGHT_PER_BYTE, PER_UNIT));
    } else {
        const text_figures f = text_figures_of(e);
        put_number(j, "documents", (double)e->documents);
        put_number(j, "window", (double)e->window);
        put_number(j, "stride", (double)e->stride);
        put_number(j, "tokens", (double)f.tokens);
        put_number(j, "bytes", (double)e->bytes);
        put_number(j, "nats", f.nats);
        put_number(j, "perplexity", exp(f.per_token.value));
        put_figure(j, "nats_per_token", f.per_token);
        put_figure(j, "bits_per_byte", f.bits_per_byte);
    }
    put_end(j, '}');
}

static void put_tally(json_out *j, const char *key, tally t) {
    put_begin(j, key, '{');
    put_number(j, "wins", (double)t.wins);
    put_number(j, "losses", (double)t.losses);
    put_number(j, "ties", (double)t.ties);
    put_end(j, '}');
}

static void put_difference(json_out *j, const evaluation *a, const evaluation *b) {
    put_begin(j, "difference", '{');
    if (a->kind == DATA_LABELS) {
        const measure what = of_labels(a);
        const bool paired = are_paired(a, b, true);
        figure f = paired ? figure_of(a, b, what, PER_TOKEN) : unknown;
        if (!paired)
            f.value = figure_of(a, NULL, what, PER_TOKEN).value -
                      figure_of(b, NULL, what, PER_TOKEN).value;
        put_figure(j, are_numbers(a) ? "mse" : "accuracy", f);
        if (!are_numbers(a))
            put_number(j, "f1_macro",
                       label_f1s_of(&a->scores).macro - label_f1s_of(&b->scores).macro);
        if (paired) put_tally(j, "texts", tally_of(a, b, what));
    } else if (a->kind == DATA_CHOICES) {
        put_figure(j, "acc", figure_of(a, b, RIGHT, PER_UNIT));
        put_tally(j, "acc_items", tally_of(a, b, RIGHT));
        put_figure(j, "acc_norm", figure_of(a, b, RIGHT_PER_BYTE, PER_UNIT));
        put_tally(j, "acc_norm_items", tally_of(a, b, RIGHT_PER_BYTE));
    } else {
        const bool tokens = are_paired(a, b, true), bytes = are_paired(a, b, false);
        figure bits = bytes ? figure_of(a, b, NATS, PER_BIT_OF_BYTE) : unknown;
        if (!bytes)
            bits.value =
                text_figures_of(a).bits_per_byte.value - text_figures_of(b).bits_per_byte.value;
        put_figure(j, "nats_per_token", tokens ? figure_of(a, b, NATS, PER_TOKEN) : unknown);
        put_figure(j, "bits_per_byte", bits);
        if (tokens || bytes)
            put_tally(j, a->of_windows ? "windows" : "documents", tally_of(a, b, NATS));
    }
    put_end(j, '}');
}

static void write_json(const evaluation *a, const evaluation *b) {
    static const char *const kinds[] = {"texts", "choices", "labels"};
    output o;
    output_begin(&o, option.json, false);
    json_out j = {.file = o.file, .depth = 1, .first = true};
    fprintf(o.file, "{");
    put_text(&j, "data", option.data);
    put_text(&j, "kind", kinds[a->kind]);
    put_begin(&j, "models", '[');
    put_model(&j, a);
    if (b) put_model(&j, b);
    put_end(&j, ']');
    if (b) put_difference(&j, a, b);
    fprintf(o.file, "\n}\n");
    output_end(&o);
}

void evaluate_report(const evaluation *a, const evaluation *b) {
    print_model(a);
    if (b) print_model(b);
    if (b && (a->kind != b->kind || a->labelled.task != b->labelled.task ||
              a->labelled.kind != b->labelled.kind))
        fail(EXIT_USAGE, "%s and %s are of different kinds", a->path, b->path);
    if (b) print_difference(a, b);
    if (option.json) write_json(a, b);
}
