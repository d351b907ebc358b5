/* A seam for the floor of models: a layer of nn.h whose children have the names of a family, and
 * what such layers need besides ct_layer_opts. The tables outlive the modules. */
#ifndef CTI_NN_NAMES_H
#define CTI_NN_NAMES_H

#include <cotangent/nn.h>

/* The children of an attention, as paths below it. */
typedef struct {
    const char *qkv;       /* one Linear for queries, keys and values; NULL: there are three */
    const char *q, *k, *v; /* with ct_mha_opts.separate */
    const char *q_norm, *k_norm, *out;
    bool interleaved;  /* qkv has the rows of q, k and v of head 0, then of head 1, ...; otherwise
                          all  rows of q come first, then all of k */
    bool wide_qk_norm; /* q_norm and k_norm are of all heads' rows together, not of each head's */
} cti_nn_mha_names;

/* The Linears of a feed-forward, as paths. */
typedef struct {
    const char *in, *gate, *out;
    const char *gate_in; /* one Linear for gate and in, gate's rows first; NULL: there are two */
} cti_nn_feed_names;

/* The sublayers of a layer are numbered in the order in which they run. */
enum { CTI_NN_SUBLAYERS = 3 };
typedef struct {
    const char *attention[CTI_NN_SUBLAYERS - 1]; /* of x, and in a decoder of the memory */
    cti_nn_mha_names mha;
    const char *feed_forward; /* the module that has the Linears; NULL: the layer has them */
    cti_nn_feed_names feed;   /* below the module that has them */
    const char *norm[CTI_NN_SUBLAYERS];     /* NULL: the sublayer has no norm */
    const char *norm_out[CTI_NN_SUBLAYERS]; /* with ct_layer_opts.sandwich */
} cti_nn_layer_names;

/* The options of a family's layer that ct_layer_opts lacks. */
typedef struct {
    const cti_nn_layer_names *names;
    double attention_dropout; /* of the attention weights */
    double hidden_dropout;    /* inside the feed-forward */
    bool input_last; /* with parallel: the sublayers' results are added up before x, which has
                        other rounding than x + attention + feed_forward */
    bool attention_undropped; /* opts.dropout is only that of the feed-forward's result */
    double residual_scale;    /* the factor of a sublayer's result before it is added to the sum */
} cti_nn_layer_more;

/* Returns an encoder layer with these names. opts.dropout is only that of the sublayers' results.
 * All parameters have undefined values; with CT_BF16 the matrices are bf16 and the others f32. A
 * layer prints as a Layer with Groups. */
ct_module *cti_nn_layer_named(ct_context *context, ct_layer_opts opts, cti_nn_layer_more more);
/* Returns the attention of a layer, for a cache; NULL, without an error, if a program has put
 * another module in its place, or the module is no layer. */
ct_module *cti_nn_layer_attention(const ct_module *layer);
/* Makes room for max_length positions in a cache, which keeps what it has. After an error it is as
 * it was. */
bool cti_nn_cache_reserve(ct_kv_cache *cache, int64_t max_length);

/* Adds a child at a path below the module, in Groups that are made if they are missing. If this
 * fails, the child is freed. */
ct_module *cti_nn_add_at(ct_module *module, const char *path, ct_module *child);
/* Returns the module at a path ("layers.0.norm1"); NULL, without an error, if there is none. */
ct_module *cti_nn_child_at(const ct_module *module, const char *path);
/* Returns the child with the name that is the first `length` characters of `name`, a Group that is
 * made if it is missing. */
ct_module *cti_nn_group(ct_module *module, const char *name, size_t length);
/* Return the first child of a module, the child behind another, and a child's name; NULL: there is
 * none. */
ct_module *cti_nn_first_child(const ct_module *module);
ct_module *cti_nn_next_child(const ct_module *child);

/* Returns y, which a layer has made of x, and releases x: only the tape may still need it. It stays
 * if it is not of the innermost scope, as a layer of the program's may return a tensor that the
 * program owns, or its input. */
ct_tensor *cti_nn_state_next(ct_tensor *x, ct_tensor *y);
const char *cti_nn_child_name(const ct_module *child);

#endif
