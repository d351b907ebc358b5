/* NFD: every character is replaced by its decomposition, and combining marks in a row are sorted by
 * their classes. NFC: afterwards each starter, a character of class 0, is composed with the
 * characters behind it, unless another one of the same or a higher class is between. NFKD and NFKC:
 * the same with compatible decompositions.
 *
 * The text is handled in segments. A character that the form leaves as it is, that has class 0 and
 * that composes with no character before it does not meet the characters before it, so a segment
 * begins with one. Segments of one such character are skipped.
 *
 * The sources are equal to the sources in the tokenizers package. It counts with each new character
 * how many old ones it replaces: 1 - change. A decomposition's first part has the change 0, its
 * other parts 1; the result of a composition has the sum of both changes - 1. Sorting moves the
 * changes with their characters. Then the new characters take the old ones in order: a character
 * that replaces none has the source of the byte before it. */
#include "normal_forms.h"

#include <stdlib.h>

#include "unicode.h"
#include "unicode_tables.h"
#include "utf8.h"

/* A new character: its code in bits 0 to 20, its class in bits 21 to 28, its change + MOST_REPLACED
 * in bits 29 to 31. A composition has at most 4 parts, so that the change is -3 to 1. */
typedef uint32_t form_item;
enum { CLASS_AT = 21, CHANGE_AT = 29, MOST_REPLACED = 4, SHORT_RUN = 16 };

static form_item item_of(uint32_t c, int class, int change) {
    return c | (uint32_t) class << CLASS_AT | (uint32_t)(change + MOST_REPLACED) << CHANGE_AT;
}
static uint32_t item_code(form_item item) { return item & 0x1FFFFF; }
static int item_class(form_item item) { return (int)(item >> CLASS_AT & 0xFF); }
static int item_change(form_item item) { return (int)(item >> CHANGE_AT) - MOST_REPLACED; }

typedef struct {
    bool composed, compatible;
    form_item *item; /* [count], the segment that is made */
    size_t count, room;
    form_item *sorted; /* [sorted_room], for long runs of marks */
    size_t sorted_room;
} form_work;

static bool form_item_push(form_work *work, form_item item) {
    if (work->count == work->room) {
        if (work->room > SIZE_MAX / sizeof item / 4) return false;
        const size_t room = work->room ? 2 * work->room : 64;
        form_item *larger = realloc(work->item, room * sizeof item);
        if (!larger) return false;
        work->item = larger;
        work->room = room;
    }
    work->item[work->count++] = item;
    return true;
}

/* Sorts n items by class and keeps the order of items of one class. */
static bool marks_sort_run(form_work *work, form_item *item, size_t n) {
    if (n <= SHORT_RUN) {
        for (size_t i = 1; i < n; i++) {
            const form_item moved = item[i];
            size_t to = i;
            for (; to && item_class(item[to - 1]) > item_class(moved); to--)
                item[to] = item[to - 1];
            item[to] = moved;
        }
        return true;
    }
    if (n > work->sorted_room) {
        free(work->sorted);
        work->sorted = malloc(n * sizeof *item); /* no overflow: n items are in memory already */
        work->sorted_room = work->sorted ? n : 0;
        if (!work->sorted) return false;
    }
    size_t place[256 + 1] = {0}; /* the place of the first item of each class */
    for (size_t i = 0; i < n; i++) place[item_class(item[i]) + 1]++;
    for (size_t i = 0; i < 256; i++) place[i + 1] += place[i];
    for (size_t i = 0; i < n; i++) work->sorted[place[item_class(item[i])]++] = item[i];
    memcpy(item, work->sorted, n * sizeof *item);
    return true;
}

static bool marks_sort(form_work *work) {
    for (size_t at = 0; at < work->count; at++) {
        const size_t begin = at;
        while (at < work->count && item_class(work->item[at])) at++;
        if (!marks_sort_run(work, work->item + begin, at - begin)) return false;
    }
    return true;
}

static void marks_compose(form_work *work) {
    form_item *item = work->item, *starter = NULL;
    size_t kept = 0;
    int last = 0; /* the class of the last character kept behind the starter; 0: there is none */
    for (size_t i = 0; i < work->count; i++) {
        const int class = item_class(item[i]);
        uint32_t c = 0;
        if (starter && (!last || last < class)) {
            c = cti_unicode_compose(item_code(*starter), item_code(item[i]));
        }
        if (c) {
            *starter = item_of(c, 0, item_change(*starter) + item_change(item[i]) - 1);
            continue;
        }
        if (!class) starter = item + kept;
        last = class;
        item[kept++] = item[i];
    }
    work->count = kept;
}

static bool is_same_segment(const form_work *work, const cti_aligned *text, cti_extent segment) {
    size_t at = segment.begin, length;
    for (size_t i = 0; i < work->count; i++, at += length) {
        if (item_change(work->item[i])) return false;
        if (cti_utf8_get(text->at + at, &length) != item_code(work->item[i])) return false;
    }
    return true;
}

static void segment_write(const form_work *work, cti_edit *edit, cti_extent segment) {
    const char *text = edit->text->at;
    cti_edit_drop(edit, segment.begin, segment.end);
    size_t at = segment.begin;
    for (size_t i = 0; i < work->count; i++) {
        const int change = item_change(work->item[i]);
        const bool inserted = change > 0;
        cti_edit_put(edit, item_code(work->item[i]),
                     !inserted ? at
                     : at      ? at - 1
                               : CTI_FROM_NOTHING);
        for (int replaced = change; replaced <= 0; replaced++) {
            at += cti_utf8_length((unsigned char)text[at]);
        }
    }
}

static bool segment_make(form_work *work, cti_edit *edit, cti_extent segment) {
    work->count = 0;
    size_t length;
    for (size_t at = segment.begin; at < segment.end; at += length) {
        uint32_t part[CTI_COMPATIBLE];
        const uint32_t c = cti_utf8_get(edit->text->at + at, &length);
        const int n = work->compatible ? cti_unicode_decompose_compatible(c, part)
                                       : cti_unicode_decompose(c, part);
        for (int i = 0; i < n; i++) {
            const int class = cti_unicode_combining_class(part[i]);
            if (!form_item_push(work, item_of(part[i], class, i > 0))) return false;
        }
    }
    if (!marks_sort(work)) return false;
    if (work->composed) marks_compose(work);
    if (!is_same_segment(work, edit->text, segment)) segment_write(work, edit, segment);
    return true;
}

/* Whether a character can be changed, moved or composed with one before it. */
static bool moves(const form_work *work, uint32_t c) {
    const cti_unicode_record *record = cti_unicode_record_of(c);
    if (work->compatible && record->flags & CTI_HAS_COMPATIBLE) return true;
    if (work->composed) return record->flags & CTI_HAS_NFC_MOVES;
    return record->combining_class || record->flags & CTI_HAS_DECOMPOSES;
}

/* Finds the next segment behind `from` with a character that moves. Returns false at the end of the
 * text. */
static bool next_segment(const form_work *work, const cti_aligned *text, size_t from,
                         cti_extent *segment) {
    size_t at = from, length, before = from; /* the character before */
    while (at < text->size) {
        const size_t ascii = cti_utf8_ascii(text->at + at, text->size - at);
        if (ascii) before = at + ascii - 1;
        at += ascii;
        if (at == text->size) return false;
        if (moves(work, cti_utf8_get(text->at + at, &length))) break;
        before = at;
        at += length;
    }
    if (at == text->size) return false;
    segment->begin = work->composed ? before : at;
    while (at < text->size && moves(work, cti_utf8_get(text->at + at, &length))) at += length;
    segment->end = at;
    return true;
}

bool cti_normal_form(cti_form form, cti_aligned *text, cti_aligned *spare) {
    form_work work = {.composed = form & CTI_NFC, .compatible = form & CTI_NFKD};
    cti_edit edit = cti_edit_begin(text, spare);
    bool fits = true;
    cti_extent segment = {0};
    while (fits && next_segment(&work, text, segment.end, &segment)) {
        fits = segment_make(&work, &edit, segment);
    }
    free(work.item);
    free(work.sorted);
    if (!fits) edit.rewriter.failed = true;
    return cti_edit_end(&edit) && fits;
}
