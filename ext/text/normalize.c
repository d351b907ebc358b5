/* Normalizers. One that is read is a list of steps: a Sequence is its parts' steps, a
 * BertNormalizer the steps for which its options ask. A step goes through the whole text, and
 * writes a new one only if it changes something.
 *
 * The sources of new characters are as in the tokenizers package; tests/text/test_text_normalize.c
 * has them for each kind. */
#include "normalize.h"

#include "charsmap.h"
#include "normal_forms.h"
#include "pattern.h"
#include "unicode.h"
#include "utf8.h"

typedef enum {
    STEP_NFD, /* the forms in the order of cti_form */
    STEP_NFC,
    STEP_NFKD,
    STEP_NFKC,
    STEP_LOWERCASE,
    STEP_STRIP_ACCENTS,
    STEP_BERT_CLEAN,
    STEP_BERT_CHINESE,
    STEP_BERT_ACCENTS,
    STEP_REPLACE,
    STEP_PREPEND,
    STEP_STRIP,
    STEP_PRECOMPILED
} step_kind;

struct cti_normalizer {
    step_kind kind;
    cti_text text;                /* Replace's content, or the text that Prepend inserts */
    const cti_pattern *pattern;   /* of Replace */
    bool left, right;             /* of Strip */
    const cti_charsmap *charsmap; /* of Precompiled */
    const cti_normalizer *next;
};

/* ---- reading ---- */

typedef struct {
    cti_reading reading; /* with the kind that is being read as type_of */
    cti_json_at value;
    const cti_normalizer **end; /* the place of the next step */
} step_reader;

static cti_normalizer *step_add(step_reader *reader, step_kind kind) {
    cti_normalizer *step = cti_arena_take(reader->reading.arena, 1, sizeof *step);
    if (!step) return NULL;
    *step = (cti_normalizer){.kind = kind};
    *reader->end = step;
    reader->end = &step->next;
    return step;
}

/* These check that a member exists: a string, true or false, or another value. */
static bool needs_member(const step_reader *reader, const char *key) {
    const cti_json_tree *tree = reader->reading.tree;
    const cti_json_at member = cti_json_member(tree, reader->value, key);
    if (member && tree->value[member].kind != CTI_JSON_NULL) return true;
    return cti_reading_fail(&reader->reading, reader->value, "it has no \"%s\"", key);
}

static bool needs_bool(const step_reader *reader, const char *key, bool *out) {
    return needs_member(reader, key) && cti_reading_bool(&reader->reading, reader->value, key, out);
}

static bool has_only(const step_reader *reader, const char *const *keys) {
    return cti_reading_only(&reader->reading, reader->value, keys);
}

static bool plain_step_read(step_reader *reader, step_kind kind) {
    static const char *const keys[] = {NULL};
    return has_only(reader, keys) && step_add(reader, kind);
}

static bool bert_step_read(step_reader *reader) {
    static const char *const keys[] = {"clean_text", "handle_chinese_chars", "strip_accents",
                                       "lowercase", NULL};
    bool clean, chinese, lowercase;
    if (!has_only(reader, keys) || !needs_bool(reader, keys[0], &clean) ||
        !needs_bool(reader, keys[1], &chinese) || !needs_bool(reader, keys[3], &lowercase)) {
        return false;
    }
    bool accents = lowercase; /* the default */
    if (!cti_reading_bool(&reader->reading, reader->value, keys[2], &accents)) return false;
    return (!clean || step_add(reader, STEP_BERT_CLEAN)) &&
           (!chinese || step_add(reader, STEP_BERT_CHINESE)) &&
           (!accents || (step_add(reader, STEP_NFD) && step_add(reader, STEP_BERT_ACCENTS))) &&
           (!lowercase || step_add(reader, STEP_LOWERCASE));
}

static bool replace_step_read(step_reader *reader) {
    static const char *const keys[] = {"pattern", "content", NULL};
    if (!has_only(reader, keys) || !needs_member(reader, keys[0])) return false;
    cti_normalizer *step = step_add(reader, STEP_REPLACE);
    if (!step) return false;
    const cti_json_at pattern = cti_json_member(reader->reading.tree, reader->value, keys[0]);
    return cti_reading_needs_text(&reader->reading, reader->value, keys[1], &step->text) &&
           cti_pattern_read(&reader->reading, pattern, &step->pattern);
}

static bool prepend_step_read(step_reader *reader) {
    static const char *const keys[] = {"prepend", NULL};
    if (!has_only(reader, keys)) return false;
    cti_normalizer *step = step_add(reader, STEP_PREPEND);
    return step && cti_reading_needs_text(&reader->reading, reader->value, keys[0], &step->text);
}

static bool strip_step_read(step_reader *reader) {
    static const char *const keys[] = {"strip_left", "strip_right", NULL};
    if (!has_only(reader, keys)) return false;
    cti_normalizer *step = step_add(reader, STEP_STRIP);
    return step && needs_bool(reader, keys[0], &step->left) &&
           needs_bool(reader, keys[1], &step->right);
}

static bool precompiled_step_read(step_reader *reader) {
    static const char *const keys[] = {"precompiled_charsmap", NULL};
    if (!has_only(reader, keys) || !needs_member(reader, keys[0])) return false;
    cti_normalizer *step = step_add(reader, STEP_PRECOMPILED);
    const cti_json_at map = cti_json_member(reader->reading.tree, reader->value, keys[0]);
    return step && cti_charsmap_read(&reader->reading, map, &step->charsmap);
}

static bool steps_read(step_reader *reader, cti_json_at value);

static bool normalizer_sequence_read(step_reader *reader) {
    static const char *const keys[] = {"normalizers", NULL};
    if (!has_only(reader, keys) || !needs_member(reader, keys[0])) return false;
    const cti_json_tree *tree = reader->reading.tree;
    const cti_json_at list = cti_json_member(tree, reader->value, keys[0]);
    if (tree->value[list].kind != CTI_JSON_ARRAY) {
        return cti_reading_fail(&reader->reading, list, "\"%s\" is not an array", keys[0]);
    }
    for (cti_json_at i = cti_json_first(tree, list); i; i = tree->value[i].next) {
        if (!steps_read(reader, i)) return false;
    }
    return true;
}

/* Reads the steps of one value. The parser of JSON bounds the depth of Sequences in Sequences. */
static bool steps_read(step_reader *reader, cti_json_at value) {
    enum { PLAIN = 6 };
    static const char *const kinds[] = {
        "NFC",     "NFD",     "NFKC",  "NFKD",     "Lowercase",  "StripAccents", "BertNormalizer",
        "Replace", "Prepend", "Strip", "Sequence", "Precompiled"};
    static const step_kind plain[PLAIN] = {STEP_NFC,  STEP_NFD,       STEP_NFKC,
                                           STEP_NFKD, STEP_LOWERCASE, STEP_STRIP_ACCENTS};
    const int kind = cti_reading_kind(&reader->reading, value, "normalizer", kinds,
                                      sizeof kinds / sizeof *kinds);
    if (kind < 0) return false;
    step_reader inner = *reader;
    inner.value = inner.reading.type_of = value;
    bool read = false;
    switch (kind) {
    case PLAIN: read = bert_step_read(&inner); break;
    case PLAIN + 1: read = replace_step_read(&inner); break;
    case PLAIN + 2: read = prepend_step_read(&inner); break;
    case PLAIN + 3: read = strip_step_read(&inner); break;
    case PLAIN + 4: read = normalizer_sequence_read(&inner); break;
    case PLAIN + 5: read = precompiled_step_read(&inner); break;
    default: read = plain_step_read(&inner, plain[kind]); break;
    }
    reader->end = inner.end;
    return read;
}

bool cti_normalizer_read(const cti_reading *reading, cti_json_at value,
                         const cti_normalizer **normalizer) {
    *normalizer = NULL;
    if (reading->tree->value[value].kind == CTI_JSON_NULL) return true;
    step_reader reader = {.reading = *reading, .end = normalizer};
    return steps_read(&reader, value);
}

/* ---- normalizing ---- */

/* Does a step for the character c, the bytes [at, at + length) of the text. */
typedef void edit_character(cti_edit *edit, uint32_t c, size_t at, size_t length);

static void lower_one(cti_edit *edit, uint32_t c, size_t at, size_t length) {
    uint32_t lower[CTI_FOLDED];
    int n = 1;
    if (c < 0x80) {
        if (c < 'A' || c > 'Z') return;
        lower[0] = c + ('a' - 'A');
    } else {
        n = cti_unicode_lower(c, lower);
        if (n == 1 && lower[0] == c) return;
    }
    cti_edit_drop(edit, at, at + length);
    for (int i = 0; i < n; i++) cti_edit_put(edit, lower[i], at);
}

static void accent_strip(cti_edit *edit, uint32_t c, size_t at, size_t length) {
    if (c >= 0x80 && cti_unicode_is_accent(c)) cti_edit_drop(edit, at, at + length);
}

static void bert_accent_strip(cti_edit *edit, uint32_t c, size_t at, size_t length) {
    if (c >= 0x80 && cti_bert_is_accent(c)) cti_edit_drop(edit, at, at + length);
}

static void bert_clean(cti_edit *edit, uint32_t c, size_t at, size_t length) {
    if (c >= ' ' && c < 0x7F) return;
    const bool space = cti_bert_is_space(c);
    if (!space && !cti_bert_is_removed(c)) return;
    cti_edit_drop(edit, at, at + length);
    if (space) cti_edit_put(edit, ' ', at);
}

static void space_chinese(cti_edit *edit, uint32_t c, size_t at, size_t length) {
    if (c < 0x80 || !cti_bert_is_chinese(c)) return;
    cti_edit_drop(edit, at, at + length);
    cti_edit_put(edit, ' ', at);
    cti_edit_put(edit, c, at);
    cti_edit_put(edit, ' ', at);
}

static void edit_each_character(cti_edit *edit, edit_character *one) {
    const cti_aligned *text = edit->text;
    size_t length;
    for (size_t at = 0; at < text->size; at += length) {
        const uint32_t c = cti_utf8_get(text->at + at, &length);
        one(edit, c, at, length);
    }
}

/* Appends all characters of a text. */
static void edit_put_text(cti_edit *edit, cti_text text, size_t from) {
    size_t length;
    for (size_t at = 0; at < text.size; at += length) {
        cti_edit_put(edit, cti_utf8_get(text.at + at, &length), from);
    }
}

/* The prepended text has the first character's source, and so has that character itself. If the
 * prepended text is empty the character has no source, as in the tokenizers package. */
static void text_prepend(cti_edit *edit, cti_text inserted) {
    const cti_aligned *text = edit->text;
    if (!text->size) return;
    size_t length;
    const uint32_t first = cti_utf8_get(text->at, &length);
    cti_edit_drop(edit, 0, length);
    edit_put_text(edit, inserted, 0);
    cti_edit_put(edit, first, inserted.size ? 0 : CTI_FROM_NOTHING);
}

static void spaces_strip(cti_edit *edit, const cti_normalizer *step) {
    const cti_aligned *text = edit->text;
    size_t begin = 0, end = text->size, length;
    while (step->left && begin < end &&
           cti_rust_is_space(cti_utf8_get(text->at + begin, &length))) {
        begin += length;
    }
    while (step->right && begin < end) {
        size_t last = end - 1;
        while (cti_utf8_continues(text->at[last])) last--;
        if (!cti_rust_is_space(cti_utf8_get(text->at + last, &length))) break;
        end = last;
    }
    if (begin) cti_edit_drop(edit, 0, begin);
    if (end < text->size) cti_edit_drop(edit, end, text->size);
}

/* Replaces each match by the step's text, which gets the range of the match's last byte in the
 * original. Returns false if the search has no memory. */
static bool matches_replace(cti_edit *edit, const cti_normalizer *step,
                            cti_pattern_memory *memory) {
    const cti_aligned *text = edit->text;
    cti_extent found = {0};
    while (text->size) {
        const cti_find_result result =
            cti_pattern_find(step->pattern, text->at, text->size, found.end, memory, &found);
        if (result == CTI_NO_MEMORY) return false;
        if (result == CTI_NOT_FOUND) break;
        cti_edit_drop(edit, found.begin, found.end);
        edit_put_text(edit, step->text, found.end ? found.end - 1 : CTI_FROM_NOTHING);
    }
    return true;
}

static bool matches_replace_all(cti_edit *edit, const cti_normalizer *step) {
    cti_pattern_memory memory = {0};
    const bool replaced = matches_replace(edit, step, &memory);
    cti_pattern_memory_free(&memory);
    return replaced;
}

static bool normalizer_step_run(const cti_normalizer *step, cti_aligned *text, cti_aligned *spare) {
    cti_edit edit = cti_edit_begin(text, spare);
    bool fits = true;
    switch (step->kind) {
    case STEP_NFD:
    case STEP_NFC:
    case STEP_NFKD:
    case STEP_NFKC: return cti_normal_form((cti_form)(step->kind - STEP_NFD), text, spare);
    case STEP_PRECOMPILED: return cti_charsmap_run(step->charsmap, text, spare);
    case STEP_LOWERCASE: edit_each_character(&edit, lower_one); break;
    case STEP_STRIP_ACCENTS: edit_each_character(&edit, accent_strip); break;
    case STEP_BERT_CLEAN: edit_each_character(&edit, bert_clean); break;
    case STEP_BERT_CHINESE: edit_each_character(&edit, space_chinese); break;
    case STEP_BERT_ACCENTS: edit_each_character(&edit, bert_accent_strip); break;
    case STEP_REPLACE: fits = matches_replace_all(&edit, step); break;
    case STEP_PREPEND: text_prepend(&edit, step->text); break;
    case STEP_STRIP: spaces_strip(&edit, step); break;
    }
    if (!fits) edit.rewriter.failed = true;
    return cti_edit_end(&edit) && fits;
}

bool cti_normalizer_run(const cti_normalizer *normalizer, cti_aligned *text, cti_aligned *spare) {
    for (const cti_normalizer *step = normalizer; step; step = step->next) {
        if (!normalizer_step_run(step, text, spare)) return false;
    }
    return true;
}
