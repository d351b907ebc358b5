/* What the files of filters share. The table cti_jinja_filters (filters.c) has the filters and
 * their parameters; each is a function cti_jinja_filter_NAME. */
#ifndef CTI_TEXT_JINJA_FILTERS_H
#define CTI_TEXT_JINJA_FILTERS_H

#include "value.h"

#define CTI_JINJA_FILTER(name)                                                                     \
    cti_jinja_value cti_jinja_filter_##name(cti_jinja_run *run, const cti_jinja_call *call)

/* filter_text.c */
CTI_JINJA_FILTER(capitalize);
CTI_JINJA_FILTER(center);
CTI_JINJA_FILTER(format);
CTI_JINJA_FILTER(indent);
CTI_JINJA_FILTER(lower);
CTI_JINJA_FILTER(replace);
CTI_JINJA_FILTER(string);
CTI_JINJA_FILTER(title);
CTI_JINJA_FILTER(trim);
CTI_JINJA_FILTER(truncate);
CTI_JINJA_FILTER(upper);
CTI_JINJA_FILTER(wordcount);
/* filter_html.c */
CTI_JINJA_FILTER(escape);
CTI_JINJA_FILTER(forceescape);
CTI_JINJA_FILTER(safe);
CTI_JINJA_FILTER(striptags);
CTI_JINJA_FILTER(urlencode);
CTI_JINJA_FILTER(xmlattr);
/* filter_number.c */
CTI_JINJA_FILTER(abs);
CTI_JINJA_FILTER(filesizeformat);
CTI_JINJA_FILTER(float);
CTI_JINJA_FILTER(int);
CTI_JINJA_FILTER(round);
CTI_JINJA_FILTER(sum);
/* filter_list.c */
CTI_JINJA_FILTER(attr);
CTI_JINJA_FILTER(batch);
CTI_JINJA_FILTER(default);
CTI_JINJA_FILTER(first);
CTI_JINJA_FILTER(items);
CTI_JINJA_FILTER(join);
CTI_JINJA_FILTER(last);
CTI_JINJA_FILTER(length);
CTI_JINJA_FILTER(list);
CTI_JINJA_FILTER(reverse);
CTI_JINJA_FILTER(slice);
/* filter_select.c */
CTI_JINJA_FILTER(map);
CTI_JINJA_FILTER(select);
/* filter_sort.c */
CTI_JINJA_FILTER(dictsort);
CTI_JINJA_FILTER(groupby);
CTI_JINJA_FILTER(min);
CTI_JINJA_FILTER(sort);
CTI_JINJA_FILTER(unique);
/* pprint.c, tojson.c, wrap.c */
CTI_JINJA_FILTER(pprint);
CTI_JINJA_FILTER(tojson);
CTI_JINJA_FILTER(wordwrap);

/* ---- attributes by a path, "address.city" or an index ---- */

typedef struct {
    const cti_jinja_value *part; /* [parts] names and indices */
    int64_t parts;
    cti_jinja_value other; /* in place of an undefined value; ABSENT */
    bool lower;            /* a string found is made lower case */
} cti_jinja_path;
/* A path from an argument: None or ABSENT is the item itself. */
cti_jinja_path cti_jinja_path_read(cti_jinja_run *run, cti_jinja_value attribute,
                                   cti_jinja_value other, bool lower);
cti_jinja_value cti_jinja_path_get(cti_jinja_run *run, const cti_jinja_path *path,
                                   cti_jinja_value item);

/* The order of keys as Python's sort has it, by <: indices of `keys`; NULL after an error. With
 * `lists` each key is a list, of which the first items that differ count. */
const int64_t *cti_jinja_order(cti_jinja_run *run, const cti_jinja_list *keys, bool reverse,
                               bool lists);
/* A value that passes over the items that `next` gets. */
cti_jinja_value cti_jinja_generator(cti_jinja_run *run, cti_jinja_value source, const void *more,
                                    bool (*next)(cti_jinja_run *, cti_jinja_iterator *,
                                                 cti_jinja_value *));

#endif
