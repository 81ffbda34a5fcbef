#!/usr/bin/env bash
# Guess: `RuleFitClassifier.predict_proba` of imodels is the probability of the logistic regression that it fits, so its
#   mean is about the share of class 1, and `predict` takes the class that this regression holds for likelier.
# Behaviour: with imodels 3.0.4 each logit z becomes 2 z - 1. Of 18,000 new rows 36 % are of class 1; the mean
#   probability is .18, with the logistic function of the same logits .37. Of rows said to be about .40, 55 % are of
#   class 1. Its log loss of .75 is worse than that of the share alone, .65 (.57 with the logistic function), and
#   `predict` asks for 62 %: it finds 24 % of class 1 instead of 41 %. The AUROC, .73, does not show it.
# Cause: `predict_proba` (imodels/rule_set/rule_fit.py) takes the softmax of 1 - z and z, as if z were the probability
#   of a linear regression; `score_linear` (imodels/util/score.py) fits a `LogisticRegression`.
# Why it matters: RuleFit is compared with other readable classifiers by accuracy, F1 and calibration, and its `rules_`
#   are read as additions to the log odds. `FPLassoClassifier` inherits the method.
# Versions: imodels 3.0.4, scikit-learn 1.9.1, scipy 1.17.1, numpy 2.4.6, pandas 3.1.1, mlxtend 0.25.0, six 1.17.0. No
#   report was found.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q imodels==3.0.4 scikit-learn==1.9.1 scipy==1.17.1 numpy==2.4.6 pandas==3.1.1 \
    mlxtend==0.25.0 six==1.17.0
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
from imodels import RuleFitClassifier
from scipy.special import expit
from sklearn.metrics import accuracy_score, log_loss, recall_score, roc_auc_score

draw = np.random.default_rng(0)
rows = draw.normal(size=(20000, 3))
truth = expit(rows[:, 0] - 0.7)
classes = (draw.random(20000) < truth).astype(int)
old, new = slice(2000), slice(2000, None)
model = RuleFitClassifier(n_estimators=20, random_state=0).fit(rows[old], classes[old])
expected, logits = classes[new], model._predict_continuous_output(rows[new])
found = model.predict_proba(rows[new])[:, 1]
share = np.full(len(expected), classes[old].mean())
losses = {}
for name, chances in {"predict_proba": found, "expit": expit(logits), "truth": truth[new], "share": share}.items():
    near = expected[abs(chances - 0.4) < 0.05]
    losses[name] = log_loss(expected, chances)
    print(f"{name}: mean {chances.mean():.3f} (class 1: {expected.mean():.3f}), log loss {losses[name]:.3f}, accuracy "
          f"{accuracy_score(expected, chances > 0.5):.3f}, recall {recall_score(expected, chances > 0.5):.3f}, AUROC "
          f"{roc_auc_score(expected, chances):.3f}, share of class 1 at about .40: {near.mean():.2f}")
assert abs(expit(logits).mean() - expected.mean()) < 0.02 and losses["expit"] < losses["share"] - 0.05
assert np.array_equal(model.predict(rows[new]), found > 0.5)
assert np.allclose(found, expit(2 * logits - 1)), "the behaviour changed"
assert found.mean() < 0.2 and losses["predict_proba"] > losses["share"] + 0.05, "the behaviour changed"
PYTHON
