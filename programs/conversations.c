/* Conversations as rows; see conversations.h. */
#include "conversations.h"
#include "common.h"

#include <stdlib.h>
#include <string.h>

/* The special tokens of a tokenizer, to find them in texts. */
typedef struct {
    const char **text; /* [n] */
    int64_t n;
    bool begins[256]; /* whether one begins with this byte */
} special_tokens;

struct chat_reader {
    const ct_tokenizer *tokenizer;
    ct_chat_opts opts;
    chat_tally *tally;
    void (*add)(void *to, const int64_t *ids, const int64_t *targets, int64_t n);
    void *to;
    int64_t *ids, *targets; /* [room] */
    int64_t room;
    ct_chat_turn *turns; /* [turns_room] each */
    ct_message *messages;
    char **unlearned; /* messages as JSON with a weight of 0; NULL: not made */
    int64_t turns_room;
    special_tokens special;
};

/* ---- members of a message ---- */

/* A member of a JSON object as the library writes it: its key and its value, as they are spelled.
 */
typedef struct {
    const char *key, *value;
    size_t key_size, value_size; /* the key without its quotes */
} json_member;

static const char *string_end(const char *at) {
    for (at++; *at && *at != '"'; at++) at += *at == '\\' && at[1];
    return *at ? at + 1 : at;
}

static const char *value_end(const char *at) {
    int depth = 0;
    do {
        if (*at == '"') {
            at = string_end(at);
            continue;
        }
        if (depth == 0 && (*at == ',' || *at == '}')) break;
        depth += (*at == '{' || *at == '[') - (*at == '}' || *at == ']');
        at++;
    } while (*at && (depth || (*at != ',' && *at != '}')));
    return at;
}

/* Reads the member at *at, which is behind the object's bracket at first. Returns false behind the
 * last one. */
static bool next_member(const char **at, json_member *member) {
    const char *begin = *at + strspn(*at, ", ");
    if (*begin != '"') return false;
    const char *end = string_end(begin), *value = end + strspn(end, ": ");
    *at = value_end(value);
    *member = (json_member){begin + 1, value, (size_t)(end - begin) - 2, (size_t)(*at - value)};
    return true;
}

static bool is_named(const json_member *member, const char *name) {
    return member->key_size == strlen(name) && !memcmp(member->key, name, member->key_size);
}

char *chat_without_weight(const char *json) {
    static const char added[] = ", \"weight\": 0}";
    const size_t size = strlen(json);
    char *out = room_for(NULL, size + sizeof added, 1);
    const char *at = json + 1;
    for (json_member m; next_member(&at, &m);) {
        if (!is_named(&m, "weight")) continue;
        const size_t before = (size_t)(m.value - json);
        memcpy(out, json, before);
        out[before] = '0';
        strcpy(out + before + 1, m.value + m.value_size);
        return out;
    }
    memcpy(out, json, size - 1); /* without its last bracket */
    strcpy(out + size - 1, added);
    return out;
}

/* ---- what the user should know ---- */

static chat_member *find_member(chat_tally *tally, const json_member *m) {
    if (m->key_size >= CHAT_NAME) return NULL;
    for (int i = 0; i < tally->n_members; i++)
        if (is_named(m, tally->member[i].name)) return &tally->member[i];
    if (tally->n_members == CHAT_MEMBERS) return NULL;
    chat_member *member = &tally->member[tally->n_members++];
    memcpy(member->name, m->key, m->key_size);
    return member;
}

static bool is_read(chat_reader *r, chat_member *member, const char *tools) {
    const bool with = tools != NULL;
    ct_chat_opts opts = r->opts;
    opts.tools = tools;
    if (!member->asked[with])
        member->is_read[with] = ct_chat_reads(r->tokenizer, opts, member->name);
    member->asked[with] = true;
    return member->is_read[with];
}

static void count_unread(chat_reader *r, const char *json, const char *tools) {
    static const char *const usual[] = {"role", "content", "weight", "train"};
    const char *at = json + 1;
    for (json_member m; next_member(&at, &m);) {
        bool skipped = m.value_size == 4 && !memcmp(m.value, "null", 4);
        for (int i = 0; i < 4; i++) skipped |= is_named(&m, usual[i]);
        chat_member *member = skipped ? NULL : find_member(r->tally, &m);
        if (member && !is_read(r, member, tools)) member->unread++;
    }
}

/* Special tokens are those that ct_decode leaves out. */
static void find_special(const ct_tokenizer *tokenizer, special_tokens *special) {
    char text[8];
    for (int64_t id = 0; id < ct_tokenizer_size(tokenizer); id++) {
        const char *token = ct_token(tokenizer, id);
        if (!token || !*token || ct_decode(tokenizer, &id, 1, false, text, sizeof text) != 0 ||
            ct_decode(tokenizer, &id, 1, true, text, sizeof text) < 1)
            continue;
        special->text = room_for(special->text, (size_t)special->n + 1, sizeof *special->text);
        special->text[special->n++] = token;
        special->begins[(unsigned char)*token] = true;
    }
}

static void count_spelled(chat_reader *r, const char *text, int64_t line) {
    const special_tokens *special = &r->special;
    for (const char *at = text; *at; at++)
        for (int64_t i = 0; special->begins[(unsigned char)*at] && i < special->n; i++) {
            if (strncmp(at, special->text[i], strlen(special->text[i])) != 0) continue;
            if (!r->tally->spelled) {
                snprintf(r->tally->token, CHAT_NAME, "%s", special->text[i]);
                r->tally->line = line;
            }
            r->tally->spelled++;
            break;
        }
}

/* The bytes of a conversation with these tools: as many with none, if the template writes none. */
static int64_t text_size(const chat_reader *r, const ct_json_line *line, const char *tools) {
    ct_chat_opts opts = r->opts;
    opts.tools = tools;
    return ct_chat_text(r->tokenizer, line->messages, line->n_messages, opts, NULL, 0);
}

static void look_at(chat_reader *r, const ct_json_line *line, const char *tools) {
    for (int64_t i = 0; i < line->n_messages; i++) {
        const ct_message *message = &line->messages[i];
        count_unread(r, message->json, tools);
        if (!r->opts.parse_special && message->content && !strcmp(message->role, "assistant"))
            count_spelled(r, message->content, line->number);
    }
    if (tools && strcmp(tools, "[]") != 0 && text_size(r, line, tools) == text_size(r, line, "[]"))
        r->tally->without_tools++;
}

#define LL(n) ((long long)(n))

void chat_tally_print(const chat_tally *t) {
    for (int i = 0; i < t->n_members; i++)
        if (t->member[i].unread)
            printf("  %s of %lld message%s %s not used by this template\n", t->member[i].name,
                   LL(t->member[i].unread), PLURAL(t->member[i].unread),
                   t->member[i].unread == 1 ? "is" : "are");
    if (t->without_tools)
        printf("  tools of %lld conversation%s are not used by this template\n",
               LL(t->without_tools), PLURAL(t->without_tools));
    if (t->spelled)
        printf("  %lld special token%s spelled in what assistants say, such as %s in line %lld: "
               "learned as plain text (--parse-special makes tokens of them)\n",
               LL(t->spelled), t->spelled == 1 ? " is" : "s are", t->token, LL(t->line));
    if (t->split)
        printf("  %lld conversation%s turns that later messages rewrite (%lld): %lld row%s, each "
               "up to an answer that is learned\n",
               LL(t->split), t->split == 1 ? " has" : "s have", LL(t->rewritten),
               LL(t->rows - (t->conversations - t->split)),
               PLURAL(t->rows - (t->conversations - t->split)));
    if (t->absent)
        printf("  %lld turn%s left out by this template and not learned\n", LL(t->absent),
               t->absent == 1 ? " is" : "s are");
    if (t->open)
        printf("  %lld of %lld turn%s no token at the end: the model may not learn where an answer "
               "ends\n",
               LL(t->open), LL(t->learned), t->open == 1 ? " has" : "s have");
}

/* ---- rows ---- */

chat_reader *chat_reader_new(const ct_tokenizer *tokenizer, ct_chat_opts opts, chat_tally *tally,
                             void (*add)(void *to, const int64_t *ids, const int64_t *targets,
                                         int64_t n),
                             void *to) {
    chat_reader *r = room_for(NULL, 1, sizeof *r);
    *r = (chat_reader){
        .tokenizer = tokenizer, .opts = opts, .tally = tally, .add = add, .to = to, .room = 1024};
    r->ids = room_for(NULL, (size_t)r->room, sizeof *r->ids);
    r->targets = room_for(NULL, (size_t)r->room, sizeof *r->targets);
    if (!opts.parse_special) find_special(tokenizer, &r->special);
    return r;
}

static void free_unlearned(chat_reader *r, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        free(r->unlearned[i]);
        r->unlearned[i] = NULL;
    }
}

void chat_reader_free(chat_reader *r) {
    free(r->ids);
    free(r->targets);
    free(r->turns);
    free(r->messages);
    free(r->unlearned);
    free(r->special.text);
    free(r);
}

/* Encodes n messages, and sets r->turns. Returns the number of ids. */
static int64_t encode(chat_reader *r, const char *path, const ct_json_line *line,
                      const ct_message *messages, int64_t n, const char *tools) {
    char error[600] = "";
    ct_chat_opts opts = r->opts;
    opts.tools = tools;
    opts.turns = r->turns, opts.n_turns = n;
    opts.error = error, opts.error_room = sizeof error;
    int64_t count = 0;
    for (int turn = 0; turn < 2; turn++) { /* again if there was too little room */
        count = ct_chat_encode(r->tokenizer, messages, n, opts, r->ids, r->targets, r->room);
        if (count < 0)
            fail(EXIT_USAGE, "%s:%lld: %s%s", path, LL(line->number), error_text(error),
                 strstr(error, "chat template") ? " (--template)" : "");
        if (count <= r->room) break;
        r->room = 2 * count;
        r->ids = room_for(r->ids, (size_t)r->room, sizeof *r->ids);
        r->targets = room_for(r->targets, (size_t)r->room, sizeof *r->targets);
    }
    return count;
}

/* Counts a turn of a row. */
static void count_turn(chat_tally *tally, ct_chat_turn turn) {
    tally->learned += turn == CT_TURN_LEARNED || turn == CT_TURN_OPEN;
    tally->open += turn == CT_TURN_OPEN;
    tally->absent += turn == CT_TURN_ABSENT;
}

static void add_row(chat_reader *r, int64_t n) {
    r->add(r->to, r->ids, r->targets, n);
    r->tally->rows++;
}

/* Adds a row for each assistant's message that is learned. */
static void split(chat_reader *r, const char *path, const ct_json_line *line, const char *tools) {
    const int64_t n = line->n_messages;
    for (int64_t i = 0; i < n; i++) {
        r->messages[i] = line->messages[i];
        if (r->turns[i] != CT_TURN_NONE)
            r->unlearned[i] = chat_without_weight(line->messages[i].json);
        r->tally->rewritten += r->turns[i] == CT_TURN_REWRITTEN;
    }
    for (int64_t i = 0; i < n; i++) {
        if (!r->unlearned[i]) continue;
        const int64_t count = encode(r, path, line, r->messages, i + 1, tools);
        count_turn(r->tally, r->turns[i]);
        if (r->turns[i] != CT_TURN_ABSENT) add_row(r, count);
        r->messages[i].json = r->unlearned[i];
    }
    free_unlearned(r, n);
    r->tally->split++;
}

void chat_read(chat_reader *r, const char *path, const ct_json_line *line) {
    const int64_t n = line->n_messages;
    const char *tools = line->tools ? line->tools : r->opts.tools;
    if (n > r->turns_room) {
        r->turns = room_for(r->turns, (size_t)n, sizeof *r->turns);
        r->messages = room_for(r->messages, (size_t)n, sizeof *r->messages);
        r->unlearned = room_for(r->unlearned, (size_t)n, sizeof *r->unlearned);
        for (int64_t i = r->turns_room; i < n; i++) r->unlearned[i] = NULL;
        r->turns_room = n;
    }
    const int64_t count = encode(r, path, line, line->messages, n, tools);
    bool rewritten = false;
    for (int64_t i = 0; i < n; i++) rewritten |= r->turns[i] == CT_TURN_REWRITTEN;
    r->tally->conversations++;
    look_at(r, line, tools);
    if (rewritten) {
        split(r, path, line, tools);
        return;
    }
    for (int64_t i = 0; i < n; i++) count_turn(r->tally, r->turns[i]);
    add_row(r, count);
}
