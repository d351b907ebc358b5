"""Which functions of ops/ are backward code: what the `.backward` of a ct_op reaches and nothing else does."""
import re
from pathlib import Path

TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def blank(text, strings=False):
    """The text with comments, and strings if asked, as spaces: every other character stays at its place."""
    def one(match):
        token = match.group()
        return re.sub(r"[^\n]", " ", token) if token[0] == "/" or strings else token
    return TOKEN.sub(one, text)


class Function:
    def __init__(self, file, name, first, last, body, static):
        self.file, self.name, self.first, self.last, self.body, self.static = file, name, first, last, body, static


def functions_of(file):
    """The functions that a file defines, with their lines counted from 1: a name, its parameters and a block at the outermost level."""
    text = blank(Path(file).read_text(), strings=True)
    text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.M)
    found, depth, start, opened = [], 0, 0, 0
    for i, c in enumerate(text):
        if c == "{":
            if depth == 0:
                opened = i
            depth += 1
        elif c == "}":
            depth -= 1
            if depth == 0:
                head = text[start:opened].strip()
                name = re.match(r"[^=;]*?(\w+)\s*\(", head)
                if head.endswith(")") and name:
                    begin = start + len(text[start:opened]) - len(text[start:opened].lstrip())
                    line = lambda at: text.count("\n", 0, at) + 1
                    found.append(Function(file, name.group(1), line(begin), line(i), text[opened:i], "static" in head.split()))
                    start = i + 1
        elif c == ";" and depth == 0:
            start = i + 1
    return found


def backward_functions(folder):
    """Those that the functions named by `.backward =` reach by name, without passing through a function of a public header, less those
    that a `.forward =` or a public function reaches too."""
    files = sorted(map(str, Path(folder).rglob("*.c"))) + sorted(map(str, Path(folder).rglob("*.h")))
    known = [f for file in files for f in functions_of(file)]
    text = {file: blank(Path(file).read_text(), strings=True) for file in files}

    def named(file, word):
        """The functions that a word may mean in a file: one of its own, or one that the whole folder sees."""
        return ([f for f in known if f.file == file and f.name == word] or
                [f for f in known if f.name == word and (not f.static or f.file.endswith(".h"))])

    def reached(roots):
        seen, new = set(), list(roots)
        while new:
            f = new.pop()
            if f in seen:
                continue
            seen.add(f)
            for word in set(re.findall(r"\w+", f.body)):
                new += [g for g in named(f.file, word) if not g.name.startswith("ct_")]
        return seen

    def roots(field):
        return [f for file in files for word in re.findall(rf"\.{field}\s*=\s*(\w+)", text[file]) for f in named(file, word)]

    public = [f for f in known if f.name.startswith("ct_") and not f.static]
    others = reached(roots("forward") + public)
    return sorted((f for f in reached(roots("backward")) - others if f.file.endswith(".c")), key=lambda f: (f.file, f.first))
