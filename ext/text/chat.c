/* Chats: messages as the text of a chat template, and as ids with targets. */
#include <cotangent/autograd.h>
#include <cotangent/tokenizer.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/core/message.h"
#include "../../src/io/json.h"
#include "chat_kinds.h"
#include "chat_message.h"
#include "tokenizer.h"
#include "unicode.h"
#include "utf8.h"

/* ---- a text that grows ---- */

/* Text that is measured and, as far as it fits, written. */
typedef struct {
    char *at;
    size_t room, size;
} chat_writer;

static void chat_put(chat_writer *out, const char *bytes, size_t size) {
    if (out->size < out->room) {
        const size_t left = out->room - out->size;
        memcpy(out->at + out->size, bytes, size < left ? size : left);
    }
    out->size += size;
}

static void chat_puts(chat_writer *out, const char *text) { chat_put(out, text, strlen(text)); }

/* Writes a content in well-formed UTF-8. */
static void chat_put_content(chat_writer *out, const char *text, size_t size) {
    if (cti_utf8_check(text, size) == size) {
        chat_put(out, text, size);
        return;
    }
    for (size_t at = 0; at < size;) {
        uint32_t c;
        char bytes[4];
        at += cti_utf8_read(text + at, size - at, &c);
        chat_put(out, bytes, cti_utf8_put(bytes, c));
    }
}

/* ---- rendering ---- */

/* Where a message lies in the text. .written has the parts that its author wrote, in order. Its
 * head ends at .begin, and the token that ends its turn ends at .end. */
typedef struct {
    cti_extent written[2];
    size_t begin, end;
    bool learned; /* it is an assistant's, and its tokens are targets */
} chat_place;

typedef struct {
    const ct_tokenizer *tokenizer;
    const char *op;
    const ct_chat_opts *opts;
    const cti_chat_kind *kind;
    const char *system; /* the default system message, or NULL */
    const char *bos, *eos, *date;
    const ct_message *message;
    const bool *learned;      /* [n] whether an assistant's message has targets; NULL: all have */
    cti_chat_messages read;   /* what was read of messages that are JSON */
    int64_t n, last_question; /* last_question is the index of the last question, if .thinks */
    bool any_role, skips_empty;
} chat_call;

static bool is_role(const ct_message *message, const char *role) {
    return !strcmp(message->role, role);
}

/* Does the same as Python's str.strip, which is Jinja's filter `trim`. */
static cti_extent trimmed(const char *text) {
    cti_extent part = {0, strlen(text)};
    size_t length;
    const bool sound = cti_utf8_check(text, part.end) == part.end;
    while (part.begin < part.end) {
        const uint32_t c = sound ? cti_utf8_get(text + part.begin, &length)
                                 : (length = 1, (unsigned char)text[part.begin]);
        if (!cti_unicode_is_space(c) && !(c >= 0x1C && c <= 0x1F)) break;
        part.begin += length;
    }
    while (part.end > part.begin) {
        size_t at = part.end - 1;
        while (sound && at > part.begin && cti_utf8_continues(text[at])) at--;
        const uint32_t c = sound ? cti_utf8_get(text + at, &length) : (unsigned char)text[at];
        if (!cti_unicode_is_space(c) && !(c >= 0x1C && c <= 0x1F)) break;
        part.end = at;
    }
    return part;
}

static cti_extent chat_whole(const char *text) { return (cti_extent){0, strlen(text)}; }

/* Divides an assistant's content into its reasoning, which may be empty, and the rest. */
static void thought_divide(const char *text, cti_extent *thought, cti_extent *rest) {
    static const char begin[] = "<think>", end[] = "</think>";
    const char *last = strstr(text, end), *next;
    *thought = (cti_extent){0, 0}, *rest = chat_whole(text);
    if (!last) return;
    thought->end = (size_t)(last - text);
    while (thought->end && text[thought->end - 1] == '\n') thought->end--;
    for (size_t at = 0; at + sizeof begin - 1 <= thought->end; at++)
        if (!memcmp(text + at, begin, sizeof begin - 1)) thought->begin = at + sizeof begin - 1;
    while (thought->begin < thought->end && text[thought->begin] == '\n') thought->begin++;
    for (next = last; next; next = strstr(next + 1, end)) last = next;
    rest->begin = (size_t)(last - text) + sizeof end - 1;
    while (text[rest->begin] == '\n') rest->begin++;
}

/* Writes a part of a content and its range. */
static void chat_put_part(chat_writer *out, const char *text, cti_extent part, cti_extent *range) {
    range->begin = out->size;
    chat_put_content(out, text + part.begin, part.end - part.begin);
    range->end = out->size;
}

static chat_place chat_begin_message(const chat_call *chat, const char *role, chat_writer *out) {
    chat_place place = {.learned = !strcmp(role, "assistant")};
    chat_puts(out, chat->kind->open);
    chat_puts(out, place.learned ? chat->kind->assistant : role);
    chat_puts(out, chat->kind->behind_role);
    place.begin = out->size;
    place.written[0] = (cti_extent){out->size, out->size};
    return place;
}

static void chat_end_message(const chat_call *chat, chat_writer *out, chat_place *place) {
    chat_puts(out, chat->kind->end ? chat->kind->end : chat->eos);
    place->end = out->size;
    chat_puts(out, chat->kind->behind_end);
}

/* Writes message i. `before` is NULL, or a text that its content begins with. */
static chat_place chat_put_message(const chat_call *chat, int64_t i, const char *before,
                                   chat_writer *out) {
    const ct_message *message = &chat->message[i];
    const char *text = message->content;
    cti_extent thought, part = chat->kind->trims ? trimmed(text) : chat_whole(text);
    chat_place place = chat_begin_message(chat, message->role, out);
    if (chat->kind->thinks && place.learned) {
        thought_divide(text, &thought, &part);
        const bool shown =
            i > chat->last_question && (i == chat->n - 1 || thought.end > thought.begin);
        while (shown && text[part.begin] == '\n') part.begin++;
        if (shown) {
            chat_puts(out, "<think>\n");
            chat_put_part(out, text, thought, &place.written[0]);
            chat_puts(out, "\n</think>\n\n");
        }
    }
    if (before) {
        chat_put_part(out, before, chat_whole(before), &place.written[0]);
        chat_puts(out, "\n\n");
    }
    chat_put_part(out, text, part, &place.written[1]);
    chat_end_message(chat, out, &place);
    if (chat->learned) place.learned &= chat->learned[i];
    return place;
}

/* Writes the default system message, or the system message of a kind with a preamble. */
static chat_place chat_put_system(const chat_call *chat, const char *text, chat_writer *out) {
    chat_place place = chat_begin_message(chat, "system", out);
    if (chat->kind->preamble) {
        chat_puts(out, chat->kind->preamble);
        chat_put_part(out, chat->date, chat_whole(chat->date), &place.written[0]);
        chat_puts(out, "\n\n");
    }
    chat_put_part(out, text, chat->kind->trims ? trimmed(text) : chat_whole(text),
                  &place.written[1]);
    chat_end_message(chat, out, &place);
    return place;
}

/* Writes the whole text. places[n + 1], or NULL, gets the messages' places, *count of them. */
static void chat_render(const chat_call *chat, chat_writer *out, chat_place *places,
                        int64_t *count) {
    const bool system = is_role(&chat->message[0], "system");
    const char *first = system ? chat->message[0].content : NULL;
    int64_t i = 0;
    *count = 0;
    if (chat->kind->bos) chat_puts(out, chat->bos);
    if (chat->kind->preamble || chat->system) {
        const char *text = first ? first : chat->system ? chat->system : "";
        const chat_place place = chat_put_system(chat, text, out);
        if (places) places[(*count)++] = place;
        i = system;
    } else if (chat->kind->joins && system) {
        i = 1;
    }
    for (; i < chat->n; i++) {
        if (chat->skips_empty && is_role(&chat->message[i], "system") && !*chat->message[i].content)
            continue;
        const char *before = chat->kind->joins && i == 1 ? first : NULL;
        const chat_place place = chat_put_message(chat, i, before, out);
        if (places) places[(*count)++] = place;
    }
    if (chat->opts->open) chat_puts(out, chat->kind->prompt);
    else if (chat->kind->closes) chat_puts(out, chat->eos);
}

/* ---- checks ---- */

/* Writes the message of an error into the options' text. The context may be in use by another
 * thread. Returns false. */
CT_FORMAT(2, 3) static bool chat_fail(const chat_call *chat, const char *format, ...) {
    char message[CTI_MESSAGE_SIZE];
    const ct_chat_opts *opts = chat->opts;
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

/* Finds the kind, the default system message and the roles. */
static bool kind_find(chat_call *chat) {
    const ct_chat kind = chat->opts->kind;
    if (kind == CT_CHAT_FOLDER) {
        const cti_text text = chat->tokenizer->parts->template_text;
        if (!text.at)
            return chat_fail(chat, "%s: the folder has no chat template: name a kind", chat->op);
        const cti_chat_template *known = cti_chat_template_of(text);
        if (!known)
            return chat_fail(chat,
                             "%s: the folder's chat template of %zu bytes is not one that is "
                             "known: name a kind",
                             chat->op, text.size);
        chat->kind = known->kind;
        chat->system = known->system;
        chat->skips_empty = known->skips_empty;
        chat->any_role = known->kind->any_role && !known->three_roles;
        return true;
    }
    chat->kind = cti_chat_kind_of(kind);
    if (!chat->kind) return chat_fail(chat, "%s: the kind %d", chat->op, (int)kind);
    chat->any_role = chat->kind->any_role;
    return true;
}

/* The index of the last message of a user that is no result of a tool; without one, of the last
 * message. */
static int64_t last_question(const chat_call *chat) {
    static const char begin[] = "<tool_response>", end[] = "</tool_response>";
    for (int64_t i = chat->n; i-- > 0;) {
        const char *text = chat->message[i].content;
        const size_t n = strlen(text);
        const bool result = !strncmp(text, begin, sizeof begin - 1) && n >= sizeof end - 1 &&
                            !strcmp(text + n - (sizeof end - 1), end);
        if (is_role(&chat->message[i], "user") && !result) return i;
    }
    return chat->n - 1;
}

/* A role as messages show it: shortened, well-formed and escaped. */
enum { ROLE_SHOWN = 100, ROLE_TEXT = 6 * ROLE_SHOWN + 1 };
static const char *role_shown(const char *role, char text[ROLE_TEXT]) {
    char part[ROLE_SHOWN + 1], clean[3 * ROLE_SHOWN];
    chat_writer out = {.at = clean, .room = sizeof clean};
    chat_put_content(&out, part, cti_text_shorten(part, ROLE_SHOWN, role, strlen(role)));
    cti_writer writer = {.at = text, .size = ROLE_TEXT - 1};
    cti_escaped_write(&writer, (cti_text){clean, out.size});
    text[writer.used] = 0;
    return text;
}

static bool message_check(const chat_call *chat, int64_t i) {
    char shown[ROLE_TEXT];
    const ct_message *message = &chat->message[i];
    if (!message->role || !message->content)
        return chat_fail(chat, "%s: message %" PRId64 ": its %s is NULL", chat->op, i,
                         message->role ? "content" : "role");
    const bool system = is_role(message, "system"), user = is_role(message, "user"),
               assistant = is_role(message, "assistant");
    if (!system && !user && !assistant && !chat->any_role)
        return chat_fail(chat,
                         "%s: message %" PRId64 ": the role \"%s\" is none of system, user and "
                         "assistant",
                         chat->op, i, role_shown(message->role, shown));
    if (system && chat->kind->no_system)
        return chat_fail(chat, "%s: message %" PRId64 ": the template has no system messages",
                         chat->op, i);
    const bool joined = chat->kind->joins && is_role(&chat->message[0], "system");
    if (system && chat->kind->joins && i)
        return chat_fail(chat, "%s: message %" PRId64 ": a system message must be the first",
                         chat->op, i);
    if (chat->kind->alternates && !(joined && !i) && user != ((i - joined) % 2 == 0))
        return chat_fail(chat,
                         "%s: message %" PRId64 ": user and assistant must alternate, a user first",
                         chat->op, i);
    return true;
}

/* A token with a role, which the template needs. */
static bool token_text_find(const chat_call *chat, const char *role, const char **text) {
    *text = ct_token(chat->tokenizer, ct_token_role(chat->tokenizer, role));
    return *text || chat_fail(chat, "%s: the template needs a %s, and no token has this role",
                              chat->op, role);
}

/* Reads the messages that are JSON objects. */
static bool messages_read(chat_call *chat) {
    char fault[CTI_CHAT_FAULT];
    int64_t json = 0;
    for (int64_t i = 0; i < chat->n; i++) json += chat->message[i].json != NULL;
    if (!json) return true;
    if (!cti_chat_messages_read(chat->message, chat->n, &chat->read, fault))
        return chat_fail(chat, "%s: %s", chat->op, fault);
    chat->message = chat->read.message;
    chat->learned = chat->read.learned;
    return true;
}

/* Checks the messages and finds the tokens that the kind needs. */
static bool chat_check(chat_call *chat) {
    for (int64_t i = 0; i < chat->n; i++)
        if (!message_check(chat, i)) return false;
    chat->last_question = last_question(chat);
    const bool eos = !chat->kind->end || (chat->kind->closes && !chat->opts->open);
    return (!chat->kind->bos || token_text_find(chat, "bos_token", &chat->bos)) &&
           (!eos || token_text_find(chat, "eos_token", &chat->eos));
}

static void chat_end(chat_call *chat) { cti_chat_messages_free(&chat->read); }

/* Fills in the chat and checks it. Returns false after an error; otherwise chat_end follows. */
static bool chat_begin(const ct_tokenizer *tokenizer, const char *op, const ct_message *messages,
                       int64_t n, const ct_chat_opts *opts, chat_call *chat) {
    *chat =
        (chat_call){.tokenizer = tokenizer, .op = op, .opts = opts, .message = messages, .n = n};
    if (!cti_tokenizer_is_open(tokenizer))
        return chat_fail(chat, "%s: the tokenizer %s", op, tokenizer ? "has ended" : "is NULL");
    chat->date = opts->date ? opts->date : "26 Jul 2024"; /* the default of Llama's templates */
    if (n < 1 || !messages) return chat_fail(chat, "%s: there are no messages", op);
    if (!kind_find(chat) || !messages_read(chat)) return false;
    if (chat_check(chat)) return true;
    chat_end(chat);
    return false;
}

/* ---- the public functions ---- */

int64_t ct_chat_text(const ct_tokenizer *tokenizer, const ct_message *messages, int64_t n,
                     ct_chat_opts opts, char *text, size_t room) {
    chat_call chat;
    int64_t places;
    if (!chat_begin(tokenizer, "chat_text", messages, n, &opts, &chat)) return -1;
    chat_writer out = {.at = text, .room = text && room ? room - 1 : 0};
    chat_render(&chat, &out, NULL, &places);
    if (text && room) text[out.size < room ? out.size : room - 1] = 0;
    chat_end(&chat);
    return (int64_t)out.size;
}

/* Whether a token that begins at `at` is a target: it belongs to the content of an assistant's
 * message that is learned, or ends the turn of one. The tokens are asked about in order; *next is
 * the first place that does not end before the last token. */
static bool is_learned(const chat_place *places, int64_t n, int64_t *next, size_t at) {
    while (*next < n && places[*next].end <= at) ++*next;
    return *next < n && places[*next].learned && places[*next].begin <= at;
}

/* Sets targets from the ranges of the tokens. */
static void targets_set(const chat_place *places, int64_t n, const cti_sink *sink,
                        int64_t *targets) {
    int64_t next = 0;
    const int64_t count = sink->count < sink->room ? sink->count : sink->room;
    for (int64_t t = 0; t < count; t++) targets[t] = -100;
    for (int64_t t = 0; t < count; t++)
        if (is_learned(places, n, &next, (size_t)sink->offsets[2 * t]) && t)
            targets[t - 1] = sink->ids[t];
}

/* The memory of an encode. */
typedef struct {
    char *text;
    chat_place *places;
    cti_extent *plain;
    int64_t *offsets; /* [2 room], if targets are asked for */
} chat_memory;

static void chat_free(chat_memory *memory) {
    free(memory->text);
    free(memory->places);
    free(memory->plain);
    free(memory->offsets);
}

static bool chat_memory_new(const chat_call *chat, size_t size, int64_t room, bool targets,
                            chat_memory *memory) {
    const uint64_t places = (uint64_t)chat->n + 1;
    const size_t extents = 2 * sizeof *memory->plain;
    *memory = (chat_memory){0};
    if (places > SIZE_MAX / sizeof *memory->places || places > SIZE_MAX / extents ||
        (targets && (uint64_t)room > SIZE_MAX / (2 * sizeof *memory->offsets)))
        return false;
    memory->text = malloc(size + 1);
    memory->places = malloc((size_t)places * sizeof *memory->places);
    memory->plain = malloc((size_t)places * extents);
    if (targets && room) memory->offsets = malloc(2 * (size_t)room * sizeof *memory->offsets);
    return memory->text && memory->places && memory->plain &&
           (!targets || !room || memory->offsets);
}

/* Encodes the text of a chat. Returns false if memory is short. */
static bool chat_encode(const chat_call *chat, chat_memory *memory, size_t size, cti_sink *sink,
                        int64_t *targets) {
    int64_t places;
    chat_writer out = {.at = memory->text, .room = size};
    chat_render(chat, &out, memory->places, &places);
    for (int64_t i = 0; i < 2 * places; i++)
        memory->plain[i] = memory->places[i / 2].written[i % 2];
    const cti_plain plain = {.range = memory->plain, .n = 2 * (size_t)places};
    if (!cti_text_encode(chat->tokenizer->parts, (cti_text){memory->text, size}, &plain, sink))
        return false;
    if (targets && sink->room) targets_set(memory->places, places, sink, targets);
    return true;
}

int64_t ct_chat_encode(const ct_tokenizer *tokenizer, const ct_message *messages, int64_t n,
                       ct_chat_opts opts, int64_t *ids, int64_t *targets, int64_t room) {
    chat_call chat;
    chat_memory memory;
    int64_t places;
    if (!chat_begin(tokenizer, "chat_encode", messages, n, &opts, &chat)) return -1;
    if (room < 0 || (room && !ids)) {
        chat_fail(&chat, "%s: room for %" PRId64 " ids", chat.op, room);
        chat_end(&chat);
        return -1;
    }
    chat_writer measure = {0};
    chat_render(&chat, &measure, NULL, &places);
    cti_sink sink = {.ids = ids, .room = room};
    bool ok = chat_memory_new(&chat, measure.size, room, targets != NULL, &memory);
    sink.offsets = memory.offsets;
    ok = ok && chat_encode(&chat, &memory, measure.size, &sink, targets);
    chat_free(&memory);
    chat_end(&chat);
    if (ok) return sink.count;
    chat_fail(&chat, "%s: %s", chat.op, cti_encode_failure(tokenizer));
    return -1;
}
