"""The table of worst errors at the end, and seeds of random tests."""
import os
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
torch.set_num_threads(1)


def pytest_addoption(parser):
    parser.addoption("--seed", type=int, help="run random tests with this seed only")


def pytest_collection_modifyitems(config, items):
    """PART="3 7" keeps every third test, those of commit 7."""
    part = os.environ.get("PART")
    if part:
        of, number = map(int, part.split())
        config.hook.pytest_deselected(items=[item for i, item in enumerate(items) if (i + number) % of])
        items[:] = [item for i, item in enumerate(items) if (i + number) % of == 0]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A failed random test ends with the line that runs it again."""
    report = yield
    seed = getattr(item, "callspec", None) and item.callspec.params.get("seed")
    if report.failed and seed is not None:
        line = f"BUILD={os.environ.get('BUILD', 'build')} {sys.executable} -m pytest '{item.nodeid}' --seed {seed}"
        report.sections.append(("run it again", line))
    return report


def pytest_terminal_summary(terminalreporter):
    import ct

    if not ct.worst:
        return
    terminalreporter.write_line(f"\n{'worst error, of the largest value':34} {'f32':>10} {'f64':>10} {'comparisons':>12}")
    for what, entry in sorted(ct.worst.items()):
        text = [f"{entry[d]:10.1e}" if d in entry else f"{'-':>10}" for d in (torch.float32, torch.float64)]
        terminalreporter.write_line(f"{what:34} {text[0]} {text[1]} {entry['count']:12}")
    total = sum(entry["count"] for entry in ct.worst.values())
    terminalreporter.write_line(f"{total} tensors compared; the gates are 3e-06 and 1e-12")


@pytest.fixture
def context():
    import ct

    with ct.Context(threads=2) as context:
        yield context


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """For files that only their test reads: making and removing a folder for each takes longer than some tests."""
    return tmp_path_factory.mktemp("files")
