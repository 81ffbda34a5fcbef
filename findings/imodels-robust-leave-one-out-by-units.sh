#!/usr/bin/env bash
# Guess: MDI+ with `RobustRegressorPPM` (Huber regression) of imodels scores columns alike whether a target is in metres
#   or in millimetres: Huber regression of scikit-learn estimates the scale, and the score is R².
# Behaviour: with imodels 3.0.4 the leave-one-out predictions, on which MDI+ rests by default, leave those of refits
#   without the row as the unit shrinks. The noise of the target is .5 m; the largest error of a prediction is .03 m
#   when the target is in metres and 1.4 m when it is in millimetres. The weaker of two true columns falls from .25 to
#   .05 in MDI+, the stronger from .72 to .46. R² of exact refits is .95 in each unit; with ridge, MDI+ does not move.
# Cause: `l_dot` and `l_doubledot` of `RobustRegressorPPM` (imodels/importance/ppms.py) take residuals as they are, with
#   the threshold 1.35; `HuberRegressor` divides them by its fitted `scale_` first. The second derivative of large
#   residuals is nearly 0, so the one-step correction rests on the penalty.
# Why it matters: importances of columns, compared between targets or data sets, depend on the unit of the target.
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
from imodels.importance import RandomForestPlusRegressor
from imodels.importance.ppms import RidgeRegressorPPM, RobustRegressorPPM
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import HuberRegressor

draw = np.random.default_rng(0)
rows = draw.normal(size=(100, 5))
target = 2 * rows[:, 0] + rows[:, 1] + draw.normal(size=100) / 2


def score(predicted):
    """Return R² of predictions of the target."""
    return 1 - np.square(target - predicted).mean() / target.var()


errors, scores = {}, {}
for unit in (1, 1000):
    model = RobustRegressorPPM(alpha_grid=np.array([0.01]))
    model.fit(rows, target * unit)
    found = model.predict_loo(rows) / unit
    refit = [HuberRegressor(alpha=0.01, max_iter=2000).fit(np.delete(rows, i, 0), np.delete(target, i) * unit)
             .predict(rows[i : i + 1])[0] / unit for i in range(100)]
    errors[unit] = np.abs(found - refit).max()
    print(f"unit of 1/{unit} m: R² of leave-one-out predictions {score(found):.3f}, of refits "
          f"{score(np.array(refit)):.3f}; largest difference {errors[unit]:.3f} m")
    assert score(np.array(refit)) > 0.94
    variants = {"Huber": RobustRegressorPPM(alpha_grid=np.logspace(-2, 3, 5)), "ridge": RidgeRegressorPPM()}
    for name, variant in variants.items():
        plus = RandomForestPlusRegressor(RandomForestRegressor(3, min_samples_leaf=5, random_state=0), variant)
        plus.fit(rows, target * unit)
        scores[name, unit] = plus.get_mdi_plus_scores(rows, target * unit)["importance"].to_numpy()
        print(f"  MDI+ with {name}: {scores[name, unit].round(3).tolist()}")
assert errors[1] < 0.05 and errors[1000] > 1, "the behaviour changed"
assert np.allclose(scores["ridge", 1], scores["ridge", 1000], atol=0.01)
assert scores["Huber", 1][1] > 0.2 and scores["Huber", 1000][1] < 0.1, "the behaviour changed"
PYTHON
