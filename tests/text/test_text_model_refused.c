/* Models of tokenizers: files that are refused, and vocabularies. */
#include "text_model_check.h"

static const char *const refused[][2] = {
    {"{'type': 'Bigram', 'vocab': []}", "byte 10: unknown model 'Bigram'"},
    {"{'type': 'Unigram'}", "\"vocab\" is not a list"},
    {"{'type': 'Unigram', 'vocab': {}}", "byte 29: \"vocab\" is not a list"},
    {"{'type': 'Unigram', 'vocab': [['a', 1]], 'unk_id': 1}",
     "\"unk_id\" is 1, but there are 1 tokens"},
    {"{'type': 'Unigram', 'vocab': [], 'unk_id': 0}", "but there are 0 tokens"},
    {"{'type': 'Unigram', 'vocab': [['a', 1]], 'unk_id': -1}", "not a natural number"},
    {"{'type': 'Unigram', 'vocab': [['a', 1]], 'byte_fallback': 1}", "neither true nor false"},
    {"{'type': 'Unigram', 'vocab': ['a']}", "byte 31: a token is not a text and a number"},
    {"{'type': 'Unigram', 'vocab': [['a']]}", "a token is not a text and a number"},
    {"{'type': 'Unigram', 'vocab': [['a', 1, 2]]}", "a token is not a text and a number"},
    {"{'type': 'Unigram', 'vocab': [[1, 'a']]}", "a token is not a text and a number"},
    {"{'type': 'Unigram', 'vocab': [['a', null]]}", "a token is not a text and a number"},
    {"{'type': 'Unigram', 'vocab': [['a', 1e999]]}", "the score of a token is too large"},
    {"{'type': 'Unigram', 'vocab': [['a', -1e99999999999999999999]]}", "is too large"},
    {"{'type': 'Unigram', 'vocab': [['a', NaN]]}", "byte"},
    {"{'type': null, 'vocab': {}, 'merges': []}", "model"},
    {"{'vocab': {}}", "byte 0: a model is an object with a \"type\""},
    {"[]", "model"},
    {"{'type': 'BPE', 'merges': []}", "\"vocab\" is not an object"},
    {"{'type': 'BPE', 'vocab': [], 'merges': []}", "byte 25: \"vocab\" is not an object"},
    {"{'type': 'BPE', 'vocab': {}}", "\"merges\" is not a list"},
    {"{'type': 'BPE', 'vocab': {}, 'merges': null}", "byte 39: \"merges\" is not a list"},
    {"{'type': 'BPE', 'vocab': {'a': -1}, 'merges': []}", "byte 31: the id of a token"},
    {"{'type': 'BPE', 'vocab': {'a': 0.0}, 'merges': []}", "not a natural number"},
    {"{'type': 'BPE', 'vocab': {'a': '0'}, 'merges': []}", "not a natural number"},
    {"{'type': 'BPE', 'vocab': {'a': null}, 'merges': []}", "not a natural number"},
    {"{'type': 'BPE', 'vocab': {'a': 99999999999999999999}, 'merges': []}", "not a natural"},
    {"{'type': 'BPE', 'vocab': {'a': 2147483646}, 'merges': []}",
     "id 2147483646 is too large for 1 tokens"},
    {"{'type': 'BPE', 'vocab': {'a': 2147483648}, 'merges': []}", "is too large"},
    {"{'type': 'BPE', 'vocab': {'a': 65600}, 'merges': []}", "is too large"},
    {"{'type': 'BPE', 'vocab': {'a': 0, 'b': 0}, 'merges': []}", "two tokens have the id 0"},
    {"{'type': 'BPE', 'vocab': {'a': 0, 'a': 1}, 'merges': []}", "byte"},
    {"{'type': 'BPE', 'vocab': {'a': 0}, 'merges': ['a z']}", "byte 47: a merge needs 'z'"},
    {"{'type': 'BPE', 'vocab': {'a': 0}, 'merges': ['a a']}", "a merge needs 'aa', which is not"},
    {"{'type': 'BPE', 'vocab': {'a': 0}, 'merges': ['a ']}", "a merge needs ''"},
    {"{'type': 'BPE', 'vocab': {'a': 0}, 'merges': ['a']}", "a merge without a space"},
    {"{'type': 'BPE', 'vocab': {'a': 0}, 'merges': ['']}", "a merge without a space"},
    {"{'type': 'BPE', 'vocab': {'a': 0}, 'merges': ['a a a']}", "more than two tokens"},
    {"{'type': 'BPE', 'vocab': {'a': 0}, 'merges': [['a']]}", "a merge is not two tokens"},
    {"{'type': 'BPE', 'vocab': {'a': 0}, 'merges': [['a', 'a', 'a']]}", "not two tokens"},
    {"{'type': 'BPE', 'vocab': {'a': 0}, 'merges': [['a', 0]]}", "not two tokens"},
    {"{'type': 'BPE', 'vocab': {'a': 0, 'aa': 1}, 'merges': [['a', 'a'], 'a a']}", "merges are"},
    {"{'type': 'BPE', 'vocab': {'a': 0}, 'merges': [0]}", "byte 46: merges are not all"},
    {"{'type': 'BPE', 'vocab': {'a': 0, 'b': 1}, 'merges': ['a b'], "
     "'continuing_subword_prefix': '##'}",
     "shorter than the prefix"},
    {"{'type': 'BPE', 'vocab': {'a': 0, '\303\251': 1}, 'merges': ['a \303\251'], "
     "'continuing_subword_prefix': '#'}",
     "shorter than the prefix"},
    {"{'type': 'BPE', 'vocab': {}, 'merges': [], 'dropout': 0.1}", "dropout 0.1 is not supported"},
    {"{'type': 'BPE', 'vocab': {}, 'merges': [], 'dropout': false}", "\"dropout\" is not a number"},
    {"{'type': 'BPE', 'vocab': {}, 'merges': [], 'fuse_unk': 1}", "\"fuse_unk\""},
    {"{'type': 'BPE', 'vocab': {}, 'merges': [], 'unk_token': 5}", "\"unk_token\""},
    {"{'type': 'WordPiece', 'vocab': {}, 'continuing_subword_prefix': '', "
     "'max_input_chars_per_word': 1}",
     "it has no \"unk_token\""},
    {"{'type': 'WordPiece', 'vocab': {}, 'unk_token': '', 'max_input_chars_per_word': 1}",
     "it has no \"continuing_subword_prefix\""},
    {"{'type': 'WordPiece', 'vocab': {}, 'unk_token': '', 'continuing_subword_prefix': ''}",
     "\"max_input_chars_per_word\" is missing"},
    {"{'type': 'WordPiece', 'vocab': {}, 'unk_token': '', 'continuing_subword_prefix': '', "
     "'max_input_chars_per_word': -1}",
     "\"max_input_chars_per_word\" is not a natural number"},
    {"{'type': 'WordLevel', 'vocab': {}, 'unk_token': null}", "it has no \"unk_token\""},
};
enum { REFUSED = (int)(sizeof refused / sizeof *refused) };

START_TEST(a_file_that_is_refused) {
    ck_assert_msg(!open_model(refused[_i][0], false), "%s is read", refused[_i][0]);
    ck_assert_int_eq(ct_error(context), CT_ERR_FORMAT);
    const char *message = ct_error_message(context);
    ck_assert_msg(strstr(message, refused[_i][1]), "%s: %s", refused[_i][0], message);
    ck_assert_msg(strstr(message, "t.json: byte "), "%s", message);
    ct_error_clear(context);
}
END_TEST

/* ---- vocabularies ---- */

START_TEST(ids_have_gaps) {
    ck_assert(open_model("{'type': 'WordLevel', 'vocab': {'b': 65000, '': 7, 'a': 3}, "
                         "'unk_token': 'a'}",
                         false));
    ck_assert_int_eq(vocabulary.size, 65001);
    ck_assert_int_eq(vocabulary.count, 3);
    ck_assert_int_eq(cti_vocabulary_find(&vocabulary, "b", 1), 65000);
    ck_assert_int_eq(cti_vocabulary_find(&vocabulary, "", 0), 7);
    ck_assert_int_eq(cti_vocabulary_find(&vocabulary, "ab", 2), CTI_NO_ID);
    ck_assert(!strcmp(cti_vocabulary_text(&vocabulary, 3).at, "a"));
    ck_assert(cti_vocabulary_text(&vocabulary, 7).at && !cti_vocabulary_text(&vocabulary, 7).size);
    static const int64_t none[] = {-1, 0, 4, 64999, 65001, INT64_MAX};
    for (int i = 0; i < 6; i++) ck_assert(!cti_vocabulary_text(&vocabulary, none[i]).at);
}
END_TEST

START_TEST(tokens_are_added_without_an_announcement) {
    enum { COUNT = 5000 };
    arena = (cti_arena){.context = context};
    vocabulary = (cti_vocabulary){.arena = &arena};
    ck_assert_int_eq(cti_vocabulary_find(&vocabulary, "x", 1), CTI_NO_ID);
    for (int i = 0; i < COUNT; i++) {
        char text[16];
        const int size = snprintf(text, sizeof text, "t%d", i);
        const cti_text kept = cti_arena_copy(&arena, (cti_text){text, (size_t)size});
        ck_assert(cti_vocabulary_add(&vocabulary, kept, (i * 7) % COUNT + 10));
    }
    ck_assert(vocabulary.count == COUNT && vocabulary.size == COUNT + 10);
    for (int i = 0; i < COUNT; i++) {
        char text[16];
        const int size = snprintf(text, sizeof text, "t%d", i);
        const int64_t id = cti_vocabulary_find(&vocabulary, text, (size_t)size);
        ck_assert_int_eq(id, (i * 7) % COUNT + 10);
        ck_assert(!strcmp(cti_vocabulary_text(&vocabulary, id).at, text));
    }
    ck_assert(!cti_vocabulary_text(&vocabulary, 9).at);
}
END_TEST

START_TEST(ids_that_are_allowed) {
    ck_assert(cti_vocabulary_allows(0, 0) && cti_vocabulary_allows(65536, 0));
    ck_assert(cti_vocabulary_allows(INT32_MAX - 1, INT32_MAX));
    ck_assert(!cti_vocabulary_allows(-1, 5) && !cti_vocabulary_allows(INT32_MAX, INT32_MAX));
    ck_assert(!cti_vocabulary_allows(INT64_MAX, INT32_MAX) && !cti_vocabulary_allows(INT64_MIN, 5));
    ck_assert(cti_vocabulary_allows(65536 + 16 * 1000, 1000));
    ck_assert(!cti_vocabulary_allows(65536 + 16 * 1001, 1000));
}
END_TEST

int main(void) {
    return run_tests("text_model_refused", start, stop,
                     TESTS(LOOP(a_file_that_is_refused, REFUSED), TEST(ids_have_gaps),
                           TEST(tokens_are_added_without_an_announcement),
                           TEST(ids_that_are_allowed)));
}
