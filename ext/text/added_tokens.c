/* Added tokens: their properties, and the search for them. */
#include "added_tokens.h"

#include <cotangent/autograd.h>

#include <stdlib.h>
#include <string.h>

#include "unicode.h"
#include "utf8.h"

/* ---- adding ---- */

/* Grows token[] to hold one more. */
static bool added_tokens_grow(cti_added_tokens *added) {
    if (added->count < added->room) return true;
    const int64_t room = added->room ? 2 * added->room : 16;
    cti_added_token *token = cti_arena_take(added->arena, (size_t)room, sizeof *token);
    if (!token) return false;
    if (added->count) memcpy(token, added->token, (size_t)added->count * sizeof *token);
    added->token = token;
    added->room = room;
    return true;
}

/* Sets the token of an id. */
static bool id_map_add(cti_added_tokens *added, int64_t id, int64_t index) {
    if (id >= added->of_ids) {
        int64_t room = added->of_ids + added->of_ids / 2;
        if (room < id + 64) room = id + 64;
        int32_t *of_id = cti_arena_take(added->arena, (size_t)room, sizeof *of_id);
        if (!of_id) return false;
        if (added->of_ids) memcpy(of_id, added->of_id, (size_t)added->of_ids * sizeof *of_id);
        for (int64_t i = added->of_ids; i < room; i++) of_id[i] = CTI_NO_ID;
        added->of_id = of_id;
        added->of_ids = room;
    }
    added->of_id[id] = (int32_t)index;
    return true;
}

/* The id of a content that is not yet an added token. */
static int64_t id_to_add(const cti_added_tokens *added, cti_text content) {
    const int64_t id = cti_vocabulary_find(added->model, content.at, content.size);
    if (id != CTI_NO_ID) return id;
    const int64_t tokens = added->model->count, next = added->largest + 1;
    return next > tokens ? next : tokens;
}

int64_t cti_added_tokens_add(cti_added_tokens *added, cti_added_token token, bool *full) {
    *full = false;
    int64_t index = cti_vocabulary_find(&added->index, token.content.at, token.content.size);
    if (index != CTI_NO_ID) {
        token.id = added->token[index].id;
        token.content = added->token[index].content;
        added->token[index] = token;
        return id_map_add(added, token.id, index) ? index : -1;
    }
    token.id = id_to_add(added, token.content);
    *full = token.id >= CTI_MOST_IDS || added->count >= CTI_MOST_IDS - 1;
    index = added->count;
    if (*full || !added_tokens_grow(added) ||
        !cti_vocabulary_add(&added->index, token.content, index) ||
        !id_map_add(added, token.id, index))
        return -1;
    if (token.id > added->largest) added->largest = token.id;
    added->token[added->count++] = token;
    return index;
}

/* ---- reading ---- */

/* Reads a member that must be true or false. */
static bool added_flag_read(const cti_reading *reading, cti_json_at object, const char *key,
                            bool *out) {
    const cti_json_at member = cti_json_member(reading->tree, object, key);
    if (!member || reading->tree->value[member].kind == CTI_JSON_NULL)
        return cti_reading_fail(reading, object, "an added token has no \"%s\"", key);
    return cti_reading_bool(reading, object, key, out);
}

static bool added_token_read(const cti_reading *reading, cti_json_at object,
                             cti_added_tokens *added) {
    cti_added_token token = {.id = -1};
    bool full;
    if (!cti_reading_natural(reading, object, "id", &token.id) ||
        !cti_reading_needs_text(reading, object, "content", &token.content) ||
        !added_flag_read(reading, object, "single_word", &token.single_word) ||
        !added_flag_read(reading, object, "lstrip", &token.lstrip) ||
        !added_flag_read(reading, object, "rstrip", &token.rstrip) ||
        !added_flag_read(reading, object, "normalized", &token.normalized) ||
        !added_flag_read(reading, object, "special", &token.special))
        return false;
    if (token.id < 0 || token.id >= CTI_MOST_IDS)
        return cti_reading_fail(reading, object,
                                "the id of an added token is missing or too large");
    if (!token.content.size || cti_added_tokens_add(added, token, &full) >= 0) return true;
    return full && cti_reading_fail(reading, object, "there are too many added tokens");
}

bool cti_added_tokens_read(const cti_reading *reading, cti_json_at value, cti_added_tokens *added) {
    added->largest = -1;
    added->index.arena = added->arena;
    const cti_json_kind kind = value ? reading->tree->value[value].kind : CTI_JSON_NULL;
    if (kind != CTI_JSON_NULL && kind != CTI_JSON_ARRAY)
        return cti_reading_fail(reading, value, "\"added_tokens\" is not an array");
    if (kind == CTI_JSON_ARRAY)
        for (cti_json_at i = cti_json_first(reading->tree, value); i;
             i = reading->tree->value[i].next) {
            if (reading->tree->value[i].kind != CTI_JSON_OBJECT)
                return cti_reading_fail(reading, i, "an added token is an object");
            if (!added_token_read(reading, i, added)) return false;
        }
    return cti_added_tokens_index(added);
}

/* ---- needles ---- */

/* The normalized text of a content, in the arena; .at is NULL after an error. */
static cti_text normalized_content(const cti_added_tokens *added, cti_text content) {
    if (!added->normalizer) return content;
    cti_aligned text = {.at = content.at, .size = content.size}, spare = {0};
    cti_text result = {0};
    if (cti_normalizer_run(added->normalizer, &text, &spare))
        result = cti_arena_copy(added->arena, (cti_text){text.at, text.size});
    else ct_fail(added->arena->context, CT_ERR_MEMORY, "tokenizer: out of memory");
    cti_aligned_free(&text);
    cti_aligned_free(&spare);
    return result;
}

/* Compares texts, then the number of the needle, which rises. */
static int needles_compare(const void *a, const void *b) {
    const cti_needle *x = a, *y = b;
    const int order = cti_text_compare(x->text, y->text);
    return order ? order : (x->token > y->token) - (x->token < y->token);
}

/* Sorts the needles. Of equal texts the last stays; the package picks one by chance. */
static void needles_sort(cti_needles *needles) {
    if (needles->count) qsort(needles->needle, needles->count, sizeof(cti_needle), needles_compare);
    size_t kept = 0;
    for (size_t i = 0; i < needles->count; i++) {
        const cti_needle *next = &needles->needle[i + 1];
        if (i + 1 < needles->count && !cti_text_compare(needles->needle[i].text, next->text))
            continue;
        needles->needle[kept++] = needles->needle[i];
    }
    needles->count = kept;
    size_t i = 0;
    for (int byte = 0; byte <= 256; byte++) {
        while (i < kept && (unsigned char)needles->needle[i].text.at[0] < byte) i++;
        needles->first[byte] = (uint32_t)i;
    }
}

/* Whether a text is the content of a special token. */
static bool is_special_text(const cti_added_tokens *added, cti_text text) {
    const int64_t index = cti_vocabulary_find(&added->index, text.at, text.size);
    return index != CTI_NO_ID && added->token[index].special;
}

bool cti_added_tokens_index(cti_added_tokens *added) {
    cti_needles *both[2] = {&added->raw, &added->normal};
    for (int normal = 0; normal < 2; normal++) {
        cti_needles *needles = both[normal];
        needles->count = 0;
        needles->needle = cti_arena_take(added->arena, (size_t)added->count, sizeof(cti_needle));
        if (!needles->needle) return false;
        for (int64_t i = 0; i < added->count; i++) {
            cti_added_token *token = &added->token[i];
            if (token->normalized != (normal == 1)) continue;
            const cti_text text =
                normal ? normalized_content(added, token->content) : token->content;
            if (!text.at) return false;
            token->decoded = text.size ? text : (cti_text){0};
            token->skipped = is_special_text(added, text);
            if (!text.size) continue;
            needles->needle[needles->count++] = (cti_needle){text, (int32_t)i};
        }
        needles_sort(needles);
    }
    return true;
}

/* ---- the search ---- */

static bool search_refuses(const cti_search *search, const cti_needle *needle, size_t at) {
    return search->refuse &&
           search->refuse(search->refuse_arg, &search->added->token[needle->token], at,
                          at + needle->text.size);
}

/* The longest needle at text[at] that is not refused; NULL if there is none. The needles that agree
 * with the text up to some length are a range in the sorted list, which is narrowed byte by byte.
 */
static const cti_needle *longest_needle(const cti_search *search, size_t at) {
    const cti_needles *needles = search->needles;
    const char *text = search->text;
    const size_t size = search->size;
    const unsigned char byte = (unsigned char)text[at];
    size_t low = needles->first[byte], high = needles->first[byte + 1];
    const cti_needle *found = NULL;
    for (size_t length = 1; low < high; length++) {
        if (needles->needle[low].text.size == length) {
            const cti_needle *needle = &needles->needle[low++];
            if (!search_refuses(search, needle, at)) found = needle;
        }
        if (at + length == size) break;
        const unsigned char next = (unsigned char)text[at + length];
        size_t to = high;
        for (size_t end = high; low < end;) { /* the first needle whose byte is at least `next` */
            const size_t middle = low + (end - low) / 2;
            if ((unsigned char)needles->needle[middle].text.at[length] < next) low = middle + 1;
            else end = middle;
        }
        for (size_t begin = low; begin < to;) { /* the first needle whose byte is above `next` */
            const size_t middle = begin + (to - begin) / 2;
            if ((unsigned char)needles->needle[middle].text.at[length] > next) to = middle;
            else begin = middle + 1;
        }
        high = to;
    }
    return found;
}

/* The first character that begins at or before `at` - 1. */
static size_t character_before(const char *text, size_t at) {
    do at--;
    while (at && cti_utf8_continues(text[at]));
    return at;
}

static bool has_word_before(const char *text, size_t at) {
    size_t length;
    return at && cti_rust_is_word(cti_utf8_get(text + character_before(text, at), &length));
}

static bool has_word_at(const char *text, size_t size, size_t at) {
    size_t length;
    return at < size && cti_rust_is_word(cti_utf8_get(text + at, &length));
}

/* Widens a match over white space before it, but not beyond what was found before. */
static size_t space_before(const char *text, size_t at, size_t least) {
    size_t length;
    while (at > least) {
        const size_t before = character_before(text, at);
        if (!cti_rust_is_space(cti_utf8_get(text + before, &length))) break;
        at = before;
    }
    return at < least ? least : at;
}

static size_t space_behind(const char *text, size_t size, size_t at) {
    size_t length;
    while (at < size && cti_rust_is_space(cti_utf8_get(text + at, &length))) at += length;
    return at;
}

cti_search cti_search_begin(const cti_added_tokens *added, const cti_needles *needles,
                            const char *text, size_t size) {
    return (cti_search){.added = added, .needles = needles, .text = text, .size = size};
}

/* Moves `from` to the next byte with which a needle begins. */
static void search_skip_to_first(cti_search *search) {
    const cti_needles *needles = search->needles;
    const char first = needles->needle[0].text.at[0];
    if (first == needles->needle[needles->count - 1].text.at[0]) {
        const char *at = search->text + search->from;
        at = memchr(at, first, search->size - search->from);
        search->from = at ? (size_t)(at - search->text) : search->size;
        return;
    }
    size_t from = search->from;
    for (; from < search->size; from++) {
        const unsigned char byte = (unsigned char)search->text[from];
        if (needles->first[byte] != needles->first[byte + 1]) break;
    }
    search->from = from;
}

/* Finds the next match of a token, in .waiting; false if there is none. */
static bool search_find_token(cti_search *search) {
    if (!search->needles->count) return false;
    const char *text = search->text;
    while (search->from < search->size) {
        search_skip_to_first(search);
        if (search->from == search->size) break;
        size_t begin = search->from;
        const cti_needle *found = longest_needle(search, begin);
        if (!found) {
            search->from++;
            continue;
        }
        size_t end = search->from = begin + found->text.size;
        const cti_added_token *token = &search->added->token[found->token];
        if (token->single_word &&
            (has_word_before(text, begin) || has_word_at(text, search->size, end)))
            continue;
        if (token->lstrip) {
            /* White space stays in the match before if that has taken it. */
            const size_t least = search->passed < begin ? search->passed : begin;
            begin = space_before(text, begin, least);
            if (begin < search->passed) begin = search->passed;
        }
        if (token->rstrip) end = space_behind(text, search->size, end);
        search->waiting = token;
        search->waiting_part = (cti_extent){begin, end};
        return true;
    }
    return false;
}

bool cti_search_next(cti_search *search) {
    if (!search->waiting && !search_find_token(search)) {
        search->token = NULL;
        search->part = (cti_extent){search->passed, search->size};
        search->passed = search->size;
        return search->part.begin < search->part.end;
    }
    const cti_extent match = search->waiting_part;
    if (search->passed < match.begin) {
        search->token = NULL;
        search->part = (cti_extent){search->passed, match.begin};
        search->passed = match.begin;
        return true;
    }
    search->token = search->waiting;
    search->waiting = NULL;
    search->part = match;
    search->passed = match.end;
    return true;
}
