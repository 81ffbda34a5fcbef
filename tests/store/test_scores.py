"""Scores of other libraries: a table of their own, written once."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import insert, select

from roarbench.identity import canonical, record
from roarbench.store import opening, schema
from roarbench.store.result import row_of
from roarbench.store.results import ResultsStore
from roarbench.store.schema import results
from roarbench.store.scores import Score, ScoreSpec
from tests.helpers.store_rows import make_result, make_run

SPEC = ScoreSpec("da7a", "4ef", "e571", "pixel-flipping", "features_in_step=8", 64)
SCORE = Score(SPEC, "grad", 0.1 + 0.2, 64, {"quantus": "0.6.0"})


def test_what_is_stored_is_read_again(store: ResultsStore):
    undefined = replace(SCORE, spec=replace(SPEC, metric="other"), value=None, count=0)
    store.scores.add([SCORE, undefined])
    assert store.scores.values([SPEC.key, undefined.spec.key, "0" * 32]) == {
        SPEC.key: 0.1 + 0.2,
        undefined.spec.key: None,
    }
    with store._database.read() as connection:
        row = connection.execute(select(schema.scores).where(schema.scores.c.key == SPEC.key)).one()
    assert row.record == canonical(record(SPEC))
    assert (row.estimator, row.metric, row.count, row.versions) == ("grad", "pixel-flipping", 64, {"quantus": "0.6.0"})
    assert row.created == SCORE.created


def test_a_score_is_never_changed(store: ResultsStore):
    store.scores.add([SCORE])
    store.scores.add([replace(SCORE, value=1.0), replace(SCORE, spec=replace(SPEC, images=32), value=2.0)])
    assert store.scores.values([SPEC.key])[SPEC.key] == SCORE.value
    store.scores.add([])


def test_a_store_without_the_table_gets_it_and_loses_nothing(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    result = make_result(make_run())
    older = tmp_path / "migrations"
    shutil.copytree(opening.MIGRATIONS, older)
    for script in sorted((older / "versions").glob("r*.py"))[1:]:
        script.unlink()
    with monkeypatch.context() as release:
        release.setattr(opening, "MIGRATIONS", older)
        release.setattr(schema, "HEAD", "0001")
        with ResultsStore.open(store_url) as store, store.database.write() as connection:
            connection.execute(insert(results), row_of(result))
    with ResultsStore.open(store_url) as store:
        assert store.results([result.run.key]) == {result.run.key: result}
        store.scores.add([SCORE])
        assert store.scores.values([SPEC.key]) == {SPEC.key: SCORE.value}
