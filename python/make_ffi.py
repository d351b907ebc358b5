#!/usr/bin/env python3
"""make_ffi.py FOLDER [HEADER...]: writes FOLDER/_ffi.py, what the public headers declare as cffi reads it without parsing anything, and
FOLDER/_headers.py, what cffi does not keep: names of parameters, comments, and constants. Of the further headers, such as those of
tests, only cffi is told. Run in the root of the tree."""
import os
import pprint
import re
import sys

from cffi import FFI

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(ROOT, "docs"))
from declarations import COMMENT, HEADERS, items_of   # the reading that makes the pages of the headers


def code_of(item):
    """A declaration without comments and without what only a compiler needs."""
    return re.sub(r"CT_API\s|\bCT_FORMAT\([^)]*\)", "", COMMENT.sub("", item.text)).strip()


def cdef_of(items):
    """What cffi is told: types, functions, and macros that are integers."""
    code = (code_of(item) for item in items if item.kind in ("function", "code"))
    return "\n".join(c for c in code if not c.startswith(("static inline", "#")) or re.fullmatch(r"#define \w+ \d+", c)) + "\n"


def parameters_of(declaration):
    """The name of each parameter, and whether the function only reads what it points to."""
    inside = re.search(r"\bct_\w+\((.*)\)\s*;", declaration, re.S).group(1)
    inside = re.sub(r"\(\*(\w+)\)\([^()]*\)", r"\1", inside)   # of a pointer to a function its name
    return [(re.search(r"(\w+)(?:\[\w*\])?$", p.strip()).group(1), "const" in p) for p in inside.split(",") if p.strip() not in ("void", "...")]


def read(headers):
    items = [item for path in headers for item in items_of(path)]
    functions, numbers = {}, {}
    for item in items:
        code = code_of(item)
        number = re.fullmatch(r"#define (CT_\w+) \(?(-?[\d.e+-]+)\)?", code)
        if item.kind == "function" and item.names and not code.startswith("static inline"):
            functions[item.names[0]] = (parameters_of(code), re.sub(r"\s+", " ", code) + "\n\n" + "\n\n".join(item.comments))
        elif number:
            numbers[number.group(1)] = float(number.group(2)) if "." in number.group(2) else int(number.group(2))
    return cdef_of(items), functions, numbers


if __name__ == "__main__":
    folder = sys.argv[1]
    cdef, functions, numbers = read([path for path in HEADERS if path.startswith("include/")])
    ffi = FFI()
    ffi.cdef(cdef + "".join(read([path])[0] for path in sys.argv[2:]))
    ffi.set_source("cotangent._ffi", None)
    ffi.emit_python_code(os.path.join(folder, "_ffi.py"))
    with open(os.path.join(folder, "_headers.py"), "w", encoding="utf-8") as file:
        file.write('"""Made by make_ffi.py from the headers."""\n')
        file.write(f"FUNCTIONS = {pprint.pformat(functions, width=140)}\nNUMBERS = {pprint.pformat(numbers)}\n")
