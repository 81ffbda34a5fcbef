"""Record the checksums of networks and rankings, so that all machines of one database use the same files.

Nothing here imports torch.
"""

import socket
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

from sqlalchemy import Connection, and_, select, update

from roarbench.common.errors import StoreError
from roarbench.store.database import Database, find_stored_keys, insert_new, select_matching
from roarbench.store.leases import SILENCE, make_clock_expression, read_leases_of_living_owners
from roarbench.store.schema import checksums, imports, results
from roarbench.store.workspace import Workspace


class Artifact(NamedTuple):
    """Identity and checksum of an explained network, common network or ranking in a store's folder."""

    key: str  # hash of the artifact's record, 32 hex digits
    what: str  # name in messages
    checksum: str  # checksum of the content; empty if the folder lacks the artifact
    key_in_runs: str = ""  # key of the reference or common network in run records; empty for a ranking
    rankings: str = ""  # checksum of the rankings that tuned a network; empty for other artifacts


class RecordedChecksum(NamedTuple):
    """Checksum of a run's input in the stored result, and checksum of the same input in the folder now."""

    run: str  # key of the result
    what: str  # name of the input in messages
    checksum: str  # checksum of the input at the time of the run
    here: str  # checksum of the folder's file


@dataclass(frozen=True)
class Checksums:
    """Checksums of the inputs of a database's results, to compare with the files in one store's folder."""

    database: Database
    workspace: Workspace

    def record_compare_or_reserve(
        self, artifacts: Collection[Artifact], recorded: Collection[RecordedChecksum] = ()
    ) -> None:
        """Record checksums of the folder's files that have none in the database, and compare the others.

        If the folder lacks a file, the file is reserved for the folder: no other folder may make the file while a
        command works on the database. The reservation is refused if several machines may share the database and another
        folder has the file, because this folder is then probably the wrong folder.

        Raises:
            StoreError: A file has a different checksum than the recorded one; another folder has or is making a missing
                file; or results record checksums of an input, and none equals the checksum of the folder's file.
                Nothing is recorded.
        """
        self._record_checksums(artifacts, made_here=False, recorded=recorded)

    def record_new_files(self, artifacts: Collection[Artifact]) -> None:
        """Record checksums of newly made files; a new file may replace a lost file on which no result depends.

        Raises:
            StoreError: Results depend on different files, or another folder has different files; nothing is recorded.
        """
        self._record_checksums(artifacts, made_here=True)

    def _record_checksums(
        self, artifacts: Collection[Artifact], made_here: bool, recorded: Collection[RecordedChecksum] = ()
    ) -> None:
        by_key = {artifact.key: artifact for artifact in artifacts}
        here = {"folder": self.workspace.identity, "place": f"{socket.gethostname()}:{self.workspace.root.resolve()}"}

        def work(connection: Connection) -> None:
            new = [artifact for artifact in sorted(by_key.values()) if artifact.checksum or not made_here]
            rows = [{"key": artifact.key, "what": artifact.what, "checksum": artifact.checksum} for artifact in new]
            insert_new(connection, checksums, rows, {**here, "created": make_clock_expression(connection)})
            with_time = select(checksums, make_clock_expression(connection).label("now"))
            stored = with_time.order_by(checksums.c.key).with_for_update()
            there = {row.key: row for row in select_matching(connection, stored, checksums.c.key, by_key)}
            for row, artifact in ((there[key], artifact) for key, artifact in by_key.items() if key in there):
                own = row.folder == here["folder"]
                if _may_replace_checksum(connection, row, artifact, own, made_here):
                    statement = update(checksums).where(checksums.c.key == row.key)
                    connection.execute(
                        statement.values(**here, checksum=artifact.checksum, created=make_clock_expression(connection))
                    )
                else:
                    self._refuse_different_checksum(row, artifact, own)
            self._compare_inputs_with_folder(connection, recorded)

        if by_key:
            self.database.run_write(work)

    def _refuse_different_checksum(self, row: Any, artifact: Artifact, own_folder: bool) -> None:
        if not row.checksum:
            raise StoreError(
                f"{self.database.where} belongs to the store {row.place}, where the {row.what} is being made; "
                f"use that folder as --store instead of {self.workspace.root}, or use another --db"
            )
        elsewhere = not (own_folder or self.database.is_sqlite)
        if artifact.checksum == row.checksum or not (artifact.checksum or elsewhere):
            return
        seen = f"has a different {artifact.what} than the one made in {row.place}"
        self._raise_wrong_folder(seen if artifact.checksum else f"lacks the {artifact.what} made in {row.place}")

    def _compare_inputs_with_folder(self, connection: Connection, inputs: Collection[RecordedChecksum]) -> None:
        """Raise StoreError if results record checksums of an input, and none is the checksum of the folder's file."""
        imported = find_stored_keys(connection, imports, {recorded.run for recorded in inputs})
        own = [recorded for recorded in inputs if recorded.run not in imported]
        fitting = {(recorded.what, recorded.here) for recorded in own if recorded.checksum == recorded.here}
        for recorded in own:
            if recorded.here and (recorded.what, recorded.here) not in fitting:
                self._raise_wrong_folder(f"has a different {recorded.what} than the one of the run {recorded.run}")

    def _raise_wrong_folder(self, problem: str) -> NoReturn:
        raise StoreError(
            f"{self.workspace.root} {problem}, on which results in {self.database.where} depend; use that store's "
            "folder as --store, copy its references, rankings and networks to this folder, or use a new "
            "--store and --db"
        )


def _may_replace_checksum(connection: Connection, row: Any, artifact: Artifact, own: bool, made_here: bool) -> bool:
    # no checksum: a folder has reserved the artifact; the command there may not have a lease yet, or may have ended
    if not row.checksum:
        return own or not (row.now - row.created < SILENCE or read_leases_of_living_owners(connection))
    is_new = made_here and artifact.checksum not in ("", row.checksum)
    return own and is_new and not _has_dependent_result(connection, row, artifact)


def _has_dependent_result(connection: Connection, row: Any, artifact: Artifact) -> bool:
    """Return whether a result of this store depends on the earlier file; imported results do not count."""
    rankings = artifact.rankings or ("" if artifact.key_in_runs else row.checksum)
    on_rankings = [results.c.rankings == rankings] if rankings else []
    used = and_(
        results.c.record.contains(artifact.key_in_runs), *on_rankings, results.c.key.not_in(select(imports.c.key))
    )
    return connection.execute(select(results.c.key).where(used).limit(1)).first() is not None
