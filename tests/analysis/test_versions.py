"""Which images and which reference are shown, what a title says of them, and what else is told of."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from roarbench.analysis.collecting import collect, collect_all
from roarbench.cli.proposals import what_else
from roarbench.datasets.catalogue import PINNED
from roarbench.plan.keys import bind
from roarbench.plan.points import expand
from roarbench.plan.suite import Block
from roarbench.plan.suites import VERSIONS, with_given
from roarbench.protocols.roar import ROAR
from roarbench.store.image_notes import LOCAL, ImageNote
from tests.helpers.made_up import SUITE, answers, result, usual

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


def rows(data, points=POINTS, suite=SMALL, limit=None, hour=0):
    """Rows of a suite on these images."""
    for point in points:
        row = result(SMALL, point, answers(point, usual(point.cell)))
        own = replace(point, cell=replace(point.cell, dataset=suite.dataset))
        yield replace(row, run=bind(suite, own, data, limit), created=NOON + timedelta(hours=hour))


GENERATED = ImageNote(OTHER, "planted", None, "generated")
ELSE = "this store also has: roarbench table --suite made-up "
ONLY = "nothing of made-up v1 is in this store, but: roarbench table --suite made-up "


@pytest.mark.parametrize(
    ("held", "notes", "asked", "data", "title", "said"),
    [
        # other images are never shown as the suite's own, however many results they have
        (
            [(OTHER, POINTS, 1), (OWN, POINTS[:1], 0)], [PHOTOS], {}, OWN, f" (the suite's own images, {OWN[:8]})",
            ELSE + "--data 07e407e4 (images of photos, 07e407e4)",
        ),
        ([(OTHER, POINTS, 0)], [PHOTOS], {"data": OTHER}, OTHER, " (images of photos, 07e407e4)", ""),
        ([(OTHER, POINTS, 0)], [PHOTOS], {}, "", "", ONLY + "--data 07e407e4 (images of photos, 07e407e4)"),
        # a folder with the suite's own images is no other
        ([(OTHER, POINTS, 0)], [PHOTOS, GENERATED], {}, OTHER, "", ""),
        # of the suite's own source, as another decoder makes them: those whose results began last
        ([("01d", POINTS, 0), (OTHER, POINTS, 1)], [GENERATED, replace(GENERATED, data="01d")], {}, OTHER, None, None),
        ([("01d", POINTS, 1), (OTHER, POINTS, 0)], [GENERATED], {}, OTHER, None, None),
        ([("01d", POINTS, 0)], [], {}, "01d", " (images of unknown origin, 01d)", ""),
    ],
)  # fmt: skip
def test_images_that_are_shown_and_what_is_said_of_the_others(store, held, notes, asked, data, title, said):
    for name, points, hour in held:
        store.add_all(rows(name, points, hour=hour))
    found = collect(SMALL, store, notes=notes, **asked)
    counts = {name: len(points) for name, points, _ in held} | {"": 0}
    assert (found.data, len(found.results)) == (data, counts[data])
    assert title is None or found.title == f"made-up v1{title}"
    assert said is None or what_else(found, "table") == said
    assert found.asked == (("--data", data[:8]) if asked else ())


def test_where_no_fingerprint_is_pinned_one_of_unknown_origin_is_the_suites_own_and_of_two_none(store):
    store.add_all(rows("aaaa", suite=HUB))
    found = collect(HUB, store)
    assert (found.data, len(found.results), found.title) == ("aaaa", len(POINTS), "made-up v1")
    store.add_all(rows("bbbb", suite=HUB))
    found = collect(HUB, store)
    assert (found.data, found.results) == ("", {})
    assert [other.asked for other in found.others] == [("--data", "aaaa"), ("--data", "bbbb")]
    one = collect(HUB, store, notes=[replace(PHOTOS, data="bbbb", dataset="cifar10")])
    assert (one.data, one.title) == ("aaaa", "made-up v1 (images of unknown origin, aaaa)")


def test_small_versions_are_told_of_only_where_nothing_is_held(store):
    store.add_all(rows(OWN, limit=40))
    assert what_else(collect(SMALL, store), "table") == ONLY + "--limit 40 (small version: 40 images a split)"
    store.add_all(rows(OWN))
    assert what_else(collect(SMALL, store), "table") == ""


def test_the_reference_is_the_suites_own_unless_another_is_asked_for(store):
    """Controls depend on no reference and stand beside every one."""
    given = "file@0a1b2c3d4e5f"
    explained = replace(SMALL, given=given)
    store.add_all(row for row in rows(OWN, suite=explained))
    found = collect(SMALL, store)
    assert {point.cell.estimator for point in found.results} == {"none", "random"}
    assert found.title == "made-up v1 (reference trained by planted@1)"
    assert what_else(found, "table") == ELSE + "--reference file@0a1b2c3d (reference file@0a1b2c3d)"
    other = collect(explained, store)
    assert (len(other.results), other.title) == (len(POINTS), "made-up v1 (reference file@0a1b2c3d)")
    store.add_all(rows(OWN))
    assert len(collect(SMALL, store).results) == len(collect(explained, store).results) == len(POINTS)
    assert what_else(collect(explained, store), "table") == ELSE + "(reference trained by planted@1)"


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
