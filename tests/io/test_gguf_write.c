/* GGUF files that are written: their bytes, and the values that come back from them, in another
 * order of rows, transposed, with an offset, rounded to each type, by any number of threads. */
#include <math.h>

#include "src/core/block_matrix.h"

#include "gguf_bytes.h"
#include "tests/support/suite.h"

static const cti_row_grid same_rows;

static const char *written(void) { return in_folder("out.gguf"); }

static size_t read_back(unsigned char *bytes, size_t room) {
    FILE *file = fopen(written(), "rb");
    ck_assert_ptr_nonnull(file);
    const size_t n = fread(bytes, 1, room, file);
    fclose(file);
    return n;
}

/* ---- bytes ---- */

START_TEST(keys_and_bytes) {
    cti_gguf_out out;
    char path[512];
    strcpy(path, written());
    ck_assert(cti_gguf_out_begin(context, "try", path, &out));
    cti_gguf_put_text(&out, "general.architecture", cti_text_of("toy"));
    cti_gguf_put_u32(&out, "u", UINT32_MAX);
    cti_gguf_put_i32(&out, "i", -3);
    cti_gguf_put_f32(&out, "f", 1.5F);
    cti_gguf_put_flag(&out, "b", true);
    cti_gguf_put_array(&out, "none", CTI_GGUF_STRING, 0);
    cti_gguf_put_array(&out, "texts", CTI_GGUF_STRING, 2);
    cti_gguf_add_text(&out, cti_text_of(""));
    cti_gguf_add_text(&out, cti_text_of("caf\xc3\xa9"));
    cti_gguf_put_array(&out, "us", CTI_GGUF_U32, 1);
    cti_gguf_add_u32(&out, 7);
    cti_gguf_put_array(&out, "is", CTI_GGUF_I32, 2);
    cti_gguf_add_i32(&out, -1);
    cti_gguf_add_i32(&out, 2);
    cti_gguf_put_array(&out, "fs", CTI_GGUF_F32, 1);
    cti_gguf_add_f32(&out, -2);
    cti_gguf_put_array(&out, "bs", CTI_GGUF_BOOL, 2);
    cti_gguf_add_flag(&out, false);
    cti_gguf_add_flag(&out, true);
    const float values[6] = {0, 1, 2, 3, 4, -0.5F};
    ct_tensor *matrix = ct_from_f32(context, CT_SHAPE(2, 3), values),
              *scalar = ct_full(context, CT_F32, CT_SCALAR, 1);
    cti_gguf_put_tensor(&out, "w", matrix, CTI_FILE_F32, same_rows, 0, false);
    cti_gguf_put_tensor(&out, "t", matrix, CTI_FILE_F16, same_rows, 0, true);
    cti_gguf_put_tensor(&out, "s", scalar, CTI_FILE_BF16, same_rows, 0, false);
    cti_gguf_put_tensor(&out, "z", ct_zeros(context, CT_F32, CT_SHAPE(3, 0)), CTI_FILE_Q8_0,
                        same_rows, 0, false);
    ck_assert_msg(cti_gguf_out_write(&out), "%s", ct_error_message(context));
    cti_gguf_out_end(&out);
    static unsigned char bytes[1 << 12];
    const size_t n = read_back(bytes, sizeof bytes);
    gguf_words("G 4:3 8:4 8:10 s:general.architecture 4:8 s:toy s:u 4:4 4:0xffffffff s:i 4:5 "
               "4:0xfffffffd s:f 4:6 4:0x3fc00000 s:b 4:7 1:1 s:texts 4:9 4:8 8:2 s: s:caf\xc3\xa9 "
               "s:us 4:9 4:4 8:1 4:7 s:is 4:9 4:5 8:2 4:0xffffffff 4:2 s:fs 4:9 4:6 8:1 "
               "4:0xc0000000 s:bs 4:9 4:7 8:2 1:0 1:1 "
               "s:w 4:2 8:3 8:2 4:0 8:0 s:t 4:2 8:2 8:3 4:1 8:32 s:s 4:0 4:30 8:64 "
               "s:z 4:2 8:0 8:3 4:8 8:96 p:32 "
               "4:0 4:0x3f800000 4:0x40000000 4:0x40400000 4:0x40800000 4:0xbf000000 p:32 "
               "4:0x42000000 4:0x44003c00 4:0xb8004000 p:32 4:0x3f80 p:32");
    ck_assert_uint_eq(n, gguf_size);
    for (size_t i = 0; i < n; i++) ck_assert_msg(bytes[i] == gguf_bytes[i], "byte %zu", i);
}
END_TEST

START_TEST(nothing) {
    cti_gguf_out out;
    char path[512];
    strcpy(path, written());
    cti_gguf_out_begin(context, "try", path, &out);
    ck_assert(cti_gguf_out_write(&out));
    cti_gguf_out_end(&out);
    unsigned char bytes[64];
    ck_assert_uint_eq(read_back(bytes, sizeof bytes), 32);
}
END_TEST

/* ---- values ---- */

/* Writes a tensor as `type`, and reads it into a tensor of the dtype and shape. */
static ct_tensor *round_trip(const ct_tensor *from, cti_file_dtype type, cti_row_grid grid,
                             double offset, bool transposed, ct_dtype dtype) {
    cti_gguf_out out;
    char path[512];
    strcpy(path, written());
    cti_gguf_out_begin(context, "try", path, &out);
    cti_gguf_put_tensor(&out, "x", from, type, grid, offset, transposed);
    const bool ok = cti_gguf_out_write(&out);
    cti_gguf_out_end(&out);
    ck_assert_msg(ok, "%s", ct_error_message(context));
    cti_gguf gguf;
    ck_assert_msg(cti_gguf_open(context, "try", path, &gguf), "%s", ct_error_message(context));
    ck_assert(gguf.tensors == 1 && gguf.tensor[0].dtype == type);
    gguf.tensor[0].grid = grid;
    gguf.tensor[0].offset = offset;
    const bool at_rest = dtype == CT_Q8_0 || dtype == CT_Q4_0;
    ct_tensor *to = ct_zeros(context, at_rest ? CT_F32 : dtype, gguf.tensor[0].shape);
    if (at_rest) to = ct_cast(to, dtype);
    ck_assert_msg(cti_file_tensor_read(&gguf.tensor[0], 0, ct_numel(to), to, 0), "%s",
                  ct_error_message(context));
    cti_gguf_close(&gguf);
    return to;
}

static void ck_equal(ct_tensor *a, ct_tensor *b) {
    const int64_t n = ct_numel(a);
    ck_assert_int_eq(ct_numel(b), n);
    double *x = malloc((size_t)n * 8 + 8), *y = malloc((size_t)n * 8 + 8);
    ck_assert(ct_to_f64(ct_cast(a, CT_F64), x, n) && ct_to_f64(ct_cast(b, CT_F64), y, n));
    for (int64_t i = 0; i < n; i++)
        ck_assert_msg(x[i] == y[i], "element %lld: %.17g and %.17g", (long long)i, x[i], y[i]);
    free(x);
    free(y);
}

START_TEST(floats) {
    ct_tensor *x = ct_randn(context, CT_F32, CT_SHAPE(3, 5, 7)),
              *wide = ct_randn(context, CT_F64, CT_SHAPE(40, 33)), *brain = ct_cast(x, CT_BF16);
    ck_equal(round_trip(x, CTI_FILE_F32, same_rows, 0, false, CT_F32), x);
    ck_equal(round_trip(ct_transpose(x, 0, 2), CTI_FILE_F32, same_rows, 0, false, CT_F64),
             ct_transpose(x, 0, 2));
    ck_equal(round_trip(x, CTI_FILE_BF16, same_rows, 0, false, CT_BF16), brain);
    ck_equal(round_trip(brain, CTI_FILE_BF16, same_rows, 0, false, CT_F32), brain);
    ck_equal(round_trip(brain, CTI_FILE_F32, same_rows, 0, false, CT_F32), brain);
    ck_equal(round_trip(wide, CTI_FILE_F32, same_rows, 0, false, CT_F32), ct_cast(wide, CT_F32));
    ck_equal(round_trip(wide, CTI_FILE_F32, same_rows, 0, true, CT_F32),
             ct_cast(ct_transpose(wide, 0, 1), CT_F32));
    /* rounded once: to f32 first, this would be a tie, and end at 1 */
    ct_tensor *tie = ct_full(context, CT_F64, CT_SHAPE(2), 1 + 0x1p-11 + 0x1p-40);
    float to[2];
    ck_assert(ct_to_f32(round_trip(tie, CTI_FILE_F16, same_rows, 0, false, CT_F32), to, 2));
    ck_assert(to[0] == 1 + 0x1p-10F);
    tie = ct_full(context, CT_F64, CT_SHAPE(2), 1 + 0x1p-8 + 0x1p-40);
    ck_assert(ct_to_f32(round_trip(tie, CTI_FILE_BF16, same_rows, 0, false, CT_F32), to, 2));
    ck_assert(to[0] == 1 + 0x1p-7F);
}
END_TEST

/* More than a chunk, by several threads: each row is one value times 1 to 127, which Q8_0 has. */
START_TEST(blocks) {
    enum { ROWS = 1100, COLS = 320 };
    ct_tensor *x = ct_empty(context, CT_F32, CT_SHAPE(ROWS, COLS));
    for (int i = 0; i < ROWS * COLS; i++)
        ct_data_f32(x)[i] =
            (float)(i % 32 == 31 ? 127 : i * 7 % 255 - 127) * (float)ldexp(1, i / COLS % 9);
    ck_equal(round_trip(x, CTI_FILE_Q8_0, same_rows, 0, false, CT_F32), x);
    ck_equal(round_trip(x, CTI_FILE_Q8_0, same_rows, 0, false, CT_F64), x);
    ck_equal(round_trip(x, CTI_FILE_Q8_0, same_rows, 0, false, CT_BF16), ct_cast(x, CT_BF16));
    ct_context *other = ct_context_new((ct_context_opts){.threads = 3});
    ct_tensor *y = ct_from_f32(other, CT_SHAPE(ROWS, COLS), ct_data_f32(x));
    static unsigned char bytes[2][ROWS * COLS / 32 * 34 + 512];
    ck_assert(read_back(bytes[0], sizeof bytes[0]) > ROWS * COLS);
    cti_gguf_out out;
    char path[512];
    strcpy(path, written());
    cti_gguf_out_begin(other, "try", path, &out);
    cti_gguf_put_tensor(&out, "x", y, CTI_FILE_Q8_0, same_rows, 0, false);
    ck_assert(cti_gguf_out_write(&out));
    cti_gguf_out_end(&out);
    ct_context_free(other);
    read_back(bytes[1], sizeof bytes[1]);
    ck_assert(!memcmp(bytes[0], bytes[1], sizeof bytes[0]));
    for (int i = 0; i < ROWS * COLS; i++) ct_data_f32(x)[i] = (float)(i % 16 - 8);
    ck_equal(round_trip(x, CTI_FILE_Q4_0, same_rows, 0, false, CT_F32), x);
}
END_TEST

/* Weights at rest: their codes are kept, where rounding their values anew would make others, and
 * their values are written as floats. */
START_TEST(blocks_at_rest) {
    const ct_dtype dtypes[] = {CT_Q8_0, CT_Q4_0};
    const cti_file_dtype types[] = {CTI_FILE_Q8_0, CTI_FILE_Q4_0};
    const cti_row_grid grids[] = {{0}, {2, 3, 1, 0}};
    ct_tensor *x = ct_randn(context, CT_F32, CT_SHAPE(12, 320));
    for (int k = 0; k < 4; k++) {
        const ct_dtype dtype = dtypes[k % 2];
        const cti_row_grid grid = grids[k / 2];
        ct_tensor *codes = ct_cast(x, dtype), *values = ct_cast(codes, CT_F32);
        ck_equal(ct_cast(round_trip(codes, types[k % 2], grid, 0, false, dtype), CT_F32), values);
        ck_equal(round_trip(codes, types[k % 2], grid, 0, false, CT_F32), values);
        ck_equal(round_trip(codes, CTI_FILE_F32, grid, 0, false, CT_F32), values);
        ck_equal(round_trip(codes, CTI_FILE_F32, (cti_row_grid){0}, 0, true, CT_F32),
                 ct_transpose(values, 0, 1));
    }
    /* blocks whose largest code is 50: d would be another if they were rounded */
    enum { ROWS = 3, BYTES = ROWS * 2 * 34 };
    unsigned char made[BYTES], bytes[1 << 10];
    for (int i = 0; i < BYTES; i++)
        made[i] = (unsigned char)(i % 34 == 1 ? 0x30 : i % 34 == 0 ? i / 34 : i * 7 % 51);
    ct_tensor *codes = ct_cast(ct_zeros(context, CT_F32, CT_SHAPE(ROWS, 64)), CT_Q8_0);
    cti_block_matrix_set_rows(codes, 0, ROWS, CTI_BLOCK_Q8_0, made);
    round_trip(codes, CTI_FILE_Q8_0, same_rows, 0, false, CT_F32);
    ck_assert(read_back(bytes, sizeof bytes) == 96 + 224 && !memcmp(bytes + 96, made, BYTES));
}
END_TEST

/* The rows of the file are those of the definition in file_tensor.h. */
START_TEST(orders_of_rows) {
    const cti_row_grid grids[] = {
        {2, 3, 1, 0}, {3, 2, 4, 0}, {5, 3, 2, 0}, {1, 4, 1, 0}, {2, 2, 7, 0}};
    for (size_t k = 0; k < sizeof grids / sizeof *grids; k++) {
        const cti_row_grid grid = grids[k];
        const int64_t group = grid.a * grid.b * grid.cell, rows = 3 * group;
        for (int64_t g = 0; g < 3; g++)
            for (int64_t i = 0; i < grid.a; i++)
                for (int64_t j = 0; j < grid.b; j++)
                    for (int64_t c = 0; c < grid.cell; c++)
                        ck_assert_int_eq(
                            cti_row_in_file(grid, ((g * grid.a + i) * grid.b + j) * grid.cell + c),
                            ((g * grid.b + j) * grid.a + i) * grid.cell + c);
        ck_assert(cti_row_grid_fits(grid, rows) &&
                  !cti_row_grid_fits(grid, rows + 1) == (group > 1));
        ct_tensor *x = ct_randn(context, CT_F32, CT_SHAPE(rows, 5)),
                  *bias = ct_randn(context, CT_F32, CT_SHAPE(rows)),
                  *codes = ct_empty(context, CT_F32, CT_SHAPE(rows, 64));
        for (int64_t i = 0; i < rows * 64; i++)
            ct_data_f32(codes)[i] = (float)(i % 32 == 0 ? 127 : (i * 3) % 128);
        ck_equal(round_trip(x, CTI_FILE_F32, grid, 0, false, CT_F32), x);
        ck_equal(round_trip(bias, CTI_FILE_F32, grid, 0, false, CT_F32), bias);
        ck_equal(round_trip(codes, CTI_FILE_Q8_0, grid, 0, false, CT_F32), codes);
        ck_equal(round_trip(ct_transpose(x, 0, 1), CTI_FILE_F32, grid, 0, true, CT_F32), x);
        /* the bytes, too, are in the file's order */
        round_trip(x, CTI_FILE_F32, grid, 0, false, CT_F32);
        static unsigned char bytes[1 << 14];
        ck_assert(read_back(bytes, sizeof bytes) < sizeof bytes);
        for (int64_t r = 0; r < rows; r++)
            ck_assert(
                !memcmp(bytes + 96 + 20 * cti_row_in_file(grid, r), ct_data_f32(x) + 5 * r, 20));
    }
    ck_assert(!cti_row_grid_fits((cti_row_grid){INT64_MAX, 3, 1, 0}, 6));
    /* the first 12 of 17 rows */
    const cti_row_grid part = {.a = 2, .b = 3, .cell = 1, .rows = 12};
    ck_assert(cti_row_in_file(part, 1) == 2 && cti_row_in_file(part, 13) == 13);
    ck_assert(cti_row_grid_fits(part, 17) && !cti_row_grid_fits(part, 11));
    ct_tensor *x = ct_randn(context, CT_F32, CT_SHAPE(17, 5));
    ck_equal(round_trip(x, CTI_FILE_F32, part, 0, false, CT_F32), x);
}
END_TEST

/* A part of a tensor in the parameter's order. */
START_TEST(ranges) {
    const cti_row_grid grid = {2, 3, 1, 0};
    ct_tensor *x = ct_randn(context, CT_F32, CT_SHAPE(12, 5));
    round_trip(x, CTI_FILE_F32, grid, 0, false, CT_F32);
    cti_gguf gguf;
    char path[512];
    strcpy(path, written());
    ck_assert(cti_gguf_open(context, "try", path, &gguf));
    gguf.tensor[0].grid = grid;
    ct_tensor *to = ct_zeros(context, CT_F32, CT_SHAPE(60));
    ck_assert(cti_file_tensor_read(&gguf.tensor[0], 13, 31, to, 7));
    ck_assert(!memcmp(ct_data_f32(to) + 7, ct_data_f32(x) + 13, 31 * 4));
    ck_assert(ct_data_f32(to)[6] == 0 && ct_data_f32(to)[38] == 0);
    gguf.tensor[0].grid = (cti_row_grid){5, 1, 1, 0};
    ck_refused(cti_file_tensor_read(&gguf.tensor[0], 0, 60, to, 0), CT_ERR_FORMAT,
               "out.gguf: tensor \"x\"", "12 rows are not whole groups of 5 x 1 x 1");
    cti_gguf_close(&gguf);
    round_trip(ct_zeros(context, CT_F32, CT_SHAPE(64)), CTI_FILE_Q8_0, same_rows, 0, false, CT_F32);
    ck_assert(cti_gguf_open(context, "try", path, &gguf));
    ck_refused(cti_file_tensor_read(&gguf.tensor[0], 0, 33, to, 0), CT_ERR_FORMAT,
               "out.gguf: tensor \"x\"", "elements 0 to 33 are not whole blocks of Q8_0");
    gguf.tensor[0].grid = (cti_row_grid){2, 2, 1, 0};
    ck_refused(cti_file_tensor_read(&gguf.tensor[0], 0, 64, to, 0), CT_ERR_FORMAT,
               "out.gguf: tensor \"x\"", "elements 0 to 1 are not whole blocks of Q8_0");
    cti_gguf_close(&gguf);
}
END_TEST

START_TEST(offsets) {
    ct_tensor *w = ct_scale(ct_randn(context, CT_F32, CT_SHAPE(1, 64)), 0.25),
              *one = ct_add_scalar(w, 1);
    round_trip(w, CTI_FILE_F32, same_rows, 1, false, CT_F32);
    cti_gguf gguf;
    char path[512];
    strcpy(path, written());
    ck_assert(cti_gguf_open(context, "try", path, &gguf));
    ct_tensor *to = ct_zeros(context, CT_F32, CT_SHAPE(64)),
              *brain = ct_zeros(context, CT_BF16, CT_SHAPE(64)),
              *wide = ct_zeros(context, CT_F64, CT_SHAPE(64));
    ck_assert(cti_file_tensor_read(&gguf.tensor[0], 0, 64, to, 0));
    ck_equal(to, ct_view(one, CT_SHAPE(64)));
    gguf.tensor[0].offset = 1;
    ck_assert(cti_file_tensor_read(&gguf.tensor[0], 0, 64, wide, 0));
    ck_equal(wide, ct_add_scalar(ct_cast(to, CT_F64), -1));
    ck_assert(cti_file_tensor_read(&gguf.tensor[0], 0, 64, to, 0));
    ck_equal(to, ct_cast(wide, CT_F32));
    ck_assert(cti_file_tensor_read(&gguf.tensor[0], 0, 64, brain, 0));
    ck_equal(brain, ct_cast(wide, CT_BF16));
    cti_gguf_close(&gguf);
    ct_tensor *codes = ct_full(context, CT_F32, CT_SHAPE(32), 126);
    ck_equal(round_trip(codes, CTI_FILE_Q8_0, same_rows, 1, false, CT_F32), codes);
    ct_tensor *close = ct_full(context, CT_F64, CT_SHAPE(3), 0x1p-30);
    ck_equal(round_trip(close, CTI_FILE_F32, same_rows, 1, false, CT_F32),
             ct_zeros(context, CT_F32, CT_SHAPE(3)));
}
END_TEST

/* ---- errors ---- */

static bool tries(const char *name, const ct_tensor *tensor, cti_file_dtype type, cti_row_grid grid,
                  bool transposed) {
    cti_gguf_out out;
    char path[512];
    strcpy(path, written());
    cti_gguf_out_begin(context, "try", path, &out);
    cti_gguf_put_tensor(&out, "before", ct_zeros(context, CT_F32, CT_SHAPE(1)), CTI_FILE_F32,
                        same_rows, 0, false);
    cti_gguf_put_tensor(&out, name, tensor, type, grid, 0, transposed);
    cti_gguf_put_u32(&out, "behind", 1);
    const bool ok = cti_gguf_out_write(&out);
    cti_gguf_out_end(&out);
    return ok;
}

static bool puts_keys(const char *a, const char *b) {
    cti_gguf_out out;
    char path[512];
    strcpy(path, written());
    cti_gguf_out_begin(context, "try", path, &out);
    cti_gguf_put_u32(&out, a, 1);
    cti_gguf_put_text(&out, "between", cti_text_of(""));
    cti_gguf_put_flag(&out, b, true);
    const bool ok = cti_gguf_out_write(&out);
    cti_gguf_out_end(&out);
    return ok;
}

START_TEST(errors) {
    ct_tensor *x = ct_zeros(context, CT_F32, CT_SHAPE(4, 33)),
              *deep = ct_zeros(context, CT_F32, CT_SHAPE(1, 1, 1, 1, 1));
    const char long_name[] = "a234567890123456789012345678901234567890123456789012345678901234";
    ck_refused(tries("x", x, CTI_FILE_Q8_0, same_rows, false), CT_ERR_ARGUMENT,
               "out.gguf: tensor \"x\"", "a row of 33 is not whole blocks of Q8_0");
    ck_refused(tries("x", x, CTI_FILE_Q4_0, same_rows, true), CT_ERR_ARGUMENT, "\"x\"", "row of 4");
    ck_refused(tries("x", x, CTI_FILE_Q4_K, same_rows, false), CT_ERR_ARGUMENT, "\"x\"",
               "Q4_K is not written");
    ck_refused(tries("x", x, CTI_FILE_F64, same_rows, false), CT_ERR_ARGUMENT, "\"x\"", "F64 is");
    ck_refused(tries("x", ct_zeros(context, CT_I64, CT_SHAPE(2)), CTI_FILE_F32, same_rows, false),
               CT_ERR_ARGUMENT, "\"x\"", "is i64");
    ck_refused(tries("x", deep, CTI_FILE_F32, same_rows, false), CT_ERR_ARGUMENT, "\"x\"",
               "5 dims");
    ck_refused(tries("x", ct_view(x, CT_SHAPE(132)), CTI_FILE_F32, same_rows, true),
               CT_ERR_ARGUMENT, "\"x\"", "1 dims");
    ck_refused(tries("x", x, CTI_FILE_F32, (cti_row_grid){2, 3, 1, 0}, false), CT_ERR_ARGUMENT,
               "\"x\"", "4 rows are not whole groups");
    ck_refused(tries(long_name, x, CTI_FILE_F32, same_rows, false), CT_ERR_ARGUMENT, "64 bytes",
               "over 63");
    ck_refused(tries("\xff", x, CTI_FILE_F32, same_rows, false), CT_ERR_ARGUMENT, "UTF-8",
               "1 byte");
    ck_refused(tries("before", x, CTI_FILE_F32, same_rows, false), CT_ERR_ARGUMENT, "\"before\"",
               "is there twice");
    ck_refused(puts_keys("a", "a"), CT_ERR_ARGUMENT, "key \"a\"", "is there twice");
    ck_refused(puts_keys("a", ""), CT_ERR_ARGUMENT, "key \"\"", "is empty or not UTF-8");
    ck_refused(puts_keys("\xc3", "a"), CT_ERR_ARGUMENT, "out.gguf: key", "is empty or not UTF-8");
    ck_assert_int_eq(files_in_folder(), 0);
}
END_TEST

int main(void) {
    return run_tests("gguf_write", setup, teardown,
                     TESTS(TEST(keys_and_bytes), TEST(nothing), TEST(floats), TEST(blocks),
                           TEST(blocks_at_rest), TEST(orders_of_rows), TEST(ranges), TEST(offsets),
                           TEST(errors)));
}
