"""Given weights of explained networks, with their normalisation, and starting weights of trainings."""

import argparse
import json
import math
import pickle
import warnings
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from roarbench.common.enums import Order, ScoredNetwork, Split, Unit
from roarbench.common.errors import CallerError
from roarbench.compute import torchvision_networks
from roarbench.compute.networks import build_network
from roarbench.compute.prediction import Normalisation
from roarbench.estimators.estimator import CONTROLS
from roarbench.execution import network_weights, training_and_scoring
from roarbench.execution.network_weights import load_given_weights, load_starting_weights
from roarbench.plan.cells_and_runs import CLEAN, PUBLISHED_WEIGHTS, make_weights_title
from roarbench.plan.planned_runs import make_common_network_spec
from roarbench.plan.protocols import MATCHED, ROAR
from roarbench.plan.recipes import RECIPES, find_recipe
from roarbench.plan.suite import Block
from tests.helpers import slow_pipeline as slow
from tests.helpers.networks import randomise_weights
from tests.helpers.tiny_suite import (
    SUITE,
    TEST,
    make_runs,
    make_scalar_spec,
    make_work,
    open_rankings,
    rank_all,
    removed,
    score,
)
from tests.helpers.trainings import network

NAME, OTHER = "torchvision:small", "torchvision:squeezenet1_1"
MEAN, STD = (100.0, 120.0, 140.0), (40.0, 50.0, 60.0)  # differ from the statistics of the images


@pytest.fixture
def weights(published):
    return torch.load(published)


def load(path, model=None, name="resnet8"):
    """Load a file's weights into a network, and return the normalisation."""
    return load_given_weights(str(path), model or network(), 3, name)


def test_published_weights_have_torchvision_normalisation(weights):
    """torchvision documents 0.485 … and 0.229 … for IMAGENET1K_V1 and images in [0, 1]."""
    model = network()
    norm = load("torchvision:small", model)
    torch.testing.assert_close(model.state_dict(), weights, rtol=0, atol=0)
    torch.testing.assert_close(torch.tensor(norm.mean) / 255, torch.tensor([0.485, 0.456, 0.406]))
    torch.testing.assert_close(torch.tensor(norm.std) / 255, torch.tensor([0.229, 0.224, 0.225]))


class CodeInPickle:
    def __reduce__(self):
        return print, ("code of the file was run",)


@pytest.mark.parametrize(
    "write",
    [
        lambda path: path.write_bytes(pickle.dumps({"a": [1]})),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"PK\x03\x04"),
        lambda path: torch.save({"state_dict": {0: torch.zeros(2)}}, path),
        lambda path: torch.save({"a": CodeInPickle()}, path),
        lambda path: path.with_suffix(".safetensors").write_bytes(b"nothing that anyone saved"),
    ],
)
def test_load_given_weights_rejects_files_without_state_dict(tmp_path, write, capsys):
    """The code of a pickle is never run, and torch's own warnings do not appear."""
    write(tmp_path / "w.pt")
    refused = pytest.raises(CallerError, match=r"^[^\n]*; [^\n]*save weights with torch.save\([^\n]*$")
    with warnings.catch_warnings(record=True) as said, refused:
        warnings.simplefilter("always")
        load(next(tmp_path.iterdir()))
    assert (said, capsys.readouterr().out) == ([], "")


INDEX = """{"metadata": {}, "weight_map": {"a.weight": "model-00001-of-00002.safetensors",
"a.bias": "model-00001-of-00002.safetensors", "b.weight": "model-00002-of-00002.safetensors"}}"""


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("model.safetensors.index.json", INDEX, r"lists the 2 files of a network's weights \(model-00001-of-00002"),
        ("pytorch_model.bin.index.json", INDEX, "lists the 2 files"),
        ("config.json", "{}", "is a JSON file without weights; save weights with torch.save"),
        ("folder", None, "is a folder; name a file of weights in it"),
    ],
)
def test_load_given_weights_names_indices_and_folders(tmp_path, name, content, words):
    path = tmp_path / name
    path.mkdir() if content is None else path.write_text(content)
    with pytest.raises(CallerError, match=words):
        load(path)


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("model.pt", r"use weights of that network, with the names of its state dict: save weights with torch.save\("),
        ("model-00001-of-00002.pt", "the file has a part of a network; load all with its library, and save weights"),
    ],
)
def test_load_given_weights_advises_on_other_names_and_parts_of_networks(tmp_path, file, words):
    """transformers 5 writes other names into a file than the network's state dict has."""
    torch.save(
        {f"vit.{name}": weights for name, weights in network().state_dict().items() if "bias" in name}, tmp_path / file
    )
    with pytest.raises(CallerError, match=words):
        load(tmp_path / file, name="mine.make@0123")


@pytest.mark.parametrize("name", ["w.pt", "w.safetensors"])
@pytest.mark.parametrize("carried", [None, Normalisation(MEAN, STD)])
def test_load_given_weights_returns_stored_normalisation(tmp_path, weights, name, carried):
    """Old state dicts without `num_batches_tracked` are accepted, too."""
    old = {name: tensor for name, tensor in weights.items() if not name.endswith("num_batches_tracked")}
    assert 0 < len(old) < len(weights)
    path, model = tmp_path / name, network()
    values = {part: list(numbers) for part, numbers in carried._asdict().items()} if carried else {}
    if name == "w.safetensors":
        save_file(weights, path, {part: json.dumps(numbers) for part, numbers in values.items()} | {"format": "pt"})
    else:
        torch.save({"state_dict": weights, **values} if carried else old, path)
    assert load(path, model) == carried
    torch.testing.assert_close(model.state_dict(), weights, rtol=0, atol=0)


def test_load_given_weights_accepts_equal_weights_under_two_names(tmp_path, weights):
    torch.save({"state_dict": weights, "state_dict_ema": dict(weights)}, tmp_path / "w.pt")
    model = network()
    load(tmp_path / "w.pt", model)
    torch.testing.assert_close(model.state_dict(), weights, rtol=0, atol=0)


SAVE = "save weights with torch.save(model.state_dict(), FILE)"


def set_bias(values):
    """Return a function that sets the last layer's bias in a state dict."""
    return lambda weights: weights | {"linear.bias": values}


@pytest.mark.parametrize(
    ("make", "seen"),
    [
        (lambda w: dict(list(w.items())[:-1]), "linear.bias is missing;"),
        (set_bias(torch.zeros(5)), "linear.bias has shape (5,), expected (4,);"),
        (lambda w: {"state_dict": w, "mean": [1.0] * 3, "std": [0.0] * 3}, "std above 0"),
        (set_bias(torch.full((4,), math.nan)), "linear.bias contains NaN or infinity;"),
        (set_bias(torch.zeros(4).to_sparse()), "linear.bias is sparse;"),
        (set_bias(torch.zeros(4, dtype=torch.int8)), "linear.bias has type int8, expected float32;"),
        (set_bias(torch.zeros(4, device="meta")), "linear.bias has no values;"),
        (
            lambda w: {"student": w, "teacher": {name: 2 * value for name, value in w.items()}},
            "different weights under 'student', 'teacher'; save one of them",
        ),
        (lambda w: [w], f"contains no state dict; {SAVE}"),
        (lambda w: network(), f"is never run; if you trust the file, load it and {SAVE}"),
        (lambda w: {"net": w, "mean": torch.ones(4), "std": torch.ones(4)}, "1.0]; expected 3 numbers each"),
        (lambda w: {"net": w, "mean": [0] * 3, "std": [1] * 3}, "which suits images in [0, 1] and images in [0, 255]"),
        (lambda w: {"net": w, "mean": [1] * 3, "std": [1] * 3, "range": 0}, "has range 0; expected the largest value"),
    ],
)
def test_load_given_weights_rejects_mismatched_state_dicts(tmp_path, weights, make, seen):
    torch.save(make(weights), tmp_path / "w.pt")
    with pytest.raises(CallerError) as error:
        load(tmp_path / "w.pt")
    assert seen in str(error.value)
    assert "\n" not in str(error.value)


def average_weights(state):
    model = network()
    model.load_state_dict(state)
    return torch.optim.swa_utils.AveragedModel(model).state_dict()


@pytest.mark.parametrize(
    "wrap",
    [
        lambda w: {"state_dict": w, "epoch": 3, "best_acc1": np.float64(0.9), "optimizer": {"state": {0: {}}}},
        lambda w: {"model_state_dict": w, "args": argparse.Namespace(lr=0.1)},
        lambda w: {"state_dict": {f"model.{name}": value for name, value in w.items()}, "hyper_parameters": {"a": 1}},
        lambda w: {f"module._orig_mod.{name}": value for name, value in w.items()},
        lambda w: {name: torch.nn.Parameter(value.double()) for name, value in w.items()},
        average_weights,
    ],
)
def test_load_given_weights_accepts_common_checkpoint_layouts(tmp_path, weights, wrap):
    """Layouts of torchvision's training script, Lightning, DataParallel, torch.compile, and SWA."""
    path, model = tmp_path / "w.safetensors", network()  # a pickle despite its name
    torch.save(wrap(weights), path)
    assert load(path, model) is None
    torch.testing.assert_close(model.state_dict(), weights, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("said", "mean", "std"),
    [
        ({"mean": torch.tensor([120.0] * 3), "std": np.array([30.0] * 3)}, 120.0, 30.0),
        ({"mean": (0.5,) * 3, "std": (0.25,) * 3}, 127.5, 63.75),
        ({"mean": [103.5] * 3, "std": [1] * 3}, 103.5, 1.0),  # as in Caffe
        ({"mean": [0] * 3, "std": [1] * 3, "range": 1}, 0.0, 255.0),
        ({"mean": [0.5] * 3, "std": [0.5] * 3, "range": torch.tensor(255)}, 0.5, 0.5),
    ],
)
def test_load_given_weights_scales_normalisation_to_255(tmp_path, weights, said, mean, std):
    torch.save({"state_dict": weights, **said}, tmp_path / "w.pt")
    norm = load(tmp_path / "w.pt")
    assert norm == ((mean,) * 3, (std,) * 3)
    assert {type(number) for part in norm for number in part} == {float}


def drop_batch_norm_statistics(state):
    """Drop batch norm statistics, which change even at learning rate 0."""
    return {name: value for name, value in state.items() if not name.endswith(("mean", "var", "batches_tracked"))}


def test_networks_start_from_published_weights(weights, tmp_path, monkeypatch):
    """The learning rate is 0, so trainings keep the weights; a file with a wrong checksum is rejected."""
    started = replace(find_recipe("planted@1"), name="started", epochs=1, peak=0.0, start=make_weights_title(NAME))
    monkeypatch.setitem(RECIPES, started.title, started)
    blocks = (Block(MATCHED, ("random",), (0.5,), seeds=2), Block(ROAR, ("random",), (0.5,), seeds=2))
    work = make_work(tmp_path, replace(SUITE, name="started", recipe=started.title, blocks=blocks))
    rank_all(work, *CONTROLS)
    common = make_common_network_spec(work.suite, work.images.fingerprint, Order.MORF, Unit.SCALAR, 1)
    training_and_scoring.train_common_network(work, common)
    found = drop_batch_norm_statistics(work.get_stored_network(common.key).load_weights())
    torch.testing.assert_close(found, drop_batch_norm_statistics(weights), rtol=0, atol=0)
    runs = (run for run in make_runs(work, work.suite) if run.cell.retrain is ScoredNetwork.IMAGES)
    fit = Mock(return_value=0.0)
    monkeypatch.setattr(training_and_scoring, "fit", fit)
    score(work, next(run for run in runs if run.cell.estimator == CLEAN))
    begun = drop_batch_norm_statistics(fit.call_args.args[0].state_dict())
    torch.testing.assert_close(begun, drop_batch_norm_statistics(weights), rtol=0, atol=0)
    fit.assert_called_once()
    record = PUBLISHED_WEIGHTS[NAME]._replace(file="tiny-00000000.pth")
    monkeypatch.setitem(PUBLISHED_WEIGHTS, NAME, record)
    (network_weights.Path(torch.hub.get_dir()) / "checkpoints" / record.file).write_bytes(b"another")
    with pytest.raises(CallerError, match="is not torchvision's file: its checksum differs; delete it, so that it is"):
        network_weights.build_starting_network(work.suite, started, 0)


def test_load_starting_weights_skips_last_layer_with_other_classes(publish_weights, monkeypatch):
    published = build_network(OTHER, 5, 3, 32, torch.Generator().manual_seed(7)).state_dict()
    file = publish_weights(published).name
    monkeypatch.setattr(
        torchvision_networks, "find_torchvision_weights", lambda name, weights: SimpleNamespace(url=file)
    )
    model = build_network(OTHER, 3, 3, 32, torch.Generator().manual_seed(0))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    load_starting_weights(f"{OTHER}/IMAGENET1K_V1", model, 3, OTHER)
    for name, tensor in model.state_dict().items():
        kept = name.startswith("classifier.1")
        torch.testing.assert_close(tensor, before[name] if kept else published[name], rtol=0, atol=0)
    with pytest.raises(CallerError, match="does not fit the suite's network"):
        network = build_network("resnet8", 3, 3, 32, torch.Generator())
        load_starting_weights(f"{OTHER}/IMAGENET1K_V1", network, 3, "resnet8")


def test_make_weights_title_contains_file_checksum(tmp_path):
    (tmp_path / "w.pt").write_bytes(b"abc")
    # SHA-256 of abc: FIPS 180-2
    assert make_weights_title(str(tmp_path / "w.pt")) == "file@ba7816bf8f01cfea414140de5dae2223"
    assert make_weights_title("torchvision:resnet50-v1") == "torchvision:resnet50-v1@0676ba61"
    found = torchvision_networks.find_torchvision_weights("resnet18", "IMAGENET1K_V1")
    assert found.url.endswith("/resnet18-f37072fd.pth")
    with pytest.raises(CallerError, match="no weights of torchvision:resnet18 'IMAGENET1K_V9'"):
        load_starting_weights("torchvision:resnet18/IMAGENET1K_V9", torch.nn.Identity(), 3, "resnet18")


def test_given_network_is_scored_and_explained_with_its_normalisation(tmp_path):
    """Controls use the normalisation of the suite, so their rankings equal those without given weights."""
    path, generator = tmp_path / "w.pt", torch.Generator().manual_seed(77)
    model = randomise_weights(build_network(SUITE.model, 4, 3, 8, generator), generator)
    torch.save({"state_dict": model.state_dict(), "mean": list(MEAN), "std": list(STD)}, path)
    work = replace(make_work(tmp_path, replace(SUITE, given=make_weights_title(str(path)))), given=(str(path),))
    training_and_scoring.train_or_read_reference(work.explained[0])
    rank_all(work, "grad", "sobel")
    weights = work.explained[0].load_trained().state_dict()
    images = slow.normalised(work.images.test.pixels.astype(np.float32), MEAN, STD)
    most, targets = slow.logits(weights, torch.from_numpy(images)).softmax(1).max(1)
    found = work.explained[0].store.load_predictions(Split.TEST)
    assert (found.targets == targets.numpy()).all()
    np.testing.assert_allclose(found.probability, most, rtol=1e-4)  # float32 sums of a few hundred terms
    maps = slow.gradient_maps(weights, images, found.targets)
    gone = slow.removed_features(maps, 2**32, 0.5, "morf", "scalar").reshape(TEST, -1)
    same = (removed(open_rankings(work, "grad"), Split.TEST, 0.5) == gone).mean()
    assert same > 0.99  # float32 moves a few at the boundary
    plain = make_work(tmp_path / "plain")
    rank_all(plain, "sobel")
    assert make_scalar_spec(plain, "sobel") == make_scalar_spec(work, "sobel")
    assert open_rankings(plain, "sobel").checksum == open_rankings(work, "sobel").checksum
