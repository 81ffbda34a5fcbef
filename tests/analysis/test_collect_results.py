"""Results of a suite in a store: selected rows, images and explained networks, and the hint at other results."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from unittest.mock import Mock

import numpy as np
import pytest

from roarbench.analysis.collect_results import collect_results, collect_results_of_all_versions
from roarbench.analysis.incomplete_results import keep_most_shared_levels
from roarbench.analysis.load_results import load_from_open_store
from roarbench.analysis.result_versions import Version, Versions
from roarbench.analysis.suite_judges import judge_suite
from roarbench.cli.terminal import describe_other_results
from roarbench.common.enums import ScoredNetwork, Unit
from roarbench.datasets.catalogue import PINNED_FINGERPRINTS
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.planned_runs import build_run, list_planned_runs
from roarbench.plan.protocols import DIFFROAR, KAR, LERF, MASK_ONLY, MATCHED, MORF, OWN_NETWORK, ROAR
from roarbench.plan.settings import Settings
from roarbench.plan.suite import Block
from roarbench.plan.suite_changes import (
    add_estimators_with_twins,
    set_allowed_fill_and_unit,
    set_explained_weights,
)
from roarbench.plan.suites import SUITE_VERSIONS
from roarbench.report.status import format_lines_below_status_table, make_status_record
from roarbench.report.table import make_table as make_protocol_table
from roarbench.store import user_files
from roarbench.store.export_and_import import export_results, import_results
from roarbench.store.leases import Owner
from roarbench.store.results import ResultsStore
from roarbench.store.user_files import LOCAL, ImageSource, read_image_sources, store_image_sources
from tests.helpers.board_store import results
from tests.helpers.made_up_results import (
    IMAGES,
    SUITE,
    answers,
    choose_accuracy,
    make_suite_results,
    make_table,
    parse_rows,
    result,
)
from tests.helpers.older_suites import OLDER
from tests.helpers.store_rows import keep_rows, lease

SMALL = replace(SUITE, blocks=(Block(ROAR, ("random", "grad"), (0.9,), seeds=2),))
POINTS = list_planned_runs(SMALL)
OWN, OTHER = PINNED_FINGERPRINTS["planted"], "07e4" * 8
HUB = replace(SMALL, dataset="cifar10")  # a data set without a pinned fingerprint
PHOTOS = ImageSource(OTHER, "planted", None, LOCAL, "/home/me/photos", "f11e5")
MINE = ImageSource("aaaa", "cifar10", None, LOCAL, "/home/me/cifar", "f11e5")
GENERATED = ImageSource(OTHER, "planted", None, "generated")


@pytest.fixture(autouse=True)
def declare_suite(monkeypatch):
    """Add the suite of this file to the table of suites, which states its default explained network."""
    monkeypatch.setitem(SUITE_VERSIONS, ("made-up", 1), SMALL)


def make_rows(data=OWN, points=POINTS, suite=SMALL, limit=None, hour=0):
    """Yield rows that runs of a suite on these images would have stored."""
    for point in points:
        row = result(SMALL, point, answers(point, choose_accuracy(point.cell)))
        own = point._replace(cell=replace(point.cell, dataset=suite.dataset))
        yield replace(row, run=build_run(suite, own, data, limit), created=datetime(2024, 1, 1, hour, tzinfo=UTC))


def test_collect_results_returns_only_rows_of_suite_points(store):
    found = collect_results(SMALL, store)
    assert (found.results, found.data, found.complete) == ({}, "", False)
    assert {row.gain.value for row in judge_suite(found).make_board(ROAR, Unit.SCALAR).rows} == {None}
    *held, last = make_rows()
    store.add_results(held)
    for change in ({"recipe": "planted@2"}, {"estimator": "0ther"}, {"reference": "0ther"}):
        store.add_results([replace(last, run=replace(last.run, **change))])
    found = collect_results(SMALL, store)
    assert (found.results, found.complete) == (dict(zip(POINTS, held, strict=False)), False)
    store.add_results([last])
    assert collect_results(SMALL, store).complete


@pytest.mark.parametrize("name", ["random", CLEAN, "grad~blurred"])
def test_row_inherits_doubts_of_its_comparison_rows(store, tmp_path, name):
    """Regression: imported rows of `random` with all bits set made every other row better, and verified."""
    suite = replace(SMALL, blocks=(Block(ROAR, ("random", "grad", "grad~blurred", "var-grad"), (0.9,), seeds=10),))
    theirs = [point for point in list_planned_runs(suite) if point.cell.estimator == name]
    with ResultsStore.open(f"sqlite:///{tmp_path}/other.sqlite") as other:
        other.add_results(result(suite, point, np.ones(IMAGES, bool)) for point in theirs)
        export_results(other, tmp_path / "rows.parquet")
    store.add_results(row for point, row in make_suite_results(suite).results.items() if point not in theirs)
    assert not collect_results(suite, store).doubts
    import_results(store, tmp_path / "rows.parquet")
    found = collect_results(suite, store)
    weak = {*suite.estimators} if name != "grad~blurred" else {"grad", "grad~blurred"}
    table = make_table(found)
    assert {row.estimator for row in table.board.rows if table.format_row_signs(row.estimator)} == weak
    flagged = {name: row["flag"] for name, row in parse_rows(table).items() if row["flag"]}
    assert flagged.keys() == found.doubts.keys() & {*suite.estimators} == weak
    compared = {CLEAN: "untouched images"}.get(name, name)
    assert f"Compared with {compared}, self-reported: imp" in flagged["grad"]
    more = replace(suite, blocks=(*suite.blocks, Block(ROAR, ("sobel",), (0.9,), seeds=10)))
    assert "sobel" not in collect_results(more, store).doubts, "a row without results has no doubt"


@pytest.mark.parametrize(
    ("held", "notes", "asked", "data", "title", "options"),
    [
        # other images are never shown as the suite's own, however many results they have
        (
            [(OTHER, POINTS, 1), (OWN, POINTS[-1:], 0)], [PHOTOS], {}, OWN, f" (the suite's own images, {OWN[:8]})",
            [("--data", "07e407e4")],
        ),
        ([(OTHER, POINTS, 0)], [PHOTOS], {"data": OTHER}, OTHER, " (images of photos, 07e407e4)", []),
        ([(OTHER, POINTS, 0)], [PHOTOS], {}, "", "", [("--data", "07e407e4")]),
        # a folder with the suite's own images counts as the suite's own
        ([(OTHER, POINTS, 0)], [PHOTOS, GENERATED], {}, OTHER, "", []),
        # two decoders of the suite's own source: the images that were used last are selected
        ([("01d", POINTS, 1), (OTHER, POINTS, 0)], [replace(GENERATED, data="01d"), GENERATED], {}, OTHER, None, None),
        ([("01d", POINTS, 1), (OTHER, [], 0)], [replace(GENERATED, data="01d"), GENERATED], {}, "01d", None, None),
        ([("01d", POINTS, 0)], [], {}, "01d", " (images of unknown origin, 01d)", []),
    ],
)  # fmt: skip
def test_collect_results_selects_images_and_lists_other_results(store, held, notes, asked, data, title, options):
    for name, points, hour in held:
        store.add_results(make_rows(name, points, hour=hour))
    found = collect_results(SMALL, store, sources=notes, **asked)
    counts = {name: len(points) for name, points, _ in held} | {"": 0}
    assert (found.data, len(found.results)) == (data, counts[data])
    assert title is None or found.title == f"made-up v1{title}"
    assert options is None or [other.options for other in found.others] == options
    assert found.options == (("--data", data[:8]) if asked else ())


def test_versions_of_results_are_listed_oldest_first(store):
    for data, hour in (("bbbb", 2), ("aaaa", 3), ("cccc", 1)):  # an import stores older results later
        store.add_results(make_rows(data, POINTS[-1:], hour=hour))
    found = store.read_seeds_and_removals_by_version(SMALL.dataset, SMALL.model)
    assert [data for data, *_ in found] == ["cccc", "bbbb", "aaaa"]


def test_unpinned_suite_accepts_one_data_version_of_unknown_origin(store):
    store.add_results(make_rows("aaaa", suite=HUB))
    found = collect_results(HUB, store)
    assert (found.data, len(found.results), found.title) == ("aaaa", len(POINTS), "made-up v1")
    store.add_results(make_rows("bbbb", suite=HUB))
    found = collect_results(HUB, store)
    assert (found.data, found.results) == ("", {})
    assert [other.options for other in found.others] == [("--data", "aaaa"), ("--data", "bbbb")]


@pytest.mark.parametrize("hours", [1, -1])
def test_default_images_are_those_that_were_used_last(store, hours, monkeypatch):
    """Files were edited, and restored: tables showed the edited ones, which `run` no longer had."""
    restored, edited = (ImageSource(data, SMALL.dataset, None, "own") for data in (OWN, OTHER))
    for hour, source in enumerate((restored, edited)):
        store.add_results(make_rows(source.data, hour=hour))
        store_image_sources(store.database, [restored, source], source.data)
    assert collect_results(SMALL, store, sources=read_image_sources(store.database)).data == OTHER
    clock = Mock(wraps=datetime, now=lambda zone: datetime.now(zone) + timedelta(hours=hours))
    monkeypatch.setattr(user_files, "datetime", clock)
    store_image_sources(store.database, [restored, edited], OWN)
    assert read_image_sources(store.database) == [edited, restored]
    assert collect_results(SMALL, store, sources=read_image_sources(store.database)).data == OWN


@pytest.mark.parametrize(
    ("suite", "held", "imported", "decoded", "default"),
    [
        # an author's results, and a reviewer who decodes the same files
        (HUB, ["aaaa"], ["aaaa"], [], "aaaa"),
        (HUB, ["aaaa"], ["aaaa"], [MINE], "aaaa"),
        (HUB, ["aaaa"], ["aaaa"], [replace(MINE, data="bbbb")], "aaaa"),
        # the reviewer's own images, beside the imported results
        (HUB, ["aaaa", "bbbb"], ["aaaa"], [replace(MINE, data="bbbb")], "aaaa"),
        (HUB, ["aaaa", "bbbb"], ["aaaa"], [MINE, replace(MINE, data="bbbb")], "aaaa"),
        # results that were computed here on a user's images are not the suite's
        (HUB, ["aaaa"], [], [MINE], ""),
        # the author's store says that the images were a folder of the author
        (HUB, ["aaaa"], ["aaaa"], [replace(MINE, folder="photos")], ""),
        # two imports of images of unknown origin: neither is the default
        (HUB, ["aaaa", "bbbb"], ["aaaa", "bbbb"], [MINE], ""),
        # a pinned data set
        (SMALL, [OWN], [OWN], [replace(PHOTOS, data=OWN)], OWN),
        (SMALL, [OTHER, OWN], [OTHER, OWN], [PHOTOS], OWN),
        (SMALL, [OTHER], [], [PHOTOS], ""),
    ],
)
def test_default_images_of_a_catalogue_suite_do_not_depend_on_what_was_decoded(suite, held, imported, decoded, default):
    stored = tuple(Version(data, None, "") for data in held)
    versions = Versions(suite, stored, tuple(decoded), (), lambda: frozenset(imported))
    assert versions.find_default_data(None) == default
    # the title of a store's only results does not depend on the command that decoded the images either
    if len(held) == 1:
        assert versions.list_title_parts(stored[0]) == () or not default


def test_collect_results_separates_small_versions(store):
    store.add_results(make_rows("5ma11", limit=40))
    said = (
        "made-up v1, but others: roarbench table --suite made-up --max-images 40 (small version: 40 images per split)"
    )
    assert said in describe_other_results(collect_results(SMALL, store), "table")
    store.add_results(make_rows(points=POINTS[-2:]))
    whole, small = collect_results(SMALL, store), collect_results(SMALL, store, limit=40)
    assert (len(whole.results), whole.title, describe_other_results(whole, "table")) == (2, "made-up v1", "")
    assert (len(small.results), small.title) == (len(POINTS), "made-up v1 (small version: 40 images per split)")
    assert collect_results(SMALL, store, limit=50).results == {}


def test_collect_results_separates_explained_networks(store):
    """Controls depend on no explained network and appear beside each."""
    explained = replace(SMALL, given="file@0a1b2c3d4e5f")
    store.add_results(make_rows(suite=explained))
    found, other = collect_results(SMALL, store), collect_results(explained, store)
    assert {point.cell.estimator for point in found.results} == {"none", "random"}
    assert found.title == "made-up v1 (explained network trained by planted@1)"
    assert [each.options for each in found.others] == [("--reference", "file@0a1b2c3d")]
    assert (len(other.results), other.title) == (len(POINTS), "made-up v1 (explained network file@0a1b2c3d)")
    store.add_results(make_rows())
    assert len(collect_results(SMALL, store).results) == len(collect_results(explained, store).results) == len(POINTS)


def test_weights_of_different_seeds_form_one_result(store):
    """Two weights given together form one result, until one of them has results alone, too."""
    first, second = "file@0a1b", "file@2c3d"
    together = set_explained_weights(SMALL, f"{first},{second}")
    store.add_results(make_rows(suite=together))
    (found,) = collect_results_of_all_versions(SMALL, store)
    assert (found.suite.given, found.suite.references) == (f"{first},{second}", 2)
    assert found.title == "made-up v1 (explained networks file@0a1b, file@2c3d)"
    assert found.options == ("--reference", first, "--reference", second)
    store.add_results(make_rows(suite=set_explained_weights(SMALL, second), hour=1))
    assert {found.suite.given for found in collect_results_of_all_versions(SMALL, store)} == {first, second}
    assert len(collect_results(together, store).results) == len(list_planned_runs(together))


def test_collect_results_of_all_versions_lists_own_first(store):
    explained = replace(SMALL, given="file@0a1b")
    for rows in (make_rows(OTHER, suite=explained), make_rows(OTHER), make_rows(hour=1), make_rows("5ma11", limit=40)):
        store.add_results(rows)
    found = collect_results_of_all_versions(SMALL, store, [PHOTOS])
    order = [(OWN, None, ""), (OTHER, None, ""), (OTHER, None, "file@0a1b"), ("5ma11", 40, "")]
    assert [(held.data, held.limit, held.suite.given) for held in found] == order
    assert len({(held.limit, held.options) for held in found}) == len(found)


def test_results_of_options_fill_and_unit_are_other_versions(store):
    """Rows that only `table --fill` or `--unit` shows were on no page, and no command named them."""
    mean, linear = SMALL.blocks[0], replace(SMALL.blocks[0], fill="linear")
    changed = [set_allowed_fill_and_unit(SMALL, "linear"), set_allowed_fill_and_unit(SMALL, "", Unit.PIXEL)]
    options = [("--fill", "linear"), ("--unit", "pixel")]
    store.add_results(make_rows(points=list_planned_runs(changed[0])))
    assert "--fill linear (fill linear)" in describe_other_results(collect_results(SMALL, store), "table")
    store.add_results([*make_rows(), *make_rows(points=list_planned_runs(changed[1])[-1:])])
    assert [other.options for other in collect_results(SMALL, store).others] == options
    assert [other.options for other in collect_results(changed[0], store).others] == []
    found = collect_results_of_all_versions(SMALL, store)
    assert [each.suite.changes.options for each in found] == [(), *options]
    assert [each.title for each in found] == ["made-up v1", "made-up v1, fill linear", "made-up v1, unit pixel"]
    assert [len(each.results) for each in found] == [len(POINTS), len(POINTS), 3]  # with two on untouched images
    both = replace(SMALL, blocks=(mean, linear))  # the file names the second fill, which its tables do not show
    assert [other.options for other in collect_results(both, store).others] == options
    pixels = replace(SMALL, blocks=(mean, replace(mean, unit=Unit.PIXEL)))  # pages have a tab for each unit
    assert [other.options for other in collect_results(pixels, store).others] == options[:1]
    masks = replace(SMALL, blocks=(mean, Block(MASK_ONLY, ("grad",), (0.9,), seeds=2)))  # masks have no fill
    store.add_results(make_rows("5ma11", list_planned_runs(masks), limit=40))
    small = collect_results(masks, store, limit=40).others
    assert [(other.limit, other.options) for other in small] == [(None, ()), *((None, each) for each in options)]
    nothing = replace(SMALL, blocks=(Block(MATCHED, ("random", "grad"), (0.9,), seeds=2),))
    assert collect_results(nothing, store).others == ()


MINE = "mine@1a2b3c4d"


def test_submission_appears_under_protocols_with_its_runs(store, tmp_path):
    """A result, a failure or a lease is enough; missing runs count only under these protocols."""
    first, second = OLDER["quick@1"], OLDER["quick@2"]
    rows = results(add_estimators_with_twins(second, [MINE]), 20)
    mine = [at for at in rows if at.cell.estimator.startswith(MINE)]
    common = [at for at in mine if at.cell.retrain is ScoredNetwork.COMMON]
    store.add_results(results(first, 20).values())
    store.add_results(rows[at] for at in {*rows} - {*mine} | {*common})

    def standing():
        found = load_from_open_store(store, second, Settings(tmp_path))
        return found, {block.protocol for block in found.suite.blocks if MINE in block.estimators}

    before, (found, protocols) = load_from_open_store(store, first, Settings(tmp_path)), standing()
    assert before.suite == first and protocols == {MATCHED}
    assert [make_status_record(each, store)["missing"] for each in (before, found)] == [0, 0]
    assert len(found.results) == len(list_planned_runs(found.suite))

    scored, kept, trained = (
        [at for at in mine if (at.cell.order, at.cell.retrain) == (kind.order, kind.retrain)]
        for kind in (MORF, LERF, ROAR)
    )
    leased, failed = (build_run(second, points[0], found.data, None) for points in (scored, kept))
    lease(store, [leased.key], Owner.of_this_process())
    assert standing()[1] == {MATCHED, MORF}
    store.failures.record_runs_failed_until_retry([failed], "no")
    store.add_results([rows[trained[0]]])
    found, protocols = standing()
    assert protocols == {MATCHED, MORF, LERF, ROAR}
    record = make_status_record(found, store)
    counts, missing = record["protocols"], record["missing"]
    assert record["missing_of_added"] == {MINE: missing} and missing > 0, "the suite's own rows are complete"
    said = f"{missing} missing runs: added rows ({MINE}), which `run` completes only if it names them"
    assert format_lines_below_status_table(record, [])[0] == said
    assert (counts["roar"]["missing"], counts["roar"]["failed"]) == (len(trained) - 1, 0)
    assert (counts["lerf"]["missing"], counts["lerf"]["failed"]) == (len(kept) - 1, 1)


ROWS, LEVELS = ("random", "sobel", "grad", "var-grad", "ig"), (0.3, 0.5, 0.9)
BLOCKS = tuple(Block(protocol, ROWS, LEVELS, seeds=3) for protocol in (ROAR, KAR))
WHOLE = replace(SUITE, blocks=(*BLOCKS, Block(MASK_ONLY, ROWS, (0.9,), seeds=1)))


def keep(lacks):
    """Keep the common levels of results without the points where `lacks(estimator, level)` is true."""
    there = keep_rows(make_suite_results(WHOLE), lambda at: not (at.cell.t and lacks(at.cell.estimator, at.cell.t)))
    return keep_most_shared_levels(there)


@pytest.mark.parametrize(
    "lacks, levels, rows",
    [
        (lambda name, t: False, LEVELS, 5),
        (lambda name, t: t != 0.9, (0.9,), 5),
        (lambda name, t: t != 0.9 and name != "sobel", (0.9,), 5),  # a control alone has all levels
        (lambda name, t: t == 0.3 or (t, name) == (0.5, "ig"), (0.9,), 5),  # two rows have two levels, three have one
        (lambda name, t: (t, name) in ((0.3, "grad"), (0.5, "var-grad"), (0.5, "ig")), (0.9,), 5),  # no row's own set
        (lambda name, t: t == 0.3 or (t, name) == (0.9, "ig"), (0.5,), 5),
        (lambda name, t: t == 0.3, (0.5, 0.9), 5),  # with equal numbers of rows, the larger set of levels
        (lambda name, t: t == 0.3 and name == "random", (0.5, 0.9), 5),  # no gain exists at this level
        (lambda name, t: name not in ("random", "grad") and t != 0.9, LEVELS, 2),  # one estimator has all levels
        (lambda name, t: True, LEVELS, 0),
    ],
)
def test_board_compares_levels_shared_by_most_estimators(lacks, levels, rows):
    board = judge_suite(keep(lacks)).make_board(ROAR, Unit.SCALAR, ROWS)
    assert board.levels == levels
    assert sum(row.gain.value is not None for row in board.rows) == rows


def test_board_of_one_level_equals_board_of_one_level_suite():
    """The statistics are those of a complete board: gains, intervals, verdicts and the adjustment."""
    part = keep(lambda name, t: t != 0.9 or name == "var-grad")
    alone = replace(WHOLE, blocks=tuple(replace(block, levels=(0.9,)) for block in WHOLE.blocks))
    there = keep_rows(make_suite_results(alone), lambda point: point in part.results)
    expected = judge_suite(there).make_board(ROAR, Unit.SCALAR, ROWS)
    assert judge_suite(part).make_board(ROAR, Unit.SCALAR, ROWS) == expected
    assert {row.estimator for row in expected.rows if row.gain.value is None} == {"var-grad"}


def test_table_caption_names_excluded_levels():
    part = keep(lambda name, t: t == 0.5)
    for protocol, text in ((ROAR, "at 30 % and 90 %"), (DIFFROAR, "at 30 % and 90 %"), (MASK_ONLY, "")):
        table = make_protocol_table(part, protocol, ROWS)
        assert part.describe_included_levels(protocol, table.unit) == text
        assert ("levels 0.3, 0.9, without 0.5 of the suite;" in table.caption) is bool(text)


def test_own_network_gain_excludes_level_with_missing_run():
    suite = replace(SUITE, references=3, blocks=(Block(OWN_NETWORK, ("random", "grad", "ig"), LEVELS, seeds=1),))
    whole = make_suite_results(suite)
    cells = [at for at in whole.results if at.cell.retrain is ScoredNetwork.SIBLINGS]
    one_run = next(at for at in cells if (at.cell.estimator, at.cell.t) == ("ig", 0.5))
    lacking = {at for at in cells if at.cell.t == 0.9 or at == one_run}
    part = keep_most_shared_levels(keep_rows(whole, lambda point: point not in lacking))
    assert keep_most_shared_levels(whole).included_levels == {}
    assert part.list_included_levels(OWN_NETWORK, Unit.SCALAR) == (0.3,), "ig lacks one of nine runs at .5"
    board = judge_suite(part).make_board(OWN_NETWORK, Unit.SCALAR, ("grad", "ig"))
    assert board.levels == (0.3,) and all(row.gain.value is not None for row in board.rows)
