/* A conversation with a model; see converse.h. */
#include "converse.h"
#include "common.h"
#include "shown_text.h"
#include "system.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    const conversation_opts *opts;
    ct_message *messages; /* [n]; the contents are the conversation's own */
    int64_t n, room;
    ct_generator *generator; /* NULL: there has been no turn */
    int64_t *row;            /* [length] the ids that the generator has */
    int64_t length, row_room;
    char *characters;        /* of an id */
    int64_t answers, tokens; /* of the model in all */
} conversation;

/* ---- messages ---- */

/* Adds a message; its content becomes the conversation's. */
static void add_message(conversation *c, const char *role, const char *content) {
    if (c->n == c->room) {
        c->room = 2 * c->room + 16;
        c->messages = room_for(c->messages, (size_t)c->room, sizeof *c->messages);
    }
    c->messages[c->n++] = (ct_message){.role = role, .content = content};
}

static void drop_message(conversation *c) { free((char *)c->messages[--c->n].content); }

static char *copy_text(const char *text) {
    return strcpy(room_for(NULL, strlen(text) + 1, 1), text);
}

/* Forgets the conversation. The generator keeps its row, because the next turn may begin with the
 * same tokens, which are then not computed again. */
static void reset(conversation *c) {
    while (c->n) drop_message(c);
    if (c->opts->system) add_message(c, "system", copy_text(c->opts->system));
}

/* A line of standard input without its end; NULL: there is none. The caller frees it. */
static char *read_line(void) {
    char *line = NULL;
    size_t n = 0, room = 0;
    const bool asks = system_input_is_terminal() && system_is_terminal();
    /* From here on Ctrl-C ends the input, also between the question and the read. */
    catch_each_interrupt(true);
    if (interrupted()) return NULL;
    if (asks) {
        printf("> ");
        fflush(stdout);
    }
    for (int byte = getchar(); byte != EOF && byte != '\n'; byte = getchar()) {
        if (n + 1 >= room) {
            room = 2 * room + 256;
            line = room_for(line, room, 1);
        }
        line[n++] = (char)byte;
    }
    catch_each_interrupt(false);
    if (!line && !feof(stdin) && !ferror(stdin)) line = room_for(NULL, 1, 1); /* an empty line */
    if (!line || interrupted()) {
        free(line);
        return NULL;
    }
    if (n && line[n - 1] == '\r') n--;
    line[n] = 0;
    return line;
}

/* ---- a turn ---- */

bool chat_is_reasoning(const ct_tokenizer *tokenizer, const ct_message *messages, int64_t n,
                       ct_chat_opts opts) {
    static const char mark[] = "<think>";
    const int64_t size = ct_chat_text(tokenizer, messages, n, opts, NULL, 0);
    if (size < 0) return false;
    char *text = room_for(NULL, (size_t)size + 1, 1);
    size_t end = (size_t)size;
    ct_chat_text(tokenizer, messages, n, opts, text, end + 1);
    while (end && strchr(" \t\r\n", text[end - 1])) end--;
    const size_t length = sizeof mark - 1;
    const bool is = end >= length && !memcmp(text + end - length, mark, length);
    free(text);
    return is;
}

/* The ids of the conversation with the beginning of an answer; NULL, after a message, if the
 * template refuses it. */
static int64_t *turn_ids(const conversation *c, int64_t *n) {
    char error[600] = "";
    ct_chat_opts opts = c->opts->chat;
    opts.add_generation_prompt = true, opts.error = error, opts.error_room = sizeof error;
    int64_t *ids = NULL, room = 0;
    for (int turn = 0; turn < 2; turn++) { /* at first only the number of ids is computed */
        *n = ct_chat_encode(c->opts->tokenizer, c->messages, c->n, opts, ids, NULL, room);
        if (*n < 0) {
            warn("%s", error_text(error));
            free(ids);
            return NULL;
        }
        room = *n;
        if (!turn) ids = room_for(NULL, (size_t)room, sizeof *ids);
    }
    return ids;
}

static void keep_ids(conversation *c, const int64_t *ids, int64_t n) {
    if (c->length + n > c->row_room) {
        c->row_room = 2 * (c->length + n) + 256;
        c->row = room_for(c->row, (size_t)c->row_room, sizeof *c->row);
    }
    memcpy(c->row + c->length, ids, (size_t)n * sizeof *ids);
    c->length += n;
}

/* Makes these the ids of the generator: it keeps those that they begin with. Returns false after an
 * error of the context. */
static bool set_ids(conversation *c, const int64_t *ids, int64_t n) {
    int64_t common = 0;
    while (common < n && common < c->length && ids[common] == c->row[common]) common++;
    if (!common && c->generator) {
        ct_generate_free(c->generator);
        c->generator = NULL;
    }
    c->length = common;
    if (!c->generator) {
        const ct_scope scope = ct_scope_open(c->opts->context);
        const ct_batch prompt = ct_batch_of(c->opts->context, ids, NULL, &n, 1, (ct_batch_opts){0});
        c->generator = ct_generate_new(c->opts->lm, prompt, c->opts->generate);
        ct_scope_close(scope);
    } else {
        ct_generate_back(c->generator, 0, common);
        ct_generate_more(c->generator, 0, ids + common, n - common);
    }
    if (ct_error(c->opts->context)) return false;
    keep_ids(c, ids + common, n - common);
    return true;
}

/* Adds characters to the text of an answer, which has `size` bytes. */
static char *append(char *answer, size_t *size, const char *text, size_t n) {
    answer = room_for(answer, *size + n + 1, 1);
    memcpy(answer + *size, text, n);
    *size += n;
    answer[*size] = 0;
    return answer;
}

/* Writes the model's answer, and returns it as the content of a message. */
static char *answer(conversation *c, bool is_reasoning) {
    const conversation_opts *o = c->opts;
    shown_text shown = shown_begin(is_reasoning);
    ct_decode_state state = {0};
    char *text = copy_text("");
    size_t size = 0;
    int64_t id;
    const int64_t longest = ct_lm_about(o->lm).max_length;
    bool more = true, full = false;
    while (more) {
        full = longest > 0 && c->length >= longest;
        more = !full && !interrupted() && ct_generate_next(c->generator, &id);
        if (more) keep_ids(c, &id, 1), c->tokens++;
        const int64_t n = ct_decode_next(o->tokenizer, &state, more ? id : -1, c->characters,
                                         ct_token_room(o->tokenizer));
        if (n < 1) continue;
        shown_write(&shown, c->characters, (size_t)n);
        text = append(text, &size, c->characters, (size_t)n);
    }
    shown_end(&shown);
    printf("\n");
    fflush(stdout);
    interrupt_forget();
    check(o->context, EXIT_FAILED);
    if (full)
        warn("the answer ends, because the conversation has the model's %lld tokens (/reset begins "
             "anew)",
             (long long)longest);
    c->answers++;
    return text;
}

/* Says why a turn cannot be. */
static void refuse_turn(conversation *c) {
    warn("%s (/reset begins anew)", error_text(ct_error_message(c->opts->context)));
    ct_error_clear(c->opts->context);
    ct_generate_free(c->generator);
    c->generator = NULL;
    c->length = 0;
}

static void take_turn(conversation *c, char *line) {
    int64_t n;
    const int64_t longest = ct_lm_about(c->opts->lm).max_length;
    add_message(c, "user", line);
    int64_t *ids = turn_ids(c, &n);
    bool begun = ids != NULL;
    if (begun && longest > 0 && n >= longest) {
        warn("the conversation has %lld tokens, and the model at most %lld (/reset begins anew)",
             (long long)n, (long long)longest);
        begun = false;
    }
    if (begun && !set_ids(c, ids, n)) {
        refuse_turn(c);
        begun = false;
    }
    free(ids);
    if (!begun) {
        drop_message(c);
        return;
    }
    ct_chat_opts opts = c->opts->chat;
    opts.add_generation_prompt = true;
    const bool is_reasoning = chat_is_reasoning(c->opts->tokenizer, c->messages, c->n, opts);
    add_message(c, "assistant", answer(c, is_reasoning));
}

int converse(const conversation_opts *opts) {
    conversation c = {.opts = opts};
    c.characters = room_for(NULL, ct_token_room(opts->tokenizer), 1);
    reset(&c);
    for (char *line = read_line(); line; line = read_line()) {
        const bool is_reset = !strcmp(line, "/reset");
        if (is_reset) reset(&c);
        if (is_reset || !line[strspn(line, " \t")]) free(line);
        else take_turn(&c, line);
    }
    const bool stopped = interrupted();
    if (stopped || (system_input_is_terminal() && system_is_terminal())) printf("\n");
    fflush(stdout);
    fprintf(stderr, "%lld answer%s of %lld token%s; up to %.0f MB of memory\n",
            (long long)c.answers, PLURAL(c.answers), (long long)c.tokens, PLURAL(c.tokens),
            system_peak_memory() * 1e-6);
    while (c.n) drop_message(&c);
    ct_generate_free(c.generator);
    free(c.messages);
    free(c.row);
    free(c.characters);
    return stopped ? interrupt_exit() : 0;
}
