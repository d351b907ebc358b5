/* The parsing of a regular expression into a tree: regex_parse.c has the structure, regex_class.c
 * the sets of characters, regex_fold.c what option i adds to them, regex_nodes.c the tree, and
 * regex_compile.c makes a program of the tree. */
#ifndef CTI_TEXT_REGEX_PARSE_H
#define CTI_TEXT_REGEX_PARSE_H

#include "char_property.h"
#include "regex.h"

typedef enum {
    CTI_NODE_EMPTY,
    CTI_NODE_CHAR,     /* the character `a` */
    CTI_NODE_SET,      /* a character of set[a] */
    CTI_NODE_SEQUENCE, /* its children one after the other */
    CTI_NODE_CHOICE,   /* the first of its children that matches */
    CTI_NODE_REPEAT,   /* its child, min to max times */
    CTI_NODE_ANCHOR,   /* the anchor `a` */
    CTI_NODE_LOOK      /* looks ahead: set[a], with bits `b` (CTI_LOOK_END, CTI_LOOK_NOT) */
} cti_node_kind;

typedef enum { CTI_GREEDY, CTI_LAZY, CTI_POSSESSIVE } cti_repeat_mode;

enum { CTI_NO_MAX = -1 };

typedef struct {
    cti_node_kind kind;
    uint32_t a, b;
    int32_t min, max; /* the limits of a repeat; CTI_NO_MAX: it has no upper limit */
    cti_repeat_mode mode;
    bool may_be_empty;    /* whether it matches an empty text */
    bool no_target;       /* oniguruma repeats no such node: see repeat_add */
    uint32_t child, next; /* indices of the first child and the next sibling; 0: none */
} cti_regex_node;

/* A parser. After the first fault every function returns 0 or false. */
typedef struct {
    const char *at, *end;
    const char *fault;    /* NULL: none */
    const char *fault_at; /* the place of the fault */
    bool no_memory;
    bool ignore_case, dot_all; /* the options i and m of the group that is being read */
    uint32_t folded;      /* the last character's fold, if it was read with ignore_case; or 0 */
    int depth;            /* the number of groups and brackets around the place */
    cti_regex_node *node; /* node[0] is not used */
    uint32_t nodes, node_room;
    cti_set_builder *set; /* sorted */
    uint32_t sets, set_room;
    size_t ranges; /* the number of ranges in all sets */
    cti_set_builder
        property[CTI_PROPERTIES]; /* those that have been read; without ranges: not yet */
} cti_regex_parser;

enum { CTI_REGEX_DEPTH = 50, CTI_MOST_RANGES = 500000 };

/* Records the first fault, which is at `at`; returns false. */
static inline bool cti_regex_fault(cti_regex_parser *p, const char *at, const char *fault) {
    if (!p->fault) {
        p->fault = fault;
        p->fault_at = at;
    }
    return false;
}

/* Takes over a builder, which is sorted here. Returns the index of the set; 0 after a fault. Set 0
 * is not used. */
uint32_t cti_regex_add_set(cti_regex_parser *p, cti_set_builder *builder);

/* Adds a node; returns its index, or 0 after a fault. */
uint32_t cti_regex_add_node(cti_regex_parser *p, cti_regex_node node);
/* Appends a child to a node's list, whose last child is *last. */
void cti_regex_append(cti_regex_parser *p, uint32_t parent, uint32_t *last, uint32_t child);
/* Adds the node of a class of characters, or of all others, folded if option i is on. Takes over
 * the builder. */
uint32_t cti_regex_add_class(cti_regex_parser *p, cti_set_builder *set, bool negated);
/* Whether the fold of several characters begins with these two folds. */
bool cti_regex_begins_fold(uint32_t a, uint32_t b);

/* Parses the whole expression; returns the index of the root, or 0 after a fault. */
uint32_t cti_regex_parse(cti_regex_parser *p);

/* Reads a bracket expression, of which p->at is behind the '['. The set is not negated yet. */
bool cti_regex_read_bracket(cti_regex_parser *p, cti_set_builder *set, bool *negated);
/* Reads the escape of a set of characters, such as \s or \p{L}, of which p->at is behind the
 * backslash; `bracket`: it is in a bracket. Sets *is_set to whether it is one; if not, nothing is
 * read. */
bool cti_regex_read_set_escape(cti_regex_parser *p, cti_set_builder *set, bool bracket,
                               bool *is_set);
/* Reads the escape of a character, of which p->at is behind the backslash. */
bool cti_regex_read_char_escape(cti_regex_parser *p, uint32_t *c);
uint32_t cti_regex_take_char(cti_regex_parser *p); /* reads a character as it is */

#endif
