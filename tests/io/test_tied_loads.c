/* Loads of a parameter that has several names, with and without a map, of files that have it under
 * any of them; tensors that are ignored; matrices that were perhaps to be transposed. */
#include "tests/support/files.h"
#include "tests/support/suite.h"

#include <math.h>

#define AS(name, theirs, ...) {.param = name, .file = theirs, __VA_ARGS__}

/* wte.weight (5, 3), which is head.weight and tail.weight too, and a vector. */
static ct_module *tied(void) {
    ct_module *m = ct_module_new(context, "M");
    const ct_embedding_opts opts = {.num_embeddings = 5, .embedding_dim = 3};
    ct_module *wte = ct_module_add_child(m, "wte", ct_embedding_new(context, opts));
    for (int i = 0; i < 2; i++) {
        ct_module *other = ct_module_add_child(m, i ? "tail" : "head", ct_module_new(context, "H"));
        ct_module_add_param(other, "weight", ct_module_get(wte, "weight"));
    }
    ct_init_constant(ct_module_get(m, "wte.weight"), -1);
    ct_module_add_param(m, "bias", ct_full(context, CT_F32, CT_SHAPE(3), -1));
    return m;
}

static const char *const prefixes[] = {"", "_orig_mod."};
static const char *const names[] = {"wte.weight", "head.weight", "tail.weight"};

/* A file, or a set of shards of one tensor each, of a bias and the tensors that are not NULL. */
static const char *put_tied(ct_tensor *const tensor[3], const char *prefix, bool sharded) {
    char name[4][64];
    ct_named named[4];
    int n = 0;
    for (int i = 2; i >= 0; i--) {
        if (!tensor[i]) continue;
        snprintf(name[n], sizeof name[n], "%s%s", prefix, names[i]);
        named[n] = (ct_named){name[n], tensor[i]}, n++;
    }
    snprintf(name[n], sizeof name[n], "%sbias", prefix);
    named[n] = (ct_named){name[n], ct_full(context, CT_F32, CT_SHAPE(3), 8)}, n++;
    const char *path = in_folder(sharded ? "set" : "file.safetensors");
    const ct_save_opts opts = {.shard_bytes = sharded ? 1 : 0};
    ck_assert_msg(ct_tensors_save(context, path, named, n, opts), "%s", ct_error_message(context));
    return path;
}

static void remove_set(void) {
    DIR *dir = opendir(in_folder("set"));
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char name[300];
        snprintf(name, sizeof name, "set/%s", entry->d_name);
        if (entry->d_name[0] != '.') remove(in_folder(name));
    }
    if (dir) closedir(dir);
    rmdir(in_folder("set"));
}

static void ck_values(ct_module *m, ct_tensor *want) {
    float a[15], b[15];
    ck_assert(ct_to_f32(ct_module_get(m, "tail.weight"), a, 15) && ct_to_f32(want, b, 15));
    ck_assert_mem_eq(a, b, sizeof a);
}

/* Each set of names, with values that are equal, or of which one differs in one bit. */
START_TEST(any_names) {
    static const ct_load_map map[] = {AS("*", "_orig_mod.*")};
    ct_tensor *old = ct_full(context, CT_F32, CT_SHAPE(5, 3), -1);
    for (int k = 0; k < 8 * 2 * 2 * 3; k++) {
        const int there = k % 8, mapped = k / 8 % 2, sharded = k / 16 % 2, other = k / 32;
        ct_tensor *w = ct_randn(context, CT_F32, CT_SHAPE(5, 3)), *one = ct_clone(w), *tensor[3];
        ct_data_f32(one)[7] = nextafterf(ct_data_f32(one)[7], 9);
        for (int i = 0; i < 3; i++) tensor[i] = there >> i & 1 ? i == other ? one : w : NULL;
        const char *path = put_tied(tensor, prefixes[mapped], sharded);
        const bool differ = there >> other & 1 && there != 1 << other;
        for (int partial = 0; partial < 2; partial++) {
            ct_module *m = tied();
            ct_load_report report;
            const ct_load_opts opts = {
                .map = map, .n_map = mapped, .partial = partial, .report = &report};
            const int64_t live = ct_memory(context).live;
            const bool done = ct_load(m, path, opts);
            ck_assert_int_eq(ct_memory(context).live, live);
            ck_assert_msg(done == (partial || (there && !differ)), "case %d: %s", k,
                          ct_error_message(context));
            if (differ && !partial) {
                const int second = other == 0 ? (there & 2 ? 1 : 2) : other;
                ck_refused(done, CT_ERR_FORMAT, names[second], "are one tensor of the module");
            } else if (!there && !partial) {
                ck_refused(done, CT_ERR_FORMAT, "missing: ", "wte.weight");
            }
            ck_assert(report.mismatched == differ && report.missing == !there);
            ck_assert(report.unexpected == 0 &&
                      report.loaded == (done ? 1 + (there && !differ) : 0));
            if (differ) ck_assert_str_eq(report.mismatched_names[0], "wte.weight");
            ck_values(m, done && there && !differ ? there == 1 << other ? one : w : old);
            ck_assert(ct_data_f32(ct_module_get(m, "bias"))[2] == (done ? 8 : -1));
            ct_module_free(m);
        }
        remove_set();
    }
}
END_TEST

/* Equal are values once they are converted; shapes must fit under each name. */
START_TEST(converted) {
    ct_tensor *w = ct_cast(ct_cast(ct_randn(context, CT_F32, CT_SHAPE(5, 3)), CT_F64), CT_F32),
              *wide = ct_cast(w, CT_F64),
              *nan = ct_full(context, CT_F32, CT_SHAPE(5, 3), (double)NAN);
    ct_module *m = tied();
    const char *path = put_tied((ct_tensor *[]){wide, w, NULL}, "", false);
    ck_assert_msg(ct_load(m, path, (ct_load_opts){0}), "%s", ct_error_message(context));
    ck_values(m, w);
    ct_data_f64(wide)[3] *= 1 + 1e-12; /* the same f32 */
    path = put_tied((ct_tensor *[]){w, wide, w}, "", false);
    ck_assert_msg(ct_load(m, path, (ct_load_opts){0}), "%s", ct_error_message(context));
    path = put_tied((ct_tensor *[]){nan, nan, NULL}, "", false);
    ck_assert_msg(ct_load(m, path, (ct_load_opts){0}), "%s", ct_error_message(context));
    path = put_tied((ct_tensor *[]){w, ct_zeros(context, CT_F32, CT_SHAPE(3, 5)), w}, "", false);
    ck_refused(ct_load(m, path, (ct_load_opts){0}), CT_ERR_FORMAT, path,
               "head.weight has shape (5, 3), file has (3, 5): an entry of a map with");
    ck_assert(ct_load(m, path, (ct_load_opts){.partial = true})); /* the others fit */
    ck_values(m, w);
    ct_load_report report;
    path = put_tied((ct_tensor *[]){ct_zeros(context, CT_F32, CT_SHAPE(3, 5)), w, NULL}, "", false);
    m = tied();
    ck_assert(ct_load(m, path, (ct_load_opts){.partial = true, .report = &report}));
    ck_values(m, w);
    ck_assert(report.loaded == 2 && report.mismatched == 0); /* the second name fits */
}
END_TEST

/* Names that are mapped, in pieces too, beside names that are not. */
START_TEST(some_names_mapped) {
    ct_tensor *w = ct_randn(context, CT_F32, CT_SHAPE(5, 3)),
              *t = ct_contiguous(ct_transpose(w, 0, 1)), *top = ct_clone(ct_narrow(w, 0, 0, 2)),
              *rest = ct_clone(ct_narrow(w, 0, 2, 3)),
              *bias = ct_zeros(context, CT_F32, CT_SHAPE(3));
    const ct_named named[] = {
        {"bias", bias}, {"top", top}, {"rest", rest}, {"t", t}, {"wte.weight", w}};
    static const ct_load_map map[] = {
        AS("tail.weight", "top"), AS("tail.*", "rest", .param_start = 2),
        AS("tail.weight", "rest", .param_start = 2), AS("head.*", "t", .transposed = true)};
    const char *path = in_folder("pieces.safetensors");
    for (int left_out = 1; left_out <= 5; left_out++) {
        ct_named some[5];
        int n = 0;
        for (int i = 0; i < 5; i++)
            if (i != left_out) some[n++] = named[i];
        ck_assert(ct_tensors_save(context, path, some, n, (ct_save_opts){0}));
        ct_module *m = tied();
        const ct_load_opts opts = {.map = map, .n_map = 4};
        const bool done = ct_load(m, path, opts);
        if (left_out == 1) ck_refused(done, CT_ERR_FORMAT, path, "missing: top for tail.weight");
        else if (left_out == 2) ck_refused(done, CT_ERR_FORMAT, path, "rest for tail.weight");
        else ck_assert_msg(done, "%d: %s", left_out, ct_error_message(context));
        if (done) ck_values(m, w);
        /* partial: any name that is whole */
        m = tied();
        ck_assert(ct_load(m, path, (ct_load_opts){.map = map, .n_map = 4, .partial = true}));
        ck_values(m, w);
    }
    ct_data_f32(rest)[1] += 1;
    ck_assert(ct_tensors_save(context, path, named, 5, (ct_save_opts){0}));
    ct_module *m = tied();
    ck_refused(ct_load(m, path, (ct_load_opts){.map = map, .n_map = 4}), CT_ERR_FORMAT,
               "wte.weight and top for tail.weight are one tensor",
               "the file has different values for them");
    /* a map from a name to itself is like none */
    static const ct_load_map same[] = {AS("*", "*")};
    ct_data_f32(w)[1] += 1;
    const ct_named both[] = {{"wte.weight", ct_zeros(context, CT_F32, ct_shape_of(w))},
                             {"bias", bias},
                             {"head.weight", w}};
    ck_assert(ct_tensors_save(context, path, both, 3, (ct_save_opts){0}));
    ck_refused(ct_load(tied(), path, (ct_load_opts){.map = same, .n_map = 1}), CT_ERR_FORMAT, path,
               ": wte.weight and head.weight are one tensor");
}
END_TEST

/* A checkpoint that others have written may have both names. */
START_TEST(checkpoints) {
    static const char *const keys[] = {"format", "optim", "step", "seed", "stream"};
    for (int differ = 0; differ < 2; differ++) {
        ct_module *m = tied();
        ct_optim *optim = ct_sgd_new(m, (ct_sgd_opts){0});
        ct_checkpoint run = {.module = m, .optim = optim, .step = 7};
        const char *path = in_folder("run");
        ck_assert(ct_checkpoint_save(path, &run));
        ct_safetensors *file = ct_safetensors_open(context, path);
        ct_named named[32];
        int64_t n = 0;
        for (ct_safetensors_entry e = {0}; ct_safetensors_next(file, &e); n++)
            named[n] = (ct_named){e.name, ct_safetensors_read(file, e.name)};
        named[n] = (ct_named){"model.head.weight", ct_full(context, CT_F32, CT_SHAPE(5, 3), -1)};
        ct_data_f32(named[n++].tensor)[14] -= (float)differ;
        const char *metadata[] = {CHECKSUM, NULL, NULL, NULL, NULL, NULL,
                                  NULL,     NULL, NULL, NULL, NULL, NULL};
        for (int k = 0; k < 5; k++) {
            metadata[2 + 2 * k] = keys[k];
            metadata[3 + 2 * k] = ct_safetensors_metadata(file, keys[k]);
        }
        const char *both = in_folder("both");
        ck_assert(ct_tensors_save(context, both, named, n, (ct_save_opts){.metadata = metadata}));
        ct_safetensors_close(file);
        seal_file(both);
        run.step = 0;
        const bool done = ct_checkpoint_load(both, &run);
        if (differ)
            ck_refused(done, CT_ERR_FORMAT, both,
                       "model.wte.weight and model.head.weight are one tensor of the module");
        else ck_assert_msg(done && run.step == 7, "%s", ct_error_message(context));
        ck_assert(ct_data_f32(ct_module_get(m, "wte.weight"))[14] == -1);
    }
}
END_TEST

/* A buffer of two names. */
START_TEST(buffers) {
    ct_module *m = ct_module_new(context, "M"), *child = ct_module_new(context, "C");
    ct_module_add_child(m, "child", child);
    ct_module_add_buffer(m, "mask", ct_ones(context, CT_BOOL, CT_SHAPE(3)), true);
    ct_module_add_buffer(child, "mask", ct_module_get(m, "mask"), true);
    const ct_named both[] = {{"child.mask", ct_zeros(context, CT_BOOL, CT_SHAPE(3))},
                             {"mask", ct_ones(context, CT_BOOL, CT_SHAPE(3))}};
    const char *path = in_folder("buffers");
    ck_assert(ct_tensors_save(context, path, both, 1, (ct_save_opts){0}));
    ck_assert_msg(ct_load(m, path, (ct_load_opts){0}), "%s", ct_error_message(context));
    ck_assert(!ct_data_bool(ct_module_get(m, "mask"))[1]);
    ck_assert(ct_tensors_save(context, path, both, 2, (ct_save_opts){0}));
    ck_refused(ct_load(m, path, (ct_load_opts){0}), CT_ERR_FORMAT, path, "mask and child.mask are");
}
END_TEST

/* ---- tensors that nothing needs ---- */

START_TEST(ignored) {
    ct_tensor *w = ct_randn(context, CT_F32, CT_SHAPE(5, 3)),
              *other = ct_zeros(context, CT_F32, CT_SCALAR);
    const ct_named named[] = {
        {"wte.weight", w},         {"bias", ct_narrow(w, 0, 0, 1)}, {"h.0.attn.bias", other},
        {"h.11.attn.bias", other}, {"h.0.attn.masked_bias", other}, {"\xc3\xa9", other},
        {"head.weight", ct_neg(w)}};
    static const struct {
        const char *ignore[5];
        const char *says; /* NULL: it is loaded */
        int64_t ignored;
    } cases[] = {
        {{NULL}, "unexpected: h.0.attn.bias, h.11.attn.bias, h.0.attn.masked_bias, \xc3\xa9", 0},
        {{"h.*.attn.bias", NULL}, "unexpected: h.0.attn.masked_bias, \xc3\xa9", 2},
        {{"h.?.attn.bias", "h.*bias"}, "unexpected: \xc3\xa9", 3},
        {{"h.*bias", "?"}, NULL, 4},
        {{"h.*bias", "none*", "??"}, "unexpected: \xc3\xa9", 3}, /* one character of two bytes */
        {{"*"}, NULL, 4},                                        /* not what a parameter needs */
        {{"h.*", ""}, "unexpected: \xc3\xa9", 3},
    };
    const char *path = in_folder("gpt2");
    ck_assert(ct_tensors_save(context, path, named, 6, (ct_save_opts){0}));
    ct_load_report report;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ct_module *m = tied();
        ct_module_get(m, "bias"); /* (3), the file's is (1, 3) */
        ct_load_opts opts = {.ignore = cases[k].ignore, .report = &report};
        ck_refused(ct_load(m, path, opts), CT_ERR_FORMAT, path, "bias has shape (3)");
        m = ct_module_new(context, "M");
        ct_module_add_param(m, "bias", ct_zeros(context, CT_F32, CT_SHAPE(1, 3)));
        const ct_embedding_opts wte = {.num_embeddings = 5, .embedding_dim = 3};
        ct_module_add_child(m, "wte", ct_embedding_new(context, wte));
        const bool done = ct_load(m, path, opts);
        if (cases[k].says) ck_refused(done, CT_ERR_FORMAT, path, cases[k].says);
        else ck_assert_msg(done, "%s", ct_error_message(context));
        ck_assert(report.ignored == cases[k].ignored && report.unexpected == 4 - report.ignored);
        ck_assert(report.loaded == (done ? 2 : 0) && report.missing == 0);
    }
    ck_assert_str_eq(report.ignored_names[0], "h.0.attn.bias");
    const char *printed = printed_report(&report);
    ck_assert_ptr_nonnull(strstr(printed, "\nignored 3: h.0.attn.bias, h.11.attn.bias, h.0.a"));
}
END_TEST

/* Of a shared parameter's names one that is ignored is not compared, unless it is the only one. */
START_TEST(ignored_names) {
    ct_tensor *w = ct_randn(context, CT_F32, CT_SHAPE(5, 3)), *other = ct_neg(w);
    static const char *const head[] = {"head.*", NULL}, *const all[] = {"*.weight", NULL};
    ct_module *m = tied();
    ct_load_report report;
    ct_load_opts opts = {.ignore = head, .report = &report};
    const char *path = put_tied((ct_tensor *[]){w, other, NULL}, "", false);
    ck_assert_msg(ct_load(m, path, opts), "%s", ct_error_message(context));
    ck_values(m, w);
    ck_assert(report.ignored == 1 && report.loaded == 2 && report.unexpected == 0);
    ck_assert_str_eq(report.ignored_names[0], "head.weight");
    path = put_tied((ct_tensor *[]){NULL, other, NULL}, "", false);
    ck_assert_msg(ct_load(m, path, opts), "%s", ct_error_message(context));
    ck_values(m, other);
    ck_assert(report.ignored == 0 && report.loaded == 2);
    opts.ignore = all;
    path = put_tied((ct_tensor *[]){w, other, NULL}, "", false);
    ck_refused(ct_load(m, path, opts), CT_ERR_FORMAT, path, "wte.weight and head.weight are one");
    /* a load by a map */
    static const char *const theirs[] = {"_orig_mod.wte.*", NULL};
    static const ct_load_map map[] = {AS("*", "_orig_mod.*")};
    path = put_tied((ct_tensor *[]){w, other, NULL}, "_orig_mod.", false);
    opts = (ct_load_opts){.ignore = theirs, .map = map, .n_map = 1, .report = &report};
    ck_assert_msg(ct_load(m, path, opts), "%s", ct_error_message(context));
    ck_values(m, other);
    ck_assert(report.ignored == 1 && report.loaded == 2);
}
END_TEST

/* ---- transposed ---- */

/* The shape of a transformer's block as GPT-2 has it, (in, out). */
START_TEST(square_matrices) {
    enum { E = 4, SHAPES = 6 };
    static const char *const theirs[] = {"h.0.attn.c_attn.weight", "h.0.attn.c_proj.weight",
                                         "h.0.mlp.c_fc.weight",    "h.0.mlp.c_proj.weight",
                                         "other.weight",           "h.0.ln.weight"};
    const ct_shape shape[SHAPES] = {CT_SHAPE(E, 3 * E), CT_SHAPE(E, E), CT_SHAPE(E, 4 * E),
                                    CT_SHAPE(4 * E, E), CT_SHAPE(9, 9), CT_SHAPE(E)};
    ct_module *m = ct_module_new(context, "Block");
    ct_named named[SHAPES];
    for (int i = 0; i < SHAPES; i++) {
        char name[] = "a";
        name[0] = (char)('a' + i);
        const ct_shape ours = i < 4 ? CT_SHAPE(shape[i].dim[1], shape[i].dim[0]) : shape[i];
        ct_module_add_param(m, name, ct_zeros(context, CT_F32, ours));
        named[i] = (ct_named){theirs[i], ct_randn(context, CT_F32, shape[i])};
    }
    const char *path = in_folder("block");
    ck_assert(ct_tensors_save(context, path, named, SHAPES, (ct_save_opts){0}));
    ct_load_map map[SHAPES];
    static const char *const ours[] = {"a", "b", "c", "d", "e", "f"};
    ct_load_report report;
    for (int k = 0; k < 3; k++) { /* all transposed; c_proj forgotten; none */
        for (int i = 0; i < SHAPES; i++)
            map[i] = (ct_load_map){.param = ours[i],
                                   .file = theirs[i],
                                   .transposed = i < 4 && k < 2 && !(k == 1 && i == 1)};
        const ct_load_opts opts = {.map = map, .n_map = SHAPES, .report = &report};
        const bool done = ct_load(m, path, opts);
        if (k == 2)
            ck_refused(done, CT_ERR_FORMAT,
                       "a is f32 (12, 4), file has F32 (4, 12) for rows from 0 on: `.transposed = "
                       "true` would fit; ",
                       "d is f32 (4, 16), file has F32 (16, 4) for rows from 0 on: `.tr");
        else ck_assert_msg(done, "%s", ct_error_message(context));
        ck_assert_int_eq(report.square, k == 1);
        ck_assert_str_eq(report.square_names[0], k == 1 ? "b" : "");
    }
    /* pieces of a parameter, and one that no entry names */
    map[1] = (ct_load_map)AS("b", "h.0.attn.c_proj.weight", .rows = 2);
    map[2] = (ct_load_map)AS("b", "h.0.attn.c_proj.weight", .param_start = 2, .file_start = 2);
    map[0].transposed = true;
    ct_load_opts opts = {.map = map, .n_map = 3, .report = &report, .partial = true};
    ck_assert(ct_load(m, path, opts) && report.square == 1 && report.loaded == 2);
    ct_module *own = ct_module_new(context, "Own");
    ct_module_add_param(own, "q", ct_zeros(context, CT_F32, CT_SHAPE(3 * E, E)));
    ct_module *at = own;
    static const char *const path_of[] = {"h", "0", "attn", "c_proj"};
    for (int i = 0; i < 4; i++)
        at = ct_module_add_child(at, path_of[i], ct_module_new(context, "Part"));
    ct_module_add_param(at, "weight", ct_zeros(context, CT_F32, CT_SHAPE(E, E)));
    map[0].param = "q";
    opts.n_map = 1;
    ck_assert_msg(ct_load(own, path, opts), "%s", ct_error_message(context));
    ck_assert(report.square == 1 && report.loaded == 2);
    ck_assert_str_eq(report.square_names[0], "h.0.attn.c_proj.weight");
}
END_TEST

START_TEST(messages_of_shapes) {
    ct_tensor *w = ct_randn(context, CT_F32, CT_SHAPE(2, 5));
    const char *path = in_folder("w");
    ck_assert(ct_tensors_save(context, path, &(ct_named){"w", w}, 1, (ct_save_opts){0}));
    ct_module *m = ct_module_new(context, "M");
    ct_module_add_param(m, "w", ct_zeros(context, CT_F32, CT_SHAPE(5, 2)));
    ck_refused(ct_load(m, path, (ct_load_opts){0}), CT_ERR_FORMAT, path,
               "w has shape (5, 2), file has (2, 5): an entry of a map with `.transposed = true` "
               "would fit");
    static const struct {
        ct_load_map entry;
        const char *says;
    } cases[] = {
        {AS("w", "w"), "(2, 5) for rows from 0 on: `.transposed = true` would fit"},
        {AS("w", "w", .rows = 3), "(2, 5) for rows from 0 on: `.transposed = true` would fit"},
        {AS("w", "w", .rows = 6), "(2, 5) for rows from 0 on"},
        {AS("w", "w", .file_start = 6), "(2, 5) for rows from 0 on"},
        {AS("w", "w", .file_start = 6, .transposed = true), "(2, 5) transposed for rows from 0 on"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const ct_load_opts opts = {.map = &cases[k].entry, .n_map = 1};
        ck_assert(!ct_load(m, path, opts));
        const char *message = ct_error_message(context), *end = message + strlen(message);
        ck_assert_msg(strlen(message) > strlen(cases[k].says) &&
                          !strcmp(end - strlen(cases[k].says), cases[k].says),
                      "%s", message);
        ct_error_clear(context);
    }
    m = ct_module_new(context, "M");
    ct_module_add_param(m, "w", ct_zeros(context, CT_F32, CT_SHAPE(2, 5)));
    const ct_load_map entry = AS("w", "w", .transposed = true);
    ck_refused(ct_load(m, path, (ct_load_opts){.map = &entry, .n_map = 1}), CT_ERR_FORMAT, path,
               "(2, 5) transposed for rows from 0 on: it fits without `.transposed`");
}
END_TEST

int main(void) {
    return run_tests("tied loads", setup, teardown,
                     TESTS(TEST(any_names), TEST(converted), TEST(some_names_mapped),
                           TEST(checkpoints), TEST(buffers), TEST(ignored), TEST(ignored_names),
                           TEST(square_matrices), TEST(messages_of_shapes)));
}
