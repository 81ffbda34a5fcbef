"""Checksums of the files that results depend on: recorded once, then compared in every folder."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import delete, insert, select

from roarbench.common import files
from roarbench.common.errors import StoreError
from roarbench.store.artifact_checksums import Artifact, Checksums, RecordedChecksum
from roarbench.store.leases import LeaseRequest, Owner
from roarbench.store.schema import checksums, imports, leases
from roarbench.store.workspace import Workspace
from tests.helpers.store_rows import make_result, make_run

RUNS = [replace(make_run(seed), network="c" * 32) for seed in range(2)]
REFERENCE = Artifact("a" * 32, "reference", "1" * 32, RUNS[0].reference)
RANKING = Artifact("b" * 32, "ranking of grad (scalar)", "2" * 32)
OTHER = "3" * 32


@pytest.fixture
def folders(store, tmp_path):
    return [Checksums(store.database, Workspace(tmp_path / name)) for name in ("one", "two")]


def read_recorded_checksums(store):
    with store.database.begin_read() as connection:
        return {row.key: row.checksum for row in connection.execute(select(checksums))}


def mark_as_imported(store, runs):
    rows = [{"key": run.key, "file": "f", "created": datetime.now(UTC)} for run in runs]
    store.database.run_write(lambda connection: connection.execute(insert(imports), rows))


def test_checksums_keep_first_folder_and_reject_different_file(store, folders):
    first, second = folders
    lacking = RANKING._replace(checksum="")
    for each in folders:
        each.record_or_compare_checksums([RANKING])
    first.record_or_compare_checksums([lacking], made_here=True)  # a network file system may show the file later
    for made_here in (False, True):
        with pytest.raises(StoreError, match=r"two has a different ranking of grad .* than the one made in .*/one, "):
            second.record_or_compare_checksums([REFERENCE, RANKING._replace(checksum=OTHER)], made_here=made_here)
    first.record_or_compare_checksums([lacking])  # the file was lost there
    if store.database.is_sqlite:
        second.record_or_compare_checksums([lacking])
    else:  # several machines may share the store
        with pytest.raises(StoreError, match=r"two lacks the ranking .* made in .*/one, on which "):
            second.record_or_compare_checksums([lacking])
    assert read_recorded_checksums(store) == {RANKING.key: RANKING.checksum}


def test_checksums_reserve_missing_file_for_one_folder(store, folders, monkeypatch):
    """Of two commands that begin together the second is refused, whether or not its folder has some of the files."""
    first, second = folders
    lacking = [made._replace(checksum="") for made in (REFERENCE, RANKING)]
    refused = pytest.raises(StoreError, match=r"belongs to the store .*/one, where the .* use that folder as --store")
    first.record_or_compare_checksums(lacking)
    for theirs in (lacking, [lacking[0], RANKING]):
        with refused:
            second.record_or_compare_checksums(theirs)
    first.record_or_compare_checksums(lacking)
    first.record_or_compare_checksums([REFERENCE], made_here=True)
    assert read_recorded_checksums(store) == {REFERENCE.key: REFERENCE.checksum, RANKING.key: ""}
    monkeypatch.setattr("roarbench.store.artifact_checksums.MAX_SILENCE", timedelta())
    store.claim_leases([LeaseRequest(("c" * 32,))], Owner.of_this_process(), 1)
    with refused:
        second.record_or_compare_checksums([RANKING])
    store.database.run_write(lambda connection: connection.execute(delete(leases)))
    second.record_or_compare_checksums([RANKING])  # no owner is alive any more


def test_remade_file_may_differ_until_stored_result_depends_on_file(store, folders):
    """Results name explained and shared network by key, and a network tuned on a row also by its rankings."""
    here, common = folders[0], RUNS[0].network
    networks = [Artifact(common, "network", "4", common), Artifact("d" * 32, "tuned", "5", common, rankings="r")]
    made = [REFERENCE, RANKING, *networks]
    again = [each._replace(checksum=OTHER) for each in made]
    here.record_or_compare_checksums(made, made_here=True)
    here.record_or_compare_checksums(again, made_here=True)
    assert read_recorded_checksums(store) == dict.fromkeys((each.key for each in made), OTHER)
    store.add_results([replace(make_result(RUNS[0]), rankings=OTHER)])
    here.record_or_compare_checksums(made[3:], made_here=True)
    store.add_results([replace(make_result(RUNS[1]), rankings="r")])
    for each in (*made[:3], again[3]):
        with pytest.raises(StoreError, match=f"a different {each.name[:8]}"):
            here.record_or_compare_checksums([each], made_here=True)
    mark_as_imported(store, RUNS)
    here.record_or_compare_checksums([*made[:3], again[3]], made_here=True)
    assert read_recorded_checksums(store) == {each.key: each.checksum for each in (*made[:3], again[3])}


def test_checksums_of_results_must_match_folder_unless_imported(store, folders):
    here, (run, other) = folders[0], RUNS
    store.add_results(map(make_result, RUNS))
    like, unlike = (RecordedChecksum(key, "ranking", found, "1") for key, found in ((run.key, "1"), (other.key, "2")))
    here.record_or_compare_checksums([RANKING], [like, unlike])
    here.record_or_compare_checksums([RANKING], [unlike._replace(current_checksum="")])
    with pytest.raises(StoreError, match=f"has a different ranking than the one of the run {other.key}, on which "):
        here.record_or_compare_checksums([REFERENCE], [unlike])
    assert read_recorded_checksums(store) == {RANKING.key: RANKING.checksum}
    mark_as_imported(store, [other])
    here.record_or_compare_checksums([RANKING], [unlike])


def test_workspace_identity_refreshes_listing_before_new_identity(tmp_path, monkeypatch):
    """The machine that waited for the lock caches the file as missing until the folder is listed."""
    (tmp_path / ".identity").write_text("of the first")
    listed, exists = [], Path.exists
    monkeypatch.setattr(Path, "exists", lambda path: bool(listed) and exists(path))
    monkeypatch.setattr(files, "refresh_folder_listings", lambda *folders: listed.extend(folders))
    assert Workspace(tmp_path).identity == "of the first"
