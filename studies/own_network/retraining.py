"""ROAR of the greedy search: networks that are trained and tested without what it ranks first.

Run: python -m studies.own_network.retraining --store DIR, with the rows of quick 7, adds to results.npz what it lacks.
"""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from roarbench.analysis.stored_results import collect_results
from roarbench.api.removal import compute_logits
from roarbench.compute.degrade import DegradedImages
from roarbench.compute.inputs import normalise
from roarbench.compute.ranking import count_removed, draw_tie_order, rank
from roarbench.compute.train import fit
from roarbench.enums import Unit
from roarbench.plan.protocols import ROAR
from roarbench.plan.recipes import find_recipe
from roarbench.plan.suites import find_suite
from studies.own_network.adversaries import greedy
from studies.own_network.lab import TEST_IDS, Lab, keep_results, read_results, untrained
from studies.page import opened, program

LEVEL, BESIDE = 0.9, ("random", "random-blurred", "input-x-grad")
Answers = NDArray[np.bool_]  # (networks, test images)


def without_first(lab: Lab, model: nn.Module, pixels: Tensor, first_id: int) -> DegradedImages:
    """Return images without the share of features that a greedy search on this network removes first."""
    packed = []
    for part, ids in zip(torch.split(pixels, 64), torch.split(first_id + torch.arange(len(pixels)), 64), strict=True):
        images = normalise(part, lab.norm)
        found = greedy(model, images, compute_logits(model, images).argmax(1))
        packed.append(removed_first(found.flatten(1).numpy(), ids.numpy()))
    return DegradedImages(pixels, torch.from_numpy(np.concatenate(packed)), lab.mean, Unit.SCALAR)


def removed_first(importance: NDArray[np.float32], ids: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Mark the share of features of most importance, (n, d), in packed bits, uint8 (n, d / 8)."""
    ranked = rank(importance, draw_tie_order(ids, importance.shape[1]))
    gone = np.zeros(importance.shape, bool)
    np.put_along_axis(gone, ranked[:, : count_removed(LEVEL, importance.shape[1])], True, 1)
    return np.packbits(gone, axis=1)


def retrained(lab: Lab, model: nn.Module, seed: int) -> NDArray[np.bool_]:
    """Return which test images a network answers correctly, with the seed and recipe of ROAR's other rows."""
    train, test = lab.data.train, lab.data.test
    network, labels = untrained(seed), torch.from_numpy(train.labels)
    inputs = without_first(lab, model, torch.from_numpy(train.pixels), 0)
    fit(network, inputs, labels, lab.norm, find_recipe("quick@2"), seed)
    tested = without_first(lab, model, torch.from_numpy(test.pixels), TEST_IDS).batch(torch.arange(len(test.labels)))
    return np.asarray(compute_logits(network.eval(), normalise(tested, lab.norm)).argmax(1).numpy() == test.labels)


def main() -> None:
    """Add the answers of the greedy search, and those of rows beside it."""
    made = program(__doc__)
    made.add_argument("--store", type=Path, required=True, help="a folder with the rows of quick 7")
    arguments = made.parse_args()
    torch.set_num_threads(1)
    found, lab = read_results(), Lab(arguments.store, arguments.store)
    with opened(arguments.store) as store:
        held = collect_results(find_suite("quick"), store).held(ROAR, Unit.SCALAR)
    for name in BESIDE:
        found[f"roar/{name}"] = np.stack([held[name, LEVEL][seed].answers for seed in sorted(held[name, LEVEL])])
    for seed, model in enumerate(lab.references()[:3]):
        if (key := f"roar greedy/{seed}") not in found:
            found[key] = retrained(lab, model, seed)
            print(key, f"{found[key].mean():.3f} right", flush=True)
            keep_results(found)


if __name__ == "__main__":
    main()
