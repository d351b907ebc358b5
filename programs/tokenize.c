/* Writes files of text as one file of token ids, for ct_tokens_open, nanoGPT or llm.c. Without
 * other flags each byte is an id, 0 to 255; with --tokenizer a tokenizer.json gives the ids.
 * The program also trains a tokenizer (--train) and shows how a tokenizer divides a text (--show).
 *
 * Bytes are read and written in blocks, so neither input nor output has to fit in memory; with a
 * tokenizer one document at a time is in memory. The input "-" is standard input. The ids go to a
 * temporary file that is renamed when it is complete. */
#include "common.h"
#include "system.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 1 << 16, HEADER = 256, MOST_IN_HEADER = 2147483647 };

static struct {
    const char *path;        /* as in --out */
    output file;             /* the file to which the ids are written */
    long long bytes, header; /* the values of the flags */
    long long ids;           /* the number of ids written so far */
} out = {.path = "tokens.bin", .bytes = 2};

/* ---- writing ---- */

static void on_signal(int number) { /* calls only functions that a signal handler may call */
    output_remove();
    _Exit(128 + number);
}

static void put(const unsigned char *data, size_t size) {
    if (fwrite(data, 1, size, out.file.file) != size)
        fail(EXIT_FAILED, "cannot write %s: %s", out.path, strerror(errno));
}

/* Writes ids as little-endian numbers of out.bytes bytes. */
static void put_ids(const unsigned char *text, size_t n) {
    static unsigned char ids[4 * PIECE];
    const size_t bytes = (size_t)out.bytes;
    for (size_t i = 0; i < n; i++) ids[i * bytes] = text[i]; /* the other bytes stay 0 */
    put(ids, n * bytes);
    out.ids += (long long)n;
    if (out.header && out.ids > MOST_IN_HEADER)
        fail(EXIT_FAILED,
             "more than %d ids, the most that llm.c's header can say: use several files",
             MOST_IN_HEADER);
}

/* Writes llm.c's header: 256 little-endian numbers of 4 bytes, of which the first three are the
 * magic number, the version and the count of ids. Files with ids of 2 bytes have GPT-2's header,
 * files with ids of 4 bytes Llama 3's. */
static void put_header(void) {
    const uint32_t numbers[] = {out.bytes == 2 ? 20240520 : 20240801, out.bytes == 2 ? 1 : 7,
                                (uint32_t)out.ids};
    unsigned char header[4 * HEADER] = {0};
    for (int i = 0; i < 12; i++) header[i] = (unsigned char)(numbers[i / 4] >> 8 * (i % 4));
    put(header, sizeof header);
}

/* Writes the count of ids into the header; it is known only at the end. */
static void finish(void) {
    if (out.header) {
        if (fseek(out.file.file, 0, SEEK_SET))
            fail(EXIT_FAILED, "cannot write %s: %s", out.path, strerror(errno));
        put_header();
    }
    output_end(&out.file);
}

/* ---- reading ---- */

static void add_file(const char *path) {
    const bool standard = !strcmp(path, "-");
    FILE *file = standard ? stdin : system_fopen(path, "rb");
    if (!file) fail(EXIT_USAGE, "cannot open %s: %s", path, strerror(errno));
    static unsigned char text[PIECE];
    size_t n;
    do {
        n = fread(text, 1, sizeof text, file);
        put_ids(text, n);
    } while (n == sizeof text);
    if (ferror(file))
        fail(EXIT_USAGE, "cannot read %s: %s", standard ? "standard input" : path, strerror(errno));
    if (!standard) fclose(file);
}

/* Writes the bytes of the files as ids. */
static void write_bytes(int files, char **paths) {
    if (out.bytes == 3) fail(EXIT_USAGE, "--bytes must be 2 or 4, not 3");
    output_begin(&out.file, out.path, true);
    system_on_interrupt(on_signal, false);
    if (out.header) put_header();
    for (int i = 0; i < files; i++) add_file(paths[i]);
    if (!out.ids) fail(EXIT_USAGE, "there is no text in the input");
    finish();
    printf("%s: %lld id%s of %lld bytes, vocabulary 256\n", out.path, out.ids, PLURAL(out.ids),
           out.bytes);
}

/* ---- with a tokenizer ---- */

static struct {
    const char *path, *separator, *end, *special;
    long long train, split, show, color, plain;
} option = {.special = "<|endoftext|>"};

static progress bar = {.total = 100};

/* Shows how far the training is, and ends it on Ctrl-C. */
static bool show_training(void *arg, double done) {
    (void)arg;
    progress_show(&bar, (int64_t)(done * 100), "%s", done < 0.5 ? "reading" : "merging");
    return !interrupted();
}

/* Trains a tokenizer on the files and writes it. */
static void train_tokenizer(ct_context *context, int files, char **paths) {
    const char *const special[] = {option.special};
    const ct_tokenizer_opts opts = {
        .vocab_size = option.train,
        .split = option.split ? (ct_tokenizer_split)(option.split - 1) : CT_SPLIT_GPT2,
        .special = special,
        .n_special = *option.special ? 1 : 0,
        .progress = show_training,
    };
    bar.begun = now();
    catch_interrupts();
    ct_tokenizer *tokenizer = ct_tokenizer_train(context, (const char *const *)paths, files, opts);
    progress_end();
    if (interrupted()) fail(interrupt_exit(), "interrupted: nothing is written");
    check(context, EXIT_USAGE);
    ct_tokenizer_save(tokenizer, out.path);
    check(context, EXIT_FAILED);
    printf("%s: a tokenizer of %lld ids\n", out.path, (long long)ct_tokenizer_size(tokenizer));
}

/* The id behind each document: the id of --end, or of the tokenizer's end of a text if that flag is
 * absent. */
static int64_t end_id(const ct_tokenizer *tokenizer) {
    if (!option.end) return ct_token_role(tokenizer, "eos_token");
    const int64_t id = *option.end ? ct_token_id(tokenizer, option.end) : -1;
    if (*option.end && id < 0) fail(EXIT_USAGE, "--end: '%s' is no token", option.end);
    return id;
}

/* Refuses a separator that is in no file: it may have been spelled otherwise than it was meant. */
static void check_separator(int files, char **paths) {
    int64_t count = 0;
    for (int i = 0; i < files; i++) count += count_in_file(paths[i], option.separator);
    if (!count) fail_separator(files == 1 ? paths[0] : "any of the files", option.separator);
    printf("The separator stands at %lld place%s\n", (long long)count, PLURAL(count));
}

static void write_tokens(ct_context *context, ct_tokenizer *tokenizer, int files, char **paths) {
    const ct_corpus_opts opts = {.separator = option.separator,
                                 .end_id = end_id(tokenizer),
                                 .encode = {.plain = option.plain}};
    if (option.separator) check_separator(files, paths);
    const int64_t ids =
        ct_encode_files(tokenizer, (const char *const *)paths, files, out.path, opts);
    check(context, EXIT_USAGE);
    const int64_t size = ct_tokenizer_size(tokenizer);
    printf("%s: %lld id%s of %d bytes, vocabulary %lld\n", out.path, (long long)ids, PLURAL(ids),
           size <= 65536 ? 2 : 4, (long long)size);
}

/* Prints bytes of a text. A control character would change the terminal, so it becomes a dot. */
static void print_text(const unsigned char *text, int64_t size) {
    for (int64_t i = 0; i < size; i++) {
        const bool is_plain =
            (text[i] >= ' ' && text[i] != 127) || text[i] == '\n' || text[i] == '\t';
        putchar(is_plain ? text[i] : '.');
    }
}

/* Prints a text with a colour for each token, or a bar between tokens if there are no colours. A
 * character of several tokens has the colour of the first. */
static void show_tokens(const ct_tokenizer *tokenizer, int files, char **paths) {
    static const int backgrounds[] = {153, 194, 229, 224, 189, 223};
    contents text = read_text_files(files, paths);
    const char *bytes = (const char *)text.bytes;
    const size_t length = (size_t)text.length;
    const ct_encode_opts opts = {.no_special = true, .plain = option.plain};
    const int64_t n = ct_encode(tokenizer, bytes, length, opts, NULL, NULL, 0);
    if (n < 0)
        fail(EXIT_FAILED, "the text needs an unk_token, which the tokenizer does not have, or "
                          "memory is short");
    const size_t room = (size_t)n + 1;
    int64_t *ids = malloc(room * sizeof *ids), *offsets = malloc(2 * room * sizeof *offsets);
    if (!ids || !offsets || ct_encode(tokenizer, bytes, length, opts, ids, offsets, n) != n)
        fail(EXIT_FAILED, "out of memory");
    const bool coloured = option.color || colours();
    int64_t shown = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t end = offsets[2 * i + 1];
        if (end <= shown) continue;
        if (coloured) printf("\033[30;48;5;%dm", backgrounds[i % 6]);
        else if (i) putchar('|');
        print_text(text.bytes + shown, end - shown);
        if (coloured) printf("\033[0m");
        shown = end;
    }
    printf("\n%lld token%s, %.2f bytes a token\n", (long long)n, PLURAL(n),
           (double)text.length / (double)(n > 0 ? n : 1));
    free(ids);
    free(offsets);
    free(text.bytes);
}

static void check_flags(int files, char **paths) {
    const bool tokenizer = option.path || option.train;
    if (option.path && option.train)
        fail(EXIT_USAGE, "--train makes a tokenizer, so it takes no --tokenizer");
    if (tokenizer && (flag_was_read("bytes") || flag_was_read("header")))
        fail(EXIT_USAGE, "--bytes and --header are about ids that are bytes; a file of a "
                         "tokenizer's ids always has a header");
    if (option.show && !option.path) fail(EXIT_USAGE, "--show needs a --tokenizer");
    if (!option.path && (option.separator || option.end || option.plain))
        fail(EXIT_USAGE, "--%s needs a --tokenizer",
             option.end         ? "end"
             : option.separator ? "separator"
                                : "plain");
    if (option.separator && !*option.separator) fail(EXIT_USAGE, "--separator is empty");
    for (int i = 0; tokenizer && i < files; i++)
        if (!strcmp(paths[i], "-"))
            fail(EXIT_USAGE, "a tokenizer reads no standard input: name files");
    const size_t length = strlen(out.path);
    if (option.train && (length < 5 || strcmp(out.path + length - 5, ".json") != 0))
        fail(EXIT_USAGE, "--train writes a tokenizer, so --out must end in .json: %s", out.path);
}

/* Does the work of --train, --tokenizer and --show. */
static void use_tokenizer(int files, char **paths) {
    ct_context *context = ct_context_new((ct_context_opts){0});
    check(context, EXIT_FAILED);
    for (int i = 0; i < files; i++) check_text_file(paths[i]);
    if (option.train) {
        train_tokenizer(context, files, paths);
    } else {
        ct_tokenizer *tokenizer = ct_tokenizer_open(context, option.path);
        check(context, EXIT_USAGE);
        if (ct_tokenizer_note(tokenizer)) warn("%s", ct_tokenizer_note(tokenizer));
        if (option.show) show_tokens(tokenizer, files, paths);
        else write_tokens(context, tokenizer, files, paths);
    }
    ct_context_free(context);
}

int main(int argc, char **argv) {
    const flag flags[] = {
        flag_text("out", &out.path, "FILE", "file for the ids"),
        flag_integer("bytes", &out.bytes, 2, 4,
                     "bytes of an id, if each byte of text is an id: 2 or 4"),
        flag_switch("header", &out.header, "begin with llm.c's header"),
        flag_heading("With a tokenizer"),
        flag_text("tokenizer", &option.path, "FILE", "a tokenizer.json, or a folder with one"),
        flag_text("separator", &option.separator, "TEXT", "documents of a file end at this text"),
        flag_switch("plain", &option.plain,
                    "special tokens that are spelled in the text are ordinary text"),
        flag_text("end", &option.end, "TOKEN", "token behind each document; \"\": none"),
        flag_switch("show", &option.show, "print the text with its tokens, write nothing"),
        flag_switch("color", &option.color, "colours, even if the output is no terminal"),
        flag_heading("A new tokenizer"),
        flag_integer("train", &option.train, 257, 1e9,
                     "train byte-level BPE with this many ids, written to --out"),
        flag_choice("split", &option.split, "gpt2|llama3|qwen2|none",
                    "rule that divides text into pieces"),
        flag_text("special", &option.special, "TOKEN", "special token with id 0; \"\": none"),
    };
    const int files = read_flags(argc, argv, flags, sizeof flags / sizeof *flags,
                                 "[flags] FILE...\n\nWrites text as token ids, one for each byte "
                                 "or by a tokenizer; the file - is standard input.\n\nThe ids:");
    if (!files) fail_usage("no text to encode");
    if (option.train && !flag_was_read("out")) out.path = "tokenizer.json";
    check_flags(files, argv + 1);
    input_paths(files, argv + 1);
    if (option.path) input_paths(1, (char *[]){(char *)option.path});
    if (!option.show) out.path = output_path(NULL, out.path);
    if (option.path || option.train) use_tokenizer(files, argv + 1);
    else write_bytes(files, argv + 1);
    return 0;
}
