import math
from dataclasses import replace

import numpy as np
import pytest

from roarbench.datasets import find_dataset
from roarbench.datasets.planted import AMPLITUDE, DECAY, GREY, NOISE, generate, patterns
from roarbench.terms import Split

RECORD = find_dataset("planted")


@pytest.fixture(scope="module")
def train() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return generate(RECORD, Split.TRAIN)


def test_shapes_and_ranges(train) -> None:
    pixels, labels, truth = train
    assert pixels.shape == truth.shape == (1000, 3, 16, 16)
    assert (pixels.dtype, labels.dtype, truth.dtype) == (np.uint8, np.int64, np.float32)
    assert np.bincount(labels).tolist() == [250] * 4
    assert truth.max() == 1
    assert truth.min() > 0


def test_the_seed_fixes_everything(train) -> None:
    for again, first in zip(generate(RECORD, Split.TRAIN), train, strict=True):
        np.testing.assert_array_equal(again, first)
    assert (generate(replace(RECORD, seed=1), Split.TRAIN)[0] != train[0]).any()


def test_the_splits_share_no_draws() -> None:
    even = replace(RECORD, train_images=8, test_images=8)
    for train, test in zip(generate(even, Split.TRAIN), generate(even, Split.TEST), strict=True):
        assert (train != test).any()


def test_the_ranking_is_strict_and_every_image_has_the_same_strengths(train) -> None:
    strengths = np.sort(train[2].reshape(1000, -1), axis=1)[:, ::-1]
    assert (np.diff(strengths, axis=1) < 0).all()
    by_hand = [math.exp(-DECAY * place / 768) for place in range(768)]
    np.testing.assert_allclose(strengths, np.broadcast_to(by_hand, strengths.shape), rtol=1e-6)  # float32


def test_patterns_tell_nothing_by_their_mean_and_little_of_each_other() -> None:
    flat = patterns(16).reshape(4, -1)
    assert flat.sum(axis=1).tolist() == [0] * 4
    np.testing.assert_array_equal(flat @ flat.T, 256 * np.eye(4, dtype=int))


def test_pattern_by_hand() -> None:
    lying, suite_results, falling, rising = patterns(16)[:, :2, :6].tolist()
    assert lying == [[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1]]
    assert suite_results == [[1, 1, -1, -1, 1, 1], [1, 1, -1, -1, 1, 1]]
    assert rising == [[1, 1, -1, -1, 1, 1], [1, -1, -1, 1, 1, -1]]
    assert falling == [[1, -1, -1, 1, 1, -1], [1, 1, -1, -1, 1, 1]]


def test_pixels_minus_the_signal_are_noise_of_the_stated_size(train) -> None:
    """Mean 0 and variance NOISE^2 + 1/12 (rounding), within 5 standard deviations; clipping touches 1 in 7,000."""
    pixels, labels, truth = train
    rest = pixels.astype(np.float64) - GREY - AMPLITUDE * truth * patterns(16)[labels][:, np.newaxis]
    count = rest.size
    assert abs(rest.mean()) < 5 * NOISE / math.sqrt(count)
    assert abs(rest.var() / (NOISE**2 + 1 / 12) - 1) < 5 * math.sqrt(2 / count) + 2e-3


def test_the_class_is_in_the_pattern(train) -> None:
    """Least squares of the pixels on strength times each pattern finds AMPLITUDE for the image's class, 0 elsewhere."""
    pixels, labels, truth = train
    for label in range(4):
        mine = labels == label
        for other in range(4):
            regressor = truth[mine] * patterns(16)[other]
            energy = float((regressor.astype(np.float64) ** 2).sum())
            slope = float((regressor * (pixels[mine].astype(np.float64) - GREY)).sum()) / energy
            # Patterns are orthogonal as wholes, not under each image's strengths, hence the second term.
            tolerance = 5 * NOISE / math.sqrt(energy) + (0.02 * AMPLITUDE if other != label else 0)
            assert abs(slope - (AMPLITUDE if other == label else 0)) < tolerance + 0.001 * AMPLITUDE


def test_strengths_know_nothing_of_the_class(train) -> None:
    """The mean strength at each place differs between classes by chance alone: z-scores have variance 1."""
    _, labels, truth = train
    total = truth.mean(axis=0)
    spread = truth.std(axis=0) * math.sqrt(1 / 250 - 1 / 1000)
    scores = np.stack([(truth[labels == label].mean(axis=0) - total) / spread for label in range(4)])
    assert abs(scores).max() < 5.5  # of 3,072 strongly dependent draws; P(|z| > 5.5) = 4e-8 each


def test_a_ranking_is_not_the_raster(train) -> None:
    """The strongest feature lies in the middle half, at many places, equally often in each channel."""
    strongest = train[2].reshape(1000, -1).argmax(axis=1)
    channel, row, column = np.unravel_index(strongest, (3, 16, 16))
    assert row.min() >= 3
    assert row.max() <= 12
    assert len(set(zip(row.tolist(), column.tolist(), strict=True))) > 60
    assert abs(np.bincount(channel) - 1000 / 3).max() < 5 * math.sqrt(1000 * 2 / 9)
