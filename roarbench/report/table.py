"""Build one protocol's table of a suite: rows in order, with gains, verdicts, ranks and reasons to doubt a row."""

import hashlib
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, product
from math import inf

from roarbench.analysis.correctness_of_suite import describe_total_disagreement_of_networks
from roarbench.analysis.faithfulness_scores import METRICS, Metric
from roarbench.analysis.incomplete_results import UNFINISHED_SIGN, ProtocolRuns, count_protocol_runs
from roarbench.analysis.suite_judges import Mark, SuiteJudges, do_marks_apply_to, grade_shares_of_gain, judge_suite
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.enums import ScoredNetwork, Unit
from roarbench.common.errors import CallerError, RemovedName, UnknownName
from roarbench.common.text import TABLE_WORDS, format_percent_number, list_some
from roarbench.estimators.catalogue import choose_row_names, find_estimator
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.protocols import (
    MASK_ONLY,
    REMOVED_PROTOCOLS,
    ROAR,
    SHOWN,
    Protocol,
    find_network_scored_without_removal,
)
from roarbench.plan.suite import find_displayed_fill_name, find_recorded_fill_name
from roarbench.report.doubts import Doubt, Shown, find_doubts, is_control_off_zero, join_signs
from roarbench.stats.board_records import RANDOM, VERSION, Board, Row
from roarbench.stats.intervals import Estimate
from roarbench.stats.own_network_gain import OwnNetworkVerdict
from roarbench.stats.verdicts import Comparison, Verdict
from roarbench.store.run_result import RunResult

CONTROLS, UNTRAINED = "controls", "untrained twin"  # entries of the column `better than`


@dataclass(frozen=True, repr=False)
class SuiteTable:
    """The table of one protocol: a board (rows with gains, verdicts and ranks), its doubts, and marks by estimator."""

    suite_results: SuiteResults
    board: Board
    unit: Unit
    doubts: tuple[Doubt, ...] = ()
    marks: dict[str, tuple[Mark, ...]] = field(default_factory=dict)
    # accuracy minus accuracy of mask-only networks under ROAR, in [-1, 1], by estimator and level
    above_masks: dict[str, dict[float, Estimate]] = field(default_factory=dict)
    runs: ProtocolRuns = field(default_factory=ProtocolRuns)  # numbers of the protocol's planned and missing runs

    def __repr__(self) -> str:
        title = f"{self.board.protocol.title} table of {self.suite_results.title}"
        return f"<{title}, {len(self.board.rows)} rows; to_dataframe() of the result has them>"

    @property
    def tables(self) -> tuple["SuiteTable", ...]:
        """Return this table alone; the table of both gains has two."""
        return (self,)

    @property
    def judges(self) -> SuiteJudges:
        """Return the suite's judges of the table's unit, which is also the unit of its marks."""
        return judge_suite(self.suite_results, self.unit)

    @cached_property
    def rows(self) -> list[Row]:
        """Return the rows by gain, best first, then rows without a gain in the suite's order, then twins and checks."""
        return sorted(self.board.rows, key=lambda row: (row.check, inf if row.gain.value is None else -row.gain.value))

    @cached_property
    def names(self) -> list[str]:
        return [row.estimator for row in self.rows]

    @cached_property
    def display_names(self) -> dict[str, str]:
        """Return the display names of the suite's rows by id, including rows that are not shown."""
        return choose_row_names((*self.suite_results.suite.estimators, *self.names))

    @cached_property
    def machines_text(self) -> str:
        """Return a sentence on settings that differ between the machines that computed the rows; empty without any.

        Rows of several machines are valid, because results differ less between machines than between seeds. Results
        without recorded settings are taken as equal.
        """
        by_row: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        for name, curve in self.suite_results.list_curves(self.board.protocol, self.unit, ""):
            origins = (result.provenance for result in curve)  # few differ
            for origin in {(*one.versions.items(), *one.hardware.items()): one for one in origins}.values():
                for setting, value in origin.rounding_settings.items():
                    by_row[name][setting].add(value)
        shown = {row.estimator: by_row[row.estimator] for row in self.board.rows if row.estimator in by_row}
        by_setting = defaultdict[str, set[str]](set)
        for setting, values in chain.from_iterable(settings.items() for settings in shown.values()):
            by_setting[setting] |= values
        differ = [
            f"{setting} {' or '.join(sorted(values))}" for setting, values in by_setting.items() if len(values) > 1
        ]
        if not differ:
            return ""
        mixed = [name for name, settings in shown.items() if any(len(values) > 1 for values in settings.values())]
        runs = f"the runs of one row ({list_some(mixed)})" if mixed else "these rows"
        return f"Different machines or versions computed {runs}: {'; '.join(differ)}."

    @property
    def has_gains_and_ranks(self) -> bool:
        """Return whether the rows have gains and ranks; rows of mask-only accuracy have neither."""
        return self.board.protocol.retrain is not ScoredNetwork.MASKS

    @property
    def control_network_use_text(self) -> str:
        """Describe the controls' use of the explained network, as the predicate of a sentence."""
        estimators = [find_estimator(row.estimator) for row in self.board.rows]
        controls = [one.id for one in estimators if one.is_control_to_beat and one.uses_prediction]
        verb = "uses" if len(controls) == 1 else "use"
        exception = f", except that {' and '.join(controls)} {verb} its predicted class" if controls else ""
        return f"do not use the network{exception}"

    def list_beaten_control_groups(self, row: Row) -> tuple[str, ...]:
        """Return which of `CONTROLS` and `UNTRAINED` a row beats; empty for controls.

        Under DiffROAR and under protocols with two masks per image, a row beats `CONTROLS` if it is significantly
        better than Random and than each control off 0 (`is_control_off_zero`), and if no control whose gain should be 0
        has a larger gain. Both results are necessary conditions: an uninformative map can pass such tests (Binder et
        al. 2022).
        """
        protocol = self.board.protocol
        if not protocol.random_is_zero or protocol.scores_all_network_pairs:
            return ()
        off_zero = (other.estimator for other in self.board.rows if is_control_off_zero(protocol, other))
        comparisons = (row.against.get(name) for name in (RANDOM, *off_zero))
        if find_estimator(row.estimator).has_control_verdict or not all(map(_is_better, comparisons)):
            return ()
        gains_of_zeros = (
            other.gain.value for other in self.board.rows if other.estimator in protocol.zero_gain_controls
        )
        if any(gain is not None and gain > (row.gain.value or 0) for gain in gains_of_zeros):
            return ()
        return (CONTROLS, UNTRAINED) if _is_better(row.get_twin_comparison("untrained")) else (CONTROLS,)

    def find_verdict(self, row: Row) -> Verdict | OwnNetworkVerdict | None:
        """Return the verdict that colours a row in plots, on pages and in reports; None without a verdict.

        Under own-network gain it is the row's own verdict, and under ROAR the comparison with Random. Under other
        protocols, a row is `better` than every control, `worse` than one, or neither.
        """
        protocol = self.board.protocol
        if protocol.scores_all_network_pairs:
            return row.network.verdict if row.network else None
        if protocol == ROAR:
            return row.vs_random.verdict if row.vs_random else None
        if row.beating is None:
            return None
        if row.beating.beats_all:
            return Verdict.BETTER
        return Verdict.WORSE if row.beating.loses_to_a_control else Verdict.SAME

    @cached_property
    def runs_hash(self) -> str:
        """Return 12 hex digits that identify the statistics' version and the runs behind this table's gains.

        Stores with the same runs of the protocol's rows and untouched images give the same digits, whatever else they
        hold. Probabilities, which published rows lack in memory, and times and machines of the runs do not count.
        """
        protocols = {self.board.protocol, *((ROAR, MASK_ONLY) if do_marks_apply_to(self.board.protocol) else ())}
        results = dict[str, RunResult]()
        for protocol, unit in product(protocols, Unit):  # accuracies of explained networks change no board
            for part in protocol.computed_from or (protocol,):
                fill = self.suite_results.suite.find_fill(protocol)
                for seeds in self.suite_results.find_results(part, unit, fill).values():
                    results |= {result.run.key: result for result in seeds.values()}
        digest = hashlib.sha256(f"statistics {VERSION}".encode())
        for key, result in sorted(results.items()):
            digest.update("".join((key, result.rankings, result.weights)).encode() + result.bits)
        return digest.hexdigest()[:12]

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Return the metrics of Quantus that have a column; empty without scores."""
        return METRICS if self.suite_results.quantus else ()

    @cached_property
    def inconsistency_reasons(self) -> dict[str, str]:
        """Return, by estimator, why the row's results cannot be combined."""
        return self.suite_results.explain_inconsistent_rows(self.board.protocol, self.unit)

    def list_doubts(self, estimator: str, *shown: Shown) -> list[Doubt]:
        """Return the doubts about a row that tables show in these places, by default in any."""
        own = (doubt for doubt in self.doubts if doubt.row == estimator)
        return [doubt for doubt in own if not shown or doubt.kind.shown in shown]

    def format_row_signs(self, estimator: str, *shown: Shown) -> str:
        """Return the signs of `list_doubts`, such as `† (!!)`."""
        return join_signs(self.list_doubts(estimator, *shown))

    @property
    def common_facts(self) -> list[str]:
        """Return the facts that stand for doubts about all rows with results, such as a common origin."""
        return [*dict.fromkeys(doubt.fact for doubt in self.doubts if doubt.fact)]

    def mark_verdict(self, verdict: str, estimator: str) -> str:
        """Return the text of a verdict, with the sign ‡ if missing runs can change it."""
        return f"{verdict}{UNFINISHED_SIGN * self.runs.is_unfinished(estimator)}"

    @cached_property
    def unfinished_text(self) -> str:
        """Return the number of missing runs in words, such as `6 of 99 runs are missing`; empty without missing runs.

        Runs of rows that were added to the suite follow the suite's own runs if they are missing.
        """
        shown = {find_estimator(row.estimator).untwinned_id for row in self.board.rows}
        return self.runs.describe_missing({name: self.display_names.get(name, name) for name in shown})

    @cached_property
    def estimators_with_results(self) -> frozenset[str]:
        """Return the estimators with at least one result under the protocol."""
        protocols = self.board.protocol.computed_from or (self.board.protocol,)
        results = (self.suite_results.find_results(protocol, self.unit, self.fill) for protocol in protocols)
        return frozenset(name for points in results for name, _ in points)

    @cached_property
    def failure_reasons(self) -> dict[str, list[str]]:
        """Return the reasons of failed runs under the protocol by estimator, including untouched images."""
        reasons = defaultdict[str, list[str]](list)
        protocols = self.board.protocol.computed_from or (self.board.protocol,)
        untouched = {find_network_scored_without_removal(part.retrain, self.fill) for part in protocols}
        removals = {(part.retrain, self.fill, part.order, self.unit) for part in protocols}
        for (cell, _), reason in self.suite_results.failed.items():
            kind = cell.retrain, cell.fill
            if kind in untouched if cell.estimator == CLEAN else (*kind, cell.order, cell.unit) in removals:
                reasons[cell.estimator].append(reason)
        return dict(reasons)

    @cached_property
    def failed_rows(self) -> frozenset[str]:
        """Return the estimators without a result under the protocol that have a failed run."""
        return frozenset(self.failure_reasons.keys() - self.estimators_with_results)

    @property
    def has_results(self) -> bool:
        """Return whether a row has a result under the protocol; results on untouched images belong to no row."""
        return any(row.seeds or row.estimator in self.estimators_with_results for row in self.board.rows)

    @cached_property
    def disagreement(self) -> str:
        """Return a sentence saying that own-network gain has no test image on which all networks agree, or ""."""
        protocol = self.board.protocol
        compared = protocol.scores_all_network_pairs
        return describe_total_disagreement_of_networks(self.suite_results, protocol, self.unit) if compared else ""

    @property
    def images(self) -> int | None:
        """Return the number of scored test images; None if unknown, for example if no row has a result."""
        return self.board.images if self.has_results and (self.board.images or self.disagreement) else None

    @property
    def fill(self) -> str:
        return self.suite_results.suite.find_fill(self.board.protocol)

    @property
    def caption(self) -> str:
        """Describe the measurement in one sentence: protocol, data, network, levels, seeds, images, unit and chance."""
        is_part = 0 < self.board.references < len(self.suite_results.references)  # fewer seeds than references
        used = f"{self.board.references} of " * is_part
        return self.describe_measurement(f"{used}{self.suite_results.reference_accuracy_text}")

    def describe_measurement(self, references: str = "") -> str:
        """Return the caption with these words on the accuracies of the explained networks."""
        board, suite = self.board, self.suite_results.suite
        left_out = self.suite_results.list_suite_levels_not_in(board.protocol, self.unit, board.levels)
        without = f", without {', '.join(f'{t:g}' for t in left_out)} of the suite" if left_out else ""
        words = f" ({TABLE_WORDS})" * suite.dataset_record.tabular
        networks = "the explained network, not retrained"
        if board.protocol.scores_all_network_pairs:
            networks = f"{suite.references} networks, not retrained"
        elif board.protocol.trains:
            measured = (board.protocol.order, board.protocol.retrain, self.unit, self.fill)
            planned = (
                block.seeds
                for block in suite.blocks
                if (block.protocol.order, block.protocol.retrain, block.unit, block.fill) == measured
            )
            counts, most = sorted({row.seeds for row in board.rows if row.seeds}), max(planned, default=0)
            networks = "1 seed" if counts == [1] else f"{' or '.join(map(str, counts)) or 'no'} seeds"
            networks += f" of {most}" * (max(counts, default=0) < most)
        agreeing = " on which all networks agree" * board.protocol.scores_all_network_pairs
        parts = [
            f"{board.protocol.title} on {suite.dataset}{words} with {suite.architecture_names}",
            f"levels {', '.join(f'{t:g}' for t in board.levels)}{without}",
            networks,
            "" if self.images is None else f"{self.images} test image{'s' * (self.images != 1)}{agreeing}",
            f"unit {self.unit}",
            f"fill {find_displayed_fill_name(self.fill)}",
            references,
        ]
        clean = board.rows[0].clean.value if board.rows else None
        if self.has_gains_and_ranks and clean is not None and not board.protocol.scores_all_network_pairs:
            scored = "scoring networks" if board.protocol.trains else "the same networks"
            parts.append(f"{scored}: {format_percent_number(clean)}% correct on untouched images (t=0)")
        return "; ".join(filter(None, [*parts, f"chance {self.suite_results.chance_text}"]))


def _is_better(comparison: Comparison | None) -> bool:
    return comparison is not None and comparison.verdict is Verdict.BETTER


def make_suite_table(
    suite_results: SuiteResults, protocol: str, unit: Unit | None, rows: Collection[str] | None, fill: str = ""
) -> SuiteTable:
    """Build one protocol's table of a suite; by default the first protocol with results, and its first unit and fill.

    Raises:
        CallerError: The protocol is unknown, or the suite lacks this protocol, unit or fill, or every row.
    """
    if protocol and protocol not in SHOWN:
        if protocol in REMOVED_PROTOCOLS:
            raise RemovedName("protocol", protocol)
        raise UnknownName("protocol", protocol, SHOWN)
    shown = SHOWN[protocol] if protocol else suite_results.headline_protocol
    suite, measured_protocols = suite_results.suite, shown.computed_from or (shown,)
    if fill:
        fills = dict.fromkeys(block.fill for block in suite.blocks if block.protocol in measured_protocols)
        fill = find_recorded_fill_name(fill)
        if fill not in fills:
            known = ", ".join(map(find_displayed_fill_name, fills))
            available = f"it has: {known}" if fills else "it does not have that protocol"
            missing = f"{shown.name} with the fill '{find_displayed_fill_name(fill)}'"
            raise CallerError(f"suite '{suite.name}' has no {missing}; {available}")
        suite = replace(suite, blocks=tuple(sorted(suite.blocks, key=lambda block: block.fill != fill)))
        suite_results = replace(suite_results, suite=suite)
    unit = unit or suite.find_default_unit(shown)
    table = make_table(suite_results, shown, suite.estimators if rows is None else rows, unit)
    if table is None:
        available = ", ".join(dict.fromkeys(f"{block.protocol.name} ({block.unit})" for block in suite.blocks))
        measured = " and ".join(part.name for part in shown.computed_from)
        needs = f" (made of {measured} at one level)" if measured else ""
        raise CallerError(f"suite '{suite.name}' has no {shown.name}{needs} with unit {unit}; it has: {available}")
    if not table.board.rows:
        missing = f"no {shown.name} results of {', '.join(rows or ())}"
        raise CallerError(f"suite '{suite.name}' has {missing}; leave these rows out")
    return table


def make_table(
    results: SuiteResults, protocol: Protocol, rows: Collection[str], unit: Unit | None = None
) -> SuiteTable | None:
    """Build one protocol's table, by default of the protocol's first unit; None if the suite lacks the protocol."""
    unit = unit or results.suite.find_default_unit(protocol)
    judges = judge_suite(results, unit)
    board = judges.make_board(protocol, unit, rows)
    if board is None:
        return None
    rows_without_twins = results.suite.estimators_with_own_row
    with_marks = rows_without_twins if do_marks_apply_to(protocol) else ()
    above = {
        name: {t: judges.accuracies_above_masks.get((name, t), Estimate()) for t in judges.mask_only.levels}
        for name in (rows_without_twins if protocol == ROAR else ())
    }
    table = SuiteTable(
        results,
        board,
        unit,
        marks={name: grade_shares_of_gain(judges, name) for name in with_marks},
        above_masks={
            name: curve for name, curve in above.items() if any(at.value is not None for at in curve.values())
        },
        runs=count_protocol_runs(results, protocol, unit),
    )
    return replace(table, doubts=find_doubts(table))
