/* Post-processors as a template of one text and of two, and trims of ranges. */
#include "postprocess.h"

#include <string.h>

#include "byte_alphabet.h"
#include "unicode.h"
#include "utf8.h"
#include "vocabulary.h"

/* A template that is being read, and whether one has been read. */
typedef struct {
    const cti_reading *reading;
    cti_postprocessor *out;
    bool has_template;
} post_read;

static const cti_template_part plain_single[] = {{CTI_FIRST_TEXT, 0}},
                               plain_pair[] = {{CTI_FIRST_TEXT, 0}, {CTI_SECOND_TEXT, 1}};

static bool parts_copy(const cti_reading *reading, const cti_template_part *from, int64_t n,
                       cti_template_part **to, int64_t *count) {
    *to = cti_arena_take(reading->arena, (size_t)n, sizeof **to);
    if (!*to) return false;
    if (n) memcpy(*to, from, (size_t)n * sizeof **to);
    *count = n;
    return true;
}

/* ---- TemplateProcessing ---- */

/* The array of ids of a special token's name; 0 after an error. */
static cti_json_at special_ids(const cti_reading *reading, cti_json_at kind, cti_json_at name) {
    const cti_json_tree *tree = reading->tree;
    const cti_json_at tokens = cti_json_member(tree, kind, "special_tokens");
    const cti_text text = cti_json_text(tree, name);
    const cti_json_at token = tokens ? cti_json_member(tree, tokens, text.at) : 0;
    const cti_json_at ids = token ? cti_json_member(tree, token, "ids") : 0;
    if (!ids || tree->value[ids].kind != CTI_JSON_ARRAY) {
        cti_reading_fail(reading, name, "\"special_tokens\" has no ids of '%s'", text.at);
        return 0;
    }
    return ids;
}

/* Reads an item of "single" or "pair": {"SpecialToken": {"id": ..., "type_id": ...}} or
 * {"Sequence":
 * ...}. Writes its parts to out, unless it is NULL. Returns their number, or -1 after an error. */
static int64_t template_part_read(const cti_reading *reading, cti_json_at kind, cti_json_at item,
                                  cti_template_part *out) {
    const cti_json_tree *tree = reading->tree;
    const cti_json_at special = cti_json_member(tree, item, "SpecialToken"),
                      sequence = cti_json_member(tree, item, "Sequence"),
                      piece = special ? special : sequence;
    const cti_json_at name = piece ? cti_json_member(tree, piece, "id") : 0;
    if (!name || tree->value[name].kind != CTI_JSON_STRING) {
        cti_reading_fail(reading, item, "an item is neither a SpecialToken nor a Sequence");
        return -1;
    }
    int64_t type = 0;
    if (!cti_reading_natural(reading, piece, "type_id", &type)) return -1;
    if (!special) {
        const cti_text text = cti_json_text(tree, name);
        if (text.size == 1 && (text.at[0] == 'A' || text.at[0] == 'B')) {
            const int64_t id = text.at[0] == 'A' ? CTI_FIRST_TEXT : CTI_SECOND_TEXT;
            if (out) *out = (cti_template_part){id, type};
            return 1;
        }
        cti_reading_fail(reading, name, "a sequence is 'A' or 'B', not '%s'", text.at);
        return -1;
    }
    const cti_json_at ids = special_ids(reading, kind, name);
    if (!ids) return -1;
    int64_t n = 0, id;
    for (cti_json_at i = cti_json_first(tree, ids); i; i = tree->value[i].next, n++) {
        if (!cti_json_whole(tree, i, &id) || id >= CTI_MOST_IDS) {
            cti_reading_fail(reading, i, "an id is no natural number below 2^31 - 1");
            return -1;
        }
        if (out) out[n] = (cti_template_part){id, type};
    }
    return n;
}

/* Reads "single" or "pair". */
static bool template_parts_read(const cti_reading *reading, cti_json_at kind, const char *key,
                                cti_template_part **parts, int64_t *count) {
    const cti_json_tree *tree = reading->tree;
    const cti_json_at list = cti_json_member(tree, kind, key);
    if (!list || tree->value[list].kind != CTI_JSON_ARRAY)
        return cti_reading_fail(reading, list ? list : kind, "it has no array \"%s\"", key);
    int64_t n = 0;
    for (cti_json_at i = cti_json_first(tree, list); i; i = tree->value[i].next) {
        const int64_t more = template_part_read(reading, kind, i, NULL);
        if (more < 0) return false;
        n += more;
    }
    *parts = cti_arena_take(reading->arena, (size_t)n, sizeof **parts);
    if (!*parts) return false;
    *count = 0;
    for (cti_json_at i = cti_json_first(tree, list); i; i = tree->value[i].next)
        *count += template_part_read(reading, kind, i, *parts + *count);
    return true;
}

static bool template_read(const cti_reading *reading, cti_json_at kind, cti_postprocessor *out) {
    static const char *const keys[] = {"single", "pair", "special_tokens", NULL};
    if (!cti_reading_only(reading, kind, keys) ||
        !template_parts_read(reading, kind, "single", &out->single, &out->singles) ||
        !template_parts_read(reading, kind, "pair", &out->pair, &out->pairs))
        return false;
    for (int64_t i = 0; i < out->singles; i++)
        if (out->single[i].id == CTI_SECOND_TEXT)
            return cti_reading_fail(reading, kind, "\"single\" has the sequence 'B'");
    return true;
}

/* ---- BertProcessing and RobertaProcessing ---- */

/* Reads "sep" or "cls": a token's text and its id. */
static bool special_pair_read(const cti_reading *reading, cti_json_at kind, const char *key,
                              int64_t *id) {
    const cti_json_tree *tree = reading->tree;
    const cti_json_at list = cti_json_member(tree, kind, key);
    const bool is_list = list && tree->value[list].kind == CTI_JSON_ARRAY;
    const cti_json_at text = is_list && tree->value[list].count == 2 ? list + 1 : 0;
    const cti_json_at number = text ? tree->value[text].next : 0;
    if (!number || !cti_json_whole(tree, number, id) || *id >= CTI_MOST_IDS)
        return cti_reading_fail(reading, list ? list : kind, "\"%s\" is not a token and its id",
                                key);
    return true;
}

static bool cls_and_sep_read(const cti_reading *reading, cti_json_at kind, cti_postprocessor *out,
                             bool roberta) {
    int64_t sep = CTI_NO_ID, cls = CTI_NO_ID;
    if (!special_pair_read(reading, kind, "sep", &sep) ||
        !special_pair_read(reading, kind, "cls", &cls))
        return false;
    const int64_t a = CTI_FIRST_TEXT, b = CTI_SECOND_TEXT;
    const cti_template_part single[] = {{cls, 0}, {a, 0}, {sep, 0}};
    const cti_template_part bert[] = {{cls, 0}, {a, 0}, {sep, 0}, {b, 1}, {sep, 1}};
    const cti_template_part pairs[] = {{cls, 0}, {a, 0}, {sep, 0}, {sep, 0}, {b, 0}, {sep, 0}};
    return parts_copy(reading, single, 3, &out->single, &out->singles) &&
           parts_copy(reading, roberta ? pairs : bert, roberta ? 6 : 5, &out->pair, &out->pairs);
}

/* ---- all kinds ---- */

/* Reads trim_offsets and add_prefix_space. */
static bool trim_read(const cti_reading *reading, cti_json_at kind, cti_postprocessor *out) {
    bool trims = true, keeps = true;
    if (!cti_reading_bool(reading, kind, "trim_offsets", &trims) ||
        !cti_reading_bool(reading, kind, "add_prefix_space", &keeps))
        return false;
    if (!trims) return true;
    if (out->trims == CTI_MOST_TRIMS)
        return cti_reading_fail(reading, kind, "more than %d post-processors that trim",
                                CTI_MOST_TRIMS);
    out->keeps_prefix[out->trims++] = keeps;
    return true;
}

enum { POST_TEMPLATE, POST_BERT, POST_ROBERTA, POST_BYTES, POST_SEQUENCE, POST_KINDS };
static const char *const post_names[POST_KINDS] = {"TemplateProcessing", "BertProcessing",
                                                   "RobertaProcessing", "ByteLevel", "Sequence"};

/* Reads a post-processor that is no Sequence. */
static bool post_read_one(post_read *read, cti_json_at value, int kind) {
    static const char *const bert_keys[] = {"sep", "cls", NULL},
                             *const byte_keys[] = {"add_prefix_space", "trim_offsets", "use_regex",
                                                   NULL},
                             *const roberta_keys[] = {"sep", "cls", "add_prefix_space",
                                                      "trim_offsets", NULL};
    cti_reading reading = *read->reading;
    reading.type_of = value;
    if (kind == POST_BYTES)
        return cti_reading_only(&reading, value, byte_keys) &&
               trim_read(&reading, value, read->out);
    if (read->has_template)
        return cti_reading_fail(&reading, value, "a second post-processor that adds tokens");
    read->has_template = true;
    if (kind == POST_TEMPLATE) return template_read(&reading, value, read->out);
    if (kind == POST_BERT)
        return cti_reading_only(&reading, value, bert_keys) &&
               cls_and_sep_read(&reading, value, read->out, false);
    return cti_reading_only(&reading, value, roberta_keys) &&
           cls_and_sep_read(&reading, value, read->out, true) &&
           trim_read(&reading, value, read->out);
}

/* Reads the list of a Sequence. A Sequence inside a Sequence is refused. */
static bool post_sequence_read(post_read *read, cti_json_at value) {
    const cti_json_tree *tree = read->reading->tree;
    const cti_json_at list = cti_json_member(tree, value, "processors");
    if (!list || tree->value[list].kind != CTI_JSON_ARRAY)
        return cti_reading_fail(read->reading, value, "a Sequence has no array \"processors\"");
    for (cti_json_at i = cti_json_first(tree, list); i; i = tree->value[i].next) {
        const int kind =
            cti_reading_kind(read->reading, i, "post-processor", post_names, POST_SEQUENCE);
        if (kind < 0 || !post_read_one(read, i, kind)) return false;
    }
    return true;
}

bool cti_postprocessor_read(const cti_reading *reading, cti_json_at value,
                            cti_postprocessor *postprocessor) {
    *postprocessor = (cti_postprocessor){0};
    post_read read = {.reading = reading, .out = postprocessor};
    if (value && reading->tree->value[value].kind != CTI_JSON_NULL) {
        const int kind = cti_reading_kind(reading, value, "post-processor", post_names, POST_KINDS);
        if (kind < 0) return false;
        if (kind == POST_SEQUENCE ? !post_sequence_read(&read, value)
                                  : !post_read_one(&read, value, kind))
            return false;
    }
    if (read.has_template) return true;
    return parts_copy(reading, plain_single, 1, &postprocessor->single, &postprocessor->singles) &&
           parts_copy(reading, plain_pair, 2, &postprocessor->pair, &postprocessor->pairs);
}

/* ---- trims ---- */

static bool is_trimmed(uint32_t c) { return c == cti_byte_character(' ') || cti_rust_is_space(c); }

/* The number of spaces at the beginning of a token's text, and at its end. */
static size_t leading_spaces(cti_text token) {
    size_t count = 0, length;
    for (size_t i = 0; i < token.size; i += length, count++)
        if (!is_trimmed(cti_utf8_get(token.at + i, &length))) break;
    return count;
}

static size_t trailing_spaces(cti_text token) {
    size_t count = 0, length;
    for (size_t i = token.size; i; count++) {
        do i--;
        while (i && cti_utf8_continues(token.at[i]));
        if (!is_trimmed(cti_utf8_get(token.at + i, &length))) break;
    }
    return count;
}

/* The offset that lies n characters before `at`, but not before `least`. */
static size_t spaces_go_back(const char *text, size_t at, size_t n, size_t least) {
    for (; n && at > least; n--) {
        do at--;
        while (at > least && cti_utf8_continues(text[at]));
    }
    return at;
}

static size_t spaces_go_on(const char *text, size_t at, size_t n, size_t most) {
    for (; n && at < most; n--) at += cti_utf8_length((unsigned char)text[at]);
    return at < most ? at : most;
}

/* Whether text[0 ... at) has at least n characters. */
static bool has_characters(const char *text, size_t at, size_t n) {
    return n <= at / 4 || spaces_go_on(text, 0, n - 1, at) < at;
}

void cti_postprocessor_trim(const cti_postprocessor *postprocessor, cti_text token, bool first,
                            const char *text, size_t size, int64_t range[2]) {
    if (!token.size || range[0] < 0 || range[1] < range[0] || (uint64_t)range[1] > size) return;
    const size_t leading = leading_spaces(token), trailing = trailing_spaces(token);
    if (!leading && !trailing) return;
    size_t begin = (size_t)range[0], end = (size_t)range[1];
    for (int i = 0; i < postprocessor->trims; i++) {
        const bool keeps = postprocessor->keeps_prefix[i] && (first || begin == 0) && leading == 1;
        if (!keeps) begin = spaces_go_on(text, begin, leading, end);
        if (trailing && has_characters(text, end, trailing))
            end = spaces_go_back(text, end, trailing, begin);
    }
    range[0] = (int64_t)begin;
    range[1] = (int64_t)end;
}
