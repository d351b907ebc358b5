/* The form of chats: its template, and its tokens, such as <|im_end|>, which a tokenizer may miss.
 */
#ifndef PROGRAMS_CHAT_TOKENS_H
#define PROGRAMS_CHAT_TOKENS_H

#include <cotangent/cotangent.h>

enum { CHAT_TOKEN = 64 };

/* Sets the template that --template names: chatml, llama3, gemma, zephyr, phi3, or a file. Prints a
 * message and exits if there is no such template or it is not known to the library. */
void chat_set_template(ct_context *context, ct_tokenizer *tokenizer, const char *name);

/* Writes the token that ends an assistant's turn. Returns its id, or -1 if the tokenizer has no
 * such token; `end` is empty if the form is not known or ends a turn without a token. */
int64_t chat_end(const ct_tokenizer *tokenizer, char end[CHAT_TOKEN]);

/* Adds the tokens of the form that the tokenizer misses, as special tokens. */
void chat_add_tokens(ct_context *context, ct_tokenizer *tokenizer);

#endif
