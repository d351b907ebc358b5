/* Patterns and pre-tokenizers without memory: each malloc and realloc fails once. */
#include <stdio.h>

#include "ext/text/pretokenize.h"
#include "text_reading.h"

static int calls_left; /* the calls of malloc and realloc before one fails; negative: none fails */

void *__real_malloc(size_t size);
void *__real_realloc(void *block, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_realloc(void *block, size_t size);

static bool fails_now(void) { return calls_left >= 0 && calls_left-- == 0; }
void *__wrap_malloc(size_t size) { return fails_now() ? NULL : __real_malloc(size); }
void *__wrap_realloc(void *block, size_t size) {
    return fails_now() ? NULL : __real_realloc(block, size);
}

static const char json[] =
    "{\"type\": \"Sequence\", \"pretokenizers\": ["
    "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"(?:a|bc)+?d|[^\\\\p{L}&&[^\\\\s]]+|x{2,5}|"
    "[\\\\p{Han}b]*e\"}, \"behavior\": \"MergedWithNext\", \"invert\": false}, "
    "{\"type\": \"Metaspace\", \"replacement\": \"_\"}, "
    "{\"type\": \"ByteLevel\", \"add_prefix_space\": true, \"trim_offsets\": true}, "
    "{\"type\": \"Punctuation\"}]}";

/* Reads the pre-tokenizer while the call with number n fails. Returns whether none failed; counts
 * the readings that did not work. A context tries again if it has memory to give back. */
static bool read_with_fault(int n, int *refused) {
    text_reading r;
    begin_reading(&r, json);
    const cti_pretokenizer *pretokenizer;
    calls_left = n;
    const bool works = cti_pretokenizer_read(&r.reading, 0, &pretokenizer);
    const bool none_failed = calls_left >= 0;
    calls_left = -1;
    ck_assert(works || !none_failed);
    ck_assert_int_eq(ct_error(r.context), works ? CT_OK : CT_ERR_MEMORY);
    *refused += !works;
    end_reading(&r);
    return none_failed;
}

START_TEST(reading) {
    int refused = 0;
    for (int n = 0; !read_with_fault(n, &refused); n++) {}
    ck_assert_int_gt(refused, 20);
}
END_TEST

START_TEST(dividing) {
    text_reading r;
    begin_reading(&r, json);
    const cti_pretokenizer *pretokenizer;
    ck_assert(cti_pretokenizer_read(&r.reading, 0, &pretokenizer));
    char text[4000];
    for (size_t i = 0; i < sizeof text; i++) text[i] = "abcabcd e, xxx!"[i % 15];
    size_t wanted = 0;
    bool none_failed = false;
    for (int n = 0; !none_failed; n++) {
        cti_pieces pieces = {.text = {.at = text, .size = sizeof text}};
        calls_left = n;
        const bool works = cti_pretokenize(pretokenizer, &pieces);
        none_failed = calls_left >= 0;
        calls_left = -1;
        ck_assert(works == none_failed);
        /* The memory can be used again after a failure. */
        cti_aligned_free(&pieces.text);
        pieces.text = (cti_aligned){.at = text, .size = sizeof text};
        ck_assert(cti_pretokenize(pretokenizer, &pieces));
        if (!wanted) wanted = pieces.count;
        ck_assert_uint_eq(pieces.count, wanted);
        cti_pieces_free(&pieces);
        if (none_failed) ck_assert_int_gt(n, 10);
    }
    end_reading(&r);
}
END_TEST

int main(void) {
    calls_left = -1;
    Suite *suite = suite_create("text_pretokenize_faults");
    TCase *tests = tcase_create("text_pretokenize_faults");
    tcase_add_test(tests, reading);
    tcase_add_test(tests, dividing);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
