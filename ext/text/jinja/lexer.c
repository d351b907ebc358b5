/* The lexer: data up to the next tag, and the words inside of tags. */
#include "lexer.h"

#include <stdarg.h>
#include <string.h>

#include "../unicode.h"
#include "../utf8.h"
#include "literal.h"

void cti_jinja_place(const char *text, size_t at, int *line, int *column) {
    *line = *column = 1;
    for (size_t i = 0; i < at; i++) {
        if (text[i] == '\n') ++*line, *column = 1;
        else *column += !cti_utf8_continues(text[i]);
    }
}

bool cti_jinja_lex_fail(cti_jinja_lexer *lexer, size_t at, const char *format, ...) {
    if (lexer->failed) return false;
    lexer->failed = true;
    va_list args;
    va_start(args, format);
    cti_message(lexer->fault->text, sizeof lexer->fault->text, format, args);
    va_end(args);
    cti_jinja_place(lexer->text, at, &lexer->fault->line, &lexer->fault->column);
    return false;
}

bool cti_jinja_lex_no_memory(cti_jinja_lexer *lexer) {
    if (lexer->failed) return false;
    lexer->failed = true;
    *lexer->fault = (cti_jinja_fault){.text = "out of memory", .memory = true};
    return false;
}

bool cti_jinja_lex(cti_jinja_lexer *lexer, cti_arena *arena, cti_text text,
                   cti_jinja_fault *fault) {
    *lexer = (cti_jinja_lexer){.arena = arena, .text = "", .fault = fault, .line_begins = true};
    if (text.size > CTI_JINJA_TEXT)
        return cti_jinja_lex_fail(lexer, 0, "the template is longer than %d bytes", CTI_JINJA_TEXT);
    const size_t sound = cti_utf8_check(text.at, text.size);
    if (sound != text.size)
        return cti_jinja_lex_fail(lexer, 0, "byte %zu of the template is not UTF-8", sound);
    char *copy = cti_arena_take(arena, text.size + 1, 1);
    if (!copy) return cti_jinja_lex_no_memory(lexer);
    size_t size = 0;
    for (size_t i = 0; i < text.size; i++) {
        if (text.at[i] == '\r') {
            copy[size++] = '\n';
            i += i + 1 < text.size && text.at[i + 1] == '\n';
        } else {
            copy[size++] = text.at[i];
        }
    }
    if (size && copy[size - 1] == '\n') size--;
    copy[size] = 0;
    lexer->text = copy;
    lexer->size = size;
    return true;
}

/* ---- blanks: what str.isspace of Python is true for ---- */

static bool is_python_blank(uint32_t c) {
    return cti_unicode_is_space(c) || (c >= 0x1C && c <= 0x1F);
}

/* Behind the blanks that begin at `at`. */
static size_t skip_blanks(const cti_jinja_lexer *lexer, size_t at) {
    while (at < lexer->size) {
        size_t length;
        if (!is_python_blank(cti_utf8_get(lexer->text + at, &length))) break;
        at += length;
    }
    return at;
}

/* The beginning of the blanks that end at `end`, not before `begin`. */
static size_t skip_blanks_back(const cti_jinja_lexer *lexer, size_t begin, size_t end) {
    while (end > begin) {
        size_t at = end - 1, length;
        while (cti_utf8_continues(lexer->text[at])) at--;
        if (!is_python_blank(cti_utf8_get(lexer->text + at, &length))) break;
        end = at;
    }
    return end;
}

static bool starts(const cti_jinja_lexer *lexer, size_t at, const char *with) {
    const size_t size = strlen(with);
    return at <= lexer->size && size <= lexer->size - at && !memcmp(lexer->text + at, with, size);
}

static bool is_sign(const cti_jinja_lexer *lexer, size_t at) {
    return at < lexer->size && (lexer->text[at] == '-' || lexer->text[at] == '+');
}

/* The end of a tag that closes with `close` ("%}" or "#}"), if one is at `at`: behind the blanks of
 * a "-", or the newline that trim_blocks takes. 0 if there is none. */
static size_t jinja_tag_end(const cti_jinja_lexer *lexer, size_t at, const char *close) {
    if (starts(lexer, at, close)) {
        at += 2;
        return at + (at < lexer->size && lexer->text[at] == '\n');
    }
    if (!is_sign(lexer, at) || !starts(lexer, at + 1, close)) return 0;
    return lexer->text[at] == '-' ? skip_blanks(lexer, at + 3) : at + 3;
}

static void after_tag(cti_jinja_lexer *lexer, size_t end) {
    lexer->line_begins = end && lexer->text[end - 1] == '\n';
    lexer->at = end;
}

/* The text from `begin` to a tag at `tag` with a modifier: without blanks at its end after a "-",
 * and with lstrip without those of the line on which only the tag begins. */
static cti_text data_before(const cti_jinja_lexer *lexer, size_t begin, size_t tag, char sign,
                            bool lstrip) {
    size_t end = tag;
    if (sign == '-') {
        end = skip_blanks_back(lexer, begin, tag);
    } else if (sign != '+' && lstrip) {
        size_t line = tag;
        while (line > begin && lexer->text[line - 1] != '\n') line--;
        if ((line > begin || lexer->line_begins) && skip_blanks_back(lexer, line, tag) == line)
            end = line;
    }
    return (cti_text){lexer->text + begin, end - begin};
}

/* ---- data ---- */

/* Behind "{% raw %}", if that is at `at`; else 0. */
static size_t raw_begin(const cti_jinja_lexer *lexer, size_t at) {
    at += 2;
    at += is_sign(lexer, at);
    at = skip_blanks(lexer, at);
    if (!starts(lexer, at, "raw")) return 0;
    at = skip_blanks(lexer, at + 3);
    if (starts(lexer, at, "%}")) return at + 2;
    return starts(lexer, at, "-%}") ? skip_blanks(lexer, at + 3) : 0;
}

/* Passes over a raw block from behind its first tag. Its text is *data. */
static bool pass_raw(cti_jinja_lexer *lexer, size_t begin, size_t tag, cti_text *data) {
    for (size_t at = begin; at < lexer->size; at++) {
        if (!starts(lexer, at, "{%")) continue;
        const char sign = is_sign(lexer, at + 2) ? lexer->text[at + 2] : 0;
        size_t end = skip_blanks(lexer, at + 2 + (sign != 0));
        if (!starts(lexer, end, "endraw")) continue;
        end = jinja_tag_end(lexer, skip_blanks(lexer, end + 6), "%}");
        if (!end) continue;
        *data = data_before(lexer, begin, at, sign, true);
        after_tag(lexer, end);
        return true;
    }
    if (begin < lexer->size) return cti_jinja_lex_fail(lexer, tag, "Missing end of raw directive");
    lexer->at = lexer->size;
    return true;
}

static bool pass_comment(cti_jinja_lexer *lexer, size_t begin, size_t tag) {
    for (size_t at = begin; at < lexer->size; at++) {
        const size_t end = jinja_tag_end(lexer, at, "#}");
        if (!end) continue;
        after_tag(lexer, end);
        return true;
    }
    if (begin < lexer->size) return cti_jinja_lex_fail(lexer, tag, "Missing end of comment tag");
    lexer->at = lexer->size;
    return true;
}

/* The data up to the next tag, and the tag itself if there is no data before it. A comment and the
 * tags of a raw block make no word: *word is data without text. */
static bool lex_data(cti_jinja_lexer *lexer, cti_jinja_word *word) {
    const size_t begin = lexer->at;
    size_t tag = begin;
    while (tag < lexer->size && !(lexer->text[tag] == '{' && tag + 1 < lexer->size &&
                                  strchr("{%#", lexer->text[tag + 1])))
        tag++;
    *word = (cti_jinja_word){.kind = CTI_JINJA_DATA, .at = begin};
    if (tag == lexer->size) {
        word->text = (cti_text){lexer->text + begin, tag - begin};
        lexer->at = tag;
        return true;
    }
    const char kind = lexer->text[tag + 1],
               sign = is_sign(lexer, tag + 2) ? lexer->text[tag + 2] : 0;
    const size_t behind = tag + 2 + (sign != 0);
    if (tag > begin) {
        word->text = data_before(lexer, begin, tag, sign, kind != '{');
        lexer->at = tag;
        lexer->line_begins = false; /* what is left of the line has been seen */
        if (word->text.size) return true;
    }
    word->at = tag;
    lexer->line_begins = false;
    const size_t raw = kind == '%' ? raw_begin(lexer, tag) : 0;
    if (raw) {
        lexer->line_begins = lexer->text[raw - 1] == '\n';
        return pass_raw(lexer, raw, tag, &word->text);
    }
    if (kind == '#') return pass_comment(lexer, behind, tag);
    word->kind = kind == '%' ? CTI_JINJA_BLOCK_BEGIN : CTI_JINJA_VARIABLE_BEGIN;
    lexer->where = kind == '%' ? CTI_JINJA_IN_BLOCK : CTI_JINJA_IN_VARIABLE;
    lexer->at = behind;
    return true;
}

/* ---- words ---- */

/* The size of the name that begins at `at`: letters, digits, marks and _. */
static size_t name_size(const cti_jinja_lexer *lexer, size_t at) {
    const size_t begin = at;
    while (at < lexer->size) {
        size_t length;
        const uint32_t c = cti_utf8_get(lexer->text + at, &length);
        const bool in = c < 0x80 ? c == '_' || (c >= '0' && c <= '9') ||
                                       ((c | 0x20) >= 'a' && (c | 0x20) <= 'z')
                                 : (CTI_IN(cti_unicode_category(c)) &
                                    (CTI_LETTERS | CTI_NUMBERS | CTI_MARKS | CTI_IN(CTI_PC))) != 0;
        if (!in) break;
        at += length;
    }
    return at - begin;
}

static bool lex_operator(cti_jinja_lexer *lexer, cti_jinja_word *word) {
    static const char *const two[] = {"//", "**", "==", "!=", ">=", "<=", NULL};
    const char *at = lexer->text + lexer->at;
    size_t size = 0;
    for (int i = 0; two[i]; i++)
        if (starts(lexer, lexer->at, two[i])) size = 2;
    if (!size && *at && strchr("+-/*%~[](){}><=.:|,;", *at)) size = 1;
    if (!size) {
        size_t length;
        cti_utf8_get(at, &length);
        return cti_jinja_lex_fail(lexer, lexer->at, "unexpected char '%.*s' at %zu", (int)length,
                                  at, lexer->at);
    }
    if (size == 1 && strchr("([{", *at)) {
        if (lexer->brackets == CTI_JINJA_BRACKETS)
            return cti_jinja_lex_fail(lexer, lexer->at, "brackets are nested more than %d deep",
                                      CTI_JINJA_DEPTH);
        lexer->bracket[lexer->brackets++] = *at == '(' ? ')' : *at == '[' ? ']' : '}';
    } else if (size == 1 && strchr(")]}", *at)) {
        if (!lexer->brackets) return cti_jinja_lex_fail(lexer, lexer->at, "unexpected '%c'", *at);
        const char wanted = lexer->bracket[--lexer->brackets];
        if (wanted != *at)
            return cti_jinja_lex_fail(lexer, lexer->at, "unexpected '%c', expected '%c'", *at,
                                      wanted);
    }
    word->kind = CTI_JINJA_OPERATOR;
    word->text = (cti_text){at, size};
    lexer->at += size;
    return true;
}

/* The end of the tag, if it is here. */
static bool lex_tag_end(cti_jinja_lexer *lexer, cti_jinja_word *word) {
    size_t end = 0;
    if (lexer->where == CTI_JINJA_IN_BLOCK) {
        end = jinja_tag_end(lexer, lexer->at, "%}");
        word->kind = CTI_JINJA_BLOCK_END;
    } else {
        if (starts(lexer, lexer->at, "-}}")) end = skip_blanks(lexer, lexer->at + 3);
        else if (starts(lexer, lexer->at, "}}")) end = lexer->at + 2;
        word->kind = CTI_JINJA_VARIABLE_END;
    }
    if (!end) return false;
    word->text = (cti_text){lexer->text + lexer->at, 2};
    lexer->where = CTI_JINJA_IN_DATA;
    after_tag(lexer, end);
    return true;
}

static bool lex_name(cti_jinja_lexer *lexer, cti_jinja_word *word) {
    const size_t size = name_size(lexer, lexer->at);
    if (!size) return lex_operator(lexer, word);
    size_t length;
    const uint32_t c = cti_utf8_get(lexer->text + lexer->at, &length);
    const unsigned starting = CTI_LETTERS | CTI_IN(CTI_NL);
    if (c >= 0x80 && !(CTI_IN(cti_unicode_category(c)) & starting))
        return cti_jinja_lex_fail(lexer, lexer->at, "Invalid character in identifier");
    word->kind = CTI_JINJA_NAME;
    word->text = (cti_text){lexer->text + lexer->at, size};
    lexer->at += size;
    return true;
}

static bool lex_word(cti_jinja_lexer *lexer, cti_jinja_word *word) {
    if (!lexer->brackets && lex_tag_end(lexer, word)) return true;
    lexer->at = skip_blanks(lexer, lexer->at);
    *word = (cti_jinja_word){.at = lexer->at};
    if (lexer->at == lexer->size) {
        word->kind = CTI_JINJA_END;
        return true;
    }
    if (!lexer->brackets && lex_tag_end(lexer, word)) return true;
    const char c = lexer->text[lexer->at];
    if (c >= '0' && c <= '9') return cti_jinja_lex_number(lexer, word);
    if (c == '\'' || c == '"') return cti_jinja_lex_string(lexer, word);
    return lex_name(lexer, word);
}

cti_jinja_word cti_jinja_lex_next(cti_jinja_lexer *lexer) {
    cti_jinja_word word = {.kind = CTI_JINJA_END, .at = lexer->size};
    while (!lexer->failed && lexer->at < lexer->size) {
        const bool in_data = lexer->where == CTI_JINJA_IN_DATA;
        const bool read = in_data ? lex_data(lexer, &word) : lex_word(lexer, &word);
        if (!read || (word.kind == CTI_JINJA_DATA && !word.text.size)) {
            word = (cti_jinja_word){.kind = CTI_JINJA_END, .at = lexer->size};
            continue;
        }
        return word;
    }
    return word;
}
