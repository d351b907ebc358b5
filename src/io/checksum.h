/* The checksum of a checkpoint. Its metadata begins with "checksum" and 16 lower-case hex digits:
 * the CRC-64 of all bytes of the file, with '0' in the place of each of these digits. Their place
 * is fixed, so a load compares before it has parsed anything. */
#ifndef CTI_IO_CHECKSUM_H
#define CTI_IO_CHECKSUM_H

#include "file.h"

/* The pair that metadata begins with when it is written. */
#define CTI_CHECKSUM_KEY   "checksum"
#define CTI_CHECKSUM_ZEROS "0000000000000000"

/* From now on all that is written counts; ends with the file. False: out of memory. */
bool cti_checksum_begin(cti_file_new *file);
/* Replaces the zeros by the checksum. */
bool cti_checksum_end(const cti_file_new *file);

/* Whether a file begins as one with a checksum. False with *ok false: an error was recorded. */
bool cti_checksum_is_there(const cti_file *file, bool *ok);
/* Reads all of such a file. CT_ERR_FORMAT where its bytes are not those that were written. */
bool cti_checksum_compare(const cti_file *file);

#endif
