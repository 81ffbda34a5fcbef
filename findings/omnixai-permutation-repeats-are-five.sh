#!/usr/bin/env bash
# Guess: `PermutationImportance.explain(X, y, n_repeats=…)` of OmniXAI shuffles each column `n_repeats` times, 30 by
#   default, so more repeats make importance less noisy.
# Behaviour: with OmniXAI 1.3.1 each column is shuffled 5 times, for 1, 30, the default, and 300: for three columns
#   there are 16 predictions of the table in each case. From call to call importance varies as much with 300 as with 1.
# Cause: `explain` (omnixai/explainers/tabular/agnostic/permutation.py) does not pass `n_repeats` on to
#   `permutation_importance` of scikit-learn, whose own default is 5.
# Why it matters: rankings change from run to run, and raising the number "until they are stable" changes nothing; runs
#   of 300 repeats in a report were runs of 5.
# Versions: omnixai 1.3.1, lime 0.2.0.1, shap 0.51.0, SALib 1.6.0, openai 3.57.0, setuptools 80.9.0, scikit-learn 1.9.1,
#   scipy 1.17.1, pandas 3.1.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q lime==0.2.0.1 shap==0.51.0 SALib==1.6.0 openai==3.57.0 ipython==9.18.1 dill==0.4.1 \
    setuptools==80.9.0 scikit-learn==1.9.1 scipy==1.17.1 pandas==3.1.1 numpy==2.4.6
"$folder/venv/bin/pip" install -q --no-deps omnixai==1.3.1  # requires NumPy below 1.24
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import inspect

import numpy as np
import pandas as pd
from omnixai.data.tabular import Tabular
from omnixai.explainers.tabular.agnostic.permutation import PermutationImportance

generator = np.random.default_rng(0)
table = pd.DataFrame(generator.normal(size=(100, 3)), columns=list("abc"))
target = (table["a"] + 0.5 * generator.normal(size=100)).to_numpy()
predictions = 0


def predict(rows):
    global predictions
    predictions += 1
    return rows.to_numpy()[:, 0].astype(float)


assert inspect.signature(PermutationImportance.explain).parameters["n_repeats"].default == 30
explainer = PermutationImportance(training_data=Tabular(table), predict_function=predict, mode="regression")
spreads = {}
for repeats in (1, 30, 300):
    np.random.seed(0)
    predictions = 0
    found = [
        dict(zip(scores["features"], scores["scores"]))["a"]
        for scores in (explainer.explain(Tabular(table), target, n_repeats=repeats).explanations for _ in range(20))
    ]
    spreads[repeats] = np.std(found)
    importance = f"{np.mean(found):.2f} +- {spreads[repeats]:.3f}"
    print(f"{repeats} repeats: {predictions / 20:.0f} predictions, importance of a {importance}")
    assert predictions == 20 * (1 + 3 * 5), "the behaviour changed"
assert spreads[1] == spreads[30] == spreads[300], "the behaviour changed"
# by hand: 30 repeats have a spread that is smaller by the root of 6
base = np.mean((predict(table) - target) ** 2)


def shuffle(repeats):
    losses = [np.mean((generator.permutation(table["a"]) - target) ** 2) for _ in range(repeats)]
    return np.mean(losses) - base


expected = {repeats: np.std([shuffle(repeats) for _ in range(200)]) for repeats in (5, 30)}
print(f"by hand: 5 repeats +- {expected[5]:.3f}, 30 repeats +- {expected[30]:.3f}")
assert spreads[30] > 1.5 * expected[30], "the behaviour changed"
PYTHON
