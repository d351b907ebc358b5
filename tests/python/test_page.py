"""docs/python.md: its blocks of Python are one program, and print what the blocks of text behind them show."""
import contextlib
import io
import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "python.md"


def test_the_page_prints_what_it_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks, names = re.findall(r"^```(python|text)\n(.*?)^```$", PAGE.read_text(), re.S | re.M), {"__name__": "page"}
    assert [language for language, _ in blocks] == ["python", "text"] * 3
    for (_, program), (_, shown) in zip(blocks[::2], blocks[1::2]):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(program, PAGE.name, "exec"), names)
        assert printed.getvalue() == shown
    assert (tmp_path / "reverser.safetensors").stat().st_size > 50_000
