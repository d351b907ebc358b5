/* The interpreter: what the parts of it share. */
#ifndef CTI_TEXT_JINJA_INTERPRET_H
#define CTI_TEXT_JINJA_INTERPRET_H

#include "tree.h"

/* The variables of a function that runs; a macro keeps those of the functions around it. */
typedef struct cti_jinja_activation cti_jinja_activation;
struct cti_jinja_activation {
    cti_jinja_activation *around;
    cti_jinja_value slot[];
};

struct cti_jinja_macro {
    const cti_jinja_node *node; /* of which .function and .body */
    cti_jinja_activation *around;
};

struct cti_jinja_loop {
    cti_jinja_value of; /* what the loop passes over */
    cti_jinja_iterator *iterator;
    int64_t index0, length; /* length -1: not known yet */
    bool has_after;         /* the next item has been read */
    cti_jinja_value before, current, after;
    const cti_jinja_list *changed; /* the arguments of the last loop.changed; NULL */
    const cti_jinja_node *node;    /* of a recursive loop; NULL */
    cti_jinja_activation *around;
    int64_t depth0;
};

/* What {% generation %} has enclosed: `length` characters from a byte of the text. */
typedef struct {
    size_t begin;
    int64_t length;
} cti_jinja_generated;

typedef struct cti_jinja_state {
    const cti_jinja_dict *variables; /* of the render */
    cti_jinja_dict *set;             /* at the top level, if the template has blocks */
    cti_jinja_builder *out, *root;   /* where output goes, and the text that is made */
    const cti_jinja_node *blocks;
    cti_jinja_value captured; /* by the set or filter block whose filter runs */
    /* A constant is printed. jinja2 computes it when it compiles, by a function to which a slice of
     * what has no slices is undefined. */
    bool folds;
    int nesting;                    /* of calls of this code */
    cti_jinja_generated *generated; /* [generations] */
    size_t generations, generated_room;
} cti_jinja_state;

/* More than this many calls inside each other would need too much of a thread's stack. */
enum { CTI_JINJA_NESTING = 2000 };
bool cti_jinja_nest(cti_jinja_run *run);

typedef enum { CTI_JINJA_GO_ON, CTI_JINJA_BROKEN, CTI_JINJA_CONTINUED } cti_jinja_signal;

cti_jinja_activation *cti_jinja_activate(cti_jinja_run *run, cti_jinja_activation *around,
                                         uint32_t slots);
void cti_jinja_frame_enter(cti_jinja_run *run, cti_jinja_activation *in,
                           const cti_jinja_frame *frame);
void cti_jinja_frame_leave(cti_jinja_activation *in, const cti_jinja_frame *frame);
cti_jinja_value *cti_jinja_variable(cti_jinja_activation *in, cti_jinja_ref ref);

cti_jinja_value cti_jinja_evaluate(cti_jinja_run *run, cti_jinja_activation *in,
                                   const cti_jinja_node *node);
/* A call of node (CALL) with `caller`, which is ABSENT outside of a call block. */
cti_jinja_value cti_jinja_evaluate_call(cti_jinja_run *run, cti_jinja_activation *in,
                                        const cti_jinja_node *node, cti_jinja_value caller);
cti_jinja_signal cti_jinja_execute(cti_jinja_run *run, cti_jinja_activation *in,
                                   const cti_jinja_node *node);
/* Gives a value to a target: a variable, a namespace's attribute, or a tuple of targets. */
void cti_jinja_assign(cti_jinja_run *run, cti_jinja_activation *in, const cti_jinja_node *target,
                      cti_jinja_value value);
/* Runs statements with their output captured. *signal, if not NULL, gets how they ended. */
cti_jinja_value cti_jinja_capture(cti_jinja_run *run, cti_jinja_activation *in,
                                  const cti_jinja_node *body, cti_jinja_signal *signal);

/* Whether a namespace may have an attribute of this name; if not, that is an error. */
bool cti_jinja_namespace_name(cti_jinja_run *run, cti_jinja_value name);

cti_jinja_signal cti_jinja_run_for(cti_jinja_run *run, cti_jinja_activation *in,
                                   const cti_jinja_node *node);
cti_jinja_value cti_jinja_loop_call(cti_jinja_run *run, cti_jinja_loop *loop,
                                    cti_jinja_value iterable);
cti_jinja_value cti_jinja_macro_new(cti_jinja_run *run, const cti_jinja_node *node,
                                    cti_jinja_activation *around);
cti_jinja_value cti_jinja_macro_call(cti_jinja_run *run, const cti_jinja_macro *macro,
                                     const cti_jinja_value *arg, int64_t n,
                                     const cti_jinja_dict *keywords);

#endif
