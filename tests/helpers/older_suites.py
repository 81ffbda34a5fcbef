"""Versions of suites that the package no longer has, for tests of what becomes of older versions."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from roarbench.cli.main import main
from roarbench.plan.suites import SUITE_VERSIONS, read_builtin_suite

OLDER = {
    suite.versioned: suite for suite in map(read_builtin_suite, sorted(Path(__file__).with_suffix("").glob("*.toml")))
}


@contextmanager
def older_suites() -> Iterator[None]:
    """Let the package know them, before its own."""
    older = {(suite.name, suite.version): suite for suite in OLDER.values()}
    with patch.dict(SUITE_VERSIONS, older | SUITE_VERSIONS, clear=True):
        yield


if __name__ == "__main__":
    with older_suites():
        main()
