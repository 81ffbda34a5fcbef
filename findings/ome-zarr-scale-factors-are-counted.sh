#!/usr/bin/env bash
# Guess: `write_image(..., scale_factors=[4, 16])` of ome-zarr writes levels of a quarter and a sixteenth of the side, as its
#   documentation says: "the downsampling factors for each pyramid level"; factors that it cannot make are refused.
# Behaviour: with ome-zarr 0.18.0 it writes a half and a quarter, as [2, 4], [3, 9], [10, 100] and [8, 1] do, without a
#   warning. The same factors as dictionaries, `[{"y": 4, "x": 4}, {"y": 16, "x": 16}]`, are kept. `write_labels` is the same.
# Cause: `_build_pyramid` (ome_zarr/scale.py) replaces the place i in a list of whole numbers, counted from 1, by the factor
#   2**i; the numbers themselves are not read.
# Why it matters: readers take a level for training or for an overview by its number. A level planned with 1/16 of the side
#   has 16 times the pixels of the plan, and a mask from another program at 1/16 does not fit. The scale in the metadata is
#   that of the pixels, so the file looks right.
#   https://github.com/ome/ome-zarr-py/issues/606 is another fault of `write_labels`, which also drops the dictionaries.
# Versions: ome-zarr 0.18.0, zarr 3.1.6, dask 2026.8.0, scikit-image 0.26.0, scipy 1.17.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q ome-zarr==0.18.0 zarr==3.1.6 dask==2026.8.0 scikit-image==0.26.0 scipy==1.17.1 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import zarr
from ome_zarr.writer import write_image

image = np.random.default_rng(0).integers(0, 255, (480, 480)).astype(np.uint8)
cases = [[2, 4], [4, 16], [3, 9], [10, 100], [8, 1], [{"y": 4, "x": 4}, {"y": 16, "x": 16}]]
for number, factors in enumerate(cases):
    write_image(image, f"{number}.zarr", scale_factors=list(factors), axes="yx")
    group = zarr.open(f"{number}.zarr")
    levels = group.attrs["ome"]["multiscales"][0]["datasets"]
    sides = [group[level["path"]].shape[0] for level in levels]
    scales = [level["coordinateTransformations"][0]["scale"][0] for level in levels]
    print(f"{factors}: sides {sides}, scale in the metadata {scales}")
    assert sides == ([480, 120, 30] if number == 5 else [480, 240, 120]), "the behaviour changed"
    assert scales == [480 / side for side in sides]
PYTHON
