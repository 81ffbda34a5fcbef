#!/usr/bin/env bash
# Guess: `GridAggregator(sampler, downsampling_factor=2)` of TorchIO puts together the outputs of a network that halves each
#   side, with or without an overlap of the patches, so a network that pools its input gives the pooled volume.
# Behaviour: with TorchIO 1.2.1, patches of 32 voxels and an overlap of 8, a third of the volume of 64 voxels is never
#   written and is 0: the pooled volume has a mean of 1.00 instead of 1.50. With an overlap of 16, or a factor of 4, 88 % are
#   0. Without overlap, or with a factor of 1, all is right. No warning is given.
# Cause: `add_batch` divides the places of patches by the factor, but `_crop_patch` (torchio/data/inference/aggregator.py)
#   cuts off half the overlap in voxels of the input, twice (or four times) too much in those of the output. The grid
#   of uncut parts no longer touches.
# Why it matters: 0 is the background of a segmentation and no attribution in a map, so strips between patches look like a
#   network that found nothing. Overlap is there for better borders, and makes scores worse, by more with each voxel.
#   The factor was added for https://github.com/TorchIO-project/torchio/issues/1001.
# Versions: torchio 1.2.1, torch 2.13.0, numpy 2.4.6, SimpleITK 2.5.7, nibabel 5.4.2, scipy 1.17.1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torchio==1.2.1 torch==2.13.0 numpy==2.4.6 SimpleITK==2.5.7 nibabel==5.4.2 scipy==1.17.1
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch
import torchio
from torch.nn.functional import avg_pool3d

volume = torch.rand(1, 64, 64, 64, generator=torch.Generator().manual_seed(0)) + 1
for factor, overlap, whole in ((1, 8, True), (2, 0, True), (2, 8, False), (2, 16, False), (4, 8, False)):
    sampler = torchio.GridSampler(torchio.Subject(image=torchio.ScalarImage(tensor=volume)), 32, overlap)
    aggregator = torchio.GridAggregator(sampler, downsampling_factor=factor)
    for patch in sampler:
        pooled = avg_pool3d(patch["image"][torchio.DATA][None], factor)
        aggregator.add_batch(pooled, patch[torchio.LOCATION][None])
    output, right = aggregator.get_output_tensor(), avg_pool3d(volume, factor)
    empty = (output == 0).float().mean().item()
    print(f"factor {factor}, overlap {overlap:2}: {empty:.0%} is 0, mean {output.mean():.2f} of {right.mean():.2f}")
    assert torch.equal(output[output != 0], right[output != 0])
    assert (empty == 0) == whole and (empty > 0.3) == (not whole), "the behaviour changed"
PYTHON
