"""Two folders and one database: the same references and rankings, or a refusal before any work."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from sqlalchemy import select

from roarbench.execution import runner
from roarbench.store.references import checksum
from roarbench.store.results import ResultsStore
from roarbench.store.schema import checksums, leases, results
from tests.helpers.command_line import SMALL

pytestmark = pytest.mark.slow

FIRST = (*SMALL, "--estimators", "input-x-grad", "--protocol", "roar", "--seeds")


def other_weights(store: Path) -> None:
    alter_network(next(path for path in (store / "references").iterdir() if path.is_dir()))


def other_predictions(store: Path) -> None:
    (path,) = (store / "references").glob("*/train.npz")
    shutil.copy(path.with_name("test.npz"), path)


def other_ranking(store: Path) -> None:
    path = sorted((store / "rankings").glob("*/*/input-x-grad-*/manifest.json"))[0]
    note(path, lambda manifest: manifest["files"]["test"].update(sha256="0" * 64) or manifest)


def alter_network(folder: Path) -> None:
    weights = torch.load(folder / "weights.pt", weights_only=True)
    weights = {name: value + 1 for name, value in weights.items()}
    torch.save(weights, folder / "weights.pt")
    note(folder / "manifest.json", lambda manifest: manifest | {"weights": checksum(weights)})


def note(path: Path, change) -> None:
    path.write_text(json.dumps(change(json.loads(path.read_text()))))


def rows(url: str) -> list[list[tuple]]:
    with ResultsStore.open(url, read_only=True) as store, store.database.read() as connection:
        return [connection.execute(select(table).order_by(table.c.key)).all() for table in (results, checksums, leases)]


def test_a_copy_goes_on_and_other_files_are_refused_before_any_work(call, tmp_path, monkeypatch):
    store_url = f"sqlite:///{tmp_path}/results.sqlite"
    first, copy = tmp_path / "first", tmp_path / "copy"
    assert call("run", *FIRST, "1", "--store", first, "--db", store_url).code == 0
    for name in ("references", "rankings"):
        shutil.copytree(first / name, copy / name)
    assert call("run", *FIRST, "2", "--store", copy, "--db", store_url).code == 0
    monkeypatch.delattr(runner, "make_plan")  # by which work begins
    before = rows(store_url)
    reference = "reference of planted v1 (train images)"
    altered = {other_weights: reference, other_predictions: reference}
    for alter, what in (altered | {other_ranking: "ranking of input-x-grad (scalar)"}).items():
        second = Path(shutil.copytree(first, tmp_path / alter.__name__))
        alter(second)
        files = sorted(second.rglob("*"))
        answer = call("run", *FIRST, "3", "--store", second, "--db", store_url)
        assert (answer.code, answer.out) == (2, "")
        line = answer.err.splitlines()[-1]
        assert line.startswith(f"roarbench: {second} has another {what} than the one made in ")
        assert f":{first}, on which " in line
        assert (rows(store_url), sorted(second.rglob("*"))) == (before, files)
