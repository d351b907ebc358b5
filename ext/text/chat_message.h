/* Messages that are JSON objects, as the built-in templates read them. */
#ifndef CTI_TEXT_CHAT_MESSAGE_H
#define CTI_TEXT_CHAT_MESSAGE_H

#include <cotangent/tokenizer.h>

enum { CTI_CHAT_FAULT = 400 };

typedef struct {
    ct_message *message; /* [n] with role and content */
    bool *learned;       /* [n] false: weight is 0 or train is false */
    char *text;          /* the messages' texts */
} cti_chat_messages;

/* Reads the messages. Those without JSON stay as they are. Nothing is recorded in a context:
 * returns false and writes a fault, such as "message 2: ...", or "out of memory". */
bool cti_chat_messages_read(const ct_message *message, int64_t n, cti_chat_messages *out,
                            char fault[CTI_CHAT_FAULT]);
void cti_chat_messages_free(cti_chat_messages *messages);

#endif
