"""Do intervals of own-network gain hold the true gain, and the predicted ones the gain of a replication?

Answers are simulated, with the variances seen on photographs.

Run: python -m studies.own_network.coverage [--experiments 300] writes coverage.json.
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
# mean harm of a map to its own network; its standard deviation over networks; that of harm to other networks over pairs
SETTINGS = ((0, 0, 0), (0, 0, 0.05), (0.3, 0.05, 0.05), (0.3, 0.15, 0.05), (0.3, 0.05, 0.15), (0, 0.1, 0.1))


def draw_answers(
    chance: np.random.Generator, networks: int, harm: float, of_own: float, of_pairs: float
) -> NDArray[np.bool_]:
    """Draw what networks keep, (maps, networks, levels, images): a normal number for each answer, cut at two levels."""
    image, network, map_ = chance.normal(size=IMAGES), *(chance.normal(size=networks) * 0.2 for _ in range(2))
    own = harm + of_own * chance.normal(size=networks)
    pairs = chance.normal(size=(networks, networks)) * of_pairs
    np.fill_diagonal(pairs, own)
    noise = chance.normal(size=(networks, networks, IMAGES)) * 0.7
    left = image + network[None, :, None] + map_[:, None, None] - pairs[:, :, None] + noise
    return np.stack([left > 0, left > 1], 2)


def simulate(networks: int, setting: tuple[float, float, float], experiments: int) -> dict[str, float | None]:
    """Return how often intervals hold the true gain, which is the mean of all simulated ones, or 0.

    A replication has other networks and other images.
    """
    chance, other = np.random.default_rng(1), np.random.default_rng(2)
    found, predicted = [], []
    for seed in range(experiments):
        gain = compute_own_network_gain(
            draw_answers(chance, networks, *setting), Order.MORF, Bootstrap(RESAMPLES, seed)
        )
        found.append((*make_estimate(gain.gain, 0.95), gain.permutation))
        again = float(compute_gains_by_network_pair(draw_answers(other, networks, *setting), Order.MORF).mean())
        predicted.append(abs(again - gain.gain.value) <= compute_half_width(predict_replicated_gain(gain.gain), 0.95))
    values, low, high = np.array([each[:3] for each in found], float).T
    true = values.mean() if setting[0] else 0.0
    chances = [each[3] for each in found if each[3] is not None]
    return {
        "gain": round(float(values.mean()), 2),
        "half": round(float((high - low).mean() / 2), 2),
        "held": float(((low <= true) & (true <= high)).mean()),
        "above": float((low > 0).mean()),
        "predicted": float(np.mean(predicted)),
        "permutation": float((np.array(chances) < 0.05).mean()) if chances else None,
    }


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--experiments", type=int, default=300)
    count, found = parser.parse_args().experiments, {}
    for networks, setting in product((3, 5, 8), SETTINGS):
        found[f"{networks} {' '.join(map(str, setting))}"] = simulate(networks, setting, count)
        print(networks, setting, found[f"{networks} {' '.join(map(str, setting))}"], flush=True)
    FILE.write_text(json.dumps({"experiments": count, "settings": found}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
