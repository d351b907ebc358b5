/* Added tokens: texts that become one token wherever they stand, before the model sees them.
 *
 * The tokens that are not normalized are found in the original text. The parts between them are
 * normalized, and the others are found there, by their normalized texts. Of the tokens that match
 * at the leftmost place, and are not refused by the search, the longest wins. A match that
 * `single_word` refuses is passed over: its bytes are ordinary text, and the search goes on behind
 * it. */
#ifndef CTI_TEXT_ADDED_TOKENS_H
#define CTI_TEXT_ADDED_TOKENS_H

#include "normalize.h"
#include "reading.h"
#include "vocabulary.h"

typedef struct {
    cti_text content; /* as the file spells it */
    int64_t id;
    bool single_word;    /* no match has a word character beside it */
    bool lstrip, rstrip; /* a match includes the white space before it, or behind it */
    bool normalized;
    bool special;
    /* the text that decoding writes: the content, normalized if the token is; .at is NULL if the
     * text is empty */
    cti_text decoded;
    /* whether decoding leaves the token out: a special token has this text as its content. So a
     * special token that a normalizer changes is not left out, as in the package. */
    bool skipped;
} cti_added_token;

/* A text to find, and the index of its token. */
typedef struct {
    cti_text text;
    int32_t token;
} cti_needle;

/* The needles in the order of their bytes. Those that begin with byte b are first[b] ...
 * first[b + 1]. */
typedef struct {
    cti_needle *needle; /* [count] */
    size_t count;
    uint32_t first[257];
} cti_needles;

typedef struct {
    cti_arena *arena;
    const cti_vocabulary *model;      /* the tokens of the model */
    const cti_normalizer *normalizer; /* or NULL */
    cti_added_token *token;           /* [count] */
    int64_t count, room;
    cti_vocabulary index;    /* the index in token[] of each content */
    int32_t *of_id;          /* [of_ids]: the token of an id, or CTI_NO_ID */
    int64_t of_ids, largest; /* `largest`: the largest id; -1 if there is no token */
    cti_needles raw, normal; /* the needles for the original text and for the normalized text */
} cti_added_tokens;

/* Reads the value of "added_tokens". .arena, .model and .normalizer have been set. */
bool cti_added_tokens_read(const cti_reading *reading, cti_json_at value, cti_added_tokens *added);
/* Adds a token, or gives a content that is there already these properties, except its id. The id is
 * chosen as the tokenizers package does: the one of the model's token with this text, or a new one.
 * Returns the token's index, or -1 after an error of memory, or if ids have run out (*full).
 * The needles are not made anew. */
int64_t cti_added_tokens_add(cti_added_tokens *added, cti_added_token token, bool *full);
/* Makes the needles. Returns false after an error of the context. */
bool cti_added_tokens_index(cti_added_tokens *added);

/* The added token of an id; NULL if there is none. */
static inline const cti_added_token *cti_added_token_of(const cti_added_tokens *added, int64_t id) {
    if (id < 0 || id >= added->of_ids || added->of_id[id] == CTI_NO_ID) return NULL;
    return &added->token[added->of_id[id]];
}

/* A search that divides a text into parts: each part is one added token, or text between two of
 * them. */
typedef struct {
    const cti_added_tokens *added;
    const cti_needles *needles;
    const char *text;
    size_t size;
    /* returns whether the needle of this token at [begin, end) is ordinary text; NULL: none is */
    bool (*refuse)(const void *arg, const cti_added_token *token, size_t begin, size_t end);
    const void *refuse_arg;
    size_t from;   /* the search goes on here */
    size_t passed; /* parts up to here have been found */
    /* the last result: the range of a part, and its token; NULL if the part is text between tokens
     */
    cti_extent part;
    const cti_added_token *token;
    /* a token that was found behind the part */
    cti_extent waiting_part;
    const cti_added_token *waiting;
} cti_search;

cti_search cti_search_begin(const cti_added_tokens *added, const cti_needles *needles,
                            const char *text, size_t size);
/* Finds the next part. Returns false at the end of the text. */
bool cti_search_next(cti_search *search);

#endif
