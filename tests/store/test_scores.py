"""Scores of other libraries: a table of their own, written once."""

from dataclasses import replace

from sqlalchemy import select

from roarbench.identity import canonical, record
from roarbench.store import schema
from roarbench.store.scores import Score, ScoreSpec

SPEC = ScoreSpec("da7a", "4ef", "e571", "pixel-flipping", "features_in_step=8", 64)
SCORE = Score(SPEC, "grad", 0.1 + 0.2, 64, {"quantus": "0.6.0"})


def test_what_is_stored_is_read_again_and_never_changes(store):
    undefined = replace(SCORE, spec=replace(SPEC, metric="other"), value=None, count=0)
    store.scores.add([SCORE, undefined])
    store.scores.add([replace(SCORE, value=1.0), replace(SCORE, spec=replace(SPEC, images=32), value=2.0)])
    store.scores.add([])
    wanted = {SPEC.key: SCORE.value, undefined.spec.key: None}
    assert store.scores.values([*wanted, "0" * 32]) == wanted
    with store._database.read() as connection:
        row = connection.execute(select(schema.scores).where(schema.scores.c.key == SPEC.key)).one()
    assert row.record == canonical(record(SPEC))
    assert (row.estimator, row.metric, row.count, row.versions) == ("grad", "pixel-flipping", 64, {"quantus": "0.6.0"})
    assert row.created == SCORE.created
