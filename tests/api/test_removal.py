"""Single steps of an evaluation, against handmade cases."""

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import norm
from scipy.stats import t as student

import roarbench
from roarbench.estimators.catalogue import find_estimator

IMAGES = torch.tensor([[[[10.0, 20.0], [30.0, 40.0]]], [[[1.0, 2.0], [3.0, 4.0]]]])  # (2, 1, 2, 2)
MAPS = torch.tensor([[[4.0, 3.0], [2.0, 1.0]], [[-1.0, 0.0], [5.0, 2.0]]])  # (2, 2, 2)


def test_rank_sorts_features():
    for form in (MAPS, MAPS[:, None], MAPS.numpy()):
        assert roarbench.rank(form).tolist() == [[0, 1, 2, 3], [2, 3, 1, 0]]


PLACES = np.stack([np.random.default_rng(i).permutation(192) for i in range(2)]).reshape(2, 3, 8, 8)
CLOSE_VALUES = {
    "float64": 1 + 1e-9 * PLACES,
    "big-endian": (1 + 1e-9 * PLACES).astype(">f8"),
    "tensor": torch.from_numpy(1e6 + PLACES / 1000),
    "int64": 2**60 + PLACES,
    "negative": -(2**60) + PLACES,
    "uint64": np.uint64(2**63) + PLACES.astype(np.uint64),
    "longdouble": 1 + np.longdouble(1e-18) * PLACES,
    "huge": 1e300 * PLACES,
    "float16": PLACES.astype(np.float16),
    "bool": PLACES > 95,
    "equal pairs": 1 + 1e-9 * (PLACES // 2),
}


@pytest.mark.filterwarnings("ignore:more than 50% of the features in the maps", "ignore:the maps have at most 256")
@pytest.mark.parametrize("maps", CLOSE_VALUES.values(), ids=CLOSE_VALUES)
def test_maps_are_ranked_in_their_own_type(maps):
    """The reference is the ranking of small whole numbers in the same order, which float32 holds exactly."""
    exact = np.stack([np.unique(np.asarray(row), return_inverse=True)[1].reshape(3, 8, 8) for row in maps])
    expected = roarbench.rank(exact.astype(np.float32))
    assert (roarbench.rank(maps) == expected).all()
    images = torch.rand(2, 3, 8, 8)
    removed = roarbench.remove(images, maps, 0.25, fill=[-1.0] * 3) == -1
    assert torch.equal(removed, roarbench.remove(images, exact.astype(np.float32), 0.25, fill=[-1.0] * 3) == -1)


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


def test_read_only_images_and_lists_of_tensors_with_gradients_are_taken():
    """Maps in a list that need gradients were refused, and torch warned of writing to read-only images."""
    torch.set_warn_always(True)
    try:
        images = IMAGES.numpy().copy()
        images.flags.writeable = False
        maps = [part.clone().requires_grad_() for part in MAPS.half()]
        found = roarbench.remove(images, maps, 0.5, fill=[-1.0])
    finally:
        torch.set_warn_always(False)
    assert torch.equal(found, roarbench.remove(IMAGES, MAPS, 0.5, fill=[-1.0]))


def test_fill_keeps_features_outside_mask():
    pixels, removed = torch.randint(0, 256, (2, 3, 8, 8), dtype=torch.uint8), torch.zeros(2, 1, 8, 8, dtype=torch.bool)
    removed[:, :, 2:5] = True
    for by in ("black", "linear", "neighbours"):
        found = roarbench.fill(pixels, removed, by)
        assert torch.equal(found[~removed.expand_as(found)], pixels[~removed.expand_as(found)].float())
    assert roarbench.fill(pixels, removed, "black")[removed.expand_as(found)].abs().sum() == 0
    assert find_estimator("ig(baseline=zero)") == find_estimator("ig(baseline=black)") == find_estimator("ig")


def test_estimate_mean_pairs_differences_by_image():
    one, two = np.tile([1, 1, 0, 1], 3), np.tile([1, 0, 0, 1], 3)
    found = roarbench.estimate_mean(one, two)
    assert found.value == 0.25 and found.low < 0.25 < found.high
    assert roarbench.estimate_mean(one, one) == (0, None, None)
    assert roarbench.estimate_mean(np.stack([one, two])).value == 0.625
    assert roarbench.estimate_mean([3]) == roarbench.estimate_mean([[3]], [[2]])._replace(value=3) == (3, None, None)
    reach = 2 * student(24).ppf(0.975) / 5  # of 25 equal values, as of values with random signs
    assert roarbench.estimate_mean(np.full(25, 2.0)) == pytest.approx((2, 2 - reach, 2 + reach))
    assert roarbench.estimate_mean([1]) == (1, pytest.approx(1 / (1 + norm.ppf(0.975) ** 2)), 1)  # Wilson 1927
    half = student(1).ppf(0.975) * np.std([1, 3], ddof=1) / np.sqrt(2)
    assert roarbench.estimate_mean([1, 3]) == pytest.approx((2, 2 - half, 2 + half))


def test_estimate_mean_warns_of_more_seeds_than_images():
    values = np.random.default_rng(0).random((40, 3))
    with pytest.warns(UserWarning, match=r"shape \(40, 3\) are read as 40 seeds of 3 images; write values.T if"):
        found = roarbench.estimate_mean(values)
    assert found.value == pytest.approx(values.mean())


@pytest.mark.parametrize(
    "call",
    [
        lambda maps: roarbench.rank(maps),
        lambda maps: roarbench.remove(IMAGES, maps, 0.5),
    ],
)
def test_steps_warn_of_maps_in_which_most_features_tie(call):
    """A map with two equal halves, and a map of one feature, cause no warning."""
    words = r"more than 50% of the features in the maps \(75%\) have the same value; equal values are ranked"
    with pytest.warns(UserWarning, match=words) as caught:
        call(torch.tensor([[[1.0, 0.0], [0.0, 0.0]]]).expand(2, 2, 2))
    assert {Path(warning.filename).name for warning in caught} == {Path(__file__).name}
    call(torch.tensor([[[1.0, 1.0], [0.0, 0.0]]]).expand(2, 2, 2))
    roarbench.rank(torch.zeros(2, 1, 1))


@pytest.mark.parametrize(("fill", "warnings"), [(127.0, 1), (-7.0, 0)])  # less than 3 times 2 below -2
def test_fill_on_another_scale_causes_warning(fill, warnings, recwarn):
    roarbench.remove(torch.linspace(-2, 2, 4).view(1, 1, 2, 2), MAPS[:1], 0.5, fill=[fill])
    assert [str(warning.message)[:26] for warning in recwarn] == ["the fill 127 of channel 0 "] * warnings


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: roarbench.rank(MAPS[:0]), r"maps have shape \(0, 2, 2\)"),
        (lambda: roarbench.rank(MAPS[0]), r"maps have shape \(2, 2\)"),
        (lambda: roarbench.rank(MAPS / 0), "are NaN or infinite"),
        (lambda: roarbench.rank(MAPS, seed="a"), "seed is 'a', expected a whole number"),
        (lambda: roarbench.rank(MAPS, (2, 2)), r"shape is \(2, 2\), expected \(c, h, w\)"),
        (lambda: roarbench.remove(IMAGES / 0, MAPS, 0.5), "the mean of the images is .*inf"),
        (lambda: roarbench.remove(IMAGES, MAPS[:1], 0.5), r"maps have shape \(1, 2, 2\), expected \(2, 1, 2, 2\)"),
        (lambda: roarbench.remove(IMAGES, MAPS, 0.5, "most"), "no order 'most'"),
        (lambda: roarbench.remove(IMAGES, MAPS, 30), r"level t must be in \[0, 1\], got 30"),
        (lambda: roarbench.remove(IMAGES, MAPS, "0.3"), "a removal fraction is '0.3', expected a number"),
        (lambda: roarbench.remove(IMAGES[:, 0, 0], MAPS, 0.5), r"expected \(n, c, h, w\), or .* for a table"),
        (lambda: roarbench.remove(IMAGES, MAPS, 0.5, fill=[0, 0]), r"fill is \[0.0, 0.0\], expected 1 finite"),
        (lambda: roarbench.remove(IMAGES, MAPS, 0.3, fill="linear"), "fill is 'linear', expected 1 finite number"),
        (lambda: roarbench.fill(IMAGES, IMAGES > 0), "expected uint8"),
        (lambda: roarbench.fill(IMAGES.byte(), IMAGES[:1] > 0), r"the mask has shape \(1, 1, 2, 2\) and type bool"),
        (lambda: roarbench.fill(IMAGES.byte(), IMAGES), "type float32; expected bool .* True where removed"),
        (lambda: roarbench.fill(IMAGES.byte(), IMAGES > 0, by="x"), "known: black, blur, "),
        (lambda: roarbench.estimate_mean([1, np.nan]), r"values of shape \(1, 2\) are none or hold NaN"),
        (lambda: roarbench.estimate_mean(torch.ones(4, 1)), r"for one column write values\[:, 0\]"),
        (lambda: roarbench.estimate_mean(IMAGES, IMAGES), r"values have shape .*, expected \(n,\) or \(seeds, n\)$"),
        (lambda: roarbench.estimate_mean([1, 0], [1]), r"values have shapes \(1, 2\) and \(1, 1\)"),
    ],
)
def test_steps_reject_invalid_arguments(call, words):
    with pytest.raises(roarbench.CallerError, match=words):
        call()
