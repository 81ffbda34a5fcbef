"""Describe a table in sentences: the notes below it, its provenance, and the methods for a paper's supplement."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace

from roarbench.analysis.own_network_gain_of_suite import describe_total_disagreement_of_networks
from roarbench.analysis.quantus_and_probability_drop import IMAGES
from roarbench.analysis.results_by_images_and_weights import STABLE_ENOUGH, shorten_reference
from roarbench.analysis.row_warnings import describe_rows_not_above_mask_only, list_general_doubts
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.errors import Hint
from roarbench.common.text import (
    SAME,
    capitalize,
    fit_on_one_line,
    format_count,
    format_interval,
    format_percent_number,
    list_some,
)
from roarbench.estimators.catalogue import find_display_name, find_estimator_or_placeholder
from roarbench.plan.fill_names import find_displayed_fill_name
from roarbench.plan.planned_runs import expand_points
from roarbench.plan.suite import describe_missing_controls
from roarbench.plan.suites import make_suite_option_value
from roarbench.report.table import CONFUSED, SuiteTable
from roarbench.stats.board import ONE_NETWORK, RANDOM, IntervalScope

PAGE = "docs/how-it-works.md"
_ONE_TRAINING = "One training per cell: no intervals, no verdicts."
_NO_GAINS = "These networks see masks alone: there are no gains and no ranks."


def summarize_notes(table: SuiteTable, source: str = f"table --notes and {PAGE}") -> list[str]:
    """Return the short notes below a table: three lines and the table's faults.

    The three lines define the gain, state the scope of the intervals, and name the `source` of all other notes. Doubts
    about the whole table, and rows without a rank, follow the second line, one line each.
    """
    board, covers = table.board, table.board.covers
    gain = f"{board.protocol.meaning.partition('. ')[0].rstrip('.')}." if table.has_gains_and_ranks else _NO_GAINS
    if table.suite_results.at_chance_warning:
        sure = "At chance: these numbers test the installation only."
    elif not board.images:
        sure = ""  # a fault says why
    elif covers is IntervalScope.NOTHING:
        sure = _ONE_TRAINING
    else:
        network = f", {ONE_NETWORK}" if board.one_network else ""
        sure = f"{board.bootstrap.confidence:.0%} intervals over {covers}{network}; {SAME}: not significant."
    signs = dict.fromkeys(sign for row in table.rows for sign in table.format_row_signs(row.estimator).split())
    rows = {row.estimator for row in table.rows} & table.floors.keys()
    warned = sum(map(bool, (rows, _describe_several_machines(table), table.suite_results.suite.left_out)))
    told = ", ".join([*signs, *([format_count(warned, "warning")] if warned else [])])
    more = f"{told} and more are" if told else "More is"
    lines = list(filter(None, (gain, sure, describe_shared_origin(table), *list_table_doubts(table))))
    return [*lines, f"{more} explained by {source}."]


def list_table_doubts(table: SuiteTable) -> list[str]:
    """Return doubts about the whole table and rows without a rank, one line each."""
    doubts = (_explain_no_images(table), _describe_nonzero_controls(table), _describe_missing_controls(table))
    return list(filter(None, (*doubts, *_describe_inconsistent_rows(table))))


def describe_shared_origin(table: SuiteTable) -> str:
    """Return a sentence saying that all rows with results were imported, or an empty string for other tables."""
    return "All rows are self-reported: imported, and not reproduced here." if table.self_reported else ""


def write_all_notes(table: SuiteTable, signs: bool = True) -> str:
    """Describe the intervals' scope, the minimum detectable difference, and exceptions.

    The explanation of the sign † starts with this sign, unless rows are shown without signs.
    """
    rows = {row.estimator for row in table.board.rows}
    floors = describe_rows_not_above_mask_only({name: levels for name, levels in table.floors.items() if name in rows})
    parts = (
        _describe_nonzero_controls(table),
        _describe_intervals(table),
        _describe_missing_controls(table),
        floors,
        *_describe_inconsistent_rows(table),
        _describe_several_machines(table),
        describe_shared_origin(table),
        _describe_general_doubts(table),
    )
    parts += (
        _describe_unstable_predictions(table, CONFUSED * signs),
        _describe_check_rows(table),
        _describe_left_out_estimators(table),
        _describe_quantus_columns(table),
    )
    parts += (f"Hash of the runs: {table.runs_hash}." if table.board.images else "",)
    return " ".join(part for part in parts if part)


def _explain_no_images(table: SuiteTable) -> str:
    """Explain why a table has no images: no row is complete, or the networks agree on no image; else empty."""
    board = table.board
    if board.images:
        return ""
    lack = ""
    if board.protocol.compares_networks:
        lack = describe_total_disagreement_of_networks(table.suite_results, board.protocol, table.unit)
    return lack or _describe_done_runs(table)


def _describe_done_runs(table: SuiteTable) -> str:
    results, protocol = table.suite_results, table.board.protocol
    protocols = (protocol, *protocol.made_of)
    blocks = (block for block in results.suite.blocks if block.protocol in protocols and block.unit == table.unit)
    points = expand_points(replace(results.suite, blocks=tuple(blocks)))
    done = sum(point in results.results for point in points)
    return (
        f"{done:,} of {len(points):,} runs are done; no row has a result yet." if done else "Nothing has been run yet."
    )


def _describe_nonzero_controls(table: SuiteTable) -> str:
    controls = ", ".join(f"{name} {format_interval(gain)}" for name, gain in table.nonzero_controls.items())
    words = (
        f"This table is doubtful, because gains that should be 0 differ significantly: {controls}. "
        "A gain of that size may mean nothing."
    )
    return words if controls else ""


def _describe_missing_controls(table: SuiteTable) -> str:
    """Report that a user's suite has fewer controls than `new-suite` writes, if rows are compared with controls."""
    missing = describe_missing_controls(table.suite_results.suite, table.board.protocol)
    return f"{missing}." if missing and any(row.beating for row in table.board.rows) else ""


def suggest_diagnose(table: SuiteTable) -> Hint | None:
    """Return the command that explains doubts about rows; None without doubts."""
    signs = sorted({table.find_warning_sign(row.estimator) for row in table.board.rows} - {""})
    words = f"{', '.join(signs)}: `{{}}` explains the doubts."
    return Hint(words, "diagnose", ("--suite", make_suite_option_value(table.suite_results.suite))) if signs else None


def _describe_inconsistent_rows(table: SuiteTable) -> list[str]:
    shown = [row.estimator for row in table.board.rows if row.estimator in table.inconsistency_reasons]
    alone = " and no row is compared with it"
    return [
        f"{name} has no rank{alone if name == RANDOM else ''}: {table.inconsistency_reasons[name]}." for name in shown
    ]


def _describe_several_machines(table: SuiteTable) -> str:
    differences = table.suite_results.find_machine_differences(table.board.protocol, table.unit)
    shown = [row.estimator for row in table.board.rows if row.estimator in differences]
    values: dict[str, set[str]] = {}
    for name in shown:
        for setting, row_values in differences[name].items():
            values.setdefault(setting, set()).update(row_values)
    if not values:
        return ""
    differ = "; ".join(f"{setting} {' or '.join(sorted(found_values))}" for setting, found_values in values.items())
    return f"Different machines computed the runs of one curve ({list_some(shown)}): {differ}."


def _describe_general_doubts(table: SuiteTable) -> str:
    """Describe the doubts about single rows that hold for every protocol, each reason once."""
    rows = defaultdict[str, list[str]](list)
    for row in table.board.rows:
        shared = table.self_reported and table.suite_results.doubts.get(row.estimator)
        for reason in list_general_doubts(table.suite_results, row.estimator):
            if reason != shared:
                rows[reason].append(row.estimator)
    doubts = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in rows.items())
    return f"(!) {doubts}." if doubts else ""


def _describe_unstable_predictions(table: SuiteTable, sign: str) -> str:
    if not table.unstable_predictions:
        return ""
    shares = ", ".join(f"{name} {share:.0%}" for name, share in table.unstable_predictions.items())
    few = f"fewer than {STABLE_ENOUGH:.0%} of the noisy copies"
    return f"{sign} The explained network keeps its prediction on {few}: {shares}.".strip()


def _describe_left_out_estimators(table: SuiteTable) -> str:
    names = defaultdict(list)
    for name, why in table.suite_results.suite.left_out.items():
        names[why].append(name)
    left_out = "; ".join(f"{', '.join(estimators)}: {why}" for why, estimators in names.items())
    return f"Left out: {left_out}." if left_out else ""


def _describe_check_rows(table: SuiteTable) -> str:
    count = sum(row.check for row in table.board.rows)
    rows = "row is a twin or another check" if count == 1 else f"{count} rows are twins or other checks"
    return f"The last {rows}, without rank and verdict." if count else ""


def _describe_quantus_columns(table: SuiteTable) -> str:
    if not table.metrics:
        return ""
    columns = "; ".join(f"{metric.heading}: {metric.about}" for metric in table.metrics)
    return f"Scores from Quantus (first {IMAGES} test images at most), which do not affect gains and ranks: {columns}."


def _describe_intervals(table: SuiteTable) -> str:
    board = table.board
    if not board.images:
        return _explain_no_images(table)
    if table.suite_results.at_chance_warning:
        return table.suite_results.at_chance_warning
    if board.covers is IntervalScope.NOTHING:
        return _ONE_TRAINING
    sure = f"{board.bootstrap.confidence:.0%} intervals over {board.covers}"
    sure += f", {ONE_NETWORK}" if board.one_network else ""
    draws = f"{board.bootstrap.resamples} paired resamples, seed {board.bootstrap.seed}"
    if not table.has_gains_and_ranks:
        return f"{sure} ({draws}). {_NO_GAINS}"
    if board.protocol.compares_networks:
        return f"{board.protocol.meaning} {sure}; verdicts are adjusted for {format_count(board.family, 'row')}."
    text = f"{sure} ({draws}); place intervals hold jointly over the suite's rows."
    text = f"{board.protocol.meaning} {text}"
    if board.reference_freedom is not None:
        text += (
            f" The spread between {board.references} references was estimated from "
            f"{format_count(board.reference_rows, 'row')} ({board.reference_freedom:.1f} degrees of freedom)."
        )
    if board.detectable is not None:
        text += (
            f" True differences of {board.detectable:.1f} points are detected with 80% power, smaller ones less often."
        )
    text += f" Verdicts are adjusted for all {board.family} comparisons of the suite's rows, shown or not."
    added = ", ".join(row.estimator for row in board.rows if row.estimator in table.suite_results.suite.added)
    return text + f" Rows in brackets are judged as if each alone were added to the suite: {added}." * bool(added)


def list_provenance(results: SuiteResults) -> Iterable[tuple[str, str]]:
    """Yield the provenance of a suite's runs: name and value, with counts where there are several values."""
    counts = defaultdict[str, Counter[str]](Counter)
    for result in results.results.values():
        known = {"roarbench": fit_on_one_line(result.provenance.code_version, 60), **result.provenance.known_values}
        for name, value in known.items():
            counts[name][value] += 1
    for name, values in counts.items():
        several = len(values) > 1
        yield name, ", ".join(f"{value} ({n:,} runs)" if several else value for value, n in values.most_common())


def describe_methods(table: SuiteTable) -> str:
    """Describe the methods of a table in sentences, with its numbers."""
    results, protocol = table.suite_results, table.board.protocol
    suite, data = results.suite, results.suite.dataset_record
    shown = [row.estimator for row in table.rows]
    controls = [find_display_name(name).full_name for name in shown if find_estimator_or_placeholder(name).control]
    known = [results.references[number] for number in sorted(results.references)]
    right = ", ".join(f"{format_percent_number(one.correct / one.total)} %" for one in known)
    seen = f"; {right} of {known[0].total:,} test images are classified correctly" if known else ""
    networks = f"{format_count(suite.references, 'network')} ({suite.architecture_names})"
    if suite.given:
        origin = f"with given weights ({', '.join(map(shorten_reference, suite.given.split(',')))})"
    else:
        origin = f"trained on {min(results.limit or data.train_images, data.train_images):,} images of {data.name}"
    explained = f"{networks} {origin} {'was' if suite.references == 1 else 'were'} explained"
    return (
        f"{len(table.rows) - len(controls)} estimators and {len(controls)} controls were compared by "
        f"{protocol.gain or protocol.title} with roarbench, suite {fit_on_one_line(results.title, 300)}. "
        f"{explained}{seen}. {capitalize(protocol.method)}. Unit of features: {table.unit}. "
        f"Fill of removed features: {find_displayed_fill_name(table.fill)}; "
        f"levels t = {', '.join(f'{t:g}' for t in table.board.levels)}. "
        f"Controls: {', '.join(controls)}; they {table.control_inputs_text}. {table.caption}. "
        f"{write_all_notes(table, signs=False)}"
    )
