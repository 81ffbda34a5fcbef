"""How much a row's gain moves with the masks that the common network has met (docs/decisions/0022).

    python scripts/familiarity_study.py --store DIR [--designs controls,all,tuned,own] [--seed 0] [--number 0]

DIR is a store in which `roarbench run --suite quick` has ended: its rankings are read. Prints one line of JSON for each
design and row: accuracies with own and with other images' removed-maps, and the core-seconds of the training.
"""

import argparse
import copy
import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from roarbench.estimators import CONTROLS
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.noise import other_images
from roarbench.execution.context import RunContext
from roarbench.execution.networks import cuts_of, exchanged
from roarbench.kernels.degrade import DegradedImages
from roarbench.kernels.ranking import removed_bits
from roarbench.kernels.scoring import predict, scored_at_once
from roarbench.kernels.train import fit
from roarbench.plan.common import tuning_of
from roarbench.plan.recipe import Recipe
from roarbench.plan.recipes import find_recipe
from roarbench.plan.suites import find_suite
from roarbench.store.folders import Workspace
from roarbench.store.rankings import Rankings
from roarbench.terms import PAPER_LEVELS, Order, Split, Unit

ROWS = ("grad", "sgsq-grad", "var-grad", "ig", "gb")
TEST_IDS = 2**32  # the number of the first test image
RECIPE = find_recipe("quick@2")


class ExplainedRow(NamedTuple):
    """A row of the board, explained by one of the suite's references."""

    name: str
    number: int


def rankings(context: RunContext, row: ExplainedRow) -> Rankings:
    """Open the rankings of a row."""
    own = context.explaining(row.number)
    return own.rankings.open(own.ranking_spec(find_estimator(row.name), Unit.SCALAR))


def train(
    context: RunContext,
    rows: Iterable[ExplainedRow],
    seed: int,
    model: nn.Module | None = None,
    recipe: Recipe = RECIPE,
) -> tuple[nn.Module, float]:
    """Train a network on the exchanged masks of rows; return it with the core-seconds that it took."""
    model = copy.deepcopy(model) if model else context.network("resnet-quick", seed)
    cuts = [cut for row in rows for cut in cuts_of(rankings(context, row), Order.MORF)]
    start, labels = time.process_time(), torch.from_numpy(context.data.train.labels)
    fit(model, exchanged(context, cuts, Unit.SCALAR, seed), labels, context.norm, recipe, seed)
    return model, time.process_time() - start


def accuracies(context: RunContext, model: nn.Module, row: ExplainedRow) -> dict[str, list[float]]:
    """Return accuracies in percent by level, with each image's own removed-map and with another image's."""
    found, made = rankings(context, row), {"own": [], "other": []}  # type: tuple[Rankings, dict[str, list[float]]]
    labels = context.data.test.labels
    for t in PAPER_LEVELS:
        bits = removed_bits(found.planes(Split.TEST)[:], t, Order.MORF, found.layout)
        for name, removed in (("own", bits), ("other", bits[other_images(len(bits), TEST_IDS, 0)])):
            images = DegradedImages(context.pixels(Split.TEST), torch.from_numpy(removed), context.fill, Unit.SCALAR)
            said = predict(model, images, context.norm, scored_at_once(64)).argmax(1).numpy()
            made[name].append(round(100 * float(np.mean(said == labels)), 2))
    return made


def networks(
    context: RunContext, design: str, seed: int, rows: list[ExplainedRow]
) -> Iterator[tuple[ExplainedRow, nn.Module, float]]:
    """Yield the network that scores each row under a design, with the core-seconds of its last training."""
    controls = rows[: len(CONTROLS)]
    if design == "own":
        yield from ((row, *train(context, [row], seed)) for row in rows)
    elif design == "all":
        everyone = [
            *controls,
            *(ExplainedRow(name, number) for number in range(context.suite.references) for name in ROWS),
        ]
        model, seconds = train(context, everyone, seed)
        yield from ((row, model, seconds) for row in rows)
    else:
        model, seconds = train(context, controls, seed)
        if design == "controls":
            yield from ((row, model, seconds) for row in rows)
        else:
            yield from ((row, *train(context, [row], seed, model, tuning_of(RECIPE))) for row in rows)


def main() -> None:
    """Print the measurements, line by line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--designs", default="controls,all,tuned,own")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--number", type=int, default=0, help="which of the suite's references is explained, from 0")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    workspace = Workspace(arguments.store)
    decoded = next(path for path in workspace.data.iterdir() if path.is_dir())
    context = RunContext(workspace, decoded, find_suite("quick"))
    rows = [*(ExplainedRow(name, 0) for name in CONTROLS), *(ExplainedRow(name, arguments.number) for name in ROWS)]
    for design in arguments.designs.split(","):
        for row, model, seconds in networks(context, design, arguments.seed, rows):
            line = {"design": design, "seed": arguments.seed, **row._asdict(), "seconds": round(seconds, 1)}
            print(json.dumps(line | accuracies(context, model, row)), flush=True)


if __name__ == "__main__":
    main()
