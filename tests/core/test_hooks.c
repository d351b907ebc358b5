/* What is done when a context or a module is freed, in which order: files, tokens, comms and
 * modules beside the program's functions, and optimisers and caches that end with a module. */
#include "tests/support/files.h"

/* ---- what was seen ---- */

/* A letter for each function that has run, followed by those of the objects that were open. */
static char seen[96];
static void note(const char *text) {
    ck_assert_uint_lt(strlen(seen) + strlen(text), sizeof seen);
    strcat(seen, text);
}

static struct {
    ct_context *context;
    ct_safetensors *file;
    ct_tokens *tokens;
    ct_comm *comm;
    ct_module *module;
    ct_optim *optim;
    ct_kv_cache *cache;
} made;

static void note_open(const char *letter) {
    if (ct_error(made.context) == CT_OK) note(letter);
    ct_error_clear(made.context);
}

/* Notes its name and which of the objects have not ended. */
static void look(void *name) {
    ct_safetensors_entry entry = {0};
    note(name);
    if (made.file && ct_safetensors_next(made.file, &entry)) note("f");
    ct_error_clear(made.context);
    if (made.tokens && ct_tokens_count(made.tokens) == 4) note("t");
    ct_error_clear(made.context);
    if (made.comm && ct_comm_data(made.comm)) note("c");
    ct_error_clear(made.context);
}

static bool no_start(ct_comm *comm, ct_transfer *t) { return (void)comm, (void)t, false; }
static ct_transfer_state no_test(ct_comm *comm, ct_transfer *t) {
    return (void)comm, (void)t, CT_TRANSFER_FAILED;
}
static void no_cancel(ct_comm *comm, ct_transfer *t) { (void)comm, (void)t; }
static const char *no_reason(ct_comm *comm) { return (void)comm, ""; }
static void close_noted(ct_comm *comm, bool failed) { (void)comm, note(failed ? "!" : "x"); }
static const ct_comm_engine engine = {"noted",   no_start,  no_test,
                                      no_cancel, no_reason, close_noted};

static void end_noted(void *text) { look(text); }
static const ct_module_type noted = {.name = "Noted", .end = end_noted};

static char name[][4] = {"0", "1", "2", "3", "4", "a", "b", "m"};
enum { TYPE = 5, CHILD, FUNCTION };

static const char *token_path(void) {
    const char *path = in_folder("ids.bin");
    FILE *ids = fopen(path, "wb");
    ck_assert(ids && fwrite("\1\0\2\0\3\0\4\0", 1, 8, ids) == 8 && fclose(ids) == 0);
    return path;
}
static const char *tensor_path(void) {
    static const char header[] = "{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
    return put(header, sizeof header - 1, -1, NULL, 4);
}

static void begin(void) {
    setup();
    seen[0] = 0;
    memset(&made, 0, sizeof made);
    made.context = ct_context_new((ct_context_opts){.seed = 1, .threads = 1});
}
static void function_of_context(int i) {
    ck_assert(ct_context_on_free(made.context, look, name[i]));
}
static void open_file(void) {
    made.file = ct_safetensors_open(made.context, tensor_path());
    ck_assert_ptr_nonnull(made.file);
}
static void open_tokens(void) {
    const char *path = token_path();
    made.tokens = ct_tokens_open(made.context, &path, 1, (ct_tokens_opts){.bytes = 2});
    ck_assert_ptr_nonnull(made.tokens);
}
static void open_comm(void) {
    made.comm = ct_comm_new(made.context, &engine, 0, 1, seen);
    ck_assert_ptr_nonnull(made.comm);
}
/* A module with a child, both of the type, in which each is a hook of the context. */
static void make_module(void) {
    made.module = ct_module_new_of(made.context, &noted, name[TYPE]);
    ct_module *child = ct_module_new_of(made.context, &noted, name[CHILD]);
    ck_assert(ct_module_add_child(made.module, "child", child));
    ck_assert(ct_module_add_param(child, "w", ct_ones(made.context, CT_F32, CT_SHAPE(1))));
}

/* ---- with the context ---- */

START_TEST(in_order) {
    function_of_context(0);
    open_file();
    function_of_context(1);
    open_tokens();
    function_of_context(2);
    open_comm();
    function_of_context(3);
    make_module();
    function_of_context(4);
    ck_assert(ct_module_on_free(made.module, look, name[FUNCTION]));
    ct_context_free(made.context);
    ck_assert_str_eq(seen, "4ftcmftcaftcbftc3ftcx2ft1f0");
}
END_TEST

/* The same from the other end. The module's first function was added before its child's. */
START_TEST(in_the_opposite_order) {
    make_module();
    function_of_context(3);
    open_comm();
    function_of_context(2);
    open_tokens();
    function_of_context(1);
    open_file();
    function_of_context(0);
    ct_context_free(made.context);
    ck_assert_str_eq(seen, "0ftc1tc2cx3ab");
}
END_TEST

/* Closing an object early, or removing a function, leaves the order of the others. A function is
 * removed by its argument; an object with that address is not closed by this. */
START_TEST(without_those_that_ended) {
    static const ct_module_type quiet = {.name = "Quiet"};
    function_of_context(0);
    open_file();
    open_tokens();
    open_comm();
    function_of_context(1);
    ct_module *none = ct_module_new_of(made.context, &quiet, NULL);
    ck_assert(ct_module_on_free(none, look, name[4]) && ct_module_on_free(none, NULL, name[4]));
    ct_context_on_free(made.context, NULL, made.file);
    ct_context_on_free(made.context, NULL, made.comm);
    ct_tokens_close(made.tokens);
    function_of_context(2);
    make_module();
    ct_module_free(made.module);
    ck_assert_str_eq(seen, "afcbfc");
    seen[0] = 0;
    ct_context_on_free(made.context, NULL, name[1]);
    ct_context_free(made.context);
    ck_assert_str_eq(seen, "2fcx0");
}
END_TEST

/* A module that gets its first function later is added then. */
START_TEST(a_module_is_added_with_its_first_function) {
    made.module =
        ct_linear_new(made.context, (ct_linear_opts){.in_features = 1, .out_features = 1});
    function_of_context(0);
    ck_assert(ct_sgd_new(made.module, (ct_sgd_opts){.lr = 1}));
    function_of_context(1);
    ck_assert(ct_module_on_free(made.module, look, name[FUNCTION]));
    function_of_context(2);
    ct_context_free(made.context);
    ck_assert_str_eq(seen, "2m10");
}
END_TEST

static void open_another(void *arg) {
    look(arg);
    open_file();
}
START_TEST(opened_by_a_function) {
    function_of_context(0);
    ck_assert(ct_context_on_free(made.context, open_another, name[1]));
    ct_context_free(made.context);
    ck_assert_str_eq(seen, "10"); /* the file is closed before the older function */
}
END_TEST

/* ---- optimisers and caches ---- */

static void make_attention(void) {
    made.module = ct_mha_new(made.context, (ct_mha_opts){.embed_dim = 4, .num_heads = 1});
    ck_assert(made.module);
}
static void make_objects(void) {
    made.optim = ct_sgd_new(made.module, (ct_sgd_opts){.lr = 1});
    made.cache = ct_kv_cache_new(made.module, 1, 4);
    ck_assert(made.optim && made.cache);
}

/* Uses the module, its optimiser and its cache. */
static void use(void *text) {
    note(text);
    ct_tensor *x = ct_ones(made.context, CT_F32, CT_SHAPE(1, 1, 4));
    ct_mha_forward(made.module, x, NULL, NULL, (ct_mha_call){.cache = made.cache});
    note_open("k");
    ct_optim_step(made.optim);
    note_open("o");
}

/* The functions of a module run while its optimisers and caches exist, even if these are newer. If
 * the context is freed, optimisers and caches do not end at that moment, so a function of the
 * context that runs later may use them too. */
START_TEST(functions_use_objects) {
    make_attention();
    ck_assert(_i == 0 || ct_context_on_free(made.context, use, name[0]));
    ck_assert(ct_module_on_free(made.module, use, name[FUNCTION]));
    ck_assert(ct_module_on_free(ct_module_child(made.module, "out_proj"), use, name[CHILD]));
    make_objects();
    if (_i == 0) ct_module_free(made.module);
    else ct_context_free(made.context);
    ck_assert_str_eq(seen, _i == 0 ? "mkobko" : "mkobko0ko");
    if (_i) return;
    ck_assert(!ct_optim_step(made.optim) && ct_error(made.context) == CT_ERR_ARGUMENT);
    ct_error_clear(made.context);
    /* the cache is its owner's, and has no module any more */
    ck_assert_int_eq(ct_kv_cache_length(made.cache), 2);
    ct_kv_cache_free(made.cache);
    ck_assert_int_eq(ct_error(made.context), CT_OK);
    ct_context_free(made.context);
}
END_TEST

static void free_objects(void *text) {
    note(text);
    ct_optim_free(made.optim);
    ct_kv_cache_free(made.cache);
    make_objects(); /* which end with the module, as the first */
}
START_TEST(functions_free_objects) {
    make_attention();
    make_objects();
    ck_assert(ct_module_on_free(made.module, free_objects, name[FUNCTION]));
    ct_module_free(made.module);
    ck_assert_str_eq(seen, "m");
    ck_assert_int_eq(ct_error(made.context), CT_OK);
    ck_assert(!ct_optim_step(made.optim) && ct_error(made.context) == CT_ERR_ARGUMENT);
    ct_context_free(made.context);
}
END_TEST

int main(void) {
    return run_tests(
        "hooks", begin, teardown,
        TESTS(TEST(in_order), TEST(in_the_opposite_order), TEST(without_those_that_ended),
              TEST(a_module_is_added_with_its_first_function), TEST(opened_by_a_function),
              LOOP(functions_use_objects, 2), TEST(functions_free_objects)));
}
