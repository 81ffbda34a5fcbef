"""Trainings that begin with torchvision's weights of any of its networks; the last layer is that of the suite."""

import pytest
import torch

from roarbench.errors import CallerError
from roarbench.execution import given_weights
from roarbench.execution.given_weights import load_start
from roarbench.files import sha256
from roarbench.models.build import build
from roarbench.plan.recipes import find_recipe
from roarbench.plan.suite_file import read_suite
from tests.helpers.own_photos import TEXT, write_suite

NAME = "torchvision:squeezenet1_1"


@pytest.fixture
def published(tmp_path, monkeypatch):
    """Weights of 5 classes in the place where torchvision keeps those that it has fetched."""
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "hub"))
    model = build(NAME, 5, 3, 32, torch.Generator().manual_seed(7))
    (tmp_path / "hub" / "checkpoints").mkdir(parents=True)
    path = tmp_path / "hub" / "checkpoints" / "some.pth"
    torch.save(model.state_dict(), path)
    named = path.rename(path.with_name(f"some-{sha256(path)[:8]}.pth"))
    monkeypatch.setattr(given_weights, "_file_of", lambda name, weights: named.name)
    return model.state_dict()


@pytest.mark.parametrize("classes", (5, 3))
def test_all_is_taken_over_but_a_last_layer_of_other_classes(published, classes):
    model = build(NAME, classes, 3, 32, torch.Generator().manual_seed(0))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    load_start(f"{NAME}/IMAGENET1K_V1", model, 3)
    for name, tensor in model.state_dict().items():
        kept = name.startswith("classifier.1") and classes != 5
        torch.testing.assert_close(tensor, before[name] if kept else published[name], rtol=0, atol=0)


def test_weights_of_another_network_are_refused(published):
    with pytest.raises(CallerError, match="does not fit the suite's network"):
        load_start(f"{NAME}/IMAGENET1K_V1", build("resnet8", 3, 3, 32, torch.Generator()), 3)


def test_the_file_is_the_one_that_torchvision_names():
    assert given_weights._file_of("resnet18", "IMAGENET1K_V1") == "resnet18-f37072fd.pth"
    with pytest.raises(CallerError, match="no weights of torchvision:resnet18 'IMAGENET1K_V9'; did you mean"):
        given_weights._file_of("resnet18", "IMAGENET1K_V9")
    with pytest.raises(CallerError, match="no network of torchvision 'resnet19'"):
        given_weights._file_of("resnet19", "IMAGENET1K_V1")


def test_a_suite_names_them_in_its_recipes(tmp_path):
    said = f'"{NAME}"\nweights = "IMAGENET1K_V1"'
    suite = read_suite(write_suite(tmp_path, TEXT.replace('"resnet-planted"', said)))
    for recipe in (suite.recipe, suite.reference_recipe):
        assert find_recipe(recipe).start == f"{NAME}/IMAGENET1K_V1"
    with pytest.raises(CallerError, match="weights are those of a torchvision:NAME"):
        read_suite(write_suite(tmp_path, TEXT.replace('"resnet-planted"', '"resnet8"\nweights = "X"')))
    with pytest.raises(CallerError, match="start is 'mine.pt', expected torchvision:NAME/WEIGHTS"):
        read_suite(write_suite(tmp_path, f'{TEXT}start = "mine.pt"\n'))
