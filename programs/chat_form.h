/* The form of chats, by flags that the programs share: the template, its tools and variables, the
 * date, and the tokens that a tokenizer may miss. */
#ifndef PROGRAMS_CHAT_FORM_H
#define PROGRAMS_CHAT_FORM_H

#include "common.h"

/* Values of flags. */
typedef struct {
    const char *template, *tools, *variables, *date;
    long long parse_special;
} chat_flags;

#define CHAT_FLAGS(f)                                                                              \
    flag_text("template", &(f).template, "NAME|FILE",                                              \
              "chat template in place of the folder's: a name of the folder's, chatml, llama3, "   \
              "gemma, zephyr, or a file"),                                                         \
        flag_text("tools", &(f).tools, "FILE", "JSON array of the tools that a chat may call"),    \
        flag_text("variables", &(f).variables, "JSON",                                             \
                  "object of the template's variables, such as {\"enable_thinking\": false}"),     \
        flag_text(                                                                                 \
            "date", &(f).date, "DATE",                                                             \
            "date of templates that write it: 2026-01-31 or 2026-01-31T13:00; default: now"),      \
        flag_switch("parse-special", &(f).parse_special,                                           \
                    "special tokens that are spelled in messages are tokens, not text")

/* How chats are written. */
typedef struct {
    ct_chat_opts opts;   /* of every call; .error is not set */
    const char *builtin; /* the built-in template that --template names; NULL: another template */
} chat_form;

/* Reads the files that the flags name and puts the template of --template into the tokenizer, as
 * its default one. `now` is the instant without --date. Prints a message and exits if something
 * named by a flag is not right. */
chat_form chat_form_read(ct_context *context, ct_tokenizer *tokenizer, const chat_flags *flags,
                         int64_t now);

/* The instant that --date names; `now` without one. */
int64_t chat_date(const chat_flags *flags, int64_t now);

/* The token that ends a turn of a built-in template and that the tokenizer misses; NULL: it misses
 * none, or the template is no built-in one. */
const char *chat_missing_end(const ct_tokenizer *tokenizer, const chat_form *form);
/* Adds the tokens of the built-in template that the tokenizer misses, as special tokens. */
void chat_add_tokens(ct_context *context, ct_tokenizer *tokenizer, const chat_form *form);

#endif
