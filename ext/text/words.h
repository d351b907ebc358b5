/* Models whose tokens are words or parts of words: WordPiece and WordLevel. A word of WordPiece is
 * divided from the left: each token is the longest one that continues the word, with the prefix
 * except at the word's beginning. If a part has no token, the whole word is one unknown token. */
#ifndef CTI_TEXT_WORDS_H
#define CTI_TEXT_WORDS_H

#include "model.h"

typedef struct {
    bool bytes;              /* pieces are bytes, each of which stands for a character */
    bool parts;              /* WordPiece; false: WordLevel, whose words are not divided */
    int64_t most_characters; /* words of more are unknown */
    int32_t unknown;         /* CTI_NO_ID if it is not in the vocabulary */
    cti_byte_map first;      /* the tokens */
    cti_byte_map next;       /* the tokens with the prefix, without it */
} cti_words;

bool cti_words_read(const cti_reading *reading, cti_json_at value, bool bytes, bool parts,
                    const cti_vocabulary *vocabulary, const cti_words **words);

typedef struct {
    uint64_t *hash; /* [room], the hashes of a word's beginnings of each length */
    size_t room;
} cti_words_work;

void cti_words_work_end(cti_words_work *work);
bool cti_words_encode(const cti_words *words, cti_words_work *work, size_t begin, size_t end,
                      cti_sink *sink);

#endif
