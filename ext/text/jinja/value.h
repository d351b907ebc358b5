/* The values of a chat template while it is rendered, and the run that owns them.
 *
 * Invariants:
 *
 * 1. A value never changes, except a namespace, a loop, an iterator, a cycler and a joiner. All
 *    memory of a run is in its arena, and ends with the run.
 * 2. Every byte of a string has a mark, which says who wrote it: 0 the template, k > 0 message
 *    k - 1, CTI_JINJA_OUTSIDE a tool, a document or a variable. Every other value has one mark.
 * What is copied keeps the mark of each byte. What is made (a number's digits, a word such as None,
 *    what tojson and repr write) has the mark of the value that it stands for; brackets, commas,
 *    colons, indents and the quotes of strings have the mark of the container that they stand in.
 *    The quotes of a string that stands in no container have the string's `mark`. Comparison, `in`
 *    and keys ignore marks.
 * 3. The first error of a run stays. From then on cti_jinja_step and cti_jinja_next return false,
 *    takes return NULL, and whatever makes a value returns an undefined one; every function here
 *    takes what these return. So a function needs to check only pointers that it uses itself. */
#ifndef CTI_TEXT_JINJA_VALUE_H
#define CTI_TEXT_JINJA_VALUE_H

#include <cotangent/types.h>

#include "../../../src/core/message.h"
#include "../arena.h"

enum {
    CTI_JINJA_TEXT = 1 << 20,    /* bytes of a template */
    CTI_JINJA_OUTPUT = 64 << 20, /* bytes of the output, and of one string */
    CTI_JINJA_STEPS = 10000000,
    CTI_JINJA_STEP_BYTES = 128, /* of a string that is read, for a step */
    CTI_JINJA_DEPTH = 200,
    CTI_JINJA_RANGE = 100000,
    CTI_JINJA_MEMORY = 1 << 30, /* bytes of the arena of a run */
    CTI_JINJA_OUTSIDE = -1
};

typedef enum {
    CTI_JINJA_ABSENT, /* an argument that was not given; never seen by a template */
    CTI_JINJA_UNDEFINED,
    CTI_JINJA_NONE,
    CTI_JINJA_BOOL,
    CTI_JINJA_INT,
    CTI_JINJA_REAL,
    CTI_JINJA_STRING,
    CTI_JINJA_LIST,
    CTI_JINJA_TUPLE,
    CTI_JINJA_VIEW, /* a dict's items(), keys() or values() */
    CTI_JINJA_RANGE_OBJECT,
    CTI_JINJA_DICT,
    CTI_JINJA_NAMESPACE,
    CTI_JINJA_CYCLER,
    CTI_JINJA_JOINER,
    CTI_JINJA_LOOP,
    CTI_JINJA_MACRO,
    CTI_JINJA_METHOD,   /* bound to its receiver */
    CTI_JINJA_FUNCTION, /* a global */
    CTI_JINJA_ITERATOR, /* what map, select, batch, ... return: it can be passed over once */
    CTI_JINJA_KINDS
} cti_jinja_kind;

typedef struct cti_jinja_run cti_jinja_run;
typedef struct cti_jinja_string cti_jinja_string;
typedef struct cti_jinja_list cti_jinja_list;
typedef struct cti_jinja_dict cti_jinja_dict;
typedef struct cti_jinja_missing cti_jinja_missing;
typedef struct cti_jinja_iterator cti_jinja_iterator;
typedef struct cti_jinja_cycler cti_jinja_cycler;
typedef struct cti_jinja_joiner cti_jinja_joiner;
typedef struct cti_jinja_loop cti_jinja_loop;
typedef struct cti_jinja_macro cti_jinja_macro;
typedef struct cti_jinja_bound cti_jinja_bound;
typedef struct cti_jinja_row cti_jinja_row;

typedef struct {
    cti_jinja_kind kind;
    int32_t mark; /* a string's: that of all its bytes, or 0 if they differ */
    union {
        bool boolean;
        int64_t integer;
        double real;
        const cti_jinja_string *string;
        const cti_jinja_list *list; /* LIST, TUPLE, VIEW, RANGE_OBJECT */
        const cti_jinja_dict *dict;
        cti_jinja_dict *space;            /* NAMESPACE */
        const cti_jinja_missing *missing; /* UNDEFINED; NULL after an error */
        cti_jinja_iterator *iterator;
        cti_jinja_cycler *cycler;
        cti_jinja_joiner *joiner;
        cti_jinja_loop *loop;
        const cti_jinja_macro *macro;
        const cti_jinja_bound *bound; /* METHOD */
        const cti_jinja_row *row;     /* FUNCTION */
    };
} cti_jinja_value;

/* ---- the run ---- */

struct cti_jinja_run {
    cti_arena arena;
    size_t taken; /* bytes of the arena */
    int64_t steps;
    int depth;
    bool failed, no_memory; /* no_memory: the error is that memory was short */
    char error[CTI_MESSAGE_SIZE];
    size_t at;   /* 1 + the byte of the template at which the error was met; 0: not known */
    int64_t now; /* the Unix time of strftime_now */
    struct cti_jinja_state *state; /* of the interpreter */
};

/* Records an error, unless there is one, and returns undefined. The words are Python's where Python
 * refuses. */
CT_FORMAT(2, 3)
cti_jinja_value cti_jinja_fail(cti_jinja_run *run, const char *format, ...);
/* Takes count * size bytes; NULL after an error, which is recorded in the run. */
void *cti_jinja_take(cti_jinja_run *run, size_t count, size_t size);
/* Counts a step. Returns false after an error, and when there have been too many. Each loop whose
 * length a template decides calls it or cti_jinja_next. */
bool cti_jinja_step(cti_jinja_run *run);
/* Counts the steps of reading a string, for what passes over its operands once. Returns false after
 * an error. */
bool cti_jinja_read(cti_jinja_run *run, cti_jinja_value value);
/* What calls itself for values in values stands between these. enter returns false, and leave must
 * not follow, after an error and at the depth limit. */
bool cti_jinja_enter(cti_jinja_run *run);
void cti_jinja_leave(cti_jinja_run *run);

/* ---- simple values ---- */

static inline cti_jinja_value cti_jinja_none(int32_t mark) {
    return (cti_jinja_value){.kind = CTI_JINJA_NONE, .mark = mark};
}
static inline cti_jinja_value cti_jinja_bool(bool is, int32_t mark) {
    return (cti_jinja_value){.kind = CTI_JINJA_BOOL, .mark = mark, .boolean = is};
}
static inline cti_jinja_value cti_jinja_int(int64_t i, int32_t mark) {
    return (cti_jinja_value){.kind = CTI_JINJA_INT, .mark = mark, .integer = i};
}
static inline cti_jinja_value cti_jinja_real(double x, int32_t mark) {
    return (cti_jinja_value){.kind = CTI_JINJA_REAL, .mark = mark, .real = x};
}

/* ---- strings: UTF-8, which is always well-formed, with the length and indices of characters ----
 */

typedef struct {
    size_t end; /* behind the last byte; the first is the end of the span before */
    int32_t mark;
} cti_jinja_span;

struct cti_jinja_string {
    const char *at; /* no NUL follows */
    size_t size;
    int64_t length; /* in characters; equal to size if all of them are ASCII */
    int32_t mark;   /* of all bytes, if there are no spans; else 0 */
    bool markup;    /* what `|safe` makes: + escapes the other operand */
    uint32_t spans;
    const cti_jinja_span *span; /* [spans], if bytes have different marks; they cover the string */
};

static inline bool cti_jinja_is_ascii(const cti_jinja_string *string) {
    return (size_t)string->length == string->size;
}
/* A string of these bytes, which must stay (`make` copies them). They are well-formed UTF-8. */
cti_jinja_value cti_jinja_string_view(cti_jinja_run *run, const char *at, size_t size,
                                      int32_t mark);
cti_jinja_value cti_jinja_string_make(cti_jinja_run *run, const char *at, size_t size,
                                      int32_t mark);
cti_jinja_value cti_jinja_string_value(const cti_jinja_string *string);
/* A part of a string, by bytes that are beginnings of characters; it keeps marks and markup. */
cti_jinja_value cti_jinja_substring(cti_jinja_run *run, const cti_jinja_string *string,
                                    size_t begin, size_t end);
/* The same bytes with another markup. */
cti_jinja_value cti_jinja_string_markup(cti_jinja_run *run, const cti_jinja_string *string,
                                        bool markup);
/* The byte at which character `index` in [0, length] begins, and the reverse. */
size_t cti_jinja_byte_of(const cti_jinja_string *string, int64_t index);
int64_t cti_jinja_index_of(const cti_jinja_string *string, size_t byte);
int32_t cti_jinja_mark_at(const cti_jinja_string *string, size_t byte);
bool cti_jinja_string_is(const cti_jinja_string *string, const char *text);
bool cti_jinja_string_equal(const cti_jinja_string *a, const cti_jinja_string *b);
/* Finds a string from the byte `from` on, or with `last` its last occurrence that ends at or before
 * `to`. Returns the byte, or SIZE_MAX. */
size_t cti_jinja_find(const cti_jinja_string *in, const cti_jinja_string *what, size_t from,
                      size_t to, bool last);

/* A string that grows. After an error of the run, adding does nothing. */
typedef struct {
    cti_jinja_run *run;
    char *at;
    size_t size, room;
    cti_jinja_span *span; /* the marks of what was added; neighbours differ */
    size_t spans, span_room;
} cti_jinja_builder;

cti_jinja_builder cti_jinja_build(cti_jinja_run *run);
void cti_jinja_add(cti_jinja_builder *builder, const char *bytes, size_t size, int32_t mark);
void cti_jinja_add_text(cti_jinja_builder *builder, const char *text, int32_t mark);
void cti_jinja_add_string(cti_jinja_builder *builder, const cti_jinja_string *string);
void cti_jinja_add_part(cti_jinja_builder *builder, const cti_jinja_string *string, size_t begin,
                        size_t end);
/* The string; the builder is empty behind it. */
cti_jinja_value cti_jinja_built(cti_jinja_builder *builder, bool markup);

/* ---- containers ---- */

struct cti_jinja_list {
    cti_jinja_value *item;
    int64_t count, room;
    const char *name;          /* a view's, "dict_items"; a group's, CTI_JINJA_GROUP; or NULL */
    int64_t start, stop, step; /* a range's */
};
/* The type of a tuple of groupby, which has the attributes grouper and list. */
#define CTI_JINJA_GROUP "_GroupTuple"
/* A list, which can be appended to until it is a value that a template sees; NULL after an error.
 */
cti_jinja_list *cti_jinja_list_new(cti_jinja_run *run, int64_t room);
void cti_jinja_append(cti_jinja_run *run, cti_jinja_list *list, cti_jinja_value value);
/* `kind` is CTI_JINJA_LIST, TUPLE, VIEW or RANGE_OBJECT. */
cti_jinja_value cti_jinja_list_value(cti_jinja_kind kind, const cti_jinja_list *list, int32_t mark);
static inline bool cti_jinja_has_items(cti_jinja_value value) {
    return value.kind >= CTI_JINJA_LIST && value.kind <= CTI_JINJA_RANGE_OBJECT;
}

typedef struct {
    cti_jinja_value key, value;
    uint64_t hash;
} cti_jinja_entry;
struct cti_jinja_dict {
    cti_jinja_entry *entry; /* [count], in the order in which the keys were first set */
    int64_t count, room;
    uint32_t *slot; /* [slots] 1 + index of an entry; NULL while there are few */
    uint32_t slots;
};
cti_jinja_dict *cti_jinja_dict_new(cti_jinja_run *run, int64_t room);
/* Sets a key. One that is no string, number, None or tuple of these is an error as Python's. */
void cti_jinja_set(cti_jinja_run *run, cti_jinja_dict *dict, cti_jinja_value key,
                   cti_jinja_value value);
cti_jinja_value cti_jinja_dict_value(const cti_jinja_dict *dict, int32_t mark);
/* The value of a key; NULL if there is none, and after an error. */
const cti_jinja_value *cti_jinja_get(cti_jinja_run *run, const cti_jinja_dict *dict,
                                     cti_jinja_value key);
const cti_jinja_value *cti_jinja_get_text(const cti_jinja_dict *dict, const char *key);

/* ---- iteration ---- */

/* An iterator. `next` gets the next item, or returns false at the end or after an error. Whoever
 * writes another kind of iterator sets next, name and what next reads. */
struct cti_jinja_iterator {
    bool (*next)(cti_jinja_run *run, cti_jinja_iterator *iterator, cti_jinja_value *item);
    const char *name;          /* of its Python type, "generator" */
    cti_jinja_value source;    /* what it passes over */
    cti_jinja_iterator *inner; /* an iterator over that */
    int64_t at;
    const void *more;
};
/* An iterator over the items of a list, keys of a dict, characters of a string, nothing of an
 * undefined value; an iterator itself. Any other value is an error, "'int' object is not iterable".
 * NULL after an error. */
cti_jinja_iterator *cti_jinja_iterate(cti_jinja_run *run, cti_jinja_value value);
/* Counts a step. `iterator` may be NULL. */
bool cti_jinja_next(cti_jinja_run *run, cti_jinja_iterator *iterator, cti_jinja_value *item);
/* Whether cti_jinja_iterate takes the value. */
bool cti_jinja_is_iterable(cti_jinja_value value);
/* All items; NULL after an error. `list(value)` in Python. */
cti_jinja_list *cti_jinja_collect(cti_jinja_run *run, cti_jinja_value value);
/* `len(value)`; -1 after an error, "object of type 'int' has no len()". */
int64_t cti_jinja_length(cti_jinja_run *run, cti_jinja_value value);

/* The `next` of an iterator over `loop` itself: the loop's next item and the loop. */
bool cti_jinja_loop_pair(cti_jinja_run *run, cti_jinja_iterator *iterator, cti_jinja_value *item);
/* A member of a loop or a macro, such as loop.first. Returns false if there is no such member. */
bool cti_jinja_loop_member(cti_jinja_run *run, cti_jinja_loop *loop, const cti_jinja_string *name,
                           cti_jinja_value *found);
bool cti_jinja_macro_member(cti_jinja_run *run, const cti_jinja_macro *macro,
                            const cti_jinja_string *name, cti_jinja_value *found);
/* The length of what a loop passes over; -1 after an error. */
int64_t cti_jinja_loop_length(cti_jinja_run *run, cti_jinja_loop *loop);

/* ---- other kinds ---- */

/* What an undefined value would have been: a variable, or an attribute or item of `of`. */
struct cti_jinja_missing {
    cti_jinja_value of; /* ABSENT for a variable */
    cti_jinja_value name;
    const char *hint; /* the whole message in place of these; NULL */
};
/* `of` may be ABSENT. */
cti_jinja_value cti_jinja_undefined(cti_jinja_run *run, cti_jinja_value of, cti_jinja_value name);
cti_jinja_value cti_jinja_undefined_hint(cti_jinja_run *run, const char *hint);
/* Fails with the words of a use of an undefined value, "'x' is undefined". */
cti_jinja_value cti_jinja_undefined_fail(cti_jinja_run *run, cti_jinja_value undefined);

struct cti_jinja_cycler {
    const cti_jinja_list *items;
    int64_t at;
};
struct cti_jinja_joiner {
    cti_jinja_value separator;
    bool used;
};
struct cti_jinja_bound {
    cti_jinja_value receiver;
    const cti_jinja_row *row;
};

/* ---- rows: filters, tests, methods, globals ---- */

enum { CTI_JINJA_PARAMETERS = 9 };

/* What a function reads. arg[i] is the argument of parameter i of its row, ABSENT if it was not
 * given. The first parameter of a filter or a test is the value that stands before it. */
typedef struct {
    const cti_jinja_row *row;
    cti_jinja_value receiver; /* of a method */
    cti_jinja_value arg[CTI_JINJA_PARAMETERS];
    const cti_jinja_value *rest; /* [rests] positional arguments behind the parameters, if .rest */
    int64_t rests;
    const cti_jinja_dict *keywords; /* keyword arguments that are no parameters, if .keywords */
} cti_jinja_call;

struct cti_jinja_row {
    const char *name;
    cti_jinja_value (*run)(cti_jinja_run *run, const cti_jinja_call *call);
    const char *parameter[CTI_JINJA_PARAMETERS + 1]; /* names; NULL behind the last */
    int required;                                    /* so many parameters must be given */
    bool rest, keywords;                             /* *args and **kwargs */
    bool positional;     /* no parameter can be given by its name, as in Python's methods */
    const char *refused; /* why this name is not run ("the language has no ..."); NULL: it is */
};

/* The tables. Each ends with a row without a name. The language's documentation, and the test that
 * compares them with jinja2's registries, are made from them. */
extern const cti_jinja_row cti_jinja_filters[], cti_jinja_tests[], cti_jinja_globals[];
extern const cti_jinja_row cti_jinja_string_methods[], cti_jinja_markup_methods[],
    cti_jinja_list_methods[], cti_jinja_tuple_methods[], cti_jinja_dict_methods[],
    cti_jinja_int_methods[], cti_jinja_real_methods[], cti_jinja_cycler_methods[],
    cti_jinja_loop_methods[];

const cti_jinja_row *cti_jinja_row_find(const cti_jinja_row *table, const char *name, size_t size);
/* The method of this name of a value's kind; NULL if it has none. */
const cti_jinja_row *cti_jinja_method_find(cti_jinja_value receiver, const char *name, size_t size);
/* Binds n positional arguments and keywords (NULL: none) to the parameters of a row, and runs it.
 * What does not fit is an error in Python's words. */
cti_jinja_value cti_jinja_row_call(cti_jinja_run *run, const cti_jinja_row *row,
                                   cti_jinja_value receiver, const cti_jinja_value *arg, int64_t n,
                                   const cti_jinja_dict *keywords);
/* Calls a value: a macro, method, global, joiner, ... */
cti_jinja_value cti_jinja_value_call(cti_jinja_run *run, cti_jinja_value callee,
                                     const cti_jinja_value *arg, int64_t n,
                                     const cti_jinja_dict *keywords);

/* ---- what Python does with values ---- */

const char *cti_jinja_type_name(cti_jinja_value value); /* "str", "int", "NoneType", "Undefined" */
bool cti_jinja_truth(cti_jinja_run *run, cti_jinja_value value);
bool cti_jinja_equal(cti_jinja_run *run, cti_jinja_value a, cti_jinja_value b);
/* a < b, a <= b, a > b, a >= b for op "<", "<=", ">", ">="; kinds without an order are an error. */
bool cti_jinja_compare(cti_jinja_run *run, const char *op, cti_jinja_value a, cti_jinja_value b);
/* item in container */
bool cti_jinja_contains(cti_jinja_run *run, cti_jinja_value container, cti_jinja_value item);
/* op is one of + - * / // % **. */
cti_jinja_value cti_jinja_arithmetic(cti_jinja_run *run, const char *op, cti_jinja_value a,
                                     cti_jinja_value b);
/* -a, or with `plus` +a */
cti_jinja_value cti_jinja_negate(cti_jinja_run *run, cti_jinja_value a, bool plus);
/* a.name and a[key] by Jinja's rules: attribute and item, item and attribute. */
cti_jinja_value cti_jinja_attribute(cti_jinja_run *run, cti_jinja_value of, cti_jinja_value name);
cti_jinja_value cti_jinja_item(cti_jinja_run *run, cti_jinja_value of, cti_jinja_value key);
/* a.name without the item, as `|attr` has it. */
cti_jinja_value cti_jinja_attribute_only(cti_jinja_run *run, cti_jinja_value of,
                                         cti_jinja_value name);
/* Whether cti_jinja_slice takes a value with these bounds. */
bool cti_jinja_is_sliced(cti_jinja_value of, const cti_jinja_value bound[3]);
/* of[start:stop:step]; ABSENT or None where nothing is given. */
cti_jinja_value cti_jinja_slice(cti_jinja_run *run, cti_jinja_value of, cti_jinja_value start,
                                cti_jinja_value stop, cti_jinja_value step);

/* ---- printing: the library of filters, tests and methods has it ---- */

/* str(value) and repr(value). A value whose text is an address in Python (a macro, a generator) is
 * an error. */
void cti_jinja_print(cti_jinja_builder *out, cti_jinja_value value);
void cti_jinja_repr(cti_jinja_builder *out, cti_jinja_value value, int32_t quotes);
/* The string of str(value): the string itself if it is one. NULL after an error. */
const cti_jinja_string *cti_jinja_text(cti_jinja_run *run, cti_jinja_value value);
/* format % arguments, where the arguments are a tuple, a dict, or one value. */
cti_jinja_value cti_jinja_percent(cti_jinja_run *run, const cti_jinja_string *format,
                                  cti_jinja_value arguments);
/* Adds the string with &, <, >, ' and " escaped, as `|escape`. */
void cti_jinja_add_escaped(cti_jinja_builder *out, const cti_jinja_string *string);

#endif
