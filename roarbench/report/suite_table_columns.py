"""List the columns of one protocol's table of a suite, and its notes: each column is one entry of `list_columns`.

Accuracies are fractions as values and percentages as texts; gains are in points.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from roarbench.analysis.faithfulness_scores import compute_probability_drops
from roarbench.analysis.suite_judges import Grade
from roarbench.common.enums import OTHER_IMAGE
from roarbench.common.text import MISSING, SAME, format_half_width, format_interval, format_percent_number, format_rank
from roarbench.estimators.catalogue import find_estimator
from roarbench.report.doubts import Shown
from roarbench.report.table import CONTROLS, UNTRAINED, SuiteTable
from roarbench.report.table_notes import NOTES_COMMAND, NOTES_METHOD, summarize_notes, write_all_notes
from roarbench.report.table_record import (
    FAILED,
    WORTH_WRAPPING,
    Column,
    Table,
    format_signed_value,
    format_thousandths,
    make_column,
)
from roarbench.stats.board_records import RANDOM, Row
from roarbench.stats.intervals import CONFIDENCE, Estimate
from roarbench.stats.own_network_gain import FEWEST_PERMUTED, OwnNetworkVerdict
from roarbench.stats.probability_drop import ProbabilityDrop
from roarbench.stats.verdicts import Comparison, Verdict

_COMPARED_WITH_RANDOM = {Verdict.BETTER: "Random", Verdict.SAME: f"{SAME} Random", Verdict.WORSE: "< Random"}
_SHORT_ANSWERS = {  # to the question "does the map explain its network?"
    OwnNetworkVerdict.EXPLAINS: "yes",
    OwnNetworkVerdict.SEARCHED: "as a search",
    OwnNetworkVerdict.ABOVE_SHORTER: "above search",
    OwnNetworkVerdict.ABOVE_ZERO: "above 0",
    OwnNetworkVerdict.OPEN: "not shown",
    OwnNetworkVerdict.OPPOSES: "opposes it",
    OwnNetworkVerdict.BY_CONSTRUCTION: "",
}
_UNTESTED = (OwnNetworkVerdict.BY_CONSTRUCTION, OwnNetworkVerdict.CONTROL)  # missing runs cannot change these verdicts
_NETWORK_FIELDS = ("one_network", "references", "reference_deviation", "reference_rows", "reference_freedom")
_MISSING = Estimate()
_ABOUT_TWINS = "Δ: the row's gain minus the gain of its twin."
_ABOUT_PROBABILITY = (
    "p: mean probability of the class that is predicted on the untouched image; p_0: p on untouched images; "
    "AOPC: mean of p_0 - p over levels, with an interval over test images; change: mean of |p_0 - p| / p_0."
)
_ABOUT_CONTROLS = (
    f"Some controls should have gain 0. Better than {CONTROLS}: better than Random and than each of them that "
    f"differs significantly from 0, with a larger gain than the rest of them; {UNTRAINED}: also better than this twin."
)


def present_suite_table(table: SuiteTable, in_python: bool = False) -> Table:
    """Return a suite's table with its columns and notes; notes name where all notes are, `in_python` or not."""
    gains, board, results = table.has_gains_and_ranks, table.board, table.suite_results
    shared = {
        **results.identity,
        "levels": list(board.levels),
        "protocol": board.protocol.name,
        "unit": table.unit,
        "fill": table.fill,
        "images": table.images,
        "reference_accuracy": results.reference_accuracy,
        "complete": results.complete,
        "missing_runs": table.runs.own.missing,  # without those of rows added to the suite
        "planned_runs": table.runs.own.planned,
        "at_chance": bool(results.at_chance_warning),
        "confidence": CONFIDENCE,
        "intervals_cover": board.covers,
        **{name: getattr(board, name) for name in (*_NETWORK_FIELDS, "family")},
        "chance": results.known_chance,
        "hash": table.runs_hash,
    }
    compared = gains and not table.board.protocol.scores_all_network_pairs
    checks = [number for number, row in enumerate(table.rows) if row.check]
    places = [row.place for row in table.rows]
    # a rank and its interval have the keys of an estimate
    ranks = [Estimate(place.place, place.low, place.high) if place else _MISSING for place in places]
    return Table(
        f"{table.suite_results.title}: {table.board.protocol.title}",
        (make_column("place", ranks, "place" * gains, map(format_rank, places)), *list_columns(table)),
        notes=tuple(summarize_notes(table, NOTES_METHOD if in_python else NOTES_COMMAND)),
        all_notes=(f"{table.caption}.", write_all_notes(table)),
        shared=shared,
        shared_keys=("limit", "chance", "missing_runs", "planned_runs", "hash", "protocol"),
        flat_groups={"curve": "kept" if table.board.protocol.scores_all_network_pairs else "accuracy"},
        last_note=f"{SAME}: not significantly different." if compared else "",
        notes_after_columns=(_ABOUT_PROBABILITY,) if table.board.protocol.stores_predicted_probability else (),
        dim=frozenset(number for number, row in enumerate(table.rows) if gains and not row.find_place),
        sections=frozenset(checks[:1]) - {0},
    )


def list_columns(table: SuiteTable) -> list[Column]:
    """Return all columns of a table but its ranks.

    Mask-only networks have no gains, and their tables no texts about gains. A column without a heading has values
    alone, so that tables of all protocols have the same keys.
    """
    board, rows, columns, gains = table.board, table.rows, list[Column](), table.has_gains_and_ranks
    results, names = table.suite_results, table.names
    own, zero = board.protocol.scores_all_network_pairs, board.protocol.random_is_zero
    compared = gains and not own
    controls = max((len(row.beating.against) for row in rows if row.beating), default=0) if compared else 0

    def add(key: str, values: Iterable[Any], heading: str = "", texts: Iterable[str] = (), **more: Any) -> None:
        columns.append(make_column(key, values, heading, texts, **more))

    def show(heading: str, texts: Iterable[str], **more: Any) -> Column:
        return Column("", (), heading, tuple(texts), **more)

    def show_gain(row: Row, form: Callable[[Estimate], str] = format_interval) -> str:
        return FAILED if row.estimator in table.failed_rows else form(row.gain)

    def verdicts(of: Iterable[Comparison | None]) -> list[str]:
        each = zip(rows, of, strict=True)
        return [table.mark_verdict(one.verdict, row.estimator) if one else MISSING for row, one in each]

    def add_gains_by_level(name: str, worth: float) -> None:
        for i, t in enumerate(board.levels if zero or (gains and len(board.levels) > 1) else ()):
            by_level = [board.list_gains_by_level(row)[i].in_points for row in rows]
            texts = [format_signed_value(gain) for gain in by_level]
            other = (text * (not _is_zero_by_construction(row)) for text, row in zip(texts, rows, strict=True))
            beside = show(f"{name} at {t:g}", other, short=f"at\n{t:g}", worth=worth)
            add(f"gains{{}}/{t}", by_level, f"gain at {t:g}", texts, short=f"gain\nat {t:g}",
                worth=3 if zero else 1.95 + t / 100, beside=beside)  # fmt: skip

    parts = ((table.display_names[n], "(added)" * (n in results.suite.added), table.format_row_signs(n)) for n in names)
    add("estimator", names, "estimator", (" ".join(filter(None, each)) for each in parts), side="left")
    add("added", (name in results.suite.added for name in names))
    gain_values, narrow = [row.gain for row in rows], tuple(show_gain(row, format_half_width) for row in rows)
    if own:
        zero_text, is_zero = str(OwnNetworkVerdict.BY_CONSTRUCTION), _is_zero_by_construction
        beside = show("own-network gain", (zero_text if is_zero(row) else show_gain(row) for row in rows),
            short="own-network\ngain", narrow=tuple(
                zero_text.replace("by ", "by\n") if is_zero(row) else text
                for row, text in zip(rows, narrow, strict=True)))  # fmt: skip
        answers = show("explains?", (_format_network_verdict(table, row, _SHORT_ANSWERS) for row in rows), side="left")
        permutations = [row.network and row.network.permutation for row in rows]
        add("gain", gain_values, "gain [95%]", map(show_gain, rows), narrow=narrow, beside=beside)
        add_gains_by_level("own-network gain", WORTH_WRAPPING)
        add("verdict", (row.network and row.network.verdict for row in rows), "verdict",
            (_format_network_verdict(table, row) for row in rows), side="left", has_words=True,
            beside=answers)  # fmt: skip
        add("permutation_p", permutations, "permutation p" * (board.references >= FEWEST_PERMUTED),
            form=format_thousandths, short="perm. p", worth=4)  # fmt: skip
    else:
        beside = show("ROAR gain [95%]", map(show_gain, rows), short="ROAR\ngain [95%]", narrow=narrow)
        add("gain", gain_values, "gain [95%]" * gains, map(show_gain, rows), narrow=narrow, beside=beside)
        add_gains_by_level("ROAR gain", 1)
    add("beats_controls", (row.beating and row.beating.beats_all for row in rows),
        "beats every control" * bool(controls), (_format_beats_every_control(table, row) for row in rows),
        short=f"beats all {controls}", side="left", has_words=True,
        about=f"Beats all: yes, or the control that the row is not shown to beat; controls "
        f"{table.control_network_use_text}.")  # fmt: skip
    add("nearest_control", (row.beating and row.beating.hardest_control for row in rows), has_words=True)
    add("delta_nearest_control", (row.beating.margin_over_hardest if row.beating else _MISSING for row in rows))
    add("unfinished", map(table.runs.is_unfinished, names))  # missing runs can change the row's verdicts
    add("failed", (name in table.failed_rows for name in names))  # runs failed, and the row has no result
    add("better_than", (", ".join(table.list_beaten_control_groups(row)) or None for row in rows),
        "better than" * (compared and zero), (_format_strictest_passed_test(table, row) for row in rows),
        side="left", has_words=True, about=_ABOUT_CONTROLS)  # fmt: skip
    if not own:
        beside_random = verdicts(row.vs_random for row in rows)
        randoms = [  # with the signs of marks, which doubt ROAR's gain alone
            "control"
            if name == RANDOM
            else f"{text.replace(Verdict.SAME, SAME)} {table.format_row_signs(name, Shown.GAIN)}".rstrip()
            for name, text in zip(names, beside_random, strict=True)
        ]
        together = tuple(text.replace(" (", "\N{NO-BREAK SPACE}(") for text in randoms)
        beside = show("vs Random", randoms, side="left", short="vs\nRandom", narrow=together)
        add("verdict", (row.vs_random and row.vs_random.verdict for row in rows), "vs Random" * (compared and not zero),
            beside_random, short="vs\nRandom", side="left", has_words=True,
            beside=beside)  # fmt: skip
    for control, short, worth in (("sobel", "vs\nSobel", 4), ("random-blurred", "vs blurred\nrandom", 5)):
        comparisons = [row.against.get(control) for row in rows]
        has_row = control in results.suite.estimators_with_own_row
        add(f"verdict_{control.replace('-', '_')}", (one and one.verdict for one in comparisons),
            short.replace("\n", " ") * (compared and has_row), verdicts(comparisons), short=short, worth=worth,
            side="left", has_words=True)  # fmt: skip
    doubts = (table.list_doubts(name, Shown.NAME, Shown.GAIN) for name in names)
    add("flag", (" ".join(doubt.sentence for doubt in found) or None for found in doubts), has_words=True)
    grades = ([mark.grade for mark in table.marks.get(name, ()) if mark.grade] for name in names)
    add("grade", (max(found, key=list(Grade).index, default=None) for found in grades), has_words=True)
    for kind in dict.fromkeys(kind for row in board.rows for kind in row.delta_twins):
        other, comparisons = kind == OTHER_IMAGE, [row.get_twin_comparison(kind) for row in rows]
        add(f"delta_twins/{kind}", (row.delta_twins.get(kind, _MISSING) for row in rows),
            f"Δ {kind.replace('-', ' ')}", worth=3.1 if other else 3.3, about=_ABOUT_TWINS * compared)  # fmt: skip
        add(f"delta_twins/{kind}_verdict", (one and one.verdict for one in comparisons),
            "vs other image" * (other and compared), verdicts(comparisons), worth=3.2, side="left",
            has_words=True)  # fmt: skip
    add("seeds", (row.seeds for row in rows))
    add("prediction_stability", map(results.prediction_stability.get, names))
    passes = [results.find_passes(name) or (None, None) for name in names]
    add("forward_passes", (forward for forward, _ in passes))  # per image
    add("backward_passes", (backward for _, backward in passes))
    add("curve/0.0", (row.clean.value for row in rows))
    kept = "kept" if own else "accuracy"
    for i, t in enumerate(board.levels):  # a higher level is worth more
        add(f"curve/{t}", (row.accuracies[i].value for row in rows),
            f"{'predictions kept' if own else 'accuracy'} at {t:g}", form=format_percent_number,
            short=f"{kept}\nat {t:g}", worth=2 + t)  # fmt: skip
    for t in sorted({t for curve in table.above_masks.values() for t in curve}):  # none except under ROAR
        above = [table.above_masks.get(name, {}).get(t, _MISSING) for name in names]
        add(f"above_masks{{}}/{t}", above, f"above masks at {t:g}",
            (format_interval(one.in_points) for one in above), worth=1.7 + t / 10)  # fmt: skip
    if board.protocol.stores_predicted_probability:
        missing = (_MISSING,) * len(board.levels)
        no_drop = ProbabilityDrop(_MISSING, missing, missing, _MISSING)
        found = compute_probability_drops(results, board.protocol, table.unit, board.levels)
        drops = [found.get(name, no_drop) for name in names]
        add("aopc", (drop.aopc for drop in drops), "AOPC [95%]",
            (format_interval(drop.aopc, "{:.3f}".format) for drop in drops), worth=1.9)  # fmt: skip
        add("probability{}/0.0", (drop.untouched for drop in drops))
        for i, t in enumerate(board.levels):
            add(f"probability{{}}/{t}", (drop.probabilities[i] for drop in drops), f"p at {t:g}",
                form=format_thousandths, worth=1.5 + t / 10)  # fmt: skip
            add(f"relative_change{{}}/{t}", (drop.changes[i] for drop in drops), f"change at {t:g}",
                form=format_thousandths, worth=1.2 + t / 10)  # fmt: skip
    for metric in table.metrics:  # these columns need scores from `run --with quantus`
        scores = [results.quantus.get(name, {}).get(metric.id) for name in names]
        add(f"quantus/{metric.id}", scores, metric.heading, form=format_thousandths)
    return columns


def _is_zero_by_construction(row: Row) -> bool:
    return row.network is not None and row.network.verdict is OwnNetworkVerdict.BY_CONSTRUCTION


def _format_network_verdict(
    table: SuiteTable, row: Row, words: Mapping[OwnNetworkVerdict, str] = MappingProxyType({})
) -> str:
    """Return the row's own verdict, as `words` has it; missing runs cannot change some verdicts."""
    if row.network is None:
        return MISSING
    verdict = row.network.verdict
    text = words.get(verdict, verdict.value)
    return text if verdict in _UNTESTED else table.mark_verdict(text, row.estimator)


def _format_beats_every_control(table: SuiteTable, row: Row) -> str:
    if row.beating:
        return table.mark_verdict(row.beating.verdict_text, row.estimator)
    return "control" if find_estimator(row.estimator).has_control_verdict else MISSING


def _format_strictest_passed_test(table: SuiteTable, row: Row) -> str:
    """Return the strictest of the tests in `better than` that a row passes, otherwise its comparison with Random."""
    if find_estimator(row.estimator).has_control_verdict or row.vs_random is None:
        return MISSING
    *_, strictest = ("", *table.list_beaten_control_groups(row))
    return table.mark_verdict(strictest or _COMPARED_WITH_RANDOM[row.vs_random.verdict], row.estimator)
