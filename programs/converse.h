/* A conversation with a model: messages of standard input, a line each, and the model's answers. */
#ifndef PROGRAMS_CONVERSE_H
#define PROGRAMS_CONVERSE_H

#include <cotangent/cotangent.h>

typedef struct {
    ct_context *context;
    ct_module *lm;
    const ct_tokenizer *tokenizer;
    ct_chat_opts chat; /* the form of the conversation */
    ct_generate_opts generate;
    const char *system; /* a system message before the first, or NULL */
} conversation_opts;

/* Talks until the input ends. All turns are on one cache: what the template writes otherwise than
 * before is read again from there on. The line "/reset" begins anew. Ctrl-C ends an answer, and
 * while a line is awaited the program. Returns the exit code. */
int converse(const conversation_opts *opts);

/* Whether a chat's text ends inside of reasoning, as templates do that begin it themselves. */
bool chat_is_reasoning(const ct_tokenizer *tokenizer, const ct_message *messages, int64_t n,
                       ct_chat_opts opts);

#endif
