/* Tokenizers when memory is short or the system refuses: each malloc (also calloc and realloc),
 * each request to the context and each call into the system fails once. The call then reports the
 * failure and leaks nothing, and the next call gives the right result.
 *
 * Each test is a few rows of `fault_sweep`. A run asserts nothing, because Check's own requests
 * would be struck; it stores what it got, and `end` looks at that. */
#include "tests/support/io_faults.h"

#include "ext/text/normalize.h"
#include "ext/text/pretokenize.h"
#include "ext/text/gguf_tokens.h"
#include "gguf_bytes.h"
#include "tests/support/malloc_faults.h"
#include "text_probe.h"
#include "text_reading.h"
#include "tokenizer_files.h"

static const char *const files[] = {bpe_json, llama_json, bert_json, unigram_json};
enum { FILES = 4, ROOM = 8 * MOST };
static char *text; /* of the tokenizer.json of `tokenizer` */
static ct_tokenizer *tokenizer;
static char out_path[160], json_path[160];

static ct_tokenizer *parse(void) {
    return cti_tokenizer_of(context, "file.json", cti_text_of(text));
}

static void open_file(int i) {
    ct_tokenizer_close(tokenizer);
    free(text);
    text = unquoted(files[i]);
    tokenizer = parse();
    ck_assert_msg(tokenizer != NULL, "%s", ct_error_message(context));
}

static void put_file(const char *name, const char *bytes) {
    FILE *file = fopen(name, "wb");
    ck_assert(file && fputs(bytes, file) >= 0 && !fclose(file));
}

static void start(void) {
    setup();
    snprintf(out_path, sizeof out_path, "%s.out", path);
    snprintf(json_path, sizeof json_path, "%s.json", path);
}

static void stop(void) {
    fault_disarm();
    ct_tokenizer_close(tokenizer);
    free(text);
    tokenizer = NULL, text = NULL;
    unlink(out_path);
    unlink(json_path);
    teardown();
}

/* ---- the driver's rows ---- */

/* Lets each malloc fail in turn; there must be at least `least` of them. With 0 the run may also
 * succeed, because the context's memory may be enough. */
static void without_malloc(fault_case f, int64_t least) {
    f.may_succeed = !least;
    f.kind = FAULT_CALL, f.only = "malloc", f.status = CT_ERR_MEMORY, f.least = least;
    fault_sweep(&f);
}

/* Lets each request to the context fail in turn. */
static void without_context_memory(fault_case f, int64_t least) {
    f.kind = FAULT_TAKE, f.least = least;
    fault_sweep(&f);
}

/* Lets each call into the system of this name fail in turn. */
static void without_call(fault_case f, const char *call, int64_t least) {
    f.kind = FAULT_CALL, f.only = call, f.least = least;
    fault_sweep(&f);
}

static void nothing_is_left(const fault_end *end, void *arg) {
    (void)arg;
    FAULT_CK(end, ct_memory(context).live == end->live);
}

/* For a run that needs all that it asks for: it is done exactly if nothing was refused. */
static void fails_if_struck(const fault_end *end, void *arg) {
    (void)arg;
    FAULT_CK(end, end->done == !end->struck);
}
static void fails_and_leaves_nothing(const fault_end *end, void *arg) {
    fails_if_struck(end, arg);
    nothing_is_left(end, arg);
}

/* ---- opening ---- */

static bool open_and_close(void *arg) {
    (void)arg;
    ct_tokenizer *opened = parse();
    ct_tokenizer_close(opened);
    return opened != NULL;
}

START_TEST(opening_a_text) {
    open_file(_i);
    const fault_case f = {.name = "open",
                          .context = &context,
                          .run = open_and_close,
                          .end = fails_and_leaves_nothing,
                          .again = open_and_close};
    without_malloc(f, 0);
    without_context_memory(f, 5);
}
END_TEST

/* A folder with all files that are read, which add tokens. */
static const char *const folder_files[][2] = {
    {"tokenizer.json", NULL}, /* bpe_json */
    {"tokenizer_config.json",
     "{\"eos_token\": {\"content\": \"<e>\"}, \"x_token\": \"<x>\", \"chat_template\": \"t\", "
     "\"extra_special_tokens\": [\"<y>\"]}"},
    {"special_tokens_map.json", "{\"pad_token\": \"<p>\"}"},
    {"added_tokens.json", "{\"<p>\": 90, \"<q>\": 91}"},
    {"config.json", "{\"model_type\": \"gpt2\"}"},
};
enum { FOLDER_FILES = 5 };

static const char *in_opened(int i) {
    static char full[200];
    snprintf(full, sizeof full, "%s/%s", out_path, folder_files[i][0]);
    return full;
}

static bool open_folder(void *arg) {
    (void)arg;
    ct_tokenizer *opened = ct_tokenizer_open(context, out_path);
    const bool right = opened && ct_token_role(opened, "pad_token") >= 0;
    ct_tokenizer_close(opened);
    return right;
}

START_TEST(opening_a_folder) {
    open_file(0);
    ck_assert_int_eq(mkdir(out_path, 0700), 0);
    for (int i = 0; i < FOLDER_FILES; i++) put_file(in_opened(i), i ? folder_files[i][1] : text);
    const fault_case f = {.name = "open a folder",
                          .context = &context,
                          .run = open_folder,
                          .end = fails_and_leaves_nothing,
                          .again = open_folder,
                          .unchanged = open_files};
    without_malloc(f, 0);
    without_context_memory(f, 15);
    for (int i = 0; i < FOLDER_FILES; i++) ck_assert_int_eq(unlink(in_opened(i)), 0);
    ck_assert_int_eq(rmdir(out_path), 0);
}
END_TEST

/* Small files of which each has other columns: a BPE with merges, an SPM with scores. */
static void put_gguf(int model) {
    static const char *const bpe[] = {"a", "b", "ab", "<e>"};
    static const char *const spm[] = {"\u2581", "b", "\u2581b", "</s>"};
    const float scores[] = {-3, -2, -1, 0};
    put_text("general.architecture", "llama");
    put_text("tokenizer.ggml.model", model ? "llama" : "gpt2");
    put_text("tokenizer.ggml.pre", "smollm");
    put_texts("tokenizer.ggml.tokens", model ? spm : bpe, 4);
    put_i32s("tokenizer.ggml.token_type", (const int[]){1, 1, 1, 3}, 4);
    if (model) put_f32s("tokenizer.ggml.scores", scores, 4);
    else put_texts("tokenizer.ggml.merges", (const char *const[]){"a b"}, 1);
    put_u32("tokenizer.ggml.eos_token_id", 3);
    put_flag("tokenizer.ggml.add_bos_token", false);
    put_text("tokenizer.chat_template", "{{ messages }}");
}

static bool open_gguf(void *arg) {
    ct_tokenizer *opened = ct_tokenizer_open(context, out_path);
    const bool right = opened && ct_token_role(opened, "eos_token") == 3 &&
                       ct_tokenizer_size(opened) == 4 && ct_tokenizer_note(opened);
    ct_tokenizer_close(opened);
    (void)arg;
    return right;
}

START_TEST(opening_a_gguf) {
    put_gguf(_i);
    gguf_write(out_path);
    pairs_free();
    fault_case f = {.name = "open a GGUF file",
                    .context = &context,
                    .run = open_gguf,
                    .end = fails_and_leaves_nothing,
                    .again = open_gguf,
                    .unchanged = open_files};
    without_context_memory(f, 8);
    static const char *const calls[] = {"open", "pread"};
    for (int i = 0; i < 2; i++) without_call(f, calls[i], 1);
    f.end = nothing_is_left; /* the context may have the memory without malloc */
    without_malloc(f, 0);
}
END_TEST

static bool write_gguf(void *arg) {
    cti_gguf_out out;
    (void)arg;
    if (!cti_gguf_out_begin(context, "lm_save", json_path, &out)) return false;
    const bool done = cti_tokenizer_put(tokenizer, &out, 6, NULL, 0) && cti_gguf_out_write(&out);
    cti_gguf_out_end(&out);
    return done;
}

START_TEST(writing_a_gguf) {
    put_gguf(_i);
    gguf_write(out_path);
    pairs_free();
    tokenizer = ct_tokenizer_open(context, out_path);
    ck_assert_msg(tokenizer != NULL, "%s", ct_error_message(context));
    fault_case f = {.name = "write a GGUF file",
                    .context = &context,
                    .run = write_gguf,
                    .sparse = 30, /* 2,000 encodings ask for memory */
                    .end = fails_and_leaves_nothing,
                    .again = write_gguf,
                    .unchanged = open_files};
    without_context_memory(f, 12);
    f.end = nothing_is_left;
    without_malloc(f, 0);
}
END_TEST

/* ---- encoding and decoding, which record no error ---- */

static const char hard[] = "hello <mask> wor caf\xc3\xa9, \xff\xe4\xb8 ab [SEP] do not";
static const ct_message messages[] = {
    {.role = "system", .content = "do not"},
    {.role = "user", .content = "caf\xc3\xa9 \xff"},
    {.json = "{\"role\": \"assistant\", \"weight\": 1, \"content\": \" hello <s> world \"}"}};
static char chat_error[100];
/* Of the messages: a piece of the Unigram file is "<s>", which a message may not spell. */
static int said;

typedef struct {
    int64_t n;                     /* -1: the call has failed */
    int64_t ids[ROOM], more[ROOM]; /* more: offsets or targets */
    char bytes[512];
} answer;
static answer want, got;
static bool state_changed; /* a failed ct_decode_next has changed its state */

static bool encode(void *arg) {
    (void)arg;
    got = (answer){0};
    got.n =
        ct_encode(tokenizer, hard, sizeof hard - 1, (ct_encode_opts){0}, got.ids, got.more, MOST);
    return got.n >= 0;
}

static bool encode_chat(void *arg) {
    (void)arg;
    got = (answer){0};
    const ct_chat_opts opts = {.chat_template = "chatml",
                               .add_generation_prompt = true,
                               .error = chat_error,
                               .error_room = sizeof chat_error};
    got.n = ct_chat_encode(tokenizer, messages, said, opts, got.ids, got.more, ROOM);
    return got.n >= 0;
}

static bool decode(void *arg) {
    static const int64_t ids[] = {2, 3, 4, 5, 6, 7, 8, 9};
    (void)arg;
    got = (answer){0};
    got.n = ct_decode(tokenizer, ids, 8, false, got.bytes, sizeof got.bytes);
    return got.n >= 0;
}

/* The ids 2 to 9 as a stream. A failed call is not repeated. */
static bool decode_stream(void *arg) {
    (void)arg;
    ct_decode_state state = {0};
    got = (answer){0};
    for (int64_t id = 2; id <= 10; id++) {
        const ct_decode_state before = state;
        const int64_t more = ct_decode_next(tokenizer, &state, id < 10 ? id : -1, got.bytes + got.n,
                                            sizeof got.bytes - (size_t)got.n);
        if (more < 0) {
            state_changed |= memcmp(&before, &state, sizeof state) != 0;
            got.n = -1;
            return false;
        }
        got.n += more;
    }
    return true;
}

static void is_the_answer_or_none(const fault_end *end, void *arg) {
    FAULT_CK(end, ct_error(context) == CT_OK);
    FAULT_CK(end, end->done ? !memcmp(&got, &want, sizeof got) : got.n == -1);
    FAULT_CK(end, !state_changed);
    (void)arg;
}
static void is_the_answer_or_an_error(const fault_end *end, void *arg) {
    is_the_answer_or_none(end, arg);
    FAULT_CK(end, end->done || strstr(chat_error, "chat_encode: out of memory") ||
                      strstr(chat_error, "memory is short"));
}

/* A decode has no cache that could do without memory, so it fails whenever a request does. */
static void is_no_answer(const fault_end *end, void *arg) {
    fails_if_struck(end, arg);
    is_the_answer_or_none(end, arg);
}

START_TEST(encoding_and_decoding) {
    const struct {
        fault_case f;
        int64_t length, least;
    } rows[] = {
        {{.name = "encode", .run = encode, .end = is_the_answer_or_none}, 3, 3},
        {{.name = "chat_encode", .run = encode_chat, .end = is_the_answer_or_an_error}, 10, 5},
        {{.name = "decode", .run = decode, .end = is_no_answer}, 1, 1},
        {{.name = "decode_next", .run = decode_stream, .end = is_no_answer}, 1, 1},
    };
    said = files[_i] == unigram_json ? 2 : 3;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        open_file(_i);
        ck_assert_msg(rows[i].f.run(NULL) && got.n >= rows[i].length, "%s: %d", rows[i].f.name,
                      (int)got.n);
        want = got;
        fault_case f = rows[i].f;
        f.again = f.run;
        without_malloc(f, rows[i].least);
    }
}
END_TEST

/* ---- changes, files ---- */

static bool add_and_save(void *arg) {
    (void)arg;
    return ct_token_add(tokenizer, "<new>", "pad_token") >= 0 &&
           ct_tokenizer_save(tokenizer, json_path);
}
static void open_anew(void *arg) { open_file(*(const int *)arg); }
START_TEST(a_token_and_a_save) {
    static const int bert = 2;
    const fault_case f = {.name = "token_add and save",
                          .context = &context,
                          .arg = (void *)&bert,
                          .begin = open_anew,
                          .run = add_and_save,
                          .end = fails_if_struck,
                          .unchanged = open_files,
                          .grows = true};
    without_malloc(f, 1);
    without_context_memory(f, 4);
}
END_TEST

/* Writes three lines. Each needs a larger buffer and larger arrays of messages than the one before.
 * */
static void write_lines(bool array) {
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    if (array) fprintf(file, "[");
    for (int i = 1; i <= 3; i++) {
        fprintf(file, "{\"messages\": [{\"role\": \"user\", \"content\": \"%0*d\"}", 60000 * i, i);
        for (int k = 0; k < 100 * i; k++)
            fprintf(file, ", {\"role\": \"assistant\", \"content\": \"%d\"}", k);
        fprintf(file, array && i < 3 ? "]},\n" : "]}\n");
    }
    if (array) fprintf(file, "]");
    ck_assert_int_eq(fclose(file), 0);
}

/* Pairs of answers: two texts, two lists with a prompt, and two lists that begin with the same
 * messages. */
static void write_pairs(void) {
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    fprintf(file, "{\"prompt\": \"%0*d\", \"chosen\": \" a\", \"rejected\": \" b\"}\n", 60000, 1);
    for (int line = 0; line < 2; line++) {
        fprintf(file, line ? "{" : "{\"prompt\": [{\"role\": \"user\", \"content\": \"q\"}], ");
        for (int rejected = 0; rejected < 2; rejected++) {
            fprintf(file, rejected ? "], \"rejected\": [" : "\"chosen\": [");
            for (int k = 0; k < 150; k++)
                fprintf(file, "%s{\"role\": \"assistant\", \"content\": \"%d\"}", k ? ", " : "",
                        rejected && k > 70 ? -k : k);
        }
        fprintf(file, "]}\n");
    }
    ck_assert_int_eq(fclose(file), 0);
}

static bool read_lines(void *arg) {
    (void)arg;
    ct_json_lines *lines = ct_json_lines_open(context, path);
    ct_json_line line;
    int64_t n = 0;
    while (lines && ct_json_lines_next(lines, &line)) n = line.number;
    ct_json_lines_close(lines);
    return n == 3;
}

START_TEST(lines_of_json) {
    if (_i == 2) write_pairs();
    else write_lines(_i);
    const fault_case f = {.name = "json_lines",
                          .context = &context,
                          .run = read_lines,
                          .end = nothing_is_left,
                          .again = read_lines,
                          .unchanged = open_files};
    without_malloc(f, 3);
    without_context_memory(f, 3);
}
END_TEST

/* ---- training, batches and a file of ids ---- */

static const char *paths[2] = {path, path};
static const char corpus[] = "the theme of the band\n\nand the <end>sand 123\xff and the the";
static const char *const special[] = {"<end>"};
static const ct_tokenizer_opts training = {.vocab_size = 270, .special = special, .n_special = 1};
static int64_t id_of_the;

static bool train_once(void *arg) {
    (void)arg;
    ct_tokenizer *trained = ct_tokenizer_train(context, paths, 1, training);
    const bool ok = trained && ct_tokenizer_size(trained) == 270 &&
                    ct_token_id(trained, "\xC4\xA0the") == id_of_the;
    ct_tokenizer_close(trained);
    return ok;
}

static bool halves, empty; /* a batch had only some of its tensors; a batch lacked the texts' ids */

static bool make_batch(void *arg) {
    (void)arg;
    static const char *const texts[] = {"the band", "and"}, *const seconds[] = {"", "sand sand"};
    const ct_scope scope = ct_scope_open(context);
    const ct_batch batch = ct_encode_batch(tokenizer, texts, seconds, 2, (ct_batch_opts){0});
    const bool ok = batch.ids && ct_shape_of(batch.ids).dim[0] == 2;
    empty |= ok && (ct_dim(batch.ids, 1) == 0 ||
                    ct_data_i64(batch.ids)[0] != ct_token_id(tokenizer, "the"));
    halves |= ok != (batch.mask && batch.types);
    ct_scope_close(scope);
    return ok;
}

static bool make_rows(void *arg) {
    (void)arg;
    static const int64_t ids[] = {1, 2, 3}, lengths[] = {2, 1};
    const ct_scope scope = ct_scope_open(context);
    const ct_batch batch = ct_batch_of(context, ids, ids, lengths, 2, (ct_batch_opts){0});
    const bool ok = batch.ids != NULL;
    halves |= ok != (batch.mask && batch.types && batch.targets);
    ct_scope_close(scope);
    return ok;
}

static const char *separator;
static int64_t ids_of_files, wanted_of_files;

static bool encode_files(void *arg) {
    (void)arg;
    ids_of_files = ct_encode_files(tokenizer, paths, 2, out_path,
                                   (ct_corpus_opts){.separator = separator, .end_id = 0});
    return ids_of_files >= 0;
}
static void put_old(void *arg) {
    (void)arg;
    put_file(out_path, "old");
}
/* The old file stays after an error. */
static void is_old_or_whole(const fault_end *end, void *arg) {
    (void)arg;
    struct stat file;
    FAULT_CK(end, end->done ? ids_of_files == wanted_of_files : ids_of_files == -1);
    /* the folder's fsync fails after the new file is in place */
    if (strstr(end->message, "written, but")) return;
    FAULT_CK(end, stat(out_path, &file) == 0 && (file.st_size == 3) == !end->done);
}

static void train_tokenizer(void) {
    put_file(path, corpus);
    tokenizer = ct_tokenizer_train(context, paths, 1, training);
    ck_assert_msg(tokenizer != NULL, "%s", ct_error_message(context));
    id_of_the = ct_token_id(tokenizer, "\xC4\xA0the");
}

START_TEST(training_and_batches) {
    train_tokenizer();
    const fault_case train = {.name = "train",
                              .context = &context,
                              .run = train_once,
                              .again = train_once,
                              .unchanged = open_files,
                              .sparse = 100};
    without_malloc(train, 30);
    without_context_memory(train, 3);
    without_call(train, "open", 2);
    without_call(train, "pread", 1);
    fault_case batch = train;
    batch.name = "encode_batch", batch.run = batch.again = make_batch;
    without_malloc(batch, 5);
    without_context_memory(batch, 3);
    batch.name = "batch_of", batch.run = batch.again = make_rows;
    without_malloc(batch, 1);
    without_context_memory(batch, 4);
    ck_assert(!halves && !empty);
}
END_TEST

static void sweep_files(const char *name) {
    ck_assert(encode_files(NULL));
    wanted_of_files = ids_of_files;
    ck_assert_int_gt(wanted_of_files, 12);
    const fault_case f = {.name = name,
                          .context = &context,
                          .begin = put_old,
                          .run = encode_files,
                          .end = is_old_or_whole,
                          .again = encode_files,
                          .unchanged = open_files,
                          .sparse = 100};
    without_malloc(f, 4);
    without_context_memory(f, 1);
    static const char *const calls[] = {"pread", "write", "pwrite", "rename"};
    for (int i = 0; i < 4; i++) without_call(f, calls[i], i == 1 ? 2 : 1);
}

START_TEST(a_file_of_ids) {
    train_tokenizer();
    separator = "\n";
    sweep_files("encode_files");
    put_file(path, "hello--world hello<mask>--\xff--");
    separator = "--";
    open_file(0);
    sweep_files("encode_files, bpe");
}
END_TEST

/* ---- the parts of a tokenizer ---- */

static const char *const normalizers[] = {
    "{\"type\":\"NFC\"}",
    "{\"type\":\"NFD\"}",
    "{\"type\":\"Lowercase\"}",
    "{\"type\":\"Prepend\",\"prepend\":\"\342\226\201\"}",
    "{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true}",
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\342\226\201\"}",
    "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"[a-z]+|\\\\p{M}{1,3}\"},\"content\":"
    "\"12345678\"}",
    "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFD\"},{\"type\":\"StripAccents\"},"
    "{\"type\":\"Prepend\",\"prepend\":\"123456\"},{\"type\":\"Lowercase\"},{\"type\":\"NFC\"}]}",
    "{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,"
    "\"lowercase\":true}",
};
enum { NORMALIZERS = sizeof normalizers / sizeof *normalizers };

/* Spaces, capitals, a Chinese character, and enough marks for the sort that needs memory. */
static char marks[256];
static void write_marks(void) {
    strcpy(marks, " A\303\211\344\270\255e\314\201\t");
    for (int i = 0; i < 40; i++) strcat(marks, i % 2 ? "\314\201" : "\314\226");
    strcat(marks, " b ");
}

static cti_aligned normal;
static bool normalize(void *probe) {
    cti_aligned spare = {0};
    normal = (cti_aligned){.at = marks, .size = strlen(marks)};
    const bool done = cti_normalizer_run(text_probe_normalizer(probe), &normal, &spare);
    cti_aligned_free(&spare);
    return done;
}
static bool normalize_rightly(void *probe) {
    const bool done = normalize(probe);
    const bool right =
        done && normal.size == (size_t)want.n && !memcmp(normal.at, want.bytes, normal.size);
    cti_aligned_free(&normal);
    return right;
}
static void frees_its_text(const fault_end *end, void *probe) {
    cti_aligned_free(&normal);
    fails_if_struck(end, probe);
}

START_TEST(normalizing) {
    char message[256];
    text_probe *probe = text_probe_open(normalizers[_i / 2], message, sizeof message);
    ck_assert_msg(probe != NULL, "%s: %s", normalizers[_i / 2], message);
    write_marks();
    ck_assert(normalize(probe));
    want.n = (int64_t)normal.size;
    ck_assert_uint_le(normal.size, sizeof want.bytes);
    memcpy(want.bytes, normal.at, normal.size);
    cti_aligned_free(&normal);
    without_malloc((fault_case){.name = normalizers[_i / 2],
                                .forever = _i % 2,
                                .arg = probe,
                                .run = normalize,
                                .end = frees_its_text,
                                .again = normalize_rightly},
                   2);
    text_probe_close(probe);
}
END_TEST

static const char pretokenizers[] =
    "{\"type\": \"Sequence\", \"pretokenizers\": ["
    "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"(?:a|bc)+?d|[^\\\\p{L}&&[^\\\\s]]+|x{2,5}|"
    "[\\\\p{Han}b]*e\"}, \"behavior\": \"MergedWithNext\", \"invert\": false}, "
    "{\"type\": \"Metaspace\", \"replacement\": \"_\"}, "
    "{\"type\": \"ByteLevel\", \"add_prefix_space\": true, \"trim_offsets\": true}, "
    "{\"type\": \"Punctuation\"}]}";
static text_reading reading;
static const cti_pretokenizer *pretokenizer;

static void begin_pretokenizer(void *arg) {
    (void)arg;
    begin_reading(&reading, pretokenizers);
}
static bool read_pretokenizer(void *arg) {
    (void)arg;
    return cti_pretokenizer_read(&reading.reading, 0, &pretokenizer);
}
static int unread; /* the readings that failed */
static void end_pretokenizer(const fault_end *end, void *arg) {
    (void)arg;
    unread += !end->done;
    end_reading(&reading);
    reading.context = NULL;
}

/* Some of the requests may fail: a context that has memory to give back tries once more. */
START_TEST(reading_a_pretokenizer) {
    without_malloc((fault_case){.name = "pretokenizer_read",
                                .context = &reading.context,
                                .begin = begin_pretokenizer,
                                .run = read_pretokenizer,
                                .end = end_pretokenizer,
                                .grows = true},
                   20);
    ck_assert_int_gt(unread, 20);
}
END_TEST

static char many[4000];
static cti_pieces pieces;
static bool divide(void *arg) {
    (void)arg;
    pieces.text = (cti_aligned){.at = many, .size = sizeof many};
    return cti_pretokenizer_run(pretokenizer, &pieces);
}
/* The memory of the pieces can be used again after a failure. */
static bool divide_again(void *arg) {
    cti_aligned_free(&pieces.text);
    const bool right = divide(arg) && (int64_t)pieces.count == want.n;
    cti_pieces_free(&pieces);
    pieces = (cti_pieces){0};
    return right;
}

START_TEST(dividing) {
    begin_reading(&reading, pretokenizers);
    ck_assert(read_pretokenizer(NULL));
    for (size_t i = 0; i < sizeof many; i++) many[i] = "abcabcd e, xxx!"[i % 15];
    ck_assert(divide(NULL));
    want.n = (int64_t)pieces.count;
    cti_pieces_free(&pieces);
    pieces = (cti_pieces){0};
    without_malloc(
        (fault_case){
            .name = "pretokenize", .run = divide, .end = fails_if_struck, .again = divide_again},
        10);
    end_reading(&reading);
}
END_TEST

int main(void) {
    return run_cases(
        "text_faults",
        CASES({.name = "text_faults",
               .timeout = 60,
               .before = start,
               .after = stop,
               .tests = TESTS(LOOP(opening_a_text, FILES), TEST(opening_a_folder),
                              LOOP(opening_a_gguf, 2), LOOP(writing_a_gguf, 2),
                              LOOP(encoding_and_decoding, FILES), TEST(a_token_and_a_save),
                              LOOP(lines_of_json, 3), TEST(training_and_batches),
                              TEST(a_file_of_ids), LOOP(normalizing, 2 * NORMALIZERS),
                              TEST(reading_a_pretokenizer), TEST(dividing))}));
}
