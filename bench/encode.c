/* The speed of ct_encode on one core.
 *
 *     build/bench/encode tokenizer.json TEXT
 *
 * Each line of stdin asks for a round. The program prints its seconds of processor time and the
 * number of tokens as JSON. A round encodes the text by one call of ct_encode, without offsets. */
#include <cotangent/cotangent.h>
#include <cotangent/tokenizer.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* The whole file with this path; NULL if it cannot be read. */
static char *file_text(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    long end = fseek(file, 0, SEEK_END) ? -1 : ftell(file);
    char *text = end < 0 ? NULL : malloc((size_t)end + 1);
    rewind(file);
    if (text && fread(text, 1, (size_t)end, file) != (size_t)end) {
        free(text);
        text = NULL;
    }
    fclose(file);
    *size = (size_t)end;
    return text;
}

int main(int argc, char **argv) {
    size_t size = 0;
    char *text = argc == 3 ? file_text(argv[2], &size) : NULL;
    int64_t *ids = text ? malloc((size + 1) * sizeof *ids) : NULL;
    if (!ids) {
        fprintf(stderr, "encode: usage: encode tokenizer.json TEXT\n");
        return EXIT_FAILURE;
    }
    ct_context *context = ct_context_new((ct_context_opts){0});
    ct_tokenizer *tokenizer = ct_tokenizer_open(context, argv[1]);
    char line[64];
    while (tokenizer && fgets(line, sizeof line, stdin)) {
        const clock_t start = clock();
        const int64_t tokens =
            ct_encode(tokenizer, text, size, (ct_encode_opts){0}, ids, NULL, (int64_t)size + 1);
        printf("{\"seconds\": %.6f, \"tokens\": %lld}\n",
               (double)(clock() - start) / CLOCKS_PER_SEC, (long long)tokens);
        fflush(stdout);
    }
    if (!tokenizer) fprintf(stderr, "encode: %s\n", ct_error_message(context));
    ct_context_free(context);
    free(ids);
    free(text);
    return tokenizer ? EXIT_SUCCESS : EXIT_FAILURE;
}
