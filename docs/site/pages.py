#!/usr/bin/env python3
"""Writes what Sphinx reads: pages.py DIRECTORY DEMOS. The Markdown of the tree as it is; a page for each header, in which each function is
an object of the C domain with its comment and, for an op, its formula; the files to which the pages link; and, if the folder DEMOS has
them (`make web`), the demos of examples/web in the pages that link to them. Run in the root of the tree."""
import glob
import os
import re
import shutil
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, "docs")
from declarations import HEADERS, items_of
from formulas import formulas_of_ops

OUT, DEMOS = sys.argv[1:]
# The navigation: a title, and pages of the tree in their order. Pages of docs/ that are not listed here are an error.
NAVIGATION = [
    ("Begin", ["docs/install.md", "docs/faq.md", "docs/troubleshooting.md"]),
    ("Use", ["docs/training.md", "docs/models.md", "docs/text.md", "docs/gguf.md", "docs/programs.md", "docs/memory.md", "docs/server.md", "docs/scaling.md", "docs/platforms.md"]),
    ("Coming from Python", ["docs/python.md", "docs/pytorch.md", "docs/transformers.md"]),
    ("Understand", ["docs/attention.md", "docs/gradcheck.md", "docs/extending.md", "docs/performance.md", "docs/notes/performance.md", "course/README.md"]),
    ("Reference", ["api", "docs/parameters.md"]),
    ("Project", ["docs/design.md", "CONTRIBUTING.md", "CHANGELOG.md"]),
]
PAGES = {"README.md": "index.md", "docs/ops.md": "api/ops.md", "include/cotangent": "api/index.md", **{h: f"api/{os.path.basename(h)[:-2]}.md" for h in HEADERS}}
for _, pages in NAVIGATION:
    PAGES.update({page: re.sub(r"^docs/", "", page).replace("course/README", "course").lower() for page in pages if page != "api"})
for recipe in glob.glob("docs/recipes/*.md"):
    PAGES[recipe] = recipe[5:].replace("README", "index")
missing = [page for page in glob.glob("docs/**/*.md", recursive=True) if page not in PAGES]
if missing:
    sys.exit(f"docs/site/pages.py: not in the navigation: {' '.join(missing)}")

objects = {}    # what a header declares: name -> (role of the C domain or "ref", page)
linked = set()  # files of the tree to which pages link


def write(page, text):
    path = os.path.join(OUT, page)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def with_names_linked(line):
    """The line with each name of a header in backticks as a link to its declaration."""
    def link(match):
        name = match.group(1)
        if name not in objects:
            return match.group(0)
        role, where = objects[name]
        return f"{{c:{role}}}`{name}`" if role != "ref" else f"[`{name}`](#{where})"
    return re.sub(r"(?<![\w`\[{}])`(ct_\w+|CT_\w+)(?:\(\))?`(?![`\]])", link, line)


# ---- demos ----

def demo_frame(title, name, folder):
    """A line that is only a link to a page of examples/web is that page in a frame, which docs/site/_static/demo.js opens when it is seen.
    The page and what it needs are copied to where Sphinx takes whole files from."""
    for path in glob.glob(f"{DEMOS}/*"):
        if path.endswith((".html", ".js", ".css", ".c", ".json", ".wasm")):
            os.makedirs(f"{OUT}/extra/demos", exist_ok=True)
            shutil.copy(path, f"{OUT}/extra/demos")
    module = next(wasm for wasm in glob.glob(f"{DEMOS}/*.wasm") if any(
        os.path.basename(wasm) in open(f"{DEMOS}/{script}", encoding="utf-8").read()
        for script in re.findall(r'src="(\w+\.js)"', open(f"{DEMOS}/{name}.html", encoding="utf-8").read())))
    return (f'<figure class="demo"><iframe title="{title}" data-src="{folder}/{name}.html"></iframe>'
            f'<figcaption>{title}. It runs in your browser, as WebAssembly of {os.path.getsize(module) / 1e6:.1f} MB, and starts when you '
            f'see it. <a href="{folder}/{name}.html">In a page of its own</a></figcaption></figure>')


# ---- pages of the tree ----

def page_of(source):
    """A page of the tree, whose links lead to the site's pages, or to copies of the files that they name."""
    here = os.path.dirname(PAGES[source])

    def target(match):
        before, link, after = match.groups()
        path, _, anchor = link.partition("#")
        if not path or re.match(r"\w+:", path):
            return match.group(0)
        path = os.path.normpath(os.path.join(os.path.dirname(source), path))
        if path in PAGES:
            to = PAGES[path]
        elif path.endswith((".svg", ".png")):
            to = path
            os.makedirs(os.path.join(OUT, os.path.dirname(path)), exist_ok=True)
            shutil.copy(path, os.path.join(OUT, path))
        else:
            linked.add(path)
            to = f"files/{path}.md"
        return before + os.path.relpath(to, here or ".") + ("#" + anchor if anchor else "") + after

    lines, fenced = [], False
    for line in open(source, encoding="utf-8").read().split("\n"):
        fenced ^= line.startswith("```")
        demo = re.fullmatch(r"\[(.*)\]\(\S*\bexamples/web/(\w+)\.html\)", line)
        if demo and os.path.exists(f"{DEMOS}/wasi.js"):
            lines.append(demo_frame(*demo.groups(), os.path.relpath("demos", here or ".")))
            continue
        if not fenced and not line.startswith(("    ", "#", "```")):
            line = re.sub(r"\[(`ct_\w+`)\]\([\w/.]*\bops\.md#ct_\w+\)", r"\1", line)   # its declaration has the formula here
            line = re.sub(r"(\]\()([^)\s]+)(\))", target, re.sub(r'(src=")([^"]+)(")', target, line))
            line = with_names_linked(line)
        lines.append(line)
    return "\n".join(lines)


def file_page(path):
    """A file of the tree as a page that search leaves out; of a folder its files."""
    head = f"---\norphan: true\nnosearch: true\n---\n# {path}\n\n"
    if os.path.isdir(path):
        here, names = f"files/{path}.md", sorted(os.listdir(path))
        PAGES_HERE = {n: f"{path}/{n}" for n in names if f"{path}/{n}" in linked}
        return head + "\n".join(f"- [{n}]({os.path.relpath(f'files/{p}.md', os.path.dirname(here))})" if (p := PAGES_HERE.get(n)) else f"- {n}" for n in names) + "\n"
    language = {".c": "c", ".h": "c", ".py": "python", ".sh": "sh", ".mk": "make", ".yml": "yaml", ".html": "html", ".js": "js"}
    text = open(path, encoding="utf-8").read()
    fence = "`" * (2 + max([1] + [len(run) for run in re.findall(r"`+", text)]))
    return f"{head}{fence}{language.get(os.path.splitext(path)[1], 'none')}\n{text}{fence}\n"


# ---- pages of headers ----

def markdown(comment):
    """A comment as Markdown: names of the library and pages of docs/ are links, indented lines stay as they stand."""
    def page_link(match):
        return f"[{match.group(0)}]({os.path.relpath(PAGES[match.group(0)], 'api')})" if match.group(0) in PAGES else match.group(0)

    lines = []
    for line in comment.split("\n"):
        if not line.startswith("    "):
            if "`" not in line:
                words = re.split(r"\b((?:ct|CT)_\w+)\b", line)   # every second one is a name of the library
                line = "".join(f"`{w}`" if n % 2 else re.sub(r"([*_<>\\|\[\]$])", r"\\\1", w) for n, w in enumerate(words))
            line = re.sub(r"\bdocs/\w+\.md", page_link, with_names_linked(line))
        lines.append(line)
    return "\n".join(lines)


def signature_of(declaration):
    """A function's declaration as the C domain reads it."""
    code = re.sub(r"\s+", " ", re.sub(r"/\*.*?\*/", "", declaration, flags=re.S))
    code = re.sub(r"CT_FORMAT\([^)]*\)|CT_API |static inline | *\{.*|;$", "", code)
    return code.strip()


def header_page(path, items, formula):
    name = "cotangent/" + os.path.basename(path)
    out, shown = [f"# {name}"], set()
    for item in items:
        if item.kind == "heading":
            out.append("## " + item.text[0].upper() + item.text[1:])
        elif item.kind == "prose":
            out.append(markdown(item.text))
        else:
            body = [markdown(comment) for comment in item.comments]
            if item.kind == "function":
                if item.names[0][3:] in formula and path.endswith("/ops.h"):
                    body.append(f"```none\n{formula[item.names[0][3:]]}\n```")
                out.append(f"`````{{c:function}} {signature_of(item.text)}\n\n" + "\n\n".join(body) + "\n`````")
            else:
                types = [n for n in item.names if objects[n][0] == "type"]
                code = "```c\n" + item.text + "\n```"
                anchors = "".join(f"({objects[n][1]})=\n" for n in item.names if objects[n][0] == "ref" and n not in shown)
                shown.update(item.names)   # a macro may be defined once for each compiler
                # The declaration as it stands says more than a list of its members, so it is the body of the type's object.
                body = "\n\n".join(body + [code])
                out.append(anchors + (f"`````{{c:type}} {types[0]}\n\n{body}\n`````" if types else body))
    return "\n\n".join(out) + "\n"


def index_page():
    """All names, header by header."""
    out = ["# Reference\n\nEvery function, type and constant of the public headers, as they declare it. An op's page also has its formula and gradient."]
    out += ["```{toctree}\n:maxdepth: 1\n\n" + "\n".join(os.path.basename(h)[:-2] for h in HEADERS) + "\n```"]
    for path in HEADERS:
        page = os.path.basename(path)[:-2]
        names = sorted(n for n, (role, where) in objects.items() if where == page or where.startswith(page + "-"))
        out.append(f"**{os.path.basename(path)}**: " + ",\n".join(with_names_linked(f"`{n}`") for n in names))
    return "\n\n".join(out) + "\n"


def toctrees():
    out = []
    for title, pages in NAVIGATION:
        docs = ["api/index" if page == "api" else PAGES[page][:-3] for page in pages]
        if title == "Use" and "docs/recipes/README.md" in PAGES:
            docs.insert(1, "recipes/index")
        out.append(f"```{{toctree}}\n:hidden:\n:caption: {title}\n\n" + "\n".join(docs) + "\n```")
    return "\n\n" + "\n\n".join(out) + "\n"


headers = {path: list(items_of(path)) for path in HEADERS}
for path, items in headers.items():
    page = os.path.basename(path)[:-2]
    for item in items:
        for name in item.names:
            if name in objects:
                continue
            role = "func" if item.kind == "function" else "type" if name == next((n for n in item.names if n.startswith("ct_")), None) else "ref"
            objects[name] = (role, page if role != "ref" else f"{page}-{name.lower().replace('_', '-')}")

shutil.rmtree(OUT, ignore_errors=True)
formula = formulas_of_ops()
for path, items in headers.items():
    write(PAGES[path], header_page(path, items, formula))
write("api/index.md", index_page())
for source, page in PAGES.items():
    if not page.startswith("api/"):
        recipes = "\n```{toctree}\n:hidden:\n\n" + "\n".join(sorted(os.path.basename(p)[:-3] for p in PAGES if p.startswith("docs/recipes/") and not p.endswith("README.md"))) + "\n```\n"
        write(page, page_of(source) + (toctrees() if page == "index.md" else recipes if page == "recipes/index.md" else ""))
for path in sorted(linked):
    write(f"files/{path}.md", file_page(path))
