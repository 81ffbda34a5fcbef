"""Siblings that cannot answer the question of own-network gain cause a warning each."""

import warnings
from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import prune

import roarbench as rb
from roarbench.api.sibling_checks import describe_reversed_channels, warn_of_unfit_siblings
from tests.helpers.user_networks import gradient

CLASSES, N = 4, 80
LABELS = np.arange(N) % CLASSES
IMAGES = torch.randn(N, 1, 4, 4, generator=torch.Generator().manual_seed(0)) * 0.3
for _number, _label in enumerate(LABELS):
    IMAGES[_number, 0, _label] += 1.0  # each class is a bright row


class Backbone(nn.Module):
    """Sums the rows, which tell the class; a layer of random weights adds a little."""

    def __init__(self, order=range(CLASSES), scale=8.0, seed=0, head_seed=0):
        super().__init__()
        self.noise = nn.Linear(16, 64)
        self.head = nn.Linear(64, CLASSES)
        self.order, self.scale = list(order), scale
        for layer, drawn in ((self.noise, seed), (self.head, head_seed)):
            generator = torch.Generator().manual_seed(drawn)
            for weight in layer.parameters():
                weight.data = torch.randn(weight.shape, generator=generator) / 8

    def forward(self, x):
        return self.scale * x.sum((1, 3))[:, self.order] + self.head(self.noise(x.flatten(1)))


def make_good(count):
    return [Backbone(seed=seed, head_seed=seed) for seed in range(count)]


def collect(networks, labels=LABELS):
    logits = [network.eval()(IMAGES).detach() for network in networks]
    warn_of_unfit_siblings(networks, logits, labels=labels)


@pytest.mark.parametrize("labels", [LABELS, None])
def test_good_siblings_cause_no_warning(labels):
    collect(make_good(3), labels)
    logits = [network.eval()(IMAGES).detach() for network in make_good(3)]
    with_unused_class = [torch.cat([own, torch.full((N, 1), -1e9)], 1) for own in logits]
    warn_of_unfit_siblings(make_good(3), with_unused_class, labels)


def test_masks_of_pruned_siblings_are_not_taken_for_common_weights():
    """Masks of ones and zeros with as many ones have the same sum, whatever weights are left out."""
    networks = make_good(3)
    for network in networks:
        prune.l1_unstructured(network.noise, "weight", 0.5)
    collect(networks)


def test_positions_that_siblings_hold_as_whole_numbers_are_not_taken_for_common_weights():
    networks = make_good(3)
    for network in networks:
        network.register_buffer("positions", torch.arange(100_000))
    collect(networks)


PERMUTED, AT_CHANCE = Backbone(order=(1, 2, 3, 0), seed=5, head_seed=5), Backbone(scale=0.0, seed=6, head_seed=6)
SWAPPED = Backbone(order=(1, 0, 2, 3), seed=5, head_seed=5)
HEAD_ONLY = Backbone(seed=0, head_seed=9)


@pytest.mark.parametrize(
    ("sibling", "with_labels", "without"),
    [
        (
            PERMUTED,
            r"network 3 predicts the right class for \d of 80 images, and for (7|80)\d? if its classes are reord",
            "network 3 predicts the class on which .* if its classes are reordered",
        ),
        (
            SWAPPED,
            r"for (39|4\d) of 80 images, and for (7|80)\d? if its classes are reordered; expected the order of",
            "reordered",
        ),
        (
            AT_CHANCE,
            r"network 3 predicts the right class for \d+ of 80 images, which is not significantly above chance",
            "others? networks agree for .* not significantly above",
        ),
        (
            HEAD_ONLY,
            r"networks 1 and 3 have 80\.7 % of their weights in common, such as a frozen backbone",
            "in common",
        ),
        (nn.Sequential(deepcopy(make_good(1)[0])), "networks 1 and 3 have the same weights", "same weights"),
    ],
)
@pytest.mark.filterwarnings("ignore:networks 1 and 3 return nearly the same logits")
def test_unfit_siblings_are_named(sibling, with_labels, without):
    networks = [*make_good(2), sibling]
    with pytest.warns(UserWarning, match=with_labels):
        collect(networks)
    with pytest.warns(UserWarning, match=without):
        collect(networks, None)


@pytest.mark.filterwarnings("ignore:network 3 predicts", "ignore:the networks return")
def test_sibling_with_other_preprocessing_is_named():
    networks = make_good(3)
    logits = [network(IMAGES).detach() for network in networks]
    logits[2][: N // 2] = logits[2][: N // 2].roll(1, 0)  # half of its predictions are another image's
    with pytest.warns(
        UserWarning, match=r"network 3 .* for 40 of 80 images, and the best network for 80; all networks get"
    ):
        warn_of_unfit_siblings(networks, logits, labels=LABELS)


def test_copy_in_other_precision_is_named():
    copied = deepcopy(make_good(1)[0]).half().float()
    with pytest.warns(UserWarning, match="networks 1 and 3 return nearly the same logits"):
        collect([*make_good(2), copied])


def test_check_and_own_network_gain_warn_of_permuted_siblings():
    networks = [*make_good(2), SWAPPED]
    with pytest.warns(UserWarning, match="network 3 predicts the right class .* reordered"):
        rb.check(networks[0], IMAGES, LABELS, {"mine": gradient}, networks[1:])
    with pytest.warns(UserWarning, match="network 3 predicts the class on which .* reordered"):
        rb.own_network_gain(networks, IMAGES, {"mine": gradient})


@pytest.mark.filterwarnings("ignore:.* not significantly above chance", "ignore:a single class")
def test_labels_in_another_order_than_the_classes_are_named():
    """Names sorted as text put class 10 before class 2: most classes are exchanged, and some are right."""
    network, labels = make_good(1)[0].eval(), np.array([0, 2, 1, 3])[LABELS]
    said = r"network 1 predicts the right class for (39|4\d) of 80 images, and for (7|80)\d? if .* order of the labels"
    with pytest.warns(UserWarning, match=said):
        rb.check(network, IMAGES, labels, {"mine": gradient})
    with pytest.warns(UserWarning, match=said):
        rb.perturbation_curve(network, IMAGES, labels, IMAGES)


class RedOrGreen(nn.Module):
    def forward(self, x):
        return 9 * x.mean((2, 3))[:, :2]


@pytest.mark.parametrize("reverse", [True, False])
def test_images_with_reversed_channels_cause_a_warning(tmp_path, capsys, reverse):
    """With blue in the place of red, a network of red and green is right by chance."""
    images = torch.randn(60, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    labels, given = RedOrGreen()(images).argmax(1), images.flip(1) if reverse else images
    right = int((RedOrGreen()(given).argmax(1) == labels).sum())
    words = f"predicts the right class for {right} of 60 images, and for 60 with their channels reversed; pass them in"
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        rb.check(RedOrGreen(), given, labels, ["grad"], levels=(0.5,), fills=("mean",))
        rb.perturbation_curve(RedOrGreen(), given, labels, torch.rand(60, 8, 8), levels=(0.5,))
    assert sum(words in str(warning.message) for warning in seen) == (2 if reverse else 0)
    protocols = {"protocols": ("morf",), "store": tmp_path}
    rb.Suite.from_arrays(RedOrGreen(), None, (given.clip(-2, 2), labels), **protocols)
    assert ("with their channels reversed" in " ".join(capsys.readouterr().err.split())) == reverse


def test_misclassified_images_alone_have_no_reversed_channels():
    """Of two classes, half of these images are right by chance after any change."""
    images = torch.randn(60, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    labels, none_right = 1 - RedOrGreen()(images).argmax(1).numpy(), np.zeros(60, np.bool_)
    assert list(describe_reversed_channels(RedOrGreen(), images, labels, none_right)) == []
