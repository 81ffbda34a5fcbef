"""Fixtures for all tests: required programs, stores, the command line, and a private PostgreSQL server."""

import gc
import multiprocessing
import os
import signal

os.environ.setdefault("OMP_NUM_THREADS", "1")  # pytest-xdist has a process per core; more threads fight for it

import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import psycopg
import pytest
from hypothesis import settings

from tests.helpers.processes import wait_until

_OWN_DATA = tempfile.TemporaryDirectory(prefix="roarbench-tests-")  # default store and trusted networks
os.environ["XDG_DATA_HOME"] = _OWN_DATA.name
for _variable in ("ROARBENCH_STORE", "ROARBENCH_DB"):  # tests write to no store of the user
    os.environ.pop(_variable, None)
if "PYTEST_XDIST_WORKER" not in os.environ:  # workers share the cache of the process that starts them
    os.environ["XDG_CACHE_HOME"] = f"{_OWN_DATA.name}/cache"
_DEBIANS = sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")))
_FOLDERS = (str(Path(sys.executable).parent), *_DEBIANS)  # of this environment, though it need not be activated

settings.register_profile("roarbench", deadline=None, max_examples=40)  # a busy machine is no failure
settings.load_profile("roarbench")
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background jobs deaf to it, and theirs


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Exclude imported modules from garbage collection, which takes a sixth of all import time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items):
    """Run the tests beside this file first: some take so long that other processes would wait for them at the end.

    Tests marked `gpu` are skipped without one; the compiler and CUDA have warnings of their own, which are no errors.
    """
    items.sort(key=lambda item: item.path.parent != Path(__file__).parent)
    for item in items:
        if item.get_closest_marker("gpu"):
            import torch

            item.add_marker(pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"))
            item.add_marker(pytest.mark.filterwarnings("default"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown():
    """End forked commands that a failed test left behind: they would go on in its store, and lock its database."""
    for child in multiprocessing.active_children():
        if isinstance(child, ForkServerProcess):
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.kill()


@pytest.fixture(scope="session")
def require():
    """Return a function that finds a program's path; a missing program skips the test, or fails it if CI=true."""

    def find(program, reason):
        path = shutil.which(program, path=os.pathsep.join([os.environ.get("PATH", ""), *_FOLDERS]))
        if path is None:
            stop = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
            stop(f"{program} is missing: {reason}")
        return path

    return find


@pytest.fixture
def bubblewrap(require):
    """The path of bwrap, which makes sandboxes."""
    return require("bwrap", "apt-get install bubblewrap")


@pytest.fixture
def working_folder(tmp_path, monkeypatch):
    """The folder of the test, as current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def store(tmp_path):
    """A store of results in the folder of the test."""
    from roarbench.store.results import ResultsStore, make_default_url

    with ResultsStore.open(make_default_url(tmp_path)) as store:
        yield store


@pytest.fixture
def call(monkeypatch, capsys):
    """Return a function that runs a command on a terminal of 80 columns and returns exit code and output."""
    from tests.helpers.command_line import Answer, command

    monkeypatch.setenv("COLUMNS", "80")
    return lambda *words: Answer(command(*words), *capsys.readouterr())


class PrivateServer:
    """A PostgreSQL server on a socket in its own folder, with the superuser `postgres`; used as a context."""

    def __init__(self, require):
        reason = "apt-get install postgresql"
        initdb, self._pg_ctl = require("initdb", reason), require("pg_ctl", reason)
        self.folder = Path(tempfile.mkdtemp(prefix="roarbench-pg-"))  # a socket's path must be short
        self.url = f"postgresql://postgres@/postgres?host={self.folder}"
        self._user = []
        self._options = f"-k {self.folder} -c listen_addresses='' -c fsync=off -c max_connections=50"
        if os.geteuid() == 0:  # the server refuses to run as root
            self._user = [require("runuser", "part of util-linux"), "-u", "postgres", "--"]
            shutil.chown(self.folder, "postgres")
        self._data = f"{self.folder}/data"
        self._call(initdb, "-D", self._data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self.folder)

    def start(self):
        self._call(self._pg_ctl, "start", "-w", "-D", self._data, "-l", f"{self.folder}/log", "-o", self._options)

    def stop(self):
        """Stop the server at once, as a kill would; it recovers at the next start."""
        self._call(self._pg_ctl, "stop", "-m", "immediate", "-D", self._data)

    def kill(self):
        """Kill the server's first process and wait for the others to end, which a restart requires."""
        first = int(Path(self._data, "postmaster.pid").read_text().split()[0])
        listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(first)], capture_output=True, text=True, check=True)
        os.kill(first, signal.SIGKILL)
        assert wait_until(lambda: not any(Path("/proc", pid).exists() for pid in listed.stdout.split()))

    def add_database(self, name):
        """Create an empty database and return its URL."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return f"postgresql://postgres@/{name}?host={self.folder}"

    def _call(self, *command):
        subprocess.run([*self._user, *command], check=True, cwd=self.folder, stdout=subprocess.DEVNULL)


@pytest.fixture(scope="session")
def postgres_server(require):
    with PrivateServer(require) as server:
        yield server


@pytest.fixture
def own_server(require):
    """A server for one test, which may stop the server."""
    with PrivateServer(require) as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server):
    """The URL of one emptied database, since creating and removing databases is slow."""
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'postgres' AND pid <> %s"
        connection.execute(others, [connection.info.backend_pid])
        connection.execute("SET lock_timeout = '60s'")
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    return postgres_server.url


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def store_url(request, tmp_path):
    """The URL of a new store, on each kind of database."""
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite:///{tmp_path}/results.sqlite"
