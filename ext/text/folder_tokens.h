/* The files beside a folder's tokenizer.json, which name roles, add tokens and hold the chat
 * template. */
#ifndef CTI_TEXT_FOLDER_TOKENS_H
#define CTI_TEXT_FOLDER_TOKENS_H

#include "tokenizer.h"

/* Reads the files of the folder into a tokenizer whose tokenizer.json has been read. */
bool cti_folder_read(ct_tokenizer *tokenizer, const char *folder);

/* Reads a file of the folder, which may be absent. *text is in the arena; its .at is NULL if there
 * is no file. Returns false after an error. */
bool cti_folder_text(cti_arena *arena, const char *folder, const char *name, char **path,
                     cti_text *text);

/* Whether a JSON file is of a known other kind, such as the pointer of a file that git-lfs has not
 * fetched, which is an error. */
bool cti_folder_is_no_json(ct_context *context, const char *path, cti_text text);

#endif
