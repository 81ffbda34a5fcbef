"""Store suites from users' files, and refuse to execute a suite's network file that this user does not trust.

The record of a suite contains the source of its network, and imported results bring this record. Nothing here imports
torch.
"""

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from platformdirs import user_data_path
from sqlalchemy import Connection, delete, inspect, select

from roarbench.common.errors import CallerError, StoreError
from roarbench.common.files import convert_write_errors, write_atomically
from roarbench.common.identity import encode_canonically
from roarbench.common.text import fit_on_one_line
from roarbench.plan.suite import SuiteSpec
from roarbench.plan.suite_record import convert_user_suite_to_record, read_user_suite_record
from roarbench.plan.suites import SUITE_VERSIONS
from roarbench.store.database import Database, insert_new
from roarbench.store.schema import suites

_SHOWN_CHARACTERS = 160  # of the file's beginning


def store_or_replace_suite(database: Database, suite: SuiteSpec) -> None:
    """Store a suite from a user's file, with the folder of its data; replace an earlier copy."""
    with database.begin_write() as connection:
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
        if not inspect(connection).has_table(suites.name):
            return []
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


def record_trusted_network(suite: SuiteSpec) -> None:
    """Record that this user trusts a suite's network files; if the record cannot be written, do nothing."""
    for source in _list_network_sources(suite):
        with suppress(StoreError):
            _save_source(_find_trusted_networks_folder(), source)


def refuse_untrusted_network(suite: SuiteSpec, trusted_digest: str, store: Path) -> None:
    """Raise CallerError if this user does not trust a suite's network file; save a copy to read in the store's folder.

    `trusted_digest` is the SHA-256 of a file that the user trusts, or empty.
    """
    for source in _list_network_sources(suite):
        digest = sha256(source.encode()).hexdigest()
        if trusted_digest == digest or (_find_trusted_networks_folder() / f"{digest}.py").exists():
            continue
        path = _save_source(store / "imported-networks", source)
        danger = f"{suite.architecture_names} with your rights, a file that came with imported results"
        begin = fit_on_one_line(" ¶ ".join(line for line in source.splitlines() if line.strip()), _SHOWN_CHARACTERS)
        seen = f"{suite.name_in_commands} would run {danger}: {begin}"
        raise CallerError(f"{seen} (all of it: {path}); read it, then repeat the command with --trust-network {digest}")


def _list_network_sources(suite: SuiteSpec) -> list[str]:
    sources = [suite.network_source, *(network.source for network in suite.networks)]
    return [source for source in dict.fromkeys(sources) if source]


def _find_trusted_networks_folder() -> Path:
    """Return the folder of trusted files, which is outside of stores, because a store may come from another user."""
    return user_data_path("roarbench") / "trusted-networks"


def _save_source(folder: Path, source: str) -> Path:
    path = folder / f"{sha256(source.encode()).hexdigest()}.py"
    if not path.exists():
        with convert_write_errors(path):
            folder.mkdir(parents=True, exist_ok=True)
            write_atomically(path, lambda temporary: temporary.write_bytes(source.encode()))
    return path
