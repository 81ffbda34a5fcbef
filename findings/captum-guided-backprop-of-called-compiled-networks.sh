#!/usr/bin/env bash
# Guess: hooks that an explainer adds to a `torch.compile`d network take part in its next call, by a recompilation, or
#   the call fails: captum's guided backprop of a compiled network is guided backprop, or an error.
# Behaviour: with torch 2.13.0 and captum 0.9.0 it depends on whether the network was called before. If captum makes the
#   first call, the maps are guided backprop. After a call with the same shape they are plain gradients, without a word.
# Cause: by default compiled code has no guard on hooks (`torch._dynamo.config.skip_nnmodule_hook_guards`), and captum
#   replaces gradients in hooks of the ReLUs (captum/attr/_core/guided_backprop_deconvnet.py).
# Why it matters: accuracy is measured before maps are made, so the usual order of a study is the wrong one, and two
#   estimators become one. roarbench explains the network inside the compiled one.
# Versions: torch 2.13.0 (backend "eager", so that no compiler is needed; "aot_eager" is alike), captum 0.9.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 captum==0.9.0
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from captum.attr import GuidedBackprop, Saliency
from torch import nn


def build():
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(1152, 10)]
    return nn.Sequential(*layers).eval()


images = torch.randn(4, 3, 16, 16, generator=torch.Generator().manual_seed(1))
guided = GuidedBackprop(build()).attribute(images, target=0)
gradient = Saliency(build()).attribute(images, target=0, abs=False)
assert not torch.allclose(guided, gradient, atol=1e-4), "the network does not tell the two estimators apart"
first = GuidedBackprop(torch.compile(build(), backend="eager")).attribute(images, target=0)
torch._dynamo.reset()
called = torch.compile(build(), backend="eager")
called(images.clone().requires_grad_())
later = GuidedBackprop(called).attribute(images, target=0)
for name, maps in (("made first", first), ("after a call", later)):
    equal = [known for known, other in (("guided backprop", guided), ("gradient", gradient)) if torch.allclose(maps, other)]
    print(f"maps {name}: {' and '.join(equal) or 'neither'}")
assert torch.allclose(first, guided) and torch.allclose(later, gradient), "the behaviour has changed"
PYTHON
