/* Statements: the text between tags, and what stands in {{ }} and {% %}. */
#include <string.h>

#include "parser.h"

typedef struct {
    const char *name;
    cti_jinja_node *(*parse)(cti_jinja_parser *parser, size_t at); /* behind its name */
    const char *refused;
} statement_row;

static void statement_append(cti_jinja_node ***end, cti_jinja_node *node) {
    if (!node) return;
    **end = node;
    *end = &node->next;
}

/* The body of a block: from the end of its tag to a tag of `ends`, of which the name is passed over
 * and returned. */
static const char *parse_body(cti_jinja_parser *parser, const char *tag, const char *wanted,
                              const char *const *ends, cti_jinja_node **body) {
    const char *outer_tag = parser->tag, *outer_wanted = parser->wanted;
    cti_jinja_skip_operator(parser, ":");
    if (!cti_jinja_expect_end(parser, CTI_JINJA_BLOCK_END)) return NULL;
    if (++parser->depth > CTI_JINJA_DEPTH)
        return cti_jinja_parse_fail(parser, "the template is nested more than %d deep",
                                    CTI_JINJA_DEPTH);
    parser->tag = tag;
    parser->wanted = wanted;
    *body = cti_jinja_parse_statements(parser, ends);
    parser->tag = outer_tag;
    parser->wanted = outer_wanted;
    parser->depth--;
    for (; !parser->lexer.failed && *ends; ends++)
        if (cti_jinja_skip_name(parser, *ends)) return *ends;
    return NULL;
}

static bool parse_simple_body(cti_jinja_parser *parser, const char *tag, const char *wanted,
                              const char *end, cti_jinja_node **body) {
    const char *const ends[] = {end, NULL};
    return parse_body(parser, tag, wanted, ends, body) != NULL;
}

/* ---- if, for ---- */

static cti_jinja_node *parse_if(cti_jinja_parser *parser, size_t at) {
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    cti_jinja_node *whole = NULL, **to = &whole;
    for (;;) { /* an elif is an if in the else of the one before */
        cti_jinja_node *node = cti_jinja_node_new(parser, CTI_JINJA_IF, at);
        if (!node) return NULL;
        *to = node;
        node->first = cti_jinja_parse_tuple(parser, false, NULL);
        const char *end =
            parse_body(parser, "if", "'elif' or 'else' or 'endif'", ends, &node->body);
        if (!end) return NULL;
        if (!strcmp(end, "endif")) return whole;
        at = parser->word.at;
        if (!strcmp(end, "else"))
            return parse_simple_body(parser, "if", "'endif'", "endif", &node->other) ? whole : NULL;
        to = &node->other;
    }
}

static cti_jinja_node *parse_for(cti_jinja_parser *parser, size_t at) {
    static const char *const ends[] = {"endfor", "else", NULL};
    cti_jinja_node *node = cti_jinja_node_new(parser, CTI_JINJA_FOR, at);
    if (!node) return NULL;
    node->first = cti_jinja_parse_target(parser, false, "in");
    if (!cti_jinja_expect_word(parser, "in")) return NULL;
    node->second = cti_jinja_parse_tuple(parser, false, "recursive");
    if (cti_jinja_skip_name(parser, "if")) node->third = cti_jinja_parse_expression(parser, true);
    node->flag = cti_jinja_skip_name(parser, "recursive");
    const int loops = parser->loops;
    parser->loops = node->flag ? 1 : loops + 1;
    const char *end = parse_body(parser, "for", "'endfor' or 'else'", ends, &node->body);
    parser->loops = node->flag ? 0 : loops;
    const bool ended =
        end && (!strcmp(end, "endfor") ||
                parse_simple_body(parser, "for", "'endfor'", "endfor", &node->other));
    parser->loops = loops;
    return ended ? node : NULL;
}

static cti_jinja_node *parse_jump(cti_jinja_parser *parser, size_t at, cti_jinja_node_kind kind,
                                  const char *name) {
    if (!parser->loops) return cti_jinja_parse_fail(parser, "'%s' outside of a loop", name);
    return cti_jinja_node_new(parser, kind, at);
}

static cti_jinja_node *parse_break(cti_jinja_parser *parser, size_t at) {
    return parse_jump(parser, at, CTI_JINJA_BREAK, "break");
}

static cti_jinja_node *parse_continue(cti_jinja_parser *parser, size_t at) {
    return parse_jump(parser, at, CTI_JINJA_CONTINUE, "continue");
}

/* ---- set, with, print ---- */

static cti_jinja_node *parse_set(cti_jinja_parser *parser, size_t at) {
    cti_jinja_node *node = cti_jinja_node_new(parser, CTI_JINJA_SET, at);
    if (!node) return NULL;
    node->first = cti_jinja_parse_target(parser, true, NULL);
    if (!node->first) return NULL;
    if (cti_jinja_skip_operator(parser, "=")) {
        node->second = cti_jinja_parse_tuple(parser, true, NULL);
        return parser->lexer.failed ? NULL : node;
    }
    node->kind = CTI_JINJA_SET_BLOCK;
    node->second = cti_jinja_parse_filters(parser, NULL, false);
    return parse_simple_body(parser, "set", "'endset'", "endset", &node->body) ? node : NULL;
}

static cti_jinja_node *parse_with(cti_jinja_parser *parser, size_t at) {
    cti_jinja_node *node = cti_jinja_node_new(parser, CTI_JINJA_WITH, at);
    if (!node) return NULL;
    cti_jinja_node **target = &node->first, **value = &node->second;
    while (!parser->lexer.failed && parser->word.kind != CTI_JINJA_BLOCK_END) {
        if (node->first && !cti_jinja_expect_operator(parser, ",")) return NULL;
        /* `with a = 1, b = 2`: a comma ends a target, as its tuple would have no "=" behind it. */
        statement_append(&target, cti_jinja_parse_target(parser, false, NULL));
        if (!cti_jinja_expect_operator(parser, "=")) return NULL;
        statement_append(&value, cti_jinja_parse_expression(parser, true));
    }
    return parse_simple_body(parser, "with", "'endwith'", "endwith", &node->body) ? node : NULL;
}

static cti_jinja_node *parse_print(cti_jinja_parser *parser, size_t at) {
    cti_jinja_node *node = cti_jinja_node_new(parser, CTI_JINJA_PRINT, at);
    if (!node) return NULL;
    cti_jinja_node **end = &node->first;
    while (!parser->lexer.failed && parser->word.kind != CTI_JINJA_BLOCK_END) {
        if (node->first && !cti_jinja_expect_operator(parser, ",")) return NULL;
        statement_append(&end, cti_jinja_parse_expression(parser, true));
    }
    return node;
}

/* ---- macros and what is called with a body ---- */

static cti_jinja_node *name_new(cti_jinja_parser *parser) {
    cti_text name;
    cti_jinja_node *node = cti_jinja_node_new(parser, CTI_JINJA_VARIABLE, parser->word.at);
    if (!node || !cti_jinja_expect_name(parser, &name)) return NULL;
    node->text = cti_jinja_word_string(parser, name);
    return node->text ? node : NULL;
}

/* (a, b=1), at its opening bracket. */
static bool parse_signature(cti_jinja_parser *parser, cti_jinja_function *function) {
    static const char caller_text[] = "caller";
    if (!cti_jinja_expect_operator(parser, "(")) return false;
    cti_jinja_node **parameter = &function->parameter, **value = &function->defaults;
    while (!parser->lexer.failed && !cti_jinja_at_operator(parser, ")")) {
        if (function->parameters && !cti_jinja_expect_operator(parser, ",")) return false;
        cti_jinja_node *name = name_new(parser);
        if (!name) return false;
        for (const cti_jinja_node *other = function->parameter; other; other = other->next)
            if (other->text == name->text)
                return cti_jinja_parse_fail(parser,
                                            "duplicate argument '%.*s' in function definition",
                                            (int)name->text->size, name->text->at);
        function->explicit_caller |= cti_jinja_string_is(name->text, caller_text);
        statement_append(&parameter, name);
        function->parameters++;
        if (cti_jinja_skip_operator(parser, "=")) {
            statement_append(&value, cti_jinja_parse_expression(parser, true));
            function->defaulted++;
        } else if (function->defaulted) {
            return cti_jinja_parse_fail(parser, "non-default argument follows default argument");
        }
    }
    return cti_jinja_expect_operator(parser, ")");
}

static bool parse_function_body(cti_jinja_parser *parser, cti_jinja_node *node, const char *tag,
                                const char *wanted, const char *end) {
    const int loops = parser->loops;
    parser->loops = 0;
    const bool ended = parse_simple_body(parser, tag, wanted, end, &node->body);
    parser->loops = loops;
    return ended;
}

static cti_jinja_node *function_new(cti_jinja_parser *parser, cti_jinja_node_kind kind, size_t at) {
    cti_jinja_node *node = cti_jinja_node_new(parser, kind, at);
    if (!node) return NULL;
    node->function = cti_jinja_new(parser, sizeof *node->function);
    return node->function ? node : NULL;
}

static cti_jinja_node *parse_macro(cti_jinja_parser *parser, size_t at) {
    cti_jinja_node *node = function_new(parser, CTI_JINJA_MACRO_OF, at);
    if (!node) return NULL;
    node->first = name_new(parser);
    if (!node->first || !parse_signature(parser, node->function)) return NULL;
    node->function->name = node->first->text;
    return parse_function_body(parser, node, "macro", "'endmacro'", "endmacro") ? node : NULL;
}

static cti_jinja_node *parse_call_block(cti_jinja_parser *parser, size_t at) {
    cti_jinja_node *node = function_new(parser, CTI_JINJA_CALL_BLOCK, at);
    if (!node) return NULL;
    if (cti_jinja_at_operator(parser, "(") && !parse_signature(parser, node->function)) return NULL;
    node->first = cti_jinja_parse_expression(parser, true);
    if (!node->first) return NULL;
    if (node->first->kind != CTI_JINJA_CALL) return cti_jinja_parse_fail(parser, "expected call");
    return parse_function_body(parser, node, "call", "'endcall'", "endcall") ? node : NULL;
}

static cti_jinja_node *parse_generation(cti_jinja_parser *parser, size_t at) {
    cti_jinja_node *node = function_new(parser, CTI_JINJA_GENERATION, at);
    if (!node) return NULL;
    parser->jinja->has_generation = true;
    return parse_function_body(parser, node, "generation", "'endgeneration'", "endgeneration")
               ? node
               : NULL;
}

static cti_jinja_node *parse_block(cti_jinja_parser *parser, size_t at) {
    cti_jinja_node *node = function_new(parser, CTI_JINJA_BLOCK, at);
    if (!node) return NULL;
    node->first = name_new(parser);
    if (!node->first) return NULL;
    if (cti_jinja_at_name(parser, "scoped") || cti_jinja_at_name(parser, "required"))
        return cti_jinja_parse_fail(parser, "a block that is '%.*s' is not run",
                                    (int)parser->word.text.size, parser->word.text.at);
    parser->jinja->has_blocks = true;
    if (!parse_function_body(parser, node, "block", "'endblock'", "endblock")) return NULL;
    if (parser->word.kind == CTI_JINJA_NAME) {
        const cti_jinja_string *name = cti_jinja_word_string(parser, parser->word.text);
        if (name == node->first->text) cti_jinja_advance(parser);
    }
    return node;
}

static cti_jinja_node *parse_filter_block(cti_jinja_parser *parser, size_t at) {
    cti_jinja_node *node = cti_jinja_node_new(parser, CTI_JINJA_FILTER_BLOCK, at);
    if (!node) return NULL;
    node->first = cti_jinja_parse_filters(parser, NULL, true);
    if (!node->first) return NULL;
    return parse_simple_body(parser, "filter", "'endfilter'", "endfilter", &node->body) ? node
                                                                                        : NULL;
}

/* ---- all ---- */

#define ONE_TEXT "a template is one text"
static const statement_row statements[] = {
    {"if", parse_if, NULL},
    {"for", parse_for, NULL},
    {"set", parse_set, NULL},
    {"macro", parse_macro, NULL},
    {"call", parse_call_block, NULL},
    {"filter", parse_filter_block, NULL},
    {"with", parse_with, NULL},
    {"print", parse_print, NULL},
    {"generation", parse_generation, NULL},
    {"break", parse_break, NULL},
    {"continue", parse_continue, NULL},
    {"block", parse_block, NULL},
    {"include", NULL, ONE_TEXT},
    {"extends", NULL, ONE_TEXT},
    {"import", NULL, ONE_TEXT},
    {"from", NULL, ONE_TEXT},
    {"autoescape", NULL, "no text is escaped by itself"},
};

/* `word` is the name of the statement. */
static cti_jinja_node *parse_statement(cti_jinja_parser *parser) {
    const cti_jinja_word word = parser->word;
    if (word.kind != CTI_JINJA_NAME) return cti_jinja_parse_fail(parser, "tag name expected");
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        if (!cti_jinja_text_is(word.text, statements[i].name)) continue;
        if (statements[i].refused)
            return cti_jinja_parse_fail(parser, "the statement '%s' is not run: %s",
                                        statements[i].name, statements[i].refused);
        cti_jinja_advance(parser);
        return statements[i].parse(parser, word.at);
    }
    if (!parser->tag)
        return cti_jinja_parse_fail(parser, "Encountered unknown tag '%.*s'.", (int)word.text.size,
                                    word.text.at);
    return cti_jinja_parse_fail(
        parser,
        "Encountered unknown tag '%.*s'. Jinja was looking for the following tags: %s. The "
        "innermost block that needs to be closed is '%s'.",
        (int)word.text.size, word.text.at, parser->wanted, parser->tag);
}

static cti_jinja_node *parse_data(cti_jinja_parser *parser) {
    cti_jinja_node *node = cti_jinja_node_new(parser, CTI_JINJA_TEXT_OUT, parser->word.at);
    cti_jinja_string *string = cti_jinja_new(parser, sizeof *string);
    if (!node || !string) return NULL;
    const cti_text text = parser->word.text;
    string->at = text.at;
    string->size = text.size;
    for (size_t i = 0; i < text.size; i++)
        string->length += ((unsigned char)text.at[i] & 0xC0) != 0x80;
    node->constant = cti_jinja_string_value(string);
    node->other = parser->literals;
    parser->literals = node;
    cti_jinja_advance(parser);
    return node;
}

static cti_jinja_node *parse_output(cti_jinja_parser *parser) {
    cti_jinja_node *node = cti_jinja_node_new(parser, CTI_JINJA_PRINT, parser->word.at);
    if (!node) return NULL;
    cti_jinja_advance(parser);
    node->first = cti_jinja_parse_tuple(parser, true, NULL);
    if (!node->first) return NULL;
    return cti_jinja_expect_end(parser, CTI_JINJA_VARIABLE_END) ? node : NULL;
}

static bool at_end(const cti_jinja_parser *parser, const char *const *ends) {
    for (; ends && *ends; ends++)
        if (cti_jinja_at_name(parser, *ends)) return true;
    return false;
}

cti_jinja_node *cti_jinja_parse_statements(cti_jinja_parser *parser, const char *const *ends) {
    cti_jinja_node *first = NULL, **end = &first;
    while (!parser->lexer.failed) {
        switch (parser->word.kind) {
        case CTI_JINJA_END:
            if (ends)
                cti_jinja_parse_fail(parser,
                                     "Unexpected end of template. Jinja was looking for the "
                                     "following tags: %s. The innermost block that needs to be "
                                     "closed is '%s'.",
                                     parser->wanted, parser->tag);
            return first;
        case CTI_JINJA_DATA: statement_append(&end, parse_data(parser)); break;
        case CTI_JINJA_VARIABLE_BEGIN: statement_append(&end, parse_output(parser)); break;
        default: /* the beginning of a block */
            cti_jinja_advance(parser);
            if (at_end(parser, ends)) return first;
            statement_append(&end, parse_statement(parser));
            if (!parser->lexer.failed) cti_jinja_expect_end(parser, CTI_JINJA_BLOCK_END);
        }
    }
    return NULL;
}
