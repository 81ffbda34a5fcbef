"""Simulate own-network gain, and measure the coverage of its intervals and prediction intervals.

The simulated predictions have the variances that were measured on photographs. The program
`python -m studies.own_network.coverage [--experiments 300]` writes coverage.json.
"""

import json
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roarbench.common.enums import Order
from roarbench.stats.bootstrap_intervals import Bootstrap, compute_half_width, make_estimate
from roarbench.stats.own_network_gain import (
    compute_gains_by_network_pair,
    compute_own_network_gain,
    predict_replicated_gain,
)
from studies.page import make_parser

FILE = Path(__file__).with_name("coverage.json")
IMAGES, RESAMPLES = 500, 400
# mean harm of a map to its own network, its standard deviation between networks, and the standard deviation of the harm
# to other networks between pairs
SETTINGS = ((0, 0, 0), (0, 0, 0.05), (0.3, 0.05, 0.05), (0.3, 0.15, 0.05), (0.3, 0.05, 0.15), (0, 0.1, 0.1))


def draw_kept_predictions(
    generator: np.random.Generator, networks: int, harm: float, of_own: float, of_pairs: float
) -> NDArray[np.bool_]:
    """Draw kept predictions, (maps, networks, levels, images): normal numbers above one of two thresholds."""
    image, network, map_ = generator.normal(size=IMAGES), *(generator.normal(size=networks) * 0.2 for _ in range(2))
    own = harm + of_own * generator.normal(size=networks)
    pairs = generator.normal(size=(networks, networks)) * of_pairs
    np.fill_diagonal(pairs, own)
    noise = generator.normal(size=(networks, networks, IMAGES)) * 0.7
    left = image + network[None, :, None] + map_[:, None, None] - pairs[:, :, None] + noise
    return np.stack([left > 0, left > 1], 2)


def simulate(networks: int, setting: tuple[float, float, float], experiments: int) -> dict[str, float | None]:
    """Simulate experiments and their replications, and return the coverage of intervals and other numbers.

    The true gain is the mean of all simulated gains, or 0 without harm. A replication has other networks and images.
    """
    generator, of_replications = np.random.default_rng(1), np.random.default_rng(2)
    estimates, p_values, predicted = [], [], []
    for seed in range(experiments):
        kept = draw_kept_predictions(generator, networks, *setting)
        gain, _, p_value = compute_own_network_gain(kept, Order.MORF, Bootstrap(RESAMPLES, seed))
        estimates.append(make_estimate(gain, 0.95))
        p_values += [p_value] if p_value is not None else []
        kept_again = draw_kept_predictions(of_replications, networks, *setting)
        error = abs(float(compute_gains_by_network_pair(kept_again, Order.MORF).mean()) - gain.value)
        predicted.append(error <= compute_half_width(predict_replicated_gain(gain), 0.95))
    values, low, high = np.array(estimates, float).T
    true = values.mean() if setting[0] else 0.0
    return {
        "gain": round(float(values.mean()), 2),
        "half": round(float((high - low).mean() / 2), 2),
        "held": float(((low <= true) & (true <= high)).mean()),
        "above": float((low > 0).mean()),
        "predicted": float(np.mean(predicted)),
        "permutation": float((np.array(p_values) < 0.05).mean()) if p_values else None,
    }


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--experiments", type=int, default=300)
    count, outcomes = parser.parse_args().experiments, {}
    for networks, setting in product((3, 5, 8), SETTINGS):
        name = " ".join(map(str, (networks, *setting)))
        outcomes[name] = simulate(networks, setting, count)
        print(name, outcomes[name], flush=True)
    FILE.write_text(json.dumps({"experiments": count, "settings": outcomes}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
