#!/usr/bin/env bash
# Guess: `FlopCounterMode` of torch counts the operations of a network, whatever the device and the mode; evaluated under
#   `no_grad`, a network takes as many as with gradients.
# Behaviour: with torch 2.13.0 on a CPU, `scaled_dot_product_attention` counts 0, forward and backward. A
#   `TransformerEncoderLayer` counts 3.3 million with gradients, its attention missing, and 0 in `eval()` under `no_grad`.
#   An LSTM counts 0 without gradients. No warning says that operations were left out.
# Cause: `flop_registry` (torch/utils/flop_counter.py) has formulas by the name of the operation that runs. Fused ones of
#   the CPU (`_scaled_dot_product_flash_attention_for_cpu`, `_transformer_encoder_layer_fwd`, `mkldnn_rnn_layer`) have
#   none, and count nothing. Issue 195460 of pytorch/pytorch (2026) reports the first.
# Why it matters: explanation methods are compared by operations, counted where no GPU is needed. An occlusion method
#   under `no_grad` seems to be free beside a gradient method on the same transformer.
# Versions: torch 2.13.0 (CPU).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode


def count(call):
    with FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops()


heads = torch.rand(1, 4, 100, 32, requires_grad=True)
attention = count(lambda: nn.functional.scaled_dot_product_attention(heads, heads, heads).sum().backward())
print(f"attention, forward and backward: {attention} of {7 * 2 * 4 * 100 * 100 * 32}")

layer, tokens = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).eval(), torch.rand(1, 50, 64)
with_gradients = count(lambda: layer(tokens))
products = 2 * 50 * 64 * (3 * 64 + 64 + 2 * 128)
true = products + 2 * 2 * 50 * 50 * 64
with torch.no_grad():
    without = count(lambda: layer(tokens))
    recurrent = count(lambda: nn.LSTM(64, 64)(torch.rand(10, 1, 64)))
print(f"encoder layer: {with_gradients} with gradients, {without} without, of {true}")
print(f"LSTM: {recurrent} of {10 * 2 * 4 * 64 * (64 + 64)}")
assert attention == 0, "attention is counted now"
assert with_gradients == products and without == 0, "the encoder layer's count changed"
assert recurrent == 0, "the LSTM is counted now"
PYTHON
