"""Define the folders of a store, and read and write small files in them: submissions and training speeds."""

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from roarbench.common.errors import StoreError
from roarbench.common.files import convert_write_errors, lock_file, write_atomically
from roarbench.estimators.ids import EstimatorId
from roarbench.plan.suite import SuiteSpec

DEFAULT_FILE = "results.sqlite"  # default database, a file in the store's folder
UNCOMPILED, COMPILED, GRAPHS = "uncompiled", "compiled", "CUDA graphs"
_SPEEDS_FILE = "training-modes.json"
_WORTHWHILE_SPEED_UP = 1.1  # minimum speed-up that is worth the minutes of compiling

Speeds = Mapping[str, float | str]  # from each mode to images per second, or to the reason why the mode fails


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
    networks = _Folder("networks")  # scoring networks that many runs share
    rankings = _Folder("rankings")  # rankings as bit-planes
    checkpoints = _Folder("checkpoints")  # checkpoints of unfinished training runs
    logs = _Folder("logs")  # logs of the workers
    submissions = _Folder("submissions")  # Python files, named by submission id

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
        path = self.submissions / f"{estimator_id.file_id}.py"
        try:
            source = path.read_bytes()
        except OSError as error:
            seen = f"cannot read {path}: {error.strerror or error}"
            raise StoreError(f"{seen}; name the file with --submission again") from error
        if hashlib.sha256(source).hexdigest()[:8] != estimator_id.digits:
            seen = f"{path} was altered: its name has another hash"
            raise StoreError(f"{seen}; delete it and name your file with --submission")
        return source


def store_training_speeds(workspace: Workspace, suite: SuiteSpec, device: str, speeds: Speeds) -> None:
    """Store the training speeds of a suite's network on a device, and replace earlier speeds."""
    path = workspace.root / _SPEEDS_FILE
    with lock_file(workspace.root / ".training-modes.lock"), convert_write_errors(path):
        known = _read_speeds(workspace) | {_make_network_key(suite): {"device": device, **speeds}}
        write_atomically(path, lambda temporary: temporary.write_text(json.dumps(known, indent=1)))


def suggest_compiling(workspace: Workspace, suite: SuiteSpec) -> str:
    """Return a message if compiling made the training of a suite's network faster when measured; else return ""."""
    speeds = _read_speeds(workspace).get(_make_network_key(suite), {})
    plain, compiled = speeds.get(UNCOMPILED), speeds.get(COMPILED)
    if not (isinstance(plain, float) and isinstance(compiled, float) and compiled >= _WORTHWHILE_SPEED_UP * plain):
        return ""
    seen = f"{compiled:,.0f} images/s instead of {plain:,.0f} on {speeds['device']}"
    return f"compiling {_make_network_key(suite)}, because doctor measured {seen}"


def _make_network_key(suite: SuiteSpec) -> str:
    return f"{suite.model} at {suite.dataset_record.size} pixels by {suite.recipe}"


def _read_speeds(workspace: Workspace) -> dict[str, dict[str, float | str]]:
    """Return all stored speeds; there are none if the file is missing or damaged, which only affects running time."""
    try:
        known = json.loads((workspace.root / _SPEEDS_FILE).read_text())
        return {name: dict(speeds) for name, speeds in dict(known).items()}
    except (OSError, ValueError, TypeError):
        return {}
