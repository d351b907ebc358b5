/* Normalizers: the text that each makes, the place in the original of each of its characters, and
 * refusals. The rows are from the tokenizers package 0.23.3; its places in bytes are from
 * PreTokenizedString.get_splits. */
#include "ext/text/normalize.h"

#include <stdio.h>

#include "ext/text/utf8.h"
#include "text_probe.h"
#include "tests/support/suite.h"

enum { ROOM = 4096 };

/* A charsmap: a -> XY, b -> PQR, c -> nothing, d -> D,
 * U+00A9 -> (c), e U+0301 -> E, U+0915 -> K, CR LF -> N. */
static const char charsmap[] =
    "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\""
    "AAQAAAAEAAAAAACAAgAAgAUAAIAJAACACgAAgAwAAIAOAACAEgAAgAAAAAAAAAAACikAAA00AAAAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAGGJAQAAAAAAY5kBAGKBAQBllAEAZIEBAAAAAAAAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAgRkCAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAACVcQIA"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    "AAAAAKSQAgAAAAAAAAAAAKm9AgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    "AAAAAMIIAwAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAADMMAMAAAAAAAAAAAAAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    "AAAAAOCAAwAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    "AAAAAAAAAABOAFhZAFBRUgAARABFAChjKQBLAA=="
    "\"}";

static const struct {
    const char *normalizer, *text;
    int64_t size;                /* the size of the text */
    const char *result, *places; /* "begin-end" of each character */
} rows[] = {
    {"{\"type\":\"NFC\"}", "e\314\201x", 4, "\303\251x", "0-1 3-4"},
    {"{\"type\":\"NFC\"}", "x\314\226\314\201", 5, "x\314\226\314\201", "0-1 1-3 3-5"},
    {"{\"type\":\"NFC\"}", "x\314\201\314\226", 5, "x\314\226\314\201", "0-1 1-3 3-5"},
    {"{\"type\":\"NFC\"}", "\340\245\230", 3, "\340\244\225\340\244\274", "0-3 0-3"},
    {"{\"type\":\"NFC\"}", "\341\204\200\341\205\241\341\206\250\352\260\200\341\206\250", 15,
     "\352\260\201\352\260\201", "0-3 9-12"},
    {"{\"type\":\"NFC\"}", "\314\201\315\204a", 5, "\314\201\314\210\314\201a", "0-2 2-4 2-4 4-5"},
    {"{\"type\":\"NFC\"}", "a\315\205\314\201\314\264", 7, "\303\241\314\264\315\205",
     "0-1 3-5 5-7"},
    {"{\"type\":\"NFC\"}", "\341\276\264\315\202", 5, "\341\276\264\315\202", "0-3 3-5"},
    {"{\"type\":\"NFC\"}", "e\314\247\314\201", 5, "\310\251\314\201", "0-1 3-5"},
    {"{\"type\":\"NFC\"}", "e\314\225\314\201", 5, "\303\251\314\225", "0-1 3-5"},
    {"{\"type\":\"NFC\"}", "\357\244\200\360\257\240\200", 7, "\350\261\210\344\270\275",
     "0-3 3-7"},
    {"{\"type\":\"NFC\"}", "\340\247\207\314\264\340\246\276\340\247\207\340\246\276", 14,
     "\340\247\207\314\264\340\246\276\340\247\213", "0-3 3-5 5-8 8-11"},
    {"{\"type\":\"NFC\"}", "\360\221\202\231\360\221\202\272", 8, "\360\221\202\232", "0-4"},
    {"{\"type\":\"NFC\"}", "a\314\223\314\201", 5, "a\314\223\314\201", "0-1 1-3 3-5"},
    {"{\"type\":\"NFC\"}", "e\314\201\342\204\253\314\201", 8, "\303\251\307\272", "0-1 3-6"},
    {"{\"type\":\"NFC\"}", "\341\204\200\341\205\241\314\201\341\205\241", 11,
     "\352\260\200\314\201\341\205\241", "0-3 6-8 8-11"},
    {"{\"type\":\"NFC\"}", "e\314\226\303\251\314\226\314\201", 9,
     "e\314\226\303\251\314\226\314\201", "0-1 1-3 3-5 5-7 7-9"},
    {"{\"type\":\"NFC\"}", "a\326\260\340\245\215\343\202\231\314\201", 11,
     "\303\241\343\202\231\340\245\215\326\260", "0-1 3-6 6-9 9-11"},
    {"{\"type\":\"NFD\"}", "\341\271\251\314\243\307\225\314\226", 9,
     "s\314\243\314\243\314\207U\314\226\314\210\314\204", "0-3 0-3 3-5 3-5 5-7 7-9 7-9 7-9"},
    {"{\"type\":\"NFD\"}", "\303\251\314\226", 4, "e\314\226\314\201", "0-2 2-4 2-4"},
    {"{\"type\":\"NFD\"}", "a\314\201\315\204\314\226b", 8, "a\314\226\314\201\314\210\314\201b",
     "0-1 1-3 3-5 5-7 5-7 7-8"},
    {"{\"type\":\"NFD\"}", "\352\260\201\352\260\200", 6,
     "\341\204\200\341\205\241\341\206\250\341\204\200\341\205\241", "0-3 0-3 0-3 3-6 3-6"},
    {"{\"type\":\"NFD\"}", "\341\271\251\307\225", 5, "s\314\243\314\207U\314\210\314\204",
     "0-3 0-3 0-3 3-5 3-5 3-5"},
    {"{\"type\":\"NFD\"}", "\360\235\205\240", 4,
     "\360\235\205\230\360\235\205\245\360\235\205\256", "0-4 0-4 0-4"},
    {"{\"type\":\"NFD\"}", "x\315\205\314\201\314\226\314\264y", 10,
     "x\314\264\314\226\314\201\315\205y", "0-1 1-3 3-5 5-7 7-9 9-10"},
    {"{\"type\":\"Lowercase\"}", "\304\260A\316\243Z@[\341\272\236\360\220\220\200", 15,
     "i\314\207a\317\203z@[\303\237\360\220\220\250", "0-2 0-2 2-3 3-5 5-6 6-7 7-8 8-11 11-15"},
    {"{\"type\":\"Lowercase\"}", "\303\211\352\231\212\342\260\257", 8,
     "\303\251\352\231\213\342\261\237", "0-2 2-5 5-8"},
    {"{\"type\":\"StripAccents\"}", "\314\201a\314\201\314\201b\314\201", 10, "ab", "2-3 7-8"},
    {"{\"type\":\"StripAccents\"}", "\340\244\203a\342\203\235", 7, "a", "3-4"},
    {"{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":false,\"strip_"
     "accents\":null,\"lowercase\":false}",
     "a\000b\011c\302\240\343\200\200\342\200\215\357\277\275d\013\177\356\200\200\015\012", 24,
     "ab c  d  ", "0-1 2-3 3-4 4-5 5-7 7-10 16-17 22-23 23-24"},
    {"{\"type\":\"BertNormalizer\",\"clean_text\":false,\"handle_chinese_chars\":true,\"strip_"
     "accents\":null,\"lowercase\":false}",
     "a\344\270\255\346\226\207b\360\253\240\240\360\253\244\240\343\201\202", 19,
     "a \344\270\255  \346\226\207 b\360\253\240\240 \360\253\244\240 \343\201\202",
     "0-1 1-4 1-4 1-4 4-7 4-7 4-7 7-8 8-12 12-16 12-16 12-16 16-19"},
    {"{\"type\":\"BertNormalizer\",\"clean_text\":false,\"handle_chinese_chars\":false,\"strip_"
     "accents\":true,\"lowercase\":false}",
     "\303\251\314\201\314\226\340\244\203", 9, "e\340\244\203", "0-2 6-9"},
    {"{\"type\":\"BertNormalizer\",\"clean_text\":false,\"handle_chinese_chars\":false,\"strip_"
     "accents\":null,\"lowercase\":true}",
     "\303\211\304\260", 4, "ei", "0-2 2-4"},
    {"{\"type\":\"BertNormalizer\",\"clean_text\":false,\"handle_chinese_chars\":false,\"strip_"
     "accents\":false,\"lowercase\":true}",
     "\303\211", 2, "\303\251", "0-2"},
    {"{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,\"strip_"
     "accents\":null,\"lowercase\":true}",
     "\303\211a\344\270\255\000\011B\314\200", 11, "ea \344\270\255  b",
     "0-2 2-3 3-6 3-6 3-6 7-8 8-9"},
    {"{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\342\226\201\"}", "a b  c",
     6, "a\342\226\201b\342\226\201\342\226\201c", "0-1 1-2 2-3 3-4 4-5 5-6"},
    {"{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\342\226\201\"}", "", 0,
     "", ""},
    {"{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\342\226\201\"}", " ", 1,
     "\342\226\201", "0-1"},
    {"{\"type\":\"Replace\",\"pattern\":{\"String\":\"\303\251\"},\"content\":\"xyz\"}",
     "\303\251a b\303\251b", 8, "xyza bxyzb", "0-2 0-2 0-2 2-3 3-4 4-5 5-7 5-7 5-7 7-8"},
    {"{\"type\":\"Replace\",\"pattern\":{\"String\":\"ab\"},\"content\":\"1\"}", "abab xab", 8,
     "11 x1", "1-2 3-4 4-5 5-6 7-8"},
    {"{\"type\":\"Replace\",\"pattern\":{\"String\":\"ab\"},\"content\":\"\"}", "abab xab", 8, " x",
     "4-5 5-6"},
    {"{\"type\":\"Replace\",\"pattern\":{\"String\":\"\"},\"content\":\"-\"}", "a\303\251", 3,
     "-a-\303\251-", "0-0 0-1 0-1 1-3 1-3"},
    {"{\"type\":\"Replace\",\"pattern\":{\"String\":\"\"},\"content\":\"-\"}", "", 0, "", ""},
    {"{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"x*\"},\"content\":\"-\"}", "axxbx", 5, "-a-b-",
     "0-0 0-1 2-3 3-4 4-5"},
    {"{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"x*\"},\"content\":\"-\"}", "\303\251x", 3,
     "-\303\251-", "0-0 0-2 2-3"},
    {"{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"^\"},\"content\":\"-!\"}", "ab", 2, "-!ab",
     "0-0 0-0 0-1 1-2"},
    {"{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"$\"},\"content\":\"-!\"}", "ab", 2, "ab-!",
     "0-1 1-2 1-2 1-2"},
    {"{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"(a)(b)\"},\"content\":\"$2$1\"}", "cab", 3,
     "c$2$1", "0-1 2-3 2-3 2-3 2-3"},
    {"{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"\\\\s+\"},\"content\":\" \"}",
     "  a\343\200\200\012 b\011", 10, " a b ", "1-2 2-3 7-8 8-9 9-10"},
    {"{\"type\":\"Prepend\",\"prepend\":\"\342\226\201\"}", "\303\251a", 3, "\342\226\201\303\251a",
     "0-2 0-2 2-3"},
    {"{\"type\":\"Prepend\",\"prepend\":\"\342\226\201\"}", "", 0, "", ""},
    {"{\"type\":\"Prepend\",\"prepend\":\"ab\"}", "\303\251a", 3, "ab\303\251a", "0-2 0-2 0-2 2-3"},
    {"{\"type\":\"Prepend\",\"prepend\":\"\"}", "\303\251a", 3, "\303\251a", "0-0 2-3"},
    {"{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true}",
     " \343\200\200a b\342\200\203 ", 11, "a b", "4-5 5-6 6-7"},
    {"{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true}", "  ", 2, "", ""},
    {"{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true}", "", 0, "", ""},
    {"{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":false}", " a ", 3, "a ", "1-2 2-3"},
    {"{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":false}", "  ", 2, "", ""},
    {"{\"type\":\"Strip\",\"strip_left\":false,\"strip_right\":true}", " \303\251\342\200\203", 6,
     " \303\251", "0-1 1-3"},
    {"{\"type\":\"Strip\",\"strip_left\":false,\"strip_right\":true}", "  ", 2, "", ""},
    {"{\"type\":\"Strip\",\"strip_left\":false,\"strip_right\":false}", " a ", 3, " a ",
     "0-1 1-2 2-3"},
    {"{\"type\":\"Sequence\",\"normalizers\":[]}", "\303\251", 2, "\303\251", "0-2"},
    {"{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"\342\226\201\"}, "
     "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\342\226\201\"}]}",
     "a b", 3, "\342\226\201a\342\226\201b", "0-1 0-1 1-2 2-3"},
    {"{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFD\"}, "
     "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"StripAccents\"}, "
     "{\"type\":\"Lowercase\"}]}]}",
     "\303\211b\304\260", 5, "ebi", "0-2 2-3 3-5"},
    {"{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFD\"}, "
     "{\"type\":\"Replace\",\"pattern\":{\"String\":\"\314\201\"},\"content\":\"..\"}, "
     "{\"type\":\"NFC\"}, {\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true}]}",
     " \303\251a\314\212\303\251 ", 9, "e..\303\245e..", "1-3 1-3 1-3 3-4 6-8 6-8 6-8"},
    {"{\"type\":\"NFKC\"}", "\357\254\201\302\275x\357\274\241", 9, "fi1\342\201\2042xA",
     "0-3 0-3 3-5 3-5 3-5 5-6 6-9"},
    {"{\"type\":\"NFKD\"}", "\357\254\201\302\275x\357\274\241", 9, "fi1\342\201\2042xA",
     "0-3 0-3 3-5 3-5 3-5 5-6 6-9"},
    {"{\"type\":\"NFKC\"}", "\357\267\272z", 4,
     "\330\265\331\204\331\211 \330\247\331\204\331\204\331\207 \330\271\331\204\331\212\331\207 "
     "\331\210\330\263\331\204\331\205z",
     "0-3 0-3 0-3 0-3 0-3 0-3 0-3 0-3 0-3 0-3 0-3 0-3 0-3 0-3 0-3 0-3 0-3 0-3 3-4"},
    {"{\"type\":\"NFKD\"}", "\357\267\272z", 4,
     "\330\265\331\204\331\211 \330\247\331\204\331\204\331\207 \330\271\331\204\331\212\331\207 "
     "\331\210\330\263\331\204\331\205z",
     "0-3 0-3 0-3 0-3 0-3 0-3 0-3 0-3 0-3 0-3 0-3 0-3 0-3 0-3 0-3 0-3 0-3 0-3 3-4"},
    {"{\"type\":\"NFKC\"}", "\357\275\266\357\276\236\342\221\240\314\201", 11,
     "\343\202\2541\314\201", "0-3 6-9 9-11"},
    {"{\"type\":\"NFKD\"}", "\357\275\266\357\276\236\342\221\240\314\201", 11,
     "\343\202\253\343\202\2311\314\201", "0-3 3-6 6-9 9-11"},
    {"{\"type\":\"NFKC\"}", "\343\214\200a\341\272\233\314\243", 9,
     "\343\202\242\343\203\221\343\203\274\343\203\210a\341\271\251", "0-3 0-3 0-3 0-3 3-4 4-7"},
    {"{\"type\":\"NFKD\"}", "\343\214\200a\341\272\233\314\243", 9,
     "\343\202\242\343\203\217\343\202\232\343\203\274\343\203\210as\314\243\314\207",
     "0-3 0-3 0-3 0-3 0-3 3-4 4-7 7-9 7-9"},
    {"{\"type\":\"NFKC\"}", "\342\204\246\360\235\220\200\314\226\357\272\215", 12,
     "\316\251A\314\226\330\247", "0-3 3-7 7-9 9-12"},
    {"{\"type\":\"NFKD\"}", "\342\204\246\360\235\220\200\314\226\357\272\215", 12,
     "\316\251A\314\226\330\247", "0-3 3-7 7-9 9-12"},
    {charsmap, "a\314\201z", 4, "XYz", "0-1 1-3 3-4"},
    {charsmap, "a\314\201\314\202z", 6, "XYz", "0-1 1-3 5-6"},
    {charsmap, "b\314\201z", 4, "PQRz", "0-1 1-3 1-3 3-4"},
    {charsmap, "cz", 2, "z", "0-1"},
    {charsmap, "zcz", 3, "zz", "0-1 2-3"},
    {charsmap, "bcccz", 5, "PQRz", "0-1 0-1 1-2 4-5"},
    {charsmap, "acz", 3, "XYz", "0-1 1-2 2-3"},
    {charsmap, "ccaz", 4, "XYz", "0-1 0-1 1-2"},
    {charsmap, "e\314\201d\314\201d\314\201\314\202\314\203", 13, "EDDE\314\202\314\203",
     "0-1 3-4 6-7 7-9 9-11 11-13"},
    {charsmap, "\302\251\342\200\215\302\251\314\201\302\251\314\201", 13, "(c)\342\200\215(c)E(c)",
     "0-2 0-2 0-2 2-5 5-7 5-7 5-7 7-9 9-11 11-13 11-13"},
    {charsmap, "\340\244\225\340\245\215\340\244\225\314\201\340\244\225\314\201", 16,
     "K\340\245\215KEK", "0-3 3-6 6-9 9-11 11-14"},
    {charsmap, "\330\200a\330\200z", 6, "\330\200XY\330\200z", "0-2 2-3 2-3 3-5 5-6"},
    {charsmap, "\015\012d\015", 4, "ND\015", "0-1 2-3 3-4"},
    {charsmap, "\341\204\200\341\205\241\341\206\250\314\201d", 12,
     "\341\204\200\341\205\241\341\206\250ED", "0-3 3-6 6-9 9-11 11-12"},
    {charsmap, "", 0, "", ""},
    {charsmap, "xyz", 3, "xyz", "0-1 1-2 2-3"},
};

/* The text, between others, is a section of a longer one, whose places begin with it. */
static void normalize_row(size_t row, const char *around, char *places) {
    char message[ROOM], whole[ROOM], out[ROOM + 1];
    int64_t from[2 * ROOM];
    text_probe *probe = text_probe_open(rows[row].normalizer, message, sizeof message);
    ck_assert_msg(probe != NULL, "row %zu: %s", row, message);
    const int64_t base = (int64_t)strlen(around), size = rows[row].size;
    memcpy(whole, around, (size_t)base);
    memcpy(whole + base, rows[row].text, (size_t)size);
    memcpy(whole + base + size, around, (size_t)base);
    const int64_t n = text_probe_normalize(probe, whole, base, size, out, from, ROOM);
    text_probe_close(probe);
    ck_assert_msg(n == (int64_t)strlen(rows[row].result) &&
                      !memcmp(out, rows[row].result, (size_t)n),
                  "row %zu, %s: another text", row, rows[row].normalizer);
    size_t written = 0;
    for (int64_t i = 0; i < n; i++) {
        const bool later = cti_utf8_continues(out[i]);
        ck_assert(!later || (from[2 * i] == from[2 * i - 2] && from[2 * i + 1] == from[2 * i - 1]));
        if (later) continue;
        written += (size_t)snprintf(places + written, ROOM - written, "%s%d-%d", i ? " " : "",
                                    (int)(from[2 * i] - base), (int)(from[2 * i + 1] - base));
    }
}

START_TEST(texts_and_places) {
    static const char *const around[] = {"", "ab", "\303\251\314\201"};
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        for (size_t i = 0; i < sizeof around / sizeof *around; i++) {
            char places[ROOM] = "";
            normalize_row(row, around[i], places);
            ck_assert_msg(!strcmp(places, rows[row].places), "row %zu, %s: places %s, not %s", row,
                          rows[row].normalizer, places, rows[row].places);
        }
    }
}
END_TEST

START_TEST(refused) {
    static const struct {
        const char *normalizer, *message;
    } cases[] = {
        {"{\"type\":\"Precompiled\"}", "Precompiled: it has no \"precompiled_charsmap\""},
        {"{\"type\":\"Precompiled\",\"precompiled_charsmap\":1}", "is not a string"},
        {"{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"\"}", "the charsmap is cut"},
        {"{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAAAA==\"}", "is cut"},
        {"{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"CAAAAAAAAAA=\"}", "is cut"},
        {"{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"/////wAAAAA=\"}", "is cut"},
        {"{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"A\"}", "is not base64"},
        {"{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"BAAA!AAAAAA=\"}", "not base64"},
        {"{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"BAAAAAAAAAB=\"}", "not base64"},
        {"{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"BAAAAAAEAAA=\"}", "out of itself"},
        {"{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"BAAAAAABAAA=\"}", "out of itself"},
        {"{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"BAAAAAAAAAD/\"}", "not UTF-8"},
        {"{\"type\":\"NFKC\",\"form\":2}", "NFKC: unknown member \"form\""},
        {"{\"type\":\"Nmt\"}", "unknown normalizer 'Nmt'"},
        {"{\"type\":\"ByteLevel\"}", "unknown normalizer 'ByteLevel'"},
        {"{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":\"NFKX\"}]}",
         "byte 59: Sequence: unknown normalizer 'NFKX'"},
        {"{\"type\":\"Sequence\"}", "byte 1: Sequence: it has no \"normalizers\""},
        {"{\"type\":\"Sequence\",\"normalizers\":{}}", "\"normalizers\" is not an array"},
        {"{\"type\":\"Sequence\",\"normalizers\":[null]}", "a normalizer is an object"},
        {"{\"type\":\"NFC\",\"form\":2}", "byte 22: NFC: unknown member \"form\""},
        {"{\"type\":\"Strip\",\"strip_left\":true}", "Strip: it has no \"strip_right\""},
        {"{\"type\":\"Strip\",\"strip_left\":1,\"strip_right\":true}",
         "\"strip_left\" is neither true nor false"},
        {"{\"type\":\"Prepend\"}", "Prepend: it has no \"prepend\""},
        {"{\"type\":\"Replace\",\"content\":\"\"}", "Replace: it has no \"pattern\""},
        {"{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"}}", "it has no \"content\""},
        {"{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"(\"},\"content\":\"\"}", "Replace: "},
        {"{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true}",
         "it has no \"lowercase\""},
        {"{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,"
         "\"strip_accents\":0,\"lowercase\":true}",
         "\"strip_accents\" is neither true nor false"},
        {"\"NFC\"", "a normalizer is an object"},
        {"[]", "a normalizer is an object"},
        {"{}", "a normalizer is an object"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char message[ROOM] = "";
        text_probe *probe = text_probe_open(cases[i].normalizer, message, sizeof message);
        ck_assert_msg(!probe, "case %zu is not refused", i);
        ck_assert_msg(strstr(message, cases[i].message) != NULL, "case %zu: %s", i, message);
    }
}
END_TEST

/* A text that a normalizer does not change stays the original's bytes, without places. */
START_TEST(unchanged) {
    static const char *const cases[][2] = {
        {"null", " aA\303\251 "},
        {"{\"type\":\"NFC\"}", "plain ASCII text, \303\251\340\270\201\340\270\264 x\314\226"},
        {"{\"type\":\"NFD\"}", "plain ASCII text, e\314\201\340\270\201\340\270\264 x\314\226"},
        {"{\"type\":\"Lowercase\"}", "plain text \303\251"},
        {"{\"type\":\"StripAccents\"}", "plain Text \303\251"},
        {"{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true}", "plain text"},
        {"{\"type\":\"Replace\",\"pattern\":{\"String\":\"x\"},\"content\":\"y\"}", "plain t"},
        {"{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,"
         "\"lowercase\":true}",
         "plain text"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char message[ROOM];
        text_probe *probe = text_probe_open(cases[i][0], message, sizeof message);
        ck_assert_msg(probe != NULL, "case %zu: %s", i, message);
        const size_t size = strlen(cases[i][1]);
        cti_aligned text = {.at = cases[i][1], .size = size}, spare = {0};
        ck_assert(cti_normalizer_run(text_probe_normalizer(probe), &text, &spare));
        ck_assert_msg(text.at == cases[i][1] && text.size == size && !text.from && !text.text &&
                          !spare.text,
                      "case %zu is changed", i);
        text_probe_close(probe);
    }
}
END_TEST

/* 200,000 marks in a falling order of classes are sorted, and the runs between are composed. A
 * quadratic sort would take minutes. */
START_TEST(long_runs) {
    static const char *const forms[] = {"{\"type\":\"NFC\"}", "{\"type\":\"NFD\"}"};
    enum { MARKS = 200000 };
    char *whole = malloc(2 * MARKS + 1);
    whole[0] = 'a';
    for (size_t i = 0; i < MARKS; i++) { /* U+0345, U+0300, U+0316 and U+0334, class 240 to 1 */
        static const char marks[4][3] = {"\315\205", "\314\200", "\314\226", "\314\264"};
        memcpy(whole + 1 + 2 * i, marks[i / (MARKS / 4)], 2);
    }
    for (int form = 0; form < 2; form++) {
        char message[ROOM];
        text_probe *probe = text_probe_open(forms[form], message, sizeof message);
        ck_assert(probe != NULL);
        cti_aligned text = {.at = whole, .size = 2 * MARKS + 1}, spare = {0};
        ck_assert(cti_normalizer_run(text_probe_normalizer(probe), &text, &spare));
        /* NFC: U+00E0 from a and the first U+0300, which also is the place of the next mark. */
        ck_assert_uint_eq(text.size, form ? 2 * MARKS + 1 : 2 * MARKS);
        ck_assert(!memcmp(text.at, form ? "a\314\264" : "\303\240\314\264", form ? 3 : 4));
        ck_assert(!memcmp(text.at + text.size - 2, "\315\205", 2));
        int64_t marks = 0;
        for (size_t i = 0; i + 1 < text.size; i++) marks += !memcmp(text.at + i, "\314\226", 2);
        ck_assert_int_eq(marks, MARKS / 4);
        ck_assert_uint_eq(cti_aligned_origin(&text, 0, text.size).end, 2 * MARKS + 1);
        cti_aligned_free(&text);
        cti_aligned_free(&spare);
        text_probe_close(probe);
    }
    free(whole);
}
END_TEST

/* A writer of texts: the places of parts that are copied from an original or from a made text, and
 * of inserted parts; and the memory that goes round. */
START_TEST(rewriting) {
    cti_aligned text = {.at = "a\303\251b", .size = 4, .base = 10}, spare = {0};
    cti_rewriter rewriter = cti_rewriter_begin(&text, &spare);
    cti_rewriter_put(&rewriter, '-', CTI_FROM_NOTHING);
    cti_rewriter_put(&rewriter, 0x20AC, 2); /* the second byte of the e */
    cti_rewriter_copy(&rewriter, (cti_extent){1, 4});
    ck_assert(cti_rewriter_end(&rewriter, &text, &spare));
    ck_assert(text.size == 7 && !memcmp(text.at, "-\342\202\254\303\251b", 7));
    static const size_t places[7][2] = {{10, 10}, {11, 13}, {11, 13}, {11, 13},
                                        {11, 13}, {11, 13}, {13, 14}};
    for (size_t i = 0; i < 7; i++) {
        const cti_extent origin = cti_aligned_origin(&text, i, i + 1);
        ck_assert(origin.begin == places[i][0] && origin.end == places[i][1]);
    }
    const cti_extent all = cti_aligned_origin(&text, 1, 7);
    ck_assert(all.begin == 11 && all.end == 14);
    const char *first = text.text;
    cti_edit edit = cti_edit_begin(&text, &spare);
    cti_edit_drop(&edit, 1, 6);
    cti_edit_put(&edit, '+', 4);
    ck_assert(cti_edit_end(&edit));
    ck_assert(text.size == 3 && !memcmp(text.at, "-+b", 3) && spare.text == first);
    const cti_extent put = cti_aligned_origin(&text, 1, 2);
    ck_assert(put.begin == 11 && put.end == 13);
    edit = cti_edit_begin(&text, &spare);
    cti_edit_drop(&edit, 0, 3);
    ck_assert(cti_edit_end(&edit) && text.size == 0 && text.at && text.from && text.text == first);
    cti_aligned_free(&text);
    cti_aligned_free(&spare);
    /* In the original a part of a character has the whole's place. */
    const cti_aligned original = {.at = "a\360\237\230\200b", .size = 6, .base = 3};
    const cti_extent part = cti_aligned_origin(&original, 2, 3);
    ck_assert(part.begin == 4 && part.end == 8);
}
END_TEST

/* The places of a text that is too long do not fit, so that nothing changes it. */
START_TEST(too_long) {
    char first = 'a';
    cti_aligned text = {.at = &first, .size = CTI_MOST_SECTION}, spare = {0};
    cti_rewriter rewriter = cti_rewriter_begin(&text, &spare);
    ck_assert(!cti_rewriter_end(&rewriter, &text, &spare) && text.at == &first);
}
END_TEST

int main(void) {
    return run_tests("text_normalize", NULL, NULL,
                     TESTS(TEST(texts_and_places), TEST(refused), TEST(unchanged), TEST(long_runs),
                           TEST(rewriting), TEST(too_long)));
}
