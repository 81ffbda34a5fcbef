#!/usr/bin/env bash
# Guess: an accumulated profile (ALE) of dalex is centred for itself, so that its mean is the mean prediction ("centered
#   to compare them with Partial Dependence Profiles"), whichever other variables are asked for.
# Behaviour: with dalex 1.8.0 all profiles of a call are moved by one number. For the model a + 10 c with a mean
#   prediction of 15.6, the profile of a runs from 15.1 to 16.1 alone, and from 7.9 to 8.9 if c is asked for, too. With
#   a, b and c, the unused b has 10.4 throughout, where partial dependence has 15.6.
# Cause: `aggregate_profiles` (dalex/model_explanations/_aggregated_profiles/utils.py) subtracts the mean over all
#   profiles of the call instead of each variable's; each starts at 0, so steep ones pull the others down.
# Why it matters: the default asks for all variables. Plots beside partial dependence show gaps of whole units, which
#   are read as an effect of correlation, and a profile of a subset of variables has other values.
# Versions: dalex 1.8.0, scikit-learn 1.9.1, scipy 1.17.1, pandas 2.3.3, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q dalex==1.8.0 scikit-learn==1.9.1 scipy==1.17.1 pandas==2.3.3 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import dalex
import numpy as np
import pandas as pd


class Model:
    def predict(self, table):
        return (table.a + 10 * table.c).to_numpy()


generator = np.random.default_rng(0)
table = pd.DataFrame({"a": generator.random(300), "b": generator.random(300), "c": 3 * generator.random(300)})
model = Model()
target = model.predict(table)
explainer = dalex.Explainer(model, table, target, lambda model, rows: model.predict(rows), verbose=False)


def profile(kind, variables):
    """Return the profile of each variable."""
    found = explainer.model_profile(type=kind, variables=variables, N=None, verbose=False, random_state=0)
    return {name: rows["_yhat_"].to_numpy() for name, rows in found.result.groupby("_vname_")}


print(f"mean prediction {target.mean():.1f}")
alone = profile("accumulated", ["a"])["a"]
with_c = profile("accumulated", ["a", "c"])["a"]
together = profile("accumulated", ["a", "b", "c"])
dependence = profile("partial", ["a", "b", "c"])
print(f"a alone: {alone.min():.1f} to {alone.max():.1f}; beside c: {with_c.min():.1f} to {with_c.max():.1f}")
for name in "abc":
    print(f"{name} of three: mean {together[name].mean():.1f}, partial dependence {dependence[name].mean():.1f}")
    assert np.allclose(np.diff(together[name]), np.diff(dependence[name]), atol=1e-6), "there is no interaction"
assert np.isclose(alone.mean(), target.mean()), "one variable is centred"
assert np.isclose(np.mean([values.mean() for values in together.values()]), target.mean()), "the behaviour changed"
assert np.abs(with_c - alone).min() > 7 and np.ptp(with_c - alone) < 1e-9, "the behaviour changed"
assert abs(dependence["b"].mean() - target.mean()) < 0.01 and together["b"].mean() < 11, "the behaviour changed"
PYTHON
