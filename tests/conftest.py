"""What several tests need: programs that may be missing, and a private PostgreSQL server."""

import gc
import os
import signal

os.environ.setdefault("OMP_NUM_THREADS", "1")  # pytest-xdist has a process per core; more threads fight for it

import shutil
import sys
import tempfile
from pathlib import Path

import psycopg
import pytest
from hypothesis import settings

from tests.helpers.postgres import PrivateServer

_OWN_DATA = tempfile.TemporaryDirectory(prefix="roarbench-tests-")  # the default store, and whose networks are trusted
os.environ["XDG_DATA_HOME"] = _OWN_DATA.name
_DEBIANS = sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")))
_FOLDERS = (str(Path(sys.executable).parent), *_DEBIANS)  # of this environment, though it need not be activated

settings.register_profile("roarbench", deadline=None, max_examples=40)  # a busy machine is no failure
settings.load_profile("roarbench")
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background jobs deaf to it, and theirs


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What is imported stays: no search for garbage, a sixth of all imports' time, looks at it now or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items):
    """On a GPU the compiler and CUDA have warnings of their own, which are no errors here."""
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.filterwarnings("default"))


@pytest.fixture(scope="session")
def require():
    """Give a program's path; where it is missing, skip with the reason, but fail where CI=true."""

    def find(program, reason):
        path = shutil.which(program, path=os.pathsep.join([os.environ.get("PATH", ""), *_FOLDERS]))
        if path is None:
            stop = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
            stop(f"{program} is missing: {reason}")
        return path

    return find


@pytest.fixture
def bubblewrap(require):
    """What sandboxes are made with."""
    return require("bwrap", "apt-get install bubblewrap")


@pytest.fixture
def store(tmp_path):
    """A store of results in the folder of the test."""
    from roarbench.store.results import ResultsStore, default_url

    with ResultsStore.open(default_url(tmp_path)) as store:
        yield store


@pytest.fixture
def call(monkeypatch, capsys):
    """Run a command and give what it printed, on a terminal of 80 columns."""
    from tests.helpers.command_line import Answer, command

    monkeypatch.setenv("COLUMNS", "80")
    return lambda *words: Answer(command(*words), *capsys.readouterr())


@pytest.fixture(scope="session")
def postgres_server(require):
    """The socket folder of a server that nobody else can see, with the superuser `postgres`."""
    with PrivateServer(require) as server:
        yield server.folder


@pytest.fixture
def own_server(require):
    """A server of this test alone, which it may stop."""
    with PrivateServer(require) as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server):
    """An empty database; always the same one, since making and removing databases is slow."""
    with psycopg.connect(host=str(postgres_server), user="postgres", autocommit=True) as connection:
        others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'postgres' AND pid <> %s"
        connection.execute(others, [connection.info.backend_pid])
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    return f"postgresql://postgres@/postgres?host={postgres_server}"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def store_url(request, tmp_path):
    """Where a store can be made, on each kind of database."""
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite:///{tmp_path}/results.sqlite"
