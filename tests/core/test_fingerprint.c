/* ct_fingerprint: equal for contexts that compute the same bits, another number for kernels, builds
 * and modes that do not; and the loads that compare it. */
#include <fenv.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "src/core/context.h"
#include "src/core/kernel_bits.h"
#include "tests/support/files.h"
#include "src/kernels/attention_kernels.h"
#include "src/kernels/elementwise.h"
#include "src/kernels/products.h"
#include "src/kernels/rows.h"
#include "src/kernels/unary.h"

/* ---- what it depends on ---- */

static uint64_t number_of(ct_context_opts opts) {
    ct_context *c = ct_context_new(opts);
    const uint64_t number = ct_fingerprint(c);
    ck_assert_int_eq(ct_error(c), CT_OK);
    ck_assert(ct_fingerprint(c) == number && number != 0);
    ct_context_free(c);
    return number;
}

START_TEST(the_same_for_the_same_bits) {
    const uint64_t number = number_of((ct_context_opts){.threads = 1});
    ck_assert(number_of((ct_context_opts){.threads = 3, .seed = 9}) == number);
    ck_assert(number_of((ct_context_opts){.threads = 2, .debug = true}) == number);
    ck_assert(ct_fingerprint(NULL) == 0);
    ct_context *c = ct_context_new((ct_context_opts){.threads = 1});
    ct_zeros(c, CT_F32, CT_SHAPE(-1));
    const int64_t live = ct_memory(c).live;
    ck_assert(ct_fingerprint(c) == number && ct_memory(c).live == live);
    ck_assert_int_eq(ct_error(c), CT_ERR_SHAPE);
    ct_context_free(c);
}
END_TEST

START_TEST(another_for_a_mode) {
#ifdef FE_UPWARD
    volatile double three = 3, nearest, here; /* volatile: computed at run time, here */
    const uint64_t number = number_of((ct_context_opts){.threads = 1});
    nearest = 1 / three;
    fesetround(FE_UPWARD);
    here = 1 / three;
    const uint64_t up = number_of((ct_context_opts){.threads = 1});
    fesetround(FE_TONEAREST);
    ck_assert((up != number) == (here != nearest)); /* equal under valgrind */
    ck_assert(number_of((ct_context_opts){.threads = 1}) == number);
#endif
}
END_TEST

/* ct_set_matmul makes the products of a context round, and then no longer: ct_fingerprint is always
 * that of the kernels in use. An instruction set without kernels that round keeps f32's
 * fingerprint. */
START_TEST(another_for_products_that_round) {
    ct_context *c = ct_context_new((ct_context_opts){.threads = 1});
    const uint64_t number = ct_fingerprint(c);
    ct_set_matmul(c, CT_MATMUL_BF16);
    ck_assert(ct_fingerprint(c) == cti_fingerprint(c->isa, c->rounded));
    ck_assert((ct_fingerprint(c) != number) == (c->rounded != NULL));
    ct_set_matmul(c, CT_MATMUL_F32);
    ck_assert(ct_fingerprint(c) == number);
    ct_context_free(c);
}
END_TEST

/* ---- every kernel that rounds ---- */

#define KERNEL(name, subject, type)                                                                \
    {#name, offsetof(cti_kernels, subject), sizeof(type), offsetof(type, name)}
#define UNARY(name)          KERNEL(name, unary, cti_unary_kernels)
#define ELEMENTWISE(name)    KERNEL(name, elementwise, cti_elementwise_kernels)
#define ROWS(name)           KERNEL(name, rows, cti_row_kernels)
#define GEMM(name)           KERNEL(name, gemm, cti_gemm_kernels)
#define ATTENTION(name)      KERNEL(name, attention, cti_attention_kernels)
#define VALUE(name, ...)     UNARY(name),
#define BOTH_WAYS(name, ...) UNARY(name), UNARY(name##_backward),
#define BOTH(name)           UNARY(name##_both),
static const struct {
    const char *name;
    size_t subject, size, offset; /* of the subject's pointer, the subject, the kernel in it */
} kernels[] = {
    CTI_UNARY_KERNELS(VALUE, BOTH_WAYS, BOTH_WAYS, BOTH_WAYS)
        CTI_SCALAR_KERNELS(VALUE, BOTH_WAYS, BOTH_WAYS) CTI_BOTH_KERNELS(BOTH)
            CTI_SCALAR_BOTH_KERNELS(BOTH)
    /* and others */
    ELEMENTWISE(axpy),
    ELEMENTWISE(lerp),
    ROWS(sum_rows),
    ROWS(softmax),
    ROWS(log_softmax),
    ROWS(softmax_columns),
    ROWS(softmax_backward),
    ROWS(log_softmax_backward),
    ROWS(masked_softmax),
    ROWS(logsumexp),
    ROWS(logsumexp_backward),
    ROWS(layer_norm),
    ROWS(layer_norm_backward),
    ROWS(rms_norm),
    ROWS(rms_norm_backward),
    ROWS(cross_entropy),
    ROWS(bce),
    ROWS(bce_backward),
    ROWS(kl_div),
    ROWS(kl_div_log),
    ROWS(rope),
    ELEMENTWISE(adam),
    ELEMENTWISE(sgd),
    GEMM(dots),
    GEMM(gemv),
    GEMM(kc),
    GEMM(tuning.dots_max_m),
    GEMM(tuning.split_k_c_bytes),
    ATTENTION(softmax_from_stats),
    ATTENTION(row_dots),
};
enum { KERNELS = sizeof kernels / sizeof *kernels };

/* The struct of kernels in which a table has the kernel. */
static const char *subject_of(const cti_kernels *table, int kernel) {
    return *(const char *const *)((const char *)table + kernels[kernel].subject);
}

/* (sin, cos and sums of f64 are the same bits in all sets.) The fingerprint of a
 * set changes if one of its kernels, or one number that orders sums, is replaced by another set's.
 * If the compiler fuses no product, a formula as short as axpy's has the same bits in both sets:
 * then f64's kernel replaces it. */
START_TEST(one_kernel_of_another_set) {
    const cti_isa *plain = cti_isa_find("scalar"), *best = cti_isa_find("avx2");
    if (!best) return;
    cti_kernels table = *best->of[CT_F32];
    cti_isa isa = *best;
    isa.of[CT_F32] = &table;
    const uint64_t number = cti_fingerprint(best, NULL);
    ck_assert(cti_fingerprint(&isa, NULL) == number);
    for (int i = 0; i < KERNELS; i++) {
        const size_t at = kernels[i].offset, size = sizeof(void (*)(void));
        uint64_t other = number;
        for (int wide = 0; other == number && wide < 2; wide++) {
            _Alignas(max_align_t) char subject[1024];
            ck_assert(kernels[i].size <= sizeof subject);
            memcpy(subject, subject_of(best->of[CT_F32], i), kernels[i].size);
            memcpy(subject + at, subject_of(plain->of[wide], i) + at, size);
            const bool same = !memcmp(subject, subject_of(best->of[CT_F32], i), kernels[i].size);
            if (same) subject[at] ^= 1; /* a number */
            table = *best->of[CT_F32];
            memcpy((char *)&table + kernels[i].subject, &(const char *){subject}, size);
            other = cti_fingerprint(&isa, NULL);
        }
        ck_assert_msg(other != number, "%s", kernels[i].name);
    }
}
END_TEST

/* ---- in checkpoints ---- */

static char path[128];

static ct_checkpoint checkpoint_in(ct_context *c) {
    ct_module *m = ct_linear_new(c, (ct_linear_opts){.in_features = 3, .out_features = 2});
    return (ct_checkpoint){.module = m, .optim = ct_adamw_new(m, (ct_adamw_opts){0})};
}

START_TEST(a_load_by_other_kernels) {
    snprintf(path, sizeof path, "%s/run", folder);
    ct_context *c = ct_context_new((ct_context_opts){.threads = 1}),
               *same = ct_context_new((ct_context_opts){.threads = 2}),
               *plain = ct_context_new((ct_context_opts){.threads = 1, .isa = "scalar"});
    char number[17], other[17];
    snprintf(number, sizeof number, "%016" PRIx64, ct_fingerprint(c));
    snprintf(other, sizeof other, "%016" PRIx64, ct_fingerprint(plain));
    ct_checkpoint saved = checkpoint_in(c), again = checkpoint_in(same),
                  by_plain = checkpoint_in(plain);
    saved.step = 7;
    strcpy(again.other_bits, "old words"), strcpy(by_plain.other_bits, "old words");
    ck_assert(ct_checkpoint_save(path, &saved) && ct_checkpoint_load(path, &again));
    ck_assert_str_eq(again.other_bits, "");
    ck_assert(ct_checkpoint_load(path, &by_plain)); /* no error */
    ck_assert(by_plain.step == 7 && ct_error(plain) == CT_OK);
    if (strcmp(number, other) != 0) {
        const char *loaded = strstr(by_plain.other_bits, ", loaded by ");
        ck_assert_msg(loaded && strstr(by_plain.other_bits, number) < loaded &&
                          strstr(by_plain.other_bits, ct_isa_name(c)) < loaded &&
                          strstr(loaded, other) && strstr(loaded, "scalar") &&
                          strstr(loaded, cti_build()),
                      "%s", by_plain.other_bits);
    } else {
        ck_assert_str_eq(by_plain.other_bits, "");
    }
    ct_checkpoint inference = {.module = by_plain.module};
    ck_assert(ct_checkpoint_load(path, &inference));
    ck_assert_str_eq(inference.other_bits, "");
    ct_context_free(c), ct_context_free(same), ct_context_free(plain);
}
END_TEST

/* Writes a text over the checkpoint's fingerprint, or the key, and blanks behind it. */
static void write_words(const char *was, const char *words) {
    static char bytes[1 << 14];
    const size_t size = read_all(path, bytes, sizeof bytes - 1);
    bytes[size] = 0;
    char *at = NULL, *end;
    for (size_t i = 0; !at && i + strlen(was) < size; i++)
        if (!memcmp(bytes + i, was, strlen(was))) at = bytes + i;
    ck_assert_ptr_nonnull(at);
    end = strchr(at + strlen(was), '"') + 1;
    memset(at, ' ', (size_t)(end - at));
    memcpy(at, words, strlen(words));
    seal(bytes, size);
    write_all(path, bytes, size);
}

/* Words of any kind in the file are no error; none at all, as in files of 0.1, are no warning. */
START_TEST(a_file_with_other_words) {
    static const char *const words[] = {
        "\"another key\":\"\"", "\"fingerprint\":\"\"", "\"fingerprint\":\"0123456789abcde\"",
        "\"fingerprint\":\"0123456789abcdef\"", "\"fingerprint\":\"0123456789abcdef avx9\""};
    snprintf(path, sizeof path, "%s/words", folder);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        ct_checkpoint all = checkpoint_in(context);
        ck_assert(ct_checkpoint_save(path, &all));
        write_words("\"fingerprint\":\"", words[i]);
        const bool loaded = ct_checkpoint_load(path, &all);
        ck_assert_msg(loaded, "%s", ct_error_message(context));
        ck_assert(i < 3 ? !*all.other_bits : strstr(all.other_bits, "0123456789abcdef") != NULL);
    }
}
END_TEST

int main(void) {
    return run_tests("fingerprint", setup, teardown,
                     TESTS(TEST(the_same_for_the_same_bits), TEST(another_for_a_mode),
                           TEST(another_for_products_that_round), TEST(one_kernel_of_another_set),
                           TEST(a_load_by_other_kernels), TEST(a_file_with_other_words)));
}
