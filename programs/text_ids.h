/* The ids of texts, one after the other, in memory that is used again. */
#ifndef PROGRAMS_TEXT_IDS_H
#define PROGRAMS_TEXT_IDS_H

#include <cotangent/cotangent.h>

typedef struct {
    int64_t *ids;     /* [n], and room for one more */
    int64_t *offsets; /* [n][2], and room for one more, if they are asked for: the bytes of the text
                         at which an id begins and ends */
    int64_t n, ids_room, offsets_room;
} text_ids;

/* Encodes a text of some bytes. Prints a message and exits if it fails. */
void text_encode(text_ids *to, const ct_tokenizer *tokenizer, const char *text, size_t bytes,
                 ct_encode_opts opts, bool offsets);
void text_ids_free(text_ids *t);

#endif
