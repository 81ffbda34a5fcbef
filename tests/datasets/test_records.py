"""What a data set's record says, held against its source: the data where they are here, else what was published."""

import pytest

from roarbench.datasets.catalogue import DATASETS, PINNED, find_dataset
from roarbench.datasets.loading import decode_dataset
from roarbench.datasets.sources import open_source
from roarbench.terms import Split

PUBLISHED = {  # what is not here: classes, training and test images; of Birdsnap those of the hub's copy
    "imagenette": (10, 9469, 3925),
    "cifar10": (10, 50_000, 10_000),
    "fashion-mnist": (10, 60_000, 10_000),
    "food101": (101, 75_750, 25_250),
    "birdsnap": (500, 39_860 - 5 * 500, 5 * 500),
    **dict.fromkeys(("imagenet", "imagenet-128", "imagenet-64"), (1000, 1_281_167, 50_000)),
    **dict.fromkeys(("imagenet-100", "imagenet-100-128", "imagenet-100-64"), (100, 100 * 732, 100 * 50)),
    "imagenet-10k": (1000, 1000 * 10, 1000 * 10),
}
WHOLE = {"cifar10", "fashion-mnist"}  # of these the whole image is kept (protocol, section 5)


@pytest.mark.parametrize("name", DATASETS)
def test_counts_are_those_of_the_source(name):
    record = DATASETS[name]
    counts = (record.classes, record.train_images, record.test_images)
    if record.bundled or record.generated:
        splits = open_source(record, None)
        assert counts == (len({*splits[Split.TRAIN].labels}), *(len(splits[split].labels) for split in Split))
    else:
        assert counts == PUBLISHED[name]
        assert record.crop == (1.0 if name in WHOLE else 224 / 256)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PINNED.keys() - {"fashion-mnist"}))
def test_what_needs_no_download_has_the_fingerprint_that_is_pinned(name, tmp_path):
    """By which stores that do not say where their images came from know the suite's own."""
    assert decode_dataset(find_dataset(name), tmp_path).fingerprint == PINNED[name]
