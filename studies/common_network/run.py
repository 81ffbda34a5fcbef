"""Is a mask of another image a harm of its own? Networks trained on own, mixed and exchanged masks, of two builds.

Run: python -m studies.common_network.run --store DIR trains what results.json lacks; without it the table is written
again. DIR is a store in which `roarbench run --suite quick` has ended: its rankings are read. At t = .9 of MoRF a
network is trained from scratch, by the recipe of `quick` 2, on images that carry their own removal mask (ROAR), another
image's (`roar-exchanged`), or either with equal chance (*mixed*); the test images carry their own, then another's.
"""

import argparse
import json
import time
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import torch
from torch import Tensor, nn

from roarbench.datasets.decoded import open_decoded
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.pairing import other_images
from roarbench.execution.common_networks import EXCHANGE, exchanged
from roarbench.execution.suite_work import SuiteWork
from roarbench.kernels.bit_planes import removed_bits
from roarbench.kernels.degrade import DegradedImages
from roarbench.kernels.inputs import Inputs, Normalisation
from roarbench.kernels.scoring import predict, scored_at_once
from roarbench.kernels.streaming import Cut
from roarbench.kernels.train import fit
from roarbench.plan.recipes import find_recipe
from roarbench.plan.suites import find_suite
from roarbench.store.layout import Workspace
from roarbench.terms import Order, Split, Unit
from roarbench.text import MISSING, markdown_table
from studies.page import write

FOLDER = Path(__file__).parent
OUTCOMES = FOLDER / "results.json"
TEST_IDS = 2**32  # the number of the first test image
ROWS = ("random", "random-blurred", "sobel", "grad", "sgsq-grad", "var-grad")
MASKS = ("own", "mixed", "exchanged")
NETWORKS = {"quick": "`resnet-quick`", "plain": "convolutions and poolings alone"}
T, SEED = 0.9, 0


@dataclass(frozen=True)
class Mixed:
    """Training images that carry one of two masks, drawn with equal chance at every reading.

    Attributes:
        own: Images with their own removal masks.
        other: The same images with those of other images.
        generator: The only source of the draws between the two.
    """

    own: Inputs
    other: Inputs
    generator: torch.Generator

    def __len__(self) -> int:
        return len(self.own)

    def batch(self, index: Tensor) -> Tensor:
        """Return degraded images float32 (b, c, h, w) in [0, 255], for int64 indices (b,)."""
        chosen = torch.rand(len(index), generator=self.generator) < 0.5
        return torch.where(chosen[:, None, None, None], self.own.batch(index), self.other.batch(index))


def build(network: str, work: SuiteWork, seed: int) -> nn.Module:
    """Return a network with the random weights of a seed: the suite's, or `plain`, with nothing residual."""
    if network == "quick":
        return work.place.network("resnet-quick", seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        widths = (3, 16, 32, 64, 64)
        layers: list[nn.Module] = []
        for first, (inputs, width) in enumerate(zip(widths, widths[1:], strict=False)):
            layers += [nn.Conv2d(inputs, width, 3, stride=1 if first else 2, padding=1, bias=False)]
            layers += [nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2) if first < 3 else nn.Identity()]
        last = nn.Linear(widths[-1], work.images.record.classes)
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), last)


def outcome(work: SuiteWork, network: str, row: str, masks: str) -> tuple[float, float]:
    """Return the test accuracy with own masks and with other images', of a network that met these in training."""
    found = work.place.rankings.open(work.ranking_spec(find_estimator(row), Unit.SCALAR))
    removed = {split: removed_bits(found.planes(split)[:], T, Order.MORF, found.layout) for split in Split}
    own = {split: _degraded(work, split, torch.from_numpy(bits)) for split, bits in removed.items()}
    other = exchanged(work.images, [Cut(found.planes(Split.TRAIN), found.layout, T, Order.MORF)], Unit.SCALAR, SEED)
    generator = torch.Generator().manual_seed(2 * EXCHANGE + SEED)
    inputs: dict[str, Inputs] = {
        "own": own[Split.TRAIN],
        "exchanged": other,
        "mixed": Mixed(own[Split.TRAIN], other, generator),
    }
    recipe, labels = find_recipe("quick@2"), torch.from_numpy(work.images.train.labels)
    model, norm = build(network, work, SEED), Normalisation.of(work.images)
    fit(model, inputs[masks], labels, norm, recipe, SEED)
    handed = removed[Split.TEST][other_images(len(removed[Split.TEST]), TEST_IDS, SEED)]
    tested = (own[Split.TEST], _degraded(work, Split.TEST, torch.from_numpy(handed)))
    said = [predict(model, images, norm, scored_at_once(64)).argmax(1).numpy() for images in tested]
    one, two = (float((each == work.images.test.labels).mean()) for each in said)
    return one, two


def _degraded(work: SuiteWork, split: Split, removed: Tensor) -> DegradedImages:
    return DegradedImages(
        torch.from_numpy(work.images[split].pixels), removed, torch.tensor(work.images.mean), Unit.SCALAR
    )


def study(store: Path) -> None:
    """Train what the outcomes lack, and write each as it is there."""
    torch.set_num_threads(1)
    workspace = Workspace(store)
    decoded = next(path for path in workspace.data.iterdir() if path.is_dir())
    work = SuiteWork(workspace, open_decoded(decoded), find_suite("quick@2"))
    found = json.loads(OUTCOMES.read_text("utf-8")) if OUTCOMES.exists() else []
    done = {tuple(line[:3]) for line in found}
    for point in product(NETWORKS, ROWS, MASKS):
        if point not in done:
            start = time.process_time()
            own, other = outcome(work, *point)
            found.append([*point, round(own, 4), round(other, 4), round(time.process_time() - start, 1)])
            OUTCOMES.write_text("[\n" + ",\n".join(json.dumps(line) for line in found) + "\n]\n", "utf-8")
            print(*found[-1], flush=True)


def table(found: list[list[object]]) -> str:
    """Return accuracies in percent, own mask / another image's on the test images; a line for each row and network."""
    at = {(network, row, masks): (own, other) for network, row, masks, own, other, _ in found}
    lines = []
    for network, name in NETWORKS.items():
        for row in ROWS:
            pairs = [at.get((network, row, masks)) for masks in MASKS]
            lines.append([name, f"`{row}`", *(_percent(pair) for pair in pairs)])
    heads = ["network", "row", "trained on own masks", "on either", "on other images' masks"]
    return markdown_table(heads, lines)


def _percent(pair: tuple[object, object] | None) -> str:
    return MISSING if pair is None else " / ".join(f"{100 * float(str(each)):.1f}" for each in pair)


def recorded() -> dict[str, str]:
    """Return the table of the shipped results."""
    return {"exchange": table(json.loads(OUTCOMES.read_text("utf-8")))}


def main() -> None:
    """Train what is asked, and write the table into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, help="a folder with the rankings of `quick` 2; none: the table alone")
    options = parser.parse_args()
    if options.store:
        study(options.store)
    write(FOLDER / "README.md", recorded())


if __name__ == "__main__":
    main()
