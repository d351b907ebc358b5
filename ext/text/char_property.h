/* Properties of characters by name. */
#ifndef CTI_TEXT_CHAR_PROPERTY_H
#define CTI_TEXT_CHAR_PROPERTY_H

#include "char_set.h"

enum { CTI_PROPERTIES = 128 };

/* The number of a property in [1, CTI_PROPERTIES): a general category such as "Lu" or "uppercase
 * letter", "any", "ascii", "space", "word", ..., or a script; 0 if it is not known here. */
int cti_property_number(const char *name, size_t size);
/* The property that the name means inside of a bracket; `posix`: it is written [:name:]. */
int cti_property_in_bracket(int number, bool posix);
/* Adds the characters of a property to a set. */
void cti_property_add(cti_set_builder *set, int number);

#endif
