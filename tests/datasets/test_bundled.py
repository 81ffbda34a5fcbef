import tomllib
from io import BytesIO
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from PIL import Image

import roarbench
from roarbench.datasets.catalogue import DATASETS, PINNED, find_dataset
from roarbench.datasets.loading import decode_dataset
from roarbench.datasets.origin import BUNDLED
from roarbench.datasets.sources import open_source
from roarbench.terms import Split

FOLDER = BUNDLED / "imagenette64"
NAMES = "tench,English springer,cassette player,chain saw,church,French horn,garbage truck,gas pump,golf ball,parachute"


def test_size() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= 26 * 2**20


def test_counts_and_labels() -> None:
    """Counts by class: those of Imagenette 2's folders, github.com/fastai/imagenette."""
    raw = open_source(find_dataset("imagenette64"), None)
    train, test = (raw[split].labels for split in (Split.TRAIN, Split.TEST))
    assert [int((train == label).sum()) for label in range(10)] == [963, 955, 993, 858, 941, 956, 961, 931, 951, 960]
    assert [int((test == label).sum()) for label in range(10)] == [387, 395, 357, 386, 409, 394, 389, 419, 399, 390]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PINNED.keys() - {"fashion-mnist"}))
def test_what_needs_no_download_has_the_fingerprint_that_is_pinned(name: str, tmp_path: Path) -> None:
    """By which stores that do not say where their images came from know the suite's own."""
    assert decode_dataset(find_dataset(name), tmp_path).fingerprint == PINNED[name]


@pytest.mark.parametrize("split", ["train", "validation"])
def test_layout_is_the_hubs(split: str) -> None:
    file = pq.ParquetFile(FOLDER / f"{split}-00000-of-00001.parquet")
    import datasets

    features = datasets.Features.from_arrow_schema(file.schema_arrow)
    assert features == {"image": datasets.Image(), "label": datasets.ClassLabel(names=NAMES.split(","))}
    assert file.schema_arrow.field("image").type.field("bytes").type == "binary"


def test_images_are_small_webp() -> None:
    stored = next(pq.ParquetFile(FOLDER / "validation-00000-of-00001.parquet").iter_batches(20))
    for row in stored.column("image").to_pylist():
        with Image.open(BytesIO(row["bytes"])) as image:
            assert (image.format, image.size, image.mode) == ("WEBP", (64, 64), "RGB")


def test_everything_bundled_is_package_data() -> None:
    """A wheel carries what the patterns in pyproject.toml name."""
    package = Path(roarbench.__file__).parent
    pyproject = package.parent / "pyproject.toml"
    if not pyproject.exists():
        pytest.skip("not in a checkout")
    patterns = tomllib.loads(pyproject.read_text())["tool"]["setuptools"]["package-data"]["roarbench"]
    carried = {path for pattern in patterns for path in package.glob(pattern)}
    bundled = [BUNDLED / record.bundled for record in DATASETS.values() if record.bundled]
    assert all(path in carried for folder in bundled for path in folder.iterdir())
