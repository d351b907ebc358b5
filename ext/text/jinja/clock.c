/* strftime, with the flags of glibc's: %-d without padding, %_d with spaces, %0e with zeros, %^a in
 * capitals, %#p in small letters, and a width. */
#include "clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../../../src/os/os.h"

static const char *const months[] = {"January",   "February", "March",    "April",
                                     "May",       "June",     "July",     "August",
                                     "September", "October",  "November", "December"};
static const char *const week_days[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                        "Thursday", "Friday", "Saturday"};

typedef struct {
    char flag, letters; /* - _ 0, and ^ #; 0 for none */
    int width;
} clock_flags;

typedef struct {
    cti_jinja_builder *out;
    const cti_os_date *date;
    int64_t time;
    int32_t mark;
} clock_writer;

static void put_number(const clock_writer *to, int64_t number, int width, char padding,
                       clock_flags flags) {
    char text[80];
    if (flags.flag == '_') padding = ' ';
    if (flags.flag == '0') padding = '0';
    if (flags.width) width = flags.width;
    if (flags.flag == '-') width = 0;
    const int size = padding == ' ' ? snprintf(text, sizeof text, "%*" PRId64, width, number)
                                    : snprintf(text, sizeof text, "%0*" PRId64, width, number);
    cti_jinja_add(to->out, text, (size_t)size, to->mark);
}

static void put_word(const clock_writer *to, const char *word, size_t size, clock_flags flags) {
    char text[80];
    memcpy(text, word, size);
    for (size_t i = 0; i < size; i++) {
        const bool small = text[i] >= 'a' && text[i] <= 'z',
                   large = text[i] >= 'A' && text[i] <= 'Z';
        if (small && flags.letters) text[i] -= 32;
        else if (large && flags.letters == '#' && size == 2) text[i] += 32; /* PM to pm */
    }
    for (int i = (int)size; i < flags.width; i++)
        cti_jinja_add(to->out, flags.flag == '0' ? "0" : " ", 1, to->mark);
    cti_jinja_add(to->out, text, size, to->mark);
}

/* The week of the year whose weeks begin on a Sunday (0) or Monday (1); 0 before the first. */
static int week_of(const cti_os_date *date, int first_day) {
    return (date->year_day + 7 - (date->week_day + 7 - first_day) % 7) / 7;
}

static bool is_leap(int64_t year) { return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0); }

/* The week by ISO 8601, and the year that it belongs to. */
static int iso_week(const cti_os_date *date, int64_t *year) {
    const int day = (date->week_day + 6) % 7; /* Monday is 0 */
    int week = (date->year_day - day + 10) / 7;
    *year = date->year;
    const int january_1 = ((day - date->year_day) % 7 + 7) % 7;
    if (week < 1) {
        --*year;
        const int before = (january_1 + 7 - (is_leap(*year) ? 366 : 365) % 7) % 7;
        return before == 3 || (before == 2 && is_leap(*year)) ? 53 : 52;
    }
    const bool long_year = january_1 == 3 || (january_1 == 2 && is_leap(*year));
    if (week == 53 && !long_year) {
        ++*year;
        week = 1;
    }
    return week;
}

static void put_format(const clock_writer *to, const char *format);

/* A directive that stands for several others. */
static const char *compound_of(char directive) {
    switch (directive) {
    case 'c': return "%a %b %e %H:%M:%S %Y";
    case 'D':
    case 'x': return "%m/%d/%y";
    case 'F': return "%Y-%m-%d";
    case 'R': return "%H:%M";
    case 'r': return "%I:%M:%S %p";
    case 'T':
    case 'X': return "%H:%M:%S";
    default: return NULL;
    }
}

static bool put_names(const clock_writer *to, char directive, clock_flags flags) {
    const cti_os_date *date = to->date;
    const char *month = months[date->month - 1], *day = week_days[date->week_day];
    switch (directive) {
    case 'a': put_word(to, day, 3, flags); return true;
    case 'A': put_word(to, day, strlen(day), flags); return true;
    case 'b':
    case 'h': put_word(to, month, 3, flags); return true;
    case 'B': put_word(to, month, strlen(month), flags); return true;
    case 'p': put_word(to, date->hour < 12 ? "AM" : "PM", 2, flags); return true;
    case 'P': put_word(to, date->hour < 12 ? "am" : "pm", 2, flags); return true;
    case 'n': cti_jinja_add(to->out, "\n", 1, to->mark); return true;
    case 't': cti_jinja_add(to->out, "\t", 1, to->mark); return true;
    case '%': cti_jinja_add(to->out, "%", 1, to->mark); return true;
    case 'z': /* a time without a zone has none */
    case 'Z': return true;
    default: return false;
    }
}

static bool put_numbers(const clock_writer *to, char directive, clock_flags flags) {
    const cti_os_date *date = to->date;
    const int hour = date->hour % 12 ? date->hour % 12 : 12;
    int64_t year;
    const int week = iso_week(date, &year);
    switch (directive) {
    case 'C': put_number(to, date->year / 100, 2, '0', flags); return true;
    case 'd': put_number(to, date->day, 2, '0', flags); return true;
    case 'e': put_number(to, date->day, 2, ' ', flags); return true;
    case 'f': cti_jinja_add(to->out, "000000", 6, to->mark); return true;
    case 'g': put_number(to, year % 100, 2, '0', flags); return true;
    case 'G': put_number(to, year, 0, '0', flags); return true;
    case 'H': put_number(to, date->hour, 2, '0', flags); return true;
    case 'I': put_number(to, hour, 2, '0', flags); return true;
    case 'j': put_number(to, date->year_day + 1, 3, '0', flags); return true;
    case 'k': put_number(to, date->hour, 2, ' ', flags); return true;
    case 'l': put_number(to, hour, 2, ' ', flags); return true;
    case 'm': put_number(to, date->month, 2, '0', flags); return true;
    case 'M': put_number(to, date->minute, 2, '0', flags); return true;
    case 's': put_number(to, to->time, 0, '0', flags); return true;
    case 'S': put_number(to, date->second, 2, '0', flags); return true;
    case 'u': put_number(to, date->week_day ? date->week_day : 7, 0, '0', flags); return true;
    case 'U': put_number(to, week_of(date, 0), 2, '0', flags); return true;
    case 'V': put_number(to, week, 2, '0', flags); return true;
    case 'w': put_number(to, date->week_day, 0, '0', flags); return true;
    case 'W': put_number(to, week_of(date, 1), 2, '0', flags); return true;
    case 'y': put_number(to, date->year % 100, 2, '0', flags); return true;
    case 'Y': put_number(to, date->year, 0, '0', flags); return true;
    default: return false;
    }
}

/* The directive at `at`, behind its %. Returns the number of its bytes; 0 if it is none. */
static size_t put_directive(const clock_writer *to, const char *at, const char *end) {
    const char *begin = at;
    clock_flags flags = {0};
    for (; at < end && *at && strchr("-_0^#", *at); at++) {
        if (*at == '^' || *at == '#') flags.letters = *at;
        else flags.flag = *at;
    }
    for (; at < end && *at >= '0' && *at <= '9' && flags.width < 7; at++)
        flags.width = 10 * flags.width + (*at - '0');
    if (at == end) return 0;
    const char *compound = compound_of(*at);
    if (compound) put_format(to, compound);
    else if (!put_names(to, *at, flags) && !put_numbers(to, *at, flags)) return 0;
    return (size_t)(at + 1 - begin);
}

static void put_format(const clock_writer *to, const char *format) {
    const char *end = format + strlen(format);
    while (format < end) {
        if (*format != '%') cti_jinja_add(to->out, format++, 1, to->mark);
        else format += 1 + put_directive(to, format + 1, end);
    }
}

cti_jinja_value cti_jinja_strftime(cti_jinja_run *run, const cti_jinja_string *format) {
    cti_os_date date;
    if (!cti_os_local_date(run->now, &date))
        return cti_jinja_fail(run, "strftime_now: the time %" PRId64 " has no date", run->now);
    cti_jinja_builder out = cti_jinja_build(run);
    clock_writer to = {.out = &out, .date = &date, .time = run->now};
    for (size_t i = 0; i < format->size && !run->failed;) {
        to.mark = cti_jinja_mark_at(format, i);
        size_t used = 0;
        if (format->at[i] == '%')
            used = put_directive(&to, format->at + i + 1, format->at + format->size);
        if (used) i += 1 + used;
        else cti_jinja_add(&out, format->at + i++, 1, to.mark);
    }
    return cti_jinja_built(&out, format->markup);
}
