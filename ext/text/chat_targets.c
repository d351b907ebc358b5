/* Which tokens of a chat are learned. The rule needs no knowledge of the template: it compares
 * texts of the conversation's beginnings, and looks at the marks, which say whose each byte is.
 *
 *     ...<|im_end|>\n<|im_start|>assistant\nThe answer.<|im_end|>\n
 *                                          ^          ^
 *                                          start      end, behind the token that ends the turn
 *
 * 1. A turn starts where the text of the messages before it, with the generation prompt, ends: what
 *    a model is given when it answers. If a template writes history in another way than it was
 *    written when it was new, that text differs earlier, and the beginning of the generation prompt
 *    that stands before the message is passed over instead.
 * 2. A turn ends behind the first token that ends turns and that the template writes behind it. If
 *    there is none, the next special token is taken, and then the message's last byte.
 * 3. A turn that later messages rewrite has no targets: no model ever writes that text.
 * 4. With {% generation %} in the template, its spans are the turns. */
#include <stdlib.h>
#include <string.h>

#include "chat_call.h"

enum { CHAT_NO_TARGET = -100 };

/* Where a message stands in the text. */
typedef struct {
    bool learned;
    bool any;           /* the text has bytes of it */
    size_t first, last; /* its first byte, and behind its last one */
    size_t limit;       /* a later message's first byte: what stands behind it is no part */
} chat_place;

typedef struct {
    const cti_chat_call *call;
    const cti_jinja_output *out;
    const cti_chat_tokens *tokens;
    int64_t *targets, room;
    chat_place *place; /* [n] */
    int64_t n;
    int64_t end_id; /* ct_chat_end's */
} chat_targets;

static void turn_set(const chat_targets *c, int64_t i, ct_chat_turn turn) {
    if (i < c->call->opts->n_turns) c->call->opts->turns[i] = turn;
}

static size_t token_begin(const chat_targets *c, int64_t t) {
    return (size_t)c->tokens->offsets[2 * t];
}
static size_t token_end(const chat_targets *c, int64_t t) {
    return (size_t)c->tokens->offsets[2 * t + 1];
}
static size_t span_begin(const chat_targets *c, size_t i) {
    return i ? c->out->span[i - 1].end : 0;
}

/* The first token that begins at `at` or behind it. */
static int64_t token_from(const chat_targets *c, size_t at) {
    int64_t low = 0, high = c->tokens->count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (token_begin(c, middle) < at) low = middle + 1;
        else high = middle;
    }
    return low;
}

static const cti_added_token *token_added(const chat_targets *c, int64_t t) {
    return cti_added_token_of(&c->call->tokenizer->parts->added, c->tokens->ids[t]);
}

/* The target of token t - 1 is token t. */
static void token_learn(const chat_targets *c, int64_t t) {
    if (t > 0 && t <= c->room && t < c->tokens->count) c->targets[t - 1] = c->tokens->ids[t];
}

/* ---- messages ---- */

/* Reads whether an assistant's message is learned: its weight is not 0, and train not false. */
static bool message_is_learned(const cti_chat_call *call, int64_t i, bool *learned) {
    const cti_jinja_dict *message = cti_jinja_chat_at(call->chat, i);
    const cti_jinja_value *role = cti_jinja_get_text(message, "role"),
                          *weight = cti_jinja_get_text(message, "weight"),
                          *train = cti_jinja_get_text(message, "train");
    *learned =
        role && role->kind == CTI_JINJA_STRING && cti_jinja_string_is(role->string, "assistant");
    if (weight) {
        const double w = weight->kind == CTI_JINJA_INT    ? (double)weight->integer
                         : weight->kind == CTI_JINJA_REAL ? weight->real
                                                          : -1;
        if (w != 0 && w != 1)
            return cti_chat_fail(call, "%s: message %lld: its weight is neither 0 nor 1", call->op,
                                 (long long)i);
        *learned &= w == 1;
    }
    if (train) {
        if (train->kind != CTI_JINJA_BOOL)
            return cti_chat_fail(call, "%s: message %lld: its train is neither true nor false",
                                 call->op, (long long)i);
        *learned &= train->boolean;
    }
    return true;
}

/* Finds the bytes of each message. What is printed again behind a later message's first byte does
 * not count, such as a call's name that a template repeats at its result. */
static void places_find(chat_targets *c) {
    for (size_t i = 0; i < c->out->spans; i++) {
        const int32_t mark = c->out->span[i].mark;
        if (mark < 1 || mark > c->n || c->place[mark - 1].any) continue;
        c->place[mark - 1].any = true;
        c->place[mark - 1].first = span_begin(c, i);
    }
    size_t limit = SIZE_MAX;
    for (int64_t i = c->n; i-- > 0;) {
        chat_place *place = &c->place[i];
        place->limit = limit;
        if (place->any && place->first < limit) limit = place->first;
        place->any &= place->first < place->limit;
    }
    for (size_t i = 0; i < c->out->spans; i++) {
        const int32_t mark = c->out->span[i].mark;
        if (mark < 1 || mark > c->n || span_begin(c, i) >= c->place[mark - 1].limit) continue;
        c->place[mark - 1].last = c->out->span[i].end;
    }
}

static bool places_make(chat_targets *c) {
    for (int64_t i = 0; i < c->n; i++)
        if (!message_is_learned(c->call, i, &c->place[i].learned)) return false;
    places_find(c);
    return true;
}

/* ---- texts of beginnings ---- */

static size_t common_size(const char *a, size_t a_size, const char *b, size_t b_size) {
    const size_t most = a_size < b_size ? a_size : b_size;
    size_t i = 0;
    while (i < most && a[i] == b[i]) i++;
    return i;
}

/* Renders the first `n` messages. Sets *refused if the template refuses them. Returns false after
 * an error of the call, which is only that memory is short. */
static bool beginning_render(const chat_targets *c, int64_t n, bool prompt,
                             cti_jinja_output *output, bool *refused) {
    *refused = !cti_chat_render(c->call, n, prompt, output);
    return !*refused || !output->fault.memory ||
           cti_chat_fail(c->call, "%s: out of memory", c->call->op);
}

/* What the generation prompt adds to the text of the first `n` messages. */
typedef struct {
    cti_jinja_output with; /* the text with it */
    bool refused;          /* the template refuses these messages, or there are none */
    cti_text added;        /* empty until prompt_find_added */
} chat_prompt;

static bool prompt_find_added(const chat_targets *c, int64_t n, chat_prompt *prompt) {
    cti_jinja_output without;
    bool refused;
    if (prompt->refused || prompt->added.at) return true;
    const bool done = beginning_render(c, n, false, &without, &refused);
    const size_t same =
        refused ? 0 : common_size(prompt->with.text, prompt->with.size, without.text, without.size);
    prompt->added = (cti_text){prompt->with.text + same, refused ? 0 : prompt->with.size - same};
    cti_jinja_output_free(&without);
    return done;
}

/* ---- where a turn starts ---- */

/* Behind the last byte, before `first`, of the messages before message i. */
static size_t history_end(const chat_targets *c, int64_t i, size_t first) {
    size_t end = 0;
    for (size_t s = 0; s < c->out->spans && span_begin(c, s) < first; s++)
        if (c->out->span[s].mark >= 1 && c->out->span[s].mark <= i) end = c->out->span[s].end;
    return end;
}

/* Behind the longest beginning of `added` that stands in the bytes [begin, end) of the text; `end`
 * if none does. */
static size_t prompt_end_between(const char *text, size_t begin, size_t end, cti_text added) {
    size_t longest = 0, behind = end;
    for (size_t at = begin; at < end; at++) {
        const size_t same = common_size(text + at, end - at, added.at, added.size);
        if (same && same >= longest) longest = same, behind = at + same;
    }
    return behind;
}

/* If `start` is inside an added token, that token's first byte. */
static size_t start_of_token(const chat_targets *c, size_t start) {
    const int64_t t = token_from(c, start) - 1; /* the last one that begins before it */
    if (t >= 0 && token_end(c, t) > start && token_added(c, t)) return token_begin(c, t);
    return start;
}

static bool start_find(const chat_targets *c, int64_t i, chat_prompt *prompt, size_t *start) {
    const size_t first = c->place[i].first;
    *start = first;
    if (!prompt->refused) {
        const size_t same =
            common_size(c->out->text, c->out->size, prompt->with.text, prompt->with.size);
        const size_t history = history_end(c, i, first);
        *start = same;
        if (same < history) {
            if (!prompt_find_added(c, i, prompt)) return false;
            *start = prompt_end_between(c->out->text, history, first, prompt->added);
        }
    }
    if (*start > first) *start = first;
    *start = start_of_token(c, *start);
    return true;
}

/* ---- where a turn ends ---- */

static bool id_ends_turns(const chat_targets *c, int64_t id) {
    const cti_tokenizer_parts *parts = c->call->tokenizer->parts;
    bool ends = id == c->end_id || id == parts->role[CTI_ROLE_EOS];
    for (int64_t i = 0; i < parts->n_eos; i++) ends |= id == parts->eos[i];
    return ends;
}

/* The first byte from `at` on that is of another message than i; the text's size without one. */
static size_t other_message_from(const chat_targets *c, int64_t i, size_t at) {
    for (size_t s = 0; s < c->out->spans; s++) {
        const int32_t mark = c->out->span[s].mark;
        if (mark < 1 || mark == i + 1 || c->out->span[s].end <= at) continue;
        return span_begin(c, s) > at ? span_begin(c, s) : at;
    }
    return c->out->size;
}

static bool token_is_template(const chat_targets *c, int64_t t) {
    const size_t s = cti_chat_span_at(c->out, token_begin(c, t));
    return s < c->out->spans && c->out->span[s].mark == 0;
}

static bool end_find(const chat_targets *c, int64_t i, chat_prompt *prompt, size_t *end,
                     bool *has_token) {
    const chat_place *place = &c->place[i];
    const size_t other = other_message_from(c, i, place->first);
    *has_token = true;
    int64_t t = token_from(c, place->first);
    for (; t < c->tokens->count && token_begin(c, t) < other; t++)
        if (id_ends_turns(c, c->tokens->ids[t]) && token_is_template(c, t)) {
            *end = token_end(c, t);
            return true;
        }
    const size_t next = other_message_from(c, i, place->last);
    const cti_added_token *token = NULL;
    for (t = token_from(c, place->last); t < c->tokens->count && token_begin(c, t) < next; t++) {
        token = token_added(c, t);
        if (token && token->special) break;
        token = NULL;
    }
    *has_token = false;
    *end = place->last;
    if (!token) return true;
    if (!prompt_find_added(c, i, prompt)) return false;
    const cti_text added = prompt->added, spelled = token->content;
    if (added.size >= spelled.size && !memcmp(added.at, spelled.at, spelled.size)) return true;
    *has_token = true;
    *end = token_end(c, t);
    return true;
}

/* ---- turns ---- */

/* Whether the text up to message i, and with it, differs from the whole text before the turn's end.
 */
static bool turn_find_rewritten(const chat_targets *c, int64_t i, size_t end, bool *rewritten) {
    cti_jinja_output upto;
    bool refused;
    *rewritten = false;
    if (i + 1 == c->n && !c->call->opts->add_generation_prompt) return true;
    const bool done = beginning_render(c, i + 1, false, &upto, &refused);
    if (done && !refused) {
        const size_t least = upto.size < c->out->size ? upto.size : c->out->size;
        *rewritten = common_size(upto.text, upto.size, c->out->text, c->out->size) <
                     (end < least ? end : least);
    }
    cti_jinja_output_free(&upto);
    return done;
}

static bool turn_learn(const chat_targets *c, int64_t i) {
    size_t start = 0, end = 0;
    bool has_token = false, rewritten = false;
    chat_prompt prompt = {.refused = true};
    bool done = i == 0 || beginning_render(c, i, true, &prompt.with, &prompt.refused);
    done = done && start_find(c, i, &prompt, &start) && end_find(c, i, &prompt, &end, &has_token) &&
           turn_find_rewritten(c, i, end, &rewritten);
    if (i) cti_jinja_output_free(&prompt.with);
    if (!done) return false;
    turn_set(c, i, rewritten ? CT_TURN_REWRITTEN : has_token ? CT_TURN_LEARNED : CT_TURN_OPEN);
    if (rewritten) return true;
    for (int64_t t = token_from(c, start); t < c->tokens->count && token_begin(c, t) < end; t++)
        token_learn(c, t);
    return true;
}

/* The spans of {% generation %}, but for those with a byte of a message that is not learned. */
static void generations_learn(const chat_targets *c) {
    for (size_t g = 0; g < c->out->generations; g++) {
        const cti_extent span = c->out->generation[g];
        bool learned = true;
        for (size_t s = cti_chat_span_at(c->out, span.begin);
             s < c->out->spans && span_begin(c, s) < span.end; s++) {
            const int32_t mark = c->out->span[s].mark;
            if (mark < 1) continue;
            learned &= c->place[mark - 1].learned;
            if (c->place[mark - 1].learned) turn_set(c, mark - 1, CT_TURN_LEARNED);
        }
        if (!learned) continue;
        int64_t t = token_from(c, span.begin);
        while (t > 0 && token_end(c, t - 1) > span.begin) t--;
        for (; t < c->tokens->count && token_begin(c, t) < span.end; t++)
            if (token_end(c, t) > span.begin) token_learn(c, t);
    }
}

static bool targets_learn(chat_targets *c) {
    if (!places_make(c)) return false;
    for (int64_t i = 0; i < c->n; i++)
        turn_set(c, i, c->place[i].learned ? CT_TURN_ABSENT : CT_TURN_NONE);
    if (cti_jinja_has_generation(c->call->jinja)) {
        generations_learn(c);
        return true;
    }
    if (!cti_chat_end_find(c->call, &c->end_id)) return false;
    for (int64_t i = 0; i < c->n; i++)
        if (c->place[i].learned && c->place[i].any && !turn_learn(c, i)) return false;
    return true;
}

bool cti_chat_targets_set(const cti_chat_call *call, const cti_chat_tokens *tokens,
                          int64_t *targets, int64_t room) {
    chat_targets c = {.call = call, .out = call->out, .tokens = tokens, .targets = targets};
    c.room = room < tokens->count ? room : tokens->count;
    c.n = cti_jinja_chat_count(call->chat);
    for (int64_t t = 0; t < c.room; t++) targets[t] = CHAT_NO_TARGET;
    c.place = calloc((size_t)c.n, sizeof *c.place);
    if (!c.place) return cti_chat_fail(call, "%s: out of memory", call->op);
    const bool done = targets_learn(&c);
    free(c.place);
    return done;
}
