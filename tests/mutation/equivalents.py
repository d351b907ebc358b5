#!/usr/bin/env python3
"""The mutants there are, and the list of those that have no effect. As a program: fails if the list has an entry that is no mutant, as after
a change of its line. `make mutants-listed`; it compiles nothing."""
import os
import sys
from pathlib import Path

sys.dont_write_bytecode = True
os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
from functions import backward_functions
from mutants import mutants_of

EQUIVALENT = "tests/mutation/equivalent.txt"


def read():
    """{key: argument}. A block: `file function`, `- line`, one or more `+ mutated line`, `= why nobody can tell`."""
    found, place, before, after = {}, None, None, []
    for number, line in enumerate(Path(EQUIVALENT).read_text().splitlines(), 1):
        mark, rest = line[:2], " ".join(line[2:].split())
        if not line.strip() or line[0] == "#":
            continue
        if mark == "- ":
            before, after = rest, []
        elif mark == "+ ":
            after.append(rest)
        elif mark == "= " and place and before is not None and after and rest:
            found.update({(*place, before, one): rest for one in after})
            before, after = None, []
        elif line[0] not in "-+=":
            place = (line.split() + [""])[:2]
        else:
            raise SystemExit(f"{EQUIVALENT}:{number}: {line}")
    return found


def files_above():
    """The files above ops/: nn/ and the floors of ext/ that train. MPI's engine is a library of its own."""
    return sorted(str(file) for pattern in ["nn/*.c", "nn/*/*.c", "ext/ranks/*.c"] for file in Path().glob(pattern))


def mutants():
    """Every mutant of the backward code of ops/, and every mutant of the files above."""
    functions = backward_functions("ops")
    files = sorted({f.file for f in functions})
    return ([m for file in files for m in mutants_of(file, [f for f in functions if f.file == file])],
            [m for file in files_above() for m in mutants_of(file)])


def main():
    ops, above = mutants()
    stale = sorted(set(read()) - {m.key for m in ops + above})
    for file, function, before, after in stale:
        print(f"listed as equivalent, and no mutant: {file} {function}\n- {before}\n+ {after}")
    sys.exit(1 if stale else 0)


if __name__ == "__main__":
    main()
