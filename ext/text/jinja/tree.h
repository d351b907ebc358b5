/* The tree of a template. It lies in the arena of its template and never changes once it is
 * compiled.
 *
 * Names are resolved when the template is compiled (names.c). A function is what Python would run
 * as one: the template itself, a macro, the body of a call block or of {% generation %}, a
 * recursive loop, the condition of a loop. Its variables are slots; a frame is a part of it with
 * variables of its own, such as the body of a loop, and begins with a list of loads. */
#ifndef CTI_TEXT_JINJA_TREE_H
#define CTI_TEXT_JINJA_TREE_H

#include "jinja.h"

typedef enum {
    /* expressions */
    CTI_JINJA_CONSTANT,
    CTI_JINJA_VARIABLE,  /* text */
    CTI_JINJA_ATTRIBUTE, /* first . text */
    CTI_JINJA_ITEM,      /* first [second] */
    CTI_JINJA_SLICE,     /* first [second : third : fourth] */
    CTI_JINJA_CALL,      /* first (arguments) */
    CTI_JINJA_FILTERED,  /* first | row (arguments); first NULL: what the block has captured */
    CTI_JINJA_TESTED,    /* first is row (arguments) */
    CTI_JINJA_NOT,
    CTI_JINJA_NEGATIVE,
    CTI_JINJA_POSITIVE,
    CTI_JINJA_BINARY, /* first op second, arithmetic */
    CTI_JINJA_AND,
    CTI_JINJA_OR,
    CTI_JINJA_COMPARE,   /* first and the OPERANDs second, ... */
    CTI_JINJA_OPERAND,   /* op first */
    CTI_JINJA_CONCAT,    /* first, ... joined by ~ */
    CTI_JINJA_CONDITION, /* second if first else third (NULL) */
    CTI_JINJA_LIST_OF,   /* first, ... */
    CTI_JINJA_TUPLE_OF,
    CTI_JINJA_DICT_OF, /* key, value, key, value, ... */
    CTI_JINJA_KEYWORD, /* text = first */
    CTI_JINJA_SPACE,   /* as a target: the attribute `constant` of the namespace text */
    /* statements */
    CTI_JINJA_TEXT_OUT,     /* constant */
    CTI_JINJA_PRINT,        /* first, ... */
    CTI_JINJA_IF,           /* first; body; other */
    CTI_JINJA_FOR,          /* first in second if third; body; other */
    CTI_JINJA_SET,          /* first = second */
    CTI_JINJA_SET_BLOCK,    /* first = body | second (NULL) */
    CTI_JINJA_MACRO_OF,     /* first is the VARIABLE that it is stored in */
    CTI_JINJA_CALL_BLOCK,   /* first is the call */
    CTI_JINJA_FILTER_BLOCK, /* body | first */
    CTI_JINJA_WITH,         /* first is the first target, second the first value */
    CTI_JINJA_GENERATION,
    CTI_JINJA_BLOCK,
    CTI_JINJA_BREAK,
    CTI_JINJA_CONTINUE
} cti_jinja_node_kind;

typedef struct cti_jinja_node cti_jinja_node;

/* Where a variable is: a slot of the function that is `up` functions around the running one. */
typedef struct {
    uint32_t up, slot;
} cti_jinja_ref;

/* What a variable is when its frame begins. */
typedef struct {
    enum { CTI_JINJA_GIVEN, CTI_JINJA_RESOLVED, CTI_JINJA_ALIAS, CTI_JINJA_UNSET } how;
    uint32_t slot;
    cti_jinja_ref from;           /* ALIAS: a variable of a frame around */
    const cti_jinja_string *name; /* RESOLVED: a variable of the render */
} cti_jinja_load;

typedef struct {
    cti_jinja_load *load; /* [loads] */
    uint32_t loads;
} cti_jinja_frame;

typedef struct {
    cti_jinja_node *positional; /* a list */
    cti_jinja_node *keyword;    /* a list of KEYWORDs */
    cti_jinja_node *star, *star_star;
    int64_t count; /* positional ones */
} cti_jinja_arguments;

/* A function with parameters: of a macro, a call block, a generation. */
typedef struct {
    const cti_jinja_string *name; /* NULL: a caller */
    cti_jinja_node *parameter;    /* a list of VARIABLEs */
    cti_jinja_node *defaults;     /* a list, of the last parameters */
    int64_t parameters, defaulted;
    int64_t caller, keywords, rest; /* slots of caller, kwargs and varargs; -1: not read */
    bool explicit_caller;           /* a parameter has this name */
    uint32_t slots;
    cti_jinja_frame frame;
} cti_jinja_function;

struct cti_jinja_node {
    cti_jinja_node_kind kind : 8;
    uint16_t depth; /* of the tree below */
    bool flag; /* an expression: it is constant; FOR: recursive; SET, SET_BLOCK, MACRO_OF: at the
                * top level */
    bool extended; /* FOR: `loop` is read */
    char op[4];    /* "+", "//", "<=", "in", "not" (not in), ... */
    size_t at;     /* its byte in the template */
    cti_jinja_node *next;
    cti_jinja_node *first, *second, *third, *fourth, *body, *other;
    const cti_jinja_string *text;
    cti_jinja_value constant;
    cti_jinja_ref ref; /* VARIABLE, SPACE; FOR: the variable `loop` */
    union {
        struct {
            const cti_jinja_row *row; /* FILTER, TEST; NULL: there is none of this name */
            cti_jinja_arguments *arguments;
        };
        struct { /* statements */
            cti_jinja_frame *frame, *else_frame, *test_frame;
            uint32_t slots, test_slots; /* of the functions of a recursive loop and a condition */
        };
        cti_jinja_function *function;
    };
};

struct cti_jinja_template {
    const char *text;
    size_t size;
    cti_jinja_node *body;
    cti_jinja_frame frame;
    uint32_t slots;
    bool has_generation, has_blocks;
    cti_jinja_node *literals; /* DATA and strings, linked by `other`, and attributes by `second` */
};

/* A name of the template, while it is compiled: its bindings, the innermost first, and its slots in
 * the functions that are open (names.c). */
typedef struct cti_jinja_binding cti_jinja_binding;
typedef struct cti_jinja_slot cti_jinja_slot;
typedef struct cti_jinja_name {
    cti_jinja_string string;
    cti_jinja_binding *binding;
    cti_jinja_slot *slot;
} cti_jinja_name;

/* Resolves the names of the tree. Returns false after an error. */
struct cti_jinja_parser;
bool cti_jinja_resolve(struct cti_jinja_parser *parser, cti_jinja_template *jinja);

#endif
