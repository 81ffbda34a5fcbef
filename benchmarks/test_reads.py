"""Compare two ways of reading 224 x 224 images in random order from disk: page faults, and prefetching.

pytest benchmarks/test_reads.py --benchmark-only      # writes 300 MB to the temporary folder
"""

import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from roarbench.common.enums import Unit
from roarbench.compute import streamed_degraded_images
from roarbench.compute.streamed_degraded_images import StreamedImages

COUNT, SHAPE = 2000, (3, 224, 224)
INDEX = torch.randperm(COUNT, generator=torch.Generator().manual_seed(0))[: COUNT // 2]


@pytest.fixture(scope="module")
def pixels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("reads") / "pixels.bin"
    np.random.default_rng(0).integers(256, size=(COUNT, *SHAPE), dtype=np.uint8).tofile(path)
    return path


def drop_from_page_cache(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def count_bytes_read() -> int:
    return int(Path("/proc/self/io").read_text().split("read_bytes: ")[1].split()[0])


@pytest.mark.benchmark(group="random reads")
@pytest.mark.parametrize("way", ["page faults", "prefetching"])
def test_random_read_time(benchmark: Any, pixels: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Time the reading; `extra_info` has the bytes read from disk, divided by the bytes of the images."""
    if way == "page faults":
        monkeypatch.setattr(streamed_degraded_images, "_find_memory_map", lambda array: None)
    bytes_read: list[int] = []

    def open_images() -> tuple[tuple[StreamedImages], dict[str, str]]:
        drop_from_page_cache(pixels)  # mapped pages stay in memory, so each round opens its own map
        with pixels.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        images = np.frombuffer(mapped, np.uint8).reshape(COUNT, *SHAPE)
        return (StreamedImages(images, None, torch.zeros(3), Unit.SCALAR, torch.device("cpu")),), {}

    def read_all(images: StreamedImages) -> None:
        before = count_bytes_read()
        assert sum(map(len, images.read(torch.split(INDEX, 256)))) == len(INDEX)
        bytes_read.append(count_bytes_read() - before)
        del images._pixels

    benchmark.pedantic(read_all, setup=open_images, rounds=5)
    benchmark.extra_info["times the bytes"] = round(float(np.median(bytes_read)) / (len(INDEX) * np.prod(SHAPE)), 2)
