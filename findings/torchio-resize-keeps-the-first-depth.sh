#!/usr/bin/env bash
# Guess: `Resize((32, 32, -1))` of TorchIO resizes two dimensions of each volume and keeps the third one, as its
#   documentation says: "dimensions with value -1 will be kept".
# Behaviour: with TorchIO 1.2.1 the first volume that the transform sees keeps its depth, and all later ones get the depth
#   of the first: volumes of 10, 20 and 40 slices all come out with 10, in the opposite order all with 40. A volume alone
#   is right. No warning is given.
# Cause: `Resize.apply_transform` (torchio/transforms/preprocessing/spatial/resize.py) writes the volume's shape over the -1
#   in `shape_out`, which is the transform's own array `target_shape` and no copy of it.
# Why it matters: values depend on the order of the images. A shuffled training set, a worker process more, or another
#   first test volume changes the spacing, the shape of lesions and so the score of each network and map; slices are
#   interpolated or dropped where none was to be changed. Batches fit together, so that nothing looks wrong.
# Versions: torchio 1.2.1, torch 2.13.0, numpy 2.4.6, SimpleITK 2.5.7, nibabel 5.4.2, scipy 1.17.1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torchio==1.2.1 torch==2.13.0 numpy==2.4.6 SimpleITK==2.5.7 nibabel==5.4.2 scipy==1.17.1
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
import torchio


def resize(transform, depth):
    """Return the slices of a volume after the transform, and how many thick plates of 2 slices are left apart in it."""
    plates = (torch.arange(depth) // 2 % 2).float().expand(1, 64, 64, depth)
    resized = transform(torchio.ScalarImage(tensor=plates)).data[0, 16, 16]
    return len(resized), int((resized.diff() > 0.5).sum())


for depths in ((10, 20, 40), (40, 20, 10)):
    shared = torchio.Resize((32, 32, -1))
    together = [resize(shared, depth) for depth in depths]
    alone = [resize(torchio.Resize((32, 32, -1)), depth) for depth in depths]
    print(f"volumes of {depths} slices: {[slices for slices, _ in together]} with one transform, "
          f"{[slices for slices, _ in alone]} with a transform each; plates {[left for _, left in together]} "
          f"of {[left for _, left in alone]}")
    assert [slices for slices, _ in alone] == list(depths)
    assert [slices for slices, _ in together] == [depths[0]] * 3, "the behaviour changed"
    assert tuple(shared.target_shape) == (32, 32, depths[0]), "the transform keeps its target"
PYTHON
