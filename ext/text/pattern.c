/* Patterns: which function finds the matches of an expression or a string. */
#include "pattern.h"

#include <stdlib.h>
#include <string.h>

#include "regex.h"
#include "utf8.h"

struct cti_pattern {
    cti_next_piece *next; /* the function of a known expression; NULL for others */
    bool literal;
    cti_text text; /* the string of a literal */
    cti_regex regex;
};

/* Other spellings that mean the same. */
static const char gpt2_shorter[] =
    "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
#define O200K_CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
static const char o200k_expression[] =
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*"
    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+" O200K_CONTRACTION
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+"
    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*" O200K_CONTRACTION
    "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

static cti_next_piece *known_expression(cti_text text) {
    const struct {
        const char *expression;
        cti_next_piece *next;
    } known[] = {
        {cti_gpt2_expression, cti_next_gpt2},     {gpt2_shorter, cti_next_gpt2},
        {cti_llama3_expression, cti_next_llama3}, {cti_qwen2_expression, cti_next_qwen2},
        {o200k_expression, cti_next_o200k},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (cti_text_compare(text, cti_text_of(known[i].expression)) == 0) return known[i].next;
    return NULL;
}

const cti_pattern *cti_pattern_new(const cti_reading *reading, cti_json_at value, cti_text text,
                                   bool literal) {
    cti_pattern *pattern = cti_arena_take(reading->arena, 1, sizeof *pattern);
    if (!pattern) return NULL;
    *pattern = (cti_pattern){.literal = literal};
    if (literal) {
        pattern->text = cti_arena_copy(reading->arena, text);
        return pattern->text.at ? pattern : NULL;
    }
    pattern->next = known_expression(text);
    if (pattern->next) return pattern;
    return cti_regex_compile(reading, value, text, &pattern->regex) ? pattern : NULL;
}

bool cti_pattern_read(const cti_reading *reading, cti_json_at value, const cti_pattern **pattern) {
    const cti_json_at regex = cti_json_member(reading->tree, value, "Regex");
    const cti_json_at string = cti_json_member(reading->tree, value, "String");
    const cti_json_at text = regex ? regex : string;
    if (!text || reading->tree->value[value].count != 1 ||
        reading->tree->value[text].kind != CTI_JSON_STRING)
        return cti_reading_fail(reading, value,
                                "a pattern is {\"Regex\": \"...\"} or {\"String\": \"...\"}");
    *pattern = cti_pattern_new(reading, text, cti_json_text(reading->tree, text), text == string);
    return *pattern != NULL;
}

static cti_find_result literal_find(cti_text literal, const char *text, size_t size, size_t from,
                                    cti_extent *found) {
    while (literal.size && size - from >= literal.size) {
        const char *at = memchr(text + from, literal.at[0], size - from - literal.size + 1);
        if (!at) return CTI_NOT_FOUND;
        from = (size_t)(at - text);
        if (memcmp(at, literal.at, literal.size) == 0) break;
        from++;
    }
    if (size - from < literal.size) return CTI_NOT_FOUND;
    *found = (cti_extent){.begin = from, .end = from + literal.size};
    return CTI_FOUND;
}

static cti_find_result pattern_find_from(const cti_pattern *pattern, const char *text, size_t size,
                                         size_t from, cti_pattern_memory *memory,
                                         cti_extent *found) {
    if (pattern->literal) return literal_find(pattern->text, text, size, from, found);
    if (!pattern->next) return cti_regex_search(&pattern->regex, text, size, from, memory, found);
    if (from == size) return CTI_NOT_FOUND;
    *found = (cti_extent){.begin = from, .end = pattern->next(text, size, from)};
    return CTI_FOUND;
}

cti_find_result cti_pattern_find(const cti_pattern *pattern, const char *text, size_t size,
                                 size_t from, cti_pattern_memory *memory, cti_extent *found) {
    if (from == 0 && memory->ended != 1) {
        memory->ended = 0;
        memory->base = 0;
        memory->rows = 0;
    }
    while (from <= size) {
        const cti_find_result result = pattern_find_from(pattern, text, size, from, memory, found);
        if (result != CTI_FOUND) {
            memory->ended = 0;
            return result;
        }
        if (found->end > found->begin || memory->ended != found->end + 1) {
            memory->ended = found->end + 1;
            return CTI_FOUND;
        }
        from = found->end;
        from += from < size ? cti_utf8_length((unsigned char)text[from]) : 1;
    }
    memory->ended = 0;
    return CTI_NOT_FOUND;
}

cti_next_piece *cti_pattern_pieces(const cti_pattern *pattern) { return pattern->next; }

void cti_pattern_memory_free(cti_pattern_memory *memory) {
    free(memory->block);
    free(memory->way);
    *memory = (cti_pattern_memory){0};
}
