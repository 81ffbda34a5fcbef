"""Suites from somebody's file, kept with their results. Nothing here imports torch."""

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from sqlalchemy import Connection, delete, inspect, select

from roarbench.errors import CallerError
from roarbench.identity import encode_canonically
from roarbench.plan.custom_suite import read_suite_record, write_suite_record
from roarbench.plan.suite import SuiteSpec
from roarbench.plan.suites import VERSIONS
from roarbench.store.database import Database, insert_new
from roarbench.store.schema import suites


def keep_suite(database: Database, suite: SuiteSpec) -> None:
    """Keep a suite from a file, and where its data lie now; what was kept of the same suite before is replaced."""
    with database.write() as connection:
        connection.execute(delete(suites).where(suites.c.id == suite.called))
        put_suites(connection, [suite])


def put_suites(connection: Connection, new: Iterable[SuiteSpec]) -> None:
    """Store suites within a transaction; one that is kept already stays as it is."""
    insert_new(connection, suites, [_row(suite) for suite in new])


def _row(suite: SuiteSpec) -> dict[str, str]:
    dataset = suite.own.dataset if suite.own else None
    return {
        "id": suite.called,
        "record": encode_canonically(write_suite_record(suite)),
        "folder": dataset.folder if dataset else "",
    }


def read_suites(database: Database) -> list[SuiteSpec]:
    """Return the suites from files that a store has, oldest first, without those that only a newer version can read."""
    found = []
    with database.read() as connection:
        if not inspect(connection).has_table(suites.name):
            return []
        rows = list(connection.execute(select(suites).order_by(suites.c.created, suites.c.id)))
    for row in rows:
        with suppress(CallerError, KeyError, TypeError, ValueError):
            suite = read_suite_record(json.loads(row.record))
            if suite.called == row.id:
                found.append(_make_paths_absolute(suite, row.folder))
    return found


def _make_paths_absolute(suite: SuiteSpec, folder: str) -> SuiteSpec:
    if suite.own is None or suite.own.dataset is None:
        return suite
    return replace(suite, own=replace(suite.own, dataset=replace(suite.own.dataset, folder=folder)))


def list_suites(database: Database) -> list[SuiteSpec]:
    """Return all versions of the named suites, then the suites from files that a store has."""
    return [*VERSIONS.values(), *read_suites(database)]
