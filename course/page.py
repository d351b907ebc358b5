"""A grading as a page of HTML for a student, which needs no other file and no network: the points, each mistake once, in words, as a picture
of the wrong elements and in numbers, and what the program has printed.

Names, sentences and output come from strangers: `text` is the only way into a page, and the page forbids scripts and everything from
elsewhere."""
import html
import re

import marks

STYLE = """
:root { color-scheme: light dark; --page: #fff; --text: #1b1f24; --dim: #5d6670; --line: #d5dae0; --card: #f6f8fa; --cell: #e6eaee;
  --hot: 200 30 10; --good: #1a7f37; --bad: #c62a1c }
@media (prefers-color-scheme: dark) { :root { --page: #0f1318; --text: #e4e8ec; --dim: #98a2ad; --line: #333b45; --card: #181e25;
  --cell: #242c35; --hot: 235 70 45; --good: #4cc764; --bad: #ff7b6b } }
body { margin: 2rem auto; max-width: 62rem; padding: 0 1.2rem; background: var(--page); color: var(--text); font: 15px/1.5 system-ui, sans-serif }
h1 { font-size: 1.5rem; margin: 2.4rem 0 .2rem } h1:first-of-type { margin-top: 0 } h2 { font-size: 1.1rem; margin: 2rem 0 .4rem }
p { margin: .4rem 0; overflow-wrap: anywhere } .dim, figcaption { color: var(--dim) } .good { color: var(--good) } .bad { color: var(--bad) }
.word { border-left: 4px solid var(--bad); background: var(--card); padding: .5rem 1rem; font-weight: 600 }
pre, td, svg text { font-family: ui-monospace, Menlo, Consolas, monospace } pre { font-size: 13px; white-space: pre-wrap; overflow-wrap: anywhere; background: var(--card); padding: .6rem }
table { border-collapse: collapse; margin: .6rem 0 } td, th { padding: .1rem .9rem .1rem 0; text-align: left; border-bottom: 1px solid var(--line) }
td.number { text-align: right } figure { margin: .8rem 0; overflow-x: auto } figcaption { font-size: 13px }
svg { display: block } svg text { font-size: 10px; fill: var(--dim) } svg .in { fill: var(--text); text-anchor: middle } svg .light { fill: #fff }
svg .right { fill: var(--cell) } svg .infinite { fill: #7d3cc8 }
"""
MOST_ELEMENTS = 12  # in the list below a picture


def text(words):
    """Words as a page shows them: no mark-up, and no character that turns the line around."""
    return html.escape(marks.printable(str(words), 100000))


def tuple_of(numbers):
    return f"({', '.join(map(str, numbers))})"


# ---- a picture of the wrong elements ----

def cell(level):
    """The style of a cell: grey if it is right, else red by the power of ten of its error, or violet if it is not finite."""
    if level == ".":
        return 'class="right"'
    return 'class="infinite"' if level == "x" else f'style="fill: rgb(var(--hot) / {10 + 10 * int(level)}%)"'


def heat_map(wrong):
    """The map of wrong elements as SVG: a row for each index of the leading dims, planes apart. Of a map as large as the array each cell tells
    its index, and both values if they are known."""
    shape, lines = wrong["shape"], wrong["map"]
    columns, rows = shape[-1] if shape else 1, 1
    for size in shape[:-1]:
        rows *= size
    whole = len(lines) == rows and len(lines[0]) == columns
    side = max(5, min(24, 720 // max(1, len(lines[0]))))
    plane = shape[-2] if whole and len(shape) > 2 else len(lines)
    known = {tuple(element["index"]): element for element in wrong["elements"]}
    left, top, drawn = (12 + 7 * len(tuple_of(shape[:-1])) if whole and len(shape) > 1 else 2), (16 if whole and side >= 14 else 2), []
    if top > 2:
        drawn += [f'<text x="{left + column * side + side / 2:g}" y="11" text-anchor="middle">{column}</text>' for column in range(columns)]
    for row, line in enumerate(lines):
        y, index, rest = top + row * side + row // plane * 8, [], row
        for size in reversed(shape[:-1]):
            index.insert(0, rest % size)
            rest //= size
        if left > 2 and side >= 9:
            drawn.append(f'<text x="{left - 6}" y="{y + side / 2 + 4:g}" text-anchor="end">{tuple_of(index) if len(index) > 1 else index[0]}</text>')
        for column, level in enumerate(line):
            at = (*index, column) if shape else ()
            element = known.get(at) if whole else None
            values = f": {element['value']}, must be {element['right']}" if element else ": wrong" if level != "." else ": right"
            title = f"<title>{text(tuple_of(at) + values)}</title>" if whole else ""
            x = left + column * side
            drawn.append(f'<rect x="{x}" y="{y}" width="{side - 1}" height="{side - 1}" {cell(level)}>{title}</rect>')
            if level != "." and side >= 14:
                light = " light" if level == "x" or level >= "7" else ""
                drawn.append(f'<text class="in{light}" x="{x + side / 2 - .5:g}" y="{y + side / 2 + 3:g}">{text(level)}</text>')
    width, height = left + len(lines[0]) * side + 2, top + len(lines) * side + (len(lines) - 1) // plane * 8 + 2
    return f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">{"".join(drawn)}</svg>'


def picture(wrong):
    if not wrong or not wrong["map"]:
        return ""
    what = "the result" if wrong["input"] < 0 else f"the gradient of input {wrong['input']}"
    caption = (f"{what}, {tuple_of(wrong['shape'])}: grey is right; red is wrong, and a digit d stands for an error of up to 10^d times what is "
               f"allowed; x is not finite")
    elements = 1
    for size in wrong["shape"]:
        elements *= size
    if sum(map(len, wrong["map"])) < elements:
        caption += "; a cell shows the worst of several elements"
    rows = [f"<tr><td>{text(tuple_of(e['index']))}</td><td class=\"number\">{text(e['value'])}</td><td class=\"number\">{text(e['right'])}</td></tr>"
            for e in wrong["elements"][:MOST_ELEMENTS]]
    left_out = len(wrong["elements"]) - len(rows)
    more = f'<p class="dim">and {"more" if wrong["wrong"] > len(wrong["elements"]) else left_out}</p>' if left_out else ""
    table = f"<table><tr><th>element</th><th>it is</th><th>must be</th></tr>{''.join(rows)}</table>{more}" if rows else ""
    return f"<figure>{heat_map(wrong)}<figcaption>{text(caption)}</figcaption></figure>{table}"


# ---- the page ----

def mistake(test, alike, first):
    if first:
        return f"<h2>{text(test['name'])}</h2><p>the same mistake as in {text(first)}</p>" + printed(test)
    report = marks.of_inputs(test)
    same = f"<p class=\"dim\">the same mistake: {text(', '.join(alike))}</p>" if alike else ""
    sentence = f"<p>{text(test['sentence'])}</p>" if test["sentence"] != test["word"] else ""
    return (f"<h2>{text(test['name'])}</h2><p class=\"word\">{text(test['word'])}</p>{sentence}{picture(test['wrong'])}"
            + (f"<pre>{text(report)}</pre>" if report else "") + printed(test) + same)


def printed(test):
    return f"<p class=\"dim\">your program printed:</p><pre>{text(test['printed'])}</pre>" if test["printed"] else ""


def of_exercise(graded):
    rows = [f"<tr><td>{text(test['name'])}</td><td class=\"number\">{test['score']}/{test['points']}</td>"
            f"<td class=\"{'good' if test['passed'] else 'bad'}\">{marks.how(test)}</td></tr>" for test in graded["tests"]]
    left_out = graded.get("left_out", 0)
    said = [f"{left_out} hidden tests count, too"] * (left_out > 0) + [marks.UNSEALED] * (graded["seal"] != "sealed")
    said += [f"with SEED={graded['seed']}"] * (graded["seed"] != 1)
    return (f"<h1>{text(graded['exercise'])}: {graded['score']}/{graded['points']}</h1>" + "".join(f"<p class=\"dim\">{text(line)}</p>" for line in said)
            + f"<table>{''.join(rows)}</table>" + (f"<pre>{text(graded['note'])}</pre>" if graded["note"] else "")
            + "".join(mistake(*one) for one in marks.mistakes_of(graded)))


def page(title, gradings):
    """The page of one student: a part for each exercise."""
    return ("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
            f"<title>{text(title)}</title><style>{STYLE}</style></head>\n<body><p class=\"dim\">{text(title)}</p>\n"
            + "\n".join(map(of_exercise, gradings)) + "\n</body></html>\n")


def file_name(name, taken):
    """A file's name for a student's, different from those that are taken, which it joins. A spelling in other letters is the same file on
    some systems."""
    plain = re.sub(r"[^\w.-]", "_", name).strip(".")[:80] or "_"
    found, number = plain, 1
    while found.casefold() in taken:
        number += 1
        found = f"{plain}_{number}"
    taken.add(found.casefold())
    return found + ".html"
