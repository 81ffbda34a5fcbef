"""What answered a question once: each study has its page and a program that starts, and shows what its results say."""

import ast
import runpy
import sys
from importlib import import_module
from pathlib import Path

import pytest

from studies.page import between

ROOT = Path(__file__).parents[1]
STUDIES = sorted(path for path in (ROOT / "studies").iterdir() if path.is_dir() and not path.name.startswith("_"))
PROGRAMS = [path for study in STUDIES for path in sorted(study.glob("*.py")) if "argparse" in path.read_text("utf-8")]
LONGEST = 2000  # words of a page with its tables


@pytest.mark.parametrize("study", STUDIES, ids=lambda path: path.name)
def test_a_study_has_its_question_its_answer_and_how_to_run_it(study):
    page = (study / "README.md").read_text("utf-8")
    assert page.startswith("# ") and page.partition("\n")[0].endswith("?")
    assert [part for part in ("**Answer.**", "**Run.**") if part not in page] == []
    assert len(page.split()) < LONGEST
    assert f"studies.{study.name}" in page or f"studies/{study.name}/" in page


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_its_programs_have_help(monkeypatch, capsys, path):
    monkeypatch.setattr(sys, "path", [str(path.parent), *sys.path])
    monkeypatch.setattr(sys, "argv", [str(path), "--help"])
    with pytest.raises(SystemExit) as left:
        runpy.run_path(str(path), run_name="__main__")
    said = capsys.readouterr().out
    assert left.value.code == 0
    assert said.startswith(f"usage: {path.name} ") and len(said.splitlines()) > 3


def in_a_moment():
    """Yield the studies whose tables come from a small file."""
    programs = ((study, study / "run.py") for study in STUDIES)
    return [
        study
        for study, path in programs
        if path.exists()
        and any(
            isinstance(node, ast.FunctionDef) and node.name == "recorded" for node in ast.parse(path.read_text()).body
        )
    ]


@pytest.mark.parametrize("study", in_a_moment(), ids=lambda path: path.name)
def test_the_tables_are_those_of_the_results(study):
    page = (study / "README.md").read_text("utf-8")
    made = import_module(f"studies.{study.name}.run").recorded()
    assert made == {name: between(page, name) for name in made} != {}
