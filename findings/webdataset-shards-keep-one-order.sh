#!/usr/bin/env bash
# Guess: `WebDataset(urls, shardshuffle=100)` shuffles the shards anew in each epoch, as a `DataLoader` shuffles images;
#   `detshuffle=True`, "deterministic shuffling", is the option that repeats.
# Behaviour: with webdataset 1.0.2 it is the other way round. By default, without a seed, shards come in one random order in all
#   epochs: behind a buffer of 100 images, the places of 1,000 images in two epochs correlate by .90. With
#   `detshuffle=True` each epoch has another order (.0), but only in the main process: with workers of a `DataLoader` that start
#   anew in each epoch it repeats, too (.90), and with `persistent_workers=True` it does not.
# Cause: `WebDataset.__init__` (webdataset/compat.py) draws a seed where none is given, and `_shuffle` (webdataset/filters.py)
#   begins with that seed in each epoch. `detshuffle` adds the number of the epoch to it, which it counts in its own
#   object; workers count in their copy. https://github.com/webdataset/webdataset/pull/502 (open) is about the default.
# Why it matters: shards are written by class, source or time. The same ones meet in a batch in every epoch and the same ones
#   are the last before the weights are kept, so runs with other orders differ by more than a seed explains.
# Versions: webdataset 1.0.2, torch 2.13.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6 webdataset==1.0.2 braceexpand==0.1.7 pyyaml==6.0.4
"$folder/venv/bin/python" -W ignore - "$folder" <<'PYTHON'
import sys

import numpy as np
import torch
import webdataset

with webdataset.ShardWriter(sys.argv[1] + "/%02d.tar", maxcount=50, verbose=0) as writer:
    for number in range(1000):
        writer.write({"__key__": f"{number:04}", "cls": number})
files = [f"{sys.argv[1]}/{shard:02}.tar" for shard in range(20)]


def correlate(loader):
    """Return the smallest correlation of the images' places in the first of three epochs with those in the others."""
    places = [np.argsort([number for (number,) in loader]) for _ in range(3)]
    assert all(len(epoch) == 1000 for epoch in places)
    return min(np.corrcoef(places[0], epoch)[0, 1] for epoch in places[1:])


found = {}
for deterministic in (False, True):
    for workers in ("no worker", "a worker", "a persistent worker"):
        data = webdataset.WebDataset(files, shardshuffle=100, detshuffle=deterministic, seed=1 if deterministic else None)
        data = data.shuffle(100).decode().to_tuple("cls")
        if workers != "no worker":
            persistent = workers == "a persistent worker"
            data = torch.utils.data.DataLoader(data, batch_size=None, num_workers=1, persistent_workers=persistent)
        found[deterministic, workers] = correlate(data)
        print(f"detshuffle={deterministic!s:5}, {workers:19}: places correlate by {found[deterministic, workers]:.2f}")
assert all(found[False, workers] > 0.8 for workers in ("no worker", "a worker", "a persistent worker"))
assert found[True, "no worker"] < 0.7 and found[True, "a persistent worker"] < 0.7
assert found[True, "a worker"] > 0.8, "the behaviour changed"
PYTHON
