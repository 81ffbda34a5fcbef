"""Pack the program and Imagenette at 128 pixels for a machine without network, into OUT.

    python scripts/pack_for_gpu.py FOLDER [--out build/pack] [--quality 64]

FOLDER has Imagenette's parquet files, as `frgfm/imagenette` (160px) of the Hugging Face hub names them. OUT/images gets
the 128 pixels per side that the data set `imagenette` keeps of each photograph, as WebP within a frame that its crop
cuts off. OUT/roarbench.tar.gz has the last commit without results, studies, demo and documentation pages; rows of the
unpacked program name this commit.
"""

import argparse
import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from roarbench.datasets.catalogue import find_dataset
from roarbench.datasets.decode_image import decode_image

RECORD = find_dataset("imagenette")
MAX_IMAGE_BYTES, MAX_BYTES = 45e6, 60e6
_LEFT_OUT = ("results", "studies", "demo", "docs")
# the record's crop keeps the centre of the framed square: `side * crop` rounds to the record's size
_FRAME = (round(RECORD.size / RECORD.crop) - RECORD.size) // 2


def pack_image(content: bytes, quality: int) -> bytes:
    """Return a photograph as WebP whose centre has the pixels that the record keeps of `content`."""
    pixels = decode_image(content, RECORD).pixels.transpose(1, 2, 0)
    framed = np.pad(pixels, ((_FRAME, _FRAME), (_FRAME, _FRAME), (0, 0)), mode="edge")  # costs few bytes
    file = io.BytesIO()
    Image.fromarray(framed).save(file, "WEBP", quality=quality, method=6)
    return file.getvalue()


def pack_images(source: Path, target: Path, quality: int) -> int:
    """Write a parquet file of packed images for each split; return their bytes."""
    target.mkdir(parents=True, exist_ok=True)
    for split in RECORD.split_names.values():
        files = sorted(source.rglob(f"{split}-*.parquet"))
        if not files:
            wanted = f"{RECORD.hub} ({RECORD.config}) of the Hugging Face hub"
            sys.exit(f"{source} has no {split}-*.parquet; expected the files of {wanted}")
        table = pa.concat_tables(pq.read_table(file, columns=[RECORD.image_column, "label"]) for file in files)
        packed = [pack_image(row["bytes"], quality) for row in table[RECORD.image_column].to_pylist()]
        images = pa.array([{"bytes": content, "path": None} for content in packed])
        pq.write_table(
            pa.table({RECORD.image_column: images, RECORD.label_column: table["label"]}),
            target / f"{split}-00000-of-00001.parquet",
            compression="none",
        )
    return sum(file.stat().st_size for file in target.iterdir())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path("build/pack"))
    parser.add_argument("--quality", type=int, default=64, help="of WebP, 0 to 100")
    arguments = parser.parse_args()
    images = pack_images(arguments.folder, arguments.out / "images", arguments.quality)
    archive, root = arguments.out / "roarbench.tar.gz", Path(__file__).parents[1]
    excluded = [f":!{folder}" for folder in _LEFT_OUT]
    command = ["git", "-C", str(root), "archive", "--format=tar.gz", "HEAD", "--", ".", *excluded]
    archive.write_bytes(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    program = archive.stat().st_size
    print(f"images {images / 1e6:.1f} MB, program {program / 1e6:.1f} MB in {arguments.out}")
    if images > MAX_IMAGE_BYTES or images + program > MAX_BYTES:
        sys.exit(f"expected at most {MAX_IMAGE_BYTES / 1e6:.0f} MB and {MAX_BYTES / 1e6:.0f} MB; lower --quality")


if __name__ == "__main__":
    main()
