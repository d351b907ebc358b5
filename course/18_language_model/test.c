/* A decoder beside the judge's own, which is scalar loops in f64 (decoder.h): its logits and
 * losses, steps of its training, and what it has learnt of a language that the seed draws. */
#include "../picture.h"
#include "decoder.h"
#include "language.h"
#include "model.h"

static const adamw_opts usual = {
    .lr = 0.01, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1};

/* ---- models and texts ---- */

/* Numbers that the seed draws, others for each test. */
static language dice(ct_context *context, uint64_t test) {
    return (language){.state = ct_rng_get(context).seed * 1000003 + test};
}

static void draw_normal(ct_context *context, int64_t n, double *x) {
    if (n && !ct_to_f64(course_randn(context, CT_SHAPE(n)), x, n))
        course_fail("%s", ct_error_message(context));
}

/* Parameters at which nothing is small, so that no mistake hides. */
static weights random_weights(ct_context *context, model_sizes sizes) {
    weights w = new_weights(sizes);
    draw_normal(context, w.total, w.all);
    for (int i = 0; i < w.count; i++) {
        const int place = i < LAYERS ? -1 : (i - LAYERS) % PER_LAYER;
        const bool is_norm = i == NORM_WEIGHT || place == NORM1_WEIGHT || place == NORM2_WEIGHT;
        for (int64_t j = 0; j < w.n[i]; j++)
            w.all[w.at[i] + j] = 0.4 * w.all[w.at[i] + j] + is_norm;
    }
    return w;
}

static void send_weights(const weights *w) { model_set(w->sizes, w->count, w->n, w->all); }

static model_sizes small_sizes(language *d, int64_t layers) {
    const int64_t heads = 2 + language_draw(d, 2), columns = 2 * (1 + language_draw(d, 3));
    return (model_sizes){.vocabulary = 7 + language_draw(d, 6),
                         .width = heads * columns,
                         .heads = heads,
                         .layers = layers,
                         .length = 16};
}

static ct_tensor *ids_of(ct_context *context, int64_t rows, int64_t columns, const int64_t *ids) {
    ct_tensor *x = ct_from_i64(context, CT_SHAPE(rows, columns), ids);
    if (!x) course_fail("%s", ct_error_message(context));
    return x;
}

static int64_t *random_ids(language *d, int64_t n, int64_t vocabulary) {
    int64_t *ids = calloc((size_t)n, sizeof *ids);
    if (!ids) course_fail("the test has no memory");
    for (int64_t i = 0; i < n; i++) ids[i] = language_draw(d, (int)vocabulary);
    return ids;
}

static void check_error(ct_context *context) {
    if (ct_error(context)) course_fail("%s", ct_error_message(context));
}

/* ---- new parameters ---- */

static const model_sizes trained = {
    .vocabulary = LETTERS, .width = 44, .heads = 2, .layers = 2, .length = 24};

/* The spread that a parameter must have, and its mean. */
static double spread_of(int i, int64_t layers, double *mean) {
    *mean = 0;
    if (i == EMBEDDING) return 0.02;
    if (i < LAYERS) return *mean = i == NORM_WEIGHT, 0;
    switch ((i - LAYERS) % PER_LAYER) {
    case IN_WEIGHT:
    case UP_WEIGHT: return 0.02;
    case OUT_WEIGHT:
    case DOWN_WEIGHT: return 0.02 / sqrt(2.0 * (double)layers);
    case NORM1_WEIGHT:
    case NORM2_WEIGHT: *mean = 1; return 0;
    default: return 0;
    }
}

static void check_parameter(const weights *w, int i) {
    char name[64];
    double right, mean = 0, square = 0, largest = 0;
    const double spread = spread_of(i, w->sizes.layers, &right), n = (double)w->n[i];
    name_of(i, name);
    for (int64_t j = 0; j < w->n[i]; j++) {
        const double x = param(w, i)[j];
        if (!isfinite(x)) course_fail("%s has numbers that are not finite", name);
        mean += x / n, square += (x - right) * (x - right) / n, largest = fmax(largest, fabs(x));
    }
    if (spread == 0 && square > 0)
        course_fail("%s must be %gs: a new model's norms and biases change nothing", name, right);
    if (spread == 0) return;
    if (square == 0) course_fail("%s is 0 everywhere: weights must be drawn", name);
    if (fabs(sqrt(square) / spread - 1) > 6 / sqrt(2 * n)) {
        const bool ends = spread < 0.02 && fabs(sqrt(square) / 0.02 - 1) < 6 / sqrt(2 * n);
        course_fail("%s%s has a standard deviation of %.4g, and must have %.4g",
                    ends ? "the spread of what is added to x must be divided by sqrt(2 layers): "
                         : "",
                    name, sqrt(square), spread);
    }
    if (fabs(mean) > 6 * spread / sqrt(n))
        course_fail("%s has a mean of %.4g, and must be drawn around 0", name, mean);
    if (largest < 2.5 * spread)
        course_fail("%s has no number above 2.5 standard deviations: it must be normal", name);
}

static void fresh(ct_context *context) {
    language d = dice(context, 1);
    model_sizes sizes = trained;
    sizes.layers = 1 + language_draw(&d, 4), sizes.width = 4 * (10 + language_draw(&d, 6));
    if (!model_begin(context, sizes)) check_error(context);
    weights w = new_weights(sizes);
    double *state = numbers(2 * w.total);
    model_get(w.count, w.n, w.all, state, state + w.total);
    for (int i = 0; i < w.count; i++) check_parameter(&w, i);
    for (int i = 1; i < w.count; i++)
        for (int j = 0; j < i; j++)
            if (w.n[i] > sizes.width * 4 && param(&w, i)[0] == param(&w, j)[0]) {
                char one[64], other[64];
                course_fail("%s and %s have the same numbers", name_of(j, one), name_of(i, other));
            }
    int64_t *text = random_ids(&d, 4 * 25, LETTERS);
    const double loss = decode_loss(&w, text, 4, 24, RIGHT), uniform = log((double)LETTERS);
    if (!(fabs(loss - uniform) < 0.1))
        course_fail("the loss of a new model is %.4f, and must be near ln V = %.4f: it knows "
                    "nothing, so all tokens are as probable",
                    loss, uniform);
    free(text), free(state), free(w.all);
}

/* ---- the forward ---- */

static bool near(double a, double b) { return fabs(a - b) <= 1e-9 * fmax(1, fabs(b)); }

/* The words for logits (rows, tokens, V) that are not right, if a mistake makes them. */
static void name_logits(const weights *w, const int64_t *ids, int64_t rows, int64_t tokens,
                        const double *got) {
    const int64_t n = tokens * w->sizes.vocabulary;
    double *logits = numbers(n);
    for (mistake how = RIGHT + 1; how < MISTAKES; how++) {
        bool same = true;
        for (int64_t r = 0; r < rows && same; r++) {
            decode(w, ids + r * tokens, tokens, how, logits, NULL);
            for (int64_t i = 0; i < n && same; i++) same = near(got[r * n + i], logits[i]);
        }
        if (!same) continue;
        course_hint("%s", looks_like[how]);
        break;
    }
    free(logits);
}

static void compare_logits(ct_context *context, const weights *w, language *d, int64_t rows,
                           int64_t tokens) {
    const int64_t n = rows * tokens * w->sizes.vocabulary;
    int64_t *ids = random_ids(d, rows * tokens, w->sizes.vocabulary);
    double *right = numbers(n), *got = numbers(n);
    char what[128];
    snprintf(what, sizeof what, "the logits of %lld sequences of %lld tokens, %lld layers",
             (long long)rows, (long long)tokens, (long long)w->sizes.layers);
    send_weights(w);
    ct_tensor *logits = model_logits_of(context, ids_of(context, rows, tokens, ids));
    check_error(context);
    for (int64_t r = 0; r < rows; r++)
        decode(w, ids + r * tokens, tokens, RIGHT, right + r * tokens * w->sizes.vocabulary, NULL);
    ct_tensor *expected = course_f64(context, CT_SHAPE(rows, tokens, w->sizes.vocabulary), right);
    if (ct_dtype_of(logits) == CT_F64 && ct_numel(logits) == n && ct_to_f64(logits, got, n) &&
        !course_same(logits, expected, 1e-9)) {
        name_logits(w, ids, rows, tokens, got);
        if (!course_same(model_logits_of(context, ids_of(context, rows, tokens, ids)), logits, 0))
            course_hint(
                "the logits are others each time: outside of model_step nothing is dropped");
    }
    course_value(what, logits, expected, 1e-9);
    free(ids), free(right), free(got);
}

static void logits(ct_context *context) {
    language d = dice(context, 2);
    weights w = random_weights(context, small_sizes(&d, 1));
    compare_logits(context, &w, &d, 1, 1);
    compare_logits(context, &w, &d, 1, 7);
    compare_logits(context, &w, &d, 3, 5);
    free(w.all);
}

static void layers(ct_context *context) {
    language d = dice(context, 3);
    for (int64_t n = 2; n <= MOST_LAYERS; n++) {
        model_sizes sizes = small_sizes(&d, n);
        sizes.dropout = 0.5; /* of model_step alone */
        weights w = random_weights(context, sizes);
        compare_logits(context, &w, &d, 2, 6);
        free(w.all);
    }
}

/* Logits as the right ones or with one mistake, and the losses that are often made of them. */
typedef enum { MEAN, OWN_TOKEN, PREVIOUS_TOKEN, SUM, BITS, LAST_TOKEN, SHORTER, LOSSES } loss_kind;
static const char *const losses_like[LOSSES] = {
    [OWN_TOKEN] = "this is the loss of each token's own place: row t must predict token t + 1",
    [PREVIOUS_TOKEN] = "this is the loss of the token before: row t must predict token t + 1",
    [SUM] = "this is the sum, and must be the mean",
    [BITS] = "this is the loss in bits: -log2 p; it must be -ln p",
    [LAST_TOKEN] = "this is the loss of the last token of each sequence alone",
    [SHORTER] = "this is the loss without the last token: text has T + 1 tokens, of which T are "
                "predicted",
};

static double loss_as(const weights *w, const int64_t *text, int64_t rows, int64_t tokens,
                      loss_kind kind) {
    const int64_t vocabulary = w->sizes.vocabulary;
    double *rows_of = numbers(tokens * vocabulary), sum = 0;
    int64_t count = 0;
    for (int64_t r = 0; r < rows; r++) {
        const int64_t *ids = text + r * (tokens + 1);
        decode(w, ids, tokens, RIGHT, rows_of, NULL);
        for (int64_t t = 0; t < tokens; t++) {
            const int64_t target = kind == OWN_TOKEN ? t : kind == PREVIOUS_TOKEN ? t - 1 : t + 1;
            if (target < 0 || (kind == LAST_TOKEN && t + 1 < tokens) ||
                (kind == SHORTER && t + 1 == tokens))
                continue;
            sum += surprise(rows_of + t * vocabulary, vocabulary, ids[target]), count++;
        }
    }
    free(rows_of);
    return kind == SUM ? sum : sum / (double)count / (kind == BITS ? log(2) : 1);
}

/* Compares a loss, and names the mistake that makes it. */
static void compare_loss(const char *what, const weights *w, const int64_t *text, int64_t rows,
                         int64_t tokens, double got) {
    const double right = decode_loss(w, text, rows, tokens, RIGHT);
    if (near(got, right)) return;
    for (mistake how = RIGHT + 1; how < MISTAKES; how++)
        if (near(got, decode_loss(w, text, rows, tokens, how))) course_hint("%s", looks_like[how]);
    for (loss_kind kind = MEAN + 1; kind < LOSSES; kind++)
        if (near(got, loss_as(w, text, rows, tokens, kind))) course_hint("%s", losses_like[kind]);
    course_fail("%s is %.10g, and must be %.10g", what, isnan(got) ? fabs(got) : got, right);
}

static void loss(ct_context *context) {
    language d = dice(context, 4);
    for (int round = 0; round < 3; round++) {
        model_sizes sizes = small_sizes(&d, 1 + round);
        const int64_t rows = 1 + language_draw(&d, 3), tokens = round == 0 ? 1 : 4 + round;
        sizes.dropout = round == 2 ? 0.5 : 0;
        weights w = random_weights(context, sizes);
        send_weights(&w);
        int64_t *text = random_ids(&d, rows * (tokens + 1), sizes.vocabulary);
        ct_tensor *got = model_loss_of(context, ids_of(context, rows, tokens + 1, text));
        check_error(context);
        if (ct_numel(got) != 1 || ct_ndim(got) != 0 || ct_dtype_of(got) != CT_F64)
            course_fail("model_loss must return one number, a scalar of f64");
        if (ct_item(model_loss_of(context, ids_of(context, rows, tokens + 1, text))) !=
            ct_item(got))
            course_fail("the loss is another one each time: outside of model_step nothing is "
                        "dropped");
        compare_loss("the loss", &w, text, rows, tokens, ct_item(got));
        free(text), free(w.all);
    }
}

/* ---- a step of training ---- */

/* A model's numbers at one time. */
typedef struct {
    weights w;
    double *m, *v;
} state;

static state new_state(model_sizes sizes) {
    state s = {.w = new_weights(sizes)};
    s.m = numbers(s.w.total), s.v = numbers(s.w.total);
    return s;
}
static void fetch(state *s) { model_get(s->w.count, s->w.n, s->w.all, s->m, s->v); }
static void end_state(state *s) { free(s->w.all), free(s->m), free(s->v); }

/* What is known of one step: before and after it, what it was given and the gradient that it used,
 * which m tells. */
typedef struct {
    const state *before, *after;
    const int64_t *text;
    int64_t rows, tokens, t; /* t: the number of the update */
    adamw_opts opts;
    double loss;
    const double *earlier; /* the gradient of the step before; NULL: there is none */
} step_data;

/* d loss / d h along a direction of the parameters, by differences of the judge's loss. */
static double slope(const step_data *s, const double *direction) {
    const weights *w = &s->before->w;
    weights moved = *w;
    double ends[2], length = 0;
    moved.all = numbers(w->total);
    for (int64_t i = 0; i < w->total; i++) length += direction[i] * direction[i];
    const double h = 1e-4 / sqrt(length);
    for (int side = 0; side < 2; side++) {
        for (int64_t i = 0; i < w->total; i++)
            moved.all[i] = w->all[i] + (side ? h : -h) * direction[i];
        ends[side] = decode_loss(&moved, s->text, s->rows, s->tokens, RIGHT);
    }
    free(moved.all);
    return (ends[1] - ends[0]) / (2 * h);
}

static double dot(const double *a, const double *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* Names the parameters whose gradients are wrong, each along a direction of its own. */
static void fail_of_gradients(ct_context *context, const step_data *s, const double *gradient)
    __attribute__((noreturn));
static void fail_of_gradients(ct_context *context, const step_data *s, const double *gradient) {
    const weights *w = &s->before->w;
    char said[400] = "", name[64], factor[64] = "";
    int wrong = 0, at = 0, alike = 0;
    double first = 0;
    double *direction = numbers(w->total);
    for (int i = 0; i < w->count; i++) {
        memset(direction, 0, (size_t)w->total * sizeof *direction);
        draw_normal(context, w->n[i], direction + w->at[i]);
        const double right = slope(s, direction), got = dot(gradient, direction, w->total);
        if (fabs(got - right) <= 1e-4 * fabs(right) + 1e-9) continue;
        const double times = got / right;
        if (wrong++ == 0) first = times;
        alike += fabs(times - first) < 1e-3 * fabs(first) + 1e-9;
        if (wrong <= 3)
            at += snprintf(said + at, sizeof said - (size_t)at, "%s%s (%.4g, and must be %.4g)",
                           wrong == 1 ? "" : ", ", name_of(i, name), got, right);
    }
    if (wrong > 1 && alike == wrong)
        snprintf(factor, sizeof factor, "all are %.4g times what they must be: ", first);
    if (wrong == w->count)
        course_fail("the gradients are wrong: %sof every parameter; %s ...", factor, said);
    course_fail("the gradients are wrong: %sof %d of %d parameters, along a direction: %s%s",
                factor, wrong, w->count, said, wrong > 3 ? " ..." : "");
}

static double updated(const step_data *s, int64_t i, double t, double decay) {
    const adamw_opts *o = &s->opts;
    const double m = s->after->m[i] / (1 - pow(o->beta1, t)),
                 v = s->after->v[i] / (1 - pow(o->beta2, t));
    return s->before->w.all[i] * (1 - o->lr * decay) - o->lr * m / (sqrt(v) + o->eps);
}

/* Whether the parameter is what an update of this number, and this decay, makes. */
static bool is_updated(const step_data *s, int param, double t, double decay) {
    const weights *w = &s->after->w;
    for (int64_t i = w->at[param]; i < w->at[param] + w->n[param]; i++) {
        const double right = updated(s, i, t, decay);
        if (!(fabs(w->all[i] - right) <= 1e-10 * fmax(1, fabs(right)))) return false;
    }
    return true;
}

static void check_update(const step_data *s, const double *gradient) {
    const weights *w = &s->before->w;
    const double t = (double)s->t;
    char name[64];
    for (int i = 0; i < w->count; i++) {
        const int64_t from = w->at[i];
        double wrong = 0, largest = 0;
        for (int64_t j = from; j < from + w->n[i]; j++) {
            const double v =
                s->opts.beta2 * s->before->v[j] + (1 - s->opts.beta2) * gradient[j] * gradient[j];
            wrong = fmax(wrong, fabs(v - s->after->v[j])), largest = fmax(largest, v);
            if (isnan(s->after->v[j])) wrong = INFINITY;
        }
        if (wrong > 1e-8 * largest + 1e-20)
            course_fail("v is not from the gradient that m is from: %s", name_of(i, name));
        if (is_updated(s, i, t, s->opts.weight_decay)) continue;
        if (is_updated(s, i, t, 0))
            course_fail("%s does not decay: opts go to adamw_step as they are", name_of(i, name));
        for (int other = 1; other <= 40 * w->count; other++)
            if (is_updated(s, i, other, s->opts.weight_decay))
                course_fail("the update of %s was told to be number %d, and is number %lld: t "
                            "counts steps, from 1",
                            name_of(i, name), other, (long long)s->t);
        course_fail("the update is not AdamW's: that of %s", name_of(i, name));
    }
}

/* Compares loss, gradient and update of one step with the judge's. `gradient` gets the gradient. */
static void check_step(ct_context *context, const step_data *s, double *gradient) {
    enum { DIRECTIONS = 8 };
    const weights *w = &s->before->w;
    compare_loss("the loss of model_step", w, s->text, s->rows, s->tokens, s->loss);
    bool moved = false;
    for (int64_t i = 0; i < w->total; i++) {
        gradient[i] = (s->after->m[i] - s->opts.beta1 * s->before->m[i]) / (1 - s->opts.beta1);
        moved = moved || s->after->m[i] != s->before->m[i];
    }
    if (!moved) course_fail("no update: m is as it was before the step");
    double *direction = numbers(w->total), got[DIRECTIONS], right[DIRECTIONS], past[DIRECTIONS];
    double largest = 0, wrong = 0, adding = 0;
    for (int i = 0; i < DIRECTIONS; i++) {
        draw_normal(context, w->total, direction);
        got[i] = dot(gradient, direction, w->total), right[i] = slope(s, direction);
        past[i] = s->earlier ? dot(s->earlier, direction, w->total) : 0;
        largest = fmax(largest, fabs(right[i]));
    }
    for (int i = 0; i < DIRECTIONS; i++) {
        const double error = fabs(got[i] - right[i]), added = fabs(got[i] - right[i] - past[i]);
        wrong = isnan(error) ? INFINITY : fmax(wrong, error), adding = fmax(adding, added);
    }
    if (wrong > 1e-5 * largest && s->earlier && adding <= 1e-5 * largest)
        course_fail("the gradients of the step before are still in this one: zero them first");
    if (wrong > 1e-5 * largest) fail_of_gradients(context, s, gradient);
    check_update(s, gradient);
    free(direction);
}

static void step(ct_context *context) {
    enum { STEPS = 3, ROWS = 2, TOKENS = 5 };
    language d = dice(context, 5);
    state at[STEPS + 1];
    double *gradients[STEPS];
    const model_sizes sizes = small_sizes(&d, 2);
    at[0] = (state){random_weights(context, sizes), NULL, NULL};
    at[0].m = numbers(at[0].w.total), at[0].v = numbers(at[0].w.total);
    send_weights(&at[0].w);
    for (int i = 0; i < STEPS; i++) {
        int64_t *text = random_ids(&d, ROWS * (TOKENS + 1), sizes.vocabulary);
        step_data s = {.before = &at[i],
                       .after = &at[i + 1],
                       .text = text,
                       .rows = ROWS,
                       .tokens = TOKENS,
                       .t = i + 1,
                       .opts = usual,
                       .earlier = i ? gradients[i - 1] : NULL};
        s.opts.lr /= 1 + i;
        model_train(context, ids_of(context, ROWS, TOKENS + 1, text), s.opts, &s.loss);
        check_error(context);
        at[i + 1] = new_state(sizes), fetch(&at[i + 1]);
        gradients[i] = numbers(at[0].w.total);
        check_step(context, &s, gradients[i]);
        free(text);
    }
    /* a token that does not exist: the loss fails */
    int64_t *text = random_ids(&d, ROWS * (TOKENS + 1), sizes.vocabulary);
    text[2] = sizes.vocabulary;
    double ignored;
    state after = new_state(sizes);
    const bool done =
        model_train(context, ids_of(context, ROWS, TOKENS + 1, text), usual, &ignored);
    if (done) course_fail("where a token does not exist, model_step must return false");
    ct_error_clear(context), fetch(&after);
    if (memcmp(after.w.all, at[STEPS].w.all, (size_t)after.w.total * sizeof(double)) != 0)
        course_fail("where the loss fails, model_step must update nothing");
    free(text), end_state(&after);
    for (int i = 0; i <= STEPS; i++) end_state(&at[i]);
    for (int i = 0; i < STEPS; i++) free(gradients[i]);
}

static double loss_of_step(ct_context *context, ct_tensor *text, double lr) {
    adamw_opts opts = usual;
    double got = NAN;
    opts.lr = lr;
    model_train(context, text, opts, &got);
    check_error(context);
    return got;
}

/* With p = 1 nothing is left of what is dropped, so which it is can be told. */
static void dropout(ct_context *context) {
    enum { ROWS = 2, TOKENS = 6, TIMES = 6 };
    language d = dice(context, 6);
    model_sizes sizes = small_sizes(&d, 2);
    sizes.dropout = 1;
    weights w = random_weights(context, sizes);
    send_weights(&w);
    int64_t *ids = random_ids(&d, ROWS * (TOKENS + 1), sizes.vocabulary);
    ct_tensor *text = ids_of(context, ROWS, TOKENS + 1, ids);
    const double got = loss_of_step(context, text, 0),
                 right = decode_loss(&w, ids, ROWS, TOKENS, NO_LAYERS);
    if (!near(got, right)) {
        if (near(got, decode_loss(&w, ids, ROWS, TOKENS, RIGHT)))
            course_hint("model_step drops nothing");
        else if (near(got, decode_loss(&w, ids, ROWS, TOKENS, NOTHING_LEFT)))
            course_hint(
                "the embedding or x itself is dropped, too: only what is added to x may be");
        course_fail("where all of attention and the MLPs is dropped, the loss of model_step is "
                    "%.10g, and must be %.10g",
                    isnan(got) ? fabs(got) : got, right);
    }
    w.sizes.dropout = 0.5, send_weights(&w);
    double first = 0;
    bool other = false;
    for (int i = 0; i < TIMES; i++) {
        const double one = loss_of_step(context, text, 0);
        if (i == 0) first = one;
        other = other || one != first;
    }
    if (!other) course_fail("with dropout 0.5 the loss of %d steps is the same", TIMES);
    free(ids), free(w.all);
}

/* ---- writing ---- */

/* The probabilities of the token that follows row `row` of the logits of n tokens. These logits are
 * the submission's, so that a wrong forward costs nothing here. */
static void next_token(ct_context *context, const int64_t *tokens, int64_t n, int64_t row,
                       int64_t vocabulary, double *p) {
    double *logits = numbers(n * vocabulary), max = -INFINITY, sum = 0;
    ct_tensor *x = model_logits_of(context, ids_of(context, 1, n, tokens));
    check_error(context);
    if (ct_numel(x) != n * vocabulary || !ct_to_f64(x, logits, n * vocabulary))
        course_fail("model_logits must return logits (B, T, V)");
    for (int64_t i = 0; i < vocabulary; i++) max = fmax(max, logits[row * vocabulary + i]);
    for (int64_t i = 0; i < vocabulary; i++) sum += p[i] = exp(logits[row * vocabulary + i] - max);
    for (int64_t i = 0; i < vocabulary; i++) p[i] /= sum;
    free(logits);
}

/* What must be chosen, and how near the choice is to another: *margin. */
static int64_t chosen(const double *p, int64_t n, const double *draw, double *margin) {
    int64_t best = 0;
    double sum = 0;
    *margin = 1;
    if (!draw) {
        for (int64_t k = 1; k < n; k++)
            if (p[k] > p[best]) best = k;
        for (int64_t k = 0; k < n; k++)
            if (k != best) *margin = fmin(*margin, p[best] - p[k]);
        return best;
    }
    best = n - 1;
    for (int64_t k = n - 1; k >= 0; k--) {
        sum = 0;
        for (int64_t j = 0; j <= k; j++) sum += p[j];
        *margin = fmin(*margin, fabs(sum - *draw));
        if (sum > *draw) best = k;
    }
    return best;
}

static void compare_writing(ct_context *context, const weights *w, language *d, int64_t n,
                            bool drawn) {
    enum { COUNT = 24 };
    int64_t written[COUNT], all[64 + COUNT], wrong = -1, right = 0;
    double draws[COUNT], p[64], margin;
    bool from_first = true, from_begin = n > w->sizes.length;
    const int64_t vocabulary = w->sizes.vocabulary, most = w->sizes.length;
    int64_t *prompt = random_ids(d, n, vocabulary);
    memcpy(all, prompt, (size_t)n * sizeof *all);
    for (int i = 0; i < COUNT; i++) draws[i] = (language_draw(d, 1 << 20) + 0.5) / (1 << 20);
    send_weights(w);
    model_writes(context, prompt, n, COUNT, drawn ? draws : NULL, written);
    check_error(context);
    for (int64_t i = 0; i < COUNT; i++) {
        const int64_t have = n + i, length = have < most ? have : most;
        const double *draw = drawn ? &draws[i] : NULL;
        if (written[i] < 0 || written[i] >= vocabulary)
            course_fail("token %lld is %lld, which is no token", (long long)i,
                        (long long)written[i]);
        next_token(context, all + have - length, length, 0, vocabulary, p);
        from_first = from_first && written[i] == chosen(p, vocabulary, draw, &margin);
        next_token(context, all, length, length - 1, vocabulary, p);
        from_begin = from_begin && written[i] == chosen(p, vocabulary, draw, &margin);
        next_token(context, all + have - length, length, length - 1, vocabulary, p);
        const int64_t must = chosen(p, vocabulary, draw, &margin);
        if (wrong < 0 && written[i] != must && margin > 1e-9) wrong = i, right = must;
        all[have] = written[i];
    }
    if (wrong >= 0 && from_first) course_hint("the first row of logits is read, and not the last");
    if (wrong >= 0 && from_begin)
        course_hint("the model must read the last `length` tokens, and not the first");
    if (wrong >= 0)
        course_fail("token %lld after a prompt of %lld is %lld, and must be %lld, %s",
                    (long long)wrong, (long long)n, (long long)written[wrong], (long long)right,
                    drawn ? "the smallest whose sum of probabilities is above the draw"
                          : "the most probable");
    free(prompt);
}

static void writes(ct_context *context) {
    language d = dice(context, 7);
    model_sizes sizes = small_sizes(&d, 2);
    sizes.length = 9, sizes.dropout = 0.5;
    weights w = random_weights(context, sizes);
    compare_writing(context, &w, &d, 20, true);
    compare_writing(context, &w, &d, 1, false);
    compare_writing(context, &w, &d, 5, true);
    compare_writing(context, &w, &d, 9, false);
    free(w.all);
}

/* ---- training ---- */

enum { STEPS = 300, ROWS = 4, TOKENS = 24, LOOKS = 3, SEEN = 20000, HIDDEN = 1920 };

static double rate_of(int step) {
    const double warm = fmin(1, (step + 1) / 20.0), way = (double)step / STEPS;
    return 0.01 * warm * (0.55 + 0.45 * cos(3.141592653589793 * way));
}

/* Trains as the student's code does, and looks at LOOKS of its steps. */
static void train_on(ct_context *context, language *d, const int64_t *seen, double *losses,
                     state *last) {
    int look[LOOKS];
    state before = new_state(trained);
    double *gradient = numbers(before.w.total);
    for (int i = 0; i < LOOKS; i++) look[i] = i * STEPS / LOOKS + language_draw(d, STEPS / LOOKS);
    for (int step = 0; step < STEPS; step++) {
        int64_t text[ROWS * (TOKENS + 1)];
        bool looked_at = false;
        for (int i = 0; i < LOOKS; i++) looked_at = looked_at || look[i] == step;
        for (int r = 0; r < ROWS; r++)
            memcpy(text + r * (TOKENS + 1), seen + language_draw(d, SEEN - TOKENS - 1),
                   (TOKENS + 1) * sizeof *text);
        adamw_opts opts = usual;
        opts.lr = rate_of(step);
        if (looked_at) fetch(&before);
        ct_scope scope = ct_scope_open(context);
        model_train(context, ids_of(context, ROWS, TOKENS + 1, text), opts, &losses[step]);
        check_error(context);
        ct_scope_close(scope);
        if (!looked_at) continue;
        fetch(last);
        const step_data s = {.before = &before,
                             .after = last,
                             .text = text,
                             .rows = ROWS,
                             .tokens = TOKENS,
                             .t = step + 1,
                             .opts = opts,
                             .loss = losses[step]};
        check_step(context, &s, gradient);
    }
    fetch(last);
    free(gradient), end_state(&before);
}

/* The bits for each letter of hidden text, of which the model has read between half of `length` and
 * all of it. */
static double bits_of(const weights *w, const int64_t *hidden) {
    double logits[TOKENS * LETTERS], sum = 0;
    int64_t count = 0;
    for (int64_t at = 0; at + TOKENS < HIDDEN; at += TOKENS / 2) {
        decode(w, hidden + at, TOKENS, RIGHT, logits, NULL);
        for (int64_t t = TOKENS / 2; t < TOKENS; t++, count++)
            sum += surprise(logits + t * LETTERS, LETTERS, hidden[at + t + 1]);
    }
    return sum / (double)count / log(2);
}

/* The curve of losses, what the model writes, and where its heads look, if a picture is wanted. */
static void draw_picture(ct_context *context, const weights *w, language *d, const int64_t *prompt,
                         const double *losses) {
    enum { COUNT = 160, PROMPT = 12 };
    FILE *file = picture_begin("a language model");
    if (!file) return;
    int64_t written[COUNT];
    double draws[COUNT], seen[2 * 2 * TOKENS * TOKENS], rows[TOKENS * LETTERS];
    char text[PROMPT + COUNT + 1] = "", letters[TOKENS + 1] = "", caption[64];
    picture_losses(file, losses, STEPS, log((double)LETTERS), "ln V");
    for (int i = 0; i < COUNT; i++) draws[i] = (language_draw(d, 1 << 20) + 0.5) / (1 << 20);
    if (model_writes(context, prompt, PROMPT, COUNT, draws, written)) {
        for (int i = 0; i < PROMPT; i++) text[i] = alphabet[prompt[i]];
        for (int i = 0; i < COUNT; i++)
            text[PROMPT + i] = alphabet[written[i] >= 0 && written[i] < LETTERS ? written[i] : 0];
        picture_text(file, "It writes, from the first 12 letters on:", text);
    }
    ct_error_clear(context);
    decode(w, prompt, TOKENS, RIGHT, rows, seen);
    for (int i = 0; i < TOKENS; i++) letters[i] = alphabet[prompt[i]];
    fputs("<p>What each letter (a row) sees of the letters before it:</p>\n", file);
    for (int i = 0; i < 4; i++) {
        snprintf(caption, sizeof caption, "layer %d, head %d", i / 2, i % 2);
        picture_attention(file, seen + i * TOKENS * TOKENS, TOKENS, letters, caption);
    }
    picture_end(file);
}

static void learns(ct_context *context) {
    static double losses[STEPS];
    static int64_t seen[SEEN], hidden[HIDDEN];
    language d = dice(context, 8), l = new_language(ct_rng_get(context).seed * 7919 + 1);
    speak(&l, SEEN, seen), speak(&l, HIDDEN, hidden);
    if (!model_begin(context, trained)) check_error(context);
    state last = new_state(trained);
    train_on(context, &d, seen, losses, &last);
    draw_picture(context, &last.w, &d, hidden, losses);
    const double bits = bits_of(&last.w, hidden),
                 pairs = bits_by_counts(seen, SEEN, hidden, HIDDEN, 1),
                 triples = bits_by_counts(seen, SEEN, hidden, HIDDEN, 2),
                 limit = triples + (pairs - triples) / 3;
    printf("bits for each letter of hidden text: %.3f; by counts of pairs %.3f, of triples %.3f\n",
           bits, pairs, triples);
    if (!(fabs(losses[0] - log((double)LETTERS)) < 0.1))
        course_fail("the loss begins at %.4f, and must begin at ln V = %.4f", losses[0],
                    log((double)LETTERS));
    if (!(bits < pairs))
        course_partial(1,
                       "it has not learnt enough: %.3f bits for each letter of hidden text, and "
                       "must have fewer than counts of pairs of letters, %.3f",
                       bits, pairs);
    if (!(bits < limit))
        course_partial(2,
                       "it has not learnt enough: %.3f bits for each letter of hidden text, and "
                       "must have fewer than %.3f, two thirds of the way from counts of pairs, "
                       "%.3f, to counts of three letters, %.3f",
                       bits, limit, pairs, triples);
    end_state(&last);
}

const course_test course_tests[] = {
    {"fresh", 1, fresh},   {"logits", 1, logits},
    {"layers", 1, layers}, {"loss", 1, loss},
    {"step", 1, step},     {"dropout", 1, dropout},
    {"writes", 1, writes}, {"learns", 3, learns, .times = 6},
};
const int course_test_count = sizeof course_tests / sizeof *course_tests;
