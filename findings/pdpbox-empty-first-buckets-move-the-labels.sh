#!/usr/bin/env bash
# Guess: `TargetPlot` and `PredictPlot` of PDPbox put each row into the bucket of the grid that holds its value; a
#   bucket without rows has the count 0.
# Behaviour: with pdpbox 0.3.0 empty buckets at the start of a custom grid shift all rows to the left. For ages from 40
#   to 90 and buckets of 20 years from 0 to 100, the rows of "[0, 20)" are those from 40 to 60, and the last line of the
#   table is "[40, 60)" with the rate of people over 80: .86 where it is .44. Two buckets vanish at the end. It is the
#   same with and without `show_outliers`; a grid from 40 to 100 is right.
# Cause: `FeatureInfo._map_values_to_buckets` (pdpbox/utils.py) subtracts the smallest bucket number, which is meant for
#   the -1 of outliers, whether there is such a number or not.
# Why it matters: a fixed grid is what two groups, or training and test data, are compared on. The curves are moved
#   against each other by as many buckets as one lacks at the start, and nothing is missing to the eye.
# Versions: pdpbox 0.3.0, pandas 3.1.1, numpy 2.4.6, scikit-learn 1.9.1, plotly 7.1.0, matplotlib 3.11.2, pqdm 0.2.0,
#   psutil 7.2.2. No report was found.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q pandas==3.1.1 numpy==2.4.6 scikit-learn==1.9.1 plotly==7.1.0 matplotlib==3.11.2 \
    pqdm==0.2.0 psutil==7.2.2
"$folder/venv/bin/pip" install -q --no-deps pdpbox==0.3.0  # requires tools for documentation and tests
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import numpy as np
import pandas
from pdpbox.info_plots import PredictPlot, TargetPlot
from sklearn.linear_model import LogisticRegression

draw = np.random.default_rng(0)
rows = pandas.DataFrame({"age": draw.uniform(40, 90, 500)})
rows["ill"] = (rows["age"] / 100 > draw.random(500)).astype(int)
model = LogisticRegression().fit(rows[["age"]].to_numpy(), rows["ill"])
common = {"feature": "age", "feature_name": "age"}


def show(grid, **options):
    """Return the counts of the grid's buckets by pandas, by the plot of the target and by that of predictions."""
    right = rows.groupby(pandas.cut(rows["age"], grid, right=False), observed=False)["ill"].agg(["count", "mean"])
    target = TargetPlot(df=rows, target="ill", cust_grid_points=grid, **common, **options).summary_df
    predicted = PredictPlot(df=rows, model=model, model_features=["age"], pred_func=predict, n_classes=0,
                            cust_grid_points=grid, **common, **options).summary_df
    print(f"grid {grid}, {options}\n  right: {dict(zip(map(str, right.index), right['count'], strict=True))}\n"
          f"  shown: {dict(zip(target['value'], target['count'], strict=True))}; rate of the last "
          f"{target['ill'].iloc[-1]:.2f}")
    assert target["count"].tolist() == predicted["count"].tolist()
    return right, target


def predict(model, rows, **_):
    """Return the probabilities of illness."""
    return model.predict_proba(np.asarray(rows))[:, 1]


for options in ({"show_outliers": False}, {"show_outliers": True}):
    right, target = show([0, 20, 40, 60, 80, 100], **options)
    assert right["count"].tolist()[:2] == [0, 0] and target["value"].tolist() == ["[0, 20)", "[20, 40)", "[40, 60)"]
    assert target["count"].tolist() == right["count"].tolist()[2:], "the behaviour changed"
    assert np.allclose(target["ill"], right["mean"].iloc[2:]), "the behaviour changed"
    right, target = show([40, 60, 80, 100], **options)
    assert target["count"].tolist() == right["count"].tolist() and np.allclose(target["ill"], right["mean"])
PYTHON
