"""Make tables of own-network gain in LeRF order and at single levels."""

from roarbench.common.text import MISSING, format_markdown_table
from roarbench.stats.intervals import estimate
from roarbench.stats.own_network_gain import judge_beside_search
from roarbench.stats.verdicts import decide_verdicts
from studies.paper.cells import (
    format_own_network_gain,
    make_gain_table,
    mark_own_network_gain,
    quote_estimator,
    sort_by_largest_gain,
)
from studies.paper.published import DataSet


def own_network_lerf(sets: list[DataSet]) -> str:
    """Make a table of own-network gains in LeRF order, with their verdicts."""
    return make_gain_table({dataset.name: dataset.own_lerf for dataset in sets}, format_own_network_gain)


def own_network_by_level(sets: list[DataSet]) -> str:
    """Make a table of own-network gains at each level on sets of images with ROAR; verdicts are adjusted by level."""
    shown = [dataset for dataset in sets if dataset.roar and not dataset.results.suite.dataset_record.tabular]
    columns = {f"{dataset.name}, {t:g}": of for dataset in shown for t, of in dataset.own_gains_by_level.items()}
    verdicts = {head: decide_verdicts(gains) for head, gains in columns.items()}
    names = sort_by_largest_gain(dict.fromkeys(n for of in columns.values() for n in of), [d.own for d in shown])

    def format_cell(name: str, head: str) -> str:
        if name not in columns[head]:
            return MISSING
        return mark_own_network_gain(estimate(columns[head][name]), judge_beside_search(verdicts[head][name]))

    rows = [[quote_estimator(name), *(format_cell(name, head) for head in columns)] for name in names]
    return format_markdown_table(("estimator", *columns), rows)
