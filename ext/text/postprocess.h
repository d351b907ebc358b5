/* Post-processors: the tokens that stand around the ids of a text ([CLS], BOS, ...), and ranges
 * that lose the white space at their ends. TemplateProcessing, BertProcessing, RobertaProcessing,
 * ByteLevel and Sequence. */
#ifndef CTI_TEXT_POSTPROCESS_H
#define CTI_TEXT_POSTPROCESS_H

#include "reading.h"
#include "sink.h"

enum { CTI_FIRST_TEXT = -1, CTI_SECOND_TEXT = -2 };
/* A part of an encoding: a token, or the ids of the first or of the second text. */
typedef struct {
    int64_t id;   /* of the token, or CTI_FIRST_TEXT or CTI_SECOND_TEXT */
    int64_t type; /* the type id of its ids */
} cti_template_part;

enum { CTI_MOST_TRIMS = 4 };
typedef struct {
    cti_template_part *single, *pair; /* of one text, and of two */
    int64_t singles, pairs;           /* their lengths */
    int trims;                        /* how often ranges are trimmed */
    /* a trim leaves a first space that is the only one, because add_prefix_space may have put it
     * there */
    bool keeps_prefix[CTI_MOST_TRIMS];
} cti_postprocessor;

/* Reads the value of "post_processor"; 0 or null gives the ids of the texts only. */
bool cti_postprocessor_read(const cti_reading *reading, cti_json_at value,
                            cti_postprocessor *postprocessor);

/* Trims the range of one token. `token` is the token's text, in the alphabet of bytes if it is of a
 * model of bytes; text[size] is the well-formed text in which the range lies; `first` tells that
 * the token is the first of the text. */
void cti_postprocessor_trim(const cti_postprocessor *postprocessor, cti_text token, bool first,
                            const char *text, size_t size, int64_t range[2]);

#endif
