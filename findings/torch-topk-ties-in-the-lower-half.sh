#!/usr/bin/env bash
# Guess: where a map has equal values, `torch.topk` takes the first of them, or a scattered part, so the features that
#   it adds to a mask lie anywhere in the image.
# Behaviour: with torch 2.13.0 on a CPU they lie in the lower half. Of maps with 85 % zeros, as guided backprop and maps
#   after a ReLU have, the half of a 64 x 64 image with the largest values holds 99 % of its zeros in the rows below the
#   middle; of a map of zeros alone it is exactly the lower half. `torch.sort(stable=True)` takes the first zeros instead.
# Cause: `std::nth_element` over values with their indices (aten/src/ATen/native/TopKImpl.h), whose pivots leave equal
#   values where a partition put them; nothing in the documentation promises an order.
# Why it matters: ROAR, MoRF and insertion curves that remove the top t of such a map remove the lower half of the
#   photograph, whatever the map says, and networks learn it. roarbench orders ties at random, by a stated generator.
# Versions: torch 2.13.0 (CPU).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.13.0
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch

features = 64 * 64
generator = torch.Generator().manual_seed(0)
maps = torch.rand(20, features, generator=generator)
maps[torch.rand(20, features, generator=generator) < 0.85] = 0
chosen = torch.topk(maps, features // 2, dim=1).indices
of_equal_values = chosen[maps.gather(1, chosen) == 0]
below = (of_equal_values >= features // 2).float().mean().item()
zeros = (maps == 0).nonzero()[:, 1]
print(f"{100 * (zeros >= features // 2).float().mean().item():.0f} % of all zeros lie in the lower half")
print(f"{100 * below:.0f} % of the zeros among the top half of the features do")
flat = torch.topk(torch.zeros(features), features // 2).indices
first = torch.sort(maps, dim=1, descending=True, stable=True).indices[:, : features // 2]
stable = (first[maps.gather(1, first) == 0] >= features // 2).float().mean().item()
print(f"of a map of zeros: features {flat.min().item()} to {flat.max().item()}; a stable sort: {100 * stable:.0f} %")
assert below > 0.9, "the behaviour has changed: zeros are spread"
assert flat.min().item() == features // 2, "the behaviour has changed: a map of zeros has another top half"
PYTHON
