"""Does the explained network itself tell its own map from that of another network of the same recipe? Prints a table.

Run in a store that has `quick-matched`: python -m studies.which_network.run --store DIR
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.pairing import other_images
from roarbench.execution.context import RunContext
from roarbench.execution.importance import image_ids
from roarbench.execution.matched_masks import matched_bits
from roarbench.execution.placed_inputs import without
from roarbench.kernels.ranking import removed_bits
from roarbench.kernels.scoring import predict, scored_at_once
from roarbench.plan.keys import bind
from roarbench.plan.points import expand
from roarbench.plan.runs import Run
from roarbench.plan.suites import find_suite
from roarbench.store.layout import Workspace
from roarbench.terms import Order, Split, Unit
from roarbench.text import markdown_table

ROWS = ("input-x-grad", "sgsq-grad", "grad")
LEVELS = (0.1, 0.5)
Answers = NDArray[np.bool_]


class Asked(NamedTuple):
    """Answers of a reference to the test images without what a map says, bool (levels, n).

    Attributes:
        first: Without what the map ranks first (MoRF).
        matched: Without what another image's map ranks first, stratum by stratum.
        last: Without what the map ranks last (LeRF).
    """

    first: Answers
    matched: Answers
    last: Answers

    @property
    def scores(self) -> NDArray[np.float64]:
        """Return four scores of each image in points, float64 (4, n): larger speaks for the map."""
        first, matched, last = (100 * each.mean(0) for each in self)
        return np.stack([-first, last, last - first, matched - first])


SCORES = ("-MoRF", "LeRF", "LeRF - MoRF", "matched MoRF")


def asked(context: RunContext, number: int, explained: int, name: str) -> Asked:
    """Ask reference `number` about a row's map of reference `explained`."""
    judge, maker = context.explaining(number), context.explaining(explained)
    rankings = maker.rankings.open(maker.ranking_spec(find_estimator(name), Unit.SCALAR))
    model, planes = judge.trained_reference(), rankings.planes(Split.TEST)
    labels = judge.data.test.labels
    others = other_images(len(labels), int(image_ids(Split.TEST, 0, 1)), number)

    def right(run: Run, bits: NDArray[np.uint8]) -> Answers:
        inputs = without(judge, Split.TEST, bits, run.cell)
        logits = predict(model, inputs, judge.reference_norm, scored_at_once(judge.data.record.size))
        found: Answers = logits.argmax(1).numpy() == labels
        return found

    made = []
    for run in runs(context, name, number):
        first, last = (removed_bits(planes, run.cell.t, order, rankings.layout) for order in (Order.MORF, Order.LERF))
        made.append([right(run, bits) for bits in (first, matched_bits(judge, run, rankings, first, others), last)])
    return Asked(*map(np.stack, zip(*made, strict=True)))


def runs(context: RunContext, name: str, seed: int) -> list[Run]:
    """Return the runs of a row with its own masks, by level."""
    points = [p for p in expand(context.suite) if (p.cell.estimator, p.seed) == (name, seed) and p.cell.t in LEVELS]
    return [bind(context.suite, point, context.data.fingerprint, None) for point in points]


def lines(context: RunContext) -> Iterator[list[str]]:
    """Yield each row's scores on the explained network, by its own map and over that of the next reference."""
    count = context.suite.references
    for name in ROWS:
        own = np.stack([asked(context, n, n, name).scores for n in range(count)])
        other = np.stack([asked(context, n, (n + 1) % count, name).scores for n in range(count)])
        for which, score in enumerate(SCORES):
            over = (own - other)[:, which]
            each = ", ".join(f"{value:+.1f}" for value in over.mean(1))
            error = over.mean(0).std() / over.shape[1] ** 0.5
            yield [f"`{name}`", score, f"{own[:, which].mean():.1f}", f"{over.mean():+.1f} ± {error:.1f}", each]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, required=True)
    workspace, suite = Workspace(parser.parse_args().store), find_suite("quick-matched")
    torch.set_num_threads(1)
    decoded = next(path.parent for path in workspace.data.rglob("manifest.json"))
    heads = ("row", "score", "own map", "over the other network's map", "by reference")
    print(markdown_table(heads, lines(RunContext(workspace, decoded, suite))))


if __name__ == "__main__":
    main()
