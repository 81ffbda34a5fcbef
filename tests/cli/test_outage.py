"""A database that goes away while a suite is run: nothing is lost, and the table is that of a calm run."""

import time

import pytest

from roarbench.errors import StoreError
from roarbench.store.results import ResultsStore, default_url
from tests.helpers import forked
from tests.helpers.commands import PART, PATIENCE, eventually, outcomes
from tests.helpers.postgres import PrivateServer

pytestmark = [pytest.mark.process, pytest.mark.postgres]


@pytest.mark.parametrize("seconds", [3.0, pytest.param(60.0, marks=pytest.mark.soak)])
def test_the_database_is_killed_twice_and_nothing_is_lost(own_server: PrivateServer, whole, tmp_path, seconds: float):
    log, url = tmp_path / "log", own_server.url
    process = forked.start(("run", *PART, "--store", tmp_path / "store", "--db", url), log)
    for least in (1, 10):
        assert eventually(lambda least=least: rows(url) >= least)
        own_server.stop()
        time.sleep(seconds)
        own_server.start()
    process.join(PATIENCE)
    assert process.exitcode == 0, log.read_text()
    assert "until then this command waits, and nothing is lost" in log.read_text()
    assert "it is back after" in log.read_text()
    assert outcomes(url) == outcomes(default_url(whole))
    with ResultsStore.open(url, read_only=True) as store:
        assert store.running() == []
        assert store.failures.stopped(store.keys("")) == {}


def rows(url: str) -> int:
    try:
        return len(outcomes(url))
    except StoreError:  # no tables yet
        return 0
