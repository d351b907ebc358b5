/* Programs of regular expressions, made of the tree that the parser gives. */
#include <cotangent/autograd.h>

#include <stdlib.h>
#include <string.h>

#include "regex_parse.h"

enum { MOST_REGEX_OPS = 20000, MOST_CHOICES = 1024 };

typedef struct {
    cti_regex_parser *p;
    cti_regex_op *op;
    uint32_t count, room, choices;
} regex_builder;

static uint32_t op_emit(regex_builder *d, cti_regex_kind kind, uint32_t a, uint32_t b) {
    const bool is_choice = kind == CTI_RE_SPLIT || kind == CTI_RE_STAR || kind == CTI_RE_SPAN;
    if (d->count == MOST_REGEX_OPS || (is_choice && d->choices == MOST_CHOICES))
        return cti_regex_fault(d->p, d->p->end, "the expression is too large");
    if (d->count == d->room) {
        const uint32_t room = d->room ? 2 * d->room : 64;
        cti_regex_op *more = realloc(d->op, room * sizeof *more);
        if (!more) {
            d->p->no_memory = true;
            return cti_regex_fault(d->p, d->p->end, "no memory");
        }
        d->op = more;
        d->room = room;
    }
    d->op[d->count] =
        (cti_regex_op){.kind = kind, .a = a, .b = b, .choice = is_choice ? d->choices++ : 0};
    return d->count++;
}

static void node_emit(regex_builder *d, uint32_t index);

/* SPLIT first, second; first: ...; JUMP end; second: ...; end: */
static void choice_emit(regex_builder *d, uint32_t index) {
    uint32_t jumps = UINT32_MAX; /* the last JUMP to the end, whose `a` is the one before it */
    for (uint32_t child = d->p->node[index].child; child && !d->p->fault;) {
        const uint32_t next = d->p->node[child].next;
        const uint32_t split = next ? op_emit(d, CTI_RE_SPLIT, d->count + 1, 0) : 0;
        node_emit(d, child);
        if (next) jumps = op_emit(d, CTI_RE_JUMP, jumps, 0);
        if (next && !d->p->fault) d->op[split].b = d->count;
        child = next;
    }
    while (!d->p->fault && jumps != UINT32_MAX) {
        const uint32_t before = d->op[jumps].a;
        d->op[jumps].a = d->count;
        jumps = before;
    }
}

/* The set of a node that is one character. */
static uint32_t set_of_node(regex_builder *d, uint32_t index) {
    const cti_regex_node *node = &d->p->node[index];
    if (node->kind == CTI_NODE_SET) return node->a;
    cti_set_builder set = {0};
    cti_set_add(&set, node->a, node->a);
    return cti_regex_add_set(d->p, &set);
}

static bool is_one_char_node(const regex_builder *d, uint32_t index) {
    const cti_node_kind kind = d->p->node[index].kind;
    return kind == CTI_NODE_CHAR || kind == CTI_NODE_SET;
}

/* Sets the two ways of a SPLIT at `split`: on into the body at split + 1, or out to `out`. */
static void split_aim(regex_builder *d, uint32_t split, uint32_t out, bool lazy) {
    if (d->p->fault) return;
    d->op[split].a = lazy ? out : split + 1;
    d->op[split].b = lazy ? split + 1 : out;
}

/* The part of a repeat that has no upper limit. */
static void endless_emit(regex_builder *d, const cti_regex_node *repeat) {
    if (repeat->mode != CTI_LAZY && is_one_char_node(d, repeat->child)) {
        const cti_regex_kind kind = repeat->mode == CTI_GREEDY ? CTI_RE_STAR : CTI_RE_SPAN;
        op_emit(d, kind, set_of_node(d, repeat->child), 0);
        return;
    }
    const uint32_t split = op_emit(d, CTI_RE_SPLIT, 0, 0);
    node_emit(d, repeat->child);
    op_emit(d, CTI_RE_JUMP, split, 0);
    split_aim(d, split, d->count, repeat->mode == CTI_LAZY);
}

/* Up to n more copies of a repeat's body: SPLIT, body, SPLIT, body, ..., all SPLITs to the end. */
static void optional_emit(regex_builder *d, const cti_regex_node *repeat, int32_t n) {
    uint32_t splits = UINT32_MAX; /* the last SPLIT, whose `a` is the one before it */
    for (int32_t i = 0; i < n && !d->p->fault; i++) {
        splits = op_emit(d, CTI_RE_SPLIT, splits, 0);
        node_emit(d, repeat->child);
    }
    while (!d->p->fault && splits != UINT32_MAX) {
        const uint32_t before = d->op[splits].a;
        split_aim(d, splits, d->count, repeat->mode == CTI_LAZY);
        splits = before;
    }
}

static void repeat_emit(regex_builder *d, const cti_regex_node repeat) {
    for (int32_t i = 0; i < repeat.min && !d->p->fault; i++) {
        const uint32_t begin = d->count;
        node_emit(d, repeat.child);
        if (d->count == begin) break; /* an empty body */
    }
    if (repeat.max == CTI_NO_MAX) endless_emit(d, &repeat);
    else if (repeat.mode != CTI_POSSESSIVE) optional_emit(d, &repeat, repeat.max - repeat.min);
    else if (repeat.max > repeat.min) op_emit(d, CTI_RE_OPTION, set_of_node(d, repeat.child), 0);
}

/* The parser bounds the depth of the tree, so this recursion is bounded. */
static void node_emit(regex_builder *d, uint32_t index) {
    if (d->p->fault) return;
    const cti_regex_node node = d->p->node[index];
    switch (node.kind) {
    case CTI_NODE_EMPTY: break;
    case CTI_NODE_CHAR: op_emit(d, CTI_RE_CHAR, node.a, 0); break;
    case CTI_NODE_SET: op_emit(d, CTI_RE_SET, node.a, 0); break;
    case CTI_NODE_ANCHOR: op_emit(d, CTI_RE_ANCHOR, node.a, 0); break;
    case CTI_NODE_LOOK: op_emit(d, CTI_RE_LOOK, node.a, node.b); break;
    case CTI_NODE_CHOICE: choice_emit(d, index); break;
    case CTI_NODE_REPEAT: repeat_emit(d, node); break;
    case CTI_NODE_SEQUENCE:
        for (uint32_t child = node.child; child && !d->p->fault; child = d->p->node[child].next)
            node_emit(d, child);
        break;
    }
}

/* Copies a set into the arena. */
static bool set_keep(const cti_reading *reading, const cti_set_builder *builder,
                     cti_char_set *set) {
    *set = (cti_char_set){.count = (uint32_t)builder->count};
    cti_char_range *range = cti_arena_take(reading->arena, builder->count + 1, sizeof *range);
    if (!range) return false;
    if (builder->count) memcpy(range, builder->range, builder->count * sizeof *range);
    set->range = range;
    for (size_t i = 0; i < builder->count && range[i].first < 0x80; i++)
        for (uint32_t c = range[i].first; c <= range[i].last && c < 0x80; c++)
            set->ascii[c / 32] |= UINT32_C(1) << (c % 32);
    return true;
}

/* Copies the program into the arena. */
static bool program_keep(const cti_reading *reading, const regex_builder *d, cti_regex *regex) {
    cti_regex_op *op = cti_arena_take(reading->arena, d->count, sizeof *op);
    cti_char_set *set = cti_arena_take(reading->arena, d->p->sets + 1, sizeof *set);
    if (!op || !set) return false;
    memcpy(op, d->op, d->count * sizeof *op);
    for (uint32_t i = 0; i < d->p->sets; i++)
        if (!set_keep(reading, &d->p->set[i], &set[i])) return false;
    *regex = (cti_regex){.op = op, .set = set, .count = d->count, .choices = d->choices};
    return true;
}

static void regex_builder_free(regex_builder *d) {
    for (uint32_t i = 0; i < d->p->sets; i++) cti_set_free(&d->p->set[i]);
    for (int i = 0; i < CTI_PROPERTIES; i++) cti_set_free(&d->p->property[i]);
    free(d->p->set);
    free(d->p->node);
    free(d->op);
}

bool cti_regex_compile(const cti_reading *reading, cti_json_at value, cti_text expression,
                       cti_regex *regex) {
    cti_regex_parser p = {.at = expression.at, .end = expression.at + expression.size};
    regex_builder d = {.p = &p};
    const uint32_t root = cti_regex_parse(&p);
    if (root) node_emit(&d, root);
    if (root) op_emit(&d, CTI_RE_MATCH, 0, 0);
    bool works = !p.fault;
    if (works) works = program_keep(reading, &d, regex);
    else if (p.no_memory)
        ct_fail(reading->context, CT_ERR_MEMORY, "tokenizer_open: no memory for an expression");
    else
        cti_reading_fail(reading, value, "regex: byte %lu: %s",
                         (unsigned long)(p.fault_at - expression.at), p.fault);
    regex_builder_free(&d);
    return works;
}
