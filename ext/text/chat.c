/* Chats: the text of a chat template for a conversation, and its ids. */
#include <cotangent/tokenizer.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "chat_call.h"

static bool chat_begin_with(const ct_tokenizer *tokenizer, const char *op,
                            const ct_message *messages, int64_t n, const ct_chat_opts *opts,
                            cti_chat_call *call) {
    if (!cti_chat_call_begin(tokenizer, op, opts, call)) return false;
    if (opts->messages && (messages || n))
        return cti_chat_fail(call, "%s: messages of the call and also of the options", op);
    if (!opts->messages && (n < 1 || !messages))
        return cti_chat_fail(call, "%s: there are no messages", op);
    if (!cti_chat_make(call, messages, n)) return false;
    return cti_jinja_chat_count(call->chat) > 0 ||
           cti_chat_fail(call, "%s: there are no messages", op);
}

/* Renders all messages. *output must be freed in any case. */
static bool chat_render_whole(const cti_chat_call *call, cti_jinja_output *output) {
    return cti_chat_render(call, cti_jinja_chat_count(call->chat),
                           call->opts->add_generation_prompt, output) ||
           cti_chat_fail_at(call, &output->fault);
}

/* ---- the public functions ---- */

int64_t ct_chat_text(const ct_tokenizer *tokenizer, const ct_message *messages, int64_t n,
                     ct_chat_opts opts, char *text, size_t room) {
    cti_chat_call call;
    cti_jinja_output output = {0};
    int64_t size = -1;
    if (chat_begin_with(tokenizer, "chat_text", messages, n, &opts, &call)) {
        if (chat_render_whole(&call, &output)) {
            size = (int64_t)output.size;
            if (text && room) {
                const size_t part = output.size < room ? output.size : room - 1;
                memcpy(text, output.text, part);
                text[part] = 0;
            }
        }
        cti_jinja_output_free(&output);
    }
    cti_chat_call_end(&call);
    return size;
}

/* Encodes the whole text. Returns the number of ids, or -1. */
static int64_t chat_encode(cti_chat_call *call, int64_t *ids, int64_t *targets, int64_t room) {
    cti_chat_tokens tokens;
    if (room < 0 || (room && !ids)) {
        cti_chat_fail(call, "%s: room for %" PRId64 " ids", call->op, room);
        return -1;
    }
    if (!cti_chat_tokens_make(call, &tokens)) return -1;
    const int64_t part = tokens.count < room ? tokens.count : room;
    bool done = true;
    if (part) memcpy(ids, tokens.ids, (size_t)part * sizeof *ids);
    if (targets) done = cti_chat_targets_set(call, &tokens, targets, room);
    const int64_t count = done ? tokens.count : -1;
    cti_chat_tokens_free(&tokens);
    return count;
}

int64_t ct_chat_encode(const ct_tokenizer *tokenizer, const ct_message *messages, int64_t n,
                       ct_chat_opts opts, int64_t *ids, int64_t *targets, int64_t room) {
    cti_chat_call call;
    cti_jinja_output output = {0};
    int64_t count = -1;
    if (chat_begin_with(tokenizer, "chat_encode", messages, n, &opts, &call)) {
        call.out = &output;
        if (chat_render_whole(&call, &output)) count = chat_encode(&call, ids, targets, room);
        cti_jinja_output_free(&output);
    }
    cti_chat_call_end(&call);
    return count;
}

int64_t ct_chat_end(const ct_tokenizer *tokenizer, ct_chat_opts opts) {
    cti_chat_call call;
    int64_t id = -1;
    if (cti_chat_call_begin(tokenizer, "chat_end", &opts, &call)) cti_chat_end_find(&call, &id);
    cti_chat_call_end(&call);
    return id;
}

bool ct_chat_reads(const ct_tokenizer *tokenizer, ct_chat_opts opts, const char *member) {
    cti_chat_call call;
    const bool found = cti_chat_call_begin(tokenizer, "chat_reads", &opts, &call);
    const bool reads = found && member && cti_jinja_names(call.jinja, cti_text_of(member));
    cti_chat_call_end(&call);
    return reads;
}

const char *ct_chat_template(const ct_tokenizer *tokenizer, const char *name) {
    if (!cti_tokenizer_is_open(tokenizer)) return NULL;
    const cti_chat_template *found = cti_chat_template_find(
        &tokenizer->parts->chat_templates, cti_text_of(name ? name : cti_chat_default));
    if (found) return found->text.at;
    return name ? cti_chat_builtin(name) : NULL;
}
