#!/usr/bin/env bash
# Guess: class folders are numbered in the order of their sorted names by every library, so the classes of a network that
#   was trained with timm's folders are those of torchvision's `ImageFolder` and of `datasets`.
# Behaviour: with timm 1.0.31 folders that hold numbers, or capitals beside small letters, have other numbers. Of folders
#   "1" to "100" 11 have one number in both, so a perfect network from timm has 11 % accuracy in torchvision. Of
#   "Beagle", "ant", "bee" and "Cat" none has. torchvision and `datasets` agree. Of "n01440764"-like names of one length
#   all are equal.
# Cause: `find_images_and_targets` (timm/data/readers/reader_image_folder.py) sorts by `natural_key`, which compares
#   numbers as numbers and ignores case; the others sort by code points, where "10" is before "2" and "C" before "a".
# Why it matters: weights are trained with timm's script and explained or scored with another loader; both sides say
#   "sorted by name". With few moved classes accuracy only drops a little, and maps are drawn for a neighbour class.
# Versions: timm 1.0.31, torchvision 0.28.0, datasets 5.2.0, torch 2.13.0, pillow 13.0.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q timm==1.0.31 torchvision==0.28.0 datasets==5.2.0 torch==2.13.0 pillow==13.0.0 \
  numpy==2.4.6
export HF_HOME="$folder/cache" HF_DATASETS_DISABLE_PROGRESS_BARS=1
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import tempfile
from pathlib import Path

import datasets
from PIL import Image
from timm.data import create_dataset
from torchvision.datasets import ImageFolder

kinds = {
    "numbers": [str(k) for k in range(1, 101)],
    "names with numbers": [f"class_{k}" for k in range(1, 13)],
    "capitals": ["Beagle", "ant", "bee", "Cat"],
    "one length": [f"n{k:08}" for k in (1440764, 2123045, 12057211)],
}
equal = {}
for kind, names in kinds.items():
    with tempfile.TemporaryDirectory() as root:
        for number, name in enumerate(names):
            Path(root, name).mkdir()
            Image.new("RGB", (8, 8), (number, number, number)).save(Path(root, name, "image.png"))
        by_timm = create_dataset("", root).reader.class_to_idx
        by_torchvision = ImageFolder(root).class_to_idx
        labels = datasets.load_dataset("imagefolder", data_dir=root, split="train").features["label"]
        by_datasets = {name: labels.str2int(name) for name in names}
    equal[kind] = sum(by_timm[name] == by_torchvision[name] for name in names)
    print(f"{kind}: {equal[kind]} of {len(names)} classes have one number in timm and torchvision")
    assert by_datasets == by_torchvision
assert equal == {"numbers": 11, "names with numbers": 1, "capitals": 0, "one length": 3}, "the behaviour changed"
PYTHON
