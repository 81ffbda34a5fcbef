#!/usr/bin/env bash
# Guess: `datasets` warns or refuses if the name of a class folder contains the keyword of a split.
# Behaviour: folders that are named like splits become splits, in silence.
#   cat, dog, test           -> one split `test`; the images of cat and dog are gone, and there are no labels.
#   train_station/steam, test_bench/long -> the images of train_station have the label None.
# Versions: datasets 5.2.0, Pillow 13.0.0.
# Why it matters: a class called "test", "dev" or "eval" empties a data set, and training on labels of None ignores
#   images or fails far away.
# Source: datasets/data_files.py, SPLIT_KEYWORDS and KEYWORDS_IN_DIR_NAME_BASE_PATTERNS
#   (https://github.com/huggingface/datasets/blob/5.2.0/src/datasets/data_files.py).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet datasets==5.2.0 pillow==13.0.0
export HF_HOME="$folder/cache" HF_HUB_OFFLINE=1
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import sys
from pathlib import Path

import datasets
from PIL import Image

datasets.disable_progress_bars()


def load(name, folders):
    for folder in folders:
        (Path(sys.argv[1]) / name / folder).mkdir(parents=True)
        for shade in (50, 200):
            Image.new("L", (8, 8), shade).save(Path(sys.argv[1]) / name / folder / f"{shade}.png")
    splits = datasets.load_dataset("imagefolder", data_dir=f"{sys.argv[1]}/{name}")
    return {split: rows[:].get("label", "no labels") for split, rows in splits.items()}


ordinary = load("ordinary", ["bird", "cat", "dog"])
assert ordinary == {"train": [0, 0, 1, 1, 2, 2]}, ordinary
lost = load("lost", ["cat", "dog", "test"])
assert lost == {"test": "no labels"}, lost
places = load("places", ["train_station/steam", "test_bench/long"])
assert places["train"] == [None, None] and places["test"] == [0, 0], places
print("as described:", lost, places)
PYTHON
