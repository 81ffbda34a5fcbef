#!/usr/bin/env bash
# Guess: `init_weights()` of a transformers model draws all of its weights anew.
# Behaviour: it changes no weight of a model that was built or loaded before: 0 of 24 tensors. Every parameter has the
#   attribute `_is_hf_initialized`, and functions of `transformers.initialization` skip such a parameter.
# Why it matters: an untrained twin of a network (sanity checks of maps, siblings, ROAR) made by `copy.deepcopy` and
#   `init_weights()` is the trained network itself, and nothing warns. Build it from its config instead.
# Versions: torch 2.13.0, transformers 5.24.0. Source: `PreTrainedModel.init_weights` and `_initialize_weights`
#   (transformers/modeling_utils.py).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 transformers==5.24.0
"$folder/venv/bin/python" - <<'PYTHON'
import torch
from transformers import ViTConfig, ViTForImageClassification

sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
config = ViTConfig(**sizes, image_size=16, patch_size=8)
model = ViTForImageClassification(config)
with torch.no_grad():
    for weight in model.parameters():  # as if trained
        weight.add_(1.0)
trained = {key: value.clone() for key, value in model.state_dict().items()}
model.init_weights()
changed = [key for key, value in model.state_dict().items() if not torch.equal(value, trained[key])]
print(f"init_weights() changed {len(changed)} of {len(trained)} tensors")
assert not changed, "the behaviour changed"
built = ViTForImageClassification(config).state_dict()
assert not any(torch.equal(value, trained[key]) for key, value in built.items()), "a model from its config has new ones"
PYTHON
