"""Arrays of maps in another order than the images or networks, turned, or of reversed channels, cause a warning."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn

import roarbench as rb
from tests.helpers.user_networks import gradient

IMAGES = torch.randn(40, 3, 16, 16, generator=torch.Generator().manual_seed(0))
SHUFFLED = torch.randperm(40, generator=torch.Generator().manual_seed(1))
KINDS = [torch.clone, torch.abs, lambda of: of * IMAGES, lambda of: of.mean(1, keepdim=True).expand_as(of)]
PLACES = {
    "shuffled": (lambda maps: [own[SHUFFLED] for own in maps], "other images than their own; pass them in the order"),
    "one image late": (lambda maps: [own.roll(1, 0) for own in maps], "other images than their own"),
    "networks": (lambda maps: [maps[1], maps[0], maps[2]], "other networks than their own; pass arrays in the order"),
    "channels": (lambda maps: [own.flip(1) for own in maps], "the images with channels reversed; make them of"),
    "mirrored": (lambda maps: [own.flip(3) for own in maps], "the images mirrored or with height and width"),
    "upside down": (lambda maps: [own.flip(2) for own in maps], "the images mirrored or with height and width"),
    "transposed": (lambda maps: [own.mT for own in maps], "the images mirrored or with height and width exchanged"),
}
pytestmark = pytest.mark.filterwarnings("ignore:network . predicts the class on which")


def make_networks(make):
    torch.manual_seed(0)
    return [make().eval() for _ in range(3)]


def make_deep():
    layers = [nn.Conv2d(3, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU()]
    return nn.Sequential(*layers, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 2))


def make_linear():
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 256, 4))


def explain(networks, kind, add=0, images=IMAGES):
    """Return each network's maps of its predicted classes, or of the next ones."""
    return [kind(gradient(model, images.clone(), (model(images).argmax(1) + add) % 2)) for model in networks]


def list_warnings(networks, maps):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        rb.own_network_gain(networks, IMAGES, {"saved": maps}, levels=(0.5,))
        rb.check(networks[0], IMAGES, torch.arange(40) % 2, {"saved": maps[0]}, levels=(0.5,), fills=("mean",))
        rb.perturbation_curve(networks[0], IMAGES, torch.arange(40) % 2, maps[0], levels=(0.5,))
    return [str(warning.message) for warning in seen if "many maps" in str(warning.message)]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", KINDS[:3])
def test_misplaced_maps_are_named(kind, place):
    networks, (misplace, words) = make_networks(make_deep), PLACES[place]
    lines = list_warnings(networks, misplace(explain(networks, kind)))
    titles = ["maps of saved"] * 2 + ["maps"]
    expected = [f"many {title} fit {words}" for title in titles[: 1 if place == "networks" else None]]
    assert all(line.startswith(start) for line, start in zip(lines, expected, strict=True))


@pytest.mark.parametrize("channels", [[0, 1, 2], [2, 1, 0]])
def test_maps_of_images_with_reversed_channels_are_named(channels):
    networks = make_networks(make_deep)
    maps = [own[:, channels] for own in explain(networks, torch.clone, images=IMAGES.flip(1))]
    words = "fit the images with channels reversed; make them of the given images, with channels in this order, such"
    assert [words in line for line in list_warnings(networks, maps)] == [True] * 3


@pytest.mark.parametrize("make", [make_deep, make_linear])
@pytest.mark.parametrize("kind", KINDS)
def test_maps_in_their_place_cause_no_warning(kind, make):
    networks = make_networks(make)
    assert list_warnings(networks, explain(networks, kind)) == []


def test_maps_of_another_class_or_made_without_the_network_are_no_misplaced_maps():
    networks = make_networks(make_deep)
    next_class, images = explain(networks, torch.clone, 1), [IMAGES] * 3
    for maps in (next_class, images, [IMAGES[SHUFFLED]] * 3, [IMAGES[:1].expand_as(IMAGES)] * 3):
        assert list_warnings(networks, maps) == []


def test_maps_of_labels_are_no_misplaced_maps_of_a_linear_network():
    """A class has one gradient, so a map of a label that is not predicted fits the few images of this prediction."""
    (network, *_) = make_networks(lambda: nn.Sequential(nn.Flatten(), nn.Linear(3 * 256, 20)))
    labels = torch.randint(20, (40,), generator=torch.Generator().manual_seed(0))
    with pytest.warns(UserWarning) as seen:  # the network is at chance
        rb.perturbation_curve(network, IMAGES, labels, gradient(network, IMAGES.clone(), labels), levels=(0.5,))
    assert [line for warning in seen if "many maps" in (line := str(warning.message))] == []


def test_evaluate_names_misplaced_maps(tmp_path, inline, request):
    """The suite's network and images are those that were stored; its classes are the predicted ones."""
    (network, *_), pairs = make_networks(make_deep), [(IMAGES, np.arange(40) % 2)] * 2
    rows = {"protocols": ("morf",), "levels": (0.5,), "estimators": ("grad",), "store": tmp_path}
    suite = rb.Suite.from_arrays(network, *pairs, **rows)
    torch.set_warn_always(True)  # also of read-only memory, such as that of JAX
    request.addfinalizer(lambda: torch.set_warn_always(False))
    for place, (misplace, words) in {"right": (list, ""), **PLACES}.items():
        if place == "networks":  # the suite has one
            continue
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            (maps,) = misplace(explain([network], torch.abs))
            maps = maps.numpy().copy()
            maps.flags.writeable = False
            rb.evaluate(suite, {place: maps}, quiet=True)
        assert [str(warning.message) for warning in seen if "not writable" in str(warning.message)] == []
        lines = [str(warning.message) for warning in seen if "many" in str(warning.message)]
        assert [line.startswith(f"many test maps of {place} fit {words}") for line in lines] == [True] * bool(words)
