#!/usr/bin/env bash
# Guess: the gradient of a network in eval mode is the same for an image alone and for the same image twice.
# Behaviour: on a CPU, with torch 2.13.0, it is another one (by more than its largest value) if a batch norm comes before
#   `flatten(2).transpose(1, 2)`, alone or with GELU or Hardswish between. With ReLU between, or two images, it is right.
# Cause: the gradient that reaches batch norm then has the strides (channels, 1, width * channels, channels). For a batch
#   of one image, these belong to both memory formats of torch, and `native_batch_norm_backward` reads the numbers in the
#   wrong order; weights get wrong gradients, too.
# Why it matters: timm's XCiT and transformers' LeViT are of this form. Explainers that take image by image return wrong
#   maps, and training with a batch size of 1 follows wrong gradients, without a word.
# Versions: torch 2.13.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
from torch import nn

torch.manual_seed(0)
norm = nn.BatchNorm2d(4)
norm.running_var.uniform_(0.5, 2.0)
weights = torch.randn(6, 4)  # of tokens
image = torch.randn(1, 4, 2, 3)


def explain(images, layer=nn.Identity(), training=False):
    """Return the gradient of a weighted sum of tokens by the first image."""
    norm.train(training)
    images = images.clone().requires_grad_()
    tokens = layer(norm(images)).flatten(2).transpose(1, 2)
    return torch.autograd.grad((tokens * weights).sum(), images)[0][:1]


by_hand = weights.T.view(1, 4, 2, 3) * (norm.weight / (norm.running_var + norm.eps).sqrt()).detach()[:, None, None]
two = image.repeat(2, 1, 1, 1)
for layer in (nn.Identity(), nn.ReLU(), nn.GELU(), nn.Hardswish()):
    alone, first_of_two = explain(image, layer), explain(two, layer)
    error = float((alone - first_of_two).abs().max() / first_of_two.abs().max())
    print(f"{layer}: the gradient of one image differs from that of two by {error:.2f} of the largest")
    assert (error > 0.5) == (not isinstance(layer, nn.ReLU)), "the behaviour changed"
torch.testing.assert_close(explain(two), by_hand)
assert (explain(image) - by_hand).abs().max() > 0.5 * by_hand.abs().max(), "the behaviour changed"
PYTHON
