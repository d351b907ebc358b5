/* Models of tokenizers when memory is short: each request of an opening and of an encode is refused
 * in turn, and an encode requests no more memory than it may. */
#include <cotangent/context.h>

#include "ext/text/model.h"
#include "tests/support/fault_sweep.h"
#include "tests/support/malloc_faults.h"

/* Requests to the arena, of which each is refused in turn; blocks of the arena are fewer. */
static bool arena_refuses(cti_arena *from) {
    if (!fault_strikes(FAULT_TAKE, "the arena")) return false;
    ct_fail(from->context, CT_ERR_MEMORY, "injected: out of memory");
    return true;
}
void *__real_cti_arena_take(cti_arena *from, size_t count, size_t size);
void *__wrap_cti_arena_take(cti_arena *from, size_t count, size_t size);
void *__wrap_cti_arena_take(cti_arena *from, size_t count, size_t size) {
    return arena_refuses(from) ? NULL : __real_cti_arena_take(from, count, size);
}
cti_text __real_cti_arena_copy(cti_arena *from, cti_text text);
cti_text __wrap_cti_arena_copy(cti_arena *from, cti_text text);
cti_text __wrap_cti_arena_copy(cti_arena *from, cti_text text) {
    return arena_refuses(from) ? (cti_text){0} : __real_cti_arena_copy(from, text);
}

static const char *const models[] = {
    "{\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2, \"abab\": 3, \"?\": 4, "
    "\"a long token of more than 16 bytes, and more than 32, for the queue\": 5}, "
    "\"merges\": [\"a b\", \"ab ab\"], \"unk_token\": \"?\"}",
    "{\"type\": \"WordPiece\", \"vocab\": {\"a\": 0, \"b\": 1, \"#b\": 2, \"#a\": 3, \"?\": 4}, "
    "\"unk_token\": \"?\", \"continuing_subword_prefix\": \"#\", "
    "\"max_input_chars_per_word\": 1000000}",
    ("{\"type\": \"Unigram\", \"unk_id\": 0, \"vocab\": [[\"?\", 0], [\"a\", -1], [\"b\", -1], "
     "[\"ab\", -1.5]]}"),
};
enum { MODELS = 3, SIZE = 100000 };

static ct_context *context;
static cti_arena arena;
static cti_json_tree tree;
static const cti_model *model;
static char json[1024];

static bool open_nth(void *arg) {
    const char *text = models[*(const int *)arg];
    memcpy(json, text, strlen(text) + 1);
    arena = (cti_arena){.context = context};
    tree = (cti_json_tree){0};
    const cti_reading reading = {
        .context = context, .arena = &arena, .path = "t.json", .tree = &tree};
    cti_vocabulary vocabulary;
    return cti_json_tree_read(context, "tokenizer_open", "t.json", json, strlen(text), &tree) &&
           cti_model_read(&reading, 0, false, &vocabulary, &model);
}

static void close_model(void) {
    cti_arena_free(&arena);
    cti_json_tree_free(&tree);
}

static bool open_and_close(void *arg) {
    const bool good = open_nth(arg);
    close_model();
    return good;
}

static void start(void) { context = ct_context_new((ct_context_opts){0}); }
static void stop(void) { ct_context_free(context); }

static void sweep_mallocs(fault_case f) {
    f.kind = FAULT_CALL, f.only = "malloc", f.status = CT_ERR_MEMORY;
    fault_sweep(&f);
}

/* The merges of a new token are found in memory of malloc. */
START_TEST(an_opening_without_memory) {
    fault_case f = {.name = models[_i],
                    .kind = FAULT_TAKE,
                    .context = &context,
                    .arg = &_i,
                    .run = open_and_close,
                    .least = 10};
    fault_sweep(&f);
    f.least = 0, f.may_succeed = true;
    sweep_mallocs(f);
}
END_TEST

/* A long text of "a" and "b", which is encoded as one piece. */
static char text[SIZE];
static int64_t tokens;

static bool encode(void *arg) {
    (void)arg;
    const cti_aligned aligned = {.at = text, .size = SIZE};
    cti_sink sink = {.text = &aligned};
    cti_model_work *work = cti_model_work_new(model, SIZE);
    const bool good = work && cti_model_encode(model, work, 0, SIZE, &sink);
    cti_model_work_free(work);
    tokens = sink.count;
    return good;
}

static void begin_text(int i) {
    ck_assert(open_nth(&i));
    for (int k = 0; k < SIZE; k++) text[k] = "ab"[k % 2];
}

/* A cache that has no memory is left out. */
static void has_all_tokens(const fault_end *end, void *all) {
    FAULT_CK(end, !end->done || tokens == *(int64_t *)all);
}

START_TEST(an_encode_without_memory) {
    static const int64_t counts[MODELS] = {SIZE / 4, SIZE, SIZE / 2};
    int64_t all = counts[_i];
    begin_text(_i);
    sweep_mallocs((fault_case){
        .name = models[_i], .arg = &all, .run = encode, .end = has_all_tokens, .least = 2});
    close_model();
}
END_TEST

START_TEST(memory_of_an_encode) {
    begin_text(_i);
    malloced = 0;
    ck_assert(encode(NULL));
    ck_assert_uint_le(malloced, (_i == 2 ? 17 : 16) * SIZE); /* Unigram: 16 for each place */
    close_model();
}
END_TEST

int main(void) {
    return run_tests("text_model_faults", start, stop,
                     TESTS(LOOP(an_opening_without_memory, MODELS),
                           LOOP(an_encode_without_memory, MODELS),
                           LOOP(memory_of_an_encode, MODELS)));
}
