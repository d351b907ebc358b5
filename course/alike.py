"""Likeness of C programs, for a teacher to look at: no mark depends on it, and nothing leaves the machine.

A program is the set of all runs of eight tokens. A student's own names are all one token, numbers and texts are one each, and braces and
words like `const` are none, so other names, constants or brackets change nothing; the set has no order, so a function or a statement that is
moved changes only the runs at its ends. Runs that the stub has are nobody's own. Two programs of 03 and of 05 that were
written apart have 27 % in common: the same formulas, in the same loops."""
import re

RUN, LEAST = 8, 25  # tokens; runs that a program must have to be compared
WORTH_SAYING, MOST = 0.6, 30
TOKEN = re.compile(r"""(?P<none>/\*.*?(?:\*/|\Z)|//[^\n]*|^[ \t]*\#[^\n]*|\s+|[{}])|(?P<text>"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?)
    |(?P<number>\.?[0-9](?:[eEpP][+-]|[\w.])*)|(?P<name>[A-Za-z_]\w*)|(?P<sign>->|\+\+|--|<<=?|>>=?|[-+*/%&|^=!<>]=|&&|\|\||.)""", re.X | re.S | re.M)
KEPT = set("if else for while do switch case default return break continue goto sizeof struct union enum typedef void char int int64_t double float bool".split())
DROPPED = set("const static inline restrict register volatile signed unsigned".split())


def tokens(text, known):
    """What a compiler reads of a program, but for a student's own choices; names in `known` are not the student's."""
    for found in TOKEN.finditer(re.sub(r"\\[ \t]*\n", "", text)):
        word = found[0]
        if found.lastgroup == "name" and word not in DROPPED:
            yield word if word in KEPT or word in known else "name"
        elif found.lastgroup in ("number", "text"):
            yield found.lastgroup
        elif found.lastgroup == "sign":
            yield word


def runs(text, known):
    line = list(tokens(text, known))
    return {tuple(line[start:start + RUN]) for start in range(len(line) - RUN + 1)}


def likeness(one, other):
    """The share of the smaller program that the other has, too."""
    return len(one & other) / min(len(one), len(other))


def own_runs(text, stub, known):
    """The runs of a program that the stub has not; None if it is little more than the stub, as those of others are."""
    every, nothing = runs(text, known), runs(stub, known)
    own = every - nothing
    return own if len(own) >= LEAST and len(own) > len(every) / 4 else None


def said(programs, published, stub, known):
    """What a teacher is told of programs, a dict of texts, and of the published solution, a text or None: in lines, the most alike first. Two
    that are both like the solution are not said to be like each other."""
    own = {name: found for name, text in programs.items() for found in [own_runs(text, stub, known)] if found}
    solution = own_runs(published, stub, known) if published else None
    of_solution = {name: likeness(one, solution) for name, one in own.items()} if solution else {}
    copies = sorted((name for name, share in of_solution.items() if share >= WORTH_SAYING), key=lambda name: (-of_solution[name], name))
    names = sorted(own)
    pairs = sorted(((likeness(own[a], own[b]), a, b) for i, a in enumerate(names) for b in names[i + 1:]), key=lambda pair: (-pair[0], pair[1:]))
    worth = [pair for pair in pairs if pair[0] >= WORTH_SAYING and not {pair[1], pair[2]} <= set(copies)]
    lines = [f"  {100 * of_solution[name]:3.0f}%  {name}, the published solution" for name in copies]
    lines += [f"  {100 * share:3.0f}%  {a}, {b}" for share, a, b in worth[:MOST]]
    lines += [f"  and {len(worth) - MOST} pairs more of {100 * WORTH_SAYING:.0f}% and above"] * (len(worth) > MOST)
    if lines and pairs:
        lines.append(f"  half of all pairs: up to {100 * pairs[len(pairs) // 2][0]:.0f}%")
    return lines
