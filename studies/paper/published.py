"""Read the published rows of the benchmark by data set, with their gains on all protocols."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from roarbench.analysis.collect_results import add_stored_estimators, collect_results
from roarbench.analysis.correctness_of_suite import collect_correctness
from roarbench.analysis.suite_judges import SuiteJudges, judge_suite
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.enums import Unit
from roarbench.common.text import MISSING
from roarbench.estimators.catalogue import count_passes, find_estimator, find_search
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.planned_runs import list_planned_runs
from roarbench.plan.protocols import (
    DIFFROAR,
    KAR,
    LERF,
    MASK_ONLY,
    MATCHED,
    MORF,
    OWN_NETWORK,
    OWN_NETWORK_LERF,
    ROAR,
    Protocol,
)
from roarbench.plan.suite_changes import select_part_of_suite
from roarbench.plan.suites import find_builtin_suite
from roarbench.report.paper_claims import Curve
from roarbench.stats.board_records import Row
from roarbench.stats.contrasts import Contrast
from roarbench.stats.own_network_gain import OwnNetworkGain
from roarbench.store.export_and_import import import_results
from roarbench.store.published_folder import read_index_and_check_folder
from roarbench.store.results import ResultsStore, make_default_url
from roarbench.store.user_files import read_suites

RESULTS = Path(__file__).parents[2] / "results"
REPLICATION = 1  # number of the replication that is compared
SETS = ("imagenette64", "cifar10", "fashion-mnist", "breast-cancer", "digits")  # data sets with a suite of the package
DATA = {"cifar10": "b91c5f97fb9aa3e5623226fe1e81c81b"}  # fingerprints of images that are not in `PINNED`
ALONE = "quick@7"  # suite that computed the first rows of benchmark-imagenette64
HIGH = 0.9  # main level of ROAR and KAR, which every data set has
HALF = 0.5  # second level at which orders of data sets are compared
ENOUGH = 15  # number of the 19 estimators with ROAR that the fifth test of plan.md needs
OTHER_LEVELS = (0.1, 0.3, 0.5, 0.7)  # levels of ROAR and KAR that are compared with `HIGH`
UNTRAINED = {"own-network gain": OWN_NETWORK, "MoRF": MORF, "LeRF": LERF}  # questions without retraining
RETRAINED = (ROAR, KAR)  # protocols whose boards have one level alone here


class OtherMachine(NamedTuple):
    """A file of results from another machine than the published results."""

    name: str  # name of the data set
    protocol: Protocol
    level: float  # level of ROAR or KAR; 0 for own-network gain
    machine: str  # with the precision, and whether it explained other networks than the published results
    file: Path


OTHER_MACHINES = tuple(
    OtherMachine(name, protocol, level, machine, Path(__file__).with_name(f"{name}-{file}.parquet"))
    for name, protocol, level, machine, file in (
        ("imagenette64", ROAR, 0.9, "AMD EPYC, bfloat16", "roar-epyc"),
        ("imagenette64", ROAR, 0.5, "Intel Xeon, float32", "roar-50"),
        ("imagenette64", OWN_NETWORK, 0.0, "NVIDIA H100, bfloat16", "own-network-h100"),
        ("cifar10", ROAR, 0.9, "Intel Xeon, float32", "roar-xeon"),
        ("fashion-mnist", ROAR, 0.9, "Intel Xeon, float32", "roar-xeon"),
        ("imagenette64", KAR, 0.9, "Intel Xeon, float32", "kar-xeon"),
        ("fashion-mnist", KAR, 0.9, "NVIDIA H200, bfloat16, other networks", "kar-h200"),
    )
)


@dataclass(frozen=True, eq=False)
class DataSet:
    """Published rows of one suite of the benchmark."""

    name: str
    results: SuiteResults  # results of the whole suite
    high: SuiteResults  # `results` with only the level `HIGH` on ROAR and KAR boards
    submitted: SuiteResults  # `high` with the rows of example submissions
    again: SuiteResults  # replication of `high` with other seeds and explained networks
    elsewhere: dict[OtherMachine, SuiteResults]  # results of other machines

    @classmethod
    def read(cls, name: str, store: ResultsStore, folder: Path) -> "DataSet":
        """Read the published results of a data set; import results of other machines into stores in the folder."""
        called, data = f"benchmark-{name}", DATA.get(name)
        own = {suite.name: suite for suite in read_suites(store.database)}
        suite = own.get(called) or find_builtin_suite(called)
        results = collect_results(suite, store, data=data)
        added = add_stored_estimators(suite, store)
        judged = [name for name in added.estimators if not find_search(name)]  # gains compare with 0 here
        submitted = collect_results(select_part_of_suite(added, judged), store, data=data)
        again = keep_level(collect_results(replace(suite, replication=REPLICATION), store, data=data), HIGH)
        clean = [result for point, result in results.results.items() if point.cell.estimator == CLEAN]
        elsewhere = {}
        for other in (other for other in OTHER_MACHINES if other.name == name):
            with ResultsStore.open(make_default_url(folder / other.file.stem)) as rows:
                import_results(rows, other.file)
                rows.add_results(clean)  # accuracy without removal, which differences of gains do not depend on
                elsewhere[other] = collect_results(suite, rows, data=data)
        return cls(name, results, keep_level(results, HIGH), keep_level(submitted, HIGH), again, elsewhere)

    def whole(self, protocol: Protocol) -> bool:
        """Return whether all runs of a protocol, of ROAR and KAR at `HIGH`, are published; see `ENOUGH` for ROAR."""
        return share_done(self.high, protocol) == 1 or (protocol is ROAR and len(self.gains(ROAR)) >= ENOUGH)

    @cached_property
    def own(self) -> dict[str, Row]:
        """Return the rows with an own-network gain, without rows whose gain is 0 by construction."""
        return self._find_varying_rows(OWN_NETWORK)

    @cached_property
    def own_lerf(self) -> dict[str, Row]:
        """Return the rows with an own-network gain in LeRF order, without rows whose gain is 0 by construction."""
        return self._find_varying_rows(OWN_NETWORK_LERF)

    def _find_varying_rows(self, protocol: Protocol) -> dict[str, Row]:
        rows = find_measured_rows(self._suite_judges, protocol)
        return {name: row for name, row in rows.items() if row.gain.low != row.gain.high}

    @cached_property
    def roar(self) -> dict[str, Row]:
        """Return the rows with a ROAR gain at the level `HIGH`."""
        return find_measured_rows(self._suite_judges, ROAR)

    @cached_property
    def kar(self) -> dict[str, Row]:
        """Return the rows with a KAR gain at the level `HIGH`."""
        return find_measured_rows(self._suite_judges, KAR)

    @cached_property
    def diffroar(self) -> dict[str, Row]:
        """Return the rows with a DiffROAR gain over all levels that ROAR and KAR share."""
        return find_measured_rows(self._all_level_judges, DIFFROAR)

    @cached_property
    def roar_all_levels(self) -> dict[str, Row]:
        """Return the rows with a ROAR gain over all levels."""
        return find_measured_rows(self._all_level_judges, ROAR)

    @cached_property
    def masks_alone(self) -> dict[str, float]:
        """Return the accuracy, in percent, of networks trained on a row's masks alone."""
        correctness = collect_correctness(self.results, MASK_ONLY, Unit.SCALAR)
        return {name: 100 * float(bits.mean()) for (name, t), bits in correctness.correct.items() if t == HIGH}

    @cached_property
    def matched(self) -> dict[str, Row]:
        """Return the rows with a matched gain."""
        return find_measured_rows(self._suite_judges, MATCHED)

    def find_rows_of_submissions(self, protocol: Protocol) -> dict[str, Row]:
        """Return the rows of submissions on a board; their intervals are adjusted for all its rows."""
        known = self.results.suite.estimators
        rows = find_measured_rows(self._submitted_judges, protocol)
        return {name: row for name, row in rows.items() if name not in known}

    @cached_property
    def own_gains(self) -> dict[str, Contrast]:
        """Return own-network gains."""
        return _select_varying_gains(self._own_network_gains)

    @cached_property
    def own_gains_by_level(self) -> dict[float, dict[str, Contrast]]:
        """Return own-network gains of estimators, without checks, at each level."""
        gains = self._own_network_gains
        names = [name for name in self.own_gains if not is_check(name)]
        levels = self.high.list_included_levels(OWN_NETWORK, Unit.SCALAR)
        return {level: {name: gains[name].levels[i] for name in names} for i, level in enumerate(levels)}

    def gains(self, protocol: Protocol) -> dict[str, Contrast]:
        """Return the gains of estimators, without checks, under a protocol; ROAR and KAR at the level `HIGH`."""
        if protocol is OWN_NETWORK:
            return self.own_gains
        return measure_gains(self._suite_judges, protocol)

    @cached_property
    def other_gains(self) -> dict[tuple[Protocol, float], dict[str, Contrast]]:
        """Return the gains of estimators, without checks, under ROAR and KAR at each of `OTHER_LEVELS`."""
        return {(of, level): measure_gains_at(self.results, of, level) for of in (ROAR, KAR) for level in OTHER_LEVELS}

    @cached_property
    def _own_network_gains(self) -> dict[str, OwnNetworkGain]:
        return dict(judge_suite(self.high).judge(OWN_NETWORK, Unit.SCALAR).own_network)

    @cached_property
    def _submitted_judges(self) -> SuiteJudges:
        return judge_suite(self.submitted)

    @cached_property
    def _all_level_judges(self) -> SuiteJudges:
        return judge_suite(self.results)

    @cached_property
    def _suite_judges(self) -> SuiteJudges:
        return judge_suite(self.high)


def keep_level(results: SuiteResults, level: float) -> SuiteResults:
    """Return the results with only one level on ROAR and KAR boards."""
    return replace(results, included_levels={(protocol, Unit.SCALAR): (level,) for protocol in RETRAINED})


def measure_gains_at(results: SuiteResults, protocol: Protocol, level: float) -> dict[str, Contrast]:
    """Measure the gains of estimators, without checks, under ROAR or KAR at one level."""
    return measure_gains(judge_suite(keep_level(results, level)), protocol)


def measure_own_network_gains(results: SuiteResults) -> dict[str, Contrast]:
    """Measure own-network gains, without rows whose gain is 0 by construction."""
    return _select_varying_gains(dict(judge_suite(results).judge(OWN_NETWORK, Unit.SCALAR).own_network))


def _select_varying_gains(gains: Mapping[str, OwnNetworkGain]) -> dict[str, Contrast]:
    return {name: own.gain for name, own in gains.items() if own.gain.value or own.gain.spread.totals[0]}


def is_check(name: str) -> bool:
    """Return whether a row is a control or the sanity-check variant of an estimator."""
    row = find_estimator(name)
    return row.control or bool(row.twin)


def measure_gains(judges: SuiteJudges, protocol: Protocol) -> dict[str, Contrast]:
    """Measure the gains of estimators, without checks, under a protocol; empty if the suite lacks the protocol."""
    found = judges.judge(protocol, Unit.SCALAR).gains if judges.suite_results.list_units(protocol) else {}
    return {name: sample for name, sample in found.items() if not is_check(name)}


def find_measured_rows(judges: SuiteJudges, protocol: Protocol) -> dict[str, Row]:
    """Return the rows of a board that have a gain, by estimator; empty without published results."""
    found = judges.make_board(protocol, Unit.SCALAR)
    return {row.estimator: row for row in (found.rows if found else ()) if row.gain.value is not None}


def format_accuracy(curve: Curve, level: float) -> str:
    """Format the accuracy of a curve at a level in percent; a dash if it was not measured."""
    return f"{100 * curve[level]:.1f}" if level in curve else MISSING


def read_sets(folder: Path) -> list[DataSet]:
    """Import the published rows of the benchmark into a store in this folder, and read them by data set."""
    with ResultsStore.open(make_default_url(folder)) as store:
        for file in read_index_and_check_folder(RESULTS):
            if file.versioned_suite == ALONE or file.versioned_suite.startswith("benchmark-"):
                import_results(store, RESULTS / file.path)
        return [DataSet.read(name, store, folder) for name in (*SETS, "imagenet")]


def share_done(results: SuiteResults, protocol: Protocol) -> float:
    """Return the published share of the runs at a board's levels; 0 if the suite lacks the protocol."""
    place, levels = (protocol.retrain, protocol.order), results.list_included_levels(protocol, Unit.SCALAR)
    cells = ((point, point.cell) for point in list_planned_runs(results.suite))
    asked = [point for point, cell in cells if (cell.retrain, cell.order) == place and cell.t in (0.0, *levels)]
    return sum(point in results.results for point in asked) / max(1, len(asked))


def cost(name: str) -> int:
    """Return the number of forward and backward passes per image."""
    return sum(count_passes([find_estimator(name)]))


def front(dataset: DataSet) -> dict[str, bool]:
    """Return the Pareto front of own-network gain against passes, and whether each estimator is on it for certain.

    An estimator is on the front for certain if its interval lies above the gains of all other rows with at most as many
    passes.
    """
    found, best = {}, float("-inf")
    for name in sorted(dataset.own, key=lambda name: (cost(name), -value_of(dataset.own[name]))):
        if (value := value_of(dataset.own[name])) > best:
            rivals = [
                value_of(row) for other, row in dataset.own.items() if other != name and cost(other) <= cost(name)
            ]
            found[name] = (dataset.own[name].gain.low or 0.0) > max(rivals, default=float("-inf"))
            best = value
    return found


def value_of(row: Row | None) -> float:
    """Return a gain in points; minus infinity without a gain."""
    return float("-inf") if row is None or row.gain.value is None else row.gain.value
