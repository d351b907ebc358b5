/* Sets of shards: the shards of ct_save are loaded by folder and by index, sets replace each
 * other whole, and hostile indices are refused. */
#include <sys/stat.h>

#include "tests/support/files.h"
#include "tests/support/suite.h"

#include "src/os/os.h"

#define INDEX "model.safetensors.index.json"

static const char *in_set(const char *name) {
    static char relative[4][300];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(relative[turn], sizeof relative[turn], "set/%s", name);
    return in_folder(relative[turn]);
}

static void clear_set(void) {
    DIR *dir = opendir(in_folder("set"));
    if (!dir) return;
    for (struct dirent *entry; (entry = readdir(dir));)
        if (entry->d_name[0] != '.' || strlen(entry->d_name) > 2) remove(in_set(entry->d_name));
    closedir(dir);
}

static void end(void) {
    clear_set();
    teardown();
}

static int files_in_set(void) {
    int n = 0;
    DIR *dir = opendir(in_folder("set"));
    for (struct dirent *entry; (entry = readdir(dir));) n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

static void write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

static char *read_text(const char *path) {
    static char text[1 << 16];
    FILE *file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    return text;
}

static ct_module *some(void) { /* 84, 20, 0, 40, 12 bytes */
    ct_module *m = ct_module_new(context, "Some");
    ct_module_add_param(m, "a", ct_randn(context, CT_F32, CT_SHAPE(3, 7)));
    ct_module_add_param(m, "b", ct_randn(context, CT_F32, CT_SHAPE(5)));
    ct_module_add_param(m, "none", ct_randn(context, CT_F32, CT_SHAPE(0, 5)));
    ct_module_add_param(m, "\"c\"\n", ct_randn(context, CT_F64, CT_SHAPE(5)));
    ct_module_add_param(m, "d", ct_randn(context, CT_F32, CT_SHAPE(3)));
    return m;
}

static ct_save_opts shards_of(int64_t bytes) { return (ct_save_opts){.shard_bytes = bytes}; }

/* ---- sets that ct_save writes ---- */

START_TEST(round_trip) {
    static const struct {
        int64_t bytes;
        int files;
    } sizes[] = {{1, 4}, {20, 4}, {64, 3}, {84, 2}, {104, 2}, {156, 1}, {1 << 30, 1}};
    const int64_t live = ct_memory(context).live;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        ct_module *from = some(), *to = some();
        clear_set();
        const char *pairs[] = {"key", "value", NULL};
        ck_assert_msg(ct_save(from, in_folder("set"),
                              (ct_save_opts){.metadata = pairs, .shard_bytes = sizes[i].bytes}),
                      "%s", ct_error_message(context));
        ck_assert_int_eq(files_in_set(), sizes[i].files + 1);
        char first[64];
        snprintf(first, sizeof first, "model-00001-of-%05d.safetensors", sizes[i].files);
        ck_assert_int_eq(access(in_set(first), R_OK), 0);
        ck_assert_ptr_nonnull(strstr(read_text(in_set(INDEX)), "\"total_size\": 156\n"));
        char value[8];
        ck_assert(ct_load_metadata(context, in_folder("set"), "key", value, sizeof value));
        ck_assert_str_eq(value, "value");
        ck_assert_msg(ct_load(to, in_folder("set"), (ct_load_opts){0}), "%s",
                      ct_error_message(context));
        ck_assert(same(from, to));
        ct_module *again = some();
        ck_assert(ct_load(again, in_set(INDEX), (ct_load_opts){0}) && same(from, again));
        ct_module_free(from);
        ct_module_free(to);
        ct_module_free(again);
    }
    ck_assert_int_eq(ct_memory(context).live, live);
}
END_TEST

START_TEST(the_index) {
    ck_assert(ct_save(some(), in_folder("set/"), shards_of(84)));
    ck_assert_str_eq(read_text(in_set(INDEX)),
                     "{\n"
                     "  \"metadata\": {\n"
                     "    \"total_size\": 156\n"
                     "  },\n"
                     "  \"weight_map\": {\n"
                     "    \"a\": \"model-00001-of-00002.safetensors\",\n"
                     "    \"b\": \"model-00002-of-00002.safetensors\",\n"
                     "    \"none\": \"model-00002-of-00002.safetensors\",\n"
                     "    \"\\\"c\\\"\\u000a\": \"model-00002-of-00002.safetensors\",\n"
                     "    \"d\": \"model-00002-of-00002.safetensors\"\n"
                     "  }\n"
                     "}\n");
    /* narrower floats make fewer files */
    clear_set();
    ck_assert(ct_save(some(), in_folder("set"),
                      (ct_save_opts){.floats = CT_FILE_BF16, .shard_bytes = 68}));
    ck_assert_int_eq(files_in_set(), 2);
    ck_assert_ptr_nonnull(strstr(read_text(in_set(INDEX)), "\"total_size\": 68\n"));
}
END_TEST

START_TEST(a_set_of_nothing) {
    ct_module *nothing = ct_module_new(context, "Nothing");
    ck_assert(ct_save(nothing, in_folder("set"), shards_of(10)));
    ck_assert_int_eq(files_in_set(), 2);
    ck_assert(ct_load(nothing, in_folder("set"), (ct_load_opts){0}));
}
END_TEST

/* With as many files as before or another number, the new set is read; a reader that was
 * open keeps the old one. */
START_TEST(a_set_replaces_another) {
    ct_module *to = some();
    for (int round = 0; round < 6; round++) {
        ct_module *old = some(), *new = some();
        const int64_t before = round % 3 ? 84 : 20, after = round % 2 ? 84 : 20;
        clear_set();
        ck_assert(ct_save(old, in_folder("set"), shards_of(before)));
        ct_safetensors *reader = ct_safetensors_open(context, in_folder("set"));
        ck_assert_msg(ct_save(new, in_folder("set"), shards_of(after)), "round %d: %s", round,
                      ct_error_message(context));
        ck_assert(ct_load(to, in_folder("set"), (ct_load_opts){0}) && same(new, to));
        const ct_tensor *d = ct_safetensors_read(reader, "d");
        ck_assert_int_eq(
            memcmp(ct_data_f32(ct_module_get(old, "d")), ct_data_f32((ct_tensor *)d), 12), 0);
        ct_safetensors_close(reader);
    }
}
END_TEST

START_TEST(save_refuses) {
    ct_module *m = some();
    ck_refused(ct_save(m, in_folder("none/set"), shards_of(9)), CT_ERR_IO, "none/set",
               "cannot make the folder: No such file");
    write_text(in_folder("file"), "x");
    ck_refused(ct_save(m, in_folder("file"), shards_of(9)), CT_ERR_IO, "file", "Not a directory");
    ck_refused(ct_save(m, "", shards_of(9)), CT_ERR_IO, "save", "No such file");
    ct_tensor *one = ct_ones(context, CT_BOOL, CT_SHAPE(1));
    enum { N = 100001 };
    ct_named *named = calloc(N, sizeof *named);
    char(*name)[16] = calloc(N, sizeof *name);
    for (int i = 0; i < N; i++) {
        snprintf(name[i], sizeof name[i], "%d", i);
        named[i] = (ct_named){name[i], one};
    }
    ck_refused(ct_tensors_save(context, in_folder("set"), named, N, shards_of(1)), CT_ERR_ARGUMENT,
               "tensors_save", "shard_bytes of 1 makes 100001 files, over 99999");
    free(named);
    free(name);
    remove(in_folder("file"));
}
END_TEST

/* ---- indices from elsewhere ---- */

static const char bytes_of_one[] =
    "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";

static void make_set(const char *index) {
    mkdir(in_folder("set"), 0755);
    put(bytes_of_one, strlen(bytes_of_one), -1, NULL, 8);
    rename(in_folder("file.safetensors"), in_set("shard"));
    write_text(in_set(INDEX), index);
}

START_TEST(accepted_index) {
    static const char *const good[] = {
        "{\"weight_map\":{\"w\":\"shard\"}}",
        " \n{ \"weight_map\" : { \"w\" : \"sh\\u0061rd\" } ,\"metadata\":{\"total_size\":8.0}} \n",
        ("{\"metadata\":null,\"x\":[1,-2e9,[],{},\"]\",{\"a\":[true,{\"b\":{}}]}],"
         "\"weight_map\":{\"w\":\"shard\"},\"y\":\"z\"}"),
        "{\"a\":{\"a\":{\"b\":1}},\"b\":[{\"a\":1},{\"a\":1}],\"weight_map\":{\"w\":\"shard\"}}",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        make_set(good[i]);
        ck_assert_msg(ct_load(two_numbers(), in_folder("set"), (ct_load_opts){0}), "%zu: %s", i,
                      ct_error_message(context));
    }
    /* tensors that the index leaves out are missing */
    make_set("{\"weight_map\":{}}");
    ck_refused(ct_load(two_numbers(), in_folder("set"), (ct_load_opts){0}), CT_ERR_FORMAT, "set",
               "missing: w");
    /* a link is followed, as in a cache of files by their hash */
    make_set(good[0]);
    ck_assert(!rename(in_set("shard"), in_folder("blob")) && !symlink("../blob", in_set("shard")));
    ck_assert(ct_load(two_numbers(), in_folder("set"), (ct_load_opts){0}));
}
END_TEST

START_TEST(refused_index) {
    static const struct {
        const char *index;
        ct_status status;
        const char *says;
    } bad[] = {
        {"", CT_ERR_FORMAT, "is not an index of safetensors files: "},
        {"[]", CT_ERR_FORMAT, "an object is expected at byte 0"},
        {"{", CT_ERR_FORMAT, "is not an index of safetensors files: "},
        {"{}", CT_ERR_FORMAT, "weight_map is missing"},
        {"{\"weight_map\":{}}x", CT_ERR_FORMAT, "something behind the index at byte 17"},
        {"{\"weight_map\":[]}", CT_ERR_FORMAT, "an object is expected"},
        {"{\"weight_map\":{\"w\":1}}", CT_ERR_FORMAT, "a string is expected"},
        {"{\"weight_map\":{\"w\":\"shard\"},\"weight_map\":{}}", CT_ERR_FORMAT,
         "weight_map is there twice"},
        {"{\"weight_map\":{\"w\":\"shard\",\"\\u0077\":\"shard\"}}", CT_ERR_FORMAT,
         "tensor \"w\" is there twice"},
        {"{\"weight_map\":{\"w\":\"../shard\"}}", CT_ERR_FORMAT, "\"../shard\", which is no name"},
        {"{\"weight_map\":{\"w\":\"..\"}}", CT_ERR_FORMAT, "\"..\", which is no name"},
        {"{\"weight_map\":{\"w\":\".\"}}", CT_ERR_FORMAT, "\".\", which is no name"},
        {"{\"weight_map\":{\"w\":\"\"}}", CT_ERR_FORMAT, "\"\", which is no name"},
        {"{\"weight_map\":{\"w\":\"/etc/passwd\"}}", CT_ERR_FORMAT, "\"/etc/passwd\", which is no"},
        {"{\"weight_map\":{\"w\":\"a/b\"}}", CT_ERR_FORMAT, "\"a/b\", which is no name"},
        {"{\"weight_map\":{\"w\":\"a\\u002fb\"}}", CT_ERR_FORMAT, "\"a/b\", which is no name"},
        {"{\"weight_map\":{\"w\":\"shard\\u0000x\"}}", CT_ERR_FORMAT, "which is no name"},
        {"{\"weight_map\":{\"w\":\"gone\"}}", CT_ERR_IO, "set/gone: cannot open: No such file"},
        {"{\"weight_map\":{\"v\":\"shard\"}}", CT_ERR_FORMAT,
         "set/shard: has no tensor \"v\", which the index puts there"},
        {"{\"weight_map\":{\"w\":\"" INDEX "\"}}", CT_ERR_FORMAT, "not a safetensors file"},
        {"{\"weight_map\":{\"w\":\"\xe9\"}}", CT_ERR_FORMAT, "not UTF-8 at byte 20"},
        {"{\"metadata\":nonsense.+E-9,\"weight_map\":{}}", CT_ERR_FORMAT,
         "a value is expected at byte 12"},
        {"{\"weight_map\":{\"w\":\"shard\"},\"metadata\":{\"total_size\":08}}", CT_ERR_FORMAT,
         "a number begins with 0"},
        {"{\"weight_map\":{\"w\":\"shard\"},\"x\":\"\\ud800\"}", CT_ERR_FORMAT,
         "half a surrogate pair"},
        {"{\"weight_map\":{\"w\":\"shard\"},}", CT_ERR_FORMAT, "a string is expected"},
        {"{\"weight_map\":{\"w\":\"shard\",}}", CT_ERR_FORMAT, "a string is expected"},
        {"{\"m\":1,\"weight_map\":{\"w\":\"shard\"},\"\\u006d\":1}", CT_ERR_FORMAT,
         "\"m\" is there twice"},
        {"{\"m\":[{\"a\":1},{\"a\":{\"b\":1,\"c\":2,\"b\":1}}],\"weight_map\":{\"w\":\"shard\"}}",
         CT_ERR_FORMAT, "\"b\" is there twice"},
        {"{\"x\":}", CT_ERR_FORMAT, "a value is expected"},
        {"{\"x\":[1 2]}", CT_ERR_FORMAT, "',' or ']' is expected"},
        {"{\"x\":{\"a\" 1}}", CT_ERR_FORMAT, "':' is expected"},
        {"{\"x\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", CT_ERR_FORMAT,
         "nested too deep"},
    };
    ct_module *module = two_numbers();
    const int64_t live = ct_memory(context).live;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        make_set(bad[i].index);
        ck_refused(ct_load(module, in_folder("set"), (ct_load_opts){0}), bad[i].status, "set",
                   bad[i].says);
        ck_refused(ct_load(module, in_set(INDEX), (ct_load_opts){.partial = true}), bad[i].status,
                   "set", bad[i].says);
        ck_refused(ct_safetensors_open(context, in_folder("set")), bad[i].status, "set",
                   bad[i].says);
        ck_assert_int_eq(ct_memory(context).live, live);
    }
    ck_assert(ct_data_f32(ct_module_get(module, "w"))[0] == 5);
}
END_TEST

/* On Windows, where \ separates folders too, an index cannot name a file by a path with \ or with a
 * drive. On other systems these are names like any other. */
START_TEST(names_of_windows) {
    static const char *const names[] = {"..\\\\gone",           "a\\\\gone",  "\\\\gone",
                                        "\\\\\\\\host\\\\gone", "C:\\\\gone", "C:gone"};
    const bool is_windows = cti_os_is_separator('\\');
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char index[128];
        snprintf(index, sizeof index, "{\"weight_map\":{\"w\":\"%s\"}}", names[i]);
        make_set(index);
        ck_refused(ct_load(two_numbers(), in_folder("set"), (ct_load_opts){0}),
                   is_windows ? CT_ERR_FORMAT : CT_ERR_IO, "set",
                   is_windows ? "which is no name of a file beside" : "cannot open: No such file");
    }
}
END_TEST

/* Cut off at every byte, an index is refused. */
START_TEST(cut_index) {
    static const char whole[] = "{\"m\":{\"a\":[1,{}]},\"weight_map\":{\"w\":\"shard\"}}";
    char text[sizeof whole];
    for (size_t n = 0; n < sizeof whole - 1; n++) {
        memcpy(text, whole, n);
        text[n] = 0;
        make_set(text);
        ck_refused(ct_load(two_numbers(), in_folder("set"), (ct_load_opts){0}), CT_ERR_FORMAT,
                   "set", "is not an index");
    }
    make_set(whole);
    ck_assert(ct_load(two_numbers(), in_folder("set"), (ct_load_opts){0}));
}
END_TEST

START_TEST(a_folder) {
    mkdir(in_folder("set"), 0755);
    ck_refused(ct_load(two_numbers(), in_folder("set"), (ct_load_opts){0}), CT_ERR_IO, "set",
               "is a folder with neither model.safetensors nor");
    ct_module *from = some(), *to = some();
    ck_assert(ct_save(from, in_set("model.safetensors"), (ct_save_opts){0}));
    ck_assert(ct_load(to, in_folder("set"), (ct_load_opts){0}) && same(from, to));
    ck_assert(ct_save(from, in_folder("set"), shards_of(84))); /* removes the single file */
    ck_assert(access(in_set("model.safetensors"), F_OK) == -1);
    ck_assert(ct_load(to, in_folder("set"), (ct_load_opts){0}) && same(from, to));
    ck_assert(ct_save(from, in_set("model.safetensors"), (ct_save_opts){0}));
    ck_refused(ct_load(to, in_folder("set"), (ct_load_opts){0}), CT_ERR_FORMAT, "set", "name one");
    ck_assert(ct_load(to, in_set(INDEX), (ct_load_opts){0}));
    ck_assert(ct_load(to, in_set("model.safetensors"), (ct_load_opts){0}));
}
END_TEST

/* Saves and loads a set by a relative path. On Windows C: is a relative path too: it means the
 * drive's current folder, and C:/ means its root. So no slash may be put between C: and a name. */
START_TEST(in_the_current_folder) {
    char here[CTI_OS_PATH], there[CTI_OS_PATH], drive[] = "C:";
    const bool is_windows = cti_os_is_separator('\\');
    const char *set = is_windows ? drive : "set";
    ck_assert(cti_os_current_folder(here, sizeof here));
    ck_assert(cti_os_make_folder(in_folder("set")));
    ck_assert_int_eq(chdir(is_windows ? in_folder("set") : folder), 0);
    ck_assert(cti_os_current_folder(there, sizeof there));
    drive[0] = there[0];
    ct_module *from = some(), *to = some(), *again = some();
    const bool saved = ct_save(from, set, shards_of(64)),
               loaded = ct_load(to, set, (ct_load_opts){0});
    ck_assert_int_eq(chdir(here), 0);
    ck_assert_msg(saved && loaded, "%s", ct_error_message(context));
    ck_assert(ct_load(again, in_folder("set"), (ct_load_opts){0}));
    ck_assert(same(from, to) && same(from, again));
}
END_TEST

/* An index of no file has no tensor and no metadata. */
START_TEST(no_file) {
    write_text(in_folder("none.json"), "{\"weight_map\":{}}");
    ct_safetensors *file = ct_safetensors_open(context, in_folder("none.json"));
    ck_assert_msg(file != NULL, "%s", ct_error_message(context));
    ck_assert(!ct_safetensors_next(file, &(ct_safetensors_entry){0}));
    ck_assert_ptr_null(ct_safetensors_metadata(file, "key"));
    ct_safetensors_close(file);
}
END_TEST

int main(void) {
    return run_cases(
        "shards",
        CASES({.name = "sets",
               .before = setup,
               .after = end,
               .tests = TESTS(TEST(round_trip), TEST(the_index), TEST(a_set_of_nothing),
                              TEST(a_set_replaces_another), TEST(save_refuses), TEST(refused_index),
                              TEST(names_of_windows), TEST(in_the_current_folder), TEST(cut_index),
                              TEST(a_folder), TEST(no_file))},
              {.name = "links, FIFOs and modes",
               .tags = "posix",
               .before = setup,
               .after = end,
               .tests = TESTS(TEST(accepted_index))}));
}
