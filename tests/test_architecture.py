"""The page of the architecture is held to the source: its rooms, their layers, the modules it names, its picture."""

import re
import tomllib
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/architecture.md").read_text()


@pytest.fixture
def picture() -> ModuleType:
    return import_module("draw_architecture")


def test_the_page_the_layers_and_the_source_have_the_same_rooms(picture):
    """A package is a folder with an `__init__.py`, a room of the ground floor a module."""
    folders = {f"roarbench.{path.parent.name}" for path in (ROOT / "roarbench").glob("*/__init__.py")}
    ground = {f"roarbench.{path.stem}" for path in (ROOT / "roarbench").glob("*.py") if path.stem != "__init__"}
    roots = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["root_packages"])
    source = folders | ground | roots - {"roarbench"}
    layers = [room for layer in picture.layers() for room in layer]
    assert sorted(layers) == sorted(source)
    assert list(picture.rooms()) == layers


def test_what_the_page_names_exists():
    modules = re.findall(r"`((?:roarbench|leaderboard|toy)[\w.]*)`", PAGE)
    files = re.findall(r"\b(?:tests|scripts|docs)/[\w/.]+\w", PAGE)
    assert len(modules) > 20 and len(files) > 1
    assert [name for name in modules if not find_spec(name)] == []
    assert [path for path in files if not (ROOT / path).is_file()] == []


def test_the_picture_is_that_of_the_page(picture):
    assert picture.OUT.read_text() == picture.draw()
