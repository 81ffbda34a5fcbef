"""The command line where a store explains given weights, of one file and of several, and a trained reference."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from roarbench.models.build import build
from roarbench.plan.suite import Block
from roarbench.plan.suites import find_suite
from roarbench.plan.weights import title
from roarbench.protocols.roar import ROAR
from roarbench.store.results import ResultsStore, default_url
from tests.helpers.command_line import command

pytestmark = pytest.mark.slow

SMALL = ("--suite", "planted", "--limit", "40")
PUBLISHED = replace(find_suite("planted"), blocks=(Block(ROAR, ("random", "grad"), (0.9,), seeds=1),))


class TwoFiles(NamedTuple):
    store: Path
    asked: tuple[object, ...]  # the options that name both
    titles: tuple[str, str]

    @property
    def at(self) -> tuple[object, ...]:
        return "--store", self.store


@pytest.fixture(scope="module")
def two(tmp_path_factory) -> TwoFiles:
    """A store with the runs of two checkpoints that were given together; to be read only."""
    folder = tmp_path_factory.mktemp("two")
    asked: list[object] = []
    for seed in (7, 8):
        network = build("resnet-planted", 4, 3, 16, torch.Generator().manual_seed(seed))
        torch.save(network.state_dict(), folder / f"{seed}.pt")
        asked += ["--reference", folder / f"{seed}.pt"]
    assert command("run", *SMALL, *asked, "--store", folder / "store") == 0
    return TwoFiles(folder / "store", tuple(asked), tuple(title(str(folder / f"{seed}.pt")) for seed in (7, 8)))


def explained(store: Path) -> dict[tuple[int, str], str]:
    """The keys of the rows that explain, by their seed and the weights that they explain."""
    with ResultsStore.open(default_url(store), read_only=True) as results:
        found = results.results(results.keys("")).values()
        return {(row.run.seed, row.run.given): row.run.key for row in found if row.run.cell.estimator == "grad"}


def test_file_number_i_is_explained_by_seed_i_and_the_title_names_both(call, two):
    assert set(explained(two.store)) == set(enumerate(two.titles))
    again = call("run", *SMALL, *two.asked, *two.at)
    assert (again.code, "runs are done" in again.err) == (0, True)
    assert "2 references 25.0%, 25.0% correct" in again.err and "near chance" in again.err
    answer = call("table", *SMALL, *(word for name in two.titles for word in ("--reference", name[:13])), *two.at)
    assert f"(references {', '.join(name[:13] for name in two.titles)})" in " ".join(answer.out.split())
    found = json.loads(call("table", *SMALL, *two.asked, *two.at, "--format", "json").out)
    assert (found["reference"], found["references"], found["one_network"]) == (",".join(two.titles), 2, False)
    assert {row["estimator"]: row["seeds"] for row in found["rows"]} == {"random": 2, "grad": 2}
    for word in ("plan", "status", "validity", "claims"):
        answer = call(word, *SMALL, *two.asked, *two.at)
        assert " ".join(name[:13] for name in two.titles) in " ".join(answer.out.replace(",", "").split()), word


def test_every_file_can_be_reproduced_by_itself(call, two, tmp_path):
    key = explained(two.store)[1, two.titles[1]]
    store = shutil.copytree(two.store, tmp_path / "store")
    wrong = call("reproduce", key, "--reference", two.asked[1], "--store", store)
    assert (wrong.code, "name that one" in wrong.err) == (2, True)
    right = call("reproduce", key, "--reference", two.asked[3], "--store", store)
    assert (right.code, right.out.startswith("equal: ")) == (0, True)


def test_what_names_no_network_of_the_suite_once_is_refused_in_one_line(call, two, tmp_path, monkeypatch):
    def download(*arguments, **options):
        raise AssertionError("nothing is to be fetched")

    monkeypatch.setattr(torch.hub, "download_url_to_file", download)
    copied = shutil.copy(two.asked[1], tmp_path / "copy.pt")
    for words, said in (
        (("--reference", "torchvision:resnet50-v1"), "torchvision:resnet50-v1 is a resnet50 of 1,000 classes, suite"),
        (("--reference", "none.pt"), "--reference none.pt is no file"),
        (two.asked[:2] * 2, f"--reference {two.asked[1]} is named twice; name each network once"),
        ((*two.asked[:2], "--reference", copied), f"--reference {copied} has the weights of {two.asked[1]}; name each"),
        ((*two.asked, "--seeds", "1"), "--seeds 1 and 2 references"),
    ):
        answer = call("run", *SMALL, *words, "--store", tmp_path / "store")
        assert (answer.code, answer.out, answer.err.count("\n"), said in answer.err) == (2, "", 1, True)
    assert not (tmp_path / "store").exists()
    torch.save({"a": torch.zeros(1)}, tmp_path / "other.pt")
    answer = call("run", *SMALL, "--reference", tmp_path / "other.pt", "--store", tmp_path / "store")
    assert (answer.code, "does not fit the suite's network" in answer.err) == (2, True)
    assert not list(tmp_path.glob("store/data/*")), "nothing was decoded"
