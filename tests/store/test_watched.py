"""Rows that were looked at: noted once, kept for ever, told by suite and version of the data."""

from dataclasses import replace

from roarbench.store.watched import WatchedRow, note_watched, watched_rows

ROW = WatchedRow("quick v2", "da7a", None, "", "common", "grad", 3)


def test_what_was_noted_is_told_of_its_suite_and_data_alone(store):
    others = [
        replace(ROW, suite="quick v1"),
        replace(ROW, data="d47a"),
        replace(ROW, limit=500),
        replace(ROW, given="x@1"),
    ]
    note_watched(store.database, [ROW, replace(ROW, estimator="ig"), *(replace(each, looks=9) for each in others)])
    note_watched(store.database, [ROW])
    note_watched(store.database, [])
    found = watched_rows(store.database, "quick v2", "da7a", None, "")
    assert found == {("common", "grad"): 3, ("common", "ig"): 3}
    assert watched_rows(store.database, "quick v2", "da7a", 500, "") == {("common", "grad"): 9}
