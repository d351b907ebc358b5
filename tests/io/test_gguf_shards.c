/* GGUF files behind cti_shards: single files, folders, split files, other names and orders of rows;
 * values of tensors that ct_load has matched by name; who refuses GGUF. */
#include "gguf_bytes.h"
#include "nn/load.h"
#include "src/io/gguf_split.h"
#include "tests/support/suite.h"

static cti_shards shards;
static const cti_row_grid same_rows;

/* Writes a file with two tensors, NAME.w (2, 3) and NAME.b (3), and the keys of a split if count is
 * not 0. */
static void write_part(const char *file, const char *name, int64_t number, int64_t count,
                       int64_t tensors) {
    const float w[] = {1, 2, 3, 4, 5, 6}, b[] = {7, 8, 9};
    char path[512], of_w[64], of_b[64];
    strcpy(path, in_folder(file));
    snprintf(of_w, sizeof of_w, "%s.w", name);
    snprintf(of_b, sizeof of_b, "%s.b", name);
    cti_gguf_out out;
    cti_gguf_out_begin(context, "try", path, &out);
    cti_gguf_put_text(&out, "general.architecture", cti_text_of(name));
    if (count) {
        cti_gguf_put_u32(&out, "split.no", (uint32_t)number);
        cti_gguf_put_u32(&out, "split.count", (uint32_t)count);
        if (tensors >= 0) cti_gguf_put_i32(&out, "split.tensors.count", (int32_t)tensors);
    }
    cti_gguf_put_tensor(&out, of_w, ct_from_f32(context, CT_SHAPE(2, 3), w), CTI_FILE_F32,
                        same_rows, 0, false);
    cti_gguf_put_tensor(&out, of_b, ct_from_f32(context, CT_SHAPE(3), b), CTI_FILE_F16, same_rows,
                        0, false);
    ck_assert_msg(cti_gguf_out_write(&out), "%s", ct_error_message(context));
    cti_gguf_out_end(&out);
}

static bool opens(const char *path) {
    char kept[512];
    strcpy(kept, path);
    const bool ok = cti_shards_open(context, "try", kept, &shards);
    if (!ok) ck_assert(shards.files == 0 && !shards.gguf && !shards.path);
    return ok;
}
static void must_open(const char *path) {
    ck_assert_msg(opens(path), "%s", ct_error_message(context));
    ck_assert(shards.gguf && !shards.file);
}

START_TEST(single) {
    write_part("any.bin", "x", 0, 0, 0);
    must_open(in_folder("any.bin"));
    ck_assert(shards.files == 1 && shards.tensors == 2);
    const int64_t i = cti_shards_find(&shards, cti_text_of("x.b"));
    ck_assert(i == 1 && shards.tensor[i]->dtype == CTI_FILE_F16);
    ck_assert_int_eq(cti_shards_find(&shards, cti_text_of("x")), -1);
    ck_assert_ptr_null(cti_shards_metadata(&shards, cti_text_of("general.architecture")));
    cti_text name = {0};
    ck_assert(cti_gguf_text(shards.gguf, "general.architecture", &name) && !strcmp(name.at, "x"));
    cti_shards_close(&shards);
}
END_TEST

START_TEST(folders) {
    ck_refused(opens(folder), CT_ERR_IO, "is a folder with neither model.safetensors", "index");
    write_part("b.gguf", "x", 0, 0, 0);
    must_open(folder);
    ck_assert_str_eq(shards.path + strlen(shards.path) - 7, "/b.gguf");
    cti_shards_close(&shards);
    write_part("a.gguf", "x", 0, 0, 0);
    write_part("c.gguf", "x", 0, 0, 0);
    ck_refused(opens(folder), CT_ERR_FORMAT, "the folder has a.gguf and b.gguf", "name one");
    ck_assert(ct_tensors_save(context, in_folder("model.safetensors"),
                              &(ct_named){"s", ct_zeros(context, CT_F32, CT_SHAPE(1))}, 1,
                              (ct_save_opts){0}));
    ck_assert(opens(folder) && shards.file && !shards.gguf); /* safetensors stand before GGUF */
    cti_shards_close(&shards);
}
END_TEST

START_TEST(split_files) {
    write_part("m-00001-of-00003.gguf", "x", 0, 3, 6);
    write_part("m-00002-of-00003.gguf", "y", 1, 3, -1);
    write_part("m-00003-of-00003.gguf", "z", 2, 3, 6);
    for (int k = 0; k < 2; k++) {
        must_open(k ? folder : in_folder("m-00001-of-00003.gguf"));
        ck_assert(shards.files == 3 && shards.tensors == 6);
        ck_assert_int_eq(cti_shards_find(&shards, cti_text_of("z.w")), 4);
        ct_tensor *w = ct_zeros(context, CT_F32, CT_SHAPE(2, 3));
        ck_assert(cti_file_tensor_read(shards.tensor[4], 0, 6, w, 0) && ct_data_f32(w)[5] == 6);
        cti_text name = {0};
        ck_assert(cti_gguf_text(shards.gguf, "general.architecture", &name));
        ck_assert_str_eq(name.at, "x");
        cti_shards_close(&shards);
    }
    ck_refused(opens(in_folder("m-00002-of-00003.gguf")), CT_ERR_FORMAT, "key \"split.no\"",
               "this is file 2 of 3: open the first, ...-00001-of-00003.gguf");
    write_part("m-00002-of-00003.gguf", "y", 2, 3, 6);
    ck_refused(opens(folder), CT_ERR_FORMAT, "m-00002-of-00003.gguf: key \"split.no\"",
               "this is file 3 of 3, not file 2 of 3");
    write_part("m-00002-of-00003.gguf", "y", 1, 2, 6);
    ck_refused(opens(folder), CT_ERR_FORMAT, "m-00002-of-00003.gguf: key \"split.no\"",
               "this is file 2 of 2, not file 2 of 3");
    write_part("m-00002-of-00003.gguf", "x", 1, 3, 6);
    ck_refused(opens(folder), CT_ERR_FORMAT, "m-00001-of-00003.gguf: tensor \"x.",
               "is there twice");
    write_part("m-00002-of-00003.gguf", "y", 1, 3, 6);
    write_part("m-00001-of-00003.gguf", "x", 0, 3, 7);
    ck_refused(opens(folder), CT_ERR_FORMAT, "key \"split.tensors.count\": is 7",
               "the files have 6 tensors");
    write_part("m-00001-of-00003.gguf", "x", 0, 3, -1);
    must_open(folder);
    cti_shards_close(&shards);
    remove(in_folder("m-00003-of-00003.gguf"));
    ck_refused(opens(folder), CT_ERR_IO, "m-00003-of-00003.gguf: cannot open: No such file",
               "m-00001-of-00003.gguf is the first of 3");
    write_part("m-00001-of-00003.gguf", "x", 0, 2, 6);
    ck_refused(opens(folder), CT_ERR_FORMAT, "key \"split.count\": this is file 1 of 2",
               "does not end in -00001-of-00002.gguf");
    write_part("m-00001-of-00003.gguf", "x", 3, 3, 6);
    ck_refused(opens(folder), CT_ERR_FORMAT, "split.count", "file 4 of 3");
    write_part("m-00001-of-00003.gguf", "x", 0, UINT32_MAX, 6);
    ck_refused(opens(folder), CT_ERR_FORMAT, "split.count", "file 1 of 4294967295");
    write_part("m-00001-of-00003.gguf", "x", 0, 1, -1); /* one of one has any name */
    must_open(folder);
    cti_shards_close(&shards);
}
END_TEST

/* ---- other names ---- */

static cti_visited visit(void *arg, cti_shards *file, cti_file_tensor *tensor) {
    const char *mode = arg;
    const char *name = !strcmp(tensor->name.at, "x.w") ? "weight" : "bias";
    if (!strcmp(mode, "fail") && name[0] == 'b') {
        ct_fail(context, CT_ERR_FORMAT, "told to");
        return CTI_VISIT_FAIL;
    }
    if (!strcmp(mode, "drop") && name[0] == 'b') return CTI_VISIT_DROP;
    if (name[0] == 'b') tensor->offset = 1;
    if (name[0] == 'w') tensor->grid = (cti_row_grid){.a = 2, .b = 1, .cell = 1};
    return cti_shards_set_name(file, tensor, !strcmp(mode, "twice") ? "same" : name)
               ? CTI_VISIT_KEEP
               : CTI_VISIT_FAIL;
}

static bool renames(const char *mode) {
    char word[8];
    strcpy(word, mode);
    return cti_shards_rename(&shards, visit, word);
}

START_TEST(other_names) {
    write_part("x.gguf", "x", 0, 0, 0);
    must_open(folder);
    ck_assert(renames("all"));
    ck_assert(shards.tensors == 2 && cti_shards_find(&shards, cti_text_of("weight")) == 0);
    ck_assert_int_eq(cti_shards_find(&shards, cti_text_of("x.w")), -1);
    ct_module *linear =
        ct_linear_new(context, (ct_linear_opts){.in_features = 3, .out_features = 2});
    ck_assert(!cti_nn_load(linear, &shards, (ct_load_opts){0}, NULL, 0)); /* a bias of 3 */
    ck_assert_ptr_nonnull(strstr(ct_error_message(context), "bias has shape (2), file has (3)"));
    ct_error_clear(context);
    cti_shards_close(&shards);
    must_open(folder);
    ck_assert(renames("drop") && shards.tensors == 1);
    ck_assert_msg(cti_nn_load(linear, &shards, (ct_load_opts){.partial = true}, NULL, 0), "%s",
                  ct_error_message(context));
    ck_assert(ct_data_f32(ct_module_get(linear, "weight"))[5] == 6);
    cti_shards_close(&shards);
    must_open(folder);
    ck_refused(renames("twice"), CT_ERR_FORMAT, "tensor \"same\"", "is there twice");
    cti_shards_close(&shards);
    must_open(folder);
    ck_refused(renames("fail"), CT_ERR_FORMAT, "told to", "");
    cti_shards_close(&shards);
}
END_TEST

/* A type that is not read is refused when its values are asked, with what can be done. */
START_TEST(types_that_are_not_read) {
    gguf_words(GGUF_HEAD(1, 0) "s:weight 4:2 8:256 8:2 4:23 8:0 p:32 z:272");
    must_open(gguf_put("x.gguf"));
    ct_module *linear = ct_linear_new(
        context, (ct_linear_opts){.in_features = 256, .out_features = 2, .no_bias = true});
    ck_refused(cti_nn_load(linear, &shards, (ct_load_opts){0}, NULL, 0), CT_ERR_FORMAT,
               "weight is f32, file has IQ4_XS: llama-quantize --allow-requantize", "Q8_0");
    cti_shards_close(&shards);
}
END_TEST

START_TEST(refused_elsewhere) {
    write_part("x.gguf", "x", 0, 0, 0);
    char path[512];
    strcpy(path, in_folder("x.gguf"));
    ct_module *linear =
        ct_linear_new(context, (ct_linear_opts){.in_features = 3, .out_features = 2});
    const char *of_a_model = "not a safetensors file: ct_lm_open reads a language model's";
    ck_refused(ct_load(linear, path, (ct_load_opts){0}), CT_ERR_FORMAT, "x.gguf: is a GGUF file",
               of_a_model);
    ck_refused(ct_safetensors_open(context, path), CT_ERR_FORMAT, "is a GGUF file", of_a_model);
    char text[8];
    ck_refused(ct_load_metadata(context, path, "key", text, sizeof text), CT_ERR_FORMAT,
               "is a GGUF file", of_a_model);
    ck_refused(ct_load(linear, folder, (ct_load_opts){0}), CT_ERR_IO, "is a folder with neither",
               "");
}
END_TEST

int main(void) {
    return run_tests("gguf_shards", setup, teardown,
                     TESTS(TEST(single), TEST(folders), TEST(split_files), TEST(other_names),
                           TEST(types_that_are_not_read), TEST(refused_elsewhere)));
}
