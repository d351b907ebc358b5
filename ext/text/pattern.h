/* A pattern that finds the pieces of a text: a regular expression or a string.
 *
 * The regular expressions of GPT-2, Llama 3 (cl100k), Qwen2 and o200k are recognised by their text
 * and have a function each (split_known.c). Any other expression of classes, groups, alternatives,
 * quantifiers, anchors and a lookahead of one character is compiled (regex_compile.c) for a matcher
 * (regex_match.c) that needs time in proportion to the length of the text times the length of the
 * pattern. An expression with another construct, such as a lookbehind or a back-reference, is an
 * error with the offset in the pattern. The semantics are oniguruma's, which the tokenizers package
 * uses: the first alternative that matches wins (not the longest), and quantifiers are greedy
 * unless lazy or possessive. */
#ifndef CTI_TEXT_PATTERN_H
#define CTI_TEXT_PATTERN_H

#include "aligned.h"
#include "reading.h"

typedef struct cti_pattern cti_pattern;

/* Reads {"Regex": "..."} or {"String": "..."}. */
bool cti_pattern_read(const cti_reading *reading, cti_json_at value, const cti_pattern **pattern);
/* A pattern of this expression, or of this string if literal. */
const cti_pattern *cti_pattern_new(const cti_reading *reading, cti_json_at value, cti_text text,
                                   bool literal);

/* The memory of searches, which a thread reuses from text to text; zeros at first. */
typedef struct {
    uint32_t op, low, at;
} cti_pattern_way; /* regex_match.c */
typedef struct {
    void *block;
    size_t room; /* the bytes of block */
    cti_pattern_way *way;
    size_t ways;
    size_t base, rows; /* the part of the text that `block` describes */
    size_t ended;      /* 1 + the end of the last match of the text; 0 if there is none */
} cti_pattern_memory;
void cti_pattern_memory_free(cti_pattern_memory *memory);

typedef enum { CTI_FOUND, CTI_NOT_FOUND, CTI_NO_MEMORY } cti_find_result;

/* Finds the next match in text[0 ... size), as oniguruma's find_iter. `from` is 0 in the first
 * search of a text, and then the end of the match that was found. The caller goes on until
 * CTI_NOT_FOUND, or begins again with memory->ended = 0. An empty match where the last match ended
 * is passed over. The text is well-formed UTF-8, and a lookahead sees only these bytes. */
cti_find_result cti_pattern_find(const cti_pattern *pattern, const char *text, size_t size,
                                 size_t from, cti_pattern_memory *memory, cti_extent *found);

/* A function that returns the end of the piece that begins at text + at, at < size, for a pattern
 * whose matches cover every text without a gap; NULL for other patterns. */
typedef size_t cti_next_piece(const char *text, size_t size, size_t at);
cti_next_piece *cti_pattern_pieces(const cti_pattern *pattern);

/* The functions of the known patterns. */
size_t cti_next_gpt2(const char *text, size_t size, size_t at);
size_t cti_next_llama3(const char *text, size_t size, size_t at);
size_t cti_next_qwen2(const char *text, size_t size, size_t at);
size_t cti_next_o200k(const char *text, size_t size, size_t at);
/* Their expressions, as tokenizer.json has them. */
extern const char cti_gpt2_expression[], cti_llama3_expression[], cti_qwen2_expression[];

#endif
