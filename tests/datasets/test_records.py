"""Records of data sets match their sources, and images with planted truth."""

import math
from dataclasses import replace

import numpy as np
import pytest

from roarbench.common.enums import Split
from roarbench.datasets.catalogue import DATASETS, PINNED_FINGERPRINTS, find_dataset
from roarbench.datasets.decode_dataset import decode_dataset
from roarbench.datasets.planted_images import DECAY, generate_stripe_split, make_stripe_patterns
from roarbench.datasets.undecoded_splits import open_undecoded_splits

PUBLISHED = {  # of data that need a download: classes, training and test images; Birdsnap counts the hub's copy
    "imagenet-5k": (1000, 1000 * 5, 1000 * 5),
    "imagenette": (10, 9469, 3925),
    "cifar10": (10, 50_000, 10_000),
    "cifar10-1000": (10, 50_000, 1000),
    "fashion-mnist": (10, 60_000, 10_000),
    "fashion-mnist-1000": (10, 60_000, 1000),
    "food101": (101, 75_750, 25_250),
    "birdsnap": (500, 39_860 - 5 * 500, 5 * 500),
    "imagenet": (1000, 1_281_167, 50_000),
    "imagenet-100-64": (100, 100 * 732, 100 * 50),
    "imagenet-10k": (1000, 1000 * 10, 1000 * 10),
}

CROPPED = {
    "imagenette",
    "food101",
    "birdsnap",
    *(name for name in PUBLISHED if name.startswith("imagenet-")),
    "imagenet",
}


@pytest.mark.parametrize("name", DATASETS)
def test_dataset_counts_match_source(name):
    record = DATASETS[name]
    counts = (record.classes, record.train_images, record.test_images)
    if record.bundled or record.generated:
        splits = open_undecoded_splits(record, None)
        assert counts == (len({*splits[Split.TRAIN].labels}), *(len(splits[split].labels) for split in Split))
    else:
        assert counts == PUBLISHED[name]
        assert record.crop == (224 / 256 if name in CROPPED else 1.0)  # protocol, section 5


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PINNED_FINGERPRINTS.keys() - {"fashion-mnist", "fashion-mnist-1000"}))
def test_offline_datasets_have_pinned_fingerprint(name, tmp_path):
    """Stores without a recorded source recognise a suite's own images by this fingerprint."""
    assert decode_dataset(find_dataset(name), tmp_path).fingerprint == PINNED_FINGERPRINTS[name]


# Planted images

RECORD = find_dataset("planted")


def test_planted_strengths_and_patterns_match_hand_computed_values():
    pixels, _, truth = generate_stripe_split(RECORD, Split.TRAIN)
    strengths = np.sort(truth.reshape(1000, -1), axis=1)[:, ::-1]  # the same ones in every image
    by_hand = [math.exp(-DECAY * place / 768) for place in range(768)]
    np.testing.assert_allclose(strengths, np.broadcast_to(by_hand, strengths.shape), rtol=1e-6)  # float32
    lying, standing, falling, rising = make_stripe_patterns(16)[:, :2, :6].tolist()
    assert lying == [[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1]]
    assert standing == [[1, 1, -1, -1, 1, 1], [1, 1, -1, -1, 1, 1]]
    assert rising == [[1, 1, -1, -1, 1, 1], [1, -1, -1, 1, 1, -1]]
    assert falling == [[1, -1, -1, 1, 1, -1], [1, 1, -1, -1, 1, 1]]
    assert (generate_stripe_split(replace(RECORD, seed=1), Split.TRAIN)[0] != pixels).any()


@pytest.mark.parametrize("split", Split)
def test_planted_feature_positions_do_not_reveal_class(split):
    """A hand-made rule guesses the class from the quarter that contains the centre of the strongest tenth."""
    _, labels, truth = generate_stripe_split(RECORD, split)
    chosen = np.argsort(-truth.reshape(len(truth), -1), axis=1)[:, : round(0.1 * truth[0].size)]
    _, y, x = np.unravel_index(chosen, truth.shape[1:])
    middle = np.stack([y, x], axis=-1).mean(axis=1) > 7.5
    assert abs((2 * middle[:, 0] + middle[:, 1] == labels).mean() - 0.25) < 0.07  # 5 standard deviations of 1,000
