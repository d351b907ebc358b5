/* A tokenizer.json of any bytes and a text of any bytes. The file is refused, or encoding, decoding
 * and saving have the properties that the header promises. An input is a byte of flags, the file,
 * a byte 0xff, and the text. */
#include "fuzz.h"

#include <cotangent/tokenizer.h>

#include "ext/text/tokenizer.h"
#include "ext/text/utf8.h"

static ct_context *context;

/* The tokens of a text, in blocks of exactly their size, so that the sanitizer sees a write behind
 * them. */
typedef struct {
    int64_t n, *ids, *offsets;
} tokens_of_text;

static void *block(int64_t count, size_t size) {
    void *at = malloc(count ? (size_t)count * size : 1);
    MUST(at);
    return at;
}

/* A count of -1: the text needs the unk_token, which the vocabulary does not have. */
static int64_t count_of(const ct_tokenizer *tokenizer, cti_text text, ct_encode_opts opts) {
    const int64_t n = ct_encode(tokenizer, text.at, text.size, opts, NULL, NULL, 0);
    MUST(n >= -1);
    return n;
}

static tokens_of_text encode(const ct_tokenizer *tokenizer, cti_text text, ct_encode_opts opts) {
    const int64_t n = count_of(tokenizer, text, opts);
    if (n < 0) return (tokens_of_text){0};
    tokens_of_text tokens = {n, block(n, sizeof(int64_t)), block(2 * n, sizeof(int64_t))};
    MUST(ct_encode(tokenizer, text.at, text.size, opts, tokens.ids, tokens.offsets, n) == n);
    return tokens;
}

static void tokens_free(tokens_of_text *tokens) {
    free(tokens->ids);
    free(tokens->offsets);
}

static bool same(const int64_t *a, const int64_t *b, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (a[i] != b[i]) return false;
    return true;
}

/* Ranges lie in the text. Without the post-processor's tokens they begin in the order of the text,
 * if no normalizer changes the order of characters and no template has the text twice. */
static void check_ranges(const ct_tokenizer *tokenizer, const tokens_of_text *tokens, size_t bytes,
                         bool no_special) {
    const cti_postprocessor *post = &tokenizer->parts->postprocessor;
    int64_t texts = 0;
    for (int64_t i = 0; i < post->singles; i++) texts += post->single[i].id < 0;
    const bool ordered = no_special && texts < 2 && !tokenizer->parts->normalizer;
    for (int64_t i = 0; i < tokens->n; i++) {
        const int64_t *range = tokens->offsets + 2 * i;
        MUST(0 <= range[0] && range[0] <= range[1] && range[1] <= (int64_t)bytes);
        MUST(!ordered || !i || range[-2] <= range[0]);
        MUST(tokens->ids[i] >= 0 && tokens->ids[i] < ct_tokenizer_size(tokenizer));
    }
}

static void check_encoding(const ct_tokenizer *tokenizer, cti_text text, ct_encode_opts opts) {
    tokens_of_text tokens = encode(tokenizer, text, opts), again = encode(tokenizer, text, opts);
    MUST(tokens.n == again.n && same(tokens.ids, again.ids, tokens.n));
    MUST(same(tokens.offsets, again.offsets, 2 * tokens.n));
    tokens_free(&again);
    const int64_t part = tokens.n / 2, count = count_of(tokenizer, text, opts);
    int64_t *ids = block(part, sizeof *ids);
    MUST(ct_encode(tokenizer, text.at, text.size, opts, ids, NULL, part) == count);
    MUST(same(ids, tokens.ids, part));
    free(ids);
    check_ranges(tokenizer, &tokens, text.size, opts.no_special);
    tokens_free(&tokens);
}

/* ---- decoding ---- */

/* The results of ct_decode_next joined. A call without room changes nothing. */
static char *stream(const ct_tokenizer *tokenizer, const int64_t *ids, int64_t n, bool keep,
                    size_t *size) {
    const size_t room = ct_token_room(tokenizer);
    char *out = block(n + 1, room), *piece = block(1, room);
    ct_decode_state state = {.keep_special = keep};
    *size = 0;
    for (int64_t i = 0; i <= n; i++) {
        const int64_t id = i < n ? ids[i] : -1;
        const ct_decode_state before = state;
        const int64_t asked = ct_decode_next(tokenizer, &state, id, NULL, 0);
        MUST(asked >= 0 && (size_t)asked < room);
        if (asked) MUST(!memcmp(&before, &state, sizeof state));
        if (!asked) continue;
        MUST(ct_decode_next(tokenizer, &state, id, piece, room) == asked && !piece[asked]);
        MUST(cti_utf8_check(piece, (size_t)asked) == (size_t)asked);
        memcpy(out + *size, piece, (size_t)asked);
        *size += (size_t)asked;
    }
    free(piece);
    return out;
}

static bool has_replacement(const char *text, size_t size) {
    for (size_t i = 0; i + 2 < size; i++)
        if (!memcmp(text + i, "\xef\xbf\xbd", 3)) return true;
    return false;
}

static void check_decoding(const ct_tokenizer *tokenizer, const int64_t *ids, int64_t n,
                           bool keep) {
    const int64_t size = ct_decode(tokenizer, ids, n, keep, NULL, 0);
    MUST(size >= 0);
    char *whole = block(size + 1, 1), *part = block(size / 2 + 1, 1);
    MUST(ct_decode(tokenizer, ids, n, keep, whole, (size_t)size + 1) == size && !whole[size]);
    MUST(ct_decode(tokenizer, ids, n, keep, part, (size_t)size / 2 + 1) == size);
    MUST(!memcmp(whole, part, (size_t)size / 2) && !part[size / 2]);
    MUST(cti_utf8_check(whole, (size_t)size) == (size_t)size);
    size_t streamed;
    char *joined = stream(tokenizer, ids, n, keep, &streamed);
    /* U+FFFD of an ill-formed run of byte tokens: a stream has written whole characters of it. */
    if (tokenizer->parts->decoder.bytes != CTI_DECODE_FALLBACK ||
        !has_replacement(whole, (size_t)size))
        MUST(streamed == (size_t)size && !memcmp(whole, joined, streamed));
    free(joined);
    free(part);
    free(whole);
}

/* Ids of a text, and ids that the bytes of the text choose. */
static void check_decodings(const ct_tokenizer *tokenizer, cti_text text, bool keep) {
    tokens_of_text tokens = encode(tokenizer, text, (ct_encode_opts){0});
    check_decoding(tokenizer, tokens.ids, tokens.n, keep);
    tokens_free(&tokens);
    const int64_t n = text.size < 64 ? (int64_t)text.size : 64, size = ct_tokenizer_size(tokenizer);
    int64_t ids[64];
    for (int64_t i = 0; i < n; i++) {
        const unsigned char byte = (unsigned char)text.at[i];
        ids[i] = byte == 255 ? INT64_MAX : byte % (size + 1);
    }
    check_decoding(tokenizer, ids, n, keep);
}

/* ---- tokens and files ---- */

static void check_tokens(const ct_tokenizer *tokenizer) {
    const int64_t size = ct_tokenizer_size(tokenizer);
    for (int64_t id = 0; id < size && id < 300; id++) {
        const char *token = ct_token(tokenizer, id);
        if (token && !memchr(token, 0, cti_token_text(tokenizer->parts, id).size))
            MUST(ct_token_id(tokenizer, token) >= 0);
    }
    MUST(!ct_token(tokenizer, size) && !ct_token(tokenizer, -1));
}

/* A new special token of the text's first bytes. */
static void add(ct_tokenizer *tokenizer, cti_text text) {
    char token[9] = {0};
    memcpy(token, text.at, text.size < 8 ? text.size : 8);
    const int64_t id = ct_token_add(tokenizer, token, "eos_token");
    const bool valid = *token && cti_utf8_check(token, strlen(token)) == strlen(token);
    MUST(valid == (id >= 0) && valid == (ct_error(context) == CT_OK));
    ct_error_clear(context);
    if (id < 0) return;
    MUST(ct_token_role(tokenizer, "eos_token") == id && ct_token_id(tokenizer, token) == id);
    MUST(id < ct_tokenizer_size(tokenizer) && !strcmp(ct_token(tokenizer, id), token));
}

/* A tokenizer that was saved and opened has the same ids. */
static void check_save(const ct_tokenizer *tokenizer, cti_text text, ct_encode_opts opts) {
    const char *path = fuzz_path("saved.json");
    MUST(ct_tokenizer_save(tokenizer, path));
    ct_tokenizer *other = ct_tokenizer_open(context, path);
    MUST(other && ct_tokenizer_size(other) == ct_tokenizer_size(tokenizer));
    MUST(count_of(tokenizer, text, opts) == count_of(other, text, opts));
    tokens_of_text a = encode(tokenizer, text, opts), b = encode(other, text, opts);
    MUST(a.n == b.n && same(a.ids, b.ids, a.n) && same(a.offsets, b.offsets, 2 * a.n));
    tokens_free(&a);
    tokens_free(&b);
    ct_tokenizer_close(other);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size) return 0;
    if (!context) {
        fuzz_begin();
        context = ct_context_new((ct_context_opts){.threads = 1, .memory_limit = 64 << 20});
    }
    const int64_t live = ct_memory(context).live;
    const uint8_t flags = *data++;
    const uint8_t *end = memchr(data, 0xff, --size);
    const size_t bytes = end ? (size_t)(end - data) : size;
    const cti_text text = {(const char *)data + bytes + !!end, size - bytes - !!end};
    const char *path = fuzz_path("tokenizer.json");
    fuzz_write(path, data, bytes);
    ct_tokenizer *tokenizer = ct_tokenizer_open(context, path);
    MUST((tokenizer != NULL) == (ct_error(context) == CT_OK));
    MUST(tokenizer || strstr(ct_error_message(context), fuzz_folder));
    ct_error_clear(context);
    if (tokenizer) {
        const ct_encode_opts opts = {.no_special = flags & 1, .plain = flags >> 1 & 1};
        if (flags & 8) add(tokenizer, text);
        check_tokens(tokenizer);
        check_encoding(tokenizer, text, opts);
        check_decodings(tokenizer, text, flags >> 2 & 1);
        check_save(tokenizer, text, opts);
    }
    ct_tokenizer_close(tokenizer);
    MUST(ct_memory(context).live == live);
    return 0;
}
