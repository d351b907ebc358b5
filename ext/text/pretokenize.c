/* Pre-tokenizers: reading them as lists of steps, and running the steps. A Sequence, also one
 * inside of another, is the list of its members' steps. */
#include "pretokenize.h"

#include <stdlib.h>

#include "presplit.h"
#include "unicode.h"
#include "utf8.h"

enum { MOST_STEPS = 64 };

struct cti_pretokenizer {
    cti_step step[MOST_STEPS];
    int steps;
    bool ends_in_bytes;
};

/* Adds a step; returns it, or NULL after an error. */
static cti_step *presplit_step_add(const cti_reading *reading, cti_json_at value,
                                   cti_pretokenizer *made, cti_step_kind kind) {
    if (made->steps == MOST_STEPS) {
        cti_reading_fail(reading, value, "the pre-tokenizer has too many parts");
        return NULL;
    }
    cti_step *step = &made->step[made->steps++];
    *step = (cti_step){.kind = kind};
    return step;
}

static bool class_step_add(const cti_reading *reading, cti_json_at value, cti_pretokenizer *made,
                           cti_character_class *in_class, cti_behavior behavior) {
    cti_step *step = presplit_step_add(reading, value, made, CTI_STEP_CLASS);
    if (!step) return false;
    step->in_class = in_class;
    step->behavior = behavior;
    return true;
}

/* Reads a member that is required. */
static bool requires_bool(const cti_reading *reading, cti_json_at value, const char *key,
                          bool *out) {
    if (!cti_json_member(reading->tree, value, key))
        return cti_reading_fail(reading, value, "it has no \"%s\"", key);
    return cti_reading_bool(reading, value, key, out);
}

/* Reads a member that is one of n names or absent. */
static bool quoted_name_read(const cti_reading *reading, cti_json_at value, const char *key,
                             const char *const *names, int n, int *out) {
    cti_text text = {0};
    if (!cti_reading_text(reading, value, key, &text)) return false;
    if (!text.at) return true;
    for (int i = 0; i < n; i++) {
        if (cti_text_compare(text, cti_text_of(names[i])) != 0) continue;
        *out = i;
        return true;
    }
    return cti_reading_fail(reading, cti_json_member(reading->tree, value, key),
                            "\"%s\" cannot be '%s'", key, text.at);
}

static bool behavior_read(const cti_reading *reading, cti_json_at value, cti_behavior *behavior) {
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious",
                                        "MergedWithNext", "Contiguous"};
    int i = (int)*behavior;
    if (!quoted_name_read(reading, value, "behavior", names, 5, &i)) return false;
    *behavior = (cti_behavior)i;
    return true;
}

/* Reads a member that is one character. */
static bool needs_char(const cti_reading *reading, cti_json_at value, const char *key,
                       uint32_t *c) {
    cti_text text;
    if (!cti_reading_needs_text(reading, value, key, &text)) return false;
    size_t length = 0;
    if (text.size) *c = cti_utf8_get(text.at, &length);
    return (text.size && length == text.size) ||
           cti_reading_fail(reading, value, "\"%s\" is not one character", key);
}

static bool byte_level_read(const cti_reading *reading, cti_json_at value, cti_pretokenizer *made) {
    static const char *const keys[] = {"add_prefix_space", "trim_offsets", "use_regex", NULL};
    bool prefix = false, trim = false, regex = true;
    if (!cti_reading_only(reading, value, keys) ||
        !requires_bool(reading, value, keys[0], &prefix) ||
        !requires_bool(reading, value, keys[1], &trim) ||
        !cti_reading_bool(reading, value, keys[2], &regex))
        return false;
    if (prefix && !presplit_step_add(reading, value, made, CTI_STEP_PREFIX)) return false;
    if (regex) {
        cti_step *step = presplit_step_add(reading, value, made, CTI_STEP_PATTERN);
        if (!step) return false;
        step->behavior = CTI_ISOLATED;
        step->pattern = cti_pattern_new(reading, value, cti_text_of(cti_gpt2_expression), false);
        if (!step->pattern) return false;
    }
    return presplit_step_add(reading, value, made, CTI_STEP_ALPHABET) != NULL;
}

static bool split_read(const cti_reading *reading, cti_json_at value, cti_pretokenizer *made) {
    static const char *const keys[] = {"pattern", "behavior", "invert", NULL};
    cti_step *step = presplit_step_add(reading, value, made, CTI_STEP_PATTERN);
    if (!step || !cti_reading_only(reading, value, keys)) return false;
    for (int i = 0; i < 2; i++)
        if (!cti_json_member(reading->tree, value, keys[i]))
            return cti_reading_fail(reading, value, "it has no \"%s\"", keys[i]);
    const cti_json_at pattern = cti_json_member(reading->tree, value, "pattern");
    return cti_pattern_read(reading, pattern, &step->pattern) &&
           behavior_read(reading, value, &step->behavior) &&
           requires_bool(reading, value, "invert", &step->invert);
}

static bool digits_read(const cti_reading *reading, cti_json_at value, cti_pretokenizer *made) {
    static const char *const keys[] = {"individual_digits", NULL};
    bool individual = false;
    return cti_reading_only(reading, value, keys) &&
           requires_bool(reading, value, keys[0], &individual) &&
           class_step_add(reading, value, made, cti_rust_is_numeric,
                          individual ? CTI_ISOLATED : CTI_CONTIGUOUS);
}

static bool punctuation_read(const cti_reading *reading, cti_json_at value,
                             cti_pretokenizer *made) {
    static const char *const keys[] = {"behavior", NULL};
    cti_behavior behavior = CTI_ISOLATED;
    return cti_reading_only(reading, value, keys) && behavior_read(reading, value, &behavior) &&
           class_step_add(reading, value, made, cti_bert_is_punctuation, behavior);
}

/* Old files have add_prefix_space in place of prepend_scheme, and str_rep beside it, which repeats
 * the replacement. */
static bool metaspace_read(const cti_reading *reading, cti_json_at value, cti_pretokenizer *made) {
    static const char *const keys[] = {"replacement", "prepend_scheme",   "split",
                                       "str_rep",     "add_prefix_space", NULL};
    static const char *const schemes[] = {"always", "first", "never"};
    int scheme = CTI_PREPEND_ALWAYS;
    bool prefix = true, split = true;
    uint32_t c = 0;
    if (!cti_reading_only(reading, value, keys) || !needs_char(reading, value, keys[0], &c) ||
        !quoted_name_read(reading, value, keys[1], schemes, 3, &scheme) ||
        !cti_reading_bool(reading, value, "split", &split) ||
        !cti_reading_bool(reading, value, "add_prefix_space", &prefix))
        return false;
    if (!prefix && scheme != CTI_PREPEND_NEVER)
        return cti_reading_fail(reading, value,
                                "\"add_prefix_space\" does not agree with \"prepend_scheme\"");
    cti_step *step = presplit_step_add(reading, value, made, CTI_STEP_METASPACE);
    if (!step) return false;
    step->c = c;
    step->scheme = (cti_prepend_scheme)scheme;
    if (!split) return true;
    step = presplit_step_add(reading, value, made, CTI_STEP_CLASS);
    if (!step) return false;
    step->c = c;
    step->behavior = CTI_MERGED_WITH_NEXT;
    return true;
}

static bool delimiter_read(const cti_reading *reading, cti_json_at value, cti_pretokenizer *made) {
    static const char *const keys[] = {"delimiter", NULL};
    cti_step *step = presplit_step_add(reading, value, made, CTI_STEP_CLASS);
    return step && cti_reading_only(reading, value, keys) &&
           needs_char(reading, value, keys[0], &step->c);
}

static bool bert_pieces_read(const cti_reading *reading, cti_json_at value,
                             cti_pretokenizer *made) {
    static const char *const keys[] = {NULL};
    return cti_reading_only(reading, value, keys) &&
           class_step_add(reading, value, made, cti_rust_is_space, CTI_REMOVED) &&
           class_step_add(reading, value, made, cti_bert_is_punctuation, CTI_ISOLATED);
}

static bool whitespace_read(const cti_reading *reading, cti_json_at value, cti_pretokenizer *made) {
    static const char *const keys[] = {NULL};
    return cti_reading_only(reading, value, keys) &&
           presplit_step_add(reading, value, made, CTI_STEP_WORDS) != NULL;
}

static bool whitespace_split_read(const cti_reading *reading, cti_json_at value,
                                  cti_pretokenizer *made) {
    static const char *const keys[] = {NULL};
    return cti_reading_only(reading, value, keys) &&
           class_step_add(reading, value, made, cti_rust_is_space, CTI_REMOVED);
}

static bool pretokenizer_read(const cti_reading *reading, cti_json_at value,
                              cti_pretokenizer *made);

/* The tree of JSON bounds the depth of Sequences. */
static bool sequence_read_of(const cti_reading *reading, cti_json_at value,
                             cti_pretokenizer *made) {
    static const char *const keys[] = {"pretokenizers", NULL};
    if (!cti_reading_only(reading, value, keys)) return false;
    const cti_json_tree *tree = reading->tree;
    const cti_json_at list = cti_json_member(tree, value, keys[0]);
    if (!list || tree->value[list].kind != CTI_JSON_ARRAY)
        return cti_reading_fail(reading, value, "it has no list of \"%s\"", keys[0]);
    for (cti_json_at i = cti_json_first(tree, list); i; i = tree->value[i].next)
        if (!pretokenizer_read(reading, i, made)) return false;
    return true;
}

static bool pretokenizer_read(const cti_reading *reading, cti_json_at value,
                              cti_pretokenizer *made) {
    static const char *const names[] = {
        "ByteLevel",  "Split",           "Digits",      "Metaspace",          "BertPreTokenizer",
        "Whitespace", "WhitespaceSplit", "Punctuation", "CharDelimiterSplit", "Sequence"};
    static bool (*const readers[])(const cti_reading *, cti_json_at, cti_pretokenizer *) = {
        byte_level_read,  split_read,      digits_read,           metaspace_read,
        bert_pieces_read, whitespace_read, whitespace_split_read, punctuation_read,
        delimiter_read,   sequence_read_of};
    cti_reading inner = *reading;
    inner.type_of = value;
    const int kind =
        cti_reading_kind(&inner, value, "pre-tokenizer", names, sizeof names / sizeof *names);
    return kind >= 0 && readers[kind](&inner, value, made);
}

bool cti_pretokenizer_read(const cti_reading *reading, cti_json_at value,
                           const cti_pretokenizer **pretokenizer) {
    *pretokenizer = NULL;
    if (reading->tree->value[value].kind == CTI_JSON_NULL) return true;
    cti_pretokenizer *made = cti_arena_take(reading->arena, 1, sizeof *made);
    if (!made) return false;
    made->steps = 0;
    if (!pretokenizer_read(reading, value, made)) return false;
    made->ends_in_bytes = made->steps && made->step[made->steps - 1].kind == CTI_STEP_ALPHABET;
    *pretokenizer = made;
    return true;
}

bool cti_pretokenizer_ends_in_bytes(const cti_pretokenizer *pretokenizer) {
    return pretokenizer && pretokenizer->ends_in_bytes;
}

cti_next_piece *cti_pretokenizer_pieces(const cti_pretokenizer *pretokenizer) {
    if (!pretokenizer || pretokenizer->steps != 1 + pretokenizer->ends_in_bytes) return NULL;
    const cti_step *step = &pretokenizer->step[0];
    if (step->kind != CTI_STEP_PATTERN) return NULL;
    /* A pattern that covers the text has no gaps. */
    const bool keeps =
        step->behavior == CTI_ISOLATED || (step->behavior == CTI_REMOVED && step->invert);
    return keeps ? cti_pattern_pieces(step->pattern) : NULL;
}

/* Makes one piece of the whole text. */
static bool pieces_begin(cti_pieces *pieces) {
    pieces->count = 0;
    if (!pieces->text.size) return true;
    if (pieces->text.size >= UINT32_MAX) return false;
    if (!pieces->room) {
        pieces->piece = malloc(sizeof *pieces->piece);
        if (!pieces->piece) return false;
        pieces->room = 1;
    }
    pieces->piece[pieces->count++] = (cti_piece){.end = (uint32_t)pieces->text.size};
    return true;
}

bool cti_pretokenizer_run(const cti_pretokenizer *pretokenizer, cti_pieces *pieces) {
    if (!pieces_begin(pieces)) return false;
    const int steps = pretokenizer ? pretokenizer->steps - pretokenizer->ends_in_bytes : 0;
    for (int i = 0; i < steps; i++) {
        const cti_step *step = &pretokenizer->step[i];
        const bool works = step->kind < CTI_STEP_PREFIX ? cti_pieces_divide(step, pieces)
                                                        : cti_pieces_rewrite(step, pieces);
        if (!works) return false;
    }
    return true;
}

void cti_pieces_free(cti_pieces *pieces) {
    cti_aligned_free(&pieces->text);
    cti_aligned_free(&pieces->spare);
    free(pieces->piece);
    free(pieces->spared);
    cti_pattern_memory_free(&pieces->memory);
    *pieces = (cti_pieces){0};
}
