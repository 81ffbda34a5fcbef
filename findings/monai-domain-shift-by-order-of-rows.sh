#!/usr/bin/env bash
# Guess: `domain_shift` of MONAI's `EmbeddingCollapseMetric` is 1 if the embeddings of two domains cannot be told apart and small
#   if they lie far from each other; both sets are samples, so the order of their rows means nothing.
# Behaviour: with MONAI 1.6.1 it is the other way round. The same 200 embeddings in another order have .06, another
#   sample of the same distribution has .05; a domain moved by 100 and turned, in the same order, has 1.00. The distance of
#   Fréchet of the same library has 0 for the first and 160,000 for the last.
# Cause: `_domain_shift` (monai/metrics/embedding_collapse.py) is the linear CKA of the rows as pairs, which belongs to two
#   networks' embeddings of the same images. It forgives any shift and rotation, and rows of other images are no pairs. If the
#   sets differ in size the larger one is drawn from at random, so pairs are not meant.
# Why it matters: `aggregate` is the greatest of all indicators and decides whether a representation counts as collapsed. It
#   depends on the order of a loader, and domains that are one never count as one.
# Versions: monai 1.6.1, torch 2.13.0, scipy 1.17.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q monai==1.6.1 torch==2.13.0 scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from monai.metrics import EmbeddingCollapseMetric
from monai.metrics.fid import get_fid_score

generator = torch.Generator().manual_seed(0)
spread = torch.linspace(0.5, 2, 16)
source = torch.randn(200, 16, generator=generator) * spread
turn = torch.linalg.qr(torch.randn(16, 16, generator=generator)).Q
metric = EmbeddingCollapseMetric(reduction="none", include_indicators=["domain_shift"])
found = {}
for name, target in (
    ("the same", source.clone()),
    ("the same in another order", source[torch.randperm(200, generator=generator)]),
    ("another sample of the same distribution", torch.randn(200, 16, generator=generator) * spread),
    ("turned and moved by 100", source @ turn + 100),
):
    centred, other = source - source.mean(0), target - target.mean(0)
    by_hand = (centred.T @ other).norm() ** 2 / ((centred.T @ centred).norm() * (other.T @ other).norm())
    found[name] = metric(embeddings=source, target_embeddings=target)["domain_shift"].item()
    distance = get_fid_score(target, source).item()
    print(f"{name}: {found[name]:.2f}, linear CKA of pairs {by_hand:.2f}, distance of Fréchet {abs(distance):.1f}")
    assert abs(found[name] - by_hand) < 0.02
    assert (distance > 1e5) == name.startswith("turned")
assert found["the same in another order"] < 0.2, "the behaviour changed"
assert found["turned and moved by 100"] > 0.99, "the behaviour changed"
PYTHON
