/* Chat templates in Jinja: a template is compiled once, and rendered for a conversation. The
 * language is that of jinja2 3.1.6 in the environment of transformers 5 (docs/text.md lists it).
 *
 * A compiled template lies in an arena and never changes, so that threads may render it at once. A
 * chat holds the variables of renders: the messages and what stands beside them. It belongs to one
 * thread. Nothing here is recorded in a context. */
#ifndef CTI_TEXT_JINJA_H
#define CTI_TEXT_JINJA_H

#include "../aligned.h"
#include "value.h"

typedef struct cti_jinja_template cti_jinja_template;

/* An error: what is wrong, and where in the template, from 1 on; line 0 if it is not there. */
typedef struct {
    char text[CTI_MESSAGE_SIZE];
    int line, column;
    bool memory; /* memory was short, which says nothing about the template */
} cti_jinja_fault;

/* Reads a template. NULL after an error. The arena may have a context or none. The text is copied.
 */
const cti_jinja_template *cti_jinja_compile(cti_arena *arena, cti_text text,
                                            cti_jinja_fault *fault);
/* Whether the template has a {% generation %}. */
bool cti_jinja_has_generation(const cti_jinja_template *jinja);
/* Whether the template names a member: as an attribute, or as a string that is a whole literal. */
bool cti_jinja_names(const cti_jinja_template *jinja, cti_text member);
/* Whether a literal of the template (its text between tags, or a string) contains these bytes. */
bool cti_jinja_writes(const cti_jinja_template *jinja, cti_text bytes);

/* ---- the variables ---- */

typedef struct cti_jinja_chat cti_jinja_chat;

/* A chat without messages; NULL if there is no memory. tools and documents are None. */
cti_jinja_chat *cti_jinja_chat_new(void);
void cti_jinja_chat_free(cti_jinja_chat *chat); /* NULL is no error */

/* These read a part of the chat. They return false after an error, of which cti_jinja_chat_error is
 * the text, "message 2: byte 17: ..."; the first stays. A message gets the mark of its index + 1,
 * except its role. Its members that are null are removed, and reasoning_content, thinking and
 * reasoning are copied, as transformers does it. Ill-formed parts of a content that is no JSON are
 * U+FFFD. */
bool cti_jinja_chat_message(cti_jinja_chat *chat, const char *role, const char *content);
bool cti_jinja_chat_message_json(cti_jinja_chat *chat, const char *json); /* an object */
bool cti_jinja_chat_messages(cti_jinja_chat *chat, const char *json);     /* an array of objects */
bool cti_jinja_chat_tools(cti_jinja_chat *chat, const char *json);        /* an array; NULL: None */
bool cti_jinja_chat_documents(cti_jinja_chat *chat, const char *json);
/* A variable of the text of a token, such as bos_token. Tokens come before variables. */
bool cti_jinja_chat_token(cti_jinja_chat *chat, const char *role, const char *text);
/* The members of an object are variables, which override tokens and globals. */
bool cti_jinja_chat_variables(cti_jinja_chat *chat, const char *json);
const char *cti_jinja_chat_error(const cti_jinja_chat *chat);
bool cti_jinja_chat_no_memory(const cti_jinja_chat *chat); /* that was the error */

int64_t cti_jinja_chat_count(const cti_jinja_chat *chat);
/* Message i as the template sees it, a dict; cti_jinja_get_text reads its members. */
const cti_jinja_dict *cti_jinja_chat_at(const cti_jinja_chat *chat, int64_t i);

/* ---- a render ---- */

typedef struct {
    const char *text; /* [size], and a NUL */
    size_t size;
    const cti_jinja_span *span; /* [spans], the marks of the text; they cover it */
    size_t spans;
    const cti_extent *generation; /* [generations], what {% generation %} encloses, in bytes */
    size_t generations;
    cti_jinja_fault fault; /* of a render that failed */
    cti_arena arena;
} cti_jinja_output;

typedef struct {
    int64_t messages;           /* the first so many messages of the chat */
    bool add_generation_prompt; /* the variable */
    int64_t now;                /* the Unix time of strftime_now */
} cti_jinja_render_opts;

/* Renders; false after an error. The output must be freed in either case. */
bool cti_jinja_render(const cti_jinja_template *jinja, const cti_jinja_chat *chat,
                      cti_jinja_render_opts opts, cti_jinja_output *output);
void cti_jinja_output_free(cti_jinja_output *output);

#endif
