/* The checksum of a checkpoint. The file's metadata begins with the key "checksum" and 16
 * lower-case hex digits: the CRC-64 of all bytes of the file, computed with '0' in the place of
 * each of these digits. The digits lie at a fixed offset, so a load can compare them before it
 * parses anything. */
#ifndef CTI_IO_CHECKSUM_H
#define CTI_IO_CHECKSUM_H

#include "file.h"

/* The first pair of the metadata before the checksum is known. */
#define CTI_CHECKSUM_KEY   "checksum"
#define CTI_CHECKSUM_ZEROS "0000000000000000"

/* Begins the checksum: all bytes that cti_file_new_write writes from now on are summed. The memory
 * for it is freed when the file is committed or dropped. Returns false with an error if memory is
 * short. */
bool cti_checksum_begin(cti_file_new *file);
/* Overwrites the zeros in the file with the checksum. */
bool cti_checksum_end(const cti_file_new *file);

/* Whether the file begins as a file with a checksum does. If the read fails, an error is recorded,
 * *ok is set to false and the result is false. */
bool cti_checksum_is_there(const cti_file *file, bool *ok);
/* Reads all of a file that has a checksum. If its bytes give another checksum, that is
 * CT_ERR_FORMAT. */
bool cti_checksum_compare(const cti_file *file);

#endif
