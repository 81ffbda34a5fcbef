"""Two folders and one database: the same references, rankings and networks, or a refusal before any work."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from sqlalchemy import delete, select

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
    alter_network(folder)


def other_common_network(store: Path) -> None:
    alter_network(next(folder for folder in networks(store) if not is_tuned(folder)))


def other_tuned_network(store: Path) -> None:
    alter_network(next(folder for folder in networks(store) if is_tuned(folder)))


def networks(store: Path) -> list[Path]:
    return sorted(path for path in (store / "networks").iterdir() if path.is_dir())


def is_tuned(folder: Path) -> bool:
    return "rankings" in json.loads((folder / "manifest.json").read_text())


def alter_network(folder: Path) -> None:
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


def old_database(url: str) -> None:
    """Leave a database as one from before checksums were noted, brought up to date."""
    with ResultsStore.open(url) as store, store.database.write() as connection:
        connection.execute(delete(checksums))


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

    old_database(store_url)
    for alter, what in ((other_weights, "reference of planted v1"), (other_ranking, ALTERED[other_ranking])):
        answer = call("run", *MORE, "--store", tmp_path / alter.__name__, "--db", store_url)
        assert (answer.code, answer.out) == (2, "")
        assert f"{alter.__name__} has another {what} than the one of " in answer.err
    assert rows(store_url)[1] == []


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


SPECIFIC = (
    *("--suite", "planted-protocols", "--limit", "8", "--protocol", "specific", "--seeds", "1"),
    *("--estimators", "truth"),
)


def test_other_networks_are_refused_and_a_lack_of_them_where_several_machines_may_share(
    call, store_url, tmp_path, monkeypatch
):
    """On SQLite a folder trains again what it lacks; here some rows are to be done again."""
    first = tmp_path / "first"
    assert call("run", *SPECIFIC, "--store", first, "--db", store_url).code == 0
    assert call("forget", "truth", "--why", "to do it again", "--yes", "--store", first, "--db", store_url).code == 0
    before, made = rows(store_url), runner.make_plan
    monkeypatch.delattr(runner, "make_plan")
    whats = {other_common_network: "network morf scalar 0", other_tuned_network: "network (tune truth morf scalar 0)"}
    for alter, what in whats.items():
        second = Path(shutil.copytree(first, tmp_path / alter.__name__))
        alter(second)
        answer = call("run", *SPECIFIC, "--store", second, "--db", store_url)
        assert (answer.code, answer.out) == (2, "")
        assert answer.err.splitlines()[-1].startswith(f"roarbench: {second} has another {what} of planted-protocols v1")
    assert rows(store_url) == before

    monkeypatch.setattr(runner, "make_plan", made, raising=False)
    second = tmp_path / "second"
    shutil.copytree(first / "rankings", second / "rankings")
    answer = call("run", *SPECIFIC, "--store", second, "--db", store_url)
    if store_url.startswith("sqlite"):
        assert answer.code == 0, answer.err
        assert {path.name for path in networks(second)} < {path.name for path in networks(first)}
    else:
        assert answer.code == 2
        assert f"{second} lacks the network morf scalar 0 of planted-protocols v1, which was made in" in answer.err
        assert not (second / "networks").exists()
