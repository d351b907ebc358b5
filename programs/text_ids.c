/* The ids of texts; see text_ids.h. */
#include "text_ids.h"
#include "common.h"

static void grow(int64_t **block, int64_t *room, int64_t n) {
    if (n <= *room) return;
    *block = room_for(*block, (size_t)n, sizeof **block);
    *room = n;
}

void text_encode(text_ids *to, const ct_tokenizer *tokenizer, const char *text, size_t bytes,
                 ct_encode_opts opts, bool offsets) {
    /* the second time the number is known */
    for (int64_t room = (int64_t)(bytes / 2) + 64;; room = to->n + 1) {
        grow(&to->ids, &to->ids_room, room);
        if (offsets) grow(&to->offsets, &to->offsets_room, 2 * room);
        to->n = ct_encode(tokenizer, text, bytes, opts, to->ids, offsets ? to->offsets : NULL,
                          room - 1);
        if (to->n < 0)
            fail(EXIT_FAILED, "out of memory, or a text that the tokenizer cannot encode");
        if (to->n < room) return;
    }
}

void text_ids_free(text_ids *t) {
    free(t->ids);
    free(t->offsets);
    *t = (text_ids){0};
}
