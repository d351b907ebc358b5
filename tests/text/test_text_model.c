/* Models of tokenizers: ids and places of tokens from the tokenizers package 0.23.3; merges
 * against a plain search. */
#include "random_merges.h"

enum { ROOM = 4096 };

/* The tokens of a text that is one piece. The piece lies at the end of a block, so that a read
 * behind it is a fault, and the bytes before it are no part of it. */
typedef struct {
    bool good;
    int64_t count, ids[ROOM], places[2 * ROOM];
} tokens;

static void encode(const char *piece, size_t size, tokens *out) {
    char *text = malloc(size + 3);
    memcpy(text, "-+-", 3);
    memcpy(text + 3, piece, size);
    const cti_aligned aligned = {.at = text, .size = size + 3};
    cti_sink sink = {.ids = out->ids, .offsets = out->places, .room = ROOM, .text = &aligned};
    cti_model_work *work = cti_model_work_new(model, ROOM);
    out->good = cti_model_encode(model, work, 3, size + 3, &sink);
    out->count = sink.count;
    /* again, now perhaps from the cache */
    if (out->good) ck_assert(cti_model_encode(model, work, 3, size + 3, &sink));
    if (out->good) ck_assert_int_eq(sink.count, 2 * out->count);
    for (int64_t i = 0; i < out->count && out->good; i++) {
        ck_assert_int_eq(out->ids[i + out->count], out->ids[i]);
        ck_assert_int_eq(out->places[2 * (i + out->count)], out->places[2 * i]);
    }
    cti_model_work_free(work);
    free(text);
}

typedef struct {
    const char *name;
    bool bytes;
    const char *json;
    struct {
        const char *text, *tokens; /* "id:begin-end ..." */
    } text[8];
} model_row;

static const model_row rows[] = {
    {"plain",
     false,
     "{'type': 'BPE', 'vocab': {'a': 0, 'b': 1, 'c': 2, 'ab': 3, 'abc': 4, '<unk>': 5, 'bc': 6},"
     " 'merges': ['a b']}",
     {
         {"abc", "3:0-2 2:2-3"},
         {"xab", "3:0-2"},
         {"axxb", "3:0-2"},
         {"abxabxababxababababab",
          "3:0-2 3:2-4 3:4-6 3:6-8 3:8-10 3:10-12 3:12-14 3:14-16 3:16-18"},
         {"abababababababababababababababababababab",
          "3:0-2 3:2-4 3:4-6 3:6-8 3:8-10 3:10-12 3:12-14 3:14-16 3:16-18 3:18-20 3:20-22 3:22-2"
          "4 3:24-26 3:26-28 3:28-30 3:30-32 3:32-34 3:34-36 3:36-38 3:38-40"},
     }},
    {"a character is dropped",
     false,
     "{'type': 'BPE', 'vocab': {'a': 0, 'b': 1, 'c': 2, 'ab': 3, 'abc': 4, '<unk>': 5, 'bc': 6, "
     "'xab': 7}, 'merges': ['a b']}",
     {
         {"xab", "3:0-2"},
         {"abx", "3:0-2"},
     }},
    {"pairs",
     false,
     "{'type': 'BPE', 'vocab': {'a': 0, 'b': 1, 'c': 2, 'ab': 3, 'abc': 4, '<unk>': 5, 'bc': 6},"
     " 'merges': [['b', 'c'], ['a', 'b'], ['b', 'c'], ['a', 'bc']]}",
     {
         {"abc", "3:0-2 2:2-3"},
         {"bcabab", "6:0-2 3:2-4 3:4-6"},
     }},
    {"version",
     false,
     "{'type': 'BPE', 'vocab': {'a': 0, 'b': 1, 'c': 2, 'ab': 3, 'abc': 4, '<unk>': 5, 'bc': 6},"
     " 'merges': ['#version: 0.2', 'a b', '#version', 'ab c'], 'dropout': 0.0}",
     {
         {"abc", "4:0-3"},
     }},
    {"unknown",
     false,
     "{'type': 'BPE', 'vocab': {'a': 0, 'b': 1, 'c': 2, 'ab': 3, 'abc': 4, '<unk>': 5, 'bc': 6},"
     " 'merges': ['a b'], 'unk_token': '<unk>'}",
     {
         {"abxxab", "3:0-2 5:2-3 5:3-4 3:4-6"},
         {"\303\251a", "5:0-2 0:2-3"},
         {"x\303\251", "5:0-1 5:1-3"},
         {"xxab\303\251abababababababababababababababababababab",
          "5:0-1 5:1-2 3:2-4 5:4-6 3:6-8 3:8-10 3:10-12 3:12-14 3:14-16 3:16-18 3:18-20 3:20-22 "
          "3:22-24 3:24-26 3:26-28 3:28-30 3:30-32 3:32-34 3:34-36 3:36-38 3:38-40 3:40-42 3:42-"
          "44 3:44-46"},
     }},
    {"fused",
     false,
     "{'type': 'BPE', 'vocab': {'a': 0, 'b': 1, 'c': 2, 'ab': 3, 'abc': 4, '<unk>': 5, 'bc': 6},"
     " 'merges': ['a b'], 'unk_token': '<unk>', 'fuse_unk': true}",
     {
         {"abxxab", "3:0-2 5:2-4 3:4-6"},
         {"\303\251x", "5:0-3"},
         {"xxa\303\251\303\251", "5:0-2 0:2-3 5:3-7"},
         {"x\303\251xx\303\251xx\303\251xx\303\251xx\303\251xx\303\251xx\303\251xx\303\251xx\303"
          "\251xx\303\251xx\303\251xx\303\251x",
          "5:0-48"},
     }},
    {"ignoring",
     false,
     "{'type': 'BPE', 'vocab': {'a': 0, 'b': 1, 'c': 2, 'ab': 3, 'abc': 4, '<unk>': 5, 'bc': 6, "
     "'an uncommonly long word': 7}, 'merges': ['a b'], 'ignore_merges': true}",
     {
         {"abc", "4:0-3"},
         {"bc", "6:0-2"},
         {"abcc", "3:0-2 2:2-3 2:3-4"},
         {"an uncommonly long word", "7:0-23"},
     }},
    {"ignoring, in parts",
     false,
     "{'type': 'BPE', 'vocab': {'a': 0, 'b': 1, 'c': 2, 'ab': 3, 'abc': 4, '<unk>': 5, 'bc': 6},"
     " 'merges': ['b c', 'a b'], 'ignore_merges': true, 'unk_token': '<unk>'}",
     {
         {"abc", "4:0-3"},
         {"abcabcabcabcabcabc",
          "0:0-1 6:1-3 0:3-4 6:4-6 0:6-7 6:7-9 0:9-10 6:10-12 0:12-13 6:13-15 0:15-16 6:16-18"},
         {"abcxabc\303\251abcabcabcabc",
          "0:0-1 6:1-3 5:3-4 0:4-5 6:5-7 5:7-9 0:9-10 6:10-12 0:12-13 6:13-15 0:15-16 6:16-18 0:"
          "18-19 6:19-21"},
     }},
    {"affixes",
     false,
     "{'type': 'BPE', 'vocab': {'a': 0, '##b': 1, '##c': 2, 'ab': 3, 'abc': 4, '##bc': 5, 'x': 6"
     ", 'c.': 7, '##c.': 8, 'abc.': 9, 'b': 10}, 'merges': [['a', '##b'], ['##b', '##c'], ['ab',"
     " '##c.']], 'continuing_subword_prefix': '##', 'end_of_word_suffix': '.'}",
     {
         {"abc", "9:0-3"},
         {"ab", "0:0-1"},
         {"c", "7:0-1"},
         {"abcabc", "3:0-2 2:2-3 1:3-4 8:4-5"},
         {"b", ""},
         {"bc", "10:0-1 8:1-2"},
     }},
    {"fallback",
     false,
     "{'type': 'BPE', 'vocab': {'<unk>': 0, 'a': 1, '<0x61>': 2, '<0xC3>': 3, '<0xA9>': 4, 'b': "
     "5, '<0x23>': 6, '<0x64>': 7}, 'merges': [], 'byte_fallback': true, 'unk_token': '<unk>'}",
     {
         {"a\303\251b", "1:0-1 3:1-3 4:1-3 5:3-4"},
         {"a\303\250\303\251b", "1:0-1 3:1-3 4:1-3 0:3-5 5:5-6"},
         {"\303\250\303\251\303\250", "3:0-2 4:0-2 0:2-4 0:4-6"},
         {"d", "7:0-1"},
     }},
    {"fallback, fused",
     false,
     "{'type': 'BPE', 'vocab': {'<unk>': 0, 'a': 1, '<0x61>': 2, '<0xC3>': 3, '<0xA9>': 4, 'b': "
     "5, '<0x23>': 6, '<0x64>': 7}, 'merges': [], 'byte_fallback': true, 'unk_token': '<unk>', '"
     "fuse_unk': true}",
     {
         {"a\303\250\303\251\303\250b", "1:0-1 3:1-3 4:1-3 0:3-7 5:7-8"},
         {"\303\250\303\250\303\251\303\250b", "3:0-2 4:0-2 0:2-8 5:8-9"},
     }},
    {"fallback only",
     false,
     "{'type': 'BPE', 'vocab': {'<unk>': 0, 'a': 1, '<0x61>': 2, '<0xC3>': 3, '<0xA9>': 4, 'b': "
     "5, '<0x23>': 6, '<0x64>': 7}, 'merges': [], 'byte_fallback': true}",
     {
         {"a\303\250\303\251b", "1:0-1 3:1-3 4:1-3 5:3-5"},
     }},
    {"bytes",
     true,
     "{'type': 'BPE', 'vocab': {'a': 0, 'b': 1, '\303\203': 2, '\304\240': 3, '\304\240a': 4, '"
     "\302\251': 5, '\303\203\302\251': 6, '\346\227\245': 7}, 'merges': ['\304\240 a', '\303"
     "\203 \302\251']}",
     {
         {"a ab", "0:0-1 4:1-3 1:3-4"},
         {"a\303\251b", "0:0-1 6:1-3 1:3-4"},
         {"  \303\251", "3:0-1 3:1-2 6:2-4"},
         {"\346\227\245", ""},
         {" ab ab ab ab ab ab ab ab ab ab ab ab ab ab ab",
          "4:0-2 1:2-3 4:3-5 1:5-6 4:6-8 1:8-9 4:9-11 1:11-12 4:12-14 1:14-15 4:15-17 1:17-18 4:"
          "18-20 1:20-21 4:21-23 1:23-24 4:24-26 1:26-27 4:27-29 1:29-30 4:30-32 1:32-33 4:33-35"
          " 1:35-36 4:36-38 1:38-39 4:39-41 1:41-42 4:42-44 1:44-45"},
     }},
    {"bytes, some missing",
     true,
     "{'type': 'BPE', 'vocab': {'a': 0, 'b': 1, '\303\203': 2}, 'merges': []}",
     {
         {"a\303\251b", "0:0-1 2:1-3 1:1-3"},
         {"a b\303\251", "0:0-1 1:1-2 2:1-3"},
         {"  ab", "0:0-1 1:0-1"},
         {"axb", "0:0-1 1:1-2"},
         {"a ba ba ba ba ba ba ba ba b",
          "0:0-1 1:1-2 0:1-2 1:2-3 0:3-4 1:4-5 0:4-5 1:5-6 0:6-7 1:7-8 0:7-8 1:8-9 0:9-10 1:10-1"
          "1 0:10-11 1:11-12 0:12-13 1:13-14"},
     }},
    {"bytes, unknown",
     true,
     "{'type': 'BPE', 'vocab': {'a': 0, 'b': 1, '<unk>': 2}, 'merges': [], 'unk_token': '<unk>',"
     " 'fuse_unk': true}",
     {
         {"a\303\251b", "0:0-1 2:1-3 1:3-4"},
         {"a b\303\251", "0:0-1 2:1-2 1:2-3 2:3-5"},
         {"  ab", "2:0-2 0:2-3 1:3-4"},
     }},
    {"bytes, fallback",
     true,
     "{'type': 'BPE', 'vocab': {'a': 0, 'b': 1, '<unk>': 2, '<0xC4>': 3, '<0xA0>': 4}, 'merges':"
     " [], 'unk_token': '<unk>', 'byte_fallback': true}",
     {
         {"a b\303\251", "0:0-1 3:1-2 4:1-2 1:2-3 2:3-5 2:3-5"},
         {"  ab", "3:0-1 4:0-1 3:1-2 4:1-2 0:2-3 1:3-4"},
     }},
    {"bytes, affixes",
     true,
     "{'type': 'BPE', 'vocab': {'a': 0, '##a': 1, '##\304\240': 2, 'aa': 3, '##a.': 4, 'aa.': 5}"
     ", 'merges': [['a', '##a'], ['a', '##a.']], 'continuing_subword_prefix': '##', 'end_of_word"
     "_suffix': '.'}",
     {
         {"aa a", "3:0-2 2:2-3 4:3-4"},
         {"aa", "5:0-2"},
         {"aaa", "3:0-2 4:2-3"},
     }},
    {"unknown in merges",
     false,
     "{'type': 'BPE', 'vocab': {'<unk>': 0, 'a': 1, '<unk>a': 2, 'a<unk>': 3, '<unk><unk>': 4}, "
     "'merges': [['<unk>', 'a'], ['a', '<unk>'], ['<unk>', '<unk>']], 'unk_token': '<unk>'}",
     {
         {"xa", "2:0-2"},
         {"ax", "3:0-2"},
         {"xax", "2:0-2 0:2-3"},
         {"axa", "1:0-1 2:1-3"},
         {"xxxx", "4:0-2 4:2-4"},
         {"xxaxx", "0:0-1 2:1-3 4:3-5"},
     }},
    {"empty tokens",
     false,
     "{'type': 'BPE', 'vocab': {'': 0, 'a': 1, 'b': 2}, 'merges': [['a', '']]}",
     {
         {"ab", "1:0-1 2:1-2"},
     }},
    {"no kind",
     false,
     "{'vocab': {'a': 0, 'b': 1, 'c': 2, 'ab': 3, 'abc': 4, '<unk>': 5, 'bc': 6}, 'merges': ['a "
     "b']}",
     {
         {"ab", "3:0-2"},
     }},
    {"WordPiece",
     false,
     "{'type': 'WordPiece', 'vocab': {'[UNK]': 0, 'un': 1, '##aff': 2, '##able': 3, 'u': 4, '##n"
     "': 5, '\303\251': 6, '##\303\251': 7}, 'unk_token': '[UNK]', 'continuing_subword_prefix': "
     "'##', 'max_input_chars_per_word': 10}",
     {
         {"unaffable", "1:0-2 2:2-5 3:5-9"},
         {"unaff", "1:0-2 2:2-5"},
         {"unx", "0:0-3"},
         {"xun", "0:0-3"},
         {"u", "4:0-1"},
         {"\303\251\303\251\303\251\303\251\303\251\303\251\303\251\303\251\303\251\303\251",
          "6:0-2 7:2-4 7:4-6 7:6-8 7:8-10 7:10-12 7:12-14 7:14-16 7:16-18 7:18-20"},
         {"\303\251\303\251\303\251\303\251\303\251\303\251\303\251\303\251\303\251\303\251\303"
          "\251",
          "0:0-22"},
         {"un##n", "0:0-5"},
     }},
    {"WordPiece, long tokens",
     false,
     "{'vocab': {'?': 0, 'abcabcabc': 1, 'abc': 2, '##abcab': 3, '##c': 4}, 'unk_token': '?', 'c"
     "ontinuing_subword_prefix': '##', 'max_input_chars_per_word': 100}",
     {
         {"abcabcabc", "1:0-9"},
         {"abcabcabcc", "1:0-9 4:9-10"},
         {"abcabcab", "2:0-3 3:3-8"},
         {"abcabcc", "0:0-7"},
     }},
    {"WordPiece, no prefix",
     false,
     "{'type': 'WordPiece', 'vocab': {'[UNK]': 0, 'un': 1, 'u': 2, '': 3}, 'unk_token': '[UNK]',"
     " 'continuing_subword_prefix': '', 'max_input_chars_per_word': 10}",
     {
         {"unu", "1:0-2 2:2-3"},
         {"unx", "0:0-3"},
     }},
    {"WordPiece, bytes",
     true,
     "{'type': 'WordPiece', 'vocab': {'[UNK]': 0, '\304\240': 1, '##ab': 2, '##\303\203': 3, '##"
     "\302\251': 4}, 'unk_token': '[UNK]', 'continuing_subword_prefix': '##', 'max_input_chars_p"
     "er_word': 5}",
     {
         {" ab", "1:0-1 2:1-3"},
         {" ab\303\251", "1:0-1 2:1-3 3:3-5 4:3-5"},
         {" ab\303\251\303\251", "0:0-7"},
     }},
    {"WordLevel",
     false,
     "{'type': 'WordLevel', 'vocab': {'[UNK]': 0, 'ab': 1}, 'unk_token': '[UNK]'}",
     {
         {"ab", "1:0-2"},
         {"abc", "0:0-3"},
     }},
    {"WordLevel, bytes",
     true,
     "{'type': 'WordLevel', 'vocab': {'[UNK]': 0, '\304\240ab': 1}, 'unk_token': '[UNK]'}",
     {
         {" ab", "1:0-3"},
         {"ab", "0:0-2"},
     }},
    {"Unigram: the largest sum",
     false,
     "{'type': 'Unigram', 'unk_id': 0, 'vocab': [['<unk>', 0], ['a', -1.0], ['b', -1.0], ['ab', "
     "-1.5], ['abc', -9], ['bc', -1], ['c', -3], ['\303\251', -1]]}",
     {
         {"abc", "1:0-1 5:1-3"},
         {"abab", "3:0-2 3:2-4"},
         {"xyz", "0:0-3"},
         {"axyb", "1:0-1 0:1-3 2:3-4"},
         {"a\303\251x\303\251", "1:0-1 7:1-3 0:3-4 7:4-6"},
         {"<unk>", "0:0-5"},
         {"x<unk>a", "0:0-6 1:6-7"},
         {"c", "6:0-1"},
     }},
    {"Unigram: equal sums",
     false,
     "{'type': 'Unigram', 'unk_id': 0, 'vocab': [['<unk>', -5], ['a', -1], ['aa', -2], ['aaa', "
     "-3], ['b', -1], ['ab', -2], ['ba', -2]]}",
     {
         {"a", "1:0-1"},
         {"aa", "2:0-2"},
         {"aaa", "3:0-3"},
         {"aaaa", "1:0-1 3:1-4"},
         {"aaaaaaa", "1:0-1 3:1-4 3:4-7"},
         {"aba", "1:0-1 6:1-3"},
         {"abab", "5:0-2 5:2-4"},
         {"babab", "4:0-1 5:1-3 5:3-5"},
     }},
    {"Unigram: bytes of unknown characters",
     false,
     "{'type': 'Unigram', 'unk_id': 0, 'vocab': [['<unk>', 0], ['<0xC3>', 0], ['<0xA9>', 0], ['a', "
     "-1], ['<0x78>', 0], ['xy', -100]], 'byte_fallback': true}",
     {
         {"\303\251", "1:0-2 2:0-2"},
         {"a\303\251\303\251a", "3:0-1 1:1-5 2:1-5 1:1-5 2:1-5 3:5-6"},
         {"\303\250", "0:0-2"},
         {"x\303\251", "4:0-3 1:0-3 2:0-3"},
         {"xx", "4:0-2 4:0-2"},
         {"xy", "5:0-2"},
     }},
    {"Unigram: a token twice, an empty one, and one that is a run of unknown characters",
     false,
     "{'type': 'Unigram', 'unk_id': 1, 'vocab': [['a', -9], ['<unk>', 30], ['a', -1], ['', -1], "
     "['xy', 25], ['b', -2]]}",
     {
         {"a", "2:0-1"},
         {"ab", "2:0-1 5:1-2"},
         {"xy", "4:0-2"},
         {"xyx", "4:0-2 1:2-3"},
         {"b", "5:0-1"},
     }},
    {"Unigram without a type",
     false,
     "{'vocab': [['a', -1.5], ['b', -2.0], ['ab', -3.5]]}",
     {
         {"ab", "2:0-2"},
         {"abb", "2:0-2 1:2-3"},
     }},
    {"Unigram of bytes",
     true,
     "{'type': 'Unigram', 'unk_id': 0, 'vocab': [['<unk>', 0], ['\304\240a', -1], ['a', -2], "
     "['\303\203', -1], ['\303\203\302\251', -3], ['\344\270\255', -1]]}",
     {
         {"a a", "2:0-1 1:1-3"},
         {"\303\251", "4:0-2"},
         {"a\303\250b", "2:0-1 3:1-3 0:1-4"},
     }},
};

START_TEST(tokens_of_the_package) {
    const model_row *row = &rows[_i];
    ck_assert_msg(open_model(row->json, row->bytes), "%s: %s", row->name,
                  ct_error_message(context));
    for (int i = 0; i < 8 && row->text[i].text; i++) {
        static tokens got;
        char text[ROOM] = "";
        size_t used = 0;
        encode(row->text[i].text, strlen(row->text[i].text), &got);
        ck_assert(got.good);
        for (int64_t t = 0; t < got.count; t++)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%d:%d-%d", t ? " " : "",
                                     (int)got.ids[t], (int)got.places[2 * t] - 3,
                                     (int)got.places[2 * t + 1] - 3);
        ck_assert_msg(!strcmp(text, row->text[i].tokens), "%s: '%s': %s, not %s", row->name,
                      row->text[i].text, text, row->text[i].tokens);
    }
}
END_TEST

/* ---- merges against a plain search ---- */

static void ck_merged(const char *piece, size_t size) {
    static tokens got;
    int id[LONGEST];
    encode(piece, size, &got);
    const size_t n = plain_merge(piece, size, id);
    ck_assert(got.good);
    ck_assert_int_eq(got.count, (int64_t)n);
    size_t place = 3;
    for (size_t i = 0; i < n; i++) {
        ck_assert_int_eq(got.ids[i], id[i]);
        ck_assert_int_eq(got.places[2 * i], (int64_t)place);
        place += strlen(token[id[i]]);
        ck_assert_int_eq(got.places[2 * i + 1], (int64_t)place);
    }
}

/* Symbols are characters, or bytes. The text of a token, which a model may know to be one token,
 * is a piece too. */
START_TEST(merges_are_in_order_of_rank) {
    static const char *const unknown[] = {"", "'unk_token': 'a',", "'unk_token': '?',"};
    for (int round = 0; round < 48; round++) {
        const uint32_t letters = 1 + (uint32_t)round % 8;
        state = (uint32_t)round + 1;
        make_merges(letters, 4 + (size_t)round % 9, round % 16 >= 8);
        open_merges(unknown[round % 3], _i);
        for (int t = 0; t < n_tokens; t++) ck_merged(token[t], strlen(token[t]));
        for (int t = 0; t < 60; t++) {
            char piece[LONGEST];
            const size_t size = 1 + below(t % 3 ? 30 : LONGEST);
            const uint32_t period = 1 + below(6);
            for (size_t i = 0; i < size; i++)
                piece[i] = t % 2 && i >= period ? piece[i - period] : "abcdefgh"[below(letters)];
            ck_merged(piece, size);
        }
    }
}
END_TEST

/* Merges of tokens whose texts have an earlier merge across the border between the two: beside it,
 * of the same rank, and in the second of two equal tokens. */
START_TEST(a_merge_across_a_border_comes_first) {
    static const char *const merges[][4][2] = {{{"b", "c"}, {"a", "b"}, {"ab", "c"}},
                                               {{"a", "a"}, {"a", "aa"}},
                                               {{"ab", "a"}, {"a", "b"}, {"ab", "ab"}},
                                               {{"a", "b"}, {"b", "c"}, {"c", "d"}, {"ab", "cd"}},
                                               {{"c", "d"}, {"b", "cd"}, {"a", "b"}, {"ab", "cd"}}};
    for (size_t i = 0; i < sizeof merges / sizeof *merges; i++) {
        n_tokens = n_merges = 0;
        for (int k = 0; k < 4 && merges[i][k][0]; k++) {
            char both[16];
            const char *left = merges[i][k][0], *right = merges[i][k][1];
            snprintf(both, sizeof both, "%s%s", left, right);
            const int ids[] = {token_of(left, strlen(left)), token_of(right, strlen(right)),
                               token_of(both, strlen(both))};
            memcpy(merge[n_merges++], ids, sizeof ids);
        }
        open_merges("", _i);
        for (int t = 0; t < n_tokens; t++) ck_merged(token[t], strlen(token[t]));
    }
}
END_TEST

START_TEST(a_token_that_is_no_result_of_merges_is_not_found) {
    /* "abc" is a token, but "bc" is merged first and nothing joins "a" and "bc" */
    static tokens got;
    ck_assert(open_model("{'type': 'BPE', 'vocab': {'a': 0, 'b': 1, 'c': 2, 'ab': 3, 'bc': 4, "
                         "'abc': 5}, 'merges': ['b c', 'a b', 'ab c']}",
                         false));
    encode("abc", 3, &got);
    ck_assert(got.count == 2 && got.ids[0] == 0 && got.ids[1] == 4);
}
END_TEST

/* ---- pieces and memory ---- */

START_TEST(a_long_piece_takes_no_square_of_its_length) {
    enum { SIZE = 1 << 18 };
    static char text[SIZE];
    static const char *const periods[] = {"a", "ab", "aab", "abcabb"};
    state = 7;
    make_merges(3, 12, false);
    for (int p = 0; p < 8; p++) {
        open_merges(p < 4 ? "" : "'unk_token': 'a',", false); /* with 4 to 7 not regular */
        const char *period = periods[p % 4];
        for (size_t i = 0; i < SIZE; i++) text[i] = period[i % strlen(period)];
        const cti_aligned aligned = {.at = text, .size = SIZE};
        cti_sink sink = {.text = &aligned};
        cti_model_work *work = cti_model_work_new(model, SIZE);
        ck_assert(cti_model_encode(model, work, 0, SIZE, &sink));
        ck_assert(sink.count >= SIZE / 12 && sink.count <= SIZE);
        cti_model_work_free(work);
    }
}
END_TEST

START_TEST(a_sink_without_room_counts) {
    int64_t ids[2] = {-7, -7};
    ck_assert(open_model("{'type': 'WordPiece', 'vocab': {'?': 9, 'a': 1, '#b': 2}, "
                         "'unk_token': '?', 'continuing_subword_prefix': '#', "
                         "'max_input_chars_per_word': 9}",
                         false));
    const cti_aligned aligned = {.at = "abbabx", .size = 6};
    cti_sink sink = {.ids = ids, .room = 2, .text = &aligned};
    cti_model_work *work = cti_model_work_new(model, 6);
    ck_assert(cti_model_encode(model, work, 3, 6, &sink)); /* "abx": one unknown token */
    ck_assert(cti_model_encode(model, work, 0, 3, &sink));
    ck_assert(sink.count == 4 && ids[0] == 9 && ids[1] == 1);
    cti_model_work_free(work);
}
END_TEST

START_TEST(an_unknown_token_that_is_no_token_is_an_error_of_the_piece) {
    static const char *const models[] = {
        "{'type': 'BPE', 'vocab': {'a': 0}, 'merges': [], 'unk_token': '?'}",
        ("{'type': 'WordPiece', 'vocab': {'a': 0}, 'unk_token': '?', "
         "'continuing_subword_prefix': 'a', 'max_input_chars_per_word': 5}"),
        "{'type': 'WordLevel', 'vocab': {'a': 0}, 'unk_token': '?'}"};
    for (int i = 0; i < 3; i++) {
        static tokens got;
        ck_assert(open_model(models[i], false));
        encode("a", 1, &got);
        ck_assert(got.good && got.count == 1 && got.ids[0] == 0);
        encode("ax", 2, &got);
        ck_assert(!got.good);
    }
}
END_TEST

START_TEST(bytes_of_affixes_are_tokens) {
    /* "#" and "." have byte tokens too, so there are more tokens than bytes; the package's ids, and
     * ranges that do not leave the piece */
    static tokens got;
    static const int64_t ids[] = {3, 1, 1, 0, 2};
    ck_assert(open_model("{'type': 'BPE', 'vocab': {'<0x23>': 1, '<0x64>': 0, '<0x2E>': 2, 'b': 3, "
                         "'<0x62>': 4, '.': 5, '..': 6}, 'merges': [], 'byte_fallback': true, "
                         "'continuing_subword_prefix': '##', 'end_of_word_suffix': '.'}",
                         false));
    encode("bd", 2, &got);
    ck_assert(got.good && got.count == 5);
    for (int i = 0; i < 5; i++) ck_assert_int_eq(got.ids[i], ids[i]);
    for (int i = 0; i < 5; i++)
        ck_assert(got.places[2 * i] >= 3 && got.places[2 * i] < got.places[2 * i + 1] &&
                  got.places[2 * i + 1] <= 5);
}
END_TEST

int main(void) {
    return run_tests(
        "text_model", start, stop,
        TESTS(LOOP(tokens_of_the_package, (int)(sizeof rows / sizeof *rows)),
              LOOP(merges_are_in_order_of_rank, 2), LOOP(a_merge_across_a_border_comes_first, 2),
              TEST(a_token_that_is_no_result_of_merges_is_not_found),
              TEST(a_long_piece_takes_no_square_of_its_length), TEST(a_sink_without_room_counts),
              TEST(an_unknown_token_that_is_no_token_is_an_error_of_the_piece),
              TEST(bytes_of_affixes_are_tokens)));
}
