"""The pages of docs/recipes: a page's program, compiled, and its Python, run behind it in the same folder, print what the page shows."""
import contextlib
import io
import re
import subprocess

import pytest

import ct

PAGES = sorted(page for page in (ct.ROOT / "docs" / "recipes").glob("*.md") if page.name != "README.md")


def block(page, language):
    """The text of the blocks of a language, one after the other."""
    return "".join(re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.S | re.M))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_program_and_python_print_what_the_page_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text, expected = block(page, "json"), block(page, "output")
    program = subprocess.run([ct.BUILD / "docs" / "recipes" / page.stem], input=text, capture_output=True, text=True)
    assert (program.returncode, program.stdout) == (0, expected), program.stderr
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block(page, "python"), page.name, "exec"), {"__name__": "recipe"})
    assert expected and printed.getvalue() == expected
