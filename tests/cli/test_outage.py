"""A database that goes away while a suite is run: nothing is lost, and the table is that of a calm run."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from roarbench.store.results import ResultsStore, default_url
from tests.helpers.postgres import PrivateServer

pytestmark = [pytest.mark.process, pytest.mark.postgres]

PROGRAM = str(Path(sys.executable).with_name("roarbench"))
SMALL = ("--suite", "planted", "--limit", "40")
PART = (*SMALL, "--estimators", "truth", "--seeds", "1", "--workers", "1")
PATIENCE = 300.0
OUTAGE = 3.0


@pytest.fixture
def server(require: Callable[[str, str], str]) -> Iterator[PrivateServer]:
    """A server of this test alone, which it may stop."""
    server = PrivateServer(require)
    server.start()
    try:
        yield server
    finally:
        server.remove()


def outcomes(url: str) -> dict[str, tuple[bytes, str]]:
    with ResultsStore.open(url, read_only=True) as store:
        return {key: (row.bits, row.rankings) for key, row in store.results(store.keys("")).items()}


def test_the_database_is_killed_twice_and_nothing_is_lost(server: PrivateServer, tmp_path: Path):
    log = tmp_path / "log"
    words = [PROGRAM, "run", *PART, "--store", str(tmp_path / "store"), "--db", server.url]
    with log.open("wb") as file, subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=file) as process:
        for least in (1, 10):
            deadline = time.monotonic() + PATIENCE
            while rows(server) < least and time.monotonic() < deadline:
                time.sleep(0.1)
            server.stop()
            time.sleep(OUTAGE)
            server.start()
        assert process.wait(PATIENCE) == 0, log.read_text()
    assert "until then this command waits, and nothing is lost" in log.read_text()
    assert "it is back after" in log.read_text()
    calm = subprocess.run([PROGRAM, "run", *PART, "--store", tmp_path / "calm"], capture_output=True, text=True)
    assert calm.returncode == 0, calm.stderr
    assert outcomes(server.url) == outcomes(default_url(tmp_path / "calm"))
    with ResultsStore.open(server.url, read_only=True) as store:
        assert store.running() == []
        assert store.stopped(store.keys("")) == {}


def rows(server: PrivateServer) -> int:
    try:
        return len(outcomes(server.url))
    except Exception:  # no tables yet
        return 0


def test_no_password_is_said_or_kept(tmp_path: Path):
    url = f"postgresql://guest:hush@/none?host={tmp_path}"
    for words in (("run", *PART), ("status", *SMALL), ("retry", *SMALL)):
        call = [PROGRAM, *words, "--store", str(tmp_path / "store"), "--db", url]
        answer = subprocess.run(call, capture_output=True, text=True, env=os.environ)
        assert answer.returncode == 2
        assert "hush" not in answer.stdout + answer.stderr
