"""The worked examples of CONTRIBUTING.md: patches for an estimator, a data set and a suite."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.helpers.processes import ROOT, run_python

PATCHES = [ROOT / "docs" / "contributing" / f"{name}.patch" for name in ("estimator", "data-set", "suite")]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
BUNDLED = Path("roarbench") / "datasets" / "bundled"

pytestmark = pytest.mark.process


def run_program(folder, program, *words):
    """Run a program with the package of a folder and return its output."""
    return run_python(program, *words, folder=folder, PYTHONPATH=str(folder), COLUMNS="200")


@pytest.fixture(scope="module")
def extended(tmp_path_factory):
    """A copy of the package with all patches, the new suite's hash and a link to the bundled photographs."""
    folder = tmp_path_factory.mktemp("extended")
    for name in ("roarbench", "tests", "results"):
        ignored = shutil.ignore_patterns("bundled", "*.parquet")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / BUNDLED).symlink_to(ROOT / BUNDLED)
    subprocess.run(["git", "apply", "--whitespace=error", *PATCHES], cwd=folder, check=True)
    run_program(folder, "import runpy; runpy.run_path('tests/test_frozen.py', run_name='__main__')")
    return folder


def list_touched(prefix):
    """Return the files in headings of the patches that begin with `--- a/` or `+++ b/`."""
    return [name for patch in PATCHES for name in re.findall(rf"(?m)^{prefix}(\S+)$", patch.read_text())]


def test_contributing_page_names_existing_files():
    assert re.findall(r"\]\((docs/contributing/\S+?)\)", PAGE) == [str(patch.relative_to(ROOT)) for patch in PATCHES]
    found = re.findall(r"`([\w./-]*/[\w./-]*)`", PAGE)
    named = {name for name in found if name not in ("dist/", ".ci/run") and "NAME" not in name}
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_contributing_page_names_constants_of_named_files():
    """A constant such as `MODELS` is in one of the files that its line names; `ESTIMATORS` is in a file to be added."""
    paths = [path for top in ("roarbench", "tests", "leaderboard") for path in (ROOT / top).rglob("*.py")]
    checked, lacking = 0, []
    for line in PAGE.splitlines():
        named = set(re.findall(r"\w+\.py\b", line))
        text = "\n".join(path.read_text() for path in paths if path.name in named)
        constants = set(re.findall(r"`(_?[A-Z]+_?[A-Z]+)`", line)) - {"ID", "NAME", "ESTIMATORS"} if text else set()
        checked += len(constants)
        lacking += [name for name in constants if not re.search(rf"\b{name}\b", text)]
    assert (lacking, checked > 5) == ([], True)


def test_patches_apply_after_other_additions_to_same_tables(tmp_path):
    """A line after every entry stands for another contributor's data set."""
    changed = list_touched(re.escape("--- a/"))
    assert set(changed) == {"roarbench/datasets/catalogue.py", "tests/datasets/test_records.py"}
    for name in changed:
        text = (ROOT / name).read_text()
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(re.sub(r"(?m)^(.*[,({])$", r"\1\n    # another,", text))
    subprocess.run(["git", "apply", "--whitespace=error", *PATCHES], cwd=tmp_path, check=True)
    assert '"mnist"' in (tmp_path / changed[0]).read_text()


def test_tests_changed_by_patches_pass(extended):
    """These tests include a manual case of the new estimator and the hash of the new suite."""
    files = [name for name in list_touched(re.escape("+++ b/")) if Path(name).name.startswith("test_")]
    assert len(files) == 2
    assert "mnist-brief@1" in json.loads((extended / "tests" / "frozen.json").read_text())["suites"]
    tests = (*files, "tests/test_frozen.py", "tests/plan/test_suites.py")
    chosen = "not (network_equals or fingerprint)"  # no patch changes networks or fingerprints
    words = ("-q", "-p", "no:cacheprovider", "-k", chosen)
    run_program(extended, "import pytest, sys; sys.exit(pytest.main())", *words, *tests)
