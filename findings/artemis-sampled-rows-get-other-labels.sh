#!/usr/bin/env bash
# Guess: `SejongOhMethod.fit(model, X, y, n=300)` of artemis computes interactions of columns, by the loss of accuracy,
#   on 300 sampled rows and their labels; `y_true` is an "np.array or pd.Series".
# Behaviour: with pyartemis 0.1.5 sampled rows get labels of other rows if `y` is an array and the table's index is not
#   0, 1, 2, … in order. Of a shuffled table of 400 rows a model that is always right has an accuracy of .55 on the 300,
#   the interaction of the two columns whose product is the class falls from .49 to .05, and their permutation
#   importance from .50 to .05. A Series gives the right values, and so does an array without `n`.
# Cause: `y[X_sampled.index]` in `sample_both_if_not_none` (artemis/_utilities/ops.py) takes the names of rows for
#   places.
# Why it matters: a table keeps the names of its rows when it is shuffled or split, and `y.values` is usual. Nothing
#   fails as long as names are smaller than the number of rows; interactions look weak and importances small.
# Versions: pyartemis 0.1.5, scikit-learn 1.2.2, pandas 1.5.3, numpy 1.23.5, scipy 1.10.1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q pyartemis==0.1.5 scikit-learn==1.2.2 pandas==1.5.3 numpy==1.23.5 scipy==1.10.1
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import pandas as pd
from artemis._utilities.performance_metrics import Accuracy
from artemis.interactions_methods.model_agnostic import SejongOhMethod

generator = np.random.default_rng(0)
table = pd.DataFrame(generator.uniform(-1, 1, size=(400, 4)), columns=["a", "b", "c", "d"]).sample(frac=1, random_state=0)
labels = (table["a"] * table["b"] > 0).astype(int)


class Perfect:
    """A model that is right on each row."""

    def predict(self, rows):
        """Return the class of each row, 0 or 1."""
        return (rows["a"] * rows["b"] > 0).astype(int).to_numpy()


for kind, given in (("array", labels.to_numpy()), ("Series", labels)):
    for rows in (None, 300):
        method = SejongOhMethod(Accuracy(), random_state=0)
        method.fit(Perfect(), table, given, n=rows)
        accuracy = np.mean(Perfect().predict(method.X_sampled) == np.asarray(method.y_sampled))
        interaction = method.ovo.set_index(["Feature 1", "Feature 2"]).iloc[:, 0]["a", "b"]
        importance = method.feature_importance.set_index("Feature")["Importance"]["a"]
        print(f"{kind}, n={rows}: accuracy {accuracy:.2f}, interaction of a and b {interaction:.2f}, a {importance:.2f}")
        is_wrong = kind == "array" and rows == 300
        assert (accuracy < 0.65) == is_wrong and (interaction < 0.2) == is_wrong, "the behaviour changed"
        assert (importance < 0.2) == is_wrong, "the behaviour changed"
PYTHON
