"""Which stored runs can be done again: of trained and of given references, of suites with and without retraining."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import StringIO

import pytest
import torch
from rich.console import Console

from roarbench.errors import CallerError
from roarbench.execution import local_workers, reproduce, runner
from roarbench.models.build import build
from roarbench.plan.suite import Block
from roarbench.plan.suites import VERSIONS
from roarbench.plan.weights import PUBLISHED, Published, title
from roarbench.protocols.augmented import AUGMENTED
from roarbench.protocols.roar import ROAR
from roarbench.protocols.unretrained import MORF
from roarbench.store.entries import ReproductionOutcome
from roarbench.store.layout import Workspace
from roarbench.store.results import ResultsStore, default_url
from roarbench.terms import Retrain, Split
from tests.helpers.tiny_suite import SUITE, InlineEngine

pytestmark = pytest.mark.slow

CONSOLE = Console(file=StringIO())
TRAINED = replace(SUITE, blocks=(Block(ROAR, ("grad",), (0.5,), seeds=1), Block(MORF, ("grad",), (0.5,), seeds=1)))
SCORED = replace(SUITE, name="scored", blocks=(Block(MORF, ("grad",), (0.5,), seeds=1),))


@pytest.fixture(autouse=True)
def suites(monkeypatch):
    """The small suite, with workers in this process."""
    monkeypatch.setitem(VERSIONS, ("tiny", 1), TRAINED)
    monkeypatch.setattr(local_workers, "LocalEngine", InlineEngine)


def checkpoint(path, seed=7):
    torch.save(build("resnet-planted", 4, 3, 16, torch.Generator().manual_seed(seed)).state_dict(), path)
    return path


@pytest.fixture
def published(monkeypatch, tmp_path):
    """The name of a small network that torchvision is said to have published."""
    folder = tmp_path / "hub/checkpoints"
    folder.mkdir(parents=True)
    checksum = hashlib.sha256(checkpoint(folder / "small.pth").read_bytes()).hexdigest()
    path = (folder / "small.pth").rename(folder / f"small-{checksum[:8]}.pth")
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "hub"))
    monkeypatch.setitem(PUBLISHED, "torchvision:small", Published(path.name, "resnet-planted", 4, 3))
    return "torchvision:small"


@contextmanager
def filled(suite, folder, reference="") -> Iterator[ResultsStore]:
    """A store with all runs of a suite on eight images."""
    with ResultsStore.open(default_url(folder)) as store:
        request = runner.Request(suite, limit=8, references=(reference,) if reference else ())
        assert runner.run_suite(request, Workspace(folder), store, CONSOLE).failed == 0
        yield store


def key(store, retrain):
    """Of the run by the gradient's ranking."""
    found = store.results(store.keys("")).values()
    (one,) = [r.run.key for r in found if (r.run.cell.estimator, r.run.cell.retrain) == ("grad", retrain)]
    return one


def again(store, folder, wanted, reference=""):
    request = reproduce.RerunRequest(wanted, reference=reference)
    return reproduce.reproduce(request, Workspace(folder), store, CONSOLE)


@pytest.mark.parametrize("retrain", [Retrain.NONE, Retrain.IMAGES])
def test_a_run_that_explains_a_trained_network(tmp_path, retrain):
    with filled(TRAINED, tmp_path) as store:
        wanted = key(store, retrain)
        assert again(store, tmp_path, wanted).verdict is ReproductionOutcome.EQUAL
        file = checkpoint(tmp_path / "w.pt")
        with pytest.raises(CallerError, match="explains no weights that were given; leave --reference out"):
            again(store, tmp_path, wanted, str(file))


@pytest.mark.parametrize("retrain", [Retrain.NONE, Retrain.IMAGES])
def test_a_run_that_explains_a_file_asks_for_it(tmp_path, retrain):
    file, other = checkpoint(tmp_path / "w.pt"), checkpoint(tmp_path / "v.pt", seed=8)
    mark = title(str(file))
    with filled(replace(TRAINED, given=mark), tmp_path, str(file)) as store:
        wanted = key(store, retrain)
        with pytest.raises(CallerError, match=f"explains {mark}; write --reference FILE"):
            again(store, tmp_path, wanted)
        with pytest.raises(CallerError, match=f"v.pt is {title(str(other))}, this run explains {mark}; name that one"):
            again(store, tmp_path, wanted, str(other))
        assert again(store, tmp_path, wanted, str(file)).verdict is ReproductionOutcome.EQUAL


def test_a_suite_without_retraining_ranks_test_images_alone(tmp_path, published, monkeypatch):
    """Though another suite with the same images and network comes first in the table."""
    suite = replace(SCORED, given=title(published))
    monkeypatch.setitem(VERSIONS, ("scored", 1), suite)
    with filled(suite, tmp_path) as store:
        assert again(store, tmp_path, key(store, Retrain.NONE)).verdict is ReproductionOutcome.EQUAL


def test_how_good_the_reference_is_can_be_done_again_where_no_suite_has_it_among_its_runs(tmp_path, monkeypatch):
    retrained = replace(TRAINED, name="retrained", blocks=TRAINED.blocks[:1])
    monkeypatch.delitem(VERSIONS, ("tiny", 1))
    monkeypatch.setitem(VERSIONS, ("retrained", 1), retrained)
    with filled(retrained, tmp_path) as store:
        found = store.results(store.keys("")).values()
        (score,) = [row.run.key for row in found if row.run.cell.retrain is Retrain.NONE]
        assert again(store, tmp_path, score).verdict is ReproductionOutcome.EQUAL


def test_a_run_of_a_network_that_was_tuned_on_masks_of_test_images(tmp_path, monkeypatch):
    """Though a suite with the same rows comes first whose networks are tuned on masks of training images."""
    common = replace(SUITE, name="common", blocks=(Block(AUGMENTED, ("random", "grad"), (0.5,), seeds=1),))
    lent = replace(common, name="lent", tuned_on=Split.TEST)
    monkeypatch.setitem(VERSIONS, ("common", 1), common)
    monkeypatch.setitem(VERSIONS, ("lent", 1), lent)
    with filled(lent, tmp_path) as store:
        assert again(store, tmp_path, key(store, Retrain.COMMON)).verdict is ReproductionOutcome.EQUAL
