/* A chat template of any bytes, messages and variables of any bytes. The chat is refused with a
 * sentence, or its text, ids and targets have the properties that the header promises. An input is
 * a byte of flags, the template, a byte 0xff, the messages as JSON, a byte 0xff, and the variables.
 */
#include "fuzz.h"

#include <cotangent/tokenizer.h>

#include "ext/text/utf8.h"

/* A tokenizer of characters with two special tokens, which end a turn and a text. */
static const char json[] =
    "{\"added_tokens\":[{\"id\":1,\"content\":\"<|end|>\",\"special\":true,\"single_word\":false,"
    "\"lstrip\":false,\"rstrip\":false,\"normalized\":false},{\"id\":2,\"content\":\"</s>\","
    "\"special\":true,\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":"
    "false}],\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\".\"},\"behavior\":"
    "\"Isolated\",\"invert\":false},\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"?\","
    "\"vocab\":{\"?\":0}}}";
enum { END = 1, EOS = 2, ROOM = 1 << 12 };

static ct_context *context;
static ct_tokenizer *tokenizer;

/* A part of the input, with a NUL behind it. */
static char *next_part(const uint8_t **data, size_t *size) {
    const uint8_t *end = memchr(*data, 0xff, *size);
    const size_t bytes = end ? (size_t)(end - *data) : *size;
    char *part = malloc(bytes + 1);
    MUST(part);
    memcpy(part, *data, bytes);
    part[bytes] = 0;
    *data += bytes + !!end;
    *size -= bytes + !!end;
    return part;
}

static void check_text(ct_chat_opts opts, const char *error) {
    const int64_t size = ct_chat_text(tokenizer, NULL, 0, opts, NULL, 0);
    MUST(size >= 0 || (size == -1 && !strncmp(error, "chat_text: ", 11)));
    if (size < 0 || size > 1 << 20) return;
    char *text = malloc((size_t)size + 1);
    MUST(text && ct_chat_text(tokenizer, NULL, 0, opts, text, (size_t)size + 1) == size);
    MUST(!text[size] && cti_utf8_check(text, (size_t)size) == (size_t)size);
    free(text);
}

static void check_ids(ct_chat_opts opts, const char *error) {
    static int64_t ids[ROOM], targets[ROOM];
    const int64_t n = ct_chat_encode(tokenizer, NULL, 0, opts, ids, targets, ROOM);
    MUST(n >= 0 || (n == -1 && !strncmp(error, "chat_encode: ", 13)));
    for (int64_t t = 0; t < n && t < ROOM; t++) {
        MUST(ids[t] >= 0 && ids[t] < ct_tokenizer_size(tokenizer));
        MUST(targets[t] == -100 || (t + 1 < n && t + 1 < ROOM && targets[t] == ids[t + 1]));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size) return 0;
    if (!context) {
        context = ct_context_new((ct_context_opts){.threads = 1});
        tokenizer = ct_tokenizer_parse(context, json, sizeof json - 1);
        MUST(tokenizer && ct_token_add(tokenizer, "</s>", "eos_token") == EOS);
    }
    const int64_t live = ct_memory(context).live;
    const uint8_t flags = *data++;
    size--;
    char *template = next_part(&data, &size), *messages = next_part(&data, &size),
         *variables = next_part(&data, &size), error[300] = "";
    const ct_chat_opts opts = {.add_generation_prompt = flags & 1,
                               .parse_special = flags >> 1 & 1,
                               .chat_template = template,
                               .messages = messages,
                               .tools = flags & 4 ? "[{\"name\":\"f</s>\"}]" : NULL,
                               .variables = *variables ? variables : NULL,
                               .now = 1000000000,
                               .error = error,
                               .error_room = sizeof error};
    check_text(opts, error);
    check_ids(opts, error);
    const int64_t end = ct_chat_end(tokenizer, opts);
    MUST(end == -1 || end == END || end == EOS);
    ct_chat_reads(tokenizer, opts, "content");
    MUST(ct_error(context) == CT_OK && ct_memory(context).live == live);
    free(template);
    free(messages);
    free(variables);
    return 0;
}
