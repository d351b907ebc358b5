/* Texts with the places of their bytes in the original. */
#include "aligned.h"

#include <stdlib.h>

#include "utf8.h"

cti_extent cti_aligned_origin(const cti_aligned *aligned, size_t begin, size_t end) {
    if (!aligned->from) {
        while (cti_utf8_continues(aligned->at[begin])) begin--;
        while (end < aligned->size && cti_utf8_continues(aligned->at[end])) end++;
        return (cti_extent){aligned->base + begin, aligned->base + end};
    }
    const cti_source first = aligned->from[begin], last = aligned->from[end - 1];
    return (cti_extent){aligned->base + first.begin, aligned->base + last.begin + last.length};
}

void cti_aligned_free(cti_aligned *aligned) {
    free(aligned->text);
    free(aligned->sources);
    *aligned = (cti_aligned){0};
}

/* Makes room for `more` bytes behind the text that was made. */
static bool rewriter_room(cti_rewriter *rewriter, size_t more) {
    cti_aligned *made = &rewriter->made;
    if (rewriter->failed) return false;
    if (made->room - made->size >= more) return true;
    const size_t most = SIZE_MAX / sizeof(cti_source) / 4;
    if (more > most - made->size) {
        rewriter->failed = true;
        return false;
    }
    const size_t size = made->size + more, room = size + size / 4;
    char *text = realloc(made->text, room);
    if (text) made->text = text;
    cti_source *sources = text ? realloc(made->sources, room * sizeof *sources) : NULL;
    if (sources) made->sources = sources;
    rewriter->failed = !sources;
    if (sources) made->room = room;
    return sources != NULL;
}

cti_rewriter cti_rewriter_begin(const cti_aligned *old, cti_aligned *spare) {
    cti_rewriter rewriter = {.old = old, .made = *spare};
    *spare = (cti_aligned){0};
    rewriter.made.size = 0;
    rewriter.made.base = old->base;
    rewriter.failed = !old->from && old->size >= CTI_MOST_SECTION;
    /* At least one byte, so that an empty result is no NULL. */
    rewriter_room(&rewriter, old->size + 1);
    return rewriter;
}

/* The range of the character that byte `at` of a text is in. */
static cti_source source_of(const cti_aligned *text, size_t at) {
    if (text->from) return text->from[at];
    while (cti_utf8_continues(text->at[at])) at--;
    const size_t length = cti_utf8_length((unsigned char)text->at[at]);
    return (cti_source){.begin = (uint32_t)at, .length = (unsigned)length};
}

void cti_rewriter_put(cti_rewriter *rewriter, uint32_t c, size_t from) {
    if (!rewriter_room(rewriter, 4)) return;
    cti_source source = {0};
    if (from != CTI_FROM_NOTHING) source = source_of(rewriter->old, from);
    cti_aligned *made = &rewriter->made;
    const size_t length = cti_utf8_put(made->text + made->size, c);
    for (size_t i = 0; i < length; i++) made->sources[made->size + i] = source;
    made->size += length;
}

void cti_rewriter_copy(cti_rewriter *rewriter, cti_extent span) {
    const cti_aligned *old = rewriter->old;
    cti_aligned *made = &rewriter->made;
    const size_t size = span.end - span.begin;
    if (!size || !rewriter_room(rewriter, size)) return;
    memcpy(made->text + made->size, old->at + span.begin, size);
    cti_source *to = made->sources + made->size;
    made->size += size;
    if (old->from) {
        memcpy(to, old->from + span.begin, size * sizeof *to);
        return;
    }
    for (size_t at = span.begin; at < span.end;) {
        const size_t end = at + cti_utf8_length((unsigned char)old->at[at]);
        const cti_source source = {.begin = (uint32_t)at, .length = (unsigned)(end - at)};
        for (; at < end; at++) *to++ = source;
    }
}

bool cti_rewriter_end(cti_rewriter *rewriter, cti_aligned *text, cti_aligned *spare) {
    if (rewriter->failed) {
        cti_aligned_free(&rewriter->made);
        return false;
    }
    *spare = (cti_aligned){.text = text->text, .sources = text->sources, .room = text->room};
    *text = rewriter->made;
    text->at = text->text;
    text->from = text->sources;
    return true;
}

cti_edit cti_edit_begin(cti_aligned *text, cti_aligned *spare) {
    return (cti_edit){.text = text, .spare = spare};
}

void cti_edit_drop(cti_edit *edit, size_t from, size_t to) {
    if (!edit->begun) edit->rewriter = cti_rewriter_begin(edit->text, edit->spare);
    edit->begun = true;
    cti_rewriter_copy(&edit->rewriter, (cti_extent){edit->done, from});
    edit->done = to;
}

bool cti_edit_end(cti_edit *edit) {
    if (!edit->begun) return true;
    cti_edit_drop(edit, edit->text->size, edit->text->size);
    return cti_rewriter_end(&edit->rewriter, edit->text, edit->spare);
}
