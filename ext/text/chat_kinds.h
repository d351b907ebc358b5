/* The forms of chats, and the templates of folders that are known. */
#ifndef CTI_TEXT_CHAT_KINDS_H
#define CTI_TEXT_CHAT_KINDS_H

#include <cotangent/tokenizer.h>

#include "words.h"

/* The text of a message is .open, its role, .behind_role, its content, .end and .behind_end. */
typedef struct {
    const char *open, *behind_role; /* around the role */
    const char *end;        /* behind the content: the token that ends the turn; NULL: eos_token */
    const char *behind_end; /* behind that token */
    const char *prompt;     /* the text that .open adds */
    const char *assistant;  /* the role "assistant" as it is written */
    /* a system message always comes first, and its content begins with this text and the date */
    const char *preamble;
    bool bos, trims; /* bos_token comes first; contents lose the spaces at both ends */
    bool any_role;   /* a role that is none of system, user, assistant is written too */
    bool no_system;  /* there is no system message */
    bool joins;      /* a system message comes first and is the beginning of the user's content */
    bool alternates; /* user and assistant alternate, a user first */
    bool closes;     /* eos_token comes last unless .open */
    bool thinks;     /* an assistant's reasoning is written only behind the last question */
} cti_chat_kind;

/* A template that is known by its whole text. */
typedef struct {
    const cti_chat_kind *kind;
    const char *system; /* the system message that it puts before messages without one; or NULL */
    bool three_roles;   /* no role but system, user and assistant is written, in any kind */
    bool skips_empty;   /* a system message without content is left out */
} cti_chat_template;

/* NULL: there is none. */
const cti_chat_kind *cti_chat_kind_of(ct_chat kind);
const cti_chat_template *cti_chat_template_of(cti_text folder);

#endif
