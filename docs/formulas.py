"""The formula of each op: from the comment that heads its file in ops/, or that stands before its row in src/kernels/unary.h."""
import glob
import re

NAMES = re.compile(r"([a-z0-9_]+(?:, [a-z0-9_]+)*)(?: along [^:]*)?: *")


def of_head(path):
    """The formulas in the first paragraph of a file's head comment, each op's on one line. Where it has several ops each has a line of
    its own that begins with its name, and a last one, "Each: ", belongs to all."""
    text = open(path, encoding="utf-8").read()
    found, each = [], []
    head = re.match(r"/\* (.*?)(?: *\*/|\n \*\n)", text, re.S)
    if not head or not NAMES.match(head.group(1)):
        return {}
    for line in head.group(1).replace("`", "").split("\n"):
        line = re.sub(r"^ \* ?", "", line)
        names = NAMES.match(line)
        if names:
            found.append((names.group(1).split(", "), [line[names.end():]]))
        elif line.startswith("Each: ") or each:
            each.append(line.removeprefix("Each: "))
        else:
            found[-1][1].append(line)
    return {name: " ".join(lines) + ("; " + " ".join(each) if each else "") for names, lines in found for name in names}


def formulas_of_ops():
    found = {}
    for path in sorted(glob.glob("ops/**/*.c", recursive=True)):
        found.update(of_head(path))
    rows = open("src/kernels/unary.h", encoding="utf-8").read()
    for name, text in re.findall(r"^ +/\* ([a-z0-9_]+): (.*?) *\*/ *\\$", rows, re.M | re.S):
        found[name] = " ".join(re.sub(r" *\\\n *\* ?", "\n", text).split("\n")).strip()
    return found
