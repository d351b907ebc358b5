/* The model of char_lm and attention_map; see gpt.h. */
#include "gpt.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The metadata of a saved model. The bytes of the alphabet follow in hex, or the size of the
 * tokenizer's vocabulary. */
#define SIZES  "layers %lld heads %lld width %lld context %lld bias %lld "
#define BYTES  "alphabet "
#define TOKENS "vocabulary %d"

void gpt_alphabet(gpt *m, const bool *occurs) {
    m->letters = 0;
    for (int byte = 0; byte < 256; byte++) {
        m->id[byte] = -1;
        if (occurs[byte]) {
            m->id[byte] = m->letters;
            m->letter[m->letters] = (unsigned char)byte;
            m->letters++;
        }
    }
}

void gpt_tokenizer(gpt *m, const char *path) {
    m->tokenizer = ct_tokenizer_open(m->context, path);
    check(m->context, EXIT_USAGE);
    if (ct_tokenizer_note(m->tokenizer)) warn("%s", ct_tokenizer_note(m->tokenizer));
    m->letters = (int)ct_tokenizer_size(m->tokenizer);
}

static int32_t *encode_tokens(const gpt *m, const contents *t, int64_t *n) {
    const char *text = (const char *)t->bytes;
    const size_t size = (size_t)t->length;
    const ct_encode_opts opts = {.no_special = true};
    *n = ct_encode(m->tokenizer, text, size, opts, NULL, NULL, 0); /* only counts */
    if (*n < 0) fail(EXIT_FAILED, "out of memory");
    int64_t *ids = room_for(NULL, (size_t)*n, sizeof *ids);
    if (ct_encode(m->tokenizer, text, size, opts, ids, NULL, *n) != *n)
        fail(EXIT_FAILED, "out of memory");
    int32_t *small = room_for(NULL, (size_t)*n, sizeof *small);
    for (int64_t i = 0; i < *n; i++) small[i] = (int32_t)ids[i];
    free(ids);
    return small;
}

int32_t *gpt_encode(const gpt *m, const contents *t, int64_t *n) {
    if (m->tokenizer) return encode_tokens(m, t, n);
    int32_t *ids = room_for(NULL, (size_t)t->length, sizeof *ids);
    *n = 0;
    for (int64_t i = 0; i < t->length; i++) {
        const int id = m->id[t->bytes[i]];
        if (id >= 0) ids[(*n)++] = id;
    }
    return ids;
}

int64_t gpt_bytes(const gpt *m, const int32_t *ids, int64_t n) {
    if (!m->tokenizer) return n;
    int64_t *large = room_for(NULL, (size_t)n, sizeof *large);
    for (int64_t i = 0; i < n; i++) large[i] = ids[i];
    const int64_t bytes = ct_decode(m->tokenizer, large, n, true, NULL, 0);
    free(large);
    return bytes;
}

void gpt_prompt(const gpt *m, const char *prompt) {
    for (const char *p = prompt; p && *p && !m->tokenizer; p++) {
        if (m->id[(unsigned char)*p] < 0)
            fail(EXIT_USAGE, "--prompt: the first of '%s' is not in the text that was learned", p);
    }
}

/* Initialises weights to N(0, 0.02^2), with a smaller deviation in layers that add to the residual
 * stream, and biases to zero. */
static void initialise(const gpt *m) {
    ct_param p = {0};
    while (ct_module_next(m->root, &p)) {
        bool residual = strstr(p.name, "out_proj.weight") || strstr(p.name, "linear2.weight");
        double deviation = residual ? 0.02 / sqrt(2 * (double)m->layers) : 0.02;
        if (ct_ndim(p.tensor) == 2) ct_init_normal(p.tensor, 0, deviation);
        else if (strstr(p.name, "bias")) ct_init_constant(p.tensor, 0);
    }
}

void gpt_make(gpt *m) {
    ct_embedding_opts embedding = {
        .num_embeddings = m->letters,
        .embedding_dim = m->width,
    };
    ct_positions_opts positions = {
        .max_length = m->window,
        .embed_dim = m->width,
        .learned = true,
        .dropout = m->dropout,
    };
    ct_layer_opts layer = {
        .embed_dim = m->width,
        .num_heads = m->heads,
        .activation = CT_GELU,
        .norm_first = true,
        .dropout = m->dropout,
        .no_bias = !m->bias,
        .attn.separate = m->separate,
    };
    ct_context *c = m->context;
    m->root = ct_module_new(c, "GPT");
    m->wte = ct_module_add_child(m->root, "wte", ct_embedding_new(c, embedding));
    m->wpe = ct_module_add_child(m->root, "wpe", ct_positions_new(c, positions));
    m->h = ct_module_add_child(m->root, "h", ct_encoder_new(c, layer, m->layers, true));
    initialise(m);
    check(c, EXIT_USAGE);
}

void gpt_save(const gpt *m, const char *path) {
    char about[800];
    int end =
        snprintf(about, sizeof about, SIZES, m->layers, m->heads, m->width, m->window, m->bias);
    if (m->tokenizer) snprintf(about + end, sizeof about - (size_t)end, TOKENS, m->letters);
    else end += snprintf(about + end, sizeof about - (size_t)end, BYTES);
    for (int i = 0; i < m->letters && !m->tokenizer; i++)
        end += snprintf(about + end, 3, "%02x", m->letter[i]);
    ct_save(m->root, path, (ct_save_opts){.metadata = (const char *[]){"char_lm", about, NULL}});
    check(m->context, EXIT_FAILED);
}

/* In a file in_proj_weight has the rows of q, then of k, then of v. */
static void load_weights(gpt *m, const char *path) {
    int64_t e = m->width;
    const ct_load_map rows[] = {
        {.param = "*.q_proj.weight", .file = "*.in_proj_weight", .file_start = 0, .rows = e},
        {.param = "*.k_proj.weight", .file = "*.in_proj_weight", .file_start = e, .rows = e},
        {.param = "*.v_proj.weight", .file = "*.in_proj_weight", .file_start = 2 * e, .rows = e},
        {.param = "*.q_proj.bias", .file = "*.in_proj_bias", .file_start = 0, .rows = e},
        {.param = "*.k_proj.bias", .file = "*.in_proj_bias", .file_start = e, .rows = e},
        {.param = "*.v_proj.bias", .file = "*.in_proj_bias", .file_start = 2 * e, .rows = e},
    };
    ct_load_opts opts = {0};
    if (m->separate) {
        opts.map = rows;
        opts.n_map = m->bias ? 6 : 3;
    }
    ct_load(m->root, path, opts);
}

/* Checks that the tokenizer can be the one with which a model was trained. */
static void check_tokenizer(const gpt *m, const char *path, int tokens) {
    if (!m->tokenizer)
        fail(EXIT_USAGE, "%s was trained with a tokenizer: --tokenizer FILE is missing", path);
    if (m->letters != tokens)
        fail(EXIT_USAGE, "%s has a vocabulary of %d, and the tokenizer one of %d", path, tokens,
             m->letters);
}

static void read_alphabet(gpt *m, const char *path, const char *hex) {
    if (m->tokenizer) fail(EXIT_USAGE, "%s was trained on bytes, so it takes no --tokenizer", path);
    bool occurs[256] = {false};
    for (const char *p = hex; *p; p += 2) {
        const char digits[] = {p[0], p[1], '\0'};
        occurs[strtol(digits, NULL, 16)] = true;
    }
    gpt_alphabet(m, occurs);
}

void gpt_load(gpt *m, const char *path) {
    char about[800], hex[513];
    if (!ct_load_metadata(m->context, path, "char_lm", about, sizeof about))
        fail(EXIT_USAGE, "%s is no model of char_lm: %s", path,
             error_text(ct_error_message(m->context)));
    int tokens = 0;
    int found = sscanf(about, SIZES BYTES "%512[0-9a-f]", &m->layers, &m->heads, &m->width,
                       &m->window, &m->bias, hex);
    const bool is_of_tokens = found == 5 && sscanf(about, SIZES TOKENS, &m->layers, &m->heads,
                                                   &m->width, &m->window, &m->bias, &tokens) == 6;
    bool sizes = m->layers >= 1 && m->layers <= MAX_LAYERS && m->heads >= 1 && m->window >= 1;
    if (!sizes || (is_of_tokens ? tokens < 1 : found != 6 || strlen(hex) % 2))
        fail(EXIT_USAGE, "%s is no model of char_lm: it says '%s' of itself", path, about);
    if (is_of_tokens) check_tokenizer(m, path, tokens);
    else read_alphabet(m, path, hex);
    gpt_make(m);
    load_weights(m, path);
    check(m->context, EXIT_USAGE);
}

ct_tensor *gpt_features(const gpt *m, ct_tensor *ids, ct_stack_call call) {
    int64_t first = call.caches ? ct_kv_cache_length(call.caches[0]) : 0;
    ct_tensor *tokens = ct_forward(m->wte, ids);                /* (B, T) -> (B, T, E) */
    ct_tensor *x = ct_positions_forward(m->wpe, tokens, first); /* (B, T, E) */
    call.self.causal = true;
    return ct_encoder_forward(m->h, x, call);
}

gpt_batch gpt_batch_make(const gpt *m, int64_t k, int64_t t) {
    gpt_batch b = {
        .input = ct_zeros(m->context, CT_I64, CT_SHAPE(k, t)),
        .target = ct_zeros(m->context, CT_I64, CT_SHAPE(k * t)),
        .k = k,
        .t = t,
    };
    return b;
}

void gpt_batch_set(gpt_batch *b, int64_t i, const int32_t *ids) {
    int64_t *input = ct_data_i64(b->input);
    int64_t *target = ct_data_i64(b->target);
    if (!input || !target) return;
    for (int64_t j = 0; j < b->t; j++) {
        input[i * b->t + j] = ids[j];
        target[i * b->t + j] = ids[j + 1];
    }
}

ct_tensor *gpt_loss(const gpt *m, const gpt_batch *b) {
    ct_tensor *x = gpt_features(m, b->input, (ct_stack_call){0});     /* (k, t, E) */
    ct_tensor *rows = ct_reshape(x, CT_SHAPE(b->k * b->t, m->width)); /* (k t, E) */
    ct_tensor *wte = ct_module_get(m->wte, "weight");
    return ct_linear_cross_entropy(rows, wte, b->target, (ct_cross_entropy_opts){0});
}
