/* Normalizers: functions that change a text before it is divided. NFC, NFD, NFKC, NFKD,
 * Lowercase, StripAccents, BertNormalizer, Replace, Prepend, Strip, Precompiled and Sequence. */
#ifndef CTI_TEXT_NORMALIZE_H
#define CTI_TEXT_NORMALIZE_H

#include "aligned.h"
#include "reading.h"

typedef struct cti_normalizer cti_normalizer;

/* Reads the value of "normalizer"; *normalizer is NULL for null. */
bool cti_normalizer_read(const cti_reading *reading, cti_json_at value,
                         const cti_normalizer **normalizer);

/* Normalizes a section. Returns false if memory is short. Reads only the normalizer, so several
 * threads may call it. */
bool cti_normalizer_run(const cti_normalizer *normalizer, cti_aligned *text, cti_aligned *spare);

#endif
