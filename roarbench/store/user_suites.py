"""Store suites from users' files, with the folders of their data."""

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from sqlalchemy import Connection, delete, select

from roarbench.common.errors import CallerError
from roarbench.common.identity import encode_canonically
from roarbench.plan.suite import SuiteSpec
from roarbench.plan.suite_record import convert_user_suite_to_record, read_user_suite_record
from roarbench.plan.suites import SUITE_VERSIONS
from roarbench.store.database import Database, insert_new
from roarbench.store.schema import suites


def store_or_replace_suite(database: Database, suite: SuiteSpec) -> None:
    """Store a suite from a user's file, with the folder of its data; replace an earlier copy."""
    with database.begin_exclusive_write() as connection:
        connection.execute(delete(suites).where(suites.c.id == suite.name_in_commands))
        insert_suites(connection, [suite])


def insert_suites(connection: Connection, new: Iterable[SuiteSpec]) -> None:
    """Store suites within a transaction; existing suites stay unchanged."""
    rows = [
        {
            "id": suite.name_in_commands,
            "record": encode_canonically(convert_user_suite_to_record(suite)),
            "folder": suite.dataset_record.folder,
        }
        for suite in new
    ]
    insert_new(connection, suites, rows)


def read_suites(database: Database) -> list[SuiteSpec]:
    """Return the stored suites from users' files, oldest first; skip suites that this version cannot read."""
    stored_suites = []
    with database.begin_read() as connection:
        rows = list(connection.execute(select(suites).order_by(suites.c.created, suites.c.id)))
    for row in rows:
        with suppress(CallerError, KeyError, TypeError, ValueError):
            suite = read_user_suite_record(json.loads(row.record))
            if suite.name_in_commands == row.id:
                stored_suites.append(_set_dataset_folder(suite, row.folder))
    return stored_suites


def _set_dataset_folder(suite: SuiteSpec, folder: str) -> SuiteSpec:
    if suite.own is None or suite.own.dataset is None:
        return suite
    return replace(suite, own=replace(suite.own, dataset=replace(suite.own.dataset, folder=folder)))


def list_all_suites(database: Database) -> list[SuiteSpec]:
    """Return all versions of the named suites, then the stored suites from users' files."""
    return [*SUITE_VERSIONS.values(), *read_suites(database)]
