#!/usr/bin/env bash
# Guess: attention rollout has no random numbers: one network and one image have one map, the product of the attention
#   of all layers, the last layer on the left (Abnar and Zuidema 2020).
# Behaviour: with pnpxai 0.1.4 layers come in another order at each call, so 24 calls for one image return up to 24 maps
#   for four layers. Here they correlate by .25 to 1.00 with each other; a seed changes nothing. If chance brings the
#   layers in order, the product is reversed: the first layer is on the left. TransformerAttribution is alike.
# Cause: `SavingAttentionAttributor.forward` (pnpxai/explainers/attentions/attributions.py) reads the layers from zennit's
#   `Composite.hook_refs`, a `WeakSet`, whose order follows memory addresses; `AttentionRollout.rollout`
#   (pnpxai/explainers/attention_rollout.py) multiplies each layer from the right.
# Why it matters: rollout is the usual map of a ViT. A repetition is another estimator, and a test of a map's stability,
#   or of a randomised network against the trained one, measures the order.
# Versions: pnpxai 0.1.4, zennit 0.5.1, captum 0.9.0, timm 1.0.31, transformers 5.24.0, torch 2.13.0, torchvision 0.28.0,
#   numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q pnpxai==0.1.4 zennit==0.5.1 captum==0.9.0 timm==1.0.31 transformers==5.24.0 \
  torch==2.13.0 torchvision==0.28.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
from itertools import permutations

import torch
from pnpxai.explainers import AttentionRollout
from torch.nn.functional import interpolate
from torchvision.models import VisionTransformer

torch.manual_seed(0)
network = VisionTransformer(32, 8, num_layers=4, num_heads=2, hidden_dim=16, mlp_dim=32, num_classes=5).eval()
attentions = []
with torch.no_grad():
    network.encoder.pos_embedding.mul_(20)
    for layer in network.encoder.layers:
        layer.self_attention.in_proj_weight.mul_(3)
image = torch.rand(1, 3, 32, 32)


def attend(module, inputs):
    """Store the attention of a layer, a mean over heads."""
    attentions.append(torch.nn.MultiheadAttention.forward(module, *inputs, need_weights=True)[1].detach())


hooks = [layer.self_attention.register_forward_pre_hook(attend) for layer in network.encoder.layers]
network(image)
for hook in hooks:
    hook.remove()


def roll_out(order):
    """Multiply the layers of an order from left to right; half of each is the residual connection."""
    product = torch.eye(17)
    for layer in order:
        product = product @ ((attentions[layer][0] + torch.eye(17)) / 2)
    return interpolate(product[0, 1:].view(1, 1, 4, 4), (32, 32), mode="bilinear")


by_hand = {order: roll_out(order) for order in permutations(range(4))}
explain = AttentionRollout(network, head_fusion_method="mean", discard_ratio=0.0)
found, orders = [], set()
for _ in range(24):
    torch.manual_seed(0)
    found.append(explain.attribute(image, torch.tensor([0])).detach())
    differences = {order: float((found[-1] - by_hand[order]).abs().max()) for order in by_hand}
    order = min(differences, key=differences.get)
    assert differences[order] < 1e-5, "a map has no order of layers: the behaviour changed"
    orders.add(order)
correlations = torch.corrcoef(torch.stack(found).flatten(1))
print(f"24 calls: {len(orders)} orders of four layers, {sorted(orders)}")
print(f"correlations of two calls' maps: {correlations.min():.2f} to {correlations.max():.2f}")
right = torch.corrcoef(torch.stack([by_hand[3, 2, 1, 0], by_hand[0, 1, 2, 3]]).flatten(1))[0, 1]
print(f"correlation of the right order with the reversed one: {right:.2f}")
assert len(orders) > 3 and correlations.min() < 0.8, "the behaviour changed"
PYTHON
