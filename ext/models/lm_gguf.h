/* Models in GGUF files: what a family's modules and numbers are called there, and how they lie. The
 * tables serve reading and writing.
 *
 *     a GGUF file --cti_lm_gguf_text--> the text of a config.json --> the config, as for a folder
 *     its tensors --cti_lm_gguf_rename--> the names of the tree --> cti_nn_load
 *
 * Invariants:
 *
 * 1. The config of a model from a GGUF file is read from a text, by the checks of a folder's
 *    config.json. Nothing else of the model depends on where it comes from.
 * 2. Matrices are (out, in) in the file as in the tree, in every family.
 * 3. What a file cannot say, or its readers compute otherwise, is refused by cti_lm_gguf_check
 *    before anything is written. What is written all the same is in cti_lm_gguf_note. */
#ifndef CTI_MODELS_LM_GGUF_H
#define CTI_MODELS_LM_GGUF_H

#include "../../nn/load.h"
#include "../../src/io/gguf.h"
#include "lm.h"
#include "lora.h"

/* ---- names ---- */

/* A parameter in a GGUF file. */
typedef struct {
    char name[CTI_LM_PATH];
    cti_row_grid grid;
    double offset; /* the file has value + offset */
    /* the name of the second half of the rows, where the file has two tensors for a Linear of two;
     * otherwise "" */
    char second[CTI_LM_PATH];
    int64_t first; /* the file begins with this row of the tensor */
} cti_lm_gguf_param;

/* The parameter of the tree that a path names; false, without an error: GGUF has none. */
bool cti_lm_gguf_param_of(const cti_lm_config *config, const char *path, cti_lm_gguf_param *param);
/* The path in the tree of a tensor of the file, and its grid and offset (.name is as it was);
 * false, without an error: the family has none. */
bool cti_lm_gguf_path_of(const cti_lm_config *config, cti_text name, char path[CTI_LM_PATH],
                         cti_lm_gguf_param *param);
/* Gives the tensors of a file the names of the tree. A tensor of another name keeps it. */
bool cti_lm_gguf_rename(cti_lm_config *config, cti_shards *weights);
/* Writes the name of the tensor of a file that may have q, k and v in one, and the row in it at
 * which this parameter begins. False, without an error: it is none of the three. */
bool cti_lm_gguf_fused(const cti_lm_config *config, const char *path, char name[CTI_LM_PATH],
                       int64_t *start);

/* ---- keys ---- */

/* The keys with a number, as "llama." and `key`. */
typedef enum { CTI_LM_GGUF_U32, CTI_LM_GGUF_F32, CTI_LM_GGUF_FLAG } cti_lm_gguf_kind;
typedef struct {
    const char *key;
    cti_lm_gguf_kind kind;
    cti_lm_number number;
    bool required; /* in a family whose config.json has this number */
} cti_lm_gguf_key;
extern const cti_lm_gguf_key cti_lm_gguf_keys[]; /* ends with a NULL key */
/* Whether a family has the key: its config.json has the number, and its norms are of this kind. */
bool cti_lm_gguf_has(const cti_lm_family *family, const cti_lm_gguf_key *row);
/* The row of the family's config.json for a number; NULL: it has none. */
const cti_lm_key *cti_lm_gguf_row(const cti_lm_family *family, cti_lm_number number);

/* The divisors of the inverse frequencies of a head, rope_freqs.weight, by Llama 3's formula in the
 * arithmetic of llama.cpp's converter. */
typedef struct {
    double base, factor, low, high, original;
} cti_lm_gguf_llama3;
void cti_lm_gguf_divisors(cti_lm_gguf_llama3 rope, int64_t head_dim, float *divisor);
/* The options whose divisors are these. .base is given, the rest is found. False, without an error:
 * there are none. */
bool cti_lm_gguf_find_llama3(const float *divisor, int64_t head_dim, cti_lm_gguf_llama3 *rope);

/* What divides the scores of Gemma 3: the size of a head, but in the model of 62 layers the width
 * over the heads; its square root. */
double cti_lm_gguf_query_scalar(double layers, double width, double heads, double head_dim);

/* ---- writing ---- */

/* Whether a GGUF file can hold the model. If not, CT_ERR_ARGUMENT names the option of config.json
 * that the file cannot say, or that its readers do not follow. */
bool cti_lm_gguf_check(const cti_lm *lm, const char *op, const char *path);
/* What a file leaves out, or its readers compute a little otherwise; "": nothing. */
const char *cti_lm_gguf_note(const cti_lm *lm);
/* Puts general.name, the name of the file without its end. */
void cti_lm_gguf_title(cti_gguf_out *out, const char *path);
/* Writes a number of elements with at least two digits, as "135M". */
enum { CTI_LM_GGUF_LABEL = 32 };
void cti_lm_gguf_label(int64_t numel, char out[CTI_LM_GGUF_LABEL]);
/* Writes the model to a file, which appears when it is whole. */
bool cti_lm_gguf_save(const cti_lm *lm, const char *op, const char *path, ct_save_opts opts);

/* ---- adapters ---- */

bool cti_lm_gguf_save_adapters(const cti_lm *lm, const char *op, const char *path,
                               const cti_lora_places *places);
/* Opens a file of adapters as if it were PEFT's: with PEFT's names, and opts->rank and .alpha. NULL
 * after an error. */
ct_safetensors *cti_lm_gguf_open_adapters(const cti_lm *lm, const char *op, const char *path,
                                          ct_lora_opts *opts);

/* ---- reading ---- */

/* Sets *is to whether a path is a GGUF file, or a folder whose only weights are in GGUF. False: an
 * error was recorded. */
bool cti_lm_gguf_is(ct_context *context, const char *op, const char *path, bool *is);
/* Reads pooling_type, how the tokens become one vector, into lm->sentence. What is not followed is
 * no error (sentence.h). */
bool cti_lm_gguf_pooling(cti_lm *lm, const cti_gguf *file);
/* The number of the key for the poolings of a model; 0: it has none, -1: readers have none. */
int cti_lm_gguf_pooling_type(const cti_lm *lm);
/* Reads the options of generation into lm->sampling. */
bool cti_lm_gguf_sampling(cti_lm *lm, const cti_gguf *file);
/* The keys of lm->sampling behind "general.sampling.", in its order. */
extern const char *const cti_lm_gguf_sampling_keys[CTI_LM_SAMPLINGS];

/* Reads a tensor of floats as f32 into the innermost scope; NULL after an error. */
ct_tensor *cti_lm_gguf_values(const cti_file_tensor *tensor);

/* The number with the fewest digits that is the same f32, if the number is one. */
double cti_lm_gguf_shortest(double number);
/* Makes the text of a config.json with a NUL at its end, a block of *size + 1 bytes of the context.
 * NULL: an error was recorded. */
char *cti_lm_gguf_text(const cti_shards *weights, size_t *size);

#endif
