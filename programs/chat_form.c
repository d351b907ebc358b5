/* The form of chats; see chat_form.h. */
#include "chat_form.h"
#include "system.h"

#include <stdlib.h>
#include <string.h>

/* ---- the built-in templates' tokens ---- */

/* The tokens that each writes, the one that ends a turn last. Zephyr's turns end with eos_token. */
static const struct {
    const char *name, *tokens[3];
} builtin[] = {
    {"chatml", {"<|im_start|>", "<|im_end|>"}},
    {"llama3", {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"}},
    {"gemma", {"<start_of_turn>", "<end_of_turn>"}},
    {"zephyr", {NULL}},
};
enum { BUILTIN = sizeof builtin / sizeof *builtin, TOKENS = 3 };

/* The tokens of the form's template, which end with NULL or at TOKENS; NULL: it is not built in. */
static const char *const *builtin_tokens(const chat_form *form) {
    for (int i = 0; form->builtin && i < BUILTIN; i++)
        if (!strcmp(form->builtin, builtin[i].name)) return builtin[i].tokens;
    return NULL;
}

const char *chat_missing_end(const ct_tokenizer *tokenizer, const chat_form *form) {
    const char *const *tokens = builtin_tokens(form), *end = NULL;
    for (int i = 0; tokens && i < TOKENS && tokens[i]; i++) end = tokens[i];
    return end && ct_token_id(tokenizer, end) < 0 ? end : NULL;
}

void chat_add_tokens(ct_context *context, ct_tokenizer *tokenizer, const chat_form *form) {
    const char *const *tokens = builtin_tokens(form);
    for (int i = 0; tokens && i < TOKENS && tokens[i]; i++) {
        if (ct_token_id(tokenizer, tokens[i]) >= 0) continue;
        const int64_t id = ct_token_add(tokenizer, tokens[i], NULL);
        check(context, EXIT_FAILED);
        printf("The tokenizer gets the token %s, with id %lld\n", tokens[i], (long long)id);
    }
}

/* ---- the flags ---- */

static char *text_read(const char *path) {
    contents all = read_text_files(1, (char *[]){(char *)path});
    char *text = room_for(all.bytes, (size_t)all.length + 1, 1);
    text[all.length] = 0;
    return text;
}

/* The seconds from the beginning of 1970 to a date, as if it were in UTC. */
static int64_t seconds_of(const cti_os_date *date) {
    const int64_t year = date->month > 2 ? date->year : date->year - 1; /* from March on */
    const int64_t month = date->month > 2 ? date->month - 3 : date->month + 9;
    const int64_t days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 +
                         date->day - 1 - 719468;
    return ((days * 24 + date->hour) * 60 + date->minute) * 60 + date->second;
}

int64_t chat_date(const chat_flags *flags, int64_t now) {
    cti_os_date date = {.hour = 12}, local = {0};
    int year = 0, used = 0;
    const char *text = flags->date;
    if (!text) return now;
    int n = sscanf(text, "%4d-%2d-%2d%n", &year, &date.month, &date.day, &used);
    if (n == 3 && text[used]) {
        text += used;
        used = 0;
        n += sscanf(text, "T%2d:%2d%n", &date.hour, &date.minute, &used);
    }
    date.year = year;
    const bool is_spelled = (n == 3 || n == 5) && !text[used] && date.year >= 1970;
    int64_t instant = is_spelled ? seconds_of(&date) : 0;
    for (int i = 0; is_spelled && i < 2; i++) /* by the difference of the zone at that time */
        if (cti_os_local_date(instant, &local)) instant += seconds_of(&date) - seconds_of(&local);
    if (!is_spelled || instant < 1 || !cti_os_local_date(instant, &local) ||
        local.year != date.year || local.month != date.month || local.day != date.day ||
        local.hour != date.hour || local.minute != date.minute) /* no such date: February 30 */
        fail(EXIT_USAGE, "--date is a date such as 2026-01-31 or 2026-01-31T13:00, not '%s'",
             flags->date);
    return instant;
}

/* The text of the template that --template names: the folder's, a built-in one, or a file's. The
 * caller frees it. */
static char *template_read(const ct_tokenizer *tokenizer, const char *name, bool *is_file) {
    const char *known = ct_chat_template(tokenizer, name);
    *is_file = !known;
    if (!known) {
        char error[500] = "";
        system_file file;
        const ct_chat_opts opts = {
            .chat_template = name, .error = error, .error_room = sizeof error};
        if (system_find_file(name, &file) && file.exists) return text_read(name);
        ct_chat_end(tokenizer, opts);
        fail(EXIT_USAGE, "--template %s is no file, and %s", name, error_text(error));
    }
    char *text = malloc(strlen(known) + 1);
    if (!text) fail(EXIT_FAILED, "out of memory");
    return strcpy(text, known);
}

static bool is_builtin(const char *name) {
    for (int i = 0; i < BUILTIN; i++)
        if (!strcmp(name, builtin[i].name)) return true;
    return false;
}

chat_form chat_form_read(ct_context *context, ct_tokenizer *tokenizer, const chat_flags *flags,
                         int64_t now) {
    chat_form form = {.opts = {.parse_special = flags->parse_special,
                               .variables = flags->variables,
                               .now = chat_date(flags, now)}};
    char error[600] = "";
    if (flags->template) {
        bool is_file;
        char *text = template_read(tokenizer, flags->template, &is_file);
        ct_tokenizer_set_template(tokenizer, text);
        check(context, EXIT_USAGE);
        free(text);
        form.opts.chat_template = "default"; /* also with tools */
        if (!is_file && is_builtin(flags->template)) form.builtin = flags->template;
    }
    if (flags->tools) form.opts.tools = text_read(flags->tools); /* for the whole run */
    if (!flags->template && !flags->tools && !flags->variables) return form;
    ct_chat_opts opts = form.opts;
    opts.error = error, opts.error_room = sizeof error;
    ct_chat_end(tokenizer, opts);
    if (*error)
        fail(EXIT_USAGE, "%s (%s)", error_text(error),
             flags->variables && strstr(error, "variables") ? "--variables"
             : flags->tools && strstr(error, "tools")       ? "--tools"
             : flags->template                              ? "--template"
                                                            : "the folder's chat template");
    return form;
}
