"""Which images and which reference are shown, what a title says of them, and what else is told of."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from rich.console import Console

from roarbench.analysis.collecting import collect, collect_all
from roarbench.cli.proposals import what_else
from roarbench.datasets.catalogue import PINNED
from roarbench.execution import local_workers, runner
from roarbench.plan.keys import bind
from roarbench.plan.points import expand
from roarbench.plan.suite import Block
from roarbench.plan.suites import VERSIONS, with_given
from roarbench.protocols.roar import ROAR
from roarbench.protocols.unretrained import MORF
from roarbench.store.image_notes import LOCAL, ImageNote
from roarbench.store.layout import Workspace
from roarbench.store.results import ResultsStore, default_url
from tests.helpers.made_up import SUITE, answers, result, usual
from tests.helpers.tiny_suite import InlineEngine

SMALL = replace(SUITE, blocks=(Block(ROAR, ("random", "grad"), (0.9,), seeds=2),))
POINTS = expand(SMALL)
OWN, OTHER = PINNED["planted"], "07e4" * 8
HUB = replace(SMALL, dataset="cifar10")  # whose fingerprint is not pinned
PHOTOS = ImageNote(OTHER, "planted", None, LOCAL, "/home/me/photos", "f11e5")
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def known(monkeypatch):
    """The suites of this file are of the table, which says what they explain by themselves."""
    monkeypatch.setitem(VERSIONS, ("made-up", 1), SMALL)


@pytest.fixture
def store(tmp_path) -> Iterator[ResultsStore]:
    with ResultsStore.open(default_url(tmp_path)) as store:
        yield store


def rows(data, points=POINTS, suite=SMALL, limit=None, hour=0):
    """Rows of a suite on these images."""
    for point in points:
        row = result(SMALL, point, answers(point, usual(point.cell)))
        own = replace(point, cell=replace(point.cell, dataset=suite.dataset))
        yield replace(row, run=bind(suite, own, data, limit), created=NOON + timedelta(hours=hour))


# --- images


def test_other_images_are_never_shown_as_the_suites_own_however_many_results_they_have(store):
    store.add_all(rows(OTHER, hour=1))
    store.add_all(rows(OWN, POINTS[:1]))
    found = collect(SMALL, store, notes=[PHOTOS])
    assert (found.data, len(found.results), found.asked) == (OWN, 1, ())
    assert found.title == f"made-up v1 (the suite's own images, {OWN[:8]})"
    assert what_else(found, "table") == (
        "this store also has: roarbench table --suite made-up --data 07e407e4 (images of photos, 07e407e4)"
    )


def test_images_that_are_asked_for_are_shown_and_named(store):
    store.add_all(rows(OTHER))
    found = collect(SMALL, store, data=OTHER, notes=[PHOTOS])
    assert (len(found.results), found.title) == (len(POINTS), "made-up v1 (images of photos, 07e407e4)")
    assert (found.asked, what_else(found, "table")) == (("--data", "07e407e4"), "")


def test_where_there_are_only_others_nothing_is_shown_and_a_line_says_how(store):
    store.add_all(rows(OTHER))
    found = collect(SMALL, store, notes=[PHOTOS])
    assert (found.data, found.results, found.title) == ("", {}, "made-up v1")
    call = "roarbench status --suite made-up --data 07e407e4 (images of photos, 07e407e4)"
    assert what_else(found, "status") == f"nothing of made-up v1 is in this store, but: {call}"


def test_images_of_the_suites_own_source_are_its_own_whatever_their_fingerprint(store):
    """Another decoder, or another generator, may make other pixels."""
    store.add_all(rows("01d", hour=0))
    store.add_all(rows("6ew", hour=1))
    notes = [ImageNote("6ew", "planted", None, "generated")]
    assert collect(SMALL, store, notes=notes).data == "6ew"
    both = [*notes, ImageNote("01d", "planted", None, "generated")]
    assert collect(SMALL, store, notes=both).data == "6ew"  # whose results began last


def test_a_folder_with_the_suites_own_images_is_no_other(store):
    store.add_all(rows(OTHER))
    notes = [PHOTOS, ImageNote(OTHER, "planted", None, "generated")]
    found = collect(SMALL, store, notes=notes)
    assert (found.data, found.title, found.asked) == (OTHER, "made-up v1", ())


def test_a_store_that_does_not_say_whose_its_images_are_reads_as_before(store):
    store.add_all(rows("01d", suite=HUB))
    found = collect(HUB, store)
    assert (found.data, len(found.results), found.title) == ("01d", len(POINTS), "made-up v1")


def test_images_of_unknown_origin_that_are_not_the_pinned_ones_are_named(store):
    store.add_all(rows("01d"))
    found = collect(SMALL, store)
    assert (found.data, found.title) == ("01d", "made-up v1 (images of unknown origin, 01d)")


def test_of_two_of_unknown_origin_none_is_chosen(store):
    store.add_all([*rows("aaaa", suite=HUB), *rows("bbbb", suite=HUB)])
    found = collect(HUB, store)
    assert (found.data, found.results) == ("", {})
    assert [other.asked for other in found.others] == [("--data", "aaaa"), ("--data", "bbbb")]
    one = collect(HUB, store, notes=[replace(PHOTOS, data="bbbb", dataset="cifar10")])
    assert (one.data, one.title) == ("aaaa", "made-up v1 (images of unknown origin, aaaa)")


def test_small_versions_are_told_of_only_where_nothing_is_held(store):
    store.add_all(rows(OWN, limit=40))
    found = collect(SMALL, store)
    assert what_else(found, "table") == (
        "nothing of made-up v1 is in this store, but: "
        "roarbench table --suite made-up --limit 40 (small version: 40 images a split)"
    )
    store.add_all(rows(OWN))
    assert what_else(collect(SMALL, store), "table") == ""


# --- references


def test_the_reference_is_the_suites_own_unless_another_is_asked_for(store):
    """Controls depend on no reference and stand beside every one."""
    given = "file@0a1b2c3d4e5f"
    explained = replace(SMALL, given=given)
    store.add_all(row for row in rows(OWN, suite=explained))
    found = collect(SMALL, store)
    assert {point.cell.estimator for point in found.results} == {"none", "random"}
    assert found.title == "made-up v1 (reference trained by planted@1)"
    call = "roarbench table --suite made-up --reference file@0a1b2c3d (reference file@0a1b2c3d)"
    assert what_else(found, "table") == f"this store also has: {call}"
    other = collect(explained, store)
    assert (len(other.results), other.title) == (len(POINTS), "made-up v1 (reference file@0a1b2c3d)")
    store.add_all(rows(OWN))
    assert len(collect(SMALL, store).results) == len(collect(explained, store).results) == len(POINTS)
    assert what_else(collect(explained, store), "table").endswith(
        "roarbench table --suite made-up (reference trained by planted@1)"
    )


def test_weights_are_together_that_explain_different_seeds(store):
    """Two that were given together; then one of them alone, too, after which nothing says that they were."""
    first, second = "file@0a1b", "file@2c3d"
    together = with_given(SMALL, f"{first},{second}")
    store.add_all(rows(OWN, suite=together))
    assert [found.suite.given for found in collect_all(SMALL, store)] == [f"{first},{second}"]
    (found,) = collect_all(SMALL, store)
    assert found.title == "made-up v1 (references file@0a1b, file@2c3d)"
    assert found.asked == ("--reference", first, "--reference", second)
    assert found.suite.references == 2
    store.add_all(rows(OWN, suite=with_given(SMALL, second), hour=1))
    assert {found.suite.given for found in collect_all(SMALL, store)} == {first, second}
    assert len(collect(together, store).results) == len(expand(together))


def test_all_that_a_store_holds_the_suites_own_first(store):
    explained = replace(SMALL, given="file@0a1b")
    store.add_all([*rows(OTHER, suite=explained), *rows(OTHER), *rows(OWN, hour=1), *rows("5ma11", limit=40)])
    found = collect_all(SMALL, store, [PHOTOS])
    assert [(held.data, held.limit, held.suite.given) for held in found] == [
        (OWN, None, ""),
        (OTHER, None, ""),
        (OTHER, None, "file@0a1b"),
        ("5ma11", 40, ""),
    ]
    assert len({held.title for held in found}) == len(found)
    assert len({(held.limit, held.asked) for held in found}) == len(found)


@pytest.mark.slow
def test_a_run_tells_how_good_its_reference_is_under_the_title_that_it_has(store, tmp_path, monkeypatch):
    monkeypatch.setattr(local_workers, "LocalEngine", InlineEngine)
    scored = replace(SMALL, blocks=(Block(MORF, ("random",), (0.5,), seeds=1),))
    store.add_all(rows(OTHER, expand(scored), limit=8))
    console = Console(file=StringIO(), width=300)
    runner.run_suite(runner.Request(scored, limit=8), Workspace(tmp_path), store, console)
    (told,) = (line for line in console.file.getvalue().splitlines() if "% correct" in line)
    assert told.startswith("made-up v1 (small version: 8 images a split) (the suite's own images, ")


# --- notes


def test_notes_are_kept_once_and_in_their_order(store):
    small = replace(PHOTOS, data="5ma11", limit=40)
    store.images.add([PHOTOS])
    store.images.add([PHOTOS, small])
    assert store.images.all() == [PHOTOS, small]
