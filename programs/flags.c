/* The flags of programs and examples; see common.h. */
#include "common.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const char *program, *form; /* form: "[flags] FILE...", of the program's usage */

_Noreturn void fail_usage(const char *format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    warn("%s", text);
    const int length = (int)strcspn(form, "\n");
    fprintf(stderr, "usage: %s%s%.*s (--help says more)\n", program, length ? " " : "", length,
            form);
    exit(EXIT_USAGE);
}

/* ---- kinds of flags ---- */

flag flag_integer(const char *name, long long *value, double low, double high, const char *help) {
    return (flag){.kind = INTEGER,
                  .name = name,
                  .value = value,
                  .word = "N",
                  .help = help,
                  .low = low,
                  .high = high};
}

flag flag_real(const char *name, double *value, const char *word, double low, double high,
               const char *help) {
    return (flag){.kind = REAL,
                  .name = name,
                  .value = value,
                  .word = word,
                  .help = help,
                  .low = low,
                  .high = high};
}

flag flag_text(const char *name, const char **value, const char *word, const char *help) {
    return (flag){.kind = TEXT, .name = name, .value = value, .word = word, .help = help};
}

flag flag_switch(const char *name, long long *value, const char *help) {
    return (flag){.kind = SWITCH, .name = name, .value = value, .help = help};
}

flag flag_choice(const char *name, long long *value, const char *words, const char *help) {
    return (flag){
        .kind = CHOICE, .name = name, .value = value, .word = "WORD", .words = words, .help = help};
}

flag flag_matmul(long long *value) {
    return flag_choice("matmul", value, "f32|bf16x6|bf16x3|bf16",
                       "rounding of matrix products; default: CT_MATMUL, or f32");
}

int flag_word(const char *words, long long i, const char **word) {
    *word = words;
    for (; i > 1 && **word; i--) {
        *word += strcspn(*word, "|");
        *word += **word == '|';
    }
    return i == 1 ? (int)strcspn(*word, "|") : 0;
}

flag flag_heading(const char *help) { return (flag){.kind = HEADING, .help = help}; }

static void print_default(const flag *f) {
    if (f->kind == INTEGER) printf(" (%lld)", *(const long long *)f->value);
    if (f->kind == REAL) printf(" (%g)", *(const double *)f->value);
    if (f->kind == TEXT && *(const char **)f->value) printf(" (%s)", *(const char **)f->value);
    if (f->kind == CHOICE) {
        const char *word;
        int length = flag_word(f->words, *(const long long *)f->value, &word);
        if (length) printf(" (%.*s)", length, word);
    }
}

static _Noreturn void print_help(const flag *flags, int n, const char *usage) {
    printf("Usage: %s%s%s\n", program, *usage && *usage != '\n' ? " " : "", usage);
    for (int i = 0; i < n; i++) {
        const flag *f = &flags[i];
        if (f->kind == HEADING) {
            printf("\n%s:\n", f->help);
        } else {
            const bool has_word = f->kind != SWITCH;
            const int length = printf("  --%s%s%s%s", has_word ? "" : "[no-]", f->name,
                                      has_word ? " " : "", has_word ? f->word : "");
            printf("%*s  ", length < 23 ? 23 - length : 0, "");
            if (f->kind == CHOICE) printf("%s: ", f->words);
            printf("%s", f->help);
            print_default(f);
            printf("\n");
        }
    }
    printf("  --%-20s print this, and end\n  --%-20s print the version, and end\n", "help",
           "version");
    exit(0);
}

static _Noreturn void print_version(void) {
    printf("%s (cotangent) %d.%d.%d\n", program, CT_VERSION_MAJOR, CT_VERSION_MINOR,
           CT_VERSION_PATCH);
    exit(0);
}

/* Fails if the text is not only a number, or the number (read as `number`) is out of range. */
static void check_number(const flag *f, const char *text, const char *end, double number) {
    const char *whole = f->kind == INTEGER ? "whole " : "";
    if (end == text || *end) fail_usage("--%s takes a %snumber, not '%s'", f->name, whole, text);
    if (errno == ERANGE || !(number >= f->low && number <= f->high))
        fail_usage("--%s must lie between %.10g and %.10g, not %s", f->name, f->low, f->high, text);
}

/* Writes the words of a list for a message: "f32, bf16x3 or bf16" for f32|bf16x3|bf16. */
static void list_words(const char *words, char *text, size_t size) {
    const char *word, *between = "";
    int length = 0;
    text[0] = 0;
    for (int i = 1; (length = flag_word(words, i, &word)) > 0; i++) {
        size_t used = strlen(text);
        snprintf(text + used, size - used, "%s%.*s", between, length, word);
        between = word[length] && strchr(word + length + 1, '|') ? ", " : " or ";
    }
}

static void set_choice(const flag *f, const char *text) {
    const char *word;
    int length = 0;
    for (int i = 1; (length = flag_word(f->words, i, &word)) > 0; i++) {
        if ((int)strlen(text) == length && !strncmp(text, word, (size_t)length)) {
            *(long long *)f->value = i;
            return;
        }
    }
    char words[200];
    list_words(f->words, words, sizeof words);
    fail_usage("--%s is %s, not '%s'", f->name, words, text);
}

static void set_flag(const flag *f, const char *text) {
    char *end = NULL;
    errno = 0;
    if (f->kind == INTEGER) {
        long long value = strtoll(text, &end, 10);
        check_number(f, text, end, (double)value);
        *(long long *)f->value = value;
    } else if (f->kind == REAL) {
        double value = strtod(text, &end);
        check_number(f, text, end, value);
        *(double *)f->value = value;
    } else if (f->kind == CHOICE) {
        set_choice(f, text);
    } else {
        *(const char **)f->value = text;
    }
}

/* Returns the flag of that name, which has no dashes; NULL if there is none. */
static const flag *find_flag(const flag *flags, int n, const char *name) {
    for (int i = 0; i < n; i++)
        if (flags[i].kind != HEADING && !strcmp(flags[i].name, name)) return &flags[i];
    return NULL;
}

enum { MOST_READ = 128 };
static const flag *were_read[MOST_READ]; /* the flags that were read, each once */
static int n_read;

bool flag_was_read(const char *name) {
    for (int i = 0; i < n_read; i++)
        if (!strcmp(were_read[i]->name, name)) return true;
    return false;
}

static void note_read(const flag *f) {
    if (n_read < MOST_READ && !flag_was_read(f->name)) were_read[n_read++] = f;
}

/* Reads the flag argv[i], and its value; returns the index of the last argument that it took. */
static int read_flag(int argc, char **argv, int i, const flag *flags, int n) {
    const char *equals = strchr(argv[i], '=');
    int length = equals ? (int)(equals - argv[i]) : 31;
    char name[32]; /* a truncated name is not the name of a flag */
    snprintf(name, sizeof name, "%.*s", length, argv[i]);

    bool dashes = !strncmp(name, "--", 2);
    const flag *f = dashes ? find_flag(flags, n, name + 2) : NULL;
    bool on = f != NULL;
    if (!f && !strncmp(name, "--no-", 5)) {
        f = find_flag(flags, n, name + 5);
        if (f && f->kind != SWITCH) f = NULL;
    }
    if (!f) fail_usage("unknown flag %s", name);
    note_read(f);
    if (f->kind == SWITCH) {
        if (equals) fail_usage("%s takes no value", name);
        *(long long *)f->value = on;
        return i;
    }
    if (equals) {
        set_flag(f, equals + 1);
        return i;
    }
    if (i + 1 == argc) fail_usage("%s needs a value", name);
    set_flag(f, argv[i + 1]);
    return i + 1;
}

int read_flags(int argc, char **argv, const flag *flags, int n, const char *usage) {
    program = begin_program(argc, argv);
    form = usage;
    int others = 0;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) print_help(flags, n, usage);
        if (!strcmp(argv[i], "--version")) print_version();
        if (argv[i][0] == '-' && argv[i][1]) {
            i = read_flag(argc, argv, i, flags, n);
        } else {
            others++;
            argv[others] = argv[i];
        }
    }
    return others;
}

long long read_number(int argc, char **argv, long long number, double low, double high,
                      const char *usage) {
    const int others = read_flags(argc, argv, NULL, 0, usage);
    if (others > 1) fail_usage("one number, and not %s too", argv[2]);
    if (!others) return number;
    char *end = NULL;
    errno = 0;
    number = strtoll(argv[1], &end, 10);
    if (end == argv[1] || *end) fail_usage("'%s' is no whole number", argv[1]);
    if (errno == ERANGE || !((double)number >= low && (double)number <= high))
        fail_usage("the number must lie between %.10g and %.10g, not %s", low, high, argv[1]);
    return number;
}
