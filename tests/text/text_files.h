/* A small tokenizer of bytes for tests of batches and files of ids: "a" 0, "b" 1, a space 2, [CLS]
 * 3, [SEP] 4, [PAD] 5, "ab" 6, and [CLS] and [SEP] around texts. */
#ifndef TEXT_FILES_H
#define TEXT_FILES_H

#include "tests/support/files.h"

#include <cotangent/tokenizer.h>

/* The file with ' in place of ", in two parts: more entries of the vocabulary stand between them.
 */
static const char small_begin[] =
    "{'version':'1.0','truncation':null,'padding':null,'added_tokens':["
    "{'id':3,'content':'[CLS]','single_word':false,'lstrip':false,'rstrip':false,"
    "'normalized':false,'special':true},"
    "{'id':4,'content':'[SEP]','single_word':false,'lstrip':false,'rstrip':false,"
    "'normalized':false,'special':true},"
    "{'id':5,'content':'[PAD]','single_word':false,'lstrip':false,'rstrip':false,"
    "'normalized':false,'special':true}],"
    "'normalizer':null,'pre_tokenizer':{'type':'ByteLevel','add_prefix_space':false,"
    "'trim_offsets':true,'use_regex':true},"
    "'post_processor':{'type':'TemplateProcessing','single':["
    "{'SpecialToken':{'id':'[CLS]','type_id':0}},{'Sequence':{'id':'A','type_id':0}},"
    "{'SpecialToken':{'id':'[SEP]','type_id':0}}],'pair':["
    "{'SpecialToken':{'id':'[CLS]','type_id':0}},{'Sequence':{'id':'A','type_id':0}},"
    "{'SpecialToken':{'id':'[SEP]','type_id':0}},{'Sequence':{'id':'B','type_id':1}},"
    "{'SpecialToken':{'id':'[SEP]','type_id':1}}],'special_tokens':{"
    "'[CLS]':{'id':'[CLS]','ids':[3],'tokens':['[CLS]']},"
    "'[SEP]':{'id':'[SEP]','ids':[4],'tokens':['[SEP]']}}},"
    "'decoder':{'type':'ByteLevel','add_prefix_space':false,'trim_offsets':true,"
    "'use_regex':true},'model':{'type':'BPE','dropout':null,'unk_token':null,"
    "'continuing_subword_prefix':null,'end_of_word_suffix':null,'fuse_unk':false,"
    "'byte_fallback':false,'ignore_merges':false,'vocab':{'a':0,'b':1,'\\u0120':2,"
    "'[CLS]':3,'[SEP]':4,'[PAD]':5,'ab':6";
static const char small_end[] = "},'merges':[['a','b']]}}";

static ct_tokenizer *open_small(ct_context *c, const char *more) {
    char text[sizeof small_begin + sizeof small_end + 100];
    const int size = snprintf(text, sizeof text, "%s%s%s", small_begin, more, small_end);
    for (int i = 0; i < size; i++)
        if (text[i] == '\'') text[i] = '"';
    const char *path = in_folder("small.json");
    write_all(path, text, (size_t)size);
    ct_tokenizer *tokenizer = ct_tokenizer_open(c, path);
    ck_assert_msg(tokenizer != NULL, "%s", ct_error_message(c));
    return tokenizer;
}

/* Options with a text for the message of an error. */
static char chat_error[1000];
static inline ct_chat_opts told(ct_chat_opts opts) {
    *chat_error = 0;
    opts.error = chat_error, opts.error_room = sizeof chat_error;
    return opts;
}

/* Checks a call with such options that must be refused: its message has both words, and the context
 * has no error. */
#define ck_chat_refused(call, word1, word2)                                                        \
    do {                                                                                           \
        ck_assert_msg((call) == -1, "%s: accepted; it should say \"%s\" and \"%s\"", #call, word1, \
                      word2);                                                                      \
        ck_assert_msg(strstr(chat_error, word1) && strstr(chat_error, word2),                      \
                      "%s: \"%s\" does not name both \"%s\" and \"%s\"", #call, chat_error, word1, \
                      word2);                                                                      \
        ck_assert_msg(ct_error(context) == CT_OK, "%s", ct_error_message(context));                \
    } while (0)

#endif
