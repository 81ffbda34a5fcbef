"""The answers of studies.known_order.run: maps made worse step by step, and what every protocol says of them.

Run: python -m studies.known_order.make --decoded DIR [--seeds 0,1] [--retrain] adds to results.npz what it lacks; DIR
is the folder of the decoded photographs in a store.
"""

import time
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from roarbench import mix_maps
from roarbench.compute.bit_planes import find_removed_bits
from roarbench.compute.degrade import DegradedImages
from roarbench.compute.exchanged_masks import ExchangedImages, StreamedMask
from roarbench.compute.inputs import Inputs
from roarbench.enums import Order, Unit
from studies.known_order.run import BASES, KINDS, RESULTS, RETRAINED, SHARES
from studies.matched.lab import LAYOUT, Lab, Maps, asking, keep, not_asking
from studies.matched.run import LEVELS, Answers, stored
from studies.page import program


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
        return mix_maps(importance, importance[donors], share, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    taken, chance = (torch.rand(importance.shape, generator=generator) for _ in range(2))
    return torch.where(taken < share, chance, mix_maps(importance, importance, 0))


def answers(lab: Lab, common: nn.Module, reference: nn.Module, importance: Tensor) -> Answers:
    """Return the answers of one map by level and mask."""
    planes = lab.planes(importance)
    made = lab.answers(lab.tuned(common, planes), planes)
    for t, order in product(LEVELS, (Order.MORF, Order.LERF)):
        made[f"{t} {order}"] = lab.correct(reference, find_removed_bits(planes, t, order, LAYOUT))
    return made


def retrained(lab: Lab, tested: NDArray[np.uint8], learnt: NDArray[np.uint8]) -> Answers:
    """Return the answers of networks that learnt from images without what their own or another map removes."""
    chance = torch.Generator().manual_seed(4)
    cut = StreamedMask(learnt, LAYOUT, RETRAINED, Order.MORF)
    most, least = (
        DegradedImages(lab.train, torch.from_numpy(removed), lab.fill, Unit.SCALAR)
        for removed in (find_removed_bits(learnt, RETRAINED, order, LAYOUT) for order in (Order.MORF, Order.LERF))
    )
    exchanged = ExchangedImages(lab.train, [cut], lab.fill, Unit.SCALAR, chance)

    def asked(inputs: Inputs, order: Order) -> NDArray[np.bool_]:
        return lab.correct(lab.network(inputs, lab.seed), find_removed_bits(tested, RETRAINED, order, LAYOUT))

    asks = {"roar": (most, Order.MORF), "kar": (least, Order.LERF), "exchanged": (exchanged, Order.MORF)}
    return {f"{RETRAINED} {name}": asked(*each) for name, each in asks.items()}


def maps_of(lab: Lab, reference: nn.Module) -> Maps:
    """Return what makes the maps of the images that a lab explains, by row."""
    made = asking(lab, reference) | not_asking(lab) | {"gradcam": partial(grad_cam, reference, lab.batch.images)}
    return {base: made[base] for base in BASES}


def steps() -> list[tuple[str, float]]:
    """Return the kinds and shares of mixing; nothing is mixed at share 0, of either kind."""
    return [(kind, share) for kind in KINDS for share in SHARES if share or kind == KINDS[0]]


def make(decoded: Path, seeds: list[int], retrain: bool) -> None:
    """Score what is missing."""
    found = stored(RESULTS)
    for seed in seeds:
        lab = Lab(decoded, seed)
        reference, common, training = lab.reference(), lab.common(), lab.on_training_images()
        learning = maps_of(training, reference) if retrain else {}
        for base, explain in maps_of(lab, reference).items():
            importance = explain().detach()
            learnt = learning[base]().detach() if retrain else None
            for kind, share in steps():
                made, start = found.setdefault(f"{seed}-{base}-{kind}-{share:g}", {}), time.process_time()
                mixed = worse(importance, lab.others[lab.others], share, kind, 7 + seed)
                if f"{LEVELS[0]} own" not in made:
                    made |= answers(lab, common, reference, mixed)
                if learnt is not None and f"{RETRAINED} roar" not in made:
                    other = worse(learnt, training.others, share, kind, 7 + seed)
                    made |= retrained(lab, lab.planes(mixed), training.planes(other))
                keep(found, RESULTS)
                print(seed, base, kind, share, round(time.process_time() - start, 1), flush=True)


def main() -> None:
    """Make what is missing."""
    parser = program(__doc__)
    parser.add_argument("--decoded", type=Path, required=True, help="folder of the decoded photographs in a store")
    parser.add_argument("--seeds", default="0", help="of the networks, such as 0,1")
    parser.add_argument("--retrain", action="store_true", help="also ROAR, exchanged masks and DiffROAR")
    options = parser.parse_args()
    torch.set_num_threads(1)
    make(options.decoded, [int(seed) for seed in options.seeds.split(",")], options.retrain)


if __name__ == "__main__":
    main()
