#!/usr/bin/env bash
# Guess: the analytic 95 % intervals of confidenceinterval, "the only package with" them, hold the true macro F1,
#   precision and recall in about 95 % of samples; `confidence_interval=.99`, as its README writes, makes them wider.
# Behaviour: with confidenceinterval 1.0.5 a perfect classifier of ten classes has a macro F1 of 1 with the interval
#   .972 to 1.028. Of 500 samples with two equal classes and 90 % accuracy the interval is 2.5 times too wide and always
#   right; with ten classes and 60 % accuracy it is right in 86 %, and that of the macro recall with a class of 5 % in
#   83 %. `confidence_interval=.99` changes nothing, in silence; `confidence_level` is the parameter.
# Cause: `macro_f1_score_takahashi` (confidenceinterval/takahashi_methods.py) adds two factors that the paper multiplies,
#   and mixes counts with shares; precision, recall and binary F1 use `p * p.transpose()`, which for a vector is its
#   square and not the outer product. `f1_score` takes any keyword.
# Why it matters: a perfect row gets an error bar, and a shift of 2 % hides in it or stands out without a reason.
# Versions: confidenceinterval 1.0.5, scikit-learn 1.9.1, scipy 1.17.1, numpy 2.4.6. The paper (Takahashi et al. 2022):
#   https://www.ncbi.nlm.nih.gov/pmc/articles/PMC8936911/.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q confidenceinterval==1.0.5 scikit-learn==1.9.1 scipy==1.17.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from confidenceinterval import f1_score, recall_score

labels = np.arange(500) % 10
score, (low, high) = f1_score(labels, labels, average="macro")
print(f"a perfect classifier: macro F1 {score:.3f}, interval {low:.3f} to {high:.3f}")
assert low < 0.98 and high > 1.02, "the behaviour changed"
generator = np.random.default_rng(0)


def draw(labels, accuracy, classes):
    wrong = (labels + generator.integers(1, classes, len(labels))) % classes
    return np.where(generator.random(len(labels)) < accuracy, labels, wrong)


def measure(function, make, truth):
    made = [function(*make(), average="macro") for _ in range(600)]
    held = np.mean([low <= truth <= high for _, (low, high) in made])
    half = np.mean([(high - low) / 2 for _, (low, high) in made])
    return held, half / (1.96 * np.std([score for score, _ in made]))


def make_balanced(accuracy, classes):
    labels = generator.integers(0, classes, 500)
    return labels, draw(labels, accuracy, classes)


def make_rare():
    labels = (generator.random(1000) < 0.05).astype(int)
    found = np.where(labels, generator.random(1000) < 0.5, generator.random(1000) < 0.01)
    return labels, found.astype(int)


for name, function, make, truth, expected in (
    ("F1, 2 classes, 90 % right", f1_score, lambda: make_balanced(0.9, 2), 0.9, (0.99, 1)),
    ("F1, 10 classes, 60 % right", f1_score, lambda: make_balanced(0.6, 10), 0.6, (0.8, 0.92)),
    ("recall, a class of 5 %", recall_score, make_rare, (0.5 + 0.99) / 2, (0.75, 0.9)),
):
    held, width = measure(function, make, truth)
    print(f"macro {name}: the interval holds the truth in {100 * held:.0f} % and has {width:.2f} times the right width")
    assert expected[0] <= held <= expected[1], "the behaviour changed"
found = draw(labels % 2, 0.9, 2)
plain, named, right = (
    f1_score(labels % 2, found, average="macro", **settings)[1]
    for settings in ({}, {"confidence_interval": 0.99}, {"confidence_level": 0.99})
)
print(f"default {np.round(plain, 3)}, confidence_interval=.99 {np.round(named, 3)}, confidence_level=.99 {np.round(right, 3)}")
assert plain == named and right[0] < plain[0], "the behaviour changed"
PYTHON
