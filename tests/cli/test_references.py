"""The command line where a store explains two references: a trained one and given weights."""

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
from tests.helpers.command_line import command, publish

pytestmark = pytest.mark.slow

SMALL = ("--suite", "planted", "--limit", "40")
PLANTED = replace(find_suite("planted"), blocks=(Block(ROAR, ("random", "grad"), (0.9,), seeds=1),))
RUNS = 3  # untouched images, random, grad


class ReferenceStores(NamedTuple):
    store: Path
    weights: Path
    shown: str  # what titles call them


@pytest.fixture(autouse=True)
def explaining(monkeypatch):
    """The suite `planted` with an estimator that explains."""
    publish(monkeypatch, PLANTED)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> ReferenceStores:
    """A store with the runs of random weights that were given; to be read only."""
    folder = tmp_path_factory.mktemp("references")
    network = build("resnet-planted", 4, 3, 16, torch.Generator().manual_seed(7))
    torch.save(network.state_dict(), folder / "random.pt")
    with pytest.MonkeyPatch.context() as patch:
        publish(patch, PLANTED)
        assert command("run", *SMALL, "--reference", folder / "random.pt", "--store", folder / "store") == 0
    shown = title(str(folder / "random.pt"))[: len("file@") + 8]
    return ReferenceStores(folder / "store", folder / "random.pt", shown)


def test_how_good_the_reference_is_is_told_by_every_run(call, tmp_path):
    weights = tmp_path / "random.pt"
    torch.save(build("resnet-planted", 4, 3, 16, torch.Generator().manual_seed(7)).state_dict(), weights)
    asked = ("run", *SMALL, "--reference", weights, "--store", tmp_path / "store")
    first, again = call(*asked).err.splitlines(), call(*asked).err.splitlines()
    for lines in (first, again):
        (told,) = (line for line in lines if "% correct" in line)
        assert told.startswith("planted v1 (small version: 40 images a split) (reference file@")
        assert told.endswith("near chance (25.0%) on untouched test images")
        assert "warning: maps of a reference near chance explain next to nothing" in lines[lines.index(told) + 1]
    with ResultsStore.open(default_url(tmp_path / "store"), read_only=True) as results:
        assert len(results.keys("")) == RUNS + 1
        whole = results.results(results.keys("")).values()
        score = next(row for row in whole if row.run.cell.retrain == "none")
    assert f"{score.correct / score.total:.1%} correct" in "".join(first)
    assert score.weights


def test_how_good_the_reference_is_is_known_before_anything_is_trained_on_its_maps(made):
    with ResultsStore.open(default_url(made.store), read_only=True) as results:
        rows = sorted(results.results(results.keys("")).values(), key=lambda row: row.created)
    names = [(row.run.cell.estimator, str(row.run.cell.retrain)) for row in rows]
    assert names.index(("none", "none")) < names.index(("grad", "images"))


def test_each_of_two_references_is_shown_where_it_is_asked_for(call, made, tmp_path):

    store = shutil.copytree(made.store, tmp_path / "store")
    alone = call("table", *SMALL, "--store", store)
    assert "reference trained by planted@1" in " ".join(alone.out.split())
    asked = f"roarbench table --suite planted --limit 40 --reference {made.shown} --store {store}"
    assert f"this store also has: {asked} (" in alone.err
    assert call("run", *SMALL, "--store", store).code == 0
    tables = {
        name: json.loads(call("table", *SMALL, "--store", store, "--format", "json", *asked).out)
        for name, asked in (
            ("trained", ()),
            ("file", ("--reference", made.weights)),
            ("name", ("--reference", made.shown)),
        )
    }
    assert tables["file"] == tables["name"] != tables["trained"]
    assert (tables["trained"]["reference"], tables["file"]["reference"]) == (None, title(str(made.weights)))
    assert all(table["reference_accuracy"] is not None for table in tables.values())
    grad = {name: next(row for row in table["rows"] if row["estimator"] == "grad") for name, table in tables.items()}
    assert grad["file"]["curve"]["0.9"] is not None and grad["trained"]["curve"]["0.9"] is not None
    text = call("table", *SMALL, "--store", store, "--reference", made.weights)
    assert f"(reference {made.shown}" in " ".join(text.out.split()) and "% correct" in text.out
    assert f"this store also has: roarbench table --suite planted --limit 40 --store {store} (" in text.err


def test_weights_that_nothing_explains_are_named(call, made, tmp_path):
    torch.save({"a": torch.zeros(1)}, tmp_path / "other.pt")
    answer = call("table", *SMALL, "--store", made.store, "--reference", tmp_path / "other.pt")
    assert answer.code == 0
    assert "this store also has" in answer.err  # controls depend on no reference
    answer = call("table", *SMALL, "--store", made.store, "--reference", "none.pt")
    assert (answer.code, answer.out) == (2, "")
    assert "--reference none.pt is no file" in answer.err


@pytest.mark.parametrize("words", ["run", "plan", "table"])
def test_published_weights_of_another_network_are_refused_before_they_are_fetched(call, made, words, monkeypatch):
    def download(*arguments, **options):
        raise AssertionError("nothing is to be fetched")

    monkeypatch.setattr(torch.hub, "download_url_to_file", download)
    answer = call(words, *SMALL, "--reference", "torchvision:resnet50-v1", "--store", made.store)
    assert (answer.code, answer.out) == (2, "")
    (line,) = answer.err.splitlines()
    assert line.startswith(
        "roarbench: torchvision:resnet50-v1 is a resnet50 of 1,000 classes, suite 'planted' explains"
    )


# --- several files


class TwoFiles(NamedTuple):
    store: Path
    asked: tuple[object, ...]  # the options that name both
    titles: tuple[str, str]


@pytest.fixture(scope="module")
def two(tmp_path_factory) -> TwoFiles:
    """A store with the runs of two checkpoints that were given together; to be read only."""
    folder = tmp_path_factory.mktemp("two")
    asked: list[object] = []
    for seed in (7, 8):
        network = build("resnet-planted", 4, 3, 16, torch.Generator().manual_seed(seed))
        torch.save(network.state_dict(), folder / f"{seed}.pt")
        asked += ["--reference", folder / f"{seed}.pt"]
    with pytest.MonkeyPatch.context() as patch:
        publish(patch, PLANTED)
        assert command("run", *SMALL, *asked, "--store", folder / "store") == 0
    titles = tuple(title(str(folder / f"{seed}.pt")) for seed in (7, 8))
    return TwoFiles(folder / "store", tuple(asked), titles)


def explained(store: Path) -> dict[int, str]:
    with ResultsStore.open(default_url(store), read_only=True) as results:
        found = results.results(results.keys("")).values()
        assert len({row.weights for row in found if row.run.cell.estimator == "grad"}) == 2
        return {row.run.seed: row.run.given for row in found if row.run.cell.estimator == "grad"}


def test_file_number_i_is_explained_by_seed_i(call, two):
    assert explained(two.store) == dict(enumerate(two.titles))
    again = call("run", *SMALL, *two.asked, "--store", two.store)
    assert (again.code, "runs are done" in again.err) == (0, True)
    assert "2 references 25.0%, 25.0% correct" in again.err


def test_the_title_names_both(call, two):
    words = f"(references {', '.join(name[:13] for name in two.titles)})"
    for asked in (two.asked, [word for name in two.titles for word in ("--reference", name[:13])]):
        answer = call("table", *SMALL, *asked, "--store", two.store)
        assert words in " ".join(answer.out.split())
        assert "for this network only" not in answer.out
    found = json.loads(call("table", *SMALL, *two.asked, "--store", two.store, "--format", "json").out)
    assert found["reference"] == ",".join(two.titles)
    assert (found["references"], found["one_network"]) == (2, False)
    assert {row["estimator"]: row["seeds"] for row in found["rows"]} == {"random": 2, "grad": 2}


def test_networks_that_were_given_together_are_told_of_together(call, two):
    alone = call("table", *SMALL, "--store", two.store)
    asked = " ".join(f"--reference {name[:13]}" for name in two.titles)
    assert f"this store also has: roarbench table --suite planted --limit 40 {asked} --store" in alone.err


@pytest.mark.parametrize("word", ["plan", "status", "keys", "validity", "claims"])
def test_other_commands_take_both(call, two, word):
    suite = ("--suite", "planted", "--limit", "40")
    answer = call(word, *suite, *two.asked, "--store", two.store)
    assert answer.code == 0, answer.err
    if word != "keys":
        assert " ".join(f"file@{name[5:13]}" for name in two.titles) in " ".join(answer.out.replace(",", "").split())


def test_every_file_can_be_reproduced_by_itself(call, two, tmp_path):
    with ResultsStore.open(default_url(two.store), read_only=True) as results:
        found = results.results(results.keys("")).values()
        key = next(row.run.key for row in found if (row.run.cell.estimator, row.run.seed) == ("grad", 1))
    store = shutil.copytree(two.store, tmp_path / "store")
    first, second = two.asked[1], two.asked[3]
    wrong = call("reproduce", key, "--reference", first, "--store", store)
    assert (wrong.code, "name that one" in wrong.err) == (2, True)
    right = call("reproduce", key, "--reference", second, "--store", store)
    assert (right.code, right.out.startswith("equal: ")) == (0, True)
    assert "planted v1" in call("show", key, "--store", store).out


def test_one_of_them_alone_has_the_rows_that_explain_it(call, two, tmp_path):
    """What was done with the other is not done again, and the intervals are for this network only."""
    store = shutil.copytree(two.store, tmp_path / "store")
    asked = (*SMALL, "--reference", two.asked[1], "--store", store)
    before = json.loads(call("table", *asked, "--format", "json").out)
    assert {row["estimator"]: row["seeds"] for row in before["rows"]}["grad"] == 1
    assert call("run", *asked, "--seeds", "2").code == 0
    with ResultsStore.open(default_url(store), read_only=True) as results:
        found = results.results(results.keys("")).values()
        grad = {(row.run.given, row.run.seed) for row in found if row.run.cell.estimator == "grad"}
    assert grad == {(two.titles[0], 0), (two.titles[1], 1), (two.titles[0], 1)}


def test_the_same_network_twice_is_refused_in_one_line(call, two, tmp_path):
    copied = shutil.copy(two.asked[1], tmp_path / "copy.pt")
    for word in ("run", "plan"):
        twice = call(word, *SMALL, *two.asked[:2], *two.asked[:2], "--store", tmp_path / "store")
        assert (twice.code, twice.out, twice.err.count("\n")) == (2, "", 1)
        assert f"--reference {two.asked[1]} is named twice; name each network once" in twice.err
        same = call(word, *SMALL, *two.asked[:2], "--reference", copied, "--store", tmp_path / "store")
        assert f"--reference {copied} has the weights of {two.asked[1]}; name each network once" in same.err
    answer = call("run", *SMALL, *two.asked, "--seeds", "1", "--store", tmp_path / "store")
    assert (answer.code, "--seeds 1 and 2 references" in answer.err) == (2, True)
    assert not (tmp_path / "store").exists()
