"""Who vouches for a row, what was submitted, and results that move from store to store."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from roarbench.errors import CallerError, StoreError
from roarbench.execution import reproduce
from roarbench.execution.reproduce import Reproduction
from roarbench.plan.keys import bind
from roarbench.plan.points import expand
from roarbench.plan.suites import find_suite
from roarbench.store import entries
from roarbench.store.entries import Origin, ReproductionOutcome, find_entries, keep_entry, note_reproduction
from roarbench.store.image_notes import ImageNote
from roarbench.store.result import Result, pack_answers
from roarbench.store.transfer import export_results, import_results
from roarbench.submissions.file import check_source
from roarbench.terms import Order
from tests.helpers.store_rows import ORIGIN, make_result, make_run, moved

ENTRY = check_source(b'NAME = "mine"\nDESCRIPTION = "x"\n')
OTHER = check_source(b'NAME = "other"\nDESCRIPTION = "x"\n')


def rows(*names):
    return [make_result(make_run(estimator=name)) for name in names]


def test_a_file_is_kept_once_and_for_ever(store):
    for each in (ENTRY, OTHER, ENTRY):
        keep_entry(store.database, each)
    assert find_entries(store.database) == {ENTRY.id: ENTRY, OTHER.id: OTHER}
    twin = SimpleNamespace(file_id=ENTRY.id, sha256=ENTRY.sha256[:8] + "0" * 56, source=b"x")
    with pytest.raises(StoreError, match=f"another file is stored as {ENTRY.id}"):
        keep_entry(store.database, twin)
    assert find_entries(store.database)[ENTRY.id] == ENTRY
    assert find_entries(store.database, [OTHER.id, "no@0123abcd"]) == {OTHER.id: OTHER}
    names = ("grad", f"{ENTRY.id}~trusted", OTHER.id, "no@0123abcd")
    assert entries.submissions_of(store.database, names) == {f"{ENTRY.id}~trusted": ENTRY, OTHER.id: OTHER}


def test_rows_are_verified_unless_they_were_trusted_or_imported(store, second, tmp_path):
    own, trusted, foreign = rows("grad", f"{ENTRY.id}~trusted", "gb")
    second.add_all([own, foreign])
    store.add_all([own, trusted])
    assert moved(second, store, tmp_path).new == {foreign.run.key}
    assert list(entries.unverified(store.database, [own, trusted, foreign])) == [f"{ENTRY.id}~trusted", "gb"]
    vouched = [None, ReproductionOutcome.DIFFERENT, ReproductionOutcome.WITHIN, ReproductionOutcome.DIFFERENT]
    for outcome in vouched:
        if outcome:
            note_reproduction(store.database, foreign.run.key, outcome, 3)
            note_reproduction(store.database, trusted.run.key, ReproductionOutcome.EQUAL, 3)
        assert entries.origins(store.database, [row.run.key for row in (own, trusted, foreign)]) == {
            own.run.key: Origin.VERIFIED,
            trusted.run.key: Origin.TRUSTED,
            foreign.run.key: Origin.VERIFIED if outcome is ReproductionOutcome.WITHIN else Origin.SELF_REPORTED,
        }


def test_results_arrive_as_they_left(store, second, tmp_path):
    kept = {result.run.key: result for result in rows("grad", "none", ENTRY.id, f"{ENTRY.id}~trusted")}
    bare = replace(make_result(make_run(seed=5)), probability=None, smoothness=None, loss=None)
    kept[bare.run.key] = bare
    keep_entry(store.database, ENTRY)
    store.add_all(kept.values())
    path = tmp_path / "file.parquet"
    assert export_results(store, path) == 5
    assert import_results(second, path) == (set(kept), set(), [])
    assert second.results(kept) == kept
    assert find_entries(second.database) == {ENTRY.id: ENTRY}
    assert import_results(second, path) == (set(), set(kept), [])
    with pytest.raises(CallerError, match="is there already"):
        export_results(store, path)


def test_rows_with_other_answers_are_conflicts_and_never_replace(store, second, tmp_path):
    same, changed, fresh = (make_result(make_run(seed=seed)) for seed in range(3))
    other = replace(changed, bits=pack_answers(changed.answers[::-1]))  # as many correct
    store.add_all([same, other, fresh])
    second.add_all([same, changed])
    new, known, (conflict,) = moved(store, second, tmp_path)
    assert (new, known) == ({fresh.run.key}, {same.run.key})
    assert (conflict.stored, conflict.found) == (changed, other)
    assert conflict.differing == (changed.answers != other.answers).sum() > 0
    assert second.results([changed.run.key]) == {changed.run.key: changed}


PHOTOS = ImageNote("da7a", "planted", None, "local", "/home/me/photos", "f11e5")


def test_whose_images_results_are_on_travels_with_them(store, second, tmp_path):
    """But not where they lie, and not what the exporter takes for the suite's own images."""
    store.images.add([PHOTOS, ImageNote("07e4", "planted", None, "generated")])
    store.add_all([make_result(make_run())])
    moved(store, second, tmp_path)
    assert b"/home/me" not in (tmp_path / "file.parquet").read_bytes()
    assert second.images.all() == [replace(PHOTOS, folder="photos", files="")]


@pytest.mark.parametrize("stored", [True, False])
def test_rows_on_the_same_images_have_as_many_answers(stored, store, second, tmp_path):
    """A board stacks them; one short row would end every command that shows the suite."""
    short, own = make_result(make_run(seed=1), total=1000), make_result(make_run(seed=2))
    second.add_all([short] if stored else [short, own])
    store.add_all([own] if stored else [])
    with pytest.raises(StoreError, match="nothing was added"):
        moved(second, store, tmp_path)
    assert len(store.keys("")) == stored


def test_what_differs_is_told():
    stored = make_result(make_run())
    first = next(i for i, byte in enumerate(stored.bits) if byte & 128)
    bits = stored.bits[:first] + bytes([stored.bits[first] & 127]) + stored.bits[first + 1 :]
    there = {"cpu": "other", "device": "some card", "precision": "bf16"}
    origin = replace(stored.provenance, versions={**stored.provenance.versions, "torch": "9"}, hardware=there)
    again = replace(stored, bits=bits, correct=stored.correct - 1, provenance=origin)
    near = Reproduction(stored, again, margin=1 / stored.total)
    assert near.verdict is ReproductionOutcome.WITHIN
    assert near.differences == ["torch 2.13.0 then, 9 now", "cpu some then, other now"]  # what both are known to have
    assert "1 answers differ, same rankings" in near.text()
    assert Reproduction(stored, again, margin=0.5 / stored.total).verdict is ReproductionOutcome.DIFFERENT
    assert Reproduction(stored, replace(stored, rankings="x"), margin=0).verdict is ReproductionOutcome.WITHIN
    assert Reproduction(stored, replace(stored, seconds=1.0), margin=0).verdict is ReproductionOutcome.EQUAL


def test_a_margin_is_learnt_from_rows_that_somebody_vouches_for(store, second, tmp_path):
    """Imported seeds that differ by everything would make any outcome lie within the interval."""
    suite = find_suite("planted")
    asked = [p for p in expand(suite) if (p.cell.estimator, p.cell.order, p.cell.t) == ("random", Order.MORF, 0.5)]
    extremes = [extreme(bind(suite, point, "da7a", None), right=point.seed == 1) for point in asked]
    second.add_all(extremes)
    moved(second, store, tmp_path)
    assert reproduce._margin(second, suite, extremes[0], extremes[0]) > 0.9
    assert reproduce._margin(store, suite, extremes[0], extremes[0]) == 0


def extreme(run, right):
    answers = np.full(100, right)
    return Result(run, int(answers.sum()), 100, pack_answers(answers), 1.0, ORIGIN)
