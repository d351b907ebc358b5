/* The normal forms NFC, NFD, NFKC and NFKD of Unicode. */
#ifndef CTI_TEXT_NORMAL_FORMS_H
#define CTI_TEXT_NORMAL_FORMS_H

#include "aligned.h"

typedef enum { CTI_NFD = 0, CTI_NFC = 1, CTI_NFKD = 2, CTI_NFKC = 3 } cti_form;

/* Brings a text into a form. Returns false if memory is short. The time is in proportion to the
 * size. */
bool cti_normal_form(cti_form form, cti_aligned *text, cti_aligned *spare);

#endif
