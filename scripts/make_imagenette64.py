"""Makes the bundled Imagenette: the centre square of every photograph at 64 x 64, as WebP in the hub's parquet layout.

    python scripts/make_imagenette64.py --source frgfm/imagenette
    python scripts/make_imagenette64.py --source FOLDER    the same parquet files, fetched before

Run again on the same source with the same Pillow it writes the same bytes.
"""

import argparse
from io import BytesIO
from pathlib import Path
from typing import Any

import datasets
from PIL import Image

from roarbench.datasets.one_image import centre_square

HUB = "frgfm/imagenette"
REVISION = "4b23ffb92a8029db9958bdfdbd6978427d09b1a0"
CONFIG = "160px"
BUNDLED = Path(__file__).parents[1] / "roarbench" / "datasets" / "bundled" / "imagenette64"
SIZE = 64
QUALITY = 90
LIMIT = 26 * 2**20  # bytes of both files together: the package carries them
COUNTS = {"train": 9469, "validation": 3925}


def small_image(row: dict[str, Any]) -> dict[str, Any]:
    """Return one photograph, {"bytes", "path"}, as a 64 x 64 WebP in the same form."""
    with Image.open(BytesIO(row["bytes"])) as photograph:
        square = centre_square(photograph.convert("RGB"), SIZE)
    encoded = BytesIO()
    square.save(encoded, "WEBP", quality=QUALITY)
    return {"bytes": encoded.getvalue(), "path": Path(row["path"]).with_suffix(".webp").name}


def small_split(split: datasets.Dataset) -> datasets.Dataset:
    """Return all photographs of a split at 64 x 64, in order, with the label names of the source."""
    stored = split.cast_column("image", datasets.Image(decode=False))
    images = [small_image(row["image"]) for row in stored]
    features = datasets.Features({"image": datasets.Image(), "label": split.features["label"]})
    return datasets.Dataset.from_dict({"image": images, "label": list(stored["label"])}, features=features)


def read_source(source: str) -> datasets.DatasetDict:
    """Read Imagenette at 160 pixels from the hub or from a folder in its layout.

    Raises:
        SystemExit: A split has another number of images.
    """
    if Path(source).is_dir():
        found = datasets.load_dataset(source)
    else:
        found = datasets.load_dataset(source, CONFIG, revision=REVISION if source == HUB else None)
    counts = {name: split.num_rows for name, split in found.items()}
    if counts != COUNTS:
        raise SystemExit(f"{source} has {counts} images, expected {COUNTS}")
    return found


def main() -> None:
    """Write both splits, and say how large they are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", default=HUB, help="a path on the hub or a local folder (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=BUNDLED, help="folder to write to (default: the package's)")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    written = 0
    for name, split in read_source(arguments.source).items():
        path = arguments.out / f"{name}-00000-of-00001.parquet"
        small_split(split).to_parquet(path)
        written += path.stat().st_size
        print(f"{path}: {split.num_rows:,} images, {path.stat().st_size / 2**20:.2f} MiB")
    if written > LIMIT:
        raise SystemExit(f"{written / 2**20:.2f} MiB, more than {LIMIT / 2**20:.0f}; lower QUALITY or set method=6")


if __name__ == "__main__":
    main()
