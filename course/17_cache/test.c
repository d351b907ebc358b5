/* A cache beside the same decoder without one, which runs the whole sequence again for every token;
 * the products that the cache asks for, counted; and draws beside the probabilities that they must
 * have. */
#include "../course.h"
#include "draws.h"
#include "exercise.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a decoder ---- */

enum { MOST_WIDTH = 32, MOST_LAYERS = 3, MOST_VOCABULARY = 17, CONTEXT = 48 };
static double table[WEIGHTS][MOST_LAYERS][MOST_WIDTH * MOST_WIDTH]; /* (in, out) of each weight */
static double embeddings[MOST_VOCABULARY][MOST_WIDTH], positions[CONTEXT][MOST_WIDTH];
static model decoder;

static int width_in(weight w) { return w == DOWN ? decoder.hidden : decoder.width; }
static int width_out(weight w) {
    return w == UP ? decoder.hidden : w == LOGITS ? decoder.vocabulary : decoder.width;
}

static void embed_right(const int *tokens, int first, int n, double *x) {
    for (int i = 0; i < n; i++)
        for (int e = 0; e < decoder.width; e++)
            x[i * decoder.width + e] = embeddings[tokens[i]][e] + positions[first + i][e];
}
static void multiply_right(weight w, int layer, int n, const double *x, double *y) {
    const int in = width_in(w), out = width_out(w);
    for (int i = 0; i < n; i++)
        for (int o = 0; o < out; o++) {
            double sum = 0;
            for (int e = 0; e < in; e++) sum += x[i * in + e] * table[w][layer][e * out + o];
            y[i * out + o] = sum;
        }
}

/* What the submission asks for: rows and calls of each weight, rows of embeddings. */
static struct {
    int rows[WEIGHTS][MOST_LAYERS], calls[WEIGHTS][MOST_LAYERS], embedded;
} work;

static void embed_counted(const int *tokens, int first, int n, double *x) {
    work.embedded += n;
    embed_right(tokens, first, n, x);
}
static void multiply_counted(weight w, int layer, int n, const double *x, double *y) {
    work.rows[w][layer] += n, work.calls[w][layer]++;
    multiply_right(w, layer, n, x, y);
}

static void draw_numbers(ct_context *context, double *x, int64_t n, double scale) {
    if (!ct_to_f64(course_randn(context, CT_SHAPE(n)), x, n))
        course_fail("%s", ct_error_message(context));
    for (int64_t i = 0; i < n; i++) x[i] *= scale;
}
static void draw_uniform(ct_context *context, double *x, int64_t n, double scale) {
    if (!ct_to_f64(ct_rand(context, CT_F64, CT_SHAPE(n)), x, n))
        course_fail("%s", ct_error_message(context));
    for (int64_t i = 0; i < n; i++) x[i] *= scale;
}

/* Draws the sizes of the decoder and its weights. `sharp` multiplies the scores of attention. */
static void draw_decoder(ct_context *context, double sharp) {
    const int heads = 2 + (int)ct_random_below(context, 3),
              width = heads * (7 + (int)ct_random_below(context, 2));
    decoder = (model){.vocabulary = 11 + (int)ct_random_below(context, 7),
                      .width = width,
                      .heads = heads,
                      .layers = 2 + (int)ct_random_below(context, 2),
                      .hidden = 9 + (int)ct_random_below(context, 12),
                      .context = CONTEXT,
                      .embed = embed_counted,
                      .multiply = multiply_counted};
    draw_numbers(context, &embeddings[0][0], MOST_VOCABULARY * MOST_WIDTH, 0.7);
    draw_numbers(context, &positions[0][0], CONTEXT * MOST_WIDTH, 0.7);
    for (int w = 0; w < WEIGHTS; w++) {
        const bool score = w == QUERY || w == KEY;
        const double scale = (score ? 1.3 * sqrt(sharp) : 1) / sqrt(width_in((weight)w));
        draw_numbers(context, &table[w][0][0], MOST_LAYERS * MOST_WIDTH * MOST_WIDTH, scale);
    }
}

/* ---- what must come out ---- */

enum {
    SEES_LATER,
    MASK_WITHOUT_OFFSET,
    ONLY_NEW,
    NOT_ITSELF,
    ONLY_ITSELF,
    POSITIONS_FROM_ZERO,
    SCALE_OF_WIDTH,
    NO_SCALE,
    ONE_HEAD,
    HEADS_INTERLEAVED,
    ONE_CACHE,
    KEYS_AS_VALUES,
    NO_RESIDUAL,
    NO_RESIDUAL_OF_MLP,
    NO_RELU,
    NO_MAXIMUM,
    FIRST_LOGITS,
    REWIND_IGNORED,
    REWIND_ONE_MORE,
    REWIND_ONE_LESS,
    NO_MLP,
    KEYS_SHARED,
    VALUES_SHARED,
    LAYERS_OVERLAP
};
static const course_mistake mistakes[] = {
    [SEES_LATER] = {"when a token sees the later ones that came with it: there is no causal mask"},
    [MASK_WITHOUT_OFFSET] = {"when row i of new tokens sees keys 0 to i, and not those before it, "
                             "length + i: the mask has no offset"},
    [ONLY_NEW] = {"when new tokens see only those that came with them, and no cached ones", true},
    [NOT_ITSELF] = {"when a token does not see itself"},
    [ONLY_ITSELF] = {"when a token sees only itself", true},
    [POSITIONS_FROM_ZERO] = {"when the positions of new tokens begin at 0, and not behind those "
                             "that are cached"},
    [SCALE_OF_WIDTH] = {"when scores are divided by the root of the width, and not of a head's"},
    [NO_SCALE] = {"when scores are not divided by the root of a head's width"},
    [ONE_HEAD] = {"when all heads are one"},
    [HEADS_INTERLEAVED] = {"when a head's columns are every so many, and not side by side"},
    [ONE_CACHE] = {"when all layers share one cache, in which the last layer stays"},
    [KEYS_AS_VALUES] = {"when keys are taken for values"},
    [NO_RESIDUAL] = {"when attention's result is not added to x, but takes its place"},
    [NO_RESIDUAL_OF_MLP] = {"when DOWN's result is not added to x, but takes its place"},
    [NO_RELU] = {"when negative numbers are kept between UP and DOWN"},
    [NO_MAXIMUM] = {"when exp of the scores overflows: the maximum is not subtracted"},
    [FIRST_LOGITS] = {"when the logits after the first of the new tokens are given, not after the "
                      "last"},
    [REWIND_IGNORED] = {"when cache_rewind does nothing"},
    [REWIND_ONE_MORE] = {"when cache_rewind forgets one token too few"},
    [REWIND_ONE_LESS] = {"when cache_rewind forgets one token too many"},
    [NO_MLP] = {"without UP and DOWN", true},
    [KEYS_SHARED] = {"when all layers share the keys, in which those of the last layer stay; the "
                     "values are each layer's own"},
    [VALUES_SHARED] = {"when all layers share the values, in which those of the last layer stay; "
                       "the keys are each layer's own"},
    [LAYERS_OVERLAP] = {"when the rows of a layer begin one row behind those of the layer before: "
                        "each layer needs room for `context` rows"}};

/* Keys and values of all layers, as far as a mistake needs them from before. */
static double keys[MOST_LAYERS * CONTEXT][MOST_WIDTH], values[MOST_LAYERS * CONTEXT][MOST_WIDTH];
static double *key_of(int layer, int j, course_set m) {
    const bool shared = course_has(m, ONE_CACHE) || course_has(m, KEYS_SHARED);
    return keys[layer * (shared ? 0 : course_has(m, LAYERS_OVERLAP) ? 1 : CONTEXT) + j];
}
static double *value_of(int layer, int j, course_set m) {
    const bool shared = course_has(m, ONE_CACHE) || course_has(m, VALUES_SHARED);
    return values[layer * (shared ? 0 : course_has(m, LAYERS_OVERLAP) ? 1 : CONTEXT) + j];
}

/* Whether row i sees row j, where rows from `first` on are new. */
static bool sees(int i, int j, int first, int end, course_set m) {
    if (course_has(m, SEES_LATER)) return j < end;
    if (course_has(m, MASK_WITHOUT_OFFSET)) return j <= i - first;
    if (course_has(m, ONLY_NEW)) return j >= first && j <= i;
    if (course_has(m, NOT_ITSELF)) return j < i;
    if (course_has(m, ONLY_ITSELF)) return j == i;
    return j <= i;
}

/* Attention of row i, one head: columns `from`, from + step, ..., d of them. */
static void attend(const double *query, int layer, int i, int first, int end, int from, int step,
                   int d, course_set m, double *out) {
    double weights[CONTEXT] = {0}, most = -INFINITY, sum = 0;
    for (int j = 0; j < end; j++) {
        const double *key = key_of(layer, j, m);
        if (!sees(i, j, first, end, m)) continue;
        for (int e = 0; e < d; e++) weights[j] += query[from + e * step] * key[from + e * step];
        if (course_has(m, SCALE_OF_WIDTH)) weights[j] /= sqrt(decoder.width);
        else if (!course_has(m, NO_SCALE)) weights[j] /= sqrt(d);
        most = fmax(most, weights[j]);
    }
    if (course_has(m, NO_MAXIMUM)) most = 0;
    for (int j = 0; j < end; j++) {
        weights[j] = sees(i, j, first, end, m) ? exp(weights[j] - most) : 0;
        sum += weights[j];
    }
    for (int e = 0; e < d; e++) out[from + e * step] = 0;
    for (int j = 0; j < end; j++) {
        const double *value =
            course_has(m, KEYS_AS_VALUES) ? key_of(layer, j, m) : value_of(layer, j, m);
        if (!sees(i, j, first, end, m)) continue;
        for (int e = 0; e < d; e++)
            out[from + e * step] += weights[j] / sum * value[from + e * step];
    }
}

static void attend_all(const double *query, int layer, int i, int first, int end, course_set m,
                       double *out) {
    const int heads = course_has(m, ONE_HEAD) ? 1 : decoder.heads, d = decoder.width / heads;
    for (int h = 0; h < heads; h++)
        if (course_has(m, HEADS_INTERLEAVED))
            attend(query, layer, i, first, end, h, heads, d, m, out);
        else attend(query, layer, i, first, end, h * d, 1, d, m, out);
}

/* Runs rows first to end of a sequence, and sets the logits after the last. With first 0 this is
 * the decoder without a cache. */
static void run(const int *tokens, int first, int end, course_set m, double *logits) {
    static double x[CONTEXT][MOST_WIDTH], query[CONTEXT][MOST_WIDTH];
    double added[MOST_WIDTH], out[MOST_WIDTH], up[MOST_WIDTH];
    const int width = decoder.width;
    for (int i = first; i < end; i++)
        embed_right(&tokens[i], course_has(m, POSITIONS_FROM_ZERO) ? i - first : i, 1, x[i]);
    for (int layer = 0; layer < decoder.layers; layer++) {
        for (int i = first; i < end; i++) {
            multiply_right(QUERY, layer, 1, x[i], query[i]);
            multiply_right(KEY, layer, 1, x[i], key_of(layer, i, m));
            multiply_right(VALUE, layer, 1, x[i], value_of(layer, i, m));
        }
        for (int i = first; i < end; i++) {
            attend_all(query[i], layer, i, first, end, m, added);
            multiply_right(OUT, layer, 1, added, out);
            for (int e = 0; e < width; e++)
                x[i][e] = course_has(m, NO_RESIDUAL) ? out[e] : x[i][e] + out[e];
            if (course_has(m, NO_MLP)) continue;
            multiply_right(UP, layer, 1, x[i], up);
            for (int e = 0; e < decoder.hidden && !course_has(m, NO_RELU); e++)
                up[e] = fmax(up[e], 0);
            multiply_right(DOWN, layer, 1, up, out);
            for (int e = 0; e < width; e++)
                x[i][e] = course_has(m, NO_RESIDUAL_OF_MLP) ? out[e] : x[i][e] + out[e];
        }
    }
    multiply_right(LOGITS, 0, 1, x[course_has(m, FIRST_LOGITS) ? first : end - 1], logits);
}

/* ---- sequences ---- */

/* Steps: the sequence is cut to `length` tokens (-1: it stays), then n tokens come. */
enum { MOST_STEPS = 24 };
typedef struct {
    int steps, length[MOST_STEPS], n[MOST_STEPS];
    bool twice; /* a second cache beside it, with other tokens */
} script;

static ct_tensor *by_judge(ct_tensor *const *in, int n, void *arg, course_set m) {
    const script *s = arg;
    const int64_t *next = ct_data_i64(in[0]);
    static double logits[MOST_STEPS][MOST_VOCABULARY];
    double out[MOST_STEPS * MOST_VOCABULARY];
    int tokens[CONTEXT], length = 0, at = 0;
    (void)n;
    for (int step = 0; step < s->steps; step++) {
        int cut = s->length[step];
        if (cut >= 0 && course_has(m, REWIND_ONE_MORE)) cut++;
        if (cut >= 0 && course_has(m, REWIND_ONE_LESS)) cut--;
        if (cut >= 0 && cut < length && !course_has(m, REWIND_IGNORED)) length = cut;
        if (length + s->n[step] > CONTEXT || cut < -1) return NULL;
        for (int i = 0; i < s->n[step]; i++) tokens[length + i] = (int)next[i];
        next += s->n[step];
        run(tokens, m ? length : 0, length + s->n[step], m, logits[step]);
        length += s->n[step];
        for (int v = 0; v < decoder.vocabulary; v++) out[at++] = logits[step][v];
    }
    return course_f64(ct_context_of(in[0]), CT_SHAPE(s->steps, decoder.vocabulary), out);
}

static cache *new_cache(void) {
    cache *c = cache_new(&decoder);
    if (!c) course_fail("cache_new returns NULL, as the stub does: is it not written yet?");
    return c;
}

static ct_tensor *by_you(ct_tensor *const *in, int n, void *arg) {
    const script *s = arg;
    const int64_t *next = ct_data_i64(in[0]);
    double out[MOST_STEPS * MOST_VOCABULARY], aside[MOST_VOCABULARY];
    int tokens[CONTEXT], others[CONTEXT];
    cache *c = new_cache(), *other = s->twice ? new_cache() : NULL;
    (void)n;
    memset(out, 0xff, sizeof out);
    for (int step = 0; step < s->steps; step++) {
        for (int i = 0; i < s->n[step]; i++)
            tokens[i] = (int)next[i], others[i] = decoder.vocabulary - 1 - tokens[i];
        next += s->n[step];
        if (s->length[step] >= 0) cache_rewind(c, s->length[step]);
        if (other) cache_extend(other, others, 1, aside);
        cache_extend(c, tokens, s->n[step], out + step * decoder.vocabulary);
    }
    cache_free(c);
    if (other) cache_free(other);
    return course_f64(ct_context_of(in[0]), CT_SHAPE(s->steps, decoder.vocabulary), out);
}

static const char *const names[] = {"the tokens: token", "the logits: step, token"};
static const course_function decoding = COURSE_FUNCTION(by_you, by_judge, mistakes, names);

static ct_tensor *draw_tokens(ct_context *context, const script *s) {
    int64_t tokens[CONTEXT * MOST_STEPS], n = 0;
    for (int step = 0; step < s->steps; step++)
        for (int i = 0; i < s->n[step]; i++)
            tokens[n++] = ct_random_below(context, decoder.vocabulary);
    return ct_from_i64(context, CT_SHAPE(n), tokens);
}

static void compare(ct_context *context, const char *what, script s) {
    ct_tensor *in = draw_tokens(context, &s);
    course_forward(what, &decoding, &s, &in, 1, 1e-10);
}

static script draw_chunks(ct_context *context, int steps, int most) {
    script s = {.steps = steps};
    for (int i = 0; i < steps; i++)
        s.length[i] = -1, s.n[i] = 1 + (int)ct_random_below(context, most);
    return s;
}

static void prompt(ct_context *context) {
    draw_decoder(context, 1);
    script s = {.steps = 1, .length = {-1}, .n = {1}};
    compare(context, "the logits after one token", s);
    for (int i = 0; i < 3; i++) {
        s.n[0] = 3 + (int)ct_random_below(context, 9);
        compare(context, "the logits after a prompt", s);
    }
}

static void one_by_one(ct_context *context) {
    draw_decoder(context, 1);
    compare(context, "the logits after each of twelve tokens", draw_chunks(context, 12, 1));
    compare(context, "the logits after each of twenty tokens", draw_chunks(context, 20, 1));
}

static void chunks(ct_context *context) {
    for (int i = 0; i < 3; i++) {
        draw_decoder(context, i == 2 ? 3000 : 1); /* scores that exp overflows of */
        script s = draw_chunks(context, 6, 6);
        s.n[2] = 1, s.twice = i == 1;
        compare(context,
                i == 0   ? "the logits after each of six pieces"
                : i == 1 ? "the logits after each of six pieces, beside a second cache"
                         : "the logits after each of six pieces, with large scores",
                s);
    }
}

static void rewind_test(ct_context *context) {
    draw_decoder(context, 1);
    for (int i = 0; i < 3; i++) {
        script s = draw_chunks(context, 6, 5);
        int length = 0;
        s.n[0] = 6, s.n[1] = 3;
        for (int step = 0; step < 6; step++) {
            if (step >= 2 && step % 2 == 0)
                length = s.length[step] = 1 + (int)ct_random_below(context, length - 1);
            length += s.n[step];
        }
        if (i == 2) s.length[4] = 0;
        compare(context, "the logits after pieces, some of them behind a cache_rewind", s);
    }
}

/* ---- the work ---- */

static const char *const weight_names[] = {"QUERY", "KEY", "VALUE", "OUT", "UP", "DOWN", "LOGITS"};

/* A mistake in the work: a few words, and the numbers. No words: all is well. */
typedef struct {
    const char *word;
    char numbers[200];
} waste;

/* Looks whether more was asked for than the rows of new tokens; `before`: the tokens that came
 * earlier. */
static waste find_repeated(int rows, int before) {
    waste found = {.word = NULL};
    for (int w = 0; w < LOGITS && !found.word; w++)
        for (int layer = 0; layer < decoder.layers && !found.word; layer++) {
            const int got = work.rows[w][layer];
            if (got <= rows) continue;
            found.word = before && got >= rows + before
                             ? "earlier tokens are computed again: the cache has their keys and "
                               "values, and nothing else of them is needed"
                             : "more rows than new tokens";
            snprintf(found.numbers, sizeof found.numbers,
                     "%s of layer %d is multiplied with %d rows, where %d would do",
                     weight_names[w], layer, got, rows);
        }
    if (!found.word && work.embedded > rows) {
        found.word = "more tokens are embedded than are new";
        snprintf(found.numbers, sizeof found.numbers, "%d for %d", work.embedded, rows);
    }
    return found;
}

/* Looks whether `calls` extensions took more products, or more logits, than they need. */
static waste find_excess(int calls) {
    waste found = {.word = NULL};
    for (int w = 0; w < LOGITS && !found.word; w++)
        for (int layer = 0; layer < decoder.layers && !found.word; layer++) {
            if (work.calls[w][layer] <= calls) continue;
            found.word = "new tokens are multiplied one after the other: in one product, of many "
                         "rows, a weight is read once";
            snprintf(found.numbers, sizeof found.numbers,
                     "%s of layer %d is multiplied %d times, where %d would do", weight_names[w],
                     layer, work.calls[w][layer], calls);
        }
    if (!found.word && work.rows[LOGITS][0] > calls) {
        found.word = "the logits of all rows are computed: only those after the last are asked for";
        snprintf(found.numbers, sizeof found.numbers,
                 "LOGITS is multiplied with %d rows, where %d would do", work.rows[LOGITS][0],
                 calls);
    }
    return found;
}

/* Compares the logits whose work was counted. Those of a known mistake will do: it has cost its
 * points elsewhere, unless there is less to compute with it. */
static void check_counted(ct_tensor *in, script *s, ct_tensor *got) {
    ct_tensor *right = by_judge(&in, 1, s, 0);
    for (int i = 0; i < decoding.count; i++)
        if (!mistakes[i].easier && course_same(got, by_judge(&in, 1, s, COURSE_BIT(i)), 1e-9))
            return;
    course_value("the logits whose work is counted", got, right, 1e-10);
}

static void work_test(ct_context *context) {
    script s = {.steps = 12};
    int tokens[CONTEXT], length = 0, at = 0;
    double out[MOST_STEPS * MOST_VOCABULARY];
    waste worst = {.word = NULL};
    bool again = false;
    for (int step = 0; step < s.steps; step++)
        s.length[step] = step == 9 ? 5 : -1, s.n[step] = step == 0 ? 7 : step == 6 ? 4 : 1;
    draw_decoder(context, 1);
    ct_tensor *in = draw_tokens(context, &s);
    memset(out, 0xff, sizeof out);
    cache *c = new_cache();
    for (int step = 0; step < s.steps; step++) {
        if (s.length[step] >= 0) cache_rewind(c, length = s.length[step]);
        for (int i = 0; i < s.n[step]; i++) tokens[i] = (int)ct_data_i64(in)[at++];
        memset(&work, 0, sizeof work);
        cache_extend(c, tokens, s.n[step], out + step * decoder.vocabulary);
        const waste repeated = find_repeated(s.n[step], length), excess = find_excess(1);
        if (repeated.word && !again) worst = repeated, again = true;
        if (excess.word && !worst.word) worst = excess;
        length += s.n[step];
    }
    cache_free(c);
    check_counted(in, &s, course_f64(context, CT_SHAPE(s.steps, decoder.vocabulary), out));
    course_hint("%s", worst.word ? worst.word : "");
    if (worst.word) course_partial(again ? 0 : 1, "%s", worst.numbers);
}

/* ---- sampling ---- */

enum {
    TEMPERATURE_MULTIPLIES,
    TEMPERATURE_IGNORED,
    TEMPERATURE_ROOT,
    ONE_MORE,
    ONE_FEWER,
    ALL_KEPT,
    SMALLEST_KEPT,
    NOT_DIVIDED,
    LARGEST_ALWAYS,
    UNIFORM,
    PLACE_IN_ORDER,
    SAMPLING_MISTAKES
};
static const char *const draws_of[] = {
    [TEMPERATURE_MULTIPLIES] = "these are the draws of logits times the temperature, not divided",
    [TEMPERATURE_IGNORED] = "these are the draws of temperature 1",
    [TEMPERATURE_ROOT] = "these are the draws of logits divided by the root of the temperature",
    [ONE_MORE] = "these are the draws from one logit more than top_k",
    [ONE_FEWER] = "these are the draws from one logit fewer than top_k",
    [ALL_KEPT] = "these are the draws from all logits: top_k is ignored",
    [SMALLEST_KEPT] = "these are the draws from the smallest logits, not from the largest",
    [NOT_DIVIDED] = "these are the draws of probabilities that are divided by the sum of all",
    [LARGEST_ALWAYS] = "the largest logit is drawn each time",
    [UNIFORM] = "all that are kept are drawn equally often",
    [PLACE_IN_ORDER] = "these are places in the order of the logits, and not tokens"};

static int rank_of(const double *logits, int n, int i, bool smallest) {
    int before = 0;
    for (int j = 0; j < n; j++)
        before += (smallest ? logits[j] < logits[i] : logits[j] > logits[i]) ||
                  (logits[j] == logits[i] && j < i);
    return before;
}

/* The probability of each token, right or with a mistake (-1: none). */
static void probabilities(const double *logits, int n, double temperature, int top_k, int mistake,
                          double *p) {
    double whole = 0, kept = 0, most = -INFINITY;
    int best = 0;
    if (top_k < 1 || mistake == ALL_KEPT) top_k = n;
    if (mistake == ONE_MORE) top_k++;
    if (mistake == ONE_FEWER && top_k > 1) top_k--;
    if (mistake == TEMPERATURE_MULTIPLIES) temperature = 1 / temperature;
    if (mistake == TEMPERATURE_IGNORED) temperature = 1;
    if (mistake == TEMPERATURE_ROOT) temperature = sqrt(temperature);
    for (int i = 0; i < n; i++) most = fmax(most, logits[i]);
    for (int i = n - 1; i >= 0; i--)
        if (logits[i] == most) best = i;
    for (int i = 0; i < n; i++) {
        p[i] = exp((logits[i] - most) / temperature);
        whole += p[i];
        if (rank_of(logits, n, i, mistake == SMALLEST_KEPT) >= top_k) p[i] = 0;
        if (mistake == LARGEST_ALWAYS) p[i] = i == best;
        if (mistake == UNIFORM) p[i] = p[i] > 0;
        kept += p[i];
    }
    int last = 0;
    for (int i = 0; i < n; i++) {
        p[i] /= mistake == NOT_DIVIDED ? whole : kept;
        if (p[i] > 0) last = i;
    }
    if (mistake == NOT_DIVIDED) p[last] += 1 - kept / whole;
    if (mistake != PLACE_IN_ORDER) return;
    double sorted[MOST_VOCABULARY] = {0};
    for (int i = 0; i < n; i++) sorted[rank_of(logits, n, i, false)] = p[i];
    memcpy(p, sorted, (size_t)n * sizeof *p);
}

/* The first token, in their order, at which the sum of probabilities is above u. */
static int sample_right(const double *logits, int n, double temperature, int top_k, double u) {
    double p[MOST_VOCABULARY], sum = 0;
    int token = 0;
    if (temperature == 0) temperature = 1, top_k = 1;
    probabilities(logits, n, temperature, top_k, -1, p);
    for (int i = 0; i < n; i++) {
        if (p[i] > 0) token = i;
        sum += p[i];
        if (u < sum) break;
    }
    return token;
}

static int checked(int token, int n) {
    if (token == -1) course_fail("sample returns -1, as the stub does: is it not written yet?");
    if (token < 0 || token >= n)
        course_fail("no token: sample returns %d, and tokens are 0 to %d", token, n - 1);
    return token;
}

/* How likely it is that a chi-square is at least x: with h = x / 2 the sum of e^-h h^i / i! over
 * i = 0, 1, ... below degrees / 2 or, where that is no whole number, of e^-h h^i / gamma(i + 1)
 * over i = 1/2, 3/2, ... and erfc of the root of h. */
static double chance_of(double x, int degrees) {
    const bool odd = degrees % 2;
    const double h = x / 2;
    double i = odd ? 0.5 : 0, term = exp(-h) * pow(h, i) / tgamma(i + 1), sum = 0;
    for (; 2 * i < degrees; i++) sum += term, term *= h / (i + 1);
    return odd ? sum + erfc(sqrt(h)) : sum;
}

/* The chance of counts that are as far from the probabilities as these; 0 if a token was drawn
 * whose probability is 0. */
static double chance_of_counts(const int *counts, int n, int draws, const double *p) {
    double sum = 0;
    int cells = 0;
    for (int i = 0; i < n; i++) {
        if (p[i] == 0 && counts[i]) return 0;
        if (p[i] == 0) continue;
        sum += (counts[i] - draws * p[i]) * (counts[i] - draws * p[i]) / (draws * p[i]);
        cells++;
    }
    return cells == 1 ? 1 : chance_of(sum, cells - 1);
}

/* Draws many tokens of random logits. */
static void check_draws(ct_context *context, double temperature, int top_k) {
    enum { DRAWS = 20000 };
    static double u[DRAWS];
    static int tokens[DRAWS];
    const int n = 9 + (int)ct_random_below(context, MOST_VOCABULARY - 8);
    double logits[MOST_VOCABULARY], p[MOST_VOCABULARY];
    int counts[MOST_VOCABULARY] = {0};
    draw_uniform(context, u, DRAWS, 1), draw_uniform(context, logits, n, 2.2);
    sample_all(logits, n, temperature, top_k, u, DRAWS, tokens);
    for (int i = 0; i < DRAWS; i++) counts[checked(tokens[i], n)]++;
    probabilities(logits, n, temperature, top_k, -1, p);
    if (chance_of_counts(counts, n, DRAWS, p) >= 1e-9) return;
    for (int mistake = 0; mistake < SAMPLING_MISTAKES; mistake++) {
        double other[MOST_VOCABULARY];
        probabilities(logits, n, temperature, top_k, mistake, other);
        if (chance_of_counts(counts, n, DRAWS, other) < 1e-4) continue;
        course_hint("%s", draws_of[mistake]);
        break;
    }
    int worst = 0;
    for (int i = 1; i < n; i++)
        if (fabs(counts[i] - DRAWS * p[i]) > fabs(counts[worst] - DRAWS * p[worst])) worst = i;
    course_fail("wrong draws: temperature %.3g, top_k %d: token %d is drawn %d times in %d, and "
                "its probability is %.6g, which makes %.0f",
                temperature, top_k, worst, counts[worst], DRAWS, p[worst], DRAWS * p[worst]);
}

static double between(ct_context *context, double low, double high) {
    return low + (high - low) * ct_item(ct_rand(context, CT_F64, CT_SCALAR));
}

static void draws(ct_context *context) {
    check_draws(context, 1, 0);
    check_draws(context, between(context, 0.4, 0.7), 0);
    check_draws(context, between(context, 1.6, 2.5), 0);
}

static void top_k_test(ct_context *context) {
    for (int k = 2; k <= 8; k += 2)
        check_draws(context, k == 4 ? 1 : between(context, 0.5, 0.8),
                    k + (int)ct_random_below(context, 2));
}

static void expect(const char *what, const double *logits, int n, double temperature, int top_k,
                   double u, int right) {
    const int token = checked(sample(logits, n, temperature, top_k, u), n);
    if (token != right)
        course_fail("wrong token: %s: sample returns %d, and must return %d", what, token, right);
}

static void edges(ct_context *context) {
    const double example[] = {0, log(2), log(4), 0}, below_one = nextafter(1, 0);
    expect("the example, u = 0.2", example, 4, 1, 0, 0.2, 1);
    expect("the example, u = 0.4", example, 4, 1, 0, 0.4, 2);
    expect("the example with temperature 0.5, u = 0.2", example, 4, 0.5, 0, 0.2, 1);
    expect("the example with temperature 0.5, u = 0.25", example, 4, 0.5, 0, 0.25, 2);
    expect("the example with top_k 2, u = 0.3", example, 4, 1, 2, 0.3, 1);
    expect("the example with top_k 2, u = 0.35", example, 4, 1, 2, 0.35, 2);
    double x[MOST_VOCABULARY];
    enum { N = 9 };
    draw_numbers(context, x, N, 1);
    const int best = (int)ct_random_below(context, N - 1), same = N - 1;
    x[best] = x[same] = 5; /* two are the largest */
    expect("temperature 0: the first of the largest logits", x, N, 0, 0, 0.999, best);
    expect("temperature 0 with top_k 3", x, N, 0, 3, 0.999, best);
    expect("top_k 1: the first of the largest logits", x, N, 1, 1, below_one, best);
    for (int i = 0; i < 20; i++) {
        const double u = between(context, 0, 1);
        expect("top_k larger than the vocabulary", x, N, 0.8, N + 3, u,
               sample_right(x, N, 0.8, N, u));
        double far[N];
        for (int j = 0; j < N; j++) far[j] = x[j] + (i % 2 ? 4000 : -4000);
        expect("logits of about 4000 or -4000", far, N, 1.5, 0, u, sample_right(far, N, 1.5, 0, u));
    }
    double hidden[N];
    memcpy(hidden, x, sizeof hidden);
    hidden[0] = hidden[1] = hidden[N - 1] = -INFINITY;
    expect("u = 0, where the first logits are -infinity", hidden, N, 1, 0, 0,
           sample_right(hidden, N, 1, 0, 0));
    expect("u just below 1, where the last logit is -infinity", hidden, N, 1, 0, below_one, N - 2);
    for (int i = 0; i < 200; i++) { /* the sum of probabilities may be rounded to less than 1 */
        draw_numbers(context, hidden, N - 1, 1);
        hidden[N - 1] = -INFINITY;
        expect("u just below 1, where the last logit is -infinity", hidden, N, 1, 0, below_one,
               N - 2);
    }
    const double equal[] = {1, 1, 1, 1, 1};
    expect("top_k 3 of five equal logits, u = 0.9", equal, 5, 1, 3, 0.9, 2);
}

/* ---- generation ---- */

static void generate_right(const int *prompt_tokens, int n, int count, double temperature,
                           int top_k, const double *u, int *tokens) {
    int all[CONTEXT];
    double logits[MOST_VOCABULARY];
    memcpy(all, prompt_tokens, (size_t)n * sizeof *all);
    for (int i = 0; i < count; i++) {
        run(all, 0, n + i, 0, logits);
        tokens[i] = all[n + i] = sample_right(logits, decoder.vocabulary, temperature, top_k, u[i]);
    }
}

/* Looks whether generate asked for more than one extension before each draw. */
static waste find_in_generation(int n, int count) {
    const int rows = count ? n + count - 1 : 0;
    waste found = find_repeated(rows, 1);
    if (!found.word) found = find_excess(count);
    if (found.word && !count)
        found.word = "the model is asked although no token is to be drawn: count is 0";
    bool one_more = count > 0;
    for (int layer = 0; layer < decoder.layers; layer++)
        one_more =
            one_more && work.rows[KEY][layer] == rows + 1 && work.calls[KEY][layer] == count + 1;
    if (one_more)
        found.word = "the last token that is drawn goes through the model, too: nobody draws after "
                     "it";
    return found;
}

static void generate_test(ct_context *context) {
    int prompt_tokens[CONTEXT], tokens[CONTEXT], right[CONTEXT];
    double u[CONTEXT];
    for (int trial = 0; trial < 5; trial++) {
        const int n = 1 + (int)ct_random_below(context, 8),
                  count = trial == 4 ? 0 : 8 + (int)ct_random_below(context, 8),
                  top_k = trial == 2 ? 3 : 0;
        const double temperature = trial == 0 ? 0 : between(context, 0.6, 1.5);
        draw_decoder(context, 1);
        draw_uniform(context, u, CONTEXT, 1);
        for (int i = 0; i < n; i++)
            prompt_tokens[i] = (int)ct_random_below(context, decoder.vocabulary);
        generate_right(prompt_tokens, n, count, temperature, top_k, u, right);
        memset(&work, 0, sizeof work), memset(tokens, 0xff, sizeof tokens);
        generate(&decoder, prompt_tokens, n, count, temperature, top_k, u, tokens);
        for (int i = 0; i < count; i++) {
            if (tokens[i] == -1)
                course_fail("generate writes no token %d: is it not written yet?", i);
            if (tokens[i] != right[i])
                course_fail("wrong token: temperature %.3g, top_k %d: token %d behind a prompt of "
                            "%d is %d and must be %d",
                            temperature, top_k, i, n, tokens[i], right[i]);
        }
        const waste found = find_in_generation(n, count);
        course_hint("%s", found.word ? found.word : "");
        if (found.word)
            course_fail("a prompt of %d tokens and %d that follow: %s", n, count, found.numbers);
    }
}

const course_test course_tests[] = {
    {"prompt", 1, prompt},      {"one_by_one", 1, one_by_one}, {"chunks", 1, chunks},
    {"rewind", 1, rewind_test}, {"work", 2, work_test},        {"edges", 1, edges},
    {"draws", 1, draws},        {"top_k", 1, top_k_test},      {"generate", 1, generate_test},
};
const int course_test_count = sizeof course_tests / sizeof *course_tests;
