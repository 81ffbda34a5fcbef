"""Rows that are taken off the boards: nothing of them is lost, and the same runs can be done again."""

from datetime import datetime
from types import SimpleNamespace

import pytest

from roarbench.errors import CallerError
from roarbench.identity import canonical, record
from roarbench.store.entries import Origin, ReproductionOutcome, entered_ids, note_reproduction, origins
from roarbench.store.forgotten import ForgottenCounts, forget, forgotten_rows, keys_of, known_keys
from roarbench.store.leases import Owner
from roarbench.store.result import stored_result
from tests.helpers.leasing import lease
from tests.helpers.store_rows import make_result, make_run, moved

MINE, OTHER = "mine@12345678", "mine@12345678~trusted"


def as_stored(kept):
    """A kept row as the table of results had it."""
    values = kept.row | {"key": kept.run.key, "record": canonical(record(kept.run))}
    values |= {name: bytes.fromhex(values[name]) for name in ("bits", "probability")}
    return SimpleNamespace(**values | {"created": datetime.fromisoformat(values["created"])})


def test_all_rows_of_an_estimator_are_off_the_board_and_kept_whole(store):
    mine, other, grad = (make_result(make_run(estimator=name)) for name in (MINE, OTHER, "grad"))
    nested = make_result(make_run(estimator=f"{MINE}~untrained~matched"))  # of a twin's own
    store.add_all([mine, other, grad, nested])
    failed = make_run(seed=1, estimator=f"{MINE}~blurred")  # a check of it
    store.failures.add(failed, "died")
    store.failures.add(make_run(seed=1, estimator=OTHER), "died, too")
    keys = keys_of(store.database, MINE)
    assert set(keys) == {mine.run.key, nested.run.key, failed.key}
    assert forget(store.database, keys, "wrong\nlayer") == ForgottenCounts(2, 1)
    assert store.done([mine.run.key, other.run.key, grad.run.key]) == {other.run.key, grad.run.key}
    assert store.failures.history(keys) == {}
    assert entered_ids(store.database, "planted", "resnet8") == [OTHER]
    kept = {(row.run.key, row.kind): row for row in forgotten_rows(store.database, keys)}
    result, failure = kept[mine.run.key, "result"], kept[failed.key, "failure"]
    assert (nested.run.key, "result") in kept
    assert stored_result(as_stored(result)) == mine
    assert (failure.run, failure.row["reason"]) == (failed, "died")
    for row in (result, failure):
        assert row.reason == "wrong layer" and " on " in row.who and row.created.tzinfo is not None
    assert known_keys(store.database, mine.run.key[:10]) == [mine.run.key]


def test_who_vouched_for_a_row_goes_with_it(store, second, tmp_path):
    row = make_result(make_run(estimator="grad"))
    second.add(row)
    moved(second, store, tmp_path)
    note_reproduction(store.database, row.run.key, ReproductionOutcome.DIFFERENT, 3)
    assert origins(store.database, [row.run.key]) == {row.run.key: Origin.SELF_REPORTED}
    forget(store.database, [row.run.key], "not ours")
    (kept,) = forgotten_rows(store.database, [row.run.key])
    assert len(kept.row["imports"]) == len(kept.row["reproductions"]) == 1
    store.add(row)  # computed here this time
    assert origins(store.database, [row.run.key]) == {row.run.key: Origin.VERIFIED}


def test_what_is_being_done_is_left_alone(store):
    row, failed = make_result(make_run(estimator=MINE)), make_run(seed=1, estimator=MINE)
    store.add(row)
    lease(store, [failed.key], Owner.here())
    store.failures.add(failed, "died")
    with pytest.raises(CallerError, match="1 of these runs are being done right now"):
        forget(store.database, [row.run.key, failed.key], "in haste")
    assert store.done([row.run.key]) and store.failures.history([failed.key])
    assert forgotten_rows(store.database, [row.run.key]) == []
