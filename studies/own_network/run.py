"""What own-network gain finds, and what fools it: the tables of the README, from the answers that are stored beside it.

Run: python -m studies.own_network.run. The program coverage made coverage.json; README.md names the commit with the
programs that made the other files.
"""

import csv
import json
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import roarbench as rb
from roarbench.analysis.bootstrap_draws import SuiteDraws
from roarbench.common.enums import Order, Unit
from roarbench.common.text import format_interval, format_markdown_table
from roarbench.plan.protocols import MATCHED, ROAR
from roarbench.stats.board_agreement import compute_agreement
from roarbench.stats.bootstrap_intervals import Bootstrap, Estimate, Sample, make_estimate
from roarbench.stats.own_network_gain import compute_own_network_gain
from studies.page import Tables, write_shipped_tables
from studies.paper.published import draw_own_network_gains

Kept = NDArray[np.bool_]  # (maps, networks, levels, images)
FOLDER = Path(__file__).parent
CHOSEN = [2, 6]  # .05 and .5 among the seven levels of levels.toml
CONFIDENCE = 0.95
PUBLISHED = (("benchmark-imagenette64@1", ROAR), ("quick@6", ROAR), ("quick@6", MATCHED), ("quick-matched@3", MATCHED))
ELSEWHERE = {"Fashion-MNIST": "fashion-mnist", "CIFAR-10": "cifar10"}  # whose rows the benchmark has published
AGAIN = ("other networks", "other networks 2", "other networks 3")  # with those of "standard" four runs
FEWER_IS_BETTER = ("pixel-flipping",)
QUANTUS = {
    "pixel-flipping": "pixel flipping",
    "region-perturbation": "region perturbation (AOPC)",
    "faithfulness-correlation": "faithfulness correlation",
    "faithfulness-estimate": "faithfulness estimate",
}


@lru_cache(maxsize=1)
def read_answers() -> dict[str, Kept]:
    """Read the answers that are kept, by `experiment/row`."""
    found = {}
    for key, bits in np.load(FOLDER / "results.npz").items():
        name, shape = key.rsplit("/", 1)
        sizes = [int(size) for size in shape.split("x")]
        found[name] = np.unpackbits(bits, count=int(np.prod(sizes))).astype(bool).reshape(sizes)
    return found


def select_experiment(experiment: str) -> dict[str, Kept]:
    return {name.partition("/")[2]: kept for name, kept in read_answers().items() if name.startswith(f"{experiment}/")}


def read_settings() -> dict[str, dict[str, Kept]]:
    """Return the answers by setting and row."""
    found: dict[str, dict[str, Kept]] = {}
    for name, kept in select_experiment("order").items():
        setting, row = name.split(":", 1)
        found.setdefault(setting, {})[row] = kept
    return found


def find_order(setting: str) -> Order:
    return Order.LERF if setting == "lerf" else Order.MORF


def compute_gain(kept: Kept, order: Order = Order.MORF, resamples: int = 2000) -> Sample:
    return compute_own_network_gain(kept, order, Bootstrap(resamples)).gain


def estimate_gain(sample: Sample) -> Estimate:
    return make_estimate(sample, CONFIDENCE)


def make_control_table() -> str:
    """Return gains on planted-corners, largest first: at the chosen levels, and at each level."""
    heads = ("row", "own-network gain", "at .01, .02, .05, .1, .2, .3, .5", "own-network-lerf gain")
    lines = []
    lerf = select_experiment("corners lerf")
    for name, kept in select_experiment("corners morf").items():
        levels = compute_own_network_gain(kept, Order.MORF, Bootstrap(10)).levels
        found, other = (
            compute_gain(each[:, :, CHOSEN], order) for each, order in ((kept, Order.MORF), (lerf[name], Order.LERF))
        )
        each = ", ".join(f"{level.value:+.0f}" for level in levels)
        gains = [format_interval(estimate_gain(gain)) for gain in (found, other)]
        lines.append((found.value, [f"`{name}`", gains[0], each, gains[1]]))
    return format_markdown_table(heads, (line for _, line in sorted(lines, key=lambda each: -each[0])))


def make_patch_table() -> str:
    found = json.loads((FOLDER / "patch.json").read_text())
    regions = ("own patch", "other patches", "elsewhere")
    rows = [[f"`{name}`", *(f"{found[name][f'first, {one}']:.1%}" for one in regions)] for name in found]
    return format_markdown_table(("map", *(f"{one} in the first 5 %" for one in regions)), rows)


def make_null_table() -> str:
    """Return how many maps that do not explain the network have a gain other than 0."""
    groups: dict[str, list[Estimate]] = {}
    for name, kept in select_experiment("null").items():
        groups.setdefault(name.rpartition(":")[0], []).append(estimate_gain(compute_gain(kept)))
    groups["all"] = [one for each in list(groups.values()) for one in each]
    rows = []
    for name, found in groups.items():
        values = np.array([one.value for one in found], float)
        above, below = (sum(sign * (bound or 0.0) > 0 for bound in bounds) for sign, bounds in
            ((1, [one.low for one in found]), (-1, [one.high for one in found])))  # fmt: skip
        error = values.std(ddof=1) / len(values) ** 0.5
        rows.append([name, str(len(found)), f"{values.mean():+.2f} ± {error:.2f}", str(above), str(below)])
    return format_markdown_table(("map", "maps", "mean gain ± standard error", "above 0", "below 0"), rows)


def make_mixed_table() -> str:
    """Return gains of maps that are mixed in steps, and how many pairs of steps are in the right order."""
    groups: dict[str, list[Sample]] = {}
    for name, kept in select_experiment("mixed").items():
        groups.setdefault(name.rpartition(":")[0], []).append(compute_gain(kept))
    rows = []
    for name, found in groups.items():
        row, kind = name.split(":")
        pairs = [estimate_gain(one.subtract(two)) for k, one in enumerate(found) for two in found[k + 1 :]]
        right = sum((pair.low or 0.0) > 0 for pair in pairs)
        wrong = sum((pair.high or 0.0) < 0 for pair in pairs)
        gains = ", ".join(f"{one.value:+.1f}" for one in found)
        counts = (str(right), str(wrong), str(len(pairs) - right - wrong))
        rows.append([f"`{row}`", kind, gains, *counts, format_interval(estimate_gain(found[-1]))])
    heads = ("map", "mixed with", "gain at shares 0, .25, .5, .75, 1", "right", "wrong", "open", "gain at share 1")
    return format_markdown_table(heads, rows)


def compute_gains(rows: Mapping[str, Kept], order: Order = Order.MORF) -> dict[str, Sample]:
    return {name: compute_gain(kept, order) for name, kept in rows.items()}


def _make_agreement_row(name: str, one: Mapping[str, Sample], other: Mapping[str, Sample]) -> list[str]:
    found = compute_agreement(one, other, CONFIDENCE)
    assert found is not None, "there are three rows"
    low, high = found.tau.low, found.tau.high
    settled = "" if found.settled is None else f"{found.settled}, {found.opposed} opposed"
    holds = "yes" if (found.tau.value or 0.0) >= 0.6 else "no"
    return [name, str(found.rows), f"{found.tau.value:+.2f} [{low:+.2f}, {high:+.2f}]", settled, holds]


def make_order_table() -> str:
    """Return whether the order of estimators holds in other settings, by Kendall's tau."""
    rows_of_quick = select_experiment("quick morf").items()
    asking = {name: kept for name, kept in rows_of_quick if kept.any() and _has_different_answers(kept)}
    halves = [compute_gains({name: kept[..., first::2] for name, kept in asking.items()}) for first in (0, 1)]
    triples = [compute_gains({name: kept[k : k + 3, k : k + 3] for name, kept in asking.items()}) for k in (0, 2)]
    rows = [
        _make_agreement_row("quick 7: every other test image and the rest", *halves),
        _make_agreement_row("quick 7: references 1, 2, 3 and 3, 4, 5", *triples),
    ]
    gains = {name: compute_gains(found, find_order(name)) for name, found in read_settings().items()}
    standard = gains.pop("standard")
    rows += [_make_agreement_row(name, standard, found) for name, found in gains.items()]
    rows += [
        _make_agreement_row(f"{one} beside {other}", gains[one], gains[other])
        for one, other in combinations([name for name in gains if name in AGAIN], 2)
    ]
    here = _compute_published_gains("imagenette64")
    rows += [
        _make_agreement_row(f"{shown} beside Imagenette, rows of the benchmark", here, _compute_published_gains(name))
        for shown, name in ELSEWHERE.items()
    ]
    own = compute_gains(asking)
    for suite, protocol in PUBLISHED:
        published = SuiteDraws.of(rb.load_published_results(suite).stored).draw_gains(protocol, Unit.SCALAR).areas
        rows.append(_make_agreement_row(f"{protocol.name}, published rows of {suite}", own, published))
    return format_markdown_table(("variant", "rows", "Kendall's tau", "pairs settled in both", ".6 or more"), rows)


def _compute_published_gains(name: str) -> Mapping[str, Sample]:
    return draw_own_network_gains(rb.load_published_results(f"benchmark-{name}").stored)


def _has_different_answers(kept: Kept) -> bool:
    return bool((kept != kept[:1]).any())


def make_settings_table() -> str:
    settings = read_settings()

    def format_gain(setting: str, row: str) -> str:
        kept = settings[setting].get(row)
        return "does not apply" if kept is None else f"{compute_gain(kept, find_order(setting), 10).value:+.1f}"

    names = dict.fromkeys(row for rows in settings.values() for row in rows)
    rows = ([f"`{row}`", *(format_gain(setting, row) for setting in settings)] for row in names)
    return format_markdown_table(("row", *settings), rows)


def make_protocol_table() -> str:
    """Return rank correlations with what other protocols say of the same estimators."""
    rows = select_experiment("quick morf")
    own = {name: compute_gain(kept, resamples=10).value for name, kept in rows.items() if _has_different_answers(kept)}
    morf = {name: -_compute_kept_share(kept) for name, kept in rows.items()}
    lerf = {name: _compute_kept_share(kept) for name, kept in read_settings()["lerf"].items()}
    compared: list[tuple[str, Mapping[str, float]]] = [
        ("ROAR, quick 7 (its references)", json.loads((FOLDER / "roar.json").read_text())),
        ("predictions lost under own masks (MoRF), quick 7", morf),
        ("predictions kept (LeRF), three references", lerf),
    ]
    for suite in ("quick@6", "quick-matched@3"):  # whose leading protocol is matched gain
        gains = rb.load_published_results(suite).to_dataframe().set_index("estimator")["gain"].to_dict()
        compared.append((f"matched gain, published rows of {suite}", gains))
    lines = [_make_correlation_row(name, own, found) for name, found in compared]
    return format_markdown_table(("beside", "rows", "Kendall's tau", "which"), lines + make_faithfulness_rows())


def make_faithfulness_rows() -> list[list[str]]:
    """Return rank correlations with Quantus' measures: of their mean over three networks, and of each network."""
    scores: dict[str, dict[str, dict[str, float]]] = {}
    with (FOLDER / "faithfulness.csv").open(encoding="utf-8") as file:
        for metric, network, row, score in list(csv.reader(file))[1:]:
            value = float(score) * (-1 if metric in FEWER_IS_BETTER else 1)
            scores.setdefault(metric, {}).setdefault(network, {})[row] = value
    own = {name: compute_gain(kept, resamples=10).value for name, kept in read_settings()["standard"].items()}
    lines = []
    for metric, networks in scores.items():
        mean = {row: float(np.mean([each[row] for each in networks.values()])) for row in own}
        _, rows, tau, which = _make_correlation_row("", own, mean)
        alone = ", ".join(_make_correlation_row("", own, each)[2] for each in networks.values())
        lines.append([f"Quantus' {QUANTUS[metric]}, three references", rows, f"{tau} ({alone})", which])
    return lines


def _compute_kept_share(kept: Kept) -> float:
    return float(np.mean([kept[k, k].mean() for k in range(len(kept))]))


def _make_correlation_row(name: str, own: Mapping[str, float], found: Mapping[str, float]) -> list[str]:
    from scipy.stats import kendalltau

    both = [row for row in own if row in found]
    if len(both) < 3:
        return [name, str(len(both)), "too few", ", ".join(both)]
    tau = kendalltau([own[row] for row in both], [found[row] for row in both]).statistic
    return [name, str(len(both)), f"{tau:+.2f}", ", ".join(both)]


def make_adversary_table() -> str:
    rows = []
    for name, kept in select_experiment("adversary").items():
        found = compute_own_network_gain(kept, Order.MORF, Bootstrap())
        gain, levels = estimate_gain(found.gain), ", ".join(f"{level.value:+.1f}" for level in found.levels)
        rows.append([name, format_interval(gain), levels, "yes" if (gain.low or 0.0) > 0 else "no"])
    return format_markdown_table(("estimator", "own-network gain", "at .05, .5", "succeeds"), rows)


def make_roar_table() -> str:
    """Return how many test images networks answer that are trained without what a map ranks first.

    With the standard error over images of the mean gain.
    """
    found = dict(select_experiment("roar"))
    found["greedy search"] = np.stack([kept for _, kept in sorted(select_experiment("roar greedy").items())])
    count = len(found["greedy search"])
    rows = []
    for name, kept in found.items():
        lost = 100 * (found["random"][:count].astype(float) - kept[:count]).mean(0)
        right = ", ".join(f"{100 * one.mean():.1f}" for one in kept[:count])
        rows.append([name, right, f"{lost.mean():+.1f} ± {lost.std(ddof=1) / len(lost) ** 0.5:.1f}"])
    return format_markdown_table(
        ("row", "right at t = .9, %", "points below Random ± standard error over images"), rows
    )


def make_reason_table() -> str:
    """Return gains of another image's maps with and without the part that all maps of a network share."""
    mixed, found = select_experiment("mixed"), dict[str, dict[str, Kept]]()
    for name, kept in select_experiment("reason").items():
        row, change = name.split(":")
        ends = {"its own": mixed[f"{row}:image:0"], "another image's": mixed[f"{row}:image:1"]}
        found.setdefault(row, ends)[change] = kept
    changes = list(dict.fromkeys(change for each in found.values() for change in each))
    rows = (
        [change, *(format_interval(estimate_gain(compute_gain(each[change]))) for each in found.values())]
        for change in changes
    )
    return format_markdown_table(("map", *(f"`{row}`" for row in found)), rows)


def make_coverage_table() -> str:
    """Return how often intervals hold the true gain, and the gain of a replication."""
    found = json.loads((FOLDER / "coverage.json").read_text())
    rows = []
    for name, one in found["settings"].items():
        networks, *setting = name.split()
        chance = "" if one["permutation"] is None else f"{one['permutation']:.3f}"
        shares = (f"{one['held']:.3f}", f"{one['predicted']:.3f}", f"{one['above']:.2f}", chance)
        cells = (f"{one['gain']:+.2f}", f"{one['half']:.2f}", *shares)
        rows.append([networks, ", ".join(setting), *cells])
    heads = ("networks", "harm, its spread over networks, over pairs", "gain", "half an interval", "holds")
    return format_markdown_table((*heads, "predicts a replication", "above 0", "permutation p < .05"), rows)


TABLES: Mapping[str, Callable[[], str]] = {
    "controls": make_control_table,
    "patch": make_patch_table,
    "null": make_null_table,
    "mixed": make_mixed_table,
    "orders": make_order_table,
    "settings": make_settings_table,
    "others": make_protocol_table,
    "adversaries": make_adversary_table,
    "roar": make_roar_table,
    "reasons": make_reason_table,
    "coverage": make_coverage_table,
}


def make_tables(names: Iterable[str] = TABLES) -> Tables:
    return {name: TABLES[name]() for name in names}


if __name__ == "__main__":
    write_shipped_tables(__doc__, FOLDER / "README.md", make_tables)
