"""Programs beside the package: each starts and says what it does; studies show what their results say."""

import re
import runpy
import sys
from importlib import import_module
from pathlib import Path

import pytest

from studies.page import between

ROOT = Path(__file__).parents[1]
FILES = [path for folder in ("benchmarks", "scripts") for path in sorted((ROOT / folder).glob("*.py"))]
STUDIES = sorted(path for path in (ROOT / "studies").iterdir() if path.is_dir() and not path.name.startswith("_"))
RUNS = [path for study in STUDIES for path in sorted(study.glob("*.py")) if "__main__" in path.read_text("utf-8")]
PROGRAMS = [path for path in FILES if "__main__" in path.read_text() and not path.name.startswith("test_")] + RUNS
IN_A_MOMENT = [path.parent.name for path in RUNS if path.name == "run.py" and "\ndef recorded(" in path.read_text()]


def name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@pytest.mark.parametrize("path", PROGRAMS, ids=name)
def test_each_program_has_help(monkeypatch, capsys, path):
    monkeypatch.syspath_prepend(str(path.parent))
    monkeypatch.setattr(sys, "argv", [str(path), "--help"])
    with pytest.raises(SystemExit) as left:
        runpy.run_path(str(path), run_name="__main__")
    said = capsys.readouterr().out
    assert left.value.code == 0
    assert said.startswith(f"usage: {path.name} ") and len(said.splitlines()) > 3


def test_a_study_has_its_question_its_answer_and_how_to_run_it():
    for study in STUDIES:
        page = (study / "README.md").read_text("utf-8")
        assert page.startswith("# ") and page.partition("\n")[0].endswith("?"), study.name
        assert "**Answer.**" in page and "**Run.**" in page, study.name
        assert f"studies.{study.name}" in page or f"studies/{study.name}/" in page, study.name


@pytest.mark.parametrize("study", IN_A_MOMENT)
def test_the_tables_of_a_study_are_those_of_its_results(study):
    page = (ROOT / "studies" / study / "README.md").read_text("utf-8")
    made = import_module(f"studies.{study}.run").recorded()
    assert made == {name: between(page, name) for name in made} != {}


def test_the_page_on_statistics_has_the_number_of_its_study():
    tables = (ROOT / "studies" / "small_networks" / "tables.md").read_text("utf-8")
    luck = re.search(r"Luck along a curve .*: (correlation \S+ over \d+ pairs, p = [\d.]+)\.\n", tables)[1]
    assert luck in (ROOT / "docs" / "statistics.md").read_text("utf-8")
