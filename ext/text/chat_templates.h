/* The chat templates that a tokenizer has: those of its folder, and one that a program has set.
 * They are compiled when they come, and threads then share them. A text that is no template stays
 * in the list with its fault: a folder opens whatever its templates are. */
#ifndef CTI_TEXT_CHAT_TEMPLATES_H
#define CTI_TEXT_CHAT_TEMPLATES_H

#include "jinja/jinja.h"
#include "reading.h"

typedef struct {
    cti_text name, text;
    const cti_jinja_template *jinja; /* NULL: .fault says why */
    cti_jinja_fault fault;
} cti_chat_template;

typedef struct {
    cti_chat_template *at; /* [count], in the tokenizer's arena */
    int64_t count, room;
} cti_chat_templates;

extern const char cti_chat_default[]; /* the name "default" */

/* The template of a name; NULL if there is none. */
const cti_chat_template *cti_chat_template_find(const cti_chat_templates *templates, cti_text name);

/* Puts a template into the list, in the place of the one that has its name; a text whose .at is
 * NULL removes that one. Name and text lie in the arena. Returns false after an error of the
 * context. */
bool cti_chat_template_set(cti_arena *arena, cti_chat_templates *templates, cti_text name,
                           cti_text text);

/* Reads "chat_template" of a tokenizer_config.json, a text or a list of named texts. */
bool cti_chat_templates_read(const cti_reading *config, cti_chat_templates *templates);

/* The text of a built-in template; NULL if there is none of this name. */
const char *cti_chat_builtin(const char *name);

/* Writes the names of all templates, of the list and built-in ones: "default, tool_use, chatml". */
void cti_chat_names_write(const cti_chat_templates *templates, char *names, size_t room);

#endif
