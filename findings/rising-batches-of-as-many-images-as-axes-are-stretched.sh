#!/usr/bin/env bash
# Guess: `Scale(UniformParameter(.5, 1.5))` of rising draws one factor for each image of a batch ("per_sample: sample
#   different values for each element in the batch"), and keeps the shape of what is shown, in a batch of any size.
# Behaviour: with rising 0.3.0 this holds unless the batch has as many images as an image has axes. In batches of 2 flat
#   images or 3 volumes all get the same transform, with one of the drawn factors for each axis: discs become ellipses
#   of up to 2.7 : 1 here. Rotations and shifts of 3 volumes are mixed in the same way: an angle for each axis, equal for all.
# Cause: `expand_scalar_param` (rising/transforms/functional/affine.py) receives the list of factors and guesses from its
#   length what it is for; "one for each axis" is asked first, "one for each image" second.
# Why it matters: volumes are trained in batches of 2 to 4, and the last batch of an epoch has any size. A comparison of
#   batch sizes, or one run on a smaller card, compares other augmentations, and shapes that never occur.
# Versions: rising 0.3.0, torch 2.13.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6 tqdm==4.70.0
"$folder/venv/bin/pip" install -q --no-deps rising==0.3.0
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from rising.random import UniformParameter
from rising.transforms import Scale

SIZE = 48


def draw_ball(axes):
    squares = (torch.arange(SIZE) - (SIZE - 1) / 2) ** 2
    return (sum(torch.meshgrid(*[squares] * axes, indexing="ij")) < 11**2).float()


def measure(image):
    """Return the widths of what is shown along each axis, in pixels."""
    return [int((image.amax([d for d in range(image.ndim) if d != axis]) > 0.5).sum()) for axis in range(image.ndim)]


torch.manual_seed(0)
transform = Scale(UniformParameter(0.5, 1.5), per_sample=True)
for axes in (2, 3):
    for images in (2, 3, 4):
        stretched, alike = 0, 0
        for _ in range(20):
            data = draw_ball(axes).expand(images, 1, *[SIZE] * axes).clone()
            widths = [measure(image[0]) for image in transform(data=data)["data"]]
            ratio = max(max(width) / min(width) for width in widths)
            stretched, alike = max(stretched, ratio), alike + all(width == widths[0] for width in widths)
        print(f"{images} images of {axes} axes: widths up to {stretched:.1f} : 1, all alike in {alike} of 20 batches")
        assert (stretched > 1.5 and alike == 20) == (images == axes), "the behaviour changed"
        assert (stretched < 1.01 and alike < 6) == (images != axes)
PYTHON
