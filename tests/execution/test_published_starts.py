"""Trainings that begin with published weights instead of random ones, as their recipe says."""

from dataclasses import replace
from hashlib import sha256

import pytest
import torch

from roarbench.errors import CallerError
from roarbench.estimators import CONTROLS
from roarbench.estimators.catalogue import find_estimator
from roarbench.execution import common_networks as networks
from roarbench.execution import given_weights, jobs, shards
from roarbench.models.build import build
from roarbench.plan import weights
from roarbench.plan.common import common_network
from roarbench.plan.recipes import RECIPES, find_recipe
from roarbench.plan.runs import CLEAN
from roarbench.plan.suite import Block
from roarbench.protocols.augmented import AUGMENTED
from roarbench.protocols.roar import ROAR
from roarbench.terms import Order, Retrain, Split, Unit
from tests.helpers.tiny_suite import RECORD, SUITE, TEST, TRAIN, make_context, make_runs

NAME = "torchvision:tiny-v1"


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A network as torchvision would publish it, and the state that it holds."""
    folder, before = tmp_path_factory.mktemp("hub"), torch.hub.get_dir()
    model = build(SUITE.model, RECORD.classes, RECORD.channels, RECORD.size, torch.Generator().manual_seed(5))
    file = folder / "checkpoints" / "tiny.pth"
    file.parent.mkdir()
    torch.save(model.state_dict(), file)
    file = file.rename(file.with_name(f"tiny-{sha256(file.read_bytes()).hexdigest()[:8]}.pth"))
    record = weights.Published(file.name, SUITE.model, RECORD.classes, RECORD.channels)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(weights.PUBLISHED, NAME, record)
        torch.hub.set_dir(folder)
        yield model.state_dict()
    torch.hub.set_dir(before)


@pytest.fixture
def context(published, tmp_path, monkeypatch):
    """A suite whose trainings begin with it and do not move its weights: their learning rate is 0."""
    started = replace(find_recipe("planted@1"), name="started", epochs=1, peak=0.0, start=weights.title(NAME))
    monkeypatch.setitem(RECIPES, started.title, started)
    blocks = (Block(AUGMENTED, ("random",), (0.5,), seeds=2), Block(ROAR, ("random",), (0.5,), seeds=2))
    suite = replace(SUITE, name="started", recipe=started.title, blocks=blocks)
    return make_context(tmp_path, suite)


def parameters(state):
    """Without batch norm's statistics, which the images that a network sees move at any rate."""
    return {name: value for name, value in state.items() if not name.endswith(("mean", "var", "batches_tracked"))}


def test_a_common_network_begins_with_published_weights_whatever_its_seed(context, published):
    for name in CONTROLS:
        spec = context.ranking_spec(find_estimator(name), Unit.SCALAR)
        for split, count in ((Split.TRAIN, TRAIN), (Split.TEST, TEST)):
            shards.rank_shard(context, [spec], split, 0, count)
        shards.seal(context, spec)
    for seed in (0, 1):
        common = common_network(context.suite, context.data.fingerprint, Order.MORF, Unit.SCALAR, seed)
        networks.train_common(context, common)
        found = parameters(context.networks.weights(common.key))
        assert found.keys() == parameters(published).keys()
        assert all(torch.equal(found[name], value) for name, value in parameters(published).items())


def test_a_network_of_a_run_begins_with_them_too(context, published, monkeypatch):
    run = next(
        run
        for run in make_runs(context, context.suite)
        if (run.cell.estimator, run.cell.retrain) == (CLEAN, Retrain.IMAGES)
    )
    begun = []
    monkeypatch.setattr(jobs, "fit", lambda model, *_: begun.append(parameters(model.state_dict())) or 0.0)
    jobs.score(context, run)
    (state,) = begun
    assert all(torch.equal(state[name], value) for name, value in parameters(published).items())


def test_another_file_under_their_name_is_refused(context, monkeypatch):
    record = weights.PUBLISHED[NAME]._replace(file="tiny-00000000.pth")
    monkeypatch.setitem(weights.PUBLISHED, NAME, record)
    (given_weights.Path(torch.hub.get_dir()) / "checkpoints" / record.file).write_bytes(b"another")
    with pytest.raises(CallerError, match="is not torchvision's file: its checksum is another; delete it"):
        context.start(SUITE.model, find_recipe("started@1"), 0)
