"""Store the results of runs, and find the origin of results: computed here, without the sandbox, or imported.

Each run has one row, which is written in one transaction and never changed. A row has the raw outcome, one bit per test
image, so that every table and every statistical test can be computed from the store.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from datetime import datetime
from enum import StrEnum
from itertools import islice
from typing import Any, NamedTuple, Self

from sqlalchemy import Connection, Select, Table, case, delete, func, insert, or_, select

from roarbench.common.enums import ScoredNetwork
from roarbench.common.errors import LostLease, StoreError
from roarbench.estimators.ids import TRUSTED, EstimatorId
from roarbench.plan.cells_and_runs import Cell, Run, read_cell_record
from roarbench.plan.suite import decode_network_pair_seed
from roarbench.store.annotations_and_scores import (
    AnnotationKind,
    delete_claims_of_imports,
    insert_annotations_of_results,
    list_measured_subjects,
    read_annotations,
    replace_annotations,
)
from roarbench.store.database import Database, open_database
from roarbench.store.leases import (
    Failures,
    Lease,
    LeaseReply,
    LeaseRequest,
    Owner,
    claim_leases,
    delete_leases,
    mark_not_failed_or_interrupted,
    read_boot_id,
    read_leases_of_living_owners,
    release_lease,
    renew_leases,
)
from roarbench.store.run_result import READ_COLUMNS, RunResult, make_result_row, read_code_version, read_result
from roarbench.store.schema import (
    find_stored_keys,
    forgotten,
    imports,
    insert_new,
    leases,
    remarks,
    reproductions,
    results,
    select_matching,
    stopped,
)
from roarbench.store.workspace import DEFAULT_FILE as DEFAULT_FILE
from roarbench.store.workspace import make_default_url as make_default_url

_PROVENANCE_TABLES = (imports, reproductions, forgotten, stopped)  # small tables that tell of more than new results
_FEW_KEYS = 100  # of the first question whether results exist, which most often finds one
_OUTAGE_PATIENCE = 900.0  # seconds to wait for an unreachable server


class Origin(StrEnum):
    """Origin of a result."""

    VERIFIED = "verified"  # this store's owner computed the result; submissions ran in the sandbox
    TRUSTED = "trusted"  # the result depends on a submission that ran without the sandbox
    SELF_REPORTED = "self-reported"  # the result or its rankings were imported, and this store has not reproduced it


class ReproductionOutcome(StrEnum):
    """Outcome of the comparison of a repeated run with its stored result."""

    EQUAL = "equal"
    WITHIN = "within the interval"
    DIFFERENT = "different"
    INCOMPARABLE = "not comparable"  # another explained network was repeated, or the images are few; never stored


class Removal(NamedTuple):
    """Order, scored network, fill and unit of runs, as stored."""

    order: str
    retrain: str
    fill: str
    unit: str


class ResultsStore:
    """Store of results in one database, which also has submissions, annotations and scores.

    Every method raises StoreError if the database rejects a statement.
    """

    def __init__(self, database: Database) -> None:
        self.database = database

    @classmethod
    def open(cls, url: str, read_only: bool = False) -> Self:
        """Open the database with this URL; `open_database` explains the arguments and errors."""
        return cls(open_database(url, read_only))

    @property
    def failures(self) -> Failures:
        return Failures(self.database)

    def close(self) -> None:
        """Close all connections; the next query opens a new connection."""
        self.database.close()

    def refuse_sqlite_on_two_machines(self) -> None:
        """Raise StoreError if another machine uses the SQLite file, because SQLite's locks fail on network drives."""
        if self.database.is_sqlite:
            here = read_boot_id(Owner.of_this_process())
            for lease in self.list_leases():
                if read_boot_id(lease.owner) != here:
                    name = lease.owner.host.split()[0]
                    seen = f"{self.database.where} is an SQLite file, and {name} is using it"
                    raise StoreError(f"{seen}; for several machines use --db postgresql://HOST/NAME")

    def enable_waiting_for_server(self, report: Callable[[str], object]) -> None:
        """Wait whenever the server is unreachable from now on, and pass messages about the outage to `report`."""
        self.database.patience, self.database.report = _OUTAGE_PATIENCE, report

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.database.save_and_raise_if_file_removed()
        finally:
            self.close()

    def add_results(
        self, new: Iterable[RunResult], lease: int | None = None, annotations: Mapping[str, Any] = {}
    ) -> set[str]:
        """Store results in one transaction, and delete their leases with the number `lease`; return the new keys.

        A run that is already stored keeps its row. The transaction also stores `annotations`.

        Raises:
            LostLease: One of the leases is gone; nothing is written.
        """
        rows = {row["key"]: row for row in map(make_result_row, new)}
        ordered = [rows[key] for key in sorted(rows)]

        def work(connection: Connection) -> set[str]:
            lost = [key for key in sorted(rows) if lease is not None and not release_lease(connection, key, lease)]
            if lost:
                # an earlier attempt of this call, whose reply was lost, may have stored the results
                if find_stored_keys(connection, results, rows) == rows.keys():
                    return set()
                raise LostLease(f"another process took over the lease on {lost[0]}")
            fresh = insert_new(connection, results, ordered)
            delete_claims_of_imports(connection, annotations)
            insert_annotations_of_results(connection, annotations, fresh)
            delete_leases(connection, rows)
            mark_not_failed_or_interrupted(connection, rows)
            return fresh

        return self.database.run_write(work) if rows else set()

    def find_done_keys(self, keys: Collection[str]) -> set[str]:
        return self.database.run_read(lambda connection: find_stored_keys(connection, results, keys))

    def has_result(self, keys: Iterable[str]) -> bool:
        """Return whether any of the keys has a result; keys after the first hit are not computed."""
        rest, count = iter(keys), _FEW_KEYS
        while chunk := list(islice(rest, count)):
            if self.find_done_keys(chunk):
                return True
            count *= 10
        return False

    def list_keys_with_other_total(self, data: str, total: int) -> list[str]:
        """Return the keys of results on these images that have another number of test images."""
        statement = select(results.c.key).where(results.c.data == data, results.c.total != total)
        return [row.key for row in self.database.read(statement)]

    def list_keys_with_rankings(self, rankings: str) -> list[str]:
        """Return the keys of results whose rankings have this checksum."""
        statement = select(results.c.key).where(results.c.rankings == rankings).order_by(results.c.key)
        return [row.key for row in self.database.read(statement)]

    def read_results(self, keys: Collection[str], parsed_runs: Mapping[str, Run] = {}) -> dict[str, RunResult]:
        """Return a dict from these keys to results; runs in `parsed_runs` are not parsed again."""
        with self.database.begin_read() as connection:
            columns = select(*(results.c[name] for name in READ_COLUMNS))
            rows = select_matching(connection, columns, results.c.key, keys)
            return {row[0]: read_result(row, parsed_runs) for row in rows}

    def read_seeds_and_removals_by_version(
        self, dataset: str, model: str
    ) -> dict[tuple[str, int | None, str], set[tuple[int, Removal]]]:
        """Return a dict from the data versions of stored results to their seeds and removals, oldest version first.

        A data version consists of the fingerprint of the images, the images per split of a reduced data set (or None),
        and the given weights of the explained network (or an empty string). If networks are scored with each other's
        maps, the number of the explained network replaces the seed. `dataset` and `model` select the results.
        """
        # most records have neither field and need no parsing; a quote before `limit` takes SQLite half as long again
        special = or_(*(results.c.record.contains(name) for name in ('limit":', 'given":')))
        removal = (results.c.order, results.c.retrain, results.c.fill, results.c.unit)
        columns = (results.c.data, results.c.seed, *removal)
        statement = select(*columns, case((special, results.c.record), else_="{}").label("settings"))
        statement = statement.where(results.c.dataset == dataset, results.c.model == model)
        oldest_first = statement.group_by(*columns, "settings").order_by(func.min(results.c.created), *columns)
        with self.database.begin_read() as connection:
            rows = connection.execute(statement.distinct()).all()  # without groups, in half the time
            if len({(row.data, row.settings) for row in rows}) > 1:
                rows = connection.execute(oldest_first).all()
        found: dict[tuple[str, int | None, str], set[tuple[int, Removal]]] = {}
        for data, seed, *kind, text in rows:
            record, removal_of_row = json.loads(text), Removal(*kind)
            siblings = removal_of_row.retrain == ScoredNetwork.SIBLINGS
            number = decode_network_pair_seed(seed)[0] if siblings else seed
            version = (data, record.get("limit"), record.get("given", ""))
            found.setdefault(version, set()).add((number, removal_of_row))
        return found

    def list_cells_and_seeds(self, run: Run) -> list[tuple[Cell, int]]:
        """Return the cells and seeds of all results on the images and network of a run."""
        names = [field.name for field in fields(Cell)]
        columns = [results.c[name] for name in names]
        same = (results.c.dataset == run.cell.dataset, results.c.model == run.cell.model, results.c.data == run.data)
        rows = self.database.read(select(results.c.seed, *columns).where(*same))
        return [(read_cell_record(dict(zip(names, values, strict=True))), seed) for seed, *values in rows]

    def read_explained_weights(self, reference: str) -> set[str]:
        """Return the checksums of the weights of an explained network, by its key, that stored results record."""
        statement = select(results.c.weights).where(results.c.reference == reference).distinct()
        return {row.weights for row in self.database.read(statement) if row.weights}

    def list_datasets_and_networks(self) -> set[tuple[str, str]]:
        """Return the pairs of data set and network that have results."""
        statement = select(results.c.dataset, results.c.model).distinct()
        return {(row.dataset, row.model) for row in self.database.read(statement)}

    def read_change_stamp_of_network(self, dataset: str, model: str) -> str:
        """Return a string that changes with every new result on a data set and network, and with other records."""
        statement = _select_count_and_newest(results)
        statement = statement.where(results.c.dataset == dataset, results.c.model == model)
        statements = statement, *map(_select_count_and_newest, _PROVENANCE_TABLES)
        with self.database.begin_read() as connection:
            rows = [connection.execute(statement).one() for statement in statements]
            # an import may add doubts alone; times of annotations lie behind their long values, and are not read
            rows.append(connection.execute(select(func.count()).select_from(remarks)).one())
        return " ".join(str(value) for row in rows for value in row)

    def claim_leases(self, requests: Sequence[LeaseRequest], owner: Owner, limit: int) -> LeaseReply:
        """Lease the first `limit` requests that are neither done, nor stopped, nor held by a living owner."""
        return self.database.run_write(lambda connection: claim_leases(connection, requests, owner, limit))

    def renew_leases(self, owner: Owner) -> dict[str, int]:
        """Record an owner's heartbeat for all its leases; return a dict from their keys to their numbers."""
        return self.database.run_write(lambda connection: renew_leases(connection, owner))

    def release_leases(self, keys: Collection[str], owner: Owner) -> None:
        """Delete an owner's leases on finished runs or steps."""
        self.database.run_write(lambda connection: delete_leases(connection, keys, owner))

    def release_all_leases(self, owner: Owner) -> None:
        """Delete all leases of an owner that ends; without an answer of the database, do not wait, as they expire."""
        patience, self.database.patience = self.database.patience, 0.0
        all_leases = delete(leases).where(leases.c.owner == owner.id)
        try:
            with suppress(StoreError):
                self.database.run_write(lambda connection: connection.execute(all_leases))
        finally:
            self.database.patience = patience

    def list_leases(self) -> list[Lease]:
        """Return the leases of living owners, oldest first."""
        return self.database.run_read(read_leases_of_living_owners)


def _select_count_and_newest(table: Table) -> Select[int, Any]:
    """Select a table's number of rows and newest time; both show any change of rows, which only archiving removes."""
    return select(func.count(), func.max(table.c.created)).select_from(table)


def read_origins(database: Database, keys: Collection[str]) -> dict[str, Origin]:
    """Return a dict from keys of stored results to origins; the most recent reproduction of a result counts."""
    columns = select(results.c.key, results.c.estimator, results.c.rankings)
    stored = database.read(columns, results.c.key, keys)
    return _find_origins(database, {row.key: (row.estimator, row.rankings) for row in stored})


def _find_origins(database: Database, rows: Mapping[str, tuple[str, str]]) -> dict[str, Origin]:
    """Return a dict from keys of results to origins; `rows` maps the keys to estimators and ranking checksums."""
    imported_rankings = read_annotations(database, AnnotationKind.IMPORTED, {rankings for _, rankings in rows.values()})
    imported = find_imported_keys(database, rows)
    imported |= {key for key, (_, rankings) in rows.items() if rankings in imported_rankings}
    oldest_first = select(reproductions.c.key, reproductions.c.verdict).order_by(reproductions.c.id)
    reproduced = database.read(oldest_first, reproductions.c.key, imported)
    most_recent_verdicts = {row.key: row.verdict for row in reproduced}
    different = ReproductionOutcome.DIFFERENT
    unconfirmed = {key for key in imported if most_recent_verdicts.get(key, different) == different}
    trusted = {key for key, (name, _) in rows.items() if TRUSTED in EstimatorId.parse(name).marks}
    own = {key: Origin.SELF_REPORTED if key in unconfirmed else Origin.VERIFIED for key in rows}
    return own | dict.fromkeys(trusted, Origin.TRUSTED)


def find_imported_keys(database: Database, keys: Collection[str]) -> set[str]:
    """Return the keys of imported results; a result that this store computed from imported rankings is not imported."""
    return database.run_read(lambda connection: find_stored_keys(connection, imports, keys))


def read_data_of_imported_results(database: Database, dataset: str) -> frozenset[str]:
    """Return the fingerprints of the images of all imported results of a data set."""
    statement = select(results.c.data).join(imports, imports.c.key == results.c.key).distinct()
    return frozenset(row.data for row in database.read(statement.where(results.c.dataset == dataset)))


UNVERIFIED = {  # from origins to the reasons why results of this origin are not verified
    Origin.TRUSTED: "run without the sandbox, so not verified",
    Origin.SELF_REPORTED: "self-reported: imported, and not reproduced here",
}


def explain_unverified_estimators(database: Database, stored: Iterable[RunResult]) -> dict[str, str]:
    """Map each estimator with an unverified result to the reason why it is unverified."""
    rows = {result.run.key: (result.run.cell.estimator, result.rankings) for result in stored}
    origins = _find_origins(database, rows)
    return {rows[key][0]: UNVERIFIED[origin] for key, origin in origins.items() if origin in UNVERIFIED}


def read_reproductions(database: Database, key: str) -> list[tuple[datetime, str, int]]:
    """Return time, verdict and number of correct predictions of each reproduction of a result, oldest first."""
    columns = (reproductions.c.created, reproductions.c.verdict, reproductions.c.correct)
    statement = select(*columns).where(reproductions.c.key == key).order_by(reproductions.c.id)
    return [(row.created, row.verdict, row.correct) for row in database.read(statement)]


def store_reproduction(
    database: Database,
    stored: RunResult,
    verdict: ReproductionOutcome,
    correct: int,
    measured: Mapping[AnnotationKind, Any] = {},
) -> None:
    """Store the outcome of reproducing a result; `measured` replaces what an import claimed of its maps and masks."""
    row = {"key": stored.run.key, "verdict": verdict.value, "correct": correct, "code_version": read_code_version()}
    subjects = list_measured_subjects(stored)
    with database.begin_exclusive_write() as connection:
        connection.execute(insert(reproductions), row)
        replace_annotations(connection, {f"{kind} {subjects[kind]}": value for kind, value in measured.items()})
