#!/usr/bin/env bash
# Guess: BEExAI's infidelity of the attributions that its own `CaptumExplainer.explain` returns tells explanations apart, and
#   is near 0 where these are exact: for a nearly linear model and its gradients (Saliency).
# Behaviour: with beexai 0.0.6 attributions shrink with the number of rows. With 10,000 rows Saliency, integrated gradients
#   and random numbers have .0243, .0236 and .0242, with 100 rows .0058, .0032 and .0065, with 10 rows Saliency .0114. The
#   gradients themselves, not rescaled, have .0003 for any number of rows.
# Cause: `explain` (beexai/explanation/explaining.py) divides by `torch.norm(attributions)`, the norm of the table of all
#   rows and columns, so a row of n has a norm of about 1 / sqrt(n), and what the metric compares with the change of the
#   prediction goes to 0. It is left with the mean squared change, for every explanation.
# Why it matters: `get_all_metrics` compares explainers by it. The more rows, the more alike they are, random numbers
#   included, and a part of the rows has another score than all of them.
# Versions: beexai 0.0.6, captum 0.9.0, torch 2.13.0, joblib 1.6.0, pandas 3.1.1, tqdm 4.70.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 joblib==1.6.0 pandas==3.1.1 tqdm==4.70.1 numpy==2.4.6 matplotlib==3.11.2
"$folder/venv/bin/pip" install -q --no-deps beexai==0.0.6 captum==0.9.0
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from beexai.evaluate.metrics.infidelity import Infidelity
from beexai.explanation.explaining import CaptumExplainer

weights = torch.tensor([0.5, 1.0, 2.0, 3.0]) / 10


class Model(torch.nn.Module):
    """The logits of two classes, whose probabilities are nearly linear in the values."""

    def forward(self, values):
        logits = values @ weights
        return torch.stack([-logits, logits], 1).softmax(1)

    def predict_proba(self, values):
        return self.forward(values)


def score(attributions, rows):
    torch.manual_seed(1)
    return Infidelity(Model(), "classification", std=0.1).get_inf(rows, attributions, 1)


found = {}
for count in (10, 100, 10_000):
    torch.manual_seed(0)
    rows = torch.rand(count, 4)
    differentiable = rows.clone().requires_grad_()
    (gradients,) = torch.autograd.grad(Model()(differentiable)[:, 1].sum(), differentiable)
    found[count] = {"gradients by torch": score(gradients, rows)}
    for method in ("Saliency", "IntegratedGradients"):
        explainer = CaptumExplainer(Model(), "classification", method)
        explainer.init_explainer()
        found[count][method] = score(explainer.explain(rows, label=1), rows)
    noise = torch.rand(count, 4)
    found[count]["random"] = score(noise / noise.norm(), rows)
    print(count, {name: round(value, 4) for name, value in found[count].items()})
exact = [scores["gradients by torch"] for scores in found.values()]
assert max(exact) < 0.001 < min(scores["Saliency"] for scores in found.values()), "the behaviour changed"
few, many = ([value for name, value in found[count].items() if name != "gradients by torch"] for count in (100, 10_000))
assert max(many) < 1.05 * min(many) and max(few) > 1.5 * min(few) and min(many) > 3 * max(few), "the behaviour changed"
PYTHON
