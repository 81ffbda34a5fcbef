"""Suites of given networks with their own weights and architectures, from suite file to results."""

import json
import sys
from dataclasses import replace
from io import StringIO
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import nn

from roarbench.analysis.collect_results import collect_results
from roarbench.common.enums import Order, Split
from roarbench.common.errors import CallerError
from roarbench.common.identity import encode_canonically
from roarbench.compute.networks import build_network
from roarbench.compute.prediction import Normalisation, normalise
from roarbench.execution.network_trials import check_network_and_drop_estimators
from roarbench.execution.network_weights import load_given_weights
from roarbench.execution.reproduction import reproduce
from roarbench.execution.run_suite import Request, run_suite
from roarbench.plan.cells_and_runs import make_weights_title
from roarbench.plan.protocols import MORF, OWN_NETWORK
from roarbench.plan.settings import Settings
from roarbench.plan.suite import Block
from roarbench.plan.suite_changes import set_explained_networks
from roarbench.plan.suites import convert_user_suite_to_record, read_suite, read_user_suite_record
from roarbench.store import user_files
from roarbench.store.results import ReproductionOutcome
from roarbench.store.user_files import record_trusted_network, store_or_replace_suite
from roarbench.store.workspace import Workspace
from tests.helpers.networks import randomise_weights
from tests.helpers.store_rows import list_result_keys
from tests.helpers.tiny_suite import SUITE, InlineEngine, make_runs, make_work, open_rankings, removed, run_missing
from tests.helpers.trainings import seeded

FILE = """
from torch import nn
def make(classes, channels, size):
    layers = [nn.Conv2d(channels, 4, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(16, classes))
"""
TEXT = """
name = "mixed"
protocols = ["own-network"]
networks = ["resnet-planted@one.pt", "resnet-planted@two.pt", "net.py:make@three.pt"]
estimators = ["grad"]
levels = [0.3]
data = {known = "planted"}
recipe = {like = "planted@1"}
"""


def make_network(seed, name="resnet-planted", source=""):
    """Make a network of four classes whose predictions differ between images."""
    generator = seeded(seed)
    return randomise_weights(build_network(name, 4, 3, 8, generator, source), generator)


def save(path, *network):
    torch.save(make_network(*network).state_dict(), path)


@pytest.fixture
def path(tmp_path):
    """The suite file beside the files of its networks."""
    (tmp_path / "net.py").write_text(FILE)
    save(tmp_path / "one.pt", 0)
    save(tmp_path / "two.pt", 1)
    save(tmp_path / "three.pt", 2, "net.make@0", FILE)
    (tmp_path / "mixed.toml").write_text(TEXT)
    return tmp_path / "mixed.toml"


def test_read_suite_reads_networks_and_record_round_trips(path):
    suite = read_suite(path)
    names = [suite.find_network(number).name.partition("@")[0] for number in range(3)]
    assert names == ["resnet-planted", "resnet-planted", "net.make"]
    assert suite.given.count("file@") == suite.references == 3
    kept = read_user_suite_record(json.loads(encode_canonically(convert_user_suite_to_record(suite))))
    assert kept == suite
    assert str(path.parent) not in encode_canonically(convert_user_suite_to_record(suite))
    assert kept.networks[2].source == FILE
    with pytest.raises(CallerError, match="already specifies its explained networks; change networks in its file"):
        set_explained_networks(suite, [str(path.parent / "one.pt")])


def test_each_given_network_is_scored_under_maps_of_every_network(path, store, tmp_path):
    suite = check_network_and_drop_estimators(read_suite(path)).suite
    work = replace(make_work(tmp_path, suite), given=tuple(each.weights for each in suite.networks))
    runs = make_runs(work, suite)
    assert [event.failure for event in run_missing(work, runs, store, InlineEngine()) if event.failure] == []
    results = collect_results(suite, store, None, work.images.fingerprint)
    stored = store.read_seeds_and_removals_by_version(suite.dataset, suite.model)
    numbers = {given: {seed for seed, _ in seeds} for (*_, given), seeds in stored.items()}
    assert numbers == {each.given: {number} for number, each in enumerate(suite.networks)}
    assert results.complete
    assert isinstance(work.explained[2].load_trained()[4], nn.Linear)
    pixels, mean = torch.from_numpy(work.images.test.pixels).float(), torch.tensor(work.images.mean)[:, None, None]
    norm = Normalisation.of(work.images)
    for point, result in results.results.items():
        explained, scored = divmod(point.seed, 100)
        if point.cell.estimator == "grad":
            gone = removed(open_rankings(work, "grad", explained), Split.TEST, 0.3, Order.MORF)
            left = torch.where(torch.from_numpy(gone).view(pixels.shape), mean, pixels)
            with torch.no_grad():
                said = work.explained[scored].load_trained()(normalise(left, norm)).argmax(1).numpy()
                asked = work.explained[explained].load_trained()(normalise(pixels, norm)).argmax(1).numpy()
            np.testing.assert_array_equal(result.correctness, said == asked)


@pytest.fixture
def ran(tmp_path, store, monkeypatch):
    """Functions that run a suite on eight images per split, and that reproduce one of its results."""
    monkeypatch.setattr("roarbench.execution.run_suite.LocalEngine", InlineEngine)
    workspace, console = Workspace(tmp_path), Console(file=StringIO())

    def run(suite, files=()):
        request = Request(suite, Settings(workspace.root, limit=8, weights=files))
        assert run_suite(request, store, console).failed == 0
        rows = store.read_results(list_result_keys(store)).values()
        assert len({row.bits for row in rows}) > 3  # so that equal results are not trivial
        return {(row.run.cell.estimator, row.run.cell.t, row.run.seed): row for row in rows}

    def again(row, *files):
        return reproduce(row.run.key, Settings(workspace.root, weights=files), store, console).verdict

    return SimpleNamespace(run=run, again=again)


PAIRS = [("none", 0.0, 100), ("grad", 0.3, 2), ("grad", 0.3, 201), ("random", 0.3, 101)]


def test_reproduce_needs_only_weights_of_explained_and_scored_network(path, store, ran):
    suite = check_network_and_drop_estimators(read_suite(path)).suite
    store_or_replace_suite(store.database, suite)
    record_trusted_network(suite)
    rows = ran.run(suite)
    one, two, three = (each.weights for each in suite.networks)
    third = suite.find_given_weights(2)
    for row, files in zip(PAIRS, [(one, two), (three, one), (two, three, one), (two,)], strict=True):
        assert ran.again(rows[row], *files) is ReproductionOutcome.EQUAL, row
    with pytest.raises(CallerError, match=f"this run needs the weights {third}; add --reference"):
        ran.again(rows["grad", 0.3, 2], one, two)


def test_reproduce_accepts_reference_files_given_to_built_in_suite(path, ran, monkeypatch):
    save(path.with_name("four.pt"), 5)
    files = [str(path.with_name(f"{name}.pt")) for name in ("one", "two", "four")]
    blocks = (Block(OWN_NETWORK, ("random", "grad"), (0.3,), 1), Block(MORF, ("grad~other-reference",), (0.3,), 1))
    known = replace(SUITE, blocks=blocks)
    monkeypatch.setattr(user_files, "SUITE_VERSIONS", {(known.name, known.version): known})
    rows = ran.run(set_explained_networks(known, files), tuple(files))
    one, two, four = files
    for row, needed in zip(PAIRS, [(two, one), (one, four), (two, four), (two,)], strict=True):
        assert ran.again(rows[row], *needed) is ReproductionOutcome.EQUAL, row
    lent = rows["grad~other-reference", 0.3, 2]  # network 2 scored under the maps of network 0
    assert ran.again(lent, *files) is ReproductionOutcome.EQUAL
    with pytest.raises(CallerError, match=f"this run needs the weights {make_weights_title(four)}; add "):
        ran.again(lent, one)


WRONG = (
    ("make@three.pt", "make", "specifies no weights; write NETWORK@FILE"),
    ("three.pt", "lost.pt", "lost.pt is not a file"),
    ("two.pt", "one.pt", "own-network compares networks with each other"),
    ("two.pt", "./one.pt", "with the same weights as another"),
    ('["own-network"]', '["own-network", "roar"]', "networks lists given weights, but roar trains networks"),
)


@pytest.mark.parametrize(("old", "new", "said"), WRONG)
def test_read_suite_rejects_invalid_networks(path, old, new, said):
    path.write_text(TEXT.replace(old, new))
    with pytest.raises(CallerError) as refused:
        read_suite(path)
    assert said in str(refused.value)
    assert str(path) in str(refused.value)


def test_load_given_weights_returns_timm_weights_and_normalisation(monkeypatch):
    model, published = nn.Linear(3, 2), nn.Linear(3, 2)
    about = SimpleNamespace(mean=(0.5,) * 3, std=(0.25,) * 3)
    timm = SimpleNamespace(create_model=lambda name, pretrained: published, get_pretrained_cfg=lambda name: about)
    monkeypatch.setitem(sys.modules, "timm", timm)
    assert load_given_weights("timm:net.a1", model, 3, "timm:net.a1") == Normalisation((127.5,) * 3, (63.75,) * 3)
    torch.testing.assert_close(model.state_dict(), published.state_dict())
    with pytest.raises(CallerError, match=r"bias has shape \(2,\), expected \(5,\)"):
        load_given_weights("timm:net.a1", nn.Linear(3, 5), 3, "timm:net.a1")
