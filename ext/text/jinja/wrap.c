/* The filter wordwrap: Python's textwrap.wrap of each line. */
#include <string.h>

#include "../unicode.h"
#include "../utf8.h"
#include "filters.h"
#include "number.h"
#include "text.h"

/* A line's characters, so that they can be looked at from both sides. */
typedef struct {
    cti_jinja_run *run;
    const cti_jinja_string *text;
    uint32_t *c;  /* [n] */
    size_t *byte; /* [n + 1] */
    int64_t n;
    int64_t width;
    int64_t cut_end; /* the end of a chunk that was cut: what is left of it is one chunk */
    bool break_words, at_hyphens;
} wrap_job;

static bool is_wrap_space(uint32_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
static bool is_wordlike(uint32_t c) {
    return c == '_' || cti_python_is_alpha(c) || cti_python_is_numeric(c) || cti_python_is_digit(c);
}
static bool is_letter(uint32_t c) { return is_wordlike(c) && !cti_python_is_decimal(c); }
static bool is_word_or_mark(uint32_t c) {
    return is_wordlike(c) || (c && c < 0x80 && strchr("!\"'&.,?", (int)c));
}

static uint32_t at_index(const wrap_job *job, int64_t i) {
    return i >= 0 && i < job->n ? job->c[i] : 0;
}
static bool letter_at(const wrap_job *job, int64_t i) {
    return i >= 0 && i < job->n && is_letter(job->c[i]);
}

/* The end of two or more hyphens at i that stand as a dash between words; 0. */
static int64_t dash_end(const wrap_job *job, int64_t i) {
    if (i < 1 || !is_word_or_mark(job->c[i - 1])) return 0;
    int64_t end = i;
    while (at_index(job, end) == '-') end++;
    return end - i >= 2 && end < job->n && is_wordlike(job->c[end]) ? end : 0;
}

/* Whether the hyphen at i ends a part of a hyphenated word: letters stand around it. */
static bool hyphen_ends(const wrap_job *job, int64_t i) {
    const bool two = letter_at(job, i - 2) && letter_at(job, i - 1);
    const bool one = letter_at(job, i - 3) && at_index(job, i - 2) == '-' && i >= 1 &&
                     is_word_or_mark(job->c[i - 1]);
    const int64_t second = i + 2 + (at_index(job, i + 2) == '-');
    return (two || one) && letter_at(job, i + 1) && letter_at(job, second);
}

/* The end of the chunk that begins at i: white space, a dash, a word or a part of one. */
static int64_t chunk_end(const wrap_job *job, int64_t i) {
    const bool blank = is_wrap_space(job->c[i]);
    int64_t end = i + 1;
    if (i < job->cut_end) return job->cut_end;
    if (blank || !job->at_hyphens) {
        while (end < job->n && is_wrap_space(job->c[end]) == blank) end++;
        return end;
    }
    if (job->c[i] == '-' && dash_end(job, i)) return dash_end(job, i);
    for (; end < job->n && !is_wrap_space(job->c[end]); end++) {
        if (job->c[end] != '-') continue;
        if (hyphen_ends(job, end)) return end + 1;
        if (dash_end(job, end)) return end;
    }
    return end;
}

/* Whether all characters are white space, of any script. */
static bool is_space(const wrap_job *job, int64_t begin, int64_t end) {
    for (; begin < end; begin++)
        if (!cti_python_is_space(job->c[begin])) return false;
    return true;
}

/* Where a chunk is cut that is longer than a line, `left` characters of which are free. */
static int64_t cut_of_word(const wrap_job *job, int64_t begin, int64_t end, int64_t left) {
    bool other = false; /* there is a character before the hyphen that is none */
    int64_t cut = begin + left;
    if (!job->at_hyphens || end - begin <= left) return cut < end ? cut : end;
    for (int64_t i = begin; i < begin + left; i++) {
        if (job->c[i] == '-' && other) cut = i + 1;
        other = other || job->c[i] != '-';
    }
    return cut;
}

/* The end of the line that begins at *begin with a chunk, and in *next where the next one begins.
 */
static int64_t line_end(wrap_job *job, int64_t begin, int64_t *next) {
    int64_t at = begin, last = begin; /* `last` begins the line's last chunk */
    while (at < job->n) {
        const int64_t end = chunk_end(job, at);
        if (end - begin > job->width) {
            if (end - at <= job->width) break;
            if (job->break_words) {
                last = at;
                at = cut_of_word(job, at, end, job->width - (at - begin));
                job->cut_end = end;
            } else if (at == begin) {
                last = at;
                at = end;
            }
            break;
        }
        last = at;
        at = end;
    }
    *next = at;
    return at > begin && is_space(job, last, at) ? last : at;
}

static bool read_characters(wrap_job *job) {
    const size_t room = (size_t)job->text->length;
    job->c = cti_jinja_take(job->run, room + 1, sizeof *job->c);
    job->byte = cti_jinja_take(job->run, room + 1, sizeof *job->byte);
    if (!job->c || !job->byte) return false;
    size_t length;
    job->n = 0;
    for (size_t i = 0; i < job->text->size; i += length) {
        job->byte[job->n] = i;
        job->c[job->n++] = cti_utf8_get(job->text->at + i, &length);
    }
    job->byte[job->n] = job->text->size;
    return true;
}

/* The lines of one line of the text. */
static cti_jinja_list *wrap_line(wrap_job *job) {
    cti_jinja_list *lines = cti_jinja_list_new(job->run, 0);
    job->cut_end = 0;
    if (!lines || !read_characters(job)) return NULL;
    for (int64_t begin = 0, next; begin < job->n && cti_jinja_step(job->run); begin = next) {
        const int64_t end_of_chunk = chunk_end(job, begin);
        if (lines->count && is_space(job, begin, end_of_chunk)) begin = end_of_chunk;
        if (begin == job->n) break;
        const int64_t end = line_end(job, begin, &next);
        if (end > begin)
            cti_jinja_append(
                job->run, lines,
                cti_jinja_substring(job->run, job->text, job->byte[begin], job->byte[end]));
    }
    return lines;
}

CTI_JINJA_FILTER(wordwrap) {
    enum { TEXT, WIDTH, BREAK_LONG_WORDS, WRAPSTRING, BREAK_ON_HYPHENS };
    const cti_jinja_value text = call->arg[TEXT], string = call->arg[WRAPSTRING];
    if (text.kind == CTI_JINJA_UNDEFINED) return cti_jinja_undefined_fail(run, text);
    if (text.kind != CTI_JINJA_STRING)
        return cti_jinja_fail(run, "'%s' object has no attribute 'splitlines'",
                              cti_jinja_type_name(text));
    if (!cti_jinja_is_none(string) && string.kind != CTI_JINJA_STRING)
        return cti_jinja_fail(run, "wordwrap wants a string between lines, not '%s'",
                              cti_jinja_type_name(string));
    const cti_jinja_value end =
        cti_jinja_is_none(string) ? cti_jinja_string_view(run, "\n", 1, 0) : string;
    wrap_job job = {.run = run, .width = 79};
    const cti_jinja_value words = call->arg[BREAK_LONG_WORDS],
                          hyphens = call->arg[BREAK_ON_HYPHENS];
    job.break_words = cti_jinja_is_absent(words) || cti_jinja_truth(run, words);
    job.at_hyphens = cti_jinja_is_absent(hyphens) || cti_jinja_truth(run, hyphens);
    if (!cti_jinja_is_absent(call->arg[WIDTH]) &&
        !cti_jinja_int_of(run, call->arg[WIDTH], &job.width))
        return text;
    const cti_jinja_value plain = cti_jinja_string_markup(run, text.string, false);
    const cti_jinja_list *lines =
        run->failed ? NULL : cti_jinja_splitlines(run, plain.string, false);
    if (lines && lines->count && job.width <= 0)
        return cti_jinja_fail(run, "invalid width %d (must be > 0)", (int)job.width);
    cti_jinja_list *wrapped = cti_jinja_list_new(run, 0);
    for (int64_t i = 0; lines && i < lines->count && cti_jinja_step(run); i++) {
        job.text = lines->item[i].string;
        const cti_jinja_value parts =
            cti_jinja_list_value(CTI_JINJA_LIST, wrap_line(&job), text.mark);
        if (!run->failed) cti_jinja_append(run, wrapped, cti_jinja_join(run, end.string, parts));
    }
    if (run->failed) return text;
    return cti_jinja_join(run, end.string,
                          cti_jinja_list_value(CTI_JINJA_LIST, wrapped, text.mark));
}
