/* The forms of an object in a file of JSON lines: preferences, messages, a prompt with its
 * completion, instructions, a question with choices, a text.
 *
 * Each message is written anew as JSON, as a chat template sees it. All of these texts lie in one
 * block, which is measured by a first pass over the object and filled by a second one. */
#include "json_line.h"

#include <cotangent/autograd.h>

#include <stdlib.h>
#include <string.h>

#include "../../src/io/json_tree.h"

enum { LINE_MEMBERS = 64 }; /* the most members of an object, so that no key is there twice */

static const char line_op[] = "json_lines_next";

/* An object that is being read. */
typedef struct {
    ct_context *context;
    const char *place;
    cti_json_tree tree;
    cti_line_memory *memory;
    ct_json_line *line;
    int64_t added;  /* the messages of the line so far, of the prompt, chosen and rejected */
    bool prefers;   /* the line has preferences, which divide these messages themselves */
    cti_writer out; /* without a buffer in the first pass */
} line_reading;

void cti_line_memory_free(cti_line_memory *memory) {
    free(memory->messages);
    free(memory->text);
    *memory = (cti_line_memory){0};
}

static bool line_fail(const line_reading *reading, cti_json_at value, const char *fault) {
    return ct_fail(reading->context, CT_ERR_FORMAT, "%s: %s: byte %lu: %s", line_op, reading->place,
                   (unsigned long)reading->tree.value[value].begin, fault);
}

static bool line_no_memory(const line_reading *reading) {
    return ct_fail(reading->context, CT_ERR_MEMORY, "%s: out of memory", line_op);
}

/* ---- values ---- */

static const cti_json_value *line_value(const line_reading *reading, cti_json_at at) {
    return &reading->tree.value[at];
}

static bool is_kind(const line_reading *reading, cti_json_at at, cti_json_kind kind) {
    return line_value(reading, at)->kind == kind;
}

/* The member of the line's object, or 0 if there is none or it is null. */
static cti_json_at line_member(const line_reading *reading, cti_json_at object, const char *name) {
    const cti_json_at at = cti_json_member(&reading->tree, object, name);
    return at && !is_kind(reading, at, CTI_JSON_NULL) ? at : 0;
}

/* A text in the object; it lies there until the next line. */
static bool json_string_read(const line_reading *reading, cti_json_at at, const char *fault,
                             const char **out) {
    if (!at || !is_kind(reading, at, CTI_JSON_STRING)) return line_fail(reading, at, fault);
    const cti_text text = cti_json_text(&reading->tree, at);
    if (strlen(text.at) != text.size)
        return line_fail(reading, at, "a message cannot have the character U+0000");
    *out = text.at;
    return true;
}

static void line_put_value(line_reading *reading, cti_json_at at) {
    static const char *const words[] = {"null", "false", "true"};
    const cti_json_tree *tree = &reading->tree;
    const cti_json_value *value = line_value(reading, at);
    if (value->kind <= CTI_JSON_TRUE) {
        cti_string_write(&reading->out, words[value->kind]);
    } else if (value->kind == CTI_JSON_NUMBER) {
        const cti_text spelled = cti_json_text(tree, at);
        cti_bytes_write(&reading->out, spelled.at, spelled.size);
    } else if (value->kind == CTI_JSON_STRING) {
        cti_quoted_write(&reading->out, cti_json_text(tree, at));
    } else {
        const bool object = value->kind == CTI_JSON_OBJECT;
        cti_string_write(&reading->out, object ? "{" : "[");
        for (cti_json_at i = cti_json_first(tree, at); i; i = tree->value[i].next) {
            if (i != at + 1) cti_string_write(&reading->out, ", ");
            if (object) {
                cti_quoted_write(&reading->out, cti_json_key_of(tree, i));
                cti_string_write(&reading->out, ": ");
            }
            line_put_value(reading, i); /* the tree is at most 64 deep */
        }
        cti_string_write(&reading->out, object ? "}" : "]");
    }
}

/* The beginning of a text that is written next; NULL in the first pass. */
static const char *text_begin(const line_reading *reading) {
    return reading->out.at ? reading->out.at + reading->out.used : NULL;
}

static void text_end(line_reading *reading) { cti_bytes_write(&reading->out, "", 1); }

/* ---- messages ---- */

/* The names of a message's members: OpenAI's, and ShareGPT's. */
typedef struct {
    const char *role, *content, *no_role;
} message_names;

static const message_names openai = {"role", "content",
                                     "a message needs a \"role\", which is a text"},
                           sharegpt = {"from", "value",
                                       "a message needs a \"from\", which is a text"};

/* ShareGPT's names of roles in the words of chat templates. */
static const char *usual_role(const char *role) {
    if (!strcmp(role, "human")) return "user";
    if (!strcmp(role, "gpt")) return "assistant";
    return role;
}

static bool key_is(cti_text key, const char *name) {
    return key.size == strlen(name) && !memcmp(key.at, name, key.size);
}

/* Whether the message's own weight and train are values that they can have. */
static bool learned_check(const line_reading *reading, cti_json_at message) {
    const cti_json_at weight = line_member(reading, message, "weight"),
                      train = line_member(reading, message, "train");
    double number;
    if (weight && (!cti_json_real(&reading->tree, weight, &number) || (number != 0 && number != 1)))
        return line_fail(reading, weight, "the \"weight\" of a message is 0 or 1");
    if (train && !is_kind(reading, train, CTI_JSON_FALSE) &&
        !is_kind(reading, train, CTI_JSON_TRUE))
        return line_fail(reading, train, "the \"train\" of a message is true or false");
    return true;
}

/* A content may be a list of parts, which a template reads. A picture or a sound has no tokens
 * here, so it must not be lost in silence. */
static bool parts_check(const line_reading *reading, cti_json_at content) {
    static const char *const refused[] = {"image", "video", "audio"};
    const cti_json_tree *tree = &reading->tree;
    if (!content || !is_kind(reading, content, CTI_JSON_ARRAY)) return true;
    for (cti_json_at i = cti_json_first(tree, content); i; i = tree->value[i].next) {
        const cti_json_at type =
            is_kind(reading, i, CTI_JSON_OBJECT) ? line_member(reading, i, "type") : 0;
        if (!type || !is_kind(reading, type, CTI_JSON_STRING)) continue;
        for (int k = 0; k < 3; k++)
            if (strstr(cti_json_text(tree, type).at, refused[k]))
                return line_fail(reading, type,
                                 "a part of a content is an image, a video or audio, which are not "
                                 "read");
    }
    return true;
}

/* Adds a message to the line; in the first pass it is only counted. */
static void message_keep(line_reading *reading, ct_message message) {
    if (reading->out.at) reading->memory->messages[reading->added] = message;
    reading->added++;
}

/* Writes a message as a template sees it. Unless it is `learned`, "train": false is written in
 * place of what the message itself says about "train". */
static void message_put(line_reading *reading, cti_json_at at, const message_names *names,
                        const char *role, bool learned) {
    const cti_json_tree *tree = &reading->tree;
    cti_writer *out = &reading->out;
    const char *between = "{";
    for (cti_json_at i = cti_json_first(tree, at); i; i = tree->value[i].next) {
        const cti_text key = cti_json_key_of(tree, i);
        const bool is_role = key_is(key, names->role), is_content = key_is(key, names->content);
        if (!learned && key_is(key, "train")) continue;
        cti_string_write(out, between);
        cti_quoted_write(out, is_role      ? cti_text_of("role")
                              : is_content ? cti_text_of("content")
                                           : key);
        cti_string_write(out, ": ");
        if (is_role) cti_quoted_write(out, cti_text_of(role));
        else line_put_value(reading, i);
        between = ", ";
    }
    cti_string_write(out, learned ? "}" : ", \"train\": false}"); /* there is a role at least */
}

static bool message_add(line_reading *reading, cti_json_at at, const message_names *names,
                        bool assistants_learned) {
    ct_message message = {0};
    if (!is_kind(reading, at, CTI_JSON_OBJECT))
        return line_fail(reading, at, "a message is not an object");
    if (line_value(reading, at)->count > LINE_MEMBERS)
        return line_fail(reading, at, "the object has more than 64 members");
    const cti_json_at role = cti_json_member(&reading->tree, at, names->role),
                      content = line_member(reading, at, names->content);
    if (!json_string_read(reading, role ? role : at, names->no_role, &message.role) ||
        !learned_check(reading, at) || !parts_check(reading, content))
        return false;
    if (names == &sharegpt && (cti_json_member(&reading->tree, at, "role") ||
                               cti_json_member(&reading->tree, at, "content")))
        return line_fail(reading, at, "a message has both \"from\" and \"role\" or \"content\"");
    if (content && is_kind(reading, content, CTI_JSON_STRING) &&
        !json_string_read(reading, content, "", &message.content))
        return false;
    if (names == &sharegpt) message.role = usual_role(message.role);
    const bool learned = assistants_learned || strcmp(message.role, "assistant") != 0;
    message.json = text_begin(reading);
    message_put(reading, at, names, message.role, learned);
    text_end(reading);
    message_keep(reading, message);
    return true;
}

static bool messages_add(line_reading *reading, cti_json_at list, const message_names *names,
                         bool assistants_learned, const char *no_list) {
    const cti_json_tree *tree = &reading->tree;
    if (!is_kind(reading, list, CTI_JSON_ARRAY) || !tree->value[list].count)
        return line_fail(reading, list, no_list);
    for (cti_json_at i = cti_json_first(tree, list); i; i = tree->value[i].next)
        if (!message_add(reading, i, names, assistants_learned)) return false;
    return true;
}

/* Adds a message of a role and up to two texts, with a line end between them. */
static void message_add_made(line_reading *reading, const char *role, const char *text,
                             const char *more) {
    cti_writer *out = &reading->out;
    ct_message message = {.role = role, .json = text_begin(reading)};
    cti_string_write(out, "{\"role\": ");
    cti_quoted_write(out, cti_text_of(role));
    cti_string_write(out, ", \"content\": \"");
    cti_escaped_write(out, cti_text_of(text));
    if (*more) cti_string_write(out, "\\n");
    cti_escaped_write(out, cti_text_of(more));
    cti_string_write(out, "\"}");
    text_end(reading);
    message.content = text_begin(reading);
    cti_string_write(out, text);
    if (*more) cti_string_write(out, "\n");
    cti_string_write(out, more);
    text_end(reading);
    message_keep(reading, message);
}

/* ---- the forms ---- */

static const char preferred_fault[] =
    "\"chosen\" and \"rejected\" are two texts, or two lists of messages, and so is a \"prompt\"";

/* A prompt and its completion: two texts, or two lists of messages, of which only the completion's
 * are learned. */
static bool completion_read(line_reading *reading, cti_json_at prompt, cti_json_at completion) {
    static const char fault[] = "\"prompt\" and \"completion\" are two texts, or two lists of "
                                "messages";
    ct_json_line *line = reading->line;
    if (is_kind(reading, prompt, CTI_JSON_STRING))
        return json_string_read(reading, prompt, fault, &line->prompt) &&
               json_string_read(reading, completion, fault, &line->completion);
    return messages_add(reading, prompt, &openai, false, fault) &&
           messages_add(reading, completion, &openai, true, fault);
}

/* Two texts, behind the text of the prompt or without it: then the prompt is their common
 * beginning, up to a space before the first difference, as trl has it. */
static bool preferred_texts_read(line_reading *reading, cti_json_at prompt, cti_json_at chosen,
                                 cti_json_at rejected) {
    ct_message good = {0}, bad = {0};
    const char *given = NULL;
    if (!json_string_read(reading, chosen, preferred_fault, &good.content) ||
        !json_string_read(reading, rejected, preferred_fault, &bad.content) ||
        (prompt && !json_string_read(reading, prompt, preferred_fault, &given)))
        return false;
    size_t common = 0;
    if (!prompt) {
        while (good.content[common] && good.content[common] == bad.content[common]) common++;
        if (common && good.content[common - 1] == ' ') common--;
        while (common && ((unsigned char)good.content[common] & 0xc0) == 0x80) common--;
        given = good.content;
    }
    reading->line->prompt = text_begin(reading);
    cti_bytes_write(&reading->out, given, prompt ? strlen(given) : common);
    text_end(reading);
    good.content += common, bad.content += common;
    message_keep(reading, good);
    message_keep(reading, bad);
    reading->line->n_chosen = reading->line->n_rejected = 1;
    return true;
}

/* Two lists of messages, behind those of the prompt or with a common beginning, which becomes the
 * prompt. A prompt that is a text is the beginning once more. */
static bool preferred_messages_read(line_reading *reading, cti_json_at prompt, cti_json_at chosen,
                                    cti_json_at rejected) {
    ct_json_line *line = reading->line;
    const bool given = prompt && !is_kind(reading, prompt, CTI_JSON_STRING);
    if (given && !messages_add(reading, prompt, &openai, false, preferred_fault)) return false;
    const int64_t first = reading->added;
    if (!messages_add(reading, chosen, &openai, true, preferred_fault)) return false;
    line->n_chosen = reading->added - first;
    if (!messages_add(reading, rejected, &openai, true, preferred_fault)) return false;
    line->n_rejected = reading->added - first - line->n_chosen;
    line->n_messages = first;
    if (given || !reading->out.at) return true;
    const ct_message *good = reading->memory->messages, *bad = good + line->n_chosen;
    int64_t common = 0;
    while (common < line->n_chosen && common < line->n_rejected &&
           !strcmp(good[common].json, bad[common].json))
        common++;
    line->n_messages = common;
    return true;
}

static bool preferences_read(line_reading *reading, cti_json_at chosen, cti_json_at rejected) {
    const cti_json_at prompt = line_member(reading, 0, "prompt");
    ct_json_line *line = reading->line;
    const bool texts = is_kind(reading, chosen, CTI_JSON_STRING);
    reading->prefers = true;
    if (texts ? !preferred_texts_read(reading, prompt, chosen, rejected)
              : !preferred_messages_read(reading, prompt, chosen, rejected))
        return false;
    if (!reading->out.at) return true;
    /* messages of a common beginning stand in both lists */
    const int64_t first = texts ? 0 : reading->added - line->n_chosen - line->n_rejected;
    const int64_t common = first ? 0 : line->n_messages;
    line->chosen = reading->memory->messages + first + common;
    line->rejected = reading->memory->messages + first + line->n_chosen + common;
    line->n_chosen -= common;
    line->n_rejected -= common;
    return true;
}

/* Alpaca's members, as messages of a user and an assistant. */
static bool instruction_read(line_reading *reading, cti_json_at instruction, cti_json_at output) {
    const cti_json_at input = line_member(reading, 0, "input"),
                      system = line_member(reading, 0, "system"),
                      history = line_member(reading, 0, "history");
    const char *asked, *more = "", *first = "", *answer;
    if (!json_string_read(reading, instruction, "\"instruction\" is not a text", &asked) ||
        !json_string_read(reading, output, "\"output\" is not a text", &answer) ||
        (input && !json_string_read(reading, input, "\"input\" is not a text", &more)) ||
        (system && !json_string_read(reading, system, "\"system\" is not a text", &first)))
        return false;
    if (history && line_value(reading, history)->count)
        return line_fail(reading, history,
                         "\"history\" is not read beside an instruction: "
                         "\"messages\" can have all turns");
    if (*first) message_add_made(reading, "system", first, "");
    message_add_made(reading, "user", asked, more);
    message_add_made(reading, "assistant", answer, "");
    return true;
}

/* A question and its choices, which are messages that have only a content. The question is copied,
 * so there are two passes: the first measures the copy, the second writes it and keeps the choices.
 */
static bool choices_read(line_reading *reading, cti_json_at question, cti_json_at choices) {
    const cti_json_tree *tree = &reading->tree;
    const cti_json_at answer = line_member(reading, 0, "answer");
    ct_json_line *line = reading->line;
    const char *asked;
    double number = -1;
    if (!json_string_read(reading, question, "the question of \"choices\" is not a text", &asked))
        return false;
    if (!is_kind(reading, choices, CTI_JSON_ARRAY) || !tree->value[choices].count)
        return line_fail(reading, choices, "\"choices\" is not a list of texts");
    for (cti_json_at i = cti_json_first(tree, choices); i; i = tree->value[i].next) {
        ct_message choice = {0};
        if (!json_string_read(reading, i, "\"choices\" is not a list of texts", &choice.content))
            return false;
        message_keep(reading, choice);
    }
    if (!answer || !cti_json_real(tree, answer, &number) || !(number >= 0) ||
        number >= (double)reading->added || number != (double)(int64_t)number)
        return line_fail(reading, answer,
                         "the \"answer\" to choices is the number of one of them, from 0 on");
    line->prompt = text_begin(reading);
    cti_bytes_write(&reading->out, asked, strlen(asked));
    text_end(reading);
    line->n_choices = reading->added;
    line->answer = (int64_t)number;
    if (reading->out.at) line->choices = reading->memory->messages;
    return true;
}

static bool plain_text_read(const line_reading *reading, cti_json_at text) {
    ct_json_line *line = reading->line;
    const cti_json_at label = line_member(reading, 0, "label");
    if (!is_kind(reading, text, CTI_JSON_STRING))
        return line_fail(reading, text, "\"text\" is not a text");
    line->text = cti_json_text(&reading->tree, text).at;
    line->bytes = cti_json_text(&reading->tree, text).size;
    return !label || !is_kind(reading, label, CTI_JSON_STRING) ||
           json_string_read(reading, label, "", &line->label);
}

/* Reads the first form that the object has. */
static bool form_read(line_reading *reading) {
    const cti_json_at chosen = line_member(reading, 0, "chosen"),
                      rejected = line_member(reading, 0, "rejected"),
                      messages = line_member(reading, 0, "messages"),
                      conversations = line_member(reading, 0, "conversations"),
                      prompt = line_member(reading, 0, "prompt"),
                      completion = line_member(reading, 0, "completion"),
                      instruction = line_member(reading, 0, "instruction"),
                      output = line_member(reading, 0, "output"),
                      question = line_member(reading, 0, "question"),
                      choices = line_member(reading, 0, "choices"),
                      text = line_member(reading, 0, "text");
    if (chosen && rejected) return preferences_read(reading, chosen, rejected);
    if (messages)
        return messages_add(reading, messages, &openai, true,
                            "\"messages\" is not a list of messages");
    if (conversations)
        return messages_add(reading, conversations, &sharegpt, true,
                            "\"conversations\" is not a list of messages");
    if (prompt && completion) return completion_read(reading, prompt, completion);
    if (instruction && output) return instruction_read(reading, instruction, output);
    if (choices && (prompt || question))
        return choices_read(reading, prompt ? prompt : question, choices);
    if (text) return plain_text_read(reading, text);
    return line_fail(reading, 0,
                     "the object has no \"text\", \"messages\" or \"conversations\", no \"prompt\" "
                     "with a \"completion\", no \"instruction\" with an \"output\", and no "
                     "\"question\" with \"choices\"");
}

/* Reads the tools of a conversation and the label of a text. The tools are an array, or a string
 * that contains the JSON of one. A label that is not a string is returned as its JSON. */
static bool tools_and_label_read(line_reading *reading) {
    ct_json_line *line = reading->line;
    const cti_json_at tools = line_member(reading, 0, "tools"),
                      label = line_member(reading, 0, "label");
    if (tools && reading->added && !line->prompt) {
        if (!is_kind(reading, tools, CTI_JSON_ARRAY))
            return json_string_read(reading, tools, "\"tools\" is not a list, or its text",
                                    &line->tools);
        line->tools = text_begin(reading);
        line_put_value(reading, tools);
        text_end(reading);
    }
    if (!label || !line->text || is_kind(reading, label, CTI_JSON_STRING)) return true;
    line->label = text_begin(reading);
    line_put_value(reading, label);
    text_end(reading);
    return true;
}

/* ---- the passes ---- */

static bool messages_read_in_two_passes(line_reading *reading) {
    ct_json_line *line = reading->line;
    *line = (ct_json_line){0};
    reading->added = 0, reading->prefers = false;
    if (!form_read(reading) || !tools_and_label_read(reading)) return false;
    if (!reading->prefers && !line->n_choices) line->n_messages = reading->added;
    return true;
}

/* Makes room for what the first pass has counted. */
static bool line_room(const line_reading *reading) {
    cti_line_memory *memory = reading->memory;
    const size_t n = (size_t)reading->added, size = reading->out.used;
    if (n > memory->messages_room) {
        ct_message *messages = n <= SIZE_MAX / sizeof *messages
                                   ? realloc(memory->messages, n * sizeof *messages)
                                   : NULL;
        if (!messages) return line_no_memory(reading);
        memory->messages = messages;
        memory->messages_room = n;
    }
    if (size > memory->text_room) {
        char *text = realloc(memory->text, size);
        if (!text) return line_no_memory(reading);
        memory->text = text;
        memory->text_room = size;
    }
    return true;
}

static bool json_object_read(line_reading *reading) {
    if (!is_kind(reading, 0, CTI_JSON_OBJECT))
        return line_fail(reading, 0,
                         "this is not an object; the file needs one object in each line, or one "
                         "array of objects");
    if (line_value(reading, 0)->count > LINE_MEMBERS)
        return line_fail(reading, 0, "the object has more than 64 members");
    if (!messages_read_in_two_passes(reading) || !line_room(reading)) return false;
    if (reading->out.used) { /* something is written */
        reading->out = (cti_writer){.at = reading->memory->text, .size = reading->out.used};
        if (!messages_read_in_two_passes(reading)) return false;
    }
    if (reading->line->n_messages) reading->line->messages = reading->memory->messages;
    return true;
}

bool cti_json_line_read(ct_context *context, const char *place, char *text, size_t size,
                        cti_line_memory *memory, ct_json_line *line) {
    line_reading reading = {.context = context, .place = place, .memory = memory, .line = line};
    if (!cti_json_tree_read(context, line_op, place, text, size, &reading.tree)) return false;
    const bool done = json_object_read(&reading);
    cti_json_tree_free(&reading.tree);
    return done;
}
