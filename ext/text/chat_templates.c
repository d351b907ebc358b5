/* The chat templates of a tokenizer, and the built-in ones. */
#include "chat_templates.h"

#include <cotangent/autograd.h>

#include <stdio.h>
#include <string.h>

const char cti_chat_default[] = "default";

/* ---- built-in templates ---- */

/* Each writes what the models of its name were trained on: a message is the role between two
 * tokens, the content, and the token that ends the turn. ChatML and Zephyr take any role; Llama 3
 * begins with the bos_token; Gemma has no system message, and calls an assistant the model. A
 * content may be a list of parts, of which the texts are written. */
#define CHAT_CONTENT                                                                               \
    "(m.content if m.content is string else m.content | map(attribute='text') | join)"
static const struct {
    const char *name, *text;
} builtin[] = {
    {"chatml", "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ " CHAT_CONTENT " }}<|im_end|>\n"
               "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"},
    {"llama3",
     "{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n"
     "{{ " CHAT_CONTENT " | trim }}<|eot_id|>{% endfor %}{% if add_generation_prompt %}"
     "<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"},
    {"gemma", "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}"
              "{{ raise_exception('a chat of Gemma has no system message') }}{% endif %}"
              "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
              "{{ raise_exception('user and assistant must alternate, a user first') }}{% endif %}"
              "<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}\n"
              "{{ " CHAT_CONTENT " | trim }}<end_of_turn>\n{% endfor %}"
              "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"},
    {"zephyr", "{% for m in messages %}<|{{ m.role }}|>\n{{ " CHAT_CONTENT " }}{{ eos_token }}\n"
               "{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}"},
};
#undef CHAT_CONTENT
enum { BUILTIN = sizeof builtin / sizeof *builtin };

const char *cti_chat_builtin(const char *name) {
    for (int i = 0; i < BUILTIN; i++)
        if (!strcmp(name, builtin[i].name)) return builtin[i].text;
    return NULL;
}

static void chat_name_add(char *names, size_t room, const char *name) {
    const size_t used = strlen(names);
    if (used + 1 < room) snprintf(names + used, room - used, "%s%s", used ? ", " : "", name);
}

void cti_chat_names_write(const cti_chat_templates *templates, char *names, size_t room) {
    if (room) *names = 0;
    for (int64_t i = 0; i < templates->count; i++)
        chat_name_add(names, room, templates->at[i].name.at);
    for (int i = 0; i < BUILTIN; i++) chat_name_add(names, room, builtin[i].name);
}

/* ---- the list ---- */

static int64_t template_index(const cti_chat_templates *templates, cti_text name) {
    int64_t i = 0;
    while (i < templates->count && cti_text_compare(templates->at[i].name, name)) i++;
    return i;
}

const cti_chat_template *cti_chat_template_find(const cti_chat_templates *templates,
                                                cti_text name) {
    const int64_t i = template_index(templates, name);
    return i < templates->count ? &templates->at[i] : NULL;
}

/* Makes room for one more. What is replaced stays in the arena. */
static bool templates_grow(cti_arena *arena, cti_chat_templates *templates) {
    if (templates->count < templates->room) return true;
    const int64_t room = 2 * templates->room + 1;
    cti_chat_template *at = cti_arena_take(arena, (size_t)room, sizeof *at);
    if (!at) return false;
    if (templates->count) memcpy(at, templates->at, (size_t)templates->count * sizeof *at);
    templates->at = at;
    templates->room = room;
    return true;
}

bool cti_chat_template_set(cti_arena *arena, cti_chat_templates *templates, cti_text name,
                           cti_text text) {
    const int64_t i = template_index(templates, name);
    if (!text.at) {
        if (i == templates->count) return true;
        templates->count--;
        memmove(templates->at + i, templates->at + i + 1,
                (size_t)(templates->count - i) * sizeof *templates->at);
        return true;
    }
    cti_chat_template made = {.name = name, .text = text};
    made.jinja = cti_jinja_compile(arena, text, &made.fault);
    if (!made.jinja && made.fault.memory) return false; /* the context has the error */
    if (i == templates->count && !templates_grow(arena, templates)) return false;
    templates->count += i == templates->count;
    templates->at[i] = made;
    return true;
}

bool cti_chat_templates_read(const cti_reading *config, cti_chat_templates *templates) {
    const cti_json_tree *tree = config->tree;
    const cti_json_at value = cti_json_member(tree, 0, "chat_template");
    cti_text text = {0}, name = {cti_chat_default, sizeof cti_chat_default - 1};
    if (!value || tree->value[value].kind != CTI_JSON_ARRAY)
        return cti_reading_text(config, 0, "chat_template", &text) &&
               (!text.at || cti_chat_template_set(config->arena, templates, name, text));
    for (cti_json_at i = cti_json_first(tree, value); i; i = tree->value[i].next)
        if (!cti_reading_needs_text(config, i, "name", &name) ||
            !cti_reading_needs_text(config, i, "template", &text) ||
            !cti_chat_template_set(config->arena, templates, name, text))
            return false;
    return true;
}
