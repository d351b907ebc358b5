/* Conversations of a file as rows of ids with targets, and what a user should know of them before
 * they are learned. */
#ifndef PROGRAMS_CONVERSATIONS_H
#define PROGRAMS_CONVERSATIONS_H

#include <cotangent/cotangent.h>

enum { CHAT_MEMBERS = 32, CHAT_NAME = 64 };

/* A member of messages that a template may read. */
typedef struct {
    char name[CHAT_NAME];
    bool asked[2], is_read[2]; /* by the template of rows without tools, and with */
    int64_t unread;            /* the messages whose member the row's template does not read */
} chat_member;

/* What was seen. */
typedef struct {
    int64_t conversations, rows;
    int64_t split;             /* conversations that became other than one row */
    int64_t learned, open;     /* turns that are learned; those without an end token */
    int64_t absent, rewritten; /* turns that have no byte, or were rewritten */
    int64_t spelled;           /* special tokens in what assistants say */
    char token[CHAT_NAME];     /* the first of them */
    int64_t line;              /* and its line */
    int64_t without_tools;     /* conversations whose tools the template does not read */
    chat_member member[CHAT_MEMBERS];
    int n_members;
} chat_tally;

/* Prints it, in lines that begin with two spaces; nothing if all is as one expects. */
void chat_tally_print(const chat_tally *tally);

typedef struct chat_reader chat_reader;

/* Returns a reader of conversations, which calls add(to, ids, targets, n) for each row. opts.tools
 * are those of conversations that have none of their own. */
chat_reader *chat_reader_new(const ct_tokenizer *tokenizer, ct_chat_opts opts, chat_tally *tally,
                             void (*add)(void *to, const int64_t *ids, const int64_t *targets,
                                         int64_t n),
                             void *to);
void chat_reader_free(chat_reader *reader);

/* Reads a conversation. If later messages change how the template writes earlier turns, each
 * assistant's message that is learned gets a row of its own: the messages up to it, of which only
 * the last is learned. Prints a message and exits if the template refuses it. */
void chat_read(chat_reader *reader, const char *path, const ct_json_line *line);

/* The JSON of a message that is not learned, with a weight of 0; the caller frees it. */
char *chat_without_weight(const char *json);

#endif
