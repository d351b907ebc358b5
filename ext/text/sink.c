/* The ranges of tokens in the original text. */
#include "sink.h"

void cti_sink_offsets(cti_sink *sink, size_t begin, size_t end) {
    const cti_extent origin = cti_aligned_origin(sink->text, begin, end);
    sink->offsets[2 * sink->count] = (int64_t)origin.begin;
    sink->offsets[2 * sink->count + 1] = (int64_t)origin.end;
}
