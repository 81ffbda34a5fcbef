import numpy as np
import pytest
from scipy.stats import false_discovery_control

from roarbench.stats.bootstrap import Sample
from roarbench.stats.pairs import Pairs
from roarbench.stats.verdicts import Verdict, compare, detectable, q_values, verdict_of


def normal(value: float, deviation: float = 1.0, resamples: int = 2000, seed: int = 0) -> Sample:
    return Sample(value, value + deviation * np.random.default_rng(seed).normal(size=resamples))


def p_values(samples: list[Sample]) -> list[float]:
    return [found.p for found in compare(dict(enumerate(samples))).values()]


def p_value(sample: Sample) -> float:
    return p_values([sample])[0]


def test_p_counts_draws_as_far_from_the_value_as_0_is() -> None:
    sample = Sample(2.0, np.array([2.0, 4.5, -0.5, 3.9, 0.0]))  # distances 0, 2.5, 2.5, 1.9, 2
    assert p_value(sample) == (1 + 3) / (1 + 5)
    assert p_value(Sample(-2.0, -sample.draws)) == p_value(sample)
    assert p_value(Sample(0.0, np.zeros(99))) == 1
    assert p_value(normal(50.0, resamples=99)) == 0.01  # the smallest there is


def test_beyond_its_own_interval_the_draws_of_the_family_count_in_its_units() -> None:
    one, other = normal(0.0, 1.0, 2000, seed=1), normal(7.0, 2.0, 2000, seed=2)
    halves = [float(np.quantile(np.abs(sample.draws - sample.value), 0.95)) for sample in (one, other)]
    far = [
        abs(draw - sample.value) / half >= 7.0 / halves[1]
        for sample, half in zip((one, other), halves, strict=True)
        for draw in sample.draws
    ]
    assert p_values([one, other]) == [p_value(one), (1 + sum(far)) / (1 + 4000)]
    assert p_values([one, other])[1] < 0.05


def test_twelve_standard_errors_are_significant_among_two_hundred_rows() -> None:
    values = [12.0] + [0.0] * 199
    samples = [normal(value, 1 + index % 3, seed=index) for index, value in enumerate(values)]
    assert min(p_value(sample) for sample in samples) > 0.05 / 200  # 2,000 draws of its own cannot say it
    words = [found.verdict for found in compare(dict(enumerate(samples))).values()]
    assert words == [Verdict.BETTER] + [Verdict.SAME] * 199


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
    assert detectable(Pairs.of([Sample(0.0, np.zeros(500))] * 2, 0.95)) is None


@pytest.mark.parametrize("count", (1, 2, 7, 200))
def test_q_values_are_scipys_to_the_bit(count):
    ps = np.random.default_rng(count).random(count) ** 3
    ps[-1] = ps[0]  # a tie
    np.testing.assert_array_equal(q_values(ps), false_discovery_control(ps))


def test_five_percent_is_significant_and_more_is_not():
    found = [verdict_of(difference, q) for difference, q in [(1.0, 0.05), (-1.0, 0.05), (1.0, 0.0501)]]
    assert found == [Verdict.BETTER, Verdict.WORSE, Verdict.SAME]
