#!/usr/bin/env bash
# Guess: thop, torchinfo, ptflops and fvcore agree on the multiplications of one self-attention layer, up to a few per
#   cent for softmax and biases.
# Behaviour: for `nn.MultiheadAttention` of 64 numbers and 100 tokens, thop and torchinfo count 0 (0.00 of the true
#   2.9 million), ptflops 1.46 times too many, and fvcore the right number. For the same layer written with four
#   `nn.Linear`, thop and ptflops leave out both products of tokens with tokens (0.56), and torchinfo counts each weight
#   once instead of once a token (0.006).
# Cause: thop and torchinfo look at modules alone, and the projections of `nn.MultiheadAttention` are plain parameters;
#   torchinfo multiplies weights by the positions of convolutions, but of linear layers by the batch alone
#   (`calculate_macs` in layer_info.py); ptflops counts the projections in its rule for the module, and again in the
#   functions that the module calls.
# Why it matters: studies give the price of an explanation in operations, and compare transformers with convolutional
#   networks by these programs, whose numbers for one and the same layer differ without bound.
# Versions: thop 0.1.1.post2209072238, torchinfo 1.8.0, ptflops 0.7.5, fvcore 0.1.5.post20221221, torch 2.13.0, NumPy
#   2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6 setuptools==80.9.0 thop==0.1.1.post2209072238 \
    torchinfo==1.8.0 ptflops==0.7.5 fvcore==0.1.5.post20221221
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import contextlib
import io

import ptflops
import thop
import torch
import torchinfo
from fvcore.nn import FlopCountAnalysis
from torch import nn

TOKENS, WIDTH = 100, 64
image = torch.rand(1, TOKENS, WIDTH)
true = 4 * TOKENS * WIDTH**2 + 2 * TOKENS**2 * WIDTH  # four projections; queries with keys, weights with values


class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.MultiheadAttention(WIDTH, 1, batch_first=True)

    def forward(self, tokens):
        return self.layer(tokens, tokens, tokens)[0]


class Written(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, tokens):
        scores = self.query(tokens) @ self.key(tokens).transpose(1, 2) / WIDTH**0.5
        return self.out(scores.softmax(-1) @ self.value(tokens))


def count_by_fvcore(network):
    return FlopCountAnalysis(network, image).unsupported_ops_warnings(False).uncalled_modules_warnings(False).total()


def count_by_ptflops(network):
    counted, _ = ptflops.get_model_complexity_info(
        network, (TOKENS, WIDTH), as_strings=False, print_per_layer_stat=False, verbose=False
    )
    return counted


counters = {
    "thop": lambda network: thop.profile(network, (image,), verbose=False)[0],
    "torchinfo": lambda network: torchinfo.summary(network, input_data=image, verbose=0).total_mult_adds,
    "ptflops": count_by_ptflops,
    "fvcore": count_by_fvcore,
}
shares = {}
for kind in (Packed, Written):
    for name, count in counters.items():
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            shares[name, kind] = float(count(kind().eval())) / true
        print(f"{kind.__name__:8} {name:10} {shares[name, kind]:.3f} of the true number")
assert all(abs(shares["fvcore", kind] - 1) < 0.01 for kind in (Packed, Written))
assert shares["thop", Packed] == 0 and 0.5 < shares["thop", Written] < 0.6, "thop changed"
assert shares["torchinfo", Packed] < 0.01 and shares["torchinfo", Written] < 0.01, "torchinfo changed"
assert shares["ptflops", Packed] > 1.4 and 0.5 < shares["ptflops", Written] < 0.6, "ptflops changed"
PYTHON
