#!/usr/bin/env bash
# Guess: `get_param_importances(study, params=[…])` of optuna returns the importance of each named parameter; the order
#   of the list does not matter, since the answer is a dictionary sorted by importance.
# Behaviour: with optuna 5.0.0 and MeanDecreaseImpurityImportanceEvaluator the importances keep the order of the
#   alphabet and the names that of the list. A parameter that the objective does not read gets 99 % when it is named
#   first, and the parameter that decides gets .1 %. fANOVA and PED-ANOVA return the same for each order, and so does
#   the forest of scikit-learn that the evaluator fits.
# Cause: `_get_distributions` (optuna/importance/_base.py) sorts the parameters by name; `evaluate`
#   (optuna/importance/_mean_decrease_impurity.py) pairs the importances with the unsorted list.
# Why it matters: the answer decides which parameters are fixed and which are searched on. Nothing looks wrong: the
#   shares sum to one and are sorted.
# Versions: optuna 5.0.0, scikit-learn 1.9.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q optuna==5.0.0 scikit-learn==1.9.1 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
from itertools import permutations

import numpy as np
import optuna
from optuna.importance import FanovaImportanceEvaluator, MeanDecreaseImpurityImportanceEvaluator
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
from sklearn.ensemble import RandomForestRegressor


def train(trial):
    """Return a loss that the depth decides, the width changes a little, and the seed does not."""
    depth, seed, width = (trial.suggest_float(name, 0, 1) for name in ("depth", "seed", "width"))
    return 10 * depth + width


optuna.logging.set_verbosity(optuna.logging.ERROR)
study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
study.optimize(train, n_trials=200)
names = ["depth", "seed", "width"]
rows = np.array([[trial.params[name] for name in names] for trial in study.trials])
forest = RandomForestRegressor(64, random_state=0).fit(rows, [trial.value for trial in study.trials])
print("forest of scikit-learn:", dict(zip(names, forest.feature_importances_.round(4).tolist(), strict=True)))
assert forest.feature_importances_[0] > 0.98 and forest.feature_importances_[1] < 0.01
for evaluator in (MeanDecreaseImpurityImportanceEvaluator(seed=0), FanovaImportanceEvaluator(seed=0),
                  PedAnovaImportanceEvaluator()):
    for params in permutations(names):
        found = get_param_importances(study, evaluator=evaluator, params=list(params))
        best = max(found, key=found.get)
        print(f"{type(evaluator).__name__}, params={list(params)}: {best} has {100 * found[best]:.1f} %")
        expected = params[0] if isinstance(evaluator, MeanDecreaseImpurityImportanceEvaluator) else "depth"
        assert best == expected and found[best] > 0.9, "the behaviour changed"
PYTHON
