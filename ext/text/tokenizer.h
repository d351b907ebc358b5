/* The struct of a tokenizer, and the steps of an encoding that its callers share.
 *
 * Invariants:
 *
 * 1. All memory that outlives a call is in the arena, and is given back when the tokenizer is
 *    closed. Functions of a const tokenizer use malloc and free it before they return.
 * 2. After ct_tokenizer_open only ct_token_add and ct_tokenizer_set_template change the
 *    tokenizer. Replaced memory stays in
 *    the arena, so a text that ct_token returned stays valid. */
#ifndef CTI_TEXT_TOKENIZER_H
#define CTI_TEXT_TOKENIZER_H

#include <cotangent/tokenizer.h>

#include "../../src/core/object.h"
#include "added_tokens.h"
#include "chat_templates.h"
#include "decoders.h"
#include "model.h"
#include "normalize.h"
#include "postprocess.h"
#include "pretokenize.h"

enum { CTI_ROLES = 7, CTI_ROLE_EOS = 1, CTI_MOST_EOS = 64 };
extern const char *const cti_role_names[CTI_ROLES]; /* "bos_token", ... */

/* The parts of a tokenizer, which lie in its arena. */
typedef struct {
    cti_vocabulary vocabulary; /* the tokens of the model */
    const cti_normalizer *normalizer;
    const cti_pretokenizer *pretokenizer;
    cti_next_piece
        *next_piece; /* the function of the pre-tokenizer, if it has one (pretokenize.h) */
    const cti_model *model;
    bool bytes; /* the model is one of bytes */
    cti_postprocessor postprocessor;
    cti_decoder decoder;
    cti_added_tokens added;
    int64_t size;            /* the largest id + 1 */
    size_t longest_token;    /* the bytes of the longest token, as spelled or as decoded */
    int64_t role[CTI_ROLES]; /* the id with each role; -1: none */
    cti_chat_templates chat_templates;
    bool template_is_file; /* they were in files of their own, such as chat_template.jinja */
    bool template_changed; /* the program has set one since */
    /* [n_eos] the ids of generation_config.json that end a text */
    int64_t eos[CTI_MOST_EOS], n_eos;
    /* the text of the file, and the range of its array of added tokens with the brackets; empty if
     * the file has none */
    cti_text file;
    cti_extent added_array;
    bool changed;    /* tokens were added or changed since */
    cti_text config; /* the text of tokenizer_config.json; .at is NULL if there is none */
    bool has_map;    /* special_tokens_map.json replaced roles of `config` */
    bool role_changed[CTI_ROLES]; /* the role's token is not the one of `config` */
    const char *note;             /* ct_tokenizer_note */
} cti_tokenizer_parts;

struct ct_tokenizer {
    union {
        cti_object object; /* must be first */
        ct_context *context;
    };
    cti_arena arena;
    cti_tokenizer_parts *parts;
};
_Static_assert(sizeof(ct_tokenizer) <= CTI_OBJECT_BYTES, "a tokenizer is an object");

/* Whether a function of a const tokenizer may use it; no error is recorded. */
static inline bool cti_tokenizer_is_open(const ct_tokenizer *tokenizer) {
    return tokenizer && tokenizer->object.self == &tokenizer->object;
}

/* Makes a tokenizer of the text of a tokenizer.json, which is copied. `path` is its name in
 * messages. */
ct_tokenizer *cti_tokenizer_of(ct_context *context, const char *path, cti_text json);

/* Makes a tokenizer's parts of the text of a tokenizer.json, which lies in its arena. Messages have
 * the function and the path. */
bool cti_tokenizer_read(ct_tokenizer *tokenizer, const char *op, const char *path, cti_text json);

/* cti_tokenizer_new makes a tokenizer without parts. cti_tokenizer_begin returns the tokenizer if
 * `done`; otherwise it ends the tokenizer and returns NULL. */
ct_tokenizer *cti_tokenizer_new(ct_context *context);
ct_tokenizer *cti_tokenizer_begin(ct_tokenizer *tokenizer, bool done);

/* The path of a file in a folder, in the arena; NULL after an error. */
char *cti_tokenizer_path(cti_arena *arena, const char *folder, const char *name);

/* Computes .size and .longest_token. */
void cti_tokenizer_measure(cti_tokenizer_parts *parts);

/* Reads a whole file into the arena; .at is NULL after an error. */
cti_text cti_file_read_whole(cti_arena *arena, const char *op, const char *path);

/* The text of a token as the file spells it; .at is NULL if there is none. */
cti_text cti_token_text(const cti_tokenizer_parts *parts, int64_t id);
/* The id of the token that the file spells so; -1 if there is none. */
int64_t cti_token_find(const cti_tokenizer_parts *parts, cti_text token);

/* Which added tokens of a text are ordinary text. */
typedef struct {
    bool all; /* all of them */
    /* whether this token, which the bytes `match` of the text spell, is; NULL: none is */
    bool (*refuse)(void *arg, const cti_added_token *token, cti_extent match);
    void *arg;
} cti_plain;

/* Encodes one text without the tokens of the post-processor. Ranges are trimmed as the
 * post-processor says. The sink has a count of 0. Returns false if memory is short, or if the text
 * needs the unknown token and the vocabulary lacks it. */
bool cti_text_encode(const cti_tokenizer_parts *parts, cti_text text, const cti_plain *plain,
                     cti_sink *sink);
/* The reason for which an encoding failed. cti_encode_failed records it as the error of `op`, and
 * returns false. */
const char *cti_encode_failure(const ct_tokenizer *tokenizer);
bool cti_encode_failed(const ct_tokenizer *tokenizer, const char *op);

#endif
