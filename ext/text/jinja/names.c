/* What each name of a template means, by jinja2 3.1.6's rules: `set` in a loop does not leave it,
 * a macro sees variables of the functions around it as they are when it is called, and branches of
 * an `if` share their names with what is around it.
 *
 * A scope is a frame while it is compiled. It is searched for the names that its own statements
 * read and set, its bindings; then its names are resolved, and so are the frames inside it. */
#include <string.h>

#include "parser.h"

/* A function that is open. */
typedef struct {
    uint32_t depth, slots;
    cti_jinja_slot *first; /* the slots of names, linked by `more` */
} scope_function;

struct cti_jinja_slot {
    cti_jinja_slot *next; /* of the name */
    cti_jinja_slot *more; /* of the function */
    cti_jinja_name *name;
    const scope_function *function;
    uint32_t level, slot;
};

typedef struct jinja_scope jinja_scope;
struct cti_jinja_binding {
    cti_jinja_binding *next;  /* of the name, in the scopes around */
    cti_jinja_binding *later; /* of the scope */
    cti_jinja_binding *stored_before;
    cti_jinja_name *name;
    const jinja_scope *scope;
    cti_jinja_load load;
    bool stored;
};

struct jinja_scope {
    scope_function *function;
    uint32_t level;
    cti_jinja_binding *first, **end;
    cti_jinja_binding *stored; /* the newest of those that are stored */
    uint32_t bindings;
    bool soft, top; /* inside of an if; sets of it are seen by blocks */
};

typedef struct {
    cti_jinja_parser *parser;
    int loops;                          /* that are open */
    cti_jinja_node *block, **block_end; /* the blocks, linked by `other` */
} resolver;

static void resolve_statements(resolver *all, jinja_scope *scope, cti_jinja_node *node);

static bool scope_fail(resolver *all, const cti_jinja_node *node, const char *format,
                       const cti_jinja_string *name) {
    char text[CTI_MESSAGE_SIZE];
    size_t size = cti_text_shorten(text, 400, name->at, name->size);
    return cti_jinja_lex_fail(&all->parser->lexer, node->at, format, (int)size, text);
}

/* ---- bindings ---- */

/* The slot of a name in a function: the same for all frames of one level, as Python's variables
 * have the level in their names. */
static uint32_t slot_of(resolver *all, const jinja_scope *scope, cti_jinja_name *name) {
    for (const cti_jinja_slot *slot = name->slot; slot; slot = slot->next)
        if (slot->function == scope->function && slot->level == scope->level) return slot->slot;
    cti_jinja_slot *slot = cti_jinja_new(all->parser, sizeof *slot);
    if (!slot) return 0;
    *slot = (cti_jinja_slot){.next = name->slot,
                             .more = scope->function->first,
                             .name = name,
                             .function = scope->function,
                             .level = scope->level,
                             .slot = scope->function->slots++};
    name->slot = slot;
    scope->function->first = slot;
    return slot->slot;
}

static void function_close(scope_function *function) {
    for (cti_jinja_slot *slot = function->first; slot; slot = slot->more)
        slot->name->slot = slot->next;
}

static cti_jinja_name *jinja_name_of(const cti_jinja_string *text) {
    return (cti_jinja_name *)(uintptr_t)text; /* the string begins its name */
}

static cti_jinja_binding *name_bind(resolver *all, jinja_scope *scope, cti_jinja_name *name) {
    cti_jinja_binding *binding = name->binding;
    if (binding && binding->scope == scope) return binding;
    binding = cti_jinja_new(all->parser, sizeof *binding);
    if (!binding) return NULL;
    binding->next = name->binding;
    binding->name = name;
    binding->scope = scope;
    binding->load.name = &name->string;
    binding->load.slot = slot_of(all, scope, name);
    name->binding = binding;
    *scope->end = binding;
    scope->end = &binding->later;
    scope->bindings++;
    return binding;
}

static cti_jinja_ref ref_of(const jinja_scope *scope, const cti_jinja_binding *binding) {
    return (cti_jinja_ref){scope->function->depth - binding->scope->function->depth,
                           binding->load.slot};
}

/* The binding begins as the variable of the frames around, or else as `how`. */
static void alias_or(cti_jinja_binding *binding, int how) {
    binding->load.how = how;
    if (!binding->next) return;
    binding->load.how = CTI_JINJA_ALIAS;
    binding->load.from = ref_of(binding->scope, binding->next);
}

static void scope_load(resolver *all, jinja_scope *scope, const cti_jinja_string *text) {
    cti_jinja_name *name = jinja_name_of(text);
    if (name->binding) return;
    if (cti_jinja_string_is(text, "self"))
        cti_jinja_parse_fail(all->parser, "the variable 'self' is not run: a template is one text");
    cti_jinja_binding *binding = name_bind(all, scope, name);
    if (binding) binding->load.how = CTI_JINJA_RESOLVED;
}

static void scope_stored(jinja_scope *scope, cti_jinja_binding *binding) {
    if (binding->stored) return;
    binding->stored = true;
    binding->stored_before = scope->stored;
    scope->stored = binding;
}

static void scope_store(resolver *all, jinja_scope *scope, const cti_jinja_string *text) {
    cti_jinja_name *name = jinja_name_of(text);
    const bool known = name->binding && name->binding->scope == scope;
    cti_jinja_binding *binding = name_bind(all, scope, name);
    if (!binding) return;
    if (!known) alias_or(binding, CTI_JINJA_UNSET);
    scope_stored(scope, binding);
}

static uint32_t scope_parameter(resolver *all, jinja_scope *scope, const cti_jinja_string *text) {
    cti_jinja_binding *binding = name_bind(all, scope, jinja_name_of(text));
    if (!binding) return 0;
    binding->load.how = CTI_JINJA_GIVEN;
    scope_stored(scope, binding);
    return binding->load.slot;
}

static jinja_scope scope_open(const jinja_scope *outer, scope_function *function) {
    return (jinja_scope){.function = function, .level = outer ? outer->level + 1 : 0};
}

/* The loads of the frame, when its bindings are known. */
static void scope_loads(resolver *all, const jinja_scope *scope, cti_jinja_frame *frame) {
    if (!frame || !scope->bindings) return;
    frame->load = cti_jinja_new(all->parser, scope->bindings * sizeof *frame->load);
    if (!frame->load) return;
    for (const cti_jinja_binding *binding = scope->first; binding; binding = binding->later)
        frame->load[frame->loads++] = binding->load;
}

static void scope_close(const jinja_scope *scope) {
    for (const cti_jinja_binding *binding = scope->first; binding; binding = binding->later)
        binding->name->binding = binding->next;
}

/* ---- the search for names ---- */

static void search_statements(resolver *all, jinja_scope *scope, const cti_jinja_node *node);

static void search_expressions(resolver *all, jinja_scope *scope, const cti_jinja_node *node) {
    for (; node; node = node->next) {
        if (node->kind == CTI_JINJA_VARIABLE) scope_load(all, scope, node->text);
        search_expressions(all, scope, node->first);
        search_expressions(all, scope, node->second);
        search_expressions(all, scope, node->third);
        search_expressions(all, scope, node->fourth);
        if (node->kind != CTI_JINJA_CALL && node->kind != CTI_JINJA_FILTERED &&
            node->kind != CTI_JINJA_TESTED)
            continue;
        if (!node->arguments) continue;
        search_expressions(all, scope, node->arguments->positional);
        search_expressions(all, scope, node->arguments->keyword);
        search_expressions(all, scope, node->arguments->star);
        search_expressions(all, scope, node->arguments->star_star);
    }
}

static void search_target(resolver *all, jinja_scope *scope, const cti_jinja_node *target,
                          bool parameter) {
    if (target->kind == CTI_JINJA_TUPLE_OF) {
        for (const cti_jinja_node *item = target->first; item; item = item->next)
            search_target(all, scope, item, parameter);
    } else if (target->kind == CTI_JINJA_SPACE) {
        scope_load(all, scope, target->text);
    } else if (parameter) {
        scope_parameter(all, scope, target->text);
    } else {
        scope_store(all, scope, target->text);
    }
}

/* What a branch sets may be unset behind the if: such a name begins as what it is around. */
static void search_if(resolver *all, jinja_scope *scope, const cti_jinja_node *node) {
    const cti_jinja_binding *before = scope->stored;
    for (; node; node = node->other) {
        if (node->kind != CTI_JINJA_IF) { /* an else */
            search_statements(all, scope, node);
            break;
        }
        search_expressions(all, scope, node->first);
        search_statements(all, scope, node->body);
        if (node->other && node->other->next) { /* an else that begins with an if */
            search_statements(all, scope, node->other);
            break;
        }
    }
    for (cti_jinja_binding *binding = scope->stored; binding != before;
         binding = binding->stored_before)
        alias_or(binding, CTI_JINJA_RESOLVED);
}

static void search_statements(resolver *all, jinja_scope *scope, const cti_jinja_node *node) {
    for (; node; node = node->next) {
        switch (node->kind) {
        case CTI_JINJA_PRINT:
        case CTI_JINJA_CALL_BLOCK:
        case CTI_JINJA_FILTER_BLOCK: search_expressions(all, scope, node->first); break;
        case CTI_JINJA_IF: search_if(all, scope, node); break;
        case CTI_JINJA_FOR:
        case CTI_JINJA_WITH: search_expressions(all, scope, node->second); break;
        case CTI_JINJA_SET:
            search_expressions(all, scope, node->second);
            search_target(all, scope, node->first, false);
            break;
        case CTI_JINJA_SET_BLOCK: search_target(all, scope, node->first, false); break;
        case CTI_JINJA_MACRO_OF: scope_store(all, scope, node->first->text); break;
        default: break; /* a generation and a block are searched by themselves */
        }
    }
}

/* ---- names that make a function take more: loop, caller, kwargs, varargs ---- */

typedef struct {
    const char *name;
    bool read, hidden; /* a set before the first read hides the name */
} special_name;

static void find_special(special_name *special, const cti_jinja_node *node);

static void see_name(special_name *special, const cti_jinja_string *name, bool read) {
    if (special->read || !cti_jinja_string_is(name, special->name)) return;
    if (!read) special->hidden = true;
    else if (!special->hidden) special->read = true;
}

static void find_special_targets(special_name *special, const cti_jinja_node *target) {
    for (; target; target = target->next) {
        if (target->kind == CTI_JINJA_VARIABLE) see_name(special, target->text, false);
        else if (target->kind == CTI_JINJA_TUPLE_OF) find_special_targets(special, target->first);
    }
}

static void find_special_in(special_name *special, const cti_jinja_node *node) {
    switch (node->kind) {
    case CTI_JINJA_VARIABLE: see_name(special, node->text, true); return;
    case CTI_JINJA_FOR:
    case CTI_JINJA_SET:
    case CTI_JINJA_SET_BLOCK:
    case CTI_JINJA_WITH: find_special_targets(special, node->first); break;
    case CTI_JINJA_MACRO_OF:
    case CTI_JINJA_CALL_BLOCK:
    case CTI_JINJA_GENERATION:
        if (node->kind == CTI_JINJA_CALL_BLOCK) find_special(special, node->first);
        find_special_targets(special, node->function->parameter);
        find_special(special, node->function->defaults);
        break;
    case CTI_JINJA_BLOCK: return;
    default: find_special(special, node->first);
    }
    find_special(special, node->second);
    if (node->kind == CTI_JINJA_FOR) find_special(special, node->body);
    if (node->kind == CTI_JINJA_FOR) find_special(special, node->other);
    find_special(special, node->third);
    find_special(special, node->fourth);
    if ((node->kind == CTI_JINJA_CALL || node->kind == CTI_JINJA_FILTERED ||
         node->kind == CTI_JINJA_TESTED) &&
        node->arguments) {
        find_special(special, node->arguments->positional);
        find_special(special, node->arguments->keyword);
        find_special(special, node->arguments->star);
        find_special(special, node->arguments->star_star);
    }
    if (node->kind == CTI_JINJA_FOR) return;
    if (node->kind > CTI_JINJA_SPACE) find_special(special, node->body);
}

static void find_special(special_name *special, const cti_jinja_node *node) {
    for (; node; node = node->next) {
        const cti_jinja_node *branch = node;
        while (branch->kind == CTI_JINJA_IF) { /* its elifs, one after another */
            find_special(special, branch->first);
            find_special(special, branch->body);
            if (!branch->other) break;
            if (branch->other->next || branch->other->kind != CTI_JINJA_IF) {
                find_special(special, branch->other);
                break;
            }
            branch = branch->other;
        }
        if (node->kind != CTI_JINJA_IF) find_special_in(special, node);
    }
}

static bool reads_special(const cti_jinja_node *body, const char *name) {
    special_name special = {.name = name};
    find_special(&special, body);
    return special.read;
}

/* ---- resolving ---- */

static void resolve_expressions(resolver *all, jinja_scope *scope, cti_jinja_node *node);

static void resolve_row(resolver *all, const jinja_scope *scope, const cti_jinja_node *node) {
    const bool filter = node->kind == CTI_JINJA_FILTERED;
    if (scope->soft) return; /* an error when it is reached */
    if (!node->row)
        scope_fail(all, node, filter ? "No filter named '%.*s'." : "No test named '%.*s'.",
                   node->text);
    else if (node->row->refused)
        scope_fail(all, node,
                   filter ? "the filter '%.*s' is not run" : "the test '%.*s' is not run",
                   node->text);
}

static void resolve_name(resolver *all, const jinja_scope *scope, cti_jinja_node *node) {
    const cti_jinja_binding *binding = jinja_name_of(node->text)->binding;
    if (binding) node->ref = ref_of(scope, binding);
    else
        scope_fail(all, node,
                   "the filter of a set block reads '%.*s', which nothing around it reads",
                   node->text);
}

static void resolve_one(resolver *all, jinja_scope *scope, cti_jinja_node *node) {
    const bool soft = scope->soft;
    if (node->kind == CTI_JINJA_VARIABLE || node->kind == CTI_JINJA_SPACE)
        resolve_name(all, scope, node);
    if (node->kind == CTI_JINJA_CONDITION) scope->soft = true;
    if (node->kind == CTI_JINJA_FILTERED || node->kind == CTI_JINJA_TESTED)
        resolve_row(all, scope, node);
    resolve_expressions(all, scope, node->first);
    resolve_expressions(all, scope, node->second);
    resolve_expressions(all, scope, node->third);
    resolve_expressions(all, scope, node->fourth);
    if ((node->kind == CTI_JINJA_CALL || node->kind == CTI_JINJA_FILTERED ||
         node->kind == CTI_JINJA_TESTED) &&
        node->arguments) {
        resolve_expressions(all, scope, node->arguments->positional);
        resolve_expressions(all, scope, node->arguments->keyword);
        resolve_expressions(all, scope, node->arguments->star);
        resolve_expressions(all, scope, node->arguments->star_star);
    }
    scope->soft = soft;
}

static void resolve_expressions(resolver *all, jinja_scope *scope, cti_jinja_node *node) {
    for (; node && !all->parser->lexer.failed; node = node->next) resolve_one(all, scope, node);
}

static bool sets_loop(const cti_jinja_node *target) {
    if (target->kind == CTI_JINJA_VARIABLE) return cti_jinja_string_is(target->text, "loop");
    if (target->kind != CTI_JINJA_TUPLE_OF) return false;
    for (const cti_jinja_node *item = target->first; item; item = item->next)
        if (sets_loop(item)) return true;
    return false;
}

static void resolve_target(resolver *all, jinja_scope *scope, cti_jinja_node *target) {
    if (all->loops && sets_loop(target))
        cti_jinja_lex_fail(&all->parser->lexer, target->at,
                           "Can't assign to special loop variable in for-loop target");
    resolve_one(all, scope, target);
}

static const cti_jinja_string *special_text(resolver *all, const char *name) {
    return cti_jinja_word_string(all->parser, cti_text_of(name));
}

static cti_jinja_frame *frame_new(resolver *all) {
    return cti_jinja_new(all->parser, sizeof(cti_jinja_frame));
}

/* The parts of a scope that has no parameters: its loads, and what its body resolves to. */
static void resolve_body(resolver *all, jinja_scope *scope, cti_jinja_node *body,
                         cti_jinja_frame *frame) {
    scope->end = &scope->first;
    search_statements(all, scope, body);
    scope_loads(all, scope, frame);
    resolve_statements(all, scope, body);
    scope_close(scope);
}

/* The condition of a loop, a function that is given each item. Its targets have the slots that they
 * have in the loop. */
static void resolve_condition(resolver *all, const jinja_scope *outer, const scope_function *loop,
                              cti_jinja_node *node) {
    scope_function function = {.depth = outer->function->depth + 1, .slots = loop->slots};
    jinja_scope scope = scope_open(outer, &function);
    scope.end = &scope.first;
    node->test_frame = frame_new(all);
    search_target(all, &scope, node->first, true);
    for (cti_jinja_binding *binding = scope.first; binding; binding = binding->later)
        for (const cti_jinja_slot *slot = binding->name->slot; slot; slot = slot->next)
            if (slot->function == loop && slot->level == scope.level)
                binding->load.slot = slot->slot;
    search_expressions(all, &scope, node->third);
    scope_loads(all, &scope, node->test_frame);
    resolve_expressions(all, &scope, node->third);
    scope_close(&scope);
    function_close(&function);
    node->test_slots = function.slots;
}

static void resolve_for(resolver *all, jinja_scope *outer, cti_jinja_node *node) {
    resolve_expressions(all, outer, node->second);
    scope_function own = {.depth = outer->function->depth + 1};
    scope_function *function = node->flag ? &own : outer->function;
    jinja_scope scope = scope_open(outer, function);
    scope.end = &scope.first;
    all->loops++;
    node->extended = node->flag || reads_special(node->body, "loop");
    const cti_jinja_string *loop = special_text(all, "loop");
    if (!loop) return;
    if (node->extended) node->ref.slot = scope_parameter(all, &scope, loop);
    node->frame = frame_new(all);
    search_target(all, &scope, node->first, true);
    search_statements(all, &scope, node->body);
    scope_loads(all, &scope, node->frame);
    resolve_target(all, &scope, node->first);
    resolve_statements(all, &scope, node->body);
    scope_close(&scope);
    if (node->third) resolve_condition(all, outer, function, node);
    if (node->other) {
        jinja_scope otherwise = scope_open(outer, function);
        node->else_frame = frame_new(all);
        resolve_body(all, &otherwise, node->other, node->else_frame);
    }
    all->loops--;
    if (!node->flag) return;
    function_close(&own);
    node->slots = own.slots;
}

/* A parameter of the name `caller` must have a default. */
static void check_caller(resolver *all, const cti_jinja_node *node) {
    int64_t without = node->function->parameters - node->function->defaulted;
    const cti_jinja_node *each = node->function->parameter;
    for (; without-- > 0; each = each->next)
        if (cti_jinja_string_is(each->text, "caller"))
            cti_jinja_lex_fail(
                &all->parser->lexer, node->at,
                "When defining macros or call blocks the special \"caller\" argument "
                "must be omitted or be given a default.");
}

/* A macro, or the body of a call block or a generation. */
static void resolve_function(resolver *all, const jinja_scope *outer, cti_jinja_node *node) {
    cti_jinja_function *function = node->function;
    scope_function own = {.depth = outer ? outer->function->depth + 1 : 0};
    jinja_scope scope = scope_open(outer, &own);
    scope.end = &scope.first;
    function->caller = function->keywords = function->rest = -1;
    struct {
        const char *name;
        int64_t *slot;
    } const special[] = {{"caller", &function->caller},
                         {"kwargs", &function->keywords},
                         {"varargs", &function->rest}};
    for (const cti_jinja_node *each = function->parameter; each; each = each->next)
        scope_parameter(all, &scope, each->text);
    for (int i = 0; i < 3 && node->kind != CTI_JINJA_BLOCK; i++) {
        const cti_jinja_string *name = special_text(all, special[i].name);
        if (!name || !reads_special(node->body, special[i].name)) continue;
        const cti_jinja_binding *binding = jinja_name_of(name)->binding;
        const bool parameter = binding && binding->scope == &scope;
        if (!parameter) *special[i].slot = scope_parameter(all, &scope, name);
        else if (!i) check_caller(all, node);
    }
    search_expressions(all, &scope, function->defaults);
    search_statements(all, &scope, node->body);
    scope_loads(all, &scope, &function->frame);
    resolve_expressions(all, &scope, function->parameter);
    resolve_expressions(all, &scope, function->defaults);
    resolve_statements(all, &scope, node->body);
    scope_close(&scope);
    function_close(&own);
    function->slots = own.slots;
}

/* A scope of the same function: the body of a set or filter block, or of a with. */
static void resolve_inner(resolver *all, jinja_scope *outer, cti_jinja_node *node) {
    jinja_scope scope = scope_open(outer, outer->function);
    scope.end = &scope.first;
    node->frame = frame_new(all);
    if (node->kind == CTI_JINJA_WITH) {
        resolve_expressions(all, outer, node->second);
        for (cti_jinja_node *target = node->first; target; target = target->next)
            search_target(all, &scope, target, true);
    }
    cti_jinja_node *filter = node->kind == CTI_JINJA_SET_BLOCK      ? node->second
                             : node->kind == CTI_JINJA_FILTER_BLOCK ? node->first
                                                                    : NULL;
    search_statements(all, &scope, node->body);
    /* jinja2 does not search the filter of a set block: a name that only it reads is an error. */
    if (node->kind == CTI_JINJA_FILTER_BLOCK) search_expressions(all, &scope, filter);
    scope_loads(all, &scope, node->frame);
    if (node->kind == CTI_JINJA_WITH) resolve_expressions(all, &scope, node->first);
    resolve_statements(all, &scope, node->body);
    resolve_expressions(all, &scope, filter);
    scope_close(&scope);
}

static void resolve_if(resolver *all, jinja_scope *scope, cti_jinja_node *node) {
    const bool soft = scope->soft;
    scope->soft = true;
    for (; node; node = node->other) {
        resolve_expressions(all, scope, node->first);
        resolve_statements(all, scope, node->body);
        if (node->other && (node->other->next || node->other->kind != CTI_JINJA_IF)) {
            resolve_statements(all, scope, node->other);
            break;
        }
    }
    scope->soft = soft;
}

static void resolve_statement(resolver *all, jinja_scope *scope, cti_jinja_node *node) {
    switch (node->kind) {
    case CTI_JINJA_PRINT: resolve_expressions(all, scope, node->first); break;
    case CTI_JINJA_IF: resolve_if(all, scope, node); break;
    case CTI_JINJA_FOR: resolve_for(all, scope, node); break;
    case CTI_JINJA_SET:
        node->flag = scope->top;
        resolve_expressions(all, scope, node->second);
        resolve_target(all, scope, node->first);
        break;
    case CTI_JINJA_SET_BLOCK:
        node->flag = scope->top;
        resolve_inner(all, scope, node);
        resolve_target(all, scope, node->first);
        break;
    case CTI_JINJA_MACRO_OF:
        node->flag = scope->top;
        resolve_function(all, scope, node);
        resolve_expressions(all, scope, node->first);
        break;
    case CTI_JINJA_CALL_BLOCK:
        resolve_function(all, scope, node);
        resolve_expressions(all, scope, node->first);
        break;
    case CTI_JINJA_GENERATION: resolve_function(all, scope, node); break;
    case CTI_JINJA_FILTER_BLOCK:
    case CTI_JINJA_WITH: resolve_inner(all, scope, node); break;
    case CTI_JINJA_BLOCK:
        for (const cti_jinja_node *other = all->block; other; other = other->other)
            if (other->first->text == node->first->text)
                scope_fail(all, node, "block '%.*s' defined twice", node->first->text);
        *all->block_end = node;
        all->block_end = &node->other;
        break;
    default: break;
    }
}

static void resolve_statements(resolver *all, jinja_scope *scope, cti_jinja_node *node) {
    for (; node && !all->parser->lexer.failed; node = node->next)
        resolve_statement(all, scope, node);
}

bool cti_jinja_resolve(cti_jinja_parser *parser, cti_jinja_template *jinja) {
    resolver all = {.parser = parser};
    all.block_end = &all.block;
    scope_function function = {.depth = 0};
    jinja_scope scope = scope_open(NULL, &function);
    scope.top = true;
    resolve_body(&all, &scope, jinja->body, &jinja->frame);
    function_close(&function);
    jinja->slots = function.slots;
    /* A block sees what the template has set when it is reached, and nothing of what is around. */
    for (cti_jinja_node *block = all.block; block && !parser->lexer.failed; block = block->other)
        resolve_function(&all, NULL, block);
    return !parser->lexer.failed;
}
