"""Does a protocol put maps in order that were made worse step by step? On photographs, where the order is known so.

    python studies/known_order/run.py                                   prints the table of results.npz
    python studies/known_order/run.py --decoded DIR --seeds 0,1         makes what it lacks

A share of a map's places comes from another image's map by the same row, in squares of 8 x 8 pixels, so that it stays
as smooth as it was (*image*), or from chance, feature by feature (*chance*). Shares are nested. The null is a blurred
random map: it knows nothing at any share, so a protocol that orders it rewards smoothness.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parents[1] / "matched"))
from lab import LAYOUT, LEVELS, SHAPE, Answers, Lab, asking, keep, not_asking, stored

from roarbench import degraded
from roarbench.kernels.bit_planes import bin_codes, encode, removed_bits
from roarbench.kernels.fill import change_numbers
from roarbench.kernels.matching import matched, strata
from roarbench.kernels.ranking import features, sort_keys
from roarbench.terms import Order, Unit

RESULTS = Path(__file__).with_name("results.npz")
SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
BASES = ("gradcam", "sgsq", "ig-mean", "random-blurred")
KINDS = ("image", "chance")
PROTOCOLS = ("specific", "matched", "augmented", "morf", "lerf", "lerf-morf")


def grad_cam(model: nn.Module, x: Tensor) -> Tensor:
    """Return Grad-CAM of the last block, which the linear layer's mean pooling follows."""
    kept: list[Tensor] = []
    hook = model.get_submodule("blocks").register_forward_hook(lambda _, inputs, output: kept.append(output))
    made = []
    for part in x.split(256):
        kept.clear()
        logits = model(part)
        (gradient,) = torch.autograd.grad(logits.max(1).values.sum(), kept[0])
        cam = (gradient.mean((2, 3), keepdim=True) * kept[0]).sum(1, keepdim=True)
        made.append(F.interpolate(cam.detach(), x.shape[2:], mode="bilinear").expand(part.shape))
    hook.remove()
    return torch.cat(made)


def worse(importance: Tensor, donors: NDArray[np.int64], share: float, kind: str, seed: int) -> Tensor:
    """Return a map of which a share comes from another image's map in squares, or from chance feature by feature."""
    if kind == "image":
        return degraded(importance, importance[donors], share, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    taken, chance = (torch.rand(importance.shape, generator=generator) for _ in range(2))
    return torch.where(taken < share, chance, degraded(importance, importance, 0))


def answers(lab: Lab, common: nn.Module, reference: nn.Module, importance: Tensor) -> Answers:
    """Return the answers of one map by level and mask."""
    d, made = LAYOUT.features, {}
    planes = encode(sort_keys(features(importance.numpy(), SHAPE, Unit.SCALAR), lab.ties), LAYOUT)
    codes = bin_codes(planes, LAYOUT)
    model = lab.tuned(common, planes)
    for t in LEVELS:
        packed = removed_bits(planes, t, Order.MORF, LAYOUT)
        own = np.unpackbits(packed, axis=1, count=d).view(bool)
        made[f"{t} own"] = lab.correct(model, packed)
        made[f"{t} other"] = lab.correct(model, packed[lab.others])
        given = matched(own, codes[lab.others], lab.found, Order.MORF, lab.ties)
        made[f"{t} matched"] = lab.correct(model, np.packbits(given, axis=1))
        made[f"{t} morf"] = lab.correct(reference, packed)
        made[f"{t} lerf"] = lab.correct(reference, removed_bits(planes, t, Order.LERF, LAYOUT))
    return made


def gains(found: Answers, protocol: str) -> NDArray[np.float64]:
    """Return the mean over levels of a protocol's gain, image by image; larger is better."""
    parts = {"specific": ("other", "own"), "matched": ("matched", "own"), "lerf-morf": ("lerf", "morf")}
    if protocol in parts:
        one, two = parts[protocol]
        return np.mean([found[f"{t} {one}"].astype(float) - found[f"{t} {two}"] for t in LEVELS], 0)
    sign, name = {"augmented": (-1, "own"), "morf": (-1, "morf"), "lerf": (1, "lerf")}[protocol]
    return np.mean([sign * found[f"{t} {name}"].astype(float) for t in LEVELS], 0)


def make(decoded: Path, seeds: list[int]) -> None:
    """Score what is missing."""
    found = stored(RESULTS)
    for seed in seeds:
        lab = Lab(decoded, seed)
        lab.found = strata(change_numbers(lab.test, lab.fill[:, None, None], Unit.SCALAR))
        reference, common = lab.reference(), lab.common()
        maps = asking(lab, reference) | not_asking(lab) | {"gradcam": partial(grad_cam, reference, lab.batch.images)}
        for base in BASES:
            importance = maps[base]().detach()
            for kind in KINDS:
                for share in SHARES[1 if kind == "chance" else 0 :]:
                    name = f"{seed}-{base}-{kind}-{share:g}"
                    if name in found:
                        continue
                    start = time.process_time()
                    mixed = worse(importance, lab.others[lab.others], share, kind, 7 + seed)
                    found[name] = answers(lab, common, reference, mixed)
                    keep(found, RESULTS)
                    print(name, round(time.process_time() - start, 1), flush=True)


def curve(found: dict[str, Answers], base: str, kind: str, protocol: str) -> list[NDArray[np.float64]]:
    """Return a map's gains by share, image by image, the mean over the networks that were made."""
    steps = []
    for share in SHARES:
        end = f"-{base}-{'image' if share == 0 else kind}-{share:g}"
        steps.append(np.mean([gains(made, protocol) for name, made in found.items() if name[1:] == end], 0))
    return steps


def settled(steps: list[NDArray[np.float64]]) -> tuple[int, int, int]:
    """Return how many of the pairs of shares are settled rightly, wrongly and not, by paired 95 % intervals."""
    right = wrong = pairs = 0
    for better in range(len(steps)):
        for worse in range(better + 1, len(steps)):
            difference = steps[better] - steps[worse]
            z = difference.mean() / (difference.std() / len(difference) ** 0.5 or 1)
            right, wrong, pairs = right + (z > 1.96), wrong + (z < -1.96), pairs + 1
    return right, wrong, pairs - right - wrong


def table() -> Iterator[str]:
    """Yield the table as Markdown, line by line."""
    found = stored(RESULTS)
    yield "| protocol | map | mixed with | gain at shares 0, .2, .4, .6, .8, 1 | right | wrong | open |"
    yield "|---|---|---|---|---|---|---|"
    for protocol in PROTOCOLS:
        for base in BASES:
            for kind in KINDS:
                steps = curve(found, base, kind, protocol)
                numbers = ", ".join(f"{100 * each.mean():+.1f}" for each in steps)
                yield f"| {protocol} | {base} | {kind} | {numbers} | {' | '.join(map(str, settled(steps)))} |"


def main() -> None:
    """Make what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--decoded", type=Path)
    parser.add_argument("--seeds", default="0")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.decoded:
        make(options.decoded, [int(seed) for seed in options.seeds.split(",")])
    print("\n".join(table()))


if __name__ == "__main__":
    main()
