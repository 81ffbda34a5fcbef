"""Rules for tests and the Makefile: imports between test modules, registered markers."""

import re
import tomllib

from tests.helpers.processes import ROOT


def test_test_modules_import_no_other_test_module():
    wrong = re.compile(r"(?m)^ *(?:from|import) +(?:tests\b(?!\.helpers)|.*\b(?:test_|conftest\b)).*")
    tests = (ROOT / "tests").rglob("*.py")
    assert {str(path): found for path in tests if (found := wrong.findall(path.read_text()))} == {}


def test_makefile_targets_cover_registered_markers():
    markers = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["markers"]
    lanes = re.findall(r'pytest .*-m (?:"not \((.*)\)"|(\w+))', (ROOT / "Makefile").read_text())
    named = {name for lane in lanes for part in lane for name in part.split(" or ") if name}
    named |= set(re.findall(r'"-m", "(gpu)"', (ROOT / "scripts/first_gpu.py").read_text()))  # of `make first-gpu`
    assert named == {marker.partition(":")[0] for marker in markers}
