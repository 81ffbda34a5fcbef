"""Hold the stored results of one suite, check them, find those of each of its boards, and describe them in words."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from math import prod
from operator import attrgetter
from typing import Any, NamedTuple

from roarbench.common.enums import Order, ScoredNetwork, Unit
from roarbench.common.text import join_with_and
from roarbench.estimators.catalogue import ESTIMATORS, count_passes, find_estimator_or_placeholder
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.planned_runs import PlannedRun, build_run, list_planned_runs
from roarbench.plan.protocols import SHOWN, Protocol, find_network_scored_without_removal
from roarbench.plan.suite import SuiteSpec
from roarbench.stats.chance import describe_chance, is_at_chance, is_near_chance
from roarbench.stats.correctness_and_gain import UNTOUCHED, Point
from roarbench.store.run_result import RunResult
from roarbench.submissions.submission_file import Submission

ONLY_TESTS_INSTALLATION = "tests the installation only"  # title of a board whose networks are at chance
AT_CHANCE = "At chance: these numbers test the installation only"  # short note below such a board
# notes on a reference that hardly classifies better than chance, or is not shown to, with what follows for its maps
NEAR_CHANCE, NOT_ABOVE_CHANCE = "near chance", "not significantly above chance"
CONSEQUENCES = {
    NEAR_CHANCE: "the network has hardly learnt the classes, and its maps have little to explain",
    NOT_ABOVE_CHANCE: "nothing shows that the network has learnt the classes, which its maps are to explain",
}
ByPoint = Mapping[Point, Mapping[int, RunResult]]  # results by (estimator, level) and seed


class OtherResults(NamedTuple):
    """Results of another version of the suite in the same store; `options` select them on the command line."""

    title: str
    limit: int | None
    options: tuple[str, ...]
    suite: str = ""  # value of `--suite` of an earlier version of a user's file or images; empty for the same suite


class UnrankedRow(NamedTuple):
    """A row that has no rank because its results are inconsistent, and the reason."""

    protocol: str
    unit: Unit
    estimator: str
    reason: str


class RowChecks(NamedTuple):
    """Checks of the rows of one board."""

    inconsistent: dict[str, str]  # by row whose results do not form one curve, the reason
    independent: set[str]  # rows whose rankings are equal for all explained networks


@dataclass(frozen=True, eq=False)
class SuiteResults:
    """Stored results of one suite on one version of its data."""

    suite: SuiteSpec
    data: str  # fingerprint of the images
    limit: int | None  # images per split of a reduced data set; None for the whole
    results: dict[PlannedRun, RunResult]  # by planned run; runs without a result are missing
    # reasons of failed runs, which wait for `retry`, by planned run
    failed: Mapping[PlannedRun, str] = field(default_factory=dict)
    # reason, by estimator, why the estimator's row, or a row that is compared with it, is not verified
    doubts: dict[str, str] = field(default_factory=dict)
    # submissions by estimator id; their texts are untrusted
    submissions: dict[str, Submission] = field(default_factory=dict)
    # Quantus scores by estimator and metric; they have separate columns and do not affect gain and rank
    quantus: dict[str, dict[str, float | None]] = field(default_factory=dict)
    # from an estimator and a metric to the number of images in the score's mean
    quantus_counts: dict[tuple[str, str], int] = field(default_factory=dict)
    # names of images and networks in the title, if the store has several versions or these are not the suite's own
    title_parts: tuple[str, ...] = ()
    # values of `--data` and `--reference` that select these results; empty if neither is needed
    options: tuple[str, ...] = ()
    others: tuple[OtherResults, ...] = ()  # the suite's results on other images or with other explained networks
    # results on the clean test images by reference number; references that were not scored are missing
    references: dict[int, RunResult] = field(default_factory=dict)
    # findings of `validate`, by submission
    findings: dict[str, str] = field(default_factory=dict)
    # prediction stability and shares of ties by kind of annotation and checksum of the rankings
    shares: dict[str, dict[str, float]] = field(default_factory=dict)
    # share of noisy copies with an unchanged prediction, in [0, 1], by estimator, mean over its rankings; estimators
    # without recorded shares are missing
    prediction_stability: dict[str, float] = field(default_factory=dict)
    # counted forward and backward passes per image, by submission and twin, mean over its rankings; rows without a
    # recorded count are missing
    counted_passes: dict[str, tuple[float, float]] = field(default_factory=dict)
    # share of features that have the map's most frequent value, in [0, 1], by estimator, mean over its rankings;
    # estimators without recorded shares are missing
    ties: dict[str, float] = field(default_factory=dict)
    # hashes of removal masks as text, by key of a run whose network is scored under its own map
    masks: dict[str, str] = field(default_factory=dict)
    # share of the most frequent class among the test images, in [0, 1]; None if this store lacks the labels
    largest_class_share: float | None = None
    # levels of the boards that leave out other levels of the suite
    included_levels: Mapping[tuple[Protocol, Unit], tuple[float, ...]] = field(default_factory=dict)
    _checks: dict[tuple[Protocol, Unit, str], RowChecks] = field(default_factory=dict, init=False, repr=False)

    @property
    def identity(self) -> dict[str, Any]:
        """Return the suite, its version, the images and the explained networks of these results as plain values."""
        return {
            "suite": self.suite.name,
            "version": self.suite.version,
            "limit": self.limit,
            "data": self.data or None,
            "reference": self.suite.given or None,
        }

    @cached_property
    def keys(self) -> Mapping[PlannedRun, str]:
        """Return the key of every run of the suite on these images, whether or not the run is done."""
        runs = ((point, self.results.get(point)) for point in list_planned_runs(self.suite))
        return {
            point: result.run.key if result else build_run(self.suite, point, self.data, self.limit).key
            for point, result in runs
        }

    @property
    def has_rows(self) -> bool:
        """Return whether there are results on degraded images."""
        return any(point.cell.estimator != CLEAN for point in self.results)

    @cached_property
    def by_estimator(self) -> dict[str, list[tuple[PlannedRun, RunResult]]]:
        """Return the results of each estimator with their points, in the suite's order."""
        grouped: defaultdict[str, list[tuple[PlannedRun, RunResult]]] = defaultdict(list)
        for cell, some in groupby(self.results.items(), lambda item: item[0].cell):
            grouped[cell.estimator] += some
        return dict(grouped)

    def find_passes(self, name: str) -> tuple[float, float] | None:
        """Return the forward and backward passes per image of a row's maps; None if unknown.

        Those of an estimator of the table are declared, those of a submission were counted in its sandbox.
        """
        row = find_estimator_or_placeholder(name)
        if row.submitted:
            return self.counted_passes.get(name)
        if row.base not in ESTIMATORS or ESTIMATORS[row.base].cost_is_assumed:
            return None
        forward, backward = count_passes([row], prod(self.suite.dataset_record.shape))
        return float(forward), float(backward)

    @property
    def known_chance(self) -> float | None:
        """Return the accuracy of always answering the most frequent class, in [0, 1]; None if labels are unknown.

        It is 1 / classes if the images are a selection of the classes that a given network distinguishes.
        """
        return 1 / self.suite.dataset_record.classes if self.suite.dataset_record.numbered else self.largest_class_share

    @property
    def chance(self) -> float:
        """Return chance, in [0, 1]; its smallest possible value, 1 / classes, if it is unknown."""
        return 1 / self.suite.dataset_record.classes if self.known_chance is None else self.known_chance

    @cached_property
    def headline_protocol(self) -> Protocol:
        """Return the headline protocol: the suite's first protocol with results, or the first if no result exists."""
        protocols = [block.protocol for block in self.suite.blocks]
        return next(filter(self.has_started, protocols), protocols[0])

    def has_started(self, protocol: Protocol) -> bool:
        """Return whether any row of a protocol has a result; if images have two masks, a result for the second mask."""
        return (protocol.order, protocol.retrain, protocol.twin_kind) in self._started_kinds

    @cached_property
    def _started_kinds(self) -> set[tuple[Order, ScoredNetwork, str]]:
        """Return order and scored network of all results, without and with their rows' kind of twin."""
        cells = {(cell.order, cell.retrain, cell.estimator) for cell, _ in self.results}
        kinds = {(order, retrain, "") for order, retrain, name in cells if name != CLEAN}
        return kinds | {(order, retrain, name.rpartition("~")[2]) for order, retrain, name in cells if "~" in name}

    def list_started_protocols(self) -> list[Protocol]:
        """Return the protocols with results."""
        begun = (shown for shown in SHOWN.values() if all(map(self.has_started, shown.computed_from or (shown,))))
        return [protocol for protocol in begun if self.list_units(protocol)]

    @property
    def reference_accuracy(self) -> float | None:
        """Return the explained networks' mean accuracy on untouched images; None unless all were scored."""
        usual, rows = self._usual_weights, self.references.values()
        known = [row for row in rows if usual.get(row.run.reference, "") in ("", row.weights)]
        complete = known and len(known) >= self.suite.references
        return sum(row.correct for row in known) / sum(row.total for row in known) if complete else None

    @cached_property
    def complete(self) -> bool:
        """Return whether all planned runs of the suite have results."""
        return len(self.results) == len(list_planned_runs(self.suite))

    def list_included_levels(self, protocol: Protocol, unit: Unit) -> tuple[float, ...]:
        """Return the levels above 0 of a protocol and unit; empty if the suite lacks this combination."""
        return self.list_planned_rows_and_included_levels(protocol, unit)[1]

    def list_planned_rows_and_included_levels(
        self, protocol: Protocol, unit: Unit, fill: str = ""
    ) -> tuple[tuple[str, ...], tuple[float, ...]]:
        """Return `SuiteSpec.list_protocol_rows_and_levels` without the levels that are left out."""
        rows, levels = self.suite.list_protocol_rows_and_levels(protocol, unit, fill)
        for part in protocol.computed_from or (protocol,):
            chosen = self.included_levels.get((part, unit), levels)
            levels = tuple(t for t in levels if t in chosen)
        return rows, levels

    def list_suite_levels_not_in(self, protocol: Protocol, unit: Unit, levels: Collection[float]) -> list[float]:
        return [t for t in self.suite.list_protocol_rows_and_levels(protocol, unit)[1] if t not in levels]

    def list_units(self, protocol: Protocol) -> tuple[Unit, ...]:
        """Return the units of a protocol, starting with its tables' unit; empty if the suite lacks the protocol."""
        measured = (protocol.computed_from or (protocol,))[0]
        units = dict.fromkeys(block.unit for block in self.suite.blocks if block.protocol == measured)
        return tuple(unit for unit in units if self.list_included_levels(protocol, unit))

    def find_results(self, protocol: Protocol, unit: Unit, fill: str = "") -> ByPoint:
        """Return the results of a protocol by point and seed; the default fill is the fill of its tables."""
        fill = fill or self.suite.find_fill(protocol)
        untouched = self._results_by_curve.get(find_network_scored_without_removal(protocol.retrain, fill), {})
        return untouched | self._results_by_curve.get((protocol.retrain, protocol.order, unit, fill), {})

    @cached_property
    def _results_by_curve(self) -> dict[tuple[object, ...] | None, dict[Point, dict[int, RunResult]]]:
        """Return results by point and seed: by scored network and fill if untouched, else also by order and unit."""
        by_curve: defaultdict[tuple[object, ...], defaultdict[Point, dict[int, RunResult]]] = defaultdict(
            lambda: defaultdict(dict)
        )
        last, by_seed = None, dict[int, RunResult]()
        for (cell, seed), result in self.results.items():
            if cell is not last:  # a cell's seeds are neighbours
                last, clean = cell, cell.estimator == CLEAN
                curve = (cell.retrain, cell.fill) if clean else (cell.retrain, cell.order, cell.unit, cell.fill)
                by_seed = by_curve[curve][UNTOUCHED if clean else (cell.estimator, cell.t)]
            by_seed[seed] = result
        return {curve: dict(by_point) for curve, by_point in by_curve.items()}

    def explain_inconsistent_rows(self, protocol: Protocol, unit: Unit, fill: str = "") -> dict[str, str]:
        """Return, by row, why a complete row's results are inconsistent, so that it has no gain and no rank.

        Rows without a recorded checksum of their explained weights are consistent only if most results lack it. The two
        curves of a derived protocol may come from rankings of two machines if both explain the same networks.
        """
        return self.check_rows(protocol, unit, fill).inconsistent

    def check_rows(self, protocol: Protocol, unit: Unit, fill: str = "") -> RowChecks:
        """Check that the results of each row of a board form one curve, and whether its maps depend on a network."""
        key = (protocol, unit, fill or self.suite.find_fill(protocol))
        if key not in self._checks:
            reasons, independent, dependent = dict[str, str](), set[str](), set[str]()
            for name, curve in self.list_curves(*key):
                distinct = {(one.run.reference, one.weights, one.rankings): one for one in curve}.values()
                trained = [one for one in distinct if one.run.reference and one.run.cell.retrain.trains]
                rankings = {one.rankings for one in trained}
                several = len({one.run.reference for one in trained}) > 1
                alike = several and len(rankings) == 1 and "" not in rankings  # for all networks
                (independent if alike else dependent).add(name)
                by_network: defaultdict[str, list[RunResult]] = defaultdict(list)
                for result in distinct:
                    by_network[result.run.reference].append(result)
                for network, results in by_network.items():
                    if reason := explain_inconsistency(results, self._usual_weights.get(network, "")):
                        reasons.setdefault(name, reason)
            self._checks[key] = RowChecks(reasons, independent - dependent)
        return self._checks[key]

    @cached_property
    def _usual_weights(self) -> dict[str, str]:
        """Return, by explained network, the weights' checksum that most results have; "" if not recorded.

        Results of rows that were added to the suite count only for networks without results of the suite's own rows.
        """
        results = self.results.values()
        pairs = {pair for pair in {(result.run.reference, result.weights) for result in results} if pair[0]}
        if len(unanimous := dict(pairs)) == len(pairs):
            return unanimous
        own, others = (defaultdict[str, Counter[str]](Counter) for _ in range(2))
        seen = Counter(map(attrgetter("run.cell.estimator", "run.reference", "weights"), results))
        for (estimator, network, weights), count in seen.items():
            (others if estimator in self.suite.added else own)[network][weights] += count
        return {
            network: max(checksums, key=lambda weights: (checksums[weights], bool(weights)))
            for network, checksums in {**others, **own}.items()
            if network
        }

    @property
    def inconsistent_rows(self) -> list[UnrankedRow]:
        """Return the rows that have no rank because their results are inconsistent."""
        rows = list[UnrankedRow]()
        for board in dict.fromkeys((block.protocol, block.unit, block.fill) for block in self.suite.blocks):
            reasons = self.explain_inconsistent_rows(*board).items()
            rows += [UnrankedRow(board[0].name, board[1], name, reason) for name, reason in reasons]
        return rows

    def list_curves(self, protocol: Protocol, unit: Unit, fill: str) -> list[tuple[str, list[RunResult]]]:
        """Return each estimator's name with the results of one curve, including the results on untouched images.

        Under a derived protocol, an estimator has a curve for each of the two protocols.
        """
        curves: list[tuple[str, list[RunResult]]] = []
        for part in protocol.computed_from or (protocol,):
            rows: defaultdict[str, list[RunResult]] = defaultdict(list)
            for (name, _), seeds in self.find_results(part, unit, fill or self.suite.find_fill(protocol)).items():
                rows[name] += seeds.values()
            clean = rows.pop(CLEAN, [])
            curves += [(name, [*clean, *row]) for name, row in rows.items()]
        return curves

    @cached_property
    def title(self) -> str:
        """Return the suite's title with its deviations: fewer or other images, other networks, networks at chance."""
        small = (f"small version: {self.limit} images per split",) if self.limit else ()
        void = (ONLY_TESTS_INSTALLATION,) if self.at_chance_warning else ()
        return " ".join([self.suite.title, *(f"({words})" for words in (*small, *self.title_parts, *void))])

    @property
    def chance_text(self) -> str:
        """Return chance in percent, with a note if one class is more frequent than others or if labels are unknown."""
        text = describe_chance(self.chance, self.suite.dataset_record.classes)
        return f"at least {text} (labels unknown)" if self.known_chance is None else text

    @cached_property
    def at_chance_warning(self) -> str:
        """Return a sentence saying that the networks are at chance, or an empty string if they are above chance.

        The test treats the mean accuracy of the headline protocol's networks as the accuracy of one network.
        """
        curves, retrain = self._results_by_curve.items(), self.headline_protocol.retrain
        clean = [by_point.get(UNTOUCHED, {}) for curve, by_point in curves if curve and curve[0] is retrain]
        untouched = [row for by_seed in clean for row in by_seed.values()]
        if self.headline_protocol.scores_all_network_pairs:  # results at t = 0 count agreement, not accuracy
            untouched = [*self.references.values()]
        if not untouched:
            return ""
        correct, total = sum(row.correct for row in untouched) / len(untouched), untouched[0].total
        if not is_at_chance(int(correct), total, self.chance):
            return ""
        seen = f"{correct / total:.1%} of {total:,} untouched test images are predicted correctly"
        return f"At chance: {seen}, chance is {self.chance_text}. These numbers test the installation only."

    @property
    def reference_doubt(self) -> str:
        """Return NEAR_CHANCE or NOT_ABOVE_CHANCE if an explained network is so; empty if none is, or it is unknown."""
        if self.reference_accuracy is None:
            return ""
        counts = [(row.correct, row.total, self.chance) for row in self.references.values()]
        if any(is_near_chance(*each) for each in counts):
            return NEAR_CHANCE
        return NOT_ABOVE_CHANCE if any(is_at_chance(*each) for each in counts) else ""

    @property
    def reference_accuracy_text(self) -> str:
        """Describe the accuracies of the explained networks, and a doubt of one of them; empty if unknown."""
        if self.reference_accuracy is None:
            return ""
        rows = [self.references[number] for number in sorted(self.references)]
        accuracies = ", ".join(f"{row.correct / row.total:.1%}" for row in rows)
        many = len(rows) > 1
        name, lowest = (f"{len(rows)} explained networks" if many else "explained network"), "the lowest " * many
        doubt = f", {lowest}{self.reference_doubt} of {self.chance_text}" if self.reference_doubt else ""
        return f"{name} {accuracies} correct{doubt}"

    def describe_included_levels(self, protocol: Protocol, unit: Unit | None = None) -> str:
        """Return the levels of a board in words, such as `at 90 %`; empty if no level of the suite is left out."""
        unit = unit or self.suite.find_default_unit(protocol)
        levels = self.list_included_levels(protocol, unit)
        left_out = self.list_suite_levels_not_in(protocol, unit, levels)
        return f"at {join_with_and(f'{100 * t:g} %' for t in levels)}" if left_out else ""


def explain_inconsistency(results: Collection[RunResult], usual_weights: str) -> str:
    """Describe why a row's results for one explained network do not form one curve; empty if they are consistent."""
    weights = {result.weights for result in results if result.run.reference}
    rankings = {result.rankings for result in results} - {""}
    if len(weights - {""}) > 1:
        reason = f"made from {len(weights - {''})} different explained networks"
    elif weights - {usual_weights}:
        reason = "made from a different explained network than the other rows, or one without a recorded checksum"
    elif len(rankings) > 1:
        reason = f"made from {len(rankings)} different rankings"
    else:
        return ""
    return f"{reason}; compute the row again in a new --store"


def describe_rows_without_rank(unranked: Iterable[UnrankedRow]) -> list[str]:
    """Describe each row without a rank, with the reason."""
    boards_by_row = defaultdict[tuple[str, str], list[str]](list)
    for row in unranked:
        boards_by_row[row.estimator, row.reason].append(f"{row.protocol} {row.unit}")
    return [f"{name} has no rank ({', '.join(boards)}): {reason}." for (name, reason), boards in boards_by_row.items()]
