/* Samples of the text that a model writes behind a prompt while it is trained. */
#ifndef PROGRAMS_FINETUNE_SAMPLE_H
#define PROGRAMS_FINETUNE_SAMPLE_H

#include <cotangent/cotangent.h>

typedef struct {
    const char *prompt; /* a user's message if is_chat */
    int64_t tokens;     /* the most that are written; the model's max_length bounds them too */
    bool is_chat;
    ct_chat_opts chat;   /* the form of a chat */
    bool is_plain;       /* special tokens that are spelled in the prompt are ordinary text */
    int64_t end_of_turn; /* the id that ends an answer; -1: the model's own ids */
} finetune_sample;

/* Prints what the model writes behind the prompt, with the most probable token at each place.
 * Prints a message and exits if it fails. */
void sample_write(ct_context *context, ct_module *lm, const ct_tokenizer *tokenizer,
                  const finetune_sample *sample, int64_t step);

#endif
