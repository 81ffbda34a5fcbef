"""The answers of studies.known_order.run: maps made worse step by step, and what every protocol says of them.

Run: python -m studies.known_order.make --decoded DIR [--seeds 0,1] [--retrain] adds to results.npz what it lacks; DIR
is the folder of the decoded photographs in a store.
"""

import copy
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from roarbench import degraded
from roarbench.estimators.base import Batch
from roarbench.estimators.pairing import other_images
from roarbench.kernels.bit_planes import bin_codes, encode, removed_bits
from roarbench.kernels.degrade import DegradedImages
from roarbench.kernels.exchange import ExchangedImages
from roarbench.kernels.fill import change_numbers
from roarbench.kernels.inputs import Inputs, normalise
from roarbench.kernels.matching import matched, strata
from roarbench.kernels.ranking import features, sort_keys, tie_order
from roarbench.kernels.streaming import Cut
from roarbench.kernels.train import fit
from roarbench.models.build import build
from roarbench.terms import Order, Unit
from studies.known_order.run import BASES, KINDS, RESULTS, RETRAINED, SHARES
from studies.matched.lab import LAYOUT, RECIPE, SHAPE, TRAINED, Lab, asking, keep, not_asking
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
        return degraded(importance, importance[donors], share, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    taken, chance = (torch.rand(importance.shape, generator=generator) for _ in range(2))
    return torch.where(taken < share, chance, degraded(importance, importance, 0))


def planes_of(lab: Lab, importance: Tensor) -> NDArray[np.uint8]:
    """Return the bit-planes of maps of the images that a lab explains."""
    return encode(sort_keys(features(importance.numpy(), SHAPE, Unit.SCALAR), lab.ties), LAYOUT)


def answers(lab: Lab, common: nn.Module, reference: nn.Module, importance: Tensor) -> Answers:
    """Return the answers of one map by level and mask."""
    d, planes, made = LAYOUT.features, planes_of(lab, importance), {}
    codes = bin_codes(planes, LAYOUT)
    model = lab.tuned(common, planes)
    for t in LEVELS:
        packed = removed_bits(planes, t, Order.MORF, LAYOUT)
        own = np.unpackbits(packed, axis=1, count=d).view(bool)
        made[f"{t} own"] = lab.correct(model, packed)
        made[f"{t} other"] = lab.correct(model, packed[lab.others])
        given = matched(own, codes[lab.others], lab.found, Order.MORF, lab.turns)
        made[f"{t} matched"] = lab.correct(model, np.packbits(given, axis=1))
        made[f"{t} morf"] = lab.correct(reference, packed)
        made[f"{t} lerf"] = lab.correct(reference, removed_bits(planes, t, Order.LERF, LAYOUT))
    return made


def on_training_images(lab: Lab) -> Lab:
    """Return a lab that explains the images which networks are trained on."""
    ids, training = torch.arange(TRAINED), copy.copy(lab)
    training.batch = Batch(normalise(lab.train, lab.norm), torch.zeros(0), ids)
    training.ties, training.others = tie_order(ids.numpy(), LAYOUT.features), other_images(TRAINED, 0, lab.seed)
    return training


def retrained(lab: Lab, tested: NDArray[np.uint8], learnt: NDArray[np.uint8]) -> Answers:
    """Return the answers of networks that learnt from images without what their own or another map removes."""
    chance = torch.Generator().manual_seed(4)
    cut = Cut(learnt, LAYOUT, RETRAINED, Order.MORF)
    most, least = (
        DegradedImages(lab.train, torch.from_numpy(removed), lab.fill, Unit.SCALAR)
        for removed in (removed_bits(learnt, RETRAINED, order, LAYOUT) for order in (Order.MORF, Order.LERF))
    )
    exchanged = ExchangedImages(lab.train, [cut], lab.fill, Unit.SCALAR, chance)

    def asked(inputs: Inputs, order: Order) -> NDArray[np.bool_]:
        model = build("resnet-quick", 10, 3, 64, torch.Generator().manual_seed(lab.seed))
        fit(model, inputs, lab.train_labels, lab.norm, RECIPE, lab.seed)
        return lab.correct(model, removed_bits(tested, RETRAINED, order, LAYOUT))

    asks = {"roar": (most, Order.MORF), "kar": (least, Order.LERF), "exchanged": (exchanged, Order.MORF)}
    return {f"{RETRAINED} {name}": asked(*each) for name, each in asks.items()}


def maps_of(lab: Lab, reference: nn.Module) -> dict[str, Callable[[], Tensor]]:
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
        lab.found = strata(change_numbers(lab.test, lab.fill[:, None, None], Unit.SCALAR))
        reference, common, training = lab.reference(), lab.common(), on_training_images(lab)
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
                    made |= retrained(lab, planes_of(lab, mixed), planes_of(training, other))
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
