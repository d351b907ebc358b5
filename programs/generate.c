/* Continues a text with a language model: a Hugging Face folder, which has config.json, safetensors
 * and a tokenizer.json, or a GGUF file. With --chat the prompt is a user's message, in the form of
 * the folder's chat template or of --template, and the model answers it; without a prompt it is a
 * conversation. The text is written as it comes; the last line has the speed and the memory. */
#include "chat_form.h"
#include "common.h"
#include "converse.h"
#include "model_path.h"
#include "shown_text.h"
#include "system.h"
#include "weights.h"

#include <stdlib.h>
#include <string.h>

static struct {
    const char *prompt, *prompt_file, *system, *stop, *base;
    chat_flags form;
    long long chat, plain, tokens, top_k, seed, threads, dtype, bf16, no_eos, ignore_unknown;
    double temperature, top_p, min_p, penalty;
} option = {.seed = 1};

static ct_context *context;
static ct_tokenizer *tokenizer;
static chat_form form;

/* ---- the prompt ---- */

/* Reads the prompt from --prompt-file or, without a prompt, from what is no terminal. A line end at
 * its end is left out. */
static void read_prompt(void) {
    static const char needed[] =
        "--prompt TEXT is needed, or a prompt from --prompt-file or a pipe";
    if (option.prompt && option.prompt_file)
        fail(EXIT_USAGE, "--prompt or --prompt-file, and not both");
    if (option.prompt || (option.chat && !option.prompt_file)) return;
    if (!option.prompt_file && system_input_is_terminal()) fail_usage("%s", needed);
    const char *path = option.prompt_file;
    contents all = path && strcmp(path, "-") != 0 ? read_text_files(1, (char *[]){(char *)path})
                                                  : read_standard_input();
    if (!path && !all.length) fail_usage("%s", needed);
    if (all.length && all.bytes[all.length - 1] == '\n') all.length--;
    char *text = room_for(NULL, (size_t)all.length + 1, 1);
    if (all.length) memcpy(text, all.bytes, (size_t)all.length);
    text[all.length] = 0;
    free(all.bytes);
    option.prompt = text; /* for the whole run */
}

/* The ids of the prompt; *n is their number. A prompt that begins the model's reasoning sets
 * *reasoning. */
static int64_t *prompt_ids(int64_t *n, bool *reasoning) {
    const ct_message messages[] = {
        {.role = "system", .content = option.system ? option.system : ""},
        {.role = "user", .content = option.prompt}};
    char error[600] = "";
    ct_chat_opts opts = form.opts;
    opts.add_generation_prompt = true, opts.error = error, opts.error_room = sizeof error;
    const int first = option.system ? 0 : 1;
    int64_t *ids = NULL, room = 0;
    *reasoning = option.chat && chat_is_reasoning(tokenizer, messages + first, 2 - first, opts);
    for (int turn = 0; turn < 2; turn++) { /* at first only the number of ids is computed */
        *n = option.chat
                 ? ct_chat_encode(tokenizer, messages + first, 2 - first, opts, ids, NULL, room)
                 : ct_encode(tokenizer, option.prompt, strlen(option.prompt),
                             (ct_encode_opts){.plain = option.plain}, ids, NULL, room);
        if (*n < 0 && option.chat)
            fail(EXIT_USAGE, "%s%s", error_text(error),
                 strstr(error, "chat template") ? " (--template)" : "");
        if (*n < 0) fail(EXIT_FAILED, "out of memory");
        if (turn) break;
        room = *n;
        ids = room_for(NULL, (size_t)room, sizeof *ids);
    }
    if (!*n) fail(EXIT_USAGE, "the prompt has no token");
    return ids;
}

/* ---- the options ---- */

/* An answer ends with its turn, also if the folder names only the end of a text. */
static void add_end_of_turn(ct_generate_opts *opts) {
    static int64_t ids[64];
    const int64_t id = option.chat ? ct_chat_end(tokenizer, form.opts) : -1;
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

static void write_next(shown_text *shown, ct_decode_state *state, int64_t id, char *text) {
    const int64_t size = ct_decode_next(tokenizer, state, id, text, ct_token_room(tokenizer));
    if (size > 0) shown_write(shown, text, (size_t)size);
}

/* Returns the exit code. */
static int generate(ct_module *lm, const int64_t *ids, int64_t n, bool reasoning) {
    char *text = malloc(ct_token_room(tokenizer));
    if (!text) fail(EXIT_FAILED, "out of memory");
    const int64_t longest = ct_lm_about(lm).max_length;
    if (longest > 0 && n > longest) /* with a table of positions that is an error */
        warn("the prompt has %lld tokens, and the model was made for at most %lld", (long long)n,
             (long long)longest);
    ct_batch prompts = ct_batch_of(context, ids, NULL, &n, 1, (ct_batch_opts){0});
    ct_generator *generator = ct_generate_new(lm, prompts, generate_opts(lm));
    check(context, EXIT_USAGE);
    ct_decode_state state = {0};
    int64_t id, count = 0;
    double begun = now(), first = begun;
    catch_interrupts();
    shown_text shown = shown_begin(reasoning);
    if (!option.chat) shown_write(&shown, option.prompt, strlen(option.prompt));
    while (!interrupted() && ct_generate_next(generator, &id)) {
        write_next(&shown, &state, id, text);
        if (!count++) first = now();
    }
    check(context, EXIT_FAILED);
    write_next(&shown, &state, -1, text);
    shown_end(&shown);
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

/* ---- the model ---- */

static ct_module *open_model(const char *folder, const char *base) {
    const ct_lm_opts opts = {.dtype = weights_dtype(context, base, "dtype", option.dtype),
                             .ignore_unknown = option.ignore_unknown};
    return model_open(context, folder, base, opts);
}

static int answer_prompt(const char *folder, const char *base) {
    bool reasoning;
    int64_t n, *ids = prompt_ids(&n, &reasoning);
    const int code = generate(open_model(folder, base), ids, n, reasoning);
    free(ids);
    return code;
}

static int talk(const char *folder, const char *base) {
    conversation_opts opts = {.context = context,
                              .lm = open_model(folder, base),
                              .tokenizer = tokenizer,
                              .chat = form.opts,
                              .system = option.system};
    opts.generate = generate_opts(opts.lm);
    return converse(&opts);
}

int main(int argc, char **argv) {
    const flag flags[] = {
        flag_text("prompt", &option.prompt, "TEXT",
                  "text to continue, or the message; default: what a pipe has"),
        flag_text("prompt-file", &option.prompt_file, "FILE",
                  "file with the prompt; -: standard input"),
        flag_switch("chat", &option.chat,
                    "the prompt is a message that the model answers; without a prompt each line "
                    "of the input is one (/reset begins anew)"),
        flag_text("system", &option.system, "TEXT", "system message before the prompt"),
        CHAT_FLAGS(option.form),
        flag_switch("plain", &option.plain,
                    "special tokens that are spelled in the prompt are ordinary text"),
        flag_text("base", &option.base, "FOLDER",
                  "the model of adapters, in place of the one that it names"),
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
        flag_weights("dtype", &option.dtype,
                     "what weights are kept in; default: what most of the file's matrices are in"),
        flag_switch("bf16", &option.bf16, "--dtype bf16"),
        flag_switch("ignore-unknown", &option.ignore_unknown,
                    "keys of the folder's JSON files that no model has or that are not supported "
                    "are no error"),
        flag_integer("seed", &option.seed, 0, 1e18, "seed of the random draws"),
        flag_integer("threads", &option.threads, 0, 1024,
                     "number of threads; 0: one for each core"),
    };
    const char *usage =
        "FOLDER|FILE.gguf [--prompt TEXT] [flags]\n\nContinues a text with a language model, or "
        "talks with it (--chat). Flags that are not given\nhave the values of the "
        "folder's generation_config.json, if it has them.\n\nThe text:";
    if (read_flags(argc, argv, flags, sizeof flags / sizeof *flags, usage) != 1)
        fail_usage("one folder or GGUF file of a model is needed");
    if (option.bf16 && !option.dtype) option.dtype = WEIGHTS_BF16;
    static const char *const of_chats[] = {"system",    "template", "tools",
                                           "variables", "date",     "parse-special"};
    for (int i = 0; i < 6 && !option.chat; i++)
        if (flag_was_read(of_chats[i]))
            fail(EXIT_USAGE, "--%s is for a chat: --chat is needed", of_chats[i]);
    read_prompt();
    context = ct_context_new((ct_context_opts){.threads = (int)option.threads});
    check(context, EXIT_USAGE);
    const char *base = model_base(context, argv[1], option.base);
    tokenizer = model_tokenizer(context, argv[1], base);
    form = chat_form_read(context, tokenizer, &option.form, cti_os_time());
    const int code = option.prompt ? answer_prompt(argv[1], base) : talk(argv[1], base);
    ct_context_free(context);
    return code;
}
