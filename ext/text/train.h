/* The training of byte-level BPE. Its steps:
 *
 *     train_count.c   divides the files into pieces and counts the distinct ones
 *     train_merge.c   merges the most frequent pair of tokens until the vocabulary is full
 *     train_write.c   writes the result as tokenizer.json
 *
 * The result is equal to the result of the tokenizers package's BpeTrainer, which has these rules:
 *
 * 1. Files are read line by line. So a piece never crosses a line end; the line end belongs to its
 * line.
 * 2. The ids are the special tokens, the characters of the alphabet of bytes in the order of their
 *    code points, and the tokens that merges make. A text has one id: a special token may be a
 *    character or a merged token too.
 * 3. Each step merges the pair with the largest count, of several the one with the smaller ids. It
 *    ends when the vocabulary has its size or no count reaches min_frequency.
 * 4. A step adds the pairs that it makes to the counts and takes those away that it ends, but never
 *    the merged pair itself. Its old count is seen again if two merges make the same token: a pair
 *    with this token may be merged before and made again. It is merged again then, and has the
 *    place of its last merge.
 *
 * The one difference is that special tokens divide the text and are not learned. */
#ifndef CTI_TEXT_TRAIN_H
#define CTI_TEXT_TRAIN_H

#include <cotangent/context.h>

#include "../../src/io/json.h"
#include "pattern.h"
#include "tally.h"

typedef struct {
    ct_context *context;
    int64_t vocab_size, min_frequency;
    const cti_text *special; /* [n_special], distinct and not empty */
    int64_t n_special;
    cti_next_piece *next;   /* divides a line into pieces; NULL: a line is a piece */
    const char *expression; /* the expression of a Split before ByteLevel; NULL: none */
    bool use_regex;         /* ByteLevel divides by GPT-2's expression */
    /* called now and then with the part of the work that is done, 0 to 1; false ends the training
     * with an error. NULL: none */
    bool (*progress)(void *arg, double done);
    void *arg;
} cti_training;

/* One merge: tokens a and b become c. */
typedef struct {
    uint32_t a, b, c;
    bool replaced; /* the pair was merged again later */
} cti_merged_pair;

typedef struct {
    cti_tally tokens;       /* texts in the alphabet of bytes, by id; special tokens as they are */
    cti_merged_pair *merge; /* [count] */
    size_t count, room;
} cti_trained;

extern const char cti_train_op[]; /* the name in messages */

/* Reports the part of the work that is done. Returns false after an error. */
bool cti_training_goes_on(const cti_training *training, double done);
/* Records CT_ERR_MEMORY. Returns false. */
bool cti_training_no_memory(const cti_training *training);

/* Counts the pieces of n files. Returns false after an error; the caller frees *pieces. */
bool cti_train_count(const cti_training *training, const char *const *paths, int64_t n,
                     cti_tally *pieces);
/* Makes tokens and merges of the pieces, and frees these. Returns false after an error; the caller
 * frees *trained. */
bool cti_train_merge(const cti_training *training, cti_tally *pieces, cti_trained *trained);
void cti_trained_free(cti_trained *trained);
/* Writes tokenizer.json. A writer without a buffer measures it. */
void cti_train_write(const cti_training *training, const cti_trained *trained, cti_writer *out);

#endif
