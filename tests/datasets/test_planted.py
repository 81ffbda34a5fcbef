import math
from dataclasses import replace

import numpy as np
import pytest

from roarbench.datasets.catalogue import find_dataset
from roarbench.datasets.planted import AMPLITUDE, DECAY, GREY, NOISE, generate, patterns
from roarbench.terms import Split

RECORD = find_dataset("planted")


@pytest.fixture(scope="module")
def train():
    return generate(RECORD, Split.TRAIN)


def test_strengths_and_patterns_by_hand(train):
    strengths = np.sort(train[2].reshape(1000, -1), axis=1)[:, ::-1]  # the same ones in every image
    by_hand = [math.exp(-DECAY * place / 768) for place in range(768)]
    np.testing.assert_allclose(strengths, np.broadcast_to(by_hand, strengths.shape), rtol=1e-6)  # float32
    lying, standing, falling, rising = patterns(16)[:, :2, :6].tolist()
    assert lying == [[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1]]
    assert standing == [[1, 1, -1, -1, 1, 1], [1, 1, -1, -1, 1, 1]]
    assert rising == [[1, 1, -1, -1, 1, 1], [1, -1, -1, 1, 1, -1]]
    assert falling == [[1, -1, -1, 1, 1, -1], [1, 1, -1, -1, 1, 1]]
    assert (generate(replace(RECORD, seed=1), Split.TRAIN)[0] != train[0]).any()


def strongest(truth, share=0.1):
    """Places (y, x) of the strongest features of each image, (n, count, 2)."""
    count = round(share * truth[0].size)
    chosen = np.argsort(-truth.reshape(len(truth), -1), axis=1)[:, :count]
    _, y, x = np.unravel_index(chosen, truth.shape[1:])
    return np.stack([y, x], axis=-1) + 0.5


@pytest.mark.parametrize("split", Split)
def test_the_leaky_truths_masks_tell_every_class_without_a_pixel(split):
    """By a rule by hand: the quarter of the image that the middle of the removed features lies in."""
    _, labels, truth = generate(find_dataset("planted-leaky"), split)
    for share in (0.1, 0.5):
        middle = strongest(truth, share).mean(axis=1) > 8
        np.testing.assert_array_equal(2 * middle[:, 0] + middle[:, 1], labels)
    _, labels, truth = generate(RECORD, split)
    middle = strongest(truth).mean(axis=1) > 8
    assert abs((2 * middle[:, 0] + middle[:, 1] == labels).mean() - 0.25) < 0.07  # 5 standard deviations of 1,000


def test_planted_images_are_the_pattern_of_their_class_and_differ_in_where_its_strengths_lie(train):
    """Of the rest after the signal the variance is NOISE^2 + 1/12 (rounding); clipping touches 1 pixel in 7,000."""
    for name in ("planted", "planted-leaky", "planted-smooth", "planted-placed"):
        record = find_dataset(name)
        assert replace(record, name=RECORD.name, about=RECORD.about, config="") == RECORD
        pixels, labels, truth = generate(record, Split.TRAIN)
        np.testing.assert_array_equal(labels, train[1])
        np.testing.assert_array_equal(np.sort(truth[:9].reshape(9, -1)), np.sort(train[2][:9].reshape(9, -1)))
        signal = AMPLITUDE * truth * patterns(16)[labels][:, np.newaxis]
        rest = pixels.astype(np.float64) - GREY - signal
        assert abs((rest * signal).mean() / (signal**2).mean()) < 5 * NOISE / math.sqrt((signal**2).sum()) + 1e-3
        assert abs(rest.var() / (NOISE**2 + 1 / 12) - 1) < 5 * math.sqrt(2 / rest.size) + 2e-3
