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

FIRST = (*SMALL, "--estimators", "input-x-grad", "--protocol", "roar", "--seeds", "1")
MORE = (*FIRST[:-1], "2")


def other_weights(store: Path) -> None:
    (folder,) = (path for path in (store / "references").iterdir() if path.is_dir())
    weights = torch.load(folder / "weights.pt", weights_only=True)
    weights = {name: value + 1 for name, value in weights.items()}
    torch.save(weights, folder / "weights.pt")
    note(folder / "manifest.json", lambda manifest: manifest | {"weights": checksum(weights)})


def other_predictions(store: Path) -> None:
    (path,) = (store / "references").glob("*/train.npz")
    shutil.copy(path.with_name("test.npz"), path)


def other_ranking(store: Path) -> None:
    path = sorted((store / "rankings").glob("*/*/input-x-grad-*/manifest.json"))[0]
    note(path, lambda manifest: manifest["files"]["test"].update(sha256="0" * 64) or manifest)


ALTERED = {
    other_weights: "reference of planted v1 (train images)",
    other_predictions: "reference of planted v1 (train images)",
    other_ranking: "ranking of input-x-grad (scalar)",
}


def note(path: Path, change) -> None:
    path.write_text(json.dumps(change(json.loads(path.read_text()))))


def rows(url: str) -> list[list[tuple]]:
    with ResultsStore.open(url, read_only=True) as store, store.database.read() as connection:
        return [connection.execute(select(table).order_by(table.c.key)).all() for table in (results, checksums, leases)]


@pytest.fixture
def first(call, store_url, tmp_path) -> Path:
    folder = tmp_path / "first"
    assert call("run", *FIRST, "--store", folder, "--db", store_url).code == 0
    return folder


def test_another_reference_or_ranking_is_refused_before_any_work(call, first, store_url, tmp_path, monkeypatch):
    monkeypatch.delattr(runner, "make_plan")  # by which work begins
    before = rows(store_url)
    for alter, what in ALTERED.items():
        second = Path(shutil.copytree(first, tmp_path / alter.__name__))
        alter(second)
        files = sorted(second.rglob("*"))
        answer = call("run", *MORE, "--store", second, "--db", store_url)
        assert (answer.code, answer.out) == (2, "")
        line = answer.err.splitlines()[-1]
        assert line.startswith(f"roarbench: {second} has another {what} than the one made in ")
        assert f":{first}, on which " in line
        assert (rows(store_url), sorted(second.rglob("*"))) == (before, files)


def test_a_copy_goes_on_and_so_does_the_same_folder(call, first, store_url, tmp_path):
    """An empty one only on SQLite, which one machine uses: what was lost is made again there, with the same bits."""
    copy, empty = tmp_path / "copy", tmp_path / "empty"
    for name in ("references", "rankings"):
        shutil.copytree(first / name, copy / name)
    for number, folder in ((2, copy), (3, first)):
        answer = call("run", *FIRST[:-1], number, "--store", folder, "--db", store_url)
        assert answer.code == 0, answer.err
    answer = call("run", *FIRST[:-1], 4, "--store", empty, "--db", store_url)
    if store_url.startswith("sqlite"):
        assert answer.code == 0, answer.err
    else:
        assert answer.code == 2
        assert f"{empty} lacks the reference of planted v1 (train images), which was made in" in answer.err
        assert not (empty / "references").exists()
