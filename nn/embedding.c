/* embedding: rows of weight (num_embeddings, embedding_dim), initialised N(0, 1), selected by
 * i64 ids. */
#include "module.h"
#include "bare.h"

static ct_tensor *forward_embedding(ct_module *module, ct_tensor *ids) {
    return ct_embedding(ids, ct_module_get(module, "weight"));
}

static void describe_embedding(const ct_module *module, FILE *file) {
    const ct_embedding_opts *o = cti_nn_data(module);
    fprintf(file, "%" PRId64 ", %" PRId64, o->num_embeddings, o->embedding_dim);
}

static const cti_nn_kind embedding_kind = {.name = "Embedding",
                                           .forward = forward_embedding,
                                           .describe = describe_embedding,
                                           .size = sizeof(ct_embedding_opts)};

bool cti_nn_is_embedding(const ct_module *module) {
    return module && module->kind == &embedding_kind;
}

ct_module *cti_nn_embedding_bare(ct_context *context, ct_embedding_opts o) {
    if (!cti_nn_check_size(context, &embedding_kind, "num_embeddings", o.num_embeddings, 1) ||
        !cti_nn_check_size(context, &embedding_kind, "embedding_dim", o.embedding_dim, 1))
        return NULL;
    ct_module *module = cti_nn_new(context, &embedding_kind);
    if (module) *(ct_embedding_opts *)cti_nn_data(module) = o;
    return module;
}

ct_module *cti_nn_embedding_empty(ct_context *context, ct_embedding_opts o) {
    ct_module *module = cti_nn_embedding_bare(context, o);
    if (!module) return NULL;
    cti_nn_param_new(module, "weight", o.dtype, CT_SHAPE(o.num_embeddings, o.embedding_dim));
    return cti_nn_made(module);
}

ct_module *ct_embedding_new(ct_context *context, ct_embedding_opts o) {
    ct_module *module = cti_nn_embedding_empty(context, o);
    if (!module) return NULL;
    ct_init_normal(cti_nn_param(module, "weight"), 0, 1);
    return cti_nn_made(module);
}
