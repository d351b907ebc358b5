/* Renders of chat templates, for the tests of ext/text/jinja. */
#ifndef JINJA_RENDER_H
#define JINJA_RENDER_H

#include "ext/text/jinja/jinja.h"
#include "tests/support/suite.h"

typedef struct {
    const char *jinja;
    const char *messages, *tools, *documents, *variables; /* JSON; NULL: none */
    bool prompt;                                          /* add_generation_prompt */
} render_case;

/* Renders; *output, which the caller frees, has the text or the fault. An error of the parse or of
 * the variables is the fault too. */
static inline bool render_into(render_case c, cti_jinja_output *output) {
    cti_arena arena = {.context = NULL};
    *output = (cti_jinja_output){.size = 0};
    const cti_jinja_template *jinja =
        cti_jinja_compile(&arena, cti_text_of(c.jinja), &output->fault);
    cti_jinja_chat *chat = jinja ? cti_jinja_chat_new() : NULL;
    const bool read = chat && cti_jinja_chat_token(chat, "bos_token", "<s>") &&
                      (!c.messages || cti_jinja_chat_messages(chat, c.messages)) &&
                      cti_jinja_chat_tools(chat, c.tools) &&
                      cti_jinja_chat_documents(chat, c.documents) &&
                      (!c.variables || cti_jinja_chat_variables(chat, c.variables));
    const cti_jinja_render_opts opts = {.messages = read ? cti_jinja_chat_count(chat) : 0,
                                        .add_generation_prompt = c.prompt,
                                        .now = 1000000000};
    const bool made = read && cti_jinja_render(jinja, chat, opts, output);
    if (jinja && !chat) output->fault.memory = true;
    if (chat && !read) {
        strcpy(output->fault.text, cti_jinja_chat_error(chat));
        output->fault.memory = cti_jinja_chat_no_memory(chat);
    }
    cti_jinja_chat_free(chat);
    cti_arena_free(&arena);
    return made;
}

/* Checks the text of a render. */
static inline void render_gives(render_case c, const char *text) {
    cti_jinja_output output;
    const bool made = render_into(c, &output);
    ck_assert_msg(made, "%s: %s", c.jinja, output.fault.text);
    ck_assert_msg(!strcmp(output.text, text), "%s: \"%s\", not \"%s\"", c.jinja, output.text, text);
    ck_assert_uint_eq(output.size, strlen(text));
    cti_jinja_output_free(&output);
}

/* Checks that a render fails, with a message that has these words, at this place (line 0: any). */
static inline void render_fails(render_case c, const char *words, int line, int column) {
    cti_jinja_output output;
    const bool made = render_into(c, &output);
    ck_assert_msg(!made, "%s: \"%s\" and no error", c.jinja, output.text);
    ck_assert_msg(strstr(output.fault.text, words) != NULL, "%s: \"%s\", not \"%s\"", c.jinja,
                  output.fault.text, words);
    if (line)
        ck_assert_msg(output.fault.line == line && output.fault.column == column,
                      "%s: line %d, column %d", c.jinja, output.fault.line, output.fault.column);
    cti_jinja_output_free(&output);
}

#endif
