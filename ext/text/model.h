/* Models: functions that turn a piece of text into tokens. BPE (model_bpe.c), Unigram
 * (model_unigram.c), WordPiece and WordLevel (model_words.c). */
#ifndef CTI_TEXT_MODEL_H
#define CTI_TEXT_MODEL_H

#include "reading.h"
#include "sink.h"
#include "vocabulary.h"

typedef struct cti_model cti_model;

/* Reads the value of "model". `bytes`: the pre-tokenizer ends with ByteLevel, so pieces are bytes
 * of the text and a token's text is compared in its bytes (byte_alphabet.h). *vocabulary gets the
 * tokens as the file spells them. */
bool cti_model_read(const cti_reading *reading, cti_json_at value, bool bytes,
                    cti_vocabulary *vocabulary, const cti_model **model);

/* The memory in which one thread encodes: arrays of symbols, a heap, the cache of pieces. Zeros at
 * first. */
typedef struct cti_model_work cti_model_work;
cti_model_work *cti_model_work_new(const cti_model *model, size_t text_size); /* NULL: no memory */
void cti_model_work_free(cti_model_work *work);

/* The id of the unknown token; CTI_NO_ID if the model has none or the vocabulary lacks it. */
int32_t cti_model_unknown(const cti_model *model);
/* Whether the vocabulary lacks the unknown token of the model. */
bool cti_model_lacks_unknown(const cti_model *model);

/* Writes the tokens of the piece [begin, end) of sink->text, which is not empty. Returns false if
 * memory is short, or if a part needs the unknown token and the vocabulary lacks it, which is an
 * error in the package too. Reads only the model. The time is n log n in the bytes of the piece. */
bool cti_model_encode(const cti_model *model, cti_model_work *work, size_t begin, size_t end,
                      cti_sink *sink);

#endif
