/* The parser's stream of words, its memory, and the compilation as a whole. */
#include "parser.h"

#include <stdarg.h>
#include <string.h>

void cti_jinja_advance(cti_jinja_parser *parser) {
    parser->word = parser->has_ahead ? parser->ahead : cti_jinja_lex_next(&parser->lexer);
    parser->has_ahead = false;
}

cti_jinja_word cti_jinja_look_ahead(cti_jinja_parser *parser) {
    if (!parser->has_ahead) parser->ahead = cti_jinja_lex_next(&parser->lexer);
    parser->has_ahead = true;
    return parser->ahead;
}

bool cti_jinja_skip_name(cti_jinja_parser *parser, const char *name) {
    if (!cti_jinja_at_name(parser, name)) return false;
    cti_jinja_advance(parser);
    return true;
}

bool cti_jinja_skip_operator(cti_jinja_parser *parser, const char *op) {
    if (!cti_jinja_at_operator(parser, op)) return false;
    cti_jinja_advance(parser);
    return true;
}

void *cti_jinja_parse_fail(cti_jinja_parser *parser, const char *format, ...) {
    char text[CTI_MESSAGE_SIZE];
    va_list args;
    va_start(args, format);
    cti_message(text, sizeof text, format, args);
    va_end(args);
    cti_jinja_lex_fail(&parser->lexer, parser->word.at, "%s", text);
    return NULL;
}

/* What an error calls the current word. */
static cti_text word_described(const cti_jinja_parser *parser) {
    switch (parser->word.kind) {
    case CTI_JINJA_END: return cti_text_of("end of template");
    case CTI_JINJA_BLOCK_BEGIN: return cti_text_of("begin of statement block");
    case CTI_JINJA_BLOCK_END: return cti_text_of("end of statement block");
    case CTI_JINJA_VARIABLE_BEGIN: return cti_text_of("begin of print statement");
    case CTI_JINJA_VARIABLE_END: return cti_text_of("end of print statement");
    case CTI_JINJA_DATA: return cti_text_of("template data / text");
    case CTI_JINJA_STRING_WORD: return cti_text_of("string");
    case CTI_JINJA_INTEGER_WORD: return cti_text_of("integer");
    case CTI_JINJA_REAL_WORD: return cti_text_of("float");
    case CTI_JINJA_NAME:
    case CTI_JINJA_OPERATOR: break;
    }
    return parser->word.text;
}

static void *fail_expected(cti_jinja_parser *parser, const char *wanted) {
    const cti_text got = word_described(parser);
    if (parser->word.kind == CTI_JINJA_END)
        return cti_jinja_parse_fail(parser, "unexpected end of template, expected '%s'.", wanted);
    return cti_jinja_parse_fail(parser, "expected token '%s', got '%.*s'", wanted, (int)got.size,
                                got.at);
}

bool cti_jinja_expect_operator(cti_jinja_parser *parser, const char *op) {
    return cti_jinja_skip_operator(parser, op) || fail_expected(parser, op);
}

bool cti_jinja_expect_end(cti_jinja_parser *parser, cti_jinja_word_kind kind) {
    if (parser->word.kind != kind)
        return fail_expected(parser, kind == CTI_JINJA_BLOCK_END ? "end of statement block"
                                                                 : "end of print statement");
    cti_jinja_advance(parser);
    return true;
}

bool cti_jinja_expect_word(cti_jinja_parser *parser, const char *name) {
    return cti_jinja_skip_name(parser, name) || fail_expected(parser, name);
}

bool cti_jinja_expect_name(cti_jinja_parser *parser, cti_text *name) {
    if (parser->word.kind != CTI_JINJA_NAME) return fail_expected(parser, "name");
    *name = parser->word.text;
    cti_jinja_advance(parser);
    return true;
}

/* ---- memory ---- */

void *cti_jinja_new(cti_jinja_parser *parser, size_t size) {
    if (parser->lexer.failed) return NULL;
    void *part = cti_arena_take(parser->arena, 1, size);
    if (!part) {
        cti_jinja_lex_no_memory(&parser->lexer);
        return NULL;
    }
    return memset(part, 0, size);
}

cti_jinja_node *cti_jinja_node_new(cti_jinja_parser *parser, cti_jinja_node_kind kind, size_t at) {
    cti_jinja_node *node = cti_jinja_new(parser, sizeof *node);
    if (!node) return NULL;
    node->kind = kind;
    node->at = at;
    return node;
}

/* The depth of a list; *constant stays true if all of its nodes are. */
static int list_depth(const cti_jinja_node *node, bool *constant) {
    int depth = 0;
    for (; node; node = node->next) {
        if (node->depth > depth) depth = node->depth;
        *constant &= node->flag;
    }
    return depth;
}

/* Whether a node is constant if those below it are: jinja2 folds no variable, no call, and no
 * filter that reads the context. */
static bool keeps_constant(const cti_jinja_node *node) {
    static const char *const names[] = {"map",        "select",     "reject",
                                        "selectattr", "rejectattr", NULL};
    if (node->kind == CTI_JINJA_VARIABLE || node->kind == CTI_JINJA_CALL) return false;
    for (int i = 0; node->kind == CTI_JINJA_FILTERED && names[i]; i++)
        if (cti_jinja_string_is(node->text, names[i])) return false;
    return true;
}

cti_jinja_node *cti_jinja_node_done(cti_jinja_parser *parser, cti_jinja_node *node) {
    if (parser->lexer.failed || !node) return NULL;
    const bool row = node->kind == CTI_JINJA_CALL || node->kind == CTI_JINJA_FILTERED ||
                     node->kind == CTI_JINJA_TESTED;
    const cti_jinja_arguments *arguments = row ? node->arguments : NULL;
    const cti_jinja_node *below[8] = {node->first, node->second, node->third, node->fourth};
    if (arguments) {
        below[4] = arguments->positional;
        below[5] = arguments->keyword;
        below[6] = arguments->star;
        below[7] = arguments->star_star;
    }
    int depth = 0;
    bool constant = keeps_constant(node);
    for (int i = 0; i < 8; i++) {
        const int of = list_depth(below[i], &constant);
        if (of > depth) depth = of;
    }
    node->depth = (uint16_t)(depth + 1);
    node->flag = constant;
    if (depth < CTI_JINJA_DEPTH) return node;
    return cti_jinja_parse_fail(parser, "the template is nested more than %d deep",
                                CTI_JINJA_DEPTH);
}

/* ---- names ---- */

static uint32_t name_hash(cti_text text) {
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < text.size; i++) hash = (hash ^ (unsigned char)text.at[i]) * 16777619u;
    return hash ^ hash >> 15;
}

static void put_name(cti_jinja_parser *parser, cti_jinja_name *name) {
    const cti_text text = {name->string.at, name->string.size};
    uint32_t at = name_hash(text) & (parser->names_room - 1);
    while (parser->name[at]) at = (at + 1) & (parser->names_room - 1);
    parser->name[at] = name;
}

static bool names_grow(cti_jinja_parser *parser) {
    if (2 * parser->names < parser->names_room) return true;
    cti_jinja_name **old = parser->name;
    const uint32_t before = parser->names_room, room = before ? 4 * before : 64;
    cti_jinja_name **table = cti_jinja_new(parser, room * sizeof(cti_jinja_name *));
    if (!table) return false;
    parser->name = table;
    parser->names_room = room;
    for (uint32_t i = 0; i < before; i++)
        if (old[i]) put_name(parser, old[i]);
    return true;
}

const cti_jinja_string *cti_jinja_word_string(cti_jinja_parser *parser, cti_text text) {
    if (!names_grow(parser)) return NULL;
    uint32_t at = name_hash(text) & (parser->names_room - 1);
    for (; parser->name[at]; at = (at + 1) & (parser->names_room - 1)) {
        const cti_jinja_string *known = &parser->name[at]->string;
        if (known->size == text.size && !memcmp(known->at, text.at, text.size)) return known;
    }
    cti_jinja_name *name = cti_jinja_new(parser, sizeof *name);
    if (!name) return NULL;
    int64_t length = 0;
    for (size_t i = 0; i < text.size; i++) length += ((unsigned char)text.at[i] & 0xC0) != 0x80;
    name->string = (cti_jinja_string){.at = text.at, .size = text.size, .length = length};
    parser->name[at] = name;
    parser->names++;
    return &name->string;
}

/* ---- the whole ---- */

const cti_jinja_template *cti_jinja_compile(cti_arena *arena, cti_text text,
                                            cti_jinja_fault *fault) {
    cti_jinja_parser parser = {.arena = arena};
    *fault = (cti_jinja_fault){.line = 0};
    if (!cti_jinja_lex(&parser.lexer, arena, text, fault)) return NULL;
    cti_jinja_template *jinja = cti_jinja_new(&parser, sizeof *jinja);
    if (!jinja) return NULL;
    jinja->text = parser.lexer.text;
    jinja->size = parser.lexer.size;
    parser.jinja = jinja;
    cti_jinja_advance(&parser);
    jinja->body = cti_jinja_parse_statements(&parser, NULL);
    if (parser.lexer.failed || !cti_jinja_resolve(&parser, jinja)) return NULL;
    jinja->literals = parser.literals;
    return parser.lexer.failed ? NULL : jinja;
}

bool cti_jinja_has_generation(const cti_jinja_template *jinja) { return jinja->has_generation; }

bool cti_jinja_names(const cti_jinja_template *jinja, cti_text member) {
    for (const cti_jinja_node *node = jinja->literals; node; node = node->other) {
        const cti_jinja_string *text =
            node->kind == CTI_JINJA_ATTRIBUTE ? node->text : node->constant.string;
        if (text->size == member.size && !memcmp(text->at, member.at, member.size)) return true;
    }
    return false;
}

bool cti_jinja_writes(const cti_jinja_template *jinja, cti_text bytes) {
    const cti_jinja_string what = {.at = bytes.at, .size = bytes.size};
    for (const cti_jinja_node *node = jinja->literals; node; node = node->other)
        if (node->kind != CTI_JINJA_ATTRIBUTE &&
            cti_jinja_find(node->constant.string, &what, 0, node->constant.string->size, false) !=
                SIZE_MAX)
            return true;
    return false;
}
