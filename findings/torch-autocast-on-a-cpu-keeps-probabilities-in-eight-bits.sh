#!/usr/bin/env bash
# Guess: in `torch.autocast("cpu")` a softmax is computed and returned in float32, as in `autocast("cuda")`, in whose list of
#   operations that go to float32 softmax, log_softmax, exp, sum, norm and cosine_similarity stand; so a loop that
#   evaluates a network can be moved from one device to the other.
# Behaviour: with torch 2.13.0 all of these stay in bfloat16 on a CPU, with eight bits of precision; of losses, cross_entropy
#   goes to float32. Probabilities near 1 come in steps of .004: of the occlusion map of a sure image 46 % are exactly 0,
#   where a softmax in float32 of the same logits leaves none. 5,000 images have 147 different confidences, not 4,993.
# Cause: the lists of the two devices are kept apart (aten/src/ATen/autocast_mode.h), and the CPU's is short: the
#   documentation of autocast (amp) has both, and says nothing about the difference.
# Why it matters: deletion curves, occlusion, Shapley values and calibration are differences of probabilities. Where they are
#   computed on a CPU, pixels tie and get their rank by the sort; "the same code" on a GPU ranks them.
# Versions: torch 2.13.0 (CPU), numpy 2.4.6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0 numpy==2.4.6
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch

torch.manual_seed(0)
layers = torch.nn.Flatten(), torch.nn.Linear(784, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)
network = torch.nn.Sequential(*layers)
images = torch.rand(5000, 1, 28, 28)
labels = (images.flatten(1) @ torch.randn(784, 10)).argmax(1)
optimizer = torch.optim.Adam(network.parameters(), 1e-3)
for step in range(600):
    batch = torch.randint(0, 5000, (128,))
    loss = torch.nn.functional.cross_entropy(network(images[batch]), labels[batch])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
    logits = network(images)
    results = {
        "softmax": logits.softmax(1), "log_softmax": logits.log_softmax(1), "exp": logits.exp(), "sum": logits.sum(),
        "norm": logits.norm(dim=1), "cosine_similarity": torch.nn.functional.cosine_similarity(logits, logits.flip(0)),
        "cross_entropy": torch.nn.functional.cross_entropy(logits, labels),
    }
    confidence, predicted = results["softmax"].max(1)
    image = confidence.float().sub(0.97).abs().argmin()  # a sure one, as most images are after training
    occluded = images[image].repeat(784, 1, 1, 1)
    occluded.flatten(1)[range(784), range(784)] = 0
    changed = network(occluded)
    place = predicted[image]
    drops = results["softmax"][image, place] - changed.softmax(1)[:, place]
    exact = logits[image].float().softmax(0)[place] - changed.float().softmax(1)[:, place]
print({name: str(values.dtype).removeprefix("torch.") for name, values in results.items()})
zeros, few = (drops == 0).float().mean().item(), (exact == 0).float().mean().item()
print(f"an image with a confidence of {confidence[image]:.3f}: {zeros:.0%} of the occlusion map are 0, in float32 {few:.0%}")
counts = len(confidence.unique()), len(logits.float().softmax(1).max(1).values.unique())
print(f"different confidences of 5,000 images: {counts[0]}, by a softmax in float32 of the same logits {counts[1]}")
assert results["cross_entropy"].dtype == torch.float32
assert all(values.dtype == torch.bfloat16 for name, values in results.items() if name != "cross_entropy"), "lists agree now"
assert zeros > 0.2 and few < 0.1 and counts[0] < counts[1] / 5
PYTHON
