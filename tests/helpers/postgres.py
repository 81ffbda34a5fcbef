"""A PostgreSQL server that nobody else can see, and that a test may stop."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import psycopg

from tests.helpers.commands import eventually


class PrivateServer:
    """Listens, as a context, on a socket in a folder of its own; its superuser is `postgres`.

    Args:
        require: Gives the path of a program, or skips.
    """

    def __init__(self, require: Callable[[str, str], str]) -> None:
        reason = "apt-get install postgresql"
        initdb, self._pg_ctl = require("initdb", reason), require("pg_ctl", reason)
        self.folder = Path(tempfile.mkdtemp(prefix="roarbench-pg-"))  # a socket's path must be short
        self._user: list[str] = []
        self._options = f"-k {self.folder} -c listen_addresses='' -c fsync=off -c max_connections=50"
        if os.geteuid() == 0:  # the server refuses to run as root
            self._user = [require("runuser", "part of util-linux"), "-u", "postgres", "--"]
            shutil.chown(self.folder, "postgres")
        self._data = f"{self.folder}/data"
        self._call(initdb, "-D", self._data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")

    def __enter__(self) -> "PrivateServer":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    @property
    def url(self) -> str:
        return f"postgresql://postgres@/postgres?host={self.folder}"

    def start(self) -> None:
        self._call(self._pg_ctl, "start", "-w", "-D", self._data, "-l", f"{self.folder}/log", "-o", self._options)

    def stop(self) -> None:
        """End it at once, as a kill would; it recovers when it is started again."""
        self._call(self._pg_ctl, "stop", "-m", "immediate", "-D", self._data)

    def kill(self) -> None:
        """Kill its first process, and wait until the others have noticed: before that it cannot be started again."""
        first = int(Path(self._data, "postmaster.pid").read_text().split()[0])
        listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(first)], capture_output=True, text=True, check=True)
        os.kill(first, signal.SIGKILL)
        assert eventually(lambda: not any(Path("/proc", pid).exists() for pid in listed.stdout.split()))

    def add_database(self, name: str) -> str:
        """Make an empty database; its URL."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return f"postgresql://postgres@/{name}?host={self.folder}"

    def _call(self, *command: str) -> None:
        subprocess.run([*self._user, *command], check=True, cwd=self.folder, stdout=subprocess.DEVNULL)
