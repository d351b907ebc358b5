/* Iteration: one item after another of whatever Python passes over. */
#include "../utf8.h"
#include "value.h"

static bool next_item(cti_jinja_run *run, cti_jinja_iterator *iterator, cti_jinja_value *item) {
    (void)run;
    const cti_jinja_list *list = iterator->source.list;
    if (iterator->at >= list->count) return false;
    *item = list->item[iterator->at++];
    return true;
}

static bool next_key(cti_jinja_run *run, cti_jinja_iterator *iterator, cti_jinja_value *item) {
    (void)run;
    const cti_jinja_dict *dict = iterator->source.dict;
    if (iterator->at >= dict->count) return false;
    *item = dict->entry[iterator->at++].key;
    return true;
}

/* `at` is the byte of the next character. */
static bool next_character(cti_jinja_run *run, cti_jinja_iterator *iterator,
                           cti_jinja_value *item) {
    const cti_jinja_string *string = iterator->source.string;
    const size_t begin = (size_t)iterator->at;
    if (begin >= string->size) return false;
    const size_t end = begin + cti_utf8_length((unsigned char)string->at[begin]);
    iterator->at = (int64_t)end;
    *item = cti_jinja_substring(run, string, begin, end);
    if (string->markup && !run->failed) /* Python's iterator of a Markup makes plain strings */
        *item = cti_jinja_string_markup(run, item->string, false);
    return !run->failed;
}

static bool next_nothing(cti_jinja_run *run, cti_jinja_iterator *iterator, cti_jinja_value *item) {
    (void)run, (void)iterator, (void)item;
    return false;
}

bool cti_jinja_is_iterable(cti_jinja_value value) {
    switch (value.kind) {
    case CTI_JINJA_UNDEFINED:
    case CTI_JINJA_STRING:
    case CTI_JINJA_DICT:
    case CTI_JINJA_LOOP:
    case CTI_JINJA_ITERATOR: return true;
    default: return cti_jinja_has_items(value);
    }
}

cti_jinja_iterator *cti_jinja_iterate(cti_jinja_run *run, cti_jinja_value value) {
    if (run->failed) return NULL;
    if (value.kind == CTI_JINJA_ITERATOR) return value.iterator;
    cti_jinja_iterator made = {.source = value, .name = "iterator"};
    if (cti_jinja_has_items(value)) made.next = next_item;
    else if (value.kind == CTI_JINJA_DICT) made.next = next_key;
    else if (value.kind == CTI_JINJA_STRING) made.next = next_character;
    else if (value.kind == CTI_JINJA_UNDEFINED) made.next = next_nothing;
    else if (value.kind == CTI_JINJA_LOOP) made.next = cti_jinja_loop_pair;
    else {
        cti_jinja_fail(run, "'%s' object is not iterable", cti_jinja_type_name(value));
        return NULL;
    }
    cti_jinja_iterator *iterator = cti_jinja_take(run, 1, sizeof *iterator);
    if (iterator) *iterator = made;
    return iterator;
}

bool cti_jinja_next(cti_jinja_run *run, cti_jinja_iterator *iterator, cti_jinja_value *item) {
    return iterator && cti_jinja_step(run) && iterator->next(run, iterator, item) && !run->failed;
}

cti_jinja_list *cti_jinja_collect(cti_jinja_run *run, cti_jinja_value value) {
    cti_jinja_iterator *iterator = cti_jinja_iterate(run, value);
    cti_jinja_list *list =
        cti_jinja_list_new(run, cti_jinja_has_items(value) ? value.list->count : 0);
    for (cti_jinja_value item; cti_jinja_next(run, iterator, &item);)
        cti_jinja_append(run, list, item);
    return run->failed ? NULL : list;
}

int64_t cti_jinja_length(cti_jinja_run *run, cti_jinja_value value) {
    switch (value.kind) {
    case CTI_JINJA_UNDEFINED: return run->failed ? -1 : 0;
    case CTI_JINJA_STRING: return value.string->length;
    case CTI_JINJA_DICT: return value.dict->count;
    case CTI_JINJA_LOOP: return cti_jinja_loop_length(run, value.loop);
    default: break;
    }
    if (cti_jinja_has_items(value)) return value.list->count;
    cti_jinja_fail(run, "object of type '%s' has no len()", cti_jinja_type_name(value));
    return -1;
}
