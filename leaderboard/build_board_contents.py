"""Build the contents of a board from a table of a suite."""

from collections.abc import Collection

from leaderboard.board_contents import (
    BEATS,
    BELOW,
    OPEN,
    BoardContents,
    BoardRow,
    classify_verdict,
    find_kinds,
    make_gain_axis,
)
from leaderboard.headline import add_missing_runs_to_headline, write_beats_controls_headline, write_own_network_headline
from leaderboard.text_helpers import format_day, make_slug, shorten_line
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.text import TABLE_WORDS, capitalize, format_count
from roarbench.estimators.catalogue import find_display_name, find_estimator_or_placeholder
from roarbench.plan.protocols import ROAR
from roarbench.report.suite_table_columns import list_columns
from roarbench.report.table import SuiteTable
from roarbench.report.table_record import list_texts_beside_gain
from roarbench.stats.board_records import RANDOM, Row
from roarbench.stats.intervals import Estimate


def make_board_contents(table: SuiteTable) -> BoardContents:
    """Build a board of a suite from the table that the board shows."""
    board, protocol, results = table.board, table.board.protocol, table.suite_results
    more = list_texts_beside_gain(list_columns(table))
    rows = tuple(_make_row(table, row, more.get(row.estimator, ())) for row in table.rows)
    controls = [
        row for row in rows if find_estimator_or_placeholder(row.id).is_control_to_beat and row.value.value is not None
    ]
    explained = write_own_network_headline(rows, protocol)
    headline = explained or write_beats_controls_headline(rows, protocol, board.one_network)
    measure = capitalize(protocol.gain_name) if table.has_gains_and_ranks else "Masks alone"
    return BoardContents(
        slug=make_slug(results),
        title=results.title,
        protocol=protocol,
        levels=board.levels,
        headline=add_missing_runs_to_headline(headline, table.unfinished_text),
        facts=list_facts(table, table.names, f"{measure}, {protocol.describe_removal(board.levels)}", board.images),
        included_levels_text=results.describe_included_levels(protocol, table.unit),
        value_label=protocol.gain_axis if table.has_gains_and_ranks else f"accuracy at t = {board.levels[-1]:g}, %",
        rows=rows,
        best_control=controls[0]
        if controls and table.has_gains_and_ranks and not protocol.scores_all_network_pairs
        else None,
        axis=make_gain_axis(row.value for row in rows),
        has_gains=table.has_gains_and_ranks,
    )


def _make_row(table: SuiteTable, row: Row, more: tuple[str, ...]) -> BoardRow:
    name, protocol, results = row.estimator, table.board.protocol, table.suite_results
    estimator, passes = find_estimator_or_placeholder(name), results.find_passes(name)
    control = estimator.has_control_verdict
    value = row.gain if table.has_gains_and_ranks else row.accuracies[-1].in_points
    unfinished, kind = table.runs.is_unfinished(name), classify_verdict(table.find_verdict(row), protocol, control)
    verdict = str(row.network.verdict) if row.network else find_kinds(protocol)[kind]
    return BoardRow(
        name,
        *find_display_name(name),
        about=describe_estimator(results, name),
        control=control,
        find_place=row.find_place,
        # Random beside itself has no interval under ROAR
        value=Estimate(value.value) if protocol == ROAR and name == RANDOM else value,
        beating=row.beating,
        doubts=tuple(doubt.typeset() for doubt in table.list_doubts(name) if not doubt.fact),
        network=row.network,
        verdict_class=kind,
        # controls have no verdict that missing runs can change, but under ROAR
        verdict_text=f"{verdict}{', unfinished' * (unfinished and kind in (BEATS, OPEN, BELOW))}",
        passes=None if passes is None else sum(passes),
        truth=estimator.uses_ground_truth,
        added=name in results.suite.added,
        started=bool(row.seeds) or name in table.estimators_with_results,
        unfinished=unfinished,
        more=more,
    )


def list_facts(table: SuiteTable, names: Collection[str], measure: str, images: int) -> tuple[str, ...]:
    """Return facts about a table: protocol, data, networks, images, rows, date and origin."""
    results, board, suite = table.suite_results, table.board, table.suite_results.suite
    record = suite.dataset_record
    controls = [name for name in names if find_estimator_or_placeholder(name).has_control_verdict]
    truths = [name for name in names if find_estimator_or_placeholder(name).uses_ground_truth]
    added = [name for name in names if name in suite.added and name not in (*controls, *truths)]
    kind = "submission" if all(find_estimator_or_placeholder(name).submitted for name in added) else "added row"
    estimators = len(names) - len(controls) - len(truths) - len(added)
    counts = (estimators, "estimator"), (len(added), kind), (len(controls), "control"), (len(truths), "known ranking")
    newest = max((result.created for result in results.results.values()), default=None)
    facts = (
        measure,
        f"{shorten_line(suite.dataset)}: {TABLE_WORDS}"
        if record.tabular
        else f"{shorten_line(suite.dataset)}, {record.size} px",
        format_count(board.references, f"{shorten_line(suite.architecture_names)} network")
        if board.references
        else shorten_line(suite.architecture_names),
        format_count(images, "test image"),
        ", ".join(format_count(n, noun) for n, noun in counts if n),
        format_day(newest) if newest else "",
        f"unfinished: {table.runs.own.text}" if table.runs.own.missing and table.has_results else "",
        *table.common_facts,
    )
    return tuple(filter(None, facts))


def describe_estimator(suite_results: SuiteResults, name: str) -> str:
    """Describe an estimator in a sentence; for a submission, the sentence is its author's."""
    submission, row = suite_results.submissions.get(name), find_estimator_or_placeholder(name)
    own_about = submission.description if submission and not row.twin else row.about
    return capitalize(shorten_line(own_about))
