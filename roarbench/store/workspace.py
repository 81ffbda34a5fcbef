"""Define the folders of a store, and read and write the files of submissions in them."""

import hashlib
import secrets
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from roarbench.common.errors import StoreError
from roarbench.common.files import convert_read_errors, convert_write_errors, lock_file, write_atomically
from roarbench.estimators.ids import EstimatorId

DEFAULT_FILE = "results.sqlite"  # default database, a file in the store's folder


def make_default_url(store: Path) -> str:
    """Return the URL of a store's default database, as SQLAlchemy would write it; SQLAlchemy is not imported."""
    return f"sqlite:///{quote(str(store / DEFAULT_FILE), safe=' +/')}"


class _Folder:
    """Descriptor that returns the path of a workspace's folder with this name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, workspace: "Workspace", owner: type) -> Path:
        return workspace.root / self._name


@dataclass(frozen=True)
class Workspace:
    """Folders of one store; commands make deleted folders again, but they cannot restore a deleted results database."""

    root: Path
    data = _Folder("data")  # decoded images
    references = _Folder("references")  # weights and predictions of the explained networks
    published = _Folder("published-networks")  # explained networks of imported folders of published results
    networks = _Folder("networks")  # scoring networks that many runs share
    rankings = _Folder("rankings")  # rankings as bit-planes
    checkpoints = _Folder("checkpoints")  # checkpoints of unfinished training runs
    submissions = _Folder("submissions")  # Python files, named by submission id
    arrays = _Folder("arrays")  # images and networks of suites from arrays

    @property
    def identity(self) -> str:
        """Return an id that distinguishes folders with the same path, 32 hex digits; a folder's copy keeps the id."""
        path = self.root / ".identity"
        if not path.exists():
            with lock_file(self.root / ".identity.lock", self.root), convert_write_errors(path):
                if not path.exists():
                    write_atomically(path, lambda temporary: temporary.write_text(secrets.token_hex(16)))
        return path.read_text()

    def save_submission(self, submission_id: str, source: bytes) -> None:
        """Store a submission's file for all workers; raise StoreError if a different file has the same id."""
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
        """Return a submission's file after checking its hash; parameters and twins in the id are ignored."""
        estimator_id = EstimatorId.parse(submission_id)
        path = self.submissions / f"{estimator_id.id_without_parameters}.py"
        with convert_read_errors(path, "name the file with --submission again"):
            source = path.read_bytes()
        if hashlib.sha256(source).hexdigest()[:8] != estimator_id.digits:
            seen = f"{path} was altered: its name has another hash"
            raise StoreError(f"{seen}; delete it and name your file with --submission")
        return source
