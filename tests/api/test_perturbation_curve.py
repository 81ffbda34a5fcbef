"""Perturbation curves against handmade cases, and invalid arguments."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import roarbench
from roarbench.api.inputs import read_images
from tests.helpers.user_networks import WithChangedOutput

IMAGES = torch.tensor([[[[10.0, 20.0], [30.0, 40.0]]], [[[1.0, 2.0], [3.0, 4.0]]]])  # (2, 1, 2, 2)
MAPS = torch.tensor([[[4.0, 3.0], [2.0, 1.0]], [[-1.0, 0.0], [5.0, 2.0]]])  # (2, 2, 2)
LEVELS = (0.3, 0.5, 0.7, 0.9)  # 0.1 removes none of the four features


class First(nn.Module):
    """A network that predicts class 1 if the first feature is above 5."""

    def forward(self, images):
        first = images.flatten(1)[:, 0]
        return torch.stack([torch.full_like(first, 5.0), first], 1)


def compute_curve(**given):
    return roarbench.perturbation_curve(
        **{"model": First(), "images": IMAGES, "labels": [1, 0], "maps": MAPS, "levels": LEVELS} | given
    )


def change_logits(change):
    return WithChangedOutput(First(), change)


ONE_LOGIT = (lambda y: y[:, 1:] - 5, lambda y: y[:, 1] - 5, lambda y: (y[:, 1:] - 5).squeeze())  # squeeze: 1 gives ()


@pytest.mark.parametrize("change", ONE_LOGIT)
@pytest.mark.parametrize("n", [1, 2])
def test_perturbation_curve_reads_one_logit_as_binary_network(change, n):
    model, given = change_logits(change), {"images": IMAGES[:n], "labels": [1, 0][:n], "maps": MAPS[:n]}
    found = compute_curve(model=model, **given, levels=(0.25,), fill=[0.0])
    assert [one.value for one in found.accuracy] == [1.0, 0.5 if n == 2 else 0.0]
    sure = [1 / (1 + np.exp(-5)), 1 / (1 + np.exp(-4))]  # |10 - 5| and |1 - 5|, and the other class after removal
    removed = [1 / (1 + np.exp(5)), 1 / (1 + np.exp(-4))]
    assert found.probability == pytest.approx([np.mean(sure[:n]), np.mean(removed[:n])])


class Float64(First):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones((), dtype=torch.float64))

    def forward(self, images):
        assert images.dtype == self.weight.dtype
        return self.weight * super().forward(images)


@pytest.mark.parametrize(
    "given",
    [
        {"images": IMAGES.numpy().astype(">f4"), "labels": np.array([1, 0], ">i8"), "maps": MAPS.numpy().astype(">f8")},
        {"images": IMAGES.clone().requires_grad_(), "maps": MAPS.bfloat16(), "labels": torch.tensor([1.0, 0.0])},
        {"images": IMAGES.tolist(), "maps": (2 * MAPS).to(torch.uint8).numpy()[:, ::-1, ::-1][:, ::-1, ::-1]},
        pytest.param({"model": Float64()}, marks=pytest.mark.filterwarnings("ignore:.* has weights in float64")),
        {"model": change_logits(lambda y: y.double())},
        {"labels": np.array([[1.0], [0.0]])},
    ],
)
def test_perturbation_curve_accepts_any_numeric_type_or_byte_order(given):
    found = compute_curve(**{"levels": (0.25,), "fill": [0.0]} | given)
    assert [one.value for one in found.accuracy] == [1.0, 0.5]


@pytest.mark.filterwarnings("ignore:more than 50% of the features in the maps")
def test_perturbation_curve_is_independent_of_image_order():
    images = torch.randn(40, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    labels, maps = (images[:, 0, 0, 0] > 0).long(), torch.zeros(40, 4, 4)
    model = change_logits(lambda y: y - 5 * torch.eye(2)[0])

    def answers(rows):
        found = roarbench.perturbation_curve(model, images[rows], labels[rows], maps[rows], levels=(0.5,), fill=[-9.0])
        return round(found.accuracy[1].value * len(images[rows]))

    halves = answers(slice(0, 20)) + answers(slice(20, 40))
    assert answers(slice(None)) == answers(torch.arange(39, -1, -1)) == halves


@pytest.mark.filterwarnings("ignore:more than 50% of the features in the maps")
def test_perturbation_curve_fills_by_name_like_suites():
    """Only one corner is removed, so its fill value is known."""
    ramp = torch.tensor([[[[1.0, 0.0, 0.5], [0.5, 0.5, 0.5], [0.5, 0.5, 0.5]]]])
    maps, seen = (ramp == 1).float(), []
    model = change_logits(lambda y: seen.append(y[0, 1].item()) or y)
    for name, corner in (("zero", 0.0), ("neighbours", 1 / 3), ("mean", ramp.mean().item())):
        roarbench.perturbation_curve(model, ramp, [0], maps[:, 0], levels=(1 / 9,), fill=name)
        assert seen[-2] == pytest.approx(corner, abs=0.003)  # a step is 1 / 255; the last pass is a check


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda y: (y[:, 1:] - 5).sigmoid(),
            "returns numbers from 0 to 1, which as logits all mean class 1; if it ends in",
        ),
        (
            lambda y: (y - 5.5).sigmoid(),
            r"probabilities are wrong \(the softmax of a sigmoid\); if it ends in a sigmoid,",
        ),
        (lambda y: y.softmax(1), r"probabilities are wrong \(the softmax of a softmax\); remove its last softmax$"),
        (lambda y: y.log_softmax(1), "so maps explain the logarithms of probabilities; remove its last log_softmax$"),
    ],
)
def test_perturbation_curve_warns_of_probabilities(change, words):
    with pytest.warns(UserWarning, match=words) as caught:
        compute_curve(model=change_logits(change))
    assert len(caught) == 1


def test_perturbation_curve_warns_of_single_probability_if_classes_take_turns():
    """Every second of these 128 images has class 1, so evenly spaced ones would all have one class."""
    labels = torch.arange(128) % 2
    images = torch.rand(128, 1, 2, 2, generator=torch.Generator().manual_seed(0)) + labels[:, None, None, None]
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 1), nn.Sigmoid())
    model.load_state_dict({"1.weight": torch.ones(1, 4), "1.bias": torch.tensor([-4.0])})
    with pytest.warns(UserWarning, match="above chance"), pytest.warns(UserWarning, match="numbers from 0 to 1, which"):
        roarbench.perturbation_curve(model, images, labels, images[:, 0], levels=(0.5,))


def test_perturbation_curve_accepts_read_only_images_and_labels():
    images, labels = IMAGES.numpy().copy(), np.array([1, 0])
    images.setflags(write=False), labels.setflags(write=False)
    assert compute_curve(images=images, labels=labels) == compute_curve()


@pytest.mark.parametrize("freeze", [torch.jit.freeze, lambda scripted: scripted])
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_perturbation_curve_of_scripted_network_matches_module(freeze):
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 2)).eval()
    scripted = freeze(torch.jit.script(model))
    assert compute_curve(model=scripted) == compute_curve(model=model)


def test_perturbation_curve_drops_when_decisive_feature_is_removed():
    found = compute_curve(levels=(0.25, 1.0), fill=[0.0])
    assert [one.value for one in found.accuracy] == [1.0, 0.5, 0.5]
    lerf = compute_curve(order="lerf", levels=(0.25, 0.75), fill=[0.0])
    assert [one.value for one in lerf.accuracy] == [1.0, 1.0, 1.0]
    assert found.area.value == pytest.approx(0.25 * 0.75 + 0.75 * 0.5)
    assert found.to_dataframe()["accuracy"].tolist() == [1.0, 0.5, 0.5]


def test_perturbation_curve_refuses_networks_that_depend_on_the_number_of_images():
    """The checks at the start have thirteen images, of which this network drops none."""
    model = change_logits(lambda y: torch.cat([y[:13], 0 * y[13:]]))
    images, labels = IMAGES.repeat(8, 1, 1, 1) * torch.linspace(1, 2, 16).view(16, 1, 1, 1), [1, 0] * 8
    with pytest.raises(roarbench.CallerError, match="other logits .* or depends on the number of images: remove this"):
        compute_curve(model=model, images=images, labels=labels, maps=MAPS.repeat(8, 1, 1))


def test_perturbation_curve_warns_at_chance():
    """Reversed labels are wrong for all images; the true labels cause no warning, nor do fewer than 20 images."""
    images, labels = torch.arange(24.0).view(24, 1, 1, 1).expand(-1, 1, 2, 2) - 6.6, np.repeat([0, 1], 12)
    maps = torch.rand(24, 2, 2, generator=torch.Generator().manual_seed(0))
    words = "classifies 0 of 24 images correctly, which is not significantly above chance of 50.0%; check"
    with pytest.warns(UserWarning, match="24 if its classes are"), pytest.warns(UserWarning, match=words) as caught:
        compute_curve(images=images, labels=labels[::-1], maps=maps)
    assert Path(caught[0].filename).name == Path(__file__).name
    compute_curve(images=images, labels=labels, maps=maps)
    compute_curve(images=images[:19], labels=labels[::-1][:19], maps=maps[:19])


def test_perturbation_curve_leaves_out_levels_that_remove_nothing():
    with pytest.warns(UserWarning, match="^levels are left out: 0.1 removes 0 of 4 features$"):
        found = compute_curve(levels=(0.1, 0.5, 1))
    assert found == compute_curve(levels=(0.5, 1)) and found.levels == (0.0, 0.5, 1.0)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"labels": [1]}, r"labels have shape \(1,\), expected \(2,\); expected whole numbers"),
        ({"labels": np.eye(2)}, r"labels have shape \(2, 2\), .*; of one-hot labels, labels.argmax\(1\)$"),
        ({"labels": np.ones((2, 2))}, r"labels have shape \(2, 2\), .*; expected whole .* the class of each image$"),
        ({"labels": [True, False]}, "^labels are bool, and labels are class numbers; expected whole numbers from 0"),
        ({"labels": [1, 2]}, "labels are from 1 to 2, and the network has 2 classes; expected 0 to 1"),
        ({"labels": [-1, 0]}, "labels are from -1 to 0, .* expected 0 to 1"),
        ({"labels": [0.5, 0]}, "labels hold 0.5; expected whole numbers"),
        ({"labels": ["a", "b"]}, "labels hold 'a', expected whole numbers"),
        ({"labels": None}, "labels are None, expected whole numbers"),
        ({"labels": [[1], [0, 1]]}, "labels are a list, which cannot be read as an array"),
        ({"images": DataLoader(TensorDataset(IMAGES))}, "images are a DataLoader, expected an array or a tensor"),
        ({"images": (IMAGES, [1, 0])}, "images are a tuple, which cannot be read as an array"),
        ({"images": ["a.png"]}, "images hold 'a.png', .*rb.Preprocessing prepares photographs"),
        ({"images": [Image.new("RGB", (2, 2))]}, r"type uint8; expected floats \(n, c, h, w\)"),
        ({"images": IMAGES[:, 0, 0]}, r"images have shape \(2, 2\) .* or \(n, columns, 1, 1\) for a table"),
        ({"images": IMAGES[:0], "labels": [], "maps": MAPS[:0]}, r"images have shape \(0, 1, 2, 2\)"),
        ({"images": IMAGES / 0}, "images: number 0 holds NaN or infinity"),
        ({"maps": MAPS + 0j}, "maps have type complex64"),
        ({"maps": np.ma.masked_less(MAPS.numpy(), 0)}, "are a masked array"),
        ({"model": change_logits(lambda y: (y, y))}, "the network returned a tuple .*; wrap it in a module"),
        ({"model": change_logits(lambda y: y.argmax(1))}, r"returned int64 of shape \(\d,\)"),
        (
            {"model": change_logits(lambda y: y.log() - 99), "fill": [-9.0]},
            "NaN after features are removed",
        ),
        ({"model": nn.Sequential(nn.Flatten(), nn.LazyLinear(2))}, "has a lazy layer without weights"),
        ({"fill": [np.nan]}, r"fill is \[nan\]"),
        (
            {"images": IMAGES.view(2, 4, 1, 1), "maps": MAPS.view(2, 4, 1, 1), "fill": "linear"},
            "fill 'linear' is computed from neighbouring pixels, which a table lacks",
        ),
        ({"fill": "blck"}, "no fill 'blck'; did you mean 'black'"),
        ({"levels": ()}, r"levels are \(\)"),
        ({"levels": (np.nan,)}, r"levels are \(nan,\), expected ascending fractions"),
        ({"fill": np.zeros((1, 16, 16))}, r"fill is \[\[\[0.0, .{,60}…, expected 1 finite numbers"),
        ({"levels": 0.3}, r"levels are 0.3, expected a sequence of fractions; write levels=\(0.3,\)"),
        ({"levels": [None]}, "a removal fraction is None, expected a number"),
        ({"order": None}, "no order 'None'; known: lerf, morf"),
    ],
)
def test_perturbation_curve_rejects_invalid_arguments(given, words):
    with pytest.raises(roarbench.CallerError, match=words):
        compute_curve(**given)


def test_repeated_images_cause_warning():
    with pytest.warns(UserWarning, match="1 of the 2 images repeat another one, so intervals are too short"):
        read_images(torch.ones(2, 1, 2, 2))
    read_images(torch.ones(2, 4, 1, 1))  # rows of a table may be equal


def test_perturbation_curve_names_bytes_and_single_constant_maps():
    generator = torch.Generator().manual_seed(0)
    images, maps = torch.rand(4, 1, 32, 32, generator=generator), torch.randn(4, 32, 32, generator=generator)
    for given, words in (
        ((20 * maps).to(torch.int8), "^the maps have at most 256 different values"),
        (
            maps * torch.tensor([1.0, 1, 1, 0])[:, None, None],
            "^1 of 4 maps have the same value everywhere, so features",
        ),
    ):
        with pytest.warns(UserWarning, match=words):
            compute_curve(images=images, labels=[0] * 4, maps=given)
    ranks = torch.rand(4, 256, generator=generator).argsort(1).view(4, 16, 16)  # are no bytes, also in three channels
    compute_curve(images=torch.rand(4, 3, 16, 16, generator=generator), labels=[0] * 4, maps=ranks)


def test_perturbation_curve_reads_numbers_in_columns_of_objects():
    """As pandas gives them for a column with missing values elsewhere."""
    maps, labels = np.array(MAPS.tolist(), object), np.array([1, 0], object)
    assert compute_curve(maps=maps, labels=labels) == compute_curve()
    with pytest.raises(roarbench.CallerError, match="labels hold None, expected whole numbers"):
        compute_curve(labels=np.array([1, None], object))
