"""Programs beside the package: help texts, tables of studies, and breaks."""

import re
import runpy
import sys

import pytest
from breaks import Break, check_break_is_found, explain_unusable_break, read_breaks

from tests.helpers.processes import ROOT

FILES = [path for folder in ("benchmarks", "scripts") for path in sorted((ROOT / folder).glob("*.py"))]
RUNS = [path for path in sorted((ROOT / "studies").glob("[!_]*/*.py")) if "__main__" in path.read_text("utf-8")]
PROGRAMS = [path for path in FILES if "__main__" in path.read_text() and not path.name.startswith("test_")] + RUNS


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_program_prints_help(monkeypatch, capsys, path):
    monkeypatch.syspath_prepend(str(path.parent))
    monkeypatch.setattr(sys, "argv", [str(path), "--help"])
    with pytest.raises(SystemExit) as left:
        runpy.run_path(str(path), run_name="__main__")
    said = capsys.readouterr().out
    assert left.value.code == 0
    assert said.startswith(f"usage: {path.name} ") and len(said.splitlines()) > 3


def test_statistics_page_has_correlation_of_study():
    tables = (ROOT / "studies" / "small_networks" / "tables.md").read_text("utf-8")
    luck = re.search(r"Luck along a curve .*: (correlation \S+ over \d+ pairs, p = [\d.]+)\.\n", tables)[1]
    assert luck in (ROOT / "docs" / "statistics.md").read_text("utf-8")


def read_table(page, mark):
    """Return the lines of a page's table by their first cell, each with its cells by heading."""
    text = (ROOT / page).read_text("utf-8").split(f"<!-- {mark} -->\n")[1].split("<!-- end")[0]
    head, _, *lines = ([cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines())
    return {line[0]: dict(zip(head, line, strict=True)) for line in lines}


def test_statistics_page_has_error_rates_of_study():
    shown, measured = (
        read_table("docs/statistics.md", "rates"),
        read_table("studies/coverage/README.md", "coverage, null"),
    )
    assert len(shown) == 5
    for name, cells in shown.items():
        assert cells == {heading: measured[name][heading] for heading in cells}, name
    page = (ROOT / "docs" / "statistics.md").read_text("utf-8")
    for networks, name in ((3, "three"), (5, "five")):
        cell = measured[f"{networks} networks, one row varies 4 times as much"]["first row"]
        found = re.search(rf"(\d+) %[^.%]* with {name}", page.split("varies four times as much as the others")[1])
        assert found and found[1] == f"{float(cell.split()[0]):.0f}", cell


def test_statistics_page_has_stopping_rule_of_study():
    own, pairs = (
        read_table("studies/coverage/stopping.md", "stopping")[name]
        for name in ("0.5, a network and its own map alone", "0.2, every pair of map and network")
    )
    page = (ROOT / "docs" / "statistics.md").read_text("utf-8")
    rates = re.findall(r"([\d.]+ ± [\d.]+) %", page.split("**Stopping rule.**")[1].split("\n\n")[0])
    first, *others = (
        "above 0 at the first of 3 to 10",
        "any verdict at the first of 3 to 10",
        "above 0, 3 networks",
    )
    assert rates == [own[first], *(own[heading] for heading in others), pairs[first]]


def test_every_break_is_usable_and_unusable_break_states_reason():
    assert {one.name: why for one in read_breaks() if (why := explain_unusable_break(one))} == {}
    replacement = ('MISSING = "–"', 'MISSING = "0"')
    sound = Break("commands", "a-name", "roarbench/common/text.py", *replacement, ("tests/common/test_text.py",))
    assert explain_unusable_break(sound) == ""
    for changes, why in (
        ({"file": "roarbench/nothing.py"}, "no file roarbench/nothing.py"),
        ({"text": "nothing of the kind"}, "0 times, expected once"),
        ({"into": "MISSING = ("}, "would not be valid Python"),
        ({"tests": ("tests/common/test_text.py::test_nothing",)}, "no test tests/common/test_text.py::test_nothing"),
    ):
        assert why in explain_unusable_break(sound._replace(**changes))


@pytest.mark.process
@pytest.mark.parametrize(("seconds", "hangs", "found"), [(0.1, False, True), (600, False, False), (600, True, True)])
def test_break_check_counts_timeout_only_if_break_hangs(tmp_path, capfd, seconds, hangs, found):
    (tmp_path / "source.py").write_text("SECONDS = 0\n")
    waits = "    time.sleep(source.SECONDS)\n    assert source.SECONDS == 0\n"
    (tmp_path / "test_it.py").write_text(f"import time\nimport source\n\ndef test_it():\n{waits}")
    one = Break("room", "name", "source.py", "= 0", f"= {seconds}", ("test_it.py",), hangs)
    with capfd.disabled():
        there, by = check_break_is_found(one, tmp_path, max_seconds=1.0 if seconds == 600 else 60.0)
    assert there is found
    assert by == ("no end in 1 s" if seconds == 600 else "test_it.py::test_it")
