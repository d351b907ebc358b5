/* Expressions, from the loosest binding to the tightest: if-else, or, and, not, comparisons, + -,
 * ~,
 * * / // %, **, unary + and -, literals, subscripts and calls, filters and tests. */
#include <string.h>

#include "parser.h"

static cti_jinja_node *parse_unary(cti_jinja_parser *parser, bool with_filters);

/* Appends to a list; *end is where the next one goes. */
static void node_append(cti_jinja_node ***end, cti_jinja_node *node) {
    if (!node) return;
    **end = node;
    *end = &node->next;
}

/* Every expression inside of another passes here, so that brackets are not nested too deep. */
static bool expression_enter(cti_jinja_parser *parser) {
    if (++parser->depth <= CTI_JINJA_DEPTH) return true;
    cti_jinja_parse_fail(parser, "the template is nested more than %d deep", CTI_JINJA_DEPTH);
    return false;
}

static cti_jinja_node *binary_new(cti_jinja_parser *parser, cti_jinja_node_kind kind,
                                  const char *op, cti_jinja_node *first, cti_jinja_node *second) {
    if (!first || !second) return NULL;
    cti_jinja_node *node = cti_jinja_node_new(parser, kind, first->at);
    if (!node) return NULL;
    strcpy(node->op, op);
    node->first = first;
    node->second = second;
    return cti_jinja_node_done(parser, node);
}

/* The operator of a list that is here; NULL if none is. */
static const char *operator_of(const cti_jinja_parser *parser, const char *const *ops) {
    for (; *ops; ops++)
        if (cti_jinja_at_operator(parser, *ops)) return *ops;
    return NULL;
}

/* A level of operators that group from the left. */
static cti_jinja_node *parse_left(cti_jinja_parser *parser, const char *const *ops,
                                  cti_jinja_node *(*below)(cti_jinja_parser *)) {
    cti_jinja_node *left = below(parser);
    for (const char *op = operator_of(parser, ops); left && op; op = operator_of(parser, ops)) {
        const size_t at = parser->word.at;
        cti_jinja_advance(parser);
        left = binary_new(parser, CTI_JINJA_BINARY, op, left, below(parser));
        if (left) left->at = at;
    }
    return left;
}

static cti_jinja_node *parse_filtered(cti_jinja_parser *parser) {
    return parse_unary(parser, true);
}

static cti_jinja_node *parse_power(cti_jinja_parser *parser) {
    static const char *const ops[] = {"**", NULL};
    return parse_left(parser, ops, parse_filtered);
}

static cti_jinja_node *parse_product(cti_jinja_parser *parser) {
    static const char *const ops[] = {"*", "/", "//", "%", NULL};
    return parse_left(parser, ops, parse_power);
}

static cti_jinja_node *parse_concat(cti_jinja_parser *parser) {
    cti_jinja_node *first = parse_product(parser);
    if (!first || !cti_jinja_at_operator(parser, "~")) return first;
    cti_jinja_node *node = cti_jinja_node_new(parser, CTI_JINJA_CONCAT, first->at);
    if (!node) return NULL;
    node->first = first;
    cti_jinja_node **end = &first->next;
    while (cti_jinja_skip_operator(parser, "~")) node_append(&end, parse_product(parser));
    return cti_jinja_node_done(parser, node);
}

static cti_jinja_node *parse_sum(cti_jinja_parser *parser) {
    static const char *const ops[] = {"+", "-", NULL};
    return parse_left(parser, ops, parse_concat);
}

/* Passes over an operator of a comparison; NULL if none is here. */
static const char *skip_comparison(cti_jinja_parser *parser) {
    static const char *const ops[] = {"==", "!=", "<", "<=", ">", ">=", NULL};
    const char *op = operator_of(parser, ops);
    if (!op && cti_jinja_at_name(parser, "in")) op = "in";
    if (!op && cti_jinja_at_name(parser, "not")) {
        const cti_jinja_word ahead = cti_jinja_look_ahead(parser);
        if (ahead.kind == CTI_JINJA_NAME && cti_jinja_text_is(ahead.text, "in")) {
            op = "not";
            cti_jinja_advance(parser);
        }
    }
    if (op) cti_jinja_advance(parser);
    return op;
}

static cti_jinja_node *parse_compare(cti_jinja_parser *parser) {
    cti_jinja_node *first = parse_sum(parser);
    cti_jinja_node *node = NULL, **end = NULL;
    for (const char *op; first && (op = skip_comparison(parser)) != NULL;) {
        if (!node) {
            node = cti_jinja_node_new(parser, CTI_JINJA_COMPARE, first->at);
            if (!node) return NULL;
            node->first = first;
            end = &node->second;
        }
        cti_jinja_node *operand = cti_jinja_node_new(parser, CTI_JINJA_OPERAND, parser->word.at);
        if (!operand) return NULL;
        strcpy(operand->op, op);
        operand->first = parse_sum(parser);
        node_append(&end, cti_jinja_node_done(parser, operand));
    }
    return node ? cti_jinja_node_done(parser, node) : first;
}

static cti_jinja_node *parse_not(cti_jinja_parser *parser) {
    const size_t at = parser->word.at;
    if (!cti_jinja_at_name(parser, "not")) return parse_compare(parser);
    if (!expression_enter(parser)) return NULL;
    cti_jinja_advance(parser);
    cti_jinja_node *node = cti_jinja_node_new(parser, CTI_JINJA_NOT, at);
    if (node) node->first = parse_not(parser);
    parser->depth--;
    return cti_jinja_node_done(parser, node);
}

static cti_jinja_node *parse_and(cti_jinja_parser *parser) {
    cti_jinja_node *left = parse_not(parser);
    while (left && cti_jinja_skip_name(parser, "and"))
        left = binary_new(parser, CTI_JINJA_AND, "and", left, parse_not(parser));
    return left;
}

static cti_jinja_node *parse_or(cti_jinja_parser *parser) {
    cti_jinja_node *left = parse_and(parser);
    while (left && cti_jinja_skip_name(parser, "or"))
        left = binary_new(parser, CTI_JINJA_OR, "or", left, parse_and(parser));
    return left;
}

cti_jinja_node *cti_jinja_parse_expression(cti_jinja_parser *parser, bool condition) {
    if (!expression_enter(parser)) return NULL;
    cti_jinja_node *value = parse_or(parser);
    while (condition && value && cti_jinja_skip_name(parser, "if")) {
        cti_jinja_node *node = cti_jinja_node_new(parser, CTI_JINJA_CONDITION, value->at);
        if (!node) return NULL;
        node->second = value;
        node->first = parse_or(parser);
        if (cti_jinja_skip_name(parser, "else"))
            node->third = cti_jinja_parse_expression(parser, true);
        value = cti_jinja_node_done(parser, node);
    }
    parser->depth--;
    return parser->lexer.failed ? NULL : value;
}

/* ---- primaries ---- */

static cti_jinja_node *constant_new(cti_jinja_parser *parser, size_t at, cti_jinja_value value) {
    cti_jinja_node *node = cti_jinja_node_new(parser, CTI_JINJA_CONSTANT, at);
    if (!node) return NULL;
    node->constant = value;
    node->flag = true;
    return node;
}

static cti_jinja_node *parse_name(cti_jinja_parser *parser, bool spaces) {
    const cti_jinja_word word = parser->word;
    const bool yes = cti_jinja_text_is(word.text, "true") || cti_jinja_text_is(word.text, "True");
    const bool no = cti_jinja_text_is(word.text, "false") || cti_jinja_text_is(word.text, "False");
    cti_jinja_advance(parser);
    if (yes || no) return constant_new(parser, word.at, cti_jinja_bool(yes, 0));
    if (cti_jinja_text_is(word.text, "none") || cti_jinja_text_is(word.text, "None"))
        return constant_new(parser, word.at, cti_jinja_none(0));
    cti_jinja_node *node = cti_jinja_node_new(parser, CTI_JINJA_VARIABLE, word.at);
    if (!node) return NULL;
    node->text = cti_jinja_word_string(parser, word.text);
    cti_text attribute;
    if (spaces && cti_jinja_skip_operator(parser, ".")) {
        if (!cti_jinja_expect_name(parser, &attribute)) return NULL;
        const cti_jinja_string *name = cti_jinja_word_string(parser, attribute);
        node->kind = CTI_JINJA_SPACE;
        node->constant = cti_jinja_string_value(name);
    }
    return node;
}

/* Strings that follow each other are one. */
static cti_jinja_node *parse_strings(cti_jinja_parser *parser) {
    const size_t at = parser->word.at;
    cti_text text = parser->word.text;
    cti_jinja_advance(parser);
    size_t room = 0; /* of a copy */
    while (parser->word.kind == CTI_JINJA_STRING_WORD) {
        const cti_text more = parser->word.text;
        if (text.size + more.size > room) {
            room = 2 * (text.size + more.size);
            char *copy = cti_jinja_new(parser, room + 1);
            if (!copy) return NULL;
            memcpy(copy, text.at, text.size);
            text.at = copy;
        }
        memcpy((char *)text.at + text.size, more.at, more.size);
        text.size += more.size;
        cti_jinja_advance(parser);
    }
    const cti_jinja_string *string = cti_jinja_word_string(parser, text);
    cti_jinja_node *node = constant_new(parser, at, cti_jinja_string_value(string));
    if (!node) return NULL;
    node->other = parser->literals;
    parser->literals = node;
    return node;
}

/* [a, b, ...] or {a: b, ...}, behind the opening bracket. */
static cti_jinja_node *parse_items(cti_jinja_parser *parser, cti_jinja_node_kind kind,
                                   const char *close) {
    cti_jinja_node *node = cti_jinja_node_new(parser, kind, parser->word.at);
    if (!node) return NULL;
    cti_jinja_node **end = &node->first;
    cti_jinja_advance(parser);
    while (!parser->lexer.failed && !cti_jinja_at_operator(parser, close)) {
        if (node->first && !cti_jinja_expect_operator(parser, ",")) return NULL;
        if (cti_jinja_at_operator(parser, close)) break;
        node_append(&end, cti_jinja_parse_expression(parser, true));
        if (kind != CTI_JINJA_DICT_OF) continue;
        if (!cti_jinja_expect_operator(parser, ":")) return NULL;
        node_append(&end, cti_jinja_parse_expression(parser, true));
    }
    if (!cti_jinja_expect_operator(parser, close)) return NULL;
    return cti_jinja_node_done(parser, node);
}

/* How an error names the current word. */
static cti_jinja_node *fail_unexpected(cti_jinja_parser *parser) {
    const cti_jinja_word word = parser->word;
    if (word.kind == CTI_JINJA_END)
        return cti_jinja_parse_fail(parser, "unexpected 'end of template'");
    if (word.kind == CTI_JINJA_BLOCK_END)
        return cti_jinja_parse_fail(parser, "unexpected 'end of statement block'");
    if (word.kind == CTI_JINJA_VARIABLE_END)
        return cti_jinja_parse_fail(parser, "unexpected 'end of print statement'");
    return cti_jinja_parse_fail(parser, "unexpected '%.*s'", (int)word.text.size, word.text.at);
}

static cti_jinja_node *parse_primary(cti_jinja_parser *parser, bool spaces) {
    const cti_jinja_word word = parser->word;
    switch (word.kind) {
    case CTI_JINJA_NAME: return parse_name(parser, spaces);
    case CTI_JINJA_STRING_WORD: return parse_strings(parser);
    case CTI_JINJA_INTEGER_WORD:
        cti_jinja_advance(parser);
        return constant_new(parser, word.at, cti_jinja_int(word.integer, 0));
    case CTI_JINJA_REAL_WORD:
        cti_jinja_advance(parser);
        return constant_new(parser, word.at, cti_jinja_real(word.real, 0));
    default: break;
    }
    if (cti_jinja_at_operator(parser, "(")) {
        cti_jinja_advance(parser);
        cti_jinja_node *node = cti_jinja_parse_tuple(parser, true, "(");
        return cti_jinja_expect_operator(parser, ")") ? node : NULL;
    }
    if (cti_jinja_at_operator(parser, "[")) return parse_items(parser, CTI_JINJA_LIST_OF, "]");
    if (cti_jinja_at_operator(parser, "{")) return parse_items(parser, CTI_JINJA_DICT_OF, "}");
    return fail_unexpected(parser);
}

/* end_name is the name behind a target; "(" for a tuple in parentheses, which may be empty. */
static bool is_tuple_end(const cti_jinja_parser *parser, const char *end_name) {
    return parser->word.kind == CTI_JINJA_VARIABLE_END ||
           parser->word.kind == CTI_JINJA_BLOCK_END || cti_jinja_at_operator(parser, ")") ||
           (end_name && cti_jinja_at_name(parser, end_name));
}

static cti_jinja_node *parse_tuple_of(cti_jinja_parser *parser, bool target, bool flag,
                                      const char *end_name) {
    const size_t at = parser->word.at;
    cti_jinja_node *first = NULL, **end = &first;
    bool tuple = false;
    while (!parser->lexer.failed) {
        if (first && !cti_jinja_expect_operator(parser, ",")) return NULL;
        if (is_tuple_end(parser, end_name)) break;
        node_append(&end, target ? parse_primary(parser, flag)
                                 : cti_jinja_parse_expression(parser, flag));
        if (!cti_jinja_at_operator(parser, ",")) break;
        tuple = true;
    }
    if (parser->lexer.failed || (!tuple && first)) return first;
    if (!tuple && !(end_name && *end_name == '(')) return fail_unexpected(parser);
    cti_jinja_node *node = cti_jinja_node_new(parser, CTI_JINJA_TUPLE_OF, at);
    if (node) node->first = first;
    return cti_jinja_node_done(parser, node);
}

cti_jinja_node *cti_jinja_parse_tuple(cti_jinja_parser *parser, bool condition,
                                      const char *end_name) {
    return parse_tuple_of(parser, false, condition, end_name);
}

static bool can_assign(const cti_jinja_node *target) {
    if (target->kind == CTI_JINJA_VARIABLE || target->kind == CTI_JINJA_SPACE) return true;
    if (target->kind != CTI_JINJA_TUPLE_OF) return false;
    for (const cti_jinja_node *item = target->first; item; item = item->next)
        if (!can_assign(item)) return false;
    return true;
}

cti_jinja_node *cti_jinja_parse_target(cti_jinja_parser *parser, bool spaces,
                                       const char *end_name) {
    cti_jinja_node *target = parse_tuple_of(parser, true, spaces, end_name);
    if (parser->lexer.failed || !target) return NULL;
    if (can_assign(target)) return target;
    const char *kind = target->kind == CTI_JINJA_CONSTANT   ? "const"
                       : target->kind == CTI_JINJA_TUPLE_OF ? "tuple"
                       : target->kind == CTI_JINJA_LIST_OF  ? "list"
                       : target->kind == CTI_JINJA_DICT_OF  ? "dict"
                                                            : "expression";
    return cti_jinja_parse_fail(parser, "can't assign to '%s'", kind);
}

/* ---- what follows a primary ---- */

/* One index or slice of of[...]; a slice's bounds are second, third and fourth of the result. */
static cti_jinja_node *parse_subscript(cti_jinja_parser *parser) {
    cti_jinja_node *bound[3] = {NULL};
    const size_t at = parser->word.at;
    if (!cti_jinja_at_operator(parser, ":")) {
        bound[0] = cti_jinja_parse_expression(parser, true);
        if (!bound[0] || !cti_jinja_at_operator(parser, ":")) return bound[0];
    }
    for (int i = 1; i < 3 && cti_jinja_skip_operator(parser, ":"); i++)
        if (!cti_jinja_at_operator(parser, ":") && !cti_jinja_at_operator(parser, "]") &&
            !cti_jinja_at_operator(parser, ","))
            bound[i] = cti_jinja_parse_expression(parser, true);
    cti_jinja_node *node = cti_jinja_node_new(parser, CTI_JINJA_SLICE, at);
    if (!node) return NULL;
    node->second = bound[0];
    node->third = bound[1];
    node->fourth = bound[2];
    return node;
}

static cti_jinja_node *parse_brackets(cti_jinja_parser *parser, cti_jinja_node *of) {
    const size_t at = parser->word.at;
    cti_jinja_advance(parser);
    cti_jinja_node *first = NULL, **end = &first;
    int count = 0;
    while (!parser->lexer.failed && !cti_jinja_at_operator(parser, "]")) {
        if (first && !cti_jinja_expect_operator(parser, ",")) return NULL;
        node_append(&end, parse_subscript(parser));
        count++;
    }
    if (!cti_jinja_expect_operator(parser, "]")) return NULL;
    if (count == 1 && first && first->kind == CTI_JINJA_SLICE && !first->first) {
        first->first = of;
        return cti_jinja_node_done(parser, first);
    }
    for (cti_jinja_node *item = first; item; item = item->next)
        if (item->kind == CTI_JINJA_SLICE && !item->first)
            return cti_jinja_parse_fail(parser, "a slice among several indices is not run");
    cti_jinja_node *node = cti_jinja_node_new(parser, CTI_JINJA_ITEM, at);
    if (!node) return NULL;
    node->first = of;
    node->second = first;
    if (count != 1) {
        node->second = cti_jinja_node_new(parser, CTI_JINJA_TUPLE_OF, at);
        if (!node->second) return NULL;
        node->second->first = first;
        if (!cti_jinja_node_done(parser, node->second)) return NULL;
    }
    return cti_jinja_node_done(parser, node);
}

static cti_jinja_node *parse_dot(cti_jinja_parser *parser, cti_jinja_node *of) {
    cti_jinja_advance(parser);
    const cti_jinja_word word = parser->word;
    if (word.kind != CTI_JINJA_NAME && word.kind != CTI_JINJA_INTEGER_WORD)
        return cti_jinja_parse_fail(parser, "expected name or number");
    cti_jinja_advance(parser);
    cti_jinja_node *node = cti_jinja_node_new(
        parser, word.kind == CTI_JINJA_NAME ? CTI_JINJA_ATTRIBUTE : CTI_JINJA_ITEM, word.at);
    if (!node) return NULL;
    node->first = of;
    if (word.kind == CTI_JINJA_NAME) {
        node->text = cti_jinja_word_string(parser, word.text);
        node->other = parser->literals;
        parser->literals = node;
    } else {
        node->second = constant_new(parser, word.at, cti_jinja_int(word.integer, 0));
    }
    return cti_jinja_node_done(parser, node);
}

/* One argument of a call; *ended is set behind **. */
static bool parse_argument(cti_jinja_parser *parser, cti_jinja_arguments *arguments,
                           cti_jinja_node ***positional, cti_jinja_node ***keyword) {
    static const char fault[] = "invalid syntax for function call expression";
    const cti_jinja_word word = parser->word;
    if (cti_jinja_skip_operator(parser, "*")) {
        if (arguments->star || arguments->star_star) return cti_jinja_parse_fail(parser, fault);
        arguments->star = cti_jinja_parse_expression(parser, true);
        return arguments->star != NULL;
    }
    if (cti_jinja_skip_operator(parser, "**")) {
        if (arguments->star_star) return cti_jinja_parse_fail(parser, fault);
        arguments->star_star = cti_jinja_parse_expression(parser, true);
        return arguments->star_star != NULL;
    }
    const cti_jinja_word ahead = cti_jinja_look_ahead(parser);
    if (word.kind == CTI_JINJA_NAME && ahead.kind == CTI_JINJA_OPERATOR &&
        cti_jinja_text_is(ahead.text, "=")) {
        if (arguments->star_star) return cti_jinja_parse_fail(parser, fault);
        cti_jinja_node *node = cti_jinja_node_new(parser, CTI_JINJA_KEYWORD, word.at);
        if (!node) return false;
        node->text = cti_jinja_word_string(parser, word.text);
        cti_jinja_advance(parser);
        cti_jinja_advance(parser);
        for (cti_jinja_node *other = arguments->keyword; other; other = other->next)
            if (other->text == node->text)
                return cti_jinja_parse_fail(parser, "keyword argument repeated: %.*s",
                                            (int)word.text.size, word.text.at);
        node->first = cti_jinja_parse_expression(parser, true);
        node_append(keyword, cti_jinja_node_done(parser, node));
        return node->first != NULL;
    }
    if (arguments->star || arguments->star_star || arguments->keyword)
        return cti_jinja_parse_fail(parser, fault);
    node_append(positional, cti_jinja_parse_expression(parser, true));
    arguments->count++;
    return !parser->lexer.failed;
}

/* (a, b, c=d, *e, **f), at its opening bracket. */
static cti_jinja_arguments *parse_arguments(cti_jinja_parser *parser) {
    cti_jinja_arguments *arguments = cti_jinja_new(parser, sizeof *arguments);
    if (!arguments || !cti_jinja_expect_operator(parser, "(")) return NULL;
    cti_jinja_node **positional = &arguments->positional, **keyword = &arguments->keyword;
    for (bool first = true; !cti_jinja_at_operator(parser, ")"); first = false) {
        if (!first && !cti_jinja_expect_operator(parser, ",")) return NULL;
        if (!first && cti_jinja_at_operator(parser, ")")) break;
        if (!parse_argument(parser, arguments, &positional, &keyword)) return NULL;
    }
    return cti_jinja_expect_operator(parser, ")") ? arguments : NULL;
}

static cti_jinja_node *parse_call(cti_jinja_parser *parser, cti_jinja_node *callee) {
    cti_jinja_node *node = cti_jinja_node_new(parser, CTI_JINJA_CALL, parser->word.at);
    if (!node) return NULL;
    node->first = callee;
    node->arguments = parse_arguments(parser);
    return cti_jinja_node_done(parser, node);
}

static cti_jinja_node *parse_postfix(cti_jinja_parser *parser, cti_jinja_node *node) {
    while (node && !parser->lexer.failed) {
        if (cti_jinja_at_operator(parser, ".")) node = parse_dot(parser, node);
        else if (cti_jinja_at_operator(parser, "[")) node = parse_brackets(parser, node);
        else if (cti_jinja_at_operator(parser, "(")) node = parse_call(parser, node);
        else break;
    }
    return node;
}

/* ---- filters and tests ---- */

/* The name of a filter or a test: no built-in one has a dot. */
static bool parse_row_name(cti_jinja_parser *parser, cti_jinja_node *node,
                           const cti_jinja_row *table) {
    cti_text name = {0};
    node->at = parser->word.at;
    if (!cti_jinja_expect_name(parser, &name)) return false;
    const cti_text first = name;
    while (cti_jinja_skip_operator(parser, "."))
        if (!cti_jinja_expect_name(parser, &name)) return false;
    node->text = cti_jinja_word_string(
        parser, (cti_text){first.at, (size_t)(name.at - first.at) + name.size});
    node->row = name.at == first.at ? cti_jinja_row_find(table, name.at, name.size) : NULL;
    return node->text != NULL;
}

cti_jinja_node *cti_jinja_parse_filters(cti_jinja_parser *parser, cti_jinja_node *first,
                                        bool inline_first) {
    while (!parser->lexer.failed && (inline_first || cti_jinja_skip_operator(parser, "|"))) {
        cti_jinja_node *node = cti_jinja_node_new(parser, CTI_JINJA_FILTERED, parser->word.at);
        if (!node || !parse_row_name(parser, node, cti_jinja_filters)) return NULL;
        node->first = first;
        if (cti_jinja_at_operator(parser, "(")) node->arguments = parse_arguments(parser);
        first = cti_jinja_node_done(parser, node);
        inline_first = false;
    }
    return first;
}

/* Whether the word begins the argument of a test without brackets, as in `x is divisibleby 3`. */
static bool begins_argument(const cti_jinja_parser *parser) {
    switch (parser->word.kind) {
    case CTI_JINJA_STRING_WORD:
    case CTI_JINJA_INTEGER_WORD:
    case CTI_JINJA_REAL_WORD: return true;
    case CTI_JINJA_NAME:
        return !cti_jinja_at_name(parser, "else") && !cti_jinja_at_name(parser, "or") &&
               !cti_jinja_at_name(parser, "and");
    default: return cti_jinja_at_operator(parser, "[") || cti_jinja_at_operator(parser, "{");
    }
}

/* Behind `is`. */
static cti_jinja_node *parse_test(cti_jinja_parser *parser, cti_jinja_node *first) {
    const size_t at = parser->word.at;
    const bool negated = cti_jinja_skip_name(parser, "not");
    cti_jinja_node *node = cti_jinja_node_new(parser, CTI_JINJA_TESTED, parser->word.at);
    if (!node || !parse_row_name(parser, node, cti_jinja_tests)) return NULL;
    node->first = first;
    if (cti_jinja_at_operator(parser, "(")) {
        node->arguments = parse_arguments(parser);
    } else if (begins_argument(parser)) {
        if (cti_jinja_at_name(parser, "is"))
            return cti_jinja_parse_fail(parser, "You cannot chain multiple tests with is");
        node->arguments = cti_jinja_new(parser, sizeof *node->arguments);
        if (!node->arguments) return NULL;
        node->arguments->count = 1;
        node->arguments->positional = parse_postfix(parser, parse_primary(parser, false));
    }
    node = cti_jinja_node_done(parser, node);
    if (!negated || !node) return node;
    cti_jinja_node *not = cti_jinja_node_new(parser, CTI_JINJA_NOT, at);
    if (not ) not ->first = node;
    return cti_jinja_node_done(parser, not );
}

static cti_jinja_node *parse_unary(cti_jinja_parser *parser, bool with_filters) {
    const bool minus = cti_jinja_at_operator(parser, "-"),
               plus = cti_jinja_at_operator(parser, "+");
    cti_jinja_node *node;
    if (minus || plus) {
        node = cti_jinja_node_new(parser, minus ? CTI_JINJA_NEGATIVE : CTI_JINJA_POSITIVE,
                                  parser->word.at);
        if (!node || !expression_enter(parser)) return NULL;
        cti_jinja_advance(parser);
        node->first = parse_unary(parser, false);
        parser->depth--;
        node = cti_jinja_node_done(parser, node);
    } else {
        node = parse_primary(parser, false);
    }
    node = parse_postfix(parser, node);
    while (with_filters && node && !parser->lexer.failed) {
        if (cti_jinja_at_operator(parser, "|")) node = cti_jinja_parse_filters(parser, node, false);
        else if (cti_jinja_skip_name(parser, "is")) node = parse_test(parser, node);
        else if (cti_jinja_at_operator(parser, "(")) node = parse_call(parser, node);
        else break;
    }
    return parser->lexer.failed ? NULL : node;
}
