"""Programs and benchmarks beside the package: all can be imported, and each program says what it does."""

import runpy
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = [path for folder in ("benchmarks", "scripts") for path in sorted((ROOT / folder).glob("*.py"))]
PROGRAMS = [path for path in FILES if "__main__" in path.read_text() and not path.name.startswith("test_")]


def name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@pytest.mark.parametrize("path", FILES, ids=name)
def test_each_file_can_be_imported(monkeypatch, path):
    monkeypatch.syspath_prepend(str(path.parent))  # they import each other by name
    spec = spec_from_file_location(f"imported_{path.parent.name}_{path.stem}", path)
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    spec.loader.exec_module(module)
    assert module.__doc__


@pytest.mark.parametrize("path", PROGRAMS, ids=name)
def test_each_program_has_help(monkeypatch, capsys, path):
    monkeypatch.syspath_prepend(str(path.parent))
    monkeypatch.setattr(sys, "argv", [str(path), "--help"])
    with pytest.raises(SystemExit) as left:
        runpy.run_path(str(path), run_name="__main__")
    said = capsys.readouterr().out
    assert left.value.code == 0
    assert said.startswith(f"usage: {path.name} ")
    assert len(said.splitlines()) > 3


def test_make_run_and_the_readmes_commands_use_the_default_store():
    """What `make run` did is there for `table`, and a newcomer's row stands beside it."""
    recipe = (ROOT / "Makefile").read_text().partition("\nrun:")[2].partition("\n\n")[0]
    commands = (ROOT / "README.md").read_text().partition("A new estimator takes five commands")[2].split("\n\n")[1]
    assert recipe.count("roarbench ") == 2
    assert commands.count("roarbench ") == 5
    assert "--store" not in recipe + commands
