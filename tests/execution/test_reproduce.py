"""Which stored runs can be done again: of trained and of given references, of suites with and without retraining."""

from contextlib import contextmanager
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from roarbench.errors import CallerError
from roarbench.execution import local_workers, reproduce, runner
from roarbench.plan.suite import Block
from roarbench.plan.suites import VERSIONS
from roarbench.plan.weights import title
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


@pytest.fixture(autouse=True)
def suites(monkeypatch):
    """The small suite, with workers in this process."""
    monkeypatch.setitem(VERSIONS, ("tiny", 1), TRAINED)
    monkeypatch.setattr(local_workers, "LocalEngine", InlineEngine)


@contextmanager
def filled(suite, folder, reference=""):
    """A store with all runs of a suite on eight images."""
    with ResultsStore.open(default_url(folder)) as store:
        request = runner.Request(suite, limit=8, references=(reference,) if reference else ())
        assert runner.run_suite(request, Workspace(folder), store, CONSOLE).failed == 0
        yield store


def key(store, retrain, estimator="grad"):
    found = store.results(store.keys("")).values()
    (one,) = [r.run.key for r in found if (r.run.cell.estimator, r.run.cell.retrain) == (estimator, retrain)]
    return one


def again(store, folder, wanted, reference=""):
    request = reproduce.RerunRequest(wanted, reference=reference)
    return reproduce.reproduce(request, Workspace(folder), store, CONSOLE)


def test_runs_that_explain_a_trained_network(tmp_path, published):
    with filled(TRAINED, tmp_path) as store:
        for retrain in (Retrain.NONE, Retrain.IMAGES):
            assert again(store, tmp_path, key(store, retrain)).verdict is ReproductionOutcome.EQUAL
        with pytest.raises(CallerError, match="explains no weights that were given; leave --reference out"):
            again(store, tmp_path, key(store, Retrain.NONE), str(published))


SCORED = replace(SUITE, name="scored", blocks=TRAINED.blocks[1:])
RETRAINED = replace(SUITE, name="retrained", blocks=TRAINED.blocks[:1])
COMMON = replace(SUITE, name="common", blocks=(Block(AUGMENTED, ("random", "grad"), (0.5,), seeds=1),))
LENT = replace(COMMON, name="lent", tuned_on=Split.TEST)


@pytest.mark.parametrize(
    ("known", "estimator", "retrain"),
    [
        ([TRAINED, SCORED], "grad", Retrain.NONE),  # ranks test images alone, of published weights
        ([RETRAINED], "none", Retrain.NONE),  # how good the reference is, which no suite has among its runs
        ([COMMON, LENT], "grad", Retrain.COMMON),  # its network was tuned on masks of test images
    ],
    ids=lambda value: value[-1].name if isinstance(value, list) else str(value),
)
def test_a_run_is_made_as_its_own_suite_makes_it(tmp_path, published, monkeypatch, known, estimator, retrain):
    """Though another suite with the same images and network comes first in the table."""
    *others, suite = known
    suite = replace(suite, given=title("torchvision:small")) if suite is SCORED else suite
    for one in (*others, suite):
        monkeypatch.setitem(VERSIONS, (one.name, 1), one)
    if TRAINED not in others:
        monkeypatch.delitem(VERSIONS, ("tiny", 1))
    with filled(suite, tmp_path) as store:
        wanted = key(store, retrain, estimator)
        assert again(store, tmp_path, wanted).verdict is ReproductionOutcome.EQUAL
