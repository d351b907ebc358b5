/* Normalizers without memory: each request of malloc, calloc and realloc fails once, and then all
 * of them from there on. A normalization returns false, gives back its memory, and works again. */
#include "ext/text/normalize.h"

#include <stdio.h>

#include "tests/support/suite.h"
#include "text_probe.h"

static int64_t requests, failing; /* the requests so far; the number of the request that fails */
static bool armed, from_there;

static bool refuses(void) {
    if (!armed) return false;
    requests++;
    return requests == failing || (from_there && requests > failing);
}

void *__real_malloc(size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_calloc(size_t n, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_malloc(size_t size) { return refuses() ? NULL : __real_malloc(size); }
void *__wrap_realloc(void *old, size_t size) {
    return refuses() ? NULL : __real_realloc(old, size);
}
void *__wrap_calloc(size_t n, size_t size) { return refuses() ? NULL : __real_calloc(n, size); }

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

/* Spaces, capitals, a Chinese character, and enough marks for the sort that needs memory. */
static size_t make_text(char *text, size_t room) {
    size_t size = (size_t)snprintf(text, room, " A\303\211\344\270\255e\314\201\t");
    for (int i = 0; i < 40; i++) {
        size += (size_t)snprintf(text + size, room - size, "%s", i % 2 ? "\314\201" : "\314\226");
    }
    return size + (size_t)snprintf(text + size, room - size, " b ");
}

static bool normalize_once(const text_probe *probe, const char *at, size_t size,
                           cti_aligned *text) {
    cti_aligned spare = {0};
    *text = (cti_aligned){.at = at, .size = size};
    const bool done = cti_normalize(text_probe_normalizer(probe), text, &spare);
    cti_aligned_free(&spare);
    return done;
}

/* Fails each request in turn. Returns their number. */
static int64_t fail_each(const text_probe *probe, const char *at, size_t size, bool forever) {
    cti_aligned right, text;
    ck_assert(normalize_once(probe, at, size, &right));
    for (failing = 1;; failing++) {
        requests = 0;
        from_there = forever;
        armed = true;
        const bool done = normalize_once(probe, at, size, &text);
        armed = false;
        const bool struck = requests >= failing;
        ck_assert(done == !struck);
        cti_aligned_free(&text);
        if (!struck) break;
        ck_assert(normalize_once(probe, at, size, &text));
        ck_assert(text.size == right.size && !memcmp(text.at, right.at, text.size));
        cti_aligned_free(&text);
    }
    cti_aligned_free(&right);
    return failing - 1;
}

START_TEST(each_request_fails) {
    char at[256], message[256];
    const size_t size = make_text(at, sizeof at);
    for (size_t i = 0; i < sizeof normalizers / sizeof *normalizers; i++) {
        text_probe *probe = text_probe_open(normalizers[i], message, sizeof message);
        ck_assert_msg(probe != NULL, "%s: %s", normalizers[i], message);
        ck_assert_int_ge(fail_each(probe, at, size, false), 2);
        ck_assert_int_ge(fail_each(probe, at, size, true), 2);
        text_probe_close(probe);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("text_normalize_faults");
    TCase *tests = tcase_create("text_normalize_faults");
    tcase_add_test(tests, each_request_fails);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
