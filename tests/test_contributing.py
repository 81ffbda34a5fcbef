"""The worked examples of CONTRIBUTING.md: patches for an estimator, a data set and a suite."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.elsewhere import ROOT, call_in_new_process, run_python
from tests.helpers.tiny_set import png, write_split

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


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """Images of noise in the hub's layout, of the size of digits: 60 and 30 of ten classes."""
    folder, generator = tmp_path_factory.mktemp("digits"), np.random.default_rng(0)
    for split, count in (("train", 60), ("test", 30)):
        images = [png(generator.integers(0, 256, (28, 28), np.uint8)) for _ in range(count)]
        write_split(folder, split, images, [i % 10 for i in range(count)], ("image", "label"))
    return folder


def test_contributing_page_names_existing_files():
    assert re.findall(r"\]\((docs/contributing/\S+?)\)", PAGE) == [str(patch.relative_to(ROOT)) for patch in PATCHES]
    found = re.findall(r"`([\w./-]*/[\w./-]*)`", PAGE)
    named = {name for name in found if name not in ("dist/", ".ci/run") and "NAME" not in name}
    assert [name for name in named if not (ROOT / name).exists()] == []


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


def test_patched_estimator_ranks_unlike_all_others(extended):
    program = """
import torch
from roarbench.estimators.catalogue import ESTIMATORS
from tests.helpers.networks import make_smooth_images, importance, make_residual_network
model, batch = make_residual_network(torch.float64), make_smooth_images(1, torch.float64)
names = [name for name, row in ESTIMATORS.items() if row.has_own_map and not row.control and not row.most_features]
orders = {name: importance(name, model, batch).flatten().argsort(stable=True) for name in names}
new = orders.pop("grad-max")
print(len(orders) > 20, *(name for name, order in orders.items() if torch.equal(order, new)))
"""
    assert run_program(extended, program) == "True\n"


def test_patched_suite_plans_and_patched_data_set_trains(extended, digits, tmp_path):
    suite = ("--suite", "mnist-brief", "--format", "json")
    run = ("run", *suite, "--data", digits, "--max-images", "20", "--store", tmp_path, "--estimators", "random")
    commands = (("estimators",), ("plan", *suite), (*run, "--seeds", "1"))
    answers = call_in_new_process([(words, {"COLUMNS": "200"}) for words in commands], extended)
    assert "grad-max " in answers[0][1]
    # untouched 2; random, sobel, grad, var-grad at 2 levels with 2 seeds; 3 blurred maps at 2 levels with 1 seed
    assert json.loads(answers[1][1])["runs"] == 2 + 4 * 2 * 2 + 3 * 2
    (random,) = (row for row in json.loads(answers[2][1])["rows"] if row["estimator"] == "random")
    assert random["curve"].keys() == {"0.0", "0.5", "0.9"}
    assert all(0 <= accuracy <= 1 for accuracy in random["curve"].values())


def test_tests_changed_by_patches_pass(extended):
    """These tests include a manual case of the new estimator and the hash of the new suite."""
    files = [name for name in list_touched(re.escape("+++ b/")) if Path(name).name.startswith("test_")]
    assert len(files) == 2
    assert "mnist-brief@1" in json.loads((extended / "tests" / "frozen.json").read_text())["suites"]
    tests = (*files, "tests/test_frozen.py", "tests/plan/test_suites.py")
    chosen = "not (network_equals or fingerprint)"  # no patch changes networks or fingerprints
    words = ("-q", "-p", "no:cacheprovider", "-k", chosen)
    run_program(extended, "import pytest, sys; sys.exit(pytest.main())", *words, *tests)
