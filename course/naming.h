/* Wrong forwards: this file finds the mistake that gives the same numbers or, if none does, other
 * properties of the result. course.c includes it. */
#ifndef COURSE_NAMING_H
#define COURSE_NAMING_H

/* ---- an input, or the result, that is read wrongly ---- */

enum { FIRST_FOR_ALL, LAST_FOR_ALL, IN_REVERSE, WITHOUT_FIRST, WITHOUT_LAST, EXCHANGED };
enum { DEEPEST = 4, READINGS_OF_ONE = EXCHANGED * DEEPEST + DEEPEST * (DEEPEST - 1) / 2 };

/* A wrong reading of two inputs, or of one input, which is then first and second. Input n is the
 * result. Dims are counted from the end, from 1. */
typedef struct {
    int kind, first, second, dim, other;
} reading;

static int readings_of(int n) { return (n + 1 + n * (n - 1) / 2) * READINGS_OF_ONE; }

static reading reading_of(int number, int n) {
    reading r = {0};
    int which = number / READINGS_OF_ONE, way = number % READINGS_OF_ONE;
    r.first = r.second = which;
    if (which > n) {
        which -= n + 1;
        for (r.second = 1; which >= r.second; which -= r.second++) continue;
        r.first = which;
    }
    r.kind = way / DEEPEST, r.dim = r.other = way % DEEPEST + 1;
    if (way < EXCHANGED * DEEPEST) return r;
    way -= EXCHANGED * DEEPEST, r.kind = EXCHANGED;
    for (r.other = 2; way >= r.other - 1; way -= r.other++ - 1) continue;
    r.dim = way + 1;
    return r;
}

/* x as it is read, or NULL if it cannot be. */
static ct_tensor *read_so(ct_tensor *x, const reading *r) {
    if (!x || r->other > ct_ndim(x) || r->dim > ct_ndim(x)) return NULL;
    const int dim = ct_ndim(x) - r->dim, other = ct_ndim(x) - r->other;
    const int64_t size = ct_dim(x, dim);
    if (size < 2 || ct_numel(x) == 0) return NULL;
    if (r->kind == EXCHANGED) {
        ct_shape shape = ct_shape_of(x);
        shape.dim[dim] = ct_dim(x, other), shape.dim[other] = size;
        return ct_dim(x, other) < 2 ? NULL
                                    : ct_contiguous(ct_transpose(ct_reshape(x, shape), dim, other));
    }
    if (r->kind == WITHOUT_FIRST || r->kind == WITHOUT_LAST) {
        if (ct_dtype_of(x) != CT_F64) return NULL;
        const int64_t from = r->kind == WITHOUT_FIRST;
        return ref_pad(ct_narrow(x, dim, from, size - 1), dim, from, !from, 0);
    }
    int64_t *from = malloc((size_t)size * sizeof *from);
    for (int64_t i = 0; i < size; i++)
        from[i] = r->kind == FIRST_FOR_ALL ? 0 : r->kind == LAST_FOR_ALL ? size - 1 : size - 1 - i;
    ct_tensor *index = ct_from_i64(context, CT_SHAPE(size), from);
    free(from);
    return ref_index_select(x, dim, index);
}

static ct_tensor *with_reading(const course_function *f, ct_tensor *const *in, int n, void *arg,
                               int number) {
    const reading r = reading_of(number, n);
    if (r.first == n) return read_so(f->variant(in, n, arg, 0), &r);
    ct_tensor *other[MOST_INPUTS];
    memcpy(other, in, (size_t)n * sizeof *in);
    other[r.first] = read_so(in[r.first], &r);
    if (r.second != r.first) other[r.second] = read_so(in[r.second], &r);
    return other[r.first] && other[r.second] ? f->variant(other, n, arg, 0) : NULL;
}

/* "k" of "k: sequence, key, column", with dim 0 its name; with dim 1 "column". */
static const char *word_of(const course_function *f, int input, int dim, char word[64]) {
    const char *said = f->inputs ? f->inputs[input] : "", *end = strchr(said, ':');
    if (dim == 0) {
        if (!end) snprintf(word, 64, "input %d", input);
        else snprintf(word, 64, "%.*s", (int)(end - said), said);
        return word;
    }
    const char *words[8];
    int count = 0;
    for (; end && *end && count < 8; end = strchr(end + 1, ',')) words[count++] = end + 2;
    if (dim > count) snprintf(word, 64, "index of dim -%d", dim);
    else snprintf(word, 64, "%.*s", (int)strcspn(words[count - dim], ","), words[count - dim]);
    return word;
}
#define WORD(f, input, dim) word_of(f, input, dim, (char[64]){0})

static void name_reading(const course_function *f, int number, int n, char *said, size_t size) {
    static const char *const sentences[] = {
        "when the first %s of %s is taken for every one",
        "when the last %s of %s is taken for every one",
        "when each %s of %s is taken from the other end, in reversed order",
        "when the first %s of %s is left out, or taken for 0",
        "when the last %s of %s is left out, or taken for 0",
        "when each %s of %s is taken for a %s: these two dims are exchanged in memory"};
    const reading r = reading_of(number, n);
    char whose[160];
    snprintf(whose, sizeof whose, "%s%s%s", WORD(f, r.first, 0),
             r.second == r.first ? "" : " and of ",
             r.second == r.first ? "" : WORD(f, r.second, 0));
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(said, size, sentences[r.kind], WORD(f, r.first, r.dim), whose,
             WORD(f, r.first, r.other));
#pragma GCC diagnostic pop
}

/* ---- which of all ---- */

/* A guess at what was done: some mistakes of the table, or one wrong reading of an input. */
typedef struct {
    course_set mistakes;
    int reading; /* the number of the reading + 1; 0: none */
} guess;

static guess wrongs; /* mistakes found in the forward so far, if its gradient is tested */
static char wrongs_hint[sizeof hint];
/* A mistake that fits here, but not at the probe: said if nothing fits better. */
static char only_here[sizeof hint];

/* The function and the inputs of the last course_forward_first: the judge's own forward. */
static struct {
    const course_function *f;
    void *arg;
    ct_tensor *in[MOST_INPUTS];
    int n;
} first_forward;

static bool nothing(guess g) { return g.mistakes == 0 && g.reading == 0; }

/* The result of a guess; NULL if the guess gives none. */
static ct_tensor *guessed(const course_function *f, void *arg, ct_tensor *const *in, int n,
                          guess g) {
    ct_tensor *out =
        g.reading ? with_reading(f, in, n, arg, g.reading - 1) : f->variant(in, n, arg, g.mistakes);
    if (!ct_error(context)) return out;
    ct_error_clear(context);
    return NULL;
}

ct_tensor *course_as_yours(const course_function *f, ct_tensor *const *in, int n, void *arg) {
    ct_tensor *out = guessed(f, arg, in, n, wrongs);
    return out ? out : f->variant(in, n, arg, 0); /* these inputs are too large for it */
}

enum { MOST_FOUND = 64, MOST_SAID = 2 };

/* A forward that gave a wrong value, and its values for random inputs of the same shapes and for
 * the inputs of the probe. */
typedef struct {
    const course_function *f;
    void *arg;
    ct_tensor *const *in;
    int n;
    ct_rng rng;
    double tolerance;
    ct_tensor *got, *right, *random[MOST_INPUTS], *got_of_random;
    void *probe_arg;
    ct_tensor *probe[MOST_INPUTS], *got_of_probe; /* NULL: there is no probe */
    guess found[MOST_FOUND];
    int count;
} suspicion;

static ct_tensor *again(const suspicion *s, ct_tensor *const *in, void *arg) {
    ct_tensor *copy[MOST_INPUTS];
    for (int i = 0; i < s->n; i++)
        copy[i] = in[i] && ct_dtype_of(in[i]) == CT_F64 ? ref_copy(in[i]) : in[i];
    ct_rng_set(context, s->rng);
    remote_allow_changes(true);
    ct_tensor *out = s->f->yours(copy, s->n, arg);
    remote_allow_changes(false);
    if (!ct_error(context)) return out;
    ct_error_clear(context);
    return NULL;
}

static ct_tensor *guessed_again(const suspicion *s, ct_tensor *const *in, void *arg, guess g) {
    ct_rng_set(context, s->rng);
    return guessed(s->f, arg, in, s->n, g);
}

static bool fits_probe(const suspicion *s, guess g) {
    return s->got_of_probe &&
           course_same(s->got_of_probe, guessed_again(s, s->probe, s->probe_arg, g), s->tolerance);
}

/* Adds the guess to the found ones if it gives `got` and not the right values, for random inputs,
 * too: in an example's numbers much is the same by chance. */
static void suspect(suspicion *s, guess g) {
    ct_scope scope = ct_scope_open_no_grad(context);
    ct_tensor *other = guessed_again(s, s->in, s->arg, g);
    if (course_same(s->got, other, s->tolerance) && !course_same(s->right, other, s->tolerance) &&
        course_same(s->got_of_random, guessed_again(s, s->random, s->arg, g), s->tolerance)) {
        if (s->count < MOST_FOUND) s->found[s->count++] = g;
    }
    ct_scope_close(scope);
}

/* Keeps only the guesses that fit the probe, if any fits. */
static int keep_probed(suspicion *s) {
    int kept = 0;
    for (int i = 0; i < s->count; i++)
        if (fits_probe(s, s->found[i])) {
            const guess other = s->found[kept];
            s->found[kept++] = s->found[i], s->found[i] = other;
        }
    if (kept) s->count = kept;
    return kept;
}

static void name_guess(const suspicion *s, guess g, char *said, size_t size) {
    size_t at = 0;
    if (g.reading) name_reading(s->f, g.reading - 1, s->n, said, size);
    for (int i = 0; i < s->f->count; i++) {
        if (!course_has(g.mistakes, i)) continue;
        const int length =
            snprintf(said + at, size - at, "%s%s", at ? ", and " : "", s->f->mistakes[i].what);
        at += (size_t)length < size - at ? (size_t)length : size - at - 1;
    }
}

/* Whether the result is a single whole number, which proves no mistake: many results are 0 or 1 by
 * chance. */
static bool tells_nothing(ct_tensor *got) {
    return ct_numel(got) == 1 && ct_item(got) == rint(ct_item(got));
}
/* Only zeros, NaN and infinities: two mistakes can make such values of anything. */
static bool no_numbers(ct_tensor *got) {
    double *values = values_of("comparing", got);
    int64_t i = 0;
    while (i < ct_numel(got) && (values[i] == 0 || !isfinite(values[i]))) i++;
    free(values);
    return i == ct_numel(got);
}
static bool is_finite(ct_tensor *got) { return isfinite(ct_item(ref_sum(got, CT_ALL, false))); }

static void draw_inputs(suspicion *s) {
    for (int i = 0; i < s->n; i++)
        s->random[i] = s->in[i] && ct_dtype_of(s->in[i]) == CT_F64
                           ? course_randn(context, ct_shape_of(s->in[i]))
                           : s->in[i];
    s->got_of_random = again(s, s->random, s->arg);
    s->probe_arg = s->arg;
    if (!s->f->probe) return;
    memcpy(s->probe, s->in, (size_t)s->n * sizeof *s->in);
    s->f->probe(context, s->probe, &s->probe_arg);
    s->got_of_probe = again(s, s->probe, s->probe_arg);
}

static bool is_easier(const course_function *f, guess g) {
    for (int i = 0; i < f->count; i++)
        if (course_has(g.mistakes, i) && f->mistakes[i].easier) return true;
    return false;
}

/* Two mistakes, of which one may be hidden at these inputs but not at the probe's. */
static void suspect_pairs(suspicion *s, course_set with) {
    for (int i = 0; i < s->f->count; i++)
        for (int j = 0; j < i; j++)
            if (course_has(with, i) || course_has(with, j))
                suspect(s, (guess){COURSE_BIT(i) | COURSE_BIT(j), 0});
}

/* Whether one or two mistakes, or readings, give all values of the result, here and at the probe.
 * If no guess fits the probe, the guesses that fit here are kept. */
static bool search(suspicion *s) {
    for (int i = 0; i < s->f->count; i++) suspect(s, (guess){COURSE_BIT(i), 0});
    if (keep_probed(s) || (s->count && !s->got_of_probe)) return true;
    if (no_numbers(s->got)) return false;
    for (int i = 0; i < readings_of(s->n); i++) suspect(s, (guess){0, i + 1});
    if (keep_probed(s) || (s->count && !s->got_of_probe)) return true;
    const suspicion alone = *s;
    course_set with = 0;
    for (int i = 0; i < s->count; i++) with |= s->found[i].mistakes;
    s->count = 0;
    suspect_pairs(s, alone.count ? with : ~(course_set)0);
    if (keep_probed(s) || (s->count && !s->got_of_probe)) return true;
    *s = alone;
    return false;
}

/* The mistake that gives all values of the result; none if no mistake or several do. The hint names
 * them. */
static guess mistake_of(suspicion *s) {
    char first[320], second[320];
    const guess none = {0, 0};
    if (!nothing(wrongs)) { /* a guess that other inputs have shown comes before others that fit */
        suspect(s, wrongs);
        if (s->count) course_hint("%s", wrongs_hint);
        if (s->count) return wrongs;
    }
    if (tells_nothing(s->got)) return none;
    const bool sure = search(s);
    if (s->count == 0 || s->count > MOST_SAID) return none;
    const char *begin =
        sure && is_finite(s->got) ? "this is what comes out" : "the same comes out, for example,";
    char *said = sure ? hint : only_here;
    name_guess(s, s->found[0], first, sizeof first);
    name_guess(s, s->found[s->count - 1], second, sizeof second);
    snprintf(said, sizeof hint, s->count == 1 ? "%s %s" : "%s %s; or %s", begin, first, second);
    if (!sure && no_numbers(s->got)) *only_here = 0;
    if (!sure) return none;
    /* two that give the same everywhere are one as far as the gradient is concerned */
    return s->count == 1 || !is_easier(s->f, s->found[1]) ? s->found[0] : none;
}

/* Whether the result has the numbers of an input, in any shape. */
static bool is_input(ct_tensor *got, ct_tensor *in) {
    if (!in || ct_dtype_of(in) != CT_F64 || ct_numel(in) != ct_numel(got) || ct_numel(in) < 2)
        return false;
    return course_same(ct_reshape(got, CT_SHAPE(-1)), ct_reshape(in, CT_SHAPE(-1)), 0);
}

/* ---- dependences ---- */

enum { MOST_MOVED = 256 };

/* Changes one number of an input, and compares the elements that change in the student's result and
 * in the right one. The inputs are the random ones, because in these a change always makes a
 * difference: no number is very large or equal to another. */
typedef struct {
    const suspicion *s;
    const double *got, *right; /* before */
    int64_t n;
    int input;
    int64_t at;
} dependence;

static double *moved_values(const dependence *d, bool yours) {
    const suspicion *s = d->s;
    ct_tensor *in[MOST_INPUTS];
    memcpy(in, s->random, (size_t)s->n * sizeof *in);
    in[d->input] = ref_copy(s->random[d->input]);
    ct_data_f64(in[d->input])[d->at] += 0.6180339887;
    ct_tensor *out = yours ? again(s, in, s->arg) : guessed_again(s, in, s->arg, (guess){0, 0});
    if (!out || ct_numel(out) != d->n || ct_dtype_of(out) != CT_F64) return NULL;
    return values_of("comparing", out);
}

enum { MUST_NOT, MUST, AS_IT_MUST };

static int dependence_of(const dependence *d, const double *a, const double *b, int64_t e) {
    const double yours = fabs(a[e] - d->got[e]), right = fabs(b[e] - d->right[e]),
                 size = fmax(1, fabs(d->got[e]));
    if (!isfinite(yours) || !isfinite(right)) return AS_IT_MUST;
    if (yours > 1e-7 * size && right == 0) return MUST_NOT;
    return yours == 0 && right > 1e-6 ? MUST : AS_IT_MUST;
}

/* Finds in which of the two ways each element of the result is wrong when the number at d->at
 * changes. */
static bool each_dependence(const dependence *d, unsigned char *way) {
    ct_scope scope = ct_scope_open_no_grad(context);
    double *a = moved_values(d, true), *b = a ? moved_values(d, false) : NULL;
    for (int64_t e = 0; b && e < d->n; e++) way[e] = (unsigned char)dependence_of(d, a, b, e);
    free(a), free(b);
    ct_scope_close(scope);
    return b != NULL;
}

static void add_place(char *list, size_t size, ct_shape shape, int64_t at) {
    const size_t end = strlen(list);
    if (end < size / 2)
        snprintf(list + end, size - end, "%s%s", end ? ", " : "", TEXT(place(shape, at)));
    else if (list[end - 1] != '.') snprintf(list + end, size - end, " ...");
}

/* Writes the sentence about the first element of the result that depends on an input on which it
 * must not, or does not depend on an input on which it must. */
static void find_dependence(const suspicion *s, char *said, size_t size) {
    const int64_t n = ct_numel(s->got);
    unsigned char *way[MOST_INPUTS] = {NULL};
    int64_t first = n;
    *said = 0;
    ct_tensor *got = s->got_of_random, *right = guessed_again(s, s->random, s->arg, (guess){0, 0});
    if (n > 1024 || !got || !right || ct_dtype_of(got) != CT_F64 || ct_numel(got) != n) return;
    dependence d = {s, values_of("comparing", got), values_of("comparing", right), n, 0, 0};
    for (d.input = 0; d.input < s->n; d.input++) {
        ct_tensor *in = s->in[d.input];
        if (!in || ct_dtype_of(in) != CT_F64 || ct_numel(in) > MOST_MOVED) continue;
        way[d.input] = malloc((size_t)(n * ct_numel(in)) + 1);
        memset(way[d.input], AS_IT_MUST, (size_t)(n * ct_numel(in)));
        for (d.at = 0; d.at < ct_numel(in); d.at++) {
            unsigned char *here = way[d.input] + d.at * n;
            if (!each_dependence(&d, here)) continue;
            for (int64_t e = 0; e < first; e++)
                if (here[e] != AS_IT_MUST) first = e;
        }
    }
    for (int i = 0; i < s->n && first < n; i++)
        for (int which = MUST_NOT; way[i] && which <= MUST; which++) {
            char list[96] = "", where[200] = "; it";
            const size_t at = strlen(said);
            for (int64_t j = 0; j < ct_numel(s->in[i]); j++)
                if (way[i][j * n + first] == which)
                    add_place(list, sizeof list, ct_shape_of(s->in[i]), j);
            if (!at)
                snprintf(where, sizeof where, "element %s of the result",
                         TEXT(place(ct_shape_of(s->right), first)));
            if (*list)
                snprintf(said + at, size - at, "%s %s %s of %s, and must%s", where,
                         which == MUST ? "does not depend on" : "depends on", list,
                         WORD(s->f, i, 0), which == MUST ? "" : " not");
        }
    for (int i = 0; i < s->n; i++) free(way[i]);
    free((void *)d.got), free((void *)d.right);
}

/* ---- all of it ---- */

/* The diagnosis without a known mistake: the words of `explain`, and dependences. */
static void explain(const suspicion *s) {
    if (ct_numel(s->got) == 0 || !same_shape(s->got, s->right)) return;
    if (s->f->explain) {
        ct_rng_set(context, s->rng);
        s->f->explain(s->in, s->n, s->arg, s->got, s->right, about, sizeof about);
        if (ct_error(context)) ct_error_clear(context);
    }
    find_dependence(s, depends, sizeof depends);
}

/* The result for the same inputs with this set of numbers beside the arrays, of which each call has
 * the same ones; NULL: it is none to compare. */
static double *values_beside(const suspicion *s, int set) {
    remote_guards(set);
    ct_tensor *out = again(s, s->in, s->arg);
    return out && same_shape(out, s->got) ? values_of("comparing", out) : NULL;
}

/* Whether the same inputs give another result if other numbers stand beside the arrays: then a
 * number beside one was read. The same code on the same numbers gives the same bits. */
static bool reads_beside(const suspicion *s) {
    double *first = values_beside(s, 0), *second = values_beside(s, 0),
           *other = values_beside(s, 1);
    const size_t bytes = (size_t)ct_numel(s->got) * sizeof *first;
    const bool reads = first && second && other && memcmp(first, second, bytes) == 0 &&
                       memcmp(first, other, bytes) != 0;
    remote_guards(0);
    free(first), free(second), free(other);
    return reads;
}

/* The mistakes found where `got` is wrong, and a hint. */
static guess look_at(const course_function *f, void *arg, ct_tensor *const *in, int n, ct_rng rng,
                     ct_tensor *const *now, ct_tensor *got, ct_tensor *right, double tolerance) {
    const guess none = {0, 0};
    *about = *depends = *only_here = 0;
    if (!got || ct_error(context) || course_same(got, right, tolerance)) return none;
    if (ct_dtype_of(got) != CT_F64) return none;
    const ct_rng after = ct_rng_get(context);
    suspicion s = {.f = f,
                   .arg = arg,
                   .in = in,
                   .n = n,
                   .rng = rng,
                   .tolerance = fmax(tolerance, 1e-9),
                   .got = got,
                   .right = right};
    if (reads_beside(&s)) {
        course_hint(
            "forward reads out of bounds: the result depends on what stands before or behind "
            "an array");
        ct_rng_set(context, after);
        return none;
    }
    draw_inputs(&s);
    const guess found = mistake_of(&s);
    for (int i = 0; i < n; i++) {
        if (!*hint && is_input(got, in[i])) course_hint("these are the numbers of input %d", i);
        if (in[i] && !course_same(in[i], now[i], 0) && ct_dtype_of(in[i]) == CT_F64)
            course_hint("forward has changed its input %d, which others may still read", i);
    }
    if (!*hint) explain(&s);
    if (!*hint && !*about && !*depends) course_hint("%s", only_here);
    ct_rng_set(context, after);
    return found;
}

static guess forward(const char *what, const course_function *f, void *arg, ct_tensor *const *in,
                     int n, double tolerance, bool go_on) {
    const ct_rng rng = ct_rng_get(context);
    ct_tensor *kept[MOST_INPUTS];
    for (int i = 0; i < n; i++) /* copies, if your forward writes to its inputs */
        kept[i] = in[i] && ct_dtype_of(in[i]) == CT_F64 ? made(ref_copy(in[i])) : in[i];
    ct_tensor *right = made(f->variant(in, n, arg, 0));
    right = made(ref_copy(right));
    ct_rng_set(context, rng);
    remote_allow_changes(true); /* to copies: `right` stands already */
    ct_tensor *got = f->yours(kept, n, arg);
    remote_allow_changes(false);
    const guess found = look_at(f, arg, in, n, rng, kept, got, right, tolerance);
    if (nothing(found) || is_easier(f, found) || !go_on) course_value(what, got, right, tolerance);
    *about = *depends = 0;
    return found;
}

void course_forward(const char *what, const course_function *f, void *arg, ct_tensor *const *in,
                    int n, double tolerance) {
    forward(what, f, arg, in, n, tolerance, false);
    course_hint("%s", ""); /* the hint was about this forward only */
}

void course_forward_first(const char *what, const course_function *f, void *arg,
                          ct_tensor *const *in, int n, double tolerance) {
    first_forward.f = f, first_forward.arg = arg, first_forward.n = n;
    memcpy(first_forward.in, in, (size_t)n * sizeof *in);
    const guess found = forward(what, f, arg, in, n, tolerance, true);
    if (nothing(found)) return;
    if (found.reading || wrongs.reading) wrongs = found;
    wrongs.mistakes |= found.mistakes; /* another of them shows in these inputs */
    snprintf(wrongs_hint, sizeof wrongs_hint, "%s", hint);
    snprintf(forward_wrong, sizeof forward_wrong, "the forward is wrong: %s", wrongs_hint);
}

void course_forgive(void) { wrongs = (guess){0, 0}, *forward_wrong = 0; }

/* The test has found nothing else wrong. */
static void end_with_wrongs(void) {
    if (nothing(wrongs)) return;
    course_hint("%s", wrongs_hint), *forward_wrong = 0;
    course_partial(
        (running->points + 1) / 2,
        "the forward is wrong; this is the right gradient of the forward as you have it");
}

#endif
