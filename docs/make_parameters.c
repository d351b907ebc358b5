/* Writes docs/parameters.md to stdout: the parameters of every module, and what each option
 * changes. Modules are made with the sizes below, all different, so that a size in a shape has one
 * name. */
#include <cotangent/cotangent.h>

#include <stdlib.h>
#include <string.h>

enum { H = 6, H_kv = 2, d = 38, E = H * d, F = 211, V = 1009, L = 499, D = 61 };
enum { in = 17, out = 19, kdim = 101, vdim = 103, head_dim = 41 };

static ct_context *context;

static const struct {
    int64_t size;
    const char *name;
} sizes[] = {
    {1, "1"},
    {d, "d"},
    {H_kv * d, "H_kv d"},
    {E, "E"},
    {3 * E, "3E"},
    {4 * E, "4E"},
    {E + 2 * H_kv * d, "E + 2 H_kv d"},
    {F, "F"},
    {V, "V"},
    {L, "L"},
    {D, "D"},
    {4 * D, "4D"},
    {in, "in"},
    {out, "out"},
    {kdim, "kdim"},
    {vdim, "vdim"},
    {head_dim, "head_dim"},
    {H * head_dim, "H head_dim"},
    {H_kv * head_dim, "H_kv head_dim"},
    {3 * H * head_dim, "3 H head_dim"},
    {(H + 2 * H_kv) * head_dim, "(H + 2 H_kv) head_dim"},
};

static const char *size_name(int64_t size) {
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].size == size) return sizes[i].name;
    fprintf(stderr, "make_parameters: a size without a name: %lld\n", (long long)size);
    exit(1);
}

/* A module, and the options in which it differs from the first of its table, as they are written
 * in C. */
typedef struct {
    const char *options;
    ct_module *module;
} variant;

/* "(E, E)" */
static void print_shape(const ct_tensor *tensor) {
    ct_shape shape = ct_shape_of(tensor);
    for (int i = 0; i < shape.ndim; i++) printf("%s%s", i ? ", " : "(", size_name(shape.dim[i]));
    printf(")");
}

/* The parameter of that name, NULL if there is none. */
static ct_tensor *find(const ct_module *module, const char *name) {
    ct_param p = {0};
    while (ct_module_next(module, &p))
        if (!strcmp(p.name, name)) return p.tensor;
    return NULL;
}

static bool same_shape(const ct_tensor *a, const ct_tensor *b) {
    ct_shape x = ct_shape_of(a), y = ct_shape_of(b);
    return x.ndim == y.ndim && !memcmp(x.dim, y.dim, (size_t)x.ndim * sizeof *x.dim);
}

/* The parameters that `base` has not or has in another shape, then the names that only it has. */
static void print_difference(const ct_module *base, const ct_module *module) {
    const char *comma = "";
    ct_param p = {0};
    while (ct_module_next(module, &p)) {
        const ct_tensor *before = find(base, p.name);
        if (before && same_shape(before, p.tensor)) continue;
        printf("%s`%s` ", comma, p.name);
        print_shape(p.tensor);
        comma = ", ";
    }
    const char *no = *comma ? "; no " : "no ";
    p = (ct_param){0};
    while (ct_module_next(base, &p)) {
        if (find(module, p.name)) continue;
        printf("%s`%s`", no, p.name);
        no = ", ";
    }
    if (!*comma && !strncmp(no, "no ", 3)) printf("nothing");
}

/* The first variant in full, for the others what differs. */
static void section(const char *title, const char *text, const variant *variants, size_t n) {
    printf("\n## %s\n\n%s\n\n", title, text);
    const ct_module *base = variants[0].module;
    ct_param p = {0};
    while (ct_module_next(base, &p)) {
        printf("    %-48s", p.name);
        print_shape(p.tensor);
        printf("\n");
    }
    if (ct_module_count(base) == 0) printf("No parameters.\n");
    if (n > 1) printf("\n| options | what changes |\n|---|---|\n");
    for (size_t i = 1; i < n; i++) {
        printf("| `%s` | ", variants[i].options);
        print_difference(base, variants[i].module);
        printf(" |\n");
    }
}

#define SECTION(title, text, ...)                                                                  \
    do {                                                                                           \
        const variant variants[] = {__VA_ARGS__};                                                  \
        section(title, text, variants, sizeof variants / sizeof *variants);                        \
    } while (0)

/* Variants: the options in which one differs from the default. The C of them is also their text. */
#define OPTS(kind, ...) ((ct_##kind##_opts){__VA_ARGS__})
#define LINEAR(...)                                                                                \
    {#__VA_ARGS__,                                                                                 \
     ct_linear_new(context, OPTS(linear, .in_features = in, .out_features = out, __VA_ARGS__))}
#define LAYER_NORM(...)                                                                            \
    {#__VA_ARGS__, ct_layer_norm_new(context, OPTS(layer_norm, .dim = D, __VA_ARGS__))}
#define MLP(...) {#__VA_ARGS__, ct_mlp_new(context, OPTS(mlp, .dim = D, __VA_ARGS__))}
#define POSITIONS(...)                                                                             \
    {#__VA_ARGS__,                                                                                 \
     ct_positions_new(context, OPTS(positions, .max_length = L, .embed_dim = E, __VA_ARGS__))}
#define MHA(...)                                                                                   \
    {#__VA_ARGS__, ct_mha_new(context, OPTS(mha, .embed_dim = E, .num_heads = H, __VA_ARGS__))}
#define LAYER(...)         OPTS(layer, .embed_dim = E, .num_heads = H, __VA_ARGS__)
#define ENCODER_LAYER(...) {#__VA_ARGS__, ct_encoder_layer_new(context, LAYER(__VA_ARGS__))}
#define DECODER_LAYER(...) {#__VA_ARGS__, ct_decoder_layer_new(context, LAYER(__VA_ARGS__))}

/* The options that encoder and decoder layers share. */
#define LAYERS(made)                                                                               \
    made(), made(.hidden = F), made(.no_bias = true), made(.rms_norm = true), made(.gated = true), \
        made(.norm_first = true, .sandwich = true), made(.attn.num_kv_heads = H_kv),               \
        made(.attn.qk_norm = true), made(.attn.separate = true)

static const char intro[] =
    "# Parameters\n\n"
    "The names and shapes of every module's parameters, by option. `ct_save` writes these names,\n"
    "`ct_module_get` takes them, and the patterns of parameter groups match them. This page is "
    "made by\n"
    "`docs/make_parameters.c` from the modules themselves (`make docs`); the suite fails when it\n"
    "is out of date. Names are torch.nn's, where torch has the option.\n\n"
    "Sizes: E the width (`embed_dim`), H heads of d = E / H numbers, H_kv heads of keys and\n"
    "values, D another width, F the hidden width of a feed-forward, V a vocabulary, L a greatest\n"
    "length. A weight is (out, in). Each list has the parameters by default, and the table below\n"
    "it what an option changes. Other options change no name and no shape.\n";

static void write_page(void) {
    printf("%s", intro);
    SECTION("Linear", "`ct_linear_new` with `.in_features = in, .out_features = out`.", LINEAR(),
            LINEAR(.no_bias = true));
    SECTION(
        "Embedding", "`ct_embedding_new` with `.num_embeddings = V, .embedding_dim = E`.",
        {"", ct_embedding_new(context, OPTS(embedding, .num_embeddings = V, .embedding_dim = E))});
    SECTION("LayerNorm", "`ct_layer_norm_new` with `.dim = D`.", LAYER_NORM(),
            LAYER_NORM(.no_bias = true));
    SECTION("RMSNorm", "`ct_rms_norm_new` with `.dim = D`.",
            {"", ct_rms_norm_new(context, OPTS(rms_norm, .dim = D))});
    SECTION("Dropout", "`ct_dropout_new`.", {"", ct_dropout_new(context, 0.1)});
    SECTION("Positions", "`ct_positions_new` with `.max_length = L, .embed_dim = E`.", POSITIONS(),
            POSITIONS(.learned = true));
    SECTION("MLP", "`ct_mlp_new` with `.dim = D`.", MLP(), MLP(.hidden = F), MLP(.gated = true),
            MLP(.no_bias = true), MLP(.gated = true, .no_bias = true));
    SECTION(
        "MultiheadAttention",
        "`ct_mha_new` with `.embed_dim = E, .num_heads = H`. `in_proj_weight` has\n"
        "the rows of queries, keys and values, in this order; each part has its heads in order.",
        MHA(), MHA(.no_bias = true), MHA(.num_kv_heads = H_kv), MHA(.kdim = kdim, .vdim = vdim),
        MHA(.num_kv_heads = H_kv, .kdim = kdim, .vdim = vdim), MHA(.add_bias_kv = true),
        MHA(.num_kv_heads = H_kv, .add_bias_kv = true), MHA(.qk_norm = true), MHA(.separate = true),
        MHA(.separate = true, .num_kv_heads = H_kv), MHA(.separate = true, .no_bias = true),
        MHA(.bias = CT_BIAS_QKV), MHA(.separate = true, .bias = CT_BIAS_QKV),
        MHA(.head_dim = head_dim), MHA(.head_dim = head_dim, .num_kv_heads = H_kv),
        MHA(.head_dim = head_dim, .qk_norm = true, .separate = true));
    SECTION("TransformerEncoderLayer",
            "`ct_encoder_layer_new` with `.embed_dim = E, .num_heads = H`.", LAYERS(ENCODER_LAYER));
    SECTION("TransformerDecoderLayer",
            "`ct_decoder_layer_new` with `.embed_dim = E, .num_heads = H`.", LAYERS(DECODER_LAYER));
    SECTION(
        "TransformerEncoder",
        "`ct_encoder_new` with one layer and without a final norm; further layers are `layers.1`,\n"
        "`layers.2`, ... `ct_decoder_new` is the same with decoder layers.",
        {"", ct_encoder_new(context, LAYER(), 1, false)},
        {"final_norm", ct_encoder_new(context, LAYER(), 1, true)},
        {"final_norm, .rms_norm = true",
         ct_encoder_new(context, LAYER(.rms_norm = true), 1, true)});
    SECTION(
        "Transformer", "`ct_transformer_new` with one layer in encoder and decoder.",
        {"", ct_transformer_new(context, OPTS(transformer, .layer = LAYER(),
                                              .num_encoder_layers = 1, .num_decoder_layers = 1))});
}

int main(void) {
    context = ct_context_new((ct_context_opts){.threads = 1, .on_error = ct_error_die});
    if (!context) return 1;
    write_page();
    ct_context_free(context);
    return fflush(stdout) != 0;
}
