/* embedding: rows of weight (num_embeddings, embedding_dim), initialised N(0, 1), selected by
 * i64 ids. */
#include "module.h"
#include "bare.h"

static ct_tensor *embedding_module_forward(void *self, ct_tensor *ids) {
    ct_module *module = self;
    return ct_embedding(ids, ct_module_get(module, "weight"));
}

static void embedding_describe(const void *self, FILE *file) {
    const ct_embedding_opts *o = cti_nn_data(self);
    fprintf(file, "%" PRId64 ", %" PRId64, o->num_embeddings, o->embedding_dim);
}

static const ct_module_type embedding_type = {
    .name = "Embedding", .forward = embedding_module_forward, .describe = embedding_describe};

bool cti_nn_is_embedding(const ct_module *module) {
    return module && module->type == &embedding_type;
}

ct_module *cti_nn_embedding_bare(ct_context *context, ct_embedding_opts o) {
    if (!cti_nn_check_size(context, &embedding_type, "num_embeddings", o.num_embeddings, 1) ||
        !cti_nn_check_size(context, &embedding_type, "embedding_dim", o.embedding_dim, 1))
        return NULL;
    return cti_nn_new(context, &embedding_type, &o, sizeof o);
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
