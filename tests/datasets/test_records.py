import re
import subprocess
import sys

import pytest

from roarbench.datasets.catalogue import DATASETS, find_dataset
from roarbench.errors import UnknownName


def test_find_dataset() -> None:
    assert find_dataset("cifar10").hub == "uoft-cs/cifar10"


def test_unknown_name_guesses() -> None:
    with pytest.raises(UnknownName, match="no data set 'cifar11'; did you mean 'cifar10'?"):
        find_dataset("cifar11")


def test_hub_revisions_are_whole_commits() -> None:
    for record in DATASETS.values():
        assert re.fullmatch("[0-9a-f]{40}", record.revision) or not record.hub


def test_photographs_keep_224_of_256() -> None:
    """Protocol, section 5: short side 256, centre 224; the small sets keep the whole short side."""
    crops = {record.name: record.crop for record in DATASETS.values()}
    whole = {"imagenette64", "cifar10", "fashion-mnist"} | {name for name in DATASETS if name.startswith("planted")}
    whole |= {name for name, record in DATASETS.items() if record.tabular}
    assert crops == {name: 1.0 if name in whole else 224 / 256 for name in DATASETS}


@pytest.mark.parametrize(
    ("name", "hub", "train", "test", "columns", "splits", "gated"),
    [
        ("imagenette", "frgfm/imagenette", 9_469, 3_925, "image label", "train validation", False),
        ("food101", "ethz/food101", 75_750, 25_250, "image label", "train validation", False),
        ("birdsnap", "sasha/birdsnap", 37_360, 2_500, "image label", "train train", False),
        ("imagenet", "ILSVRC/imagenet-1k", 1_281_167, 50_000, "image label", "train validation", True),
    ],
)
def test_records_of_the_papers_size(
    name: str, hub: str, train: int, test: int, columns: str, splits: str, gated: bool
) -> None:
    record = find_dataset(name)
    assert (record.hub, record.train_images, record.test_images, record.gated) == (hub, train, test, gated)
    assert f"{record.image_column} {record.label_column}" == columns
    assert f"{record.train_split} {record.test_split}" == splits


def test_records_do_not_import_torch() -> None:
    program = "import sys; import roarbench.datasets.catalogue; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
