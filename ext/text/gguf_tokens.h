/* The tokenizer inside a GGUF file, both ways. In between stands cti_gguf_vocab, which has what the
 * keys tokenizer.* say:
 *
 *     GGUF file -- gguf_read.c --> cti_gguf_vocab -- gguf_json.c --> the text of a tokenizer.json
 *     tokenizer -- gguf_take.c --> cti_gguf_vocab -- gguf_put.c  --> GGUF file
 *
 * So a file's tokenizer is read by the reader of tokenizer.json, with all its checks, and what is
 * going to be written is read back in the same way before it is written. A GGUF file does not say
 * how a text is divided and normalized: it has a name, "pre", and gguf_rows.c is the table of what
 * the names mean. Both directions use this table. */
#ifndef CTI_TEXT_GGUF_TOKENS_H
#define CTI_TEXT_GGUF_TOKENS_H

#include "../../src/io/gguf.h"
#include "tokenizer.h"

/* The value of tokenizer.ggml.model. */
typedef enum {
    CTI_GGUF_BPE,       /* "gpt2": byte-level BPE */
    CTI_GGUF_SPM,       /* "llama": SentencePiece's BPE, whose merges follow from scores */
    CTI_GGUF_WORDPIECE, /* "bert" */
    CTI_GGUF_UNIGRAM,   /* "t5" */
    CTI_GGUF_GEMMA4,    /* "gemma4": BPE of characters, with merges */
    CTI_GGUF_MODELS
} cti_gguf_model;
extern const char *const cti_gguf_model_names[CTI_GGUF_MODELS];

/* The types of tokens, as tokenizer.ggml.token_type has them. */
enum {
    CTI_GGUF_NORMAL = 1,
    CTI_GGUF_UNKNOWN,
    CTI_GGUF_CONTROL, /* found in a text before anything else, and special */
    CTI_GGUF_USER,    /* found so too, and not special */
    CTI_GGUF_UNUSED,
    CTI_GGUF_BYTE /* <0x0A> */
};

/* The ids of tokens with a role, and their keys. */
typedef enum {
    CTI_GGUF_BOS,
    CTI_GGUF_EOS,
    CTI_GGUF_EOT,
    CTI_GGUF_EOM,
    CTI_GGUF_UNK,
    CTI_GGUF_SEP,
    CTI_GGUF_PAD,
    CTI_GGUF_CLS,
    CTI_GGUF_MASK,
    CTI_GGUF_IDS
} cti_gguf_role;
extern const char *const cti_gguf_id_keys[CTI_GGUF_IDS];
/* The index in cti_role_names of the role; -1: an end of turns only. */
extern const int cti_gguf_id_role[CTI_GGUF_IDS];

typedef enum {
    CTI_GGUF_ADD_BOS,
    CTI_GGUF_ADD_EOS,
    CTI_GGUF_ADD_SEP,
    CTI_GGUF_SPACE_PREFIX,
    CTI_GGUF_ONE_SPACE, /* remove_extra_whitespaces */
    CTI_GGUF_LOWERCASE,
    CTI_GGUF_STRIP_ACCENTS,
    CTI_GGUF_FLAGS
} cti_gguf_option;
extern const char *const cti_gguf_flag_keys[CTI_GGUF_FLAGS];

typedef struct {
    cti_text left, right;
} cti_gguf_merge;

typedef struct {
    cti_text name, text;
} cti_gguf_template;

/* Everything lies in the arena, in the file that was read, or in the tokenizer. */
typedef struct {
    ct_context *context;
    const char *op, *path; /* for messages */
    cti_arena *arena;
    cti_gguf_model model;
    cti_text pre;          /* .at is NULL: absent */
    cti_text architecture; /* general.architecture */
    int64_t count;         /* tokens */
    cti_text *token;       /* [count] as the file spells them */
    unsigned char *type;   /* [count] */
    double *score;         /* [count]; NULL: none */
    cti_gguf_merge *merge; /* [merges] */
    int64_t merges;
    int64_t id[CTI_GGUF_IDS];         /* -1: absent */
    signed char flag[CTI_GGUF_FLAGS]; /* 0, 1; -1: absent */
    cti_text charsmap;                /* bytes of SentencePiece's table of texts; .at NULL: none */
    cti_text json;                    /* a whole tokenizer.json; .at NULL: none */
    cti_gguf_template *chat;          /* [chats] */
    int64_t chats;
} cti_gguf_vocab;

cti_gguf_vocab cti_gguf_vocab_of(cti_arena *arena, const char *op, const char *path);

/* Records CT_ERR_FORMAT "op: path: key "...": ..." and returns false. */
bool cti_gguf_vocab_fail(const cti_gguf_vocab *vocab, const char *key, const char *format, ...)
    CT_FORMAT(3, 4);

/* ---- the table (gguf_rows.c) ---- */

/* How a text becomes pieces: `digits` makes each number character a piece, then each match of an
 * expression of split[] is one, then ByteLevel divides by GPT-2's expression if `gpt2` is set. */
typedef struct {
    cti_gguf_model model;
    /* the names of `pre` that mean this row, each between two spaces; the first one is written. ""
     * if the model does not need one */
    const char *pre;
    const char *normalizer; /* JSON */
    const char *split[4];
    bool digits, gpt2, ignore_merges;
    bool adds_bos, adds_sep; /* the defaults of add_bos_token and add_sep_token */
    signed char prefix;      /* of SPM: add_space_prefix; -1: any */
    /* other forms of a tokenizer.json that are written as this row (gguf_shape.c), or NULL, and
     * whether they have other ids for a text that begins with a space or follows a special token */
    const char *shape;
    bool loose;
    const char *assumed; /* what the name does not say and the row supposes, or NULL */
} cti_gguf_row;

/* The row by which a file is read. NULL after CT_ERR_FORMAT: an unknown `pre`. */
const cti_gguf_row *cti_gguf_row_of(const cti_gguf_vocab *vocab);
/* The row number i; NULL behind the last one. */
const cti_gguf_row *cti_gguf_row_at(int i);

/* Writes the pre-tokenizer of a row as JSON. */
void cti_gguf_pretokenizer_write(cti_writer *writer, const cti_gguf_row *row);

/* Writes the shape of a normalizer or of a pre-tokenizer: a text that is the same for values that
 * do the same to every text, but for ranges. */
void cti_gguf_shape_write(cti_writer *writer, const cti_json_tree *tree, cti_json_at value);

/* ---- keys and tokenizers ---- */

/* The merges of an SPM (gguf_merges.c): each cut of a normal token into two tokens, in the order of
 * the tokens' scores, or for gemma of their ids. Fills .merge. A token of more than
 * CTI_GGUF_LONGEST bytes is refused, and so are more than 16 cuts for each token on average, so
 * that time and memory are in proportion to the file. `index` has the ids of the tokens. */
enum { CTI_GGUF_LONGEST = 1024, CTI_GGUF_CUTS = 16 };
bool cti_gguf_merges_make(cti_gguf_vocab *vocab, const cti_vocabulary *index);
/* Gemma's files have runs of spaces as tokens that a user defined, and merges in order of ids. */
bool cti_gguf_is_gemma(const cti_gguf_vocab *vocab);

/* Whether id i is the placeholder of an id that no token has. */
bool cti_gguf_is_gap(const cti_gguf_vocab *vocab, int64_t i);

/* Makes the text of the tokenizer.json in an arena; .at is NULL after an error. Spellings and
 * merges of `vocab` become those of that file, and *row is the row of the table. */
cti_text cti_gguf_json_make(cti_gguf_vocab *vocab, const cti_gguf_row **row, cti_arena *arena);

/* Makes the parts of a tokenizer: those of the tokenizer.json, roles, templates, the ids that end
 * turns, and the note. Changes `vocab` as cti_gguf_json_make. */
bool cti_gguf_vocab_build(cti_gguf_vocab *vocab, ct_tokenizer *tokenizer);

/* Takes what the keys say out of a tokenizer, for a model of `rows` ids. Refuses what a GGUF file
 * cannot say. */
bool cti_gguf_vocab_take(const ct_tokenizer *tokenizer, int64_t rows, cti_gguf_vocab *vocab,
                         const cti_gguf_row **row);

/* Builds a tokenizer of a copy of it and compares it with this one, on strings of its
 * vocabulary. */
bool cti_gguf_vocab_check(const cti_gguf_vocab *vocab, const cti_gguf_row *row,
                          const ct_tokenizer *tokenizer);

/* ---- files ---- */

/* Reads the keys of a file. */
bool cti_gguf_vocab_read(const cti_gguf *file, cti_gguf_vocab *vocab);

/* Makes a tokenizer's parts of a GGUF file (open.c). */
bool cti_gguf_tokenizer_read(ct_tokenizer *tokenizer, const char *op, const char *path);

/* Puts the keys tokenizer.* of a tokenizer for a model of `rows` ids into a file that is being made
 * and whose general.architecture has been put; an id without a token is "[PAD<id>]". Refuses what
 * the table of names lacks, and a tokenizer of which a reader of the file would make other ids:
 * what is put is first built again and compared on 1,000 strings. Puts nothing after an error,
 * which is CT_ERR_ARGUMENT. tokenizer.ggml.token_type_count is the model's. The first two of the n
 * ids of `ends` that are not the eos_token are written as those that end a turn and a message. */
bool cti_tokenizer_put(const ct_tokenizer *tokenizer, cti_gguf_out *out, int64_t rows,
                       const int64_t *ends, int64_t n);

#endif
