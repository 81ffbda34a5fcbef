"""How code is written: tests import no other, and lanes are registered."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = sorted((ROOT / "tests").rglob("*.py"))


def test_no_test_imports_another():
    wrong = re.compile(r"(?m)^ *(?:from|import) +(?:tests\b(?!\.helpers)|.*\b(?:test_|conftest\b)).*")
    assert {str(path): found for path in TESTS if (found := wrong.findall(path.read_text()))} == {}


def test_installing_prints_errors_alone():
    """With -q pip warns of every index and folder of the machine's settings that it does not find."""
    installs = re.findall(r"pip install (\S+)", (ROOT / "Makefile").read_text())
    assert len(installs) == 5 and {*installs} == {"-qq"}


def test_the_lanes_of_the_makefile_are_the_markers_that_are_registered():
    markers = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["markers"]
    lanes = re.findall(r'pytest .*-m (?:"not \((.*)\)"|(\w+))', (ROOT / "Makefile").read_text())
    named = {name for lane in lanes for part in lane for name in part.split(" or ") if name}
    named |= set(re.findall(r'"-m", "(gpu)"', (ROOT / "scripts/first_gpu.py").read_text()))  # of `make first-gpu`
    assert named == {marker.partition(":")[0] for marker in markers}
