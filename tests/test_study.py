"""The study's own arithmetic, on made-up answers whose truth is known."""

from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from roarbench.analysis.boards import SuiteResults
from roarbench.analysis.evidence import Evidence
from roarbench.estimators.catalogue import find_estimator
from roarbench.plan.points import expand
from roarbench.plan.suites import find_suite
from roarbench.stats.bootstrap import Bootstrap, Estimate, Sample
from roarbench.terms import Unit
from tests.helpers.made_up import SUITE, answers, held, leaky

ROOT = Path(__file__).parents[1]
BOOTSTRAP = Bootstrap(400)


@pytest.fixture
def study() -> ModuleType:
    return import_module("study")


@pytest.fixture
def analysis(study: ModuleType) -> ModuleType:
    return import_module("study_analysis")


def sample(value: float, deviation: float = 0.01) -> Sample:
    generator = np.random.default_rng(round(1000 * value))
    return Sample(value, value + deviation * generator.normal(size=500))


def cells(n: int, images: int, shared: float) -> list[np.ndarray]:
    """Bits of two seeds for n cells; a seed's part of an image's luck is the same in all cells for `shared` of it."""
    generator = np.random.default_rng(0)
    common = generator.normal(size=(2, images))
    own = generator.normal(size=(n, 2, images))
    return list(np.sqrt(shared) * common + np.sqrt(1 - shared) * own < 0.8)


def everyone(n: int) -> list[tuple[int, int]]:
    return [(one, other) for one in range(n) for other in range(one + 1, n)]


def test_masks_are_held_against_images_by_hand(analysis: ModuleType) -> None:
    """`a` is explained by its masks, `b` in part, `c` not at all; `d` is below Random, whatever its masks say."""
    numbers = {"a": (0.80, 0.80), "b": (0.80, 0.70), "c": (0.80, 0.30), "d": (0.40, 0.60)}
    rows = [
        analysis.MaskLeak(name, sample(images), sample(masks), sample(0.5)) for name, (images, masks) in numbers.items()
    ]
    found = analysis.explained(rows, 0.95)
    assert (found.above, found.beat, found.whole) == (["a", "b", "c"], ["a", "b"], ["a"])


def test_a_row_level_with_random_is_not_above_it(analysis: ModuleType) -> None:
    rows = [analysis.MaskLeak(name, sample(0.51), sample(0.6), sample(0.5)) for name in "abc"]
    assert analysis.explained(rows, 0.95).above == []


def test_seeds_of_other_cells_are_not_alike_where_they_share_nothing(analysis: ModuleType) -> None:
    found = analysis.seed_likeness(cells(6, 4000, shared=0.0), everyone(6), BOOTSTRAP)
    assert found.low < 0 < found.high
    assert abs(found.value) < 0.03  # 15 pairs of 4,000 images, a third of them significantly different: se 0.007


def test_seeds_that_answer_alike_are_found(analysis: ModuleType) -> None:
    assert analysis.seed_likeness(cells(3, 500, shared=1.0), everyone(3), BOOTSTRAP).value == 1.0
    half = analysis.seed_likeness(cells(6, 4000, shared=0.5), everyone(6), BOOTSTRAP)
    assert half.low > 0.2


def test_likeness_is_the_difference_of_covariances_by_loops(analysis: ModuleType) -> None:
    one, other = cells(2, 50, shared=0.5)
    products = [
        sum(float(one[i, k]) * float(other[j, k]) for k in range(50)) / 50 * (1 if i == j else -1)
        for i in (0, 1)
        for j in (0, 1)
    ]
    apart = sum(int(bits[0, k] != bits[1, k]) for bits in (one, other) for k in range(50)) / 100
    found = analysis.seed_likeness([one, other], [(0, 1)], BOOTSTRAP)
    assert found.value == pytest.approx(sum(products) / apart, abs=1e-12)


def part(analysis: ModuleType, unit: Unit = Unit.SCALAR, suite_results: SuiteResults | None = None) -> object:
    return analysis.StudyPart("planted", unit, Evidence(suite_results or held(), unit, BOOTSTRAP))


def test_luck_of_a_seed_along_a_curve_is_found(analysis: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = np.random.default_rng(0).normal(size=(2, 12, 1))
    monkeypatch.setattr(analysis, "_seed_gaps", lambda table: np.repeat(table, 3, axis=1))
    r, p, pairs = analysis.luck_along_curves(list(tables))
    assert r > 0.5 and p < 0.001 and pairs == 2 * 12 * 3


def test_the_rows_have_no_twins_and_leaks_no_random(analysis: ModuleType) -> None:
    made = part(analysis, suite_results=held(accuracy=leaky(0.6)))
    assert made.rows == ["random", "sobel", "grad", "var-grad", "random-blurred"]
    assert [row.estimator for row in analysis.leaks(made)] == ["sobel", "grad", "var-grad"]
    assert [row.masks.value for row in analysis.leaks(made)][2] == pytest.approx(0.6, abs=0.05)


@pytest.mark.parametrize(
    ("gap", "low", "high", "said"),
    [
        (-0.16, -0.05, -0.01, "the same side"),
        (0.11, 0.01, 0.05, "the same side"),
        (0.11, -0.05, -0.01, "another side"),
        (0.0, -0.01, 0.01, "the same side"),
        (0.0, 0.01, 0.02, "another side"),
        (0.11, -0.01, 0.02, "not significantly different"),
    ],
)
def test_the_trial_is_judged_by_its_side_of_random(
    study: ModuleType, gap: float, low: float, high: float, said: str
) -> None:
    assert study._judged(gap, Estimate((low + high) / 2, low, high)) == said


def test_the_suites_of_the_study_exist_and_hold_what_the_trial_named(study: ModuleType, analysis: ModuleType) -> None:
    for name in analysis.SUITES:
        suite = find_suite(name)
        named = {*study.TRIAL.get(suite.dataset, {}), *study.TRIAL_MASKS.get(suite.dataset, {})}
        assert named <= set(suite.estimators)


def test_every_row_has_a_look_of_its_own(analysis: ModuleType) -> None:
    figures = import_module("study_figures")
    names = [name for name in find_suite(next(iter(analysis.SUITES))).estimators if find_estimator(name).placed]
    assert len({figures.look(name) for name in names}) == len(names)


def test_a_report_says_what_is_missing(study: ModuleType) -> None:
    """Half of a store gives a page with dashes, no error."""
    half = {point: found for point, found in held().results.items() if point.cell.t != 0.9}
    made = study.StudyPart(
        "imagenette64", Unit.SCALAR, Evidence(SuiteResults(SUITE, "da7a", None, half), Unit.SCALAR, BOOTSTRAP)
    )
    page = study.report([made])
    assert "| grad | – | – | – |" in page and "## Seeds" in page
    assert len(half) < len(expand(SUITE)) and answers


@pytest.mark.slow
def test_the_tables_are_those_of_the_kept_results(study: ModuleType, analysis: ModuleType) -> None:
    kept = ROOT / "docs" / "study"
    assert study.report(analysis.read_parts(kept)) == (kept / "tables.md").read_text(encoding="utf-8")
