"""What does a verdict cost? Core-minutes against the share of the verdicts that all networks together give.

Run: python -m studies.protocols.cost --quick QUICK --planted PLANTED; QUICK is a store with quick-2.parquet and
quick-specific-1.parquet of studies/replication, PLANTED one with planted.parquet.

On photographs: `quick` 2 and `quick-specific` with their replications hold twelve networks under every protocol, each
with a reference of its own. What a board of them all says of its rows beside Random is what a cheaper one should say:
one, two or three of them in a chance order, or a course of three looks that stops where verdicts are settled
(`run --stop-early --difference 2`). On generated images: the pairs of rows whose known order is found.

Cost is counted: passes of one image through the network (a training image counts three, an explained one as the
forecast counts it) for maps, references, trainings and scoring of these rows, times the seconds of a pass in the
quickest training of the store. Writes `ways.json` beside it, and a table.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import norm

from roarbench.analysis.stored_results import collect
from roarbench.estimators.estimator import CONTROLS
from roarbench.forecast.rates import operations
from roarbench.forecast.workload import count_cost_per_image, count_work
from roarbench.plan.points import expand_points, select, select_seeds
from roarbench.plan.suite import SuiteSpec
from roarbench.plan.suites import find_suite
from roarbench.protocols.augmented import AUGMENTED
from roarbench.protocols.protocol import Protocol
from roarbench.protocols.roar import ROAR
from roarbench.protocols.specific import SPECIFIC
from roarbench.stats.board import RANDOM, Board
from roarbench.stats.verdicts import POWER, Verdict
from roarbench.store.results import ResultsStore
from roarbench.text import format_count, markdown_table
from studies.coverage.run import share_images
from studies.page import opened, program, write
from studies.protocols import run as known_order
from studies.protocols.networks import Looks, beside_random, some, together

QUICK = find_suite("quick@2")
RECORD = Path(__file__).with_name("ways.json")
MOST = 3  # seeds of the suites
DIFFERENCE = 2.0  # points; the smallest of interest in a course
ORDERS = 40  # chance orders of the networks


class Way(NamedTuple):
    """One way to verdicts of a suite's explained rows beside Random, and what it was worth on stored answers."""

    suite: str  # `NAME@VERSION`
    protocol: str
    seeds: int  # the most trainings of a row
    until_decided: bool  # whether it stops where verdicts are settled
    trainings: float  # of a row, the mean
    same: float  # share of the verdicts of all stored networks that it gives, in [0, 1]
    same_error: float  # standard error of `same`
    same_as_roar: float  # the same of ROAR's verdicts by all its networks
    # smallest true gain that it calls different from Random with a chance of 80%, in accuracy points, the median over
    # rows; None where it gives no intervals
    detectable: float | None
    core_minutes: float  # of the explained rows, with references and maps, by the quickest training of the store


class SuitePart(NamedTuple):
    """Rows of a suite under one protocol."""

    suite: SuiteSpec
    protocol: Protocol


ASKED = (
    SuitePart(find_suite("quick-specific"), SPECIFIC),
    *(SuitePart(QUICK, protocol) for protocol in (SPECIFIC, AUGMENTED, ROAR)),
)


def alike(board: Board, whole: Mapping[str, Verdict]) -> float:
    """Return the share of the verdicts of `whole` that a board gives, too, in [0, 1]."""
    said = beside_random(board)
    return float(np.mean([said.get(name) is verdict for name, verdict in whole.items()]))


def detectable(board: Board) -> float | None:
    """Return the true gain that a row's comparison with Random finds with 80% power, the median over rows."""
    halves = [
        row.gain.high - row.gain.value
        for row in board.rows
        if row.estimator not in CONTROLS and row.gain.high is not None and row.gain.value is not None
    ]
    confidence = max(1 - (1 - board.bootstrap.confidence) / max(row.interim_analyses or 1 for row in board.rows), 0.0)
    return float(np.median(halves) * (1 + norm.ppf(POWER) / norm.ppf((1 + confidence) / 2))) if halves else None


def cost(asked: SuitePart, seeds: Mapping[str, int], seconds: float) -> float:
    """Return the core-minutes of so many trainings of these rows, at so many seconds for an image's forward pass."""
    part = select(asked.suite, seeds, protocol=asked.protocol)
    part = select_seeds(part, {(asked.protocol.retrain, name): count for name, count in seeds.items()})
    flops = count_cost_per_image(part).flops
    return operations(count_work(part, expand_points(part)), flops) / flops * seconds / 60


def ways(store: Path, seconds: float) -> Iterator[Way]:
    """Yield all ways, each of its protocol's networks in the same chance orders."""
    pools = {asked: together(store, asked.protocol, asked.suite) for asked in ASKED}
    networks = {asked: len(pool.correct[RANDOM, pool.levels[0]]) for asked, pool in pools.items()}
    whole = {
        asked: beside_random(Looks(pool, asked.protocol, 0).fixed(networks[asked])[0]) for asked, pool in pools.items()
    }
    for asked, pool in pools.items():
        explaining = {name for name, _ in pool.references}
        orders = [np.random.default_rng([0, number]).permutation(networks[asked])[:MOST] for number in range(ORDERS)]
        looks = [
            Looks(some(pool, lambda *_, order=order: order), asked.protocol, number)
            for number, order in enumerate(orders)
        ]
        for seeds, until in (*((n, False) for n in range(1, MOST + 1)), (MOST, True)):
            seen = [each.until_decided(DIFFERENCE, MOST) if until else each.fixed(seeds) for each in looks]
            taken = [np.mean([count for name, count in counts.items() if name in explaining]) for _, counts in seen]
            same = [alike(board, whole[asked]) for board, _ in seen]
            found = [value for board, _ in seen if (value := detectable(board)) is not None]
            yield Way(
                f"{asked.suite.name}@{asked.suite.version}",
                asked.protocol.name,
                seeds,
                until,
                round(float(np.mean(taken)), 2),
                round(float(np.mean(same)), 3),
                round(float(np.std(same) / np.sqrt(ORDERS)), 3),
                round(float(np.mean([alike(board, whole[ASKED[-1]]) for board, _ in seen])), 3),
                round(float(np.mean(found)), 2) if found else None,
                round(float(np.mean([cost(asked, counts, seconds) for _, counts in seen])), 2),
            )


class Known(NamedTuple):
    """A protocol on generated images: the share of pairs that it puts in their known order, and what they cost."""

    protocol: str
    found: float
    core_minutes: float


def known(store: ResultsStore) -> Iterator[Known]:
    """Yield every protocol, over all data sets."""
    found = [each for each in known_order.read(store) if each.suite.name in known_order.NAMES]
    rate = known_order.seconds_a_pass(found)
    for protocol in known_order.ASKED:
        judged = [known_order.judge(each, protocol, rate) for each in found]
        right, pairs = sum(one.right for one in judged), sum(one.right + one.wrong + one.undecided for one in judged)
        yield Known(protocol.name, round(right / pairs, 3), round(sum(one.seconds for one in judged) / 60, 2))


def table(made: Sequence[Way], on_planted: Sequence[Known]) -> str:
    """Return the tables of the page."""
    rows = [
        [
            f"`{way.suite.partition('@')[0]}`",
            f"`{way.protocol}`",
            "until decided" if way.until_decided else format_count(way.seeds, "seed"),
            f"{way.trainings:.1f}",
            "" if way.detectable is None else f"{way.detectable:.1f}",
            f"{100 * way.same:.0f} ± {100 * way.same_error:.0f}",
            f"{100 * way.same_as_roar:.0f}",
            f"{way.core_minutes:.1f}",
        ]
        for way in made
    ]
    heads = ["suite", "protocol", "trainings", "of a row", "detectable"]
    heads += ["verdicts recovered, %", "of ROAR's, %", "core-minutes"]
    generated = [[f"`{one.protocol}`", f"{100 * one.found:.0f}", f"{one.core_minutes:.1f}"] for one in on_planted]
    pairs = markdown_table(["protocol", "pairs in the known order, %", "core-minutes"], generated)
    return f"{markdown_table(heads, rows)}\n\n{pairs}"


def main() -> None:
    """Write record and table."""
    parser = program(__doc__)
    parser.add_argument("--quick", type=Path, required=True, help="with `quick` 2, `quick-specific`, replications")
    parser.add_argument("--planted", type=Path, required=True, help="with the suites of generated images")
    options = parser.parse_args()
    share_images()
    with opened(options.quick) as store:
        seconds = known_order.seconds_a_pass([collect(QUICK, store)])
    made = list(ways(options.quick, seconds))
    with opened(options.planted) as store:
        on_planted = list(known(store))
    record = {
        "difference": DIFFERENCE,
        "orders": ORDERS,
        "ways": [way._asdict() for way in made],
        "planted": [one._asdict() for one in on_planted],
    }
    RECORD.write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    write(Path(__file__).with_name("tables.md"), {"cost": table(made, on_planted)})


if __name__ == "__main__":
    main()
