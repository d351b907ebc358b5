/* A checkpoint of two optimisers with groups, with changed bytes. The input is a list of edits of a
 * valid file, four bytes each, so that most inputs are nearly valid. The length of the header is
 * corrected unless an edit changes it. The checksum is corrected too, unless the first byte turns
 * this off; then a file that differs from the valid one must be refused. A load that is refused
 * changes nothing. After a load that is accepted, training and saving work. */
#include "fuzz.h"

#include "nn/optim/optim.h"
#include "src/io/crc64.h"

enum { ROOM = 1 << 15, KINDS = 4 };

typedef struct {
    ct_context *context;
    ct_module *module;
    ct_optim *optim, *other; /* the other one steps part of the module too */
    uint8_t good[ROOM];
    size_t size;
} training;
static training *of_kind[KINDS];

static bool step(training *t) {
    ct_scope scope = ct_scope_open(t->context);
    ct_tensor *x = ct_randn(t->context, CT_F32, CT_SHAPE(2, 3));
    ct_optim_zero_grad(t->optim);
    const bool done = ct_backward(ct_mse_loss(ct_forward(t->module, x), x)) &&
                      ct_optim_step(t->optim) && ct_optim_step(t->other);
    ct_scope_close(scope);
    return done;
}

static ct_checkpoint all(training *t) {
    return (ct_checkpoint){
        .module = t->module, .optim = t->optim, .optims = &t->other, .n_optims = 1, .step = 2};
}

/* Whether an optimiser is as constructors and groups make one. */
static bool is_valid(ct_optim *optim) {
    cti_nn_fault fault;
    bool valid = !cti_nn_optim_fault(optim, optim, &fault) && optim->skipped >= 0;
    for (int64_t i = 0; i < optim->count; i++) {
        const cti_nn_item *item = &optim->items[i];
        const bool has_state = cti_nn_rule_of(optim, item)->n_states > 0 && item->step > 0;
        valid &= !cti_nn_item_fault(item, &fault) && (item->state[0] != NULL) == has_state &&
                 !(item->frozen && item->step) && (item->grouped || item->lr_scale == 1);
    }
    return valid;
}

static training *begin(int kind) {
    training *t = calloc(1, sizeof *t);
    t->context = ct_context_new((ct_context_opts){.threads = 1, .seed = 1});
    t->module = ct_mlp_new(t->context, (ct_mlp_opts){.dim = 3, .hidden = 2, .dropout = 0.25});
    ct_module_add_param(t->module, "unused", ct_zeros(t->context, CT_F64, CT_SHAPE(2)));
    if (kind == 0) t->optim = ct_sgd_new(t->module, (ct_sgd_opts){.lr = 0.1, .clip_norm = 1});
    if (kind == 1)
        t->optim = ct_sgd_new(t->module, (ct_sgd_opts){.momentum = 0.9, .nesterov = true});
    if (kind == 2) t->optim = ct_adam_new(t->module, (ct_adam_opts){.weight_decay = 0.01});
    if (kind == 3) t->optim = ct_adamw_new(t->module, (ct_adamw_opts){.decay_matrices_only = true});
    t->other = ct_adam_new(ct_module_child(t->module, "proj"),
                           (ct_adam_opts){.clip_norm = 1, .skip_nonfinite = true});
    MUST(ct_optim_group(t->optim, "*.bias", (ct_group_opts){.lr_scale = 0.5}));
    MUST(ct_optim_group(t->optim, "fc.*", (ct_group_opts){.frozen = kind & 1}));
    MUST(ct_optim_group(t->other, "bias", (ct_group_opts){.weight_decay = 0.1}));
    MUST(step(t) && step(t));
    const char *path = fuzz_path("saved");
    ct_checkpoint checkpoint = all(t);
    MUST(ct_checkpoint_save(path, &checkpoint));
    t->size = fuzz_read(path, t->good, sizeof t->good);
    return t;
}

/* ---- edits ---- */

static uint64_t get_length(const uint8_t *file) {
    uint64_t length = 0;
    for (int i = 8; i-- > 0;) length = length << 8 | file[i];
    return length;
}

static void put_little(uint8_t *to, uint64_t value) {
    for (int i = 0; i < 8; i++) to[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t special(uint8_t which) {
    static const double numbers[] = {0, -1, 1, 7, 0.5, 1e308, 1e-308, -0.0};
    uint64_t bits = 0;
    switch (which & 15) {
    case 8: return UINT64_C(0x7FF8000000000000); /* a NaN; infinities */
    case 9: return UINT64_C(0x7FF0000000000000);
    case 10: return UINT64_C(0xFFF0000000000000);
    case 11: return INT64_MAX;
    case 12: return INT64_MAX - 1;
    case 13: return UINT64_C(1) << 63;
    case 14: return UINT64_MAX;
    case 15: return UINT64_C(1) << 53;
    }
    memcpy(&bits, &numbers[which & 7], sizeof bits);
    return bits;
}

static size_t edit(uint8_t *file, size_t size, const uint8_t e[4]) {
    const uint64_t header = size < 8 ? 0 : get_length(file);
    const size_t begin = size < 8 ? size : header < size - 8 ? 8 + (size_t)header : size;
    const size_t at = size ? (e[1] | (size_t)e[2] << 8) % size : 0;
    switch (e[0] % 8) {
    case 0:
        if (size) file[at] = e[3];
        break;
    case 1:
        if (size) file[at] ^= (uint8_t)(1 << e[3] % 8);
        break;
    case 2: /* inserts a byte */
        if (size + 1 >= ROOM) break;
        memmove(file + at + 1, file + at, size - at);
        file[at] = e[3];
        size++;
        if (at >= 8 && at <= begin && size >= 8) put_little(file, header + 1);
        break;
    case 3: /* removes bytes */
        for (size_t n = 0; n < e[3] % 32u && at < size; n++) {
            memmove(file + at, file + at + 1, size - at - 1);
            size--;
            if (at >= 8 && at < 8 + header - n && size >= 8) put_little(file, header - n - 1);
        }
        break;
    case 4:
    case 5: /* changes a number of the data */
        if (size - begin >= 8)
            put_little(file + begin + (e[1] | (size_t)e[2] << 8) % ((size - begin) / 8) * 8,
                       special(e[3]));
        break;
    case 6: size = at; break;
    case 7: /* changes a digit of the header */
        for (size_t i = at; i < begin; i++)
            if (file[i] >= '0' && file[i] <= '9') {
                file[i] = (uint8_t)('0' + e[3] % 10);
                break;
            }
    }
    return size;
}

/* Makes the checksum right where the file begins as one with a checksum. */
static void seal(uint8_t *file, size_t size) {
    static const char begin[] = "{\"__metadata__\":{\"checksum\":\"";
    static cti_crc64 crc;
    enum { AT = 8 + sizeof begin - 1 };
    if (size < AT + 16 || memcmp(file + 8, begin, sizeof begin - 1)) return;
    memset(file + AT, '0', 16);
    cti_crc64_begin(&crc);
    cti_crc64_add(&crc, file, size);
    for (int i = 0; i < 16; i++)
        file[AT + i] = (uint8_t) "0123456789abcdef"[cti_crc64_value(&crc) >> 4 * (15 - i) & 15];
}

/* ---- loading ---- */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static uint8_t file[ROOM], now[ROOM];
    if (!*fuzz_folder) fuzz_begin();
    if (size < 1 || size > 200) return 0;
    const int kind = data[0] % KINDS;
    if (!of_kind[kind]) of_kind[kind] = begin(kind);
    training *t = of_kind[kind];
    size_t n = t->size;
    memcpy(file, t->good, n);
    for (size_t i = 1; i + 4 <= size; i += 4) n = edit(file, n, data + i);
    const bool sealed = data[0] < 128, changed = n != t->size || memcmp(file, t->good, n);
    if (sealed) seal(file, n);
    const char *path = fuzz_path("input"), *saved = fuzz_path("saved");
    fuzz_write(path, file, n);

    const int64_t live = ct_memory(t->context).live;
    ct_checkpoint checkpoint = all(t);
    const bool done = ct_checkpoint_load(path, &checkpoint);
    MUST(done == (ct_error(t->context) == CT_OK));
    MUST(sealed || !(done && changed));
    if (done) {
        MUST(checkpoint.step >= 0 && checkpoint.step < INT64_MAX && is_valid(t->optim) &&
             is_valid(t->other));
        MUST(ct_checkpoint_save(saved, &checkpoint) && ct_checkpoint_load(saved, &checkpoint));
        MUST(step(t));
        MUST(ct_checkpoint_save(saved, &checkpoint) && ct_checkpoint_load(saved, &checkpoint));
        ct_optim_zero_grad(t->optim);
    } else {
        MUST(strstr(ct_error_message(t->context), path));
        ct_error_clear(t->context);
        MUST(checkpoint.step == 2 && ct_checkpoint_save(saved, &checkpoint));
        MUST(fuzz_read(saved, now, sizeof now) == t->size && !memcmp(now, t->good, t->size));
    }
    fuzz_write(path, t->good, t->size);
    MUST(ct_checkpoint_load(path, &checkpoint));
    MUST(ct_memory(t->context).live <= live);
    return 0;
}
