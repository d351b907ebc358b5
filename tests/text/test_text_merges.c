/* The merges of a training. Those in the table are of the tokenizers package 0.23.3, of
 * Tokenizer(BPE()) with the same pre-tokenizer, train(files, BpeTrainer(initial_alphabet =
 * ByteLevel.alphabet(), ...)). */
#include "tests/support/files.h"

#include "ext/text/train.h"

enum { MOST_FILES = 3, BYTES = 256 };

static const char prose_text[] =
    "It's 2024: they've paid 12345 or 1234 dollars, they'll pay 99 more. IT'S so; don't.\n"
    "\n"
    "\n"
    "  the  theme\tthen\r\n"
    "there\r\n"
    "\r\n"
    " the end   \n"
    "   and the band and the sand\n";
static const char runs_text[] = "aaaaaaa aaaa aaa aa a\n"
                                "ababababab abab bbbbabbbb\n"
                                "aaaaaaa\n";
static const char world_text[] = "日本語 日本 日本語を 本語 é è ééé naïve café "
                                 "café\360\237\221\250\342\200\215\360\237\221\251\342\200\215\360"
                                 "\237\221\247 \360\237\221\250\342\200\215\360\237\221\251 ½ ² Ⅷ "
                                 "42٣٤ x\314\204x\314\204 x\314\204\302\240\343\200\200的\n"
                                 "日本語 日本 日本語を 本語 é è ééé naïve café "
                                 "café\360\237\221\250\342\200\215\360\237\221\251\342\200\215\360"
                                 "\237\221\247 \360\237\221\250\342\200\215\360\237\221\251 ½ ² Ⅷ "
                                 "42٣٤ x\314\204x\314\204 x\314\204\302\240\343\200\200的\n";
static const char code_text[] = "def f(x):\n"
                                "    return x + 1\n"
                                "\n"
                                "def g(x):\n"
                                "    return f(x) + 10\n"
                                "\n"
                                "\n"
                                "for i in range(100):\n"
                                "    print(f(i), g(i))\n";
/* Files, options, and the merges: two tokens each, with a space between all. */
typedef struct {
    enum { SPLIT_GPT2, SPLIT_LLAMA3, SPLIT_QWEN2, SPLIT_NONE } split;
    const char *files[MOST_FILES];
    int64_t vocab_size, min_frequency;
    const char *special[3];
    const char *merges;
} train_case;

static const train_case cases[] = {
    {SPLIT_GPT2,
     {prose_text},
     300,
     0,
     {NULL},
     "h e t he Ġ the n d a nd č Ċ Ġ Ġ 1 2 3 4 d o l l o r p a Ġ s Ġ and Ġ 12 Ġ do Ġ "
     "pa Ġthe y Ġ12 34 ' s ' t ' v ' ll 0 2 2 02 9 9 I T I t a r b and e nd i d m e m "
     "or r e Ġ Ċ Ġ or Ġ 202 Ġ 99 Ġ IT Ġ band Ġ end Ġ mor"},
    {SPLIT_LLAMA3,
     {prose_text},
     300,
     0,
     {NULL},
     "h e t he Ġ the n d a nd č Ċ Ġ Ġ 1 2 d o l l o r p a Ġ s Ġ and Ġ do Ġ pa Ġthe y "
     "12 3 ' S ' s ' t ' v ' ll . Ċ 0 2 2 02 4 5 9 9 I T I t a r b and e nd i d m e m "
     "or r e ĉ the Ġ Ċ Ġ or Ġ IT Ġ band Ġ end Ġ mor"},
    {SPLIT_QWEN2,
     {prose_text},
     300,
     0,
     {NULL},
     "h e t he Ġ the n d a nd č Ċ Ġ Ġ d o l l o r p a Ġ s Ġ and Ġ do Ġ pa Ġthe y ' S "
     "' s ' t ' v ' ll . Ċ I T I t a r b and e nd i d m e m or r e ĉ the Ġ Ċ Ġ or Ġ "
     "IT Ġ band Ġ end Ġ mor the re Ġthe me ĠĠ ĠĊ ll ar Ġs o Ġs and"},
    {SPLIT_NONE,
     {prose_text},
     290,
     0,
     {NULL},
     "h e t he Ġ the n d a nd Ġ Ġ Ġthe Ġ č Ċ 1 2 3 4 d o l l o r p a y ' Ġ and Ġ 12 Ġ "
     "do Ġ pa Ġthe y' Ġand ĠtheĠ Ġ12 34 ' S ' s ' t , Ġthey' . Ċ . Ġ 0 2 2 02 4 : 5 Ġ "
     "9 9 ; Ġdo"},
    {SPLIT_GPT2,
     {runs_text},
     400,
     0,
     {NULL},
     "a a a b b b aa aa ab ab aa a aaaa aaa Ġ a Ġ aa Ġ bb Ġ aaaa Ġ abab Ġ aaa ab bb "
     "bb abbb abab ab abab ababab Ġbb bbabbb Ġbbbbabbb b"},
    {SPLIT_NONE,
     {runs_text},
     400,
     0,
     {NULL},
     "a a a b b b aa aa ab ab aa a aaaa aaa a Ċ b Ċ Ġ aa Ġ bb Ġ aaaa Ġ abab Ġ aaa Ġ "
     "aĊ ab bb ab Ġabab bb abbb abab abab aaaaaaa Ċ aaaaaaa Ġaaaa Ġaa ĠaĊ Ġbb bbabbb "
     "Ġaaa ĠaaĠaĊ abĠabab Ġbbbbabbb abababab abĠababĠbbbbabbb aaaaaaaĠaaaa ĠaaaĠaaĠaĊ "
     "abababababĠababĠbbbbabbb bĊ"},
    {SPLIT_GPT2, {runs_text}, 400, 3, {"<s>", "</s>", "<s>"}, "a a a b b b aa aa ab ab aa a"},
    {SPLIT_LLAMA3,
     {world_text},
     310,
     0,
     {"<s>"},
     "Ã © ð Ł ðŁ ĳ æ ľ æľ ¬ ¥ æľ¬ ª ŀ Ì Ħ â Ģ æ Ĺ è ªŀ į ðŁĳ âĢ įðŁĳ æĹ ¥æľ¬ a f c af "
     "¨ âĢįðŁĳ Ġ x Ġ Ã© Ġ æĹ¥æľ¬ Ġ caf ðŁĳ ¨âĢįðŁĳ Ġcaf Ã© ðŁĳ¨âĢįðŁĳ © 2 Ù 4 2Ù a Ã "
     "n aÃ v e ¯ ve Â ² Â ½ Â ł Ã ¨ Ù ¤ â ħ ã Ģ ã Ĥ ç ļ Ġ æľ¬ Ġ ðŁĳ¨âĢįðŁĳ© Ġ naÃ Ġ "
     "Ã¨ Ģ çļ Ã© Ã© ÌĦ x èªŀ ãĤ âĢįðŁĳ § æĹ¥æľ¬ èªŀ ĠÃ© Ã©Ã© ĠæĹ¥æľ¬ èªŀãĤ "
     "ðŁĳ¨âĢįðŁĳ© âĢįðŁĳ§ 42Ù £"},
    {SPLIT_GPT2,
     {world_text},
     330,
     2,
     {NULL},
     "Ã © ð Ł ðŁ ĳ æ ľ æľ ¬ ¥ æľ¬ ª ŀ Ì Ħ â Ģ æ Ĺ è ªŀ į ðŁĳ âĢ įðŁĳ æĹ ¥æľ¬ a f c af "
     "¨ âĢįðŁĳ Ġ x Ġ Â Ġ Ã© Ġ æĹ¥æľ¬ Ġ caf ðŁĳ ¨âĢįðŁĳ Ġcaf Ã© ðŁĳ¨âĢįðŁĳ © 2 Ù 4 2Ù "
     "a Ã n aÃ v e £ Ù ¯ ve Â ł Ã ¨ â ħ ã Ģ ã Ĥ ç ļ Ġ æľ¬ Ġ ðŁĳ¨âĢįðŁĳ© Ġ 42Ù Ġ naÃ Ġ "
     "Ã¨ Ġ âħ Ã© Ã© èªŀ ãĤ âĢįðŁĳ § æĹ¥æľ¬ èªŀ ĠÂ ² ĠÂ ½ ĠÃ© Ã©Ã© ĠæĹ¥æľ¬ èªŀãĤ "
     "ðŁĳ¨âĢįðŁĳ© âĢįðŁĳ§ £Ù ¤ ãĢ Ģ çļ Ħ Ġæľ¬ èªŀ Ġ42Ù £Ù¤ ĠnaÃ ¯ve Ġâħ § "
     "ĠæĹ¥æľ¬èªŀãĤ Ĵ"},
    {SPLIT_QWEN2,
     {code_text, world_text},
     320,
     0,
     {NULL},
     "Ã © ð Ł ðŁ ĳ æ ľ æľ ¬ ¥ æľ¬ ª ŀ Ì Ħ â Ģ æ Ĺ è ªŀ Ġ Ġ į ðŁĳ âĢ įðŁĳ æĹ ¥æľ¬ Ġ x "
     "a f c af ¨ âĢįðŁĳ Ġ Ã© Ġ æĹ¥æľ¬ Ġ caf ðŁĳ ¨âĢįðŁĳ Ġcaf Ã© ðŁĳ¨âĢįðŁĳ © ( x ) : "
     "Ġ r ĠĠ Ġ ): Ċ ( i a Ã d e e t i n n aÃ r n u rn v e ¯ ve Â ² Â ½ Â ł Ã ¨ Ù £ Ù "
     "¤ â ħ ã Ģ ã Ĥ ç ļ Ġ + Ġ f Ġ g Ġ æľ¬ Ġ ðŁĳ¨âĢįðŁĳ© Ġ naÃ Ġ Ã¨ Ģ çļ Ã© Ã© ÌĦ x "
     "èªŀ ãĤ âĢįðŁĳ § æĹ¥æľ¬ èªŀ ĠÃ© Ã©Ã©"},
    {SPLIT_GPT2,
     {code_text, prose_text, runs_text},
     340,
     2,
     {"<|endoftext|>"},
     "a a h e t he Ġ Ġ a b Ġ the a n b b aa aa ab ab r e Ġ 1 ĠĠ Ġ an d ) : č Ċ Ġ p aa "
     "a 2 3 d e d o i n l l o r r n t u Ġ + Ġ f Ġ g Ġ s Ġ re Ġ and Ġ do Ġthe y aaaa "
     "aaa Ġ1 23 Ġp a de f tu rn Ġre turn Ġ123 4"},
};
enum { CASES = sizeof cases / sizeof *cases };

static cti_next_piece *const pieces_of[] = {cti_next_gpt2, cti_next_llama3, cti_next_qwen2, NULL};

static const char *paths[MOST_FILES];

static void must(bool done) { ck_assert_msg(done, "%s", ct_error_message(context)); }

/* Writes a file, whose path stays. */
static void put_text(int i, const char *text, size_t size) {
    static char names[MOST_FILES][512];
    snprintf(names[i], sizeof names[i], "%s/%d.txt", folder, i);
    write_all(names[i], text, size);
    paths[i] = names[i];
}

static bool train_files(const cti_training *training, int64_t n, cti_trained *trained) {
    cti_tally pieces;
    *trained = (cti_trained){0};
    const bool ok =
        cti_train_count(training, paths, n, &pieces) && cti_train_merge(training, &pieces, trained);
    cti_tally_free(&pieces);
    return ok;
}

static cti_trained train_on(const char *text, cti_training training) {
    cti_trained trained;
    training.context = context;
    put_text(0, text, strlen(text));
    must(train_files(&training, 1, &trained));
    return trained;
}

static void ck_token(const cti_trained *trained, int64_t id, const char *text) {
    ck_assert_int_lt(id, (int64_t)trained->tokens.count);
    const cti_tally_text token = trained->tokens.text[id];
    const char *at = trained->tokens.bytes + token.at;
    ck_assert_msg(token.size == strlen(text) && !memcmp(at, text, token.size),
                  "id %d is '%.*s' and not '%s'", (int)id, (int)token.size, at, text);
}

/* The tokenizer.json; the caller frees it. */
static char *written(const cti_training *training, const cti_trained *trained) {
    cti_writer measured = {0};
    cti_train_write(training, trained, &measured);
    cti_writer out = {.at = calloc(measured.used + 1, 1), .size = measured.used};
    cti_train_write(training, trained, &out);
    ck_assert_uint_eq(out.used, measured.used);
    return out.at;
}

static void ck_same(const cti_trained *a, const cti_trained *b) {
    const cti_training training = {0};
    char *of_a = written(&training, a), *of_b = written(&training, b);
    ck_assert_str_eq(of_a, of_b);
    free(of_a);
    free(of_b);
}

/* ---- equal to the package ---- */

/* Copies the next word of a list to out; false at its end. */
static bool next_word(const char **list, char *out) {
    const size_t size = strcspn(*list, " ");
    memcpy(out, *list, size);
    out[size] = 0;
    *list += size + ((*list)[size] == ' ');
    return size > 0;
}

/* Checks the tokens and the text of the merges against a list. */
static void ck_merges(const cti_training *training, const cti_trained *trained, const char *list) {
    char left[100], right[100], both[200], *merges = calloc(strlen(list) + 1, 8), *end = merges;
    int64_t id = training->n_special + BYTES;
    end += sprintf(end, "\"merges\":[");
    for (const char *at = list; next_word(&at, left) && next_word(&at, right); id++) {
        snprintf(both, sizeof both, "%s%s", left, right);
        ck_token(trained, id, both);
        end += sprintf(end, "%s[\"%s\",\"%s\"]", end[-1] == '[' ? "" : ",", left, right);
    }
    sprintf(end, "]}}");
    ck_assert_int_eq((int64_t)trained->tokens.count, id);
    char *text = written(training, trained);
    ck_assert_msg(strstr(text, merges) != NULL, "%s has no %s", text, merges);
    free(text);
    free(merges);
}

START_TEST(equal_to_the_package) {
    const train_case *t = &cases[_i];
    int64_t n = 0, specials = 0;
    for (; n < MOST_FILES && t->files[n]; n++) put_text((int)n, t->files[n], strlen(t->files[n]));
    cti_text special[2];
    for (; specials < 2 && t->special[specials]; specials++)
        special[specials] = cti_text_of(t->special[specials]);
    const cti_training training = {.context = context,
                                   .vocab_size = t->vocab_size,
                                   .min_frequency = t->min_frequency,
                                   .next = pieces_of[t->split],
                                   .special = special,
                                   .n_special = specials};
    cti_trained trained;
    must(train_files(&training, n, &trained));
    for (int64_t i = 0; i < specials; i++) ck_token(&trained, i, t->special[i]);
    ck_token(&trained, specials, "!");
    ck_token(&trained, specials + BYTES - 1, "\u0143");
    ck_merges(&training, &trained, t->merges);
    cti_trained_free(&trained);
}
END_TEST

/* A line that is one long piece, whose merges cross the limits of its words. */
START_TEST(long_piece) {
    char text[3001] = {0};
    uint32_t state = 1;
    for (size_t i = 0; i + 1 < sizeof text; i++) {
        state = state * 1103515245 + 12345;
        text[i] = (char)((state >> 24) % 4 ? 'a' + (state >> 16) % 3 : 'a');
    }
    const cti_training training = {.vocab_size = 330};
    cti_trained trained = train_on(text, training);
    ck_merges(&training, &trained,
              "a a a b a c aa aa c b b b c c aa b aa ab c ac aa ac c ab ac b aa cb aa c "
              "aa bb aaaa b c cb ac ab aa cc ab b c aaaa cb b aab ab aaab b cb ab ab "
              "aaaa ac ac cb ac aa cab ab bb c aab c aaab aa cac ab cab aaac b aacb b "
              "ab aaab ac aaaa aab cc cac b cab b ac bb cb cb cc aaaa aabb b ab ab bb "
              "bb cc cb aaac aaaa aaac cb aaac bb aac aab aaaab cc c aaac c aaaab ab cb "
              "ab aab ac cb ac aaab ac ccb aaaa aaaa aaaa aaab cc ac aab aab aacb bb "
              "aaaab ab caaaa bb c aac c aabab c aaacb c aacbb ab acb ac cac");
    cti_trained_free(&trained);
}
END_TEST

/* ---- special tokens, ill-formed bytes ---- */

/* The longest special token at a place divides, at the beginning and the end of a line too. */
START_TEST(special_tokens_divide) {
    const cti_text special[] = {cti_text_of("<a"), cti_text_of("<a>"), cti_text_of("\r\n")};
    cti_training training = {.vocab_size = 300, .special = special, .n_special = 3};
    cti_trained divided = train_on("<a>xyz<a<a>xyz<a>\r\n<xyz<a>x<a>yz<a>xyz\r\n<a", training);
    ck_merges(&training, &divided, "y z x yz < xyz");
    cti_trained_free(&divided);
    training.n_special = 0;
    cti_trained plain = train_on("<a>xyz<a<a>xyz<a>", training);
    ck_token(&plain, BYTES, "<a");
    cti_trained_free(&plain);
}
END_TEST

/* A special token that is a byte, or a merge's token, has one id. */
START_TEST(special_tokens_of_the_alphabet) {
    const cti_text special[] = {cti_text_of("q"), cti_text_of("\u0120x")};
    const cti_training training = {
        .vocab_size = 260, .next = cti_next_gpt2, .special = special, .n_special = 2};
    cti_trained trained = train_on("y xy xy xz xq xqz yz yz", training);
    ck_token(&trained, 0, "q");
    ck_token(&trained, 1, "\u0120x");
    ck_token(&trained, 2, "!");
    ck_token(&trained, 256, "\u0143");
    ck_token(&trained, 257, "\u0120xy"); /* as frequent as "yz", and of smaller ids */
    ck_token(&trained, 258, "yz");
    ck_assert_int_eq((int64_t)trained.tokens.count, 260);
    ck_assert(trained.merge[0].c == 1); /* a space and x make an id that was there */
    cti_trained_free(&trained);
}
END_TEST

START_TEST(ill_formed_parts) {
    const cti_training training = {.vocab_size = 280, .next = cti_next_gpt2};
    cti_trained bad = train_on("a\xff\xf0\x9f\x91 a\xff\xf0\x9f\x91 \xc3", training);
    cti_trained good = train_on("a\uFFFD\uFFFD a\uFFFD\uFFFD \uFFFD", training);
    ck_same(&bad, &good);
    ck_assert_int_gt((int64_t)good.tokens.count, BYTES);
    cti_trained_free(&bad);
    cti_trained_free(&good);
}
END_TEST

START_TEST(nothing_to_learn) {
    cti_training training = {.vocab_size = 300, .next = cti_next_gpt2};
    cti_trained nothing = train_on("", training);
    ck_assert_int_eq((int64_t)nothing.tokens.count, BYTES);
    training.min_frequency = 3;
    cti_trained rare = train_on("a b c ab\n\nab\n", training);
    ck_same(&nothing, &rare);
    cti_trained_free(&nothing);
    cti_trained_free(&rare);
}
END_TEST

/* ---- threads and blocks ---- */

/* A text of pseudo-random words. */
static char *many_words(size_t size, const char *between) {
    char *text = malloc(size + 1);
    uint32_t state = 1;
    for (size_t i = 0; i < size; i++) {
        state = state * 1664525 + 1013904223;
        const uint32_t draw = state >> 24;
        text[i] = draw < 40 ? between[draw % strlen(between)] : (char)('a' + draw % 7 * (draw % 3));
    }
    text[size] = 0;
    return text;
}

/* Both files have the same pieces, as often. */
static void ck_same_pieces(const cti_training *a, const cti_training *b) {
    cti_tally of_a, of_b;
    must(cti_train_count(a, paths, 1, &of_a) && cti_train_count(b, paths, 1, &of_b));
    ck_assert_uint_eq(of_a.count, of_b.count);
    for (size_t i = 0; i < of_a.count; i++) {
        const cti_tally_text *text = &of_a.text[i];
        const size_t k = cti_tally_add(&of_b, of_a.bytes + text->at, text->size, 0);
        ck_assert_int_eq(of_b.text[k].count, text->count);
    }
    cti_tally_free(&of_a);
    cti_tally_free(&of_b);
}

/* The same text in several blocks and chunks, or in one, on one thread and on several. A special
 * token with a space forbids the cuts inside of lines. */
START_TEST(blocks_and_threads) {
    static const char *const betweens[] = {" ", " \n", "\n ,'"};
    const cti_text special[] = {cti_text_of("no such text")};
    const size_t size = _i == 0 ? 5000000 : 700000; /* a block has 4 MiB */
    char *text = many_words(size, betweens[_i]);
    put_text(0, text, size);
    free(text);
    ct_context *four = ct_context_new((ct_context_opts){.threads = 4});
    for (int split = SPLIT_GPT2; split <= SPLIT_NONE; split += _i ? 1 : 4) {
        cti_training training = {.context = context, .vocab_size = 400, .next = pieces_of[split]};
        cti_trained one, many, whole;
        must(train_files(&training, 1, &one));
        training.context = four;
        must(train_files(&training, 1, &many));
        ck_assert_int_eq((int64_t)one.tokens.count, 400);
        ck_same(&one, &many);
        const cti_training cut = training;
        training.special = special;
        training.n_special = 1;
        ck_same_pieces(&cut, &training);
        training.vocab_size++;
        must(train_files(&training, 1, &whole));
        ck_assert_uint_eq(whole.count, one.count);
        for (size_t i = 0; i < one.count; i++)
            ck_assert(whole.merge[i].a == one.merge[i].a + 1 &&
                      whole.merge[i].b == one.merge[i].b + 1);
        cti_trained_free(&one);
        cti_trained_free(&many);
        cti_trained_free(&whole);
    }
    ct_context_free(four);
}
END_TEST

/* ---- progress ---- */

static struct {
    int calls, most;
    double last;
} heard;

static bool hear(void *arg, double done) {
    ck_assert_ptr_eq(arg, &heard);
    ck_assert(done >= heard.last && done <= 1);
    heard.last = done;
    return ++heard.calls < heard.most;
}

/* progress is called in both halves, and any call can end the training. */
START_TEST(progress) {
    char *text = many_words(1000000, " \n");
    put_text(0, text, 1000000);
    free(text);
    const cti_training training = {.context = context,
                                   .vocab_size = 600,
                                   .next = cti_next_gpt2,
                                   .progress = hear,
                                   .arg = &heard};
    cti_trained trained;
    heard.most = 1000;
    must(train_files(&training, 1, &trained));
    cti_trained_free(&trained);
    ck_assert(heard.last > 0.9 && heard.calls > 4);
    const int calls = heard.calls;
    for (int most = 1; most <= calls; most++) {
        heard.calls = 0, heard.last = 0, heard.most = most;
        ck_refused(train_files(&training, 1, &trained) ? "done" : NULL, CT_ERR_ARGUMENT,
                   "tokenizer_train", "progress returned false");
        cti_trained_free(&trained);
        ck_assert_int_eq(heard.calls, most);
    }
}
END_TEST

int main(void) {
    return run_cases(
        "text merges",
        CASES({.name = "merges",
               .tags = "one-thread",
               .timeout = 60,
               .before = setup,
               .after = teardown,
               .tests = TESTS(LOOP(equal_to_the_package, CASES), TEST(long_piece),
                              TEST(special_tokens_divide), TEST(special_tokens_of_the_alphabet),
                              TEST(ill_formed_parts), TEST(nothing_to_learn), TEST(progress))},
              {.name = "blocks and threads",
               .timeout = 60,
               .before = setup,
               .after = teardown,
               .tests = TESTS(LOOP(blocks_and_threads, 3))}));
}
