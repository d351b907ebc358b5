/* ct_rope_frequencies against the formulas of tests/golden/rope.py, and its errors. */
#include "src/io/safetensors.h"

#include "tests/support/op_check.h"

/* ---- golden values ---- */

static cti_safetensors golden;

/* The number of "key=" in the text of a case; 0 without one. */
static double number(const char *text, const char *key) {
    char pattern[32];
    snprintf(pattern, sizeof pattern, " %s=", key);
    const char *at = strstr(text, pattern);
    return at ? atof(at + strlen(pattern)) : 0;
}

static int64_t stored(const char *key, const char *part, double *out, int64_t room) {
    char name[64];
    snprintf(name, sizeof name, "%s.%s", key, part);
    const cti_file_tensor *from = cti_safetensors_find(&golden, cti_text_of(name));
    if (!from) return 0;
    ck_assert(from->numel <= room);
    ct_tensor *t = ct_empty(context, CT_F64, from->shape);
    ck_assert(cti_file_tensor_read(from, 0, from->numel, t, 0) && ct_to_f64(t, out, from->numel));
    return from->numel;
}

static void check(const char *key, const char *text) {
    enum { MOST = 64 };
    double factors[MOST], want[MOST], got[MOST], want_factor, factor = 0;
    const int64_t n = stored(key, "frequencies", want, MOST);
    ct_rope_scaling_opts o = {.kind = (ct_rope_scaling)number(text, "kind"),
                              .base = number(text, "base"),
                              .dims = (int64_t)number(text, "dims"),
                              .factor = number(text, "factor"),
                              .original_length = (int64_t)number(text, "original_length"),
                              .low = number(text, "low"),
                              .high = number(text, "high"),
                              .attention_factor = number(text, "attention_factor"),
                              .mscale = number(text, "mscale"),
                              .mscale_all_dim = number(text, "mscale_all_dim"),
                              .no_truncate = number(text, "no_truncate") != 0};
    if (stored(key, "factors", factors, MOST)) o.factors = factors;
    ck_assert_int_eq(stored(key, "attention_factor", &want_factor, 1), 1);
    ck_assert_int_eq(n, o.dims / 2);
    ck_assert_msg(ct_rope_frequencies(context, o, got, &factor), "%s: %s", text,
                  ct_error_message(context));
    for (int64_t j = 0; j < n; j++)
        ck_assert_msg(fabs(got[j] - want[j]) <= 4e-15 * fabs(want[j]), "%s [%d]: %.17g, not %.17g",
                      text, (int)j, got[j], want[j]);
    ck_assert_msg(fabs(factor - want_factor) <= 1e-15 * want_factor,
                  "%s: a factor of %.17g, not %.17g", text, factor, want_factor);
    ck_assert(ct_rope_frequencies(context, o, got, NULL));
}

START_TEST(golden_values) {
    ck_assert_msg(cti_safetensors_open(context, "golden", "tests/golden/rope.safetensors", &golden),
                  "%s", ct_error_message(context));
    ck_assert_int_ge(golden.pairs, 20);
    for (int64_t i = 0; i < golden.pairs; i++) {
        char key[16], text[300];
        const cti_file_pair *pair = &golden.pair[i];
        snprintf(key, sizeof key, "%.*s", (int)pair->key.size, pair->key.at);
        snprintf(text, sizeof text, " %.*s", (int)pair->value.size, pair->value.at);
        check(key, text);
    }
    cti_safetensors_close(&golden);
}
END_TEST

/* ---- use ---- */

START_TEST(plain_frequencies_are_those_of_rope) {
    double frequencies[17], factor = 0;
    ck_assert(
        ct_rope_frequencies(context, (ct_rope_scaling_opts){.dims = 34}, frequencies, &factor));
    ck_assert(factor == 1);
    ct_tensor *x = ct_randn(context, CT_F64, CT_SHAPE(9, 34)),
              *plain = ct_rope(x, NULL, (ct_rope_opts){0}),
              *other = ct_rope(
                  x, NULL, (ct_rope_opts){.frequencies = frequencies, .attention_factor = factor});
    ck_assert(plain && other);
    ck_assert(!memcmp(ct_data_f64(plain), ct_data_f64(other), 9 * 34 * sizeof(double)));
}
END_TEST

/* ---- errors ---- */

static const double ones[] = {1, 1, 1}, bad[] = {1, -2, 1}, infinite[] = {1, 1, INFINITY};

/* The call fails with a message that begins with this, and writes nothing. */
static void refuses(ct_rope_scaling_opts o, const char *message) {
    double frequencies[3] = {7, 7, 7}, factor = 7;
    const bool done = ct_rope_frequencies(context, o, frequencies, &factor);
    ck_refused(done, CT_ERR_ARGUMENT, "rope_frequencies: ", message);
    ck_assert(frequencies[0] == 7 && frequencies[2] == 7 && factor == 7);
}
#define REFUSES(message, ...) refuses((ct_rope_scaling_opts){.dims = 6, __VA_ARGS__}, message)
#define LINEAR                .kind = CT_ROPE_LINEAR, .factor = 2
#define LENGTHENED            .factor = 8, .original_length = 100
#define LLAMA3                .kind = CT_ROPE_LLAMA3, LENGTHENED
#define YARN                  .kind = CT_ROPE_YARN, LENGTHENED
#define LONGROPE              .kind = CT_ROPE_LONGROPE, LENGTHENED, .factors = ones

START_TEST(refusals) {
    REFUSES("kind is 9", .kind = (ct_rope_scaling)9);
    REFUSES("kind is -1", .kind = (ct_rope_scaling)-1);
    REFUSES("base is -1", .base = -1);
    REFUSES("base is 0", .base = CT_ZERO);
    REFUSES("base is nan", .base = NAN);
    REFUSES("base is 1, must be more than 1", YARN, .base = 1);
    refuses((ct_rope_scaling_opts){0}, "dims is 0");
    refuses((ct_rope_scaling_opts){.dims = -2}, "dims is -2");
    refuses((ct_rope_scaling_opts){.dims = 5}, "dims is 5, must be an even");
    REFUSES("factor is 0", .kind = CT_ROPE_LINEAR);
    REFUSES("factor is inf", .kind = CT_ROPE_LINEAR, .factor = INFINITY);
    REFUSES("factor is -8", .kind = CT_ROPE_LLAMA3, .factor = -8, .original_length = 100);
    REFUSES("factor is 0", .kind = CT_ROPE_YARN, .original_length = 100);
    REFUSES("factor is 0", .kind = CT_ROPE_LONGROPE, .factors = ones);
    REFUSES("original_length is 0", .kind = CT_ROPE_LLAMA3, .factor = 8);
    REFUSES("original_length is -1", .kind = CT_ROPE_YARN, .factor = 8, .original_length = -1);
    REFUSES("original_length is 1, must be at least 2", .kind = CT_ROPE_LONGROPE, .factor = 8,
            .original_length = 1, .factors = ones);
    REFUSES("low is -1", LLAMA3, .low = -1);
    REFUSES("low is 0", YARN, .low = CT_ZERO);
    REFUSES("high is inf", YARN, .high = INFINITY);
    REFUSES("high is 2, must be more than low, which is 3", YARN, .low = 3, .high = 2);
    REFUSES("high is 3, must be more than low", LLAMA3, .low = 3, .high = 3);
    REFUSES("high is 4, must be more than low, which is 5", LLAMA3, .low = 5);
    REFUSES("attention_factor is -2", YARN, .attention_factor = -2);
    REFUSES("attention_factor is nan", LONGROPE, .attention_factor = NAN);
    REFUSES("mscale is -1", YARN, .mscale = -1);
    REFUSES("mscale_all_dim is nan", YARN, .mscale = 1, .mscale_all_dim = NAN);
    REFUSES("factors is NULL", .kind = CT_ROPE_LONGROPE, .factor = 8, .original_length = 100);
    REFUSES("factors[1] is -2", .kind = CT_ROPE_LONGROPE, .attention_factor = 1, .factors = bad);
    REFUSES("factors[2] is inf", .kind = CT_ROPE_LONGROPE, .attention_factor = 1,
            .factors = infinite);
    double factor = 7;
    ck_refused(ct_rope_frequencies(context, (ct_rope_scaling_opts){.dims = 6}, NULL, &factor),
               CT_ERR_ARGUMENT, "frequencies is NULL", "");
    ck_assert(!ct_rope_frequencies(NULL, (ct_rope_scaling_opts){.dims = 6}, &factor, &factor));
}
END_TEST

START_TEST(options_of_another_kind_are_refused) {
    REFUSES("factor is set, which CT_ROPE_DEFAULT does not use", .factor = 2);
    REFUSES("original_length is set, which CT_ROPE_LINEAR", LINEAR, .original_length = 5);
    REFUSES("low is set, which CT_ROPE_LINEAR", LINEAR, .low = 1);
    REFUSES("high is set, which CT_ROPE_LONGROPE", LONGROPE, .high = 1);
    REFUSES("attention_factor is set, which CT_ROPE_LLAMA3", LLAMA3, .attention_factor = 1);
    REFUSES("mscale is set, which CT_ROPE_LLAMA3", LLAMA3, .mscale = 1);
    REFUSES("mscale_all_dim is set, which CT_ROPE_LONGROPE", LONGROPE, .mscale_all_dim = 1);
    REFUSES("no_truncate is set, which CT_ROPE_LLAMA3", LLAMA3, .no_truncate = true);
    REFUSES("factors is set, which CT_ROPE_YARN", YARN, .factors = ones);
}
END_TEST

int main(void) {
    return run_tests("rope_frequencies", open_context, close_context,
                     TESTS(TEST(golden_values), TEST(plain_frequencies_are_those_of_rope),
                           TEST(refusals), TEST(options_of_another_kind_are_refused)));
}
