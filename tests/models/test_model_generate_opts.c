/* The options of generation that a folder's generation_config.json and config.json have, and the
 * ids that end a row: what is read, what is refused, what is saved. */
#include "small_lm.h"

START_TEST(options_of_folders) {
    ck_assert(
        ct_lm_save(rough_lm("{\"model_type\": \"llama\", \"eos_token_id\": 7, " SIZES "}", f64),
                   in_folder("g"), (ct_save_opts){0}));
    ct_module *lm = ct_lm_open(context, in_folder("g"), f64);
    ct_generate_opts opts = ct_lm_generate_opts(lm);
    ck_assert(opts.n_eos == 1 && opts.eos[0] == 7 && opts.max_new == 0); /* config.json's */
    write_text(in_folder("g/generation_config.json"),
               "{\"do_sample\": true, \"top_p\": 0.5, \"min_p\": 0.1, \"eos_token_id\": [4, 5], "
               "\"max_new_tokens\": 9, \"repetition_penalty\": 1.25}");
    lm = ct_lm_open(context, in_folder("g"), f64);
    ct_module *copy = ct_module_clone(lm);
    for (int i = 0; i < 2; i++) {
        opts = ct_lm_generate_opts(i ? copy : lm);
        ck_assert(opts.n_eos == 2 && opts.eos[0] == 4 && opts.eos[1] == 5);
        ck_assert(opts.max_new == 9 && opts.repetition_penalty == 1.25);
        ck_assert(opts.sample.temperature == 1 && opts.sample.top_k == 50);
        ck_assert(opts.sample.top_p == 0.5 && opts.sample.min_p == 0.1);
    }
    write_text(in_folder("g/generation_config.json"),
               "{\"temperature\": 0.3, \"top_k\": 3, \"do_sample\": false, \"top_p\": null}");
    opts = ct_lm_generate_opts(ct_lm_open(context, in_folder("g"), f64));
    ck_assert(opts.sample.temperature == 0 && opts.sample.top_k == 0 && opts.n_eos == 1);
    write_text(in_folder("g/generation_config.json"), "{\"top_k\": -1}");
    ck_refused(ct_lm_open(context, in_folder("g"), f64), CT_ERR_FORMAT, "generation_config.json",
               "\"top_k\" is -1");
    write_text(in_folder("g/generation_config.json"), "[]");
    ck_refused(ct_lm_open(context, in_folder("g"), f64), CT_ERR_FORMAT, "generation_config.json",
               "not a JSON object");
}
END_TEST

/* Ids that are set end rows, and are in both files of a saved folder; a copy of the model has them.
 */
START_TEST(ends_that_are_set) {
    const int64_t ids[17] = {6, 4};
    ck_assert(
        ct_lm_save(rough_lm("{\"model_type\": \"llama\", \"eos_token_id\": 7, " SIZES "}", f64),
                   in_folder("g"), (ct_save_opts){0}));
    for (int file = 0; file < 2; file++) {
        if (file)
            write_text(in_folder("g/generation_config.json"),
                       "{\"max_new_tokens\": 9, \"eos_token_id\": [3, 7, 1]}");
        ct_module *lm = ct_lm_open(context, in_folder("g"), f64);
        ck_assert(ct_lm_set_eos(lm, ids, 2));
        ct_module *copy = ct_module_clone(lm);
        ck_assert(ct_lm_save(copy, in_folder("h"), (ct_save_opts){0}));
        ct_module *const all[] = {lm, copy, ct_lm_open(context, in_folder("h"), f64)};
        for (int i = 0; i < 3; i++) {
            const ct_generate_opts opts = ct_lm_generate_opts(all[i]);
            const ct_lm_info about = ct_lm_about(all[i]);
            ck_assert(opts.n_eos == 2 && opts.eos[0] == 6 && opts.eos[1] == 4);
            ck_assert(about.n_eos == 2 && about.eos[0] == 6 && about.eos[1] == 4);
            ck_assert_int_eq(opts.max_new, file ? 9 : 0);
        }
        ck_assert(ct_lm_set_eos(lm, ids, 1) && ct_lm_save(lm, in_folder("g"), (ct_save_opts){0}));
        lm = ct_lm_open(context, in_folder("g"), f64); /* in place */
        ck_assert(ct_lm_generate_opts(lm).n_eos == 1 && ct_lm_about(lm).n_eos == 1);
        ck_refused(ct_lm_set_eos(lm, ids, 17), CT_ERR_ARGUMENT, "lm_set_eos", "17 ids");
        ck_refused(ct_lm_set_eos(lm, ids, 0), CT_ERR_ARGUMENT, "lm_set_eos", "0 ids");
        ck_refused(ct_lm_set_eos(lm, (int64_t[]){1000000}, 1), CT_ERR_ARGUMENT, "1000000", "");
        ck_assert(ct_lm_about(lm).eos[0] == 6);
    }
}
END_TEST

/* Without a generation_config.json keys of config.json hold, as in transformers; with it none. */
START_TEST(options_of_config) {
    ct_module *made = new_lm("{\"model_type\": \"llama\", \"do_sample\": true, \"top_k\": 3, "
                             "\"repetition_penalty\": 1.5, \"num_beams\": 1, " SIZES "}",
                             f64);
    ck_assert(ct_lm_save(made, in_folder("g"), (ct_save_opts){0}));
    for (int i = 0; i < 3; i++) {
        if (i == 2) write_text(in_folder("g/generation_config.json"), "{\"eos_token_id\": 5}");
        ct_module *lm = i ? ct_lm_open(context, in_folder("g"), f64) : made;
        const ct_generate_opts opts = ct_lm_generate_opts(lm);
        ck_assert(opts.repetition_penalty == (i < 2 ? 1.5 : 0) && opts.n_eos == 1);
        ck_assert_int_eq(opts.eos[0], i < 2 ? 2 : 5);
        ck_assert(opts.sample.temperature == (i < 2) && opts.sample.top_k == (i < 2 ? 3 : 0));
    }
    ct_module *beams = new_lm(
        "{\"model_type\": \"llama\", \"eos_token_id\": 7, \"num_beams\": 4, " SIZES "}", f64);
    ct_lm_generate_opts(beams);
    ck_assert_int_eq(ct_error(context), CT_ERR_FORMAT);
    ck_assert(strstr(ct_error_message(context), "lm_new: config.json: \"num_beams\" is 4"));
    ct_error_clear(context);
    ck_refused(ct_lm_new(context, "{\"model_type\": \"llama\", \"top_k\": -1, " SIZES "}", f64),
               CT_ERR_FORMAT, "lm_new: config.json", "\"top_k\" is -1");
}
END_TEST

/* Keys that would change the ids and are not supported are errors of the options, and not of the
 * model; values of no effect and unknown keys are none. */
START_TEST(options_that_are_not_supported) {
    static const struct {
        const char *text, *message; /* NULL: none */
    } cases[] = {
        {"{\"num_beams\": 4}", "\"num_beams\" is 4, which is not supported"},
        {"{\"no_repeat_ngram_size\": 2}", "\"no_repeat_ngram_size\" is 2"},
        {"{\"min_new_tokens\": 8}", "\"min_new_tokens\" is 8"},
        {"{\"min_length\": 8}", "\"min_length\" is 8"},
        {"{\"suppress_tokens\": [3]}", "\"suppress_tokens\" is [...]"},
        {"{\"bad_words_ids\": [[3]]}", "\"bad_words_ids\" is [...]"},
        {"{\"forced_bos_token_id\": 0}", "\"forced_bos_token_id\" is 0"},
        {"{\"stop_strings\": \"a\"}", "\"stop_strings\" is \"a\""},
        {"{\"token_healing\": true}", "\"token_healing\" is true"},
        {"{\"watermarking_config\": {\"a\": 1}}", "\"watermarking_config\" is {...}"},
        {"{\"do_sample\": true, \"typical_p\": 0.5}", "\"typical_p\" is 0.5"},
        {"{\"do_sample\": true, \"top_h\": 0.5}", "\"top_h\" is 0.5"},
        {"{\"typical_p\": 0.5, \"top_h\": 0.5, \"epsilon_cutoff\": 0.1}", NULL},
        {"{\"num_beams\": 1, \"no_repeat_ngram_size\": 0, \"typical_p\": 1.0, \"do_sample\": true, "
         "\"bad_words_ids\": null, \"suppress_tokens\": [], \"token_healing\": false, "
         "\"encoder_repetition_penalty\": 1.0, \"length_penalty\": 2.0, \"whatever\": 3}",
         NULL},
    };
    ck_assert(ct_lm_save(rough_lm(LLAMA, f64), in_folder("g"), (ct_save_opts){0}));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text(in_folder("g/generation_config.json"), cases[i].text);
        ct_module *lm = ct_lm_open(context, in_folder("g"), f64), *copy = ct_module_clone(lm);
        ck_assert_msg(copy != NULL, "%s", ct_error_message(context));
        ct_lm_generate_opts(copy);
        ck_assert_int_eq(ct_error(context), cases[i].message ? CT_ERR_FORMAT : CT_OK);
        if (!cases[i].message) continue;
        const char *said = ct_error_message(context);
        ck_assert_msg(strstr(said, cases[i].message) && strstr(said, "generation_config.json"),
                      "%s", said);
        ct_error_clear(context);
        const ct_lm_opts all = {.dtype = CT_F64, .ignore_unknown = true};
        ct_lm_generate_opts(ct_lm_open(context, in_folder("g"), all));
        ck_assert(!ct_error(context));
    }
    write_text(in_folder("g/generation_config.json"), "{\"do_sample\": true, \"top_p\": 0}");
    const double top_p = ct_lm_generate_opts(ct_lm_open(context, in_folder("g"), f64)).sample.top_p;
    ck_assert(top_p > 0 && top_p < 1e-300); /* only the most probable id; 0 is no limit */
    write_text(in_folder("g/generation_config.json"), "{\"top_k\": 1.5}");
    ck_refused(ct_lm_open(context, in_folder("g"), f64), CT_ERR_FORMAT, "\"top_k\" is 1.5",
               "not an integer");
    write_text(in_folder("g/generation_config.json"), "{\"repetition_penalty\": 0}");
    ck_refused(ct_lm_open(context, in_folder("g"), f64), CT_ERR_FORMAT,
               "\"repetition_penalty\" is 0", "not above 0");
}
END_TEST

int main(void) {
    return run_tests("model generate opts", setup, end_with_folders,
                     TESTS(TEST(options_of_folders), TEST(ends_that_are_set),
                           TEST(options_of_config), TEST(options_that_are_not_supported)));
}
