#!/usr/bin/env bash
# Guess: labels 0 to 4, kept as floats and saved with the header of a template of bytes, are whole numbers after loading;
#   a byte holds them exactly.
# Behaviour: with nibabel 5.4.2 they are 0, 1.004, 1.992, 2.996 and 4.00000024: they are stretched over all 256 values of
#   the byte. After `astype(int)`, 41 % of the voxels have another label; 3 is gone. With a template of int16 it is 43 %.
#   An array of integers, and a header of floats, come back as they were.
# Cause: for floats and an integer header, `ArrayWriter` scales to the whole range of the type
#   (nibabel/arraywriters.py) and notes slope and intercept as 32-bit floats in the file.
# Why it matters: `get_fdata` returns floats and the image's header is the obvious one for its mask, so a mask that was
#   loaded, edited and saved is wrong, and looks right in a viewer. Whoever scores maps against masks or trains on labels
#   loses classes. Symptom: https://github.com/nipy/nibabel/issues/1069.
# Versions: nibabel 5.4.2, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q nibabel==5.4.2 numpy==2.4.6
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import sys

import nibabel
import numpy as np

labels = np.random.default_rng(0).integers(0, 5, (8, 8, 8))
path = f"{sys.argv[1]}/labels.nii.gz"
for template, kind, kept in (
    ("uint8", "float32", False),
    ("uint8", "float64", False),
    ("int16", "float64", False),
    ("uint8", "uint8", True),
    ("float32", "float64", True),
):
    header = nibabel.Nifti1Image(np.zeros((8, 8, 8), template), np.eye(4)).header
    nibabel.save(nibabel.Nifti1Image(labels.astype(kind), np.eye(4), header), path)
    loaded = nibabel.load(path).get_fdata()
    wrong = np.mean(loaded.astype(int) != labels)
    print(f"{kind} with a header of {template}: {np.unique(loaded)}; {wrong:.0%} other labels after astype(int)")
    assert np.array_equal(loaded, labels) == kept and (wrong > 0.3) != kept, "the behaviour changed"
PYTHON
