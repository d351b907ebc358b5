/* The parser: words to a tree, one function for each level of Jinja's grammar. */
#ifndef CTI_TEXT_JINJA_PARSER_H
#define CTI_TEXT_JINJA_PARSER_H

#include "lexer.h"
#include "tree.h"

typedef struct cti_jinja_parser {
    cti_jinja_lexer lexer;
    cti_arena *arena;
    cti_jinja_word word, ahead; /* the current word, and the next if has_ahead */
    bool has_ahead;
    int depth;                /* of expressions and blocks that are open */
    const char *tag, *wanted; /* the innermost block that is open, and the tags that it waits for */
    int loops;                /* that are open in the function: break and continue may stand here */
    cti_jinja_template *jinja;
    cti_jinja_node *literals;     /* strings and attributes, linked by `other` */
    struct cti_jinja_name **name; /* [names_room] a hash table of the names */
    uint32_t names, names_room;
} cti_jinja_parser;

static inline bool cti_jinja_text_is(cti_text text, const char *word) {
    size_t i = 0;
    while (i < text.size && word[i] && text.at[i] == word[i]) i++;
    return i == text.size && !word[i];
}
static inline bool cti_jinja_at_name(const cti_jinja_parser *parser, const char *name) {
    return parser->word.kind == CTI_JINJA_NAME && cti_jinja_text_is(parser->word.text, name);
}
static inline bool cti_jinja_at_operator(const cti_jinja_parser *parser, const char *op) {
    return parser->word.kind == CTI_JINJA_OPERATOR && cti_jinja_text_is(parser->word.text, op);
}

/* Goes to the next word. */
void cti_jinja_advance(cti_jinja_parser *parser);
/* The word behind the current one. */
cti_jinja_word cti_jinja_look_ahead(cti_jinja_parser *parser);
/* Passes over a name or an operator, if it is here; and if it must be. */
bool cti_jinja_skip_name(cti_jinja_parser *parser, const char *name);
bool cti_jinja_skip_operator(cti_jinja_parser *parser, const char *op);
bool cti_jinja_expect_operator(cti_jinja_parser *parser, const char *op);
/* Passes over the end of a tag: BLOCK_END or VARIABLE_END. */
bool cti_jinja_expect_end(cti_jinja_parser *parser, cti_jinja_word_kind kind);
bool cti_jinja_expect_word(cti_jinja_parser *parser, const char *name);
/* Passes over a name and sets *name to it. */
bool cti_jinja_expect_name(cti_jinja_parser *parser, cti_text *name);
/* Records an error at the current word. Returns NULL. */
CT_FORMAT(2, 3) void *cti_jinja_parse_fail(cti_jinja_parser *parser, const char *format, ...);
/* Memory of the tree, of zeros; NULL after an error. */
void *cti_jinja_new(cti_jinja_parser *parser, size_t size);
cti_jinja_node *cti_jinja_node_new(cti_jinja_parser *parser, cti_jinja_node_kind kind, size_t at);
/* The depth of a node from those below it. A tree that is too deep is an error. */
cti_jinja_node *cti_jinja_node_done(cti_jinja_parser *parser, cti_jinja_node *node);
/* A string of the tree. Equal names are one string, which begins a cti_jinja_name. */
const cti_jinja_string *cti_jinja_word_string(cti_jinja_parser *parser, cti_text text);

/* These return NULL after an error. A tuple is an expression, or several with commas. */
cti_jinja_node *cti_jinja_parse_expression(cti_jinja_parser *parser, bool condition);
cti_jinja_node *cti_jinja_parse_tuple(cti_jinja_parser *parser, bool condition,
                                      const char *end_name);
cti_jinja_node *cti_jinja_parse_target(cti_jinja_parser *parser, bool spaces, const char *end_name);
/* The filters | a | b behind `first`, which may be NULL; with `inline_first`, one without "|". */
cti_jinja_node *cti_jinja_parse_filters(cti_jinja_parser *parser, cti_jinja_node *first,
                                        bool inline_first);

/* Statements up to a tag that begins with one of the names in `ends`, which is passed over but for
 * its name; `ends` NULL: up to the end of the template. */
cti_jinja_node *cti_jinja_parse_statements(cti_jinja_parser *parser, const char *const *ends);

#endif
