/* Changes of the text of pieces: prefix spaces, Metaspace's replacement of spaces, and the alphabet
 * of bytes. The new text has only the pieces, one behind the other. */
#include "byte_alphabet.h"
#include "presplit.h"
#include "utf8.h"

/* Whether the step puts a character before the piece. */
static bool has_prefix(const cti_step *step, const cti_pieces *pieces, cti_piece piece) {
    size_t length;
    const uint32_t first = cti_utf8_get(pieces->text.at + piece.begin, &length);
    if (step->kind == CTI_STEP_PREFIX) return first != ' ';
    if (step->kind != CTI_STEP_METASPACE || first == ' ' || first == step->c) return false;
    return step->scheme == CTI_PREPEND_ALWAYS ||
           (step->scheme == CTI_PREPEND_FIRST &&
            cti_aligned_origin(&pieces->text, piece.begin, piece.begin + length).begin == 0);
}

/* Whether the step changes any piece. */
static bool changes_text(const cti_step *step, const cti_pieces *pieces) {
    if (step->kind == CTI_STEP_ALPHABET) return pieces->count > 0;
    for (size_t i = 0; i < pieces->count; i++) {
        const cti_piece piece = pieces->piece[i];
        if (has_prefix(step, pieces, piece)) return true;
        if (step->kind == CTI_STEP_METASPACE &&
            memchr(pieces->text.at + piece.begin, ' ', piece.end - piece.begin))
            return true;
    }
    return false;
}

/* Writes a piece in the alphabet of bytes. */
static void piece_put_in_alphabet(cti_rewriter *rewriter, const char *text, cti_piece piece) {
    for (size_t at = piece.begin; at < piece.end; at++)
        cti_rewriter_put(rewriter, cti_byte_character((unsigned char)text[at]), at);
}

/* Writes a piece with `c` in place of each space. */
static void piece_put_without_spaces(cti_rewriter *rewriter, const char *text, cti_piece piece,
                                     uint32_t c) {
    for (size_t at = piece.begin; at < piece.end;) {
        const char *space = memchr(text + at, ' ', piece.end - at);
        const size_t end = space ? (size_t)(space - text) : piece.end;
        cti_rewriter_copy(rewriter, (cti_extent){.begin = at, .end = end});
        if (space) cti_rewriter_put(rewriter, c, end);
        at = end + (space != NULL);
    }
}

bool cti_pieces_rewrite(const cti_step *step, cti_pieces *pieces) {
    if (!changes_text(step, pieces)) return true;
    const char *text = pieces->text.at;
    const uint32_t c = step->kind == CTI_STEP_METASPACE ? step->c : ' ';
    cti_rewriter rewriter = cti_rewriter_begin(&pieces->text, &pieces->spare);
    for (size_t i = 0; i < pieces->count && !rewriter.failed; i++) {
        const cti_piece piece = pieces->piece[i];
        const size_t begin = rewriter.made.size;
        if (has_prefix(step, pieces, piece)) cti_rewriter_put(&rewriter, c, piece.begin);
        if (step->kind == CTI_STEP_ALPHABET) piece_put_in_alphabet(&rewriter, text, piece);
        else if (step->kind == CTI_STEP_METASPACE)
            piece_put_without_spaces(&rewriter, text, piece, c);
        else cti_rewriter_copy(&rewriter, (cti_extent){.begin = piece.begin, .end = piece.end});
        if (rewriter.made.size >= UINT32_MAX) rewriter.failed = true;
        pieces->piece[i] =
            (cti_piece){.begin = (uint32_t)begin, .end = (uint32_t)rewriter.made.size};
    }
    return cti_rewriter_end(&rewriter, &pieces->text, &pieces->spare);
}
