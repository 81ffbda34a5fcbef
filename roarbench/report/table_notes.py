"""Write the notes below a table: the scope of intervals, doubts about the whole table, and the meaning of signs."""

from collections import defaultdict
from itertools import product

from roarbench.analysis.faithfulness_scores import IMAGES
from roarbench.analysis.incomplete_results import write_unfinished_line
from roarbench.analysis.suite_results import AT_CHANCE
from roarbench.common.errors import Hint
from roarbench.common.text import SAME, format_count, list_some
from roarbench.estimators.catalogue import find_estimator, find_search
from roarbench.plan.suite import describe_missing_controls
from roarbench.plan.suites import make_suite_option_value
from roarbench.report.doubts import SELF_REPORTED, Shown, describe_doubts, has_unknown_passes
from roarbench.report.table import SuiteTable
from roarbench.stats.board_records import ONE_NETWORK, ONE_TRAINING, Board, IntervalScope
from roarbench.stats.intervals import CONFIDENCE
from roarbench.stats.own_network_gain import BESIDE_SEARCH, NO_SEARCH, OwnNetworkVerdict

NOTES_COMMAND, NOTES_METHOD = "table --notes", "result.notes()"  # the sources of all notes
PAGE = "docs/how-it-works.md"
_ONE_TRAINING = f"{ONE_TRAINING}: no intervals, no verdicts."
_NO_GAINS = "These networks see masks alone: there are no gains and no ranks."


def summarize_notes(table: SuiteTable, source: str = NOTES_COMMAND) -> list[str]:
    """Return the short notes below a table, one per line; the last names the `source` of all other notes."""
    board = table.board
    gain = f"{board.protocol.gain_meaning.partition('. ')[0].rstrip('.')}." if table.has_gains_and_ranks else _NO_GAINS
    if table.suite_results.at_chance_warning:
        intervals = f"{AT_CHANCE}."
    elif not table.images:
        intervals = ""  # one of the table's doubts gives the reason
    elif board.covers is IntervalScope.NOTHING:
        intervals = _ONE_TRAINING
    else:
        intervals = f"{_describe_interval_scope(board)}; {SAME}: not significant."
    signs = dict.fromkeys(sign for name in table.names for sign in table.format_row_signs(name).split())
    other = any(doubt.kind.shown is Shown.NOTE and not doubt.kind.always for doubt in table.doubts)
    if other or table.machines_text:
        signs["warnings"] = None
    more = f"{', '.join(signs)} and more are" if signs else "More is"
    fewer = _describe_fewer_scored_images(table)
    notes = (gain, intervals, note_if_self_reported(table), *list_table_doubts(table), fewer)
    return [*filter(None, notes), f"{more} explained by {source} and {PAGE}."]


def list_table_doubts(table: SuiteTable) -> list[str]:
    """Return doubts about the whole table and rows without a rank, one line each."""
    parts = (describe_missing_runs, _explain_no_scored_images, _describe_missing_controls, describe_search)
    return list(filter(None, (*(describe(table) for describe in parts), *_describe_doubts(table, always=True))))


def note_if_self_reported(table: SuiteTable) -> str:
    """Return a sentence saying that all rows with results were imported; empty for other tables."""
    imported = table.has_results and SELF_REPORTED in table.common_facts
    return "All rows are self-reported: imported, and not reproduced here." if imported else ""


def write_all_notes(table: SuiteTable, signs: bool = True) -> str:
    """Describe the intervals' scope, all doubts, and special rows and columns; `signs` or not."""
    results, names_by_reason = table.suite_results, defaultdict[str, list[str]](list)
    for name, reason in results.suite.left_out.items():
        names_by_reason[reason].append(name)
    left_out = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in names_by_reason.items())
    named = [row.estimator for row in table.board.rows if not find_estimator(row.estimator).control]
    ranked = (name for name in named if any(result.rankings for _, result in results.by_estimator.get(name, ())))
    unknown = [table.display_names[name] for name in ranked if name not in results.ties]  # which could be a doubt
    quantus = ""
    if table.metrics:
        columns = "; ".join(f"{metric.heading}: {metric.about}" for metric in table.metrics)
        quantus = (
            f"Scores from Quantus (first {IMAGES} test images at most), which do not affect gains and ranks: {columns}."
        )
    notes = (
        describe_missing_runs(table, signs),
        *_describe_doubts(table, always=True, signs=signs),
        _describe_intervals(table),
        _describe_missing_controls(table),
        describe_search(table),
        table.machines_text,
        note_if_self_reported(table),
        *_describe_doubts(table, always=False, signs=signs),
        f"Older versions did not count equal values in the maps of {list_some(unknown)}, so a (!) may be missing."
        if unknown and results.shares  # else ties were not requested
        else "",
        f"Left out: {left_out}." if left_out else "",
        quantus,
        _describe_fewer_scored_images(table),
        f"Hash of the runs: {table.runs_hash}." if table.board.images else "",
    )
    return " ".join(filter(None, notes))


def _describe_doubts(table: SuiteTable, always: bool, signs: bool = True) -> list[str]:
    noted = (doubt for doubt in table.doubts if doubt.kind.shown in (Shown.NAME, Shown.NOTE) and not doubt.fact)
    return describe_doubts((doubt for doubt in noted if doubt.kind.always is always), signs)


def describe_missing_runs(table: SuiteTable, signs: bool = True) -> str:
    """Return the number of missing runs of a table with results, and what they can change; else an empty string.

    The sentence names the sign ‡ of unfinished verdicts, unless verdicts are shown without signs.
    """
    missing = table.unfinished_text if table.has_results else ""
    judged = any(row.against or row.network for row in table.board.rows)  # by verdicts that another result can change
    return write_unfinished_line(missing, "verdicts" if judged else "numbers", signs and judged)


def _explain_no_scored_images(table: SuiteTable) -> str:
    """Explain why a table has no values: runs are missing, or the networks agree on no image; else empty."""
    if table.images:
        return ""
    if table.disagreement:
        return table.disagreement
    missing, planned, failed = map(sum, zip(table.runs.own, *table.runs.added.values(), strict=True))
    failures = f", {failed:,} failed" if failed else ""
    return f"{planned - missing:,} of {planned:,} runs are done{failures}; no row has a value yet."


def _describe_missing_controls(table: SuiteTable) -> str:
    """Report that a user's suite lacks usual controls, if rows are compared with controls."""
    missing = describe_missing_controls(table.suite_results.suite, table.board.protocol)
    return f"{missing}." if missing and any(row.beating for row in table.board.rows) else ""


def describe_search(table: SuiteTable) -> str:
    """Say whether verdicts on own-network gains compare with a blind search; empty for tables without such verdicts."""
    named = [(row, row.network) for row in table.rows if row.network and find_search(row.estimator) is None]
    tested = {row.estimator: test for row, test in named if test.verdict is not OwnNetworkVerdict.BY_CONSTRUCTION}
    if not tested:
        return ""
    if not any(test.search for test in tested.values()):
        return NO_SEARCH[table.board.protocol.order]
    short = [name for name, test in tested.items() if test.search and not test.search.long_enough]
    unknown = [table.display_names[row.estimator] for row in table.rows if has_unknown_passes(table, row)]
    longer = [called for name in short if (called := table.display_names[name]) not in unknown]
    too_short = f" No search has as many passes as {list_some(longer)}." if longer else ""
    if unknown:
        too_short += f" Rows of unknown passes are compared with the longest search: {list_some(unknown)}."
    return f"{BESIDE_SEARCH}{too_short}"


def suggest_diagnose(table: SuiteTable) -> Hint | None:
    """Return a hint to the command that explains the signs (!) and (!!); None if no row has such a sign."""
    signs = ", ".join(sorted({doubt.sign for doubt in table.doubts if doubt.sign.startswith("(")}))
    suite = make_suite_option_value(table.suite_results.suite)
    return Hint(f"{signs}: `{{}}` explains the doubts.", "diagnose", ("--suite", suite)) if signs else None


def _describe_fewer_scored_images(table: SuiteTable) -> str:
    """List scores that are means over fewer images than others, because metrics are undefined for some maps."""
    counts = table.suite_results.quantus_counts
    headings = {metric.id: metric.heading.partition(" ")[0] for metric in table.metrics}
    rows = [row.estimator for row in table.board.rows]
    most = max((counts.get((name, metric), 0) for name in rows for metric in headings), default=0)
    below = (at for at in product(rows, headings) if counts.get(at, most) < most)
    fewer = [f"{headings[metric]} of {name} {counts[name, metric]}" for name, metric in below]
    reason = "without constant maps and, for FC, constant outputs"
    return f"Images in each mean of Quantus: {most}, but {', '.join(fewer)} ({reason})." if fewer else ""


def _describe_intervals(table: SuiteTable) -> str:
    board, protocol = table.board, table.board.protocol
    if nothing := _explain_no_scored_images(table):
        return nothing
    if table.suite_results.at_chance_warning:
        return table.suite_results.at_chance_warning
    if board.covers is IntervalScope.NOTHING:
        return _ONE_TRAINING
    scope, meaning = _describe_interval_scope(board), protocol.gain_meaning
    if not table.has_gains_and_ranks:
        return f"{scope}. {_NO_GAINS}"
    if protocol.scores_all_network_pairs:
        return f"{meaning} {scope}; verdicts are adjusted for {_describe_family(board)}."
    notes = [f"{meaning} {scope}; place intervals hold jointly over the suite's rows."]
    if board.reference_freedom is not None:
        notes.append(
            f"The spread between {board.references} explained networks was estimated from "
            f"{format_count(board.reference_rows, 'row')} ({board.reference_freedom:.1f} degrees of freedom)."
        )
    notes.append(f"Verdicts of a column are adjusted for {_describe_family(board)}.")
    if added := ", ".join(row.estimator for row in board.rows if row.estimator in table.suite_results.suite.added):
        notes.append(f"Rows in brackets are judged as if each alone were added to the suite: {added}.")
    return " ".join(notes)


def _describe_family(board: Board) -> str:
    return f"the suite's {format_count(board.family, 'row')}, shown or not" if board.family else "no other row"


def _describe_interval_scope(board: Board) -> str:
    network = f", {ONE_NETWORK}" if board.one_network else ""
    return f"{CONFIDENCE:.0%} intervals over {board.covers}{network}"
