"""Read the published curves of Hooker et al. 2019, and test the paper's claims on them and on a suite's results."""

import csv
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import partial
from importlib.resources import files
from itertools import product
from operator import ge, gt, lt
from typing import Any, NamedTuple

from roarbench.analysis.correctness_of_suite import collect_correctness
from roarbench.analysis.incomplete_results import UNFINISHED_SIGN, describe_missing_runs, write_unfinished_line
from roarbench.analysis.suite_judges import SuiteJudges, judge_suite
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.enums import Order, Unit
from roarbench.common.errors import UnknownName
from roarbench.common.text import list_some
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.protocols import MORF, ROAR, Protocol
from roarbench.stats.board_records import ONE_NETWORK, RANDOM
from roarbench.stats.contrasts import Contrast
from roarbench.stats.correctness_and_gain import UNTOUCHED, list_trapezoid_weights
from roarbench.stats.verdicts import Verdict, judge_comparisons

BASES = ("grad", "gb", "ig")
STRONG = ("sgsq", "var")  # ensembles that beat Random in the paper
ENSEMBLES = ("sg", *STRONG)
SOBELS = ("sobel-released", "sobel")  # the paper's table has the first; a table of this package may have both
BEST_BASE = {"imagenet": "grad", "food101": "grad", "birdsnap": "gb"}
Curve = Mapping[float, float]  # accuracy in [0, 1] by level; level 0 means clean images
Curves = Mapping[str, Mapping[str, Curve]]  # by data set, then by estimator
HOOKER_DATASETS = {"ImageNet": "imagenet", "Food_101": "food101", "Birdsnap": "birdsnap"}
# Hooker et al. 2019, section 4: accuracy of an ImageNet model without retraining, 90 % removed at random
UNRETRAINED: Curves = {"imagenet": {"random": {0.9: 0.005}}}


class ClaimOutcome(StrEnum):
    """The outcome of a claim's test."""

    YES = "holds"
    NO = "fails"
    OPEN = "open"
    UNKNOWN = "no data"


class ClaimFinding(NamedTuple):
    """The outcome of a claim's test: the number of cells that agree with the claim, and the other cells."""

    verdict: ClaimOutcome
    agree: int
    cells: int
    exceptions: tuple[str, ...]
    # numbers of significant cells that `agree` and that `differ`; None without cells, and if all differences decide
    significant: Mapping[str, int] | None = None
    tested: tuple[str, ...] = ()  # the estimators with cells, if some of the claim's estimators have none

    def __str__(self) -> str:
        if not self.cells:
            return str(self.verdict)
        outcome = "" if self.verdict is ClaimOutcome.YES else f"{self.verdict}: "
        of_some = f" (of {', '.join(self.tested)} only)" if self.tested else ""
        return f"{outcome}holds in {self.agree} of {self.cells} cells{of_some}"


class AccuracyTables(NamedTuple):
    """Accuracies that claims are tested on, with and without retraining; the most important features are removed."""

    roar: Curves
    unretrained: Curves


class ComparedPair(NamedTuple):
    """Two rows whose accuracies at one level, or whose gains, a claim compares."""

    estimator: str
    control: str
    t: float  # 0 for gains


HALF = "half of the accuracy at t = 0"
RANDOM_RETRAINED = ComparedPair("random", HALF, 0.9)
RANDOM_UNRETRAINED = ComparedPair("random without retraining", HALF, 0.9)


class ClaimCheck(NamedTuple):
    """A cell of a table, with the comparisons that decide whether the claim holds in this cell."""

    where: str
    agrees: bool
    # in a cell that agrees: pairs that must differ for the claim to hold; in other cells: pairs that contradict it
    pairs: tuple[ComparedPair, ...]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper in one sentence, its place in the paper, and its test."""

    id: str
    text: str
    where: str
    checks: Callable[[AccuracyTables], Iterable[ClaimCheck]]

    def test(self, tables: AccuracyTables, significant: Collection[ComparedPair] | None = None) -> ClaimFinding:
        """Test the claim on mean accuracies; only `significant` differences decide, or all differences if None."""
        checks = list(self.checks(tables))
        against = tuple(check.where for check in checks if not check.agrees)  # a claim must hold in all its cells
        counts = list[bool]()  # of the cells that significant differences decide
        for check in checks:
            clear = [significant is None or pair in significant for pair in check.pairs]
            counts += [check.agrees] if (all(clear) if check.agrees else any(clear)) else []
        verdict = ClaimOutcome.OPEN if checks else ClaimOutcome.UNKNOWN
        if not all(counts):
            verdict = ClaimOutcome.NO
        elif counts and not against:
            verdict = ClaimOutcome.YES
        known = bool(checks) and significant is not None
        decided = {"agree": sum(counts), "differ": len(counts) - sum(counts)} if known else None
        tested = tuple(dict.fromkeys(pair.estimator for check in checks for pair in check.pairs))
        part = tested if set(self.estimators) - set(tested) else ()
        return ClaimFinding(verdict, len(checks) - len(against), len(checks), against, decided, part)

    @property
    def estimators(self) -> tuple[str, ...]:
        """Return the estimators that the claim compares with controls; empty for claims of another kind."""
        return self.checks.args[0] if isinstance(self.checks, partial) else ()


def compute_curve_gain(curve: Curve, random: Curve) -> float | None:
    """Return the area between Random's and another curve, in points; None unless both have the same levels, from 0."""
    levels = sorted(random)
    if levels != sorted(curve) or len(levels) < 2 or levels[0] != 0:
        return None
    weights = zip(list_trapezoid_weights(tuple(levels)), levels, strict=True)
    return float(100 * sum(weight * (Fraction(random[t]) - Fraction(curve[t])) for weight, t in weights))


def _compare_with_controls(
    names: Sequence[str], agrees: Callable[[float, float], bool], controls: Sequence[str], tables: AccuracyTables
) -> Iterable[ClaimCheck]:
    """Compare some estimators with each control at every common level; a lower accuracy is better."""
    for control, (dataset, rows), name in product(controls, tables.roar.items(), names):
        against = f" against {control}" * (len(controls) > 1)
        curve, other = rows.get(name, {}), rows.get(control, {})
        for t in sorted(level for level in curve if level > 0 and level in other):
            where = f"{name}{against} at t = {t:g} on {dataset}"
            yield ClaimCheck(where, agrees(curve[t], other[t]), (ComparedPair(name, control, t),))


def _combine_prefixes_and_bases(prefixes: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{prefix}-{base}" for prefix in prefixes for base in BASES)


def _check_best_base_estimator(tables: AccuracyTables) -> Iterable[ClaimCheck]:
    for dataset, base in BEST_BASE.items():
        rows = tables.roar.get(dataset, {})
        names = _combine_prefixes_and_bases(ENSEMBLES)
        there = [name for name in names if name in rows and "random" in rows]
        gains = {name: compute_curve_gain(rows[name], rows["random"]) for name in there}
        known = {name: value for name, value in gains.items() if value is not None}
        if len(known) == len(names):
            best = max(known, key=lambda name: known[name])
            agrees = best.endswith(f"-{base}")
            rivals = (name for name in names if name.endswith(f"-{base}") is not agrees)
            pair = ComparedPair(best, max(rivals, key=lambda name: known[name]), 0.0)
            yield ClaimCheck(f"{best} is best on {dataset}", agrees, (pair,))


def _check_that_retraining_matters(tables: AccuracyTables) -> Iterable[ClaimCheck]:
    for dataset, rows in tables.roar.items():
        retrained, unretrained = rows.get("random", {}), tables.unretrained.get(dataset, {}).get("random", {})
        if {0.0, 0.9} <= retrained.keys() and 0.9 in unretrained:
            half = retrained[0.0] / 2
            agrees = {RANDOM_RETRAINED: retrained[0.9] > half, RANDOM_UNRETRAINED: half > unretrained[0.9]}
            against = tuple(pair for pair, does in agrees.items() if not does)
            where = f"{retrained[0.9]:.4f} against {unretrained[0.9]:.4f} on {dataset}"
            yield ClaimCheck(where, not against, against or tuple(agrees))


_WHICH_SOBEL = "the paper uses sobel-released; roarbench also compares with sobel, the gradient magnitude"
_TITLES = {"grad": "The gradient", "ig": "Integrated gradients", "gb": "Guided backprop"}
CLAIMS = (
    Claim("strong-ensembles-beat-random",
        "SmoothGrad-Squared and VarGrad are better than Random at every level on every data set",
        "abstract; section 4.3.3",
        partial(_compare_with_controls, _combine_prefixes_and_bases(STRONG), lt, ("random",))),
    *(
        Claim(f"{base}-worse-than-random", f"{title} is worse than Random at every level on every data set",
            "section 4.3.2", partial(_compare_with_controls, (base,), gt, ("random",)))
        for base, title in _TITLES.items()
    ),
    *(
        Claim(f"{base}-not-better-than-sobel",
            f"{title} is on par with Sobel or worse at every level on every data set ({_WHICH_SOBEL})", "section 4.3.2",
            partial(_compare_with_controls, (base,), ge, SOBELS))
        for base, title in _TITLES.items()
    ),
    Claim("sobel-worse-than-random",
        "Sobel as the paper's code computes it (sobel-released; sobel is the gradient magnitude) is worse than Random "
        "at every level on every data set", "supplement, table 2",
        partial(_compare_with_controls, ("sobel-released",), gt, ("random",))),
    Claim("smoothgrad-worse-than-random", "Classic SmoothGrad is worse than Random at every level on every data set",
        "section 4.3.3; figure 4",
        partial(_compare_with_controls, _combine_prefixes_and_bases(("sg",)), gt, ("random",))),
    *(
        Claim(f"smoothgrad-no-gain-over-{base}", f"SmoothGrad of {name} is on par with the single estimate or worse",
            "section 4.3.3", partial(_compare_with_controls, (f"sg-{base}",), ge, (base,)))
        for base, name in (("grad", "the gradient"), ("ig", "integrated gradients"))
    ),
    Claim("squares-beat-random", "The squared base estimators are slightly better than Random", "section 4.3.3",
        partial(_compare_with_controls, tuple(f"{base}-sq" for base in BASES), lt, ("random",))),
    Claim("best-ensemble-base",
        "The best ensemble is built on the gradient on ImageNet and Food-101, on guided backprop on Birdsnap",
        "section 4.3.3", _check_best_base_estimator),
    Claim("retraining-matters",
        "With 90% of the features removed at random, a retrained network keeps most of its accuracy; a network that is "
        "not retrained keeps almost none", "section 4.3.1", _check_that_retraining_matters),
)  # fmt: skip


def read_hooker2019(order: Order) -> Curves:
    """Read the ROAR (MoRF) or KAR (LeRF) curves of Hooker et al. 2019: 14 rankings on 3 data sets, means of 5 runs.

    The paper labels KAR by the fraction kept; the level here is the fraction removed.
    """
    mode = "remove" if order is Order.MORF else "keep"
    with (files("roarbench") / "data" / "hooker2019_table2.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    clean = {row["dataset"]: float(row["top1_accuracy_percent"]) / 100 for row in rows if row["mode"] == "clean"}
    curves: dict[str, dict[str, dict[float, float]]] = {dataset: {} for dataset in HOOKER_DATASETS.values()}
    for row in rows:
        if row["mode"] == mode:
            percent = int(row["threshold_percent"])
            removed = percent if order is Order.MORF else 100 - percent
            name = row["estimator"].lower().replace("sg-sq-", "sgsq-")
            name = "sobel-released" if name == "sobel" else name  # the control `sobel` is computed differently
            curve = curves[HOOKER_DATASETS[row["dataset"]]].setdefault(name, {0.0: clean[row["dataset"]]})
            curve[removed / 100] = float(row["top1_accuracy_percent"]) / 100
    return {data: {name: dict(sorted(curve.items())) for name, curve in rows.items()} for data, rows in curves.items()}


def read_published_curves(dataset: str, order: Order) -> Mapping[str, Curve]:
    """Return the curves of Hooker et al. 2019 on one data set, by estimator; raise UnknownName for other data sets."""
    curves = read_hooker2019(order)
    if dataset not in curves:
        raise UnknownName("published data set", dataset, curves)
    return curves[dataset]


def compute_mean_accuracies(
    suite_results: SuiteResults, protocol: Protocol, unit: Unit
) -> dict[str, dict[float, float]]:
    """Return the accuracy curves of a suite's consistent rows, by row; empty if networks are at chance."""
    scores = collect_correctness(suite_results, protocol, unit)
    if suite_results.at_chance_warning or UNTOUCHED not in scores.correct:
        return {}
    clean = float(scores.correct[UNTOUCHED].mean())
    curves: dict[str, dict[float, float]] = {}
    for (name, t), bits in scores.correct.items():
        if name != CLEAN and name not in scores.inconsistent:
            curves.setdefault(name, {0.0: clean})[t] = float(bits.mean())
    return curves


def _judge_roar(results: SuiteResults) -> SuiteJudges:
    """Return the judges of ROAR's default unit, which may differ from the unit of the first board."""
    return judge_suite(results, results.suite.find_default_unit(ROAR))


def list_claims_with_findings(results: SuiteResults | None) -> list[dict[str, Any]]:
    """Return every claim with its finding on the paper's numbers (`published`) and, if given, on a suite's (`ours`).

    The claims are about ROAR, so other measures of the suite do not test them.
    """
    published = AccuracyTables(read_hooker2019(Order.MORF), UNRETRAINED)
    records: list[dict[str, Any]] = [
        {"claim": claim.id, "text": claim.text, "where": claim.where, "published": claim.test(published)}
        for claim in CLAIMS
    ]
    if not results:
        return records
    judges, differences = _judge_roar(results), dict[ComparedPair, Contrast]()
    roar, unit = judges.roar, judges.unit

    def get_contrast(name: str, t: float) -> Contrast | None:
        """Return a row's value at a level, or its gain at level 0; None without intervals."""
        if not roar.has_intervals:
            return None
        if name == RANDOM_UNRETRAINED.estimator:
            return judges.judge(MORF, unit).cells.get((RANDOM, t))
        if name == HALF:
            clean = roar.cells.get(UNTOUCHED)
            return clean and clean.scale(0.5)
        return roar.cells.get((name, t)) if t else roar.gains.get(name)

    curves = ({results.suite.dataset: compute_mean_accuracies(results, each, unit)} for each in (ROAR, MORF))
    measured = AccuracyTables(*curves)
    for pair in sorted({pair for claim in CLAIMS for check in claim.checks(measured) for pair in check.pairs}):
        estimator, control = (get_contrast(name, pair.t) for name in (pair.estimator, pair.control))
        if estimator and control:
            differences[pair] = estimator.subtract(control)
    judged = judge_comparisons(differences)  # adjusted for all claims
    significant = {pair for pair, comparison in judged.items() if comparison.verdict is not Verdict.SAME}
    return [record | {"ours": claim.test(measured, significant)} for claim, record in zip(CLAIMS, records, strict=True)]


def describe_unfinished_results(results: SuiteResults) -> str:
    """Return the missing runs that can change the findings on a suite's results; empty without any."""
    return describe_missing_runs(results, (ROAR, MORF), _judge_roar(results).unit, {})


def format_claims(results: SuiteResults | None) -> str:
    """Format all claims for a terminal, each with a line for the paper's numbers and, if given, one for a suite's."""
    lines, names, unfinished = list[str](), {"published": "published"}, ""
    if results:
        unfinished = describe_unfinished_results(results)
        alone = f", {ONE_NETWORK}" * (len(_judge_roar(results).roar.scores.explained_networks) == 1)
        title = ". ".join(filter(None, (f"{results.title}{alone}", results.at_chance_warning)))
        lines, names["ours"] = [f"ours: {title}"], f"ours{UNFINISHED_SIGN * (unfinished != '')}"
    width = max(map(len, names.values()))
    for record in list_claims_with_findings(results):
        lines.append(f"{record['text']} ({record['where']})")
        lines += [f"  {name:{width}}  {_describe_finding(record[kind])}" for kind, name in names.items()]
    lines += filter(None, [write_unfinished_line(unfinished, "findings")])
    return "\n".join(lines)


def _describe_finding(finding: ClaimFinding) -> str:
    text = f"{finding}; exceptions: {list_some(finding.exceptions)}" if finding.exceptions else str(finding)
    if not (cells := finding.significant):
        return text
    counts = f"{cells['agree']} for the claim, {cells['differ']} against it"
    return f"{text}; significant cells (adjusted for all cells): {counts}"
