"""SIGTERM, as Slurm and Kubernetes send it: a command gives up its leases and ends, whatever its database does."""

from threading import Event

import pytest
from sqlalchemy import func, select

from roarbench.errors import StoreError
from roarbench.execution import scheduler
from roarbench.execution.scheduler import complete
from roarbench.store.results import ResultsStore, default_url
from roarbench.store.schema import leases
from tests.helpers import forked
from tests.helpers.command_line import PART
from tests.helpers.commands import PATIENCE, eventually
from tests.helpers.tiny_suite import InlineEngine, make_runs, make_work


def leased(url: str) -> int:
    try:
        with ResultsStore.open(url, read_only=True) as store, store.database.read() as connection:
            return connection.scalar(select(func.count()).select_from(leases)) or 0
    except StoreError:  # no store yet
        return 0


@pytest.mark.process
def test_a_command_gives_up_its_leases(store_url, tmp_path):
    log = tmp_path / "log"
    words = ("run", *PART, "--workers", "2", "--store", tmp_path / "store", "--db", store_url)
    process = forked.start(words, log)
    assert eventually(lambda: leased(store_url) or process.exitcode is not None)
    process.terminate()
    process.join(PATIENCE)
    assert process.exitcode == 143, log.read_text()
    assert log.read_text().splitlines()[-1].endswith("finished runs are kept, the same command goes on")
    assert leased(store_url) == 0


@pytest.mark.slow
def test_a_database_that_does_not_answer_keeps_nobody(tmp_path, monkeypatch):
    """A server that is gone without a word answers neither yes nor no."""
    monkeypatch.setattr(scheduler, "_FAREWELL", 0.01)
    answered = Event()
    work = make_work(tmp_path)
    runs = make_runs(work)[:1]
    with ResultsStore.open(default_url(tmp_path)) as store:
        monkeypatch.setattr(store, "leave", lambda owner: answered.wait(PATIENCE))
        events = complete(work, runs, store, InlineEngine())
        next(events)
        events.close()
        assert not answered.is_set()
        answered.set()
