import pytest

from roarbench.datasets.catalogue import PINNED, find_dataset
from roarbench.datasets.loading import decode_dataset
from roarbench.datasets.sources import open_source
from roarbench.terms import Split


def test_counts_and_labels():
    """Counts by class: those of Imagenette 2's folders, github.com/fastai/imagenette."""
    raw = open_source(find_dataset("imagenette64"), None)
    train, test = (raw[split].labels for split in (Split.TRAIN, Split.TEST))
    assert [int((train == label).sum()) for label in range(10)] == [963, 955, 993, 858, 941, 956, 961, 931, 951, 960]
    assert [int((test == label).sum()) for label in range(10)] == [387, 395, 357, 386, 409, 394, 389, 419, 399, 390]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PINNED.keys() - {"fashion-mnist"}))
def test_what_needs_no_download_has_the_fingerprint_that_is_pinned(name, tmp_path):
    """By which stores that do not say where their images came from know the suite's own."""
    assert decode_dataset(find_dataset(name), tmp_path).fingerprint == PINNED[name]
