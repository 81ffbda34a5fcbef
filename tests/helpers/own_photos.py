"""A folder of small pictures of three classes that anybody can tell apart, a suite on them, and a table."""

from pathlib import Path

import numpy as np

from tests.helpers.tiny_set import png

CLASSES = ("blue", "green", "red")
TEXT = """
name = "pictures"
protocols = ["roar"]
estimators = ["grad"]
levels = [0.5]
seeds = 1
references = 1

[data]
images = "pictures"
size = 8
test_share = 0.25

[network]
name = "resnet-planted"

[recipe]
like = "planted-brief@1"
epochs = 1
warmup = 0.5
"""


def write_pictures(folder: Path, count: int = 8, seed: int = 0) -> Path:
    """Write `count` pictures of 10 x 9 pixels of each class, into a folder for each."""
    rng = np.random.default_rng(seed)
    for number, name in enumerate(CLASSES):
        (folder / name).mkdir(parents=True)
        for i in range(count):
            pixels = rng.integers(0, 128, (10, 9, 3), np.uint8)
            pixels[..., 2 - number] += 127
            (folder / name / f"{i:02}.png").write_bytes(png(pixels))
    return folder


def write_suite(folder: Path, text: str = TEXT) -> Path:
    """Write a suite and, where they are not there, its pictures beside it."""
    if not (folder / "pictures").exists():
        write_pictures(folder / "pictures")
    path = folder / "pictures.toml"
    path.write_text(text)
    return path


def write_table(path: Path) -> Path:
    """Write 40 rows of two kinds that the first column tells apart."""
    drawn = np.random.default_rng(0).normal(size=(40, 4)).round(3)
    lines = [f"{a + 4 * (i % 2)},{b},{c},{d},{'ab'[i % 2]}" for i, (a, b, c, d) in enumerate(drawn.tolist())]
    path.write_text("\n".join(["one,two,three,four,kind", *lines]) + "\n")
    return path
