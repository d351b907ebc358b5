/* The variables of renders: messages, tools, documents and others, read from JSON. */
#ifndef CTI_TEXT_JINJA_VARIABLES_H
#define CTI_TEXT_JINJA_VARIABLES_H

#include <string.h>

#include "jinja.h"

struct cti_jinja_chat {
    cti_jinja_run run; /* which owns the values; it runs no template */
    cti_jinja_list *messages;
    cti_jinja_value tools, documents;
    cti_jinja_dict *tokens, *variables;
};

#endif
