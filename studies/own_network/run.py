"""Write the tables of README.md about own-network gain from the stored predictions of the study's experiments.

Run: python -m studies.own_network.run. The program coverage.py wrote coverage.json; README.md names the commit with the
programs that wrote the other files.
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
from studies.page import Tables, format_agreement, write_shipped_tables
from studies.paper.published import draw_own_network_gains

Kept = NDArray[np.bool_]  # (maps, networks, levels, images)
FOLDER = Path(__file__).parent
CHOSEN = [2, 6]  # positions of .05 and .5 among the seven levels of levels.toml
CONFIDENCE = 0.95
PUBLISHED = (("benchmark-imagenette64@1", ROAR), ("quick@6", ROAR), ("quick@6", MATCHED), ("quick-matched@3", MATCHED))
OTHER_DATASETS = {"Fashion-MNIST": "fashion-mnist", "CIFAR-10": "cifar10"}  # data sets with published rows, by title
REPEATED = ("other networks", "other networks 2", "other networks 3")  # settings that repeat "standard"
LOWER_IS_BETTER = ("pixel-flipping",)
QUANTUS = {
    "pixel-flipping": "pixel flipping",
    "region-perturbation": "region perturbation (AOPC)",
    "faithfulness-correlation": "faithfulness correlation",
    "faithfulness-estimate": "faithfulness estimate",
}


@lru_cache(maxsize=1)
def read_kept_predictions() -> dict[str, Kept]:
    """Read which predictions are kept, by `experiment/row`."""
    by_name = {}
    for key, bits in np.load(FOLDER / "results.npz").items():
        name, shape = key.rsplit("/", 1)
        sizes = [int(size) for size in shape.split("x")]
        by_name[name] = np.unpackbits(bits, count=int(np.prod(sizes))).astype(bool).reshape(sizes)
    return by_name


def select_experiment(experiment: str) -> dict[str, Kept]:
    rows = read_kept_predictions().items()
    return {name.partition("/")[2]: kept for name, kept in rows if name.startswith(f"{experiment}/")}


def read_settings() -> dict[str, dict[str, Kept]]:
    """Return the kept predictions of the experiment `order` by setting and row."""
    by_setting: dict[str, dict[str, Kept]] = {}
    for name, kept in select_experiment("order").items():
        setting, row = name.split(":", 1)
        by_setting.setdefault(setting, {})[row] = kept
    return by_setting


def find_order(setting: str) -> Order:
    return Order.LERF if setting == "lerf" else Order.MORF


def compute_gain(kept: Kept, order: Order = Order.MORF, resamples: int = 2000) -> Sample:
    return compute_own_network_gain(kept, order, Bootstrap(resamples)).gain


def estimate_gain(sample: Sample) -> Estimate:
    return make_estimate(sample, CONFIDENCE)


def make_control_table() -> str:
    """Make a table of gains on planted-corners, largest first, over the chosen levels and at each level."""
    heads = ("row", "own-network gain", "at .01, .02, .05, .1, .2, .3, .5", "own-network-lerf gain")
    lines = []
    lerf = select_experiment("corners lerf")
    for name, kept in select_experiment("corners morf").items():
        levels = compute_own_network_gain(kept, Order.MORF, Bootstrap(10)).levels
        morf_gain = compute_gain(kept[:, :, CHOSEN], Order.MORF)
        lerf_gain = compute_gain(lerf[name][:, :, CHOSEN], Order.LERF)
        at_levels = ", ".join(f"{level.value:+.0f}" for level in levels)
        cells = [f"`{name}`", format_interval(estimate_gain(morf_gain)), at_levels]
        lines.append((morf_gain.value, [*cells, format_interval(estimate_gain(lerf_gain))]))
    return format_markdown_table(heads, (line for _, line in sorted(lines, key=lambda pair: -pair[0])))


def make_patch_table() -> str:
    shares = json.loads((FOLDER / "patch.json").read_text())
    regions = ("own patch", "other patches", "elsewhere")
    rows = [[f"`{name}`", *(f"{shares[name][f'first, {region}']:.1%}" for region in regions)] for name in shares]
    return format_markdown_table(("map", *(f"{region} in the first 5 %" for region in regions)), rows)


def make_null_table() -> str:
    """Make a table of the numbers of maps with a gain significantly above or below 0 though their true gain is 0."""
    groups: dict[str, list[Estimate]] = {}
    for name, kept in select_experiment("null").items():
        groups.setdefault(name.rpartition(":")[0], []).append(estimate_gain(compute_gain(kept)))
    groups["all"] = [gain for gains in list(groups.values()) for gain in gains]
    rows = []
    for name, gains in groups.items():
        values = np.array([gain.value for gain in gains], float)
        above, below = sum((gain.low or 0.0) > 0 for gain in gains), sum((gain.high or 0.0) < 0 for gain in gains)
        error = values.std(ddof=1) / len(values) ** 0.5
        rows.append([name, str(len(gains)), f"{values.mean():+.2f} ± {error:.2f}", str(above), str(below)])
    return format_markdown_table(("map", "maps", "mean gain ± standard error", "above 0", "below 0"), rows)


def make_mixed_table() -> str:
    """Make a table of gains of maps that are mixed in steps, and of the numbers of correctly ordered pairs of steps."""
    groups: dict[str, list[Sample]] = {}
    for name, kept in select_experiment("mixed").items():
        groups.setdefault(name.rpartition(":")[0], []).append(compute_gain(kept))
    rows = []
    for name, steps in groups.items():
        row, kind = name.split(":")
        pairs = [estimate_gain(better.subtract(worse)) for better, worse in combinations(steps, 2)]
        right = sum((pair.low or 0.0) > 0 for pair in pairs)
        wrong = sum((pair.high or 0.0) < 0 for pair in pairs)
        gains = ", ".join(f"{step.value:+.1f}" for step in steps)
        counts = (str(right), str(wrong), str(len(pairs) - right - wrong))
        rows.append([f"`{row}`", kind, gains, *counts, format_interval(estimate_gain(steps[-1]))])
    heads = ("map", "mixed with", "gain at shares 0, .25, .5, .75, 1", "right", "wrong", "open", "gain at share 1")
    return format_markdown_table(heads, rows)


def compute_gains(rows: Mapping[str, Kept], order: Order = Order.MORF) -> dict[str, Sample]:
    return {name: compute_gain(kept, order) for name, kept in rows.items()}


def _make_agreement_row(name: str, one: Mapping[str, Sample], other: Mapping[str, Sample]) -> list[str]:
    agreement = compute_agreement(one, other, CONFIDENCE)
    assert agreement is not None, "there are at least three rows"
    holds = "yes" if (agreement.tau.value or 0.0) >= 0.6 else "no"
    return [name, str(agreement.rows), *format_agreement(agreement), holds]


def make_order_table() -> str:
    """Make a table of Kendall's tau between the orders of estimators in different settings."""
    quick = select_experiment("quick morf").items()
    explaining = {name: kept for name, kept in quick if kept.any() and _differs_between_maps(kept)}
    halves = [compute_gains({name: kept[..., first::2] for name, kept in explaining.items()}) for first in (0, 1)]
    triples = [compute_gains({name: kept[k : k + 3, k : k + 3] for name, kept in explaining.items()}) for k in (0, 2)]
    rows = [
        _make_agreement_row("quick 7: every other test image and the rest", *halves),
        _make_agreement_row("quick 7: references 1, 2, 3 and 3, 4, 5", *triples),
    ]
    gains = {name: compute_gains(kept, find_order(name)) for name, kept in read_settings().items()}
    standard = gains.pop("standard")
    rows += [_make_agreement_row(name, standard, setting_gains) for name, setting_gains in gains.items()]
    rows += [
        _make_agreement_row(f"{one} beside {other}", gains[one], gains[other])
        for one, other in combinations([name for name in gains if name in REPEATED], 2)
    ]
    imagenette = _compute_published_gains("imagenette64")
    rows += [
        _make_agreement_row(
            f"{title} beside Imagenette, rows of the benchmark", imagenette, _compute_published_gains(name)
        )
        for title, name in OTHER_DATASETS.items()
    ]
    own = compute_gains(explaining)
    for suite, protocol in PUBLISHED:
        published = SuiteDraws.of(rb.load_published_results(suite).stored).draw_gains(protocol, Unit.SCALAR).areas
        rows.append(_make_agreement_row(f"{protocol.name}, published rows of {suite}", own, published))
    return format_markdown_table(("variant", "rows", "Kendall's tau", "pairs settled in both", ".6 or more"), rows)


def _compute_published_gains(name: str) -> Mapping[str, Sample]:
    return draw_own_network_gains(rb.load_published_results(f"benchmark-{name}").stored)


def _differs_between_maps(kept: Kept) -> bool:
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
    """Make a table of rank correlations of own-network gain with other measures of the same estimators."""
    rows = select_experiment("quick morf")
    own = {name: compute_gain(kept, resamples=10).value for name, kept in rows.items() if _differs_between_maps(kept)}
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
    lines = [_make_correlation_row(name, own, measure) for name, measure in compared]
    return format_markdown_table(("beside", "rows", "Kendall's tau", "which"), lines + make_faithfulness_rows())


def make_faithfulness_rows() -> list[list[str]]:
    """Return rank correlations with Quantus' metrics: with the mean over three networks, and with each network."""
    scores: dict[str, dict[str, dict[str, float]]] = {}
    with (FOLDER / "faithfulness.csv").open(encoding="utf-8") as file:
        for metric, network, row, score in list(csv.reader(file))[1:]:
            value = float(score) * (-1 if metric in LOWER_IS_BETTER else 1)
            scores.setdefault(metric, {}).setdefault(network, {})[row] = value
    own = {name: compute_gain(kept, resamples=10).value for name, kept in read_settings()["standard"].items()}
    lines = []
    for metric, networks in scores.items():
        mean = {row: float(np.mean([by_row[row] for by_row in networks.values()])) for row in own}
        _, rows, tau, names = _make_correlation_row("", own, mean)
        alone = ", ".join(_make_correlation_row("", own, by_row)[2] for by_row in networks.values())
        lines.append([f"Quantus' {QUANTUS[metric]}, three references", rows, f"{tau} ({alone})", names])
    return lines


def _compute_kept_share(kept: Kept) -> float:
    return float(np.mean([kept[k, k].mean() for k in range(len(kept))]))


def _make_correlation_row(name: str, own: Mapping[str, float], measure: Mapping[str, float]) -> list[str]:
    from scipy.stats import kendalltau

    both = [row for row in own if row in measure]
    if len(both) < 3:
        return [name, str(len(both)), "too few", ", ".join(both)]
    tau = kendalltau([own[row] for row in both], [measure[row] for row in both]).statistic
    return [name, str(len(both)), f"{tau:+.2f}", ", ".join(both)]


def make_adversary_table() -> str:
    rows = []
    for name, kept in select_experiment("adversary").items():
        own = compute_own_network_gain(kept, Order.MORF, Bootstrap())
        gain, levels = estimate_gain(own.gain), ", ".join(f"{level.value:+.1f}" for level in own.levels)
        rows.append([name, format_interval(gain), levels, "yes" if (gain.low or 0.0) > 0 else "no"])
    return format_markdown_table(("estimator", "own-network gain", "at .05, .5", "succeeds"), rows)


def make_roar_table() -> str:
    """Make a table of accuracies under ROAR, and of the mean loss below Random with its standard error over images."""
    correctness = dict(select_experiment("roar"))
    correctness["greedy search"] = np.stack([bits for _, bits in sorted(select_experiment("roar greedy").items())])
    count = len(correctness["greedy search"])
    rows = []
    for name, bits in correctness.items():
        lost = 100 * (correctness["random"][:count].astype(float) - bits[:count]).mean(0)
        right = ", ".join(f"{100 * run.mean():.1f}" for run in bits[:count])
        rows.append([name, right, f"{lost.mean():+.1f} ± {lost.std(ddof=1) / len(lost) ** 0.5:.1f}"])
    return format_markdown_table(
        ("row", "right at t = .9, %", "points below Random ± standard error over images"), rows
    )


def make_reason_table() -> str:
    """Make a table of gains of another image's maps with and without the part that all maps of a network share."""
    mixed, by_row = select_experiment("mixed"), dict[str, dict[str, Kept]]()
    for name, kept in select_experiment("reason").items():
        row, change = name.split(":")
        ends = {"its own": mixed[f"{row}:image:0"], "another image's": mixed[f"{row}:image:1"]}
        by_row.setdefault(row, ends)[change] = kept
    changes = list(dict.fromkeys(change for by_change in by_row.values() for change in by_change))
    rows = (
        [change, *(format_interval(estimate_gain(compute_gain(kept[change]))) for kept in by_row.values())]
        for change in changes
    )
    return format_markdown_table(("map", *(f"`{row}`" for row in by_row)), rows)


def make_coverage_table() -> str:
    """Make a table of the coverage of intervals and prediction intervals in `coverage.py`."""
    settings = json.loads((FOLDER / "coverage.json").read_text())["settings"]
    rows = []
    for name, outcome in settings.items():
        networks, *setting = name.split()
        permutation = "" if outcome["permutation"] is None else f"{outcome['permutation']:.3f}"
        shares = (f"{outcome['held']:.3f}", f"{outcome['predicted']:.3f}", f"{outcome['above']:.2f}", permutation)
        cells = (f"{outcome['gain']:+.2f}", f"{outcome['half']:.2f}", *shares)
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
