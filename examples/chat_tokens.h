/* The tokens of a chat's form, such as <|im_end|>: which of them a tokenizer misses. */
#ifndef EXAMPLES_CHAT_TOKENS_H
#define EXAMPLES_CHAT_TOKENS_H

#include <cotangent/cotangent.h>

enum { CHAT_TOKEN = 64 };

/* Writes the token that ends an assistant's turn. Returns its id, or -1 if the tokenizer has no
 * such token; `end` is empty if the form is not known or ends a turn without a token. */
int64_t chat_end(const ct_tokenizer *tokenizer, ct_chat kind, char end[CHAT_TOKEN]);

/* Adds the tokens of the form that the tokenizer misses, as special tokens. */
void chat_add_tokens(ct_context *context, ct_tokenizer *tokenizer, ct_chat kind);

#endif
