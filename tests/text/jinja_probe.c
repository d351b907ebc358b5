#include "jinja_probe.h"

#include <stdio.h>
#include <string.h>

#include "ext/text/jinja/jinja.h"

static int64_t copy_output(const cti_jinja_output *output, char *out, int32_t *mark, int64_t room) {
    size_t span = 0;
    for (size_t i = 0; i < output->size && (int64_t)i < room; i++) {
        while (span < output->spans && output->span[span].end <= i) span++;
        out[i] = output->text[i];
        mark[i] = span < output->spans ? output->span[span].mark : 0;
    }
    return (int64_t)output->size;
}

int64_t jinja_probe_render(const char *text, int64_t size, const char *variables, char *out,
                           int32_t *mark, int64_t room, char *error, int64_t error_room) {
    cti_arena arena = {0};
    cti_jinja_fault fault = {.line = 0};
    int64_t length = -1;
    const char *what = fault.text;
    cti_jinja_output output = {.size = 0};
    cti_jinja_chat *chat = cti_jinja_chat_new();
    const cti_jinja_template *jinja =
        cti_jinja_compile(&arena, (cti_text){text, (size_t)size}, &fault);
    if (!chat || !cti_jinja_chat_variables(chat, variables)) {
        what = chat ? cti_jinja_chat_error(chat) : "no memory";
    } else if (jinja) {
        const cti_jinja_render_opts opts = {.now = 1000000000};
        what = output.fault.text;
        if (cti_jinja_render(jinja, chat, opts, &output))
            length = copy_output(&output, out, mark, room);
    }
    snprintf(error, (size_t)error_room, "%s", what);
    cti_jinja_output_free(&output);
    cti_jinja_chat_free(chat);
    cti_arena_free(&arena);
    return length;
}

const char *jinja_probe_row(const char *table, int64_t index, const char **refused) {
    static const struct {
        const char *name;
        const cti_jinja_row *rows;
    } tables[] = {{"filters", cti_jinja_filters},       {"tests", cti_jinja_tests},
                  {"globals", cti_jinja_globals},       {"str", cti_jinja_string_methods},
                  {"Markup", cti_jinja_markup_methods}, {"list", cti_jinja_list_methods},
                  {"tuple", cti_jinja_tuple_methods},   {"dict", cti_jinja_dict_methods},
                  {"int", cti_jinja_int_methods},       {"float", cti_jinja_real_methods}};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        if (strcmp(tables[i].name, table)) continue;
        *refused = tables[i].rows[index].refused;
        return tables[i].rows[index].name;
    }
    return NULL;
}
