/* The tokens of a chat's form; see chat_tokens.h. */
#include "chat_tokens.h"
#include "common.h"

#include <string.h>

enum { CHAT_TEXT = 4096 };
static const char answer[] = "the answer";

/* Writes a short conversation in the form. Returns false if the form refuses it. */
static bool write_chat(const ct_tokenizer *tokenizer, ct_chat kind, char text[CHAT_TEXT]) {
    const ct_message messages[] = {{.role = "user", .content = "the question"},
                                   {.role = "assistant", .content = answer}};
    const int64_t size =
        ct_chat_text(tokenizer, messages, 2, (ct_chat_opts){.kind = kind}, text, CHAT_TEXT);
    return size >= 0 && size < CHAT_TEXT;
}

/* Copies the token <...> at the beginning of a text. Returns false if there is none. */
static bool copy_token(const char *text, char token[CHAT_TOKEN]) {
    const size_t size = *text == '<' ? strcspn(text, "> \n") + 1 : 0;
    if (!size || size >= CHAT_TOKEN || text[size - 1] != '>') return false;
    snprintf(token, CHAT_TOKEN, "%.*s", (int)size, text);
    return true;
}

int64_t chat_end(const ct_tokenizer *tokenizer, ct_chat kind, char end[CHAT_TOKEN]) {
    char text[CHAT_TEXT];
    *end = 0;
    if (!write_chat(tokenizer, kind, text)) return -1;
    const char *behind = strstr(text, answer) + strlen(answer);
    const char *eos = ct_token(tokenizer, ct_token_role(tokenizer, "eos_token"));
    if (eos && strlen(eos) < CHAT_TOKEN && !strncmp(behind, eos, strlen(eos)))
        snprintf(end, CHAT_TOKEN, "%s", eos);
    else copy_token(behind, end);
    return *end ? ct_token_id(tokenizer, end) : -1;
}

void chat_add_tokens(ct_context *context, ct_tokenizer *tokenizer, ct_chat kind) {
    char text[CHAT_TEXT], token[CHAT_TOKEN];
    if (!write_chat(tokenizer, kind, text)) return;
    for (const char *at = strchr(text, '<'); at; at = strchr(at + 1, '<'))
        /* <think> and the like are no tokens of the form */
        if (copy_token(at, token) && (token[1] == '|' || strstr(token, "_of_turn>")) &&
            ct_token_id(tokenizer, token) < 0) {
            const int64_t id = ct_token_add(tokenizer, token, NULL);
            check(context, EXIT_FAILED);
            printf("The tokenizer gets the token %s, with id %lld\n", token, (long long)id);
        }
}
