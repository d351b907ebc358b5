"""The mutants of a file: universalmutator's rules for C on lines whose comments are blank, so that prose is not mutated and a line with
a comment behind it is."""
import contextlib
import io
import re
from pathlib import Path

from universalmutator import mutator

from functions import blank, functions_of

RULES = ["universal.rules", "c_like.rules", "c.rules"]


class Mutant:
    def __init__(self, file, function, line, before, after, text):
        self.file, self.function, self.line, self.text = file, function, line, text
        self.before, self.after = " ".join(before.split()), " ".join(after.split())
        self.key = (file, function or "", self.before, self.after)   # by text, so that it outlives changes elsewhere in the file


def mutants_of(file, functions=None):
    """Of those functions; None: of the whole file."""
    source = Path(file).read_text()
    lines = [line + "\n" for line in blank(source).split("\n")]
    # a directive is not code
    lines = ["\n" if re.match(r"\s*#", line) else line for line in lines]
    inside = {number: f.name for f in functions_of(file) for number in range(f.first, f.last + 1)}
    if functions is not None:
        wanted = {number for f in functions for number in range(f.first, f.last + 1)}
        lines = [line if number in wanted else "\n" for number, line in enumerate(lines, 1)]
    with contextlib.redirect_stdout(io.StringIO()):
        found = mutator.mutants_regexp(lines, ruleFiles=RULES, ignorePatterns=[], ignoreStringOnly=True)
    whole = source.split("\n")
    return [Mutant(file, inside.get(number), number, lines[number - 1], after,
                   "\n".join(whole[:number - 1] + [after.rstrip("\n")] + whole[number:]))
            for number, after, *_ in found if after.split() != lines[number - 1].split()]
