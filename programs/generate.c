/* Continues a text with a language model of a Hugging Face folder, which has config.json,
 * safetensors and a tokenizer.json. With --chat the prompt is a user's message, in the form of the
 * folder's chat template or of --template, and the model answers it. The text is written as it
 * comes; the last line has the speed and the memory. */
#include "chat_tokens.h"
#include "common.h"
#include "system.h"

#include <stdlib.h>
#include <string.h>

static struct {
    const char *prompt, *system, *stop, *template, *base;
    long long chat, plain, tokens, top_k, seed, threads, bf16, no_eos, ignore_unknown;
    double temperature, top_p, min_p, penalty;
} option = {.prompt = "", .seed = 1};

static ct_context *context;
static ct_tokenizer *tokenizer;

/* ---- the prompt ---- */

/* The ids of the prompt; *n is their number. */
static int64_t *prompt_ids(int64_t *n) {
    const ct_message messages[] = {
        {.role = "system", .content = option.system ? option.system : ""},
        {.role = "user", .content = option.prompt}};
    char error[500];
    const ct_chat_opts form = {.open = true, .error = error, .error_room = sizeof error};
    const int first = option.system ? 0 : 1;
    int64_t *ids = NULL, room = 0;
    for (int turn = 0; turn < 2; turn++) { /* at first only the number of ids is computed */
        *n = option.chat
                 ? ct_chat_encode(tokenizer, messages + first, 2 - first, form, ids, NULL, room)
                 : ct_encode(tokenizer, option.prompt, strlen(option.prompt),
                             (ct_encode_opts){.plain = option.plain}, ids, NULL, room);
        if (*n < 0 && option.chat) fail(EXIT_USAGE, "%s (--template)", error_text(error));
        if (*n < 0) fail(EXIT_FAILED, "out of memory");
        if (turn) break;
        room = *n;
        ids = malloc(sizeof *ids * (size_t)(room + 1));
        if (!ids) fail(EXIT_FAILED, "out of memory");
    }
    if (!*n) fail(EXIT_USAGE, "the prompt has no token");
    return ids;
}

/* ---- the options ---- */

/* An answer ends with its turn, also if the folder names only the end of a text. */
static void add_end_of_turn(ct_generate_opts *opts) {
    static int64_t ids[64];
    char end[CHAT_TOKEN];
    const int64_t id = option.chat ? chat_end(tokenizer, end) : -1;
    if (id < 0 || opts->n_eos >= (int64_t)(sizeof ids / sizeof *ids)) return;
    for (int64_t i = 0; i < opts->n_eos; i++) ids[i] = opts->eos[i];
    ids[opts->n_eos++] = id;
    opts->eos = ids;
}

/* The folder's options, and the flags that were given in their place. */
static ct_generate_opts generate_opts(const ct_module *lm) {
    ct_generate_opts opts = ct_lm_generate_opts(lm);
    if (ct_error(context))
        fail(EXIT_USAGE, "%s (--ignore-unknown)", error_text(ct_error_message(context)));
    if (flag_was_read("temperature")) opts.sample.temperature = option.temperature;
    if (flag_was_read("top-k")) opts.sample.top_k = option.top_k;
    if (flag_was_read("top-p")) opts.sample.top_p = option.top_p;
    if (flag_was_read("min-p")) opts.sample.min_p = option.min_p;
    if (flag_was_read("penalty")) opts.repetition_penalty = option.penalty;
    if (option.tokens) opts.max_new = option.tokens;
    opts.no_eos = option.no_eos;
    add_end_of_turn(&opts);
    opts.seed = (uint64_t)option.seed;
    if (option.stop) {
        opts.stop = &option.stop;
        opts.n_stop = 1;
        opts.tokenizer = tokenizer;
    }
    return opts;
}

/* ---- the text ---- */

static void write_next(ct_decode_state *state, int64_t id, char *text) {
    const int64_t size = ct_decode_next(tokenizer, state, id, text, ct_token_room(tokenizer));
    if (size > 0) fwrite(text, 1, (size_t)size, stdout);
    fflush(stdout);
}

/* Returns the exit code. */
static int generate(ct_module *lm, const int64_t *ids, int64_t n) {
    char *text = malloc(ct_token_room(tokenizer));
    if (!text) fail(EXIT_FAILED, "out of memory");
    ct_batch prompts = ct_batch_of(context, ids, NULL, &n, 1, (ct_batch_opts){0});
    ct_generator *generator = ct_generate_new(lm, prompts, generate_opts(lm));
    check(context, EXIT_USAGE);
    ct_decode_state state = {0};
    int64_t id, count = 0;
    double begun = now(), first = begun;
    catch_interrupts();
    if (!option.chat) fputs(option.prompt, stdout);
    while (!interrupted() && ct_generate_next(generator, &id)) {
        write_next(&state, id, text);
        if (!count++) first = now();
    }
    check(context, EXIT_FAILED);
    write_next(&state, -1, text);
    const double last = now();
    printf("\n");
    fflush(stdout);
    fprintf(stderr, "%lld token%s behind a prompt of %lld, the first after %.1f s",
            (long long)count, PLURAL(count), (long long)n, first - begun);
    if (count > 1) fprintf(stderr, ", then %.1f tokens/s", (double)(count - 1) / (last - first));
    fprintf(stderr, "; up to %.0f MB of memory\n", system_peak_memory() * 1e-6);
    free(text);
    return interrupted() ? interrupt_exit() : 0;
}

/* ---- the folder ---- */

enum { PATH = 4096 };

static bool is_in(const char *folder, const char *name) {
    char path[PATH + 64];
    system_file file;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return system_find_file(path, &file) && file.exists;
}

/* Finds the model that adapters name: a path as it was written, from the working folder, or beside
 * the folder of the adapters, also by the last part of the name alone. */
static const char *find_named(const char *folder, const char *named) {
    static char path[3 * PATH];
    size_t length = strlen(folder), last = strlen(named);
    while (length > 1 && cti_os_is_separator(folder[length - 1])) length--;
    while (length && !cti_os_is_separator(folder[length - 1])) length--;
    while (last && cti_os_is_separator(named[last - 1])) last--;
    while (last && !cti_os_is_separator(named[last - 1])) last--;
    snprintf(path, sizeof path, "%s", named);
    if (*named && is_in(path, "config.json")) return path;
    snprintf(path, sizeof path, "%.*s%s", (int)length, folder, named);
    if (*named && is_in(path, "config.json")) return path;
    snprintf(path, sizeof path, "%.*s%s", (int)length, folder, named + last);
    return *named && is_in(path, "config.json") ? path : NULL;
}

/* The folder of the model: the folder itself or, if it has adapters, their base. */
static const char *find_base(const char *folder) {
    char named[PATH];
    if (!is_in(folder, "adapter_config.json")) {
        if (option.base) fail(EXIT_USAGE, "--base is for adapters, and %s has none", folder);
        return folder;
    }
    if (option.base) return option.base;
    const int64_t size = ct_lora_base(context, folder, named, sizeof named);
    check(context, EXIT_USAGE);
    const char *base = size < PATH ? find_named(folder, named) : NULL;
    if (!base && !size)
        fail(EXIT_USAGE, "%s has adapters and does not name their model: --base FOLDER", folder);
    if (!base)
        fail(EXIT_USAGE,
             "%s has adapters for the model %s, which is no folder from here and not beside them: "
             "--base FOLDER",
             folder, named);
    return base;
}

static ct_module *open_model(const char *folder, const char *base) {
    const ct_lm_opts opts = {.dtype = option.bf16 ? CT_BF16 : CT_F32,
                             .ignore_unknown = option.ignore_unknown};
    ct_module *lm = ct_lm_open(context, base, opts);
    check(context, EXIT_USAGE);
    if (strcmp(folder, base) != 0) ct_lora_load(lm, folder);
    check(context, EXIT_USAGE);
    return lm;
}

int main(int argc, char **argv) {
    const flag flags[] = {
        flag_text("prompt", &option.prompt, "TEXT", "text to continue, or the message"),
        flag_switch("chat", &option.chat, "the prompt is a message that the model answers"),
        flag_text("system", &option.system, "TEXT", "system message before the prompt"),
        flag_text("template", &option.template, "NAME|FILE",
                  "form of a chat, in place of the folder's: chatml, llama3, gemma, zephyr, phi3"),
        flag_switch("plain", &option.plain,
                    "special tokens that are spelled in the prompt are ordinary text"),
        flag_text("base", &option.base, "FOLDER",
                  "the model of a folder of adapters, in place of the one that it names"),
        flag_integer("tokens", &option.tokens, 0, 1e9,
                     "most tokens to write; 0: the folder's limit, or 100"),
        flag_real("temperature", &option.temperature, "X", 0, 100, "0: the most probable token"),
        flag_integer("top-k", &option.top_k, 0, 1e9, "only the k most probable tokens; 0: all"),
        flag_real("top-p", &option.top_p, "P", 0, 1,
                  "only the most probable tokens, up to this sum; 0: all"),
        flag_real("min-p", &option.min_p, "P", 0, 1,
                  "only tokens with at least this part of the largest probability"),
        flag_real("penalty", &option.penalty, "X", 0, 100,
                  "penalty for tokens that the text already has; 0: none"),
        flag_text("stop", &option.stop, "TEXT", "stop behind this text"),
        flag_switch("no-eos", &option.no_eos, "continue behind the end of a text"),
        flag_switch("bf16", &option.bf16, "keep weights in bf16: half the memory"),
        flag_switch("ignore-unknown", &option.ignore_unknown,
                    "keys of the folder's JSON files that no model has or that are not supported "
                    "are no error"),
        flag_integer("seed", &option.seed, 0, 1e18, "seed of the random draws"),
        flag_integer("threads", &option.threads, 0, 1024,
                     "number of threads; 0: one for each core"),
    };
    const char *usage = "FOLDER --prompt TEXT [flags]\n\nContinues a text with a language model. "
                        "Flags that are not given have the values of the folder's\n"
                        "generation_config.json, if it has them:";
    if (read_flags(argc, argv, flags, sizeof flags / sizeof *flags, usage) != 1)
        fail_usage("one folder of a model is needed");
    if (!flag_was_read("prompt")) fail_usage("--prompt TEXT is needed");
    if (!option.chat && (option.system || option.template))
        fail(EXIT_USAGE, "--system and --template are for a chat: --chat is needed");
    context = ct_context_new((ct_context_opts){.threads = (int)option.threads});
    check(context, EXIT_USAGE);
    const char *base = find_base(argv[1]);
    tokenizer = ct_tokenizer_open(context, is_in(argv[1], "tokenizer.json") ? argv[1] : base);
    check(context, EXIT_USAGE);
    if (option.template) chat_set_template(context, tokenizer, option.template);
    int64_t n, *ids = prompt_ids(&n);
    const int code = generate(open_model(argv[1], base), ids, n);
    free(ids);
    ct_context_free(context);
    return code;
}
