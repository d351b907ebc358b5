/* Errors of a path that is no folder of a model, with the name of a file that it has instead. */
#include <cotangent/autograd.h>

#include <stdio.h>
#include <string.h>

#include "../../src/core/memory.h"
#include "../../src/io/file.h"
#include "../../src/io/kind.h"
#include "../../src/os/os.h"
#include "folder.h"
#include "lm_gguf.h"

#define BY_TRANSFORMERS                                                                            \
    "convert it to safetensors: in Python, transformers.AutoModelForCausalLM"                      \
    ".from_pretrained(folder).save_pretrained(new_folder)"
#define PICKLE "is a pickle file; " BY_TRANSFORMERS
#define OTHER  "has weights of another library; " BY_TRANSFORMERS

/* Files that a folder may have in place of a model's, in the order of their weight in a message.
 * A name matches that has this beginning and this end. */
static const struct {
    const char *begin, *end, *note;
} signs[] = {
    {"adapter_config.json", "",
     "is of an adapter: open its base model, then call ct_lora_load(model, folder)"},
    {"", ".safetensors", "is not found by its name, which must be model.safetensors"},
    {"", CTI_KIND_GGUF, "is a GGUF file"}, /* if it is the first, it is opened */
    {"pytorch_model", ".bin", PICKLE},
    {"", ".pth", PICKLE},
    {"", ".pt", PICKLE},
    {"", ".ckpt", PICKLE},
    {"", ".pkl", PICKLE},
    {"", ".bin", PICKLE},
    {"", ".h5", OTHER},
    {"", ".msgpack", OTHER},
};
enum { SIGNS = sizeof signs / sizeof *signs, SHOWN_NAME = 128 };

/* The index in `signs` of the first row that a name matches, or -1. Files of a Trainer's state are
 * not weights. */
static int sign_of(const char *name) {
    static const char *const state[] = {"training_args.", "optimizer.", "scheduler.", "rng_state"};
    for (size_t i = 0; i < sizeof state / sizeof *state; i++)
        if (cti_kind_is_name(name, state[i], "")) return -1;
    for (int i = 0; i < SIGNS; i++)
        if (cti_kind_is_name(name, signs[i].begin, signs[i].end)) return i;
    return -1;
}

bool cti_lm_gguf_is(ct_context *context, const char *op, const char *path, bool *is) {
    cti_os_about about;
    char name[SHOWN_NAME];
    *is = false;
    if (!cti_file_find(context, op, path, &about)) return false;
    if (about.kind == CTI_OS_FILE) return cti_gguf_is(context, op, path, is);
    const int sign =
        about.kind == CTI_OS_FOLDER ? cti_kind_find(path, sign_of, name, sizeof name) : -1;
    *is = sign >= 0 && !strcmp(signs[sign].end, CTI_KIND_GGUF);
    return true;
}

/* Writes a note about the file of a folder that matches the earliest row of `signs`, "; its x.gguf
 * is ...", or "". If two files match this row, the note has the smaller name. */
static void note_of(const char *folder, char *note, size_t size) {
    char name[SHOWN_NAME];
    const int sign = cti_kind_find(folder, sign_of, name, sizeof name);
    if (sign < 0) *note = 0;
    else snprintf(note, size, "; its %s %s", name, signs[sign].note);
}

/* Refuses a path to a file. */
static bool file_refuse(ct_context *context, const char *op, const char *path) {
    cti_file file;
    unsigned char begin[CTI_KIND_BYTES];
    if (!cti_file_open(context, op, path, &file)) return false;
    const size_t n = file.size < CTI_KIND_BYTES ? (size_t)file.size : CTI_KIND_BYTES;
    if (cti_file_read(&file, 0, begin, n)) {
        const cti_kind *kind = cti_kind_of(begin, n, file.size, false);
        ct_fail(context, CT_ERR_IO,
                "%s: %s: is a file%s%s, and neither GGUF nor a folder with config.json and "
                "safetensors files",
                op, path, kind ? ", " : "", kind ? kind->name : "");
    }
    cti_file_close(&file);
    return false;
}

/* Whether a folder has a file. If this cannot be found out, *ok is set to false. */
static bool has(ct_context *context, const char *op, const char *folder, const char *name,
                bool *ok) {
    cti_os_about about;
    char *path = cti_path_in(context, folder, name);
    *ok = *ok && path && cti_file_find(context, op, path, &about);
    cti_path_free(context, path);
    return *ok && about.kind != CTI_OS_ABSENT;
}

bool cti_lm_check_folder(ct_context *context, const char *op, const char *folder) {
    cti_os_about about;
    char note[SHOWN_NAME + 256];
    if (!cti_os_about_path(folder, &about))
        return cti_file_fail(context, op, folder, "cannot open the folder");
    if (about.kind == CTI_OS_FILE) return file_refuse(context, op, folder);
    bool ok = true;
    const bool config = has(context, op, folder, "config.json", &ok),
               weights = has(context, op, folder, "model.safetensors", &ok) ||
                         has(context, op, folder, "model.safetensors.index.json", &ok);
    if (!ok || (config && weights)) return ok;
    note_of(folder, note, sizeof note);
    return ct_fail(context, CT_ERR_IO, "%s: %s: has %s%s", op, folder,
                   config ? "neither model.safetensors nor model.safetensors.index.json"
                          : "no config.json",
                   note);
}
