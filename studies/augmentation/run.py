"""How much augmentation and how long? Accuracy on degraded images and on masks alone, on held-out training images.

Networks are trained on four fifths of Imagenette's training images at 64 pixels with t = .9 removed by Random, GRAD,
SmoothGrad-Squared and VarGrad, by `resnet-quick` in batches of 64, and tested on the last fifth: no test image is seen.
One augmentation and one number of epochs at a time; what results.json lacks is done, each outcome a line.

Run: OMP_NUM_THREADS=1 python -m studies.augmentation.run --store DIR (about two core-hours; without it the table alone)
"""

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from roarbench.datasets.catalogue import find_dataset
from roarbench.datasets.loading import decode_dataset
from roarbench.estimators.base import Batch
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.engine import importance_maps
from roarbench.kernels.augment import crop, crops, flip, heads, shift, shifts
from roarbench.kernels.bit_planes import Layout, encode, removed_bits
from roarbench.kernels.degrade import DegradedImages, RemovedMaps
from roarbench.kernels.inputs import Inputs, Normalisation, normalise
from roarbench.kernels.ranking import features, sort_keys, tie_order
from roarbench.kernels.scoring import predict
from roarbench.kernels.train import fit
from roarbench.models.build import build
from roarbench.plan.recipe import Augmentation, Decay, Recipe
from roarbench.terms import PAPER_LEVELS, Order, Unit
from roarbench.text import MISSING, markdown_table, percent
from studies.page import write

FOLDER = Path(__file__).parent
OUTCOMES = FOLDER / "results.json"
KINDS = ("none", "flip", "shift 2", "shift 4", "shift 8", "crop")  # all but the first two with a flip, too
LENGTHS = (12, 6, 3, 24)  # epochs, in the order of computation
NAMES = {"none": "untouched", "random": "Random", "grad": "GRAD", "sgsq-grad": "SG-SQ", "var-grad": "VAR"}
ROWS = ("random", "grad", "sgsq-grad", "var-grad")
T, SHAPE, SEED = 0.9, (3, 64, 64), 11
_BASE = Recipe("study", 1, 12, 64, 0.4, 1, Decay.LINEAR, Augmentation.NONE, weight_decay=5e-4)


@dataclass(frozen=True)
class Augmented:
    """Inputs that are augmented as they are read.

    Attributes:
        inputs: Degraded images or removal masks.
        kind: One of `KINDS`.
        generator: The only source of chance.
    """

    inputs: Inputs
    kind: str
    generator: torch.Generator

    def __len__(self) -> int:
        return len(self.inputs)

    def batch(self, index: Tensor) -> Tensor:
        """Return inputs by index, int64 (b,): float32 (b, c, h, w)."""
        images = self.inputs.batch(index)
        match self.kind.split():
            case ["none"]:
                return images
            case ["shift", reach]:
                images = shift(images, shifts(len(images), int(reach), self.generator))
            case ["crop"]:
                images = crop(images, crops(len(images), 1.0, self.generator))
        return flip(images, heads(len(images), self.generator))


class Study:
    """The images, their held-out part, a reference and what its maps remove.

    Args:
        store: A folder for decoded images and rankings.
        reference: Seed of the explained network.
    """

    def __init__(self, store: Path, reference: int) -> None:
        self.data = decode_dataset(find_dataset("imagenette64"), store / "data", None, None, 1, lambda *_: None)
        self.pixels = torch.from_numpy(np.array(self.data.train.pixels))
        self.labels = torch.from_numpy(np.array(self.data.train.labels))
        order = torch.randperm(len(self.labels), generator=torch.Generator().manual_seed(SEED))
        fifth = len(order) // 5
        self.held_out, self.used = order[:fifth].sort().values, order[fifth:].sort().values
        self.norm = Normalisation(self.data.mean, self.data.std)
        self.fill = torch.tensor(self.data.mean)
        self.planes = self._planes(store / f"planes-{reference}.npz", reference)

    def _planes(self, path: Path, seed: int) -> dict[str, np.ndarray]:
        if not path.exists():
            untouched = DegradedImages(self.pixels, None, self.fill, Unit.SCALAR)
            recipe = replace(_BASE, epochs=16)
            model, correct = self.train(untouched, untouched, self.norm, "shift 4", recipe, seed)
            said = predict(model, untouched, self.norm, 128).argmax(1)
            print(f"reference {seed}: {correct:.1%} of the held-out images", flush=True)
            np.savez(path, **self._rank(model.eval(), said))
        return dict(np.load(path))

    def _rank(self, model: torch.nn.Module, targets: Tensor) -> dict[str, Any]:
        layout = Layout(SHAPE, Unit.SCALAR, PAPER_LEVELS)
        estimators = [find_estimator(name) for name in ROWS]
        black = (-torch.tensor(self.norm.mean) / torch.tensor(self.norm.std))[:, None, None]
        parts: dict[str, list[np.ndarray]] = {name: [] for name in ROWS}
        for start in range(0, len(self.pixels), 64):
            ids = torch.arange(start, min(start + 64, len(self.pixels)))
            batch = Batch(normalise(self.pixels[ids], self.norm), targets[ids], ids, None)
            ties = tie_order(ids.numpy(), layout.features)
            for name, found in importance_maps(estimators, model, batch, black).items():
                keys = sort_keys(features(found.numpy(), SHAPE, Unit.SCALAR), ties)
                parts[name].append(encode(keys, layout))
        layout_bits = {name: np.concatenate(found) for name, found in parts.items()}
        return {name: removed_bits(found, T, Order.MORF, layout) for name, found in layout_bits.items()}

    def train(
        self, inputs: Inputs, tested: Inputs, norm: Normalisation, kind: str, recipe: Recipe, seed: int
    ) -> tuple[torch.nn.Module, float]:
        """Return a network trained on the used part, and its accuracy on the held-out part of `tested`."""
        record = self.data.record
        model = build("resnet-quick", record.classes, record.channels, record.size, torch.Generator().manual_seed(seed))
        augmented = Augmented(TrialPart(inputs, self.used), kind, torch.Generator().manual_seed(seed + 1))
        fit(model, augmented, self.labels[self.used], norm, recipe, seed)
        logits = predict(model, TrialPart(tested, self.held_out), norm, 128)
        return model, (logits.argmax(1) == self.labels[self.held_out]).float().mean().item()

    def outcome(self, row: str, masks: bool, kind: str, epochs: int) -> float:
        """Return the held-out accuracy of one network."""
        removed = None if row == "none" else torch.from_numpy(self.planes[row])
        inputs: Inputs = DegradedImages(self.pixels, removed, self.fill, Unit.SCALAR)
        norm = self.norm
        if masks:
            assert removed is not None
            inputs = RemovedMaps(SHAPE, removed, Unit.SCALAR)
            norm = Normalisation((T,) * 3, ((T * (1 - T)) ** 0.5,) * 3)
        recipe = replace(_BASE, epochs=epochs, warmup=epochs / 12)
        return self.train(inputs, inputs, norm, kind, recipe, SEED + 100)[1]


@dataclass(frozen=True)
class TrialPart:
    """Some of the inputs, by their indices, int64 (n,)."""

    inputs: Inputs
    index: Tensor

    def __len__(self) -> int:
        return len(self.index)

    def batch(self, index: Tensor) -> Tensor:
        """Return inputs by index, int64 (b,): float32 (b, c, h, w)."""
        return self.inputs.batch(self.index[index])


def points(references: int) -> Iterator[tuple[int, int, str, str, bool]]:
    """Yield all networks: reference, epochs, augmentation, row, and whether it sees masks alone."""
    for epochs, kind in product(LENGTHS, KINDS):
        yield 0, epochs, kind, "none", False
        yield from ((0, epochs, kind, row, masks) for row, masks in product(ROWS, (False, True)))
    for reference in range(1, references):
        for epochs, kind, row in product((12,), KINDS, ROWS[1:]):
            yield from ((reference, epochs, kind, row, masks) for masks in (False, True))


def recorded() -> dict[str, str]:
    """Return the table of the shipped results: percent, images / masks alone, of the first reference."""
    found = {tuple(line[1:5]): line[5] for line in json.loads(OUTCOMES.read_text("utf-8")) if line[0] == 0}

    def cell(epochs: int, kind: str, row: str) -> str:
        images, masks = (percent(found.get((epochs, kind, row, alone))) for alone in (False, True))
        return images if images == masks == MISSING or row == "none" else f"{images} / {masks}"

    lines = [[kind, str(n), *(cell(n, kind, row) for row in NAMES)] for kind, n in product(KINDS, sorted(LENGTHS))]
    shown = (line for line in lines if set(line[2:]) - {MISSING})
    return {"outcomes": markdown_table(("augmentation", "epochs", *NAMES.values()), shown)}


def study(store: Path, references: int) -> None:
    """Train what the outcomes lack."""
    torch.set_num_threads(1)
    store.mkdir(parents=True, exist_ok=True)
    found = json.loads(OUTCOMES.read_text("utf-8"))
    done = {tuple(line[:5]) for line in found}
    studies: dict[int, Study] = {}
    for point in points(references):
        if point in done:
            continue
        reference, epochs, kind, row, masks = point
        if reference not in studies:
            studies[reference] = Study(store, SEED + reference)
        start = time.process_time()
        accuracy = studies[reference].outcome(row, masks, kind, epochs)
        found.append([*point, round(accuracy, 4), round(time.process_time() - start, 1)])
        OUTCOMES.write_text("[\n" + ",\n".join(json.dumps(line) for line in found) + "\n]\n", "utf-8")


def main() -> None:
    """Compute what is missing, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, help="a folder for images and rankings")
    parser.add_argument("--references", type=int, default=1)
    options = parser.parse_args()
    if options.store:
        study(options.store, options.references)
    write(FOLDER / "README.md", recorded())


if __name__ == "__main__":
    main()
