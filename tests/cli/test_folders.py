"""Two folders and one database: the same references and rankings, or a refusal before any work."""

import json
import shutil

import pytest
import torch

from roarbench.execution import runner
from roarbench.store.references import checksum
from tests.helpers.command_line import SMALL

pytestmark = pytest.mark.slow

FIRST = (*SMALL, "--estimators", "input-x-grad", "--protocol", "roar", "--seeds")


def alter_network(folder):
    weights = {name: value + 1 for name, value in torch.load(folder / "weights.pt").items()}
    torch.save(weights, folder / "weights.pt")
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"weights": checksum(weights)}))


def test_a_copy_goes_on_and_other_weights_are_refused_before_any_work(call, tmp_path, monkeypatch):
    store_url = f"sqlite:///{tmp_path}/results.sqlite"
    first, copy = tmp_path / "first", tmp_path / "copy"
    assert call("run", *FIRST, "1", "--store", first, "--db", store_url).code == 0
    for name in ("references", "rankings"):
        shutil.copytree(first / name, copy / name)
    assert call("run", *FIRST, "2", "--store", copy, "--db", store_url).code == 0
    monkeypatch.delattr(runner, "make_plan")  # by which work begins
    alter_network(next(path for path in (copy / "references").iterdir() if path.is_dir()))
    before = sorted(copy.rglob("*"))
    answer = call("run", *FIRST, "3", "--store", copy, "--db", store_url)
    assert (answer.code, answer.out) == (2, "")
    line = answer.err.splitlines()[-1]
    said = f"roarbench: {copy} has another reference of planted v1 (train images) than the one made in "
    assert line.startswith(said) and f":{first}, on which " in line
    assert sorted(copy.rglob("*")) == before
