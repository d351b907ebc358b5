"""Reads a public header as what it shows a reader: headings, prose, and declarations with their comments, in the header's order.
The site (site/pages.py), the manual pages (make_man) and ops.md (make_ops) are made from it, in the root of the tree."""
import glob
import re
from collections import namedtuple

# The public headers, in the order in which cotangent.h includes them, then those of other libraries.
HEADERS = [f"include/{name}" for name in re.findall(r"#include <(cotangent/\w+\.h)>", open("include/cotangent/cotangent.h", encoding="utf-8").read())]
HEADERS += sorted({*glob.glob("include/cotangent/*.h"), *glob.glob("ext/*/*/include/cotangent/*.h")} - {*HEADERS, "include/cotangent/cotangent.h"})

GUARD = re.compile(r'#ifndef CT_\w+_H\n#define CT_\w+_H\n|#ifdef __cplusplus\nextern "C" \{\n#endif\n|#ifdef __cplusplus\n\}\n#endif\n|#endif\n\Z')
CPLUSPLUS = re.compile(r"^#ifdef __cplusplus\n(?:(?!^#endif).)*?^#else\n(.*?)^#endif\n", re.S | re.M)   # what C reads is \\1
COMMENT = re.compile(r"/\*.*?\*/", re.S)
HEADING = re.compile(r"-{4} (.*?) -{4}\Z")

# kind: "heading" or "prose" (text), "function", or "code" (types, macros). `names` are what a declaration declares, with `text` its C.
Item = namedtuple("Item", "kind text names comments")


def comment_text(comment):
    """A comment without its marks: paragraphs, and indented lines as they stand."""
    return "\n".join(re.sub(r"^ ?\* ?", "", line) for line in comment[2:-2].strip().split("\n"))


def declaration_end(text, at):
    """Where the declaration that begins at `at` ends: behind its semicolon, a body's brace, or a macro's last line."""
    if text.startswith("#", at):
        return re.compile(r"(?:[^\n]*\\\n)*[^\n]*").match(text, at).end()
    depth = 0
    while at < len(text):
        comment = COMMENT.match(text, at)
        if comment:
            at = comment.end()
            continue
        depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(text[at], 0)
        at += 1
        if depth == 0 and (text[at - 1] == ";" or text[at - 1] == "}" and not re.match(r"\s*[\w*]*\s*;", text[at:])):
            return at
    return at


def declared_names(declaration):
    """What one declaration declares: a function, a type, a macro, the enumerators."""
    code = COMMENT.sub(" ", declaration)
    found = re.findall(r"^(?:CT_API|static inline)\b[^;{]*?\b(ct_\w+)\(", code) + re.findall(r"^#define (\w+)", code)
    found += re.findall(r"^typedef\b[^;{]*\(\*(ct_\w+)\)", code) + re.findall(r"^typedef (?:struct|enum) ct_\w+ (ct_\w+);", code)
    found += re.findall(r"\}[ *]*(ct_\w+);\Z", code) + re.findall(r"^struct (ct_\w+) \{", code)
    found += re.findall(r"^typedef [\w ]+ \*?(ct_\w+);", code)
    for body in re.findall(r"\benum(?: \w+)? \{(.*?)\}", code, re.S):
        found += re.findall(r"\b(CT_\w+)\b(?=\s*(?:,|=|\Z))", body)
    return list(dict.fromkeys(found))


def items_of(path):
    """A header's items. A comment belongs to the declaration that follows it without an empty line, or that it follows on one line."""
    text, at, pending = CPLUSPLUS.sub(r"\1", GUARD.sub("", open(path, encoding="utf-8").read())), 0, []

    def prose():
        for comment in pending:
            heading = HEADING.match(comment)
            yield Item("heading", heading.group(1), [], []) if heading else Item("prose", comment, [], [])
        pending.clear()

    while at < len(text):
        space = re.compile(r"\s*").match(text, at)
        if "\n\n" in space.group():
            yield from prose()
        at = space.end()
        comment = COMMENT.match(text, at)
        if comment:
            if pending and HEADING.match(pending[-1]):
                yield from prose()
            pending.append(comment_text(comment.group()))
            at = comment.end()
        elif at < len(text):
            end = declaration_end(text, at)
            declaration, at = text[at:end], end
            behind = re.compile(r"[ \t]*(/\*.*?\*/)", re.S).match(text, at)
            if behind:
                pending.append(comment_text(behind.group(1)))
                at = behind.end()
            if declaration.startswith(("#include", "#if", "#elif", "#else", "#endif", "#define CT_API")):
                yield from prose()
                continue
            if pending and HEADING.match(pending[0]):
                heading = pending.pop(0)
                yield Item("heading", HEADING.match(heading).group(1), [], [])
            names = declared_names(declaration)
            is_function = declaration.startswith(("CT_API", "static inline")) and "(" in declaration
            yield Item("function" if is_function else "code", declaration, names, list(pending))
            pending.clear()
    yield from prose()
