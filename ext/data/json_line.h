/* An object of a file of JSON lines as a ct_json_line. */
#ifndef CTI_EXT_DATA_JSON_LINE_H
#define CTI_EXT_DATA_JSON_LINE_H

#include <cotangent/tokenizer.h>

/* What a line's fields point to, besides the text of the object. It is used for every line. */
typedef struct {
    ct_message *messages;
    size_t messages_room;
    char *text; /* messages as JSON, and contents that are joined */
    size_t text_room;
} cti_line_memory;

/* Reads the object in text[size], which is overwritten, and behind which stands a NUL. `place` is
 * "file:line". Sets all fields but .number. Returns false after an error. */
bool cti_json_line_read(ct_context *context, const char *place, char *text, size_t size,
                        cti_line_memory *memory, ct_json_line *line);
void cti_line_memory_free(cti_line_memory *memory);

#endif
