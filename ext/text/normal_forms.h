/* The normal forms NFC and NFD of Unicode. */
#ifndef CTI_TEXT_NORMAL_FORMS_H
#define CTI_TEXT_NORMAL_FORMS_H

#include "aligned.h"

/* Brings a text into NFC, or into NFD if not `composed`. Returns false if memory is short. The time
 * is in proportion to the size. */
bool cti_normal_form(bool composed, cti_aligned *text, cti_aligned *spare);

#endif
