/* A render: the run of a template with the variables of a chat. */
#include "variables.h"

#include "../utf8.h"
#include "interpret.h"
#include "lexer.h"

/* The first messages of the chat, as a list. */
static cti_jinja_value first_messages(cti_jinja_run *run, const cti_jinja_chat *chat,
                                      int64_t count) {
    cti_jinja_list *list = cti_jinja_take(run, 1, sizeof *list);
    if (!list) return (cti_jinja_value){.kind = CTI_JINJA_UNDEFINED};
    *list = *chat->messages;
    if (count < list->count) list->count = count;
    return cti_jinja_list_value(CTI_JINJA_LIST, list, CTI_JINJA_OUTSIDE);
}

static void set_variable(cti_jinja_run *run, cti_jinja_dict *to, const char *name,
                         cti_jinja_value value) {
    cti_jinja_set(run, to, cti_jinja_string_view(run, name, strlen(name), 0), value);
}

static cti_jinja_dict *all_variables(cti_jinja_run *run, const cti_jinja_chat *chat,
                                     cti_jinja_render_opts opts) {
    cti_jinja_dict *all = cti_jinja_dict_new(run, 16);
    const cti_jinja_dict *parts[2] = {chat->tokens, chat->variables};
    for (int part = 0; part < 2; part++)
        for (int64_t i = 0; i < parts[part]->count; i++)
            cti_jinja_set(run, all, parts[part]->entry[i].key, parts[part]->entry[i].value);
    set_variable(run, all, "messages", first_messages(run, chat, opts.messages));
    set_variable(run, all, "tools", chat->tools);
    set_variable(run, all, "documents", chat->documents);
    set_variable(run, all, "add_generation_prompt", cti_jinja_bool(opts.add_generation_prompt, 0));
    return all;
}

/* Moves what the run has made into the output. */
static void take_text(cti_jinja_run *run, cti_jinja_builder *root, cti_jinja_output *output) {
    const size_t size = root->size, spans = root->spans;
    cti_jinja_add(root, "", 1, 0); /* the NUL */
    cti_extent *extent = cti_jinja_take(run, run->state->generations + 1, sizeof *extent);
    if (!extent) return;
    if (spans) root->span[spans - 1].end = size;
    *output = (cti_jinja_output){.text = root->at,
                                 .size = size,
                                 .span = root->span,
                                 .spans = spans,
                                 .generation = extent,
                                 .generations = run->state->generations};
    for (size_t i = 0; i < output->generations; i++) {
        const cti_jinja_generated *of = &run->state->generated[i];
        size_t end = of->begin;
        for (int64_t left = of->length; left > 0 && end < size; left--)
            end += cti_utf8_length((unsigned char)root->at[end]);
        extent[i] = (cti_extent){of->begin, end < size ? end : size};
    }
}

bool cti_jinja_render(const cti_jinja_template *jinja, const cti_jinja_chat *chat,
                      cti_jinja_render_opts opts, cti_jinja_output *output) {
    cti_jinja_run run = {.now = opts.now};
    cti_jinja_builder root = cti_jinja_build(&run);
    cti_jinja_state state = {.out = &root, .root = &root};
    run.state = &state;
    *output = (cti_jinja_output){.size = 0};
    state.variables = all_variables(&run, chat, opts);
    if (jinja->has_blocks) state.set = cti_jinja_dict_new(&run, 0);
    cti_jinja_activation *in = cti_jinja_activate(&run, NULL, jinja->slots);
    if (in) {
        cti_jinja_frame_enter(&run, in, &jinja->frame);
        cti_jinja_execute(&run, in, jinja->body);
    }
    if (!run.failed) take_text(&run, &root, output);
    output->arena = run.arena;
    if (!run.failed) return true;
    cti_jinja_fault *fault = &output->fault;
    memcpy(fault->text, run.error, sizeof fault->text);
    fault->memory = run.no_memory;
    if (run.at) cti_jinja_place(jinja->text, run.at - 1, &fault->line, &fault->column);
    return false;
}

void cti_jinja_output_free(cti_jinja_output *output) { cti_arena_free(&output->arena); }
