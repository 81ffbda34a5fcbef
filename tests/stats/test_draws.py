import numpy as np
import pytest
from scipy.stats import t

from roarbench.stats import draws as module
from roarbench.stats.bootstrap import Bootstrap, Sample, estimate
from roarbench.stats.curves import Bits, Scores
from roarbench.stats.draws import draw, image_weights
from roarbench.stats.spread import Spread, Trainings, spread_of


def random_bits(seed: int, seeds: int, images: int, luck: float = 0.0) -> Bits:
    """Answers with difficulties of images and luck of seeds."""
    generator = np.random.default_rng(seed)
    hidden = generator.normal(size=images) + luck * generator.normal(size=(seeds, 1))
    answers: Bits = hidden + generator.normal(size=(seeds, images)) > 0
    return answers


def board_of(cells: int, seeds: int, images: int, luck: float = 0.0) -> Scores:
    names = tuple(f"e{index}" for index in range(cells))
    bits = {(name, 0.5): random_bits(index, seeds, images, luck) for index, name in enumerate(names)}
    return Scores(names, (0.5,), bits)


def test_a_draw_of_images_is_the_mean_over_the_drawn_images_by_loops() -> None:
    bits = {("a", 0.5): random_bits(0, 2, 20), ("b", 0.5): random_bits(1, 1, 20), ("c", 0.5): random_bits(2, 5, 20)}
    scores = Scores(("a", "b", "c"), (0.5,), bits)
    drawn = np.random.default_rng([4, 0]).integers(20, size=(6, 20))  # stream 0 of seed 4
    draws = draw(scores, Bootstrap(6, seed=4), None)
    for number in range(6):
        for point, bits in scores.correct.items():
            total = sum(int(row[image]) for row in bits for image in drawn[number])
            assert draws.resampled[number, draws.column[point]] == pytest.approx(total / bits.size, rel=1e-12)
            assert draws.values[draws.column[point]] == pytest.approx(bits.mean(), rel=1e-12)


def test_the_interval_of_one_seed_is_the_normal_one() -> None:
    images, resamples = 2000, 4000
    bits = random_bits(0, 1, images)
    draws = draw(Scores(("a",), (0.5,), {("a", 0.5): bits}), Bootstrap(resamples), None)
    value, low, high = estimate(Sample(float(draws.values[0]), draws.resampled[:, 0]), 0.95)
    half = 1.96 * np.sqrt(bits.mean() * (1 - bits.mean()) / images)
    assert value == bits.mean()
    # the quantile of B draws is known to about 2.1 / sqrt(B / 2000) percent; 5 of those, and 1% for counts are discrete
    assert (high - low) / 2 == pytest.approx(half, rel=5 * 0.021 / np.sqrt(2) + 0.01)
    assert value - low == pytest.approx(high - value, rel=1e-9)


@pytest.mark.parametrize("seeds", [1, 5])
def test_draws_have_the_variance_of_images_plus_that_of_seeds(seeds: int) -> None:
    """Images: variance of the images' means, over n. Seeds: the pooled component, over the cell's seeds."""
    resamples, images = 8000, 300
    spread = spread_of([board_of(60, 3, images, luck=0.2)]).trainings
    bits = random_bits(99, seeds, images, luck=0.2)
    draws = draw(Scores(("a",), (0.5,), {("a", 0.5): bits}), Bootstrap(resamples), Spread(spread, None))
    of_seeds = spread.variance * spread.freedom / (spread.freedom - 2) - spread.noise  # mean of 1 / chi-squared
    exact = bits.mean(0).var() / images + of_seeds / seeds
    assert abs(np.var(draws.resampled[:, 0]) / exact - 1) < 6 * np.sqrt(2 / resamples)
    assert abs(draws.resampled.mean() - bits.mean()) < 5 * np.sqrt(exact / resamples)
    # a replication has the same images and twice the luck, with the noise of single images
    again = 2 * spread.variance * spread.freedom / (spread.freedom - 2) / seeds
    assert abs(np.var(draws.repeated[:, 0]) / again - 1) < 6 * np.sqrt(2 / resamples)


def test_a_spread_known_from_few_trainings_widens_draws_as_students_t_does() -> None:
    """Images that are all right leave chance to the seed alone: normal over a root of chi-squared over freedom."""
    resamples, freedom = 20_000, 4
    normal = np.random.default_rng(0).normal(size=20_000)
    spread = Trainings(0.01**2, 0.0, freedom, normal / normal.std())
    scores = Scores(("a",), (0.5,), {("a", 0.5): np.ones((1, 3), bool)})
    draws = draw(scores, Bootstrap(resamples), Spread(spread, None))
    inside = np.mean(np.abs(draws.resampled - 1.0) < 0.01 * t(freedom).ppf(0.975))
    assert abs(inside - 0.95) < 4 * np.sqrt(2 * 0.95 * 0.05 / resamples)  # chance of the draws and of the pool


def test_cells_get_their_own_luck_and_equal_cells_the_same() -> None:
    spread = spread_of([board_of(20, 2, 300, luck=0.5)])
    bits, others = random_bits(0, 2, 300), random_bits(1, 2, 300)
    cells = {("a", 0.5): bits, ("twin", 0.5): bits.copy(), ("b", 0.5): others}
    draws = draw(Scores(("a", "twin", "b"), (0.5,), cells), Bootstrap(4000), spread)
    images = draw(Scores(("a", "twin", "b"), (0.5,), cells), Bootstrap(4000), None)
    luck = draws.resampled - images.resampled
    np.testing.assert_array_equal(draws.resampled[:, 0], draws.resampled[:, 1])
    assert abs(np.corrcoef(luck[:, 0], luck[:, 2])[0, 1]) < 5 / np.sqrt(4000)


def test_no_draw_depends_on_which_other_cells_are_there_or_in_which_order() -> None:
    scores = board_of(6, 2, 50, luck=0.2)
    spread = spread_of([scores])
    whole = draw(scores, Bootstrap(50), spread)
    some = dict(list(scores.correct.items())[4:1:-1])
    part = draw(Scores(scores.estimators, scores.levels, some), Bootstrap(50), spread)
    assert (whole.resampled != draw(scores, Bootstrap(50, seed=2), spread).resampled).any()
    for point in some:
        np.testing.assert_array_equal(whole.resampled[:, whole.column[point]], part.resampled[:, part.column[point]])


def test_images_are_drawn_n_of_n_whatever_the_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = np.concatenate(list(image_weights(30, Bootstrap(10))))
    assert whole.shape == (10, 30)
    np.testing.assert_array_equal(whole.sum(1), 30)
    monkeypatch.setattr(module, "_CHUNK", 90)
    module.image_counts.cache_clear()
    np.testing.assert_array_equal(np.concatenate(list(image_weights(30, Bootstrap(10)))), whole)
