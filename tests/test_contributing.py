"""The worked examples of CONTRIBUTING.md: each patch applies to a copy of the package and does what the page says."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.elsewhere import python, said_by
from tests.helpers.tiny_set import png, write_split

ROOT = Path(__file__).parents[1]
PATCHES = [ROOT / "docs" / "contributing" / f"{name}.patch" for name in ("estimator", "data-set", "suite")]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
BUNDLED = Path("roarbench") / "datasets" / "bundled"
CLI = "from roarbench.cli.main import main; main()"

pytestmark = pytest.mark.process


def said(folder, program, *words):
    """What a program prints that has the package of a folder."""
    return said_by(python(program, *words, folder=folder, PYTHONPATH=str(folder), COLUMNS="200"))


@pytest.fixture(scope="module")
def extended(tmp_path_factory):
    """A copy with all patches, the bundled photographs linked: the suite is one on the new data set."""
    folder = tmp_path_factory.mktemp("extended")
    for name in ("roarbench", "tests", "results"):
        ignored = shutil.ignore_patterns("bundled", "__pycache__", "*.parquet")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / BUNDLED).symlink_to(ROOT / BUNDLED)
    for patch in PATCHES:
        subprocess.run(["git", "apply", "-C1", "--whitespace=error", patch], cwd=folder, check=True)
    return folder


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """Images of digits' size in the hub's layout: 60 and 30 of ten classes, nothing on them but noise."""
    folder, generator = tmp_path_factory.mktemp("digits"), np.random.default_rng(0)
    for split, count in (("train", 60), ("test", 30)):
        images = [png(generator.integers(0, 256, (28, 28), np.uint8)) for _ in range(count)]
        write_split(folder, split, images, [i % 10 for i in range(count)], ("image", "label"))
    return folder


def test_what_the_page_names_is_there():
    assert re.findall(r"\]\((docs/contributing/\S+?)\)", PAGE) == [str(patch.relative_to(ROOT)) for patch in PATCHES]
    found = re.findall(r"`([\w./-]*/[\w./-]*)`", PAGE)
    named = {name for name in found if name not in ("dist/", ".ci/run") and "NAME" not in name}
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_new_suite_plans_and_the_new_data_set_decodes_and_trains(extended, digits, tmp_path):
    plan = json.loads(said(extended, CLI, "plan", "--suite", "mnist-brief", "--format", "json"))
    # untouched 2; random, sobel, grad, var-grad at 2 levels with 2 seeds; 3 blurred maps at 2 levels with 1 seed
    assert plan["runs"] == 2 + 4 * 2 * 2 + 3 * 2
    words = ("--suite", "mnist-brief", "--data", digits, "--max-images", 20, "--store", tmp_path)
    answer = said(extended, CLI, "run", *words, "--estimators", "random", "--seeds", 1, "--format", "json")
    (random,) = (row for row in json.loads(answer)["rows"] if row["estimator"] == "random")
    assert random["curve"].keys() == {"0.0", "0.5", "0.9"}
    assert all(0 <= accuracy <= 1 for accuracy in random["curve"].values())


def test_the_tests_that_the_patches_touch_pass(extended):
    """Among them a case by hand of the new estimator, and the hash of the new suite."""
    touched = [name for patch in PATCHES for name in re.findall(r"(?m)^\+\+\+ b/(\S+)$", patch.read_text())]
    files = [name for name in touched if Path(name).name.startswith("test_")]
    assert len(files) == 2 and "tests/frozen.json" in touched
    tests = (*files, "tests/test_frozen.py", "tests/plan/test_suites.py")
    words = ("-q", "-p", "no:cacheprovider", "-k", "not every_published_row")  # the copy has no files of rows
    said(extended, "import pytest, sys; sys.exit(pytest.main())", *words, *tests)
    assert "ixg " in said(extended, CLI, "estimators")
