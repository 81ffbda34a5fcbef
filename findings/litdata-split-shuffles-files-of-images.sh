#!/usr/bin/env bash
# Guess: `train_test_split(dataset, [0.8, 0.2])` of LitData draws images: it has a seed and shuffles "the data before
#   splitting" by default, as scikit-learn's function of that name, so a data set in order of its classes gives both parts all
#   classes.
# Behaviour: with litdata 0.2.76 it draws files of images (chunks). Of 1,000 small images in order of 10 classes, which lie in
#   one file, the training set is the first 800 with any seed, and no test image has a class of the training set. In files of
#   50 images the test set has 3 to 4 of the 10 classes, by the seed.
# Cause: `train_test_split` (litdata/utilities/train_test_split.py) permutes the list of chunks and cuts it; the images of a
#   chunk keep their order. Chunks of 64 MB, the size in LitData's examples, hold a thousand photographs and more.
# Why it matters: data sets are written class by class, folder by folder. A network is then tested on classes that it never
#   saw, or on whole patients, and the small test accuracy looks like a hard data set. `StreamingDataset(shuffle=True)` does
#   not change the split. Images written in random order are a remedy.
# Versions: litdata 0.2.76, torch 2.13.0 (CPU), torchvision 0.28.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q litdata==0.2.76 torch==2.13.0 torchvision==0.28.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from litdata import StreamingDataset, train_test_split
from litdata.streaming.cache import Cache

for name, size in (("one", {"chunk_bytes": "64MB"}), ("twenty", {"chunk_size": 50})):
    cache = Cache(name, **size)
    for number in range(1000):
        cache[number] = {"image": np.full((8, 8, 3), number % 256, np.uint8), "label": number // 100}
    cache.done()
    cache.merge()
    for seed in range(5):
        parts = train_test_split(StreamingDataset(name, shuffle=True), [0.8, 0.2], seed=seed)
        train, test = (sorted({int(item["label"]) for item in part}) for part in parts)
        print(f"{name} file(s), seed {seed}: {[len(part) for part in parts]} images, classes {train} and {test}")
        assert [len(part) for part in parts] == [800, 200]
        if name == "one":
            assert train == list(range(8)) and test == [8, 9], "the behaviour changed"
        assert len(test) < 5, "the behaviour changed"  # 200 images drawn at random have all 10 classes
PYTHON
