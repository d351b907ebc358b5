/* The table of filters. */
#include "filters.h"

#define FILTER(filter, function, needed, ...)                                                      \
    {.name = (filter),                                                                             \
     .run = cti_jinja_filter_##function,                                                           \
     .parameter = {"value", __VA_ARGS__},                                                          \
     .required = 1 + (needed)}
#define FILTER_PLAIN(filter, function)                                                             \
    {.name = (filter), .run = cti_jinja_filter_##function, .parameter = {"value"}, .required = 1}
/* Takes the name of a filter or test, and its arguments. */
#define FILTER_APPLIES(filter, function)                                                           \
    {.name = (filter),                                                                             \
     .run = cti_jinja_filter_##function,                                                           \
     .parameter = {"value"},                                                                       \
     .required = 1,                                                                                \
     .rest = true,                                                                                 \
     .keywords = true,                                                                             \
     .positional = true}

const cti_jinja_row cti_jinja_filters[] = {
    FILTER_PLAIN("abs", abs),
    FILTER("attr", attr, 1, "name"),
    FILTER("batch", batch, 1, "linecount", "fill_with"),
    FILTER_PLAIN("capitalize", capitalize),
    FILTER("center", center, 0, "width"),
    FILTER_PLAIN("count", length),
    FILTER("d", default, 0, "default_value", "boolean"),
    FILTER("default", default, 0, "default_value", "boolean"),
    FILTER("dictsort", dictsort, 0, "case_sensitive", "by", "reverse"),
    FILTER_PLAIN("e", escape),
    FILTER_PLAIN("escape", escape),
    FILTER("filesizeformat", filesizeformat, 0, "binary"),
    FILTER_PLAIN("first", first),
    FILTER("float", float, 0, "default"),
    FILTER_PLAIN("forceescape", forceescape),
    FILTER_APPLIES("format", format),
    FILTER("groupby", groupby, 1, "attribute", "default", "case_sensitive"),
    FILTER("indent", indent, 0, "width", "first", "blank"),
    FILTER("int", int, 0, "default", "base"),
    FILTER_PLAIN("items", items),
    FILTER("join", join, 0, "d", "attribute"),
    FILTER_PLAIN("last", last),
    FILTER_PLAIN("length", length),
    FILTER_PLAIN("list", list),
    FILTER_PLAIN("lower", lower),
    FILTER_APPLIES("map", map),
    FILTER("max", min, 0, "case_sensitive", "attribute"),
    FILTER("min", min, 0, "case_sensitive", "attribute"),
    FILTER_PLAIN("pprint", pprint),
    {.name = "random", .refused = "a text must not change from call to call"},
    FILTER_APPLIES("reject", select),
    FILTER_APPLIES("rejectattr", select),
    FILTER("replace", replace, 2, "old", "new", "count"),
    FILTER_PLAIN("reverse", reverse),
    FILTER("round", round, 0, "precision", "method"),
    FILTER_PLAIN("safe", safe),
    FILTER_APPLIES("select", select),
    FILTER_APPLIES("selectattr", select),
    FILTER("slice", slice, 1, "slices", "fill_with"),
    FILTER("sort", sort, 0, "reverse", "case_sensitive", "attribute"),
    FILTER_PLAIN("string", string),
    FILTER_PLAIN("striptags", striptags),
    FILTER("sum", sum, 0, "attribute", "start"),
    FILTER_PLAIN("title", title),
    FILTER("tojson", tojson, 0, "ensure_ascii", "indent", "separators", "sort_keys"),
    FILTER("trim", trim, 0, "chars"),
    FILTER("truncate", truncate, 0, "length", "killwords", "end", "leeway"),
    FILTER("unique", unique, 0, "case_sensitive", "attribute"),
    FILTER_PLAIN("upper", upper),
    FILTER_PLAIN("urlencode", urlencode),
    {.name = "urlize", .refused = "it makes links of HTML"},
    FILTER_PLAIN("wordcount", wordcount),
    FILTER("wordwrap", wordwrap, 0, "width", "break_long_words", "wrapstring", "break_on_hyphens"),
    FILTER("xmlattr", xmlattr, 0, "autospace"),
    {.name = NULL},
};
