import sqlite3
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select

from roarbench.errors import StoreError
from roarbench.identity import canonical, record
from roarbench.store import opening, schema
from roarbench.store.result import Result, pack_answers
from roarbench.store.results import ResultsStore, default_url
from roarbench.store.scores import Score, ScoreSpec
from roarbench.store.watched import WatchedRow, note_watched, watched_rows
from tests.helpers.store_rows import ORIGIN, make_result, make_run


@pytest.fixture
def store(store_url):
    with ResultsStore.open(store_url) as store:
        yield store


def test_a_row_by_hand(tmp_path):
    """What another program finds in the file, column by column."""
    run = make_run(seed=4, t=0.3)
    moment = datetime(2026, 1, 2, 5, 4, 5, 600, tzinfo=timezone(timedelta(hours=2)))
    result = Result(run, 3, 10, bytes([0b10100000, 0b01000000]), 2.5, ORIGIN, created=moment)
    with ResultsStore.open(default_url(tmp_path)) as store:
        store.add(result)
    connection = sqlite3.connect(tmp_path / "results.sqlite")
    connection.row_factory = sqlite3.Row
    (row,) = connection.execute("SELECT * FROM results").fetchall()
    connection.close()
    assert dict(row) == {
        "key": run.key,
        "record": '{"cell":{"dataset":"planted","estimator":"var-grad","fill":"mean","model":"resnet8","order":"lerf",'
        '"retrain":"masks","t":0.3,"unit":"pixel"},"data":"da7a","estimator":"e571","recipe":"fast@1",'
        '"reference":"4ef","seed":4}',
        **{"dataset": "planted", "model": "resnet8", "estimator": "var-grad", "order": "lerf", "retrain": "masks"},
        **{"fill": "mean", "unit": "pixel", "t": 0.3, "seed": 4, "recipe": "fast@1", "data": "da7a"},
        **{"estimator_fingerprint": "e571", "reference": "4ef", "rankings": "", "weights": ""},
        **{"correct": 3, "total": 10, "bits": b"\xa0\x40", "seconds": 2.5},
        **{"probability": None, "smoothness": None, "loss": None},
        "code_version": "0.1.0 1a2b3c4",
        "versions": '{"python": "3.11.7", "torch": "2.13.0"}',
        "hardware": '{"cpu": "some", "cores": 2}',
        "created": "2026-01-02 03:04:05.000600",
    }
    assert canonical(record(run)) == dict(row)["record"]
    assert result.answers.tolist() == [True, False, True] + [False] * 6 + [True]


@given(st.lists(st.booleans(), min_size=1, max_size=70))
def test_answers_pack_one_bit_each(answers):
    bits = pack_answers(np.array(answers))
    # slow: the first answer is the highest bit of the first byte, the last byte is filled up with zeros
    text = "".join(str(int(answer)) for answer in answers)
    text += "0" * (-len(text) % 8)
    assert bits == bytes(int(text[start : start + 8], 2) for start in range(0, len(text), 8))
    assert Result(make_run(), sum(answers), len(answers), bits, 1.0, ORIGIN).answers.tolist() == answers


@pytest.mark.parametrize(
    ("correct", "total", "bits", "probability"),
    [
        (2, 8, b"\x80", None),  # fewer bits than correct answers
        (1, 8, b"\x80\x00", None),  # a byte too many
        (1, 9, b"\x80", None),  # a byte too few
        (1, 3, b"\x08", None),  # set beyond the last image
        (0, 0, b"", None),  # no images
        (1, 2, b"\x80", b"\0" * 4),  # one probability for two images
    ],
)
def test_an_outcome_that_contradicts_itself_is_refused(correct, total, bits, probability):
    with pytest.raises(ValueError, match="packed|correct|probabilities"):
        Result(make_run(), correct, total, bits, 1.0, ORIGIN, probability)


def test_a_stored_row_never_changes(store):
    first = make_result(make_run())
    other = replace(make_result(make_run(), total=9), seconds=99.0)
    assert store.add(first)
    assert not store.add(first)
    assert not store.add(other)
    assert store.results([first.run.key])[first.run.key] == first
    assert len(store.keys("")) == 1


def test_many_keys_at_once(store):
    results = {result.run.key: result for result in (make_result(make_run(seed), total=20) for seed in range(300))}
    store.add_all(results.values())
    others = [f"{number:032x}" for number in range(12_000)]  # more than one statement has
    assert store.done([*others, *results]) == set(results)
    assert store.results([*others[:1000], *results]) == results
    first = min(results)
    assert (first in store.keys(first[:4]), store.keys("%"), store.keys("_" * 32)) == (True, [], [])  # no patterns
    assert store.done([]) == set()


def test_a_reason_is_one_clean_line(store):
    reasons = {"\x1b[31mred\r\n\tleft\u202eright\ud800": "[31mred left right", "x" * 501: "x" * 499 + "…"}
    for reason in reasons:
        store.failures.add(make_run(), reason)
    found = store.failures.history([make_run().key])[make_run().key]
    assert [failure.reason for failure in found] == list(reasons.values())


def test_the_state_changes_with_every_addition_alone(store):
    states = [store.state()]
    store.done([make_run().key])
    store.add(make_result(make_run()))
    states.append(store.state())
    store.add(make_result(make_run()))
    assert store.state() == states[-1]
    store.failures.add(make_run(1), "no")
    states.append(store.state())
    store.add(make_result(make_run(1)))
    states.append(store.state())
    assert len(set(states)) == 4


def test_a_damaged_row_is_told_in_one_line(tmp_path):
    run = make_run()
    with ResultsStore.open(default_url(tmp_path)) as store:
        store.add(make_result(run))
    for column, value in [("bits", b"\xff" * 126), ("record", "{}"), ("versions", "{"), ("created", "yesterday")]:
        path = tmp_path / f"{column}.sqlite"
        path.write_bytes((tmp_path / "results.sqlite").read_bytes())
        connection = sqlite3.connect(path)
        connection.execute(f"UPDATE results SET {column} = ?", [value])
        connection.commit()
        connection.close()
        with ResultsStore.open(f"sqlite:///{path}", read_only=True) as store, pytest.raises(StoreError) as caught:
            store.results([run.key])
        named = f"damaged (var-grad t=0.9 seed 0, {run.key}: " if column == "bits" else "damaged"
        assert named in str(caught.value)
        assert "\n" not in str(caught.value)


def test_sqlite_commits_to_the_disk_and_readers_do_not_wait(tmp_path):
    with ResultsStore.open(default_url(tmp_path)) as store, store.database.write() as writer:
        assert writer.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert writer.exec_driver_sql("PRAGMA synchronous").scalar() == 2  # FULL
        assert writer.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
        assert len(store.keys("")) == 0  # while the writer holds its lock


def test_questions_that_are_asked_at_once_share_a_connection(tmp_path, monkeypatch):
    with ResultsStore.open(default_url(tmp_path)) as store:
        store.add(make_result(make_run()))
    opened, connect = [], opening._connect
    monkeypatch.setattr(opening, "_connect", lambda *place: opened.append(place) or connect(*place))
    with ResultsStore.open(default_url(tmp_path), read_only=True) as store:
        opened.clear()
        with store.database.at_once():
            assert store.done(store.keys("")) == {make_run().key} and len(store.results([make_run().key])) == 1
            assert len(opened) == 1
            with ThreadPoolExecutor(1) as other:  # has one of its own
                assert other.submit(store.has_any, [make_run().key]).result() and len(opened) == 2
        assert store.places() and len(opened) == 3, "afterwards each asks anew"


SPEC = ScoreSpec("da7a", "4ef", "e571", "pixel-flipping", "features_in_step=8", 64)
SCORE = Score(SPEC, "grad", 0.1 + 0.2, 64, {"quantus": "0.6.0"})


def test_scores_of_other_libraries_are_read_again_and_never_change(store):
    undefined = replace(SCORE, spec=replace(SPEC, metric="other"), value=None, count=0)
    store.scores.add([SCORE, undefined])
    store.scores.add([replace(SCORE, value=1.0), replace(SCORE, spec=replace(SPEC, images=32), value=2.0)])
    store.scores.add([])
    wanted = {SPEC.key: SCORE.value, undefined.spec.key: None}
    assert store.scores.values([*wanted, "0" * 32]) == wanted
    with store.database.read() as connection:
        row = connection.execute(select(schema.scores).where(schema.scores.c.key == SPEC.key)).one()
    assert row.record == canonical(record(SPEC))
    assert (row.estimator, row.metric, row.count, row.versions) == ("grad", "pixel-flipping", 64, {"quantus": "0.6.0"})
    assert row.created == SCORE.created


ROW = WatchedRow("quick v2", "da7a", None, "", "common", "grad", 3)


def test_what_was_watched_is_told_of_its_suite_and_data_alone(store):
    changes = ({"suite": "quick v1"}, {"data": "d47a"}, {"limit": 500}, {"given": "x@1"})
    others = [replace(ROW, **change) for change in changes]
    note_watched(store.database, [ROW, replace(ROW, estimator="ig"), *(replace(each, looks=9) for each in others)])
    note_watched(store.database, [ROW])
    note_watched(store.database, [])
    found = watched_rows(store.database, "quick v2", "da7a", None, "")
    assert found == {("common", "grad"): 3, ("common", "ig"): 3}
    assert watched_rows(store.database, "quick v2", "da7a", 500, "") == {("common", "grad"): 9}
