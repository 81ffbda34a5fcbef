#!/usr/bin/env bash
# Guess: `davies_bouldin_score` of torchmetrics is scikit-learn's, up to float32, for any number of clusters.
# Behaviour: with torchmetrics 1.9.0 and torch 2.13.0 it is, up to 25 clusters: .32 for well separated ones. With 26
#   clusters it is 383, with 50 366, though all clusters are as well separated as before.
# Cause: `davies_bouldin_score` (torchmetrics/functional/clustering/davies_bouldin_score.py) leaves out the pairs of
#   centroids whose distance is exactly 0, so as to leave out each centroid with itself. `torch.cdist` uses the matrix
#   product from 26 rows on, whose distance of a row to itself is small, but not 0. The largest quotient of each cluster
#   is then that with itself. scikit-learn replaces numbers near 0 and knows the diagonal.
# Why it matters: lower is better, so the score chooses 25 clusters wherever more are asked for; features of 100 classes
#   never look separated. Concept discovery and sampling by clusters choose their number by this score. The class
#   DaviesBouldinScore calls the same function; no issue on it was found.
# Versions: torchmetrics 1.9.0, torch 2.13.0, scikit-learn 1.9.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torchmetrics==1.9.0 torch==2.13.0 scikit-learn==1.9.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from sklearn.metrics import davies_bouldin_score as compute_by_sklearn
from torchmetrics.clustering import DaviesBouldinScore
from torchmetrics.functional.clustering import davies_bouldin_score

generator = torch.Generator().manual_seed(0)
for count in (10, 25, 26, 50):
    centroids = 5 * torch.randn(count, 64, generator=generator)
    labels = torch.arange(count).repeat_interleave(40)
    points = centroids[labels] + torch.randn(len(labels), 64, generator=generator)
    found, right = davies_bouldin_score(points, labels).item(), compute_by_sklearn(points, labels)
    print(f"{count} clusters: {found:.3f}, scikit-learn {right:.3f}")
    assert DaviesBouldinScore()(points, labels).item() == found, "the behaviour changed"
    assert abs(found - right) < 1e-5 if count < 26 else found > 100 * right, "the behaviour changed"
PYTHON
