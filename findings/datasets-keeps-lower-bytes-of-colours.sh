#!/usr/bin/env bash
# Guess: an `Image` column of `datasets` stores an array of 16-bit colours by its upper bytes, or refuses it, as it
#   refuses colours of floats.
# Behaviour: it stores the lower bytes: white (65535) and 255 become 255, and 256 becomes 0, so a smooth ramp becomes 256
#   saw teeth. A warning says "Downcasting array dtype uint16 to uint8". Of grey uint32, values from 2^31 become negative,
#   without a warning. Grey uint16 is kept.
# Cause: `encode_np_array` (datasets/features/image.py) converts arrays with channels by `astype("|u1")`, which wraps, and
#   accepts every integer type; for grey it takes the largest Pillow type of the same *kind*, for uint32 a signed one.
# Why it matters: such arrays come from tifffile, microscopes and cameras. The stored column is an ordinary 8-bit PNG, so
#   no later reader can see that its contrast is gone, and networks are trained on the saw teeth.
# Versions: datasets 5.2.0, pillow 13.0.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q datasets==5.2.0 pillow==13.0.0 numpy==2.4.6
HF_HOME=$folder "$folder/venv/bin/python" - <<'PYTHON'
import warnings

import numpy as np
from datasets import Dataset, Features, Image


def store(pixels):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        stored = Dataset.from_dict({"image": [pixels]}, features=Features({"image": Image()}))[0]["image"]
    return np.asarray(stored), [str(line.message) for line in said if "Downcasting" in str(line.message)]


ramp = np.linspace(0, 65535, 64 * 64).reshape(64, 64).astype(np.uint16)
colours = np.stack([ramp] * 3, -1)
stored, said = store(colours)
print("uint16 colours", colours[0, :5, 0], "are stored as", stored[0, :5, 0], said)
assert np.array_equal(stored, colours & 255) and len(said) == 1, "the behaviour changed"
print("correlation with the original:", np.corrcoef(stored.ravel(), colours.ravel())[0, 1].round(3))
assert abs(np.corrcoef(stored.ravel(), colours.ravel())[0, 1]) < 0.1
assert np.array_equal(store(ramp)[0], ramp)
grey, said = store(np.array([[0, 2**31 - 1], [2**31, 2**32 - 1]], np.uint32))
print("uint32 grey 0, 2^31 - 1, 2^31, 2^32 - 1 is stored as", grey.ravel(), said)
assert grey.ravel().tolist() == [0, 2**31 - 1, -(2**31), -1] and not said
try:
    store(colours / 65535)
    raise SystemExit("the behaviour changed")
except TypeError as error:
    print("colours of floats:", error)
PYTHON
