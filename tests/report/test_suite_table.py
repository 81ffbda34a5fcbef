"""Tables of a suite's results: DiffROAR, mask-only, hashes, and doubts on rows."""

from dataclasses import replace

import numpy as np
import pytest

from roarbench.analysis.collect_results import add_facts_of_store_folder, collect_results
from roarbench.analysis.suite_judges import judge_suite
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.enums import Order, ScoredNetwork, Unit
from roarbench.common.errors import CallerError
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.protocols import KAR, MATCHED, ROAR, find_protocol
from roarbench.plan.suite import Block
from roarbench.report.doubts import Shown
from roarbench.report.suite_charts import make_chart
from roarbench.report.table import make_suite_table
from roarbench.report.table_notes import summarize_notes, write_all_notes
from roarbench.report.validity_panel import list_lines_below_panel
from roarbench.store.annotations_and_scores import AnnotationKind, replace_validation_findings
from roarbench.store.export_and_import import export_results, import_results
from roarbench.store.results import ResultsStore, make_default_url
from roarbench.store.run_result import Provenance
from roarbench.store.user_files import store_submission
from roarbench.submissions.limits_and_faults import ValidationFinding
from roarbench.submissions.submission_file import parse_submission
from tests.helpers.made_up_results import (
    DATA,
    IMAGES,
    LEVELS,
    MAIN,
    SUITE,
    make_suite_results,
    make_table,
    parse_rows,
    render_words,
    result,
)
from tests.helpers.shown_tables import render
from tests.helpers.store_rows import remove_rows, set_correctness

BOTH = replace(SUITE, blocks=tuple(Block(protocol, MAIN, LEVELS, seeds=3) for protocol in (ROAR, KAR)))


@pytest.fixture(scope="module")
def both():
    return make_suite_results(BOTH)


@pytest.fixture(scope="module")
def whole():
    return make_suite_results()


def test_diffroar_gain_equals_kar_minus_roar(both):
    """Two seeds of four images: KAR 1100 and 1110, ROAR 0101 and 1000 have differences 2 - 2 and 3 - 1 of 4."""
    # DiffROAR of these results is twice this times t, plus noise
    falls = {"sobel": 0.1, "grad": -0.1, "var-grad": 0.2, "random": 0.0}
    for name, row in parse_rows(make_table(both, "diffroar")).items():
        assert [row["gains"][str(t)] for t in LEVELS] == pytest.approx([200 * falls[name] * t for t in LEVELS], abs=1.5)
        assert row["verdict"] == (None if name == "random" else "better" if falls[name] > 0 else "worse")
    suite = replace(SUITE, blocks=tuple(Block(protocol, ("grad",), (0.5,), seeds=2) for protocol in (ROAR, KAR)))
    bits = {(Order.LERF, 0): "1100", (Order.LERF, 1): "1110", (Order.MORF, 0): "0101", (Order.MORF, 1): "1000"}
    made = make_suite_results(suite).results
    for point in made:
        text = bits[point.cell.order, point.seed] if point.cell.estimator == "grad" else "1111"
        made[point] = result(suite, point, np.array([bit == "1" for bit in text * (IMAGES // 4)]))
    row = parse_rows(make_table(SuiteResults(suite, DATA, None, made), "diffroar"))["grad"]
    assert (row["gains"], row["gain"]) == ({"0.5": 25.0}, 12.5)
    assert row["curve"] == {"0.0": 1.0, "0.5": 0.625}  # accuracies of KAR


def test_table_without_row_describes_no_intervals(both):
    """ROAR is complete; of KAR only the networks on untouched images, which both share, are stored."""
    kar = make_table(remove_rows(both, order=Order.LERF), "kar")
    done = sum(point.cell.estimator == CLEAN for point in both.results)
    planned = done + sum(point.cell.order is Order.LERF for point in both.results)
    for notes in (" ".join(summarize_notes(kar)), write_all_notes(kar)):
        assert f"{done} of {planned} runs are done; no row has a value yet." in notes
        assert not any(words in notes for words in ("One training", "95% intervals", "(!"))
    missing = [point for point in both.results if point not in kar.suite_results.results]
    failed = make_table(replace(kar.suite_results, failed=dict.fromkeys(missing[:2], "out of memory")), "kar")
    said = f"{done} of {planned} runs are done, 2 failed; no row has a value yet."
    assert said in " ".join(summarize_notes(failed)) and len(failed.failed_rows) == 1


def test_diffroar_requires_results_of_both_orders(both, whole):
    lacking = remove_rows(both, estimator="grad", t=0.9, order=Order.MORF)
    found = parse_rows(make_table(lacking, "diffroar"))
    assert (found["grad"]["gain"], found["grad"]["gains"]["0.9"], found["grad"]["place"]) == (None, None, None)
    assert found["sobel"]["gain"] is not None
    drawn = make_chart(make_table(both, "diffroar"))
    assert (drawn.y_label, drawn.curves[0].points[0.0].value) == ("DiffROAR, points", 0.0)
    with pytest.raises(CallerError, match=r"has no diffroar \(made of kar and roar at one level\) with unit pixel"):
        make_suite_table(whole, "diffroar", Unit.PIXEL, None)
    with pytest.raises(CallerError, match="computed from the results of kar and roar and has no runs"):
        find_protocol("diffroar")


def test_mask_only_table_has_accuracies_without_gains_or_ranks(whole):
    table = make_table(whole, "mask-only")
    rows = parse_rows(table).values()
    unknown = ("place", "place_low", "place_high", "verdict", "verdict_sobel", "verdict_random_blurred", "gain")
    assert {row[key] for row in rows for key in unknown} == {None}
    assert [row["curve"]["0.9"] is not None for row in rows] == [True] * len(MAIN)
    assert render(table, "markdown").splitlines()[2] == "| estimator | accuracy at 0.3 | accuracy at 0.9 |"
    assert "untouched" not in table.caption and "gain against" not in write_all_notes(table)


def test_table_hash_depends_only_on_its_correctness_bits(whole):
    def hashes(results):
        return [make_table(replace(whole, results=results), name).runs_hash for name in ("roar", "kar")]

    def flipped(retrain):
        point = next(at for at in whole.results if at.cell.retrain is retrain and at.cell.estimator == "grad")
        row = whole.results[point]
        return whole.results | {point: set_correctness(row, row.correctness ^ (np.arange(row.total) == 7))}

    before = hashes(whole.results)
    assert before == hashes(dict(reversed(whole.results.items()))) and before[0] != before[1]
    assert not set(before) & set(hashes(flipped(ScoredNetwork.IMAGES)))
    assert before == hashes(flipped(ScoredNetwork.NONE))
    # the headline protocol and the accuracies of explained networks depend on what else a store holds
    assert hashes(remove_rows(whole, retrain=ScoredNetwork.NONE).results) == before
    scored = replace(whole, references={0: next(iter(whole.results.values()))})
    assert make_table(scored, "roar").runs_hash == before[0]
    table = make_table(whole, "roar")
    assert all(before[0] in text for text in (render(table, "csv"), render_words(table)))


def test_table_notes_name_rows_from_different_machines(whole):
    epyc, card = {"device": "cpu", "precision": "float32", "cpu": "EPYC"}, {"device": "H200", "precision": "bf16"}

    def made_but(*where):
        """Make ROAR's table where the runs of this estimator, or one of them by its seed, were computed on a GPU."""
        rows = {}
        for at, row in whole.results.items():
            is_other = (at.cell.estimator, at.seed)[: len(where)] == where
            versions = {"torch": "2.11.0" if is_other else "2.13.0"}
            provenance = Provenance("0", versions, card if is_other else epyc)
            # every curve includes the untouched images
            is_unknown = len(where) == 1 and at.cell.estimator == CLEAN
            rows[at] = replace(row, provenance=Provenance("0", {}, {}) if is_unknown else provenance)
        return make_table(replace(whole, results=rows), "roar", ("random", "grad", "var-grad"))

    said = "Different machines or versions computed the runs of one row (grad): device H200 or cpu; precision bf16 or "
    assert said in write_all_notes(made_but("grad", 1))
    notes = write_all_notes(made_but("grad"))
    assert "versions computed these rows: device H200 or cpu; " in notes and "; torch 2.11.0 or 2.13.0." in notes
    every = made_but(CLEAN, 0)
    assert "(random, grad, var-grad): device" in write_all_notes(every)
    assert "machines" not in write_all_notes(made_but("sobel", 0))  # Sobel has no row in this table


ENTRY = parse_submission(
    b"NAME = 'edges'\nDESCRIPTION = 'x'\ndef estimate(model, images, targets, generator): return images.abs()\n"
)
NETWORK = (
    "Validation found: two networks with other weights than the suite's have the same map; "
    "two classes have the same map"
)
IMPORTED = "elf-reported: imported, and not reproduced here"
NOISE = "fewer than 80%"


def test_rows_of_versions_that_counted_no_ties_are_named(tmp_path, store):
    """Their maps may be mostly of one value, and no doubt would say so."""
    made = make_suite_results(replace(SUITE, blocks=(Block(ROAR, MAIN, LEVELS, seeds=2),))).results
    ranked = (replace(row, rankings=p.cell.estimator) for p, row in made.items() if p.cell.estimator in (*MAIN, CLEAN))
    notes = {f"{AnnotationKind.TIES} {name}": 0.1 for name in MAIN if name != "grad"}
    store.add_results(ranked, annotations=notes)

    def write_notes(results):
        return write_all_notes(make_table(results, ROAR.name))

    loaded = collect_results(SUITE, store, data=DATA)
    unknown = "Older versions did not count equal values in the maps of grad, so a (!) may be missing."
    assert unknown in write_notes(add_facts_of_store_folder(loaded, tmp_path))
    store.add_results(list(made.values())[:1], annotations={f"{AnnotationKind.TIES} grad": 0.0})
    whole = add_facts_of_store_folder(collect_results(SUITE, store, data=DATA), tmp_path)
    assert "Older versions" not in write_notes(whole)
    assert "Older versions" not in write_notes(replace(whole, shares={}, ties={})), "nobody asked"


@pytest.mark.parametrize("protocol", [ROAR, MATCHED])
def test_row_doubts_appear_under_every_protocol_in_every_format(tmp_path, protocol):
    """Doubts on a submission that ignores the network appear in its own store and after import."""
    suite = replace(SUITE, blocks=(Block(protocol, (*MAIN, ENTRY.id), LEVELS, seeds=2),))

    def seen(store):
        return add_facts_of_store_folder(collect_results(suite, store, data=DATA), tmp_path)

    with (
        ResultsStore.open(make_default_url(tmp_path / "a")) as here,
        ResultsStore.open(make_default_url(tmp_path / "b")) as there,
    ):
        made = make_suite_results(suite).results
        here.add_results(
            replace(row, rankings="var-grad" * (p.cell.estimator == "var-grad")) for p, row in made.items()
        )
        store_submission(here.database, ENTRY)
        replace_validation_findings(here.database, ENTRY.id, [ValidationFinding.CONSTANT])
        replace_validation_findings(here.database, ENTRY.id, [ValidationFinding.NETWORK, ValidationFinding.CLASS])
        export_results(here, tmp_path / "told.parquet", {"kept var-grad": 0.5, "ties var-grad": 0.75})
        import_results(there, tmp_path / "told.parquet")
        (found,) = make_table(seen(here), protocol.name).list_doubts(ENTRY.id, Shown.NAME)
        assert (found.sentence, found.sign) == (f"{NETWORK}.", "(!!)")
        shown = seen(there)
    table = make_table(shown, protocol.name)
    for style, dagger in (("markdown", "†"), ("csv", NOISE), ("json", NOISE)):
        text = " ".join(render(table, style, notes=True).split())
        assert dagger in text and IMPORTED in text and "two networks with other weights" in text, style
    flags = {name: row["flag"] for name, row in parse_rows(table).items()}
    assert NETWORK in flags[ENTRY.id] and NOISE in flags["var-grad"] and NOISE not in flags["grad"]
    assert "75% of the features in its maps have the same value" in flags["var-grad"]
    assert all(IMPORTED in flag for flag in flags.values())
    assert f"(!!) {ENTRY.id}: {NETWORK}." in list_lines_below_panel(judge_suite(shown))
    said = write_all_notes(table, signs=False)  # rows of the board have no sign
    assert "var-grad 50%" in said and "†" not in said
