#!/usr/bin/env bash
# Guess: if a network of transformers has lost its forward hooks, `output_attentions=True` installs them anew or fails.
# Behaviour: it returns no attentions, without an error. transformers installs the recording hooks at the first such
# call and notes that in the attribute `_output_capturing_hooks_installed`; the note outlives the hooks. A program that
# clears forward hooks between explanations, or restores them, gets an empty tuple, and an attention rollout over it is
# the identity matrix: a map that looks valid.
# Versions: transformers 5.24.0, torch 2.13.0. Source: transformers/utils/output_capturing.py,
# `maybe_install_capturing_hooks`.
# Why it matters: roarbench restores a network's hooks and attributes together after each call of a function.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 transformers==5.24.0
"$folder/venv/bin/python" - <<'PY'
import torch, transformers

config = transformers.ViTConfig(image_size=32, patch_size=8, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                                intermediate_size=64, num_labels=4, attn_implementation="eager")
network = transformers.ViTForImageClassification(config).eval()
images = torch.randn(2, 3, 32, 32)
count = lambda: len(network(images, output_attentions=True).attentions)
assert count() == 2
for module in network.modules():
    module._forward_hooks.clear()
assert count() == 0, "attentions are back, or the call fails"
print("after its hooks are removed, the network returns", count(), "attentions of 2 layers, without an error")
PY
