/* One call of a chat function: its template, its messages, and what it makes of them. chat.c has
 * the public functions, chat_targets.c what is learned. Nothing here uses the context. */
#ifndef CTI_TEXT_CHAT_CALL_H
#define CTI_TEXT_CHAT_CALL_H

#include "tokenizer.h"

typedef struct {
    const ct_tokenizer *tokenizer;
    const char *op;
    const ct_chat_opts *opts;
    const cti_jinja_template *jinja;
    cti_jinja_chat *chat; /* the messages and variables */
    int64_t now;
    cti_arena arena;             /* of a template that the call compiles */
    const cti_jinja_output *out; /* the text of the whole conversation, which its tokens cover */
    /* [added tokens] whether the template writes the text of this one: 0 not asked yet, 1 yes, 2 no
     */
    char *writes;
} cti_chat_call;

/* Writes the error of the call into its options, and returns false. */
CT_FORMAT(2, 3) bool cti_chat_fail(const cti_chat_call *call, const char *format, ...);
/* Writes what is wrong with a template, or with this conversation in its eyes. */
bool cti_chat_fail_at(const cti_chat_call *call, const cti_jinja_fault *fault);

/* Fills in a call and finds its template. cti_chat_call_end must follow in any case. */
bool cti_chat_call_begin(const ct_tokenizer *tokenizer, const char *op, const ct_chat_opts *opts,
                         cti_chat_call *call);
void cti_chat_call_end(cti_chat_call *call);
/* Makes call->chat of these messages, or of those of the options, and the options' variables. */
bool cti_chat_make(cti_chat_call *call, const ct_message *messages, int64_t n);

/* Renders the first `n` messages. A refusal of the template is false without an error, for the
 * caller to judge; *output must be freed in any case. */
bool cti_chat_render(const cti_chat_call *call, int64_t n, bool add_generation_prompt,
                     cti_jinja_output *output);

/* The index of the span that has a byte of the text; .spans for a byte behind it. */
size_t cti_chat_span_at(const cti_jinja_output *out, size_t byte);

/* The tokens of a text, with their ranges in it. */
typedef struct {
    int64_t *ids, *offsets; /* [count], [2 count]; must be freed */
    int64_t count;
} cti_chat_tokens;

/* Encodes call->out: what messages spell is plain text, as the contract of ct_chat_encode says.
 * Returns false after an error of the call. */
bool cti_chat_tokens_make(cti_chat_call *call, cti_chat_tokens *tokens);
void cti_chat_tokens_free(cti_chat_tokens *tokens);

/* The id that ends an assistant's turn; -1 if there is none. Uses a conversation of its own, so
 * call->chat is another one meanwhile. Returns false after an error of the call. */
bool cti_chat_end_find(const cti_chat_call *call, int64_t *id);

/* Sets targets[room], of which target t belongs to token t, and the turns of the options. Returns
 * false after an error of the call. */
bool cti_chat_targets_set(const cti_chat_call *call, const cti_chat_tokens *tokens,
                          int64_t *targets, int64_t room);

#endif
