/* One call of a chat function: its template and messages, and the tokens of a text with marks. */
#include "chat_call.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/core/message.h"
#include "../../src/os/os.h"
#include "unicode.h"
#include "utf8.h"

bool cti_chat_fail(const cti_chat_call *call, const char *format, ...) {
    char message[CTI_MESSAGE_SIZE];
    const ct_chat_opts *opts = call->opts;
    if (!opts->error || !opts->error_room) return false;
    va_list args;
    va_start(args, format);
    cti_message(message, sizeof message, format, args);
    va_end(args);
    size_t size = strlen(message);
    if (size >= opts->error_room) {
        size = opts->error_room - 1;
        while (size && cti_utf8_continues(message[size])) size--;
    }
    memcpy(opts->error, message, size);
    opts->error[size] = 0;
    return false;
}

bool cti_chat_fail_at(const cti_chat_call *call, const cti_jinja_fault *fault) {
    if (!fault->line) return cti_chat_fail(call, "%s: %s", call->op, fault->text);
    return cti_chat_fail(call, "%s: line %d, column %d of the chat template: %s", call->op,
                         fault->line, fault->column, fault->text);
}

/* ---- the template ---- */

static bool template_use(cti_chat_call *call, const cti_chat_template *template) {
    call->jinja = template->jinja;
    return call->jinja || cti_chat_fail_at(call, &template->fault);
}

/* The template that a call names by its text, or by its name in the folder or here. */
static bool template_find_named(cti_chat_call *call, const char *named) {
    const cti_chat_templates *templates = &call->tokenizer->parts->chat_templates;
    cti_jinja_fault fault;
    const char *text = named;
    if (!strstr(named, "{{") && !strstr(named, "{%")) {
        const cti_chat_template *own = cti_chat_template_find(templates, cti_text_of(named));
        if (own) return template_use(call, own);
        text = cti_chat_builtin(named);
    }
    if (!text) {
        char names[400];
        cti_chat_names_write(templates, names, sizeof names);
        return cti_chat_fail(call, "%s: there is no template \"%s\", only %s", call->op, named,
                             names);
    }
    if (cti_utf8_check(text, strlen(text)) != strlen(text))
        return cti_chat_fail(call, "%s: the template is not UTF-8", call->op);
    call->jinja = cti_jinja_compile(&call->arena, cti_text_of(text), &fault);
    return call->jinja || cti_chat_fail_at(call, &fault);
}

static bool template_find(cti_chat_call *call) {
    const cti_chat_templates *templates = &call->tokenizer->parts->chat_templates;
    if (call->opts->chat_template) return template_find_named(call, call->opts->chat_template);
    const cti_chat_template *found = NULL;
    if (call->opts->tools) found = cti_chat_template_find(templates, cti_text_of("tool_use"));
    if (!found) found = cti_chat_template_find(templates, cti_text_of(cti_chat_default));
    if (found) return template_use(call, found);
    char names[400];
    cti_chat_names_write(templates, names, sizeof names);
    return cti_chat_fail(call, "%s: the tokenizer has no chat template: name one, as %s", call->op,
                         names);
}

/* ---- the conversation ---- */

/* Reads the options' JSON and the texts of tokens with a role. */
static bool chat_read_variables(const cti_chat_call *call) {
    const cti_tokenizer_parts *parts = call->tokenizer->parts;
    const ct_chat_opts *opts = call->opts;
    for (int i = 0; i < CTI_ROLES; i++) {
        const cti_text token = cti_token_text(parts, parts->role[i]);
        if (token.at && !cti_jinja_chat_token(call->chat, cti_role_names[i], token.at))
            return false;
    }
    return (!opts->tools || cti_jinja_chat_tools(call->chat, opts->tools)) &&
           (!opts->documents || cti_jinja_chat_documents(call->chat, opts->documents)) &&
           (!opts->variables || cti_jinja_chat_variables(call->chat, opts->variables));
}

static bool chat_read_messages(const cti_chat_call *call, const ct_message *messages, int64_t n) {
    if (call->opts->messages) return cti_jinja_chat_messages(call->chat, call->opts->messages);
    for (int64_t i = 0; i < n; i++)
        if (messages[i].json
                ? !cti_jinja_chat_message_json(call->chat, messages[i].json)
                : !cti_jinja_chat_message(call->chat, messages[i].role, messages[i].content))
            return false;
    return true;
}

bool cti_chat_make(cti_chat_call *call, const ct_message *messages, int64_t n) {
    call->chat = cti_jinja_chat_new();
    if (!call->chat) return cti_chat_fail(call, "%s: out of memory", call->op);
    if (chat_read_variables(call) && chat_read_messages(call, messages, n)) return true;
    return cti_chat_fail(call, "%s: %s", call->op, cti_jinja_chat_error(call->chat));
}

void cti_chat_call_end(cti_chat_call *call) {
    cti_jinja_chat_free(call->chat);
    cti_arena_free(&call->arena);
    free(call->writes);
}

bool cti_chat_call_begin(const ct_tokenizer *tokenizer, const char *op, const ct_chat_opts *opts,
                         cti_chat_call *call) {
    *call = (cti_chat_call){.tokenizer = tokenizer, .op = op, .opts = opts};
    if (!cti_tokenizer_is_open(tokenizer))
        return cti_chat_fail(call, "%s: the tokenizer %s", op, tokenizer ? "has ended" : "is NULL");
    call->now = opts->now ? opts->now : cti_os_time();
    return template_find(call);
}

bool cti_chat_render(const cti_chat_call *call, int64_t n, bool add_generation_prompt,
                     cti_jinja_output *output) {
    const cti_jinja_render_opts opts = {
        .messages = n, .add_generation_prompt = add_generation_prompt, .now = call->now};
    return cti_jinja_render(call->jinja, call->chat, opts, output);
}

/* ---- tokens ---- */

static bool message_is_assistant(const cti_chat_call *call, int32_t mark) {
    if (mark < 1) return false;
    const cti_jinja_value *role =
        cti_jinja_get_text(cti_jinja_chat_at(call->chat, mark - 1), "role");
    return role && role->kind == CTI_JINJA_STRING && cti_jinja_string_is(role->string, "assistant");
}

static bool text_is_space(cti_text text) {
    size_t length;
    for (size_t at = 0; at < text.size; at += length)
        if (!cti_unicode_is_space(cti_utf8_get(text.at + at, &length))) return false;
    return true;
}

/* Whether the template itself writes an added token, of which white space says nothing. */
static bool template_writes(const cti_chat_call *call, const cti_added_token *token) {
    char *known = &call->writes[token - call->tokenizer->parts->added.token];
    if (!*known)
        *known =
            !text_is_space(token->content) && cti_jinja_writes(call->jinja, token->content) ? 1 : 2;
    return *known == 1;
}

size_t cti_chat_span_at(const cti_jinja_output *out, size_t byte) {
    size_t low = 0, high = out->spans;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (out->span[middle].end <= byte) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* Whether a token that the text spells is plain text, because some of its bytes are marked. In an
 * assistant's message only special tokens are, so that <think> stays a token; elsewhere also what
 * the template itself writes. */
static bool chat_refuses(void *arg, const cti_added_token *token, cti_extent match) {
    const cti_chat_call *call = arg;
    const cti_jinja_output *out = call->out;
    bool marked = false, others = false;
    for (size_t i = cti_chat_span_at(out, match.begin); i < out->spans; i++) {
        if (i && out->span[i - 1].end >= match.end) break;
        const int32_t mark = out->span[i].mark;
        marked |= mark != 0;
        others |= mark && !message_is_assistant(call, mark);
    }
    return marked && (token->special || (others && template_writes(call, token)));
}

void cti_chat_tokens_free(cti_chat_tokens *tokens) {
    free(tokens->ids);
    free(tokens->offsets);
    *tokens = (cti_chat_tokens){0};
}

/* Encodes into room for so many tokens; tokens->count may be more. */
static bool tokens_encode(cti_chat_call *call, int64_t room, cti_chat_tokens *tokens) {
    const cti_text text = {call->out->text, call->out->size};
    const bool plain = !call->opts->parse_special;
    const cti_plain check = {.refuse = plain ? chat_refuses : NULL, .arg = call};
    if ((uint64_t)room > SIZE_MAX / (2 * sizeof *tokens->ids)) room = 0;
    tokens->ids = malloc((size_t)room * sizeof *tokens->ids);
    tokens->offsets = malloc(2 * (size_t)room * sizeof *tokens->offsets);
    if (!room || !tokens->ids || !tokens->offsets)
        return cti_chat_fail(call, "%s: out of memory", call->op);
    cti_sink sink = {.ids = tokens->ids, .offsets = tokens->offsets, .room = room};
    if (!cti_text_encode(call->tokenizer->parts, text, &check, &sink))
        return cti_chat_fail(call, "%s: %s", call->op, cti_encode_failure(call->tokenizer));
    tokens->count = sink.count;
    return true;
}

/* The model itself may make a special token, as Unigram does whose pieces have a "</s>". In bytes
 * of a message that is an error: the message would end its own turn. The unknown token is none. */
static bool tokens_check(const cti_chat_call *call, const cti_chat_tokens *tokens) {
    const cti_tokenizer_parts *parts = call->tokenizer->parts;
    const cti_jinja_output *out = call->out;
    for (int64_t t = 0; t < tokens->count; t++) {
        const cti_added_token *token = cti_added_token_of(&parts->added, tokens->ids[t]);
        if (!token || !token->special || cti_model_unknown(parts->model) == token->id) continue;
        /* a token takes white space beside it, whoever wrote that */
        cti_extent part = {(size_t)tokens->offsets[2 * t], (size_t)tokens->offsets[2 * t + 1]};
        for (size_t i = cti_chat_span_at(out, part.begin); i < out->spans && part.begin < part.end;
             i++) {
            const size_t end = out->span[i].end < part.end ? out->span[i].end : part.end;
            const cti_text bytes = {out->text + part.begin, end - part.begin};
            if (out->span[i].mark && !text_is_space(bytes))
                return cti_chat_fail(call,
                                     "%s: the model makes the special token \"%s\" of a message's "
                                     "text at byte %zu",
                                     call->op, token->content.at, part.begin);
            part.begin = end;
        }
    }
    return true;
}

bool cti_chat_tokens_make(cti_chat_call *call, cti_chat_tokens *tokens) {
    const int64_t added = call->tokenizer->parts->added.count;
    *tokens = (cti_chat_tokens){0};
    if (!call->writes) call->writes = calloc((size_t)added + 1, 1);
    if (!call->writes) return cti_chat_fail(call, "%s: out of memory", call->op);
    const int64_t guess = (int64_t)(call->out->size / 2) + 64;
    bool done = tokens_encode(call, guess, tokens);
    if (done && tokens->count > guess) {
        const int64_t count = tokens->count;
        cti_chat_tokens_free(tokens);
        done = tokens_encode(call, count, tokens);
    }
    if (done && !call->opts->parse_special) done = tokens_check(call, tokens);
    if (!done) cti_chat_tokens_free(tokens);
    return done;
}

/* ---- the end of a turn ---- */

/* The first special token behind the last byte of the assistant's message, which is message 1. */
static int64_t end_in(const cti_chat_call *call, const cti_chat_tokens *tokens) {
    const cti_jinja_output *out = call->out;
    size_t behind = SIZE_MAX;
    for (size_t i = 0; i < out->spans; i++)
        if (out->span[i].mark == 2) behind = out->span[i].end;
    for (int64_t t = 0; t < tokens->count; t++) {
        const cti_added_token *token =
            cti_added_token_of(&call->tokenizer->parts->added, tokens->ids[t]);
        if (token && token->special && (size_t)tokens->offsets[2 * t] >= behind) return token->id;
    }
    return -1;
}

bool cti_chat_end_find(const cti_chat_call *call, int64_t *id) {
    static const ct_message messages[] = {{.role = "user", .content = "Hello"},
                                          {.role = "assistant", .content = "Hi"}};
    const cti_tokenizer_parts *parts = call->tokenizer->parts;
    ct_chat_opts opts = *call->opts;
    opts.messages = NULL;
    cti_chat_call own = *call;
    own.opts = &opts, own.writes = NULL;
    cti_jinja_output output;
    cti_chat_tokens tokens;
    *id = -1;
    bool done = cti_chat_make(&own, messages, 2);
    if (done) {
        /* A template that refuses this conversation leaves eos_token. */
        const bool rendered = cti_chat_render(&own, 2, false, &output);
        own.out = &output;
        if (!rendered && output.fault.memory) done = cti_chat_fail_at(&own, &output.fault);
        if (rendered) done = cti_chat_tokens_make(&own, &tokens);
        if (rendered && done) {
            *id = end_in(&own, &tokens);
            cti_chat_tokens_free(&tokens);
        }
        cti_jinja_output_free(&output);
    }
    cti_jinja_chat_free(own.chat);
    free(own.writes);
    for (int i = 0; i < CTI_ROLES && done && *id < 0; i++)
        if (!strcmp(cti_role_names[i], "eos_token")) *id = parts->role[i];
    return done;
}
