"""Do the intervals hold what they promise? Synthetic boards whose truth is known, judged as real ones are.

    python scripts/simulate_coverage.py [--boards 1000] [--out docs]

Every answer comes from a hidden number: the cell's strength, the image's difficulty for all cells and for this cell,
the luck of the reference and of the training, and plain noise, all normal. So every cell's true accuracy is known
exactly. The figures and numbers are those of `docs/statistics.md`.
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from roarbench.stats import draws as drawing
from roarbench.stats.agreement import agreement
from roarbench.stats.board import Board, Row
from roarbench.stats.bootstrap import Bootstrap, Sample, half_width
from roarbench.stats.curves import POINTS, UNTOUCHED, Bits, Floats, Point, Scores, area_weights, gain
from roarbench.stats.draws import Draws, draw
from roarbench.stats.judging import board_of, gain_samples
from roarbench.stats.replication import replication
from roarbench.stats.spread import Spread, spread_of
from roarbench.stats.verdicts import Verdict
from roarbench.terms import ROAR

CLEAN_ACCURACY = 0.8
CONTROLS = ("random", "sobel", "random-blurred")
DROPS = (0.0, 0.0, 3.0, -6.0, -1.0, 1.5, 1.5, 0.0, 4.0)  # of the controls, then of the explained rows
# variances of the hidden number: an image's difficulty for all cells, for one cell, per reference, and per training
SHARED, OWN, EXPLAINED, NOISE = 0.6, 0.25, 0.05, 0.1
WEIGHTS = 8  # sets of drawn images that the boards take in turn


@dataclass(frozen=True)
class World:
    """Parts that the boards of one simulation have in common.

    Attributes:
        name: What the table calls it.
        references: Networks that the rows beside the controls explain.
        trainings: On each of them; a control has as many trainings as a row has in all.
        drops: True mean drop of every estimator below Random, in accuracy points at t = 1.
        levels: Above 0.
        images: Number of test images.
        of_references: Standard deviation of a row's gain over references, in accuracy points: from the first to the
            last row evenly between these.
        shared: Share of that variance that all rows have in common.
        of_trainings: Standard deviation of a cell's accuracy over trainings, in accuracy points: log-uniform between
            these.
    """

    name: str
    references: int
    trainings: int
    drops: tuple[float, ...] = DROPS
    levels: tuple[float, ...] = (0.5, 0.9)
    images: int = 3925
    of_references: tuple[float, float] = (1.0, 2.3)
    shared: float = 0.5
    of_trainings: tuple[float, float] = (0.5, 1.0)

    @property
    def estimators(self) -> tuple[str, ...]:
        """Return the ids of the rows, the controls first."""
        return (*CONTROLS, *(f"e{number}" for number in range(1, len(self.drops) - len(CONTROLS) + 1)))

    @property
    def explained(self) -> tuple[str, ...]:
        """Return the rows that depend on a reference."""
        return self.estimators[len(CONTROLS) :]


WORLDS = (
    World("1 reference x 2 trainings", 1, 2, of_trainings=(0.3, 3.0)),
    World("2 references x 1 training", 2, 1, of_trainings=(0.3, 3.0)),
    World("3 references x 1 training", 3, 1, of_trainings=(0.3, 3.0)),
    World("3 references x 2 trainings", 3, 2, of_trainings=(0.3, 3.0)),
    World("5 references x 1 training", 5, 1, of_trainings=(0.3, 3.0)),
    World("2 x 1, references share nothing", 2, 1, shared=0.0),
    World("2 x 1, references share 80%", 2, 1, shared=0.8),
    World("3 x 1, references share 80%", 3, 1, shared=0.8),
    World("3 x 1, references alike", 3, 1, of_references=(0.0, 0.0)),
    World("3 x 1, 10,000 images", 3, 1, images=10_000),
    World("3 x 1, all rows equal to Random", 3, 1, drops=(0.0,) * 9),
    World("5 x 1, 20 rows, 5 levels", 5, 1, tuple(np.linspace(-6, 12, 19)), (0.1, 0.3, 0.5, 0.7, 0.9)),
    World("1 x 2, references alike", 1, 2, of_references=(0.0, 0.0)),
    World("1 x 5, references alike", 1, 5, of_references=(0.0, 0.0)),
)
DESIGNS = 5  # of these worlds: what the study and the suites may look like; they are simulated most often


def truth(world: World) -> dict[Point, float]:
    """Return the true accuracies: Random falls linearly with t, an estimator's gain grows with it."""
    accuracies = {UNTOUCHED: CLEAN_ACCURACY}
    for name, drop in zip(world.estimators, world.drops, strict=True):
        for t in world.levels:
            accuracies[name, t] = CLEAN_ACCURACY - 0.3 * t - drop / POINTS * t
    return accuracies


def gains_of(world: World, accuracies: dict[Point, float]) -> dict[str, float]:
    """Return the gains of these accuracies, in accuracy points."""
    levels = (0.0, *world.levels)
    curves = {
        name: np.array([accuracies[UNTOUCHED], *(accuracies[name, t] for t in world.levels)])
        for name in world.estimators
    }
    return {name: float(gain(levels, curve, curves["random"], ROAR.order)) for name, curve in curves.items()}


class Setting(NamedTuple):
    """Parts that every experiment of one world on the same test images shares.

    Attributes:
        shared: Difficulty of the images for all cells.
        own: Difficulty of the images for each cell beyond that.
        trainings: Standard deviation of each cell's accuracy over trainings, in accuracy points.
    """

    shared: NDArray[np.float32]
    own: dict[Point, NDArray[np.float32]]
    trainings: dict[Point, float]


def setting(world: World, generator: np.random.Generator) -> Setting:
    """Draw test images and how much each cell varies."""
    points = truth(world)
    shared = np.float32(SHARED**0.5) * _normal(generator, world.images)
    own = {point: np.float32(OWN**0.5) * _normal(generator, world.images) for point in points}
    low, high = np.log(np.maximum(world.of_trainings, 1e-9))
    return Setting(shared, own, {point: float(np.exp(generator.uniform(low, high))) for point in points})


def _normal(generator: np.random.Generator, *shape: int) -> NDArray[np.float32]:
    return np.asarray(generator.standard_normal(shape, dtype=np.float32))


class Experiment(NamedTuple):
    """One board's answers.

    Attributes:
        scores: As a store would hold them.
        accuracies: True ones for these references, over all images and trainings.
    """

    scores: Scores
    accuracies: dict[Point, float]


def experiment(world: World, given: Setting, generator: np.random.Generator) -> Experiment:
    """Draw references and trainings, and train."""
    count = world.references * world.trainings
    explains = np.arange(count) % world.references
    common = generator.standard_normal(world.references)
    rows = dict(zip(world.explained, np.linspace(*world.of_references, len(world.explained)), strict=True))
    of_rows = {
        name: np.sqrt(world.shared) * common + np.sqrt(1 - world.shared) * generator.standard_normal(world.references)
        for name in rows
    }
    # a reference moves a curve in proportion to t, the gain by one standard deviation
    unit = float(area_weights((0.0, *world.levels))[1:] @ np.array(world.levels))
    correct: dict[Point, Bits] = {}
    exact: dict[Point, float] = {}
    for point, accuracy in truth(world).items():
        name, t = point
        threshold = norm.ppf(accuracy)
        hidden_unit = POINTS * norm.pdf(threshold)
        training = given.trainings[point] / hidden_unit
        reference = rows.get(name, 0.0) * t / unit / hidden_unit
        shift = -reference * of_rows[name] if name in rows else np.zeros(world.references)
        hidden = given.shared + given.own[point] + np.float32(NOISE**0.5) * _normal(generator, count, world.images)
        if name in rows:
            hidden += np.float32(EXPLAINED**0.5) * _normal(generator, world.references, world.images)[explains]
        else:
            hidden += np.float32(EXPLAINED**0.5) * _normal(generator, count, world.images)
        hidden += (shift[explains] + training * generator.standard_normal(count))[:, None].astype(np.float32)
        line = threshold * np.sqrt(1 + training**2 + reference**2)
        correct[point] = hidden > -line
        exact[point] = float(np.mean(norm.cdf((line + shift) / np.sqrt(1 + training**2))))
    names = tuple(f"reference {number}" for number in explains)
    references = {(name, t): names for name in world.explained for t in world.levels}
    return Experiment(Scores(world.estimators, world.levels, correct, references=references), exact)


class Judged(NamedTuple):
    """Material of a board: its draws, and the gains and those of a replication in them."""

    draws: Draws
    spread: Spread | None
    gains: dict[str, Sample]
    replicated: dict[str, Sample]


def judged(scores: Scores, bootstrap: Bootstrap) -> Judged:
    """Draw for a synthetic board as for a real one."""
    spread = spread_of([scores])
    draws = draw(scores, bootstrap, spread)
    return Judged(draws, spread, gain_samples(scores, ROAR, draws), gain_samples(scores, ROAR, draws.replication))


class Kept(NamedTuple):
    """Shares of one board's intervals that held what they promise, in [0, 1]; None where there was nothing.

    Attributes:
        accuracies: Of cells.
        gains: Of the explained rows.
        controls: Of the controls beside Random.
        over_sobel: Of the explained rows, over Sobel.
        between: Differences between the gains of two explained rows.
        predicted: Gains of a replication of the explained rows.
        network: Gains of the explained rows, true for these references only.
    """

    accuracies: float
    gains: float
    controls: float
    over_sobel: float
    between: float
    predicted: float
    network: float


def kept(world: World, found: Judged, done: Experiment, again: dict[str, Sample]) -> Kept:
    """Compare the intervals of a board with the truth and with the gains of a replication."""
    accuracies = truth(world)
    gains, exact = gains_of(world, accuracies), gains_of(world, done.accuracies)
    rows, own = found.gains, world.explained
    cells = [(sample, accuracies[point]) for point in accuracies if (sample := found.draws.accuracy(point))]
    pairs = zip(own, own[1:], strict=False)
    return Kept(
        _share(cells),
        _share([(rows[name], gains[name]) for name in own]),
        _share([(rows[name], gains[name]) for name in CONTROLS[1:]]),
        _share([(rows[name].minus(rows["sobel"]), gains[name] - gains["sobel"]) for name in own]),
        _share([(rows[one].minus(rows[other]), gains[one] - gains[other]) for one, other in pairs]),
        _share([(found.replicated[name], again[name].value) for name in own]),
        _share([(rows[name], exact[name]) for name in own]),
    )


def _share(pairs: Sequence[tuple[Sample, float]]) -> float:
    """Return the share of 95% intervals that hold their value, in [0, 1]."""
    return float(np.mean([abs(sample.value - value) <= half_width(sample, 0.95) for sample, value in pairs]))


class Outcome(NamedTuple):
    """One board: what the intervals held, the same told that there is one reference, and the rest of the promises."""

    here: Kept
    one_reference: Kept
    false_discoveries: float
    all_places: float
    width: float
    detectable: float
    power: float
    freedom: float | None
    equal_verdicts: float
    opposed_verdicts: float


def outcome(world: World, generator: np.random.Generator, bootstrap: Bootstrap) -> Outcome:
    """Simulate an experiment and its replication, judge both, and compare with the truth and with each other."""
    given = setting(world, generator)
    done, other = (experiment(world, given, generator) for _ in range(2))
    found, again = judged(done.scores, bootstrap), judged(other.scores, bootstrap)
    told = judged(replace(done.scores, references={}), bootstrap)
    gains = gains_of(world, truth(world))
    one, two = (
        board_of(run.scores, ROAR, bootstrap, seen.spread, seen.draws) for run, seen in ((done, found), (other, again))
    )
    alike = replication(one, two)
    return Outcome(
        kept(world, found, done, again.gains),
        kept(world, told, done, again.gains),
        _false_discoveries(one, gains),
        all(_place_holds(row, gains) for row in one.rows),
        float(np.mean([half_width(found.gains[name], 0.95) for name in world.explained])),
        one.detectable or 0.0,
        _power(found, one.detectable or 0.0, gains, world.explained),
        one.reference_freedom,
        alike.equal_share or 0.0,
        alike.opposed_share or 0.0,
    )


def _false_discoveries(judged: Board, gains: dict[str, float]) -> float:
    """Return the share of wrong verdicts among all "better" and "worse"; a wrong direction is wrong, too."""
    wrong = found = 0
    for row in judged.rows:
        for comparison, control in zip((row.random, row.sobel, row.random_blurred), CONTROLS, strict=True):
            if comparison is None or comparison.verdict is Verdict.SAME:
                continue
            difference = gains[row.estimator] - gains[control]
            found += 1
            wrong += abs(difference) < 1e-9 or (difference > 0) != (comparison.verdict is Verdict.BETTER)
    return wrong / max(1, found)


def _place_holds(row: Row, gains: dict[str, float]) -> bool:
    """Return whether the place interval holds every place that a truly tied group shares."""
    assert row.place is not None and row.place.low is not None and row.place.high is not None
    own = gains[row.estimator]
    best = 1 + sum(other > own + 1e-9 for other in gains.values())
    worst = sum(other > own - 1e-9 for other in gains.values())
    return row.place.low <= best and worst <= row.place.high


def _power(found: Judged, shift: float, gains: dict[str, float], rows: Sequence[str]) -> float:
    """Return how often a single comparison finds a difference of this size between two rows, in [0, 1]."""
    shares = []
    for one, other in zip(rows, rows[1:], strict=False):
        difference = found.gains[one].minus(found.gains[other])
        off = difference.value - (gains[one] - gains[other])
        shares.append(off + shift > half_width(difference, 0.95))
    return float(np.mean(shares))


class TauOutcome(NamedTuple):
    """Share of intervals that hold the true Kendall's tau, and their width."""

    held: float
    width: float
    held_by_percentiles: float
    width_of_percentiles: float


def simulate_agreement(rows: int, spread: float, likeness: float, repeats: int, seed: int = 0) -> TauOutcome:
    """Simulate the agreement of two boards with normal gains.

    Args:
        rows: Number of estimators.
        spread: Standard deviation of true gains, in standard errors of a gain.
        likeness: Correlation of the true gains of both boards.
        repeats: Pairs of boards.
        seed: Source of chance.
    """
    generator = np.random.default_rng([seed, rows, round(spread * 100), round(likeness * 100)])
    outcomes = []
    for _ in range(repeats):
        true = generator.standard_normal((2, rows)) * spread
        true[1] = likeness * true[0] + np.sqrt(1 - likeness**2) * true[1]
        seen = true + generator.standard_normal((2, rows))
        draws = seen[:, :, None] + generator.standard_normal((2, rows, 200))
        boards = [{str(row): Sample(float(seen[b, row]), draws[b, row]) for row in range(rows)} for b in (0, 1)]
        found = agreement(boards[0], boards[1], 0.95)
        assert found is not None and found.tau.low is not None and found.tau.high is not None
        tau = float(_tau(true[0], true[1]))
        low, high = np.quantile(_tau(draws[0], draws[1]), (0.025, 0.975))
        held = found.tau.low - 1e-9 <= tau <= found.tau.high + 1e-9
        by_percentiles = low - 1e-9 <= tau <= high + 1e-9
        outcomes.append((held, found.tau.high - found.tau.low, by_percentiles, high - low))
    return TauOutcome(*np.mean(outcomes, axis=0).tolist())


def _tau(one: Floats, other: Floats) -> Floats:
    """Compute Kendall's tau without ties of arrays (rows, ...)."""
    first, second = np.triu_indices(len(one), 1)
    return np.asarray(np.mean(np.sign(one[first] - one[second]) * np.sign(other[first] - other[second]), axis=0))


def simulate(world: World, boards: int, seed: int, resamples: int = 600) -> list[Outcome]:
    """Simulate this many boards; each has its own stream of chance, and one of a few sets of drawn images."""
    return [
        outcome(world, np.random.default_rng([seed, number]), Bootstrap(resamples, seed=number % WEIGHTS))
        for number in range(boards)
    ]


Summary = dict[str, tuple[float, float]]


def summary(outcomes: Sequence[Outcome]) -> dict[str, Summary]:
    """Return mean and standard error, over boards, of every share."""
    parts: dict[str, Summary] = {"here": {}, "one_reference": {}, "other": {}}
    for name in ("here", "one_reference"):
        for field in Kept._fields:
            parts[name][field] = _mean([getattr(getattr(one, name), field) for one in outcomes])
    for field in Outcome._fields[2:]:
        values = [getattr(one, field) for one in outcomes if getattr(one, field) is not None]
        if values:
            parts["other"][field] = _mean(values)
    return parts


def _mean(values: Sequence[float]) -> tuple[float, float]:
    return round(float(np.mean(values)), 5), round(float(np.std(values) / np.sqrt(len(values))), 5)


def figure(results: dict[str, dict[str, Summary]], path: Path) -> None:
    """Draw the coverage in every world, by the method here and by the one that knows of one reference only."""
    from matplotlib.figure import Figure

    drawing = Figure(figsize=(11, 0.36 * len(results) + 1.5), layout="constrained")
    panels = drawing.subplots(1, 3, sharey=True)
    rows = np.arange(len(results))[::-1]
    titles = ("gains", "differences between rows", "gains of a replication")
    kinds = (("here", "references crossed", "#0072B2", "o"), ("one_reference", "told of one reference", "#D55E00", "s"))
    for axes, key, title in zip(panels, ("gains", "between", "predicted"), titles, strict=True):
        axes.axvspan(93, 97, color="0.9", label="93-97%")
        for part, label, colour, marker in kinds:
            means, errors = np.array([result[part][key] for result in results.values()]).T * 100
            axes.errorbar(means, rows, xerr=2 * errors, color=colour, marker=marker, linestyle="", label=label)
        axes.set_title(title, fontsize="medium")
        axes.set_xlabel("inside their 95% intervals, percent")
    panels[0].set_yticks(rows, list(results))
    handles, labels = panels[0].get_legend_handles_labels()
    drawing.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False, fontsize="small")
    drawing.savefig(path, metadata={"Date": None})


def tables(record: dict[str, Any]) -> dict[str, list[str]]:
    """Write the tables of `docs/statistics.md` by name, as lines of Markdown."""
    worlds = record["worlds"]
    kept = ("accuracies", "gains", "controls", "over_sobel", "between", "predicted", "network")
    heads = ("accuracies", "gains", "of controls", "over Sobel", "between rows", "replication", "this network's gains")
    coverage = [f"| synthetic boards | {' | '.join(heads)} | false words | all places | *gains* | *replication* |"]
    coverage += ["|---" * (len(heads) + 5) + "|"]
    for name, world in worlds.items():
        cells = [_percent(*world["here"][key]) for key in kept]
        cells += [f"{100 * world['other'][key][0]:.1f}" for key in ("false_discoveries", "all_places")]
        cells += [f"*{100 * world['one_reference'][key][0]:.1f}*" for key in ("gains", "predicted")]
        coverage.append(f"| {name} | {' | '.join(cells)} |")
    designs = [
        "| references x trainings | degrees of freedom | half an interval's width | minimum detectable difference "
        "| found in the simulation | verdicts that a replication repeats | that it opposes |",
        "|---" * 7 + "|",
    ]
    for name in list(worlds)[:DESIGNS]:
        other = {key: mean for key, (mean, _) in worlds[name]["other"].items()}
        freedom = f"{other['freedom']:.1f}" if "freedom" in other else "–"
        shares = [f"{100 * other[key]:.1f}%" for key in ("power", "equal_verdicts", "opposed_verdicts")]
        designs.append(
            f"| {name} | {freedom} | {other['width']:.2f} | {other['detectable']:.2f} | {' | '.join(shares)} |"
        )
    alike = [
        "| estimators, spread of true gains in standard errors, correlation of true gains "
        "| this interval: holds, width | percentiles of draws: holds, width |",
        "|---|---|---|",
    ]
    for name, tau in record["agreement"].items():
        here = f"{100 * tau['held']:.0f}%, {tau['width']:.2f}"
        plain = f"{100 * tau['held_by_percentiles']:.0f}%, {tau['width_of_percentiles']:.2f}"
        alike.append(f"| {name} | {here} | *{plain}* |")
    return {"designs": designs, "agreement": alike, "coverage": coverage}


def _percent(mean: float, error: float) -> str:
    return f"{100 * mean:.1f} ± {100 * error:.1f}"


def write_tables(page: Path, record: dict[str, Any]) -> None:
    """Put the tables into a page, each between its marks."""
    text = page.read_text()
    for name, lines in tables(record).items():
        start, rest = text.split(f"<!-- {name}: python scripts/simulate_coverage.py -->\n", 1)
        end = rest[rest.index("<!-- end -->") :]
        text = f"{start}<!-- {name}: python scripts/simulate_coverage.py -->\n" + "\n".join(lines) + f"\n{end}"
    page.write_text(text)


def main() -> None:
    """Simulate all worlds, print the table, write numbers and figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boards", type=int, default=1000, help="synthetic boards per design; other lines a fifth")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("docs"))
    options = parser.parse_args()
    share_images()
    results = {}
    for number, world in enumerate(WORLDS):
        start = time.process_time()
        boards = options.boards if number < DESIGNS else options.boards // 5
        results[world.name] = summary(simulate(world, boards, options.seed))
        print(f"{world.name} ({boards} boards, {time.process_time() - start:.0f} s)", flush=True)
        for part, found in results[world.name].items():
            print(f"   {part:13}" + "  ".join(f"{key} {mean:.3f}±{error:.3f}" for key, (mean, error) in found.items()))
    taus = {}
    for rows, spread, likeness in product((8, 20), (3.0, 10.0), (0.0, 0.6, 1.0)):
        agreed = simulate_agreement(rows, spread, likeness, 300, options.seed)
        taus[f"{rows}, {spread:g}, {likeness:g}"] = agreed._asdict()
        print(rows, spread, likeness, agreed, flush=True)
    record = {"boards": options.boards, "seed": options.seed, "worlds": results, "agreement": taus}
    (options.out / "statistics-coverage.json").write_text(json.dumps(record, indent=1) + "\n")
    write_tables(options.out / "statistics.md", record)
    figure(results, options.out / "statistics-coverage.svg")


def share_images() -> None:
    """Let boards share their drawn images, as boards of one suite do; drawing them anew takes most of the time."""
    weights = drawing.image_weights
    drawing.image_weights = lru_cache(maxsize=2 * WEIGHTS)(lambda *asked: list(weights(*asked)))  # type: ignore[assignment]


if __name__ == "__main__":
    main()
