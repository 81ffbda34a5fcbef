#!/usr/bin/env bash
# Guess: `CombinedStreamingDataset([a, b], weights=[0.9, 0.1], batching_method="per_stream")` of LitData draws a data set for
#   each batch, the first for nine batches in ten: the weights are "the sampling ratio for the datasets", each batch is of "a
#   single dataset, which is selected randomly".
# Behaviour: with litdata 0.2.76 the two data sets take turns, with any weights, so half of the images are of each. With the
#   weights .8, .1 and .1 at most every second batch is of the first data set. Without weights, where it goes by the numbers of images,
#   3,000 and 1,000 images are mixed 1:1 until the small data set ends, and the second half of the epoch has one alone. With
#   `batching_method="stratified"` the shares are those of the weights.
# Cause: at the end of a batch `_get_dataset_index` (litdata/streaming/combined.py) draws until the data set is another one.
# Why it matters: per-stream batches are for images of different sizes, which cannot share a batch. A rare data set is shown
#   five times as often as planned, and networks that are trained with both methods were not trained on the same mixture.
# Versions: litdata 0.2.76, torch 2.13.0 (CPU), torchvision 0.28.0, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q litdata==0.2.76 torch==2.13.0 torchvision==0.28.0 numpy==2.4.6
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
from litdata import CombinedStreamingDataset, StreamingDataLoader, StreamingDataset
from litdata.streaming.cache import Cache

sizes = [3000, 1000, 1000]
for label, size in enumerate(sizes):
    cache = Cache(str(label), chunk_size=100)
    for number in range(size):
        cache[number] = {"label": label}
    cache.done()
    cache.merge()


def load(count, method, weights=None):
    """Return the data set of each batch of 10 images."""
    parts = [StreamingDataset(str(label)) for label in range(count)]
    mixed = CombinedStreamingDataset(parts, weights=weights, iterate_over_all=weights is None, batching_method=method)
    return [batch["label"].tolist() for batch in StreamingDataLoader(mixed, batch_size=10)]


for weights in ([0.9, 0.1], [0.5, 0.5], [0.8, 0.1, 0.1]):
    for method in ("stratified", "per_stream"):
        labels = sum(load(len(weights), method, weights)[:100], [])
        share = labels.count(0) / len(labels)
        print(f"weights {weights}, {method}: {share:.3f} of the first {len(labels)} images are of the first data set")
        assert abs(share - (weights[0] if method == "stratified" else 0.5)) < 0.05, "the behaviour changed"
first = [labels[0] for labels in load(2, "per_stream", [0.9, 0.1])[:200]]
assert all(one != other for one, other in zip(first, first[1:])), "the behaviour changed"

labels = sum(load(2, "per_stream"), [])
halves = [half.count(1) for half in (labels[:2000], labels[2000:])]
print(f"3,000 and 1,000 images without weights: {halves} images of the small data set in the halves of the epoch")
assert len(labels) == 4000 and halves == [1000, 0], "the behaviour changed"
PYTHON
