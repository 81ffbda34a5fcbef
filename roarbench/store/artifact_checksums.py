"""Record the checksums of networks and rankings, so that all machines of one database use the same files.

Nothing here imports torch.
"""

import socket
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

from sqlalchemy import Connection, select, update

from roarbench.common.errors import StoreError
from roarbench.store.database import Database
from roarbench.store.leases import MAX_SILENCE, make_clock_expression, read_leases_of_living_owners
from roarbench.store.schema import checksums, find_stored_keys, imports, insert_new, results, select_matching
from roarbench.store.workspace import Workspace


class Artifact(NamedTuple):
    """Identity and checksum of an explained network, common network or ranking in a store's folder."""

    key: str  # hash of the artifact's record, 32 hex digits
    name: str  # name in messages
    checksum: str  # checksum of the content; empty if the folder lacks the artifact
    key_in_runs: str = ""  # key of the reference or common network in run records; empty for a ranking
    rankings: str = ""  # checksum of the rankings that tuned a network; empty for other artifacts


class RecordedChecksum(NamedTuple):
    """Checksum of a run's input in the stored result, and checksum of the same input in the folder now."""

    run_key: str
    name: str  # name of the input in messages
    checksum: str  # checksum of the input at the time of the run
    current_checksum: str  # checksum of the folder's file


@dataclass(frozen=True)
class Checksums:
    """Comparison of the files in one store's folder with the checksums in its database."""

    database: Database
    workspace: Workspace

    def record_or_compare_checksums(
        self, artifacts: Collection[Artifact], recorded: Collection[RecordedChecksum] = (), made_here: bool = False
    ) -> None:
        """Compare the checksums of the folder's files with the database, and record those that the database lacks.

        If the folder lacks a file, the file is reserved for the folder: no other folder may make the file while a
        command works on the database. If several machines may share the database and another folder has the file, the
        reservation fails, because this folder is probably the wrong one. A file that was `made_here` just now may
        replace a lost file on which no result depends.

        Raises:
            StoreError: A file has a different checksum than the recorded one; another folder has or is making a missing
                file; or results record checksums of an input, and none equals the checksum of the folder's file.
                Nothing is recorded.
        """
        by_key = {artifact.key: artifact for artifact in artifacts}
        place = f"{socket.gethostname()}:{self.workspace.root.resolve()}"
        identity = self.workspace.identity

        def work(connection: Connection) -> None:
            new = [artifact for artifact in sorted(by_key.values()) if artifact.checksum or not made_here]
            rows = [{"key": artifact.key, "what": artifact.name, "checksum": artifact.checksum} for artifact in new]
            here = {"folder": identity, "place": place, "created": make_clock_expression(connection)}
            insert_new(connection, checksums, rows, here)
            with_time = select(checksums, make_clock_expression(connection).label("now"))
            stored = with_time.order_by(checksums.c.key).with_for_update()
            there = {row.key: row for row in select_matching(connection, stored, checksums.c.key, by_key)}
            for row, artifact in ((there[key], artifact) for key, artifact in by_key.items() if key in there):
                own = row.folder == identity
                elsewhere = not (own or self.database.is_sqlite)
                if _may_replace_checksum(connection, row, artifact, own, made_here):
                    values = here | {"checksum": artifact.checksum}
                    connection.execute(update(checksums).where(checksums.c.key == row.key).values(values))
                elif not row.checksum:
                    seen = f"{self.database.where} belongs to the store {row.place}, where the {row.what} is being made"
                    remedy = f"use that folder as --store instead of {self.workspace.root}, or use another --db"
                    raise StoreError(f"{seen}; {remedy}")
                elif artifact.checksum != row.checksum and (artifact.checksum or elsewhere):
                    problem = "has a different {} than the one" if artifact.checksum else "lacks the {}"
                    self._raise_wrong_folder(f"{problem.format(artifact.name)} made in {row.place}")
            # own results must record the checksum of an input that is in the folder now
            imported = find_stored_keys(connection, imports, {each.run_key for each in recorded})
            of_own_runs = [each for each in recorded if each.run_key not in imported]
            confirmed = {(each.name, each.checksum) for each in of_own_runs}
            for each in of_own_runs:
                if each.current_checksum and (each.name, each.current_checksum) not in confirmed:
                    self._raise_wrong_folder(f"has a different {each.name} than the one of the run {each.run_key}")

        if by_key:
            self.database.run_write(work)

    def _raise_wrong_folder(self, problem: str) -> NoReturn:
        copying = "copy its explained networks, rankings and networks to this folder"
        ways = f"use that store's folder as --store, {copying}, or use a new --store and --db"
        raise StoreError(f"{self.workspace.root} {problem}, on which results in {self.database.where} depend; {ways}")


def _may_replace_checksum(connection: Connection, row: Any, artifact: Artifact, own: bool, made_here: bool) -> bool:
    # without a checksum, the row reserves the artifact for a folder, whose command may have no lease yet or have ended
    if not row.checksum:
        return own or not (abs(row.now - row.created) < MAX_SILENCE or read_leases_of_living_owners(connection))
    if not own or not made_here or artifact.checksum in ("", row.checksum):
        return False
    # a result of this store, not an imported one, may depend on the earlier file
    rankings = artifact.rankings or ("" if artifact.key_in_runs else row.checksum)
    conditions = [results.c.record.contains(artifact.key_in_runs), results.c.key.not_in(select(imports.c.key))]
    conditions += [results.c.rankings == rankings] if rankings else []
    return connection.execute(select(results.c.key).where(*conditions).limit(1)).first() is None
