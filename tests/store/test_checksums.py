"""Checksums of what results rest on: noted once, compared ever after, by whichever folder comes."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import delete, insert, select

from roarbench import files
from roarbench.errors import StoreError
from roarbench.store.checksums import Artifact, Checksums, Noted
from roarbench.store.layout import Workspace
from roarbench.store.leases import Owner, Wanted
from roarbench.store.results import ResultsStore
from roarbench.store.schema import checksums, imports, leases
from tests.helpers.store_rows import make_result, make_run, moved

REFERENCE = Artifact("a" * 32, "reference", "1" * 32, make_run().reference)
RANKING = Artifact("b" * 32, "ranking of grad (scalar)", "2" * 32)
OTHER = "3" * 32


@pytest.fixture
def store(store_url):
    with ResultsStore.open(store_url) as store:
        yield store


def noted(store):
    with store.database.read() as connection:
        return {row.key: row.checksum for row in connection.execute(select(checksums))}


def test_what_the_first_folder_has_is_noted_and_the_same_goes_on(store, tmp_path):
    for folder in ("one", "two"):
        Checksums(store.database, Workspace(tmp_path / folder)).check([REFERENCE, RANKING])
        assert noted(store) == {made.key: made.checksum for made in (REFERENCE, RANKING)}


@pytest.mark.parametrize("copied", [False, True])
def test_what_one_folder_is_to_make_no_other_one_makes_meanwhile(store, tmp_path, copied, monkeypatch):
    """Two commands that begin together: the second one is refused, whether its folder has something of it or not."""
    first, second = (Checksums(store.database, Workspace(tmp_path / name)) for name in ("one", "two"))
    lacking = [made._replace(checksum="") for made in (REFERENCE, RANKING)]
    first.check(lacking)
    theirs = [lacking[0], RANKING] if copied else lacking
    refused = pytest.raises(StoreError, match=r"belongs to the folder .*/one, where its .* name that --store")
    with refused:
        second.check(theirs)
    first.check(lacking)
    first.note([REFERENCE])
    assert noted(store) == {REFERENCE.key: REFERENCE.checksum, RANKING.key: ""}
    monkeypatch.setattr("roarbench.store.checksums.SILENCE", timedelta())
    run = Wanted(("c" * 32,))
    store.claim([run], Owner.here(), 1)
    with refused:
        second.check(theirs[1:])
    with store.database.write() as connection:
        connection.execute(delete(leases))
    second.check(theirs[1:])  # nobody is at work any more


@pytest.mark.parametrize("way", ["check", "note"])
def test_another_one_is_refused_and_nothing_is_noted(store, tmp_path, way):
    first = Checksums(store.database, Workspace(tmp_path / "one"))
    first.check([RANKING])
    first.note([RANKING._replace(checksum="")])  # a network file system may show it later
    second = Checksums(store.database, Workspace(tmp_path / "two"))
    with pytest.raises(StoreError, match=r"two has another ranking of grad \(scalar\) than the one made in .*/one, "):
        getattr(second, way)([REFERENCE, RANKING._replace(checksum=OTHER)])
    assert noted(store) == {RANKING.key: RANKING.checksum}


def test_what_a_folder_lacks_is_made_there_unless_several_machines_may_share_the_database(store, tmp_path):
    first, second = (Checksums(store.database, Workspace(tmp_path / name)) for name in ("one", "two"))
    first.note([REFERENCE])
    lacking = REFERENCE._replace(checksum="")
    first.check([lacking])  # it was lost there
    if store.database.is_file:
        second.check([lacking])
    else:
        with pytest.raises(StoreError, match=r"two lacks the reference, which was made in .*/one, "):
            second.check([lacking])
    assert noted(store) == {REFERENCE.key: REFERENCE.checksum}


def test_what_was_lost_and_made_again_may_differ_as_long_as_no_result_rests_on_it(store, tmp_path):
    here = Checksums(store.database, Workspace(tmp_path))
    here.note([REFERENCE, RANKING])
    again = [made._replace(checksum=OTHER) for made in (REFERENCE, RANKING)]
    here.note(again)
    assert noted(store) == dict.fromkeys((REFERENCE.key, RANKING.key), OTHER)
    store.add(replace(make_result(make_run()), rankings=OTHER))
    for made in (REFERENCE, RANKING):
        with pytest.raises(StoreError, match=f"another {made.what[:8]}"):
            here.note([made])
    assert noted(store) == dict.fromkeys((REFERENCE.key, RANKING.key), OTHER)


def test_imported_results_rest_on_the_folder_of_another_store(store, second, tmp_path):
    second.add(make_result(make_run()))
    moved(second, store, tmp_path)
    here = Checksums(store.database, Workspace(tmp_path))
    here.note([REFERENCE])
    here.note([REFERENCE._replace(checksum=OTHER)])
    assert noted(store) == {REFERENCE.key: OTHER}


def test_what_results_say_is_held_against_the_folder_unless_they_were_imported(store, tmp_path):
    here, run, other = Checksums(store.database, Workspace(tmp_path)), make_run(), make_run(1)
    store.add_all([make_result(run), make_result(other)])
    unlike = Noted(other.key, "ranking", "2", "1")
    here.check([RANKING], [Noted(run.key, "ranking", "1", "1"), unlike])  # one of them fits
    here.check([RANKING], [unlike._replace(here="")])
    with pytest.raises(StoreError, match=f"has another ranking than the one of {other.key}, on which "):
        here.check([REFERENCE], [unlike])
    assert noted(store) == {RANKING.key: RANKING.checksum}
    with store.database.write() as connection:
        connection.execute(insert(imports), {"key": other.key, "file": "f", "created": datetime.now(UTC)})
    here.check([RANKING], [unlike])


def test_a_network_made_again_may_differ_until_a_result_names_it(store, tmp_path):
    """The common one is named by its key, one tuned on a row also by the row's rankings."""
    here, run = Checksums(store.database, Workspace(tmp_path)), replace(make_run(), network="c" * 32)
    common = Artifact("c" * 32, "network", "1" * 32, run.network)
    tuned = Artifact("d" * 32, "tuned", "1", run.network, "r")
    store.add(replace(make_result(run), rankings="q"))
    here.note([common, tuned])
    here.note([tuned._replace(checksum=OTHER)])
    with pytest.raises(StoreError, match="another network"):
        here.note([common._replace(checksum=OTHER)])
    store.add(replace(make_result(replace(run, seed=7)), rankings="r"))
    with pytest.raises(StoreError, match="another tuned"):
        here.note([tuned])
    assert noted(store) == {common.key: common.checksum, tuned.key: OTHER}


def test_two_machines_that_meet_in_a_new_folder_agree_on_its_identity(tmp_path, monkeypatch):
    """The one that waited remembers that there was none, until it lists the folder."""
    (tmp_path / ".identity").write_text("of the first")
    listed, exists = [], Path.exists
    monkeypatch.setattr(Path, "exists", lambda path: bool(listed) and exists(path))
    monkeypatch.setattr(files, "look_anew", lambda *folders: listed.extend(folders))
    assert Workspace(tmp_path).identity == "of the first"
