/* Pre-tokenizers: the pieces of texts and their places. The tokenizers package
 * 0.23.3 gave the values. */
#include <stdio.h>

#include "ext/text/byte_alphabet.h"
#include "ext/text/pretokenize.h"
#include "ext/text/utf8.h"
#include "text_reading.h"

enum { MOST_PIECES = 16, LONG_TEXT = 1000000 };

typedef struct {
    const char *text;
    size_t begin, end; /* in the original */
} wanted_piece;

/* Writes a text in the alphabet of bytes. */
static size_t in_alphabet(const char *text, size_t size, char *out) {
    size_t n = 0;
    for (size_t i = 0; i < size; i++)
        n += cti_utf8_put(out + n, cti_byte_character((unsigned char)text[i]));
    return n;
}

static void check_piece(const cti_pieces *pieces, size_t i, bool bytes, const wanted_piece *wanted,
                        const char *json) {
    const cti_piece piece = pieces->piece[i];
    const char *at = pieces->text.at + piece.begin;
    size_t size = piece.end - piece.begin;
    char written[256];
    if (bytes) {
        size = in_alphabet(at, size, written);
        at = written;
    }
    const cti_extent origin = cti_aligned_origin(&pieces->text, piece.begin, piece.end);
    ck_assert_msg(size == strlen(wanted->text) && memcmp(at, wanted->text, size) == 0 &&
                      origin.begin == wanted->begin && origin.end == wanted->end,
                  "%s: piece %d is '%.*s' (%d, %d)", json, (int)i, (int)size, at, (int)origin.begin,
                  (int)origin.end);
}

/* The JSON of pre-tokenizers. */
#define BYTE_LEVEL(prefix, regex)                                                                  \
    "{\"type\": \"ByteLevel\", \"add_prefix_space\": " prefix                                      \
    ", \"trim_offsets\": true, \"use_regex\": " regex "}"
#define SPLIT(pattern, behavior, invert)                                                           \
    "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"" pattern "\"}, \"behavior\": \"" behavior   \
    "\", \"invert\": " invert "}"
#define SEQUENCE(list) "{\"type\": \"Sequence\", \"pretokenizers\": [" list "]}"
#define SPLIT_STRING(string, behavior)                                                             \
    "{\"type\": \"Split\", \"pattern\": {\"String\": \"" string "\"}, \"behavior\": \"" behavior   \
    "\", \"invert\": false}"
#define DIGITS(individual) "{\"type\": \"Digits\", \"individual_digits\": " individual "}"
#define METASPACE(scheme, split)                                                                   \
    "{\"type\": \"Metaspace\", \"replacement\": \"\xE2\x96\x81\", \"prepend_scheme\": \"" scheme   \
    "\", \"split\": " split "}"

START_TEST(pieces_of_texts) {
    static const struct {
        const char *json, *text;
        wanted_piece piece[MOST_PIECES];
    } cases[] = {
        {BYTE_LEVEL("false", "true"),
         "H\xC3\xA9's  12 x",
         {{"H\xC3\x83\xC2\xA9", 0, 3},
          {"'s", 3, 5},
          {"\xC4\xA0", 5, 6},
          {"\xC4\xA0"
           "12",
           6, 9},
          {"\xC4\xA0x", 9, 11}}},
        {BYTE_LEVEL("true", "true"),
         "H\xC3\xA9 x",
         {{"\xC4\xA0H\xC3\x83\xC2\xA9", 0, 3}, {"\xC4\xA0x", 3, 5}}},
        {BYTE_LEVEL("true", "false"),
         " H\xC3\xA9 x",
         {{"\xC4\xA0H\xC3\x83\xC2\xA9\xC4\xA0x", 0, 6}}},
        {BYTE_LEVEL("true", "false"),
         "H\xC3\xA9 x",
         {{"\xC4\xA0H\xC3\x83\xC2\xA9\xC4\xA0x", 0, 5}}},
        {SPLIT("-|(?=o)", "Removed", "false"),
         "a--bo-d-",
         {{"a", 0, 1}, {"b", 3, 4}, {"o", 4, 5}, {"d", 6, 7}}},
        {SPLIT("-|(?=o)", "Removed", "true"),
         "a--bo-d-",
         {{"-", 1, 2}, {"-", 2, 3}, {"-", 5, 6}, {"-", 7, 8}}},
        {SPLIT("-|(?=o)", "Isolated", "false"),
         "a--bo-d-",
         {{"a", 0, 1},
          {"-", 1, 2},
          {"-", 2, 3},
          {"b", 3, 4},
          {"o", 4, 5},
          {"-", 5, 6},
          {"d", 6, 7},
          {"-", 7, 8}}},
        {SPLIT("-|(?=o)", "Isolated", "true"),
         "a--bo-d-",
         {{"a", 0, 1},
          {"-", 1, 2},
          {"-", 2, 3},
          {"b", 3, 4},
          {"o", 4, 5},
          {"-", 5, 6},
          {"d", 6, 7},
          {"-", 7, 8}}},
        {SPLIT("-|(?=o)", "MergedWithPrevious", "false"),
         "a--bo-d-",
         {{"a-", 0, 2}, {"-", 2, 3}, {"b", 3, 4}, {"o-", 4, 6}, {"d-", 6, 8}}},
        {SPLIT("-|(?=o)", "MergedWithPrevious", "true"),
         "a--bo-d-",
         {{"a", 0, 1}, {"-", 1, 2}, {"-b", 2, 4}, {"o", 4, 5}, {"-d", 5, 7}, {"-", 7, 8}}},
        {SPLIT("-|(?=o)", "MergedWithNext", "false"),
         "a--bo-d-",
         {{"a", 0, 1}, {"-", 1, 2}, {"-b", 2, 4}, {"o", 4, 5}, {"-d", 5, 7}, {"-", 7, 8}}},
        {SPLIT("-|(?=o)", "MergedWithNext", "true"),
         "a--bo-d-",
         {{"a-", 0, 2}, {"-", 2, 3}, {"b", 3, 4}, {"o-", 4, 6}, {"d-", 6, 8}}},
        {SPLIT("-|(?=o)", "Contiguous", "false"),
         "a--bo-d-",
         {{"a", 0, 1},
          {"--", 1, 3},
          {"b", 3, 4},
          {"o", 4, 5},
          {"-", 5, 6},
          {"d", 6, 7},
          {"-", 7, 8}}},
        {SPLIT("-|(?=o)", "Contiguous", "true"),
         "a--bo-d-",
         {{"a", 0, 1},
          {"--", 1, 3},
          {"b", 3, 4},
          {"o", 4, 5},
          {"-", 5, 6},
          {"d", 6, 7},
          {"-", 7, 8}}},
        {SPLIT_STRING("-", "MergedWithNext"), "a--b", {{"a", 0, 1}, {"-", 1, 2}, {"-b", 2, 4}}},
        {SPLIT_STRING("", "Isolated"),
         "a\xC3\xA9"
         "b",
         {{"a", 0, 1}, {"\xC3\xA9", 1, 3}, {"b", 3, 4}}},
        {SPLIT("a*", "MergedWithPrevious", "false"), "baac", {{"baa", 0, 3}, {"c", 3, 4}}},
        {DIGITS("true"),
         "a12\xC2\xB2"
         "b",
         {{"a", 0, 1}, {"1", 1, 2}, {"2", 2, 3}, {"\xC2\xB2", 3, 5}, {"b", 5, 6}}},
        {DIGITS("false"),
         "a12\xC2\xB2"
         "b",
         {{"a", 0, 1}, {"12\xC2\xB2", 1, 5}, {"b", 5, 6}}},
        {METASPACE("always", "true"),
         " Hey  you",
         {{"\xE2\x96\x81Hey", 0, 4}, {"\xE2\x96\x81", 4, 5}, {"\xE2\x96\x81you", 5, 9}}},
        {METASPACE("always", "false"),
         " Hey  you",
         {{"\xE2\x96\x81Hey\xE2\x96\x81\xE2\x96\x81you", 0, 9}}},
        {METASPACE("first", "true"),
         " Hey  you",
         {{"\xE2\x96\x81Hey", 0, 4}, {"\xE2\x96\x81", 4, 5}, {"\xE2\x96\x81you", 5, 9}}},
        {METASPACE("first", "false"),
         " Hey  you",
         {{"\xE2\x96\x81Hey\xE2\x96\x81\xE2\x96\x81you", 0, 9}}},
        {METASPACE("never", "true"),
         " Hey  you",
         {{"\xE2\x96\x81Hey", 0, 4}, {"\xE2\x96\x81", 4, 5}, {"\xE2\x96\x81you", 5, 9}}},
        {METASPACE("never", "false"),
         " Hey  you",
         {{"\xE2\x96\x81Hey\xE2\x96\x81\xE2\x96\x81you", 0, 9}}},
        {METASPACE("always", "true"),
         "H\xC3\xA9 you",
         {{"\xE2\x96\x81H\xC3\xA9", 0, 3}, {"\xE2\x96\x81you", 3, 7}}},
        {METASPACE("always", "true"),
         "\xE2\x96\x81"
         "a b",
         {{"\xE2\x96\x81"
           "a",
           0, 4},
          {"\xE2\x96\x81"
           "b",
           4, 6}}},
        {"{\"type\": \"Metaspace\", \"replacement\": \"_\", \"str_rep\": \"_\", "
         "\"add_prefix_space\": true}",
         "a b_c",
         {{"_a", 0, 1}, {"_b", 1, 3}, {"_c", 3, 5}}},
        {"{\"type\": \"BertPreTokenizer\"}",
         "Hey, you\xE3\x80\x80\xE4\xB8\xAD!?",
         {{"Hey", 0, 3},
          {",", 3, 4},
          {"you", 5, 8},
          {"\xE4\xB8\xAD", 11, 14},
          {"!", 14, 15},
          {"?", 15, 16}}},
        {"{\"type\": \"Whitespace\"}",
         "Hey, you!? a_b\xC2\xA0\xC3\xA9",
         {{"Hey", 0, 3},
          {",", 3, 4},
          {"you", 5, 8},
          {"!?", 8, 10},
          {"a_b", 11, 14},
          {"\xC3\xA9", 16, 18}}},
        {"{\"type\": \"WhitespaceSplit\"}",
         "Hey, you \n!",
         {{"Hey,", 0, 4}, {"you", 5, 8}, {"!", 10, 11}}},
        {"{\"type\": \"Punctuation\", \"behavior\": \"Isolated\"}",
         "a!?b",
         {{"a", 0, 1}, {"!", 1, 2}, {"?", 2, 3}, {"b", 3, 4}}},
        {"{\"type\": \"Punctuation\", \"behavior\": \"Contiguous\"}",
         "a!?b",
         {{"a", 0, 1}, {"!?", 1, 3}, {"b", 3, 4}}},
        {"{\"type\": \"Punctuation\"}",
         "\xC2\xA1"
         "a$",
         {{"\xC2\xA1", 0, 2}, {"a", 2, 3}, {"$", 3, 4}}},
        {"{\"type\": \"CharDelimiterSplit\", \"delimiter\": \"-\"}",
         "a--b-",
         {{"a", 0, 1}, {"b", 3, 4}}},
        {"{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"WhitespaceSplit\"}, {\"type\": "
         "\"Metaspace\", \"replacement\": \"\xE2\x96\x81\", \"prepend_scheme\": \"first\", "
         "\"split\": true}]}",
         "ab cd",
         {{"\xE2\x96\x81"
           "ab",
           0, 2},
          {"cd", 3, 5}}},
        {"{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"WhitespaceSplit\"}, {\"type\": "
         "\"ByteLevel\", \"add_prefix_space\": true, \"trim_offsets\": true, \"use_regex\": "
         "false}]}",
         "\xC3\xA9 b",
         {{"\xC4\xA0\xC3\x83\xC2\xA9", 0, 2},
          {"\xC4\xA0"
           "b",
           3, 4}}},
        {"{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"ByteLevel\", "
         "\"add_prefix_space\": true, \"trim_offsets\": true, \"use_regex\": true}, {\"type\": "
         "\"Punctuation\", \"behavior\": \"Isolated\"}]}",
         "\xC3\xA9 x!",
         {{"\xC4\xA0\xC3\x83\xC2\xA9", 0, 2}, {"\xC4\xA0x", 2, 4}, {"!", 4, 5}}},
        {"{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Metaspace\", \"replacement\": "
         "\"\xE2\x96\x81\", \"prepend_scheme\": \"always\", \"split\": true}, {\"type\": "
         "\"ByteLevel\", \"add_prefix_space\": true, \"trim_offsets\": true, \"use_regex\": "
         "true}]}",
         "\xC3\xA9 x",
         {{"\xC4\xA0\xC3\xA2\xC4\xB8\xC4\xA3", 0, 2},
          {"\xC3\x83\xC2\xA9", 0, 2},
          {"\xC4\xA0\xC3\xA2\xC4\xB8\xC4\xA3", 2, 3},
          {"x", 3, 4}}},
        {"{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Digits\", "
         "\"individual_digits\": true}, {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
         "\"trim_offsets\": true, \"use_regex\": true}]}",
         "a  12b",
         {{"a", 0, 1}, {"\xC4\xA0\xC4\xA0", 1, 3}, {"1", 3, 4}, {"2", 4, 5}, {"b", 5, 6}}},
        {"{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Sequence\", \"pretokenizers\": "
         "[{\"type\": \"Whitespace\"}, {\"type\": \"Digits\", \"individual_digits\": true}]}, "
         "{\"type\": \"Sequence\", \"pretokenizers\": []}]}",
         "a12 b",
         {{"a", 0, 1}, {"1", 1, 2}, {"2", 2, 3}, {"b", 4, 5}}},
        {"{\"type\": \"Sequence\", \"pretokenizers\": []}", "a b", {{"a b", 0, 3}}},
    };
    cti_pieces pieces = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        text_reading r;
        begin_reading(&r, cases[i].json);
        const cti_pretokenizer *pretokenizer;
        ck_assert_msg(cti_pretokenizer_read(&r.reading, 0, &pretokenizer), "%s",
                      ct_error_message(r.context));
        cti_aligned_free(&pieces.text);
        pieces.text = (cti_aligned){.at = cases[i].text, .size = strlen(cases[i].text)};
        ck_assert(cti_pretokenizer_run(pretokenizer, &pieces));
        const bool bytes = cti_pretokenizer_ends_in_bytes(pretokenizer);
        size_t n = 0;
        for (; n < MOST_PIECES && cases[i].piece[n].text; n++) {
            ck_assert_msg(n < pieces.count, "%s: %d pieces", cases[i].json, (int)pieces.count);
            check_piece(&pieces, n, bytes, &cases[i].piece[n], cases[i].json);
        }
        ck_assert_uint_eq(pieces.count, n);
        end_reading(&r);
    }
    cti_pieces_free(&pieces);
}
END_TEST

/* The section of a text that begins behind an added token. */
START_TEST(first_section) {
    text_reading r;
    begin_reading(&r, "{\"type\": \"Metaspace\", \"replacement\": \"_\", \"prepend_scheme\": "
                      "\"first\", \"split\": false}");
    const cti_pretokenizer *pretokenizer;
    ck_assert(cti_pretokenizer_read(&r.reading, 0, &pretokenizer));
    cti_pieces pieces = {.text = {.at = "ab c", .size = 4, .base = 7}};
    ck_assert(cti_pretokenizer_run(pretokenizer, &pieces));
    ck_assert_uint_eq(pieces.count, 1);
    ck_assert_uint_eq(pieces.text.size, 4);
    ck_assert(memcmp(pieces.text.at, "ab_c", 4) == 0);
    const cti_extent origin = cti_aligned_origin(&pieces.text, 2, 3);
    ck_assert(origin.begin == 9 && origin.end == 10);
    cti_pieces_free(&pieces);
    end_reading(&r);
}
END_TEST

START_TEST(none_and_empty) {
    text_reading r;
    begin_reading(&r, "[null, {\"type\": \"WhitespaceSplit\"}]");
    const cti_pretokenizer *pretokenizer;
    ck_assert(cti_pretokenizer_read(&r.reading, 1, &pretokenizer) && !pretokenizer);
    ck_assert(!cti_pretokenizer_ends_in_bytes(NULL) && !cti_pretokenizer_pieces(NULL));
    cti_pieces pieces = {.text = {.at = "a b", .size = 3}};
    ck_assert(cti_pretokenizer_run(NULL, &pieces));
    ck_assert(pieces.count == 1 && pieces.piece[0].begin == 0 && pieces.piece[0].end == 3);
    ck_assert(cti_pretokenizer_read(&r.reading, 2, &pretokenizer) && pretokenizer);
    pieces.text = (cti_aligned){.at = "  ", .size = 2};
    ck_assert(cti_pretokenizer_run(pretokenizer, &pieces));
    ck_assert_uint_eq(pieces.count, 0);
    pieces.text.size = 0;
    ck_assert(cti_pretokenizer_run(NULL, &pieces));
    ck_assert_uint_eq(pieces.count, 0);
    cti_pieces_free(&pieces);
    end_reading(&r);
}
END_TEST

#define QWEN2                                                                                      \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}| "              \
    "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"

/* The pre-tokenizers whose pieces are found without an array. */
START_TEST(functions_of_pieces) {
    static const struct {
        const char *json;
        cti_next_piece *next;
        bool bytes;
    } cases[] = {
        {BYTE_LEVEL("false", "true"), cti_next_gpt2, true},
        {BYTE_LEVEL("true", "true"), NULL, true},
        {BYTE_LEVEL("false", "false"), NULL, true},
        {SPLIT(QWEN2, "Isolated", "false"), cti_next_qwen2, false},
        {SPLIT(QWEN2, "Removed", "true"), cti_next_qwen2, false},
        {SPLIT(QWEN2, "Removed", "false"), NULL, false},
        {SPLIT(QWEN2, "MergedWithNext", "false"), NULL, false},
        {SPLIT("a|b", "Isolated", "false"), NULL, false},
        {SEQUENCE(SPLIT(QWEN2, "Isolated", "false") ", " BYTE_LEVEL("false", "false")),
         cti_next_qwen2, true},
        {SEQUENCE(SPLIT(QWEN2, "Isolated", "false") ", " BYTE_LEVEL("false", "true")), NULL, true},
        {SEQUENCE(SPLIT(QWEN2, "Isolated", "false") ", " BYTE_LEVEL("true", "false")), NULL, true},
        {SEQUENCE(BYTE_LEVEL("false", "true") ", {\"type\": \"Whitespace\"}"), NULL, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        text_reading r;
        begin_reading(&r, cases[i].json);
        const cti_pretokenizer *pretokenizer;
        ck_assert_msg(cti_pretokenizer_read(&r.reading, 0, &pretokenizer), "%s",
                      ct_error_message(r.context));
        ck_assert_msg(cti_pretokenizer_pieces(pretokenizer) == cases[i].next, "case %d", (int)i);
        ck_assert(cti_pretokenizer_ends_in_bytes(pretokenizer) == cases[i].bytes);
        end_reading(&r);
    }
}
END_TEST

START_TEST(faults) {
    static const struct {
        const char *json, *fault;
    } cases[] = {
        {"{\"type\": \"UnicodeScripts\"}", "'UnicodeScripts'"},
        {"{\"type\": \"FixedLength\", \"length\": 5}", "'FixedLength'"},
        {"1", "a pre-tokenizer is an object"},
        {SEQUENCE("{\"type\": \"Foo\"}"), "'Foo'"},
        {"{\"type\": \"Sequence\"}", "pretokenizers"},
        {"{\"type\": \"ByteLevel\", \"trim_offsets\": true}", "ByteLevel: it has no \"add_pre"},
        {"{\"type\": \"ByteLevel\", \"add_prefix_space\": true}", "it has no \"trim_offsets\""},
        {"{\"type\": \"ByteLevel\", \"add_prefix_space\": 1, \"trim_offsets\": true}",
         "\"add_prefix_space\""},
        {"{\"type\": \"Digits\"}", "it has no \"individual_digits\""},
        {"{\"type\": \"Digits\", \"individual_digits\": true, \"x\": 1}", "Digits: "},
        {"{\"type\": \"Punctuation\", \"behavior\": \"removed\"}", "cannot be 'removed'"},
        {"{\"type\": \"Split\", \"behavior\": \"Removed\", \"invert\": false}", "\"pattern\""},
        {"{\"type\": \"Split\", \"pattern\": {\"String\": \"a\"}, \"invert\": false}",
         "\"behavior\""},
        {"{\"type\": \"Split\", \"pattern\": {\"String\": \"a\"}, \"behavior\": \"Removed\"}",
         "\"invert\""},
        {SPLIT("a(?<=b)", "Removed", "false"), "Split: regex: byte 1: lookbehind"},
        {"{\"type\": \"Metaspace\"}", "\"replacement\""},
        {"{\"type\": \"Metaspace\", \"replacement\": \"ab\"}", "not one character"},
        {"{\"type\": \"Metaspace\", \"replacement\": \"\"}", "not one character"},
        {"{\"type\": \"Metaspace\", \"replacement\": \"_\", \"add_prefix_space\": false}",
         "does not agree"},
        {"{\"type\": \"Metaspace\", \"replacement\": \"_\", \"prepend_scheme\": \"First\"}",
         "cannot be 'First'"},
        {"{\"type\": \"CharDelimiterSplit\", \"delimiter\": \"ab\"}", "not one character"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[512];
        snprintf(json, sizeof json, "[%s]", cases[i].json);
        text_reading r;
        begin_reading(&r, json);
        const cti_pretokenizer *pretokenizer;
        ck_assert_msg(!cti_pretokenizer_read(&r.reading, 1, &pretokenizer), "case %d", (int)i);
        ck_assert_int_eq(ct_error(r.context), CT_ERR_FORMAT);
        ck_assert_msg(strstr(ct_error_message(r.context), cases[i].fault), "case %d: %s", (int)i,
                      ct_error_message(r.context));
        end_reading(&r);
    }
}
END_TEST

START_TEST(too_many_parts) {
    char json[8192] = "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Whitespace\"}";
    for (int i = 0; i < 100; i++) strcat(json, ", {\"type\": \"Whitespace\"}");
    strcat(json, "]}");
    text_reading r;
    begin_reading(&r, json);
    const cti_pretokenizer *pretokenizer;
    ck_assert(!cti_pretokenizer_read(&r.reading, 0, &pretokenizer));
    ck_assert(strstr(ct_error_message(r.context), "too many parts"));
    end_reading(&r);
}
END_TEST

/* Pieces of long texts: in order, without overlap, not empty, and with places in the text. */
START_TEST(long_texts) {
    static const char *const kinds[] = {
        BYTE_LEVEL("true", "true"),
        SEQUENCE(
            "{\"type\": \"Digits\", \"individual_digits\": true}, " BYTE_LEVEL("true", "true")),
        SEQUENCE("{\"type\": \"Metaspace\", \"replacement\": \"\xE2\x96\x81\"}, " BYTE_LEVEL(
            "true", "true") ", {\"type\": \"Punctuation\"}"),
        "{\"type\": \"BertPreTokenizer\"}",
        SPLIT("\\\\s+$|a*b", "MergedWithNext", "false"),
    };
    static const char *const units[] = {"a", "ab", " ", "a ", "\xE4\xB8\xAD", "1", "!"};
    static char text[LONG_TEXT];
    cti_pieces pieces = {0};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        text_reading r;
        begin_reading(&r, kinds[i]);
        const cti_pretokenizer *pretokenizer;
        ck_assert(cti_pretokenizer_read(&r.reading, 0, &pretokenizer));
        for (size_t j = 0; j < sizeof units / sizeof *units; j++) {
            const size_t unit = strlen(units[j]);
            size_t size = 0;
            for (; size + unit <= LONG_TEXT / 4; size += unit) memcpy(text + size, units[j], unit);
            cti_aligned_free(&pieces.text);
            pieces.text = (cti_aligned){.at = text, .size = size};
            ck_assert(cti_pretokenizer_run(pretokenizer, &pieces));
            size_t end = 0;
            for (size_t k = 0; k < pieces.count; k++) {
                const cti_piece piece = pieces.piece[k];
                ck_assert(piece.begin >= end && piece.end > piece.begin &&
                          piece.end <= pieces.text.size);
                ck_assert_uint_le(cti_aligned_origin(&pieces.text, piece.begin, piece.end).end,
                                  size);
                end = piece.end;
            }
        }
        end_reading(&r);
    }
    cti_pieces_free(&pieces);
}
END_TEST

int main(void) {
    return run_tests("text_pretokenize", NULL, NULL,
                     TESTS(TEST(pieces_of_texts), TEST(first_section), TEST(none_and_empty),
                           TEST(functions_of_pieces), TEST(faults), TEST(too_many_parts),
                           TEST(long_texts)));
}
