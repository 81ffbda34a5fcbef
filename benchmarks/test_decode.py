"""Decoding photographs to the paper's crop, one at a time. Run: pytest benchmarks/test_decode.py --benchmark-only.

Made photographs of 500 x 375 by default; PHOTOGRAPHS=FILE.parquet takes the first 250 of a file in the hub's layout.
Each case decodes the same images: the ratio of two is the ratio of their times. What else changes than the time is in
`extra_info` (`--benchmark-json FILE`): the share of images whose pixels differ, and by how much.
"""

import os
import time
from collections.abc import Callable
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from roarbench.datasets.catalogue import find_dataset
from roarbench.datasets.crop import centre_square
from roarbench.datasets.images import decode_image

RECORD = find_dataset("imagenet")


def made_photographs() -> list[bytes]:
    """Make smooth noise: coarse blocks enlarged, so that JPEG has as much to do as with a photograph (90 kB)."""
    rng = np.random.default_rng(0)
    stored = []
    for _ in range(30):
        coarse = Image.fromarray(rng.integers(0, 256, (150, 200, 3), np.uint8))
        image = BytesIO()
        coarse.resize((500, 375), Image.Resampling.BICUBIC).save(image, "JPEG", quality=90)
        stored.append(image.getvalue())
    return stored


@pytest.fixture(scope="module")
def photographs() -> list[bytes]:
    file = os.environ.get("PHOTOGRAPHS")
    if file is None:
        return made_photographs()
    column = pq.read_table(Path(file), columns=[RECORD.image_column])[RECORD.image_column]
    return [row["bytes"] for row in column[:250].to_pylist()]


def ours(content: bytes) -> np.ndarray:
    return decode_image(content, RECORD).pixels.transpose(1, 2, 0)


def cropped(image: Image.Image) -> np.ndarray:
    return np.asarray(centre_square(image, RECORD.size, RECORD.crop))


def plain(content: bytes) -> np.ndarray:
    with Image.open(BytesIO(content)) as image:
        return cropped(image.convert("RGB"))


def draft(content: bytes) -> np.ndarray:
    """Decode JPEG at 1/2, 1/4 or 1/8 of its size where that is still large enough."""
    with Image.open(BytesIO(content)) as image:
        scale = RECORD.size / RECORD.crop / min(image.size)
        image.draft("RGB", (round(image.width * scale), round(image.height * scale)))
        return cropped(image.convert("RGB"))


def torchvision_decode(content: bytes) -> np.ndarray:
    import torch
    from torchvision.io import ImageReadMode, decode_jpeg

    decoded = decode_jpeg(torch.frombuffer(bytearray(content), dtype=torch.uint8), ImageReadMode.RGB)
    return cropped(Image.fromarray(decoded.permute(1, 2, 0).numpy()))


def simplejpeg_decode(content: bytes) -> np.ndarray:
    import simplejpeg

    return cropped(Image.fromarray(simplejpeg.decode_jpeg(content, "RGB")))


def turbojpeg_decode(content: bytes) -> np.ndarray:
    return cropped(Image.fromarray(_turbojpeg().decode(content, pixel_format=0)))  # 0: RGB


@cache
def _turbojpeg() -> Any:
    import turbojpeg

    return turbojpeg.TurboJPEG()


@pytest.mark.parametrize("decode", [plain, ours, draft, torchvision_decode, simplejpeg_decode, turbojpeg_decode])
def test_decode(benchmark: Any, photographs: list[bytes], decode: Callable[[bytes], np.ndarray]) -> None:
    try:
        pairs = [(decode(content).astype(float), plain(content)) for content in photographs]
    except (ImportError, RuntimeError) as error:  # a library that is not here, or not built for this torch
        pytest.skip(str(error))
    assert {(one.shape, other.shape) for one, other in pairs} == {((RECORD.size, RECORD.size, 3),) * 2}
    differences = [np.abs(one - other).mean() for one, other in pairs]
    assert decode not in (plain, ours) or not any(differences)
    benchmark.extra_info["images that differ"] = sum(bool(difference) for difference in differences)
    benchmark.extra_info["largest mean difference"] = max(differences)
    benchmark._timer = time.process_time
    benchmark.pedantic(lambda: [decode(content) for content in photographs], rounds=5, warmup_rounds=1)
    benchmark.extra_info["images per second"] = len(photographs) / benchmark.stats.stats.min
