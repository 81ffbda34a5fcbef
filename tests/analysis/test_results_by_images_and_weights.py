"""What a store holds of a suite: whose rows, which images and which reference, and what else is told of."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from roarbench.analysis.load_results import ResultsQuery, load_from_open_store
from roarbench.analysis.results_by_images_and_weights import collect_results, collect_results_by_images_and_weights
from roarbench.cli.suggested_commands import describe_other_results
from roarbench.common.enums import ScoredNetwork, Unit
from roarbench.datasets.catalogue import PINNED
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.planned_runs import build_run, expand_points
from roarbench.plan.protocols import AUGMENTED, LERF, MORF, ROAR
from roarbench.plan.suite import Block
from roarbench.plan.suites import VERSIONS, add_estimators, set_explained_weights
from roarbench.report.status import make_status_record
from roarbench.store.image_set_sources import LOCAL, ImageSource
from roarbench.store.leases import Owner
from roarbench.store.results import ResultsStore
from roarbench.store.transfer import export_results, import_results
from tests.helpers.board_store import results
from tests.helpers.made_up import IMAGES, SUITE, answers, result, usual
from tests.helpers.made_up import held as complete
from tests.helpers.older_suites import OLDER
from tests.helpers.store_rows import lease
from tests.helpers.tables import rows_of, table_of

SMALL = replace(SUITE, blocks=(Block(ROAR, ("random", "grad"), (0.9,), seeds=2),))
POINTS = expand_points(SMALL)
OWN, OTHER = PINNED["planted"], "07e4" * 8
HUB = replace(SMALL, dataset="cifar10")  # whose fingerprint is not pinned
PHOTOS = ImageSource(OTHER, "planted", None, LOCAL, "/home/me/photos", "f11e5")
GENERATED = ImageSource(OTHER, "planted", None, "generated")
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def known(monkeypatch):
    """The suites of this file are of the table, which says what they explain by themselves."""
    monkeypatch.setitem(VERSIONS, ("made-up", 1), SMALL)


def rows(data=OWN, points=POINTS, suite=SMALL, limit=None, hour=0):
    """Rows as runs of a suite on these images would have left them."""
    for point in points:
        row = result(SMALL, point, answers(point, usual(point.cell)))
        own = replace(point, cell=replace(point.cell, dataset=suite.dataset))
        yield replace(row, run=build_run(suite, own, data, limit), created=NOON + timedelta(hours=hour))


def test_it_holds_the_rows_of_its_points_and_no_others(store):
    found = collect_results(SMALL, store)
    assert (found.results, found.data, found.complete) == ({}, "", False)
    assert {row.gain.value for row in found.make_board(ROAR, Unit.SCALAR).rows} == {None}
    *held, last = rows()
    store.add_results(held)
    for change in ({"recipe": "planted@2"}, {"estimator": "0ther"}, {"reference": "0ther"}):
        store.add_results([replace(last, run=replace(last.run, **change))])
    found = collect_results(SMALL, store)
    assert (found.results, found.complete) == (dict(zip(POINTS, held, strict=False)), False)
    store.add_results([last])
    assert collect_results(SMALL, store).complete


@pytest.mark.parametrize("name", ["random", CLEAN, "grad~blurred"])
def test_a_row_is_as_weak_as_what_it_is_held_against(store, tmp_path, name):
    """Imported rows of `random` with all bits set once made everything else better than it, verified."""
    suite = replace(SMALL, blocks=(Block(ROAR, ("random", "grad", "grad~blurred", "var-grad"), (0.9,), seeds=10),))
    theirs = [point for point in expand_points(suite) if point.cell.estimator == name]
    with ResultsStore.open(f"sqlite:///{tmp_path}/other.sqlite") as other:
        other.add_results(result(suite, point, np.ones(IMAGES, bool)) for point in theirs)
        export_results(other, tmp_path / "rows.parquet")
    store.add_results(row for point, row in complete(suite).results.items() if point not in theirs)
    assert not collect_results(suite, store).doubts
    import_results(store, tmp_path / "rows.parquet")
    found = collect_results(suite, store)
    weak = {*suite.estimators} if name != "grad~blurred" else {"grad", "grad~blurred"}
    table = table_of(found)
    assert {row.estimator for row in table.board.rows if table.format_row_signs(row.estimator)} == weak
    flagged = {name: row["flag"] for name, row in rows_of(table).items() if row["flag"]}
    assert flagged.keys() == found.doubts.keys() & {*suite.estimators} == weak
    assert ("Compared with random, self-reported: imp" in flagged["grad"]) == (name == "random")


ELSE = "this store also has: roarbench table --suite made-up "
ONLY = "this store has no results of made-up v1, but others: roarbench table --suite made-up "


@pytest.mark.parametrize(
    ("held", "notes", "asked", "data", "title", "said"),
    [
        # other images are never shown as the suite's own, however many results they have
        (
            [(OTHER, POINTS, 1), (OWN, POINTS[-1:], 0)], [PHOTOS], {}, OWN, f" (the suite's own images, {OWN[:8]})",
            ELSE + "--data 07e407e4 (images of photos, 07e407e4)",
        ),
        ([(OTHER, POINTS, 0)], [PHOTOS], {"data": OTHER}, OTHER, " (images of photos, 07e407e4)", ""),
        ([(OTHER, POINTS, 0)], [PHOTOS], {}, "", "", ONLY + "--data 07e407e4 (images of photos, 07e407e4)"),
        # a folder with the suite's own images is no other
        ([(OTHER, POINTS, 0)], [PHOTOS, GENERATED], {}, OTHER, "", ""),
        # of the suite's own source, as another decoder makes them: those whose results began last
        ([("01d", POINTS, 0), (OTHER, POINTS, 1)], [GENERATED, replace(GENERATED, data="01d")], {}, OTHER, None, None),
        ([("01d", POINTS, 0)], [], {}, "01d", " (images of unknown origin, 01d)", ""),
    ],
)  # fmt: skip
def test_images_that_are_shown_and_what_is_said_of_the_others(store, held, notes, asked, data, title, said):
    for name, points, hour in held:
        store.add_results(rows(name, points, hour=hour))
    found = collect_results(SMALL, store, sources=notes, **asked)
    counts = {name: len(points) for name, points, _ in held} | {"": 0}
    assert (found.data, len(found.results)) == (data, counts[data])
    assert title is None or found.title == f"made-up v1{title}"
    assert said is None or describe_other_results(found, "table") == said
    assert found.options == (("--data", data[:8]) if asked else ())


def test_where_no_fingerprint_is_pinned_one_of_unknown_origin_is_the_suites_own_and_of_two_none(store):
    store.add_results(rows("aaaa", suite=HUB))
    found = collect_results(HUB, store)
    assert (found.data, len(found.results), found.title) == ("aaaa", len(POINTS), "made-up v1")
    store.add_results(rows("bbbb", suite=HUB))
    found = collect_results(HUB, store)
    assert (found.data, found.results) == ("", {})
    assert [other.options for other in found.others] == [("--data", "aaaa"), ("--data", "bbbb")]
    one = collect_results(HUB, store, sources=[replace(PHOTOS, data="bbbb", dataset="cifar10")])
    assert (one.data, one.title) == ("aaaa", "made-up v1 (images of unknown origin, aaaa)")


def test_small_versions_are_kept_apart_and_told_of_only_where_nothing_is_held(store):
    store.add_results(rows("5ma11", limit=40))
    assert (
        describe_other_results(collect_results(SMALL, store), "table")
        == ONLY + "--max-images 40 (small version: 40 images per split)"
    )
    store.add_results(rows(points=POINTS[-2:]))
    whole, small = collect_results(SMALL, store), collect_results(SMALL, store, limit=40)
    assert (len(whole.results), whole.title, describe_other_results(whole, "table")) == (2, "made-up v1", "")
    assert (len(small.results), small.title) == (len(POINTS), "made-up v1 (small version: 40 images per split)")
    assert collect_results(SMALL, store, limit=50).results == {}
    asked = collect_results(SMALL, store, data="0ther")
    assert (asked.data, asked.results) == ("0ther", {})


def test_the_reference_is_the_suites_own_unless_another_is_asked_for(store):
    """Controls depend on no reference and stand beside every one."""
    explained = replace(SMALL, given="file@0a1b2c3d4e5f")
    store.add_results(rows(suite=explained))
    found = collect_results(SMALL, store)
    assert {point.cell.estimator for point in found.results} == {"none", "random"}
    assert found.title == "made-up v1 (reference trained by planted@1)"
    assert describe_other_results(found, "table") == ELSE + "--reference file@0a1b2c3d (reference file@0a1b2c3d)"
    other = collect_results(explained, store)
    assert (len(other.results), other.title) == (len(POINTS), "made-up v1 (reference file@0a1b2c3d)")
    store.add_results(rows())
    assert len(collect_results(SMALL, store).results) == len(collect_results(explained, store).results) == len(POINTS)
    assert (
        describe_other_results(collect_results(explained, store), "table") == ELSE + "(reference trained by planted@1)"
    )


def test_weights_are_together_that_explain_different_seeds(store):
    """Two that were given together; then one of them alone, too, after which nothing says that they were."""
    first, second = "file@0a1b", "file@2c3d"
    together = set_explained_weights(SMALL, f"{first},{second}")
    store.add_results(rows(suite=together))
    (found,) = collect_results_by_images_and_weights(SMALL, store)
    assert (found.suite.given, found.suite.references) == (f"{first},{second}", 2)
    assert found.title == "made-up v1 (references file@0a1b, file@2c3d)"
    assert found.options == ("--reference", first, "--reference", second)
    store.add_results(rows(suite=set_explained_weights(SMALL, second), hour=1))
    assert {found.suite.given for found in collect_results_by_images_and_weights(SMALL, store)} == {first, second}
    assert len(collect_results(together, store).results) == len(expand_points(together))


def test_all_that_a_store_holds_the_suites_own_first(store):
    explained = replace(SMALL, given="file@0a1b")
    store.add_results([*rows(OTHER, suite=explained), *rows(OTHER), *rows(hour=1), *rows("5ma11", limit=40)])
    found = collect_results_by_images_and_weights(SMALL, store, [PHOTOS])
    assert [(held.data, held.limit, held.suite.given) for held in found] == [
        (OWN, None, ""),
        (OTHER, None, ""),
        (OTHER, None, "file@0a1b"),
        ("5ma11", 40, ""),
    ]
    assert len({(held.limit, held.options) for held in found}) == len(found)


MINE = "mine@1a2b3c4d"


def mine(point):
    return point.cell.estimator.startswith(MINE)


def test_submissions_stand_under_the_protocols_that_have_something_of_them(store, tmp_path):
    """A result, a failure or a run under way; what it has not under these is missing, and nothing else."""
    first, second = OLDER["quick@1"], OLDER["quick@2"]
    rows = results(add_estimators(second, [MINE]), 20)
    store.add_results(results(first, 20).values())
    store.add_results(row for at, row in rows.items() if not mine(at) or at.cell.retrain is ScoredNetwork.COMMON)

    def standing():
        found = load_from_open_store(store, second, ResultsQuery(tmp_path))
        return found, {block.protocol for block in found.suite.blocks if MINE in block.estimators}

    before, (found, protocols) = load_from_open_store(store, first, ResultsQuery(tmp_path)), standing()
    assert before.suite == first and protocols == {AUGMENTED}
    assert [make_status_record(each, store)["missing"] for each in (before, found)] == [0, 0]
    assert len(found.results) == len(expand_points(found.suite))

    scored, kept, trained = (
        [at for at in rows if mine(at) and (at.cell.order, at.cell.retrain) == (kind.order, kind.retrain)]
        for kind in (MORF, LERF, ROAR)
    )
    leased, failed = (build_run(second, points[0], found.data, None) for points in (scored, kept))
    lease(store, [leased.key], Owner.of_this_process())
    assert standing()[1] == {AUGMENTED, MORF}
    store.failures.record_failed_runs([failed], "no")
    store.add_results([rows[trained[0]]])
    found, protocols = standing()
    assert protocols == {AUGMENTED, MORF, LERF, ROAR}
    counts = make_status_record(found, store)["protocols"]
    assert (counts["roar"]["missing"], counts["roar"]["failed"]) == (len(trained) - 1, 0)
    assert (counts["lerf"]["missing"], counts["lerf"]["failed"]) == (len(kept) - 1, 1)
