/* Saves by a map: tensors that a load by the same map has read go back under their own names, in
 * its own shapes, to the same bits. */
#include "tests/support/files.h"
#include "tests/support/suite.h"

#define AS(name, theirs, ...) {.param = name, .file = theirs, __VA_ARGS__}
#define MAP(...)                                                                                   \
    (const ct_load_map[]){__VA_ARGS__},                                                            \
        (int64_t)(sizeof((ct_load_map[]){__VA_ARGS__}) / sizeof(ct_load_map))

static ct_tensor *random_of(ct_shape shape) { return ct_randn(context, CT_F32, shape); }

/* Adds a parameter, whose name is a path through modules, which are made. */
static ct_tensor *add(ct_module *m, const char *path, ct_shape shape, ct_dtype dtype) {
    char part[64];
    for (const char *dot; (dot = strchr(path, '.')); path = dot + 1) {
        snprintf(part, sizeof part, "%.*s", (int)(dot - path), path);
        ct_module *child = ct_module_child(m, part);
        ct_error_clear(context);
        m = child ? child : ct_module_add_child(m, part, ct_module_new(context, "Part"));
    }
    return ct_module_add_param(m, path, ct_full(context, dtype, shape, -1));
}

static void remove_set(const char *set) {
    DIR *dir = opendir(in_folder(set));
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char name[400];
        snprintf(name, sizeof name, "%s/%s", set, entry->d_name);
        if (entry->d_name[0] != '.') remove(in_folder(name));
    }
    if (dir) closedir(dir);
    rmdir(in_folder(set));
}

/* Two files have the same names, shapes, dtypes and bits. */
static void ck_same_files(const char *a, const char *b) {
    ct_safetensors *x = ct_safetensors_open(context, a), *y = ct_safetensors_open(context, b);
    ck_assert_msg(x && y, "%s", ct_error_message(context));
    int n = 0;
    for (ct_safetensors_entry e = {0}; ct_safetensors_next(x, &e); n++) {
        ct_tensor *p = ct_safetensors_read(x, e.name), *q = ct_safetensors_read(y, e.name);
        ck_assert_msg(p && q, "%s", ct_error_message(context));
        const ct_shape s = ct_shape_of(p), t = ct_shape_of(q);
        ck_assert_msg(s.ndim == t.ndim && !memcmp(s.dim, t.dim, (size_t)s.ndim * sizeof *s.dim),
                      "%s", e.name);
        ct_tensor *differ = ct_any(ct_ne(p, q), CT_ALL, false);
        ck_assert_msg(!ct_numel(p) || !ct_data_bool(differ)[0], "%s differs", e.name);
    }
    for (ct_safetensors_entry e = {0}; ct_safetensors_next(y, &e); n--) continue;
    ck_assert_int_eq(n, 0);
    ct_safetensors_close(x);
    ct_safetensors_close(y);
}

/* Loads by the map, forgets the file, and saves by the map: one file, shards, halves. */
static void ck_round_trip(ct_module *m, const ct_named *named, int64_t n, const ct_load_map *map,
                          int64_t n_map) {
    for (int k = 0; k < 6; k++) {
        const ct_file_float floats =
            (ct_file_float[]){CT_FILE_SAME, CT_FILE_BF16, CT_FILE_F16}[k % 3];
        const ct_save_opts plain = {.floats = floats, .shard_bytes = k < 3 ? 0 : 70};
        ct_save_opts mapped = plain;
        mapped.map = map, mapped.n_map = n_map;
        const char *theirs = in_folder(k < 3 ? "theirs.safetensors" : "theirs"),
                   *ours = in_folder(k < 3 ? "ours.safetensors" : "ours");
        ck_assert_msg(ct_tensors_save(context, theirs, named, n, plain), "%s",
                      ct_error_message(context));
        const ct_load_opts opts = {.map = map, .n_map = n_map};
        ck_assert_msg(ct_load(m, theirs, opts), "%s", ct_error_message(context));
        const int64_t live = ct_memory(context).live;
        ck_assert_msg(ct_save(m, ours, mapped), "%s", ct_error_message(context));
        ck_assert_int_eq(ct_memory(context).live, live);
        ck_same_files(theirs, ours);
        ck_assert_msg(ct_load(m, ours, opts), "%s", ct_error_message(context));
        remove_set("theirs");
        remove_set("ours");
    }
}

/* GPT-2's names and layouts: (in, out), and a prefix. */
START_TEST(gpt2) {
    enum { E = 4 };
    ct_module *m = ct_module_new(context, "GPT");
    ct_named named[32];
    static char names[32][64];
    int n = 0;
    add(m, "wte.weight", CT_SHAPE(11, E), CT_F32);
    add(m, "wpe.weight", CT_SHAPE(7, E), CT_F32);
    named[n++] = (ct_named){"transformer.wte.weight", random_of(CT_SHAPE(11, E))};
    named[n++] = (ct_named){"transformer.wpe.weight", random_of(CT_SHAPE(7, E))};
    static const struct {
        const char *name;
        int in, out; /* in 0: a vector */
    } parts[] = {{"c_attn.weight", E, 3 * E}, {"c_attn.bias", 0, 3 * E}, {"c_proj.weight", E, E},
                 {"c_proj.bias", 0, E},       {"c_fc.weight", E, 4 * E}, {"ln.weight", 0, E}};
    for (int l = 0; l < 2; l++)
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            char ours[64];
            snprintf(ours, sizeof ours, "h.%d.%s", l, parts[i].name);
            snprintf(names[n], sizeof names[n], "transformer.h.%d.%s", l, parts[i].name);
            const int in = parts[i].in, out = parts[i].out;
            add(m, ours, in ? CT_SHAPE(out, in) : CT_SHAPE(out), CT_F32);
            named[n] = (ct_named){names[n], random_of(in ? CT_SHAPE(in, out) : CT_SHAPE(out))};
            n++;
        }
    ct_module *head = ct_module_add_child(m, "head", ct_module_new(context, "Head"));
    ct_module_add_param(head, "weight", ct_module_get(m, "wte.weight"));
    static const ct_load_map map[] = {
        AS("h.*.c_attn.weight", "transformer.h.*.c_attn.weight", .transposed = true),
        AS("h.*.c_proj.weight", "transformer.h.*.c_proj.weight", .transposed = true),
        AS("h.*.c_fc.weight", "transformer.h.*.c_fc.weight", .transposed = true),
        AS("h.*.bias", "transformer.h.*.bias"),
        AS("h.*.ln.weight", "transformer.h.*.ln.weight"),
        AS("w*", "transformer.w*"),
    };
    ck_round_trip(m, named, n, map, sizeof map / sizeof *map);
}
END_TEST

/* One parameter of several tensors, transposed too, and several of one; other dtypes, no rows, a
 * scalar, three dims. */
START_TEST(rows) {
    ct_module *m = ct_module_new(context, "M");
    add(m, "qkv", CT_SHAPE(9, 4), CT_F32);
    add(m, "t", CT_SHAPE(5, 3), CT_F32);
    add(m, "gate", CT_SHAPE(2, 3), CT_F32);
    add(m, "up", CT_SHAPE(5, 3), CT_F32);
    add(m, "down", CT_SHAPE(1, 3), CT_F32);
    add(m, "none", CT_SHAPE(0, 3), CT_F32);
    add(m, "s", CT_SCALAR, CT_F64);
    add(m, "cube", CT_SHAPE(4, 2, 3), CT_F64);
    add(m, "own", CT_SHAPE(2), CT_F64);
    const ct_named named[] = {
        {"v", random_of(CT_SHAPE(3, 4))},
        {"q", random_of(CT_SHAPE(2, 4))},
        {"k", random_of(CT_SHAPE(4, 4))},
        {"t.left", random_of(CT_SHAPE(3, 2))},
        {"t.right", random_of(CT_SHAPE(3, 3))},
        {"up_gate", random_of(CT_SHAPE(3, 8))},
        {"nothing", random_of(CT_SHAPE(0, 3))},
        {"scale", ct_full(context, CT_F64, CT_SCALAR, 0.5)},
        {"cube.1", ct_full(context, CT_F64, CT_SHAPE(1, 2, 3), 0.25)},
        {"cube.0", ct_full(context, CT_F64, CT_SHAPE(3, 2, 3), 4)},
        {"own", ct_full(context, CT_F64, CT_SHAPE(2), -8)},
    };
    ck_round_trip(m, named, sizeof named / sizeof *named,
                  MAP(AS("qkv", "k", .param_start = 2), AS("qkv", "v", .param_start = 6),
                      AS("qkv", "q", .rows = 2), AS("t", "t.left", .transposed = true),
                      AS("t", "t.right", .param_start = 2, .transposed = true),
                      AS("gate", "up_gate", .file_start = 5, .rows = 2, .transposed = true),
                      AS("up", "up_gate", .rows = 5, .transposed = true),
                      AS("down", "up_gate", .file_start = 7, .transposed = true),
                      AS("none", "nothing"), AS("s", "scale"), AS("cube", "cube.0", .rows = 3),
                      AS("cube", "cube.1", .param_start = 3)));
}
END_TEST

/* The tensors of a file that was saved, as "a b ". */
static const char *names_of(const char *path) {
    static char text[256];
    text[0] = 0;
    ct_safetensors *file = ct_safetensors_open(context, path);
    for (ct_safetensors_entry e = {0}; ct_safetensors_next(file, &e);) {
        strcat(text, e.name);
        strcat(text, " ");
    }
    ct_safetensors_close(file);
    return text;
}

START_TEST(tied) {
    ct_module *m = ct_module_new(context, "M"), *head = ct_module_new(context, "Head");
    ct_tensor *w = add(m, "wte.weight", CT_SHAPE(4, 2), CT_F32);
    add(m, "b", CT_SHAPE(2), CT_F32);
    ct_module_add_child(m, "head", head);
    ct_module_add_param(head, "weight", w);
    static const struct {
        ct_load_map map[3];
        int64_t n;
        const char *names;
    } cases[] = {
        {{AS("*", "o.*")}, 1, "o.b o.wte.weight "},
        {{AS("head.*", "o.*")}, 1, "b o.weight "},
        {{AS("head.weight", "o"), AS("b", "c")}, 2, "c o "},
        {{AS("head.weight", "o"), AS("*", "p.*")}, 2, "p.b p.wte.weight o "},
        {{AS("head.weight", "o"), AS("wte.weight", "e")}, 2, "b e o "},
        {{AS("head.weight", "one"), AS("wte.weight", "one")}, 2, "b one "}, /* the same rows */
        {{AS("wte.weight", "top", .rows = 1), AS("wte.*", "rest", .param_start = 1)},
         2,
         "b top rest "},
        {{AS("b", "c")}, 1, "c wte.weight "},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const char *path = in_folder("saved.safetensors");
        ct_init_normal(w, 0, 1);
        ct_tensor *kept = ct_clone(w);
        ck_assert_msg(ct_save(m, path, (ct_save_opts){.map = cases[k].map, .n_map = cases[k].n}),
                      "%zu: %s", k, ct_error_message(context));
        ck_assert_str_eq(names_of(path), cases[k].names);
        ct_init_constant(w, 0);
        ck_assert_msg(ct_load(m, path, (ct_load_opts){.map = cases[k].map, .n_map = cases[k].n}),
                      "%zu: %s", k, ct_error_message(context));
        ck_assert_mem_eq(ct_data_f32(w), ct_data_f32(kept), 32);
    }
}
END_TEST

/* A file that has both names of a parameter, which entries without a * call. */
START_TEST(both_names) {
    ct_module *m = ct_module_new(context, "M"), *head = ct_module_new(context, "Head");
    ct_module_add_child(m, "head", head);
    ct_module_add_param(head, "weight", add(m, "wte.weight", CT_SHAPE(4, 2), CT_F32));
    ct_tensor *w = random_of(CT_SHAPE(4, 2));
    const ct_named named[] = {{"emb", w}, {"out", ct_contiguous(ct_transpose(w, 0, 1))}};
    ck_round_trip(m, named, 2,
                  MAP(AS("wte.weight", "emb"), AS("head.weight", "out", .transposed = true)));
}
END_TEST

/* The tensors of a program, with strides, and while an error is pending. */
START_TEST(tensors) {
    ct_tensor *w = random_of(CT_SHAPE(3, 4)), *t = ct_transpose(w, 0, 1);
    const ct_named named[] = {{"a.w", t}, {"b", w}};
    const char *path = in_folder("saved.safetensors");
    static const ct_load_map map[] = {AS("a.*", "x.*", .transposed = true),
                                      AS("a.w", "x.w", .rows = 1, .transposed = true),
                                      AS("b", "b0", .rows = 1), AS("b", "b1", .param_start = 1)};
    const ct_load_map good[] = {map[0], map[2], map[3]};
    ct_fail(context, CT_ERR_GRAD, "pending");
    ck_assert(ct_tensors_save(context, path, named, 2, (ct_save_opts){.map = good, .n_map = 3}));
    ck_assert_int_eq(ct_error(context), CT_ERR_GRAD);
    ct_error_clear(context);
    ct_safetensors *file = ct_safetensors_open(context, path);
    ct_tensor *x = ct_safetensors_read(file, "x.w"), *b1 = ct_safetensors_read(file, "b1");
    ck_assert_mem_eq(ct_data_f32(x), ct_data_f32(w), 48);
    ck_assert_mem_eq(ct_data_f32(b1), ct_data_f32(w) + 4, 32);
    ct_safetensors_close(file);
    ck_refused(ct_tensors_save(context, path, named, 2, (ct_save_opts){.map = map, .n_map = 4}),
               CT_ERR_ARGUMENT, path, "a.w: two entries of the map take its rows from 0 on");
}
END_TEST

START_TEST(refused) {
    ct_module *m = ct_module_new(context, "M");
    add(m, "w", CT_SHAPE(4, 3), CT_F32);
    add(m, "v", CT_SHAPE(4, 3), CT_F32);
    add(m, "d", CT_SHAPE(4, 3), CT_F64);
    add(m, "b", CT_SHAPE(5), CT_F32);
    add(m, "s", CT_SCALAR, CT_F32);
    add(m, "r", CT_SCALAR, CT_F32);
    const char *path = in_folder("old");
    ck_assert(ct_save(m, path, (ct_save_opts){0}));
    char before[4096], after[4096];
    const size_t size = read_all(path, before, sizeof before);
#define REFUSED(says, ...) {{__VA_ARGS__}, says}
    static const struct {
        ct_load_map map[3];
        const char *says;
    } cases[] = {
        REFUSED("map entry 0 (NULL): param or file is NULL", AS(NULL, "a")),
        REFUSED("map entry 1 (x): no parameter has such a name", AS("w", "a"), AS("x", "a")),
        REFUSED("more than one *", AS("*w*", "a")),
        REFUSED("is negative", AS("w", "a", .rows = -1)),
        REFUSED("w: no entry of the map takes its rows from 3 on", AS("w", "a", .rows = 3)),
        REFUSED("w: no entry of the map takes its rows from 0 on", AS("w", "a", .param_start = 1)),
        REFUSED("w: no entry of the map takes its rows from 1 on", AS("w", "a", .rows = 1),
                AS("w", "c", .param_start = 2)),
        REFUSED("w: two entries of the map take its rows from 1 on", AS("w", "a", .rows = 2),
                AS("w", "c", .param_start = 1)),
        REFUSED("w: two entries of the map take its rows from 0 on", AS("w", "a"), AS("*w", "c")),
        REFUSED("w has 4 rows, and an entry of the map takes 5 from 0 on", AS("w", "a", .rows = 5)),
        REFUSED("w has 4 rows, and an entry of the map takes 9223372036854775807 from 1 on",
                AS("w", "a", .rows = INT64_MAX, .param_start = 1)),
        REFUSED("from 9223372036854775807 on", AS("w", "a"),
                AS("w", "c", .param_start = INT64_MAX)),
        REFUSED("tensor \"a\" of the file: nothing fills its rows from 0 on",
                AS("w", "a", .file_start = 1)),
        REFUSED("tensor \"a\" of the file: nothing fills its rows from 4 on", AS("w", "a"),
                AS("v", "a", .file_start = 5)),
        REFUSED("tensor \"a\" of the file: nothing fills its rows from 4 on", AS("w", "a"),
                AS("v", "a", .file_start = INT64_MAX)),
        REFUSED("tensor \"a\" of the file: w and v both fill rows from 3 on", AS("w", "a"),
                AS("v", "a", .file_start = 3)),
        REFUSED("tensor \"v\" of the file: w and v both fill rows from 0 on", AS("w", "v")),
        REFUSED("rows of tensor \"a\" of the file: w is f32 (4, 3), d is f64 (4, 3)", AS("w", "a"),
                AS("d", "a", .file_start = 4)),
        REFUSED("rows of tensor \"a\" of the file: w is f32 (4, 3), b is f32 (5)", AS("w", "a"),
                AS("b", "a", .file_start = 4)),
        REFUSED("of w and v one is transposed", AS("w", "a"),
                AS("v", "a", .file_start = 4, .transposed = true)),
        REFUSED("b has shape (5), and only a matrix is transposed",
                AS("b", "a", .transposed = true)),
        REFUSED("tensor \"a\" of the file: 2 scalars are no rows", AS("s", "a"),
                AS("r", "a", .file_start = 1)),
        REFUSED("no tensor can have the name __metadata__", AS("w", "__metadata__")),
        REFUSED("is not UTF-8", AS("w", "\xff")),
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ct_save_opts opts = {.map = cases[k].map};
        while (opts.n_map < 3 && (cases[k].map[opts.n_map].param || cases[k].map[opts.n_map].file))
            opts.n_map++;
        const int64_t live = ct_memory(context).live;
        ck_refused(ct_save(m, path, opts), CT_ERR_ARGUMENT, path, cases[k].says);
        ck_assert_int_eq(ct_memory(context).live, live);
    }
    ck_refused(ct_save(m, path, (ct_save_opts){.n_map = 1}), CT_ERR_ARGUMENT, path, "map is NULL");
    ck_refused(ct_save(m, path, (ct_save_opts){.n_map = -1}), CT_ERR_ARGUMENT, path, "negative");
    ck_assert(read_all(path, after, sizeof after) == size && !memcmp(before, after, size));
    ck_assert_int_eq(files_in_folder(), 1);
}
END_TEST

int main(void) {
    return run_tests(
        "save map", setup, teardown,
        TESTS(TEST(gpt2), TEST(rows), TEST(tied), TEST(both_names), TEST(tensors), TEST(refused)));
}
