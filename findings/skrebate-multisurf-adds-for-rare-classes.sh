#!/usr/bin/env bash
# Guess: skrebate's MultiSURF of three classes scores a column by the share of near images of other classes that differ
#   minus the share of near images of its own class that differ; columns of noise have about 0, as with two classes.
# Behaviour: with skrebate 0.8.4 noise has about 0 if the three classes are equally frequent. Of classes of 210, 75 and
#   15 images, six coin flips have 0.11 to 0.14, also with permuted labels. A column of few ones, most of them in one
#   class, is last of seven with 0.09, where the shares put it first. With the two other classes joined it is first.
# Cause: the branch of several classes in `compute_score` (scoring_utils.py) adds up S n k / m for every other class
#   (S neighbours that differ out of n, k other classes, m neighbours in all) and divides by m. The share is S / m or,
#   of classes of equal weight, S / (n k); the sum equals both only if all n are m / k. Otherwise the sum of k n n / m m
#   exceeds 1, so misses weigh up to k times as much as hits. The comment beside it promises scores between -1 and 1.
# Why it matters: a column earns by differing at all. Noise of the greatest spread is first, and permuted labels give
#   the same scores. MultiSURF, SURF and their starred forms take neighbours as they come; rare classes are the rule.
# Versions: skrebate 0.8.4, scikit-learn 1.9.1, numpy 2.4.6, scipy 1.17.1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q skrebate==0.8.4 scikit-learn==1.9.1 scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from skrebate import MultiSURF

generator = np.random.default_rng(0)
labels = np.repeat([0, 1, 2], [210, 75, 15])
coins = generator.integers(0, 2, (300, 6))
rare = generator.random(300) < np.where(labels == 1, 0.2, 0.02)
table = np.column_stack([coins, rare]).astype(float)


def score(classes, share):
    """Return MultiSURF's scores, where `share` weighs the differences of the neighbours of other classes."""
    differ = table[:, None] != table[None]
    distances = differ.sum(axis=2)
    total = np.zeros(table.shape[1])
    for image in range(300):
        others = np.arange(300) != image
        spread = distances[image, others]
        near = others & (distances[image] < spread.mean() - spread.std() / 2)
        hits = near & (classes == classes[image])
        misses = near & ~hits
        if misses.any():
            total += share(differ[image], misses, classes, np.unique(classes).size - 1)
        if hits.any():
            total -= differ[image, hits].mean(axis=0)
    return total / 300


def share_right(differ, misses, classes, others):
    return differ[misses].mean(axis=0)


def share_seen(differ, misses, classes, others):
    groups = [misses & (classes == name) for name in np.unique(classes[misses])]
    return sum(differ[group].sum(axis=0) * group.sum() * others for group in groups) / misses.sum() ** 2


def report(name, classes):
    seen = MultiSURF(n_features_to_select=1).fit(table, classes).feature_importances_
    right = score(classes, share_right)
    print(f"{name}: skrebate {seen.round(3)}, by hand {right.round(3)}")
    assert np.allclose(seen, score(classes, share_seen)), "the behaviour changed"
    return seen, right


seen, right = report("three classes", labels)
permuted, permuted_right = report("labels permuted", generator.permutation(labels))
equal, _ = report("equal classes", np.arange(300) % 3)
two, two_right = report("two classes", (labels == 1).astype(int))
assert right.argmax() == 6 and np.allclose(two, two_right) and two.argmax() == 6
assert abs(permuted_right).max() < 0.05 and abs(equal).max() < 0.05
assert seen[:6].min() > 0.1 and permuted[:6].min() > 0.1 and seen.argmin() == 6, "the behaviour changed"
PYTHON
