"""The folder structure of a store."""

import hashlib
import secrets
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from roarbench.errors import StoreError
from roarbench.estimators.ids import EstimatorId
from roarbench.files import convert_write_errors, lock_file, write_atomically

DEFAULT_FILE = "results.sqlite"  # file in the store's folder, unless another database is named


def make_default_url(store: Path) -> str:
    """Return the URL of the default database of a store's folder, as SQLAlchemy writes it, which is not imported."""
    return f"sqlite:///{quote(str(store / DEFAULT_FILE), safe=' +/')}"


class _Folder:
    """The folder of a workspace with this name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, workspace: "Workspace", owner: type) -> Path:
        return workspace.root / self._name


@dataclass(frozen=True)
class Workspace:
    """The folders of one store; all but the results can be deleted and made again."""

    root: Path
    data = _Folder("data")  # decoded images
    references = _Folder("references")  # weights and predictions of the explained networks
    networks = _Folder("networks")  # scoring networks that many runs share
    rankings = _Folder("rankings")  # rankings as bit-planes
    checkpoints = _Folder("checkpoints")  # unfinished or interrupted trainings
    logs = _Folder("logs")  # logs of the workers
    submissions = _Folder("submissions")  # Python files by submission id

    @property
    def identity(self) -> str:
        """Return an identifier that distinguishes folders with the same path, 32 hex digits; a copy keeps it."""
        path = self.root / ".identity"
        if not path.exists():
            with lock_file(self.root / ".identity.lock", self.root), convert_write_errors(path):
                if not path.exists():
                    write_atomically(path, lambda temporary: temporary.write_text(secrets.token_hex(16)))
        return path.read_text()

    def save_submission(self, submission_id: str, source: bytes) -> None:
        """Store a submission's file for all workers; raise StoreError if another file has its id."""
        path = self.submissions / f"{submission_id}.py"
        if path.exists():
            if self.read_submission(submission_id) != source:
                seen = f"{path} is a different file with the same id"
                raise StoreError(f"{seen}; add a comment to your file, so that its id changes")
            return
        with convert_write_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_suffix(f".{secrets.token_hex(8)}")
            write_atomically(path, lambda target: target.write_bytes(source), temporary)

    def read_submission(self, submission_id: str) -> bytes:
        """Return the file of a submission by id, after a check of its hash; parameters and twins are ignored."""
        estimator_id = EstimatorId.parse(submission_id)
        path = self.submissions / f"{estimator_id.file_id}.py"
        try:
            source = path.read_bytes()
        except OSError as error:
            raise StoreError(
                f"cannot read {path}: {error.strerror or error}; name the file with --submission again"
            ) from error
        if hashlib.sha256(source).hexdigest()[:8] != estimator_id.digits:
            seen = f"{path} was altered: its name has another hash"
            raise StoreError(f"{seen}; delete it and name your file with --submission")
        return source
