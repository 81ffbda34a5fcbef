#!/usr/bin/env bash
# Guess: `ShapModelInterpreter` of probatus ranks the columns of a network of three classes by all three, as `shap` does
#   by the mean of absolute values over classes, or refuses such a model; `calculate_shap_importance` has a case for it.
# Behaviour: with probatus 3.1.5 importance is that of class 1 alone. A column that tells class 0 from class 2, second
#   of six in the forest, has .012, as a column of noise has .010, while shap has .20 for it, as a mean over classes.
#   Nothing is said; accuracy is that of all classes.
# Cause: `shap_calc` (probatus/utils/shap_helpers.py) keeps `[:, :, 1]` of the array that newer versions of shap return
#   for each scikit-learn forest, which is "the positive class" of two classes only. The list of older versions was kept
#   whole.
# Why it matters: which class is number 1 depends on the order of names. Columns are dropped that the other classes
#   need.
# Versions: probatus 3.1.5, shap 0.51.0, scikit-learn 1.9.1, scipy 1.17.1, pandas 3.1.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q probatus==3.1.5 shap==0.51.0 scikit-learn==1.9.1 scipy==1.17.1 pandas==3.1.1 \
    numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import pandas as pd
import shap
from probatus.interpret import ShapModelInterpreter
from sklearn.ensemble import RandomForestClassifier

generator = np.random.default_rng(0)
classes = generator.choice(3, 600)
names = ["tells 0 from 2", "tells 1"] + [f"noise {number}" for number in range(4)]
table = pd.DataFrame(generator.normal(size=(600, 6)), columns=names)
table["tells 1"] += 4 * (classes == 1)
table["tells 0 from 2"] += np.select([classes == 0, classes == 2], [-2, 2], generator.choice([-2, 2], 600))
train, test = table[:400], table[400:]
for swap, label in (({}, "classes 0, 1, 2"), ({0: 1, 1: 0}, "classes 0 and 1 change names")):
    labels = pd.Series(classes).replace(swap)
    forest = RandomForestClassifier(50, min_samples_leaf=5, random_state=0).fit(train, labels[:400])
    values = np.abs(shap.TreeExplainer(forest).shap_values(test)).mean(axis=0)
    assert values.shape == (6, 3)
    interpreter = ShapModelInterpreter(forest, scoring="accuracy", random_state=0)
    found = interpreter.fit_compute(train, test, labels[:400], labels[400:])["mean_abs_shap_value_test"][names]
    print(label)
    for number, name in enumerate(names[:3]):
        print(f"  {name}: {found.iloc[number]:.3f}, shap over all classes {values[number].mean():.3f}")
    assert np.allclose(found, values[:, 1], atol=0.02), "the behaviour changed"  # probatus has a background of 100 rows
    assert (values[0].mean() > 10 * values[2].mean()) and values[1].mean() > 10 * values[2].mean()
    assert (found.iloc[0] < 2 * found.iloc[2]) == (not swap), "the behaviour changed"
PYTHON
