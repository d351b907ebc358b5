/* This header turns text into token ids and back, by a tokenizer.json of the tokenizers package
 * (Hugging Face): the same ids, the same ranges and the same text as the package has.
 *
 *     ct_tokenizer *tokenizer = ct_tokenizer_open(context, "SmolLM2-135M");
 *     int64_t ids[1000];
 *     int64_t n = ct_encode(tokenizer, text, strlen(text), (ct_encode_opts){0}, ids, NULL, 1000);
 *     char again[5000];
 *     ct_decode(tokenizer, ids, n, false, again, sizeof again);
 *
 * Functions of a const tokenizer only read it. Several threads may call them at the same time,
 * also while another thread uses the context, and whether or not it has a pending error. They use
 * malloc. If an argument is NULL, a size is negative, the tokenizer was closed or memory is short,
 * they return -1 (or NULL), and record no error; the functions of chats write theirs into a
 * text of the caller. Only ct_tokenizer_save, which writes files, uses the context. */
#ifndef CT_TOKENIZER_H
#define CT_TOKENIZER_H

#include <cotangent/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ct_tokenizer ct_tokenizer;

/* Opens a tokenizer.json, a folder with this file, or the tokenizer inside a GGUF file. A folder's
 * tokenizer_config.json and
 * special_tokens_map.json, if they are there, name the roles of tokens (ct_token_role). They and
 * added_tokens.json may add tokens, with the ids that transformers.AutoTokenizer gives them. The
 * chat templates are in tokenizer_config.json or in files of their own: chat_template.jinja and
 * additional_chat_templates/NAME.jinja. A folder opens whatever its templates are; the use of one
 * that is none fails. generation_config.json names the ids that end a turn.
 *
 * The file's normalizer, pre-tokenizer, model (BPE, Unigram, WordPiece, WordLevel), post-processor,
 * decoder and added tokens are read. Its truncation and padding are kept and not applied. The files
 * are read now and may change later.
 *
 * Returns NULL after an error:
 *
 * - CT_ERR_ARGUMENT: a NULL;
 * - CT_ERR_IO: a file that cannot be read, and a folder without a tokenizer.json; the message names
 *   the files of another format that the folder has;
 * - CT_ERR_FORMAT, with the place in the file: a text that is not JSON or not a tokenizer, and a
 *   kind that the library does not have (Nmt, CTC, a regular expression with a look-behind, ...)
 *   with its name. */
CT_API ct_tokenizer *ct_tokenizer_open(ct_context *context, const char *path);

/* A sentence for the user about a tokenizer that was made of the keys of a GGUF file, which do not
 * say everything: what is missing, and what was supposed. NULL for any other tokenizer. Valid until
 * it is closed. */
CT_API const char *ct_tokenizer_note(const ct_tokenizer *tokenizer);

/* Makes a tokenizer of the text of a tokenizer.json, which is copied. Roles of tokens are set by
 * ct_token_add, the chat template by ct_tokenizer_set_template. Returns NULL after an error, as
 * ct_tokenizer_open. */
CT_API ct_tokenizer *ct_tokenizer_parse(ct_context *context, const char *json, size_t bytes);

/* Ends the tokenizer. ct_context_free does it too. */
CT_API void ct_tokenizer_close(ct_tokenizer *tokenizer);

/* The largest id + 1: the least number of rows of an embedding. */
CT_API int64_t ct_tokenizer_size(const ct_tokenizer *tokenizer);

/* A number of bytes that is enough for the result of any ct_decode_next, with the NUL; 0 without a
 * tokenizer. */
CT_API size_t ct_token_room(const ct_tokenizer *tokenizer);

/* The text of a token as the file spells it, which is valid until the tokenizer is closed, and the
 * id of such a text. An id or a text that no token has gives NULL or -1. */
CT_API const char *ct_token(const ct_tokenizer *tokenizer, int64_t id);
CT_API int64_t ct_token_id(const ct_tokenizer *tokenizer, const char *token);

/* The id of the token that has a role: "bos_token", "eos_token", "unk_token", "sep_token",
 * "pad_token", "cls_token" or "mask_token"; -1 if no token has it. */
CT_API int64_t ct_token_role(const ct_tokenizer *tokenizer, const char *role);

/* Makes a text a special token, whether it is new or a token already, and gives the token a role
 * unless `role` is NULL. A new token gets the id that the tokenizers package gives it, which is
 * ct_tokenizer_size unless the ids have gaps; an embedding may then have too few rows. No other
 * thread may use the tokenizer during the call.
 *
 * Returns the id, or -1 after CT_ERR_ARGUMENT: an empty token, a token that is not UTF-8, or an
 * unknown role. */
CT_API int64_t ct_token_add(ct_tokenizer *tokenizer, const char *token, const char *role);

typedef struct {
    bool no_special; /* the post-processor's tokens ([CLS], BOS, ...) are left out */
    bool plain;      /* the text of an added token is ordinary text: for text that users type */
} ct_encode_opts;

/* Encodes `bytes` bytes of any content. An ill-formed part of the text counts as one U+FFFD, as
 * with Python's errors="replace".
 *
 * Returns the number of the text's ids, of which the first `room` are written to ids[room]. If
 * offsets is not NULL, offsets[2 i] and offsets[2 i + 1] are the begin and the end of token i in
 * bytes of the text. A token that is a part of a character has the range of the character, and a
 * token of the post-processor has (0, 0).
 *
 * The result is also -1 if the text needs the model's unk_token and the vocabulary does not have
 * it. */
CT_API int64_t ct_encode(const ct_tokenizer *tokenizer, const char *text, size_t bytes,
                         ct_encode_opts opts, int64_t *ids, int64_t *offsets, int64_t room);

/* Decodes n ids. Special tokens are left out unless keep_special; so is an id that no token has.
 * Like snprintf, it writes at most room - 1 bytes and a NUL, and returns the number of bytes that
 * the whole text has. */
CT_API int64_t ct_decode(const ct_tokenizer *tokenizer, const int64_t *ids, int64_t n,
                         bool keep_special, char *text, size_t room);

/* The state between two calls of ct_decode_next. A new text begins with zeros, with .keep_special
 * as in ct_decode. The other fields belong to the library. */
typedef struct {
    unsigned char held[64]; /* bytes of a character that is not whole yet, and notes */
    int count;              /* the number of these bytes */
    bool begun;             /* a token has been decoded */
    bool keep_special;
} ct_decode_state;

/* Decodes the next id of a text and writes the characters that are whole by now, with a NUL behind
 * them. The id -1 ends the text: it writes the characters that were held.
 *
 * Returns the number of bytes written without the NUL, which may be 0. If they do not fit into
 * `room` bytes with the NUL, it returns their number, and the state has not changed.
 *
 * The results of all calls together are the text of ct_decode, with one exception. For an
 * ill-formed run of byte tokens (such as <0xE2>) ct_decode writes U+FFFD for each byte of the run,
 * but here the whole characters at the beginning of the run have been written already. */
CT_API int64_t ct_decode_next(const ct_tokenizer *tokenizer, ct_decode_state *state, int64_t id,
                              char *text, size_t room);

/* A batch of rows of tokens, each tensor (n, T); T is the length of the longest row. */
typedef struct {
    ct_tensor *ids;     /* i64 */
    ct_tensor *mask;    /* bool: true for a token, false for padding */
    ct_tensor *types;   /* i64: 1 for the second text of a pair, 0 otherwise, unless the
                         * post-processor says something else */
    ct_tensor *targets; /* i64, -100 in padding; NULL if none were given */
} ct_batch;

typedef struct {
    int64_t max_length; /* the most ids of a row; 0: no limit */
    bool pad_left;      /* padding stands before the tokens */
    int64_t pad_id;     /* the id in padding */
    ct_encode_opts encode;
} ct_batch_opts;

/* Encodes n texts, or pairs of texts and seconds, on the threads of the context. A text that is
 * longer than max_length allows loses its end and not the tokens of the post-processor; of a pair
 * the longer text is cut first ("longest_first"). The tensors are new and belong to the innermost
 * scope.
 *
 * All tensors are NULL after an error: CT_ERR_ARGUMENT (a NULL, n < 1, a max_length that is
 * negative or less than the number of the post-processor's tokens), CT_ERR_FORMAT (a text needs the
 * model's unk_token and the vocabulary does not have it), CT_ERR_MEMORY. */
CT_API ct_batch ct_encode_batch(ct_tokenizer *tokenizer, const char *const *texts,
                                const char *const *seconds, int64_t n, ct_batch_opts opts);

/* Makes a batch of n rows of ids that lie one behind the other: row i has lengths[i] ids. targets
 * has as many numbers as ids, or is NULL. A row that is longer than max_length loses its end. A
 * negative length is an error, and so are the errors of ct_encode_batch. */
CT_API ct_batch ct_batch_of(ct_context *context, const int64_t *ids, const int64_t *targets,
                            const int64_t *lengths, int64_t n, ct_batch_opts opts);

/* The rule that divides a text into pieces; a token is never longer than a piece. GPT-2's
 * expression, Llama 3's (which has the numbers in groups of up to three digits), Qwen2's (each
 * digit is a piece), or none: a line of the training files is a piece, and so is a whole text. */
typedef enum { CT_SPLIT_GPT2, CT_SPLIT_LLAMA3, CT_SPLIT_QWEN2, CT_SPLIT_NONE } ct_tokenizer_split;

typedef struct {
    int64_t vocab_size; /* the number of ids, at least 256 + n_special; 0: 30000 */
    /* a pair of tokens is merged if it stands in the files at least so often; 0: once */
    int64_t min_frequency;
    ct_tokenizer_split split;
    const char *const *special; /* [n_special], such as "<|endoftext|>" */
    int64_t n_special;
    /* called now and then, with the part of the work that is done from 0 to 1. If it returns false
     * the training ends with an error. NULL: not called. It must not use the context */
    bool (*progress)(void *arg, double done);
    void *arg;
} ct_tokenizer_opts;

/* Trains a byte-level BPE on n files of text. The ids are first the special tokens, then the 256
 * bytes in the order of their characters in GPT-2's alphabet, then the merged tokens. Each step
 * merges the most frequent pair of tokens; of several it takes the pair of the smaller ids. If no
 * pair is frequent enough, the vocabulary is smaller than vocab_size.
 *
 * Tokens, ids and merges are equal to the result of the tokenizers package with the same
 * pre-tokenizer, tokenizer.train(files, BpeTrainer(initial_alphabet=ByteLevel.alphabet(), ...)),
 * with these properties and differences:
 *
 * - Files are read line by line, and a piece never crosses the end of a line. So no token has a
 *   line end before its last byte, although an encode may have pieces of several line ends.
 * - The text of a special token in a file divides the text and is not learned. The package learns
 *   it as ordinary text.
 * - An ill-formed part of a file counts as U+FFFD. The package refuses the file.
 * - A byte order mark at the beginning of a file is left out. The package learns it as a character.
 *
 * Each file is read once, in blocks, on the threads of the context. The result is the same for any
 * number of threads. Memory grows with the number of different pieces, and is not the context's;
 * a line of CT_SPLIT_NONE must fit, and has at most 1 GiB.
 *
 * Returns NULL after an error:
 *
 * - CT_ERR_ARGUMENT: a NULL, n < 1, a negative number, a vocabulary that is too small; a special
 *   token that is empty, is not UTF-8 or goes on behind a line end; or progress returned false;
 * - CT_ERR_IO, CT_ERR_FORMAT: a file that cannot be read, or a line that is too long;
 * - CT_ERR_MEMORY. */
CT_API ct_tokenizer *ct_tokenizer_train(ct_context *context, const char *const *paths, int64_t n,
                                        ct_tokenizer_opts opts);

typedef struct {
    /* a document ends at this text, which is no part of it, and at the end of its file; NULL: a
     * file is a document. An empty document is left out */
    const char *separator;
    int64_t end_id; /* the id behind each document, also id 0; -1: none */
    ct_encode_opts encode;
} ct_corpus_opts;

/* Encodes n files of text into one file of ids for ct_tokens_open, with llm.c's header: ids of 2
 * bytes if the tokenizer has at most 65536, otherwise of 4 bytes. The threads of the context encode
 * documents at the same time; the file is the same for any number of threads. A few MB of documents
 * are in memory, or one larger document. A byte order mark at the beginning of a file is no part of
 * its text. The file gets its name when it is complete; until then `out` is not changed.
 *
 * Returns the number of ids, or -1 after an error: CT_ERR_ARGUMENT (a NULL, n < 1, an end_id that
 * is no id), CT_ERR_IO, CT_ERR_FORMAT (2^31 ids or more, or a text that needs the model's unk_token
 * if the vocabulary does not have it), CT_ERR_MEMORY. */
CT_API int64_t ct_encode_files(ct_tokenizer *tokenizer, const char *const *paths, int64_t n,
                               const char *out, ct_corpus_opts opts);

/* ---- chats ---- */

/* A message. If json is not NULL, it is the whole message as a JSON object, with every member that
 * a template may read; role and content are then ignored. A role is of letters, digits and "_-. ".
 * Members that are null are removed, as transformers does it. "weight" (0 or 1) and "train" (true
 * or false) say whether an assistant's message has targets. */
typedef struct {
    const char *role, *content; /* "system", "user", "assistant", "tool", ... */
    const char *json;
} ct_message;

/* What became of a message as something to learn (ct_chat_opts.turns). */
typedef enum {
    CT_TURN_NONE,    /* it is no assistant's, or its weight is 0 or train is false */
    CT_TURN_LEARNED, /* its tokens are targets, with the one that ends the turn */
    CT_TURN_OPEN,    /* its tokens are targets; the template writes no token that ends the turn */
    CT_TURN_ABSENT,  /* the text has no byte of it */
    /* it has no targets, because the template writes it otherwise when messages follow it. In a
     * conversation that ends with it, it has targets */
    CT_TURN_REWRITTEN
} ct_chat_turn;

/* JSON is checked as a file's is: integers have 64 bits, no member comes twice, and U+0000 and lone
 * surrogates are errors. */
typedef struct {
    bool add_generation_prompt; /* the text ends with the beginning of an assistant's message */
    /* special tokens that are spelled in messages, tools, documents and variables are these tokens,
     * as in transformers; false: they are ordinary text */
    bool parse_special;
    /* NULL: the tokenizer's. With tools (also "[]") its template "tool_use", if it has one, else
     * its default one. A text with "{{" or "{%" is a template. Any other is a name: of the
     * tokenizer's, then of a built-in one: "chatml", "llama3", "gemma", "zephyr" */
    const char *chat_template;
    const char
        *messages; /* a JSON array in place of the messages of the call, which then has none */
    const char *tools, *documents; /* JSON arrays; NULL: None */
    /* a JSON object: {"enable_thinking": false}. Its members override the texts of tokens, such as
     * bos_token, and globals; "messages", "tools", "documents" and "add_generation_prompt" are an
     * error */
    const char *variables;
    int64_t
        now; /* the Unix time of strftime_now, in local time; 0: the clock, read once in a call */
    /* [error_room] where a call that returns -1 writes its message: as much as fits, with a NUL.
     * Other calls leave it as it is. NULL: not wanted */
    char *error;
    size_t error_room;
    /* [n_turns] what became of each of the first n_turns messages; ct_chat_encode fills it if it
     * is asked for targets. NULL: not wanted */
    ct_chat_turn *turns;
    int64_t n_turns;
} ct_chat_opts;

/* Writes the text of n messages, as snprintf: at most room - 1 bytes and a NUL. It is the text of
 * transformers 5's apply_chat_template, byte for byte; docs/text.md lists the language of
 * templates. An ill-formed part of a content is U+FFFD.
 *
 * Returns the number of bytes of the whole text. After an error, such as a conversation that the
 * template refuses, it returns -1, has written the message into .error of the options, and records
 * no error in the context. A template that cannot be read, and one that fails, is named with line
 * and column. Bounds: a template of 1 MB, 64 MB of text, 10^7 steps, a depth of 200. */
CT_API int64_t ct_chat_text(const ct_tokenizer *tokenizer, const ct_message *messages, int64_t n,
                            ct_chat_opts opts, char *text, size_t room);

/* Encodes that text without the tokens of the post-processor. Returns the number of ids, of which
 * the first `room` are written, or -1 after an error, as ct_chat_text.
 *
 * No content ends its own turn. In what messages, tools, documents and variables write, however the
 * template cuts and joins it, special tokens are ordinary text, and so are other added tokens that
 * the template itself writes; in an assistant's message only the special ones, so that its <think>
 * is a token. A role is no content. If the model makes a special token of such text by itself, that
 * is an error. A template whose delimiters are no tokens cannot be protected.
 *
 * targets[room], if it is not NULL, is for ct_lm_loss: at t the id of token t + 1 if that token is
 * learned, and otherwise -100. If the template has {% generation %}, what that encloses is learned.
 * Otherwise an assistant's message is, from where the generation prompt ends to the token that ends
 * the turn, unless messages behind it rewrite it (.turns); docs/text.md has the rule. */
CT_API int64_t ct_chat_encode(const ct_tokenizer *tokenizer, const ct_message *messages, int64_t n,
                              ct_chat_opts opts, int64_t *ids, int64_t *targets, int64_t room);

/* The id that ends an assistant's turn: the first special token that the template writes behind a
 * plain answer, or else eos_token's; -1 without one, and after an error as ct_chat_text's. */
CT_API int64_t ct_chat_end(const ct_tokenizer *tokenizer, ct_chat_opts opts);

/* Whether the chosen template names this member of a message, such as "tool_calls": a message's
 * member that it does not name is not in the text. False after an error as ct_chat_text's. */
CT_API bool ct_chat_reads(const ct_tokenizer *tokenizer, ct_chat_opts opts, const char *member);

/* A template of the tokenizer or else a built-in one, by its name; NULL is the default one. Valid
 * until the next ct_tokenizer_set_template or the close. NULL if there is none. */
CT_API const char *ct_chat_template(const ct_tokenizer *tokenizer, const char *name);

/* Puts a chat template in the place of the default one; NULL removes it. ct_tokenizer_save writes
 * it. A text that is no template is an error when it is used. Returns false after CT_ERR_ARGUMENT
 * (text that is not UTF-8) or CT_ERR_MEMORY. */
CT_API bool ct_tokenizer_set_template(ct_tokenizer *tokenizer, const char *text);

/* ---- files of conversations ---- */

/* A file that has one JSON object in each line, or one array of objects; which of them is seen in
 * the file, whatever its name is. Blank lines and a byte order mark at the beginning are ignored.
 * One line or element at a time is in memory. The first of these forms that an object has counts:
 *
 *     {"chosen": ..., "rejected": ...}, preferences: two texts, or two lists of messages, with
 *         "prompt" or a common beginning
 *     {"messages": [{"role": "user", "content": "..."}, ...]}, with "tools" or without
 *     {"conversations": [{"from": "human", "value": "..."}, ...]}: ShareGPT's; the roles human and
 *         gpt become user and assistant
 *     {"prompt": ..., "completion": ...}: two texts, or two lists of messages, which become one
 *     {"instruction": "...", "input": "...", "output": "..."}: Alpaca's, as messages; input may be
 *         left out, and a text "system" may be there
 *     {"question": "...", "choices": ["...", ...], "answer": 0}: a text, the texts that may follow
 *         it, and the index of the right one; "prompt" may stand in the place of "question"
 *     {"text": "..."}, with "label" or without
 *
 * Other members of an object are ignored; those of a message are part of its json. */
typedef struct ct_json_lines ct_json_lines;

/* Opens a file. Returns NULL after CT_ERR_ARGUMENT (a NULL), CT_ERR_IO or CT_ERR_MEMORY. */
CT_API ct_json_lines *ct_json_lines_open(ct_context *context, const char *path);

/* A line. The texts are valid until the next call for the file. A message has role, json and, if it
 * is a text, content. What the line does not have is NULL. */
typedef struct {
    int64_t number;   /* the number of the line in the file, from 1; an element's first line */
    const char *text; /* [bytes] with a NUL behind them */
    size_t bytes;
    /* [n_messages] the conversation; in a line of preferences, the messages before the answers */
    const ct_message *messages;
    int64_t n_messages;
    const char *tools; /* a JSON array that stands beside messages */
    /* a prompt and its completion, if both are texts; as lists of messages they are one
     * conversation, in `messages` */
    const char *prompt, *completion;
    /* the better and the worse answer, each a list of messages. An answer that is a text in the
     * file is one message here, which has only a content */
    const ct_message *chosen, *rejected;
    int64_t n_chosen, n_rejected;
    const char *label; /* the label beside a text: its text, or a number as it is spelled */
    /* [n_choices] the texts that may follow `prompt`, each a message that has only a content, and
     * the index of the right one */
    const ct_message *choices;
    int64_t n_choices, answer;
} ct_json_line;

/* Reads the next line. Returns false behind the last one, or after CT_ERR_IO, CT_ERR_MEMORY or
 * CT_ERR_FORMAT. A CT_ERR_FORMAT names the file, the number of the line, and the byte in the line
 * or element. Its reasons are: the line is not such an object; a list of messages is empty; a
 * message has no role, a weight other than 0 and 1, or a "train" other than true and false; a text
 * has the character U+0000. After CT_ERR_FORMAT and ct_error_clear the next call reads the
 * following line; in an array it returns false. */
CT_API bool ct_json_lines_next(ct_json_lines *lines, ct_json_line *line);

/* Closes the file. ct_context_free does it too. */
CT_API void ct_json_lines_close(ct_json_lines *lines);

/* Writes the tokenizer as it is now to a file if the path ends in ".json", and otherwise into a
 * folder, which is made if there is none. The file has the text of the opened file, with the tokens
 * that were added since, and gives the same ids for every text. A folder gets a
 * tokenizer_config.json too, with the roles and the chat template, so that
 * transformers.AutoTokenizer loads it. The files of a folder replace older ones as one (ct_save).
 * No other thread may use the context during the call. Returns false after CT_ERR_ARGUMENT or
 * CT_ERR_IO. */
CT_API bool ct_tokenizer_save(const ct_tokenizer *tokenizer, const char *path);

#ifdef __cplusplus
}
#endif

#endif
