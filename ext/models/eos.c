/* ct_lm_set_eos: the ids that end a text, in the model and in the files of a saved folder. */
#include <cotangent/autograd.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../../src/core/memory.h"
#include "../../src/io/file.h"
#include "../../src/os/os.h"
#include "config_edit.h"
#include "folder.h"
#include "lm.h"
#include "small_file.h"

enum { EOS_TEXT = 24 * CTI_LM_MOST_EOS };

/* The ids as JSON: a number, or a list of several. */
static const char *eos_text(const int64_t *ids, int64_t n, char text[EOS_TEXT]) {
    int size = snprintf(text, EOS_TEXT, n == 1 ? "" : "[");
    for (int64_t i = 0; i < n; i++)
        size += snprintf(text + size, EOS_TEXT - (size_t)size, "%s%" PRId64, i ? ", " : "", ids[i]);
    if (n != 1) snprintf(text + size, EOS_TEXT - (size_t)size, "]");
    return text;
}

/* Sets the ids in a JSON text. */
static bool eos_edit(const cti_lm *lm, const char *op, cti_text text, cti_lm_edit *edit) {
    char ids[EOS_TEXT];
    if (!cti_lm_edit_begin(lm->context, op, text, edit)) return false;
    if (cti_lm_edit_set(edit, "eos_token_id", eos_text(lm->eos, lm->generation.n_eos, ids)))
        return true;
    cti_lm_edit_end(edit);
    return false;
}

bool ct_lm_set_eos(ct_module *module, const int64_t *ids, int64_t n) {
    static const char op[] = "lm_set_eos";
    cti_lm *lm = cti_lm_of(module);
    if (!lm || !cti_lm_is_ready(lm->context)) return false;
    if (n < 1 || n > CTI_LM_MOST_EOS || !ids)
        return ct_fail(lm->context, CT_ERR_ARGUMENT, "%s: %" PRId64 " ids, and not 1 to %d", op,
                       ids ? n : 0, CTI_LM_MOST_EOS);
    const int64_t rows = cti_lm_integer(&lm->config, CTI_LM_VOCAB);
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= rows)
            return ct_fail(lm->context, CT_ERR_ARGUMENT,
                           "%s: id %" PRId64 " is not in the vocabulary of %" PRId64, op, ids[i],
                           rows);
    cti_lm changed = *lm;
    memcpy(changed.eos, ids, (size_t)n * sizeof *ids);
    changed.generation.n_eos = n;
    cti_lm_edit edit;
    if (!eos_edit(&changed, op, (cti_text){lm->config.text, lm->config.text_size}, &edit))
        return false;
    cti_give_any(lm->context, lm->config.text, lm->config.text_size + 1);
    lm->config.text = edit.text, lm->config.text_size = edit.size;
    memcpy(lm->eos, changed.eos, sizeof lm->eos);
    memcpy(lm->config.eos, changed.eos, sizeof lm->config.eos);
    lm->config.n_eos = lm->generation.n_eos = n;
    lm->generation.eos = lm->eos;
    lm->has_own_eos = true;
    return true;
}

bool cti_lm_save_eos(const cti_lm *lm, const char *op, const char *from, const char *to) {
    size_t size;
    cti_lm_edit edit;
    char *text = cti_lm_read_file(lm->context, op, from, &size);
    bool ok = text && eos_edit(lm, op, (cti_text){text, size}, &edit);
    if (ok) {
        ok = cti_file_write(lm->context, op, to, edit.text, edit.size);
        cti_lm_edit_end(&edit);
    }
    if (text) cti_give_any(lm->context, text, size + 1);
    return ok;
}
