/* The files beside a folder's tokenizer.json, which name roles, add tokens and hold the chat
 * template. */
#ifndef CTI_TEXT_FOLDER_TOKENS_H
#define CTI_TEXT_FOLDER_TOKENS_H

#include "tokenizer.h"

/* Reads the files of the folder into a tokenizer whose tokenizer.json has been read. */
bool cti_folder_read(ct_tokenizer *tokenizer, const char *folder);

/* Whether a JSON file is of a known other kind, such as the pointer of a file that git-lfs has not
 * fetched, which is an error. */
bool cti_folder_is_no_json(ct_context *context, const char *path, cti_text text);

#endif
