"""Fills equal hand-made cases and SciPy; tests/oracles compares ROAD's linear system with Quantus."""

import pytest
import torch
from scipy import ndimage

from roarbench.compute.degraded_images import apply_non_mean_fill
from roarbench.compute.fills import FILLS, compute_interpolated_fill
from tests.helpers.trainings import seeded

MEAN = torch.tensor([120.0, 60.0])
IDS = torch.tensor([4, 2**32 + 9, 17])
OTHERS = [fill for fill in FILLS if fill != "mean"]


@pytest.fixture(scope="module")
def images():
    return torch.randint(256, (3, 2, 14, 11), dtype=torch.uint8, generator=seeded(0))


@pytest.fixture(scope="module", params=["scalar", "pixel", "smooth"])
def removed(request):
    if request.param == "smooth":  # a hole of several pixels, up to the border
        gone = torch.zeros(3, 2, 14, 11, dtype=torch.bool)
        gone[:, :, 3:, 2:9] = True
        return gone
    return torch.rand((3, 2 if request.param == "scalar" else 1, 14, 11), generator=seeded(1)) < 0.7


@pytest.mark.parametrize("fill", OTHERS)
def test_fill_keeps_remaining_values_and_inputs_unchanged(fill, images, removed):
    before, marks = images.clone(), removed.clone()
    found = apply_non_mean_fill(images, removed, fill, MEAN, IDS)
    assert (found.dtype, found.shape) == (torch.uint8, images.shape)
    assert torch.equal(found[~removed.expand(images.shape)], images[~removed.expand(images.shape)])
    assert torch.equal(images, before) and torch.equal(removed, marks)
    assert torch.equal(found, apply_non_mean_fill(images, removed, fill, MEAN, IDS))
    assert not torch.equal(found, images)
    for row in range(3):  # the fill of an image does not depend on its batch
        one = slice(row, row + 1)
        alone = apply_non_mean_fill(images[one], removed[one], fill, MEAN, IDS[one]).int()
        assert (alone - found[one].int()).abs().max() <= (1 if fill == "linear" else 0)  # other rounding, at .5


def test_black_and_blur_fills_match_definitions(images, removed):
    gone = removed.expand(images.shape)
    assert (apply_non_mean_fill(images, removed, "zero", MEAN, IDS)[gone] == 0).all()
    drawn = images.double().numpy()
    for axis, side in ((2, 14), (3, 11)):
        sigma = 0.05 * side
        drawn = ndimage.gaussian_filter1d(drawn, sigma, axis, mode="mirror", radius=round(4 * sigma))
    found = apply_non_mean_fill(images, removed, "blur", MEAN, IDS)
    assert (found.double() - torch.from_numpy(drawn)).abs()[gone].max() <= 0.501


def test_noise_fill_is_uniform_over_pixel_values():
    large = torch.zeros(2, 3, 64, 64, dtype=torch.uint8)
    everything = torch.ones_like(large, dtype=torch.bool)
    found = apply_non_mean_fill(large, everything, "noise", torch.zeros(3), torch.tensor([1, 2]))
    counts = torch.bincount(found.flatten().int(), minlength=256)
    expected = found.numel() / 256
    assert counts.min() > expected - 5 * expected**0.5
    assert counts.max() < expected + 5 * expected**0.5
    assert not torch.equal(found[0], found[1])


def test_linear_fill_adds_noise_of_one_percent_of_pixel_range():
    flat = torch.full((2, 1, 64, 64), 100, dtype=torch.uint8)
    gone = torch.zeros_like(flat, dtype=torch.bool)
    gone[:, :, 1:-1, 1:-1] = True
    off = apply_non_mean_fill(flat, gone, "linear", torch.zeros(1), torch.tensor([0, 1]))[gone].float() - 100
    assert abs(off.mean().item()) < 0.2
    assert 2.4 < off.std().item() < 2.7


@pytest.mark.parametrize("shade", [0, 255])
def test_linear_fill_of_black_and_white_ends_at_pixel_range(shade):
    flat = torch.full((1, 1, 64, 64), shade, dtype=torch.uint8)
    gone = torch.zeros_like(flat, dtype=torch.bool)
    gone[:, :, 1:-1, 1:-1] = True
    found = apply_non_mean_fill(flat, gone, "linear", torch.zeros(1), torch.tensor([0])).int()
    assert (found - shade).abs().max() < 20, "a value beyond the range would begin anew at the other end"
    assert (found == shade).float().mean() > 0.5


def test_linear_and_neighbours_fills_match_hand_computed_values():
    # in the middle (4 * 12 / 6 + 4 * 24 / 12) / 1, at a corner (10 / 6 + 10 / 6 + 40 / 12) / (5 / 12)
    middle = torch.tensor([[[[24.0, 12, 24], [12, 0, 12], [24, 12, 24]]]])
    corner = torch.tensor([[[[0.0, 10, 1], [10, 40, 1], [1, 1, 1]]]])
    for image in (middle, corner):
        found = compute_interpolated_fill(image, image == 0, torch.zeros(1, 3, 3))
        assert found[image == 0].item() == pytest.approx(16, abs=1e-2)
    line = torch.tensor([[[[10, 0, 0, 0, 40]]]], dtype=torch.uint8)
    gone = torch.tensor([[[[False, True, True, True, False]]]])
    # the first pass fills the outer two with 10 and 40, the second pass the middle with their mean
    filled = apply_non_mean_fill(line, gone, "neighbours", torch.zeros(1), IDS[:1])
    assert filled.flatten().tolist() == [10, 10, 25, 40, 40]


def test_linear_fill_is_unaffected_by_large_hole_in_another_image():
    images = torch.randint(256, (2, 1, 32, 32), generator=seeded(0)).float()
    gone = torch.rand(images.shape, generator=seeded(1)) < 0.5
    gone[1, :, :30] = True
    together, alone = (compute_interpolated_fill(images[:n], gone[:n], MEAN[:1, None, None])[0] for n in (2, 1))
    assert (together - alone).abs().max() < 5e-4


@pytest.mark.parametrize("fill", ["linear", "neighbours"])
def test_fill_uses_mean_where_no_feature_of_channel_remains(fill, images):
    gone = torch.ones_like(images, dtype=torch.bool)
    gone[0, 1, 5, 5] = False
    found = apply_non_mean_fill(images, gone, fill, MEAN, IDS).float()
    assert (found[1, 0] - 120).abs().mean() < 4
    assert (found[0, 1] - float(images[0, 1, 5, 5])).abs().mean() < 4
