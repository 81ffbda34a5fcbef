#!/usr/bin/env bash
# Guess: captum's TCAV, made anew for another network or another concept, learns the direction from that network's
#   activations of that concept's images.
# Behaviour: with captum 0.9.0 it returns the direction of the earlier one, to the last bit, also after a restart of the
#   program, and says nothing. In the second network it tells stripes from noise no better than a coin (AUC .54; its own
#   direction: .98), and "dots" have the direction and the scores of "stripes". With another `model_id`, or
#   `compute_cavs(…, force_train=True)`, or other ids, the direction is learnt.
# Cause: `load_cavs` (captum/concept/_core/tcav.py) looks for a file whose name is made of `save_path`, `model_id`, the
#   layer's name and the numbers of the concepts: `concepts_to_str` (captum/concept/_utils/common.py) joins ids, while
#   its docstring says names. The defaults are one folder and one id for all networks.
# Why it matters: TCAV is checked on a randomised twin and repeated on networks of other seeds, whose layers have the same
#   names, and each script numbers its concepts from 0.
# Versions: captum 0.9.0, torch 2.13.0, scikit-learn 1.9.1, numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q captum==0.9.0 torch==2.13.0 scikit-learn==1.9.1 numpy==2.4.6
cd "$folder"
cat >program.py <<'PYTHON'
import random
import sys

import numpy as np
import torch
from captum.concept import TCAV, Concept
from torch import nn
from torch.utils.data import DataLoader

patterns = dict(zip(("stripes", "dots", "noise"), torch.randn(3, 60, 20, generator=torch.Generator().manual_seed(5))))
patterns["stripes"][:, :5] += 2
patterns["dots"][:, 5:10] += 2
images = torch.randn(50, 20, generator=torch.Generator().manual_seed(6))


def explain(seed, name="stripes", force=False, **settings):
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(20, 16), nn.ReLU(), nn.Linear(16, 3)).eval()
    random.seed(0)
    np.random.seed(0)
    concepts = [Concept(number, each, DataLoader(patterns[each], 20)) for number, each in enumerate((name, "noise"))]
    tcav = TCAV(network, ["1"], **settings)
    tcav.compute_cavs([concepts], force_train=force)
    ((key, scores),) = tcav.interpret(images, [concepts], target=0).items()
    direction = torch.as_tensor(tcav.cavs[key]["1"].stats["weights"])[0].double()
    seen, other = (network[:2](patterns[each]).detach().double() @ direction for each in (name, "noise"))
    auc = (seen[:, None] > other).double().mean().item()
    print(f"network {seed}, {name}, {settings}: AUC {auc:.2f}, score {scores['1']['magnitude'][0]:.2f}")
    return direction, auc


if sys.argv[1] == "first":
    torch.save(explain(0), "first.pt")
else:
    earlier, auc = torch.load("first.pt")
    for seed, name in ((1, "stripes"), (0, "dots")):
        found, found_auc = explain(seed, name)
        own, own_auc = explain(seed, name, model_id=f"another, {name}")
        assert torch.equal(found, earlier) and not torch.allclose(own, earlier), "the behaviour changed"
        assert min(auc, own_auc) > 0.9 > 0.8 > found_auc, "the behaviour changed"
    assert not torch.allclose(explain(1, force=True)[0], earlier), "the behaviour changed"
PYTHON
"$folder/venv/bin/python" -W ignore program.py first
"$folder/venv/bin/python" -W ignore program.py second
