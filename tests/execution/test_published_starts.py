"""Trainings that begin with published weights instead of random ones, of any of torchvision's networks."""

from dataclasses import replace

import pytest
import torch

from roarbench.errors import CallerError
from roarbench.estimators import CONTROLS
from roarbench.execution import common_networks as networks
from roarbench.execution import given_weights, jobs
from roarbench.execution.given_weights import load_start
from roarbench.models.build import build
from roarbench.plan import weights
from roarbench.plan.common import common_network
from roarbench.plan.recipes import RECIPES, find_recipe
from roarbench.plan.runs import CLEAN
from roarbench.plan.suite import Block
from roarbench.plan.suite_file import read_suite
from roarbench.protocols.augmented import AUGMENTED
from roarbench.protocols.roar import ROAR
from roarbench.terms import Order, Retrain, Unit
from tests.helpers.own_photos import TEXT, write_suite
from tests.helpers.tiny_suite import SUITE, make_runs, make_work, rank_all, score

NAME, OTHER = "torchvision:small", "torchvision:squeezenet1_1"


@pytest.fixture
def work(published, tmp_path, monkeypatch):
    """A suite whose trainings begin with it and do not move its weights: their learning rate is 0."""
    started = replace(find_recipe("planted@1"), name="started", epochs=1, peak=0.0, start=weights.title(NAME))
    monkeypatch.setitem(RECIPES, started.title, started)
    blocks = (Block(AUGMENTED, ("random",), (0.5,), seeds=2), Block(ROAR, ("random",), (0.5,), seeds=2))
    suite = replace(SUITE, name="started", recipe=started.title, blocks=blocks)
    return make_work(tmp_path, suite)


def parameters(state):
    """Without batch norm's statistics, which the images that a network sees move at any rate."""
    return {name: value for name, value in state.items() if not name.endswith(("mean", "var", "batches_tracked"))}


def test_networks_begin_with_published_weights_whatever_their_seed(work, published, monkeypatch):
    rank_all(work, *CONTROLS)
    for seed in (0, 1):
        common = common_network(work.suite, work.images.fingerprint, Order.MORF, Unit.SCALAR, seed)
        networks.train_common(work.place, common, work.control_specs(common.unit))
        found = parameters(work.place.networks.weights(common.key))
        torch.testing.assert_close(found, parameters(torch.load(published)), rtol=0, atol=0)
    runs = (run for run in make_runs(work, work.suite) if run.cell.retrain is Retrain.IMAGES)
    run, begun = next(run for run in runs if run.cell.estimator == CLEAN), []
    monkeypatch.setattr(jobs, "fit", lambda model, *_: begun.append(parameters(model.state_dict())) or 0.0)
    score(work, run)
    torch.testing.assert_close(begun, [parameters(torch.load(published))], rtol=0, atol=0)


def test_another_file_under_their_name_is_refused(work, monkeypatch):
    record = weights.PUBLISHED[NAME]._replace(file="tiny-00000000.pth")
    monkeypatch.setitem(weights.PUBLISHED, NAME, record)
    (given_weights.Path(torch.hub.get_dir()) / "checkpoints" / record.file).write_bytes(b"another")
    with pytest.raises(CallerError, match="is not torchvision's file: its checksum is another; delete it"):
        work.place.start(SUITE.model, find_recipe("started@1"), 0)


@pytest.mark.parametrize("classes", (5, 3))
def test_all_is_taken_over_but_a_last_layer_of_other_classes(publish_weights, monkeypatch, classes):
    published = build(OTHER, 5, 3, 32, torch.Generator().manual_seed(7)).state_dict()
    file = publish_weights(published).name
    monkeypatch.setattr(given_weights, "_file_of", lambda name, weights: file)
    model = build(OTHER, classes, 3, 32, torch.Generator().manual_seed(0))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    load_start(f"{OTHER}/IMAGENET1K_V1", model, 3)
    for name, tensor in model.state_dict().items():
        kept = name.startswith("classifier.1") and classes != 5
        torch.testing.assert_close(tensor, before[name] if kept else published[name], rtol=0, atol=0)
    with pytest.raises(CallerError, match="does not fit the suite's network"):
        load_start(f"{OTHER}/IMAGENET1K_V1", build("resnet8", 3, 3, 32, torch.Generator()), 3)


def test_the_file_is_the_one_that_torchvision_names():
    assert given_weights._file_of("resnet18", "IMAGENET1K_V1") == "resnet18-f37072fd.pth"
    for name, version, said in (
        ("resnet18", "IMAGENET1K_V9", "no weights of"),
        ("resnet19", "IMAGENET1K_V1", "no network"),
    ):
        with pytest.raises(CallerError, match=said):
            given_weights._file_of(name, version)


def test_a_suite_names_them_in_its_recipes(tmp_path):
    said = f'"{OTHER}"\nweights = "IMAGENET1K_V1"'
    suite = read_suite(write_suite(tmp_path, TEXT.replace('"resnet-planted"', said)))
    for recipe in (suite.recipe, suite.reference_recipe):
        assert find_recipe(recipe).start == f"{OTHER}/IMAGENET1K_V1"
    with pytest.raises(CallerError, match="weights are those of a torchvision:NAME"):
        read_suite(write_suite(tmp_path, TEXT.replace('"resnet-planted"', '"resnet8"\nweights = "X"')))
    with pytest.raises(CallerError, match="start is 'mine.pt', expected torchvision:NAME/WEIGHTS"):
        read_suite(write_suite(tmp_path, f'{TEXT}start = "mine.pt"\n'))
