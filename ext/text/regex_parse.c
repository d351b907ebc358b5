/* The structure of regular expressions: groups, alternatives, repeats and anchors. */
#include "regex_parse.h"

#include <string.h>

#include "unicode.h"
#include "utf8.h"

static uint32_t set_node_add(cti_regex_parser *p, cti_set_builder *builder) {
    const uint32_t set = cti_regex_add_set(p, builder);
    return cti_regex_add_node(p, (cti_regex_node){.kind = CTI_NODE_SET, .a = set});
}

static uint32_t anchor_add(cti_regex_parser *p, cti_anchor anchor) {
    return cti_regex_add_node(
        p, (cti_regex_node){
               .kind = CTI_NODE_ANCHOR, .a = anchor, .may_be_empty = true, .no_target = true});
}

static bool is_one_char(const cti_regex_node *node) {
    return node->kind == CTI_NODE_CHAR || node->kind == CTI_NODE_SET;
}

static bool next_is(const cti_regex_parser *p, char c) { return p->at < p->end && *p->at == c; }

/* A character that stands for itself. With option i oniguruma also takes one character for two, for
 * example U+00DF for ss; expressions with such pairs are refused. */
static uint32_t char_node_add(cti_regex_parser *p, const char *at, uint32_t c) {
    if (!p->ignore_case)
        return cti_regex_add_node(p, (cti_regex_node){.kind = CTI_NODE_CHAR, .a = c});
    const uint32_t previous = p->folded;
    p->folded = cti_unicode_fold(c);
    if (cti_regex_begins_fold(previous, p->folded))
        return cti_regex_fault(p, at, "with option i this pair of letters is not supported");
    cti_set_builder set = {0};
    cti_set_add(&set, c, c);
    return cti_regex_add_class(p, &set, false);
}

static uint32_t escape_read(cti_regex_parser *p) {
    static const char letters[] = "AzZbB";
    static const cti_anchor anchors[] = {CTI_AT_TEXT_BEGIN, CTI_AT_TEXT_END, CTI_AT_LAST_LINE,
                                         CTI_AT_WORD_EDGE, CTI_NOT_AT_WORD_EDGE};
    const char *at = p->at++;
    const char *anchor = p->at < p->end && *p->at ? strchr(letters, *p->at) : NULL;
    if (anchor) {
        p->at++;
        return anchor_add(p, anchors[anchor - letters]);
    }
    cti_set_builder set = {0};
    bool is_set;
    uint32_t c = 0;
    if (cti_regex_read_set_escape(p, &set, false, &is_set) && is_set) return set_node_add(p, &set);
    cti_set_free(&set);
    if (p->fault || !cti_regex_read_char_escape(p, &c)) return 0;
    return char_node_add(p, at, c);
}

static uint32_t bracket_node_read(cti_regex_parser *p) {
    cti_set_builder set = {0};
    bool negated;
    p->at++;
    if (cti_regex_read_bracket(p, &set, &negated)) return cti_regex_add_class(p, &set, negated);
    cti_set_free(&set);
    return 0;
}

static uint32_t dot_read(cti_regex_parser *p) {
    cti_set_builder set = {0};
    p->at++;
    if (!p->dot_all) cti_set_add(&set, '\n', '\n');
    cti_set_negate(&set);
    return set_node_add(p, &set);
}

static uint32_t choice_read(cti_regex_parser *p);

/* Reads the rest of a group, behind its beginning; the options of the group are set. */
static uint32_t group_body_read(cti_regex_parser *p, const char *begin) {
    if (p->depth == CTI_REGEX_DEPTH)
        return cti_regex_fault(p, begin, "groups are nested too deeply");
    p->depth++;
    const uint32_t body = choice_read(p);
    p->depth--;
    if (!p->fault && !next_is(p, ')')) cti_regex_fault(p, begin, "the group has no ')'");
    p->at++;
    return p->fault ? 0 : body;
}

/* Adds the characters that a lookahead may see, or the end of the text. */
static bool look_add(cti_regex_parser *p, const char *begin, uint32_t index, cti_set_builder *set,
                     uint32_t *bits) {
    const cti_regex_node *node = &p->node[index];
    switch (node->kind) {
    case CTI_NODE_CHAR: cti_set_add(set, node->a, node->a); return true;
    case CTI_NODE_SET: cti_set_add_all(set, &p->set[node->a]); return true;
    case CTI_NODE_ANCHOR:
        if (node->a != CTI_AT_TEXT_END && node->a != CTI_AT_LINE_END) break;
        *bits |= CTI_LOOK_END;
        if (node->a == CTI_AT_LINE_END) cti_set_add(set, '\n', '\n');
        return true;
    case CTI_NODE_CHOICE:
        for (uint32_t child = node->child; child; child = p->node[child].next)
            if (!look_add(p, begin, child, set, bits)) return false;
        return true;
    default: break;
    }
    return cti_regex_fault(p, begin, "a lookahead of more than one character is not supported");
}

static uint32_t lookahead_read(cti_regex_parser *p, const char *begin, bool negated) {
    const uint32_t body = group_body_read(p, begin);
    cti_set_builder set = {0};
    uint32_t bits = negated ? CTI_LOOK_NOT : 0;
    if (!body || !look_add(p, begin, body, &set, &bits)) {
        cti_set_free(&set);
        return 0;
    }
    const uint32_t index = cti_regex_add_set(p, &set);
    return cti_regex_add_node(
        p,
        (cti_regex_node){
            .kind = CTI_NODE_LOOK, .a = index, .b = bits, .may_be_empty = true, .no_target = true});
}

/* An atomic group keeps the first match of its body: the longest one of a greedy repeat of one
 * character. Other bodies are not supported. */
static uint32_t atomic_read(cti_regex_parser *p, const char *begin) {
    const uint32_t body = group_body_read(p, begin);
    if (!body) return 0;
    cti_regex_node *node = &p->node[body];
    if (is_one_char(node)) return body;
    const bool is_run = node->kind == CTI_NODE_REPEAT && node->mode != CTI_LAZY &&
                        is_one_char(&p->node[node->child]) && node->min <= 1 &&
                        (node->max == CTI_NO_MAX || (node->min == 0 && node->max == 1));
    if (!is_run) return cti_regex_fault(p, begin, "this atomic group is not supported");
    node->mode = CTI_POSSESSIVE;
    return body;
}

/* Reads options such as i-m. */
static bool options_read(cti_regex_parser *p, const char *begin) {
    bool on = true;
    for (; p->at < p->end && *p->at != ':' && *p->at != ')'; p->at++) {
        switch (*p->at) {
        case '-': on = false; break;
        case 'i': p->ignore_case = on; break;
        case 'm': p->dot_all = on; break;
        default: return cti_regex_fault(p, begin, "this group is not supported");
        }
    }
    return p->at < p->end || cti_regex_fault(p, begin, "the group has no ')'");
}

/* Reads (?imx:...) or (?imx), whose options hold up to the end of the group around it, in all of
 * its alternatives that follow. */
static uint32_t option_group_read(cti_regex_parser *p, const char *begin) {
    const bool ignore_case = p->ignore_case, dot_all = p->dot_all;
    if (!options_read(p, begin)) return 0;
    uint32_t body;
    if (*p->at++ == ':') {
        body = group_body_read(p, begin);
    } else if (p->depth == CTI_REGEX_DEPTH) {
        return cti_regex_fault(p, begin, "groups are nested too deeply");
    } else {
        p->depth++;
        body = choice_read(p);
        p->depth--;
    }
    p->ignore_case = ignore_case;
    p->dot_all = dot_all;
    return body;
}

/* Passes over the name of a group up to its end. */
static uint32_t named_group_read(cti_regex_parser *p, const char *begin, char close) {
    const char *end = memchr(p->at, close, (size_t)(p->end - p->at));
    if (!end || end == p->at) return cti_regex_fault(p, begin, "the group's name has no end");
    p->at = end + 1;
    return group_body_read(p, begin);
}

/* Passes over comments: (?#...). They stand between any two tokens, also before a quantifier. */
static void comments_skip(cti_regex_parser *p) {
    while (p->end - p->at >= 3 && !memcmp(p->at, "(?#", 3)) {
        const char *begin = p->at;
        for (p->at += 3; p->at < p->end && *p->at != ')'; p->at++)
            if (*p->at == '\\' && p->end - p->at > 1) p->at++;
        if (p->at == p->end) {
            cti_regex_fault(p, begin, "the comment has no ')'");
            return;
        }
        p->at++;
    }
}

/* A capture, an atomic group and a group with options can be repeated, whatever they hold. */
static uint32_t made_target(cti_regex_parser *p, uint32_t body) {
    if (body) p->node[body].no_target = false;
    return body;
}

/* The options are those around the group again when it has been read. */
static uint32_t group_read(cti_regex_parser *p) {
    const bool ignore_case = p->ignore_case, dot_all = p->dot_all;
    const char *begin = p->at++;
    uint32_t body;
    if (next_is(p, '*')) return cti_regex_fault(p, begin, "callouts are not supported");
    if (!next_is(p, '?')) {
        body = made_target(p, group_body_read(p, begin));
    } else {
        p->at++;
        const char kind = p->at < p->end ? *p->at : ')';
        const char second = p->end - p->at > 1 ? p->at[1] : ')';
        if (kind == '<' && (second == '=' || second == '!'))
            return cti_regex_fault(p, begin, "lookbehind is not supported");
        if (!strchr(":=!><'", kind)) return made_target(p, option_group_read(p, begin));
        p->at++;
        switch (kind) {
        case ':': body = group_body_read(p, begin); break;
        case '=': body = lookahead_read(p, begin, false); break;
        case '!': body = lookahead_read(p, begin, true); break;
        case '>': body = atomic_read(p, begin); break;
        default: body = made_target(p, named_group_read(p, begin, kind == '<' ? '>' : '\'')); break;
        }
    }
    p->ignore_case = ignore_case;
    p->dot_all = dot_all;
    return body;
}

static uint32_t atom_read(cti_regex_parser *p) {
    const char *at = p->at;
    const uint32_t folded = p->folded;
    p->folded = 0;
    switch (*at) {
    case '(': p->folded = folded; return group_read(p);
    case '[': return bracket_node_read(p);
    case '.': return dot_read(p);
    case '\\': p->folded = folded; return escape_read(p);
    case '^': p->at++; return anchor_add(p, CTI_AT_LINE_BEGIN);
    case '$': p->at++; return anchor_add(p, CTI_AT_LINE_END);
    case '*':
    case '+':
    case '?': return cti_regex_fault(p, at, "nothing is repeated");
    default: break;
    }
    p->folded = folded;
    return char_node_add(p, at, cti_regex_take_char(p));
}

typedef struct {
    int32_t min, max;
    cti_repeat_mode mode;
    bool is_interval;
} repeat_range;

enum { MOST_REPEATS = 1000, MOST_QUANTIFIERS = 4 };

/* Reads the digits of a number, at most MOST_REPEATS; -1 if there is none. */
static int32_t count_read(const char **at, const char *end) {
    if (*at == end || **at < '0' || **at > '9') return -1;
    int32_t n = 0;
    for (; *at < end && **at >= '0' && **at <= '9'; (*at)++)
        if (n <= MOST_REPEATS) n = 10 * n + (**at - '0');
    return n;
}

/* Reads {n}, {n,}, {,m} or {n,m}. Other text that begins with '{' is no interval. */
static bool interval_read(cti_regex_parser *p, repeat_range *range) {
    const char *at = p->at + 1, *begin = p->at;
    const int32_t min = count_read(&at, p->end);
    int32_t max = min;
    if (at < p->end && *at == ',') {
        at++;
        max = count_read(&at, p->end);
    }
    if (at == p->end || *at != '}' || (min < 0 && max < 0)) return false;
    *range = (repeat_range){.min = min < 0 ? 0 : min, .max = max, .is_interval = true};
    if (min > MOST_REPEATS || max > MOST_REPEATS)
        return cti_regex_fault(p, begin, "more than 1000 repeats are not supported");
    if (max >= 0 && max < min) return cti_regex_fault(p, begin, "the interval is empty");
    p->at = at + 1;
    return true;
}

/* Reads a quantifier, if there is one. {n,m}+ is a repeat of {n,m}, and {n}? is (?:{n})?. */
static bool quantifier_read(cti_regex_parser *p, repeat_range *range) {
    comments_skip(p);
    if (p->fault || p->at == p->end) return false;
    switch (*p->at) {
    case '*': *range = (repeat_range){.max = CTI_NO_MAX}; break;
    case '+': *range = (repeat_range){.min = 1, .max = CTI_NO_MAX}; break;
    case '?': *range = (repeat_range){.max = 1}; break;
    case '{':
        if (!interval_read(p, range)) return false;
        if (range->min == range->max || !next_is(p, '?')) return true;
        range->mode = CTI_LAZY;
        p->at++;
        return true;
    default: return false;
    }
    p->at++;
    if (next_is(p, '?')) range->mode = CTI_LAZY;
    if (next_is(p, '+')) range->mode = CTI_POSSESSIVE;
    if (range->mode != CTI_GREEDY) p->at++;
    return true;
}

/* oniguruma repeats no anchor and no lookahead, and no alternatives of which one is nothing else.
 * A group (?:...) is what stands in it. */
static uint32_t repeat_add(cti_regex_parser *p, const char *at, uint32_t child,
                           const repeat_range *range) {
    const cti_regex_node *node = &p->node[child];
    if (node->no_target) return cti_regex_fault(p, at, "an anchor or a lookahead is repeated");
    if (range->max != 0 && range->max != 1 && node->may_be_empty) /* it may end a long repeat */
        return cti_regex_fault(p, at, "a repeat of an empty match is not supported");
    if (range->mode == CTI_POSSESSIVE && !is_one_char(node))
        return cti_regex_fault(p, at, "a possessive repeat of a group is not supported");
    return cti_regex_add_node(
        p, (cti_regex_node){.kind = CTI_NODE_REPEAT,
                            .min = range->min,
                            .max = range->max,
                            .mode = range->mode,
                            .may_be_empty = node->may_be_empty || range->min == 0,
                            .child = child});
}

/* Reads an atom and its quantifiers. */
static uint32_t term_read(cti_regex_parser *p) {
    uint32_t term = atom_read(p);
    const char *at = p->at;
    int depth = 0;
    for (repeat_range range; term && quantifier_read(p, &range); at = p->at) {
        if (depth++ == MOST_QUANTIFIERS)
            return cti_regex_fault(p, at, "there are too many quantifiers");
        term = repeat_add(p, at, term, &range);
        p->folded = 0;
    }
    return p->fault ? 0 : term;
}

static bool at_sequence_end(cti_regex_parser *p) {
    comments_skip(p);
    return p->fault || p->at == p->end || *p->at == '|' || *p->at == ')';
}

static uint32_t sequence_read(cti_regex_parser *p) {
    const uint32_t first = at_sequence_end(p) ? 0 : term_read(p);
    if (p->fault) return 0;
    if (!first)
        return cti_regex_add_node(p,
                                  (cti_regex_node){.kind = CTI_NODE_EMPTY, .may_be_empty = true});
    if (at_sequence_end(p)) return first;
    const uint32_t parent =
        cti_regex_add_node(p, (cti_regex_node){.kind = CTI_NODE_SEQUENCE,
                                               .may_be_empty = p->node[first].may_be_empty});
    uint32_t last = 0;
    for (uint32_t child = first; parent && child;) {
        cti_regex_append(p, parent, &last, child);
        p->node[parent].may_be_empty &= p->node[child].may_be_empty;
        child = at_sequence_end(p) ? 0 : term_read(p);
    }
    return p->fault ? 0 : parent;
}

/* Makes one set of alternatives that are one character each. */
static uint32_t alternatives_join(cti_regex_parser *p, uint32_t choice) {
    cti_set_builder set = {0};
    for (uint32_t child = p->node[choice].child; child; child = p->node[child].next) {
        const cti_regex_node *node = &p->node[child];
        if (!is_one_char(node)) {
            cti_set_free(&set);
            return choice;
        }
        if (node->kind == CTI_NODE_CHAR) cti_set_add(&set, node->a, node->a);
        else cti_set_add_all(&set, &p->set[node->a]);
    }
    return set_node_add(p, &set);
}

static uint32_t choice_read(cti_regex_parser *p) {
    const uint32_t first = sequence_read(p);
    if (!first || !next_is(p, '|')) return first;
    const uint32_t parent = cti_regex_add_node(p, (cti_regex_node){.kind = CTI_NODE_CHOICE});
    uint32_t last = 0;
    for (uint32_t child = first; parent && child;) {
        cti_regex_append(p, parent, &last, child);
        p->node[parent].may_be_empty |= p->node[child].may_be_empty;
        p->node[parent].no_target |= p->node[child].no_target;
        if (!next_is(p, '|')) break;
        p->at++;
        p->folded = 0;
        child = sequence_read(p);
    }
    return p->fault ? 0 : alternatives_join(p, parent);
}

uint32_t cti_regex_parse(cti_regex_parser *p) {
    const uint32_t root = choice_read(p);
    if (!p->fault && p->at < p->end) cti_regex_fault(p, p->at, "a ')' has no '('");
    return p->fault ? 0 : root;
}
