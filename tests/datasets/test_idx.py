import gzip
import re
import struct

import numpy as np
import pytest

from roarbench.datasets.idx import has_idx, read_idx
from roarbench.errors import DataError
from roarbench.terms import Split

IMAGES = bytes(range(24))  # 2 images of 3 rows and 4 columns


def write(folder, prefix, images, labels, pack=lambda content: content, end=""):
    rows = struct.pack(">HBBiii", 0, 8, 3, len(images) // 12, 3, 4) + images
    (folder / f"{prefix}-images-idx3-ubyte{end}").write_bytes(pack(rows))
    (folder / f"{prefix}-labels-idx1-ubyte{end}").write_bytes(pack(struct.pack(">HBBi", 0, 8, 1, len(labels)) + labels))


@pytest.mark.parametrize(("pack", "end"), [(lambda content: content, ""), (gzip.compress, ".gz")])
def test_read_idx(tmp_path, pack, end):
    write(tmp_path, "train", IMAGES, b"\x07\x03", pack, end)
    pixels, labels = read_idx(tmp_path, Split.TRAIN)
    assert has_idx(tmp_path)
    assert pixels.shape == (2, 1, 3, 4)
    assert pixels[1, 0, 2].tolist() == [20, 21, 22, 23]
    assert labels.tolist() == [7, 3]
    assert labels.dtype == np.int64


def test_damage_is_named(tmp_path):
    write(tmp_path, "train", IMAGES, b"\x07\x03")
    path = tmp_path / "train-images-idx3-ubyte"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(DataError, match=re.escape("has 23 values, its header says (2, 3, 4)")):
        read_idx(tmp_path, Split.TRAIN)
    path.write_bytes(b"\x89PNG" + whole[4:])
    with pytest.raises(DataError, match="starts with 89 50 4e 47, expected an IDX file of 3 dimension"):
        read_idx(tmp_path, Split.TRAIN)
    path.unlink()
    path.with_suffix(".gz").write_bytes(gzip.compress(whole)[:-9])
    with pytest.raises(DataError, match="cannot read"):
        read_idx(tmp_path, Split.TRAIN)
