"""Convert a table's rows to plain values for JSON and CSV: accuracies are fractions, gains are in points."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from roarbench.analysis.faithfulness_scores import ProbabilityDrop
from roarbench.analysis.row_warnings import Grade, describe_prediction_under_noise
from roarbench.common.text import format_records_as_csv
from roarbench.report.table import SuiteTable
from roarbench.stats.board_records import Row
from roarbench.stats.intervals import CONFIDENCE, Estimate
from roarbench.stats.own_network_gain import OwnNetworkTest
from roarbench.stats.verdicts import Comparison

_NETWORK_FIELDS = ("one_network", "references", "reference_deviation", "reference_rows", "reference_freedom")
_ENDS = {"": "value", "_low": "low", "_high": "high"}  # from suffixes of JSON keys to fields of an estimate


def format_json(table: SuiteTable) -> str:
    """Format a table with its context as JSON; missing values are null."""
    return write_rows_as_json(list_shared_values(table), [make_plain_row(table, row) for row in table.rows])


def write_rows_as_json(shared: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    """Write a JSON object with the shared values and the list `rows`, one line per row."""
    write_compactly = partial(json.dumps, separators=(",", ":"))
    return f'{write_compactly(shared)[:-1]},"rows":[\n' + ",\n".join(map(write_compactly, rows)) + "\n]}"


def list_shared_values(table: SuiteTable) -> dict[str, Any]:
    """Return the values that a table's rows share, by JSON key; missing values are None."""
    suite_results, board = table.suite_results, table.board
    return {
        **suite_results.identity,
        "levels": list(board.levels),
        "protocol": board.protocol.name,
        "unit": table.unit,
        "fill": table.fill,
        "images": board.images if table.has_results else None,
        "reference_accuracy": suite_results.reference_accuracy,
        "complete": suite_results.complete,
        **_count_runs(table),
        "at_chance": bool(suite_results.at_chance_warning),
        "confidence": CONFIDENCE,
        "intervals_cover": board.covers,
        **{name: getattr(board, name) for name in (*_NETWORK_FIELDS, "family")},
        "chance": suite_results.known_chance,
        "hash": table.runs_hash,
    }


def _count_runs(table: SuiteTable) -> dict[str, int]:
    """Return the protocol's numbers of missing and of planned runs, without those of rows added to the suite."""
    return {"missing_runs": table.runs.own.missing, "planned_runs": table.runs.own.planned}


def make_plain_row(table: SuiteTable, row: Row) -> dict[str, Any]:
    """Return a row as plain values: accuracies are fractions, gains are in points."""
    rank, board, comparison = row.place, table.board, row.beating
    return {
        "estimator": row.estimator,
        "place": rank.place if rank else None,
        "place_low": rank.low if rank else None,
        "place_high": rank.high if rank else None,
        "added": row.estimator in table.suite_results.suite.added,
        "verdict": _find_verdict(row.network if board.protocol.scores_all_network_pairs else row.vs_random),
        "verdict_sobel": _find_verdict(row.against.get("sobel")),
        "verdict_random_blurred": _find_verdict(row.against.get("random-blurred")),
        "beats_controls": comparison.beats_all if comparison else None,
        "nearest_control": comparison.hardest_control if comparison else None,
        **_make_estimate_fields("delta_nearest_control", comparison.margin_over_hardest if comparison else Estimate()),
        "unfinished": table.runs.is_unfinished(row.estimator),  # missing runs can change the row's verdicts
        "better_than": ", ".join(table.list_beaten_control_groups(row)) or None,
        "flag": _explain_doubts(table, row),
        "grade": _find_warning_grade(table, row),
        **_make_estimate_fields("gain", row.gain),
        "seeds": row.seeds,
        "prediction_stability": table.suite_results.prediction_stability.get(row.estimator),
        **_make_passes(table, row),
        **_make_curves(table, row),
        **_make_optional_fields(table, row),
    }


def _make_passes(table: SuiteTable, row: Row) -> dict[str, float | None]:
    """Return the forward and backward passes per image of the row's maps; None if unknown."""
    forward, backward = table.suite_results.find_passes(row.estimator) or (None, None)
    return {"forward_passes": forward, "backward_passes": backward}


def _find_verdict(comparison: Comparison | OwnNetworkTest | None) -> str | None:
    return comparison.verdict if comparison else None


def _make_estimate_fields(name: str, estimate: Estimate) -> dict[str, float | None]:
    """Return the fields `NAME`, `NAME_low` and `NAME_high` of an estimate."""
    return {f"{name}{suffix}": getattr(estimate, end) for suffix, end in _ENDS.items()}


def _explain_doubts(table: SuiteTable, row: Row) -> str | None:
    noise = describe_prediction_under_noise(table.low_prediction_stabilities.get(row.estimator))
    return " ".join(filter(None, (table.doubts.get(row.estimator), noise))) or None


def _find_warning_grade(table: SuiteTable, row: Row) -> str | None:
    if not any(mark.grade for mark in table.marks.get(row.estimator, ())):
        return None
    return table.row_warnings[row.estimator].grade if row.estimator in table.row_warnings else Grade.NONE


def _make_curves(table: SuiteTable, row: Row) -> dict[str, Any]:
    """Return the values by level: accuracies, differences from mask-only accuracies, and gains."""
    levels = table.board.levels
    accuracies = zip((0.0, *levels), (row.clean, *row.accuracies), strict=True)
    curves: dict[str, Any] = {"curve": {str(t): accuracy.value for t, accuracy in accuracies}}
    if table.mask_only_levels:
        above = table.above_masks.get(row.estimator, {})
        curves |= _make_curve_fields("above_masks", {t: above.get(t, Estimate()) for t in table.mask_only_levels})
    if table.board.protocol.random_is_zero:
        curves["gains"] = dict(zip(map(str, levels), table.list_gains_by_level(row), strict=True))
    return curves


def _make_curve_fields(name: str, curve: Mapping[float, Estimate]) -> dict[str, dict[str, float | None]]:
    return {
        f"{name}{suffix}": {str(t): getattr(estimate, end) for t, estimate in curve.items()}
        for suffix, end in _ENDS.items()
    }


def _make_optional_fields(table: SuiteTable, row: Row) -> dict[str, Any]:
    fields, protocol, twins = dict[str, Any](), table.board.protocol, dict[str, Any]()
    for kind in table.twin_kinds:
        twins |= _make_estimate_fields(kind, row.delta_twins.get(kind, Estimate()))
        twins[f"{kind}_verdict"] = _find_verdict(row.get_twin_comparison(kind))
    if twins:
        fields["delta_twins"] = twins
    if protocol.stores_predicted_probability:
        levels, missing = table.board.levels, (Estimate(),) * len(table.board.levels)
        drop = table.probability_drops.get(row.estimator, ProbabilityDrop(Estimate(), missing, missing, Estimate()))
        curve = zip((0.0, *levels), (drop.untouched, *drop.probabilities), strict=True)
        fields |= _make_estimate_fields("aopc", drop.aopc) | _make_curve_fields("probability", dict(curve))
        fields |= _make_curve_fields("relative_change", dict(zip(levels, drop.changes, strict=True)))
    if protocol.scores_all_network_pairs:
        fields["permutation_p"] = row.network and row.network.permutation
    if table.metrics:
        fields["quantus"] = table.get_quantus_scores(row)
    return fields


def format_csv(*tables: SuiteTable) -> str:
    """Format the rows of tables as CSV with a header of all names; missing values are empty."""
    rows = [row for table in tables for row in list_flat_rows(table)]
    names = dict.fromkeys(name for row in rows for name in row)
    return format_records_as_csv([{name: row.get(name) for name in names} for row in rows]).rstrip("\n")


def list_flat_rows(table: SuiteTable) -> list[dict[str, Any]]:
    """Return the rows of a table as dictionaries without nested values."""
    results = table.suite_results
    shared = {"limit": results.limit, "chance": results.known_chance, **_count_runs(table), "hash": table.runs_hash}
    shared["protocol"] = table.board.protocol.name
    curve_group = "kept" if table.board.protocol.scores_all_network_pairs else "accuracy"
    return [_flatten_row(make_plain_row(table, row) | shared, curve_group) for row in table.rows]


def _flatten_row(row: dict[str, Any], curve_group: str) -> dict[str, Any]:
    """Flatten a row: values of a nested group become columns `GROUP_NAME` at the end."""
    flat = {name: value for name, value in row.items() if not isinstance(value, dict)}
    groups = {curve_group if name == "curve" else name: row[name] for name in row if name not in flat}
    return flat | {f"{group}_{name}": value for group, values in groups.items() for name, value in values.items()}
