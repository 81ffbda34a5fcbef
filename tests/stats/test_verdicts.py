import numpy as np
import pytest

from roarbench.stats.bootstrap import Sample
from roarbench.stats.pairs import Pairs
from roarbench.stats.verdicts import Verdict, compare, detectable, p_value


def normal(value: float, deviation: float = 1.0, resamples: int = 2000, seed: int = 0) -> Sample:
    return Sample(value, value + deviation * np.random.default_rng(seed).normal(size=resamples))


def test_p_counts_draws_as_far_from_the_value_as_0_is() -> None:
    sample = Sample(2.0, np.array([2.0, 4.5, -0.5, 3.9, 0.0]))  # distances 0, 2.5, 2.5, 1.9, 2
    assert p_value(sample) == (1 + 3) / (1 + 5)
    assert p_value(Sample(-2.0, -sample.draws)) == p_value(sample)


def test_p_of_twins_is_1_and_of_the_impossible_the_smallest_there_is() -> None:
    assert p_value(Sample(0.0, np.zeros(99))) == 1
    assert p_value(normal(50.0, resamples=99)) == 0.01


def test_p_is_the_normal_one() -> None:
    p = p_value(normal(1.96, resamples=40_000))
    assert abs(p - 0.05) < 5 * np.sqrt(0.05 * 0.95 / 40_000)


def test_verdicts_are_benjamini_and_hochbergs_by_loops() -> None:
    values = np.random.default_rng(1).normal(size=12) * 3
    samples = {index: normal(value, seed=index) for index, value in enumerate(values)}
    found = compare(samples)
    ps = {index: p_value(sample) for index, sample in samples.items()}
    ordered = sorted(ps, key=lambda index: ps[index])
    last = max((place for place, index in enumerate(ordered, 1) if ps[index] <= 0.05 * place / 12), default=0)
    assert 0 < last < 12
    for place, index in enumerate(ordered, 1):
        expected = (Verdict.BETTER if values[index] > 0 else Verdict.WORSE) if place <= last else Verdict.SAME
        assert found[index].verdict is expected
        assert found[index].p == ps[index]
        assert found[index].q >= ps[index]


def test_a_single_p_of_four_percent_does_not_survive_many_comparisons() -> None:
    lone = {"a": normal(2.06)}
    assert compare(lone)["a"].verdict is Verdict.BETTER
    many = lone | {str(index): normal(0.1, seed=index) for index in range(10)}
    assert compare(many)["a"].verdict is Verdict.SAME
    assert compare({}) == {}


def test_detectable_is_two_point_eight_standard_errors() -> None:
    """(1.96 + 0.84) times the error of a difference, which is sqrt(2) for two independent ones."""
    samples = [normal(float(index), resamples=50_000, seed=index) for index in range(5)]
    assert detectable(Pairs.of(samples, 0.95)) == pytest.approx(2.8016 * np.sqrt(2), rel=0.02)
    assert detectable(Pairs.of(samples[:1], 0.95)) is None


def test_samples_that_never_differ_find_nothing() -> None:
    same = Sample(0.0, np.zeros(500))
    assert detectable(Pairs.of([same, same], 0.95)) is None


def test_a_detectable_difference_is_found_four_times_in_five() -> None:
    shift = 2.8016
    found = sum(
        p_value(normal(shift + noise, resamples=500)) <= 0.05 for noise in np.random.default_rng(3).normal(size=600)
    )
    assert abs(found / 600 - 0.8) < 4 * np.sqrt(0.8 * 0.2 / 600) + 0.02  # one set of 500 draws is a little off itself
