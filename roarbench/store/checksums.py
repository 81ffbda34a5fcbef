"""Checksums of references and rankings, from the first machine on: results of one database all rest on the same ones.

Nothing here imports torch.
"""

import socket
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, or_, select, update

from roarbench.errors import StoreError
from roarbench.store.database import Database, insert_new, matching
from roarbench.store.folders import Workspace
from roarbench.store.schema import checksums, imports, results


class Artifact(NamedTuple):
    """Reference or ranking of a store's folder.

    Attributes:
        key: Hash of the record of what it is, 32 hex digits.
        what: How messages call it.
        checksum: Of its contents; empty if the folder lacks it.
        reference: Key of the reference that it is; empty for a ranking.
    """

    key: str
    what: str
    checksum: str
    reference: str = ""


class Checksums:
    """Artifacts that the results of a database rest on, held against one store's folder.

    Args:
        database: Of the results.
        workspace: The folder.
    """

    def __init__(self, database: Database, workspace: Workspace) -> None:
        self._database, self._workspace = database, workspace

    def check(self, found: Collection[Artifact]) -> None:
        """Note what the folder has and the database does not know yet.

        What the folder lacks can be made there, unless several machines may share the database and another folder has
        it: most likely the folder is the wrong one.

        Raises:
            StoreError: The folder has something else, or lacks it; nothing is noted.
        """
        self._note(found, made_here=False)

    def note(self, found: Collection[Artifact]) -> None:
        """Note what was just made in the folder; it takes the place of what was lost there, if no result rests on that.

        Raises:
            StoreError: Results rest on something else, or another folder has something else; nothing is noted.
        """
        self._note(found, made_here=True)

    def _note(self, found: Collection[Artifact], made_here: bool) -> None:
        made = {each.key: each for each in found}
        here = {"folder": self._workspace.identity, "place": f"{socket.gethostname()}:{self._workspace.root.resolve()}"}

        def work(connection: Connection) -> None:
            known = [each for each in sorted(made.values()) if each.checksum]
            rows = [{"key": each.key, "what": each.what, "checksum": each.checksum} for each in known]
            insert_new(connection, checksums, rows, {**here, "created": datetime.now(UTC)})
            there = {row.key: row for row in matching(connection, select(checksums), checksums.c.key, made)}
            for row, each in ((there[key], each) for key, each in made.items() if key in there):
                own = made_here and row.folder == here["folder"] and each.checksum
                if own and each.checksum != row.checksum and not _rests_on(connection, row, each):
                    mine = update(checksums).where(checksums.c.key == row.key)
                    connection.execute(mine.values(checksum=each.checksum, created=datetime.now(UTC)))
                else:
                    self._compare(row, each, here["folder"])

        if made:
            self._database.change(work)

    def _compare(self, row: Any, here: Artifact, folder: str) -> None:
        """Raise where the folder's and the database's are not the same."""
        elsewhere = row.folder != folder and not self._database.is_file
        if here.checksum == row.checksum or not (here.checksum or elsewhere):
            return
        seen = f"{self._workspace.root} has another {here.what} than the one made in {row.place}"
        if not here.checksum:
            seen = f"{self._workspace.root} lacks the {here.what}, which was made in {row.place}"
        raise StoreError(
            f"{seen}, on which {self._database.where} rests; name that --store, copy its references and rankings here, "
            "or name a fresh --store and --db"
        )


def _rests_on(connection: Connection, row: Any, made: Artifact) -> bool:
    """Return whether a result rests on what was made before; imported ones rest on another store's folder."""
    used = [results.c.rankings == row.checksum, *([results.c.reference == made.reference] if made.reference else [])]
    here = results.c.key.not_in(select(imports.c.key))
    return connection.execute(select(results.c.key).where(or_(*used), here).limit(1)).first() is not None
