/* The place where tokens go: the arrays of a caller of ct_encode, whose room may be too small, or
 * only a count. */
#ifndef CTI_TEXT_SINK_H
#define CTI_TEXT_SINK_H

#include "aligned.h"

typedef struct {
    int64_t *ids;     /* [room] */
    int64_t *offsets; /* [2 room], or NULL: ranges in the original text */
    int64_t room;
    int64_t count;           /* the number of tokens, of which the first `room` are written */
    const cti_aligned *text; /* the section whose tokens are written now */
} cti_sink;

/* The slow part of cti_sink_put: writes the range of a token. */
void cti_sink_offsets(cti_sink *sink, size_t begin, size_t end);

/* Adds the token of the bytes [begin, end) of sink->text. */
static inline void cti_sink_put(cti_sink *sink, int64_t id, size_t begin, size_t end) {
    if (sink->count < sink->room) {
        sink->ids[sink->count] = id;
        if (sink->offsets) cti_sink_offsets(sink, begin, end);
    }
    sink->count++;
}

#endif
