/* The functions of examples/web/tokenizer.html: a tokenizer.json from the page's memory, and the
 * ids and ranges of a text. */
#include <cotangent/cotangent.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT(type, name, ...)                                                                    \
    __attribute__((export_name(#name))) type name(__VA_ARGS__);                                    \
    type name(__VA_ARGS__)

static struct {
    ct_context *context;
    ct_tokenizer *tokenizer;
    double *ids, *ranges; /* [n], [2 n]: JavaScript's numbers, which hold integers to 2^53 */
    char error[512], token[1024];
} web;

/* Memory for n bytes, into which the page writes; the function that is given them frees them. */
EXPORT(char *, web_take, int n) { return malloc(n > 0 ? (size_t)n : 1); }

/* Opens a tokenizer.json of n bytes in place of the last one; returns the number of its ids, or 0
 * after an error, and then the last one stays. */
EXPORT(int, web_open, char *json, int n) {
    if (!web.context) web.context = ct_context_new((ct_context_opts){.threads = 1});
    ct_tokenizer *tokenizer = ct_tokenizer_parse(web.context, json, (size_t)n);
    free(json);
    snprintf(web.error, sizeof web.error, "%s", ct_error_message(web.context));
    ct_error_clear(web.context);
    if (!tokenizer) return 0;
    ct_tokenizer_close(web.tokenizer);
    web.tokenizer = tokenizer;
    return (int)ct_tokenizer_size(tokenizer);
}
EXPORT(const char *, web_error, void) { return web.error; }

/* Encodes a text of n bytes; returns the number of ids, or -1. */
EXPORT(int, web_encode, char *text, int n) {
    const size_t bytes = (size_t)n;
    const int64_t count = ct_encode(web.tokenizer, text, bytes, (ct_encode_opts){0}, NULL, NULL, 0);
    int64_t *ids = count < 0 ? NULL : malloc(3 * (size_t)(count + 1) * sizeof *ids);
    double *numbers = ids ? realloc(web.ids, 3 * (size_t)(count + 1) * sizeof *numbers) : NULL;
    if (numbers) {
        int64_t *ranges = ids + count;
        ct_encode(web.tokenizer, text, bytes, (ct_encode_opts){0}, ids, ranges, count);
        web.ids = numbers;
        web.ranges = numbers + count;
        for (int64_t i = 0; i < 3 * count; i++) numbers[i] = (double)ids[i];
    }
    free(ids);
    free(text);
    return numbers ? (int)count : -1;
}
EXPORT(const double *, web_ids, void) { return web.ids; }
EXPORT(const double *, web_ranges, void) { return web.ranges; }

/* The text of one id. */
EXPORT(const char *, web_token, int id) {
    const int64_t one = id;
    ct_decode(web.tokenizer, &one, 1, true, web.token, sizeof web.token);
    return web.token;
}
