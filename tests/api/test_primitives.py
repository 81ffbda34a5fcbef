"""Single steps, and perturbation curves, against handmade cases."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import roarbench
from roarbench.estimators.catalogue import find_estimator
from roarbench.stats.bootstrap_intervals import Bootstrap
from tests.helpers.given import WithChangedOutput

IMAGES = torch.tensor([[[[10.0, 20.0], [30.0, 40.0]]], [[[1.0, 2.0], [3.0, 4.0]]]])  # (2, 1, 2, 2)
LAST = torch.arange(50.0).view(2, 5, 5, 1)  # images with the channels last
MAPS = torch.tensor([[[4.0, 3.0], [2.0, 1.0]], [[-1.0, 0.0], [5.0, 2.0]]])  # (2, 2, 2)


def test_rank_sorts_features():
    for form in (MAPS, MAPS[:, None], MAPS.numpy()):
        assert roarbench.rank(form).tolist() == [[0, 1, 2, 3], [2, 3, 1, 0]]


@pytest.mark.filterwarnings("ignore:more than 50% of the features in the maps")
def test_rank_draws_ties_per_image():
    found = roarbench.rank(np.zeros((3, 8, 8)))
    assert sorted(found[0]) == list(range(64)) and not (found[0] == found[1]).all()
    assert (found == roarbench.rank(np.zeros((3, 8, 8)))).all()


def test_remove_replaces_half_of_features_from_either_end():
    before = IMAGES.clone()
    for order, expected in (("morf", [[-1, -1, 30, 40], [1, 2, -1, -1]]), ("lerf", [[10, 20, -1, -1], [-1, -1, 3, 4]])):
        assert roarbench.remove(IMAGES, MAPS, 0.5, order, fill=[-1.0]).flatten(1).tolist() == expected
        assert torch.equal(IMAGES, before)
    assert roarbench.remove(IMAGES, MAPS, 1.0).unique().tolist() == [IMAGES.mean().item()], "without a fill"


def test_fill_keeps_features_outside_mask():
    pixels, removed = torch.randint(0, 256, (2, 3, 8, 8), dtype=torch.uint8), torch.zeros(2, 1, 8, 8, dtype=torch.bool)
    removed[:, :, 2:5] = True
    for by in ("black", "linear", "neighbours"):
        found = roarbench.fill(pixels, removed, by)
        assert torch.equal(found[~removed.expand_as(found)], pixels[~removed.expand_as(found)].float())
    assert roarbench.fill(pixels, removed, "black")[removed.expand_as(found)].abs().sum() == 0
    assert find_estimator("ig(baseline=zero)") == find_estimator("ig(baseline=black)") == find_estimator("ig")


def test_match_masks_of_equal_maps_returns_own_mask():
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (2, 3, 8, 8), generator=generator, dtype=torch.uint8)
    maps = torch.randn(2, 3, 8, 8, generator=generator)
    for order in ("morf", "lerf"):
        own = roarbench.remove(pixels, maps, 0.3, order, fill=[-1.0] * 3) < 0
        assert torch.equal(roarbench.match_masks(pixels, maps, maps, 0.3, order), own)
        other = roarbench.match_masks(pixels, maps, maps.flip(0), 0.3, order)
        assert torch.equal(other.flatten(1).sum(1), own.flatten(1).sum(1)) and not torch.equal(other, own)


def test_mix_maps_takes_nested_squares_from_other_image():
    assert roarbench.mix_maps(MAPS, MAPS.flip(0), 0).tolist()[0] == [[0.75, 0.5], [0.25, 0]]  # places of the own map
    assert torch.equal(roarbench.mix_maps(MAPS, MAPS.flip(0), 1), roarbench.mix_maps(MAPS.flip(0), MAPS, 0))
    tied = roarbench.mix_maps(torch.tensor([[[7.0, 1.0], [7.0, 1.0]]]), torch.zeros(1, 2, 2), 0)
    assert tied.unique().tolist() == [0, 0.5]
    own, other = torch.arange(2 * 3 * 9 * 9.0).view(2, 3, 9, 9), torch.full((2, 3, 9, 9), 5.0)
    less, taken = (roarbench.mix_maps(own, other, share, square=4) == 0 for share in (0.25, 0.5))
    assert (taken >= less).all() and taken[:, 1:].sum() > less[:, 1:].sum()
    squares = taken[:, 2, [0, 0, 0, 4, 4, 4, 8, 8, 8], [0, 4, 8] * 3]
    assert squares.sum(1).tolist() == [4, 4] and not torch.equal(*squares)  # round(4.5) squares, drawn for each image
    corner = taken[:, 1, :4, :4].flatten(1)
    assert (corner.all(1) | ~corner.any(1)).all()


@pytest.mark.parametrize(("height", "width"), [(7, 7), (14, 14), (28, 28), (32, 32), (64, 64), (1, 100)])
@pytest.mark.parametrize("share", [0.05, 0.12, 0.25, 0.5, 0.9])
def test_mix_maps_exchanges_stated_share_of_low_resolution_maps(height, width, share):
    own = torch.rand(300, height, width, generator=torch.Generator().manual_seed(0)) + 1
    mixed = roarbench.mix_maps(own, torch.zeros_like(own), share) == 0  # own values have place 0 once per map
    assert abs(float(mixed.float().mean()) - share) < 1 / 98 + 1 / (height * width)


def test_mix_maps_exchanges_squares_of_eight_pixels_of_large_maps():
    own = torch.arange(64 * 64.0).flip(0).view(1, 64, 64)  # the last pixel has place 0
    mixed = roarbench.mix_maps(own, torch.zeros_like(own), 0.5)[0] == 0
    shares = mixed.view(8, 8, 8, 8).float().mean((1, 3))
    assert sorted(shares.flatten().tolist())[32:] == [1] * 32 and int((shares == 0).sum()) in (31, 32)


def test_bootstrap_resamples_paired_differences_by_image():
    one, two = np.tile([1, 1, 0, 1], 3), np.tile([1, 0, 0, 1], 3)
    found = roarbench.bootstrap(one, two)
    assert found.value == 0.25 and found.low < 0.25 < found.high
    assert roarbench.bootstrap(one, one) == (0, 0, 0)
    assert roarbench.bootstrap(np.stack([one, two]), bootstrap=Bootstrap(resamples=50)).value == 0.625


def test_bootstrap_warns_of_more_seeds_than_images():
    values = np.random.default_rng(0).random((40, 3))
    with pytest.warns(UserWarning, match=r"shape \(40, 3\) are read as 40 seeds of 3 images; write values.T if"):
        found = roarbench.bootstrap(values)
    assert found.value == pytest.approx(values.mean())


def test_fewer_than_ten_images_give_no_interval():
    assert roarbench.bootstrap([1]) == roarbench.bootstrap([[3]], [[2]]) == (1, None, None)
    assert roarbench.bootstrap(np.tile([0, 1, 1], (4, 3))) == (pytest.approx(2 / 3), None, None)  # 4 seeds, 9 images
    assert roarbench.bootstrap(np.arange(10) % 2).low < 0.5
    images = torch.randn(10, 1, 3, 3, generator=torch.Generator().manual_seed(0))
    model = nn.Sequential(nn.Flatten(), nn.Linear(9, 2))
    for count in (9, 10):
        part = images[:count]
        curve = roarbench.perturbation_curve(model, part, np.arange(count) % 2, part, levels=(0.5,))
        assert (curve.accuracy[1].low is None) == (curve.area.high is None) == (count == 9)
        assert curve.to_dataframe()["low"].isna().all() == (count == 9)


class First(nn.Module):
    """A network that predicts class 1 if the first feature is above 5."""

    def forward(self, images):
        first = images.flatten(1)[:, 0]
        return torch.stack([torch.full_like(first, 5.0), first], 1)


LEVELS = (0.3, 0.5, 0.7, 0.9)  # 0.1 removes none of the four features


def compute_curve(**given):
    return roarbench.perturbation_curve(
        **{"model": First(), "images": IMAGES, "labels": [1, 0], "maps": MAPS, "levels": LEVELS} | given
    )


def change_logits(change):
    return WithChangedOutput(First(), change)


ONE_LOGIT = (lambda y: y[:, 1:] - 5, lambda y: y[:, 1] - 5, lambda y: (y[:, 1:] - 5).squeeze())  # squeeze: 1 gives ()


@pytest.mark.parametrize("change", ONE_LOGIT)
@pytest.mark.parametrize("labels", [[1, 0], np.array([[1.0], [0.0]]), torch.tensor([True, False])])
@pytest.mark.parametrize("n", [1, 2])
def test_perturbation_curve_reads_one_logit_as_binary_network(change, labels, n):
    model, given = change_logits(change), {"images": IMAGES[:n], "labels": labels[:n], "maps": MAPS[:n]}
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
        {"levels": [0.25]},
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

    def answers(rows, seed=0):
        given = (images[rows], labels[rows], maps[rows])
        found = roarbench.perturbation_curve(model, *given, levels=(0.5,), fill=[-9.0], seed=seed)
        return round(found.accuracy[1].value * len(images[rows]))

    whole, halves = answers(slice(None)), answers(slice(0, 20)) + answers(slice(20, 40))
    assert whole == answers(torch.arange(39, -1, -1)) == halves
    assert len({answers(slice(None), seed) for seed in range(5)}) > 1


@pytest.mark.filterwarnings("ignore:more than 50% of the features in the maps")
def test_perturbation_curve_fills_by_name_like_suites():
    """Only one corner is removed, so its fill value is known."""
    ramp = torch.tensor([[[[1.0, 0.0, 0.5], [0.5, 0.5, 0.5], [0.5, 0.5, 0.5]]]])
    maps, seen = (ramp == 1).float(), []
    model = change_logits(lambda y: seen.append(y[0, 1].item()) or y)
    for name, corner in (("zero", 0.0), ("neighbours", 1 / 3), ("mean", ramp.mean().item())):
        roarbench.perturbation_curve(model, ramp, [0], maps[:, 0], levels=(1 / 9,), fill=name)
        assert seen[-1] == pytest.approx(corner, abs=0.003)  # a step is 1 / 255


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


def test_perturbation_curve_restores_mode_of_each_module():
    model = nn.Sequential(nn.Dropout(), First()).train()
    model[0].eval()
    compute_curve(model=model, levels=(0.5,))
    assert [module.training for module in model.modules()] == [True, False, True]


def test_perturbation_curve_drops_when_decisive_feature_is_removed():
    found = compute_curve(levels=(0.25, 1.0), fill=[0.0])
    assert [one.value for one in found.accuracy] == [1.0, 0.5, 0.5]
    lerf = compute_curve(order="lerf", levels=(0.25, 0.75), fill=[0.0])
    assert [one.value for one in lerf.accuracy] == [1.0, 1.0, 1.0]
    assert found.area.value == pytest.approx(0.25 * 0.75 + 0.75 * 0.5)
    assert found.to_dataframe()["accuracy"].tolist() == [1.0, 0.5, 0.5]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"labels": [1]}, r"labels have shape \(1,\), expected \(2,\)"),
        ({"labels": [1, 2]}, "labels are from 1 to 2, and the network has 2 .* labels - 1"),
        ({"labels": [-1, 0]}, "labels are from -1 to 0, .* expected 0 to 1"),
        ({"labels": [0.5, 0]}, "labels hold 0.5; expected whole numbers"),
        ({"labels": [np.nan, 0]}, "labels hold nan; expected whole numbers"),
        ({"labels": np.eye(2)}, r"labels have shape \(2, 2\), expected \(2,\): .* labels.argmax\(1\)"),
        ({"labels": np.ones((2, 3))}, r"labels .* several classes of one image \(multi-label\)"),
        ({"labels": ["a", "b"]}, "labels are text, such as 'a', expected the numbers of the network's outputs, from 0"),
        ({"labels": [[1], [0, 1]]}, "labels cannot be read as an array"),
        ({"labels": None}, "labels are None, expected the numbers"),
        ({"labels": np.array([1, None])}, "labels hold None"),
        ({"images": TensorDataset(IMAGES)}, r"are a TensorDataset; write torch.stack\(\[image for image"),
        ({"images": DataLoader(TensorDataset(IMAGES))}, r"are a DataLoader; write torch.cat\(\[images for"),
        ({"images": ["a.png"]}, r"images are a list; photographs and .* are prepared by rb.Preprocessing"),
        ({"images": [Image.new("RGB", (2, 2))]}, "are prepared by rb.Preprocessing"),
        (
            {"images": IMAGES.long()},
            r"type int64; .* write \(images / 255 - mean\) / std, or images.float\(\) if the network itself normalises",
        ),
        (
            {"model": nn.Conv2d(1, 2, 2), "images": LAST, "maps": LAST},
            r"\(RuntimeError: .*\); .* write images.permute\(0, 3, 1, 2\)",
        ),
        ({"images": LAST, "maps": LAST.permute(0, 3, 1, 2)}, r"last: write images.permute\(0, 3, 1, 2\)"),
        ({"model": change_logits(lambda y: [y])}, "returned a list .*; wrap it in a module whose forward returns them"),
        ({"model": change_logits(lambda y: y.argmax(1))}, r"returned int64 of shape \(\d,\)"),
        ({"model": nn.Sequential(nn.Flatten(), nn.LazyLinear(2))}, "has a lazy layer without weights"),
        ({"images": IMAGES / 0}, "images: number 0 holds NaN or infinity"),
        ({"images": IMAGES.byte()}, r"images have shape \(2, 1, 2, 2\) and type uint8; expected floats"),
        ({"images": IMAGES[:0], "labels": [], "maps": MAPS[:0]}, r"images have shape \(0, 1, 2, 2\)"),
        ({"maps": MAPS + 0j}, "maps have type complex64"),
        ({"maps": np.ma.masked_less(MAPS.numpy(), 0)}, r"are a masked array; write maps.filled\(VALUE\)"),
        ({"model": change_logits(lambda y: (y, y))}, "the network returned a tuple"),
        ({"model": change_logits(lambda y: y.log() - 99), "fill": [-9.0]}, "NaN if the fraction 0.3 of an image"),
        ({"model": nn.Flatten(0, 0)}, "the network returned float32 of shape"),
        ({"levels": ()}, r"levels are \(\)"),
        ({"fill": [np.nan]}, r"fill is \[nan\]"),
        ({"fill": "blck"}, "no fill 'blck'; did you mean 'black'"),
        ({"levels": (0.9, 0.5)}, r"levels are \(0.9, 0.5\)"),
        ({"levels": 0.3}, r"levels are 0.3, expected a sequence of fractions; write levels=\(0.3,\)"),
        ({"levels": [None]}, "a removal fraction is None, expected a number"),
        ({"order": None}, "no order 'None'; known: lerf, morf"),
        ({"seed": -1}, "seed is -1, expected a whole number from 0"),
    ],
)
def test_perturbation_curve_rejects_invalid_arguments(given, words):
    with pytest.raises(roarbench.CallerError, match=words):
        compute_curve(**given)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: roarbench.remove(IMAGES / 0, MAPS, 0.5), "images hold NaN or infinity"),
        (lambda: roarbench.rank(MAPS[:0]), r"maps have shape \(0, 2, 2\)"),
        (lambda: roarbench.remove(IMAGES, MAPS[:1], 0.5), "there are 1 maps of 2 images"),
        (lambda: roarbench.remove(IMAGES, MAPS, 0.5, "most"), "no order 'most'"),
        (lambda: roarbench.rank(MAPS[0]), r"maps have shape \(2, 2\)"),
        (lambda: roarbench.rank(MAPS / 0), "are NaN or infinite"),
        (lambda: roarbench.fill(IMAGES, IMAGES > 0), "expected uint8"),
        (lambda: roarbench.remove(IMAGES, MAPS, 30), r"level t must be in \[0, 1\], got 30"),
        (lambda: roarbench.remove(IMAGES[0], MAPS, 0.5), r"images have shape \(1, 2, 2\), expected \(n, c, h, w\)"),
        (lambda: roarbench.remove(IMAGES, MAPS, 0.5, fill=[0, 0]), r"fill has shape \(2,\), expected \(1,\)"),
        (lambda: roarbench.bootstrap([]), r"values of shape \(1, 0\) are none or hold NaN"),
        (lambda: roarbench.bootstrap([1, np.nan]), r"values of shape \(1, 2\) are none or hold NaN"),
        (lambda: roarbench.fill(IMAGES.byte(), IMAGES[:1] > 0), r"the mask has shape \(1, 1, 2, 2\) and type bool"),
        (lambda: roarbench.fill(IMAGES.byte(), IMAGES), "type float32; expected bool .* True where removed"),
        (
            lambda: roarbench.own_network_gain([change_logits(abs)] * 3, IMAGES, ["grad"], unit=3),
            "no unit '3'; known: ",
        ),
        (lambda: roarbench.fill(IMAGES.byte(), IMAGES > 0, by=["black"]), r"no fill '\['black'\]'; did you"),
        (lambda: roarbench.fill(IMAGES.byte(), IMAGES > 0, by="x"), "known: black, blur, "),
        (lambda: roarbench.mix_maps(MAPS, MAPS, share="a"), "share is 'a', expected a number"),
        (lambda: roarbench.mix_maps(MAPS, MAPS, 2), r"share is 2.0, expected a fraction in \[0, 1\]"),
        (lambda: roarbench.mix_maps(MAPS, MAPS, 0.5, square=0), "square is 0, expected a whole number from 1"),
        (
            lambda: roarbench.mix_maps(MAPS, MAPS, 0.3, square=2),
            "maps of 2 x 2 pixels have 1 square of side 2, so a share of 0.3 exchanges 0; pass a smaller square",
        ),
        (lambda: roarbench.mix_maps(MAPS, MAPS, 0.9, square=2), "so a share of 0.9 exchanges 1; pass a smaller"),
        (lambda: roarbench.mix_maps(MAPS, MAPS, 0.5, seed=None), "seed is None, expected a whole number from 0"),
        (lambda: roarbench.rank(MAPS, seed="a"), "seed is 'a', expected a whole number"),
        (lambda: roarbench.rank(MAPS, (2, 2)), r"shape is \(2, 2\), expected \(c, h, w\)"),
        (
            lambda: roarbench.bootstrap(torch.ones(4, 1)),
            r"values have shape \(4, 1\), expected \(n,\) or \(seeds, n\); for one column write values\[:, 0\]",
        ),
        (lambda: roarbench.bootstrap(np.ones((2, 3, 4))), r"values have shape \(2, 3, 4\), expected"),
        (lambda: roarbench.bootstrap([1, 0], bootstrap=100), "bootstrap is 100, expected a roarbench"),
        (lambda: roarbench.remove(IMAGES, MAPS, "0.3"), "a removal fraction is '0.3', expected a number"),
        (lambda: roarbench.remove(IMAGES, MAPS, 0.3, fill="linear"), "fill is 'linear', expected a number for each"),
        (lambda: roarbench.bootstrap([1, 0], [1]), r"values have shapes \(1, 2\) and \(1, 1\)"),
    ],
)
def test_primitives_reject_invalid_arguments(call, words):
    with pytest.raises(roarbench.CallerError, match=words):
        call()


def test_perturbation_curve_leaves_out_levels_that_remove_nothing():
    with pytest.warns(UserWarning, match="^levels are left out: 0.1 removes 0 of 4 features$"):
        found = compute_curve(levels=(0.1, 0.5, 1))
    assert found == compute_curve(levels=(0.5, 1)) and found.levels == (0.0, 0.5, 1.0)


def test_perturbation_curve_rounds_float32_levels_to_written_fractions():
    """float(np.float32(0.3)) is 0.30000001192092896."""
    written = np.array([0.3, 0.7], np.float32)
    for levels in (written, (0.3, 0.7), torch.tensor([0.3, 0.7])):
        assert compute_curve(levels=levels).levels == (0.0, 0.3, 0.7)
