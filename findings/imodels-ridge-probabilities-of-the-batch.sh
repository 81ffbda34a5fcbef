#!/usr/bin/env bash
# Guess: `RandomForestPlusClassifier(prediction_model=RidgeClassifierPPM())` of imodels, the ridge variant of MDI+,
#   predicts each row's class from that row, like the default with logistic regression.
# Behaviour: with imodels 3.0.4 `predict_proba` shares one probability of 1 among all rows of the call. A row alone has
#   the probability 1 of class 1, whatever it is; two rows have about half each; of 569 rows none has 1 %, and `predict`
#   returns class 0 for every one: accuracy .37 where the forest below it has .96. The `prediction_score_` of the same
#   object says an AUROC of .99, for the order of rows in one call is right.
# Cause: `RidgeClassifierPPM.predict_proba` (imodels/importance/ppms.py) calls scipy's `softmax` without an axis on the
#   vector of predictions, and adds the column 1 - p.
# Why it matters: ridge is the fast choice for importances by MDI+; its predictions check whether the model behind the
#   importances can be believed. Accuracy, log loss, calibration and any explanation of `predict_proba` are those of the
#   size of the batch.
# Versions: imodels 3.0.4, scikit-learn 1.9.1, scipy 1.17.1, numpy 2.4.6, pandas 3.1.1, mlxtend 0.25.0, six 1.17.0
#   (which imodels imports, but does not require). No report was found.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q imodels==3.0.4 scikit-learn==1.9.1 scipy==1.17.1 numpy==2.4.6 pandas==3.1.1 \
    mlxtend==0.25.0 six==1.17.0
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from imodels.importance import RandomForestPlusClassifier
from imodels.importance.ppms import LogisticClassifierPPM, RidgeClassifierPPM
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

rows, classes = load_breast_cancer(return_X_y=True)
rows = rows[:, :8]
accuracies = {}
for model in (LogisticClassifierPPM(), RidgeClassifierPPM()):
    forest = RandomForestClassifier(5, min_samples_leaf=5, random_state=0)
    plus = RandomForestPlusClassifier(forest, model)
    plus.fit(rows, classes)
    predicted, all_rows = plus.predict(rows), plus.predict_proba(rows)[:, 1]
    alone = np.array([plus.predict_proba(rows[i : i + 1])[0, 1] for i in range(0, 569, 60)])
    accuracies[type(model).__name__] = (predicted == classes).mean()
    print(f"{type(model).__name__}: accuracy {(predicted == classes).mean():.3f}, of the forest "
          f"{(plus.rf_model.predict(rows) == classes).mean():.3f}; AUROC by prediction_score_ "
          f"{plus.prediction_score_.iloc[0, 0]:.3f}\n  probabilities of class 1 alone: {alone.round(3).tolist()}\n"
          f"  among all rows: {all_rows[::60].round(4).tolist()}, sum {all_rows.sum():.3f}")
    if isinstance(model, RidgeClassifierPPM):
        assert (alone == 1).all() and all_rows.max() < 0.01 and np.isclose(all_rows.sum(), 1), "the behaviour changed"
        assert (predicted == 0).all() and plus.prediction_score_.iloc[0, 0] > 0.98, "the behaviour changed"
    else:
        assert np.allclose(alone, all_rows[::60])
assert accuracies["LogisticClassifierPPM"] > 0.9 and accuracies["RidgeClassifierPPM"] < 0.4
PYTHON
