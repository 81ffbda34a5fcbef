"""Do another network, longer training or averaged weights of the common network change the specific gains?

    python scripts/network_study.py --store DIR --out FOLDER --networks quick,plain,patches --epochs 10 --seeds 0
    python scripts/network_study.py --store DIR --out FOLDER --networks quick --average --seeds 0,1,2

DIR is a store in which `roarbench run --suite quick` has ended: its rankings are read. The common network and its
tunings are made anew as the suite makes them, but for what is asked; each test image is answered with its own
removed-map and with that of the suite's other image. FOLDER gets a file for each row, network and seed.
"""

import argparse
import copy
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from familiarity_study import ExplainedRow, rankings
from numpy.typing import NDArray
from torch import nn
from torch.optim.swa_utils import AveragedModel

from roarbench.estimators import CONTROLS
from roarbench.estimators.noise import other_images
from roarbench.execution.context import RunContext
from roarbench.execution.networks import cuts_of, exchanged
from roarbench.kernels.degrade import DegradedImages
from roarbench.kernels.ranking import removed_bits
from roarbench.kernels.scoring import predict, scored_at_once
from roarbench.kernels.train import fit
from roarbench.models.small import SmallResNet, Stem
from roarbench.plan.common import tuning_of
from roarbench.plan.recipe import Recipe
from roarbench.plan.recipes import find_recipe
from roarbench.plan.suites import find_suite
from roarbench.store.folders import Workspace
from roarbench.terms import Order, Split, Unit

ROWS = ("grad", "sgsq-grad", "var-grad", "ig", "gb")
LEVELS = (0.1, 0.5, 0.9)
TEST_IDS = 2**32
TUNING = 1_000_000  # from the seed of a common network to those of its tuning
AVERAGED = 0.2  # share of a training, at its end, whose weights are averaged
EVERY = 20  # steps from one set of weights in the average to the next


def build(network: str, context: RunContext, seed: int) -> nn.Module:
    """Return a network with the random weights of a seed: the suite's, or one of another build.

    `plain` has convolutions and poolings alone, nothing residual; `patches` begins with patches of 8 x 8 pixels.
    """
    if network == "quick":
        return context.network("resnet-quick", seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        classes = context.data.record.classes
        if network == "patches":
            return SmallResNet(3, classes, Stem(24, kernel=8, stride=4, padding=2), widths=(32, 64), strides=(1, 2))
        widths = (3, 16, 32, 64, 64)
        layers: list[nn.Module] = []
        for first, (inputs, width) in enumerate(zip(widths, widths[1:], strict=False)):
            layers += [nn.Conv2d(inputs, width, 3, stride=1 if first else 2, padding=1, bias=False)]
            layers += [nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2) if first < 3 else nn.Identity()]
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], classes))


def train(
    context: RunContext, rows: list[ExplainedRow], model: nn.Module, recipe: Recipe, seed: int, average: bool
) -> nn.Module:
    """Train on the exchanged masks of rows; return the network, or the mean of its last weights."""
    cuts = [cut for row in rows for cut in cuts_of(rankings(context, row), Order.MORF)]
    labels = torch.from_numpy(context.data.train.labels)
    mean, step = AveragedModel(model, use_buffers=True), 0
    first = round((1 - AVERAGED) * recipe.epochs * len(labels) / recipe.batch)

    def collect(module: nn.Module, *_: object) -> None:
        nonlocal step
        step += 1
        if average and step >= first and (step - first) % EVERY == 0:
            mean.update_parameters(module)

    hook = model.register_forward_hook(collect)
    fit(model, exchanged(context, cuts, Unit.SCALAR, seed), labels, context.norm, recipe, seed)
    hook.remove()
    return mean.module if average else model


def probabilities(context: RunContext, model: nn.Module, removed: NDArray[np.uint8] | None) -> NDArray[np.float16]:
    """Return the probabilities of all classes for the test images without these features."""
    bits = None if removed is None else torch.from_numpy(removed)
    images = DegradedImages(context.pixels(Split.TEST), bits, context.fill, Unit.SCALAR)
    return predict(model, images, context.norm, scored_at_once(64)).softmax(1).numpy().astype(np.float16)


def study(context: RunContext, network: str, epochs: float, seed: int, average: bool, out: Path) -> None:
    """Train a common network, tune it on each row and write what it answers, unless that was done."""
    recipe = replace(find_recipe("quick@2"), epochs=epochs)
    name = f"{network}-{epochs:g}{'-averaged' if average else ''}-{seed}"
    number = seed % context.suite.references
    controls = [ExplainedRow(row, 0) for row in CONTROLS]
    start = time.process_time()
    common = train(context, controls, build(network, context, seed), recipe, seed, average)
    seconds, said = time.process_time() - start, probabilities(context, common, None)
    accuracy = float(np.mean(said.argmax(1) == context.data.test.labels))
    print(name, f"untouched {100 * accuracy:.1f} %, {seconds:.1f} core-seconds", flush=True)
    np.savez(out / f"{name}.npz", untouched=said)
    for row in (*controls, *(ExplainedRow(row, number) for row in ROWS)):
        start = time.process_time()
        model = train(context, [row], copy.deepcopy(common), tuning_of(recipe), TUNING + seed, average)
        seconds, found, made = time.process_time() - start, rankings(context, row), {}
        for t in LEVELS:
            own = removed_bits(found.planes(Split.TEST)[:], t, Order.MORF, found.layout)
            made[f"own-{t:g}"] = probabilities(context, model, own)
            made[f"other-{t:g}"] = probabilities(context, model, own[other_images(len(own), TEST_IDS, seed)])
        np.savez(out / f"{name}-{row.name}.npz", **made)  # type: ignore[arg-type]
        print(name, row.name, f"tuned in {seconds:.1f}, scored in {time.process_time() - start - seconds:.1f} s")


def main() -> None:
    """Train what is asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--networks", default="quick", help="of quick, plain, patches")
    parser.add_argument("--epochs", type=float, default=10)
    parser.add_argument("--average", action="store_true", help="score with the mean of the last weights")
    parser.add_argument("--seeds", default="0", help="seed s takes the reference that the suite gives it")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    workspace = Workspace(arguments.store)
    decoded = next(path for path in workspace.data.iterdir() if path.is_dir())
    context = RunContext(workspace, decoded, find_suite("quick"))
    arguments.out.mkdir(parents=True, exist_ok=True)
    for network in arguments.networks.split(","):
        for seed in map(int, arguments.seeds.split(",")):
            study(context, network, arguments.epochs, seed, arguments.average, arguments.out)


if __name__ == "__main__":
    main()
